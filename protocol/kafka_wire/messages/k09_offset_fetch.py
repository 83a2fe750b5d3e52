"""OffsetFetch (9). Read committed offsets. v2 null topics mean all; v7 require_stable (KIP-447); v8 several groups
(KIP-709); v9 KIP-848 members; v10 topic ids in place of names.
"""

from __future__ import annotations

from kafka_wire.schema import (
    ZERO_UUID,
    All,
    Api,
    Entity,
    array,
    boolean,
    int16,
    int32,
    int64,
    message,
    string,
    struct,
    uuid,
)

API = Api(9, "0-10", flexible="6+", advertised={"3.4": "0-8", "3.7": "0-9", "4.0": "1-9", "4.2": "1-10"})


@struct
class OffsetFetchRequestTopic:
    name: str = string("0-7", default="", entity=Entity.TOPIC)
    partition_indexes: list[int] = array("int32", "0-7", default_factory=list, entity=Entity.PARTITION)


@struct
class OffsetFetchRequestTopics:
    name: str = string("8-9", default="", entity=Entity.TOPIC)
    topic_id: bytes = uuid("10+", default=ZERO_UUID, entity=Entity.TOPIC_ID)
    partition_indexes: list[int] = array("int32", "8+", default_factory=list, entity=Entity.PARTITION)


@struct
class OffsetFetchRequestGroup:
    group_id: str = string("8+", default="", entity=Entity.GROUP)
    member_id: str | None = string("9+", nullable="9+", default=None, entity=Entity.MEMBER)
    member_epoch: int = int32("9+", default=-1)
    topics: list[OffsetFetchRequestTopics] | None = array(
        OffsetFetchRequestTopics, "8+", nullable="8+", default_factory=list, all_if=All.NULL
    )


@message(API)
class OffsetFetchRequest:
    group_id: str = string("0-7", default="", entity=Entity.GROUP)
    topics: list[OffsetFetchRequestTopic] | None = array(
        OffsetFetchRequestTopic, "0-7", nullable="2-7", default_factory=list, all_if=All.NULL
    )
    groups: list[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, "8+", default_factory=list)
    require_stable: bool = boolean("7+", default=False)


@struct
class OffsetFetchResponsePartition:
    partition_index: int = int32("0-7", default=0, entity=Entity.PARTITION)
    committed_offset: int = int64("0-7", default=0, failed=-1)
    committed_leader_epoch: int = int32("5-7", default=-1)
    metadata: str | None = string("0-7", nullable="0-7", default="")
    error_code: int = int16("0-7", default=0)


@struct
class OffsetFetchResponseTopic:
    name: str = string("0-7", default="", entity=Entity.TOPIC)
    partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition, "0-7", default_factory=list)


@struct
class OffsetFetchResponsePartitions:
    partition_index: int = int32("8+", default=0)
    committed_offset: int = int64("8+", default=0)
    committed_leader_epoch: int = int32("8+", default=-1)
    metadata: str | None = string("8+", nullable="8+", default="")
    error_code: int = int16("8+", default=0)


@struct
class OffsetFetchResponseTopics:
    name: str = string("8-9", default="")
    topic_id: bytes = uuid("10+", default=ZERO_UUID)
    partitions: list[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions, "8+", default_factory=list)


@struct
class OffsetFetchResponseGroup:
    group_id: str = string("8+", default="", entity=Entity.GROUP)
    topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics, "8+", default_factory=list)
    error_code: int = int16("8+", default=0)


@message(API)
class OffsetFetchResponse:
    throttle_time_ms: int = int32("3+", default=0)
    topics: list[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, "0-7", default_factory=list)
    error_code: int = int16("2-7", default=0)
    groups: list[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, "8+", default_factory=list)
