"""Which requests somebody means: what a request is about, and selectors over it.

``facts_of(request, api_key)`` reads what rules, held orders and the journal ask of a request. Rules:

1. A request may be about several groups (DescribeGroups, OffsetFetch v8+), members (LeaveGroup v3+) and partitions; a selector
   takes it if one of them fits.
2. A partition of -1 is the topic as a whole (Metadata, CreateTopics). A request for all topics is about each of them.
3. An id of a topic that is not known is no name: such a partition has the topic "".
4. What an API can't carry can't be selected: ``selector_from`` refuses it, as it refuses unknown names, with the nearest known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypedDict

from broker_sim.words import UsageError, nearest, unknown
from kafka_wire.api_keys import DEFAULT_VERSION, ApiKey, advertised
from kafka_wire.schema import ZERO_UUID

if TYPE_CHECKING:
    from kafka_wire.messages.k01_fetch import FetchRequest
    from kafka_wire.messages.k09_offset_fetch import OffsetFetchRequest
    from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
    from kafka_wire.messages.k13_leave_group import LeaveGroupRequest

__all__ = [
    "API_NAMES",
    "KEYS",
    "ApiName",
    "Asked",
    "Facts",
    "Selector",
    "SelectorKeys",
    "api_key_of",
    "facts_of",
    "selector_from",
]

API_NAMES: dict[str, ApiKey] = {"".join(map(str.capitalize, key.name.split("_"))): key for key in ApiKey}
"""Kafka's name of an API -> its key."""

NAMES: dict[int, str] = {int(key): name for name, key in API_NAMES.items()}

ApiName = str | Iterable[str]
"""An API by Kafka's name in any case (``OffsetCommit``); several, with commas or as a list; ``*`` stands for any characters."""


class SelectorKeys(TypedDict, total=False):
    """Which requests: those that fit all that is given; what is None is not given."""

    version: int | str | None
    client_id: str | None
    group: str | None
    member: str | None
    topic: str | None
    partition: int | str | None
    broker: int | str | None


KEYS = ("api", *SelectorKeys.__annotations__)
"""The keys of a selector in mappings and calls."""

TopicNames = Callable[[bytes], str | None]
"""The name of a topic by its id."""

SessionPartitions = Callable[[int], Iterable[tuple[str, bytes, int]]]
"""What a Fetch session holds, by its id: topic names, ids and partitions."""


# --- what a request is about ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Facts:
    """The groups, member ids, instance ids and partitions that a request names; ``member`` and so on are the first of them."""

    groups: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    instances: tuple[str, ...] = ()
    topics: tuple[tuple[str, int], ...] = ()
    every_topic: bool = False
    """It asks for all topics without naming them."""

    @property
    def group(self) -> str | None:
        return self.groups[0] if self.groups else None

    @property
    def member(self) -> str | None:
        return self.members[0] if self.members else None

    @property
    def instance(self) -> str | None:
        return self.instances[0] if self.instances else None


NOTHING = Facts()
_GROUP, _MEMBER, _TOPIC, _PARTITION = "group", "member", "topic", "partition"

CARRIES: dict[int, tuple[str, ...]] = {
    ApiKey.PRODUCE: (_TOPIC, _PARTITION),
    ApiKey.FETCH: (_TOPIC, _PARTITION),
    ApiKey.LIST_OFFSETS: (_TOPIC, _PARTITION),
    ApiKey.METADATA: (_TOPIC,),
    ApiKey.OFFSET_COMMIT: (_GROUP, _MEMBER, _TOPIC, _PARTITION),
    ApiKey.OFFSET_FETCH: (_GROUP, _MEMBER, _TOPIC, _PARTITION),
    ApiKey.FIND_COORDINATOR: (_GROUP,),
    ApiKey.JOIN_GROUP: (_GROUP, _MEMBER),
    ApiKey.HEARTBEAT: (_GROUP, _MEMBER),
    ApiKey.LEAVE_GROUP: (_GROUP, _MEMBER),
    ApiKey.SYNC_GROUP: (_GROUP, _MEMBER),
    ApiKey.DESCRIBE_GROUPS: (_GROUP,),
    ApiKey.CREATE_TOPICS: (_TOPIC,),
    ApiKey.DELETE_TOPICS: (_TOPIC,),
    ApiKey.DELETE_RECORDS: (_TOPIC, _PARTITION),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (_TOPIC, _PARTITION),
    ApiKey.DESCRIBE_CONFIGS: (_TOPIC,),
    ApiKey.ALTER_CONFIGS: (_TOPIC,),
    ApiKey.DESCRIBE_LOG_DIRS: (_TOPIC, _PARTITION),
    ApiKey.CREATE_PARTITIONS: (_TOPIC,),
    ApiKey.DELETE_GROUPS: (_GROUP,),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (_TOPIC,),
    ApiKey.OFFSET_DELETE: (_GROUP, _TOPIC, _PARTITION),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (_TOPIC,),
}
"""What the requests of an API can name; the others name nothing."""


def facts_of(
    request: Any, api_key: int, *, names: TopicNames | None = None, session: SessionPartitions | None = None
) -> Facts:
    """What ``request`` is about. ``names`` resolves topic ids, ``session`` a Fetch that goes on with a session (KIP-227)."""
    carries = CARRIES.get(api_key)
    if carries is None or request is None:
        return NOTHING
    if api_key in _OF_GROUPS:
        groups, members, instances = _OF_GROUPS[api_key](request)
    else:
        groups, members, instances = (), (), ()
    topics: Iterable[tuple[str, int]] = ()
    if api_key in _OF_TOPICS:
        named = _OF_TOPICS[api_key](request)
        topics = [(name or _name_of(topic_id, names), partition) for name, topic_id, partition in named]
        if api_key == ApiKey.FETCH and session is not None and request.session_id and request.session_epoch > 0:
            topics += [
                (name or _name_of(topic_id, names), index) for name, topic_id, index in session(request.session_id)
            ]
            topics = dict.fromkeys(topics)
    return Facts(groups, members, instances, tuple(topics), _is_for_all(request, api_key))


def _is_for_all(request: Any, api_key: int) -> bool:
    if api_key in (ApiKey.METADATA, ApiKey.DESCRIBE_LOG_DIRS):
        return request.topics is None
    if api_key == ApiKey.DESCRIBE_TOPIC_PARTITIONS:
        return not request.topics
    if api_key == ApiKey.OFFSET_FETCH:
        return any(group.topics is None for group in request.groups) if request.groups else request.topics is None
    return False


def _name_of(topic_id: bytes, names: TopicNames | None) -> str:
    return "" if topic_id == ZERO_UUID or names is None else names(topic_id) or ""


_Groups = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]


def _one_member(request: Any) -> _Groups:
    instance = request.group_instance_id
    return (
        (request.group_id,),
        (request.member_id,) if request.member_id else (),
        () if instance is None else (instance,),
    )


def _leaving(request: LeaveGroupRequest) -> _Groups:
    members = [request.member_id, *(member.member_id for member in request.members)]
    instances = [member.group_instance_id for member in request.members]
    return (
        (request.group_id,),
        tuple(member for member in members if member),
        tuple(instance for instance in instances if instance is not None),
    )


def _fetching_offsets(request: OffsetFetchRequest) -> _Groups:
    if not request.groups:
        return (request.group_id,), (), ()
    members = tuple(group.member_id for group in request.groups if group.member_id)
    return tuple(group.group_id for group in request.groups), members, ()


def _looking_for(request: FindCoordinatorRequest) -> _Groups:
    if request.key_type != 0:
        return (), (), ()
    return tuple(request.coordinator_keys) or (request.key,), (), ()


_OF_GROUPS: dict[int, Callable[[Any], _Groups]] = {
    ApiKey.OFFSET_COMMIT: _one_member,
    ApiKey.OFFSET_FETCH: _fetching_offsets,
    ApiKey.FIND_COORDINATOR: _looking_for,
    ApiKey.JOIN_GROUP: _one_member,
    ApiKey.HEARTBEAT: _one_member,
    ApiKey.LEAVE_GROUP: _leaving,
    ApiKey.SYNC_GROUP: _one_member,
    ApiKey.DESCRIBE_GROUPS: lambda request: (tuple(request.groups), (), ()),
    ApiKey.DELETE_GROUPS: lambda request: (tuple(request.groups_names), (), ()),
    ApiKey.OFFSET_DELETE: lambda request: ((request.group_id,), (), ()),
}

_Named = list[tuple[str | None, bytes, int]]
"""Name, id, partition."""


def _fetching(request: FetchRequest) -> _Named:
    return [(topic.topic, topic.topic_id, one.partition) for topic in request.topics for one in topic.partitions]


def _fetched_offsets(request: OffsetFetchRequest) -> _Named:
    found: _Named = [(t.name, ZERO_UUID, index) for t in request.topics or () for index in t.partition_indexes]
    for group in request.groups:
        found += [(t.name, ZERO_UUID, index) for t in group.topics or () for index in t.partition_indexes]
    return found


def _by_partition_index(request: Any) -> _Named:
    return [(topic.name, ZERO_UUID, one.partition_index) for topic in request.topics for one in topic.partitions]


def _whole_topics(request: Any) -> _Named:
    return [(topic.name, getattr(topic, "topic_id", ZERO_UUID), -1) for topic in request.topics or ()]


_TOPIC_RESOURCE = 2


def _resources(request: Any) -> _Named:
    return [(one.resource_name, ZERO_UUID, -1) for one in request.resources if one.resource_type == _TOPIC_RESOURCE]


_OF_TOPICS: dict[int, Callable[[Any], _Named]] = {
    ApiKey.PRODUCE: lambda r: [(t.name, t.topic_id, one.index) for t in r.topic_data for one in t.partition_data],
    ApiKey.FETCH: _fetching,
    ApiKey.LIST_OFFSETS: _by_partition_index,
    ApiKey.METADATA: _whole_topics,
    ApiKey.OFFSET_COMMIT: _by_partition_index,
    ApiKey.OFFSET_FETCH: _fetched_offsets,
    ApiKey.CREATE_TOPICS: _whole_topics,
    ApiKey.DELETE_TOPICS: lambda r: [*_whole_topics(r), *((name, ZERO_UUID, -1) for name in r.topic_names)],
    ApiKey.DELETE_RECORDS: _by_partition_index,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: lambda r: [
        (t.topic, ZERO_UUID, p.partition) for t in r.topics for p in t.partitions
    ],
    ApiKey.DESCRIBE_CONFIGS: _resources,
    ApiKey.ALTER_CONFIGS: _resources,
    ApiKey.DESCRIBE_LOG_DIRS: lambda r: [(t.topic, ZERO_UUID, index) for t in r.topics or () for index in t.partitions],
    ApiKey.CREATE_PARTITIONS: _whole_topics,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _resources,
    ApiKey.OFFSET_DELETE: _by_partition_index,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _whole_topics,
}


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as selectors see it: who asks whom for what, and the facts."""

    api_key: int
    version: int
    client_id: str | None
    broker: int
    facts: Facts = NOTHING

    @property
    def api(self) -> str:
        return NAMES[self.api_key]

    def text(self) -> str:
        """For people: ``OffsetCommit v8 of 'app-1', group 'billing', member 'app-1-7c..', orders-0``."""
        facts = self.facts
        parts = [f"{self.api} v{self.version} of {self.client_id!r}"]
        parts += [f"group {_several(facts.groups)}"] if facts.groups else []
        parts += [f"member {_several(facts.members + facts.instances)}"] if facts.members or facts.instances else []
        parts += [_several([_partition_text(*one) for one in facts.topics], quote=False)] if facts.topics else []
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

    def matches(self, asked: Asked) -> bool:
        """Whether the request is one of those meant."""
        return (self.apis is None or asked.api_key in self.apis) and self.misfit(asked) is None

    def misfit(self, asked: Asked) -> str | None:
        """What besides the API does not fit, in words; None where all does."""
        facts = asked.facts
        if self.versions is not None and not self.versions[0] <= asked.version <= self.versions[1]:
            return f"its version is {asked.version}"
        if self.broker is not None and asked.broker != self.broker:
            return f"it went to broker {asked.broker}"
        if self.client_id is not None and not fits(self.client_id, asked.client_id):
            return f"its client id is {asked.client_id!r}"
        if self.group is not None and not any(fits(self.group, group) for group in facts.groups):
            return f"its group is {_several(facts.groups)}" if facts.groups else "it names no group"
        if self.member is not None and not any(fits(self.member, one) for one in facts.members + facts.instances):
            named = facts.members + facts.instances
            return f"its member is {_several(named)}" if named else "it names no member"
        named_or_all = facts.every_topic or self.topic is None
        if not named_or_all and not any(self.takes(topic, index) for topic, index in facts.topics):
            named = tuple(_partition_text(*one) for one in facts.topics)
            return f"it is about {_several(named, quote=False)}" if named else "it names no topic"
        return None

    def takes(self, topic: str, partition: int) -> bool:
        """Whether this partition is one of those selected."""
        return (self.topic is None or fits(self.topic, topic)) and self.partition in (None, partition)

    def to_dict(self) -> dict[str, Any]:
        """The mapping that :func:`selector_from` makes the same selector of."""
        out: dict[str, Any] = {}
        if self.apis is not None:
            names = [NAMES[key] for key in sorted(self.apis)]
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
    """Whether ``value`` is ``glob``, in which ``*`` stands for any characters; None fits no glob but ``*``."""
    if value is None:
        return glob == "*"
    return value == glob if "*" not in glob else _pattern(glob).fullmatch(value) is not None


def selector_from(
    values: Mapping[str, object], *, as_version: str = DEFAULT_VERSION, brokers: Iterable[int] | None = None
) -> Selector:
    """The selector of these ``KEYS``. Raises UsageError: a name that is not known, a version that an API has not got, what an API
    can't carry, a broker that is not one of ``brokers``.
    """
    for key in values:
        if key not in KEYS:
            raise unknown("selector", key, KEYS)
    apis = _apis(values.get("api"), as_version)
    versions = _versions(values.get("version"), apis, as_version)
    texts = {
        key: _text(key, values[key]) for key in ("client_id", "group", "member", "topic") if values.get(key) is not None
    }
    partition = _number("partition", values.get("partition"))
    broker = _number("broker", values.get("broker"))
    if partition is not None and "topic" not in texts:
        raise UsageError(f"partition {partition} without a topic: name the topic, too")
    if broker is not None and brokers is not None and broker not in (known := sorted(brokers)):
        raise UsageError(f"there is no broker {broker}; there is {', '.join(map(str, known))}")
    asked = [key for key in (_GROUP, _MEMBER, _TOPIC, _PARTITION) if values.get(key) is not None]
    for key in asked:
        if apis is not None and not any(key in CARRIES.get(api, ()) for api in apis):
            named = ", ".join(NAMES[api] for api in sorted(apis))
            carried = sorted({one for api in apis for one in CARRIES.get(api, ())})
            hint = f"they select by {', '.join(carried)}" if carried else "its requests name neither group nor topic"
            raise UsageError(f"{named} can't be selected by {key}: {hint}")
    return Selector(apis, versions, **texts, partition=partition, broker=broker)


def api_key_of(name: object, as_version: str = DEFAULT_VERSION) -> int:
    """The key of an API by Kafka's name in any case. Raises UsageError with the nearest."""
    known = {api: key for api, key in API_NAMES.items() if key in advertised(as_version)}
    found = {api.lower(): key for api, key in known.items()}.get(str(name).replace("_", "").lower())
    if found is None:
        if str(name).lower() in map(str.lower, API_NAMES):
            raise UsageError(f"Kafka {as_version} has no API {nearest(str(name), API_NAMES)}")
        raise unknown("API", name, known)
    return int(found)


def _apis(value: object, as_version: str) -> frozenset[int] | None:
    if value is None or value == "*":
        return None
    names = value.split(",") if isinstance(value, str) else list(value) if isinstance(value, Iterable) else [value]
    if not names:
        raise UsageError("api: an empty list selects nothing")
    keys: set[int] = set()
    for name in names:
        glob = str(name).strip()
        if "*" in glob:
            some = {int(key) for api, key in API_NAMES.items() if fits(glob.lower(), api.lower())}
            if not some:
                raise UsageError(f"no API is called {glob!r}")
            keys |= some
        else:
            keys.add(api_key_of(glob, as_version))
    return frozenset(keys)


def _versions(value: object, apis: frozenset[int] | None, as_version: str) -> tuple[int, int] | None:
    if value is None:
        return None
    match = re.fullmatch(r"\s*v?(\d{1,5})(?:\s*-\s*(\d{1,5}))?\s*", str(value))
    if match is None or isinstance(value, bool):
        raise UsageError(f"version: {value!r} is neither a version nor a range of them, as in 8 or 2-4")
    low, high = int(match[1]), int(match[2] or match[1])
    if low > high:
        raise UsageError(f"version: {low}-{high} is empty")
    if apis is not None:
        ranges = advertised(as_version)
        there = {api: ranges[api] for api in apis if api in ranges}
        if not any(low <= has[1] and has[0] <= high for has in there.values()):
            has_text = ", ".join(f"{NAMES[api]} has v{has[0]} to v{has[1]}" for api, has in sorted(there.items()))
            raise UsageError(f"version {value} is never asked: {has_text} in Kafka {as_version}")
    return low, high


def _text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{key}: {value!r} is not a string")
    return value


def _number(key: str, value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, str) and re.fullmatch(r"\d{1,9}", value):
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UsageError(f"{key}: {value!r} is not a number from 0")
    return value
