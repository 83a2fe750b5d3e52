"""Selectors of requests, over the facts of a request. Rules:

1. Of a request that is about several groups, members or partitions a selector takes it if one of them fits.
2. What an API can't carry can't be selected: ``selector_from`` refuses it, as it refuses unknown names, with the nearest known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, TypedDict

from broker_sim.common.text import UsageError, nearest, unknown
from broker_sim.fields.field import about, fields_of, read
from broker_sim.fields.kafka import ApiNames, VersionRange
from broker_sim.fields.kinds import Count, Text
from broker_sim.fields.names import ApiLiteral
from broker_sim.fields.problems import Problems
from broker_sim.requests.facts import NOTHING, SELECTABLE, RequestFacts, carried_by
from kafka_wire.api_keys import API_NAMES, DEFAULT_VERSION, ApiKey, advertised

__all__ = [
    "FIELDS",
    "KEYS",
    "ApiName",
    "Asked",
    "Selector",
    "SelectorKeys",
    "api_key_of",
    "selector_from",
    "selector_of",
]

ApiName = ApiLiteral | str | Iterable[str]
"""An API by Kafka's name in any case (``OffsetCommit``); several, with commas or as a list; ``*`` matches any characters."""


class SelectorKeys(TypedDict, total=False):
    """Keys that select requests: those that fit all given keys; a key with None is not given."""

    version: Annotated[int | str | None, about(VersionRange(), "API versions: 8 or 2-4")]
    client_id: Annotated[str | None, about(Text(0), "client id; * matches anything")]
    group: Annotated[str | None, about(Text(0), "group id in the request; * matches anything", example="billing")]
    member: Annotated[str | None, about(Text(), "member id or instance id in the request; * matches anything")]
    transactional_id: Annotated[str | None, about(Text(), "transactional id in the request; * matches anything")]
    topic: Annotated[str | None, about(Text(), "topic in the request; * matches anything")]
    partition: Annotated[int | str | None, about(Count(0, 2**31 - 1), "a partition of that topic")]
    broker: Annotated[int | str | None, about(Count(0, 2**31 - 1), "only at the broker with this node id")]


class _ApiKey(TypedDict, total=False):
    """The selector that calls take as the first positional argument: ``kafka.fault("OffsetCommit", ...)``."""

    api: Annotated[
        ApiName | None,
        about(
            ApiNames(),
            "API name, for example OffsetCommit, or a list; * matches anything (default: all)",
            example="OffsetCommit",
        ),
    ]


FIELDS = {**fields_of(_ApiKey), **fields_of(SelectorKeys)}
"""The fields of a selector, by their names."""

KEYS = tuple(FIELDS)
"""The keys of a selector in mappings and calls."""

_NAMES = {int(key): key.kafka_name for key in ApiKey}


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as selectors see it: who asks whom for what, and the facts."""

    api_key: int
    version: int
    client_id: str | None
    broker: int
    facts: RequestFacts = NOTHING

    @property
    def api(self) -> str:
        return _NAMES[self.api_key]

    def text(self) -> str:
        """For people: ``OffsetCommit v8 of 'app-1', group 'billing', member 'app-1-7c..', orders-0``."""
        facts = self.facts
        parts = [f"{self.api} v{self.version} of {self.client_id!r}"]
        parts += [f"group {_several(facts.groups)}"] if facts.groups else []
        parts += [f"member {_several(facts.members + facts.instances)}"] if facts.members or facts.instances else []
        parts += [f"transactional id {_several(facts.transactional_ids)}"] if facts.transactional_ids else []
        parts += [_several([_partition_text(*topic) for topic in facts.topics], quote=False)] if facts.topics else []
        parts += ["all topics"] if facts.every_topic else []
        return ", ".join([*parts, f"at broker {self.broker}"])


def _partition_text(topic: str, partition: int) -> str:
    return topic if partition < 0 else f"{topic}-{partition}"


def _several(values: Iterable[str], quote: bool = True) -> str:
    shown = [repr(value) if quote else value for value in values]
    return " ".join(shown[:3]) + (f" and {len(shown) - 3} more" if len(shown) > 3 else "")


# --- selectors --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Selector:
    """Requests that fit all of these; None fits any. Strings may hold ``*`` for any characters, ``apis`` are keys."""

    apis: frozenset[int] | None = None
    versions: tuple[int, int] | None = None
    client_id: str | None = None
    group: str | None = None
    member: str | None = None
    topic: str | None = None
    partition: int | None = None
    broker: int | None = None
    transactional_id: str | None = None

    def matches(self, asked: Asked) -> bool:
        """Whether the request is one of those meant."""
        return (self.apis is None or asked.api_key in self.apis) and self.misfit(asked) is None

    def misfit(self, asked: Asked) -> str | None:
        """Reason why a request does not fit, besides its API, as text; None if it fits."""
        facts = asked.facts
        if self.versions is not None and not self.versions[0] <= asked.version <= self.versions[1]:
            return f"its version is {asked.version}"
        if self.broker is not None and asked.broker != self.broker:
            return f"it went to broker {asked.broker}"
        if self.client_id is not None and not fits(self.client_id, asked.client_id):
            return f"its client id is {asked.client_id!r}"
        if self.group is not None and not any(fits(self.group, group) for group in facts.groups):
            return f"its group is {_several(facts.groups)}" if facts.groups else "it names no group"
        if self.member is not None and not any(fits(self.member, name) for name in facts.members + facts.instances):
            named = facts.members + facts.instances
            return f"its member is {_several(named)}" if named else "it names no member"
        wanted = self.transactional_id
        if wanted is not None and not any(fits(wanted, name) for name in facts.transactional_ids):
            named = facts.transactional_ids
            return f"its transactional id is {_several(named)}" if named else "it names no transactional id"
        named_or_all = facts.every_topic or self.topic is None
        if not named_or_all and not any(self.takes(topic, index) for topic, index in facts.topics):
            named = tuple(_partition_text(*topic) for topic in facts.topics)
            return f"it is about {_several(named, quote=False)}" if named else "it names no topic"
        return None

    def takes(self, topic: str, partition: int) -> bool:
        """Whether this partition is one of those selected."""
        return (self.topic is None or fits(self.topic, topic)) and self.partition in (None, partition)

    def to_dict(self) -> dict[str, Any]:
        """The mapping that :func:`selector_from` makes the same selector of."""
        out: dict[str, Any] = {}
        if self.apis is not None:
            names = [ApiKey(key).kafka_name for key in sorted(self.apis)]
            out["api"] = names[0] if len(names) == 1 else names
        if self.versions is not None:
            low, high = self.versions
            out["version"] = low if low == high else f"{low}-{high}"
        for key in KEYS[2:]:
            value = getattr(self, key)
            if value is not None:
                out[key] = value
        return out

    def text(self) -> str:
        """For people: ``OffsetCommit v2-4 client_id=app group=billing``, ``every request``."""
        values = self.to_dict()
        apis = values.pop("api", "every request")
        words = [apis if isinstance(apis, str) else "/".join(apis)]
        if "version" in values:
            words.append(f"v{values.pop('version')}")
        return " ".join(words + [f"{key}={value}" for key, value in values.items()])


@cache
def _pattern(glob: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, glob.split("*"))), re.DOTALL)


def fits(glob: str, value: str | None) -> bool:
    """Whether ``value`` matches ``glob``, in which ``*`` matches any characters; None matches only ``*``."""
    if value is None:
        return glob == "*"
    return value == glob if "*" not in glob else _pattern(glob).fullmatch(value) is not None


def selector_from(
    values: Mapping[str, object], *, as_version: str = DEFAULT_VERSION, brokers: Iterable[int] | None = None
) -> Selector:
    """The selector of these ``KEYS``. Raises UsageError: a name that is not known, a version that an API has not got, what an API
    can't carry, a broker that is not one of ``brokers``.
    """
    return selector_of(read(FIELDS, values, "a selector", "selector"), as_version=as_version, brokers=brokers)


def selector_of(
    given: Mapping[str, Any], *, as_version: str = DEFAULT_VERSION, brokers: Iterable[int] | None = None
) -> Selector:
    """As `selector_from`, of values that were read; other keys may be among them."""
    problems = Problems()
    apis: frozenset[int] | None = None
    versions: tuple[int, int] | None = None
    with problems.at("api"):
        apis = _apis(given.get("api"), as_version)
    if "version" in given:
        with problems.at("version"):
            versions = _versions(given["version"], apis, as_version)
    partition, broker = given.get("partition"), given.get("broker")
    if partition is not None and "topic" not in given:
        problems.add(UsageError(f"partition {partition} without a topic: name the topic, too"), "partition")
    if broker is not None and brokers is not None and broker not in (known := sorted(brokers)):
        problems.add(unknown("broker", broker, map(str, known)), "broker")
    for key in SELECTABLE:
        if key in given:
            with problems.at(key):
                _look_carried(key, apis)
    problems.check()
    texts = {field: given.get(field) for field in ("client_id", "group", "member", "transactional_id", "topic")}
    return Selector(apis, versions, **texts, partition=partition, broker=broker)


def _look_carried(what: str, apis: frozenset[int] | None) -> None:
    """Raise UsageError where none of these APIs can carry that."""
    if apis is not None and not any(what in carried_by(api) for api in apis):
        named = ", ".join(ApiKey(api).kafka_name for api in sorted(apis))
        carried = sorted({selector for api in apis for selector in carried_by(api)})
        hint = f"they select by {', '.join(carried)}" if carried else "its requests name neither group nor topic"
        raise UsageError(f"{named} can't be selected by {what}: {hint}")


def api_key_of(name: object, as_version: str = DEFAULT_VERSION) -> ApiKey:
    """The key of an API by Kafka's name in any case. Raises UsageError with the nearest."""
    known = {api: key for api, key in API_NAMES.items() if key in advertised(as_version)}
    api_key = {api.lower(): key for api, key in known.items()}.get(str(name).replace("_", "").lower())
    if api_key is None:
        if str(name).lower() in map(str.lower, API_NAMES):
            raise UsageError(f"Kafka {as_version} has no API {nearest(str(name), API_NAMES)}")
        raise unknown("API", name, known)
    return api_key


def _apis(value: str | list[str] | None, as_version: str) -> frozenset[int] | None:
    if value is None or value == "*":
        return None
    keys: set[int] = set()
    for name in [value] if isinstance(value, str) else value:
        if "*" in name:
            some = {int(key) for api, key in API_NAMES.items() if fits(name.lower(), api.lower())}
            if not some:
                raise UsageError(f"invalid API {name!r} (expected a name, or a list of names)")
            keys |= some
        else:
            keys.add(api_key_of(name, as_version))
    return frozenset(keys)


def _versions(value: object, apis: frozenset[int] | None, as_version: str) -> tuple[int, int]:
    low, high = VersionRange().bounds(value, "version")
    if apis is not None:
        ranges = advertised(as_version)
        there = {api: ranges[api] for api in apis if api in ranges}
        if not any(low <= has[1] and has[0] <= high for has in there.values()):
            has_text = ", ".join(
                f"{ApiKey(api).kafka_name} has v{has[0]} to v{has[1]}" for api, has in sorted(there.items())
            )
            raise UsageError(f"version {value} can't match: {has_text} in Kafka {as_version}")
    return low, high
