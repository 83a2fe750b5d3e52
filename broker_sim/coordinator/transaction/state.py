"""The state of a transaction coordinator's shard, and its writes: what the modules for requests of transactions share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from broker_sim.coordinator.outcome import Append
from broker_sim.coordinator.pending import LogShard, PendingWrite
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


class TransactionWrite(PendingWrite["TransactionState"]):
    """A pending record of a transactional id. ``on_done`` is called when it is committed and replayed, ``on_failed(client's error)`` if
    it fails; ``awaited``: a request waits, so it may time out. ``last_epoch``: the new `Transaction.last_epoch`."""

    __slots__ = ("awaited", "last_epoch", "on_done", "on_failed", "record")

    def __init__(
        self,
        record: TransactionRecord,
        on_done: Callable[[], None],
        on_failed: Callable[[Err], None],
        *,
        awaited: bool,
        last_epoch: int = NO_EPOCH,
    ) -> None:
        super().__init__(None)
        self.record, self.on_done, self.on_failed = record, on_done, on_failed
        self.awaited, self.last_epoch = awaited, last_epoch

    def done(self, shard: TransactionState) -> None:
        shard.publish(self)
        self.on_done()

    def failed(self, shard: TransactionState, error: Err) -> None:
        self.on_failed(APPEND_ERRORS.get(error, Err.UNKNOWN_SERVER_ERROR))


@dataclass(slots=True, eq=False)
class TransactionState(LogShard[TransactionWrite]):
    """The state of one partition's coordinator and its outcome; it is passed to the request handlers.

    ``epoch()``: the leader epoch of its partition, which its markers carry. ``new_producer_id()``: an unused producer id, or the error.
    """

    partition: int
    settings: TransactionSettings
    epoch: Callable[[], int]
    new_producer_id: Callable[[], int | Err]
    store: TransactionStore = field(default_factory=TransactionStore)
    markers: dict[int, tuple[Transaction, Partition]] = field(default_factory=dict)  # by ticket
    began_ms: int = 0

    @property
    def transactions(self) -> dict[str, Transaction]:
        """The transactions of the shard by transactional id."""
        return self.store.transactions

    @property
    def append_timeout_ms(self) -> int:
        return self.settings.append_timeout_ms

    def started_ms(self, transaction: Transaction) -> int:
        """Start time of the transaction, in ms, as requests describe it."""
        stored = transaction.stored
        if stored.state is EMPTY and self.settings.policy.last_start_is_returned:
            return transaction.last_start_ms
        return stored.started_ms

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

        record = TransactionRecord(transaction.transactional_id, to)
        self.write(TransactionWrite(record, done, abandoned, awaited=awaited, last_epoch=last_epoch))

    def write(self, write: TransactionWrite) -> None:
        """Hand a record to the log."""
        ticket = self.ticket()
        self.out.appends.append(Append(ticket, [encode(write.record, self.settings.policy)], base_sequence=-1))
        self.writes[ticket] = write

    def publish(self, write: TransactionWrite) -> None:
        """Apply a committed record to the store."""
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
