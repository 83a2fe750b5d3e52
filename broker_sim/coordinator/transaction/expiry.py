"""Removes transactional ids that were not used for ``transactional.id.expiration.ms``.

Source: TransactionStateManager.removeExpiredTransactionalIds.
"""

from __future__ import annotations

from broker_sim.coordinator.outcome import TimerKey
from broker_sim.coordinator.transaction.records import TransactionRecord
from broker_sim.coordinator.transaction.state import TransactionState, TransactionWrite
from broker_sim.coordinator.transaction.transaction import CLOSED, State, Stored, Transaction
from kafka_wire.errors import Err


def arm(shard: TransactionState) -> None:
    """Arm the timer of the next check."""
    shard.arm(("expire",), shard.settings.expiry_check_interval_ms)


def expire(shard: TransactionState, key: TimerKey) -> None:
    """Ids without an open transaction whose last record is too old get a tombstone."""
    for transaction in shard.transactions.values():
        stored = transaction.stored
        idle_ms = shard.now_ms - stored.updated_ms
        if stored.state in CLOSED and transaction.pending is None and idle_ms >= shard.settings.id_expiration_ms:
            _append_tombstone(shard, transaction)
    arm(shard)


def _append_tombstone(shard: TransactionState, transaction: Transaction) -> None:
    def kept(_: Err) -> None:
        transaction.pending = None  # the next look tries again

    transaction.pending = _dead(transaction.stored)
    record = TransactionRecord(transaction.transactional_id, None)
    shard.write(TransactionWrite(record, lambda: None, kept, awaited=False))


def _dead(stored: Stored) -> Stored:
    return Stored(stored.producer_id, stored.epoch, stored.timeout_ms, State.DEAD)
