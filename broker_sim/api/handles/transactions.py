"""The handle of a transactional id: its state, waits for a state, and the history of its transactions as text.

orders = await kafka.transaction("orders-app").ongoing()
async with orders.state_log.stuck(): ...
await orders.state_is("CompleteCommit")
print(orders.explain())
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from broker_sim.api.handles.in_process import ask
from broker_sim.api.handles.logs import LogHandle
from broker_sim.api.wait import TIMEOUT, until
from broker_sim.common.text import UsageError, nearest
from broker_sim.coordinator.transaction.transaction import State
from broker_sim.fields.kafka import TRANSACTION_STATE
from broker_sim.metadata.topics import TRANSACTION_TOPIC
from broker_sim.storage import partition_for
from kafka_wire.api_keys import ApiKey
from kafka_wire.errors import Err

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster
    from broker_sim.coordinator.transaction import transaction as at_coordinator
    from broker_sim.coordinator.transaction.shard import TransactionShard
    from broker_sim.explain.transactions import JournalTransactions, TransactionHistory, TransactionRequest
    from broker_sim.fields.names import TransactionStateLiteral

__all__ = ["GONE", "UNKNOWN", "TransactionHandle"]

GONE, UNKNOWN = "Dead", "Unknown"
"""The states of an id that no coordinator has, and of one without an available coordinator."""

_VERSION = 4
"""Version of InitProducerId: the last one that all releases handle alike."""


@dataclass(frozen=True, slots=True)
class _Looked:
    """The state of a transactional id at its coordinator. ``found``: None if the id does not exist; ``error``: why the coordinator
    can't respond, else NONE."""

    found: at_coordinator.Transaction | None
    error: Err = Err.NONE


class TransactionHandle:
    """A transactional id of ``cluster``; it need not exist yet."""

    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        self.cluster, self.transactional_id = cluster, transactional_id
        self._journal = cluster.observe()

    # state

    @property
    def state(self) -> str:
        """Kafka's name of its state (`Empty`, `Ongoing`, `PrepareCommit`, ...); ``Dead`` for a missing id, ``Unknown`` while its
        coordinator is loading or missing."""
        looked = self._look()
        if looked.error is not Err.NONE:
            return UNKNOWN
        return GONE if looked.found is None else looked.found.stored.state.kafka_name

    @property
    def producer_id(self) -> int:
        """The producer id, -1 if there is no producer."""
        transaction = self._look().found
        return -1 if transaction is None else transaction.stored.producer_id

    @property
    def epoch(self) -> int:
        """The current producer epoch, -1 if there is no producer."""
        transaction = self._look().found
        return -1 if transaction is None else transaction.epoch

    @property
    def partitions(self) -> list[tuple[str, int]]:
        """(topic, partition) of its transaction; after the decision those without a marker yet."""
        transaction = self._look().found
        return [] if transaction is None else list(transaction.unmarked or transaction.stored.partitions)

    @property
    def timeout_ms(self) -> int | None:
        """transaction.timeout.ms of its producer, or None."""
        transaction = self._look().found
        return None if transaction is None else transaction.stored.timeout_ms

    @property
    def coordinator(self) -> int | None:
        """The node id of its coordinator, or None."""
        partition = self.cluster.transactions.partition_of(self.transactional_id)
        return None if partition is None or partition.leader < 0 else partition.leader

    @property
    def state_log(self) -> LogHandle:
        """The `__transaction_state` partition with its records; the topic is created if missing."""
        topic = self.cluster.state.ensure_internal_topic(TRANSACTION_TOPIC)
        return LogHandle(self.cluster, topic.partitions[partition_for(self.transactional_id, len(topic.partitions))])

    # waits

    async def wait(
        self, *, state: TransactionStateLiteral | str | None = None, epoch: int | None = None, timeout: object = TIMEOUT
    ) -> TransactionHandle:
        """Wait until all given conditions hold at once: the state, that epoch or a later one. Returns the handle. Raises
        WaitTimeout, UsageError for an unknown state."""
        state = None if state is None else TRANSACTION_STATE.read(state)
        parts = {"state": state, "epoch at least": epoch}
        wanted = ", ".join(f"{name} {value}" for name, value in parts.items() if value is not None)

        def holds() -> bool:
            return (state is None or self.state == state) and (epoch is None or self.epoch >= epoch)

        await self._until(holds, wanted or "nothing", timeout)
        return self

    async def ongoing(self, timeout: object = TIMEOUT) -> TransactionHandle:
        """Wait until it has an open transaction. Returns the handle."""
        return await self.wait(state=State.ONGOING.kafka_name, timeout=timeout)

    async def state_is(self, state: TransactionStateLiteral | str, timeout: object = TIMEOUT) -> TransactionHandle:
        """Wait until it enters that state, even for a moment. Returns the handle."""
        state = TRANSACTION_STATE.read(state)

        def passes(event: Mapping[str, Any]) -> bool:
            return bool(
                event["event"] == "transaction"
                and event["transactional_id"] == self.transactional_id
                and event["state"] == state
                and event["action"] != "refused"
            )

        await self._until(lambda: self.state == state, f"state {state}", timeout, seen=passes)
        return self

    # deeds

    async def abort(self, timeout: object = TIMEOUT) -> None:
        """Fence its producer and abort its transaction with an InitProducerId, as Admin.fenceProducers does. Raises UsageError if
        the coordinator refuses."""
        from kafka_wire.messages.k22_init_producer_id import InitProducerIdRequest

        leader, transaction = self.coordinator, self._look().found
        if leader is None or transaction is None:
            raise UsageError(f"{self.transactional_id!r} can't be aborted: it is {self.state}")
        request = InitProducerIdRequest(self.transactional_id, transaction.stored.timeout_ms)
        broker, what = self.cluster.state.brokers[leader], f"an answer to the abort of {self.transactional_id!r}"
        response = await ask(
            self.cluster, broker, ApiKey.INIT_PRODUCER_ID, _VERSION, request, timeout=timeout, what=what
        )
        error = Err(response.error_code)
        # CONCURRENT_TRANSACTIONS: the abort is under way, and the next epoch would be given after it
        if error not in (Err.NONE, Err.CONCURRENT_TRANSACTIONS):
            raise UsageError(f"the coordinator of {self.transactional_id!r} does not abort: {error.name}")

    # what became of it

    def history(self) -> list[TransactionHistory]:
        """The transactions of the transactional id in the journal, in the order in which they began."""
        return self._read().of(self.transactional_id)

    def failed_requests(self) -> list[TransactionRequest]:
        """Requests of the transactional id in the journal that were refused, hit by a fault rule, or without a response for a second or
        more, in its transactions and outside: each with its client (``sender``), ``call`` (API, times, errors), ``rules`` and
        ``reason``."""
        result = self._read()
        found = result.ids.get(self.transactional_id)
        requests = [] if found is None else list(found.requests)
        requests += [request for transaction in result.of(self.transactional_id) for request in transaction.requests]
        return sorted(requests, key=lambda request: request.order)

    def explain(self) -> str:
        """Explain the transactions, as text: how each ended, who ended it, how long it took and what it delayed; which requests were
        refused and why; which faults delayed them."""
        from broker_sim.explain.transaction_text import text_of_transactions

        return text_of_transactions(self._read(), self.transactional_id)

    def _read(self) -> JournalTransactions:
        """The transactions of the journal, up to the present time."""
        from broker_sim.explain.transactions import transactions

        return transactions(self._journal.events, self.cluster.state.clock.now_ms())

    def __repr__(self) -> str:
        return f"<transactional id {self.transactional_id!r}: {self._now()}>"

    # look-ups

    def _look(self) -> _Looked:
        coordinators = self.cluster.transactions
        if coordinators.partition_of(self.transactional_id) is None:
            return _Looked(None)
        shard: TransactionShard | Err = coordinators.leading(self.transactional_id)
        if isinstance(shard, Err):
            return _Looked(None, shard)
        return _Looked(shard.transactions.get(self.transactional_id))

    async def _until(
        self,
        condition: Callable[[], object],
        wanted: str,
        timeout: object,
        seen: Callable[[Mapping[str, Any]], object] | None = None,
    ) -> None:
        what = f"transactional id {self.transactional_id!r}: {wanted}"
        await until(condition, self._journal, timeout, what, seen=seen, now=self._now)

    def _now(self) -> str:
        looked = self._look()
        if looked.error is not Err.NONE:
            return f"no coordinator responds: {looked.error.name}"
        if looked.found is None:
            meant = nearest(self.transactional_id, ids_of(self.cluster))
            return f"no transactional id {self.transactional_id!r}" + (f"; did you mean {meant!r}?" if meant else "")
        places = [f"{topic}-{index}" for topic, index in self.partitions]
        where = f" in {', '.join(places[:8])}" if places else ""
        return f"{self.state}, epoch {self.epoch} of producer {self.producer_id}{where}"


def ids_of(cluster: Cluster) -> list[str]:
    """The transactional ids that a coordinator has in memory."""
    return sorted(name for _, shard in cluster.transactions.loaded() for name in shard.transactions)
