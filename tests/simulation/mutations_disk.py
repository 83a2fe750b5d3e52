"""Planted bugs of what lies on a disk: each a switch that makes the broker wrong in one place while its ``with`` block lasts.

``LOG_MUTATIONS`` are found in the lives of a log (`log_life`), ``CLUSTER_MUTATIONS`` in sweeps of a whole cluster on a disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broker_sim.metadata import persistence
from broker_sim.storage import cleaner, log, recovery, segment
from broker_sim.storage.files import Files
from broker_sim.storage.index import OffsetIndex, TimeIndex
from broker_sim.storage.log import PartitionLog
from broker_sim.storage.producer_state import ProducerState
from broker_sim.storage.segment import DiskSegment
from tests.simulation.mutations import Patches


@dataclass(frozen=True)
class DiskMutation:
    """Mutation of storage. ``where``: arguments of `log_life`, or the workload; ``seeds``: number of seeds within which it is found."""

    name: str
    plant: Callable[[Patches], None]
    seeds: int
    where: Any

    @contextmanager
    def planted(self) -> Iterator[None]:
        patches = Patches()
        try:
            self.plant(patches)
            yield
        finally:
            patches.undo()


LOG_MUTATIONS: list[DiskMutation] = []
CLUSTER_MUTATIONS: list[DiskMutation] = []

Plant = Callable[[Patches], None]


def of_a_log(seeds: int, **where: int) -> Callable[[Plant], Plant]:
    def note(plant: Plant) -> Plant:
        LOG_MUTATIONS.append(DiskMutation(plant.__name__, plant, seeds, where))
        return plant

    return note


def of_a_cluster(seeds: int, workload: str) -> Callable[[Plant], Plant]:
    def note(plant: Plant) -> Plant:
        CLUSTER_MUTATIONS.append(DiskMutation(plant.__name__, plant, seeds, workload))
        return plant

    return note


def _nothing(*args: Any, **kwargs: Any) -> None: ...


def _adopt_by_index(self: DiskSegment, size: int) -> bool:
    """A segment is what the last entries of its indexes say, whatever is behind them."""
    entry = self._last_entry("index", segment.OFFSET_ENTRY)
    latest = self._last_entry("timeindex", segment.TIME_ENTRY)
    if entry is None or latest is None:
        return False
    self.size, self.next_offset = size, self.base_offset + entry[0] + 1
    self.max_timestamp, self.max_timestamp_offset = latest[0], self.base_offset + latest[1]
    self._offset_index = self._time_index = None
    return True


# --- what a start makes of what it finds


@of_a_log(40)
def a_torn_tail_is_accepted(p: Patches) -> None:
    def accept(found: DiskSegment, size: int, why: str, files: Files, **how: bool) -> None:
        found.size = size

    p.put(recovery, "_cut", accept)


@of_a_log(400, power=True)
def no_crc_is_looked_at(p: Patches) -> None:
    p.put(recovery, "check_crc", _nothing)
    p.put(segment, "check_crc", _nothing)


@of_a_log(20)
def only_the_first_batch_of_the_last_segment_is_read_again(p: Patches) -> None:
    real = DiskSegment.scan

    def scan(self: DiskSegment, position: int, end: int) -> Iterator[Any]:
        for number, one in enumerate(real(self, position, end)):
            if number == 0 or self._offset_index is None or len(self.offset_index):
                yield one

    p.put(DiskSegment, "scan", scan)


@of_a_log(40)
def a_rolled_segment_is_adopted_by_its_index_alone(p: Patches) -> None:
    p.put(DiskSegment, "adopt_finished", _adopt_by_index)


@of_a_log(120)
def an_index_is_trusted_beyond_its_log(p: Patches) -> None:
    """Entries that a truncation has cut stay in the index files, and are trusted."""
    real = DiskSegment.save_indexes

    def save(self: DiskSegment, *, sync: bool = False) -> None:
        if len(self.offset_index) or not self.size:
            real(self, sync=sync)

    p.put(DiskSegment, "save_indexes", save)
    p.put(DiskSegment, "adopt_finished", _adopt_by_index)
    p.put(OffsetIndex, "load", lambda self, data, size: True)
    p.put(TimeIndex, "load", lambda self, data, last: True)


@of_a_log(60)
def an_interrupted_compaction_is_forgotten(p: Patches) -> None:
    """A segment that took the place of others is swept away with the leftovers."""
    p.put(recovery, "_complete_swap", _nothing)


@of_a_log(400)
def producers_are_read_from_any_snapshot(p: Patches) -> None:
    """A snapshot ahead of the log is used, too: it was written for a segment that a truncation has removed."""

    def newest(directory: Path | None, bases: Any, files: Files) -> tuple[ProducerState, int]:
        assert directory is not None
        names = [name for name in files.names(directory) if name.endswith(".snapshot")]
        for name in reversed(names):
            known = recovery.decode_snapshot(files.read_file(directory / name))
            if known is not None:
                return known, int(name.partition(".")[0])
        return ProducerState(), 0

    p.put(recovery, "_snapshot_before", newest)


@of_a_log(60)
def producers_are_not_replayed_behind_their_snapshot(p: Patches) -> None:
    real = recovery._scan
    p.put(
        recovery,
        "_scan",
        lambda found, size, files, producers, ended, **how: real(found, size, files, None, ended, **how),
    )


@of_a_log(60, power=True)
def epochs_of_the_batches_are_not_read(p: Patches) -> None:
    real = recovery._recover_epochs
    p.put(recovery, "_recover_epochs", lambda found, saved, scanned: real(found, saved, []))


@of_a_log(60)
def the_start_of_a_log_is_forgotten(p: Patches) -> None:
    p.put(recovery, "_saved_offset", lambda directory, name, files: None)


# --- what is on the disk when


@of_a_log(20, sync=True, power=True)
def an_append_is_acknowledged_before_it_is_synced(p: Patches) -> None:
    real = DiskSegment._put

    def put(self: DiskSegment, data: bytes) -> None:
        self.sync_appends = False
        real(self, data)

    p.put(DiskSegment, "_put", put)


@of_a_log(40, sync=True, power=True)
def a_new_segment_is_not_in_its_directory(p: Patches) -> None:
    real = PartitionLog._new_segment

    def new(self: PartitionLog, base_offset: int, now_ms: int) -> Any:
        self.sync = False
        try:
            fresh: Any = real(self, base_offset, now_ms)
        finally:
            self.sync = True
        fresh.sync_appends = True
        return fresh

    p.put(PartitionLog, "_new_segment", new)


@of_a_log(60, power=True)
def the_next_segment_begins_before_the_last_one_is_on_the_disk(p: Patches) -> None:
    p.put(DiskSegment, "flush", lambda self, sync: self.save_indexes())


@of_a_log(60, sync=True, power=True, lives=30)
def what_a_killed_process_had_written_is_not_synced(p: Patches) -> None:
    real = PartitionLog._open

    def opened(self: PartitionLog, directory: Path, now_ms: int) -> None:
        self.sync = False
        try:
            real(self, directory, now_ms)
        finally:
            self.sync = True
        for one in self.segments:
            one.sync_appends = True  # type: ignore[attr-defined]

    p.put(PartitionLog, "_open", opened)


@of_a_log(200, power=True)
def a_compacted_segment_takes_its_place_before_it_is_on_the_disk(p: Patches) -> None:
    real = cleaner.Pass._cleaning

    def clean(one: cleaner.Pass, group: Any, plan: Any) -> Iterator[None]:
        sync = DiskSegment.sync
        DiskSegment.sync = _nothing  # type: ignore[method-assign,assignment]
        try:
            yield from real(one, group, plan)
        finally:
            DiskSegment.sync = sync  # type: ignore[method-assign]

    p.put(cleaner.Pass, "_cleaning", clean)


@of_a_log(200)
def segments_are_removed_before_what_replaces_them_is_named(p: Patches) -> None:
    def replace(one: PartitionLog, old: Any, fresh: Any, aborted: Any) -> None:
        for each in old:
            each.delete()
        fresh.rename(".swap")
        fresh.rename("")
        one.put_cleaned(old, fresh, aborted)

    p.put(cleaner, "_replace", replace)


@of_a_log(400, power=True)
def a_truncation_is_not_on_the_disk_before_what_follows(p: Patches) -> None:
    real = PartitionLog.truncate_to

    def truncate(self: PartitionLog, offset: int) -> None:
        files, sync = self.files, DiskSegment.sync
        self.files = _NoDirs(files)  # type: ignore[assignment]
        DiskSegment.sync = _nothing  # type: ignore[method-assign,assignment]
        try:
            real(self, offset)
        finally:
            self.files = files
            DiskSegment.sync = sync  # type: ignore[method-assign]

    p.put(PartitionLog, "truncate_to", truncate)


class _NoDirs:
    """A disk whose directories are not synced."""

    def __init__(self, files: Files) -> None:
        self._real = files

    def sync_dir(self, path: Path) -> None: ...

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@of_a_log(100, sync=True)
def a_batch_whose_sync_failed_stays(p: Patches) -> None:
    def put(self: DiskSegment, data: bytes) -> None:
        self._files.append(self.fd, data, self.size)
        if self.sync_appends:
            self._files.sync(self.fd)

    p.put(DiskSegment, "_put", put)


@of_a_log(60)
def a_log_that_could_not_be_written_ends_later(p: Patches) -> None:
    real = PartitionLog._write

    def write(self: PartitionLog, data: bytes, marks: Any, *args: Any) -> None:
        try:
            real(self, data, marks, *args)
        except log.StorageError:
            self.log_end_offset = marks[-1][1] + 1
            raise

    p.put(PartitionLog, "_write", write)


@of_a_log(60, sync=True, power=True)
def a_file_is_replaced_and_its_directory_not_synced(p: Patches) -> None:
    def replace(self: Files, path: Path, data: bytes, *, sync: bool = False, private: bool = False) -> None:
        fresh = path.with_name(path.name + ".tmp")
        fd = self.open(fresh, create=True)
        self.truncate(fd, 0)
        self.append(fd, data, 0)
        if sync:
            self.sync(fd)
        self.close(fd)
        self.rename(fresh, path)

    p.put(Files, "replace_file", replace)


# --- the cluster's own files


@of_a_cluster(40, "disk")
def the_state_is_written_in_place(p: Patches) -> None:
    """Not beside, to be renamed: a death in its midst leaves half of it."""

    def replace(self: Files, path: Path, data: bytes, *, sync: bool = False, private: bool = False) -> None:
        fd = self.open(path, create=True)
        self.truncate(fd, 0)
        self.append(fd, data, 0)
        self.close(fd)

    p.put(Files, "replace_file", replace)


@of_a_cluster(20, "disk")
def leader_epochs_begin_anew_with_every_process(p: Patches) -> None:
    real = persistence.Persistence._reopen

    def reopen(self: Any, topic: Any, index: int, replicas: Any, leader: int, epoch: int, settings: Any) -> None:
        real(self, topic, index, replicas, leader, 0, settings)
        topic.partitions[-1].leader_epoch = 0

    p.put(persistence.Persistence, "_reopen", reopen)


@of_a_cluster(20, "disk")
def records_are_held_back_until_a_segment_is_rolled(p: Patches) -> None:
    """As by a buffer in the process: what is acknowledged is not even written."""
    real = Files.append
    held: dict[tuple[int, int], tuple[bytes, int]] = {}

    def append(self: Files, fd: int, data: bytes, position: int) -> None:
        for (disk, other), (kept, at) in list(held.items()):
            if disk == id(self) and other == fd:
                del held[disk, other]
                real(self, fd, kept, at)
        if position and len(data) > 60:
            held[id(self), fd] = data, position
        else:
            real(self, fd, data, position)

    p.put(Files, "append", append)
