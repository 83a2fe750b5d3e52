"""IncrementalAlterConfigs (44), versions 0-1, answered by any broker: set, delete, append to, subtract from settings
(KIP-339).

Loggers' levels are altered here too (KIP-412): a broker's loggers are those of this process.
Source: ConfigurationControlManager.incrementalAlterConfigs, RuntimeLoggerManager.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator

from broker_sim.common.slices import Pace, counted, listed
from broker_sim.handlers.config_resources import (
    BROKER,
    BROKER_LOGGER,
    LEVELS,
    Own,
    alter,
    alter_each,
    check_keys,
    is_list,
    known_types,
    loggers,
    own_node,
)
from broker_sim.metadata.cluster_state import Broker, KafkaError
from broker_sim.requests.context import RequestContext
from kafka_wire.errors import Err
from kafka_wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

SET, DELETE, APPEND, SUBTRACT = range(4)
_NAMES = ("SET", "DELETE", "APPEND", "SUBTRACT")


_PIECE = 2000
"""Resources that are looked at before others are served."""


def handle(ctx: RequestContext, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse | None:
    response: IncrementalAlterConfigsResponse | None = ctx.in_pieces(_alter_all(ctx, request))
    return response


def _alter_all(
    ctx: RequestContext, request: IncrementalAlterConfigsRequest
) -> Generator[None, None, IncrementalAlterConfigsResponse]:
    broker = ctx.broker
    altered = known_types(broker.state.config.release) - {BROKER_LOGGER}
    named = yield from counted((resource.resource_type, resource.resource_name) for resource in request.resources)
    unknown = False  # whether an operation of what is forwarded to the controller
    pace = Pace(_PIECE)
    for resource in request.resources:
        if pace.full():
            yield
        if named[resource.resource_type, resource.resource_name] == 1 and resource.resource_type in altered:
            has_unknown = any(config.config_operation not in range(4) for config in resource.configs)
            unknown = unknown or (has_unknown and _is_forwarded(broker, resource))

    def alter_one(resource: AlterConfigsResource) -> None:
        _check_keys(resource)
        if resource.resource_type == BROKER_LOGGER:
            _alter_loggers(broker, resource, request.validate_only)
            return
        if unknown and resource.resource_type in altered and _is_forwarded(broker, resource):
            raise KafkaError(
                Err.UNKNOWN_SERVER_ERROR
            )  # Kafka's controller falls over the unknown number, and does nothing
        alter(broker, resource, lambda own: _apply(broker, resource, own), validate_only=request.validate_only)

    results = yield from alter_each(request.resources, alter_one)
    return IncrementalAlterConfigsResponse(
        0, (yield from listed(AlterConfigsResourceResponse(*result) for result in results))
    )


def _is_forwarded(broker: Broker, resource: AlterConfigsResource) -> bool:
    """Whether the broker leaves the answer to the controller."""
    try:
        _check_keys(resource)
        if resource.resource_type == BROKER:
            own_node(broker, resource.resource_name, "Node id")
    except KafkaError:
        return False
    return True


def _check_keys(resource: AlterConfigsResource) -> None:
    deleted = {item.name for item in resource.configs if item.config_operation == DELETE}
    check_keys(resource.configs, lambda item: item.name not in deleted)


def _apply(broker: Broker, resource: AlterConfigsResource, own: Own) -> Own:
    """The resource's own settings after every operation."""
    for config in resource.configs:
        operation, name = config.config_operation, config.name
        if operation == SET:
            own[name] = config.value or ""
        elif operation == DELETE:
            own.pop(name, None)
        else:
            own[name] = _changed_list(broker, resource, own, config)
    return own


def _changed_list(broker: Broker, resource: AlterConfigsResource, own: Own, change: AlterableConfig) -> str:
    """A list with missing values added, or values removed; an unset list counts as its default."""
    name = change.name
    if not is_list(broker, resource, name):
        verb = _NAMES[change.config_operation]
        raise KafkaError(Err.INVALID_CONFIG, f"Can't {verb} to key {name} because its type is not LIST.")
    config = broker.state.config
    settings = config.topic_settings if name in config.topic_settings else config.settings
    text = own.get(name, settings[name].default or "")
    values = [value for value in text.split(",") if value]
    changed = (change.value or "").split(",")
    if change.config_operation == APPEND:
        known = set(values)
        values += [value for value in dict.fromkeys(changed) if value not in known]
    else:
        taken = Counter(changed)  # each of them takes one out, the first that is left
        values = [value for value in values if not _take(taken, value)]
    return ",".join(values)


def _take(taken: Counter[str], value: str) -> bool:
    if not taken[value]:
        return False
    taken[value] -= 1
    return True


def _of_loggers(broker: Broker, words: str) -> str:
    """The error for a node id of Kafka's RuntimeLoggerManager (since 3.7), whose first message contains its own id twice."""
    release = broker.state.config.release
    if release < (3, 7):
        return words
    before, behind, received = words.replace("broker id, expected", "node id. Expected").partition(", but received ")
    return before + behind + (str(broker.node_id) if behind and release < (4, 0) else received)


def _alter_loggers(broker: Broker, resource: AlterConfigsResource, validate_only: bool) -> None:
    if resource.resource_name == "":
        raise KafkaError(Err.INVALID_REQUEST, "Node id must be an integer, but it is: ")
    try:
        own_node(broker, resource.resource_name, "Node id")
    except KafkaError as error:
        raise KafkaError(error.error, _of_loggers(broker, error.message or "")) from None
    known = loggers()
    for config in resource.configs:
        if config.config_operation in (APPEND, SUBTRACT):
            verb = _NAMES[config.config_operation]
            raise KafkaError(Err.INVALID_REQUEST, f"{verb} operation is not allowed for the BROKER_LOGGER resource")
        if config.name not in known:
            raise KafkaError(Err.INVALID_CONFIG, f"Logger {config.name} does not exist!")
        if config.config_operation == DELETE and config.name == "root":
            raise KafkaError(Err.INVALID_REQUEST, "Removing the log level of the root logger is not allowed")
        if config.config_operation == SET and config.value not in LEVELS:
            levels = ", ".join(sorted(LEVELS))
            raise KafkaError(
                Err.INVALID_CONFIG,
                f"Cannot set the log level of {config.name} to {config.value} as it is not a supported log level. "
                f"Valid log levels are {levels}",
            )
    for config in resource.configs:
        if not validate_only:
            known[config.name].setLevel(LEVELS[config.value or ""] if config.config_operation == SET else 0)
