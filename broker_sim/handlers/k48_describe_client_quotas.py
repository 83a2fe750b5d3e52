"""DescribeClientQuotas (48), versions 0-1: there are no quotas, and a valid filter matches none.

AlterClientQuotas (49) is not advertised: a broker that takes a quota has to throttle clients. v1 flexible. Source:
ClientQuotasImage.describe, KIP-546.
"""

from __future__ import annotations

from broker_sim.metadata.cluster_state import KafkaError
from broker_sim.requests.context import RequestContext
from kafka_wire.errors import Err
from kafka_wire.messages.k48_describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

EXACT, DEFAULT, SPECIFIED = range(3)
_IP = "ip"
_TYPES = ("user", "client-id", _IP)


def handle(ctx: RequestContext, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    try:
        _check_all(request.components)
    except KafkaError as refused:
        return DescribeClientQuotasResponse(0, refused.error, refused.message, None)
    return DescribeClientQuotasResponse()


def _check_all(components: list[ComponentData]) -> None:
    """Raises KafkaError. After three components, one of each type, the next one is refused: no list is long."""
    seen: set[str] = set()
    for component in components:
        _check(component, seen)
        seen.add(component.entity_type)
    if _IP in seen and len(seen) > 1:
        raise KafkaError(
            Err.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
            "filter component.",
        )


def _check(component: ComponentData, seen: set[str]) -> None:
    kind, match = component.entity_type, component.match
    if not kind:
        raise KafkaError(Err.INVALID_REQUEST, "Invalid empty entity type.")
    if kind in seen:
        raise KafkaError(Err.INVALID_REQUEST, f"Entity type {kind} cannot appear more than once in the filter.")
    if kind not in _TYPES:
        raise KafkaError(Err.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
    if component.match_type == EXACT:
        if match is None:
            raise KafkaError(Err.INVALID_REQUEST, "Request specified MATCH_TYPE_EXACT, but set match string to null.")
    elif component.match_type in (DEFAULT, SPECIFIED):
        if match is not None:
            name = "MATCH_TYPE_DEFAULT" if component.match_type == DEFAULT else "MATCH_TYPE_SPECIFIED"
            raise KafkaError(Err.INVALID_REQUEST, f"Request specified {name}, but also specified a match string.")
    else:
        raise KafkaError(Err.INVALID_REQUEST, f"Unknown match type {component.match_type}")
