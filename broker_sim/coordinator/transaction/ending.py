"""EndTxn and the other ends of a transaction: the decision is appended to the log, markers to the partitions, the completion to the
log.

Source: TransactionCoordinator.endTransaction, TransactionMarkerChannelManager.
"""

from __future__ import annotations

from dataclasses import replace

from broker_sim.coordinator.outcome import Append, BatchProducer, TimerKey
from broker_sim.coordinator.transaction.commands import EndTransaction, Granted
from broker_sim.coordinator.transaction.policy import ENDED_ELSEWHERE
from broker_sim.coordinator.transaction.state import TransactionState, TransactionWrite
from broker_sim.coordinator.transaction.transaction import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    DECIDED,
    EMPTY,
    LAST_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    State,
    Stored,
    Transaction,
)
from kafka_wire.control_records import ControlType, control_record
from kafka_wire.end_markers import EndMarker
from kafka_wire.errors import NO_ERROR, Err

_BUMPS = 2
"""From this client version on a transaction ends with a new epoch (KIP-890)."""


# --- EndTxn -----------------------------------------------------------------------------------------------------------


def end_transaction(shard: TransactionState, token: int, body: EndTransaction) -> None:
    """A producer commits or aborts. It is answered when the log has the decision; the markers follow."""
    if body.transactional_id == "":
        shard.reply(token, Granted(Err.INVALID_REQUEST))
        return
    transaction = shard.transactions.get(body.transactional_id)
    if transaction is None:
        shard.reply(token, Granted(Err.INVALID_PRODUCER_ID_MAPPING))
        return
    verdict = _end_state(transaction, body)
    if isinstance(verdict, Err):
        stored = transaction.stored
        retried = Granted(NO_ERROR, stored.producer_id, transaction.epoch)
        shard.reply(token, retried if verdict is NO_ERROR else Granted(verdict))
        return
    _decide(shard, token, transaction, verdict, body.client_version)


def _end_state(transaction: Transaction, body: EndTransaction) -> State | Err:
    """The state of the transaction's end, NONE if it has ended that way already, or the error."""
    stored, epoch, bumps = transaction.stored, transaction.epoch, body.client_version >= _BUMPS
    if bumps and transaction.pending is not None:
        return Err.CONCURRENT_TRANSACTIONS  # for every request; old clients are checked first
    again_after_overflow = (
        bumps
        and stored.previous_producer_id == body.producer_id != stored.producer_id
        and body.producer_epoch == LAST_EPOCH
        and epoch == 0
    )
    again = again_after_overflow or (bumps and epoch == body.producer_epoch + 1)
    if stored.producer_id != body.producer_id and not again_after_overflow:
        return Err.INVALID_PRODUCER_ID_MAPPING
    if not _epoch_holds(stored.state, epoch == body.producer_epoch, again, bumps):
        return Err.PRODUCER_FENCED
    if transaction.pending is not None:
        return Err.CONCURRENT_TRANSACTIONS
    if stored.state is ONGOING:
        return PREPARE_COMMIT if body.commit else PREPARE_ABORT
    return (
        _ENDS[bumps, stored.state, body.commit, again] if stored.state not in DECIDED else Err.CONCURRENT_TRANSACTIONS
    )


def _epoch_holds(state: State, same: bool, again: bool, bumps: bool) -> bool:
    """Whether the epoch is valid. If each transaction has its own epoch, the one before is that of a retried request."""
    if not bumps or state in (ONGOING, EMPTY):
        return same
    return again or (same and state not in DECIDED)


def _ends() -> dict[tuple[bool, State, bool, bool], State | Err]:
    """Verdicts on an EndTxn without an open transaction: (new flow, state, commit, sent once more) -> state to change to, or error."""
    table: dict[tuple[bool, State, bool, bool], State | Err] = {}
    for commit in (False, True):
        for again in (False, True):
            table[False, EMPTY, commit, again] = Err.INVALID_TXN_STATE
            for state, committed in ((COMPLETE_COMMIT, True), (COMPLETE_ABORT, False)):
                table[False, state, commit, again] = NO_ERROR if commit is committed else Err.INVALID_TXN_STATE
                repeated = NO_ERROR if commit is committed else Err.INVALID_TXN_STATE
                # an abort without a transaction gives the next epoch: a client that lost its way asks for one so
                table[True, state, commit, again] = (
                    repeated if again else Err.INVALID_TXN_STATE if commit else PREPARE_ABORT
                )
            table[True, EMPTY, commit, again] = Err.INVALID_TXN_STATE if commit else PREPARE_ABORT
    return table


_ENDS = _ends()


# --- the decision -----------------------------------------------------------------------------------------------------


def _decide(shard: TransactionState, token: int, transaction: Transaction, state: State, client_version: int) -> None:
    """Write PrepareCommit or PrepareAbort, also if there was no transaction to end."""
    stored, epoch, last_epoch, next_id = transaction.stored, transaction.epoch, transaction.last_epoch, NO_PRODUCER_ID
    if client_version >= _BUMPS:
        if transaction.is_exhausted:
            fresh = shard.new_producer_id()
            if isinstance(fresh, Err):
                shard.reply(token, Granted(fresh))
                return
            next_id = fresh
        epoch, last_epoch = epoch + 1, epoch
    to = Stored(
        stored.producer_id,
        epoch,
        stored.timeout_ms,
        state,
        stored.partitions,
        updated_ms=shard.now_ms,
        started_ms=stored.started_ms if stored.state is ONGOING else shard.now_ms,
        client_version=client_version,
        previous_producer_id=stored.producer_id,
        next_producer_id=next_id,
    )
    shard.write(DecisionWrite(transaction, to, token, last_epoch=last_epoch))


class DecisionWrite(TransactionWrite):
    """PrepareCommit or PrepareAbort of an EndTxn, which is answered with what the transaction will end in. The markers follow."""

    __slots__ = ()

    def committed(self, shard: TransactionState) -> None:
        shard.cancel(("timeout", self.transaction.transactional_id))
        after = send_markers(shard, self.transaction)
        shard.reply(self.token, Granted(NO_ERROR, after.producer_id, after.epoch))


def fence(shard: TransactionState, transaction: Transaction, token: int | None) -> None:
    """Abort an open transaction whose producer is fenced with the next epoch: for an InitProducerId, or (None) after a timeout."""
    stored = transaction.stored
    policy = shard.settings.policy
    flow, next_id = policy.own_flow, NO_PRODUCER_ID
    if policy.fence_brings_another_id and transaction.is_exhausted:
        fresh = shard.new_producer_id()
        if isinstance(fresh, Err):
            _not_fenced(shard, transaction, token, fresh)
            return
        next_id = fresh
    epoch = transaction.epoch + 1 if transaction.fenced_epoch is None else transaction.epoch
    to = replace(
        stored,
        epoch=epoch,
        state=PREPARE_ABORT,
        updated_ms=shard.now_ms,
        client_version=flow,
        previous_producer_id=stored.producer_id,
        next_producer_id=next_id,
    )
    shard.write(FenceWrite(transaction, to, token, last_epoch=stored.epoch if flow >= _BUMPS else NO_EPOCH))


class FenceWrite(TransactionWrite):
    """PrepareAbort of a transaction whose producer is fenced. The InitProducerId that fences it is to be repeated."""

    __slots__ = ()

    def committed(self, shard: TransactionState) -> None:
        shard.cancel(("timeout", self.transaction.transactional_id))
        shard.reply(self.token, Granted(Err.CONCURRENT_TRANSACTIONS))
        send_markers(shard, self.transaction)

    def refused(self, shard: TransactionState, error: Err) -> None:
        self.transaction.fenced_epoch = self.to.epoch
        _not_fenced(shard, self.transaction, self.token, error)


def _not_fenced(shard: TransactionState, transaction: Transaction, token: int | None, error: Err) -> None:
    if token is None:
        arm_timeout(shard, transaction)
    else:
        shard.reply(token, Granted(error))


# --- the markers ------------------------------------------------------------------------------------------------------


def resume(shard: TransactionState, transaction: Transaction) -> None:
    """Resume a transaction that was loaded from the log: an open one may time out, one that is decided ends."""
    state = transaction.stored.state
    if state is ONGOING:
        arm_timeout(shard, transaction)
    elif state in DECIDED:
        send_markers(shard, transaction)


def send_markers(shard: TransactionState, transaction: Transaction) -> Stored:
    """The decision is committed: append a marker to each partition, and the completion to the log when all markers are written."""
    after = transaction.pending = _completed(transaction.stored, shard.now_ms)
    transaction.unmarked = dict.fromkeys(transaction.stored.partitions)
    if transaction.unmarked:
        _mark(shard, transaction)
    else:
        _complete(shard, transaction)
    return after


def _mark(shard: TransactionState, transaction: Transaction) -> None:
    """Append the markers that are neither written nor pending."""
    stored = transaction.stored
    kind = ControlType.COMMIT if stored.state is PREPARE_COMMIT else ControlType.ABORT
    epoch = shard.leader_epoch
    record, marker = control_record(kind, epoch), EndMarker(kind is ControlType.COMMIT, epoch)
    producer = BatchProducer(stored.producer_id, stored.epoch, marker)
    for at, under_way in transaction.unmarked.items():
        if under_way is None:
            ticket = transaction.unmarked[at] = shard.ticket()
            shard.markers[ticket] = transaction, at
            shard.out.appends.append(Append(ticket, [record], base_sequence=-1, producer=producer, to=at))


def marked(shard: TransactionState, ticket: int, error: Err) -> None:
    """The result of a marker. A deleted partition needs none; if another coordinator has ended the transaction at the partition the
    marker is dropped, and the transaction stays as it is until the next load. Other errors are retried."""
    marker = shard.markers.pop(ticket, None)
    if marker is None:
        return
    transaction, at = marker
    if error in (NO_ERROR, Err.UNKNOWN_TOPIC_OR_PARTITION):
        del transaction.unmarked[at]
        if not transaction.unmarked:
            _complete(shard, transaction)
    elif error not in ENDED_ELSEWHERE:
        transaction.unmarked[at] = None
        _later(shard, transaction)


def _complete(shard: TransactionState, transaction: Transaction) -> None:
    """All markers are written: append the completion (TransactionMarkerChannelManager's TxnLogAppend)."""
    assert transaction.pending is not None
    shard.write(CompletionWrite(transaction, transaction.pending, last_epoch=transaction.last_epoch))


class CompletionWrite(TransactionWrite):
    """CompleteCommit or CompleteAbort. It is repeated until it is in the log."""

    __slots__ = ()
    awaited = False

    def refused(self, shard: TransactionState, error: Err) -> None:
        self.transaction.pending = self.to
        _later(shard, self.transaction)


def _later(shard: TransactionState, transaction: Transaction) -> None:
    shard.arm(("markers", transaction.transactional_id), shard.settings.marker_retry_ms)


def try_again(shard: TransactionState, key: TimerKey) -> None:
    """Markers that could not be written, or the record that all are."""
    transaction = shard.transactions.get(str(key[1]))
    if transaction is None or transaction.stored.state not in DECIDED:
        return
    if transaction.unmarked:
        _mark(shard, transaction)
    else:
        _complete(shard, transaction)


def _completed(stored: Stored, now_ms: int) -> Stored:
    """The state after a decided transaction. If its epochs are exhausted the producer continues with the next producer id."""
    state = COMPLETE_COMMIT if stored.state is PREPARE_COMMIT else COMPLETE_ABORT
    producer_id, epoch = stored.producer_id, stored.epoch
    if stored.next_producer_id != NO_PRODUCER_ID:
        producer_id, epoch = stored.next_producer_id, 0
    return Stored(
        producer_id,
        epoch,
        stored.timeout_ms,
        state,
        updated_ms=now_ms,
        started_ms=stored.started_ms,
        client_version=stored.client_version,
        previous_producer_id=stored.producer_id,
    )


# --- time -------------------------------------------------------------------------------------------------------------


def arm_timeout(shard: TransactionState, transaction: Transaction) -> None:
    """Arm the timer of a transaction's timeout. Kafka checks all transactions at an interval; the timer fires at the check that would
    find this one."""
    stored, every_ms = transaction.stored, shard.settings.timeout_check_interval_ms
    over_ms = max(stored.started_ms + stored.timeout_ms, shard.now_ms) + 1
    checks = -(-(over_ms - shard.began_ms) // every_ms)
    check_ms = shard.began_ms + max(checks, 1) * every_ms
    shard.arm(("timeout", transaction.transactional_id), check_ms - shard.now_ms)


def timed_out(shard: TransactionState, key: TimerKey) -> None:
    """An open transaction has had its time: it is aborted, and its producer fenced."""
    transaction = shard.transactions.get(str(key[1]))
    if transaction is None or transaction.stored.state is not ONGOING:
        return
    stored = transaction.stored
    if transaction.pending is not None or stored.started_ms + stored.timeout_ms >= shard.now_ms:
        arm_timeout(shard, transaction)  # the next look decides
        return
    fence(shard, transaction, None)
