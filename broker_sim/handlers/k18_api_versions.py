"""ApiVersions (18), versions 0-5: the broker's APIs, versions and features. The first request of nearly every client.

* v0-2 differ in the throttle time alone. v3 (KIP-511, KIP-584) has the client's software name and version, which must be valid
  (ApiVersionsRequest.isValid), and the features. v4 (KAFKA-17011) may return features whose lowest version is 0; earlier versions
  return 1 in its place. v5 (4.4) may name the cluster and the node that the client means: another broker, which an address led it to,
  answers REBOOTSTRAP_REQUIRED (KafkaApis.handleApiVersionsRequest; SaslServerAuthenticator doesn't ask).
* An unknown version is answered with v0, UNSUPPORTED_VERSION and the range of ApiVersions itself (KIP-511).
* The response has the APIs of the emulated release, without those that have no handler here. Produce is listed from version 0 on
  although 0-2 are refused: without them librdkafka regards a broker as too old (KAFKA-18659); Kafka does the same.
* Features: metadata.version, at the release's newest; transaction.version 2 from 4.0 on, by which clients know that every transaction
  ends with a new epoch (KIP-890); group.version 1 with consumer groups of KIP-848, share.version and streams.version with share and
  streams groups.
"""

from __future__ import annotations

import re
from functools import cache

from broker_sim.metadata.cluster_state import ClusterState
from broker_sim.requests.context import LARGE, ConnectionLike, FastHandler, RequestContext
from broker_sim.requests.routes import supported
from kafka_wire.api_keys import ApiKey, release
from kafka_wire.codec import decode, encode
from kafka_wire.errors import Err
from kafka_wire.messages.k18_api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

_METADATA_VERSIONS: dict[tuple[int, int], tuple[int, int]] = {
    (3, 4): (1, 8),
    (3, 5): (1, 11),
    (3, 6): (1, 14),
    (3, 7): (1, 19),
    (3, 8): (1, 20),
    (3, 9): (1, 21),
    (4, 0): (7, 25),
    (4, 1): (7, 27),
    (4, 2): (7, 29),
    (4, 3): (7, 30),
    (4, 4): (7, 33),
}
"""Release -> lowest and highest metadata.version level it can run (MetadataVersion.java)."""

_TRANSACTION_VERSION, _TRANSACTION_VERSION_SINCE = 2, (4, 0)
"""The level that a broker is formatted with, and the first release with that feature (TransactionVersion.java)."""

_SHARE_VERSIONS, _SHARE_VERSION_SINCE = (((4, 4), 2), ((4, 1), 1)), (4, 1)
"""The levels by release, and the first one with that feature (ShareVersion.java). Where it is off no level is finalized."""

_STREAMS_VERSION, _STREAMS_VERSION_SINCE = 1, (4, 2)
"""The level of streams groups, and the first release that has it without unstable features (StreamsVersion.java)."""

_LOWEST_MAY_BE_0 = 4
"""The version from which on a feature's lowest level may be 0."""


def handle(ctx: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    if ctx.api_version >= 3 and not _is_valid(request):
        return ApiVersionsResponse(error_code=Err.INVALID_REQUEST)
    if _means_another(ctx, request):
        return ApiVersionsResponse(error_code=Err.REBOOTSTRAP_REQUIRED)
    _answered(ctx.connection)
    state = ctx.broker.state
    return _answer(state.as_version, _groups(state), ctx.api_version)


def _answered(connection: ConnectionLike) -> None:
    if connection.authenticator is not None:
        connection.authenticator.versions_answered()


def _is_valid(request: ApiVersionsRequest) -> bool:
    name, version = request.client_software_name, request.client_software_version
    if (request.cluster_id is None) != (request.node_id == -1):
        return False
    return _SOFTWARE.fullmatch(name) is not None and _SOFTWARE.fullmatch(version) is not None


def _means_another(ctx: RequestContext, request: ApiVersionsRequest) -> bool:
    """Whether the client names another cluster or node; it is asked only once the client is authenticated, where it must be."""
    authenticator = ctx.connection.authenticator
    if request.cluster_id is None or (authenticator is not None and not authenticator.user):
        return False
    return (request.cluster_id, request.node_id) != (ctx.broker.state.cluster_id, ctx.broker.node_id)


def handle_unsupported(ctx: RequestContext, request: None) -> ApiVersionsResponse:
    low, high = supported(ctx.broker.state.as_version)[ApiKey.API_VERSIONS]
    return ApiVersionsResponse(
        error_code=Err.UNSUPPORTED_VERSION, api_keys=[ApiVersion(ApiKey.API_VERSIONS, low, high)]
    )


def _fast(api_version: int) -> FastHandler:
    """Most connections begin with this request, and the answer is the same for all: it is encoded once."""

    def fast(connection: ConnectionLike, frame: bytes, body: int, correlation_id: int) -> bytes | None:
        if len(frame) >= LARGE:
            return None
        if api_version >= 3:
            request = decode(ApiVersionsRequest, api_version, frame, body)
            if request.cluster_id is not None or not _is_valid(request):
                return None
        _answered(connection)
        state = connection.broker.state
        return _encoded(state.as_version, _groups(state), api_version)

    return fast


FAST = {version: _fast(version) for version in range(6)}


def _groups(state: ClusterState) -> tuple[bool, bool, bool]:
    """Whether there are consumer groups of KIP-848, share groups, and streams groups."""
    config = state.config
    return config.has_consumer_protocol, config.has_share_groups, config.has_streams_groups


@cache
def _encoded(as_version: str, groups: tuple[bool, bool, bool], api_version: int) -> bytes:
    return encode(_answer(as_version, groups, api_version), api_version)


@cache
def _answer(as_version: str, groups: tuple[bool, bool, bool], api_version: int) -> ApiVersionsResponse:
    """The response for a release and version, equal for every client; it is cached and must not be modified."""
    keys = [
        ApiVersion(key, 0 if key == ApiKey.PRODUCE else low, high)
        for key, (low, high) in sorted(supported(as_version).items())
    ]
    lowest, newest = _METADATA_VERSIONS[release(as_version)]
    features = [SupportedFeatureKey("metadata.version", lowest, newest)]
    finalized = [FinalizedFeatureKey("metadata.version", newest, newest)]
    has_consumer_groups, has_share_groups, has_streams_groups = groups
    if has_consumer_groups:
        features.insert(0, SupportedFeatureKey("group.version", 0 if api_version >= _LOWEST_MAY_BE_0 else 1, 1))
        finalized.insert(0, FinalizedFeatureKey("group.version", 1, 1))
    if release(as_version) >= _SHARE_VERSION_SINCE:
        highest = next(level for since, level in _SHARE_VERSIONS if release(as_version) >= since)
        features.append(SupportedFeatureKey("share.version", 0 if api_version >= _LOWEST_MAY_BE_0 else 1, highest))
        if has_share_groups:
            finalized.append(FinalizedFeatureKey("share.version", highest, highest))
    if release(as_version) >= _STREAMS_VERSION_SINCE:
        lowest_streams = 0 if api_version >= _LOWEST_MAY_BE_0 else 1
        features.append(SupportedFeatureKey("streams.version", lowest_streams, _STREAMS_VERSION))
        if has_streams_groups:
            finalized.append(FinalizedFeatureKey("streams.version", _STREAMS_VERSION, _STREAMS_VERSION))
    if release(as_version) >= _TRANSACTION_VERSION_SINCE:
        features.append(
            SupportedFeatureKey(
                "transaction.version", 0 if api_version >= _LOWEST_MAY_BE_0 else 1, _TRANSACTION_VERSION
            )
        )
        finalized.append(FinalizedFeatureKey("transaction.version", _TRANSACTION_VERSION, _TRANSACTION_VERSION))
    return ApiVersionsResponse(
        api_keys=keys,
        supported_features=features,
        finalized_features_epoch=0,
        finalized_features=finalized,
    )
