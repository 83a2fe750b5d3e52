"""Differences between releases' transaction coordinators, as data; and the broker settings that they use.

Measured on 3.4.0, 4.1.0, 4.2.1, 4.3.1 and 4.4.0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kafka_wire.errors import Err


@dataclass(frozen=True, slots=True)
class TransactionPolicy:
    """One generation of the transaction coordinator."""

    value_version: int
    """Version of the values of records written: 1 has the fields of transaction version 2 (KIP-890, TransactionLog.valueToBytes)."""
    own_flow: int
    """The client version (KIP-890) under which the coordinator itself aborts: a timeout, a second instance of the producer."""
    pending_comes_first: bool
    """AddPartitionsToTxn checks for a pending transition before it checks the producer, lest a client that starts again with its next
    producer id fences itself (KAFKA-18660)."""
    not_verified: Err
    """The error of a partition that is not in the transaction, for a request that only verifies (KIP-890,
    TransactionCoordinator.handleVerifyPartitionsInTransaction: TRANSACTION_ABORTABLE since 3.8)."""
    other_ids_are_written: bool
    """Records name the producer ids before and after their own (tags 0 and 1 of TransactionLogValue); else a load knows of neither
    (measured: 4.4.0 writes them, 4.1.0 does not)."""
    fence_brings_another_id: bool
    """If a fenced producer has used its last epoch, its transaction ends with the next producer id, as by EndTxn v5 (KAFKA-20090; else
    the id is not replaced, and the transaction may stay Ongoing)."""
    last_start_is_returned: bool
    """After InitProducerId an id is described with the start of its last transaction until it is loaded
    (TransactionMetadata.completeTransitionTo keeps txnStartTimestamp; measured on 3.4.0)."""


_TV1 = TransactionPolicy(
    value_version=0,
    own_flow=0,
    pending_comes_first=False,
    not_verified=Err.INVALID_TXN_STATE,
    other_ids_are_written=False,
    fence_brings_another_id=False,
    last_start_is_returned=True,
)
_TV1_3_8 = replace(_TV1, not_verified=Err.TRANSACTION_ABORTABLE)
_TV2 = replace(_TV1_3_8, value_version=1, own_flow=2, pending_comes_first=True, last_start_is_returned=False)
_TV2_4_3 = replace(_TV2, other_ids_are_written=True, fence_brings_another_id=True)

SINCE = (((4, 3), _TV2_4_3), ((4, 0), _TV2), ((3, 8), _TV1_3_8), ((3, 0), _TV1))
"""The coordinators by the first release that has it so."""

APPEND_ERRORS = {
    Err.UNKNOWN_TOPIC_OR_PARTITION: Err.COORDINATOR_NOT_AVAILABLE,
    Err.NOT_ENOUGH_REPLICAS: Err.COORDINATOR_NOT_AVAILABLE,
    Err.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Err.COORDINATOR_NOT_AVAILABLE,
    Err.REQUEST_TIMED_OUT: Err.COORDINATOR_NOT_AVAILABLE,
    Err.NOT_LEADER_OR_FOLLOWER: Err.NOT_COORDINATOR,
    Err.KAFKA_STORAGE_ERROR: Err.NOT_COORDINATOR,
}
"""An append's error -> the client's; all others are UNKNOWN_SERVER_ERROR (TransactionStateManager.appendTransactionToLog)."""

ENDED_ELSEWHERE = (Err.INVALID_PRODUCER_EPOCH, Err.TRANSACTION_COORDINATOR_FENCED)
"""The errors of a marker that is too late: another coordinator has ended the transaction at the partition. It is not retried
(TransactionMarkerRequestCompletionHandler)."""


def policy_of(release: tuple[int, int]) -> TransactionPolicy:
    """The policy of a Kafka release."""
    return next(policy for since, policy in SINCE if release >= since)


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """The broker configs that the core uses; in ms if the name ends so."""

    policy: TransactionPolicy = _TV2
    max_timeout_ms: int = 900_000
    timeout_check_interval_ms: int = 10_000
    id_expiration_ms: int = 604_800_000
    expiry_check_interval_ms: int = 3_600_000
    append_timeout_ms: int = 30_000
    marker_retry_ms: int = 100
    """Pause before a marker that could not be written, or the record that all are, is tried again. Kafka's send loop has no setting for
    it: it turns as often as its connections do."""

    def allows_timeout(self, timeout_ms: int) -> bool:
        """Whether a producer may have that transaction timeout."""
        return 0 < timeout_ms <= self.max_timeout_ms
