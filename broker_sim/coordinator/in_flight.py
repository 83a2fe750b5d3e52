"""What is appended and not committed: the writes of a shard, whichever coordinator's, until the log's high watermark has passed them.

A write is kept by its ticket, in the order of its append, with the offset of its last record (-1 before the log has answered). One that
is not committed at once has a timer, ``("append", ticket)``. What becomes of a write that is late, or refused, and when what it holds
counts, differs between coordinators and is theirs.
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
    """The writes below ``high_watermark``, in their order. Each is taken out of ``writes``, and its timer cancelled, as it comes:
    what is done about one sees those behind it still on their way."""
    for ticket, write in list(writes.items()):
        if 0 <= write.last_offset < high_watermark:
            del writes[ticket]
            out.timers.append((("append", ticket), None))
            yield write
