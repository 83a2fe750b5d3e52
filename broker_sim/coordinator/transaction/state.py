"""Common parts of the transaction coordinator's modules: a shard's state, its outcome, and records that wait for the log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from broker_sim.coordinator.outcome import Append, Outcome, TimerKey
from broker_sim.coordinator.transaction.policy import APPEND_ERRORS, TransactionSettings
from broker_sim.coordinator.transaction.records import TransactionRecord, encode
from broker_sim.coordinator.transaction.store import TransactionStore
from broker_sim.coordinator.transaction.transaction import (
    EMPTY,
    NO_EPOCH,
    Partition,
    Stored,
    Transaction,
)
from kafka_wire.errors import Err


@dataclass(slots=True)
class Write:
    """A pending record. ``done`` is called when it is committed and replayed, ``failed(client's error)`` if it fails; ``awaited``: a
    request waits, so it may time out. ``last_epoch``: the new `Transaction.last_epoch`."""

    record: TransactionRecord
    done: Callable[[], None]
    failed: Callable[[Err], None]
    awaited: bool
    last_epoch: int = NO_EPOCH
    last_offset: int = -1


@dataclass(slots=True, eq=False)
class TransactionState:
    """The state of one partition's coordinator and its outcome; it is passed to the request handlers.

    ``epoch()``: the leader epoch of its partition, which its markers carry. ``new_producer_id()``: an unused producer id, or the error.
    """

    partition: int
    settings: TransactionSettings
    epoch: Callable[[], int]
    new_producer_id: Callable[[], int | Err]
    store: TransactionStore = field(default_factory=TransactionStore)
    writes: dict[int, Write] = field(default_factory=dict)  # by ticket, in the order of their append
    markers: dict[int, tuple[Transaction, Partition]] = field(default_factory=dict)  # by ticket
    high_watermark: int = 0
    last_written: int = -1
    now_ms: int = 0
    began_ms: int = 0
    out: Outcome = field(default_factory=Outcome)
    next_ticket: int = 0

    @property
    def transactions(self) -> dict[str, Transaction]:
        """The transactions of the shard by transactional id."""
        return self.store.transactions

    @property
    def in_flight(self) -> bool:
        """Whether anything is appended to its partition and not committed."""
        return bool(self.writes)

    def started_ms(self, transaction: Transaction) -> int:
        """Start time of the transaction, in ms, as requests describe it."""
        stored = transaction.stored
        if stored.state is EMPTY and self.settings.policy.last_start_is_returned:
            return transaction.last_start_ms
        return stored.started_ms

    def reply(self, token: int | None, answer: Any) -> None:
        """Answer a request; without effect for the token None."""
        if token is not None:
            self.out.replies.append((token, answer))

    def arm(self, key: TimerKey, deadline_ms: int) -> None:
        """Arm a timer, or move it."""
        self.out.timers.append((key, deadline_ms))

    def cancel(self, key: TimerKey) -> None:
        """Disarm a timer, if it is armed."""
        self.out.timers.append((key, None))

    def ticket(self) -> int:
        """The ticket of the next append."""
        self.next_ticket += 1
        return self.next_ticket

    def transit(
        self,
        transaction: Transaction,
        to: Stored,
        *,
        last_epoch: int,
        done: Callable[[], None],
        failed: Callable[[Err], None],
        awaited: bool = True,
    ) -> None:
        """Let the log have the next state of a transactional id. It is pending until that is committed, or has failed."""
        transaction.pending = to

        def abandoned(error: Err) -> None:
            transaction.pending = None
            failed(error)

        self.write(Write(TransactionRecord(transaction.transactional_id, to), done, abandoned, awaited, last_epoch))

    def write(self, write: Write) -> None:
        """Hand a record to the log."""
        ticket = self.ticket()
        self.out.appends.append(Append(ticket, [encode(write.record, self.settings.policy)], base_sequence=-1))
        self.writes[ticket] = write

    def written(self, write: Write) -> None:
        """The write is committed: publish it and answer its request."""
        record = write.record
        known = self.store.transactions.get(record.transactional_id)
        if known is None or record.value is None:
            self.store.replay(record)
        else:
            before = known.stored.producer_id
            self.store.replay(record)
            known.pending = None
            known.last_epoch = write.last_epoch
            known.last_start_ms = max(known.last_start_ms, record.value.started_ms)
            known.last_producer_id = before
        write.done()


def client_error(error: Err) -> Err:
    """The error that a client gets for an append's error."""
    return APPEND_ERRORS.get(error, Err.UNKNOWN_SERVER_ERROR)
