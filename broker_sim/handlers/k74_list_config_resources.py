"""ListConfigResources (74), versions 0-1: the names of groups and client metrics subscriptions with settings, of brokers and of topics.

v0 knows client metrics subscriptions alone. v1 has a list of resource types; an empty one asks for all. A type that the version does
not know is UNSUPPORTED_VERSION. Source: KafkaApis.handleListConfigResources, ListConfigResourcesRequest.supportedResourceTypes.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping

from broker_sim.common.slices import listed
from broker_sim.handlers.config_resources import BROKER, BROKER_LOGGER, TOPIC
from broker_sim.metadata.entity_configs import Entity
from broker_sim.requests.context import RequestContext
from kafka_wire.errors import Err
from kafka_wire.messages.k74_list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


def handle(ctx: RequestContext, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse | None:
    names = _names(ctx)
    if ctx.api_version == 0:
        names = {Entity.CLIENT_METRICS: names[Entity.CLIENT_METRICS]}
    if not names.keys() >= set(request.resource_types):
        return ListConfigResourcesResponse(error_code=Err.UNSUPPORTED_VERSION)
    wanted = set(request.resource_types) or names.keys()
    response: ListConfigResourcesResponse | None = ctx.in_pieces(
        _answer({kind: found for kind, found in names.items() if kind in wanted})
    )
    return response


def _names(ctx: RequestContext) -> dict[int, Iterable[str]]:
    """By resource type, in the order in which Kafka lists them; copies, as others are served between the pieces of the answer."""
    state = ctx.broker.state
    brokers = [str(broker.node_id) for broker in state.alive_brokers()]
    return {
        Entity.GROUP: list(state.entity_configs[Entity.GROUP]),
        Entity.CLIENT_METRICS: list(state.entity_configs[Entity.CLIENT_METRICS]),
        BROKER_LOGGER: brokers,
        BROKER: brokers,
        TOPIC: list(state.topics),
    }


def _answer(names: Mapping[int, Iterable[str]]) -> Generator[None, None, ListConfigResourcesResponse]:
    rows: list[ConfigResource] = []
    for kind, found in names.items():
        rows += yield from listed(ConfigResource(name, kind) for name in found)
    return ListConfigResourcesResponse(config_resources=rows)
