"""The arguments of a `Cluster`: each is a field (``fields``), an error one line with its name and the nearest valid value.

    read_options({"brokers": "three"})      # WrongInput: brokers: 'three' is not a whole number from 1
    topics_of(["orders", "payments:6"])

`Cluster`, the fixtures' marker and the command line come through here; Python's own errors would come from deep inside.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterable, Mapping, Sequence, Sized
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypedDict, cast

from broker_sim.api.listeners import ListenerKind, configured, take_settings
from broker_sim.common.clock import Clock, clock_of
from broker_sim.common.text import UsageError
from broker_sim.config.settings import DEFAULT_VERSION, SECURITY_PROTOCOLS, BrokerConfig, ConfigError, parse_release
from broker_sim.fields.field import Field, about, fields_of, read
from broker_sim.fields.kinds import (
    MAX_ITEMS,
    Choice,
    Count,
    FieldKind,
    Flag,
    ListOf,
    MapOf,
    NameOrNumber,
    Password,
    SettingValue,
    Text,
    error_about,
    refusal,
)
from broker_sim.fields.problems import Problems

if TYPE_CHECKING:
    from pathlib import Path

    from broker_sim.fields.names import ClockLiteral, InternalTopicsLiteral, ReleaseLiteral, SecurityProtocolLiteral
else:  # at run time they are read by their kinds, and a start need not load the names
    ClockLiteral = InternalTopicsLiteral = ReleaseLiteral = SecurityProtocolLiteral = str

__all__ = [
    "ARGUMENTS",
    "AT_START",
    "INTERNAL_TOPICS",
    "ON_DEMAND",
    "ClockName",
    "NewTopic",
    "Options",
    "Release",
    "Topics",
    "TopicsKind",
    "read_options",
    "topics_of",
]

ON_DEMAND, AT_START = INTERNAL_TOPICS = ("on-demand", "at-start")
"""Times at which a cluster may create its internal topics."""

Topics = Mapping[str, int | Mapping[str, object]] | Sequence[str]
"""Notations of topics: ``{"orders": 6}``, ``{"orders": {"partitions": 6, "cleanup.policy": "compact"}}``, ``["orders",
"payments:6"]``, ``"orders"``. A name alone is one partition; -1 is the broker's num.partitions."""

_TOPICS = "a list or a map of topics, as in ['orders', 'payments:6'] or {'orders': 6}"


class NewTopic(NamedTuple):
    """A topic that is to be there. Where ``partitions`` or ``replication_factor`` is -1 the broker's default is meant."""

    partitions: int = 1
    replication_factor: int = -1
    configs: Mapping[str, str] = MappingProxyType({})


def topics_of(topics: object) -> dict[str, NewTopic]:
    """Every topic by its name. Raises UsageError."""
    if topics is None:
        return {}
    if isinstance(topics, str):
        topics = [topics]
    if isinstance(topics, Mapping):
        return {_name(name): _topic(name, given) for name, given in topics.items()}
    if not isinstance(topics, Iterable):
        raise refusal("topics", topics, _TOPICS)
    counts: dict[str, NewTopic] = {}
    for topic in topics:
        name, colon, count = _name(topic).partition(":")
        if colon and not count.isdecimal():
            raise UsageError(
                f"topics: {topic!r}: no number of partitions after the colon (expected e.g. {name + ':6'!r})"
            )
        counts[name] = NewTopic(int(count) if colon else 1)
    return counts


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise UsageError(f"topics: {name!r} is not a topic name (expected {_TOPICS})")
    return name


def _topic(name: str, given: object) -> NewTopic:
    if isinstance(given, Mapping):
        counts = {key: _count(name, key, given[key]) for key in _COUNTS if key in given}
        settings = {str(key): value for key, value in given.items() if key not in _COUNTS}
        read = {key: SettingValue().read(value, f"topics: {name!r}: {key}") for key, value in settings.items()}
        return NewTopic(**counts, configs=read)
    return NewTopic(_count(name, "partitions", given))


def _count(topic: str, what: str, value: object) -> int:
    try:
        return Count(-1).read(value)
    except UsageError:
        example = f"{{{topic!r}: 6}} or {{{topic!r}: {{'partitions': 6, 'cleanup.policy': 'compact'}}}}"
        raise UsageError(f"topics: {topic!r}: {value!r} is not a number for {what} (expected {example})") from None


_COUNTS = ("partitions", "replication_factor")


class TopicsKind(FieldKind[dict[str, Any]]):
    """Topics as `topics_of` takes them; of a text those between commas (``orders:6,payments``), or what JSON makes of it. ``limit``:
    how many there may be."""

    meant = "a map of names to values"
    metavar = "K:V,..."

    def __init__(self, limit: int | None = MAX_ITEMS) -> None:
        self.limit = limit

    def read(self, value: object, what: str = "") -> dict[str, Any]:
        """Names to partitions, or to a map with settings."""
        if isinstance(value, str) and value.lstrip().startswith("{"):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                raise refusal(what, value, self.meant) from None
        elif isinstance(value, str):
            value = [part.strip().replace("=", ":") for part in value.split(",") if part.strip()]
        if self.limit is not None and isinstance(value, Sized) and len(value) > self.limit:
            raise error_about(what, f"{len(value)} entries are too many, at most {self.limit}")
        result: dict[str, Any] = {}
        for name, topic in topics_of(value).items():
            more = {
                **({} if topic.replication_factor == -1 else {"replication_factor": topic.replication_factor}),
                **topic.configs,
            }
            result[Text().read(name, what)] = {"partitions": topic.partitions, **more} if more else topic.partitions
        return result

    def schema(self) -> dict[str, Any]:
        """A map, or a list of ``NAME:PARTITIONS``."""
        topic = {"anyOf": [{"type": "integer"}, {"type": "object"}]}
        listed = {"type": "array", "items": {"type": "string"}, "maxItems": MAX_ITEMS}
        return {"anyOf": [{"type": "object", "additionalProperties": topic, "maxProperties": MAX_ITEMS}, listed]}


class Release(FieldKind[str]):
    """The Kafka release to behave as, a text such as ``"3.9"``; reading it raises if it is none that the broker knows."""

    meant = "a release of Kafka in quotes, as in '3.9'"
    metavar = "X.Y"

    def read(self, value: object, what: str = "") -> str:
        """As it was written: "3.9.1" stays that."""
        if not isinstance(value, str):  # of a number 3.10 would be 3.1
            raise refusal(what, value, self.meant)
        try:
            parse_release(value)
        except ConfigError as error:
            raise UsageError(str(error)) from None
        return value

    def schema(self) -> dict[str, Any]:
        return Text().schema()


class ClockName(FieldKind[str]):
    """The mode of the brokers' clock: ``real``, ``manual``, or ``scaled:10`` for ten times as fast."""

    meant = "'real', 'scaled:10' or 'manual'"

    def read(self, value: object, what: str = "") -> str:
        """The text, of which there is a clock."""
        if not isinstance(value, str):
            raise refusal(what, value, self.meant)
        clock_of(value)
        return value

    def schema(self) -> dict[str, Any]:
        return Text().schema()


class _AnyClock(FieldKind[Clock | str]):
    """Or a clock of the user's own."""

    def read(self, value: object, what: str = "") -> Clock | str:
        return cast(Clock, value) if hasattr(value, "call_at_ms") else ClockName().read(value, what)


class _Directory(FieldKind["Path"]):
    meant = "a directory, as in 'kafka-data'"

    def read(self, value: object, what: str = "") -> Path:
        from pathlib import Path

        if not isinstance(value, str | os.PathLike):
            raise refusal(what, value, self.meant)
        return Path(value)


class _FlagOrDirectory(FieldKind["bool | str | os.PathLike[str]"]):
    """A text is a directory's name, whatever it spells."""

    meant = "True, False or a directory"

    def read(self, value: object, what: str = "") -> bool | str | os.PathLike[str]:
        if not isinstance(value, bool | str | os.PathLike):
            raise refusal(what, value, self.meant)
        return value


class _Address(FieldKind[str]):
    """A text alone: a number would be an address, but not the one that is meant."""

    meant = "a host's name or address, as in '127.0.0.1'"

    def read(self, value: object, what: str = "") -> str:
        if not isinstance(value, str):
            raise refusal(what, value, self.meant)
        return Text(0).read(value, what)


class _ClusterId(FieldKind[str]):
    meant = "a cluster id, 1 to 200 visible characters of ASCII"

    def read(self, value: object, what: str = "") -> str:
        from broker_sim.metadata.saved_state import CLUSTER_ID  # few starts name an id

        if not isinstance(value, str) or CLUSTER_ID.fullmatch(value) is None:
            raise refusal(what, value, self.meant)
        return value


class _Generator(FieldKind[random.Random]):
    meant = "a random.Random"

    def read(self, value: object, what: str = "") -> random.Random:
        if not isinstance(value, random.Random):
            raise refusal(what, value, self.meant)
        return value


_USUAL = {
    "configs": "config",
    "settings": "config",
    "version": "as_version",
    "kafka_version": "as_version",
    "topic": "topics",
}
"""Words of others for an argument, where the spelling is not near enough."""


class Options(TypedDict, total=False):
    """The arguments of a `Cluster` but ``brokers`` and ``topics``, which come first."""

    as_version: Annotated[
        ReleaseLiteral | str, about(Release(), "the Kafka release to behave as", default=DEFAULT_VERSION)
    ]
    config: Annotated[Mapping[str, object] | None, about(MapOf(SettingValue()), "settings by Kafka's names")]
    data_dir: Annotated[str | os.PathLike[str] | None, about(_Directory(), "data directory")]
    sync: Annotated[bool, about(Flag(), "call fsync before an append is acknowledged", default=False)]
    host: Annotated[str, about(_Address(), "address to listen on", default="127.0.0.1")]
    port: Annotated[int, about(Count(0, 65535), "port of the first broker; 0: free ports", default=0)]
    advertised_host: Annotated[str | None, about(_Address(), "host in the advertised listeners")]
    listeners: Annotated[
        str | Sequence[str] | None, about(ListOf(ListenerKind()), "further listeners, as listeners of Kafka")
    ]
    advertised_listeners: Annotated[
        str | Sequence[str] | None,
        about(
            ListOf(ListenerKind(advertised=True)), "addresses that clients receive, as advertised.listeners of Kafka"
        ),
    ]
    racks: Annotated[str | Sequence[str] | None, about(ListOf(Text()), "racks of the brokers, in turn")]
    clock: Annotated[Clock | ClockLiteral | str | None, about(_AnyClock(), "real, scaled:N, manual, or a clock object")]
    seed: Annotated[int | None, about(NameOrNumber(), "seed of the random numbers")]
    cluster_id: Annotated[str | None, about(_ClusterId(), "id of a new cluster")]
    security_protocol: Annotated[
        SecurityProtocolLiteral | str,
        about(Choice(SECURITY_PROTOCOLS), "what clients must do: security.protocol of Kafka", default="PLAINTEXT"),
    ]
    users: Annotated[Mapping[str, str] | None, about(MapOf(Password()), "passwords by user name, for SASL")]
    tls_dir: Annotated[
        str | os.PathLike[str] | None, about(_Directory(), "certificates of SSL and SASL_SSL, made where missing")
    ]
    internal_topics: Annotated[
        InternalTopicsLiteral | str,
        about(
            Choice(INTERNAL_TOPICS),
            "when __consumer_offsets and the other internal topics are created",
            default=ON_DEMAND,
        ),
    ]
    journal: Annotated[
        bool | str | os.PathLike[str],
        about(_FlagOrDirectory(), "record a journal; a path: into this directory", default=False),
    ]
    rng: Annotated[random.Random | None, about(_Generator(), "instead of a seed")]


_FIELDS = {
    "brokers": Field("brokers", Count(1), "how many", default=1),
    "topics": Field("topics", TopicsKind(limit=None), "what is there from the start"),
    **fields_of(Options),
}

ARGUMENTS = tuple(_FIELDS)


def read_options(given: Mapping[str, object], *, warns: bool = True) -> dict[str, Any]:
    """The arguments of a `Cluster` in their types, as far as they are given; ``listeners`` are all `ConfiguredListener`s, ``nodes`` the
    node id and rack of each broker. Raises WrongInput with all errors, also for settings that the release does not have and those that
    are refused. ``warns``: of settings without effect there is a SettingWarning."""
    problems = Problems()
    options: dict[str, Any] = {}
    with problems.at():
        options = read(_FIELDS, given, "a cluster", "argument", _USUAL)
    idle, settings = _take_settings(given, options, problems)
    options["listeners"] = configured(options, problems)
    options["nodes"] = _nodes(options)
    if settings is not None:
        _check_security(options, settings, problems)
    if options.get("rng") is not None and options.get("seed") is not None:
        problems.add(UsageError("seed and rng exclude each other; give one of them"), "rng")
    problems.check()
    if idle and warns:
        from broker_sim.config.effects import warn_of

        warn_of(idle, stacklevel=5)
    return options


_NODE_IDS, _RACK = ("node.id", "broker.id"), "broker.rack"


def _take_nodes(values: dict[str, object], options: dict[str, Any], problems: Problems) -> None:
    """Move Kafka's settings about the broker itself out of ``values`` into ``options``."""
    ids = {name: values.pop(name) for name in _NODE_IDS if name in values}
    ids = {name: value for name, value in ids.items() if str(value) != "-1"}  # the default before 4.0
    for name, value in ids.items():
        try:
            options["first_node_id"] = Count(0, 2**31 - 1 - options.get("brokers", 1)).read(value, name)
        except UsageError as error:
            problems.add(error, "config")
    if len({str(value) for value in ids.values()}) > 1:
        problems.add(UsageError("node.id and broker.id are different; give one of them"), "config")
    rack = values.pop(_RACK, None)
    if rack is not None and options.get("racks"):
        problems.add(UsageError("racks and the setting broker.rack exclude each other; give one of them"), "racks")
    elif rack is not None:
        options["racks"] = [str(rack)]


def _nodes(options: Mapping[str, Any]) -> list[tuple[int, str | None]]:
    """Node id and rack of each broker."""
    first, racks = options.get("first_node_id", 1), options.get("racks") or [None]
    return [(first + number, racks[number % len(racks)]) for number in range(options.get("brokers", 1))]


def _take_settings(
    given: Mapping[str, object], options: dict[str, Any], problems: Problems
) -> tuple[list[str], BrokerConfig | None]:
    """Whether the release has these settings, where both are what they must be at all; those that are arguments of the cluster become
    that. The names of those without effect, and all settings."""
    config, as_version = given.get("config"), given.get("as_version")
    try:
        values = {} if config is None else dict(_FIELDS["config"].read(config))
        release = DEFAULT_VERSION if as_version is None else _FIELDS["as_version"].read(as_version)
    except UsageError:
        return [], None  # which is reported already
    idle: list[str] = []
    if values:
        from broker_sim.config.effects import startup

        take_settings(values, options, problems)
        _take_nodes(values, options, problems)
        options["config"], idle, refused = startup(values, release)
        for line in refused:
            problems.add(UsageError(line), "config")
    try:
        return idle, BrokerConfig(options.get("config"), release)
    except ConfigError as error:
        for line in str(error).split("\n"):
            problems.add(UsageError(line), "config")
        return idle, None


def _check_security(options: Mapping[str, Any], settings: BrokerConfig, problems: Problems) -> None:
    """Whether users and certificates fit the security protocol."""
    secured = options.get("security_protocol", "PLAINTEXT"), options.get("users", {}), options.get("tls_dir")
    if secured == ("PLAINTEXT", {}, None):
        return
    from broker_sim.authentication.security import Security

    try:
        Security(*secured, settings)
    except UsageError as error:
        problems.add(error, "security_protocol")
