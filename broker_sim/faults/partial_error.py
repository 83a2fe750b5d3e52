"""Requests of which some partitions fail and the others do not: a rule that names a topic breaks that topic alone.

``split`` parts a request into what fails and what the handler gets; ``merged`` puts the answers together again. Errors that a broker
only ever gives to a whole request (NOT_COORDINATOR for an OffsetCommit) are not parted: ``split`` gives None then.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from kafka_wire.api_keys import ApiKey
from kafka_wire.errors import Err
from kafka_wire.schema import ZERO_UUID

__all__ = ["Chosen", "merged", "named_in", "split"]

Chosen = Callable[[str, bytes, int], bool]
"""Whether a partition, by its topic's name and id, is one of those that fail; -1: the topic."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Fields:
    """Where the partitions stand: lists of topics and partitions and the index, of the request and of the response. No partitions:
    topics alone."""

    topics: str
    partitions: str
    index: str
    answered: str
    rows: str
    row_index: str


_SAME = _Fields("topics", "partitions", "partition_index", "topics", "partitions", "partition_index")
_FIELDS: dict[int, _Fields] = {
    ApiKey.PRODUCE: _Fields("topic_data", "partition_data", "index", "responses", "partition_responses", "index"),
    ApiKey.LIST_OFFSETS: _SAME,
    ApiKey.METADATA: _Fields("topics", "", "", "topics", "", ""),
    ApiKey.OFFSET_COMMIT: _SAME,
    ApiKey.DELETE_RECORDS: _SAME,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: dataclasses.replace(_SAME, index="partition", row_index="partition"),
}

_OF_COMMITS = {
    Err.UNKNOWN_TOPIC_OR_PARTITION,
    Err.TOPIC_AUTHORIZATION_FAILED,
    Err.OFFSET_METADATA_TOO_LARGE,
    Err.INVALID_COMMIT_OFFSET_SIZE,
}
"""Errors of one partition of an OffsetCommit; all others are the group's."""


def split(request: Any, api_key: int, version: int, err: Err, chosen: Chosen) -> tuple[Any, Any] | None:
    """The part that fails and the part that is handled; None where the whole request fails."""
    fields = _FIELDS.get(api_key)
    if fields is None or (api_key == ApiKey.OFFSET_COMMIT and err not in _OF_COMMITS):
        return None
    if api_key == ApiKey.METADATA and version == 0:
        return None  # no topics are all topics there
    topics = getattr(request, fields.topics)
    if topics is None:  # Metadata of all: what fails is known from the answer, see named_in
        return dataclasses.replace(request, **{fields.topics: []}), request
    failing = _part(topics, fields, lambda *partition: chosen(*partition))
    well = _part(topics, fields, lambda *partition: not chosen(*partition))
    if not well and api_key != ApiKey.METADATA:  # whose answer names the brokers all the same
        return None
    return dataclasses.replace(request, **{fields.topics: failing}), dataclasses.replace(
        request, **{fields.topics: well}
    )


def _part(topics: list[Any], fields: _Fields, wanted: Chosen) -> list[Any]:
    if not fields.partitions:
        return [topic for topic in topics if wanted(*_identity(topic), -1)]
    out = []
    for topic in topics:
        rows = [
            row for row in getattr(topic, fields.partitions) if wanted(*_identity(topic), getattr(row, fields.index))
        ]
        if rows:
            out.append(dataclasses.replace(topic, **{fields.partitions: rows}))
    return out


def _identity(topic: Any) -> tuple[str, bytes]:
    name = topic.topic if hasattr(topic, "topic") else topic.name
    return name or "", getattr(topic, "topic_id", ZERO_UUID)


def named_in(response: Any, request: Any, chosen: Chosen) -> Any:
    """A Metadata request for all topics as one for those of its answer that fail."""
    from kafka_wire.messages.k03_metadata import MetadataRequestTopic

    failing = [topic for topic in response.topics if chosen(*_identity(topic), -1)]
    return dataclasses.replace(request, topics=[MetadataRequestTopic(topic.topic_id, topic.name) for topic in failing])


def merged(response: Any, failed: Any, api_key: int) -> Any:
    """``response`` with the rows of ``failed``, which replace those of the same partitions."""
    fields = _FIELDS[api_key]
    topics = {_identity(topic): topic for topic in getattr(response, fields.answered)}
    for topic in getattr(failed, fields.answered):
        there = topics.get(_identity(topic))
        if there is None or not fields.rows:
            topics[_identity(topic)] = topic
            continue
        rows = {getattr(row, fields.row_index): row for row in getattr(there, fields.rows)}
        rows |= {getattr(row, fields.row_index): row for row in getattr(topic, fields.rows)}
        topics[_identity(topic)] = dataclasses.replace(there, **{fields.rows: list(rows.values())})
    return dataclasses.replace(response, **{fields.answered: list(topics.values())})
