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
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any, Generic

from broker_sim.coordinator.outcome import (
    NOBODY,
    Append,
    Appended,
    AppendedElsewhere,
    Client,
    Committed,
    Event,
    Outcome,
    Request,
    TimerFired,
    TimerKey,
    TopicsChanged,
)
from broker_sim.handlers.context import DEFERRED, Deferred, RequestContext
from broker_sim.metadata.cluster_state import Broker, ClusterState, Partition
from broker_sim.runtime.commit_batching import batch_of
from broker_sim.runtime.coordinator_kind import CoordinatorKind, S, ShardLoader, ShardObserver
from broker_sim.runtime.timers import KeyedTimers
from broker_sim.storage.errors import RecordTooLarge, StorageError
from broker_sim.storage.log import Origin
from kafka_wire import record_batch
from kafka_wire.codec import DecodeError
from kafka_wire.errors import Err

log = logging.getLogger("broker_sim.coordinator")

_BATCH_RECORDS = 4000
"""Records that one shared batch may hold: about 400 KB, below ``max.message.bytes``."""

_LOAD_SLICE = 2000
"""Records that are read of a log before the loop gets its turn again."""

Finish = Callable[[Any], Any]
"""Makes the response message of a shard's answer, or a job (`slices`) that makes it."""


class Slot(Generic[S]):
    """A shard with what it needs of the world: its partition, its open batch, how far it is loaded."""

    __slots__ = ("failed", "loading", "open", "open_records", "partition", "shard", "turn", "turn_bytes", "waiter")

    def __init__(self, shard: S, partition: Partition) -> None:
        self.shard, self.partition = shard, partition
        self.open: list[Append] = []  # appends that wait for the end of the turn to share a batch
        self.open_records = 0
        self.turn: list[Any] = []  # requests that wait for it to be looked at: their coordinator's (`flush_requests`)
        self.turn_bytes = 0  # what their batch will have
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
            slot = self._slots[partition.index] = Slot(self.kind.new_shard(partition.index), partition)
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
        self._perform(slot, slot.shard.stop())
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
        reply = ctx.reply if finish is None else lambda answer: ctx.reply_made(finish(answer))
        token = self.ask(shard, ctx, body, reply)
        if token in self._tokens:
            if self._slots[shard.partition].open and self._shares(body):
                return DEFERRED
            ctx.on_disconnect(partial(self.drop, token))
        return None

    def ask(self, shard: S, ctx: RequestContext, body: Any, answered: Callable[[Any], object]) -> int:
        """Step ``shard`` with a request of ``ctx``'s client and call ``answered(answer)`` when it is answered. Returns its token."""
        token = self.token(answered)
        if self.watch is not None:
            self.watch.asked(token, ctx)
        slot = self._slots[shard.partition]
        request = Request(token, Client(ctx.client_id or "", ctx.connection.client_host, ctx.api_version), body)
        if self.hear is None:
            self._step(slot, request)
        else:
            self.hear(slot, request, ctx)
        return token

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

    def topics_changed(self, changed: TopicsChanged) -> None:
        """The cluster's topics are no longer what they were: every shard is told."""
        for slot in list(self._slots.values()):
            if not slot.loading:
                self._step(slot, changed)

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
        self._perform(slot, self._stepped(slot, event, self.clock.now_ms()))

    def _stepped(self, slot: Slot[S], event: Event, now_ms: int) -> Outcome:
        if self.watch is None:
            return slot.shard.step(event, now_ms)
        return self.watch.step(slot.shard, slot.partition.name, event, now_ms)

    def _perform(self, slot: Slot[S], outcome: Outcome) -> None:
        buggify = self.state.buggify
        if outcome.timers:
            partition, timers = slot.shard.partition, self._timers
            for key, deadline_ms in outcome.timers:
                if deadline_ms is None:
                    timers.cancel((partition, key))
                else:
                    timers.set((partition, key), deadline_ms)
        for append in outcome.appends:
            if append.to is not None:
                self._append_elsewhere(slot, append, append.to)
            elif append.mergeable and not slot.partition.held and slot.partition.gate is None:
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
            self._reply(outcome.replies)

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
        if appends:
            self._append(slot, appends)
        if slot.turn:
            self.flush_requests(slot, self.clock.now_ms())

    def _append(self, slot: Slot[S], appends: list[Append]) -> None:
        buggify = self.state.buggify
        if buggify is not None and buggify.fires("rolls and cleans"):
            self.state.roll_and_clean(slot.partition, self.clock.now_ms())
        self._perform(slot, self._to_log(slot, appends, self.clock.now_ms()))

    def _to_log(self, slot: Slot[S], appends: list[Append], now_ms: int) -> Outcome:
        """Append as one batch, and tell the shard what became of each; its outcome is to be performed."""
        partition = slot.partition
        error, last_offset = Err.NONE, -1
        if partition.deleted:
            error = Err.UNKNOWN_TOPIC_OR_PARTITION
        elif partition.isr_too_small and self.kind.appends_need_min_isr and not appends[0].any_isr:
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
        if shard.in_flight and partition.high_watermark > shard.high_watermark:
            if self.watch is not None:
                self.watch.committed(partition.name, shard, partition.high_watermark)
            error = Err.NOT_ENOUGH_REPLICAS_AFTER_APPEND if partition.isr_too_small else Err.NONE
            self._step(slot, Committed(partition.high_watermark, error))

    def _append_elsewhere(self, slot: Slot[S], append: Append, to: tuple[str, int]) -> None:
        """Append to a partition that isn't the shard's own, and tell the shard when all of it is committed there."""
        partition = self.state.partition(*to)
        if partition is None or partition.deleted:
            self._tell_elsewhere(slot, append.ticket, Err.UNKNOWN_TOPIC_OR_PARTITION)
            return
        if partition.leader < 0:
            self._tell_elsewhere(slot, append.ticket, Err.LEADER_NOT_AVAILABLE)
            return
        try:
            last_offset = _append_to(partition, [append], self.clock.now_ms())
        except (StorageError, record_batch.RecordBatchError) as failure:
            self._tell_elsewhere(slot, append.ticket, self.append_failed(partition, failure))
            return
        if last_offset < partition.high_watermark:
            self._tell_elsewhere(slot, append.ticket, Err.NONE)
            return

        def moved() -> None:
            if last_offset < partition.high_watermark:
                partition.remove_waiter(moved)
                self._tell_elsewhere(slot, append.ticket, Err.NONE)

        partition.add_waiter(moved)

    def _tell_elsewhere(self, slot: Slot[S], ticket: int, error: Err) -> None:
        """After the step that has asked for it, and not to a shard that has moved away."""

        def tell() -> None:
            if self._slots.get(slot.partition.index) is slot:
                self._step(slot, AppendedElsewhere(ticket, error))

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
            slot = self._slots[partition.index] = Slot(self.kind.new_shard(partition.index), partition)
            slot.shard.high_watermark = partition.high_watermark
            if partition.log_end_offset == partition.log_start_offset:
                self._perform(slot, slot.shard.start(self.kind.new_loader().finish(), self.clock.now_ms()))
            else:
                self._start_loading(slot)
        return slot

    def _start_loading(self, slot: Slot[S]) -> None:
        slot.loading = True
        if self.watch is not None:
            self.watch.loading(slot.partition.name)
        loader, records = self.kind.new_loader(), log_records(slot.partition)
        self._wire.call_at_ms(self._wire.now_ms(), self._load_on, slot, loader, records)

    def _load_on(self, slot: Slot[S], loader: ShardLoader, records: Iterator[_LogRecord]) -> None:
        """Read a slice of the log, then let the loop turn; at the end the shard opens."""
        if self._slots.get(slot.partition.index) is not slot:
            return  # it has moved away meanwhile
        failed, buggify = "", self.state.buggify
        slow = buggify is not None and buggify.fires("loads slowly")
        try:
            if feed(loader, records, 1 if slow else _LOAD_SLICE):
                pause_ms = buggify.number("loads slowly", 20) if slow and buggify is not None else 0
                self._wire.call_at_ms(self._wire.now_ms() + pause_ms, self._load_on, slot, loader, records)
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
        self._perform(slot, shard.start(loaded, self.clock.now_ms()))
        if self.watch is not None:
            self.watch.loaded(shard, partition.name, loader.records, skipped, failed=failed)


def _append_to(partition: Partition, appends: list[Append], now_ms: int) -> int:
    """One record batch with the records of all ``appends``; its last offset."""
    first = appends[0]
    if first.commits:
        return partition.append_records(*batch_of(first.commits), now_ms=now_ms)
    pairs = first.records if len(appends) == 1 else [pair for append in appends for pair in append.records]
    most = partition.log.config.max_message_bytes
    if len(pairs) > _BATCH_RECORDS and partition.gate is None and sum(len(pair[0]) for pair in pairs) > most:
        raise RecordTooLarge(f"the keys of {len(pairs)} records alone are more than {most} bytes")  # spare the batch
    producer = first.producer
    batch = record_batch.build_batch(
        pairs,
        now_ms,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=first.base_sequence,
        attributes=(record_batch.TRANSACTIONAL_BIT if producer is not NOBODY else 0)
        | (record_batch.CONTROL_BIT if first.is_control else 0),
    )
    return partition.append(batch, now_ms=now_ms, origin=Origin.COORDINATOR).last_offset


_LogRecord = tuple[int, bytes | None, bytes | None, int, bool | None]
"""Offset, key, value, producer id of a transaction (else -1), and for an end-of-transaction marker whether it commits."""


def feed(loader: ShardLoader, records: Iterator[_LogRecord], at_most: int | None = None) -> bool:
    """Give ``loader`` so many of the records, or all; whether there may be more. Raises what reading and `ShardLoader.add` raise."""
    fed = 0
    for fed, (offset, key, value, producer_id, marker) in enumerate(islice(records, at_most), 1):  # noqa: B007
        if marker is not None:
            loader.end_transaction(producer_id, committed=marker)
        else:
            loader.add(offset, key, value, producer_id)
    return fed == at_most


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
