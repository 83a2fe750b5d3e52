"""DescribeLogDirs (35). Log directories and the sizes of their replicas (KIP-113). v4 total and usable bytes
(KIP-827). v5 cordoned directories (KIP-1066).
"""

from __future__ import annotations

from kafka_wire.schema import All, Api, Entity, array, boolean, int16, int32, int64, message, string, struct

API = Api(35, "0-5", flexible="2+", advertised={"3.4": "0-4", "4.0": "1-4", "4.3": "1-5"})


@struct
class DescribableLogDirTopic:
    topic: str = string(default="", entity=Entity.TOPIC)
    partitions: list[int] = array("int32", default_factory=list, entity=Entity.PARTITION)


@message(API)
class DescribeLogDirsRequest:
    topics: list[DescribableLogDirTopic] | None = array(
        DescribableLogDirTopic, nullable="0+", default_factory=list, all_if=All.NULL
    )


@struct
class DescribeLogDirsPartition:
    partition_index: int = int32(default=0)
    partition_size: int = int64(default=0)
    offset_lag: int = int64(default=0)
    is_future_key: bool = boolean(default=False)


@struct
class DescribeLogDirsTopic:
    name: str = string(default="")
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition, default_factory=list)


@struct
class DescribeLogDirsResult:
    error_code: int = int16(default=0)
    log_dir: str = string(default="")
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic, default_factory=list)
    total_bytes: int = int64("4+", default=-1)
    usable_bytes: int = int64("4+", default=-1)
    is_cordoned: bool = boolean("5+", default=False)


@message(API)
class DescribeLogDirsResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16("3+", default=0)
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult, default_factory=list)
