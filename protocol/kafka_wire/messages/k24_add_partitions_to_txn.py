"""AddPartitionsToTxn (24). The partitions that a transaction is going to write to (KIP-98). v2 tells PRODUCER_FENCED (KIP-588). v4 is
for brokers: several transactions at once, and the question alone whether partitions are in one (KIP-890). v5 TRANSACTION_ABORTABLE."""

from __future__ import annotations

from kafka_wire.schema import Api, Entity, array, boolean, int16, int32, int64, message, string, struct

API = Api(24, "0-5", flexible="3+", advertised={"3.4": "0-3", "3.6": "0-4", "3.8": "0-5"})


@struct
class AddPartitionsToTxnTopic:
    name: str = string(default="", entity=Entity.TOPIC)
    partitions: list[int] = array("int32", default_factory=list, entity=Entity.PARTITION)


@struct
class AddPartitionsToTxnTransaction:
    transactional_id: str = string("4+", default="", entity=Entity.TRANSACTIONAL_ID)
    producer_id: int = int64("4+", default=0)
    producer_epoch: int = int16("4+", default=0)
    verify_only: bool = boolean("4+", default=False)
    topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "4+", default_factory=list)


@message(API)
class AddPartitionsToTxnRequest:
    transactions: list[AddPartitionsToTxnTransaction] = array(AddPartitionsToTxnTransaction, "4+", default_factory=list)
    v3_and_below_transactional_id: str = string("0-3", default="", entity=Entity.TRANSACTIONAL_ID)
    v3_and_below_producer_id: int = int64("0-3", default=0)
    v3_and_below_producer_epoch: int = int16("0-3", default=0)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "0-3", default_factory=list)


@struct
class AddPartitionsToTxnPartitionResult:
    partition_index: int = int32(default=0, entity=Entity.PARTITION)
    partition_error_code: int = int16(default=0, entity=Entity.ERROR)


@struct
class AddPartitionsToTxnTopicResult:
    name: str = string(default="", entity=Entity.TOPIC)
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array(
        AddPartitionsToTxnPartitionResult, default_factory=list
    )


@struct
class AddPartitionsToTxnResult:
    transactional_id: str = string("4+", default="", entity=Entity.TRANSACTIONAL_ID)
    topic_results: list[AddPartitionsToTxnTopicResult] = array(
        AddPartitionsToTxnTopicResult, "4+", default_factory=list
    )


@message(API)
class AddPartitionsToTxnResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16("4+", default=0)
    results_by_transaction: list[AddPartitionsToTxnResult] = array(AddPartitionsToTxnResult, "4+", default_factory=list)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array(
        AddPartitionsToTxnTopicResult, "0-3", default_factory=list
    )
