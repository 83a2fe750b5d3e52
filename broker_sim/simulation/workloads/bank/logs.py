"""Independent reader of the bank's logs, batch by batch: which transactions wrote what, and how each of them ended there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from broker_sim.simulation.workloads.bank.book import HOLE, Attempt, Book, BookEntry, PaymentOrder
from kafka_wire.codec import DecodeError
from kafka_wire.control_records import ControlType, control_type
from kafka_wire.offsets_log import OFFSET_COMMIT, decode_key, decode_value

if TYPE_CHECKING:
    from broker_sim.metadata.cluster_state import Partition, Topic

__all__ = ["LogTransaction", "check_logs", "log_transactions", "orders_of"]


@dataclass(slots=True)
class LogTransaction:
    """Records of one producer between two of its markers. ``commits`` None: no marker has come. ``attempts``: those that wrote them."""

    partition: Partition
    producer_id: int
    epoch: int
    first_offset: int
    attempts: dict[str, None] = field(default_factory=dict)
    rows: list[tuple[int, bytes | None, bytes | None]] = field(default_factory=list)
    """Offset, key, value."""
    commits: bool | None = None


def log_transactions(partition: Partition) -> list[LogTransaction]:
    """Transactions in a partition's log, in the order of their beginnings."""
    transactions: list[LogTransaction] = []
    opened: dict[int, LogTransaction] = {}
    offsets = partition.topic.name.startswith("__")
    for batch in partition.log.batches():
        header = batch.header
        if not header.is_transactional:
            continue
        if header.is_control:
            for record in batch.records():
                if transaction := opened.pop(header.producer_id, None):
                    transaction.commits = control_type(record.key) == ControlType.COMMIT
            continue
        transaction = opened.get(header.producer_id)
        if transaction is None:
            transaction = LogTransaction(partition, header.producer_id, header.producer_epoch, header.base_offset)
            opened[header.producer_id] = transaction
            transactions.append(transaction)
        for record in batch.records():
            transaction.rows.append((record.offset, record.key, record.value))
            name = _of_offset(record.key, record.value) if offsets else (record.value or b"").split(b"|")[0].decode()
            if name:
                transaction.attempts[name] = None
    return transactions


def _of_offset(key: bytes | None, value: bytes | None) -> str:
    """Tellers put their attempt's name into what they commit."""
    try:
        kind, _ = decode_key(key or b"")
        return str(decode_value(kind, value).metadata) if kind == OFFSET_COMMIT and value is not None else ""
    except DecodeError:
        return ""


def orders_of(topic: Topic) -> list[PaymentOrder]:
    """The orders that are committed."""
    return [
        PaymentOrder(partition.index, offset)
        for partition in topic.partitions
        for transaction in log_transactions(partition)
        if transaction.commits
        for offset, _, _ in transaction.rows
    ]


def check_logs(book: Book, orders: Topic, written: Iterable[Partition], committed: Mapping[int, int]) -> None:
    """Check at the end of a run: every transaction has ended in all partitions with the outcome of its teller's response, every
    order is carried out once, and offsets are committed with the records. ``written``: all partitions that attempts write to, with
    that of the offsets; ``committed``: the group's offsets by partition of the orders. Compaction may have removed superseded
    offsets."""
    ends: dict[str, dict[str, bool | None]] = {}
    entries: dict[str, list[BookEntry]] = {}
    for partition in (*orders.partitions, *written):
        for transaction in log_transactions(partition):
            if len(transaction.attempts) > 1:
                what = f"{partition.name} has more than one from {transaction.first_offset} on, before a marker"
                book.breach("a marker ends one transaction", what, transaction.attempts)
            for name in transaction.attempts:
                ends.setdefault(name, {})[partition.name] = transaction.commits
            if transaction.commits and partition.topic is not orders and not partition.topic.name.startswith("__"):
                for _, _, value in transaction.rows:
                    entry = BookEntry.read(value)
                    entries.setdefault(entry.attempt, []).append(entry)
    for attempt in list(book.attempts.values()):
        _judge_end(book, attempt, ends.get(attempt.name, {}))
        _judge_entries(book, attempt, entries.get(attempt.name, []))
    _judge_orders(book, orders, entries)
    _judge_offsets(book, entries, committed)


def _judge_end(book: Book, attempt: Attempt, ends: Mapping[str, bool | None]) -> None:
    if len(set(ends.values())) > 1:
        book.breach(
            "a transaction has one outcome in all partitions", f"whether it is committed: {dict(ends)}", [attempt.name]
        )
    if attempt.reported is not None and (not attempt.reported) in ends.values():
        book.breach(
            "a transaction ends as its producer was answered", f"whether it is committed: {dict(ends)}", [attempt.name]
        )
    lost = [f"{topic}-{index}" for topic, index in attempt.acked if f"{topic}-{index}" not in ends]
    if lost:
        book.breach("acknowledged records are stored", f"{lost} have nothing of it", [attempt.name])


def _judge_entries(book: Book, attempt: Attempt, entries: list[BookEntry]) -> None:
    wanted = sorted(entry for rows in attempt.entries.values() for entry in rows)
    if (entries or attempt.reported) and sorted(entries) != wanted:
        what = f"{len(entries)} of {len(wanted)} entries are committed"
        book.breach("a transaction is committed atomically", what, [attempt.name])


def _judge_orders(book: Book, orders: Topic, entries: Mapping[str, list[BookEntry]]) -> None:
    by_order: dict[PaymentOrder, dict[str, None]] = {}
    for name, rows in entries.items():
        for entry in rows:
            by_order.setdefault(entry.order, {})[name] = None
    placed = dict.fromkeys(orders_of(orders))
    for order, names in by_order.items():
        if len(names) > 1:
            book.breach("an order is carried out once", f"{order} is carried out {len(names)} times", names)
        if order not in placed:
            book.breach(
                "read_committed returns no aborted records", f"{order} is carried out and is not committed", names
            )
    lost = [order for order in placed if order not in by_order]
    if lost and not book.found[HOLE]:  # an offset that came late, or an entry, may have taken an order with it
        book.breach("every order is carried out", f"{lost[:5]} of {len(placed)} are not", ())


def _judge_offsets(book: Book, entries: Mapping[str, list[BookEntry]], committed: Mapping[int, int]) -> None:
    latest: dict[int, tuple[int, str]] = {}
    for name in entries:
        for index, offset in book.attempts[name].offsets.items():
            latest[index] = max(latest.get(index, (0, "")), (offset, name))
    for index, (offset, name) in latest.items():
        if committed.get(index) != offset:
            what = f"orders-{index}: {committed.get(index)} is committed, what was written goes to {offset}"
            book.breach("offsets are committed with their transaction", what, [name])
