"""Records in flight: from the first delivery of the earliest record that isn't done with to the latest that was delivered.

They are kept as the runs in which they were acquired (`Batch`), and one by one where a run's records have parted ways. Source:
InFlightBatch.java, InFlightState.java, RecordState.java (4.x).
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

NO_MEMBER = ""


class DeliveryState(enum.IntEnum):
    """As it is stored; ACQUIRED never is. ARCHIVING: a dead letter is to be written first (KIP-1191)."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4

    @property
    def is_final(self) -> bool:
        """Whether a record is done with."""
        return self in (DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED)


@dataclass(slots=True, eq=False)
class Delivery:
    """The state of a record, or of a run of records. ``deadline_ms``: when the acquisition lock ends. ``moving``: the new state is set
    but not confirmed by the share coordinator yet; until then no member may acquire or acknowledge the record."""

    state: DeliveryState = DeliveryState.AVAILABLE
    deliveries: int = 0
    member: str = NO_MEMBER
    deadline_ms: int = -1
    moving: bool = False

    @property
    def is_free(self) -> bool:
        """Whether it may be acquired."""
        return self.state is DeliveryState.AVAILABLE and not self.moving

    @property
    def is_settled(self) -> bool:
        """Whether it is done with, and that is confirmed."""
        return self.state.is_final and not self.moving

    def copy(self) -> Delivery:
        """Return a copy that is equal."""
        return Delivery(self.state, self.deliveries, self.member, self.deadline_ms, self.moving)


class Acquired(NamedTuple):
    """Records that a member has, and how often they have been delivered."""

    first: int
    last: int
    deliveries: int


@dataclass(slots=True, eq=False)
class Batch:
    """Records ``first`` to ``last``, both included: ``batch_state`` is the state of all of them, unless ``offset_state`` has one for
    each offset. ``initial_size``: how many records it had before the start offset moved into it."""

    first: int
    last: int
    batch_state: Delivery = field(default_factory=Delivery)
    offset_state: dict[int, Delivery] | None = None
    initial_size: int = field(init=False)

    def __post_init__(self) -> None:
        self.initial_size = self.size

    @property
    def size(self) -> int:
        """Number of offsets of the batch."""
        return self.last - self.first + 1

    def parted(self) -> dict[int, Delivery]:
        """Give each record of the batch a state of its own from now on; returns them by offset."""
        if self.offset_state is None:
            self.offset_state = {offset: self.batch_state.copy() for offset in range(self.first, self.last + 1)}
        return self.offset_state

    def runs(self) -> Iterator[tuple[int, int, Delivery]]:
        """First offset, last offset and state of each run of records."""
        if self.offset_state is None:
            yield self.first, self.last, self.batch_state
        else:
            for offset, delivery in self.offset_state.items():
                yield offset, offset, delivery


def runs_of(read: Sequence[tuple[int, int]], first: int, last: int, batch_size: int) -> list[tuple[int, int]]:
    """Offsets ``first`` to ``last`` in runs that begin where a batch of the log does, with ``batch_size`` records or a little more.
    With a size of 0 the first is empty: it ends before it begins. Source: SharePartition.createBatches."""
    if last - first + 1 <= batch_size:
        return [(first, last)]
    runs: list[tuple[int, int]] = []
    begin = first
    for base, _ in read:
        if base > last:
            break
        if base >= begin and base - begin >= batch_size:
            runs.append((begin, base - 1))
            begin = base
    runs.append((begin, last))
    return runs
