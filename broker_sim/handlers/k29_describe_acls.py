"""DescribeAcls (29), versions 0-3, and common parts of CreateAcls and DeleteAcls: without an authorizer Kafka returns
SECURITY_DISABLED.

v1 pattern types. v2 flexible. v3 the resource USER. The code 0 (UNKNOWN) closes the connection; other unknown codes don't. Source:
AclApis, DescribeAclsRequest.
"""

from __future__ import annotations

from broker_sim.requests.context import RequestContext
from kafka_wire.errors import Err
from kafka_wire.messages.k29_describe_acls import DescribeAclsRequest, DescribeAclsResponse

UNKNOWN = 0


def handle(ctx: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse | None:
    kinds = (request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type)
    if UNKNOWN in kinds:
        refuse(ctx)
        return None
    return DescribeAclsResponse(
        error_code=Err.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
    )


def refuse(ctx: RequestContext) -> None:
    """Close the connection of a request with the code 0 (UNKNOWN)."""
    ctx.no_reply()
    ctx.connection.refuse(f"{ctx.route.name} contains unknown elements: a type, operation or permission is 0")
