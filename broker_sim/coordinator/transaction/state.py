"""The state of a transaction coordinator's shard, and its writes: what the modules for requests of transactions share."""

from __future__ import annotations

from dataclasses import dataclass, field

from broker_sim.coordinator.outcome import Append
from broker_sim.coordinator.pending import LogShard, PendingWrite
from broker_sim.coordinator.transaction.commands import Granted
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


class NeedsProducerId(Exception):
    """The event can't be applied without a producer id. Raised before anything is changed."""


class TransactionWrite(PendingWrite["TransactionState"]):
    """The next state of a transactional id, ``to``, on its way into the log: `Transaction.pending` until it is committed or has failed.
    ``last_epoch``: the new `Transaction.last_epoch`. Subclasses say what follows."""

    __slots__ = ("last_epoch", "record", "to", "transaction")

    def __init__(
        self, transaction: Transaction, to: Stored, token: int | None = None, *, last_epoch: int = NO_EPOCH
    ) -> None:
        super().__init__(token)
        self.transaction, self.to, self.last_epoch = transaction, to, last_epoch
        self.record = TransactionRecord(transaction.transactional_id, to)

    def done(self, shard: TransactionState) -> None:
        self.publish(shard)
        self.committed(shard)

    def publish(self, shard: TransactionState) -> None:
        """Apply the record to the store."""
        transaction = self.transaction
        before = transaction.stored.producer_id
        shard.store.replay(self.record)
        transaction.pending = None
        transaction.last_epoch, transaction.last_producer_id = self.last_epoch, before
        transaction.last_start_ms = max(transaction.last_start_ms, self.to.started_ms)

    def failed(self, shard: TransactionState, error: Err) -> None:
        self.transaction.pending = None
        self.refused(shard, APPEND_ERRORS.get(error, Err.UNKNOWN_SERVER_ERROR))

    def committed(self, shard: TransactionState) -> None:
        """Answer the request, and continue: the record is committed and applied."""

    def refused(self, shard: TransactionState, error: Err) -> None:
        """Answer the request with ``error``, the client's: the record failed, or was not committed in time."""
        shard.reply(self.token, Granted(error))


@dataclass(slots=True, eq=False)
class TransactionState(LogShard[TransactionWrite]):
    """The state of one partition's coordinator and its outcome; it is passed to the request handlers. ``leader_epoch``: its
    partition's, which its markers carry; ``allocated``: the producer id that came with the present event, or the error."""

    partition: int
    settings: TransactionSettings
    leader_epoch: int = 0
    allocated: int | Err | None = None
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

    def new_producer_id(self) -> int | Err:
        """A producer id that no producer has, or the error. Raises NeedsProducerId if none came with the event; at most one comes."""
        if self.allocated is None:
            raise NeedsProducerId
        return self.allocated

    def started_ms(self, transaction: Transaction) -> int:
        """Start time of the transaction, in ms, as requests describe it."""
        stored = transaction.stored
        if stored.state is EMPTY and self.settings.policy.last_start_is_returned:
            return transaction.last_start_ms
        return stored.started_ms

    def write(self, write: TransactionWrite) -> None:
        """Hand the next state of a transactional id to the log."""
        write.transaction.pending = write.to
        ticket = self.ticket()
        self.out.appends.append(Append(ticket, [encode(write.record, self.settings.policy)], base_sequence=-1))
        self.writes[ticket] = write
