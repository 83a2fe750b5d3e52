"""Requests of which some partitions fail and the others do not: a rule that names a topic breaks that topic alone.

``split`` separates the failing part of a request from the part for the handler; ``merged`` combines the responses. The ``TRAITS``
of a handler's file declare its API's errors that can be partial; for an error that a broker only returns for a whole request
(NOT_COORDINATOR for an OffsetCommit) ``split`` returns None.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from typing import Any

from broker_sim.requests.routes import traits_of
from kafka_wire.errors import Err
from kafka_wire.schema import ZERO_UUID, Entity

__all__ = ["Chosen", "merged", "named_in", "split"]

Chosen = Callable[[str, bytes, int], bool]
"""Whether a partition, by its topic's name and id, is one of those that fail; -1: the topic."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Shape:
    """Names of the fields that contain the partitions of a request or a response: those of its topics, of a topic's name, id and
    partitions, and of a partition's index. "" for a missing field; partitions without an index are the numbers themselves."""

    topics: str
    topic: Any
    name: str
    topic_id: str
    partitions: str
    index: str

    def of(self, topic: object) -> tuple[str, bytes]:
        """A topic's name and id."""
        name = getattr(topic, self.name) if self.name else ""
        return name or "", getattr(topic, self.topic_id) if self.topic_id else ZERO_UUID

    def index_of(self, row: Any) -> int:
        """The partition index of a row, which is the row itself if the API lists bare indexes."""
        index: int = getattr(row, self.index) if self.index else row
        return index

    def rows(self, topic: object) -> list[Any]:
        rows: list[Any] = getattr(topic, self.partitions)
        return rows


def _shape(message: object) -> _Shape:
    """Raises StopIteration for a message that names no topics in any version."""
    cls: Any = type(message)
    return _shape_of(cls)


@cache
def _shape_of(cls: Any) -> _Shape:
    topics, item, marks = next(
        (name, spec.item, marks)
        for name, spec in cls.__fields__
        if spec.inner and {Entity.TOPIC, Entity.TOPIC_ID} & (marks := _marks(spec.inner)).keys()
    )
    for name, spec in item.__fields__:
        rows = _marks(spec.inner) if spec.inner else {}
        if spec.entity is Entity.PARTITION or Entity.PARTITION in rows:
            partitions = name, rows.get(Entity.PARTITION, "")
            break
    else:
        partitions = "", ""
    return _Shape(topics, item, marks.get(Entity.TOPIC, ""), marks.get(Entity.TOPIC_ID, ""), *partitions)


def _marks(cls: Any) -> dict[Any, str]:
    """Entity -> the field that has it."""
    return {spec.entity: name for name, spec in cls.__fields__ if spec.entity is not None}


def split(request: Any, api_key: int, version: int, err: Err, chosen: Chosen) -> tuple[Any, Any] | None:
    """The part that fails and the part that is handled; None where the whole request fails."""
    parts = traits_of(api_key).parts
    if parts is None or err not in parts.errors or version < parts.since:
        return None
    shape = _shape(request)
    topics = getattr(request, shape.topics)
    if topics is None:  # all of them: what fails is known from the answer, see named_in
        return dataclasses.replace(request, **{shape.topics: []}), request
    failing = _part(topics, shape, lambda *partition: chosen(*partition))
    well = _part(topics, shape, lambda *partition: not chosen(*partition))
    if not well and not parts.answers_nothing:
        return None
    return dataclasses.replace(request, **{shape.topics: failing}), dataclasses.replace(request, **{shape.topics: well})


def _part(topics: list[Any], shape: _Shape, wanted: Chosen) -> list[Any]:
    if not shape.partitions:
        return [topic for topic in topics if wanted(*shape.of(topic), -1)]
    out = []
    for topic in topics:
        rows = [row for row in shape.rows(topic) if wanted(*shape.of(topic), shape.index_of(row))]
        if rows:
            out.append(dataclasses.replace(topic, **{shape.partitions: rows}))
    return out


def named_in(response: Any, request: Any, chosen: Chosen) -> Any:
    """A request for all topics as one for those of its answer that fail."""
    asked, answered = _shape(request), _shape(response)
    failing = [
        asked.topic(**{asked.name: getattr(topic, answered.name), asked.topic_id: getattr(topic, answered.topic_id)})
        for topic in getattr(response, answered.topics)
        if chosen(*answered.of(topic), -1)
    ]
    return dataclasses.replace(request, **{asked.topics: failing})


def merged(response: Any, failed: Any) -> Any:
    """``response`` with the rows of ``failed``, which replace those of the same partitions."""
    shape = _shape(response)
    topics = {shape.of(topic): topic for topic in getattr(response, shape.topics)}
    for topic in getattr(failed, shape.topics):
        there = topics.get(shape.of(topic))
        if there is None or not shape.partitions:
            topics[shape.of(topic)] = topic
            continue
        rows = {shape.index_of(row): row for row in [*shape.rows(there), *shape.rows(topic)]}
        topics[shape.of(topic)] = dataclasses.replace(there, **{shape.partitions: list(rows.values())})
    return dataclasses.replace(response, **{shape.topics: list(topics.values())})
