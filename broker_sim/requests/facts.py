"""Facts about a request: the groups, members, topics and transactional ids that it names, read by the entities of its fields.

``facts_of(request, version)`` is for rules, held orders and the journal. Rules:

1. A request may be about several groups (DescribeGroups, OffsetFetch v8+), members (LeaveGroup v3+) and partitions.
2. A partition of -1 is the topic as a whole (Metadata, CreateTopics). A request for all topics is about each of them.
3. An id of a topic that is not known is no name: such a partition has the topic "".

For each message class and version one function is made, as ``kafka_wire.codegen`` makes decoders: with a tap every request pays for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from broker_sim.requests.traits import SessionPartitions
from kafka_wire.api_keys import message_class
from kafka_wire.schema import ZERO_UUID, All, Entity, EntityBy, FieldSpec

__all__ = ["RequestFacts", "TopicNames", "carried_by", "facts_of"]

TopicNames = Callable[[bytes], str | None]
"""The name of a topic by its id."""


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """The groups, member ids, instance ids and partitions that a request names; ``member`` and so on are the first of them."""

    groups: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    instances: tuple[str, ...] = ()
    topics: tuple[tuple[str, int], ...] = ()
    every_topic: bool = False
    """Whether the request is for all topics without naming them."""
    transactional_ids: tuple[str, ...] = ()

    @property
    def group(self) -> str | None:
        return self.groups[0] if self.groups else None

    @property
    def member(self) -> str | None:
        return self.members[0] if self.members else None

    @property
    def instance(self) -> str | None:
        return self.instances[0] if self.instances else None


NOTHING = RequestFacts()

SELECTABLE = ("group", "member", "transactional_id", "topic", "partition")
"""Entities by which requests can be selected, besides client and broker."""


def facts_of(
    request: object, version: int, *, names: TopicNames | None = None, held: SessionPartitions = ()
) -> RequestFacts:
    """Return the entities that ``request`` names. ``names`` resolves topic ids; ``held``: the partitions of its fetch session."""
    if request is None:
        return NOTHING
    cls: Any = type(request)
    groups, members, instances, named, ids, every_topic = _reader(cls, version)(request)
    topics = [(name or _name_of(topic_id, names), partition) for name, topic_id, partition in named]
    if held:
        topics += [(name or _name_of(topic_id, names), partition) for name, topic_id, partition in held]
        topics = list(dict.fromkeys(topics))
    return RequestFacts(groups, members, instances, tuple(topics), every_topic, ids)


def _name_of(topic_id: bytes, names: TopicNames | None) -> str:
    return "" if topic_id == ZERO_UUID or names is None else names(topic_id) or ""


@cache
def carried_by(api_key: int) -> frozenset[str]:
    """Entities of ``SELECTABLE`` that requests of an API name in any version. Imports the API's messages."""
    cls = message_class(api_key, "Request")
    selectors: set[str] = set()
    for version in range(cls.__spec__.versions.low, cls.__spec__.versions.high + 1):
        places = _Places(cls, version)
        selectors |= {"group"} if places.groups else set()
        selectors |= {"member"} if places.members or places.instances else set()
        selectors |= {"transactional_id"} if places.transactional_ids else set()
        selectors |= {"topic"} if places.topics else set()
        selectors |= {"partition"} if places.partitions else set()
    return frozenset(selectors)


_Texts = tuple[str, ...]
_Reader = Callable[[Any], tuple[_Texts, _Texts, _Texts, tuple[tuple[str | None, bytes, int], ...], _Texts, bool]]


@cache
def _reader(cls: type, version: int) -> _Reader:
    places = _Places(cls, version)
    lists = [places.groups, places.members, places.instances, places.topics, places.transactional_ids]
    parts = [f"({''.join(f'{expression}, ' for expression in expressions)})" for expressions in lists]
    source = f"lambda m: ({', '.join(parts)}, {' or '.join(places.all_topics) or 'False'})"
    reader: _Reader = eval(source, {"ZERO_UUID": ZERO_UUID})  # made from our own schema classes only
    return reader


class _Places:
    """Places of the entities in a message ``m``, as items of the display of a tuple in the source code of its reader."""

    def __init__(self, cls: type, version: int) -> None:
        self.version = version
        self.groups: list[str] = []
        self.members: list[str] = []
        self.instances: list[str] = []
        self.transactional_ids: list[str] = []
        self.topics: list[str] = []
        """Expressions of (name, id, partition)."""
        self.partitions = False
        self.all_topics: list[str] = []
        """Expressions: whether it asks for all topics."""
        self._names = (f"m{number}" for number in itertools.count(1))
        self._struct(cls, "m", "")

    def _struct(self, cls: Any, value: str, loops: str) -> None:
        """Add the places of a struct's fields. ``value`` is the variable that contains the struct, inside ``loops``."""
        fields = [(name, spec) for name, spec in cls.__fields__ if self.version in spec.versions]
        topic = {spec.entity: f"{value}.{name}" for name, spec in fields if spec.kind != "array"}
        if Entity.TOPIC in topic or Entity.TOPIC_ID in topic:
            self._topic(topic.get(Entity.TOPIC, "''"), topic.get(Entity.TOPIC_ID, "ZERO_UUID"), fields, value, loops)
            return
        for name, spec in fields:
            place = f"{value}.{name}"
            if spec.kind == "array":
                self._array(spec, value, place, loops)
            elif spec.kind == "struct":
                inner = next(self._names)
                self._struct(spec.item, inner, f"{loops} for {inner} in ({place},) if {inner} is not None")
            else:
                self._found(spec.entity, value, place, loops)

    def _array(self, spec: FieldSpec, value: str, place: str, loops: str) -> None:
        inner = next(self._names)
        within = f"{loops} for {inner} in {place} or ()"
        if spec.inner:
            self._struct(spec.inner, inner, within)
        else:
            self._found(spec.entity, value, inner, within)
        if spec.all_if is not None:
            asks = f"not {place}" if spec.all_if is All.EMPTY else f"{place} is None"
            self.all_topics.append(f"any([{asks}{loops}])" if loops else asks)

    def _found(self, entity: Entity | EntityBy | None, value: str, place: str, loops: str) -> None:
        """``place`` is an expression for something of that entity; ``value`` has the field that may choose it."""
        if isinstance(entity, EntityBy):
            for number, chosen in entity.entities:
                self._found(chosen, value, place, f"{loops} for _ in (0,) if {value}.{entity.field} == {number}")
        elif entity is Entity.GROUP:
            self.groups.append(_items(place, loops))
        elif entity is Entity.MEMBER:
            self.members.append(_items(place, loops, place))
        elif entity is Entity.INSTANCE:
            self.instances.append(_items(place, loops, f"{place} is not None"))
        elif entity is Entity.TRANSACTIONAL_ID:
            self.transactional_ids.append(_items(place, loops, f"{place} is not None"))
        elif entity is Entity.TOPIC:
            self.topics.append(_items(f"({place}, ZERO_UUID, -1)", loops))

    def _topic(self, name: str, topic_id: str, fields: list[tuple[str, FieldSpec]], value: str, loops: str) -> None:
        """A struct that names a topic: with its partitions, or as a whole."""
        rows = list(self._rows(fields, value))
        self.partitions = self.partitions or bool(rows)
        for index, inner in rows or [("-1", "")]:
            self.topics.append(_items(f"({name}, {topic_id}, {index})", loops + inner))

    def _rows(self, fields: Iterable[tuple[str, FieldSpec]], value: str) -> Iterator[tuple[str, str]]:
        """The partitions below a topic: an expression for the index, and the loop around it."""
        for name, spec in fields:
            row = next(self._names)
            loop = f" for {row} in {value}.{name} or ()"
            if spec.kind == "array" and spec.entity is Entity.PARTITION:
                yield row, loop
            elif spec.kind == "array" and spec.inner:
                for inner, field in spec.inner.__fields__:
                    if field.entity is Entity.PARTITION and self.version in field.versions:
                        yield f"{row}.{inner}", loop


def _items(expression: str, loops: str, condition: str = "") -> str:
    """The items of a tuple that come of an expression in loops."""
    if loops:
        return f"*[{expression}{loops}{condition and ' if ' + condition}]"
    return f"*(({expression},) if {condition} else ())" if condition else expression
