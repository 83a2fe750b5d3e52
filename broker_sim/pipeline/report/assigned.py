"""Assignments of partitions or tasks to a group's members over time, a picture for each group: who had what, and who delayed whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from broker_sim.common.text import clock, duration_text
from broker_sim.explain.epochs import holding_words
from broker_sim.explain.phrases import count
from broker_sim.pipeline.report.sheet import LEAST_PX, Chart

__all__ = ["assigned"]

Row = Mapping[str, Any]
Time = tuple[int, int, Sequence[tuple[int, int]]]

SMALL = 380
LEFT, TOP, ROW, BAR = 92, 38, 20, 11
MOST_MEMBERS = 12
WORTH_SAYING_MS = 1000
"""A revocation that took longer is noted beside the group's name; a shorter one is the usual step from one heartbeat to the next."""


def assigned(group: str, rows: Sequence[Row], time: Time) -> str:
    """``rows``: those of one group, of `assignments`. Members with the longest revocations stay if there are too many."""
    chart = Chart(SMALL, f"Assignments of {group}", left=LEFT, right=6, span=time, every=True)
    members: dict[str, list[Row]] = {}
    for row in rows:
        members.setdefault(row["member"], []).append(row)
    slowest = max(rows, key=lambda row: _revoked_ms(row, time), default=None)
    late_ms = 0 if slowest is None else _revoked_ms(slowest, time)
    note = ""
    if slowest is not None and late_ms >= WORTH_SAYING_MS:
        note = f"{slowest['client']} revoked late: {duration_text(late_ms)}"
    shown = sorted(members, key=lambda name: -max(_revoked_ms(row, time) for row in members[name]))[:MOST_MEMBERS]
    kept = [name for name in members if name in shown]
    chart.canvas.text(0, 14, group, "ink name", group, room=chart.width - 6.2 * len(note) - 16)
    chart.canvas.text(chart.width - 2, 14, note, "bad end small")
    bottom = TOP + ROW * len(kept)
    for number, name in enumerate(kept):
        client = members[name][-1]["client"]
        chart.canvas.text(0, TOP + ROW * number + 14, client, "muted small", name, room=LEFT - 8)
    with chart.plot():
        chart.axis(TOP, bottom, apart=84)
        for number, name in enumerate(kept):
            drawn = -LEAST_PX
            for row in members[name]:
                end = chart.x(_until_ms(row, time))
                if end - drawn >= LEAST_PX:  # those that share a pixel are one
                    drawn = end
                    _holding(chart, row, time, TOP + ROW * number + 5)
    chart.cuts(TOP - 4, bottom)
    if len(members) > len(kept):
        chart.canvas.text(0, bottom + 14, f"and {count(len(members) - len(kept), 'member')} more", "muted small")
        bottom += 16
    return chart.drawn(bottom + 6, f"{count(len(members), 'member')}. {note}".strip())


def _revoked_ms(row: Row, time: Time) -> int:
    """Milliseconds that a member took to revoke its partitions or tasks; 0 if it had none to revoke."""
    return _until_ms(row, time) - int(row["from_ms"]) if row["revoking"] else 0


def _until_ms(row: Row, time: Time) -> int:
    return int(time[1] if row["to_ms"] is None else row["to_ms"])


def _holding(chart: Chart, row: Row, time: Time, top: float) -> None:
    words = holding_words(row["client"], row["has"], row["revoking"], row["missing"])
    until_ms = _until_ms(row, time)
    x, end = chart.x(row["from_ms"]), chart.x(until_ms)
    style = "revoking" if row["revoking"] else "awaiting" if row["missing"] else "owned"
    idle = "" if any(unit.role in ("", "active") for unit in (*row["has"], *row["revoking"])) else " veil"
    title = f"{clock(row['from_ms'])} to {clock(until_ms)}  {words}"
    chart.stretch(x, end, top, BAR, style + (idle if style == "owned" else ""), title)
    number = str(len(row["has"]) + len(row["revoking"]))
    if end - x >= 8 + 7 * len(number):
        with chart.mark(x):
            chart.canvas.text(x + 4, top + 9.5, number, "on tight")
