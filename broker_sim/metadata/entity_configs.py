"""Settings that a group or a client metrics subscription has of its own (config resources 32 and 16): kept and shown.

    check(config, Entity.GROUP, {"consumer.session.timeout.ms": "50000"})       # as strings; KafkaError in Kafka's words

Rules:
1. Nothing here acts on them. Those of consumer and share groups are used by their coordinator, which is notified of every
   change (``ClusterState.on_group_configured``), and by the leaders of partitions that share groups read. Settings of
   client metrics have no effect. A group need not exist: its settings may be created before it, and remain after its deletion.
2. Subscriptions came with 3.7, groups' settings with 4.0. They are those of 4.1.0 and 4.4.0 (of subscriptions before 4.0:
   of 3.9.1).
3. Which bounds a broker sets for its groups is read from its own settings where it has them (`group.consumer.*`), and is
   Kafka's default where it has not.

Source: GroupConfig, ClientMetricsConfigs, ConfigHelper, ControllerConfigurationValidator.
"""

from __future__ import annotations

import enum
import re
import warnings
from collections.abc import Mapping, Sequence

from broker_sim.config.settings import (
    BrokerConfig,
    ConfigEntry,
    ConfigError,
    ConfigSource,
    ConfigType,
    Setting,
    to_text,
)
from broker_sim.metadata.topics import KafkaError
from kafka_wire.errors import Err


class Entity(enum.IntEnum):
    """Types of config resources that have such settings, with their numbers in Kafka."""

    CLIENT_METRICS = 16
    GROUP = 32


_INT, _STRING, _LIST, _BOOL = ConfigType.INT, ConfigType.STRING, ConfigType.LIST, ConfigType.BOOL
_LONG = ConfigType.LONG

_GROUP = {
    definition.name: definition
    for definition in (
        Setting("consumer.session.timeout.ms", _INT, "45000", minimum=1),
        Setting("consumer.heartbeat.interval.ms", _INT, "5000", minimum=1),
        Setting("share.session.timeout.ms", _INT, "45000", minimum=1),
        Setting("share.heartbeat.interval.ms", _INT, "5000", minimum=1),
        Setting("share.record.lock.duration.ms", _INT, "30000", minimum=1000),
        Setting("share.auto.offset.reset", _STRING, "latest"),
        Setting("streams.session.timeout.ms", _INT, "45000", minimum=1),
        Setting("streams.heartbeat.interval.ms", _INT, "5000", minimum=1),
        Setting("streams.num.standby.replicas", _INT, "0", minimum=0),
        Setting("share.isolation.level", _STRING, "read_uncommitted", choices=("read_committed", "read_uncommitted")),
        Setting("consumer.assignment.interval.ms", _INT, "1000", minimum=0),
        Setting("share.delivery.count.limit", _INT, "5", minimum=2),
        Setting("share.partition.max.record.locks", _INT, "2000", minimum=100),
        Setting("share.assignment.interval.ms", _INT, "1000", minimum=0),
        Setting("share.renew.acknowledge.enable", _BOOL, "true"),
        Setting("streams.initial.rebalance.delay.ms", _INT, "3000", minimum=0),
        Setting("streams.assignment.interval.ms", _INT, "1000", minimum=0),
        Setting("streams.assignor.name", _STRING, "sticky"),
        Setting("streams.rack.aware.assignment.tags", _LIST, ""),
        Setting("errors.deadletterqueue.topic.name", _STRING, ""),
        Setting("errors.deadletterqueue.copy.record.enable", _BOOL, "false"),
        Setting("consumer.assignor.offload.enable", _BOOL, "true", internal=True),
        Setting("share.assignor.offload.enable", _BOOL, "true", internal=True),
        Setting("streams.assignor.offload.enable", _BOOL, "true", internal=True),
        Setting("streams.task.offset.interval.ms", _INT, "60000", minimum=1, internal=True),
        Setting("streams.num.warmup.replicas", _INT, "2", minimum=0, internal=True),
        Setting("streams.acceptable.recovery.lag", _LONG, "10000", minimum=0, internal=True),
    )
}
_SINCE = {
    (4, 2): ("streams.initial.rebalance.delay.ms",),
    (4, 3): (
        *("consumer.assignment.interval.ms", "share.assignment.interval.ms", "streams.assignment.interval.ms"),
        *("share.delivery.count.limit", "share.partition.max.record.locks", "share.renew.acknowledge.enable"),
    ),
    (4, 4): (
        *("streams.assignor.name", "streams.rack.aware.assignment.tags"),
        *("errors.deadletterqueue.topic.name", "errors.deadletterqueue.copy.record.enable"),
        *("consumer.assignor.offload.enable", "share.assignor.offload.enable", "streams.assignor.offload.enable"),
        *("streams.task.offset.interval.ms", "streams.num.warmup.replicas", "streams.acceptable.recovery.lag"),
    ),
}
"""Settings that groups did not have from the beginning: by the release with which they came."""
_BROKERS_NAME = {"streams.assignor.name": "group.streams.assignors"}
_GROUPS_ALONE = ("share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable")
"""Settings for which a broker has none of its own; nor has it any for dead letters."""
_CLIENT_METRICS = {
    definition.name: definition
    for definition in (
        Setting("metrics", _LIST, ""),
        Setting("interval.ms", _INT, "300000"),
        Setting("match", _LIST, ""),
    )
}

_UNBOUNDED = 2**31 - 1
_SESSION, _HEARTBEAT, _ASSIGNMENT = (45000, 60000), (5000, 15000), (0, 15000)
_BOUNDS: dict[str, tuple[int, int]] = {
    "consumer.heartbeat.interval.ms": _HEARTBEAT,
    "consumer.session.timeout.ms": _SESSION,
    "consumer.assignment.interval.ms": _ASSIGNMENT,
    "share.heartbeat.interval.ms": _HEARTBEAT,
    "share.session.timeout.ms": _SESSION,
    "share.record.lock.duration.ms": (15000, 60000),
    "share.delivery.count.limit": (2, 10),
    "share.partition.max.record.locks": (100, 4000),
    "share.assignment.interval.ms": _ASSIGNMENT,
    "streams.heartbeat.interval.ms": _HEARTBEAT,
    "streams.session.timeout.ms": _SESSION,
    "streams.num.standby.replicas": (0, 2),
    "streams.assignment.interval.ms": _ASSIGNMENT,
    "streams.task.offset.interval.ms": (15000, _UNBOUNDED),
    "streams.num.warmup.replicas": (0, 20),
}
"""Bounds that brokers have by default, in the order in which they are checked."""

_INTERVAL_MS = (100, 3_600_000)
_MATCHED = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
_DURATION = (
    r"(?ai:(?P<sign>[-+]?)P(?:(?P<d>[-+]?[0-9]+)D)?"
    r"(?:T(?=[-+0-9])(?:(?P<h>[-+]?[0-9]+)H)?(?:(?P<m>[-+]?[0-9]+)M)?(?:(?P<s>[-+]?[0-9]+)(?:[.,][0-9]{0,9})?S)?)?)"
)
_UNITS_S = {"d": 86400, "h": 3600, "m": 60, "s": 1}


def entities(release: tuple[int, int]) -> list[Entity]:
    """The kinds of entities that a release has."""
    since = {Entity.CLIENT_METRICS: (3, 7), Entity.GROUP: (4, 0)}
    return [entity for entity, first in since.items() if release >= first]


def entries(
    config: BrokerConfig, entity: Entity, own: Mapping[str, str]
) -> list[tuple[Setting, str | None, list[ConfigEntry]]]:
    """The entries of DescribeConfigs: setting, value, and the name of its synonym, if any."""
    rows: list[tuple[Setting, str | None, list[ConfigEntry]]] = []
    if entity is Entity.CLIENT_METRICS:
        for setting in _CLIENT_METRICS.values():
            if setting.name in own:
                set_here = ConfigEntry(setting.name, own[setting.name], ConfigSource.CLIENT_METRICS)
                rows.append((setting, set_here.value, [set_here]))
            elif config.release >= (4, 0):  # before, unset settings are not described
                rows.append((setting, setting.default, []))
        return rows
    for setting in _group_settings(config.release).values():
        if setting.internal and setting.name not in own:
            continue
        entry = ConfigEntry(setting.name, _default(config, setting), ConfigSource.DEFAULT)  # a broker's own value too
        entries = [entry]
        if config.release >= (4, 3):
            named = _brokers_name(setting.name)
            brokers = config.entries(named) if named in config.settings else []
            entries = brokers or [ConfigEntry(named, entry.value, ConfigSource.DEFAULT)]
            entry = entries[0]
        if setting.name in own:
            entry = ConfigEntry(setting.name, own[setting.name], ConfigSource.GROUP)
            entries = [entry, *entries] if config.release >= (4, 3) else [entry]
        rows.append((setting, entry.value, entries))
    return rows


def _group_settings(release: tuple[int, int]) -> dict[str, Setting]:
    """A group's settings in a release."""
    to_come = {name for since, names in _SINCE.items() if release < since for name in names}
    return {name: setting for name, setting in _GROUP.items() if name not in to_come}


def _brokers_name(name: str) -> str:
    """The name of a group's setting in the broker's settings for all groups."""
    if name in _GROUPS_ALONE or name.startswith("errors."):
        return name
    return _BROKERS_NAME.get(name, f"group.{name}")


def names(release: tuple[int, int]) -> set[str]:
    """All settings of a release."""
    names = {name for name in _group_settings(release) if release >= (4, 0)}
    return names | set(_CLIENT_METRICS) if release >= (3, 7) else names


def check(config: BrokerConfig, entity: Entity, own: Mapping[str, str]) -> dict[str, str]:
    """The settings as strings, each checked alone and all together. Raises KafkaError."""
    if entity is Entity.GROUP:
        settings = _group_settings(config.release)
        _check_names(own, settings, Err.INVALID_CONFIG, "Unknown group config name")
        checked = _parsed(own, settings)
        _check_lists(config, own, ("streams.rack.aware.assignment.tags",))
        _check_group(config, checked)
        return checked
    _check_names(own, _CLIENT_METRICS, Err.INVALID_REQUEST, "Unknown client metrics configuration")
    try:
        checked = _parsed(own, _CLIENT_METRICS)
    except KafkaError:
        if config.release < (4, 0):  # whose controller falls over it
            raise KafkaError(Err.UNKNOWN_SERVER_ERROR) from None
        raise
    _check_lists(config, own, ("metrics", "match"))
    low, high = _INTERVAL_MS
    if not low <= int(checked.get("interval.ms", low)) <= high:
        why = f"interval must be between {low} and {high} (1 hour)"
        raise KafkaError(Err.INVALID_REQUEST, f"Invalid value {checked['interval.ms']} for interval.ms, {why}")
    if "match" in own:
        _check_patterns(own["match"], old=config.release < (4, 0))
    return checked if config.release >= (4, 0) else dict(own)  # before, kept as it was written


def readable(entity: Entity, own: Mapping[str, str]) -> dict[str, str]:
    """The saved settings that the release has. Each is checked alone: a broker with other bounds starts all the same.

    Raises KafkaError.
    """
    return _parsed(own, _GROUP if entity is Entity.GROUP else _CLIENT_METRICS)


def _check_names(own: Mapping[str, str], settings: Mapping[str, Setting], error: Err, words: str) -> None:
    for name in own:
        if name not in settings:
            raise KafkaError(error, f"{words}: {name}")


def _parsed(own: Mapping[str, str], settings: Mapping[str, Setting]) -> dict[str, str]:
    checked: dict[str, str] = {}
    try:
        for name, setting in settings.items():
            if name in own:
                checked[name] = to_text(setting.parse(own[name])) or ""
                if name == "share.auto.offset.reset":
                    _check_reset(checked[name])
    except ConfigError as error:
        raise KafkaError(Err.INVALID_CONFIG, str(error)) from None
    return checked


def _check_reset(value: str) -> None:
    if value in ("earliest", "latest") or (value.startswith("by_duration:") and _is_duration(value[12:])):
        return
    name = "share.auto.offset.reset"
    raise ConfigError(
        f"Invalid value {value} for configuration {name}: Invalid value `{value}` for configuration {name}. The value "
        "must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
    )


def _is_duration(text: str) -> bool:
    """Whether it is one of java.time.Duration that is not negative."""
    match = re.fullmatch(_DURATION, text)
    parts = {unit: match[unit] for unit in _UNITS_S if match[unit]} if match else {}
    if match is None or not parts or any(len(number) > 19 for number in parts.values()):
        return False
    seconds = sum(_UNITS_S[unit] * int(number) for unit, number in parts.items())
    return 0 <= (-seconds if match["sign"] == "-" else seconds) < 1 << 63


def duration_ms(text: str) -> int:
    """A duration that `check` has let pass, in ms."""
    match = re.fullmatch(_DURATION, text)
    assert match is not None, text
    seconds = sum(_UNITS_S[unit] * int(match[unit]) for unit in _UNITS_S if match[unit])
    return -1000 * seconds if match["sign"] == "-" else 1000 * seconds


def _check_group(config: BrokerConfig, own: Mapping[str, str]) -> None:
    settings = _group_settings(config.release)

    def value(name: str) -> int:
        return int(own.get(name) or _default(config, _GROUP[name]) or 0)

    for name, (low, high) in _BOUNDS.items():
        if name not in settings:
            continue
        least, low = _bound(config, name, "min", low)
        most, high = _bound(config, name, "max", high)
        if config.release >= (4, 4) and not low <= value(name) <= high:
            bounds = f"in the range {low} to {high} inclusive."
            if high == _UNBOUNDED:
                bounds = f"greater than or equal to {low}"
            elif name.endswith("replicas"):
                bounds = f"less than or equal to {high}"
            raise KafkaError(Err.INVALID_CONFIG, f"{name} must be {bounds}")
        if value(name) < low:
            raise KafkaError(Err.INVALID_CONFIG, f"{name} must be greater than or equal to {least}")
        if value(name) > high:
            raise KafkaError(Err.INVALID_CONFIG, f"{name} must be less than or equal to {most}")
    for kind in ("consumer", "share", "streams"):
        timeout, interval = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if value(timeout) <= value(interval):
            raise KafkaError(Err.INVALID_CONFIG, f"{timeout} must be greater than {interval}")

    _check_texts(own)


def _check_texts(own: Mapping[str, str]) -> None:
    tags = own.get("streams.rack.aware.assignment.tags", "").split(",")
    if len(set(tags)) < len(tags):
        raise KafkaError(Err.INVALID_CONFIG, "streams.rack.aware.assignment.tags must not contain duplicate tag keys.")
    assignor = own.get("streams.assignor.name", "sticky")
    if assignor != "sticky":
        raise KafkaError(
            Err.INVALID_CONFIG,
            f"streams.assignor.name '{assignor}' is not a registered task assignor. Registered assignors are: [sticky].",
        )
    if own.get("errors.deadletterqueue.topic.name", "").startswith("__"):
        raise KafkaError(
            Err.INVALID_CONFIG, "errors.deadletterqueue.topic.name: DLQ topic name must not start with '__'"
        )


def _check_lists(config: BrokerConfig, own: Mapping[str, str], names: Sequence[str]) -> None:
    """From 4.2 on a list may be empty, and none of its items."""
    for name in names:
        items = [item.strip() for item in own.get(name, "").split(",")]
        if config.release >= (4, 2) and len(items) > 1 and "" in items:
            raise KafkaError(Err.INVALID_CONFIG, f"Configuration '{name}' values must not be empty.")


def _default(config: BrokerConfig, setting: Setting) -> str | None:
    name = f"group.{setting.name}"
    return to_text(config.value(name)) if name in config.settings else setting.default


def _bound(config: BrokerConfig, name: str, end: str, default: int) -> tuple[str, int]:
    """The name of a broker's bound, and its value."""
    kind, _, what = name.partition(".")
    broker_name = f"group.{kind}.{end}.{what.removeprefix('num.')}"
    return broker_name, config.int(broker_name) if broker_name in config.settings else default


def _check_patterns(text: str, *, old: bool) -> None:
    """Each is `selector=pattern`, a regular expression."""
    if old:
        patterns = _java_split(text, ",")
    else:
        patterns = [part.strip() for part in text.split(",")] if text.strip() else []
    for pattern in patterns:
        parts = [part.strip() for part in _java_split(pattern, "=")]
        if len(parts) != 2 or parts[0] not in _MATCHED or not _compiles(parts[1]):
            raise KafkaError(Err.INVALID_CONFIG, f"Illegal client matching pattern: {pattern}")


def _java_split(text: str, separator: str) -> list[str]:
    """String.split: empty parts at the end are dropped, except for an empty text."""
    parts = text.split(separator)
    while len(parts) > 1 and parts[-1] == "":
        parts.pop()
    return [] if text and parts == [""] else parts


def _compiles(pattern: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError):
            return False
    return True
