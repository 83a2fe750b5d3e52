"""Lag of a group: per partition, signed, and the reason why a wait for low lag is not over.

Rules (GetOffsetsShell and ConsumerGroupCommand.scala have the first):
1. Lag is the high watermark less the committed offset, whatever its sign: an offset beyond the log's end is a negative lag, never 0.
2. A partition counts if the group has committed it, is assigned it or subscribes to it. A subscribed partition
   that no member is assigned counts as well: its records are not consumed.
3. Where nothing is committed, all that is in the partition counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

__all__ = ["Lag", "Offsets", "PartitionLag"]

Offsets = dict[tuple[str, int], int]
"""(topic, partition) -> offset."""

_NAMED = 8
"""Partitions that a sentence names."""


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """One partition of a group. ``committed``: its offset, or None; ``log_start``, ``end``: the log's first offset and its high
    watermark; ``assigned``: whether it has an owner, or needs none, as no member subscribes to its topic."""

    committed: int | None
    log_start: int
    end: int
    assigned: bool
    markers: int = 0
    """Number of markers of transactions between the committed offset and the high watermark. They are delivered to no consumer, so a
    consumer that has committed the offset behind its last record keeps them as lag. Counted if the lag is small and consists of
    markers alone."""
    stable: int | None = None
    """The last stable offset, where a transaction holds it below the end: read_committed consumers get what is before it."""

    @property
    def lag(self) -> int:
        """Records between the committed offset and the high watermark; negative where the offset is beyond that."""
        return self.end - (self.log_start if self.committed is None else self.committed)

    @property
    def deleted(self) -> int:
        """Number of the lag's records that are no longer in the log, which begins behind the committed offset."""
        return max(0, min(self.log_start, self.end) - (self.log_start if self.committed is None else self.committed))


class Lag(Offsets):
    """(topic, partition) -> the high watermark less the committed offset; negative where the group has committed beyond the log's end,
    as ``kafka-consumer-groups`` shows it. ``partitions`` has what each number is made of; of a share group it is empty."""

    partitions: dict[tuple[str, int], PartitionLag]

    @classmethod
    def of(cls, partitions: Mapping[tuple[str, int], PartitionLag]) -> Lag:
        """The lag of a group that commits offsets."""
        lag = cls({at: partition.lag for at, partition in partitions.items()})
        lag.partitions = dict(partitions)
        return lag

    @classmethod
    def of_backlog(cls, backlog: Offsets) -> Lag:
        """The lag of a share group."""
        lag = cls(backlog)
        lag.partitions = {}
        return lag

    @property
    def total(self) -> int:
        """The sum of all partitions."""
        return sum(self.values())

    @property
    def unassigned(self) -> list[tuple[str, int]]:
        """Partitions of subscribed topics that are assigned to no member."""
        return [at for at, partition in self.partitions.items() if not partition.assigned]

    @property
    def deleted(self) -> Offsets:
        """Partitions whose log start offset is after the committed offset -> records of the lag that are deleted."""
        return {at: partition.deleted for at, partition in self.partitions.items() if partition.deleted}

    def below(self, records: int) -> bool:
        """Whether the total lag is below ``records``; false while the partitions are empty, a partition has no owner, or a lag is
        negative."""
        return not self.obstacle(records)

    def obstacle(self, records: int) -> str:
        """Reason why the lag isn't ``below(records)``; "" if it is."""
        if not self:
            return "no partition is committed, assigned or subscribed"
        if self.partitions and not any(partition.end for partition in self.partitions.values()):
            return "nothing was ever written to its partitions"
        if beyond := [at for at, lag in self.items() if lag < 0]:
            return "; ".join(
                f"the lag of {_name(at)} is {self[at]}: committed {partition.committed} is beyond the log's end, {partition.end}"
                for at, partition in ((at, self.partitions[at]) for at in beyond[:_NAMED])
            )
        if unassigned := self.unassigned:
            verb = "is" if len(unassigned) == 1 else "are"
            return f"{_names(unassigned)} {verb} subscribed, but assigned to no member"
        if self.total < records:
            return ""
        markers = {at: partition.markers for at, partition in self.partitions.items() if partition.markers}
        if markers and sum(markers.values()) == self.total:
            which = "; ".join(
                f"{_name(at)} is committed at {self.partitions[at].committed}" for at in list(markers)[:_NAMED]
            )
            return (
                f"lag {self.total}, which is markers of transactions and no record: all records are committed ({which}), and the group"
                " commits behind a marker when it has read on"
            )
        held = {at: partition.stable for at, partition in self.partitions.items() if partition.stable is not None}
        where = "; ".join(f"{_name(at)} beyond {stable}" for at, stable in list(held.items())[:_NAMED])
        behind = f", and transactions are open: read_committed consumers get nothing of {where}" if held else ""
        return f"lag {self.total}{behind}"


def _name(at: tuple[str, int]) -> str:
    return f"{at[0]}-{at[1]}"


def _names(those: Iterable[tuple[str, int]]) -> str:
    names = [_name(at) for at in sorted(those)]
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
