"""WriteTxnMarkers (27). A transaction coordinator ends transactions in the logs of partitions (KIP-98). v2 the transaction's version
(KIP-1228).
"""

from __future__ import annotations

from kafka_wire.schema import Api, Entity, array, boolean, int8, int16, int32, int64, message, string, struct

API = Api(27, "0-2", flexible="1+", advertised={"3.4": "0-1", "4.0": "1", "4.2": "1-2"})


@struct
class WritableTxnMarkerTopic:
    name: str = string(default="", entity=Entity.TOPIC)
    partition_indexes: list[int] = array("int32", default_factory=list, entity=Entity.PARTITION)


@struct
class WritableTxnMarker:
    producer_id: int = int64(default=0, entity=Entity.PRODUCER_ID)
    producer_epoch: int = int16(default=0)
    transaction_result: bool = boolean(default=False)
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic, default_factory=list)
    coordinator_epoch: int = int32(default=0)
    transaction_version: int = int8("2+", default=0)


@message(API)
class WriteTxnMarkersRequest:
    markers: list[WritableTxnMarker] = array(WritableTxnMarker, default_factory=list)


@struct
class WritableTxnMarkerPartitionResult:
    partition_index: int = int32(default=0, entity=Entity.PARTITION)
    error_code: int = int16(default=0)


@struct
class WritableTxnMarkerTopicResult:
    name: str = string(default="", entity=Entity.TOPIC)
    partitions: list[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult, default_factory=list)


@struct
class WritableTxnMarkerResult:
    producer_id: int = int64(default=0, entity=Entity.PRODUCER_ID)
    topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult, default_factory=list)


@message(API)
class WriteTxnMarkersResponse:
    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult, default_factory=list)
