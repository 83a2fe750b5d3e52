"""InitializeShareGroupState (83, KIP-932). The group coordinator has partitions' state made before they are assigned."""

from __future__ import annotations

from kafka_wire.schema import ZERO_UUID, Api, Entity, array, int16, int32, int64, message, string, struct, uuid

API = Api(83, "0", flexible="0+", advertised={"4.1": "0"})


@struct
class PartitionData:
    partition: int = int32(default=0, entity=Entity.PARTITION)
    state_epoch: int = int32(default=0)
    start_offset: int = int64(default=0)


@struct
class InitializeStateData:
    topic_id: bytes = uuid(default=ZERO_UUID, entity=Entity.TOPIC_ID)
    partitions: list[PartitionData] = array(PartitionData, default_factory=list)


@message(API)
class InitializeShareGroupStateRequest:
    group_id: str = string(default="", entity=Entity.GROUP)
    topics: list[InitializeStateData] = array(InitializeStateData, default_factory=list)


@struct
class PartitionResult:
    partition: int = int32(default=0, entity=Entity.PARTITION)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)


@struct
class InitializeStateResult:
    topic_id: bytes = uuid(default=ZERO_UUID, entity=Entity.TOPIC_ID)
    partitions: list[PartitionResult] = array(PartitionResult, default_factory=list)


@message(API)
class InitializeShareGroupStateResponse:
    results: list[InitializeStateResult] = array(InitializeStateResult, default_factory=list)
