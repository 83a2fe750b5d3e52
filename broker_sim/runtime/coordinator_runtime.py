"""Executes what the pure shards of a coordinator decide - timers, appends, replies - and reports the results to them.

A `CoordinatorKind` describes a coordinator: its internal topic, the partition of a key, its shards, their loader. One
`CoordinatorRuntime` runs all coordinators of one kind of a cluster's brokers.

Rules:
1. Only this module steps a shard, and never from within the shard's own step: results of an outcome are reported after it.
2. A shard belongs to the broker that leads its partition of the internal topic. The other brokers return NOT_COORDINATOR, and its own
   broker COORDINATOR_LOAD_IN_PROGRESS while the log is loaded.
3. Appends that may share a batch wait for ``flush_batches`` at the end of the event loop's iteration. Any other event for that shard
   flushes them first, so no event overtakes them.
4. A reply for a closed connection is dropped.
5. A shard's append to another topic is reported to it once it is committed there, or refused; the runtime does not retry it.

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
    AllocateProducerId,
    Append,
    Appended,
    AppendedElsewhere,
    Committed,
    Event,
    Outcome,
    PersisterRequest,
    Request,
    TimerFired,
    TimerKey,
    TopicsChanged,
)
from broker_sim.coordinator.shard_loader import ShardLoader
from broker_sim.metadata.cluster_state import Broker, ClusterState, Partition
from broker_sim.runtime.appending import BATCH_RECORDS, append_to
from broker_sim.runtime.asking import DEFERRED, Asking, Deferred
from broker_sim.runtime.coordinator_kind import CoordinatorKind, S, ShardObserver
from broker_sim.runtime.log_reading import feeding, read_slice
from broker_sim.runtime.shard_context import ShardContext
from broker_sim.runtime.timers import KeyedTimers
from broker_sim.runtime.topic_images import topic_images
from broker_sim.storage.errors import StorageError
from kafka_wire import record_batch
from kafka_wire.codec import DecodeError
from kafka_wire.errors import NO_ERROR, Err

log = logging.getLogger("broker_sim.coordinator")

_MANY_APPENDS = 300
"""Markers of one transaction from which on they are written in pieces."""

_LOAD_SLICE = 2000
"""Records that one slice of a load reads before other callbacks of the event loop run."""

Finish = Callable[[Any], Any]
"""Makes the response message of a shard's answer, or a job (`slices`) that makes it."""


class CoordinatorRuntime(Generic[S]):
    """The coordinators of one kind of a cluster's brokers."""

    def __init__(self, state: ClusterState, kind: CoordinatorKind[S]) -> None:
        self.state, self.clock, self.kind = state, state.clock, kind
        self._wire = state.clock.wire  # loading runs in real time, also with a manual clock
        self._contexts: dict[int, ShardContext[S]] = {}
        self._dirty: list[ShardContext[S]] = []
        self._tokens: dict[int, Callable[[Any], object]] = {}
        self._next_token = 0
        self.observer: ShardObserver[S] | None = None
        """Writes the journal; set by ``observe``."""
        self.request_hook: Callable[[ShardContext[S], Request, Asking], None] | None = None
        """Called with each request of a client in place of the step; it steps the shard now or later."""
        self._timers: KeyedTimers[tuple[int, TimerKey]] = KeyedTimers(self.clock, self._fire)

    # shards and their partitions

    def start(self) -> None:
        """Load the shards of an internal topic that exists already."""
        topic = self.state.topics.get(self.kind.topic)
        for partition in topic.partitions if topic is not None else ():
            if partition.log_end_offset > 0 and self._is_led(partition):
                self._context_of(partition)

    def close(self) -> None:
        """Append the open batches and stop all timers; deferred requests stay unanswered, as when a broker stops."""
        self._flush_dirty()
        self._timers.clear()
        self._contexts.clear()

    def reload(self, partition: Partition, *, keep_loading: bool = False) -> None:
        """The partition has another leader, or its coordinator restarts: deferred requests are answered NOT_COORDINATOR, timers are
        cancelled, and the log is loaded at once, or with ``keep_loading`` when :meth:`end_loading` is called."""
        context = self._contexts.get(partition.index)
        if context is not None:
            self._unload(context)
        self.state.version += 1  # invalidates what was cached of it
        if partition.deleted or not self._is_led(partition):
            return
        if keep_loading:
            context = self._new_context(partition)
            context.loading = True
        elif context is not None or partition.log_end_offset > partition.log_start_offset:
            self._context_of(partition)

    def end_loading(self, partition: Partition) -> None:
        """Load the shard that :meth:`reload` left loading."""
        context = self._contexts.get(partition.index)
        if context is not None and context.partition is partition and context.loading:
            self._start_loading(context)

    def broker_stopped(self, broker: Broker) -> None:
        """Unload the shards of a broker whose process has ended. Another broker loads them once the controller has noticed."""
        for context in list(self._contexts.values()):
            if context.partition.leader == broker.node_id:
                self._unload(context)
        self.state.version += 1

    def _is_led(self, partition: Partition) -> bool:
        """Whether the partition has a leader whose process runs."""
        leader = self.state.brokers.get(partition.leader)
        return leader is not None and leader.running

    def _unload(self, context: ShardContext[S]) -> None:
        index = context.partition.index
        self._flush(context)
        del self._contexts[index]
        unloaded = None if self.observer is None else self.observer.unloading(context.shard)
        self._perform(context, context.shard.stop(), self.clock.now_ms())
        for _, key in list(self._timers):
            if key[0] == index:
                self._timers.cancel(key)
        if context.waiter is not None:
            context.partition.remove_waiter(context.waiter)
        if unloaded is not None:
            unloaded(context.partition.name)

    def end(self) -> None:
        """The broker's process was killed: no request is answered; the journal reports the unload."""
        observer, contexts = self.observer, list(self._contexts.values())
        self._contexts.clear()
        self._dirty.clear()
        self._tokens.clear()
        for context in contexts if observer is not None else ():
            unloaded = observer.unloading(context.shard)  # type: ignore[union-attr]
            self.discard(context.shard)
            unloaded(context.partition.name)

    def discard(self, shard: S) -> None:
        """Discard a shard whose broker's process was killed."""

    @property
    def timers(self) -> KeyedTimers[tuple[int, TimerKey]]:
        """The timers of all shards, by partition and key."""
        return self._timers

    def timer_text(self, index: int, key: TimerKey) -> str:
        """Describe a timer of the shard of partition ``index``: ``expire of __consumer_offsets-3``."""
        return f"{key[0]} of {self.kind.topic}-{index}"

    def shard(self, index: int) -> S | None:
        """The shard of partition ``index``, or None if it is not loaded."""
        context = self._contexts.get(index)
        return None if context is None or context.loading else context.shard

    def state_of(self, partition: Partition) -> str:
        """The state of a led partition's shard: ``loading``, ``active``, or ``failed`` (CoordinatorRuntime.CoordinatorState)."""
        context = self._contexts.get(partition.index)
        if context is None:
            return "active"  # nothing was in its log
        return "loading" if context.loading else "failed" if context.failed else "active"

    def loaded(self) -> list[tuple[int, S]]:
        """Every loaded shard, with the index of its partition."""
        return [(index, context.shard) for index, context in self._contexts.items() if not context.loading]

    def locate(self, broker: Broker, key: str) -> S | Err:
        """The shard of a key if ``broker`` coordinates it and it is loaded, else NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS."""
        partition = self.partition_of(key)
        if partition is None or partition.leader != broker.node_id:
            return Err.NOT_COORDINATOR
        return self.shard_of(partition)

    def shard_of(self, partition: Partition) -> S | Err:
        """The shard of a partition that has a leader, or an error as of :meth:`locate`; COORDINATOR_NOT_AVAILABLE if its process has
        ended."""
        if not self._is_led(partition):
            return Err.COORDINATOR_NOT_AVAILABLE
        context = self._contexts.get(partition.index)
        if context is None or context.partition is not partition:
            context = self._context_of(partition)
        if context.loading:
            return Err.COORDINATOR_LOAD_IN_PROGRESS
        return Err.NOT_COORDINATOR if context.failed else context.shard

    def partition_of(self, key: str) -> Partition | None:
        """The partition of a key, None while there is no internal topic."""
        topic = self.state.topics.get(self.kind.topic)
        return None if topic is None else topic.partitions[self.kind.partition_of(key, len(topic.partitions))]

    def shards(self, broker: Broker) -> Iterator[S | Err]:
        """Every shard that ``broker`` coordinates, or COORDINATOR_LOAD_IN_PROGRESS for one that is loading."""
        topic = self.state.topics.get(self.kind.topic)
        for partition in topic.partitions if topic is not None else ():
            if partition.leader == broker.node_id:
                context = self._contexts.get(partition.index)
                if context is None:
                    continue  # no client has asked for a key of it, and its log is empty
                if context.loading:
                    yield Err.COORDINATOR_LOAD_IN_PROGRESS
                elif not context.failed:
                    yield context.shard

    # requests

    def submit(self, shard: S, ctx: Asking, body: object, finish: Finish | None = None) -> Deferred | None:
        """Step ``shard`` with a request. ``ctx`` is answered now, at the end of this iteration of the event loop (DEFERRED), or later,
        with ``finish(answer of the shard)``; without ``finish`` with that answer itself."""
        answered = ctx.reply if finish is None else lambda answer: ctx.reply_made(finish(answer))
        return self.step_for(shard, ctx, body, answered)

    def step_for(self, shard: S, ctx: Asking, body: object, answered: Callable[[Any], object]) -> Deferred | None:
        """As :meth:`submit`, but ``answered(answer of the shard)`` answers ``ctx``."""
        token = self.ask(shard, ctx, body, answered)
        if token in self._tokens:
            if self._contexts[shard.partition].open_batch and self._shares(body):
                return DEFERRED
            ctx.on_disconnect(partial(self.drop, token))
        return None

    def ask(self, shard: S, ctx: Asking, body: object, answered: Callable[[Any], object]) -> int:
        """Step ``shard`` with a request of ``ctx``'s client and call ``answered(answer)`` when it is answered. Returns its token."""
        token = self._next_token
        self._next_token = token + 1
        self._tokens[token] = answered
        if self.observer is not None:
            self.observer.asked(token, ctx)
        context = self._contexts[shard.partition]
        request = Request(token, ctx.client, body)
        if self.request_hook is None:
            self._step(context, request)
        else:
            self.request_hook(context, request, ctx)
        return token

    def command(self, shard: S, body: object, answered: Callable[[Any], object]) -> None:
        """Step ``shard`` with a request of a broker's own and call ``answered(answer)`` when it is answered."""
        token = self.token(answered)
        self._step(self._contexts[shard.partition], Request(token, NO_CLIENT, body))

    def token(self, answered: Callable[[Any], object]) -> int:
        """A new token; ``answered(answer)`` is called with the reply to it."""
        token = self._next_token
        self._next_token = token + 1
        self._tokens[token] = answered
        return token

    def drop(self, token: int) -> None:
        """Drop the reply to ``token``: its connection is closed."""
        self._tokens.pop(token, None)

    def _shares(self, body: object) -> bool:
        """Whether a request's append may share a batch with those of other requests."""
        return False

    def _may_wait(self, context: ShardContext[S], body: object) -> bool:
        """Whether a request may be stepped before the open batch is appended."""
        return False

    def topics_changed(self, names: Iterable[str]) -> None:
        """Pass changed topics to every loaded shard; a loading one gets all topics when it is loaded."""
        changed = TopicsChanged(topic_images(self.state, names))
        for context in list(self._contexts.values()):
            if not context.loading:
                self._step(context, changed)

    def _begin(self, context: ShardContext[S], loader: ShardLoader[S]) -> None:
        """Start a shard from its loaded log, then pass it the cluster's topics."""
        now_ms = self.clock.now_ms()
        self._perform(context, loader.start(context.shard, now_ms), now_ms)
        self._perform(
            context,
            self._outcome_of(context, TopicsChanged(topic_images(self.state, self.state.topics)), now_ms),
            now_ms,
        )
        self.on_started(context)

    def on_started(self, context: ShardContext[S]) -> None:
        """Called when a shard has started: subclasses pass it further state."""

    def flush_batches(self) -> None:
        """Append the open batches. Their requests are answered before this returns, unless the high watermark does not advance."""
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
                context = dirty.pop()
                if context.open_batch:
                    self._flush(context)
                elif context.queued_requests:
                    self.flush_requests(context, now_ms)

    def flush_requests(self, context: ShardContext[S], now_ms: int) -> None:
        """Process ``context.queued_requests``, whose type is the subclass's."""
        raise NotImplementedError("a coordinator that queues requests processes them")

    # performing

    def _step(self, context: ShardContext[S], event: Event) -> None:
        if context.queued_requests or (
            context.open_batch and not (type(event) is Request and self._may_wait(context, event.body))
        ):
            self._flush(context)
        now_ms, observer = self.clock.now_ms(), self.observer
        if observer is None:
            self._perform(context, context.shard.step(event, now_ms), now_ms)
        else:
            self._perform(context, observer.step(context.shard, context.partition.name, event, now_ms), now_ms)
        if context.elsewhere:
            self._report_elsewhere(context)

    def _report_elsewhere(self, context: ShardContext[S]) -> None:
        """Report the results of its appends to other topics, after the step that requested them."""
        events, context.elsewhere = context.elsewhere, []
        for event in events:
            if self._contexts.get(context.partition.index) is context:  # else it was unloaded
                self._step(context, event)

    def _outcome_of(self, context: ShardContext[S], event: Event, now_ms: int) -> Outcome:
        if self.observer is None:
            return context.shard.step(event, now_ms)
        return self.observer.step(context.shard, context.partition.name, event, now_ms)

    def _perform(self, context: ShardContext[S], outcome: Outcome, now_ms: int) -> None:
        if outcome.timers:
            partition, timers = context.shard.partition, self._timers
            for key, deadline_ms in outcome.timers:
                if deadline_ms is None:
                    timers.cancel((partition, key))
                else:
                    timers.set((partition, key), deadline_ms)
        if outcome.appends:
            self._perform_appends(context, outcome.appends, now_ms)
        if outcome.replies:
            self._reply(outcome.replies)
        for request in outcome.requests:
            self.ask_elsewhere(context, request)

    def _perform_appends(self, context: ShardContext[S], appends: list[Append], now_ms: int) -> None:
        buggify = self.state.buggify
        if len(appends) > _MANY_APPENDS:
            job = self._appending_elsewhere(context, [append for append in appends if append.to is not None])
            appends = [append for append in appends if append.to is None]
            self.state.slices.add(job, ended)
        for append in appends:
            if append.to is not None:
                self._append_elsewhere(context, append, append.to, now_ms)
            elif (
                append.mergeable
                and not context.partition.high_watermark_frozen
                and context.partition.append_interceptor is None
            ):
                if not context.open_batch:
                    self._dirty.append(context)
                context.open_batch.append(append)
                context.open_batch_records += len(append.records)
                alone = buggify is not None and buggify.fires("appends alone")
                if context.open_batch_records >= BATCH_RECORDS or alone:
                    self._flush(context)
            else:
                if context.open_batch or context.queued_requests:
                    self._flush(context)
                self._append(context, [append], now_ms)

    def ask_elsewhere(self, context: ShardContext[S], request: PersisterRequest | AllocateProducerId) -> None:
        """Send a shard's request to coordinators of another kind, or to the controller."""
        raise NotImplementedError("this kind of coordinator asks no other")

    def _reply(self, replies: list[tuple[int, Any]]) -> None:
        waiting, observer, buggify = self._tokens.pop, self.observer, self.state.buggify
        for token, answer in replies:
            if observer is not None:
                observer.answered(token)
            answered = waiting(token, None)
            if answered is None:
                continue
            if buggify is not None and buggify.fires("answers a turn later"):
                self._wire.call_at_ms(self._wire.now_ms(), answered, answer)
            else:
                answered(answer)

    def _flush(self, context: ShardContext[S]) -> None:
        """Append the open batch, or process the queued requests."""
        appends, context.open_batch, context.open_batch_records = context.open_batch, [], 0
        now_ms = self.clock.now_ms()
        if appends:
            self._append(context, appends, now_ms)
        if context.queued_requests:
            self.flush_requests(context, now_ms)

    def _append(self, context: ShardContext[S], appends: list[Append], now_ms: int) -> None:
        """Append as one batch, report the result to the shard, and perform its outcome."""
        partition, buggify = context.partition, self.state.buggify
        if buggify is not None and buggify.fires("rolls and cleans"):
            self.state.roll_and_clean(partition, now_ms)
        error, last_offset = NO_ERROR, -1
        if partition.deleted:
            error = Err.UNKNOWN_TOPIC_OR_PARTITION
        elif partition.isr_too_small and self.kind.appends_need_min_isr and not appends[0].any_isr:
            error = Err.NOT_ENOUGH_REPLICAS
        else:
            try:
                last_offset = append_to(partition, appends, now_ms)
            except (StorageError, record_batch.RecordBatchError) as failure:
                error = self.append_failed(partition, failure)
        self._perform(context, self._report_append(context, appends, error, last_offset, now_ms), now_ms)

    def append_failed(self, partition: Partition, failure: StorageError | record_batch.RecordBatchError) -> Err:
        """Log the failure. Returns its error code."""
        log.warning("append to %s failed: %s", partition.name, failure)
        return failure.error

    def _report_append(
        self, context: ShardContext[S], appends: list[Append], error: Err, last_offset: int, now_ms: int
    ) -> Outcome:
        """Report the result of an append to the shard."""
        partition = context.partition
        high_watermark = partition.high_watermark
        if high_watermark <= last_offset:
            self._await_high_watermark(context)
        more = [append.ticket for append in appends[1:]] if len(appends) > 1 else ()
        event = Appended(appends[0].ticket, last_offset, error, high_watermark, more)
        if self.observer is None:
            return context.shard.step(event, now_ms)
        tickets = [append.ticket for append in appends]
        self.observer.appended(partition.name, context.shard, tickets, last_offset, error, high_watermark)
        return self._outcome_of(context, event, now_ms)

    def _await_high_watermark(self, context: ShardContext[S]) -> None:
        if context.waiter is None:
            context.waiter = lambda: self._high_watermark_moved(context)
            context.partition.add_waiter(context.waiter)

    def _high_watermark_moved(self, context: ShardContext[S]) -> None:
        partition, shard = context.partition, context.shard
        # also if the writes were given up meanwhile: later answers wait until the shard's high watermark reaches its last write
        waits = shard.in_flight or shard.last_written >= shard.high_watermark
        if waits and partition.high_watermark > shard.high_watermark:
            if self.observer is not None:
                self.observer.committed(partition.name, shard, partition.high_watermark)
            error = Err.NOT_ENOUGH_REPLICAS_AFTER_APPEND if partition.isr_too_small else NO_ERROR
            self._step(context, Committed(partition.high_watermark, error))

    def _append_elsewhere(self, context: ShardContext[S], append: Append, to: tuple[str, int], now_ms: int) -> None:
        """Append to a partition of another topic. The shard gets the result after this step, or once the records are committed."""
        partition, error, last_offset = self.state.partition(*to), NO_ERROR, -1
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
            partition.when_committed(
                last_offset + 1, lambda error: self._report_later(context, AppendedElsewhere(append.ticket, error))
            )
        else:
            context.elsewhere.append(AppendedElsewhere(append.ticket, error))

    def _appending_elsewhere(self, context: ShardContext[S], appends: list[Append]) -> Job:
        """Append the markers of a large transaction in pieces. If the shard is unloaded meanwhile, its successor appends the rest."""
        pace = Pace(_MANY_APPENDS)
        for append in appends:
            if pace.full():
                self._report_elsewhere(context)
                yield
            if self._contexts.get(context.partition.index) is not context:
                return
            assert append.to is not None
            self._append_elsewhere(context, append, append.to, self.clock.now_ms())
        self._report_elsewhere(context)

    def _report_later(self, context: ShardContext[S], event: AppendedElsewhere) -> None:
        """Report in the next iteration of the event loop, after the code that changed the partition; not to an unloaded shard."""

        def report() -> None:
            if self._contexts.get(context.partition.index) is context:
                self._step(context, event)

        self._wire.call_at_ms(self._wire.now_ms(), report)

    def _fire(self, key: tuple[int, TimerKey]) -> None:
        context = self._contexts.get(key[0])
        if context is None:
            return
        later_ms = self._postponed_deadline(context, key[1])
        buggify = self.state.buggify
        if later_ms is None and buggify is not None and buggify.fires("fires late"):
            later_ms = self.clock.now_ms() + buggify.number("fires late", 50)
        if later_ms is None:
            self._step(context, TimerFired(key[1]))
        else:
            self._timers.set(key, later_ms)

    def _postponed_deadline(self, context: ShardContext[S], key: TimerKey) -> int | None:
        """The new deadline, in ms, of a due timer that must not fire now; None if it fires."""
        return None

    # loading

    def _context_of(self, partition: Partition) -> ShardContext[S]:
        context = self._contexts.get(partition.index)
        if context is None or context.partition is not partition:
            context = self._new_context(partition)
            context.shard.high_watermark = partition.high_watermark
            if partition.log_end_offset == partition.log_start_offset:
                self._begin(context, self.kind.new_loader())
                self._report_elsewhere(context)
            else:
                self._start_loading(context)
        return context

    def _new_context(self, partition: Partition) -> ShardContext[S]:
        context = self._contexts[partition.index] = ShardContext(self.kind.new_shard(partition.index), partition)
        return context

    def _start_loading(self, context: ShardContext[S]) -> None:
        context.loading = True
        if self.observer is not None:
            self.observer.loading(context.partition.name)
        loader = self.kind.new_loader()
        self._wire.call_at_ms(self._wire.now_ms(), self._load_on, context, loader, feeding(loader, context.partition))

    def _load_on(self, context: ShardContext[S], loader: ShardLoader[S], work: Iterator[None]) -> None:
        """Read a slice of the log and schedule the next one; start the shard after the last."""
        if self._contexts.get(context.partition.index) is not context:
            return  # it was unloaded meanwhile
        failed, buggify = "", self.state.buggify
        slow = buggify is not None and buggify.fires("loads slowly")
        try:
            if read_slice(work, 1 if slow else _LOAD_SLICE):
                pause_ms = buggify.number("loads slowly", 20) if slow and buggify is not None else 0
                self._wire.call_at_ms(self._wire.now_ms() + pause_ms, self._load_on, context, loader, work)
                return
        except (DecodeError, StorageError, record_batch.RecordBatchError) as error:
            log.error("loading %s failed after %d records: %s", context.partition.name, loader.records, error)
            context.failed = self.kind.load_error_disowns
            failed = f"{error}"
            loader = self.kind.new_loader()
        self._open(context, loader, failed)

    def _open(self, context: ShardContext[S], loader: ShardLoader[S], failed: str) -> None:
        """Start the shard after its log was read, or could not be read (``failed``)."""
        context.loading = False
        partition, shard = context.partition, context.shard
        shard.last_written, shard.high_watermark = partition.log_end_offset - 1, partition.high_watermark
        if shard.last_written >= shard.high_watermark:
            self._await_high_watermark(context)
        self._begin(context, loader)
        log.info("%s: %s loaded from %d records", partition.name, loader.found(), loader.records)
        skipped = sum(loader.skipped_kinds.values())
        if skipped:
            kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(loader.skipped_kinds.items()))
            log.info("%s: %d records of other kinds were skipped: %s", partition.name, skipped, kinds)
        if self.observer is not None:
            self.observer.loaded(shard, partition.name, loader.records, skipped, failed=failed)
        self._report_elsewhere(context)
