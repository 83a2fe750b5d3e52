"""Metadata (3). Brokers, topics, partitions and their leaders. v4 auto-creation flag; v7 leader epochs; v8
authorized operations; v10 topic ids (KIP-516); v12 asks by topic id; v13 a top-level error.
"""

from __future__ import annotations

from kafka_wire.schema import ZERO_UUID, All, Api, Entity, array, boolean, int16, int32, message, string, struct, uuid

API = Api(3, "0-13", flexible="9+", advertised={"3.4": "0-12", "4.0": "0-13"})


@struct
class MetadataRequestTopic:
    topic_id: bytes = uuid("10+", default=ZERO_UUID, entity=Entity.TOPIC_ID)
    name: str | None = string(nullable="10+", default="", entity=Entity.TOPIC)


@message(API)
class MetadataRequest:
    topics: list[MetadataRequestTopic] | None = array(
        MetadataRequestTopic, nullable="1+", default_factory=list, all_if=All.NULL
    )
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10", default=False)
    include_topic_authorized_operations: bool = boolean("8+", default=False)


@struct
class MetadataResponseBroker:
    node_id: int = int32(default=0)
    host: str = string(default="")
    port: int = int32(default=0)
    rack: str | None = string("1+", nullable="1+", default=None)


@struct
class MetadataResponsePartition:
    error_code: int = int16(default=0)
    partition_index: int = int32(default=0)
    leader_id: int = int32(default=0)
    leader_epoch: int = int32("7+", default=-1)
    replica_nodes: list[int] = array("int32", default_factory=list)
    isr_nodes: list[int] = array("int32", default_factory=list)
    offline_replicas: list[int] = array("int32", "5+", default_factory=list)


@struct
class MetadataResponseTopic:
    error_code: int = int16(default=0)
    name: str | None = string(nullable="12+", default="", entity=Entity.TOPIC)
    topic_id: bytes = uuid("10+", default=ZERO_UUID, entity=Entity.TOPIC_ID)
    is_internal: bool = boolean("1+", default=False)
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition, default_factory=list)
    topic_authorized_operations: int = int32("8+", default=-2147483648)


@message(API)
class MetadataResponse:
    throttle_time_ms: int = int32("3+", default=0)
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker, default_factory=list)
    cluster_id: str | None = string("2+", nullable="2+", default=None)
    controller_id: int = int32("1+", default=-1)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic, default_factory=list)
    cluster_authorized_operations: int = int32("8-10", default=-2147483648)
    error_code: int = int16("13+", default=0)
