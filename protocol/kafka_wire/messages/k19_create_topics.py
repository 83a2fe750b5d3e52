"""CreateTopics (19). Create topics. v1 validate_only; v4 default partitions and replication; v5 answers with the
configs; v7 topic ids.
"""

from __future__ import annotations

from kafka_wire.schema import ZERO_UUID, Api, Entity, array, boolean, int8, int16, int32, message, string, struct, uuid

API = Api(19, "0-7", flexible="5+", advertised={"3.4": "0-7", "4.0": "2-7"})


@struct
class CreatableReplicaAssignment:
    partition_index: int = int32(default=0)
    broker_ids: list[int] = array("int32", default_factory=list)


@struct
class CreatableTopicConfig:
    name: str = string(default="")
    value: str | None = string(nullable="0+", default="")


@struct
class CreatableTopic:
    name: str = string(default="", entity=Entity.TOPIC)
    num_partitions: int = int32(default=0)
    replication_factor: int = int16(default=0)
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment, default_factory=list)
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig, default_factory=list)


@message(API)
class CreateTopicsRequest:
    topics: list[CreatableTopic] = array(CreatableTopic, default_factory=list)
    timeout_ms: int = int32(default=60000)
    validate_only: bool = boolean("1+", default=False)


@struct
class CreatableTopicConfigs:
    name: str = string("5+", default="")
    value: str | None = string("5+", nullable="5+", default="")
    read_only: bool = boolean("5+", default=False)
    config_source: int = int8("5+", default=-1)
    is_sensitive: bool = boolean("5+", default=False)


@struct
class CreatableTopicResult:
    name: str = string(default="", entity=Entity.TOPIC)
    topic_id: bytes = uuid("7+", default=ZERO_UUID)
    error_code: int = int16(default=0)
    error_message: str | None = string("1+", nullable="0+", default="")
    topic_config_error_code: int = int16("5+", tag=0, tagged="5+", default=0)
    num_partitions: int = int32("5+", default=-1)
    replication_factor: int = int16("5+", default=-1)
    configs: list[CreatableTopicConfigs] | None = array(
        CreatableTopicConfigs, "5+", nullable="5+", default_factory=list
    )


@message(API)
class CreateTopicsResponse:
    throttle_time_ms: int = int32("2+", default=0)
    topics: list[CreatableTopicResult] = array(CreatableTopicResult, default_factory=list)
