"""Resources whose settings a request names - a topic, a broker, all brokers, loggers, a group, a client metrics
subscription - and changes of these settings.

Shared by DescribeConfigs, AlterConfigs and IncrementalAlterConfigs. Every check comes before the first change, with the
error and the words of Kafka's controller. Source: ConfigurationControlManager, ConfigAdminManager, DynamicBrokerConfig.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from broker_sim.common.slices import Pace, counted
from broker_sim.config.definitions import DOCS
from broker_sim.config.effects import idle_text
from broker_sim.config.settings import BrokerConfig, ConfigError, ConfigType
from broker_sim.metadata.cluster_state import Broker, ClusterState, KafkaError
from broker_sim.metadata.entity_configs import Entity, entities
from broker_sim.metadata.entity_configs import check as check_entity
from broker_sim.metadata.topics import check_topic_name
from kafka_wire.errors import Err

log = logging.getLogger("broker_sim.handlers")

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8

NOT_HERE = frozenset(
    {
        "listeners",
        "listener.security.protocol.map",
        "metric.reporters",
        "principal.builder.class",
        "sasl.enabled.mechanisms",
        "ssl.client.auth",
    }
)
"""Dynamic in Kafka; here they are what the simulator was started with."""

LOGGER = "broker_sim"
LEVELS = {"FATAL": 50, "ERROR": 40, "WARN": 30, "INFO": 20, "DEBUG": 10, "TRACE": 5}

Own = dict[str, str]
Change = Callable[[Own], Own]
"""From a resource's own settings to its new ones."""


class Named(Protocol):
    """One setting in a request."""

    name: str
    value: str | None


class Resource(Protocol):
    """One resource in a request."""

    resource_type: int
    resource_name: str


R = TypeVar("R", bound=Resource)

_PIECE = 50
"""Resources that are altered before others are served."""


def alter_each(
    resources: Sequence[R], alter_one: Callable[[R], None]
) -> Generator[None, None, list[tuple[Err, str | None, int, str]]]:
    """Run `alter_one` for every resource: (error, message, type, name) of each; one that is named twice is refused
    twice.
    """
    count = yield from counted((item.resource_type, item.resource_name) for item in resources)
    results: list[tuple[Err, str | None, int, str]] = []
    pace = Pace(_PIECE)
    for resource in resources:
        if pace.full():
            yield
        name = resource.resource_type, resource.resource_name
        error, text = Err.NONE, None
        try:
            if count[name] > 1:
                raise KafkaError(Err.INVALID_REQUEST, "Each resource must appear at most once.")
            alter_one(resource)
        except KafkaError as refused:
            error, text = refused.error, refused.message
        results.append((error, text, *name))
    return results


def check_keys(settings: Sequence[Named], needs_value: Callable[[Named], bool]) -> None:
    """Raise INVALID_REQUEST for a setting named twice, or without the value that it needs."""
    names = [setting.name for setting in settings]
    if len(set(names)) < len(names):
        raise KafkaError(Err.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [setting.name for setting in settings if setting.value is None and needs_value(setting)]
    if nulls:
        raise KafkaError(Err.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")


def alter(broker: Broker, resource: Resource, change: Change, *, validate_only: bool) -> None:
    """Change the settings of a topic, of this broker or of all brokers. Raises KafkaError."""
    state, name = broker.state, resource.resource_name
    if resource.resource_type == TOPIC:
        topic = state.topics.get(name)
        changed = change({} if topic is None else dict(topic.configs))
        if name == "":
            raise KafkaError(Err.INVALID_REQUEST, "Default topic resources are not allowed.")
        check_topic_name(name)
        settings = state.check_topic_settings(changed)  # a value that can't be counts before a topic that is not there
        if topic is None:
            raise KafkaError(Err.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        if not validate_only:
            state.alter_topic(name, settings)
    elif resource.resource_type == BROKER:
        node = own_node(broker, name, "Node id")
        config = state.config
        before = config.dynamic_default if node is None else config.dynamic_broker.get(node, {})
        after = _check_broker(state, node, before, change({k: v for k, v in before.items() if v is not None}))
        if not validate_only:
            idle = [key for key, value in after.items() if key not in DOCS and before.get(key) != value]
            if idle:
                log.warning("altered by a client: %s", idle_text(idle))
            config.alter(node, after)
    elif resource.resource_type in entities(state.config.release):
        _alter_entity(state, Entity(resource.resource_type), name, change, validate_only=validate_only)
    else:
        raise KafkaError(Err.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}")


def _alter_entity(state: ClusterState, entity: Entity, name: str, change: Change, *, validate_only: bool) -> None:
    after = change(dict(state.entity_configs[entity].get(name, {})))
    if name == "":
        group = entity is Entity.GROUP
        words = "Default group resources are not allowed." if group else "Subscription name can't be empty"
        raise KafkaError(Err.INVALID_REQUEST, words)
    after = check_entity(state.config, entity, after)
    if not validate_only:
        state.alter_entity(entity, name, after)


def known_types(release: tuple[int, int]) -> set[int]:
    """Resource types that a release knows."""
    return {TOPIC, BROKER, BROKER_LOGGER, *entities(release)}


def own_node(broker: Broker, name: str, what: str) -> int | None:
    """The node that a broker resource names, which must be this one; None for "", all brokers."""
    if name == "":
        return None
    try:
        node = int(name)
    except ValueError:
        raise KafkaError(Err.INVALID_REQUEST, f"{what} must be an integer, but it is: {name}") from None
    if node != broker.node_id:
        text = f"Unexpected broker id, expected {broker.node_id}, but received {node}"
        raise KafkaError(Err.INVALID_REQUEST, text)
    return node


def _check_broker(
    state: ClusterState, node: int | None, before: Mapping[str, str | None], after: Own
) -> dict[str, str | None]:
    """The new dynamic settings; what this release doesn't know is let through and dropped, as a plug-in's might be."""
    config = state.config
    known = {name: value for name, value in after.items() if name in config.settings}
    changed = [name for name in known if known[name] != before.get(name)]
    fixed = [name for name in changed if not config.settings[name].dynamic]
    if fixed:
        raise KafkaError(Err.INVALID_REQUEST, f"Cannot update these configs dynamically: Set({', '.join(fixed)})")
    unmovable = [name for name in changed if name in NOT_HERE]
    _check_values(config, unmovable, known)
    if unmovable and node is None:
        text = "Cannot update these configs at default cluster level, broker id must be specified"
        raise KafkaError(Err.INVALID_REQUEST, f"{text}: Set({', '.join(unmovable)})")
    if unmovable:
        raise KafkaError(Err.INVALID_REQUEST, f"{unmovable[0]} stays as the simulator was started")
    if node is None and config.release >= (4, 1) and "min.insync.replicas" not in known:
        raise KafkaError(
            Err.INVALID_CONFIG, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
        )
    _check_values(config, changed, known)
    return dict(known)


def _check_values(config: BrokerConfig, names: Iterable[str], values: Own) -> None:
    try:
        for name in names:
            config.settings[name].parse(values[name])
    except ConfigError as error:
        raise KafkaError(Err.INVALID_REQUEST, str(error)) from None


def is_list(broker: Broker, resource: Resource, name: str) -> bool:
    """Whether a setting is a list, so that values may be appended and subtracted."""
    if resource.resource_type not in (TOPIC, BROKER):  # not even the lists of client metrics
        return False
    config = broker.state.config
    settings = config.topic_settings if resource.resource_type == TOPIC else config.settings
    setting = settings.get(name)
    return setting is not None and setting.type is ConfigType.LIST


# ------------------------------------------------------------------------------------------------ loggers


def loggers() -> dict[str, logging.Logger]:
    """The broker's loggers by their shown names; "root" is the one above all of ours."""
    ours = sorted(name for name in logging.root.manager.loggerDict if name.startswith(LOGGER + "."))
    return {"root": logging.getLogger(LOGGER), **{name: logging.getLogger(name) for name in ours}}


def level_name(logger: logging.Logger) -> str:
    """The level at which a logger lets messages through, in Kafka's words."""
    level = logger.getEffectiveLevel()
    return next((name for name, least in LEVELS.items() if level >= least), "TRACE")
