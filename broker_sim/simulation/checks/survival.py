"""Check that the logs have what they must have after the brokers' process has died.

    before = log_states(kafka.state, disk)            # at the death
    lost(before, kafka.state, disk, all_of_it=True) # after the start: None, or what is not as it was

Rules:
1. Every partition is there. What was committed is there after a kill; after a loss of power if appends are synced
   (``all_of_it``), else a part from its beginning.
2. What is there is what was there: no hole, no other record. Behind its old end there may be what was on its way.
3. Of a compacted log the last record of every key counts, as compaction may have got on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker_sim.storage.segment import DiskSegment
from kafka_wire.record_batch import RecordBatchError, batches, records

if TYPE_CHECKING:
    from broker_sim.metadata.cluster_state import ClusterState
    from broker_sim.simulation.virtual.disk import SimDisk
    from broker_sim.storage import PartitionLog

__all__ = ["LogState", "log_states", "lost"]

Batch = tuple[int, int, bytes]
"""First offset, last offset, the whole of it."""


@dataclass(frozen=True, slots=True)
class LogState:
    """A log at some moment. ``committed``: what is below has been acknowledged, or may have been."""

    name: str
    start: int
    committed: int
    compacts: bool
    batches: tuple[Batch, ...]

    @property
    def end(self) -> int:
        return self.batches[-1][1] + 1 if self.batches else self.start

    def part(self, start: int, end: int) -> list[Batch]:
        """The batches that touch these offsets."""
        return [batch for batch in self.batches if batch[1] >= start and batch[0] < end]

    def latest(self, start: int, end: int) -> dict[bytes | None, tuple[int, bytes | None]]:
        """Key -> offset and value of its last record there; not of those that are deleted."""
        values = {
            row.key: (row.offset, row.value)
            for _, _, data in self.part(start, end)
            for row in records(data)
            if row.offset < end
        }
        return {key: latest_value for key, latest_value in values.items() if latest_value[1] is not None}


def log_states(state: ClusterState, disk: SimDisk) -> dict[str, LogState]:
    """The state of every log, by the name of its partition."""
    image = disk.image()
    return {
        partition.name: LogState(
            partition.name, partition.log_start_offset, partition.high_watermark, partition.log.config.compacts,
            tuple(_read(partition.log, image)),
        )
        for partition in state.partitions()
    }  # fmt: skip


def _read(log: PartitionLog, image: Mapping[str, bytes]) -> Iterable[Batch]:
    for segment in log.segments:
        if isinstance(segment, DiskSegment):
            stem = str(segment.path("log")).partition(".log")[0] + ".log"
            paths = (
                str(segment.log_path),
                f"{stem}.swap",
                stem,
            )  # it may have died between a renaming and the note of it
            data = next((image[path] for path in paths if path in image), b"")[: segment.size]
            try:
                for pos, header in batches(data):
                    yield header.base_offset, header.last_offset, data[pos : pos + header.size]
            except RecordBatchError:
                return


def lost(before: Mapping[str, LogState], state: ClusterState, disk: SimDisk, *, all_of_it: bool) -> str | None:
    """Describe the first partition whose log does not have what it must have; None where all have it."""
    now = log_states(state, disk)
    for name, old in before.items():
        new = now.get(name)
        if new is None:
            return f"{name} is missing; it ended at {old.end}"
        difference = _differs(old, new, all_of_it)
        if difference is not None:
            return difference
    return None


def _differs(old: LogState, new: LogState, all_of_it: bool) -> str | None:
    end = max(new.end, new.start)
    if all_of_it and end < old.committed:
        return f"{old.name} ends at {end}; it was committed up to {old.committed}"
    start, end = max(old.start, new.start), min(old.end, end)
    if old.compacts:
        was, is_ = old.latest(start, end), new.latest(start, end)
        if was != is_:
            key = next(key for key in {**was, **is_} if was.get(key) != is_.get(key))
            return f"{old.name}, of the offsets {start} to {end}: the last of {key!r} was {was.get(key)}, is {is_.get(key)}"
        return None
    for was_, is__ in zip(old.part(start, end), new.part(start, end), strict=False):
        if was_ != is__:
            return f"{old.name} had a batch {was_[0]} to {was_[1]}, and has {is__[0]} to {is__[1]}{_same(was_, is__)}"
    return None


def _same(batch: Batch, other: Batch) -> str:
    return ", with other bytes" if batch[:2] == other[:2] else ""
