"""Bars from left to right: the members that joined each group, and those that were removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from broker_sim.common.text import duration_text
from broker_sim.drawing.canvas import escaped
from broker_sim.pipeline.report.sheet import NAME, Chart, number

__all__ = ["churn"]

ROW = 26
KINDS = (
    ("joins", "came", "joined"),
    ("leaves", "left", "left"),
    ("expirations", "lost", "session expired"),
    ("timeouts", "late", "did not rejoin in time"),
    ("departed", "left", "removed"),
)
"""column, style, what it says."""


def churn(rows: Sequence[Mapping[str, Any]], width: int) -> str:
    """Joins, leaves and expirations of each group as one bar, and how long its members stayed."""
    narrow = width < 600
    left, right = (0, 4) if narrow else (170, 150)
    row_height = 40 if narrow else ROW
    chart = Chart(width, "Joined and removed members")
    canvas = chart.canvas
    numbers = [_numbers(row) for row in rows]
    most = max((sum(counts.values()) for counts in numbers), default=1) or 1
    for position, (row, numbers_of) in enumerate(zip(rows, numbers, strict=True)):
        top = position * row_height
        canvas.parts.append(f'<g data-group="{escaped(row["group"])}">')
        stayed = "" if row["mean_tenure_ms"] is None else f"stayed {duration_text(row['mean_tenure_ms'])} on average"
        if narrow:
            canvas.text(0, top + 12, row["group"], "ink name", room=(width - 6.2 * len(stayed) - 10) * NAME)
            canvas.text(width - 2, top + 12, stayed, "muted small end")
            y = top + 19
        else:
            canvas.text(0, top + 16, row["group"], "ink name", row["group"], room=(left - 12) * NAME)
            canvas.text(width - right + 10, top + 16, stayed.replace(" on average", ""), "muted small")
            y = top + 5
        x = float(left)
        for name, style, words in KINDS:
            value = numbers_of[name]
            if value:
                length = max((width - left - right) * value / most, 2)
                canvas.group(f"{row['group']}: {number(value)} {words}")
                canvas.rect(x, y, length, 14, style, radius=2)
                if length > 9 + 7 * len(str(value)):
                    canvas.text(x + length / 2, y + 11, str(value), "on mid small")
                canvas.end_group()
                x += length + 1
        canvas.end_group()
    y, x = len(rows) * row_height + 18, 0.0
    for name, style, words in KINDS:
        if not any(counts[name] for counts in numbers):
            continue
        canvas.rect(x, y - 9, 12, 11, style, radius=2)
        canvas.text(x + 18, y, words, "muted small")
        x += 36 + 6 * len(words)
    return chart.drawn(y + 10)


def _numbers(row: Mapping[str, Any]) -> dict[str, int]:
    """Numbers of changes by kind; members that left for an unknown reason count as removed."""
    counts = {name: int(row.get(name) or 0) for name, _, _ in KINDS}
    counts["departed"] = int(row.get("departures") or 0) if row.get("leaves") is None else 0
    return counts
