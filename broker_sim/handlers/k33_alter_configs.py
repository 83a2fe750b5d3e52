"""AlterConfigs (33), versions 0-2, answered by any broker: put new settings in the place of all that a resource had.

Source: ConfigurationControlManager.legacyAlterConfigs.
"""

from __future__ import annotations

from collections.abc import Generator

from broker_sim.common.slices import listed
from broker_sim.handlers.config_resources import alter, alter_each, check_keys
from broker_sim.requests.context import RequestContext
from kafka_wire.messages.k33_alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def handle(ctx: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse | None:
    response: AlterConfigsResponse | None = ctx.in_pieces(_alter_all(ctx, request))
    return response


def _alter_all(ctx: RequestContext, request: AlterConfigsRequest) -> Generator[None, None, AlterConfigsResponse]:
    def alter_one(resource: AlterConfigsResource) -> None:
        check_keys(resource.configs, lambda _: True)
        settings = {config.name: config.value or "" for config in resource.configs}
        alter(ctx.broker, resource, lambda _: settings, validate_only=request.validate_only)

    results = yield from alter_each(request.resources, alter_one)
    return AlterConfigsResponse(0, (yield from listed(AlterConfigsResourceResponse(*result) for result in results)))
