"""Events in, outcomes out: the interface of the coordinator core.

Rules of this package:

1. It imports no asyncio, time, random, os, socket or logging. A shard is a function of its events, so a journal of events rebuilds its
   state exactly.
2. Hard state (committed offsets, a group's stored record, pending transactional offsets) is only written by ``store.replay``, live and
   at a load. Working state (joining members, the next generation, sessions, deferred tokens) is changed by handlers and is lost with
   the shard, as in Kafka.
3. A request has one token and gets at most one reply, under that token. The token of a deferred JoinGroup or SyncGroup is stored in its
   member. (Kafka never answers a JoinGroup that the same member sent again on another connection; neither does this coordinator.)
4. Choices follow insertion order or the shard's own random generator. No set is iterated.
5. A shard is one ``__consumer_offsets`` partition: the unit of load, move and failure.
6. *Appended* and *committed* are two results of an append. The effects that clients see wait for *committed*.
7. Differences between Kafka's two coordinators are data (``policy``), not an ``if`` on a version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from broker_sim.coordinator.client import Client as Client
from broker_sim.coordinator.share_state.commands import Command, Result
from broker_sim.coordinator.topics import TopicImage
from kafka_wire.end_markers import BatchProducer as BatchProducer
from kafka_wire.errors import Err
from kafka_wire.schema import ZERO_UUID

TimerKey = tuple[str | int, ...]
"""``("session", group, member)`` and the like: a timer is keyed data, never a closure. The first part is its kind."""


NO_CLIENT = Client("", "", 0)
"""Client of requests whose handling does not depend on the client."""


# --- events -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Request:
    """A request for a group of this shard; ``body`` is one of the commands below or a JoinGroup/SyncGroup request message."""

    token: int
    client: Client
    body: object


@dataclass(slots=True)
class TimerFired:
    """A timer that an earlier outcome armed has reached its deadline."""

    key: TimerKey


@dataclass(slots=True)
class Appended:
    """The log's answer to an outcome's records: ``error`` NONE and the last record's offset, or the error and nothing written.
    ``high_watermark`` is the partition's after the append, so that an append that is committed at once needs no second event.
    ``more``: the tickets of the other appends that shared the batch, in their order."""

    ticket: int
    last_offset: int
    error: Err = Err.NONE
    high_watermark: int = -1
    more: Sequence[int] = ()


@dataclass(slots=True)
class Committed:
    """The partition's high watermark has moved: records below it are committed, or with an ``error`` (the ISR shrank meanwhile,
    NOT_ENOUGH_REPLICAS_AFTER_APPEND) in the log without being so."""

    high_watermark: int
    error: Err = Err.NONE


@dataclass(slots=True)
class CommitsLogged:
    """Repeated commits that were checked, appended and committed outside of the shard, in place of a ``Request`` and an ``Appended``:
    their groups' ``version`` is that of a valid commit of the same layout, the last record is at ``last_offset``, and no write was
    pending before. The runtime answers them NONE and restarts their members' sessions."""

    commits: Sequence[RepeatedCommit]
    last_offset: int
    high_watermark: int


@dataclass(slots=True)
class AppendedElsewhere:
    """The result of an append to another topic: NONE when all of it is committed there, otherwise nothing was appended."""

    ticket: int
    error: Err


@dataclass(slots=True)
class Elected:
    """The leader of the shard's partition was elected again, under this leader epoch."""

    leader_epoch: int


@dataclass(slots=True)
class ProducerIdAllocated:
    """The answer to an ``AllocateProducerId``: its event, to be applied now, with the producer id or the error."""

    event: Request | TimerFired
    producer_id: int | Err


@dataclass(slots=True)
class StateAnswered:
    """The share coordinators' answers to a ``PersisterRequest``, in the order of its commands."""

    ticket: int
    answers: Sequence[Result]


@dataclass(slots=True)
class TopicsChanged:
    """Topics of the cluster have changed, or a shard gets them for the first time: name -> the topic now, None for a deleted one."""

    topics: Mapping[str, TopicImage | None]


@dataclass(slots=True)
class GroupConfigured:
    """The settings that a group has of its own (config resource 32) are these from here on: name -> value, as far as this coordinator
    reads them."""

    group_id: str
    values: Mapping[str, Any]


@dataclass(slots=True)
class TransactionEnded:
    """A marker was appended to the partition at ``offset`` by the transaction coordinator: its producer's pending offsets are committed
    or dropped once the marker is below the high watermark."""

    producer_id: int
    committed: bool
    offset: int
    high_watermark: int


Event = (
    Request
    | TimerFired
    | Appended
    | Committed
    | CommitsLogged
    | AppendedElsewhere
    | Elected
    | ProducerIdAllocated
    | StateAnswered
    | TopicsChanged
    | GroupConfigured
    | TransactionEnded
)


# --- commands (the bodies whose wire form differs too much over the versions) -----------------------------------------


@dataclass(slots=True)
class Heartbeat:
    """A Heartbeat of a classic protocol's member. Answer: an Err."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None


@dataclass(slots=True)
class Leaver:
    """One member of a LeaveGroup; an empty member id with an instance id is the administrative removal of a static member."""

    member_id: str
    instance_id: str | None


@dataclass(slots=True)
class LeaveGroup:
    """Answer: (Err of the whole, [Err of each leaver])."""

    group_id: str
    leavers: list[Leaver]


@dataclass(slots=True)
class Offset:
    """A committed offset. ``expire_ts_ms`` is -1 unless an OffsetCommit v2-4 set its own retention time; ``topic_id`` is zero if the
    commit named no topic id."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_ts_ms: int
    expire_ts_ms: int = -1
    topic_id: bytes = ZERO_UUID


NO_PRODUCER = BatchProducer(-1, -1)
"""The producer of batches that are in no transaction."""


@dataclass(slots=True)
class CommitOffsets:
    """Answer: an Err for all of ``offsets`` (topic, partition, offset); or, where the member's epoch is good for some of them, the Err
    of each of the others. ``epoch_errors``: the version (OffsetCommit v9+, TxnOffsetCommit v6+) knows GROUP_ID_NOT_FOUND for a group
    that doesn't exist, and the epochs of KIP-848. ``too_long``: the partitions that were refused for their metadata. ``encoded``: keys
    and values of the records for ``offsets`` where these are many: a step is one piece of work, and making them the most of it.
    ``producer``: in whose transaction they are committed, so that they count from its end on; such a commit need name no member."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    offsets: list[tuple[str, int, Offset]]
    epoch_errors: bool = False
    too_long: Sequence[tuple[str, int]] = ()
    encoded: list[tuple[bytes, bytes | None]] | None = None
    producer: BatchProducer = NO_PRODUCER

    @property
    def names_member(self) -> bool:
        """Whether it speaks for a member: what only transactions may leave out while there are any."""
        return self.generation >= 0 or self.member_id != "" or self.instance_id is not None


class RepeatedLayout(Protocol):
    """Common part of all OffsetCommits of the same partitions in the same order by the same member; one object for all of them.
    ``command`` is the first of them, with other offsets than the others."""

    command: CommitOffsets
    partitions: frozenset[tuple[str, int]]


class RepeatedCommit(Protocol):
    """An OffsetCommit with a known layout; its offsets become ``Offset`` objects only when they are read."""

    @property
    def layout(self) -> RepeatedLayout: ...

    def offsets(self) -> list[tuple[str, int, Offset]]:
        """Topic, partition and offset of each row, decoded from the request at each call."""


@dataclass(slots=True)
class CommitBatch:
    """Repeated commits of one iteration of the event loop, in their order, which share a batch. Each has a token of its own, counted up
    from the request's."""

    commits: Sequence[RepeatedCommit]


@dataclass(slots=True)
class DeleteOffsets:
    """Answer: (Err of the whole, {(topic, partition): Err})."""

    group_id: str
    partitions: list[tuple[str, int]]


@dataclass(slots=True)
class DeleteGroup:
    """DeleteGroups for one group. Answer: an Err."""

    group_id: str


@dataclass(slots=True)
class StableFetch:
    """An OffsetFetch with require_stable. Answer: the Err of the group; NONE: the committed offsets may be returned now."""

    group_id: str


# --- outcome ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Append:
    """Records to append as one batch to the shard's partition; the result is ``Appended(ticket, ...)``.

    ``mergeable``: the batch may be shared with other mergeable appends (see ``Policy.shares_batches``). ``commits``: repeated commits
    in place of records, which the runtime encodes. ``any_isr``: append with any ISR size. ``producer``: in whose transaction the batch
    is. ``to``: another partition (topic, index) than the shard's own; the result is ``AppendedElsewhere(ticket, ...)``
    then.
    """

    ticket: int
    records: list[tuple[bytes, bytes | None]]
    mergeable: bool = False
    base_sequence: int = 0
    commits: Sequence[RepeatedCommit] = ()
    any_isr: bool = False
    producer: BatchProducer = NO_PRODUCER
    to: tuple[str, int] | None = None


@dataclass(slots=True)
class PersisterRequest:
    """Commands for the share coordinators, wherever they are; the answer is one ``StateAnswered(ticket, ...)``."""

    ticket: int
    commands: Sequence[Command]


@dataclass(slots=True)
class AllocateProducerId:
    """A producer id is needed to apply ``event``, which had no effect but this; the answer is one ``ProducerIdAllocated``."""

    event: Request | TimerFired


@dataclass(slots=True)
class Outcome:
    """Effects of one event, in this order: timers, appends, replies, requests to others: the share coordinators, the controller.

    ``timers`` arm (a deadline in ms) or cancel (None) by key; arming a key again moves it. ``replies`` are (token, answer).
    """

    replies: list[tuple[int, Any]]
    timers: list[tuple[TimerKey, int | None]]
    appends: list[Append]
    requests: Sequence[PersisterRequest | AllocateProducerId]

    def __init__(self) -> None:
        self.replies, self.timers, self.appends, self.requests = [], [], [], ()
