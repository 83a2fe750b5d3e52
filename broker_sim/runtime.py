"""Performs what the coordinator's shards decide: timers, appends, replies. The one place where the pure core meets the world.

Rules:
1. A shard is stepped from here alone, and never from within its own step: what an outcome leads to is fed back after it.
2. A shard belongs to the broker that leads its ``__consumer_offsets`` partition; the others answer NOT_COORDINATOR, and while its log
   is being read everybody is answered COORDINATOR_LOAD_IN_PROGRESS.
3. Where the policy shares batches, OffsetCommits of one turn of the loop are appended as one batch by ``flush_turn``. Any other event
   for that shard flushes first, so no event overtakes a commit.
4. A reply for a connection that is gone is dropped.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

from broker_sim.config import BrokerConfig
from broker_sim.coordinator.outcome import (
    Append,
    Appended,
    Client,
    CommitOffsets,
    Committed,
    Event,
    Heartbeat,
    Offset,
    Outcome,
    Request,
    TimerFired,
    TimerKey,
    TopicDeleted,
)
from broker_sim.coordinator.policy import Settings, policy_of
from broker_sim.coordinator.records import Loader
from broker_sim.coordinator.shard import Shard
from broker_sim.group_watch import GroupWatch
from broker_sim.handlers.context import DEFERRED, Deferred, RequestContext
from broker_sim.late_commits import LateCommit, commit_turn
from broker_sim.metadata import OFFSETS_TOPIC, Broker, ClusterState, Partition
from broker_sim.presence import Presence
from broker_sim.storage import partition_for
from broker_sim.storage.errors import StorageError
from broker_sim.storage.log import Origin
from broker_sim.timers import KeyedTimers
from kafka_wire import record_batch
from kafka_wire.api_keys import release
from kafka_wire.codec import DecodeError
from kafka_wire.errors import Err

log = logging.getLogger("broker_sim.coordinator")

_BATCH_RECORDS = 4000
"""Records that one shared batch may hold: about 400 KB, below ``max.message.bytes``."""

_LOAD_SLICE = 2000
"""Records that are read of a log before the loop gets its turn again."""

Finish = Callable[[Any], Any]
"""Makes the response message of a shard's answer."""

_AT_ONCE = -1
"""The token of requests whose answer is read from the outcome, or that have none."""

_NOBODY = Client("", "", 0)
"""The client of requests that don't look at it."""

partition_of = lru_cache(maxsize=65536)(partition_for)


class Slot:
    """A shard with what it needs of the world: its partition, its open batch, how far it is loaded."""

    __slots__ = (
        "failed",
        "loading",
        "open",
        "open_records",
        "partition",
        "shard",
        "turn",
        "turn_bytes",
        "waiter",
    )

    def __init__(self, shard: Shard, partition: Partition) -> None:
        self.shard, self.partition = shard, partition
        self.open: list[Append] = []  # appends that wait for the end of the turn to share a batch
        self.turn: list[LateCommit] = []  # commits that wait for it to be looked at
        self.turn_bytes = 0  # what their batch will have
        self.open_records = 0
        self.loading = False
        self.failed = False
        self.waiter: Callable[[], object] | None = None  # whom the partition tells when its high watermark moves


class GroupRuntime:
    """The group coordinators of a cluster's brokers. ``rng`` gives the random part of member ids."""

    def __init__(self, state: ClusterState, *, rng: random.Random | None = None) -> None:
        self.state, self.clock = state, state.clock
        self._wire = state.clock.wire  # loading takes no time of a clock that stands still
        self.settings = settings_of(state.config)
        self._rng = rng or random.SystemRandom()
        self._slots: dict[int, Slot] = {}
        self._dirty: list[Slot] = []
        self.max_metadata_chars = state.config.int("offset.metadata.max.bytes")
        self.legacy_offsets: dict[tuple[str, str, int], Offset] = {}
        """What OffsetCommit v0 stored (ZooKeeper's part, once): by group, topic and partition; read by OffsetFetch v0 alone."""
        self._tokens: dict[int, Callable[[Any], object]] = {}
        self._next_token = 0
        self.watch: GroupWatch | None = None
        """Writes the journal; set by :meth:`observe`."""
        self._timers: KeyedTimers[tuple[int, TimerKey]] = KeyedTimers(self.clock, self._fire)
        self.presence: Presence | None = None
        """Keeps members alive while somebody moves the clock; None beside a clock that moves by itself."""

    # who coordinates what

    def start(self) -> None:
        """Load the shards of an offsets topic that is there already."""
        topic = self.state.topics.get(OFFSETS_TOPIC)
        for partition in topic.partitions if topic is not None else ():
            if partition.log_end_offset > 0:
                self._slot(partition)

    def close(self) -> None:
        """Append what is still open and stop all timers; parked requests stay unanswered, as at a broker's end."""
        self._flush_dirty()
        self._timers.clear()
        self._slots.clear()

    def observe(self, watch: GroupWatch) -> None:
        """Let ``watch`` see every step from here on, and first what there is."""
        self._flush_dirty()
        self.watch = watch
        for slot in self._slots.values():
            watch.look(slot.shard, slot.partition.name, list(slot.shard.groups), {"kind": "load"})

    def pending(self, partition: Partition) -> int:
        """How many requests wait until what was appended to an offsets partition is committed."""
        slot = self._slots.get(partition.index)
        if slot is None or slot.partition is not partition:
            return 0
        writes = slot.shard.writes.values()
        waiting = {
            token for write in writes for token in getattr(write, "tokens", (write.token,)) if token in self._tokens
        }
        for group in slot.shard.groups.values() if slot.shard.writes else ():
            waiting |= {m.sync_token for m in group.members.values() if m.sync_token in self._tokens}
        return len(waiting)

    def reload(self, partition: Partition, *, keep_loading: bool = False) -> None:
        """The partition has another leader, or its coordinator starts anew: who waits is told NOT_COORDINATOR, timers end, and what the
        log holds is loaded at once, or with ``keep_loading`` when :meth:`end_loading` is called."""
        slot = self._slots.get(partition.index)
        if slot is not None:
            self._unload(slot)
        self.state.version += 1  # what was remembered of it holds no more
        if partition.leader < 0 or partition.deleted:
            return
        if keep_loading:
            slot = self._slots[partition.index] = Slot(Shard(partition.index, self.settings, self._new_id), partition)
            slot.loading = True
        elif slot is not None or partition.log_end_offset > partition.log_start_offset:
            self._slot(partition)

    def end_loading(self, partition: Partition) -> None:
        """Load what :meth:`reload` kept from loading."""
        slot = self._slots.get(partition.index)
        if slot is not None and slot.partition is partition and slot.loading:
            self._start_loading(slot)

    def _unload(self, slot: Slot) -> None:
        index = slot.partition.index
        self._flush(slot)
        del self._slots[index]
        groups = list(slot.shard.groups)
        self._perform(slot, slot.shard.stop())
        for _, key in list(self._timers):
            if key[0] == index:
                self._timers.cancel(key)
        if slot.waiter is not None:
            slot.partition.remove_waiter(slot.waiter)
        if self.watch is not None:
            self.watch.unloaded(slot.shard, slot.partition.name, groups)

    def end(self) -> None:
        """Its process is no more: nobody is told but the journal."""
        watch, slots = self.watch, list(self._slots.values())
        self._slots.clear()
        self._dirty.clear()
        self._tokens.clear()
        for slot in slots if watch is not None else ():
            groups = list(slot.shard.groups)
            slot.shard.groups.clear()
            watch.unloaded(slot.shard, slot.partition.name, groups)  # type: ignore[union-attr]

    @property
    def timers(self) -> KeyedTimers[tuple[int, TimerKey]]:
        """The timers of all shards, by partition and key."""
        return self._timers

    def shard(self, index: int) -> Shard | None:
        """The loaded shard of an offsets partition; None where there is none."""
        slot = self._slots.get(index)
        return None if slot is None or slot.loading else slot.shard

    def loaded(self) -> list[tuple[int, Shard]]:
        """Every loaded shard, with the index of its partition."""
        return [(index, slot.shard) for index, slot in self._slots.items() if not slot.loading]

    def keep_members_alive(self, is_open: Callable[[Any], bool]) -> None:
        """The clock is going to be moved by hand: see ``presence``. ``is_open`` tells whether a connection still is."""
        self.presence = Presence(is_open, self.loaded, self._timers)

    def locate(self, broker: Broker, group_id: str) -> Shard | Err:
        """The shard of a group, if ``broker`` coordinates it and it is loaded; else the error of the common gate."""
        partition = self.partition_of(group_id)
        if partition is None or partition.leader != broker.node_id:
            return Err.NOT_COORDINATOR
        slot = self._slot(partition)
        if slot.loading:
            return Err.COORDINATOR_LOAD_IN_PROGRESS
        return Err.NOT_COORDINATOR if slot.failed else slot.shard

    def partition_of(self, group_id: str) -> Partition | None:
        """The offsets partition of a group, None while there is no offsets topic."""
        topic = self.state.topics.get(OFFSETS_TOPIC)
        return None if topic is None else topic.partitions[partition_of(group_id, len(topic.partitions))]

    def shards(self, broker: Broker) -> Iterator[Shard | Err]:
        """Every shard that ``broker`` coordinates, or the error that stands in its place."""
        topic = self.state.topics.get(OFFSETS_TOPIC)
        for partition in topic.partitions if topic is not None else ():
            if partition.leader == broker.node_id:
                slot = self._slots.get(partition.index)
                if slot is None:
                    continue  # nobody has asked for a group of it, and its log is empty
                if slot.loading:
                    yield Err.COORDINATOR_LOAD_IN_PROGRESS
                elif not slot.failed:
                    yield slot.shard

    # requests

    def submit(self, shard: Shard, ctx: RequestContext, body: Any, finish: Finish | None = None) -> Deferred | None:
        """Step ``shard`` with a request; ``ctx`` is answered now, at the end of the turn (DEFERRED), or later.

        The answer is ``finish(answer of the shard)``, or the answer itself without one.
        """
        reply = ctx.reply if finish is None else lambda answer: ctx.reply(finish(answer))
        token = self.ask(shard, ctx, body, reply)
        waiting = self._tokens
        if token in waiting:
            if type(body) is CommitOffsets and self._slots[shard.partition].open:
                return DEFERRED
            ctx.on_disconnect(partial(waiting.pop, token, None))
        return None

    def ask(self, shard: Shard, ctx: RequestContext, body: Any, answered: Callable[[Any], object]) -> int:
        """Step ``shard`` with a request of ``ctx``'s client and call ``answered(answer)`` when it is answered. Returns its token."""
        token = self._next_token
        self._next_token = token + 1
        self._tokens[token] = answered
        client = Client(ctx.client_id or "", ctx.client_host, ctx.api_version)
        if self.watch is not None:
            self.watch.requests[token] = (getattr(ctx, "request_id", 0), ctx.route.name)
        slot, request, presence = self._slots[shard.partition], Request(token, client, body), self.presence
        if presence is None:
            self._step(slot, request)
        else:
            presence.heard(shard, body, ctx, partial(self._step, slot, request))
        return token

    def heartbeat(self, shard: Shard, request: Heartbeat) -> Err | None:
        """Step ``shard`` with a Heartbeat that is answered at once; None, and nothing done, where it may have to wait."""
        slot = self._slots[shard.partition]
        if slot.turn or slot.open:
            self._flush(slot)
        if shard.writes or self.watch is not None or self.presence is not None:
            return None
        outcome = shard.step(Request(_AT_ONCE, _NOBODY, request), self.clock.now_ms())
        self._perform(slot, outcome)
        error: Err = outcome.replies[0][1]
        return error

    def heartbeat_again(self, shard: Shard, node_id: int, request: Heartbeat) -> Callable[[], bool] | None:
        """For a Heartbeat that was just answered, and that comes again and again: a function that restarts the member's session and
        returns True while all that the answer hung on - who coordinates, the group's state and generation, the member - is as it
        was; else it returns False and has done nothing. None where there is no such member.
        """
        group = shard.groups.get(request.group_id)
        member = None if group is None else group.members.get(request.member_id)
        if group is None or member is None:
            return None
        slot = self._slots[shard.partition]
        group_id, member_id, instance_id = request.group_id, request.member_id, request.instance_id
        partition, slots, groups, writes = slot.partition, self._slots, shard.groups, shard.writes
        index, state, generation = partition.index, group.state, group.generation
        session = self._timers.armed((index, ("session", group_id, member_id)))
        timeout_ms, now_ms = member.session_timeout_ms, self.clock.now_ms
        if session is None:
            return None

        def again() -> bool:
            if (
                group.state is not state
                or group.generation != generation
                or groups.get(group_id) is not group
                or group.members.get(member_id) is not member
                or partition.leader != node_id
                or slots.get(index) is not slot
                or not session.alive
                or member.session_timeout_ms != timeout_ms
                or slot.open
                or slot.turn
                or writes
                or (instance_id is not None and group.static_members.get(instance_id) != member_id)
            ):
                return False
            session.deadline_ms = now_ms() + timeout_ms
            return True

        return again

    def slot_of(self, shard: Shard) -> Slot:
        """Where to :meth:`commit_later` for a shard that was located: its own as long as the state's version stays."""
        return self._slots[shard.partition]

    def commit_later(self, slot: Slot, commit: LateCommit) -> None:
        """Collect a commit that repeats a layout for this turn; it is answered from :meth:`flush_turn`, or later where the log holds
        it up by then."""
        size_bytes = commit[0].size_bytes
        if slot.open or slot.turn_bytes + size_bytes > slot.partition.log.config.max_message_bytes:
            self._flush(slot)
        if not slot.turn:
            self._dirty.append(slot)
        slot.turn.append(commit)
        slot.turn_bytes += size_bytes
        buggify = self.state.buggify
        if buggify is not None and buggify.fires("appends alone"):
            self._flush(slot)

    def flush_turn(self) -> None:
        """Append the commits that were collected; their requests are answered before this returns, unless the log holds them up."""
        buggify = self.state.buggify
        if self._dirty and buggify is not None and buggify.fires("lingers"):
            self._wire.call_at_ms(self._wire.now_ms() + buggify.number("lingers", 5), self._flush_dirty)
        else:
            self._flush_dirty()

    def _flush_dirty(self) -> None:
        dirty = self._dirty
        if dirty:
            now_ms = self.clock.now_ms()
            while dirty:
                slot = dirty.pop()
                if slot.open:
                    self._flush(slot)
                elif slot.turn:
                    commit_turn(self, slot, now_ms)

    def topic_deleted(self, topic: str) -> None:
        """Drop the offsets of a deleted topic."""
        for slot in list(self._slots.values()):
            if not slot.loading:
                self._step(slot, Request(_AT_ONCE, _NOBODY, TopicDeleted(topic)))

    # performing

    def _step(self, slot: Slot, event: Event) -> None:
        if slot.turn or (slot.open and not (type(event) is Request and type(event.body) is CommitOffsets)):
            self._flush(slot)
        self._perform(slot, self._stepped(slot, event, self.clock.now_ms()))

    def _stepped(self, slot: Slot, event: Event, now_ms: int) -> Outcome:
        if self.watch is None:
            return slot.shard.step(event, now_ms)
        return self.watch.step(slot.shard, slot.partition.name, event, now_ms)

    def _perform(self, slot: Slot, outcome: Outcome) -> None:
        buggify = self.state.buggify
        if outcome.timers:
            partition, timers = slot.shard.partition, self._timers
            for key, deadline_ms in outcome.timers:
                if deadline_ms is None:
                    timers.cancel((partition, key))
                else:
                    timers.set((partition, key), deadline_ms)
        for append in outcome.appends:
            if append.mergeable and not slot.partition.held and slot.partition.gate is None:
                if not slot.open:
                    self._dirty.append(slot)
                slot.open.append(append)
                slot.open_records += len(append.records)
                alone = buggify is not None and buggify.fires("appends alone")
                if slot.open_records >= _BATCH_RECORDS or alone:
                    self._flush(slot)
            else:
                if slot.open or slot.turn:
                    self._flush(slot)
                self._append(slot, [append])
        if outcome.replies:
            waiting = self._tokens.pop
            watch = self.watch
            for token, answer in outcome.replies:
                if watch is not None:
                    watch.requests.pop(token, None)
                answered = waiting(token, None)
                if answered is None:
                    continue
                if buggify is not None and buggify.fires("answers a turn later"):
                    self._wire.call_at_ms(self._wire.now_ms(), answered, answer)
                else:
                    answered(answer)

    def _flush(self, slot: Slot) -> None:
        """Append what the turn has collected: either of the two lists."""
        appends, slot.open, slot.open_records = slot.open, [], 0
        if appends:
            self._append(slot, appends)
        if slot.turn:
            commit_turn(self, slot, self.clock.now_ms())

    def _append(self, slot: Slot, appends: list[Append]) -> None:
        buggify = self.state.buggify
        if buggify is not None and buggify.fires("rolls and cleans"):
            self.state.roll_and_clean(slot.partition, self.clock.now_ms())
        self._perform(slot, self._to_log(slot, appends, self.clock.now_ms()))

    def _to_log(self, slot: Slot, appends: list[Append], now_ms: int) -> Outcome:
        """Append as one batch, and tell the shard what became of each; its outcome is to be performed."""
        partition = slot.partition
        error, last_offset = Err.NONE, -1
        if partition.deleted:
            error = Err.UNKNOWN_TOPIC_OR_PARTITION
        elif partition.isr_too_small and self.settings.policy.appends_need_min_isr and not appends[0].any_isr:
            error = Err.NOT_ENOUGH_REPLICAS
        else:
            try:
                last_offset = _append_to(partition, appends, now_ms)
            except (StorageError, record_batch.RecordBatchError) as failure:
                error = self.append_failed(partition, failure)
        return self._logged(slot, appends, error, last_offset, now_ms)

    def append_failed(self, partition: Partition, failure: StorageError | record_batch.RecordBatchError) -> Err:
        """Tell the operator, and the error."""
        log.warning("append to %s failed: %s", partition.name, failure)
        return failure.error

    def _logged(self, slot: Slot, appends: list[Append], error: Err, last_offset: int, now_ms: int) -> Outcome:
        """Tell the shard what became of its appends."""
        partition = slot.partition
        high_watermark = partition.high_watermark
        if high_watermark <= last_offset:
            self._await_high_watermark(slot)
        more = [append.ticket for append in appends[1:]] if len(appends) > 1 else ()
        event = Appended(appends[0].ticket, last_offset, error, high_watermark, more)
        if self.watch is None:
            return slot.shard.step(event, now_ms)
        tickets = [append.ticket for append in appends]
        self.watch.appended(partition.name, slot.shard, tickets, last_offset, error, high_watermark)
        return self._stepped(slot, event, now_ms)

    def _await_high_watermark(self, slot: Slot) -> None:
        if slot.waiter is None:
            slot.waiter = lambda: self._high_watermark_moved(slot)
            slot.partition.add_waiter(slot.waiter)

    def _high_watermark_moved(self, slot: Slot) -> None:
        partition, shard = slot.partition, slot.shard
        if shard.writes and partition.high_watermark > shard.high_watermark:
            if self.watch is not None:
                self.watch.committed(partition.name, shard, partition.high_watermark)
            error = Err.NOT_ENOUGH_REPLICAS_AFTER_APPEND if partition.isr_too_small else Err.NONE
            self._step(slot, Committed(partition.high_watermark, error))

    def _fire(self, key: tuple[int, TimerKey]) -> None:
        slot = self._slots.get(key[0])
        if slot is None:
            return
        later_ms = None if self.presence is None else self.presence.spares(slot.shard, key[1])
        buggify = self.state.buggify
        if later_ms is None and buggify is not None and buggify.fires("fires late"):
            later_ms = self.clock.now_ms() + buggify.number("fires late", 50)
        if later_ms is None:
            self._step(slot, TimerFired(key[1]))
        else:
            self._timers.set(key, later_ms)

    # loading

    def _slot(self, partition: Partition) -> Slot:
        slot = self._slots.get(partition.index)
        if slot is None or slot.partition is not partition:
            slot = self._slots[partition.index] = Slot(Shard(partition.index, self.settings, self._new_id), partition)
            slot.shard.high_watermark = partition.high_watermark
            if partition.log_end_offset == partition.log_start_offset:
                self._perform(slot, slot.shard.start({}, self.clock.now_ms()))
            else:
                self._start_loading(slot)
        return slot

    def _start_loading(self, slot: Slot) -> None:
        slot.loading = True
        if self.watch is not None:
            self.watch.journal.write("load", log=slot.partition.name, action="started")
        partition, loader = slot.partition, Loader(self.settings)
        self._wire.call_at_ms(self._wire.now_ms(), self._load_on, slot, loader, log_records(partition))

    def _load_on(self, slot: Slot, loader: Loader, records: Iterator[_LogRecord]) -> None:
        """Read a slice of the log, then let the loop turn; at the end the shard opens."""
        if self._slots.get(slot.partition.index) is not slot:
            return  # it has moved away meanwhile
        failed, buggify = "", self.state.buggify
        slow = buggify is not None and buggify.fires("loads slowly")
        try:
            for _ in range(1 if slow else _LOAD_SLICE):
                record = next(records, None)
                if record is None:
                    break
                offset, key, value, producer_id, marker = record
                if marker is not None:
                    loader.end_transaction(producer_id, committed=marker)
                else:
                    loader.add(offset, key, value, producer_id)
            else:
                pause_ms = buggify.number("loads slowly", 20) if slow and buggify is not None else 0
                self._wire.call_at_ms(self._wire.now_ms() + pause_ms, self._load_on, slot, loader, records)
                return
        except (DecodeError, StorageError, record_batch.RecordBatchError) as error:
            log.error("loading %s failed after %d records: %s", slot.partition.name, loader.records, error)
            slot.failed = self.settings.policy.load_error_disowns
            failed = f"{error}"
            loader = Loader(self.settings)
        slot.loading = False
        groups = loader.finish()
        slot.shard.last_written = slot.partition.log_end_offset - 1
        slot.shard.high_watermark = slot.partition.high_watermark
        if slot.shard.last_written >= slot.shard.high_watermark:
            self._await_high_watermark(slot)
        log.info("%s: %d groups loaded from %d records", slot.partition.name, len(groups), loader.records)
        if loader.skipped:
            kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(loader.skipped_kinds.items()))
            log.info("%s: %d records of other kinds were skipped: %s", slot.partition.name, loader.skipped, kinds)
        self._perform(slot, slot.shard.start(groups, self.clock.now_ms()))
        if self.watch is not None:
            self.watch.loaded(slot.shard, slot.partition.name, loader.records, loader.skipped, failed=failed)

    def _new_id(self) -> str:
        raw = self._rng.getrandbits(128)
        text = f"{raw & ~(0xF << 76) | (4 << 76):032x}"  # version 4, as Java's UUID.randomUUID
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _append_to(partition: Partition, appends: list[Append], now_ms: int) -> int:
    """One record batch with the records of all ``appends``; its last offset."""
    blocks = appends[0].blocks
    if blocks is not None:
        bodies, count = blocks.bodies()
        return partition.append_records(bodies, count, now_ms=now_ms)
    pairs = appends[0].records if len(appends) == 1 else [pair for append in appends for pair in append.records]
    batch = record_batch.build_batch(pairs, now_ms, base_sequence=appends[0].base_sequence)
    return partition.append(batch, now_ms=now_ms, origin=Origin.COORDINATOR).last_offset


_LogRecord = tuple[int, bytes | None, bytes | None, int, bool | None]
"""Offset, key, value, producer id of a transaction (else -1), and for an end-of-transaction marker whether it commits."""


def log_records(partition: Partition) -> Iterator[_LogRecord]:
    """Every record of a partition's log, from its start to its end (beyond the high watermark, as Kafka loads)."""
    for batch in partition.log.batches():
        header = batch.header
        producer_id = header.producer_id if header.is_transactional else -1
        for record in batch.records():
            if header.is_control:
                kind = record_batch.control_type(record.key)
                yield record.offset, None, None, header.producer_id, kind == record_batch.ControlType.COMMIT
            else:
                yield record.offset, record.key, record.value, producer_id, None


def settings_of(config: BrokerConfig) -> Settings:
    """The coordinator's settings out of the broker's configs."""
    return Settings(
        policy=policy_of(config.coordinator, release(config.as_version)),
        initial_rebalance_delay_ms=config.int("group.initial.rebalance.delay.ms"),
        min_session_timeout_ms=config.int("group.min.session.timeout.ms"),
        max_session_timeout_ms=config.int("group.max.session.timeout.ms"),
        max_group_size=config.int("group.max.size"),
        commit_timeout_ms=config.int("offsets.commit.timeout.ms"),
        offsets_retention_ms=config.int("offsets.retention.minutes") * 60_000,
        offsets_retention_check_interval_ms=config.int("offsets.retention.check.interval.ms"),
        reads_later_records=release(config.as_version) >= (3, 5),
    )
