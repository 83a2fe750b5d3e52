"""DescribeCluster (60). Cluster id, controller and brokers (KIP-700). v1 endpoint type (KIP-919); v2 fenced
brokers.
"""

from __future__ import annotations

from kafka_wire.schema import Api, array, boolean, int8, int16, int32, message, string, struct

API = Api(60, "0-2", flexible="0+", advertised={"3.4": "0", "3.7": "0-1", "4.0": "0-2"})


@message(API)
class DescribeClusterRequest:
    include_cluster_authorized_operations: bool = boolean(default=False)
    endpoint_type: int = int8("1+", default=1)
    include_fenced_brokers: bool = boolean("2+", default=False)


@struct
class DescribeClusterBroker:
    broker_id: int = int32(default=0)
    host: str = string(default="")
    port: int = int32(default=0)
    rack: str | None = string(nullable="0+", default=None)
    is_fenced: bool = boolean("2+", default=False)


@message(API)
class DescribeClusterResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string(default="")
    controller_id: int = int32(default=-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker, default_factory=list)
    cluster_authorized_operations: int = int32(default=-2147483648)
