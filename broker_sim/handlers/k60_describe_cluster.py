"""DescribeCluster (60), versions 0-2: the brokers, the controller, the cluster's id. v1 endpoint types, v2 fenced
brokers.

From v2 on a broker that is down is returned, as fenced, if the request includes fenced brokers. Source:
AuthHelper.computeDescribeClusterResponse.
"""

from __future__ import annotations

from broker_sim.handlers.k03_metadata import ALL_CLUSTER_OPERATIONS
from broker_sim.requests.context import RequestContext
from kafka_wire.errors import Err
from kafka_wire.messages.k60_describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS, CONTROLLERS = 1, 2


def handle(ctx: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    state = ctx.broker.state
    if request.endpoint_type == CONTROLLERS:
        return DescribeClusterResponse(
            0,
            Err.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        )
    if request.endpoint_type != BROKERS:
        text = f"Unsupported endpoint type {request.endpoint_type}"
        return DescribeClusterResponse(0, Err.UNSUPPORTED_ENDPOINT_TYPE, text)
    shown = state.brokers.values() if request.include_fenced_brokers else state.alive_brokers()
    response = DescribeClusterResponse(
        0,
        Err.NONE,
        None,
        BROKERS,
        state.cluster_id,
        state.controller_id,
        [DescribeClusterBroker(*b.endpoint(ctx.connection.listener), not b.alive) for b in shown],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = ALL_CLUSTER_OPERATIONS
    return response
