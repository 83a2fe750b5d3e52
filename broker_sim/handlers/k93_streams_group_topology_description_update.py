"""StreamsGroupTopologyDescriptionUpdate (93, KIP-1331). A plugin of the broker stores descriptions of topologies; a broker without one,
as this is, refuses each of them before it looks up the group (measured on 4.4.0)."""

from __future__ import annotations

from broker_sim.requests.context import RequestContext
from kafka_wire.errors import Err
from kafka_wire.messages.k93_streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)

_NO_PLUGIN = "The broker has no streams group topology description plugin configured."


def handle(
    ctx: RequestContext, request: StreamsGroupTopologyDescriptionUpdateRequest
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    return StreamsGroupTopologyDescriptionUpdateResponse(error_code=Err.UNSUPPORTED_VERSION, error_message=_NO_PLUGIN)
