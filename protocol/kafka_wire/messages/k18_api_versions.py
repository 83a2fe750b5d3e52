"""ApiVersions (18). What a broker speaks. v3 client software (KIP-511) and features (KIP-584); v4 allows features
whose minimum is 0. v5: the cluster and node that a client means to have reached.
"""

from __future__ import annotations

from kafka_wire.schema import Api, array, boolean, int16, int32, int64, message, string, struct

API = Api(18, "0-5", flexible="3+", advertised={"3.4": "0-3", "3.9": "0-4", "4.4": "0-5"})


@message(API)
class ApiVersionsRequest:
    client_software_name: str = string("3+", default="")
    client_software_version: str = string("3+", default="")
    cluster_id: str | None = string("5+", nullable="5+", default=None)
    node_id: int = int32("5+", default=-1)


@struct
class ApiVersion:
    api_key: int = int16(default=0)
    min_version: int = int16(default=0)
    max_version: int = int16(default=0)


@struct
class SupportedFeatureKey:
    name: str = string("3+", default="")
    min_version: int = int16("3+", default=0)
    max_version: int = int16("3+", default=0)


@struct
class FinalizedFeatureKey:
    name: str = string("3+", default="")
    max_version_level: int = int16("3+", default=0)
    min_version_level: int = int16("3+", default=0)


@message(API)
class ApiVersionsResponse:
    error_code: int = int16(default=0)
    api_keys: list[ApiVersion] = array(ApiVersion, default_factory=list)
    throttle_time_ms: int = int32("1+", default=0)
    supported_features: list[SupportedFeatureKey] = array(
        SupportedFeatureKey, "3+", tag=0, tagged="3+", default_factory=list
    )
    finalized_features_epoch: int = int64("3+", tag=1, tagged="3+", default=-1)
    finalized_features: list[FinalizedFeatureKey] = array(
        FinalizedFeatureKey, "3+", tag=2, tagged="3+", default_factory=list
    )
    zk_migration_ready: bool = boolean("3+", tag=3, tagged="3+", default=False)
