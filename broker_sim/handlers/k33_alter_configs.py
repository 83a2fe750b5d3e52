"""AlterConfigs (33), versions 0-2, answered by any broker: put new settings in the place of all that a resource had.

Source: ConfigurationControlManager.legacyAlterConfigs.
"""

from __future__ import annotations

from broker_sim.handlers.config_resources import alter, alter_each, check_keys
from broker_sim.handlers.context import RequestContext
from kafka_wire.messages.k33_alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def handle(ctx: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    def alter_one(resource: AlterConfigsResource) -> None:
        check_keys(resource.configs, lambda _: True)
        settings = {one.name: one.value or "" for one in resource.configs}
        alter(ctx.broker, resource, lambda _: settings, validate_only=request.validate_only)

    results = alter_each(request.resources, alter_one)
    return AlterConfigsResponse(0, [AlterConfigsResourceResponse(*result) for result in results])
