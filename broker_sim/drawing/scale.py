"""Time on paper: the same length for the same time, but for long stretches in which nothing happened, which are cut short."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from broker_sim.common.text import clock

__all__ = ["AxisSegment", "Scale"]

STEPS_MS = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000),
    *(60_000, 120_000, 300_000, 600_000, 900_000, 1_800_000, 3_600_000, 7_200_000, 21_600_000, 43_200_000, 86_400_000),
)
MOST_PAD_MS = 1000
"""Something that happened is shown with so much of the time around it."""
IDLE_SHARE = 0.8
"""Idle time gets at most so much paper as what happened, if it has to be cut."""


@dataclass(slots=True)
class AxisSegment:
    """``cut``: nothing happened in it, and it is drawn shorter than it lasted."""

    from_ms: int
    to_ms: int
    start: float
    end: float
    cut: bool = False


class Scale:
    """Maps ms between ``from_ms`` and ``to_ms`` to 0 .. ``width``. ``active``: the intervals in which something happened."""

    def __init__(self, from_ms: int, to_ms: int, width: float, active: Iterable[tuple[int, int]] = ()) -> None:
        self.from_ms, self.to_ms, self.width = from_ms, max(to_ms, from_ms + 1), width
        pieces = self._pieces(active)
        longest = _longest_gap(pieces)
        weights = [min(end - start, longest) if idle else end - start for start, end, idle in pieces]
        unit = width / (sum(weights) or 1)
        self.px_per_ms = unit
        self.segments: list[AxisSegment] = []
        at = 0.0
        for (start, end, idle), weight in zip(pieces, weights, strict=True):
            self.segments.append(AxisSegment(start, end, at, at + weight * unit, idle and end - start > weight))
            at += weight * unit
        self._starts = [segment.from_ms for segment in self.segments]

    def _pieces(self, active: Iterable[tuple[int, int]]) -> list[tuple[int, int, bool]]:
        """(from, to, idle) without holes."""
        total = self.to_ms - self.from_ms
        pad = min(max(total // 60, 50), MOST_PAD_MS)
        merged: list[list[int]] = []
        for start, end in sorted((max(a - pad, self.from_ms), min(b + pad, self.to_ms)) for a, b in active):
            if end <= start:
                continue
            if merged and start <= merged[-1][1] + 2 * pad:
                merged[-1][1] = max(merged[-1][1], end)
            else:
                merged.append([start, end])
        pieces: list[tuple[int, int, bool]] = []
        at = self.from_ms
        for start, end in merged:
            if start > at:
                pieces.append((at, start, True))
            pieces.append((max(start, at), end, False))
            at = end
        if at < self.to_ms:
            pieces.append((at, self.to_ms, bool(merged)))
        return pieces

    def x(self, ts_ms: float) -> float:
        """The x coordinate of a time (ms since 1970); times outside of the scale are at its edges."""
        if ts_ms <= self.from_ms:
            return 0.0
        if ts_ms >= self.to_ms:
            return self.width
        segment = self.segments[max(bisect_right(self._starts, ts_ms) - 1, 0)]
        share = (ts_ms - segment.from_ms) / max(segment.to_ms - segment.from_ms, 1)
        return segment.start + min(share, 1.0) * (segment.end - segment.start)

    def ticks(self, apart: float, room: float) -> list[tuple[float, str]]:
        """Round times as (x, label), at least ``apart`` from each other and ``room`` from the end of the axis. Between two cuts
        there is at least one, if there is room."""
        step = next((step for step in STEPS_MS if step * self.px_per_ms >= apart), STEPS_MS[-1])
        most = int(self.width / max(apart, 1)) + 2
        labels: list[tuple[float, str]] = []
        for start, end in self._uncut():
            before = len(labels)
            for unit in reversed([length for length in STEPS_MS if length <= step]):
                first = -(-start // unit) * unit
                for ts_ms in range(first, end + 1, unit)[:most]:
                    at = self.x(ts_ms)
                    if (not labels or at - labels[-1][0] >= apart) and at + room <= self.width:
                        labels.append((at, clock(ts_ms) if ts_ms % 1000 else clock(ts_ms)[:-4]))
                if len(labels) > before:
                    break
        return labels or [(0.0, clock(self.from_ms))]

    def _uncut(self) -> list[tuple[int, int]]:
        """The intervals between the cuts."""
        spans: list[tuple[int, int]] = []
        start = self.from_ms
        for segment in self.segments:
            if segment.cut:
                spans.append((start, segment.from_ms))
                start = segment.to_ms
        return [*spans, (start, self.to_ms)]


def _longest_gap(pieces: list[tuple[int, int, bool]]) -> float:
    """The length that a gap may have at most, so that all gaps together don't outweigh what happened."""
    busy = sum(end - start for start, end, idle in pieces if not idle)
    gaps = sorted(end - start for start, end, idle in pieces if idle)
    allowed = busy * IDLE_SHARE
    if not gaps or not busy or sum(gaps) <= allowed:
        return float(gaps[-1]) if gaps else 0.0
    for position, gap in enumerate(gaps):
        left = len(gaps) - position
        if gap * left >= allowed:
            return allowed / left
        allowed -= gap
    return float(gaps[-1])
