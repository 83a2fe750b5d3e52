"""CreateAcls (30), versions 0-3: without an authorizer each rule gets an error, as in Kafka. v1 pattern types. v2 flexible."""

from __future__ import annotations

from collections.abc import Generator

from broker_sim.common.slices import Pace
from broker_sim.handlers.k29_describe_acls import UNKNOWN, refuse
from broker_sim.requests.context import RequestContext
from kafka_wire.errors import Err
from kafka_wire.messages.k30_create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

_PIECE = 10_000
"""Rules that are looked at before others are served."""


def handle(ctx: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse | None:
    response: CreateAclsResponse | None = ctx.in_pieces(_refuse_all(ctx, request))
    return response


def _refuse_all(ctx: RequestContext, request: CreateAclsRequest) -> Generator[None, None, CreateAclsResponse | None]:
    pace = Pace(_PIECE)
    for creation in request.creations:
        if pace.full():
            yield
        if UNKNOWN in (
            creation.resource_type,
            creation.resource_pattern_type,
            creation.operation,
            creation.permission_type,
        ):
            refuse(ctx)
            return None
    refused = AclCreationResult(Err.SECURITY_DISABLED, "No Authorizer is configured.")
    return CreateAclsResponse(results=[refused] * len(request.creations))
