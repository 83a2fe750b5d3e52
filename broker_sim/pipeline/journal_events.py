"""Lines of a journal -> rows of `EVENTS`: pure Python and Arrow, no Spark.

    for batch in batches(rows_of(lines, where)): ...        # pyarrow.RecordBatch of EVENTS.arrow()

Rules:
1. A line is a JSON object with seq, ts_ms and event, or it becomes a row of the type `skipped` that has its position and the reason.
   Nothing raises.
2. What is of another type than the vocabulary says reads as absent. Kinds and fields that the vocabulary doesn't have, a newer
   journal's, are named in `unknown`; the fields that are known are read all the same.
3. The cause of a group's step comes from `broker_sim.explain`, from the one event: it names the cause and shows the group before and
   after.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from broker_sim.common.answers import errors_of
from broker_sim.explain.causes import Causes, owned
from broker_sim.explain.epoch_steps import REMOVED_BY, EpochSteps
from broker_sim.explain.events import Call, GroupSnapshot, items, names_in, number, table, text
from broker_sim.explain.model import History
from broker_sim.explain.rebalances import Cause
from broker_sim.journal.vocabulary import ALWAYS
from broker_sim.journal.vocabulary import EVENTS as KINDS
from broker_sim.pipeline.cause_changes import subscribed
from broker_sim.pipeline.journal_files import Range, lines
from broker_sim.pipeline.schemas import TableSchema
from broker_sim.pipeline.tables.events import EVENTS
from kafka_wire.api_keys import API_NAMES
from kafka_wire.errors import Err

__all__ = ["Line", "LineSource", "Row", "batches", "row_of", "rows_in", "rows_of", "skipped_row"]

BATCH_ROWS = 8192
"""Rows of an Arrow batch."""

Row = dict[str, Any]
Event = Mapping[str, Any]
Part = tuple[
    str | None,
    str | None,
    str | None,
    int | None,
    int | None,
    int | None,
    int | None,
    int | None,
    int | None,
    int | None,
]
"""One element of `partitions`, in the order of PARTITION's columns."""

_KEYS = {name: int(key) for name, key in API_NAMES.items()}
_CODES = {error.name: int(error) for error in Err}
_KNOWN = {kind: frozenset(ALWAYS) | {name.rstrip("?") for name in fields} for kind, fields in KINDS.items()}
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # the id of no topic, as Kafka prints it
_INT_MOST, _LONG_MOST = 2**31 - 1, 2**63 - 1


@dataclass(frozen=True, slots=True)
class LineSource:
    """Source of the lines of a piece of a file. ``named``: the ids of topics whose names were read in the piece."""

    run_id: str
    journal: int
    file: str
    body: bool = True
    named: set[str] = field(default_factory=set, compare=False)


Line = tuple[int, bytes, bool]
"""The byte at which a line begins, the line without its end, and whether it has one."""


# ------------------------------------------------------------------------------------------------ lines to batches


def rows_in(ranges: Iterable[Range], body: bool) -> Iterator[Row]:
    """The rows of ranges of files; what can't be read of them is rows, too."""
    for part in ranges:
        where = LineSource(part.file.run_id, part.file.journal, part.file.name, body)
        if part.refused:
            yield skipped_row(where, part.start or None, part.end - part.start, part.refused)
            continue
        read_to = part.start
        try:
            for row in rows_of(lines(part), where):
                read_to = row["position"]
                yield row
        except OSError as error:
            yield skipped_row(where, read_to, part.end - read_to, f"can't be read: {error.strerror or error}")


def rows_of(lines: Iterable[Line], where: LineSource) -> Iterator[Row]:
    """A row for each line. Blank lines are passed over."""
    for position, line, whole in lines:
        if not line or line.isspace():
            continue
        row = row_of(line, position, where)
        if not whole and row["type"] == "skipped":
            row["text"] = "the file ends in the middle of this line"
        yield row


def batches(rows: Iterable[Row], table: TableSchema = EVENTS) -> Iterator[Any]:
    """Record batches of rows; ``table``: `EVENTS`, or some of its columns."""
    schema = table.arrow()
    waiting: list[Row] = []
    for row in rows:
        waiting.append(row)
        if len(waiting) >= BATCH_ROWS:
            yield _batch(waiting, schema)
            waiting = []
    if waiting:
        yield _batch(waiting, schema)


def row_of(line: bytes, position: int, where: LineSource) -> Row:
    """The row of one line."""
    try:
        words = line.decode()
        event = _decoded(words)
    except (ValueError, RecursionError) as error:
        return skipped_row(where, position, len(line), f"no JSON: {_short(error)}")
    if not isinstance(event, dict):
        return skipped_row(where, position, len(line), "no event of a journal: not an object")
    kind, seq, ts_ms = event.get("event"), number(event, "seq"), number(event, "ts_ms")
    if not isinstance(kind, str) or seq is None or ts_ms is None:
        missing = [name for name, value in (("event", kind), ("seq", seq), ("ts_ms", ts_ms)) if value is None]
        why = f"{' and '.join(missing)} missing" if missing else "its kind is no text"
        return skipped_row(where, position, len(line), f"no event of a journal: {why}")
    row: Row = {
        "run_id": where.run_id,
        "journal": where.journal,
        "type": kind,
        "file": where.file,
        "position": position,
    }
    if where.body:
        row["body"] = words
    known = _KNOWN.get(kind)
    if known is None:
        row["unknown"] = [f"event {kind}"]
    elif not event.keys() <= known:
        row["unknown"] = [name for name in event if name not in known]
    _common(event, row)
    if kind == "epochs":
        row["detail"] = words
    read = _READERS.get(kind)
    if read is not None:
        read(event, row)
        parts = row.get("partitions")
        if parts:
            if len(parts) == 1:
                row["topic"], row["partition"], row["offset"] = parts[0][1], parts[0][3], parts[0][4]
            if parts[0][2] is not None:
                _name_topics(parts, row, where.named)
    return row


_decoded = json.JSONDecoder().decode


def skipped_row(where: LineSource, position: int | None, size: int | None, reason: str) -> Row:
    """A piece of a file that can't be read."""
    return {
        "run_id": where.run_id,
        "journal": where.journal,
        "type": "skipped",
        "file": where.file,
        "position": position,
        "bytes": size,
        "text": reason,
    }


def _short(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:120]


def _batch(rows: list[Row], schema: Any) -> Any:
    """The rows as a record batch."""
    import pyarrow

    filled: dict[str, list[Any]] = {}
    for place, row in enumerate(rows):
        for name, value in row.items():
            values = filled.get(name)
            if values is None:
                values = filled[name] = [None] * len(rows)
            values[place] = value
    filled["ts"] = [_moment(value) for value in filled.get("ts_ms", ())] or [None] * len(rows)
    columns = []
    for column in schema:
        values = filled.get(column.name)
        if values is None:
            columns.append(pyarrow.nulls(len(rows), column.type))
            continue
        try:
            columns.append(pyarrow.array(values, column.type))
        except (pyarrow.ArrowInvalid, OverflowError, UnicodeEncodeError, TypeError):
            columns.append(pyarrow.array([_fitting(value, column.type) for value in values], column.type))
    return pyarrow.RecordBatch.from_arrays(columns, schema=schema)


def _moment(ts_ms: int | None) -> int | None:
    """Microseconds since 1970, null where no timestamp can show it."""
    return ts_ms * 1000 if ts_ms is not None and abs(ts_ms) < _LATEST_MS else None


_LATEST_MS = 253_370_764_800_000  # the year 9999


def _fitting(value: Any, kind: Any) -> Any:
    """``value``, None where the column can't hold it: a number that is too large, half of a surrogate pair replaced."""
    import pyarrow

    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    try:
        pyarrow.array([value], kind)
    except (pyarrow.ArrowInvalid, OverflowError, UnicodeEncodeError, TypeError):
        if isinstance(value, list):
            return [_fitting(element, kind.value_type) for element in value]
        if isinstance(value, tuple):
            return tuple(_fitting(element, kind.field(place).type) for place, element in enumerate(value))
        return None
    return value


# ------------------------------------------------------------------------------------------------ fields of every kind

_TEXTS = (
    "client_id",
    "client_host",
    "api",
    "group",
    "member",
    "error",
    "action",
    "log",
    "timer",
    "reports",
    "text",
    "transactional_id",
)
_NUMBERS = (
    "seq",
    "ts_ms",
    "broker",
    "connection",
    "request",
    "took_ms",
    "fault",
    "records",
    "base_offset",
    "last_offset",
    "high_watermark",
    "epoch",
)


def _integer(event: Event, name: str) -> int | None:
    """`number`, with a fast path for the usual type."""
    value = event.get(name)
    return value if type(value) is int else number(event, name)


_PLAIN: dict[str, Callable[[Event, str], Any]] = {**dict.fromkeys(_TEXTS, text), **dict.fromkeys(_NUMBERS, _integer)}


def _common(event: Event, row: Row) -> None:
    """Read the fields that are alike in all kinds of events."""
    for name in event:
        read = _PLAIN.get(name)
        if read is not None:
            row[name] = read(event, name)
    if "api" in row:
        row["api_key"] = _KEYS.get(row["api"])
    if "error" in row:
        row["error_code"] = _CODES.get(row["error"])
    if "log" in row and row["log"] is not None:
        topic, partition = _split(row["log"])
        if topic == "__consumer_offsets":
            row["coordinator_partition"] = partition


def _split(name: str) -> tuple[str, int | None]:
    """``orders-0`` -> ("orders", 0); a name without a number is a topic."""
    topic, dash, index = name.rpartition("-")
    return (topic, int(index)) if dash and index.isdecimal() and len(index) < 10 else (name, None)


def _part(
    topic: str | None,
    partition: int | None,
    offset: int | None = None,
    *,
    group: str | None = None,
    topic_id: str | None = None,
) -> Part:
    return group, topic, topic_id, partition, offset, None, None, None, None, None


# ------------------------------------------------------------------------------------------------ requests and answers


_OLD_PRODUCER_EPOCH = "v3_and_below_producer_epoch"
"""Field name of the producer epoch in AddPartitionsToTxn up to version 3."""


def _request(event: Event, row: Row) -> None:
    row["api_version"] = number(event, "version")
    body = table(event, "body")
    row["partitions"] = _partitions(body, names_in(event, "topics"))
    if "transactional_id" in event:
        row["producer_epoch"] = number(body, "producer_epoch" if "producer_epoch" in body else _OLD_PRODUCER_EPOCH)
    if "group" not in event:
        return
    call = Call.of(event, row["ts_ms"])
    row["member"], row["instance"], row["generation"] = call.member or None, call.instance, call.generation
    row["text"] = call.reason
    if call.api == "JoinGroup":
        row["detail"] = json.dumps(sorted(f"{topic}-{partition}" for topic, partition in owned(body)))
    groups = [
        name for entry in items(body, "groups") if isinstance(entry, Mapping) and (name := text(entry, "group_id"))
    ]
    if len(groups) > 1:
        row["group"], row["groups"] = None, groups


def _response(event: Event, row: Row) -> None:
    body = table(event, "body")
    if row.get("error") is None and row.get("action") is None:
        row["error_code"] = 0
    if row.get("error") is not None:
        row["errors"] = errors_of(event)
    row["partitions"] = _partitions(body, ())
    if row.get("api") == "JoinGroup":
        row["member"], row["generation"] = text(body, "member_id"), number(body, "generation_id")
        row["leader"], row["protocol"] = text(body, "leader"), text(body, "protocol_name")


def _partitions(body: Event, names: Iterable[str]) -> list[Part] | None:
    """Partitions of a request's or response's body; None if there are none. ``names``: the request event's names of the topics that
    the body has by id, in the body's order."""
    parts: list[Part] = []
    named = iter(names)
    for group in _objects(body, "groups") if "groups" in body else ():
        _of_topics(group, named, text(group, "group_id"), parts)
    _of_topics(body, named, None, parts)
    return parts or None


_TOPIC_LISTS = ("topics", "topic_data", "responses")
_PARTITION_LISTS = ("partitions", "partition_data", "partition_responses", "partition_indexes")
_INDEXES = ("partition_index", "partition", "index")
_OFFSETS = ("committed_offset", "fetch_offset", "offset", "base_offset", "timestamp")
_STARTS = ("log_start_offset", "low_watermark")
_EPOCHS = ("committed_leader_epoch", "leader_epoch", "current_leader_epoch")


def _of_topics(body: Event, named: Iterator[str], group: str | None, parts: list[Part]) -> None:
    for key in _TOPIC_LISTS:
        for entry in _objects(body, key) if key in body else ():
            topic, topic_id = text(entry, "name") or text(entry, "topic"), text(entry, "topic_id")
            if topic_id == _NO_ID:
                topic_id = None
            for kind in _PARTITION_LISTS:
                if kind in entry:
                    _of_partitions(items(entry, kind), named, group, topic, topic_id, parts)


def _of_partitions(
    partitions: list[Any],
    named: Iterator[str],
    group: str | None,
    topic: str | None,
    topic_id: str | None,
    parts: list[Part],
) -> None:
    """The partitions of one topic; all of them have the same fields."""
    like = next((entry for entry in partitions if isinstance(entry, Mapping)), _NOTHING)
    index, offset, epoch = (
        next((name for name in names if name in like), names[0]) for names in (_INDEXES, _OFFSETS, _EPOCHS)
    )
    for element in partitions:
        log_name = next(named, None)
        name = topic or (_split(log_name)[0] if log_name else None)
        if isinstance(element, int):
            parts.append(_part(name, element, group=group, topic_id=topic_id))
        elif isinstance(element, Mapping) and (partition := _integer(element, index)) is not None:
            records = element.get("records")
            parts.append(
                (
                    group,
                    name,
                    topic_id,
                    partition,
                    _integer(element, offset) if offset in element else None,
                    _integer(element, epoch) if epoch in element else None,
                    _integer(element, "high_watermark") if "high_watermark" in element else None,
                    _integer(records, "records") if isinstance(records, Mapping) else None,
                    _integer(element, "error_code") if "error_code" in element else None,
                    next((_integer(element, start) for start in _STARTS if start in element), None),
                )
            )


_NOTHING: Event = {}


def _name_topics(parts: list[Part], row: Row, named: set[str]) -> None:
    """Add the names of topic ids that no earlier row has."""
    fresh = {part[2]: part[1] for part in parts if part[2] is not None and part[1] is not None and part[2] not in named}
    if fresh:
        named.update(fresh)
        row["named_topics"] = [(topic, topic_id) for topic_id, topic in fresh.items()]


def _objects(event: Event, key: str) -> list[Event]:
    return [item for item in items(event, key) if isinstance(item, Mapping)]


# ------------------------------------------------------------------------------------------------ groups

_CAUSES = Causes(History(""))
"""Without a history: the cause of a step comes from its event alone."""


def _group(event: Event, row: Row) -> None:
    cause, before, after = (
        table(event, "cause"),
        GroupSnapshot.of(event.get("before")),
        GroupSnapshot.of(event.get("after")),
    )
    if before is not None and after is not None:
        _complete(before, after)
    row["request"], row["timer"] = number(cause, "request"), text(cause, "timer")
    row["api"], row["error"] = text(cause, "api"), text(cause, "error")
    row["api_key"] = _KEYS.get(row["api"] or "")
    row["error_code"] = _CODES.get(row["error"] or "")
    why = _CAUSES.of(cause, before, after, {}, row["ts_ms"])
    row["cause"], row["cause_members"], row["member"] = why.kind, why.members, text(cause, "member")
    row["protocol_type"] = why.protocol_type or None
    if why.kind in ("metadata_changed", "leader_rejoined") and after is not None:
        row["cause_changes"] = _changes(why, after) or None
    if before is not None:
        row["state_from"], row["generation_from"], row["size_before"] = before.state, before.generation, before.size
        row["members_before"] = _members(before)
    if after is not None:
        row["state_to"], row["generation"], row["size_after"] = after.state, after.generation, after.size
        row["members_after"] = _members(after)
        row["leader"], row["protocol"] = after.leader, after.protocol


def _changes(why: Cause, after: GroupSnapshot) -> list[str]:
    """Changes of a member's metadata, as far as the event alone shows them."""
    name = why.members[0] if why.members else ""
    client = text(after.members.get(name, {}), "client_id") or name
    worker = [f"{client}: {why.metadata.removeprefix('with ')}"] if why.metadata else []
    return subscribed(client, why.added_topics, why.lost_topics) + worker


def _epochs(event: Event, row: Row) -> None:
    """An epoch-based group. What its members hold stays in the line, `detail`: `modern_groups` reads it step by step."""
    step = EpochSteps().take(event)
    row["request"], row["timer"] = number(step.cause, "request"), text(step.cause, "timer")
    row["api"], row["member"] = text(step.cause, "api"), text(step.cause, "member")
    row["api_key"] = _KEYS.get(row["api"] or "")
    row["state_to"], row["generation"], row["protocol"] = step.state, step.epoch, step.assignor
    row["size_after"] = number(event, "size")
    row["protocol_type"] = step.kind if step.after else None
    kind = text(step.cause, "kind")
    row["cause"] = {"load": "loaded", "unload": "unloaded"}.get(kind or "") or REMOVED_BY.get(row["timer"])


def _complete(before: GroupSnapshot, after: GroupSnapshot) -> None:
    """A step that takes a group over the size of which all members are shown, or back: the one that is shown in part is the other
    one, but for what it shows."""
    if before.whole and not after.whole:
        after.completed(before, before)
    elif after.whole and not before.whole and len(before.members.keys() | after.members.keys()) == before.size:
        before.members = after.members | before.members


def _members(snapshot: GroupSnapshot) -> list[tuple[Any, ...]]:
    return [
        (
            name,
            text(member, "client_id"),
            text(member, "client_host"),
            text(member, "instance"),
            text(member, "deferred"),
            number(member, "session_timeout_ms"),
            number(member, "rebalance_timeout_ms"),
            names_in(member, "topics") if isinstance(member.get("topics"), list) else None,
            _assigned(member),
        )
        for name, member in snapshot.members.items()
    ]


def _assigned(member: Event) -> list[str] | None:
    assignment = member.get("assignment")
    if not isinstance(assignment, Mapping):
        return None
    return [f"{topic}-{index}" for topic in assignment for index in items(assignment, topic) if isinstance(index, int)]


# ------------------------------------------------------------------------------------------------ the other kinds


def _append(event: Event, row: Row) -> None:
    groups = names_in(event, "groups")
    row["groups"] = groups
    if len(groups) == 1:
        row["group"] = groups[0]
    row["requests"] = [request for request in items(event, "requests") if isinstance(request, int)]
    row["kinds"] = names_in(event, "kinds")


def _offsets(event: Event, row: Row) -> None:
    row["partitions"] = _published(table(event, "offsets"))


def _offsets_deleted(event: Event, row: Row) -> None:
    row["text"] = text(event, "reason")
    row["partitions"] = [_part(*_split(name)) for name in names_in(event, "partitions")]


def _published(offsets: Event) -> list[Part]:
    return [_part(*_split(name), number(offsets, name)) for name in offsets]


def _client(event: Event, row: Row) -> None:
    row["client_id"] = text(event, "client")
    details = table(event, "details")
    log = text(details, "log")
    if log is not None:
        row["partitions"] = [_part(*_split(log), number(details, "offset"))]
    elif "offsets" in details:
        row["partitions"] = _published(table(details, "offsets"))
    else:
        row["partitions"] = [_part(*_split(name)) for name in names_in(details, "partitions")]


def _delivery(event: Event, row: Row) -> None:
    row["topic"], row["partition"] = _split(row.get("log") or "")
    row["base_offset"], row["last_offset"] = number(event, "first"), number(event, "last")


def _state(event: Event, row: Row) -> None:
    row["condition"] = text(event, "state")


def _leader(event: Event, row: Row) -> None:
    row["broker"], row["text"] = number(event, "leader"), text(event, "reason")


def _data_loss(event: Event, row: Row) -> None:
    row["topic"], row["partition"] = _split(row.get("log") or "")
    row["action"] = text(event, "part")
    row["base_offset"], row["last_offset"] = number(event, "first"), number(event, "last")


def _rule(event: Event, row: Row) -> None:
    row["text"] = text(event, "verdict") or text(event, "rule")


def _connection(event: Event, row: Row) -> None:
    row["client_host"], row["text"] = text(event, "peer"), text(event, "reason")


_READERS: dict[str, Callable[[Event, Row], None]] = {
    "request": _request,
    "response": _response,
    "group": _group,
    "epochs": _epochs,
    "append": _append,
    "committed": _append,
    "offsets": _offsets,
    "offsets_deleted": _offsets_deleted,
    "client": _client,
    "state": _state,
    "leader": _leader,
    "data_loss": _data_loss,
    "delivery": _delivery,
    "connection": _connection,
    "fault": _rule,
    "fault_added": _rule,
    "fault_removed": _rule,
}
"""Readers of the fields that only one kind of event has, by kind."""
