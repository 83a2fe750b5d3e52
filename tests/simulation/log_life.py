"""The life of one log on a simulated disk: it is written, rolled, cut, compacted, its disk fails, and its process dies in the midst of
that, again and again. What must be there afterwards is known by a model.

    log_life(seed, sync=True, power=True)       # None, or what is not as it must be; power: some of the deaths are of the machine
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from broker_sim.simulation.virtual.disk import ProcessKilled, SimDisk
from broker_sim.storage import KafkaStorageError, LogConfig, Origin, PartitionLog, StorageError
from broker_sim.storage.log import recovery
from kafka_wire.record_batch import RecordBatchError, build_batch
from tests.storage.batches import NOW_MS

HOME = Path("/data")
LOG = HOME / "orders-0"
PRODUCER = 7


class Row(NamedTuple):
    """A record as it was acknowledged."""

    offset: int
    key: bytes
    value: bytes | None
    timestamp: int
    epoch: int
    sequence: int
    base: int
    """Offset of the first record of its batch."""


@dataclass
class Model:
    """Contents of the log, and contents that the call under way may leave."""

    rows: list[Row] = field(default_factory=list)
    start: int = 0
    end: int = 0
    epoch: int = 0
    sequence: int = 0
    appending: list[Row] = field(default_factory=list)
    cutting: int | None = None
    starting: int | None = None

    def done(self) -> None:
        self.rows += self.appending
        if self.appending:
            self.end = self.appending[-1].offset + 1
        if self.cutting is not None:
            self.end = min(self.end, self.cutting)
            self.start = min(self.start, self.end)
            self.rows = [row for row in self.rows if row.offset < self.end]
        self.start = self.start if self.starting is None else max(self.start, self.starting)
        self.quiet()

    def quiet(self) -> None:
        self.appending, self.cutting, self.starting = [], None, None


class Life:
    """See the module. ``keeps_all``: what was acknowledged is to be there."""

    def __init__(self, seed: object, sync: bool, power: bool) -> None:
        self.rng = random.Random(f"{seed} log")
        self.sync, self.power = sync, power
        self.disk = SimDisk(seed)
        self.disk.make_dir(LOG, sync=True)
        self.config = LogConfig(
            segment_bytes=self.rng.choice((250, 600, 2000)),
            index_interval_bytes=self.rng.choice((0, 60, 300)),
            cleanup_policy=frozenset({self.rng.choice(("delete", "compact"))}),
            min_cleanable_dirty_ratio=0.0,
            delete_retention_ms=self.rng.choice((0, 10, 10_000)),
        )
        self.model = Model()
        self.now_ms = NOW_MS
        self.there: set[int] = set()
        self.failing = False
        self.lossy = False
        """Whether the last death may have cost what was acknowledged."""
        self.asked = 0
        """Former start of the log: what is there of older records, though it was deleted, may have holes."""
        self.log: PartitionLog

    def open(self) -> None:
        """Raises ProcessKilled."""
        self.now_ms += self.rng.randrange(50)
        if self.sync:
            self.disk.sync_dir(HOME)  # as Persistence.load
        self.log = PartitionLog(LOG, self.config, now_ms=self.now_ms, sync=self.sync, files=self.disk)

    def step(self) -> None:
        """Something is done to it. Raises ProcessKilled."""
        model, log, draw = self.model, self.log, self.rng.random()
        self.now_ms += self.rng.randrange(20)
        if draw < 0.65:
            self._append()
        elif draw < 0.7:
            self._fail()
        elif draw < 0.76:
            model.epoch += 1
            log.assign_epoch(model.epoch)
        elif draw < 0.82:
            log.roll(self.now_ms)
        elif draw < 0.88 and self.config.compacts:
            log.compact(self.now_ms, force=True)
        elif draw < 0.91 and model.end > model.start:
            model.starting = self.rng.randint(model.start, model.end)
            log.delete_records(model.starting)
        elif draw < 0.95 and model.end > model.start and not self.config.compacts:
            model.cutting = self.rng.randint(max(model.start, model.end - 8), model.end)
            log.truncate_to(model.cutting)
            model.cutting = log.log_end_offset
            model.sequence = self._next_sequence()
        elif draw < 0.97:
            log.flush()
        elif draw < 0.99:
            log.close()
        else:
            log.apply_retention(self.now_ms)
        model.done()

    def _append(self) -> None:
        model, rng = self.model, self.rng
        count = rng.choice((1, 1, 1, 2, 5))
        pairs = [
            (b"key%d" % rng.randrange(6), None if rng.random() < 0.15 else b"%d" % rng.randrange(10**6))
            for _ in range(count)
        ]
        times = self.now_ms - rng.choice((0, 0, 0, 15, 40))
        model.appending = [
            Row(model.end + n, key, value, times, model.epoch, model.sequence + n, model.end)
            for n, (key, value) in enumerate(pairs)
        ]
        data = build_batch(pairs, times, producer_id=PRODUCER, producer_epoch=0, base_sequence=model.sequence)
        info = self.log.append(data, leader_epoch=model.epoch, now_ms=self.now_ms, origin=Origin.CLIENT)
        assert info.base_offset == model.end, f"{info} at {model.end}"
        model.sequence += count

    def _fail(self) -> None:
        """An append that the disk does not take leaves nothing."""
        kind = self.rng.choice(("full", "fails", "readonly"))
        calls = [("write",), ("sync",), ("write", "sync")][self.rng.randrange(3)]
        sequence, self.failing = self.model.sequence, True
        with self.disk.fault(kind, free_bytes=self.rng.randrange(150), calls=calls):
            try:
                self._append()
            except KafkaStorageError:
                self.model.quiet()
                self.model.sequence = sequence
        self.failing = False

    def _next_sequence(self) -> int:
        entry = self.log.producers.entries.get(PRODUCER)
        return 0 if entry is None else entry.last_sequence + 1

    def die(self) -> None:
        """Kill the process, or the machine, and take the disk as the next process finds it."""
        # Not looked into: what a kill leaves of a cut that was not synced, or of a sync that failed, is served and is not durable.
        loose = self.failing or (self.model.cutting is not None and not self.sync)
        machine, self.failing = self.power and (loose or self.rng.random() < 0.6), False
        self.lossy = self.lossy or (machine and not self.sync)  # it may die again before it is looked at
        self.disk = self.disk.power_lost() if machine else self.disk.killed()

    # --- what must be

    def check(self) -> str | None:
        """After an opening: what is wrong. The model is what was found from then on."""
        model, log = self.model, self.log
        keeps_all, self.lossy = not self.lossy, False
        end, start = log.log_end_offset, log.log_start_offset
        least = model.end if model.cutting is None else min(model.end, model.cutting)
        least = next((row.base for row in model.rows if row.offset >= least), least)
        rows = [*model.rows, *model.appending]
        most = rows[-1].offset + 1 if model.appending else model.end
        if end > most or (end != most and model.appending and end > model.end) or (keeps_all and end < least):
            return f"it ends at {end}: {least} was acknowledged, {most} is the most"
        if start > max(model.start, model.starting or 0) and start != end:
            return f"it starts at {start}, not at {model.start}"
        if keeps_all and start < model.start and model.cutting is None:
            return f"it starts at {start}, though it was to be {model.start}"
        kept = [row for row in rows if start <= row.offset < end]
        self.asked = max(start, model.start)
        told = self._differs(kept, start)
        model.rows, model.end, model.start = [row for row in rows if row.offset < end], end, start
        model.sequence = self._next_sequence()
        model.epoch = max(model.epoch, log.latest_epoch)
        model.quiet()
        if (
            self.power and not self.sync and not self.config.compacts
        ):  # of what was deleted and is back a part may be gone
            model.rows = [row for row in model.rows if row.offset in self.there or row.offset < start]
        return told

    def _differs(self, kept: list[Row], start: int) -> str | None:
        log = self.log
        there = {
            row.offset: (row.key, row.value, row.timestamp)
            for one in log.batches()
            for row in one.records()
            if row.offset >= start
        }
        self.there = set(there)
        known = {row.offset: (row.key, row.value, row.timestamp) for row in kept}
        for offset, found in there.items():
            if known.get(offset) != found:
                return f"offset {offset} is {found}; it was {known.get(offset)}"
        asked = [row for row in kept if row.offset >= self.asked]
        last = {row.key: row for row in asked}
        wanted = [row.offset for row in (last.values() if self.config.compacts else asked)]
        for offset in wanted:
            if offset not in there and (not self.config.compacts or known[offset][1] is not None):
                return f"offset {offset}, {known[offset]}, is gone"
        return self._parts_differ(kept, there)

    def _parts_differ(self, kept: list[Row], there: dict[int, tuple[bytes | None, bytes | None, int]]) -> str | None:
        log = self.log
        for row in kept:
            epoch = log.epochs.epoch_of(row.offset)
            unknown = epoch == -1 and self.power and not self.sync  # a start that was moved was back, once
            if row.offset in there and epoch != row.epoch and not unknown:
                return f"offset {row.offset} is of epoch {epoch}, not {row.epoch}"
        if kept and kept[-1].offset >= self.asked:
            entry = log.producers.entries.get(PRODUCER)
            if entry is None or entry.last_sequence != kept[-1].sequence:
                return f"its producer is known with {entry and entry.last_sequence}, not {kept[-1].sequence}"
        for timestamp in {time for _, _, time in there.values()} if not self.config.compacts else ():
            first = next(row.offset for row in kept if row.timestamp >= timestamp and row.offset in there)
            found = log.offset_for_timestamp(timestamp)
            if found is None or found.offset != first:
                return f"the first record of {timestamp} is {found}, not {first}"
        for offset in there:
            if not any(row.offset == offset for row in _read_at(log, offset)):
                return f"a read from offset {offset} does not give it"
        return None


def _read_at(log: PartitionLog, offset: int) -> list[Row]:
    from kafka_wire.record_batch import batches, records

    data = log.read(offset, 200)
    return [row for pos, header in batches(data) for row in records(data, pos, header)]  # type: ignore[misc]


def log_life(seed: object, *, sync: bool = False, power: bool = False, lives: int = 6) -> str | None:
    """See the module."""
    life = Life(seed, sync, power)
    recovery.logger.disabled = True
    try:
        for _ in range(lives):
            told = _one(life)
            if told is not None:
                return told
    except (AssertionError, ValueError, OSError, LookupError, StorageError, RecordBatchError) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        recovery.logger.disabled = False
    return None


def _one(life: Life) -> str | None:
    rng = life.rng
    while True:
        if rng.random() < 0.3:
            life.disk.die_in(rng.randint(1, 30), lambda: None)
        try:
            life.open()
        except ProcessKilled:
            life.die()
            continue
        break
    life.disk.cancel_death()
    told = life.check()
    if told is not None:
        return told
    if rng.random() < 0.9:
        life.disk.die_in(int(1 + rng.expovariate(1 / 60)), lambda: None)
    try:
        for _ in range(rng.randint(0, 60)):
            life.step()
    except ProcessKilled:
        pass
    else:
        if rng.random() < 0.3:
            life.disk.cancel_death()
            life.log.close()
    life.die()
    return None
