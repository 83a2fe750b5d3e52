"""A log partition in the user's hand: put it into a state that lasts, see who waits for it, move it, fill it.

    with kafka.log("orders", 0).readonly(): ...
    async with kafka.offsets_log("billing").stuck() as jam:
        (commit,) = await jam.pending(1)
        ...
        assert (await commit.answer()).error is Err.REQUEST_TIMED_OUT

The states are those of ``conditions.KINDS``, one method each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from broker_sim.api.handles.partitions import Value, fill_partition, find_partition, values
from broker_sim.api.wait import TIMEOUT, until
from broker_sim.common.text import UsageError
from broker_sim.journal import about, request_text
from broker_sim.metadata.cluster_state import OFFSETS_TOPIC
from broker_sim.metadata.data_loss import lose_head, lose_tail
from broker_sim.storage.errors import StorageError
from kafka_wire.api_keys import ApiKey
from kafka_wire.errors import Err

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster
    from broker_sim.faults.conditions import PartitionFault
    from broker_sim.fields.names import PartitionStateLiteral
    from broker_sim.journal import Seen
    from broker_sim.metadata.cluster_state import Partition

__all__ = ["LogHandle", "OpenTransaction", "Pending", "StateGuard"]

_ALL_REPLICAS = -1
"""The ``acks`` of a Produce that waits for the high watermark."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that has written to a partition and has no marker there. ``transactional_id``: its id at the coordinator; None if
    no coordinator has the transaction: it hangs until a client aborts it."""

    producer_id: int
    epoch: int
    first_offset: int
    last_ms: int
    coordinator_epoch: int
    transactional_id: str | None

    @property
    def hangs(self) -> bool:
        """Whether the transaction hangs: no coordinator knows it, so that neither its producer nor its timeout ends it."""
        return self.transactional_id is None


class Pending:
    """A request that is waiting for a log. ``request``: its event in the journal, with its fields as attributes: ``api``,
    ``client_id``."""

    def __init__(self, cluster: Cluster, request: dict[str, Any]) -> None:
        self._cluster, self.request = cluster, request

    def __getattr__(self, name: str) -> Any:
        if name in self.request:
            return self.request[name]
        raise AttributeError(f"a request has no {name!r}; it has {', '.join(self.request)}")

    async def answer(self, timeout: object = TIMEOUT) -> Seen:
        """Wait for its response: ``.error``, ``.took_ms``, ``.answer``. Raises WaitTimeout."""
        number, since = self.request["request"], self.request["seq"]
        journal = self._cluster.observe()
        return await journal.next(event="response", request=number, since=since, timeout=timeout)

    def __repr__(self) -> str:
        return f"<{request_text(self.request)}>"


class StateGuard:
    """An active state; it ends with `heal()` or its `with` or `async with` block. A second `heal()` has no effect."""

    def __init__(self, log: LogHandle, condition: PartitionFault) -> None:
        self.log, self._condition = log, condition

    @property
    def active(self) -> bool:
        """Whether the state is active; with ``for_`` it ends by itself."""
        return self._condition.active

    def heal(self) -> None:
        """End the state: waiting requests continue."""
        self.log.cluster.conditions.heal(self._condition)

    async def pending(self, n: int = 1, timeout: object = TIMEOUT) -> list[Pending]:
        """Wait until ``n`` requests are waiting for this log, and return them; see `LogHandle.pending`."""
        return await self.log.pending(n, timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.heal()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.heal()

    def __repr__(self) -> str:
        return f"<{self._condition.text}{'' if self.active else ', healed'}>"


class LogHandle:
    """The handle of one partition of ``cluster``: its offsets, leader and fault states."""

    def __init__(self, cluster: Cluster, partition: Partition) -> None:
        self.cluster = cluster
        self.topic, self.index = partition.topic.name, partition.index
        self.name = partition.name
        """``orders-0``."""

    @property
    def partition(self) -> Partition:
        """The partition itself. Raises UsageError if its topic is deleted."""
        return find_partition(self.cluster.state, self.topic, self.index)

    # state

    @property
    def leader(self) -> int:
        """The node id of its leader, -1 for none."""
        return self.partition.leader

    @property
    def leader_epoch(self) -> int:
        """Kafka's leader epoch, from 0."""
        return self.partition.leader_epoch

    @property
    def start_offset(self) -> int:
        """The log start offset: that of the first record."""
        return self.partition.log_start_offset

    @property
    def end_offset(self) -> int:
        """The log end offset: that of the next record."""
        return self.partition.log_end_offset

    @property
    def high_watermark(self) -> int:
        """The high watermark: consumers can read up to here."""
        return self.partition.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """The last stable offset: read_committed consumers can read up to here, before the first open transaction."""
        return self.partition.last_stable_offset

    @property
    def open_transactions(self) -> list[OpenTransaction]:
        """Transactions without a marker in this partition, the earliest first, with the fields of DescribeProducers and of their
        coordinators."""
        producers, name = self.partition.log.producers, (self.topic, self.index)
        owners = {
            transaction.stored.producer_id: transaction.transactional_id
            for _, shard in self.cluster.transactions.loaded()
            for transaction in shard.transactions.values()
            if name in transaction.stored.partitions or name in transaction.unmarked
        }
        transactions = []
        for producer_id, first_offset in producers.open.items():
            entry, owner = producers.entries[producer_id], owners.get(producer_id)
            transactions.append(
                OpenTransaction(
                    producer_id, entry.epoch, first_offset, entry.last_timestamp, entry.coordinator_epoch, owner
                )
            )
        return transactions

    @property
    def states(self) -> list[str]:
        """The names of the partition's active states, in the order in which they were set."""
        return [condition.kind.name for condition in self.cluster.conditions.of(self.partition)]

    # states

    def set(
        self, state: PartitionStateLiteral | str, *, for_: object = None, replace: bool = False, **args: object
    ) -> StateGuard:
        """Set a state by its name; ``for_``: the state ends by itself after that time on the broker's clock. Raises UsageError for
        an unknown state, and for a second state of the same kind unless ``replace`` is set, which ends the first."""
        self.cluster.observe()
        given = {name: value for name, value in {"for_": for_, **args}.items() if value is not None}
        return StateGuard(self, self.cluster.conditions.set(self.partition, state, replace=replace, **given))

    def stuck(self, *, isr_shrinks_after: object = None, for_: object = None) -> StateGuard:
        """The followers stop fetching but stay in the ISR: records are appended, the high watermark does not advance. After
        ``isr_shrinks_after`` they leave the ISR, as after replica.lag.time.max.ms."""
        return self.set("stuck", isr_shrinks_after=isr_shrinks_after, for_=for_)

    def under_min_isr(self, *, for_: object = None) -> StateGuard:
        """The ISR is smaller than min.insync.replicas: acks=all is refused."""
        return self.set("under_min_isr", for_=for_)

    def slow(self, latency: object, jitter: object = None, *, for_: object = None) -> StateGuard:
        """Every append is committed with a delay of ``latency``, plus up to ``jitter``."""
        return self.set("slow", latency=latency, jitter=jitter or None, for_=for_)

    def loading(self, *, for_: object = None) -> StateGuard:
        """The coordinator reads its log: COORDINATOR_LOAD_IN_PROGRESS until the state ends. Offsets partitions only."""
        return self.set("loading", for_=for_)

    def no_leader(self, *, for_: object = None) -> StateGuard:
        """No replica is alive: metadata has no leader for the partition, groups on it have no coordinator."""
        return self.set("no_leader", for_=for_)

    def not_leader(self, *, for_: object = None) -> StateGuard:
        """The leader in the metadata has lost the leadership, and metadata is not updated yet: NOT_LEADER_OR_FOLLOWER."""
        return self.set("not_leader", for_=for_)

    def storage_error(self, *, for_: object = None) -> StateGuard:
        """The log directory is offline: KAFKA_STORAGE_ERROR."""
        return self.set("storage_error", for_=for_)

    def full(self, free_bytes: int | None = None, *, for_: object = None) -> StateGuard:
        """The disk is full, after ``free_bytes`` further bytes."""
        return self.set("full", free_bytes=free_bytes, for_=for_)

    def readonly(self, *, for_: object = None) -> StateGuard:
        """The file system is read-only; fetches work."""
        return self.set("readonly", for_=for_)

    def too_large(self, *, for_: object = None) -> StateGuard:
        """Every append exceeds max.message.bytes: MESSAGE_TOO_LARGE."""
        return self.set("too_large", for_=for_)

    def fenced(self, *, for_: object = None) -> StateGuard:
        """The leader's epoch is fenced: FENCED_LEADER_EPOCH."""
        return self.set("fenced", for_=for_)

    def heal(self) -> None:
        """End all its states, the last one first."""
        conditions = self.cluster.conditions
        for condition in reversed(conditions.of(self.partition)):
            conditions.heal(condition)

    # who waits

    async def pending(self, n: int = 1, timeout: object = TIMEOUT) -> list[Pending]:
        """Wait until ``n`` requests are waiting for their append to be committed, and return the ``n`` oldest. Raises
        WaitTimeout."""
        what = f"{n} request{'s'[: n - 1]} that wait{'s' if n == 1 else ''} for {self.name}"
        await until(lambda: len(self._waiting()) >= n, self.cluster.observe(), timeout, what, now=self._now)
        return self._waiting()[:n]

    def _waiting(self) -> list[Pending]:
        """The unanswered requests whose records are in the log, or that wait for a group's: of this log, above the high watermark."""
        journal, partition = self.cluster.observe(), self.partition
        unanswered = journal.open_requests.values()
        if self.topic != OFFSETS_TOPIC:
            produced = (r for r in unanswered if r["api"] == "Produce" and r["body"].get("acks") == _ALL_REPLICAS)
            return [Pending(self.cluster, r) for r in produced if self.name in r.get("topics", ())]
        if partition.high_watermark >= partition.log_end_offset:
            return []
        runtime = self.cluster.runtime
        if not runtime.pending(partition):
            return []
        first = min((request["seq"] for request in unanswered), default=journal.seq)
        written = {number for e in journal.since(first) if e["event"] == "append" for number in e["requests"]}
        return [
            Pending(self.cluster, r)
            for r in unanswered
            if "group" in r
            and runtime.partition_of(r["group"]) is partition
            and (r["api"] != "JoinGroup" or r["request"] in written)  # one that isn't waits for other members
        ]

    def _now(self) -> str:
        partition = self.partition
        states = ", ".join(self.states) or "no state"
        requests = ", ".join(map(repr, self._waiting())) or "no request waits"
        return f"{states}; high watermark {partition.high_watermark} of {partition.log_end_offset}; {requests}"

    def about(self, event: dict[str, Any]) -> bool:
        """Whether an event of the journal speaks of it, or of a group whose records it holds."""
        if event.get("log") == self.name or self.name in event.get("topics", ()):
            return True
        group = event.get("group")
        owner = self.cluster.runtime.partition_of(group) if group and self.topic == OFFSETS_TOPIC else None
        return owner is not None and owner.name == self.name and about(event, str(group))

    # transactions

    async def abort_transaction(self, producer_id: int, timeout: object = TIMEOUT) -> None:
        """Write an abort marker for this producer's open transaction in this partition, as `kafka-transactions abort` does for a
        hanging transaction. Raises UsageError if the producer has no open transaction, or if the leader refuses the marker."""
        from broker_sim.api.handles.in_process import ask
        from kafka_wire.messages.k27_write_txn_markers import (
            WritableTxnMarker,
            WritableTxnMarkerTopic,
            WriteTxnMarkersRequest,
        )

        transaction = next(
            (candidate for candidate in self.open_transactions if candidate.producer_id == producer_id), None
        )
        if transaction is None:
            there = ", ".join(str(transaction.producer_id) for transaction in self.open_transactions) or "none"
            raise UsageError(f"{self.name} has no open transaction of producer {producer_id}; it has {there}")
        topics = [WritableTxnMarkerTopic(self.topic, [self.index])]
        epoch = max(transaction.coordinator_epoch, 0)  # as the tool sends it for one that has seen no marker yet
        marker = WritableTxnMarker(producer_id, transaction.epoch, False, topics, epoch)
        broker, what = self.cluster.state.brokers.get(self.leader), f"an answer to the marker for {self.name}"
        if broker is None:
            raise UsageError(f"{self.name} has no leader")
        request = WriteTxnMarkersRequest([marker])
        if self.cluster.observed:
            fields = {"result": "abort", "producer_id": producer_id, "epoch": transaction.epoch}
            self.cluster.observe().write("marker", log=self.name, partition=self.name, action="sent by hand", **fields)
        answer = await ask(self.cluster, broker, ApiKey.WRITE_TXN_MARKERS, 1, request, timeout=timeout, what=what)
        error = Err(answer.markers[0].topics[0].partitions[0].error_code)
        if error is not Err.NONE:
            raise UsageError(f"{self.name} refused the marker: {error.name}")

    # who leads, what is in it

    def move_to(self, broker: int | None = None) -> LogHandle:
        """Make another broker the leader, by default the next live one; for an offsets partition this moves the coordinator. Raises
        UsageError."""
        self.cluster.move_leader(self.partition, broker)
        return self

    def elect(self, broker: int | None = None) -> LogHandle:
        """Elect the present leader again, or ``broker``: the leader epoch is incremented. Raises UsageError unless it is an in-sync
        replica."""
        self.cluster.elect(self.partition, broker)
        return self

    def lose_tail(self, records: int | None = None, *, to: int | None = None, leader: int | None = None) -> LogHandle:
        """Lose the last ``records``, or all from the offset ``to`` on, though they were committed: another replica leads that does not
        have them (an unclean election; with one replica: its disk is as it was earlier), in a new leader epoch. Of an
        idempotent or transactional producer whole batches are lost. Committed offsets stay: consumers find theirs beyond the end.
        ``leader``: which broker leads. Raises UsageError."""
        partition = self.partition
        first = self._place(to, records, partition.log_end_offset, -1)
        return self._lose(lose_tail, first, leader)

    def lose_head(self, records: int | None = None, *, to: int | None = None, leader: int | None = None) -> LogHandle:
        """Lose the first ``records``, or all before the offset ``to``: another replica leads that begins there, in a new leader epoch.
        ``leader``: which broker leads. Raises UsageError."""
        first = self._place(to, records, self.partition.log_start_offset, 1)
        return self._lose(lose_head, first, leader)

    @staticmethod
    def _place(to: int | None, records: int | None, edge: int, way: int) -> int:
        if (to is None) == (records is None):
            raise UsageError("the amount to lose is missing (expected a number of records, or an offset: to=100)")
        if to is not None:
            return to
        assert records is not None
        if records < 1:
            raise UsageError(f"{records} records can't be lost (expected 1 or more)")
        return edge + way * records

    def _lose(self, lose: Callable[..., object], offset: int, leader: int | None) -> LogHandle:
        try:
            lose(self.cluster.state, self.partition, offset, leader)
        except StorageError as error:
            raise UsageError(f"{self.name}: {error}") from None
        return self

    def fill(self, count: int, *, value: Value | None = None, value_bytes: int | None = None) -> LogHandle:
        """Append ``count`` records, numbered on from the log's end. Raises UsageError for a partition of the broker's own."""
        partition = self.partition
        make = values(self.topic, value, value_bytes)
        now_ms = self.cluster.state.clock.now_ms()
        fill_partition(partition, count, now_ms, first=partition.log_end_offset, value=make)
        return self

    def __repr__(self) -> str:
        return f"<log {self.name}>"
