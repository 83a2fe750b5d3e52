"""The rebalances of all groups on one time axis: generations, their windows, stuck partitions beneath them, offsets that fell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from broker_sim.common.text import clock
from broker_sim.drawing.colours import HUES
from broker_sim.explain.phrases import count
from broker_sim.pipeline.report.sheet import NAME, Chart

__all__ = ["Lane", "timeline"]

Row = Mapping[str, Any]
Spans = Sequence[tuple[int, int]]

LEFT = 170
TOP = 34
BAR = 20
LEAST_PX = 1.6
MANY, CROWD_PX = 80, 8.0
"""Of more bars than that in a row, those that share so little room are drawn as one."""
LEGEND = (
    ("prepare", "preparing: JoinGroups are awaited"),
    ("tick", "a generation was stored: when its rebalance began is not in the log"),
    ("complete", "completing: the assignment is awaited"),
    ("g0", "Stable, a colour for each generation"),
    ("fell", "a committed offset went back"),
    ("hatched", "its offsets partition was stuck"),
)


@dataclass(slots=True)
class Lane:
    """One group: its rebalances in order, when its partition was stuck, when offsets of it went back (ms, words)."""

    group: str
    bars: list[Bar] = field(default_factory=list)
    stuck: list[tuple[int, int, str]] = field(default_factory=list)
    falls: list[tuple[int, str]] = field(default_factory=list)


@dataclass(slots=True)
class Bar:
    """A rebalance: began, the window closed, it ended; then Stable until ``until_ms`` if ``stable``. All ms since 1970."""

    generation: int | None
    began_ms: int
    closed_ms: int
    ended_ms: int
    until_ms: int
    stable: bool
    words: str
    known: bool = True
    """Whether ``began_ms`` is when its window opened: a log alone shows no more than when it closed."""


def timeline(lanes: Sequence[Lane], time: tuple[int, int, Spans], width: int) -> str:
    """A row for each lane."""
    narrow = width < 2 * LEFT + 200
    row = 46 if narrow else 32
    chart = Chart(width, "Rebalances over time", left=0 if narrow else LEFT, right=4, span=time)
    bottom = TOP + row * len(lanes)
    chart.axis(TOP, bottom, apart=70 if narrow else 96, dated=not narrow)
    for position, lane in enumerate(lanes):
        top = TOP + row * position
        if position:
            chart.canvas.line(0, top, width, top, "grid")
        if narrow:
            chart.canvas.text(0, top + 15, lane.group, "ink name", lane.group, room=width - 10)
        else:
            chart.canvas.text(0, top + row / 2 + 4, lane.group, "ink name", lane.group, room=(LEFT - 12) * NAME)
        _lane(chart, lane, top + row - BAR - 5, narrow)
    chart.cuts(TOP - 4, bottom)
    height = _legend(chart, bottom + 24, lanes)
    rebalances = sum(len(lane.bars) for lane in lanes)
    return chart.drawn(height, f"{count(rebalances, 'rebalance')} of {count(len(lanes), 'group')}.")


def _lane(chart: Chart, lane: Lane, top: float, narrow: bool) -> None:
    chart.canvas.rect(chart.left, top + BAR / 2 - 1, chart.width - chart.left - chart.right, 2, "track veil", radius=1)
    for from_ms, to_ms, words in lane.stuck:
        chart.band(from_ms, to_ms, top - 4, BAR + 8, "bad faint", words)
    for together in _crowds(chart, lane.bars):
        if len(together) == 1:
            _bar(chart, together[0], top)
        else:
            _crowd(chart, together, top)
    for from_ms, to_ms, words in lane.stuck:
        x = chart.x(from_ms)
        chart.canvas.rect(x, top + BAR + 1, max(chart.x(to_ms) - x, 2), 3, "bad", words, radius=1.5)
    last = -10.0
    for at_ms, words in lane.falls:
        x = chart.x(at_ms)
        if x - last >= 3:
            last = x
            chart.canvas.path(f"M{x - 4.5:.1f} {top - 6:.1f}h9l-4.5 8Z", "bad", words)


def _crowds(chart: Chart, bars: Sequence[Bar]) -> list[list[Bar]]:
    """The bars in order; of very many those that are narrow and near each other together."""
    found: list[list[Bar]] = []
    began = 0.0
    for bar in bars:
        x, end = chart.x(bar.began_ms), chart.x(bar.until_ms)
        crowded = len(bars) > MANY and end - x < CROWD_PX
        if found and crowded and end - began < CROWD_PX:
            found[-1].append(bar)
        else:
            found.append([bar])
            began = x if crowded else -CROWD_PX  # nobody joins a wide one
    return found


def _crowd(chart: Chart, bars: Sequence[Bar], top: float) -> None:
    x, end = chart.x(bars[0].began_ms), chart.x(bars[-1].until_ms)
    failed = sum(not bar.stable for bar in bars)
    words = f"{len(bars)} rebalances from {clock(bars[0].began_ms)} to {clock(bars[-1].until_ms)}"
    words += f", {failed} of them not Stable at their end" if failed else ""
    style = "prepare" if failed * 2 >= len(bars) else f"g{(bars[-1].generation or 0) % len(HUES)} steady"
    chart.canvas.rect(x, top, max(end - x, LEAST_PX), BAR, style, words)


def _bar(chart: Chart, bar: Bar, top: float) -> None:
    canvas = chart.canvas
    x, closed, ended, end = (chart.x(at) for at in (bar.began_ms, bar.closed_ms, bar.ended_ms, bar.until_ms))
    hue = (bar.generation or 0) % len(HUES)
    canvas.group(bar.words)
    if bar.stable and end > ended:
        canvas.rect(ended, top, max(end - ended, 1), BAR, f"g{hue} steady", radius=4)
    if closed > x:
        canvas.rect(x, top, max(closed - x, LEAST_PX), BAR, "prepare", radius=3)
    if ended > closed:
        canvas.rect(closed, top, max(ended - closed, LEAST_PX), BAR, "complete", radius=3)
    if x == ended:
        canvas.rect(x, top, LEAST_PX, BAR, "prepare" if bar.known else "tick")
    if bar.generation is not None:
        label = str(bar.generation)
        for start, stop in ((ended, end if bar.stable else ended), (closed, ended), (x, closed)):
            if stop - start >= 8 + 7 * len(label):
                canvas.text(min((start + stop) / 2, start + 6 + 4 * len(label)), top + 14.5, label, "on mid")
                break
    canvas.end_group()


def _legend(chart: Chart, y: float, lanes: Sequence[Lane]) -> float:
    canvas, x = chart.canvas, 0.0
    bars = [bar for lane in lanes for bar in lane.bars]
    shown = {"prepare"} if any(bar.known for bar in bars) else set()
    shown |= {"complete"} if any(bar.ended_ms > bar.closed_ms for bar in bars) else set()
    shown |= {"g0"} if any(bar.stable for bar in bars) else set()
    shown |= {"tick"} if any(not bar.known for bar in bars) else set()
    shown |= {"fell"} if any(lane.falls for lane in lanes) else set()
    shown |= {"hatched"} if any(lane.stuck for lane in lanes) else set()
    for kind, words in LEGEND:
        if kind not in shown:
            continue
        if x and x + 24 + 5.7 * len(words) > chart.width:
            x, y = 0.0, y + 19
        if kind == "fell":
            canvas.path(f"M{x + 3:.1f} {y - 8:.1f}h9l-4.5 8Z", "bad")
        elif kind == "hatched":
            canvas.rect(x, y - 9, 15, 11, "bad faint", radius=2)
            canvas.rect(x, y + 1, 15, 2.5, "bad")
        else:
            canvas.rect(x, y - 9, 15, 11, f"{kind} steady" if kind == "g0" else kind, radius=3)
        canvas.text(x + 21, y, words, "muted small")
        x += 42 + 5.6 * len(words)
    return y + 12
