"""The rows of a response by partition, member, topic or group: a request may fail for one and succeed for another.

Rules:
1. The ``error`` of a response event is only the first error in the response. It applies to the whole response if that has no rows, or
   has a top-level error.
2. Topics that a request names by id (OffsetCommit v10, TxnOffsetCommit v6, Fetch v13) have their names in the request event's
   ``topics``, partition by partition in the request's order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from broker_sim.common.text import visible
from kafka_wire.errors import Err

__all__ = [
    "ABOUT_ONE",
    "Row",
    "about_one",
    "errors_of",
    "in_words",
    "named_topics",
    "places",
    "refused",
    "rows",
    "whole_error",
]

Event = Mapping[str, Any]

ABOUT_ONE = {
    *("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID", "INCONSISTENT_TOPIC_ID", "INVALID_TOPIC_EXCEPTION"),
    *("TOPIC_AUTHORIZATION_FAILED", "OFFSET_METADATA_TOO_LARGE", "INVALID_COMMIT_OFFSET_SIZE", "OFFSET_OUT_OF_RANGE"),
    *("UNSTABLE_OFFSET_COMMIT", "GROUP_SUBSCRIBED_TO_TOPIC", "TOPIC_ALREADY_EXISTS", "INVALID_PARTITIONS"),
}
"""Errors of a topic or partition, and not of a coordinator, a member or a group; they are reported with their topics."""

_LISTS = ("topics", "responses", "topic_data", "results", "results_by_topic_v3_and_below", "topic_results")
_PARTITIONS = ("partitions", "partition_responses", "partition_data", "results_by_partition")
_INDEXES = ("partition_index", "partition", "index")
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Row:
    """Row of a response with an error code. ``what``: a partition (``orders-0``), topic, member id or group; ``topic``: that of a
    partition, else ``what``; ``error``: Kafka's name, "" for NONE."""

    what: str
    topic: str
    error: str


def rows(body: Event, names: Mapping[str, str], group: str | None = None) -> list[Row]:
    """The rows of a response's body. ``names``: topic id -> name; ``group``: of several groups (OffsetFetch v8) the rows of this
    one."""
    if _code(body):
        return []
    rows: list[Row] = []
    for group_entry in _objects(body, "groups"):
        whose = str(group_entry.get("group_id") or "")
        if group is None or visible(whose) == group:
            rows += (
                [Row(visible(whose), visible(whose), _name(_code(group_entry)))]
                if _code(group_entry)
                else _of_topics(group_entry, names)
            )
    rows += _of_topics(body, names)
    for transaction in _objects(body, "results_by_transaction"):
        rows += _of_topics(transaction, names)
    for group_entry in _objects(body, "members"):
        if "error_code" in group_entry:
            member = visible(str(group_entry.get("member_id") or group_entry.get("group_instance_id") or "?"))
            rows.append(Row(member, member, _name(_code(group_entry))))
    return rows


def errors_of(event: Event) -> list[str]:
    """All errors of a ``response`` event, the first one first; [] for none."""
    error, body = event.get("error"), event.get("body")
    if not isinstance(error, str) or not error:
        return []
    reported = rows(body, {}) if isinstance(body, Mapping) else []
    return list(dict.fromkeys([visible(error), *(row.error for row in reported if row.error)]))


def whole_error(event: Event, group: str) -> str:
    """The name of the error of a ``response`` event that applies to everything requested for the group; "" without one."""
    error, body = event.get("error"), event.get("body")
    reported = rows(body, {}, group) if isinstance(error, str) and isinstance(body, Mapping) else []
    if reported:
        return next((row.error for row in reported if row.what == group), "")
    return visible(error) if isinstance(error, str) else ""


def _of_topics(body: Event, names: Mapping[str, str]) -> Iterator[Row]:
    for key in _LISTS:
        for entity in _objects(body, key):
            label = entity.get("name") or entity.get("topic") or entity.get("group_id")
            topic_id = entity.get("topic_id")
            topic = visible(str(label)) if label else names.get(str(topic_id), f"topic {topic_id}" if topic_id else "?")
            partitions = [part for field in _PARTITIONS for part in _objects(entity, field)]
            for part in partitions:
                index = next((part[name] for name in _INDEXES if name in part), "?")
                yield Row(f"{topic}-{index}", topic, _name(_code(part)))
            if not partitions and "error_code" in entity:
                yield Row(topic, topic, _name(_code(entity)))


def named_topics(body: Event, topics: Iterable[str]) -> dict[str, str]:
    """Topic id -> name, of a request's body and the event's ``topics`` (rule 2)."""
    named, result = iter(topics), {}
    for topic in _objects(body, "topics"):
        parts = [part for key in (*_PARTITIONS, "partition_indexes") for part in _items(topic, key)]
        whole = [next(named, "") for _ in parts] or [next(named, "")]
        topic_id = topic.get("topic_id")
        if topic_id and not topic.get("name") and whole[0]:
            result[str(topic_id)] = whole[0].rpartition("-")[0] if parts else whole[0]
    return result


def refused(reported: Iterable[Row]) -> dict[str, list[Row]]:
    """Error -> the rows that have it."""
    result: dict[str, list[Row]] = {}
    for row in reported:
        if row.error:
            result.setdefault(row.error, []).append(row)
    return result


def in_words(error: str, reported: list[Row]) -> str:
    """The errors of a response as text: ``UNKNOWN_TOPIC_OR_PARTITION for ord.a-0, NONE for ord.b-0``; only the error if it applies
    to the whole response and to no topic."""
    errors = refused(reported)
    good = [row for row in reported if not row.error]
    if not errors or (len(errors) == 1 and not good and not ABOUT_ONE & errors.keys()):
        return error
    words = [f"{name} for {places(some)}" for name, some in errors.items()]
    return ", ".join([*words, f"NONE for {places(good)}"] if good else words)


def about_one(error: str) -> bool:
    """Whether an error is of a topic or partition, and not of all that a request asks for."""
    return error in ABOUT_ONE


def places(some: Iterable[Row]) -> str:
    """``ord.a-0 and ord.a-1``; more of them as ``12 partitions of ord.a``."""
    kept = list(some)
    whats, topics = list(dict.fromkeys(row.what for row in kept)), list(dict.fromkeys(row.topic for row in kept))
    if len(whats) <= _SHOWN:
        return _joined(whats)
    shown = topics if len(topics) <= _SHOWN else [*topics[: _SHOWN - 1], f"{len(topics) - _SHOWN + 1} more topics"]
    return f"{len(whats)} partitions of {_joined(shown)}" if whats != topics else _joined(shown)


def _joined(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _items(event: Event, key: str) -> list[Any]:
    value = event.get(key)
    return value if isinstance(value, list) else []


def _objects(event: Event, key: str) -> list[Event]:
    return [item for item in _items(event, key) if isinstance(item, Mapping)]


def _code(event: Event) -> int:
    code = event.get("error_code", event.get("partition_error_code"))
    return code if isinstance(code, int) and not isinstance(code, bool) else 0


def _name(code: int) -> str:
    try:
        return Err(code).name if code else ""
    except ValueError:
        return f"error {code}"
