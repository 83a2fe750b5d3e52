"""Topics and partitions as the cluster's metadata knows them, and the rules for their names, replicas and leaders.

Rules:
1. All brokers of a cluster share one log per partition. Who may serve it is data: `Partition.leader`; only
   `ClusterState.set_leader` changes it; it increments the leader epoch and wakes the requests that wait for the partition.
2. What a consumer may read ends at `high_watermark`, which moves through `advance_high_watermark` alone. Appending and
   committing are two events: while `high_watermark_frozen` is set, appends are not committed. Faults of a partition
   (`conditions`) set `high_watermark_frozen`, `append_interceptor`, `isr_too_small`, `read_error` and the leader.
3. A waiter is called when the high watermark moves, when data is appended, when the leader changes and when the
   partition goes away. It looks for itself at what has changed, and removes itself.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from broker_sim.storage import AppendInfo, LogConfig, Origin, PartitionLog
from broker_sim.storage.producer_state import EndedTransaction
from broker_sim.storage.validation import checking
from kafka_wire.end_markers import BatchProducer
from kafka_wire.errors import NO_ERROR, Err
from kafka_wire.record_batch import HEADER_BYTES, BatchHeader

if TYPE_CHECKING:
    from broker_sim.config.settings import BrokerConfig

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
INTERNAL_SETTINGS = {
    OFFSETS_TOPIC: "offsets.topic",
    TRANSACTION_TOPIC: "transaction.state.log",
    SHARE_STATE_TOPIC: "share.coordinator.state.topic",
}
"""Topics of the brokers' own, and how the settings that say how they are made begin."""
INTERNAL_TOPICS = frozenset(INTERNAL_SETTINGS)
METADATA_TOPIC = "__cluster_metadata"

READERS = 64
"""Maximum number of clients that a partition remembers to have read it."""

NO_EPOCH = -1
"""The leader epoch of a client that knows none."""

MAX_NAME_LENGTH = 249
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")

Waiter = Callable[[], object]


class AppendInterceptor(Protocol):
    """Intercepts the appends to a partition's log during a fault state."""

    def before(self, size: int) -> None:
        """An append of ``size`` bytes is to come; raises StorageError to refuse it."""

    def after(self, end: int) -> None:
        """An append has been made; the log ends at ``end`` now."""


TAIL, HEAD = "tail", "head"


class LostRecords(NamedTuple):
    """Committed records that a log has no longer: ``part`` is `TAIL` or `HEAD`, ``first`` and ``last`` are offsets."""

    part: str
    first: int
    last: int


class KafkaError(Exception):
    """A request that Kafka answers with `error`; `message` is the text that goes with it, where the API carries one."""

    def __init__(self, error: Err, message: str | None = None) -> None:
        super().__init__(f"{error.name}: {message}" if message else error.name)
        self.error = error
        self.message = message


class Partition:
    """One partition: who leads it, who follows, its log and what of it is committed."""

    __slots__ = (
        "_waiters",
        "append_interceptor",
        "appended_bytes",
        "barred",
        "behind",
        "deleted",
        "eligible",
        "events",
        "high_watermark",
        "high_watermark_frozen",
        "index",
        "isr",
        "isr_too_small",
        "leader",
        "leader_epoch",
        "log",
        "on_transaction_ended",
        "partition_epoch",
        "read_error",
        "readers",
        "replicas",
        "topic",
    )

    def __init__(
        self, topic: Topic, index: int, replicas: list[int], leader: int, leader_epoch: int, log: PartitionLog
    ) -> None:
        self.topic = topic
        self.index = index
        self.replicas = replicas
        self.isr = list(replicas)
        self.eligible: list[int] = []
        """Replicas outside the ISR that have all that is committed (KIP-966, from 4.1 on)."""
        self.behind: dict[int, int] = {}
        """Replicas that went while they were in the ISR, and are in it no longer -> up to which offset they have the log."""
        self.barred = False
        """While true, no leader is elected."""
        self.leader = leader
        """Node id, or -1 where none of the replicas is alive."""
        self.leader_epoch = leader_epoch
        self.partition_epoch = 0
        self.log = log
        log.assign_epoch(leader_epoch)
        self.high_watermark: int = log.log_end_offset
        self.high_watermark_frozen = False
        """While true, appends do not move the high watermark: `release` does."""
        self.append_interceptor: AppendInterceptor | None = None
        self.isr_too_small = False
        """Whether the ISR counts as smaller than min.insync.replicas, whatever it is."""
        self.read_error = Err.NONE
        """Error that readers get in place of data."""
        self.readers: dict[tuple[str | None, str], int] = {}
        """(client id, client host) -> the journal's number of its last Fetch that was answered without an error, of the last
        `READERS`. Noted only where there is a journal."""
        self.deleted = False
        self.appended_bytes = 0
        """Bytes appended since the start, from which a waiting fetch knows the number of new bytes."""
        self.events = 0
        """Changes other than an append that was committed at once."""
        self.on_transaction_ended: Callable[[EndedTransaction], object] | None = None
        """Called when the marker of a transaction is appended, committed or not: for the coordinator whose log this is."""
        self._waiters: dict[Waiter, None] = {}

    def read_by(self, client_id: str | None, client_host: str, request: int) -> None:
        """A client has read here, with that request of the journal."""
        self.readers.pop((client_id, client_host), None)
        self.readers[client_id, client_host] = request
        if len(self.readers) > READERS:
            del self.readers[next(iter(self.readers))]

    @property
    def name(self) -> str:
        """`topic-index`, as the log's directory is called."""
        return f"{self.topic.name}-{self.index}"

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read."""
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self.log.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """Last stable offset, up to which a read_committed consumer reads: the start of the earliest transaction that has no committed
        end, else the high watermark.
        """
        log, high_watermark = self.log, self.high_watermark
        if not log.producers.open and not log.ended.uncommitted:
            return high_watermark  # nearly always
        first = log.ended.first_unstable(log.producers.open.values(), high_watermark)
        return high_watermark if first >= high_watermark else max(first, log.log_start_offset)

    def append(
        self,
        batches: bytes,
        *,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        header: BatchHeader | None = None,
        checked: int | None = None,
    ) -> AppendInfo:
        """Append whole v2 batches under the current leader epoch; `header` is the first one's, `checked` what `checking`
        said of it. Raises as `PartitionLog.append`.
        """
        log = self.log
        if self.append_interceptor is not None:
            self.append_interceptor.before(len(batches))
        epoch = self.leader_epoch
        info = log.append(batches, leader_epoch=epoch, now_ms=now_ms, origin=origin, header=header, checked=checked)
        self.appended_bytes += len(batches)
        if not self.high_watermark_frozen:
            self.high_watermark = log.log_end_offset
        if log.ended.uncommitted:
            self._transactions_ended(info.base_offset)
        if self.append_interceptor is not None:
            self.append_interceptor.after(log.log_end_offset)
        if self._waiters:
            self._call()
        return info

    def _transactions_ended(self, since: int) -> None:
        """Markers are in the log, those from offset ``since`` on new ones. Where they are committed the last stable offset has
        moved, over more than was appended.
        """
        ended = self.log.ended
        new = [item for item in ended.uncommitted if item.last_offset >= since] if self.on_transaction_ended else ()
        if ended.settle(self.high_watermark):
            self.events += 1
        for transaction in new:
            if self.on_transaction_ended is not None:
                self.on_transaction_ended(transaction)

    def checking(self, batch: bytes, *, now_ms: int, header: BatchHeader) -> Generator[None, None, int]:
        """The checks that `append` makes of a client's batch, in pieces of some milliseconds: yields after each, returns what
        `append` takes as `checked`. Raises as `append`.
        """
        return checking(batch, 0, header, self.log.config, now_ms, self.name)

    def append_records(
        self,
        bodies: Sequence[bytes],
        count: int,
        *,
        now_ms: int,
        base_sequence: int = 0,
        within: BatchProducer | None = None,
    ) -> int:
        """As `append` for a batch of the broker's own out of encoded records; see `PartitionLog.append_records`. Its last offset."""
        log = self.log
        if self.append_interceptor is not None:
            self.append_interceptor.before(HEADER_BYTES + sum(map(len, bodies)))
        last_offset, size = log.append_records(bodies, count, self.leader_epoch, now_ms, base_sequence, within)
        self.appended_bytes += size
        if not self.high_watermark_frozen:
            self.high_watermark = log.log_end_offset
        if log.ended.uncommitted:
            self._transactions_ended(last_offset + 1 - count)
        if self.append_interceptor is not None:
            self.append_interceptor.after(log.log_end_offset)
        if self._waiters:
            self._call()
        return last_offset

    def advance_high_watermark(self, offset: int | None = None) -> None:
        """Commit up to `offset` (default: the log's end) and wake the waiters; never moves back."""
        end = self.log.log_end_offset
        offset = end if offset is None else min(offset, end)
        if offset > self.high_watermark:
            self.high_watermark = offset
            self.log.ended.settle(offset)
            self.wake()

    def unfreeze_high_watermark(self) -> None:
        """Let the high watermark advance again, up to the end of the log."""
        self.high_watermark_frozen = False
        self.advance_high_watermark()

    def add_waiter(self, waiter: Waiter) -> None:
        """Call `waiter` at every change (rule 3) until it is removed."""
        self._waiters[waiter] = None

    def remove_waiter(self, waiter: Waiter) -> None:
        """The opposite; unknown waiters are ignored."""
        self._waiters.pop(waiter, None)

    def outcome(self, end: int, leader: int) -> Err | None:
        """Outcome of an append of records below ``end`` by ``leader``: NONE if the high watermark has reached ``end``,
        NOT_LEADER_OR_FOLLOWER if the partition has another leader before, which may not have the records and append others in
        their place, UNKNOWN_TOPIC_OR_PARTITION if it was deleted; None while neither is so. Source: DelayedProduce,
        Partition.checkEnoughReplicasReachOffset."""
        if self.leader != leader:
            return Err.UNKNOWN_TOPIC_OR_PARTITION if self.deleted else Err.NOT_LEADER_OR_FOLLOWER
        return Err.NONE if self.high_watermark >= end else None

    def when_committed(self, end: int, then: Callable[[Err], object]) -> None:
        """Call ``then`` once with the `outcome`: now, or at the change that decides it."""
        leader = self.leader

        def look() -> None:
            error = self.outcome(end, leader)
            if error is not None:
                self.remove_waiter(look)
                then(error)

        self.add_waiter(look)
        look()

    def wake(self) -> None:
        """Call every waiter after another change than an append."""
        self.events += 1
        self._call()

    def _call(self) -> None:
        for waiter in list(self._waiters):
            if waiter in self._waiters:
                waiter()


class Topic:
    """A topic: its identity, its own settings and its partitions by index."""

    __slots__ = ("configs", "internal", "min_isr", "name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: bytes, configs: dict[str, str]) -> None:
        self.name = name
        self.topic_id = topic_id
        self.configs = configs
        """The topic's own settings as strings; what is absent comes from the broker."""
        self.min_isr: int | None = None
        """For ClusterState.min_isr, which works it out once."""
        self.internal = name in INTERNAL_TOPICS
        self.partitions: list[Partition] = []


def leader_partition(
    partition: Partition | None, node_id: int, current_leader_epoch: int = -1, *, replica: bool = False
) -> Partition:
    """The partition, if there is one and broker `node_id` leads it (with `replica`: has a replica of it) in the epoch that the client
    knows.

    Raises UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH (the client's epoch is older) or UNKNOWN_LEADER_EPOCH
    (newer), in the order of Partition.getLocalLog: a replica checks the epoch first.
    """
    if partition is None:
        raise KafkaError(Err.UNKNOWN_TOPIC_OR_PARTITION)
    error = access_error(partition, node_id, current_leader_epoch, replica)
    if error:
        raise KafkaError(error)
    return partition


def access_error(partition: Partition, node_id: int, current_leader_epoch: int, replica: bool) -> Err:
    """As `leader_partition`, the error as a value; NONE where the broker may answer."""
    if partition.read_error and (
        partition.read_error is not Err.FENCED_LEADER_EPOCH or current_leader_epoch != NO_EPOCH
    ):
        return partition.read_error
    if partition.leader != node_id and node_id not in partition.replicas:
        return Err.NOT_LEADER_OR_FOLLOWER
    if current_leader_epoch not in (NO_EPOCH, partition.leader_epoch):
        older = current_leader_epoch < partition.leader_epoch
        return Err.FENCED_LEADER_EPOCH if older else Err.UNKNOWN_LEADER_EPOCH
    if partition.leader != node_id and not replica:
        return Err.NOT_LEADER_OR_FOLLOWER
    return NO_ERROR


_LOG_SETTINGS = tuple(field.name.replace("_", ".") for field in dataclasses.fields(LogConfig))


def log_config(config: BrokerConfig, topic: Topic, node_id: int | None = None) -> LogConfig:
    """The settings of a topic's logs, as broker `node_id` sees them (None: without any broker's own)."""
    known = config.topic_settings
    values = {name: config.topic_value(name, topic.configs, node_id) for name in _LOG_SETTINGS if name in known}
    values["producer.id.expiration.ms"] = config.value("producer.id.expiration.ms", node_id)
    if "message.timestamp.after.max.ms" not in known:  # before 3.6 one bound stood for both directions
        both = config.topic_value("message.timestamp.difference.max.ms", topic.configs, node_id)
        values["message.timestamp.after.max.ms"] = values["message.timestamp.before.max.ms"] = both
    return LogConfig.of({**values, "release": config.release})


# ------------------------------------------------------------------------------------------------ names


def check_topic_name(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION for what Kafka takes for no topic name (Topic.validate), in its words."""
    why: str | None = None
    if name == "":
        why = "the empty string is not allowed"
    elif name in (".", ".."):
        why = f"'{name}' is not allowed"
    elif len(name) > MAX_NAME_LENGTH:
        why = f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    elif not _LEGAL_NAME.fullmatch(name):
        why = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    if why is not None:
        raise KafkaError(Err.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {why}")


def colliding_topic(name: str, topics: Iterable[str]) -> str | None:
    """A topic whose name differs from `name` in `.` against `_` alone (their metrics would share a name), or None."""
    if "." not in name and "_" not in name:
        return None
    flat = name.replace(".", "_")
    return next((other for other in topics if other != name and other.replace(".", "_") == flat), None)


# ------------------------------------------------------------------------------------------------ replicas


def spread_replicas(racks: Mapping[int, str | None], partitions: int, factor: int, start: int) -> list[list[int]]:
    """Replicas for `partitions` partitions over the brokers, whose ``racks`` are given by node id, `factor` each. Leaders round robin
    beginning at `start`, rack by rack; the replicas of a partition are in as many racks as there are (StripedReplicaPlacer)."""
    by_rack: dict[str | None, list[int]] = {}
    for node, rack in racks.items():
        by_rack.setdefault(rack, []).append(node)
    groups, count = [*by_rack.values()], len(by_rack)
    if count == 1:
        (nodes,) = groups
        return [[nodes[(start + index + turn) % len(nodes)] for turn in range(factor)] for index in range(partitions)]
    placed = []
    for turn in range(start, start + partitions):
        replicas: dict[int, None] = {}
        while len(replicas) < factor:
            group = groups[turn % count]
            replicas[group[turn // count % len(group)]] = None
            turn += 1
        placed.append([*replicas])
    return placed


def check_factor(factor: int, brokers: int, release: tuple[int, int]) -> None:
    """Raise INVALID_REPLICATION_FACTOR where there are fewer brokers than replicas."""
    if factor > brokers:
        cordoned = " or some brokers have all their log directories cordoned" if release >= (4, 4) else ""
        raise KafkaError(
            Err.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} "
            f"cannot be reached because only {brokers} broker(s) are registered{cordoned}.",
        )


def check_assignment(replicas: Sequence[int], factor: int | None, known: Mapping[int, object]) -> None:
    """Raise INVALID_REPLICA_ASSIGNMENT for a partition's replicas given by hand that can't be (in KRaft's words)."""
    why: str | None = None
    if not replicas:
        why = "includes an empty replica list."
    ordered = sorted(replicas)
    for position, node in enumerate(ordered):
        if node not in known:
            why = f"includes broker {node}, but no such broker is registered."
        elif position and node == ordered[position - 1]:
            why = f"includes the broker {node} more than once."
        if why is not None:
            break
    if why is None and factor is not None and len(replicas) != factor:
        why = (
            f"includes a partition with {len(replicas)} replica(s), but this is not consistent with previous "
            f"partitions, which have {factor} replica(s)."
        )
    if why is not None:
        raise KafkaError(Err.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment {why}")


class _MayBeDown(Protocol):
    alive: bool


def check_some_alive(replicas: Sequence[Sequence[int]], brokers: Mapping[int, _MayBeDown], first: int = 0) -> None:
    """Raise INVALID_REPLICA_ASSIGNMENT if all replicas of a partition in a manual assignment are on brokers that are down: it would
    have no in-sync replica. ``first``: the number of the first partition."""
    for index, nodes in enumerate(replicas, first):
        if not any(brokers[node].alive for node in nodes):
            raise KafkaError(
                Err.INVALID_REPLICA_ASSIGNMENT,
                f"All brokers specified in the manual partition assignment for partition {index} are fenced or in "
                "controlled shutdown.",
            )


def assigned_replicas(
    partitions: int, factor: int, assignments: Mapping[int, Sequence[int]], known: Mapping[int, object]
) -> list[list[int]]:
    """Replicas of a new topic that were given by hand, by partition; the numbers beside them must be -1. Raises
    KafkaError.
    """
    given = "A manual partition assignment was specified, but {} was not set to -1."
    if factor != -1:
        raise KafkaError(Err.INVALID_REQUEST, given.format("replication factor"))
    if partitions != -1:
        raise KafkaError(Err.INVALID_REQUEST, given.format("numPartitions"))
    expected: int | None = None
    for replicas in assignments.values():
        check_assignment(replicas, expected, known)
        expected = len(replicas)
    if sorted(assignments) != list(range(len(assignments))):
        raise KafkaError(Err.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence")
    return [list(assignments[index]) for index in range(len(assignments))]
