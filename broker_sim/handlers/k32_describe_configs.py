"""DescribeConfigs (32), versions 0-4: the settings of topics, brokers, loggers, groups and client metrics, with their sources.

v0 whether a value is the default. v1 its source and its synonyms. v3 its type and, on request, its documentation. Source: ConfigHelper.
"""

from __future__ import annotations

from collections.abc import Generator

from broker_sim.common.slices import Pace
from broker_sim.common.text import address
from broker_sim.config.settings import ConfigEntry, ConfigSource, Setting, to_text
from broker_sim.handlers.config_resources import BROKER, BROKER_LOGGER, TOPIC, known_types, level_name, loggers
from broker_sim.handlers.k35_describe_log_dirs import IN_MEMORY
from broker_sim.metadata import entity_configs
from broker_sim.metadata.cluster_state import Broker, KafkaError
from broker_sim.metadata.topics import check_topic_name
from broker_sim.requests.context import RequestContext
from kafka_wire.errors import Err
from kafka_wire.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

_MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)

Row = tuple[Setting, str | None, list[ConfigEntry]]
"""A setting, its value and its entries, the effective one first."""


_PIECE = 10
"""Resources that are described before others are served."""


def handle(ctx: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse | None:
    response: DescribeConfigsResponse | None = ctx.in_pieces(_describe_all(ctx, request))
    return response


def _describe_all(
    ctx: RequestContext, request: DescribeConfigsRequest
) -> Generator[None, None, DescribeConfigsResponse]:
    results: list[DescribeConfigsResult] = []
    known = known_types(ctx.broker.state.config.release)
    malformed = any(resource.resource_type not in known for resource in request.resources)
    pace = Pace(_PIECE)
    for resource in request.resources:
        if pace.full():
            yield
        if malformed:  # one type that it does not know, and Kafka refuses the whole request
            refused = (Err.INVALID_REQUEST, _MALFORMED, resource.resource_type, resource.resource_name)
            results.append(DescribeConfigsResult(*refused))
            continue
        result = DescribeConfigsResult(Err.NONE, "", resource.resource_type, resource.resource_name)
        try:
            result.configs = _describe(ctx.broker, resource, request)
        except KafkaError as error:
            result.error_code, result.error_message = error.error, error.message or ""
        results.append(result)
    return DescribeConfigsResponse(0, results)


def _describe(
    broker: Broker, resource: DescribeConfigsResource, request: DescribeConfigsRequest
) -> list[DescribeConfigsResourceResult]:
    if resource.resource_type == BROKER_LOGGER:
        return _loggers(broker, resource)
    if resource.resource_type == TOPIC:
        rows = _topic_rows(broker, resource.resource_name)
        topic = True
    elif resource.resource_type == BROKER:
        rows = _broker_rows(broker, resource.resource_name)
        topic = False
    else:
        rows = _entity_rows(broker, entity_configs.Entity(resource.resource_type), resource.resource_name)
        topic = True
        if broker.state.config.release < (4, 0):
            return _metrics_as_set(rows)
    wanted = set(resource.configuration_keys or ())
    results: list[DescribeConfigsResourceResult] = []
    for setting, value, entries in rows:
        if wanted and setting.name not in wanted:
            continue
        source = entries[0].source if entries else ConfigSource.DEFAULT
        results.append(
            DescribeConfigsResourceResult(
                setting.name,
                value,
                not topic and not setting.dynamic,
                False,  # v0: no broker that serves it has the field
                source,
                False,
                [DescribeConfigsSynonym(e.name, e.value, e.source) for e in entries]
                if request.include_synonyms
                else [],
                setting.type,
                setting.doc if request.include_documentation else None,
            )
        )
    return results


def _entity_rows(broker: Broker, entity: entity_configs.Entity, name: str) -> list[Row]:
    if name == "":
        what = "Group" if entity is entity_configs.Entity.GROUP else "Client metrics subscription"
        raise KafkaError(Err.INVALID_REQUEST, f"{what} name must not be empty")
    state = broker.state
    return entity_configs.entries(state.config, entity, state.entity_configs[entity].get(name, {}))


def _metrics_as_set(rows: list[Row]) -> list[DescribeConfigsResourceResult]:
    """The rows of client metrics in 3.x: the set values alone, without types and synonyms, whatever was requested."""
    return [
        DescribeConfigsResourceResult(
            setting.name, value, config_source=ConfigSource.CLIENT_METRICS, config_type=0, documentation=""
        )
        for setting, value, _ in rows
    ]


def _topic_rows(broker: Broker, name: str) -> list[Row]:
    check_topic_name(name)
    config = broker.state.config
    topic = broker.state.topics.get(name)
    if topic is None:
        raise KafkaError(Err.UNKNOWN_TOPIC_OR_PARTITION)
    node, own = broker.node_id, topic.configs
    return [
        (setting, to_text(config.topic_value(key, own, node)), config.topic_entries(key, own, node))
        for key, setting in config.topic_settings.items()
    ]


def _broker_rows(broker: Broker, name: str) -> list[Row]:
    config = broker.state.config
    if name == "":
        own = config.dynamic_default
        return [
            (config.settings[key], value, [ConfigEntry(key, value, ConfigSource.DYNAMIC_DEFAULT_BROKER)])
            for key, value in own.items()
        ]
    _check_node(broker, name, " or empty string,")
    identity = _identity(broker)
    rows: list[Row] = []
    for key, setting in config.settings.items():
        if setting.internal and not config.given(key):
            continue
        entries = config.entries(key, broker.node_id)
        value = to_text(config.value(key, broker.node_id))
        if key in identity and key not in config.static:
            value = identity[key]
            entries.insert(0, ConfigEntry(key, value, ConfigSource.STATIC_BROKER))
        rows.append((setting, value, entries))
    return rows


def _check_node(broker: Broker, name: str, expected: str) -> None:
    try:
        node = int(name)
    except ValueError:
        raise KafkaError(Err.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}") from None
    if node != broker.node_id:
        text = f"Unexpected broker id, expected {broker.node_id}{expected} but received {name}"
        raise KafkaError(Err.INVALID_REQUEST, text)


def _identity(broker: Broker) -> dict[str, str]:
    """The settings in which brokers of one cluster differ: this broker's."""
    state = broker.state
    endpoints = broker.endpoints.items()
    protocols = ",".join(f"{name}:{endpoint.protocol}" for name, endpoint in endpoints)
    shown = {
        "advertised.listeners": ",".join(f"{name}://{address(own.host, own.port)}" for name, own in endpoints),
        "broker.id": str(broker.node_id),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": f"{protocols},CONTROLLER:PLAINTEXT",
        "listeners": ",".join(f"{name}://{address(*(own.bound or own[:2]))}" for name, own in endpoints),
        "log.dirs": IN_MEMORY if state.disk.data_dir is None else str(state.disk.data_dir),
        "node.id": str(broker.node_id),
        "process.roles": "broker,controller" if broker.node_id == state.controller_id else "broker",
    }
    if broker.rack is not None:
        shown["broker.rack"] = broker.rack
    return shown


def _loggers(broker: Broker, resource: DescribeConfigsResource) -> list[DescribeConfigsResourceResult]:
    if resource.resource_name == "":
        raise KafkaError(Err.INVALID_REQUEST, "Broker id must not be empty")
    _check_node(broker, resource.resource_name, "")
    wanted = set(resource.configuration_keys or ())
    return [
        DescribeConfigsResourceResult(
            name, level_name(logger), False, False, ConfigSource.DYNAMIC_BROKER_LOGGER, documentation=""
        )
        for name, logger in loggers().items()
        if not wanted or name in wanted
    ]
