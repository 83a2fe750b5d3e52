"""The world of a coordinator: performs what its pure shards decide - timers, appends, replies - and tells them what came of it.

What a coordinator is stands in a `CoordinatorKind`: its internal topic, the partition of a key, its shards, what loads them. All
coordinators of a cluster's brokers that are of one kind stand on one `CoordinatorRuntime`.

Rules:
1. A shard is stepped from here alone, and never from within its own step: what an outcome leads to is fed back after it.
2. A shard belongs to the broker that leads its partition of the internal topic; the others answer NOT_COORDINATOR, and while its log
   is being read everybody is answered COORDINATOR_LOAD_IN_PROGRESS.
3. Appends that may share a batch wait for ``flush_turn`` at the end of the loop's turn. Any other event for that shard flushes first,
   so no event overtakes them.
4. A reply for a connection that is gone is dropped.
5. What a shard appends to partitions of others is told to it once it is committed there, or refused; nothing of it is done again here.

Source: CoordinatorRuntime.java (4.x), which carries Kafka's group and share coordinators.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Generic

from broker_sim.common.slices import Job, Pace, ended
from broker_sim.coordinator.outcome import (
    NO_CLIENT,
    Append,
    Appended,
    AppendedElsewhere,
    Ask,
    Committed,
    Event,
    Outcome,
    Request,
    TimerFired,
    TimerKey,
    TopicsChanged,
)
from broker_sim.coordinator.shard_loader import ShardLoader
from broker_sim.coordinator.topics import TopicImage
from broker_sim.handlers.context import DEFERRED, Deferred, RequestContext
from broker_sim.metadata.cluster_state import Broker, ClusterState, Partition
from broker_sim.metadata.topics import Topic
from broker_sim.runtime.appending import BATCH_RECORDS, append_to
from broker_sim.runtime.coordinator_kind import CoordinatorKind, S, ShardObserver
from broker_sim.runtime.log_reading import feeding, some
from broker_sim.runtime.timers import KeyedTimers
from broker_sim.storage.errors import StorageError
from kafka_wire import record_batch
from kafka_wire.codec import DecodeError
from kafka_wire.errors import Err

log = logging.getLogger("broker_sim.coordinator")

_MANY_APPENDS = 300
"""Markers of one transaction from which on they are written in pieces."""

_LOAD_SLICE = 2000
"""Records that are read of a log before the loop gets its turn again."""

Finish = Callable[[Any], Any]
"""Makes the response message of a shard's answer, or a job (`slices`) that makes it."""


class Slot(Generic[S]):
    """A shard with what it needs of the world: its partition, its open batch, how far it is loaded."""

    __slots__ = (
        "elsewhere",
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

    def __init__(self, shard: S, partition: Partition) -> None:
        self.shard, self.partition = shard, partition
        self.open: list[Append] = []  # appends that wait for the end of the turn to share a batch
        self.open_records = 0
        self.turn: list[Any] = []  # requests that wait for it to be looked at: their coordinator's (`flush_requests`)
        self.turn_bytes = 0  # what their batch will have
        # what has become of its appends to others' partitions: told after this step
        self.elsewhere: list[AppendedElsewhere] = []
        self.loading = False
        self.failed = False
        self.waiter: Callable[[], object] | None = None  # whom the partition tells when its high watermark moves


class CoordinatorRuntime(Generic[S]):
    """The coordinators of one kind of a cluster's brokers."""

    def __init__(self, state: ClusterState, kind: CoordinatorKind[S]) -> None:
        self.state, self.clock, self.kind = state, state.clock, kind
        self._wire = state.clock.wire  # loading takes no time of a clock that stands still
        self._slots: dict[int, Slot[S]] = {}
        self._dirty: list[Slot[S]] = []
        self._tokens: dict[int, Callable[[Any], object]] = {}
        self._next_token = 0
        self.watch: ShardObserver[S] | None = None
        """Writes the journal; set by :meth:`observe`."""
        self.hear: Callable[[Slot[S], Request, RequestContext], None] | None = None
        """Who steps a shard with a client's request, now or later; None: it is stepped at once."""
        self._timers: KeyedTimers[tuple[int, TimerKey]] = KeyedTimers(self.clock, self._fire)

    # who coordinates what

    def start(self) -> None:
        """Load the shards of an internal topic that is there already."""
        topic = self.state.topics.get(self.kind.topic)
        for partition in topic.partitions if topic is not None else ():
            if partition.log_end_offset > 0:
                self._slot(partition)

    def close(self) -> None:
        """Append what is still open and stop all timers; parked requests stay unanswered, as at a broker's end."""
        self._flush_dirty()
        self._timers.clear()
        self._slots.clear()

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
            slot = self._new_slot(partition)
            slot.loading = True
        elif slot is not None or partition.log_end_offset > partition.log_start_offset:
            self._slot(partition)

    def end_loading(self, partition: Partition) -> None:
        """Load what :meth:`reload` kept from loading."""
        slot = self._slots.get(partition.index)
        if slot is not None and slot.partition is partition and slot.loading:
            self._start_loading(slot)

    def _unload(self, slot: Slot[S]) -> None:
        index = slot.partition.index
        self._flush(slot)
        del self._slots[index]
        gone = None if self.watch is None else self.watch.unloading(slot.shard)
        self._perform(slot, slot.shard.stop(), self.clock.now_ms())
        for _, key in list(self._timers):
            if key[0] == index:
                self._timers.cancel(key)
        if slot.waiter is not None:
            slot.partition.remove_waiter(slot.waiter)
        if gone is not None:
            gone(slot.partition.name)

    def end(self) -> None:
        """Its process is no more: nobody is told but the journal."""
        watch, slots = self.watch, list(self._slots.values())
        self._slots.clear()
        self._dirty.clear()
        self._tokens.clear()
        for slot in slots if watch is not None else ():
            gone = watch.unloading(slot.shard)  # type: ignore[union-attr]
            self.lost(slot.shard)
            gone(slot.partition.name)

    def lost(self, shard: S) -> None:
        """A shard's process is no more."""

    @property
    def timers(self) -> KeyedTimers[tuple[int, TimerKey]]:
        """The timers of all shards, by partition and key."""
        return self._timers

    def timer_text(self, index: int, key: TimerKey) -> str:
        """What a timer of the shard of partition ``index`` is for, in words."""
        return f"{key[0]} of {self.kind.topic}-{index}"

    def shard(self, index: int) -> S | None:
        """The loaded shard of a partition; None where there is none."""
        slot = self._slots.get(index)
        return None if slot is None or slot.loading else slot.shard

    def loaded(self) -> list[tuple[int, S]]:
        """Every loaded shard, with the index of its partition."""
        return [(index, slot.shard) for index, slot in self._slots.items() if not slot.loading]

    def locate(self, broker: Broker, key: str) -> S | Err:
        """The shard of a key, if ``broker`` coordinates it and it is loaded; else the error of the common gate."""
        partition = self.partition_of(key)
        if partition is None or partition.leader != broker.node_id:
            return Err.NOT_COORDINATOR
        slot = self._slots.get(partition.index)
        if slot is None or slot.partition is not partition:
            slot = self._slot(partition)
        if slot.loading:
            return Err.COORDINATOR_LOAD_IN_PROGRESS
        return Err.NOT_COORDINATOR if slot.failed else slot.shard

    def partition_of(self, key: str) -> Partition | None:
        """The partition of a key, None while there is no internal topic."""
        topic = self.state.topics.get(self.kind.topic)
        return None if topic is None else topic.partitions[self.kind.partition_of(key, len(topic.partitions))]

    def shards(self, broker: Broker) -> Iterator[S | Err]:
        """Every shard that ``broker`` coordinates, or the error that stands in its place."""
        topic = self.state.topics.get(self.kind.topic)
        for partition in topic.partitions if topic is not None else ():
            if partition.leader == broker.node_id:
                slot = self._slots.get(partition.index)
                if slot is None:
                    continue  # nobody has asked for a key of it, and its log is empty
                if slot.loading:
                    yield Err.COORDINATOR_LOAD_IN_PROGRESS
                elif not slot.failed:
                    yield slot.shard

    # requests

    def submit(self, shard: S, ctx: RequestContext, body: Any, finish: Finish | None = None) -> Deferred | None:
        """Step ``shard`` with a request; ``ctx`` is answered now, at the end of the turn (DEFERRED), or later: with ``finish(answer of
        the shard)``, or that answer itself without one."""
        answered = ctx.reply if finish is None else lambda answer: ctx.reply_made(finish(answer))
        return self.step_for(shard, ctx, body, answered)

    def step_for(self, shard: S, ctx: RequestContext, body: Any, answered: Callable[[Any], object]) -> Deferred | None:
        """As :meth:`submit`, where ``answered(answer of the shard)`` answers ``ctx``."""
        token = self.ask(shard, ctx, body, answered)
        if token in self._tokens:
            if self._slots[shard.partition].open and self._shares(body):
                return DEFERRED
            ctx.on_disconnect(partial(self.drop, token))
        return None

    def ask(self, shard: S, ctx: RequestContext, body: Any, answered: Callable[[Any], object]) -> int:
        """Step ``shard`` with a request of ``ctx``'s client and call ``answered(answer)`` when it is answered. Returns its token."""
        token = self._next_token
        self._next_token = token + 1
        self._tokens[token] = answered
        if self.watch is not None:
            self.watch.asked(token, ctx)
        slot = self._slots[shard.partition]
        request = Request(token, ctx.client, body)
        if self.hear is None:
            self._step(slot, request)
        else:
            self.hear(slot, request, ctx)
        return token

    def command(self, shard: S, body: Any, answered: Callable[[Any], object]) -> None:
        """Step ``shard`` with a request of a broker's own and call ``answered(answer)`` when it is answered."""
        token = self.token(answered)
        self._step(self._slots[shard.partition], Request(token, NO_CLIENT, body))

    def token(self, answered: Callable[[Any], object]) -> int:
        """A new token; who is answered under it."""
        token = self._next_token
        self._next_token = token + 1
        self._tokens[token] = answered
        return token

    def drop(self, token: int) -> None:
        """Nobody waits for it any more."""
        self._tokens.pop(token, None)

    def _shares(self, body: Any) -> bool:
        """Whether a request's append may wait for those of others."""
        return False

    def _may_wait(self, slot: Slot[S], body: Any) -> bool:
        """Whether a request may be looked at while appends before it are waiting."""
        return False

    def topics_changed(self, names: Iterable[str]) -> None:
        """These topics are no longer what they were: every shard is told, but those that are told all there is when they are loaded."""
        changed = TopicsChanged(self._images(names))
        for slot in list(self._slots.values()):
            if not slot.loading:
                self._step(slot, changed)

    def _images(self, names: Iterable[str]) -> dict[str, TopicImage | None]:
        """With the racks of each partition's replicas' brokers, up or down, where any broker has one."""
        rack_of = {node: broker.rack for node, broker in self.state.brokers.items() if broker.rack is not None}

        def racks(topic: Topic) -> tuple[tuple[str, ...], ...]:
            return tuple(
                tuple(sorted(rack_of[node] for node in p.replicas if node in rack_of)) for p in topic.partitions
            )

        return {
            name: None
            if (topic := self.state.topics.get(name)) is None
            else TopicImage(topic.topic_id, len(topic.partitions), racks(topic) if rack_of else ())
            for name in names
        }

    def _begin(self, slot: Slot[S], loaded: Any) -> None:
        """A shard takes over what its log holds, and is told of the cluster's topics."""
        now_ms = self.clock.now_ms()
        self._perform(slot, slot.shard.start(loaded, now_ms), now_ms)
        self._perform(slot, self._stepped(slot, TopicsChanged(self._images(self.state.topics)), now_ms), now_ms)
        self.begun(slot)

    def begun(self, slot: Slot[S]) -> None:
        """A shard has taken over what its log holds: what else it is to be told."""

    def flush_turn(self) -> None:
        """Append what was collected; it is answered before this returns, unless the log holds it up."""
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
                    self.flush_requests(slot, now_ms)

    def flush_requests(self, slot: Slot[S], now_ms: int) -> None:
        """Look at the requests that were collected in ``slot.turn``."""
        raise NotImplementedError("requests are collected by a coordinator that knows what to do with them")

    # performing

    def _step(self, slot: Slot[S], event: Event) -> None:
        if slot.turn or (slot.open and not (type(event) is Request and self._may_wait(slot, event.body))):
            self._flush(slot)
        now_ms, watch = self.clock.now_ms(), self.watch
        if watch is None:
            self._perform(slot, slot.shard.step(event, now_ms), now_ms)
        else:
            self._perform(slot, watch.step(slot.shard, slot.partition.name, event, now_ms), now_ms)
        if slot.elsewhere:
            self._tell_elsewhere(slot)

    def _tell_elsewhere(self, slot: Slot[S]) -> None:
        """What has become of its appends to other partitions: now that the step that has asked for them is over."""
        told, slot.elsewhere = slot.elsewhere, []
        for event in told:
            if self._slots.get(slot.partition.index) is slot:  # else it has moved away
                self._step(slot, event)

    def _stepped(self, slot: Slot[S], event: Event, now_ms: int) -> Outcome:
        if self.watch is None:
            return slot.shard.step(event, now_ms)
        return self.watch.step(slot.shard, slot.partition.name, event, now_ms)

    def _perform(self, slot: Slot[S], outcome: Outcome, now_ms: int) -> None:
        if outcome.timers:
            partition, timers = slot.shard.partition, self._timers
            for key, deadline_ms in outcome.timers:
                if deadline_ms is None:
                    timers.cancel((partition, key))
                else:
                    timers.set((partition, key), deadline_ms)
        if outcome.appends:
            self._perform_appends(slot, outcome.appends, now_ms)
        if outcome.replies:
            self._reply(outcome.replies)
        for ask in outcome.asks:
            self.ask_others(slot, ask)

    def _perform_appends(self, slot: Slot[S], appends: list[Append], now_ms: int) -> None:
        buggify = self.state.buggify
        if len(appends) > _MANY_APPENDS:
            job = self._appending_elsewhere(slot, [one for one in appends if one.to is not None])
            appends = [one for one in appends if one.to is None]
            self.state.slices.add(job, ended)
        for append in appends:
            if append.to is not None:
                self._append_elsewhere(slot, append, append.to, now_ms)
            elif append.mergeable and not slot.partition.held and slot.partition.gate is None:
                if not slot.open:
                    self._dirty.append(slot)
                slot.open.append(append)
                slot.open_records += len(append.records)
                alone = buggify is not None and buggify.fires("appends alone")
                if slot.open_records >= BATCH_RECORDS or alone:
                    self._flush(slot)
            else:
                if slot.open or slot.turn:
                    self._flush(slot)
                self._append(slot, [append], now_ms)

    def ask_others(self, slot: Slot[S], ask: Ask) -> None:
        """Ask coordinators of another kind what a shard wants to know."""
        raise NotImplementedError("whom a coordinator asks is its own to know")

    def _reply(self, replies: list[tuple[int, Any]]) -> None:
        waiting, watch, buggify = self._tokens.pop, self.watch, self.state.buggify
        for token, answer in replies:
            if watch is not None:
                watch.answered(token)
            answered = waiting(token, None)
            if answered is None:
                continue
            if buggify is not None and buggify.fires("answers a turn later"):
                self._wire.call_at_ms(self._wire.now_ms(), answered, answer)
            else:
                answered(answer)

    def _flush(self, slot: Slot[S]) -> None:
        """Append what the turn has collected: either of the two lists."""
        appends, slot.open, slot.open_records = slot.open, [], 0
        now_ms = self.clock.now_ms()
        if appends:
            self._append(slot, appends, now_ms)
        if slot.turn:
            self.flush_requests(slot, now_ms)

    def _append(self, slot: Slot[S], appends: list[Append], now_ms: int) -> None:
        """Append as one batch, tell the shard what became of each, and perform what it makes of that."""
        partition, buggify = slot.partition, self.state.buggify
        if buggify is not None and buggify.fires("rolls and cleans"):
            self.state.roll_and_clean(partition, now_ms)
        error, last_offset = Err.NONE, -1
        if partition.deleted:
            error = Err.UNKNOWN_TOPIC_OR_PARTITION
        elif partition.isr_too_small and self.kind.appends_need_min_isr and not appends[0].any_isr:
            error = Err.NOT_ENOUGH_REPLICAS
        else:
            try:
                last_offset = append_to(partition, appends, now_ms)
            except (StorageError, record_batch.RecordBatchError) as failure:
                error = self.append_failed(partition, failure)
        self._perform(slot, self._logged(slot, appends, error, last_offset, now_ms), now_ms)

    def append_failed(self, partition: Partition, failure: StorageError | record_batch.RecordBatchError) -> Err:
        """Tell the operator, and the error."""
        log.warning("append to %s failed: %s", partition.name, failure)
        return failure.error

    def _logged(self, slot: Slot[S], appends: list[Append], error: Err, last_offset: int, now_ms: int) -> Outcome:
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

    def _await_high_watermark(self, slot: Slot[S]) -> None:
        if slot.waiter is None:
            slot.waiter = lambda: self._high_watermark_moved(slot)
            slot.partition.add_waiter(slot.waiter)

    def _high_watermark_moved(self, slot: Slot[S]) -> None:
        partition, shard = slot.partition, slot.shard
        # a shard that is behind its log is told even if its writes were given up meanwhile: else what it answers later waits for them
        waits = shard.in_flight or shard.last_written >= shard.high_watermark
        if waits and partition.high_watermark > shard.high_watermark:
            if self.watch is not None:
                self.watch.committed(partition.name, shard, partition.high_watermark)
            error = Err.NOT_ENOUGH_REPLICAS_AFTER_APPEND if partition.isr_too_small else Err.NONE
            self._step(slot, Committed(partition.high_watermark, error))

    def _append_elsewhere(self, slot: Slot[S], append: Append, to: tuple[str, int], now_ms: int) -> None:
        """Append to a partition that isn't the shard's own; the shard is told after this step, or when all of it is committed there."""
        partition, error, last_offset = self.state.partition(*to), Err.NONE, -1
        if partition is None or partition.deleted:
            error = Err.UNKNOWN_TOPIC_OR_PARTITION
        elif partition.leader < 0:
            error = Err.LEADER_NOT_AVAILABLE
        elif partition.isr_too_small or len(partition.isr) < self.state.min_isr(partition):
            error = Err.NOT_ENOUGH_REPLICAS
        else:
            try:
                last_offset = append_to(partition, [append], now_ms)
            except (StorageError, record_batch.RecordBatchError) as failure:
                error = self.append_failed(partition, failure)
        if partition is not None and last_offset >= partition.high_watermark:
            self._await_elsewhere(slot, append.ticket, partition, last_offset)
        else:
            slot.elsewhere.append(AppendedElsewhere(append.ticket, error))

    def _appending_elsewhere(self, slot: Slot[S], appends: list[Append]) -> Job:
        """The markers of a large transaction, in pieces. A shard that has moved away meanwhile has its successor write the rest."""
        pace = Pace(_MANY_APPENDS)
        for append in appends:
            if pace.full():
                self._tell_elsewhere(slot)
                yield
            if self._slots.get(slot.partition.index) is not slot:
                return
            assert append.to is not None
            self._append_elsewhere(slot, append, append.to, self.clock.now_ms())
        self._tell_elsewhere(slot)

    def _await_elsewhere(self, slot: Slot[S], ticket: int, partition: Partition, last_offset: int) -> None:
        def moved() -> None:
            if partition.deleted or last_offset < partition.high_watermark:
                partition.remove_waiter(moved)
                gone = Err.UNKNOWN_TOPIC_OR_PARTITION if partition.deleted else Err.NONE
                self._tell_later(slot, AppendedElsewhere(ticket, gone))

        partition.add_waiter(moved)

    def _tell_later(self, slot: Slot[S], event: AppendedElsewhere) -> None:
        """Once whoever moved the high watermark is done, and not to a shard that has moved away."""

        def tell() -> None:
            if self._slots.get(slot.partition.index) is slot:
                self._step(slot, event)

        self._wire.call_at_ms(self._wire.now_ms(), tell)

    def _fire(self, key: tuple[int, TimerKey]) -> None:
        slot = self._slots.get(key[0])
        if slot is None:
            return
        later_ms = self._spared(slot, key[1])
        buggify = self.state.buggify
        if later_ms is None and buggify is not None and buggify.fires("fires late"):
            later_ms = self.clock.now_ms() + buggify.number("fires late", 50)
        if later_ms is None:
            self._step(slot, TimerFired(key[1]))
        else:
            self._timers.set(key, later_ms)

    def _spared(self, slot: Slot[S], key: TimerKey) -> int | None:
        """When a timer that is due is to fire instead; None: now."""
        return None

    # loading

    def _slot(self, partition: Partition) -> Slot[S]:
        slot = self._slots.get(partition.index)
        if slot is None or slot.partition is not partition:
            slot = self._new_slot(partition)
            slot.shard.high_watermark = partition.high_watermark
            if partition.log_end_offset == partition.log_start_offset:
                self._begin(slot, self.kind.new_loader().finish())
                self._tell_elsewhere(slot)
            else:
                self._start_loading(slot)
        return slot

    def _new_slot(self, partition: Partition) -> Slot[S]:
        slot = self._slots[partition.index] = Slot(self.kind.new_shard(partition.index), partition)
        return slot

    def _start_loading(self, slot: Slot[S]) -> None:
        slot.loading = True
        if self.watch is not None:
            self.watch.loading(slot.partition.name)
        loader = self.kind.new_loader()
        self._wire.call_at_ms(self._wire.now_ms(), self._load_on, slot, loader, feeding(loader, slot.partition))

    def _load_on(self, slot: Slot[S], loader: ShardLoader, work: Iterator[None]) -> None:
        """Read a slice of the log, then let the loop turn; at the end the shard opens."""
        if self._slots.get(slot.partition.index) is not slot:
            return  # it has moved away meanwhile
        failed, buggify = "", self.state.buggify
        slow = buggify is not None and buggify.fires("loads slowly")
        try:
            if some(work, 1 if slow else _LOAD_SLICE):
                pause_ms = buggify.number("loads slowly", 20) if slow and buggify is not None else 0
                self._wire.call_at_ms(self._wire.now_ms() + pause_ms, self._load_on, slot, loader, work)
                return
        except (DecodeError, StorageError, record_batch.RecordBatchError) as error:
            log.error("loading %s failed after %d records: %s", slot.partition.name, loader.records, error)
            slot.failed = self.kind.load_error_disowns
            failed = f"{error}"
            loader = self.kind.new_loader()
        self._open(slot, loader, failed)

    def _open(self, slot: Slot[S], loader: ShardLoader, failed: str) -> None:
        """The log has been read: the shard takes over."""
        slot.loading = False
        partition, shard = slot.partition, slot.shard
        shard.last_written, shard.high_watermark = partition.log_end_offset - 1, partition.high_watermark
        if shard.last_written >= shard.high_watermark:
            self._await_high_watermark(slot)
        loaded = loader.finish()
        log.info("%s: %s loaded from %d records", partition.name, loader.found(), loader.records)
        skipped = sum(loader.skipped_kinds.values())
        if skipped:
            kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(loader.skipped_kinds.items()))
            log.info("%s: %d records of other kinds were skipped: %s", partition.name, skipped, kinds)
        self._begin(slot, loaded)
        if self.watch is not None:
            self.watch.loaded(shard, partition.name, loader.records, skipped, failed=failed)
        self._tell_elsewhere(slot)
