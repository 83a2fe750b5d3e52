"""DeleteAcls (31), versions 0-3: without an authorizer each filter gets an error, as in Kafka. v1 pattern types. v2 flexible."""

from __future__ import annotations

from collections.abc import Generator

from broker_sim.common.slices import Pace
from broker_sim.handlers.k29_describe_acls import UNKNOWN, refuse
from broker_sim.requests.context import RequestContext
from kafka_wire.errors import Err
from kafka_wire.messages.k31_delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse

_PIECE = 10_000
"""Filters that are looked at before others are served."""


def handle(ctx: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse | None:
    response: DeleteAclsResponse | None = ctx.in_pieces(_refuse_all(ctx, request))
    return response


def _refuse_all(ctx: RequestContext, request: DeleteAclsRequest) -> Generator[None, None, DeleteAclsResponse | None]:
    pace = Pace(_PIECE)
    for acl_filter in request.filters:
        if pace.full():
            yield
        if UNKNOWN in (
            acl_filter.resource_type_filter,
            acl_filter.pattern_type_filter,
            acl_filter.operation,
            acl_filter.permission_type,
        ):
            refuse(ctx)
            return None
    refused = DeleteAclsFilterResult(Err.SECURITY_DISABLED, "No Authorizer is configured.")
    return DeleteAclsResponse(filter_results=[refused] * len(request.filters))
