"""Periodic maintenance of logs: retention and compaction.

Rules:
1. Retention first looks ``log.initial.task.delay.ms`` (30 s) after the start and then every ``log.retention.check.interval.ms``.
   The cleaner looks at the start and then every ``log.cleaner.backoff.ms``. A look that would find nothing to compact is left
   out: hours that a test lets pass have some dozens of looks in place of thousands.
2. A round goes through all logs in pieces, one in a turn of the loop, beside the requests; most have one, which is done at once.
3. A round that comes due while the one before it is still on is left out.
4. A log whose disk fails is passed over with a log line; the others are done.
5. Idle producers are looked for in each log by itself, every ``producer.id.expiration.check.interval.ms`` from when it was opened.
   While a log knows no producer its looks are left out. A log that comes back from a disk forgets them at once.
Source: LogManager.startupWithConfigOverrides and cleanupLogs, LogCleaner.CleanerThread, UnifiedLog.producerExpireCheck,
ProducerStateManager.loadFromSnapshot (core, storage).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from broker_sim.common.slices import Job, Pace, Slices, ended
from broker_sim.storage import StorageError

if TYPE_CHECKING:
    from broker_sim.common.clock import Timer
    from broker_sim.metadata.cluster_state import ClusterState
    from broker_sim.metadata.topics import Partition
    from broker_sim.storage import PartitionLog

log = logging.getLogger("broker_sim.cluster")

_PIECE = 16_384
"""Work of a round between which requests are handled, in records to be compacted."""

_LOG_COST = 128
"""Cost of a look at a log beside its compaction, in the same unit."""

_INITIAL_DELAY_MS = 30_000
"""Before 3.8, where log.initial.task.delay.ms is a constant."""


class LogMaintenance:
    """The rounds over the logs of one cluster."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._retaining, self._cleaning = Slices(), Slices()
        self._began_ms: int | None = None  # None: no rounds but those that are asked for
        self._retention_timer: Timer | None = None
        self._cleaner_timer: Timer | None = None
        self._producer_looks: dict[_ProducerLooks, Timer] = {}  # those that are to come

    def start(self) -> None:
        """Rounds begin by themselves, until `stop`."""
        clock, config = self._state.clock, self._state.config
        self._began_ms = clock.now_ms()
        name = "log.initial.task.delay.ms"
        delay_ms = config.int(name) if name in config.settings else _INITIAL_DELAY_MS
        self._retention_timer = clock.call_at_ms(self._began_ms + delay_ms, self._look_at_retention)
        if _may_be_compacted(self._state.partitions()):
            self._look_for_dirt()
        for partition in self._state.partitions():
            known = partition.log.producers
            known.expire(self._began_ms, partition.log.config.producer_id_expiration_ms)
            if known.entries:
                known.on_known()

    def stop(self) -> None:
        """Stop: no more rounds, and the running one ends."""
        self._began_ms = None
        for timer in (self._retention_timer, self._cleaner_timer):
            if timer is not None:
                timer.cancel()
        self._retention_timer = self._cleaner_timer = None
        for timer in self._producer_looks.values():
            timer.cancel()
        self._producer_looks.clear()
        self._retaining.clear()
        self._cleaning.clear()

    @property
    def started(self) -> bool:
        """Whether rounds begin by themselves."""
        return self._began_ms is not None

    @property
    def busy(self) -> bool:
        """Whether a round is on."""
        return self._retaining.busy or self._cleaning.busy

    # --- when

    def _look_at_retention(self) -> None:
        clock = self._state.clock
        _guarded(self.retain, clock.now_ms())
        interval_ms = self._state.config.int("log.retention.check.interval.ms")
        self._retention_timer = clock.call_at_ms(clock.now_ms() + interval_ms, self._look_at_retention)

    def wake_cleaner(self) -> None:
        """A log has a segment more that may be compacted, or other settings: the cleaner's next look isn't left out."""
        if self._began_ms is None or self._cleaner_timer is not None:
            return
        clock, config = self._state.clock, self._state.config
        if config.bool("log.cleaner.enable"):
            every_ms = max(config.int("log.cleaner.backoff.ms"), 1)
            checks = (clock.now_ms() - self._began_ms) // every_ms + 1
            self._cleaner_timer = clock.call_at_ms(self._began_ms + checks * every_ms, self._look_for_dirt)

    def _look_for_dirt(self) -> None:
        self._cleaner_timer = None
        _guarded(self.clean, self._state.clock.now_ms())
        self.wake_cleaner_for(self._state.partitions())

    def wake_cleaner_for(self, partitions: Iterable[Partition]) -> None:
        """As `wake_cleaner`, if one of these logs may be compacted: after a round, or where settings have changed."""
        if _may_be_compacted(partitions):
            self.wake_cleaner()

    def watch(self, log: PartitionLog, opened_ms: int) -> None:
        """Maintain a log, new or reopened."""
        log.on_sealed = self.wake_cleaner
        log.producers.on_known = _ProducerLooks(log, opened_ms, self._state, self._producer_looks).arm

    # --- what

    def retain(self, now_ms: int) -> None:
        """Begin a round of retention. Log starts that move wake the waiters."""
        _begin(self._retaining, self._round(lambda partition, _: _retain(partition, now_ms)))

    def clean(self, now_ms: int) -> None:
        """Begin a round of compaction, where log.cleaner.enable isn't off."""
        if self._state.config.bool("log.cleaner.enable"):
            _begin(self._cleaning, self._round(lambda partition, pace: _clean(partition, now_ms, pace)))

    def _round(self, job_of: Callable[[Partition, Pace], Job | None]) -> Job:
        self._state.disk.catch_up()
        pace = Pace(_PIECE)
        for partition in list(self._state.partitions()):
            if pace.full(_LOG_COST):
                yield
            if partition.deleted:
                continue
            try:
                job = job_of(partition, pace)
                if job is not None:
                    yield from job
            except StorageError as error:
                log.error("retention or compaction of %s failed and is retried: %s", partition.name, error)


class _ProducerLooks:
    """The checks for idle producers of one log; its settings are read at each, as they may change."""

    def __init__(
        self, log: PartitionLog, opened_ms: int, state: ClusterState, armed: dict[_ProducerLooks, Timer]
    ) -> None:
        self._log, self._opened_ms, self._state, self._armed = log, opened_ms, state, armed

    def arm(self) -> None:
        """The next look is armed, if none is."""
        if self not in self._armed and self._state.maintenance.started:
            clock, every_ms = self._state.clock, self._state.config.int("producer.id.expiration.check.interval.ms")
            checks = (clock.now_ms() - self._opened_ms) // every_ms + 1
            self._armed[self] = clock.call_at_ms(self._opened_ms + checks * every_ms, self.look)

    def look(self) -> None:
        """Expire idle producer ids (producer.id.expiration.ms)."""
        del self._armed[self]
        self._log.producers.expire(self._state.clock.now_ms(), self._log.config.producer_id_expiration_ms)
        if self._log.producers.entries:
            self.arm()


def _may_be_compacted(partitions: Iterable[Partition]) -> bool:
    """Whether one of the logs has a segment that no pass has seen, be it enough for a pass or not."""
    return any(_has_uncleaned_segments(partition.log) for partition in partitions)


def _has_uncleaned_segments(log: PartitionLog) -> bool:
    clean_end_offset = max(log.clean_end_offset, log.log_start_offset)
    return log.config.compacts and not log.uncleanable and clean_end_offset < log.segments[-1].base_offset


def _retain(partition: Partition, now_ms: int) -> None:
    start = partition.log.log_start_offset
    partition.log.apply_retention(now_ms, high_watermark=partition.high_watermark)
    if partition.log.log_start_offset != start:
        partition.wake()


def _clean(partition: Partition, now_ms: int, pace: Pace) -> Job | None:
    if not partition.log.config.compacts:
        return None
    return partition.log.compacting(now_ms, pace, high_watermark=partition.high_watermark)


def _begin(slices: Slices, job: Job) -> None:
    if not slices.busy and not ended(job):
        slices.add(job, ended)


def _guarded(look: Callable[[int], None], now_ms: int) -> None:
    try:
        look(now_ms)
    except Exception:
        log.exception("log maintenance failed; it is tried again at the next look")
