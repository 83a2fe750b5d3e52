"""Effects of settings that are given at the start: the broker acts on one, an option of the cluster replaces it, or it has no effect.

    startup({"num.partitions": "3", "num.io.threads": "9"}, "4.1").idle        # ["num.io.threads"]
    startup({"authorizer.class.name": "x.Acls"}, "4.1").refused                # ["authorizer.class.name ... there are no ACLs ..."]

Rules:
1. No setting of Kafka's is taken in silence without an effect: it is refused where something else sets it, or where a test would pass
   for nothing, and named in a warning otherwise. A default value is what the broker has anyway.
2. A name that no release from 3.4 on has is an error with the nearest one, unlike in Kafka, which only logs it: a typo is found.
Source: KafkaConfig.configDef of 3.4.0, 4.1.0 and 4.4.0.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import NamedTuple

from broker_sim.config.definitions import DOCS, OTHER_SETTINGS
from broker_sim.config.settings import broker_settings, parse_release, to_text

__all__ = ["OTHERS", "REFUSED", "SettingWarning", "Startup", "idle_text", "refusal", "startup", "warn_of"]

_LOGS = "use data_dir (serve --data)"
_PROTOCOL = "use security_protocol (serve --security-protocol)"
_CERTIFICATES = "use tls_dir (serve --tls-dir)"

REFUSED: Mapping[str, str] = {
    "authorizer.class.name": "there are no ACLs here: every client may do everything",
    "inter.broker.protocol.version": "use as_version (serve --as-version)",
    "log.dir": _LOGS,
    "log.dirs": _LOGS,
    "sasl.jaas.config": "use users (serve --user)",
    "security.inter.broker.protocol": _PROTOCOL,
    "ssl.keystore.certificate.chain": _CERTIFICATES,
    "ssl.keystore.key": _CERTIFICATES,
    "ssl.keystore.location": _CERTIFICATES,
    "ssl.truststore.certificates": _CERTIFICATES,
    "ssl.truststore.location": _CERTIFICATES,
}
"""Settings that something else sets, or whose absence would go unnoticed, with what to do."""

OTHERS = frozenset(OTHER_SETTINGS.split())
"""Settings of one release or another of which nothing is here, not even the value: they are not described."""

_OF_A_LISTENER = re.compile(r"listener\.name\.[^.]+\.(.+)")
"""Kafka's prefix for a setting of one listener (KIP-103, KIP-226)."""


class SettingWarning(UserWarning):
    """Settings of Kafka's were given that have no effect here."""


def refusal(name: str) -> str | None:
    """Reason why a setting is refused at the start, and what to use instead; None for one that is not refused."""
    use = REFUSED.get(_plain(name))
    return None if use is None else f"{name} can't be set by a setting: {use}"


class Startup(NamedTuple):
    """Settings given at the start: those that a `BrokerConfig` takes, the names of all without effect, a line for each refused one."""

    values: dict[str, object]
    idle: list[str]
    refused: list[str]


def startup(values: Mapping[str, object], as_version: str) -> Startup:
    """Sort the settings of a cluster of this release by their effect, in the order given. Raises ConfigError for an unknown release."""
    known = broker_settings(parse_release(as_version))
    result = Startup({}, [], [])
    for name, value in values.items():
        if name in known and _is_default(known[name].default, value):
            result.values[name] = value
        elif (why := refusal(name)) is not None:
            result.refused.append(why)
        elif name not in known and (name in OTHERS or _plain(name) != name):
            result.idle.append(name)
        else:  # an unknown one is BrokerConfig's to refuse
            result.values[name] = value
            if name in known and name not in DOCS:
                result.idle.append(name)
    return result


def idle_text(idle: list[str]) -> str:
    """The warning of settings without effect."""
    return f"no effect here: {', '.join(idle)} (docs/settings.md lists what each setting does)"


def warn_of(idle: list[str], stacklevel: int = 3) -> None:
    """Warn of settings without effect, if there are any; ``stacklevel`` as of `warnings.warn`."""
    if idle:
        warnings.warn(f"config: {idle_text(idle)}", SettingWarning, stacklevel=stacklevel)


def _plain(name: str) -> str:
    """The setting's name without the prefix of a listener."""
    match = _OF_A_LISTENER.fullmatch(name)
    return name if match is None else match[1]


def _is_default(default: str | None, value: object) -> bool:
    text = value if isinstance(value, str) else to_text(value)  # type: ignore[arg-type]
    return (text or "").strip() == (default or "")
