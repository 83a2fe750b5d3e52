"""Removes transactional ids that were not used for ``transactional.id.expiration.ms``.

Source: TransactionStateManager.removeExpiredTransactionalIds.
"""

from __future__ import annotations

from broker_sim.coordinator.outcome import TimerKey
from broker_sim.coordinator.transaction.records import TransactionRecord
from broker_sim.coordinator.transaction.state import TransactionState, TransactionWrite
from broker_sim.coordinator.transaction.transaction import CLOSED, State, Stored, Transaction


def arm(shard: TransactionState) -> None:
    """Arm the timer of the next check."""
    shard.arm(("expire",), shard.settings.expiry_check_interval_ms)


def expire(shard: TransactionState, key: TimerKey) -> None:
    """Ids without an open transaction whose last record is too old get a tombstone."""
    for transaction in shard.transactions.values():
        stored = transaction.stored
        idle_ms = shard.now_ms - stored.updated_ms
        if stored.state in CLOSED and transaction.pending is None and idle_ms >= shard.settings.id_expiration_ms:
            shard.write(TombstoneWrite(transaction))
    arm(shard)


class TombstoneWrite(TransactionWrite):
    """The tombstone of a transactional id. If it fails the next check tries again."""

    __slots__ = ()
    awaited = False

    def __init__(self, transaction: Transaction) -> None:
        stored = transaction.stored
        super().__init__(transaction, Stored(stored.producer_id, stored.epoch, stored.timeout_ms, State.DEAD))
        self.record = TransactionRecord(transaction.transactional_id, None)
