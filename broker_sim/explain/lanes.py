"""One lane of the picture: a member's time in the group, its waiting requests as bars, commits as ticks, what went wrong as marks."""

from __future__ import annotations

from broker_sim.drawing.canvas import Canvas
from broker_sim.drawing.scale import Scale
from broker_sim.explain.phrases import count
from broker_sim.explain.timeline_layout import Lane, Mark

__all__ = ["draw_lane"]

BUCKET = 2.0
"""Ticks nearer to each other than this, in px, are one."""

FOLD_STEP = 2


def draw_lane(canvas: Canvas, lane: Lane, y: float, height: float, left: float, scale: Scale) -> None:
    """Draw ``lane`` between ``y`` and ``y + height``, its time from ``left`` on."""
    _name(canvas, lane, y, height, left)
    if lane.folded:
        _folded(canvas, lane, y, height, left, scale)
        return
    middle = y + height / 2
    for start, end in lane.present:
        x = left + scale.x(start)
        canvas.rect(x, middle - 1.5, max(left + scale.x(end) - x, 2), 3, "track", radius=1.5)
    _commits(canvas, lane, middle, left, scale)
    drawn: set[tuple[str, int, int]] = set()
    for bar in lane.bars:
        _bar(canvas, bar, middle, left, scale, drawn)
    for mark in lane.marks:
        _mark(canvas, mark, middle, left, scale, drawn)


def _name(canvas: Canvas, lane: Lane, y: float, height: float, left: float) -> None:
    title = ", ".join([lane.detail, *lane.members[:5], *(["..."] if len(lane.members) > 5 else [])]).lstrip(", ")
    x = 24.0
    if lane.leads:
        canvas.path(_star(x + 5, y + height / 2), "warn", "the leader")
        x += 16
    canvas.text(
        x, y + height / 2 + 4.5, lane.name, "muted name" if lane.folded else "ink name", title, room=left - x - 12
    )


def _star(x: float, y: float) -> str:
    points = (
        (0, -6),
        (1.6, -2),
        (5.8, -1.9),
        (2.5, 0.8),
        (3.6, 4.9),
        (0, 2.5),
        (-3.6, 4.9),
        (-2.5, 0.8),
        (-5.8, -1.9),
        (-1.6, -2),
    )
    return "M" + "L".join(f"{x + dx:.1f} {y + dy:.1f}" for dx, dy in points) + "Z"


def _commits(canvas: Canvas, lane: Lane, middle: float, left: float, scale: Scale) -> None:
    columns = sorted({round(scale.x(ts_ms) / BUCKET) * BUCKET for ts_ms in lane.commits})
    if columns:
        d = "".join(f"M{left + x:.1f} {middle + 4.5:.1f}v6.5" for x in columns)
        canvas.path(d, "commit", f"{count(len(lane.commits), 'commit')} of {lane.name} answered")


def _bar(canvas: Canvas, bar: Mark, middle: float, left: float, scale: Scale, drawn: set[tuple[str, int, int]]) -> None:
    x = left + scale.x(bar.ts_ms)
    end = left + scale.x(bar.ts_ms if bar.to_ms is None else bar.to_ms)
    failed = bar.call is not None and bar.call.failed and bar.call.error != "MEMBER_ID_REQUIRED"
    key = (bar.kind + "!" * failed, round(x / BUCKET), round(end / BUCKET))
    if key in drawn:
        return
    drawn.add(key)
    width = max(end - x, 2.5)
    thin = bar.kind in ("owned", "revoking", "awaiting")  # other bars are drawn over them
    canvas.rect(
        x, middle - (3.5 if thin else 5.5), width, 7 if thin else 11, bar.kind, bar.text, radius=2 if thin else 3
    )
    if failed:
        canvas.circle(x + width, middle, 4, "bad", bar.text)
    elif bar.call is not None and bar.call.answered_ms is None:
        canvas.path(f"M{x + width:.1f} {middle - 4:.1f}l5 4l-5 4Z", bar.kind, bar.text)


def _mark(
    canvas: Canvas, mark: Mark, middle: float, left: float, scale: Scale, drawn: set[tuple[str, int, int]]
) -> None:
    x = left + scale.x(mark.ts_ms)
    end = x if mark.to_ms is None else left + scale.x(mark.to_ms)
    key = (mark.kind, round(x / BUCKET), round(end / BUCKET))
    if key in drawn:
        return
    drawn.add(key)
    if mark.kind in ("failed", "slow", "unanswered", "trouble") and end - x > 3:
        style = "slow" if mark.kind == "slow" else "bad"
        canvas.rect(x, middle + 7, end - x, 2.5, style, mark.text, radius=1)
    if mark.kind in ("failed", "trouble"):
        canvas.circle(max(x, end), middle + 8.2, 3.6, "bad", mark.text)
    elif mark.kind == "heartbeat":
        canvas.triangle(x, middle - 9, 3.6, "warn", mark.text)
    elif mark.kind == "removed":
        canvas.cross(x, middle, 5, "badline", mark.text)
    elif mark.kind == "left":
        canvas.door(x, middle, "warnline", mark.text)
    elif mark.kind == "expired":
        canvas.cross(x, middle, 4, "badline", mark.text)
    elif mark.kind == "archived":
        canvas.diamond(x, middle, 5, "bad", mark.text)
    elif mark.kind == "unlocked":
        canvas.door(x, middle, "warnline", mark.text)
    elif mark.kind == "replaced":
        canvas.diamond(x, middle, 5, "note", mark.text)
    elif mark.kind == "client_error":
        canvas.bubble(x, middle - 10, "faulty", mark.text)
    elif mark.kind == "fault":
        canvas.bolt(x, middle - 8, "faulty", mark.text)


# --- many members in one lane ---------------------------------------------------------------------------------------------


def _folded(canvas: Canvas, lane: Lane, y: float, height: float, left: float, scale: Scale) -> None:
    """Draw the numbers of a lane's clients that were members, waited in JoinGroup and in SyncGroup: three areas."""
    columns = int(scale.width / FOLD_STEP) + 1
    most = max(lane.folded, 1)
    for style, intervals, what in (
        ("track veil", lane.present, "members"),
        (
            "join",
            [(bar.ts_ms, bar.to_ms or bar.ts_ms) for bar in lane.bars if bar.kind == "join"],
            "waiting JoinGroups",
        ),
        (
            "sync",
            [(bar.ts_ms, bar.to_ms or bar.ts_ms) for bar in lane.bars if bar.kind == "sync"],
            "waiting SyncGroups",
        ),
    ):
        counts = _counts(intervals, columns, scale)
        if not any(counts):
            continue
        room = height - 10
        d = f"M{left:.0f} {y + height - 4:.1f}"
        previous = 0
        for column, number in enumerate(counts):
            if number != previous:
                x, low = left + column * FOLD_STEP, y + height - 4
                d += f"H{x:.0f}V{low - room * min(number / most, 1):.1f}"
                previous = number
        d += f"H{left + scale.width:.0f}V{y + height - 4:.1f}Z"
        canvas.path(d, style, f"{lane.folded} lanes folded: up to {max(counts)} {what} at once")
    bad = [mark for mark in lane.marks if mark.kind in ("failed", "trouble", "removed")]
    drawn: set[tuple[str, int, int]] = set()
    for mark in bad:
        _mark(canvas, mark, y + 10, left, scale, drawn)


def _counts(intervals: list[tuple[int, int]], columns: int, scale: Scale) -> list[int]:
    steps = [0] * (columns + 1)
    for start, end in intervals:
        first = int(scale.x(start) / FOLD_STEP)
        steps[first] += 1
        steps[min(max(int(scale.x(end) / FOLD_STEP), first + 1), columns)] -= 1
    counts, now = [], 0
    for step in steps[:columns]:
        now += step
        counts.append(now)
    return counts
