"""Transactions, from `__transaction_state-*` and from the data topics that lie beside: pure reading, no Spark.

    rows_of_state(["data/__transaction_state-0", ...])     one row for each transaction that the coordinator's log still has
    rows_of_data([("orders", 0, "data/orders-0"), ...])     those that a data partition's own log shows, and which readers they blocked
    rows_of_journal(lines)                                  those of a journal, as `broker_sim.explain` has them

Rules:
1. A transaction begins where its transactional id becomes Ongoing and is over with the marker's record, CompleteCommit or
   CompleteAbort. Compaction takes all but the last record of an id: of earlier transactions nothing is known then.
2. One that the coordinator's log ends with as Ongoing is open. A data partition whose last transactional batch of a producer has no
   marker behind it holds read_committed readers there, whatever the coordinator knows: with no state beside, that is all there is.
3. An abort is its coordinator's own where its record has a new epoch: after the transaction's timeout it `timed out`, before it its
   producer was `fenced`. Under transaction version 2 every end has a new epoch: there an abort behind which a producer begins anew at
   once was a fence.
4. A record that is older than the abort before it came too late for its own transaction: it begins one of which no
   coordinator knows, and the next marker of its producer counts for it (KIP-890). `LATE_MS` is left for clocks that differ.
5. Unreadable records of the coordinator's log are reported (`state_logs`); in a data topic's log they end the reading of that file.

Source: TransactionLog.scala, TransactionMetadata (3.4), TransactionState.java (4.x), ProducerStateManager.java.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from broker_sim.explain.transaction_requests import what_delayed_it
from broker_sim.explain.transactions import (
    TRANSACTION_APIS,
    WORTH_TELLING_MS,
    BlockedStableOffset,
    JournalTransactions,
    TransactionHistory,
    transactions,
)
from broker_sim.pipeline.segments import Skipped
from broker_sim.pipeline.state_logs import ReportSkipped, batch_headers, records_of
from kafka_wire import transaction_log
from kafka_wire.codec import DecodeError
from kafka_wire.messages.transaction_log import TransactionLogValue
from kafka_wire.record_batch import ControlType, RecordBatchError, control_type, records

__all__ = ["LATE_MS", "STATE_TOPIC", "rows_of_data", "rows_of_journal", "rows_of_state"]

STATE_TOPIC = "__transaction_state"
ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = 1, 2, 3, 4, 5
"""TransactionState's ids."""
EMPTY = 0
AT_ONCE_MS = 2000
"""So long after a fence its new producer has its epoch."""
LATE_MS = 1000
"""A record that is so much older than the abort before it was written for the transaction that this ended."""
_EVERY_END_BUMPS = 2
"""The client's transaction version (KIP-890)."""
_ENDS = {COMPLETE_COMMIT: "committed", COMPLETE_ABORT: "aborted"}


@dataclass(slots=True)
class _OpenTransaction:
    """A transaction that has begun."""

    transactional_id: str
    producer_id: int
    epoch: int
    from_ms: int
    timeout_ms: int
    partitions: dict[str, None] = field(default_factory=dict)
    decided_ms: int | None = None
    bumped: bool = False
    """Whether the transaction's end was written with a later epoch by an old flow: the coordinator has fenced its producer."""
    flow: int = 0


def rows_of_state(folders: Iterable[str], report: ReportSkipped = lambda skipped: None) -> Iterator[dict[str, Any]]:
    """Rows of `tables.transactions.TRANSACTIONS`: transactional_id, producer_id, from_ms, to_ms, end, timeout_ms, partitions."""
    for folder in folders:
        known: dict[str, _OpenTransaction] = {}
        over: dict[
            str, tuple[dict[str, Any], _OpenTransaction]
        ] = {}  # until the next record of the id shows whether it was fenced
        last_ms = -1
        for record, _ in records_of(folder, report):
            try:
                key, value = _decoded(record.key, record.value)
            except DecodeError as error:
                report(Skipped(folder, None, None, f"the record at offset {record.offset}: {error}"))
                continue
            if key is None:
                continue
            last_ms = max(last_ms, record.timestamp)
            transaction = known.get(key)
            if key in over:
                row, ended = over.pop(key)
                yield _with_ending(row, ended, None if value is None else value.transaction_status, record.timestamp)
            if value is None:  # the id expired
                known.pop(key, None)
                continue
            status, at_ms = value.transaction_status, record.timestamp
            if status in (ONGOING, PREPARE_COMMIT, PREPARE_ABORT):
                began_ms = value.transaction_start_timestamp_ms
                if transaction is None or transaction.from_ms != began_ms:
                    transaction = known[key] = _OpenTransaction(
                        key, value.producer_id, value.producer_epoch, began_ms, value.transaction_timeout_ms
                    )
                if status != ONGOING and transaction.decided_ms is None:
                    transaction.decided_ms, transaction.flow = at_ms, value.client_transaction_version
                    transaction.bumped = value.producer_epoch > transaction.epoch
                transaction.partitions |= dict.fromkeys(
                    f"{topic.topic}-{index}"
                    for topic in value.transaction_partitions or ()
                    for index in topic.partition_ids
                )
            elif status in _ENDS and transaction is not None:
                del known[key]
                over[key] = _row(transaction, at_ms, _ENDS[status]), transaction
        for row, ended in over.values():
            yield _with_ending(row, ended, None, last_ms)
        for transaction in known.values():
            yield {**_row(transaction, None, None), "until_ms": last_ms}


def _with_ending(row: dict[str, Any], transaction: _OpenTransaction, then: int | None, then_ms: int) -> dict[str, Any]:
    """The row of a completed one, with the reason of its end; ``then``: the status of the id's next record."""
    if row["end"] == "committed":
        return {**row, "result": "commit"}
    decided_ms = row["to_ms"] if transaction.decided_ms is None else transaction.decided_ms
    fenced = (
        transaction.bumped
        if transaction.flow < _EVERY_END_BUMPS
        else then == EMPTY and then_ms - row["to_ms"] <= AT_ONCE_MS
    )
    if (transaction.bumped or fenced) and decided_ms - transaction.from_ms >= transaction.timeout_ms:
        return {**row, "result": "timed out"}
    return {**row, "result": "fenced" if fenced else "abort"}


def _row(transaction: _OpenTransaction, to_ms: int | None, end: str | None) -> dict[str, Any]:
    return {
        "decided_ms": transaction.decided_ms,
        "transactional_id": transaction.transactional_id,
        "producer_id": transaction.producer_id,
        "from_ms": transaction.from_ms,
        "to_ms": to_ms,
        "end": end,
        "timeout_ms": transaction.timeout_ms,
        "partitions": list(transaction.partitions),
        "source": "state",
    }


def _decoded(key: bytes | None, value: bytes | None) -> tuple[str | None, TransactionLogValue | None]:
    """(transactional id, value); no id for a record of another type. Raises DecodeError."""
    known = None if key is None else transaction_log.decode_key(key)
    if known is None:
        return None, None
    return known.transactional_id, None if value is None else transaction_log.decode_value(value)


def rows_of_data(folders: Iterable[tuple[str, int, str]]) -> Iterator[dict[str, Any]]:
    """Rows about the transactions in partitions' logs: for each one that is open at the log's end, or that began after its own end
    (``late``), a row as of `rows_of_state`; for the others (``known``), the time in which they held the last stable offset."""
    for topic, partition, folder in folders:
        yield from _of_partition(f"{topic}-{partition}", folder)


@dataclass(slots=True)
class _PartitionTransaction:
    """A transaction in a partition; ``late``: what ended its producer's one before was an abort, and it is older than that;
    ``blocked_ms``: since when it is the earliest, at which readers of what is committed stop; None: it never was."""

    offset: int
    from_ms: int
    late: bool
    blocked_ms: int | None


def _of_partition(name: str, folder: str) -> Iterator[dict[str, Any]]:
    open_: dict[int, _PartitionTransaction] = {}
    aborted_ms: dict[int, int] = {}
    last_ms = -1
    for header, read in batch_headers(folder):
        last_ms = max(last_ms, header.max_timestamp)
        if not header.is_transactional:
            continue
        producer_id = header.producer_id
        if not header.is_control:
            if producer_id not in open_:
                late = header.max_timestamp + LATE_MS <= aborted_ms.get(producer_id, -1)
                began_ms = aborted_ms[producer_id] if late else header.base_timestamp
                open_[producer_id] = _PartitionTransaction(
                    header.base_offset, began_ms, late, None if open_ else began_ms
                )
            continue
        try:
            kind = control_type(next(records(read(), 0)).key)
        except (RecordBatchError, StopIteration):
            continue
        if kind not in (ControlType.ABORT, ControlType.COMMIT):
            continue
        aborted_ms.pop(producer_id, None)
        if kind == ControlType.ABORT:
            aborted_ms[producer_id] = header.max_timestamp
        begun = open_.pop(producer_id, None)
        if begun is not None:
            end = "committed" if kind == ControlType.COMMIT else "aborted"
            following = next(iter(open_.values()), None)
            if following is not None and following.blocked_ms is None:
                following.blocked_ms = header.max_timestamp
            yield _data_row(name, producer_id, begun, header.max_timestamp, end)
    for producer_id, begun in open_.items():
        yield {**_data_row(name, producer_id, begun, None, None), "until_ms": last_ms}


def _data_row(
    name: str, producer_id: int, begun: _PartitionTransaction, to_ms: int | None, end: str | None
) -> dict[str, Any]:
    return {
        "producer_id": producer_id,
        "from_ms": begun.from_ms,
        "to_ms": to_ms,
        "end": end,
        "partitions": [name],
        "first_offset": begun.offset,
        "blocked_from_ms": begun.blocked_ms,
        "late": begun.late,
        "source": "data",
    }


def rows_of_journal(lines: Iterable[bytes]) -> list[dict[str, Any]]:
    """Rows of `tables.transactions.SEEN` out of a journal's lines: the transactions of `broker_sim.explain`, in its words."""
    result = transactions(_events(lines))
    rows = [_journal_row(transaction, result) for transaction in result.transactions]
    return [*rows, *(_hanging_row(blocked, result) for blocked in result.hanging)]


_KINDS = ("last_stable_offset", "fault", "fault_added", "fault_removed", "clock", "connection", "state")
"""Kinds of events that are read, too: what kept a transaction open. Other events have fields with some of these names."""
_ABOUT = (
    *(b'"transaction', b'"marker"', b'"pending_offsets"', b'"staged"', b'"stable"', b'"WriteTxnMarkers"'),
    *(pair.encode() for kind in _KINDS for pair in (f'"event":"{kind}"', f'"event": "{kind}"')),
    *(b'"isolation_level":1', b'"isolation_level": 1'),
    *(f'"{api}"'.encode() for api in TRANSACTION_APIS if api != "Produce"),
)
"""Texts in the lines about transactions and read_committed fetches; only these lines are parsed as JSON, and responses to Produce
while one with a transactional id has no response."""


def _events(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    last: bytes | None = None
    written: set[object] = set()  # numbers of transactional Produce requests without a response
    for line in lines:
        last = line
        if any(word in line for word in _ABOUT) or (written and b'"Produce"' in line):
            event = _event(line)
            if event is None:
                continue
            if event.get("api") == "Produce":
                if event.get("event") == "request" and event.get("transactional_id"):
                    written.add(event.get("request"))
                elif event.get("request") in written:
                    written.discard(event.get("request"))
                else:
                    continue
            yield event
    if last is not None and (event := _event(last)) is not None:
        yield {**event, "event": "mark"}  # when the journal ends


def _event(line: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


def _journal_row(transaction: TransactionHistory, result: JournalTransactions) -> dict[str, Any]:
    blocked = {span.log: (span.to_ms or result.last_ms) - span.from_ms for span in transaction.blocked}
    readers = {name: None for span in transaction.blocked for name in span.readers if _waited(span, name, result)}
    end = None if transaction.completed_ms is None else "committed" if transaction.result == "commit" else "aborted"
    return {
        "transactional_id": transaction.transactional_id,
        "producer_id": transaction.producer_id,
        "from_ms": result.first_ms if transaction.begun_ms is None else transaction.begun_ms,
        "decided_ms": transaction.decided_ms,
        "to_ms": transaction.completed_ms,
        "until_ms": result.last_ms,
        "end": end,
        "result": transaction.result or None,
        "began_by": None if transaction.began_by is None else transaction.began_by.client_id,
        "ended_by": None if transaction.ended_by is None else transaction.ended_by.client_id,
        "cause": what_delayed_it(transaction, result.last_ms)[0] or None,
        "timeout_ms": transaction.timeout_ms,
        "partitions": list(transaction.partitions),
        "blocked": [f"{span.log} at {span.offset}" for span in transaction.blocked],
        "blocked_ms": max(blocked.values(), default=None),
        "readers": list(readers),
        "source": "journal",
    }


def _hanging_row(blocked: BlockedStableOffset, result: JournalTransactions) -> dict[str, Any]:
    ended = blocked.ended_by
    return {
        "producer_id": blocked.producer_id,
        "from_ms": blocked.from_ms,
        "to_ms": blocked.to_ms,
        "until_ms": result.last_ms,
        "end": None if blocked.to_ms is None else "committed" if blocked.lost_abort else "aborted",
        "ended_by": ended if isinstance(ended, str) else None,
        "partitions": [blocked.log],
        "blocked": [f"{blocked.log} at {blocked.offset}"],
        "blocked_ms": (blocked.to_ms or result.last_ms) - blocked.from_ms,
        "readers": [name for name in blocked.readers if _waited(blocked, name, result)],
        "hangs": True,
        "lost_abort": blocked.lost_abort,
        "source": "journal",
    }


def _waited(blocked: BlockedStableOffset, reader: str, result: JournalTransactions) -> bool:
    return (blocked.to_ms or result.last_ms) - blocked.readers[reader] >= WORTH_TELLING_MS
