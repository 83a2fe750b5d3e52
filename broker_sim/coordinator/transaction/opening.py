"""InitProducerId and AddPartitionsToTxn: a producer gets its epoch, and a transaction the partitions that it writes to.

Source: TransactionCoordinator.prepareInitProducerIdTransit and handleAddPartitionsToTransaction, TransactionMetadata.
"""

from __future__ import annotations

from broker_sim.coordinator.transaction import ending
from broker_sim.coordinator.transaction.commands import AddPartitions, Granted, InitProducerId
from broker_sim.coordinator.transaction.state import TransactionState, TransactionWrite
from broker_sim.coordinator.transaction.transaction import (
    CLOSED,
    DECIDED,
    EMPTY,
    LAST_EPOCH,
    NO_EPOCH,
    ONGOING,
    Stored,
    Transaction,
)
from kafka_wire.errors import NO_ERROR, Err


def init_producer_id(shard: TransactionState, token: int, body: InitProducerId) -> None:
    """InitProducerId: a new producer, or one that continues after an error, gets the next epoch; earlier producers of the id are
    fenced.

    An open transaction is aborted first, under an epoch that is never assigned; the request is answered CONCURRENT_TRANSACTIONS, so
    that the producer retries.
    """
    if not shard.settings.allows_timeout(body.timeout_ms):
        shard.reply(token, Granted(Err.INVALID_TRANSACTION_TIMEOUT))
        return
    transaction = shard.transactions.get(body.transactional_id)
    if transaction is None:
        made = _new(shard, body)
        if isinstance(made, Err):
            shard.reply(token, Granted(made))
            return
        transaction = made
    if transaction.pending is not None:
        shard.reply(token, Granted(Err.CONCURRENT_TRANSACTIONS))
    elif not _is_known(transaction, body.expected):
        shard.reply(token, Granted(Err.PRODUCER_FENCED))
    elif transaction.stored.state is ONGOING:
        ending.fence(shard, transaction, token)
    else:
        _next_epoch(shard, token, transaction, body)


def _new(shard: TransactionState, body: InitProducerId) -> Transaction | Err:
    """A new transactional id: it has a producer id, and no epoch until its first record is committed."""
    producer_id = shard.new_producer_id()
    if isinstance(producer_id, Err):
        return producer_id
    stored_new = Stored(producer_id, NO_EPOCH, body.timeout_ms, EMPTY, updated_ms=shard.now_ms)
    transaction = shard.transactions[body.transactional_id] = Transaction(body.transactional_id, stored_new)
    return transaction


def _is_known(transaction: Transaction, expected: tuple[int, int] | None) -> bool:
    """Whether a producer that names its id may have it: it is new here, has that producer id, or had the one before it to its last
    epoch (the answer to its last InitProducerId was lost)."""
    if expected is None or transaction.epoch == NO_EPOCH:
        return True
    producer_id, epoch = expected
    return producer_id == transaction.stored.producer_id or (
        producer_id == transaction.last_producer_id and epoch >= LAST_EPOCH
    )


def _next_epoch(shard: TransactionState, token: int, transaction: Transaction, body: InitProducerId) -> None:
    expected_epoch = None if body.expected is None else body.expected[1]
    stored, epoch = transaction.stored, transaction.epoch
    producer_id = stored.producer_id
    if transaction.is_exhausted and expected_epoch in (None, epoch):
        fresh = shard.new_producer_id()
        if isinstance(fresh, Err):
            shard.reply(token, Granted(fresh))
            return
        last_epoch = NO_EPOCH if expected_epoch is None else epoch
        producer_id, epoch = fresh, 0
    elif transaction.is_exhausted:
        # TransactionMetadata.prepareIncrementProducerEpoch throws: it has no epoch to give to a producer that names an earlier one
        shard.reply(token, Granted(Err.UNKNOWN_SERVER_ERROR))
        return
    elif expected_epoch is None:
        epoch, last_epoch = epoch + 1, NO_EPOCH
    elif epoch == NO_EPOCH or expected_epoch == epoch:
        epoch, last_epoch = epoch + 1, epoch
    elif expected_epoch == transaction.last_epoch:
        last_epoch = transaction.last_epoch  # it asks again: the answer was lost
    else:
        shard.reply(token, Granted(Err.PRODUCER_FENCED))
        return
    to = Stored(
        producer_id,
        epoch,
        body.timeout_ms,
        EMPTY,
        updated_ms=shard.now_ms,
        client_version=stored.client_version,
        previous_producer_id=stored.producer_id,
    )
    shard.write(ProducerWrite(transaction, to, token, last_epoch=last_epoch))


class ProducerWrite(TransactionWrite):
    """The next epoch of a producer, or its first."""

    __slots__ = ()

    def committed(self, shard: TransactionState) -> None:
        shard.reply(self.token, Granted(NO_ERROR, self.to.producer_id, self.to.epoch))


def add_partitions(shard: TransactionState, token: int, body: AddPartitions) -> None:
    """Partitions join the transaction, which begins with the first of them; or the question is whether they are in it."""
    if body.verify_only:
        shard.reply(token, _verified(shard, body))
        return
    transaction = shard.transactions.get(body.transactional_id)
    error = _refusal(shard, transaction, body)
    if error is not NO_ERROR or transaction is None:
        shard.reply(token, _all(body, error))
        return
    stored = transaction.stored
    known = dict.fromkeys(stored.partitions if stored.state is ONGOING else ())
    added = [partition for partition in dict.fromkeys(body.partitions) if partition not in known]
    if stored.state is ONGOING and not added:
        shard.reply(token, _all(body, NO_ERROR))
        return
    begins = stored.state in CLOSED
    to = Stored(
        stored.producer_id,
        transaction.epoch,
        stored.timeout_ms,
        ONGOING,
        (*known, *added),
        updated_ms=shard.now_ms,
        started_ms=shard.now_ms if begins else stored.started_ms,
        client_version=body.client_version,
        previous_producer_id=stored.producer_id,
    )
    shard.write(PartitionsWrite(transaction, to, token, body, begins=begins))


class PartitionsWrite(TransactionWrite):
    """The partitions of a transaction, which ``begins`` with them or has more of them."""

    __slots__ = ("begins", "body")

    def __init__(self, transaction: Transaction, to: Stored, token: int, body: AddPartitions, *, begins: bool) -> None:
        super().__init__(transaction, to, token, last_epoch=transaction.last_epoch)
        self.body, self.begins = body, begins

    def committed(self, shard: TransactionState) -> None:
        if self.begins:
            ending.arm_timeout(shard, self.transaction)
        shard.reply(self.token, _all(self.body, NO_ERROR))

    def refused(self, shard: TransactionState, error: Err) -> None:
        shard.reply(self.token, _all(self.body, error))


def _refusal(shard: TransactionState, transaction: Transaction | None, body: AddPartitions) -> Err:
    if body.transactional_id == "":
        return Err.INVALID_REQUEST
    if transaction is None:
        return Err.INVALID_PRODUCER_ID_MAPPING
    busy = transaction.pending is not None or transaction.stored.state in DECIDED
    if busy and shard.settings.policy.pending_comes_first:
        return Err.CONCURRENT_TRANSACTIONS
    if transaction.stored.producer_id != body.producer_id:
        return Err.INVALID_PRODUCER_ID_MAPPING
    if transaction.epoch != body.producer_epoch:
        return Err.PRODUCER_FENCED
    return Err.CONCURRENT_TRANSACTIONS if busy else NO_ERROR


def _verified(shard: TransactionState, body: AddPartitions) -> dict[tuple[str, int], Err]:
    transaction = shard.transactions.get(body.transactional_id)
    if body.transactional_id == "":
        return _all(body, Err.INVALID_REQUEST)
    if transaction is None or transaction.stored.producer_id != body.producer_id:
        return _all(body, Err.INVALID_PRODUCER_ID_MAPPING)
    if transaction.epoch != body.producer_epoch:
        return _all(body, Err.PRODUCER_FENCED)
    if transaction.stored.state in DECIDED:
        return _all(body, Err.CONCURRENT_TRANSACTIONS)
    # pending records don't count yet; the append to the partition checks again
    added, absent = set(transaction.stored.partitions), shard.settings.policy.not_verified
    return {partition: NO_ERROR if partition in added else absent for partition in body.partitions}


def _all(body: AddPartitions, error: Err) -> dict[tuple[str, int], Err]:
    return dict.fromkeys(body.partitions, error)
