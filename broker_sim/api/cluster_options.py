"""What somebody gave a `Cluster`: looked at argument by argument, so that a mistake is one line that names it and what was meant.

    check({"brokers": "three"})     # UsageError: brokers='three': a whole number is meant, as in brokers=3
    topics_of(["orders", "payments:6"])

`Cluster`, the fixtures' marker and the command line come through here; Python's own errors would come from deep inside.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any, TypedDict

from broker_sim.common.clock import Clock, clock_of
from broker_sim.common.text import UsageError, unknown
from broker_sim.fields.kinds import MAX_ITEMS, Count, Kind, Setting, Text, refusal
from broker_sim.fields.problems import Problems

__all__ = ["ARGUMENTS", "NewTopic", "Options", "Topics", "TopicsKind", "check", "known", "topics_of"]

Topics = Mapping[str, int | Mapping[str, object]] | Sequence[str]
"""How topics may be given: ``{"orders": 6}``, ``{"orders": {"partitions": 6, "cleanup.policy": "compact"}}``, ``["orders",
"payments:6"]``, ``"orders"``. A name alone is one partition; -1 is the broker's num.partitions."""


class Options(TypedDict, total=False):
    """The arguments of a `Cluster` but ``brokers`` and ``topics``, which come first."""

    as_version: str
    config: Mapping[str, object] | None
    data_dir: str | os.PathLike[str] | None
    sync: bool
    host: str
    port: int
    advertised_host: str | None
    clock: Clock | str | None
    seed: int | None
    journal: bool | str | os.PathLike[str]
    rng: random.Random | None


ARGUMENTS = ("brokers", "topics", *Options.__annotations__)


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic that is to be there. Where ``partitions`` or ``replication_factor`` is -1 the broker's default is meant."""

    partitions: int = 1
    replication_factor: int = -1
    configs: dict[str, str] = field(default_factory=dict)


def check(options: Mapping[str, object]) -> None:
    """Raise UsageError with all arguments that can't be meant; those that are not given need not be there."""
    problems = Problems()
    for name, value in options.items():
        with problems.at(name):
            _check(name, value)
    problems.check()


def _check(name: str, value: object) -> None:
    kinds, meant = _KINDS[name]
    if value is None and name in _MAY_BE_NONE:
        return
    if name == "clock" and not isinstance(value, str):
        if not hasattr(value, "call_at_ms"):
            raise UsageError(f"clock={value!r}: {meant}")
    elif not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise UsageError(f"{name}={value!r}: {meant}")
    elif isinstance(value, str) and name == "clock":
        clock_of(value)
    elif name == "topics":
        topics_of(value)


def known(names: Iterable[str]) -> None:
    """Raise UsageError for an argument that a `Cluster` hasn't got."""
    for name in names:
        if name not in ARGUMENTS:
            meant = _USUAL.get(name)
            error = unknown("argument", name, ARGUMENTS)
            raise UsageError(f"no argument {name!r}; did you mean {meant!r}?") if meant else error


def topics_of(topics: object) -> dict[str, NewTopic]:
    """Every topic by its name. Raises UsageError."""
    if topics is None:
        return {}
    if isinstance(topics, str):
        topics = [topics]
    if isinstance(topics, Mapping):
        return {_name(name): _topic(name, given) for name, given in topics.items()}
    if not isinstance(topics, Iterable):
        raise UsageError(f"topics={topics!r}: {_KINDS['topics'][1]}")
    found: dict[str, NewTopic] = {}
    for each in topics:
        name, colon, count = _name(each).partition(":")
        if colon and not count.isdecimal():
            raise UsageError(
                f"topics: {each!r}: a number of partitions is meant behind the colon, as in {name + ':6'!r}"
            )
        found[name] = NewTopic(int(count) if colon else 1)
    return found


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise UsageError(f"topics: {name!r} is no topic's name; {_KINDS['topics'][1]}")
    return name


def _topic(name: str, given: object) -> NewTopic:
    if isinstance(given, Mapping):
        counts = {key: _count(name, key, given[key]) for key in _COUNTS if key in given}
        settings = {str(key): value for key, value in given.items() if key not in _COUNTS}
        read = {key: Setting().read(value, f"topics: {name!r}: {key}") for key, value in settings.items()}
        return NewTopic(**counts, configs=read)
    return NewTopic(_count(name, "partitions", given))


def _count(topic: str, what: str, value: object) -> int:
    try:
        return Count(-1).read(value)
    except UsageError:
        example = f"{{{topic!r}: 6}} or {{{topic!r}: {{'partitions': 6, 'cleanup.policy': 'compact'}}}}"
        raise UsageError(f"topics: {topic!r}: {value!r} is no number for {what}; {example} is meant") from None


class TopicsKind(Kind[dict[str, Any]]):
    """Topics as `topics_of` takes them; of a text those between commas (``orders:6,payments``), or what JSON makes of it."""

    meant = "a map of names to values"
    metavar = "K:V,..."

    def read(self, value: object, what: str = "") -> dict[str, Any]:
        """Names to partitions, or to a map with settings."""
        if isinstance(value, str) and value.lstrip().startswith("{"):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                raise refusal(what, value, self.meant) from None
        elif isinstance(value, str):
            value = [part.strip().replace("=", ":") for part in value.split(",") if part.strip()]
        if isinstance(value, Sized) and len(value) > MAX_ITEMS:
            raise UsageError(f"{what}: {len(value)} entries are too many, at most {MAX_ITEMS}")
        found: dict[str, Any] = {}
        for name, topic in topics_of(value).items():
            more = {
                **({} if topic.replication_factor == -1 else {"replication_factor": topic.replication_factor}),
                **topic.configs,
            }
            found[Text().read(name, what)] = {"partitions": topic.partitions, **more} if more else topic.partitions
        return found

    def schema(self) -> dict[str, Any]:
        """A map, or a list of ``NAME:PARTITIONS``."""
        one = {"anyOf": [{"type": "integer"}, {"type": "object"}]}
        listed = {"type": "array", "items": {"type": "string"}, "maxItems": MAX_ITEMS}
        return {"anyOf": [{"type": "object", "additionalProperties": one, "maxProperties": MAX_ITEMS}, listed]}


_COUNTS = ("partitions", "replication_factor")

_MAY_BE_NONE = ("topics", "config", "data_dir", "advertised_host", "clock", "seed", "rng")

_PATH = (str, os.PathLike)
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "brokers": ((int,), "a whole number is meant, as in brokers=3"),
    "topics": ((Iterable,), "topics are meant, as in topics=['orders', 'payments:6'] or topics={'orders': 6}"),
    "as_version": ((str,), "a release of Kafka in quotes is meant, as in as_version='3.9'"),
    "config": ((Mapping,), "settings by Kafka's names are meant, as in config={'num.partitions': 3}"),
    "data_dir": (_PATH, "a directory is meant, as in data_dir='kafka-data'"),
    "sync": ((bool,), "True or False is meant"),
    "host": ((str,), "an address to listen on is meant, as in host='127.0.0.1'"),
    "port": ((int,), "a port's number is meant, as in port=9092"),
    "advertised_host": ((str,), "a host name is meant, as in advertised_host='localhost'"),
    "clock": ((str,), "'real', 'scaled:10' or 'manual' is meant"),
    "seed": ((int, str), "a whole number or a text is meant, as in seed=7"),
    "journal": ((bool, *_PATH), "True, False or a directory is meant"),
    "rng": ((random.Random,), "a random.Random is meant"),
}
"""Argument -> what it may be, and the words for whoever gave something else."""

_USUAL = {
    "configs": "config",
    "settings": "config",
    "version": "as_version",
    "kafka_version": "as_version",
    "topic": "topics",
}
"""Words of others for an argument, where the spelling is not near enough."""
