"""The rebalances of the groups on one time axis, a picture a group: generations, their windows, stuck partitions, offsets that fell.

A picture a group, not one for all: the page shows and hides groups, of which a cluster has hundreds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from broker_sim.common.text import clock
from broker_sim.drawing.colours import HUES
from broker_sim.explain.phrases import count
from broker_sim.pipeline.report.sheet import LEAST_PX, NARROW, Chart

__all__ = ["Bar", "GroupLane", "axis", "legend", "row"]

Row = Mapping[str, Any]
Spans = Sequence[tuple[int, int]]

EDGE = 4
"""Px at both ends of a row, so that a mark at the first moment is whole."""
AXIS, ROW, BAR = 18, 32, 20
"""Heights: of the times, of a row, of a bar in it."""
MANY, CROWD_PX = 80, 8.0
"""Number of bars in a row above which those that share so many pixels are drawn as one."""
LEGEND = (
    ("prepare", "preparing: members are awaited"),
    ("tick", "a generation was stored: when its rebalance began is not in the log"),
    ("complete", "completing: the assignment is awaited"),
    ("g0", "Stable, a colour for each generation"),
    ("fell", "a committed offset decreased"),
    ("changed", "its protocol changed, or a topic has more partitions"),
    ("hatched", "its offsets partition was stuck"),
    ("flag", "a finding: click it"),
)


@dataclass(slots=True)
class GroupLane:
    """One group: its rebalances in order, when its partition was stuck, when offsets of it decreased (ms, words), and what was found of
    it (ms, the finding's id in the page, severity, words)."""

    group: str
    bars: list[Bar] = field(default_factory=list)
    stuck: list[tuple[int, int, str]] = field(default_factory=list)
    falls: list[tuple[int, str]] = field(default_factory=list)
    flags: list[tuple[int, str, str, str]] = field(default_factory=list)
    changes: list[tuple[int, str]] = field(default_factory=list)
    """Changes of its protocol, and topics that have more partitions: ms, words."""


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


def axis(time: tuple[int, int, Spans], width: int) -> str:
    """The times that stand above all rows."""
    chart = Chart(width, "Time", left=EDGE, right=EDGE, span=time)
    with chart.plot():
        chart.axis(AXIS, AXIS, apart=_apart(width))
    return chart.drawn(AXIS)


def row(lane: GroupLane, time: tuple[int, int, Spans], width: int, *, zoomable: bool = True) -> str:
    """One group's rebalances; ``zoomable``: rebalances too near each other to be distinguished are also drawn singly, for readers who
    zoom in."""
    chart = Chart(width, f"Rebalances of {lane.group}", left=EDGE, right=EDGE, span=time)
    with chart.plot():
        chart.axis(0, ROW, apart=_apart(width), labels=False)
        _lane(chart, lane, ROW - BAR - 5, zoomable)
    chart.cuts(0, ROW)
    return chart.drawn(ROW, f"{count(len(lane.bars), 'rebalance')}.")


def legend(lanes: Sequence[GroupLane], width: int) -> str:
    """Legend of the colours of all rows."""
    chart = Chart(width, "Legend")
    return chart.drawn(_legend(chart, 14, lanes))


def _apart(width: int) -> float:
    return 70 if width <= NARROW else 96


def _lane(chart: Chart, lane: GroupLane, top: float, zoomable: bool) -> None:
    chart.canvas.rect(chart.left, top + BAR / 2 - 1, chart.width - chart.left - chart.right, 2, "track veil", radius=1)
    for from_ms, to_ms, words in lane.stuck:
        chart.band(from_ms, to_ms, top - 4, BAR + 8, "bad faint", words)
    for together in _crowds(chart, lane.bars):
        if len(together) == 1:
            _bar(chart, together[0], top)
            continue
        _crowd(chart, together, top, zoomable)
        if not zoomable:
            continue
        chart.canvas.parts.append('<g class="each">')  # shown in place of the crowd where a reader zooms in
        for bar in together:
            _bar(chart, bar, top)
        chart.canvas.end_group()
    for from_ms, to_ms, words in lane.stuck:
        x = chart.x(from_ms)
        chart.stretch(x, chart.x(to_ms), top + BAR + 1, 3, "bad", words, least=2)
    last = -10.0
    for at_ms, words in lane.falls:
        x = chart.x(at_ms)
        if x - last >= 0.2:
            last = x
            with chart.mark(x):
                chart.canvas.path(f"M{x - 4.5:.1f} {top - 6:.1f}h9l-4.5 8Z", "bad", words)
    for at_ms, words in lane.changes:
        x = chart.x(at_ms)
        with chart.mark(x):
            chart.canvas.path(f"M{x:.1f} {top - 6:.1f}l5 5l-5 5l-5 -5Z", "changed", words)
    for at_ms, key, severity, words in lane.flags:
        x = chart.x(at_ms)
        with chart.mark(x, f"{words}\n(click: the finding)"):
            chart.canvas.parts.append(f'<g class="flag" data-finding="{key}">')
            chart.canvas.rect(x - 3, 0, 14, ROW, "hit")
            chart.canvas.path(f"M{x:.1f} {ROW}V1h9l-2.5 3.5l2.5 3.5h-9", f"flag {severity}")
            chart.canvas.end_group()


def _crowds(chart: Chart, bars: Sequence[Bar]) -> list[list[Bar]]:
    """The bars in order; of very many those that are narrow and near each other together."""
    crowds: list[list[Bar]] = []
    began = 0.0
    for bar in bars:
        x, end = chart.x(bar.began_ms), chart.x(bar.until_ms)
        crowded = len(bars) > MANY and end - x < CROWD_PX
        if crowds and crowded and end - began < CROWD_PX:
            crowds[-1].append(bar)
        else:
            crowds.append([bar])
            began = x if crowded else -CROWD_PX  # a wide one is not merged
    return crowds


def _crowd(chart: Chart, bars: Sequence[Bar], top: float, zoomable: bool) -> None:
    x, end = chart.x(bars[0].began_ms), chart.x(bars[-1].until_ms)
    failed = sum(not bar.stable for bar in bars)
    words = f"{len(bars)} rebalances from {clock(bars[0].began_ms)} to {clock(bars[-1].until_ms)}"
    words += f", {failed} of them not Stable at their end" if failed else ""
    style = "prepare" if failed * 2 >= len(bars) else f"g{(bars[-1].generation or 0) % len(HUES)} steady"
    chart.canvas.rect(x, top, max(end - x, LEAST_PX), BAR, f"{style} crowd" if zoomable else style, words)


def _bar(chart: Chart, bar: Bar, top: float) -> None:
    canvas = chart.canvas
    x, closed, ended, end = (chart.x(at) for at in (bar.began_ms, bar.closed_ms, bar.ended_ms, bar.until_ms))
    hue = (bar.generation or 0) % len(HUES)
    canvas.group(bar.words, f'class="bar" data-from="{bar.began_ms}" data-to="{max(bar.until_ms, bar.ended_ms)}"')
    if bar.stable and end > ended:
        chart.stretch(ended, end, top, BAR, f"g{hue} steady", least=1)
    if closed > x:
        chart.stretch(x, closed, top, BAR, "prepare")
    if ended > closed:
        chart.stretch(closed, ended, top, BAR, "complete")
    if x == ended:
        chart.stretch(x, x, top, BAR, "prepare" if bar.known else "tick")
    if bar.generation is not None:
        label = str(bar.generation)
        for start, stop in ((ended, end if bar.stable else ended), (closed, ended), (x, closed)):
            if stop - start >= 8 + 7 * len(label):
                middle = min((start + stop) / 2, start + 6 + 4 * len(label))
                with chart.mark(start):
                    canvas.text(middle, top + 14.5, label, "on mid")
                break
    canvas.end_group()


def _legend(chart: Chart, y: float, lanes: Sequence[GroupLane]) -> float:
    canvas, x = chart.canvas, 0.0
    bars = [bar for lane in lanes for bar in lane.bars]
    shown = {"prepare"} if any(bar.known for bar in bars) else set()
    shown |= {"complete"} if any(bar.ended_ms > bar.closed_ms for bar in bars) else set()
    shown |= {"g0"} if any(bar.stable for bar in bars) else set()
    shown |= {"tick"} if any(not bar.known for bar in bars) else set()
    shown |= {"fell"} if any(lane.falls for lane in lanes) else set()
    shown |= {"changed"} if any(lane.changes for lane in lanes) else set()
    shown |= {"hatched"} if any(lane.stuck for lane in lanes) else set()
    shown |= {"flag"} if any(lane.flags for lane in lanes) else set()
    for kind, words in LEGEND:
        if kind not in shown:
            continue
        if x and x + 24 + 5.7 * len(words) > chart.width:
            x, y = 0.0, y + 19
        if kind == "fell":
            canvas.path(f"M{x + 3:.1f} {y - 8:.1f}h9l-4.5 8Z", "bad")
        elif kind == "changed":
            canvas.path(f"M{x + 7:.1f} {y - 9:.1f}l5 5l-5 5l-5 -5Z", "changed")
        elif kind == "flag":
            canvas.path(f"M{x + 3:.1f} {y + 3:.1f}v-12h9l-2.5 3.5l2.5 3.5h-9", "flag warn")
        elif kind == "hatched":
            canvas.rect(x, y - 9, 15, 11, "bad faint", radius=2)
            canvas.rect(x, y + 1, 15, 2.5, "bad")
        else:
            canvas.rect(x, y - 9, 15, 11, f"{kind} steady" if kind == "g0" else kind, radius=3)
        canvas.text(x + 21, y, words, "muted small")
        x += 42 + 5.6 * len(words)
    return y + 12
