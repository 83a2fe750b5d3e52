"""Settings by Kafka's own names: parsed from strings, checked, with their defaults of each release and their sources.

    config = BrokerConfig({"num.partitions": "3"}, as_version="3.9")
    config.int("num.partitions")            # 3
    config["log.cleanup.policy"]            # ["delete"]

Rules:
1. What exists in which release, with type, default and range, is data: `definitions`. Here is only what is done with
   it.
2. A value comes from the first of: this broker's dynamic value, the cluster-wide dynamic value, the start-up value, the
   default (KIP-226). Topics put their own value before these, under the topic's name of the setting.
3. An unknown name or a wrong value is a ConfigError with Kafka's wording; it is raised before anything is changed.
"""

from __future__ import annotations

import builtins
import enum
import functools
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, cast

from broker_sim.common.text import expected
from broker_sim.config.definitions import BROKER_SETTINGS, DOCS, TOPIC_SETTINGS

DEFAULT_VERSION = "4.1"
FIRST_RELEASE = (3, 4)
LAST_RELEASE = (4, 4)

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""Kafka's values of security.protocol (SecurityProtocol)."""


def has_tls(security_protocol: str) -> bool:
    """Whether connections to a listener of this security.protocol are encrypted."""
    return security_protocol in ("SSL", "SASL_SSL")


Value = bool | int | float | str | list[str] | None


class ConfigError(ValueError):
    """An unknown setting of this release, or an invalid value; the text says what is expected."""


class ConfigType(enum.IntEnum):
    """Types as DescribeConfigs numbers them (ConfigEntry.ConfigType)."""

    BOOL = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSource(enum.IntEnum):
    """Source of a value, as DescribeConfigs numbers it (ConfigEntry.ConfigSource)."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


_BITS = {ConfigType.INT: 31, ConfigType.SHORT: 15, ConfigType.LONG: 63}
_THROTTLED = re.compile(r"([0-9]+:[0-9]+)?")
_INTEGER = re.compile(r"[+-]?[0-9]+")


class Setting(NamedTuple):
    """One setting of one release; `synonym` is the broker's setting behind a topic's."""

    name: str
    type: ConfigType
    default: str | None
    minimum: float | None = None
    maximum: float | None = None
    also: float | None = None
    choices: tuple[str, ...] = ()
    dynamic: bool = False
    internal: bool = False
    """Whether it is described only if it is set (ConfigDef.defineInternal)."""
    synonym: str | None = None
    whole: bool = False
    """Whether no item of a list may be empty: from 4.2 on, where its items are checked."""

    def parse(self, raw: object) -> Value:
        """The typed value of `raw` (a string, or a Python value of the type). Raises ConfigError in Kafka's words."""
        if raw is None:
            if self.default is None:
                return None
            raise self._refuse(raw, "the value must not be null")
        text = raw if isinstance(raw, str) else to_text(cast(Value, raw))
        assert text is not None
        value = self._typed(text.strip(), text)
        self._check(value)
        return value

    def _typed(self, text: str, raw: str) -> Value:
        kind = self.type
        if kind is ConfigType.BOOL:
            if text.lower() not in ("true", "false"):
                raise self._refuse(raw, "Expected value to be either true or false")
            return text.lower() == "true"
        if kind in _BITS:
            if not _INTEGER.fullmatch(text) or not -(1 << _BITS[kind]) <= int(text) < 1 << _BITS[kind]:
                raise self._refuse(raw, f"Not a number of type {kind.name}")
            return int(text)
        if kind is ConfigType.DOUBLE:
            try:
                return float(text)
            except ValueError:
                raise self._refuse(raw, "Not a number of type DOUBLE") from None
        if kind is ConfigType.LIST:
            return [part.strip() for part in text.split(",")] if text else []
        return text

    def _check(self, value: Value) -> None:
        if isinstance(value, int | float) and not isinstance(value, bool) and value != self.also:
            if self.also is not None and not cast(float, self.minimum) <= value <= cast(float, self.maximum):
                bounds = f"between {to_text(self.minimum)} and {to_text(self.maximum)} or equal to {to_text(self.also)}"
                raise self._refuse(value, f"Value must be {bounds}")
            if self.minimum is not None and value < self.minimum:
                raise self._refuse(value, f"Value must be at least {to_text(self.minimum)}")
            if self.maximum is not None and value > self.maximum:
                raise self._refuse(value, f"Value must be no more than {to_text(self.maximum)}")
        if isinstance(value, list) and self.name.endswith("replication.throttled.replicas"):
            self._check_throttled(value)
        if isinstance(value, str) and self.name == PER_ADDRESS:
            per_address(value)
        if self.whole and isinstance(value, list) and "" in value:
            raise ConfigError(f"Configuration '{self.name}' values must not be empty.")
        if self.choices:
            for item in value if isinstance(value, list) else [str(value)]:
                if item not in self.choices:
                    raise self._refuse(item, "String must be one of: " + ", ".join(self.choices))

    def _check_throttled(self, value: list[str]) -> None:
        if "".join(value) != "*" and not all(_THROTTLED.fullmatch(item) for item in value):
            form = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
            raise ConfigError(
                f"Invalid value [{', '.join(value)}] for configuration {self.name}: {self.name} must be the literal "
                f"'*' or a list of replicas in the following format: {form}"
            )

    def _refuse(self, value: object, why: str) -> ConfigError:
        shown = "null" if value is None else to_text(cast(Value, value))
        return ConfigError(f"Invalid value {shown} for configuration {self.name}: {why}")

    @property
    def doc(self) -> str:
        """One sentence in our own words."""
        return DOCS.get(self.name) or DOCS.get(self.synonym or "") or "Kept and shown; nothing here acts on it."


def to_text(value: Value) -> str | None:
    """The string in which Kafka shows a typed value (ConfigDef.convertToString); None for null."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _java_double(value)
    if isinstance(value, list):
        return ",".join(value)
    return str(value)


def _java_double(value: float) -> str:
    """As Java's Double.toString: 0.5, 1.0, 1.0E10, 1.7976931348623157E308."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' * (value < 0)}Infinity"
    # as many digits as repr needs, in the one notation that Java has for these
    digits = repr(abs(value)).partition("e")[0].replace(".", "").strip("0")
    mantissa, _, exponent = f"{value:.{max(len(digits) - 1, 1)}e}".partition("e")
    return f"{mantissa}E{int(exponent)}"


PER_ADDRESS = "max.connections.per.ip.overrides"


def per_address(text: str) -> dict[str, int]:
    """The number of connections by address, of ``127.0.0.1:5,localhost:9``. Raises ConfigError."""
    found: dict[str, int] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        host, colon, number = entry.rpartition(":")
        if not (colon and host.strip() and number.strip().isdecimal()):
            raise ConfigError(
                f"Error parsing configuration property '{PER_ADDRESS}': {entry!r} is no address with a number (expected 127.0.0.1:5)"
            )
        address = host.strip().strip("[]")
        for name in ("127.0.0.1", "::1") if address == "localhost" else (address,):
            found[name] = int(number)
    return found


def parse_release(as_version: str) -> tuple[int, int]:
    """(4, 1) of "4.1" or "4.1.0"; raises ConfigError unless it is a release from 3.4 on."""
    match = re.fullmatch(r"(\d+)\.(\d+)(\.\d+)?", as_version)
    release = (int(match[1]), int(match[2])) if match else (0, 0)
    if not FIRST_RELEASE <= release <= LAST_RELEASE or (release[0] == 3 and release[1] > 9):
        raise ConfigError(f"no Kafka release {as_version!r} (expected 3.4 to 3.9, or 4.0 to 4.4)")
    return release


# ------------------------------------------------------------------------------------------------ the table, read


def _read_line(line: str, release: tuple[int, int], synonym: str | None = None) -> Setting | None:
    """The setting of one line of config_defs as `release` has it, or None where it does not have it."""
    name, kind, default, *rest = line.split()
    setting: dict[str, object] = {}
    for word in rest:
        key, _, value = word.partition("=")
        if (key == "since" and release < parse_release(value)) or (key == "until" and release > parse_release(value)):
            return None
        if key == "was" and release < (4, 0):
            default = value or '""'
        elif key == "default":
            default = value
        elif word == "dynamic":
            setting["dynamic"] = True
        elif word == "internal":
            setting["internal"] = True
        elif word.startswith(">="):
            setting["minimum"] = float(word[2:]) if "." in word else int(word[2:])
        elif key == "was_min" and release < (4, 0):
            setting["minimum"] = int(value)
        elif word.startswith("in:"):
            setting.update(choices=tuple(word[3:].split(",")), whole=kind == "list" and release >= (4, 2))
        elif ".." in word:
            low, _, high = word.partition("..")
            high, _, also = high.partition("|")
            setting.update(minimum=int(low), maximum=int(high), also=int(also) if also else None)
    text = {"-": None, '""': ""}.get(default, default)
    return Setting(name, ConfigType[kind.upper()], text, synonym=synonym, **setting)  # type: ignore[arg-type]


@functools.cache
def broker_settings(release: tuple[int, int]) -> Mapping[str, Setting]:
    """Every broker setting of `release` by name."""
    lines = (_read_line(line, release) for line in BROKER_SETTINGS.strip().splitlines())
    settings = {setting.name: setting for setting in lines if setting is not None}
    if "inter.broker.protocol.version" in settings:
        shown = "{}.{}-IV0".format(*release)
        name = "inter.broker.protocol.version"
        settings[name] = settings[name]._replace(default=shown)
    return settings


@functools.cache
def topic_settings(release: tuple[int, int]) -> Mapping[str, Setting]:
    """Every topic setting of `release` by the topic's name; type, range and default are the broker's where it names
    one.
    """
    lines = {line.split()[0]: line for line in BROKER_SETTINGS.strip().splitlines()}
    settings: dict[str, Setting] = {}
    for line in TOPIC_SETTINGS.strip().splitlines():
        name, synonym, *rest = line.split()
        words = rest if synonym == "-" else lines[synonym].split()[1:] + rest
        setting = _read_line(" ".join([name, *words]), release, None if synonym == "-" else synonym)
        if setting is not None:
            settings[name] = setting
    return settings


def _unknown(name: str, known: Iterable[str], what: str) -> ConfigError:
    return ConfigError(f"unknown {what} {name!r}; {expected(name, known)}")


_GROUPS = (
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
)
_IN_MS = {"hours": 3_600_000, "minutes": 60_000, "ms": 1}


def _synonym_names(name: str) -> tuple[str, ...]:
    return next((group for group in _GROUPS if name in group), (name,))


class ConfigEntry(NamedTuple):
    """A value under a name, and where it comes from."""

    name: str
    value: str | None
    source: ConfigSource


class BrokerConfig:
    """The settings of a cluster's brokers: those given at the start and those altered since, with defaults behind them.

    `values` are start-up settings (strings or Python values); `as_version` is the Kafka release that is simulated.
    Raises ConfigError for a setting that this release doesn't have and for a value that it refuses.
    """

    def __init__(self, values: Mapping[str, object] | None = None, as_version: str = DEFAULT_VERSION) -> None:
        self.release = parse_release(as_version)
        self.as_version = "{}.{}".format(*self.release)
        self.settings = broker_settings(self.release)
        self.topic_settings = topic_settings(self.release)
        self.static: dict[str, str | None] = {}
        self.dynamic_default: dict[str, str | None] = {}
        self.dynamic_broker: dict[int, dict[str, str | None]] = {}
        self._on_change: list[Callable[[], None]] = []
        self._typed: dict[str, Value] = {}
        wrong: list[str] = []
        for name, raw in (values or {}).items():
            try:
                self.static[name] = to_text(self.setting(name).parse(raw))
            except ConfigError as error:
                wrong.append(str(error))
        if wrong:
            raise ConfigError("\n".join(wrong))
        if self.release >= (4, 1):  # KIP-966: the controller keeps it as a cluster-wide value from the format on
            self.dynamic_default["min.insync.replicas"] = self.static.get("min.insync.replicas", "1")

    @property
    def coordinator(self) -> builtins.str:
        """ "scala" up to 3.9, "java" from 4.0 on: which generation of the group coordinator this release runs."""
        return "java" if self.release >= (4, 0) else "scala"

    @property
    def has_consumer_protocol(self) -> builtins.bool:
        """Whether there are consumer groups of KIP-848: from 4.0 on, unless they are switched off."""
        return self.release >= (4, 0) and "consumer" in self.list("group.coordinator.rebalance.protocols")

    @property
    def has_share_groups(self) -> builtins.bool:
        """Whether there are share groups (KIP-932): from 4.2 on; in 4.1, a preview, if ``share`` is among the protocols."""
        return self.release >= (4, 2) or (
            self.release >= (4, 1) and "share" in self.list("group.coordinator.rebalance.protocols")
        )

    @property
    def has_streams_groups(self) -> builtins.bool:
        """Whether there are streams groups (KIP-1071): from 4.2 on, unless they are switched off."""
        return self.release >= (4, 2) and "streams" in self.list("group.coordinator.rebalance.protocols")

    def setting(self, name: builtins.str) -> Setting:
        """The definition of a broker setting; raises ConfigError naming the nearest one."""
        try:
            return self.settings[name]
        except KeyError:
            raise _unknown(name, self.settings, f"setting of a Kafka {self.as_version} broker:") from None

    def topic_setting(self, name: builtins.str) -> Setting:
        """The definition of a topic setting; raises ConfigError in Kafka's words."""
        if name not in self.topic_settings:
            raise ConfigError(f"Unknown topic config name: {name}")
        return self.topic_settings[name]

    def given(self, name: builtins.str) -> builtins.bool:
        """Whether the setting was set, at the start or since."""
        return name in self.static or name in self.dynamic_default

    def assume(self, name: builtins.str, value: object) -> None:
        """Set the start-up value of a setting unless the user has set one. Raises ConfigError."""
        if not self.given(name):
            self.static[name] = to_text(self.setting(name).parse(value))
            self._typed.clear()

    # -------------------------------------------------------------------------------------------- values

    def __getitem__(self, name: builtins.str) -> Value:
        """The typed value, cluster-wide. Raises ConfigError for an unknown name."""
        try:
            return self._typed[name]
        except KeyError:
            value = self._typed[name] = self.value(name)
            return value

    def value(self, name: builtins.str, node_id: builtins.int | None = None) -> Value:
        """The typed value as broker `node_id` sees it (None: without any broker's own)."""
        setting = self.setting(name)
        for values in (
            self.dynamic_broker.get(-1 if node_id is None else node_id, {}),
            self.dynamic_default,
            self.static,
        ):
            if name in values:
                return setting.parse(values[name])
        return None if setting.default is None else setting._typed(setting.default, setting.default)

    def entries(self, name: builtins.str, node_id: builtins.int | None = None) -> list[ConfigEntry]:
        """All values of a broker setting by source, the effective one first; an empty list if all are null.

        As in ConfigHelper: the settings that mean the same (hours, minutes, ms) follow, those before the name asked are
        dropped.
        """
        layers = (
            (ConfigSource.DYNAMIC_BROKER, self.dynamic_broker.get(-1 if node_id is None else node_id, {})),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER, self.dynamic_default),
            (ConfigSource.STATIC_BROKER, self.static),
            (ConfigSource.DEFAULT, None),
        )
        entries: list[ConfigEntry] = []
        for source, values in layers:
            for synonym in _synonym_names(name):
                value = self.setting(synonym).default if values is None else values.get(synonym)
                if value is not None:
                    entries.append(ConfigEntry(synonym, value, source))
        first = next((i for i, entry in enumerate(entries) if entry.name == name), len(entries))
        return entries[first:]

    # -------------------------------------------------------------------------------------------- topics

    def topic_value(
        self, name: builtins.str, overrides: Mapping[builtins.str, builtins.str], node_id: builtins.int | None = None
    ) -> Value:
        """The typed value of a topic's setting: its own, else the broker's, else the default."""
        setting = self.topic_setting(name)
        if name in overrides:
            return setting.parse(overrides[name])
        if setting.synonym is not None:
            for synonym in _synonym_names(setting.synonym):
                value = self.value(synonym, node_id)
                if value is not None:
                    unit = _IN_MS[synonym.rpartition(".")[2]] if len(_synonym_names(setting.synonym)) > 1 else 1
                    return value * unit if isinstance(value, int) and unit != 1 else value
        return None if setting.default is None else setting._typed(setting.default, setting.default)

    def topic_entries(
        self, name: builtins.str, overrides: Mapping[builtins.str, builtins.str], node_id: builtins.int | None = None
    ) -> list[ConfigEntry]:
        """As `entries`, for a topic's setting."""
        setting = self.topic_setting(name)
        own = [ConfigEntry(name, overrides[name], ConfigSource.TOPIC)] if name in overrides else []
        return own + (self.entries(setting.synonym, node_id) if setting.synonym else [])

    def check_topic(self, overrides: Mapping[builtins.str, object]) -> dict[builtins.str, builtins.str]:
        """The overrides of a topic as strings, every one checked alone and with the others. Raises ConfigError
        (LogConfig.validate).
        """
        checked: dict[str, str] = {}
        for name in overrides:
            self.topic_setting(name)  # names come first, then values
        for name, raw in overrides.items():
            text = to_text(self.topic_setting(name).parse(raw))
            if text is not None:
                checked[name] = text
        low, high = (
            cast(int, self.topic_value(n, checked)) for n in ("min.compaction.lag.ms", "max.compaction.lag.ms")
        )
        if low > high:
            raise ConfigError(
                f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})"
            )
        if checked.get("remote.storage.enable") == "true":
            raise ConfigError(
                "Tiered Storage functionality is disabled in the broker. "
                "Topic cannot be configured with remote log storage."
            )
        return checked

    # -------------------------------------------------------------------------------------------- alterations

    def alter(self, node_id: builtins.int | None, values: Mapping[builtins.str, builtins.str | None]) -> None:
        """Replace the dynamic values of one broker (None: the cluster-wide ones); values were checked by
        `setting(...).parse`.
        """
        if node_id is None:
            self.dynamic_default = dict(values)
        else:
            self.dynamic_broker[node_id] = dict(values)
        self._typed.clear()
        for callback in self._on_change:
            callback()

    def restore(self, default: Mapping[builtins.str, builtins.str | None], brokers: Mapping[builtins.int, Any]) -> None:
        """Restore the settings altered before a restart, without calling the listeners. Settings unknown to this release are
        dropped."""
        known = self.settings
        self.dynamic_default.update({name: value for name, value in default.items() if name in known})
        for node, values in brokers.items():
            self.dynamic_broker[node] = {name: value for name, value in values.items() if name in known}
        self._typed.clear()

    def on_change(self, callback: Callable[[], None]) -> None:
        """`callback` runs after every alteration."""
        self._on_change.append(callback)

    # The typed readers come last: inside the class their names hide the builtins'.

    def bool(self, name: builtins.str) -> builtins.bool:
        """The effective value of a broker setting of type boolean."""
        value = self[name]
        assert isinstance(value, builtins.bool), name
        return value

    def float(self, name: builtins.str) -> builtins.float:
        """The effective value of a broker setting of type double."""
        return builtins.float(cast(builtins.float, self[name]))

    def list(self, name: builtins.str) -> builtins.list[builtins.str]:
        """The effective value of a broker setting of type list."""
        value = self[name]
        assert isinstance(value, builtins.list), name
        return value

    def str(self, name: builtins.str) -> builtins.str:
        """A string setting's value; "" for null."""
        return cast(builtins.str, self[name]) or ""

    def int(self, name: builtins.str) -> builtins.int:
        """A short, int or long setting's value."""
        value = self[name]
        assert isinstance(value, builtins.int), name
        return value
