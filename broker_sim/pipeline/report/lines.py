"""Curves over time, one small picture each: the lag of a group, the committed offsets of a partition with what moved backwards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from broker_sim.common.text import clock
from broker_sim.explain.phrases import times
from broker_sim.pipeline.report.sheet import Chart, number, short

__all__ = ["BOTTOM", "LEFT", "SMALL", "TOP", "committed", "head", "lag", "offset_scale"]

Row = Mapping[str, Any]
Spans = Sequence[tuple[int, int]]
Time = tuple[int, int, Spans]

SMALL = 380
"""Width of one of many, in px; they stand side by side where there is room."""
LEFT, TOP, BOTTOM, RATE = 46, 40, 148, 26


def lag(group: str, points: Sequence[Row], time: Time, stuck: Spans, rebalancing: Spans) -> str:
    """A group's lag by window, its commits as columns beneath; ``points``: window_ms, window_start_ms, lag, commits, in order.

    Where no lag is known, the commits alone are drawn.
    """
    chart = Chart(SMALL, f"Lag of {group}", left=LEFT, right=6, span=time, every=True)
    known = [point for point in points if point["lag"] is not None]
    most = max((int(point["lag"]) for point in known), default=0)
    now = _now(points, known, most)
    head(chart, group, now)
    if known:
        offset_scale(chart, 0, max(most, 1))
    if any(point["commits"] for point in points):
        chart.canvas.text(LEFT - 5, BOTTOM + RATE - 2, "commits", "muted tight end")
    with chart.plot():
        chart.axis(TOP, BOTTOM + RATE, apart=84)
        _background(chart, stuck, rebalancing, BOTTOM + RATE)
        if known:
            _lag_curve(chart, points, known, most)
        _rates(chart, points)
    chart.cuts(TOP - 4, BOTTOM + RATE)
    return chart.drawn(BOTTOM + RATE + 6, now)


def _lag_curve(chart: Chart, points: Sequence[Row], known: Sequence[Row], most: int) -> None:
    """The curve, and a point at its highest; the page lowers it by ``data-most`` where the reader wants one scale for all groups."""
    canvas, height = chart.canvas, BOTTOM - TOP
    canvas.parts.append(f'<g class="rise" data-most="{most}" data-base="{BOTTOM}">')
    for piece in _pieces(points):
        curve = [(_middle(chart, p), BOTTOM - height * int(p["lag"]) / max(most, 1)) for p in piece]
        line = "L".join(f"{x:.1f} {y:.1f}" for x, y in curve)
        canvas.path(f"M{curve[0][0]:.1f} {BOTTOM}L{line}L{curve[-1][0]:.1f} {BOTTOM}Z", "area")
        canvas.path(f"M{line}", "curve")
    peak = max(known, key=lambda point: int(point["lag"]))
    if most:
        x = _middle(chart, peak)
        with chart.mark(x, f"{clock(int(peak['window_start_ms']))}  lag {number(most)}, the most"):
            canvas.circle(x, TOP, 3.2, "note")
    canvas.end_group()
    _deletions(chart, points, BOTTOM)


def committed(key: str, points: Sequence[Row], falls: Sequence[Row], time: Time, stuck: Spans) -> str:
    """The committed offset of one partition of one group, its log's end where known, and each fall of it."""
    chart = Chart(SMALL, f"Committed offset of {key}", left=LEFT, right=8, span=time, every=True)
    note = f"decreased {times(len(falls))}" if falls else ""
    head(chart, key, note, bad=bool(falls))
    steps = _steps(points, falls)
    values = [value for _, value in steps if value is not None] + [
        int(p["end"]) for p in points if p["end"] is not None
    ]
    values += [int(fall[name]) for fall in falls for name in ("from_offset", "to_offset")]
    low, high = min(values, default=0), max(values, default=1)
    low = 0 if low < (high - low) / 3 else low
    high = max(high, low + 1)

    def y(value: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * (value - low) / (high - low)

    ends = [(int(p["window_start_ms"]) + int(p["window_ms"]), int(p["end"])) for p in points if p["end"]]
    offset_scale(chart, low, high)
    with chart.plot():
        chart.axis(TOP, BOTTOM, apart=84)
        _background(chart, stuck, (), BOTTOM)
        _stairs(chart, ends, y, "ends")
        _stairs(chart, steps, y, "curve")
        _deletions(chart, [{**p, "deleted": p["committed"] is None} for p in points], BOTTOM)
        for fall in falls:
            _fall(chart, fall, y)
    chart.cuts(TOP - 4, BOTTOM)
    return chart.drawn(BOTTOM + 8, note)


# ------------------------------------------------------------------------------------------------ parts


def head(chart: Chart, name: str, now: str, *, bad: bool = False) -> None:
    """Draw the picture's name, and at the right its current value ``now``."""
    room = chart.width - 6.2 * len(now) - 16
    chart.canvas.text(0, 14, name, "ink name", name, room=room)
    chart.canvas.text(chart.width - 2, 14, now, "bad end small" if bad else "muted end small")


def _middle(chart: Chart, point: Row) -> float:
    return chart.x(int(point["window_start_ms"]) + int(point["window_ms"]) / 2)


def offset_scale(chart: Chart, low: float, high: float) -> None:
    """The lowest and the highest value, each with a line."""
    for value, y in ((low, BOTTOM), (high, TOP)):
        chart.canvas.line(LEFT, y, chart.width - chart.right, y, "grid")
        style = "muted small end top" if value == high else "muted small end"
        chart.canvas.text(LEFT - 5, y + 4, short(value), style, number(value))


def _background(chart: Chart, stuck: Spans, rebalancing: Spans, bottom: float) -> None:
    """Draw the periods in which the group rebalanced or its partition was stuck; spans that share a pixel are one."""
    for spans, style, words in ((rebalancing, "prepare veil", "rebalancing"), (stuck, "bad faint", "stuck")):
        drawn = -1.0
        for from_ms, to_ms in spans:
            x, end = chart.x(from_ms), chart.x(to_ms)
            if end - drawn < 1:
                continue
            drawn = max(end, x + 1)
            title = f"{words} from {clock(from_ms)} to {clock(to_ms)}"
            chart.canvas.rect(x, TOP, max(end - x, 1), bottom - TOP, style, title)


def _rates(chart: Chart, points: Sequence[Row]) -> None:
    """Commits of each window as a column, all in one path."""
    most = max((int(point["commits"]) for point in points), default=0)
    if not most:
        return
    base = BOTTOM + RATE
    d = []
    for point in points:
        if point["commits"]:
            x = chart.x(int(point["window_start_ms"]))
            width = max(chart.x(int(point["window_start_ms"]) + int(point["window_ms"])) - x - 0.4, 0.8)
            height = max((RATE - 5) * int(point["commits"]) / most, 1.0)
            d.append(f"M{x:.1f} {base}v-{height:.1f}h{width:.1f}v{height:.1f}Z")
    chart.canvas.path("".join(d), "rate", f"commits: at most {number(most)} in one window")


def _now(points: Sequence[Row], known: Sequence[Row], most: int) -> str:
    """The text beside a lag's name: the last lag, none if the committed offset is deleted."""
    if not known:
        return "lag unknown: no log ends"
    last = points[-1]
    if last["lag"] is None and last["deleted"]:
        return f"offsets deleted, at most {number(most)} before"
    deleted = f", {last['deleted']} deleted" if last["deleted"] else ""
    return f"lag {number(known[-1]['lag'])}{deleted}, at most {number(most)}"


def _pieces(points: Iterable[Row]) -> list[list[Row]]:
    """The points with a lag, divided where it is not known in between: an offset that is deleted is no offset that caught up."""
    pieces: list[list[Row]] = [[]]
    for point in points:
        if point["lag"] is not None:
            pieces[-1].append(point)
        elif pieces[-1]:
            pieces.append([])
    return [piece for piece in pieces if piece]


def _deletions(chart: Chart, points: Iterable[Row], bottom: float) -> None:
    """A mark where committed offsets were deleted."""
    before = 0
    for point in points:
        deleted = int(point["deleted"] or 0)
        if deleted > before:
            x = _middle(chart, point)
            with chart.mark(x, f"{clock(int(point['window_start_ms']))}  committed offsets deleted or expired"):
                chart.canvas.path(f"M{x - 3.5:.1f} {bottom - 8:.1f}l7 7m0 -7l-7 7", "fall")
        before = deleted


def _steps(points: Iterable[Row], falls: Iterable[Row]) -> list[tuple[int, int | None]]:
    """(time in ms, committed offset or None if it was deleted) in the order of time: ends of windows, and both sides of each fall."""
    steps: list[tuple[int, int, int | None]] = [
        (int(p["window_start_ms"]) + int(p["window_ms"]), 0, None if p["committed"] is None else int(p["committed"]))
        for p in points
    ]
    for fall in falls:
        steps += [
            (int(fall["at_ms"]) - 1, 1, int(fall["from_offset"])),
            (int(fall["at_ms"]), 2, int(fall["to_offset"])),
        ]
    return [(ts_ms, value) for ts_ms, _, value in sorted(steps, key=lambda step: step[:2])]


def _stairs(chart: Chart, steps: Sequence[tuple[int, int | None]], y: Any, style: str) -> None:
    """A stair from value to value, which ends where a value is missing."""
    d, up = "", False
    last = (-1.0, -1.0)
    for ts_ms, value in steps:
        x = round(chart.x(ts_ms), 1)
        if value is None:
            d, up = d + (f"H{x}" if up else ""), False
            continue
        place = (x, round(y(value), 1))
        if not up:
            d, up = f"{d}M{place[0]} {place[1]}", True
        elif place != last:
            d += f"H{place[0]}V{place[1]}"
        last = place
    if d:
        chart.canvas.path(d + (f"H{chart.width - chart.right}" if up else ""), style)


def _fall(chart: Chart, fall: Row, y: Any) -> None:
    x, high, low = chart.x(int(fall["at_ms"])), y(int(fall["from_offset"])), y(int(fall["to_offset"]))
    how = f" ({fall['how']})" if fall["how"] else ""
    words = (
        f"{clock(int(fall['at_ms']))}  from {number(fall['from_offset'])} back to {number(fall['to_offset'])}, "
        f"by {number(fall['by'])}{how}"
    )
    with chart.mark(x, words):
        chart.canvas.path(f"M{x:.1f} {high:.1f}V{low:.1f}M{x - 3.5:.1f} {low - 5:.1f}L{x:.1f} {low:.1f}l3.5 -5", "fall")
        chart.canvas.circle(x, low, 3, "bad")
        anchor = "bad small end" if x > chart.width - 70 else "bad small"
        beside = x + (-8 if x > chart.width - 70 else 8)
        chart.canvas.text(beside, min(low + 4, BOTTOM - 2), f"−{short(fall['by'])}", anchor)
