"""DeleteShareGroupState (86, KIP-932). The group coordinator has partitions' state removed."""

from __future__ import annotations

from kafka_wire.schema import ZERO_UUID, Api, Entity, array, int16, int32, message, string, struct, uuid

API = Api(86, "0", flexible="0+", advertised={"4.1": "0"})


@struct
class PartitionData:
    partition: int = int32(default=0, entity=Entity.PARTITION)


@struct
class DeleteStateData:
    topic_id: bytes = uuid(default=ZERO_UUID, entity=Entity.TOPIC_ID)
    partitions: list[PartitionData] = array(PartitionData, default_factory=list)


@message(API)
class DeleteShareGroupStateRequest:
    group_id: str = string(default="", entity=Entity.GROUP)
    topics: list[DeleteStateData] = array(DeleteStateData, default_factory=list)


@struct
class PartitionResult:
    partition: int = int32(default=0, entity=Entity.PARTITION)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)


@struct
class DeleteStateResult:
    topic_id: bytes = uuid(default=ZERO_UUID, entity=Entity.TOPIC_ID)
    partitions: list[PartitionResult] = array(PartitionResult, default_factory=list)


@message(API)
class DeleteShareGroupStateResponse:
    results: list[DeleteStateResult] = array(DeleteStateResult, default_factory=list)
