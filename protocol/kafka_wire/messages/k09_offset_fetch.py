"""OffsetFetch (9). Read committed offsets. v2 null topics mean all; v7 require_stable (KIP-447); v8 several groups
(KIP-709); v9 KIP-848 members.
"""

from __future__ import annotations

from kafka_wire.schema import array, boolean, int16, int32, int64, message, string, struct


@struct
class OffsetFetchRequestTopic:
    name: str = string("0-7", default="")
    partition_indexes: list[int] = array("int32", "0-7", default_factory=list)


@struct
class OffsetFetchRequestTopics:
    name: str = string("8-9", default="")
    partition_indexes: list[int] = array("int32", "8+", default_factory=list)


@struct
class OffsetFetchRequestGroup:
    group_id: str = string("8+", default="")
    member_id: str | None = string("9+", nullable="9+", default=None)
    member_epoch: int = int32("9+", default=-1)
    topics: list[OffsetFetchRequestTopics] | None = array(
        OffsetFetchRequestTopics, "8+", nullable="8+", default_factory=list
    )


@message("0-9", flexible="6+", api_key=9)
class OffsetFetchRequest:
    group_id: str = string("0-7", default="")
    topics: list[OffsetFetchRequestTopic] | None = array(
        OffsetFetchRequestTopic, "0-7", nullable="2-7", default_factory=list
    )
    groups: list[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, "8+", default_factory=list)
    require_stable: bool = boolean("7+", default=False)


@struct
class OffsetFetchResponsePartition:
    partition_index: int = int32("0-7", default=0)
    committed_offset: int = int64("0-7", default=0)
    committed_leader_epoch: int = int32("5-7", default=-1)
    metadata: str | None = string("0-7", nullable="0-7", default="")
    error_code: int = int16("0-7", default=0)


@struct
class OffsetFetchResponseTopic:
    name: str = string("0-7", default="")
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
    partitions: list[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions, "8+", default_factory=list)


@struct
class OffsetFetchResponseGroup:
    group_id: str = string("8+", default="")
    topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics, "8+", default_factory=list)
    error_code: int = int16("8+", default=0)


@message("0-9", flexible="6+", api_key=9)
class OffsetFetchResponse:
    throttle_time_ms: int = int32("3+", default=0)
    topics: list[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, "0-7", default_factory=list)
    error_code: int = int16("2-7", default=0)
    groups: list[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, "8+", default_factory=list)
