"""Queries of transactional ids: DescribeTransactions and ListTransactions.

Source: TransactionCoordinator.handleDescribeTransactions, TransactionStateManager.listTransactionStates.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

from broker_sim.common.slices import Pace
from broker_sim.coordinator.regular_expressions import compiling
from broker_sim.coordinator.transaction.state import TransactionState
from broker_sim.coordinator.transaction.transaction import State, Transaction
from kafka_wire.errors import Err
from kafka_wire.messages import k65_describe_transactions as described
from kafka_wire.messages import k66_list_transactions as listed

STATES = {state.kafka_name: state for state in State}
"""By the names that ListTransactions filters by."""
_CHARACTERS = 100_000
"""Characters of transactional ids that are collected in one piece."""


@dataclass(frozen=True, slots=True)
class Filters:
    """Filters of a ListTransactions. ``states`` and ``producer_ids`` None, ``longer_than_ms`` -1, ``pattern`` None: all pass."""

    states: frozenset[State] | None = None
    producer_ids: frozenset[int] | None = None
    longer_than_ms: int = -1
    pattern: str | None = None
    """An expression of RE2's (KIP-1152)."""

    def pass_(self, transaction: Transaction, started_ms: int, now_ms: int) -> bool:
        """Whether a transactional id passes the filters, without the pattern. Without a transaction its start is -1, which passes every
        duration filter."""
        stored = transaction.stored
        if self.producer_ids is not None and stored.producer_id not in self.producer_ids:
            return False
        if self.states is not None and stored.state not in self.states:
            return False
        return self.longer_than_ms < 0 or now_ms - started_ms > self.longer_than_ms


def filters_of(states: Sequence[str], producer_ids: Sequence[int], longer_than_ms: int, pattern: str | None) -> Filters:
    """Filters of a request: empty ones let all pass, unknown names of states let none pass."""
    return Filters(
        frozenset(STATES[name] for name in states if name in STATES) if states else None,
        frozenset(producer_ids) if producer_ids else None,
        longer_than_ms,
        pattern or None,
    )


def listing(
    shard: TransactionState, filters: Filters, now_ms: int
) -> Generator[listed.TransactionState | None, None, None]:
    """The shard's transactional ids that pass the filters, at their present state; yields None where other requests may be served."""
    rows = [
        listed.TransactionState(
            transaction.transactional_id, transaction.stored.producer_id, transaction.stored.state.kafka_name
        )
        for transaction in shard.transactions.values()
        if not _expires(transaction) and filters.pass_(transaction, shard.started_ms(transaction), now_ms)
    ]
    if filters.pattern is None or not rows:
        yield from rows
        return
    yield None  # an expression may take as long as a piece
    alphabet: set[str] = set()
    pace = Pace(_CHARACTERS)
    for row in rows:
        alphabet.update(row.transactional_id)
        if pace.full(len(row.transactional_id)):
            yield None
    matcher = (yield from compiling(filters.pattern, alphabet)).matcher()
    for row in rows:
        for is_match in matcher.matching(row.transactional_id):
            if is_match is None:
                yield None
            elif is_match:
                yield row


def describe(shard: TransactionState, transactional_id: str) -> described.TransactionState:
    """A transactional id's row in DescribeTransactions; its partitions are those without a marker."""
    transaction = shard.transactions.get(transactional_id)
    if transaction is None or _expires(transaction):
        return described.TransactionState(Err.TRANSACTIONAL_ID_NOT_FOUND, transactional_id)
    stored = transaction.stored
    topics: dict[str, described.TopicData] = {}
    for topic, index in transaction.unmarked or stored.partitions:
        topics.setdefault(topic, described.TopicData(topic)).partitions.append(index)
    return described.TransactionState(
        Err.NONE,
        transactional_id,
        stored.state.kafka_name,
        stored.timeout_ms,
        shard.started_ms(transaction),
        stored.producer_id,
        transaction.epoch,
        list(topics.values()),
    )


def _expires(transaction: Transaction) -> bool:
    """Whether its tombstone is pending."""
    return transaction.pending is not None and transaction.pending.state is State.DEAD
