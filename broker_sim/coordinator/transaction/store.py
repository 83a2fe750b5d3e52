"""State of a shard's transactional ids according to the log; it changes by ``replay`` alone, record by record, live as at a load."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from broker_sim.coordinator.outcome import Outcome
from broker_sim.coordinator.shard_loader import ShardLoader
from broker_sim.coordinator.transaction.records import TransactionRecord, decode
from broker_sim.coordinator.transaction.transaction import Transaction

if TYPE_CHECKING:
    from broker_sim.coordinator.transaction.shard import TransactionShard


@dataclass(slots=True)
class TransactionStore:
    """The transactional ids of one partition of ``__transaction_state``."""

    transactions: dict[str, Transaction] = field(default_factory=dict)

    def replay(self, record: TransactionRecord) -> None:
        """Apply a record of the log."""
        stored = record.value
        if stored is None:
            self.transactions.pop(record.transactional_id, None)
            return
        known = self.transactions.get(record.transactional_id)
        if known is None:
            known = self.transactions[record.transactional_id] = Transaction(record.transactional_id, stored)
        known.stored, known.fenced_epoch = stored, None
        known.last_producer_id = stored.previous_producer_id


class TransactionLoader(ShardLoader["TransactionShard"]):
    """Loads a shard from its partition of ``__transaction_state``."""

    def __init__(self) -> None:
        super().__init__()
        self.store = TransactionStore()

    def read(self, log_offset: int, key: bytes | None, value: bytes | None, producer_id: int) -> None:
        self.store.replay(decode(key, value))

    def finish(self) -> TransactionStore:
        """The transactional ids, after the last record."""
        return self.store

    def start(self, shard: TransactionShard, now_ms: int) -> Outcome:
        return shard.start(self.finish(), now_ms)

    def found(self) -> str:
        return f"{len(self.store.transactions)} transactional ids"
