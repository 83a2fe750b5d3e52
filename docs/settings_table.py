"""Writes settings.md: what each of Kafka's settings does here, from the definitions (`broker_sim/config`)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from broker_sim.config.definitions import BROKER_SETTINGS, DOCS, TOPIC_SETTINGS
from broker_sim.config.effects import OTHERS, REFUSED

TARGET = Path(__file__).resolve().parent / "settings.md"

TEXT = """\
# Settings

For users of `--config NAME=VALUE`, `config=` and the topics' settings: what each setting of Kafka 3.4 to 4.4 does here. Written by
`make docs` from `broker_sim/config`.

Names, types, defaults and ranges are those of the release (`--as-version`); an invalid value gets Kafka's error. What happens to a
setting that is given at the start:

| kind | result |
|---|---|
| the broker acts on it | it is set, and shown by DescribeConfigs |
| an option sets it, or a test of it would pass for nothing | refused, with what to use instead |
| it has no effect | one warning with the names of all of them: a line of `serve`, a `SettingWarning` in Python |
| its default value | accepted in any case |
| no release has it | refused, with the nearest name (Kafka only logs it) |

A setting of one listener (`listener.name.external.ssl.client.auth`) has no effect. A dynamic setting without effect that a client
alters is a warning in the broker's log.

## Settings of brokers on which the broker acts

{acts}

## Settings of topics on which the broker acts

{topics}

## Refused

{refused}

## Without effect

Kept and shown by DescribeConfigs: {kept}.

Neither kept nor shown: {others}.
"""


def render() -> str:
    """The whole of settings.md."""
    brokers = {line.split()[0] for line in BROKER_SETTINGS.strip().splitlines()}
    topics = {line.split()[0]: line.split()[1] for line in TOPIC_SETTINGS.strip().splitlines()}
    acting = {name: DOCS.get(name) or DOCS.get(synonym) for name, synonym in topics.items()}
    return TEXT.format(
        acts=_table("setting", "effect", sorted(DOCS.items())),
        topics=_table("setting", "effect", sorted((name, text) for name, text in acting.items() if text)),
        refused=_table("setting", "instead", sorted(REFUSED.items())),
        kept=_names(
            [*(brokers - DOCS.keys() - REFUSED.keys()), *(f"{name}" for name, text in acting.items() if not text)]
        ),
        others=_names(OTHERS - REFUSED.keys()),
    )


def _table(first: str, second: str, rows: Iterable[tuple[str, str]]) -> str:
    return "\n".join([f"| {first} | {second} |", "|---|---|", *(f"| `{name}` | {text} |" for name, text in rows)])


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(set(names)))
