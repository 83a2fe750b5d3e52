"""Pending writes: the appended and not yet committed writes of a shard, of any coordinator, until the high watermark passes them.

A write is stored by its ticket, in the order of the appends, with the offset of its last record (-1 before it is appended). A write
that is not committed at once has a timer, ``("append", ticket)``. Each coordinator decides about writes that time out or fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, TypeVar

from broker_sim.coordinator.outcome import Outcome


class Placed(Protocol):
    """A write that knows where the log has put it."""

    last_offset: int


W = TypeVar("W", bound=Placed)


def committed(writes: dict[int, W], high_watermark: int, out: Outcome) -> Iterator[W]:
    """The writes below ``high_watermark``, in their order. Each is removed from ``writes``, and its timer cancelled, when it is
    yielded: later ones are still pending then."""
    for ticket, write in list(writes.items()):
        if 0 <= write.last_offset < high_watermark:
            del writes[ticket]
            out.timers.append((("append", ticket), None))
            yield write
