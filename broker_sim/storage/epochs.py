"""Leader epochs of a log and the offsets at which they began: what OffsetForLeaderEpoch is answered from.

Source: LeaderEpochFileCache, KIP-101, KIP-279.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable

UNDEFINED = -1


class EpochCache:
    """(epoch, start offset) entries, both strictly ascending; `changed` is called after every change."""

    def __init__(self, entries: Iterable[tuple[int, int]] = (), changed: Callable[[], None] = lambda: None) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self._changed = changed
        self.latest = UNDEFINED
        for epoch, start in entries:
            self._put(epoch, start)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """All entries (leader epoch, its start offset), in ascending order."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> None:
        """`epoch` begins at `start_offset`; entries that contradict it give way. Known or negative: no change."""
        if epoch < 0 or (epoch == self.latest and start_offset >= self._starts[-1]):
            return
        before = self.entries
        self._put(epoch, start_offset)
        try:
            self._changed()
        except OSError:
            self._replace(before)
            raise

    def _put(self, epoch: int, start: int) -> None:
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= start):
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start)
        self.latest = epoch

    def _replace(self, entries: list[tuple[int, int]]) -> None:
        self._epochs = [epoch for epoch, _ in entries]
        self._starts = [start for _, start in entries]
        self.latest = self._epochs[-1] if entries else UNDEFINED

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(largest epoch <= the one asked for, offset at which it ends); (-1, -1) where that is not known.

        The latest epoch ends at the log's end. An epoch older than all known answers itself and the first start.
        """
        if epoch == UNDEFINED or not self._epochs or epoch > self.latest:
            return UNDEFINED, UNDEFINED
        if epoch == self.latest:
            return epoch, log_end_offset
        above = bisect_right(self._epochs, epoch)
        if above == 0:
            return epoch, self._starts[0]
        return self._epochs[above - 1], self._starts[above]

    def epoch_of(self, offset: int) -> int:
        """Epoch in which `offset` was written, -1 where that is not known."""
        at = bisect_right(self._starts, offset)
        return self._epochs[at - 1] if at else UNDEFINED

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget epochs that began at `end_offset` or later."""
        keep = bisect_left(self._starts, end_offset)
        if keep < len(self._starts):
            self._replace(self.entries[:keep])
            self._changed()

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop epochs that ended before `start_offset`; the epoch of that offset begins there now."""
        passed = bisect_right(self._starts, start_offset)
        if passed == 0 or (passed == 1 and self._starts[0] == start_offset):
            return
        self._replace([(self._epochs[passed - 1], start_offset), *self.entries[passed:]])
        self._changed()
