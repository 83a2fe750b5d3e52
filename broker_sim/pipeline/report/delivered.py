"""Records of a share partition that were delivered more than once, or archived: offsets over time, a small picture a partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from broker_sim.common.text import clock
from broker_sim.explain.phrases import count, times
from broker_sim.pipeline.report.lines import BOTTOM, LEFT, SMALL, TOP, head, offset_scale
from broker_sim.pipeline.report.sheet import Chart, number

__all__ = ["delivered"]

Row = Mapping[str, Any]
Time = tuple[int, int, Sequence[tuple[int, int]]]

STYLES = {"acknowledged": "lock", "archived": "bad", "passed": "left", "": "warn"}
"""Styles of records by outcome; "" is that of records that wait to be delivered again."""
MOST_LABELS = 12
LEAST_HEIGHT = 5.0
LEAST_OFFSETS = 10
"""So many offsets a picture is high: of fewer a single record would fill it."""


def delivered(key: str, rows: Sequence[Row], time: Time) -> str:
    """``rows``: those of share_deliveries of one partition of one group; ``key``: its name."""
    chart = Chart(SMALL, f"Deliveries of {key}", left=LEFT, right=24, span=time, every=True)
    archived = sum(row["records"] or 0 for row in rows if row["outcome"] == "archived")
    note = f"{count(archived, 'record')} archived" if archived else ""
    head(chart, key, note, bad=bool(archived))
    low: int = min(min(row["from_offset"], row["to_offset"]) for row in rows)
    high: int = max(low + 1, *(max(row["from_offset"], row["to_offset"]) for row in rows))
    low, high = max(low - max(LEAST_OFFSETS - (high - low), 0) // 2, 0), max(high, low + LEAST_OFFSETS)
    offset_scale(chart, low, high)

    def y(offset: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * (offset - low) / (high - low)

    with chart.plot():
        chart.axis(TOP, BOTTOM, apart=84)
        labelled = sorted(rows, key=lambda row: -(row["deliveries"] or 0))[:MOST_LABELS]
        for row in rows:
            if row["outcome"] == "reset":
                _reset(chart, row, y(row["from_offset"]), y(row["to_offset"]))
            else:
                _records(chart, row, y(row["to_offset"]), y(row["from_offset"]), any(row is one for one in labelled))
    chart.cuts(TOP - 4, BOTTOM)
    return chart.drawn(BOTTOM + 8, note)


def _records(chart: Chart, row: Row, top: float, bottom: float, labelled: bool) -> None:
    outcome = row["outcome"] or ""
    until_ms = row["last_ms"] if outcome else chart.scale.to_ms
    x, end = chart.x(row["first_ms"]), chart.x(until_ms)
    last = row["to_offset"] - 1
    offsets = (
        f"offset {number(last)}" if row["records"] == 1 else f"offsets {number(row['from_offset'])} to {number(last)}"
    )
    ends = f"{outcome} at {clock(until_ms)}" if outcome else "not delivered again yet"
    deliveries = row["deliveries"] or 0
    back = (
        f"{clock(row['first_ms'])}  {offsets} returned {times(row['returns'] or 0)}, "
        if row["returns"]
        else f"{offsets} "
    )
    height = max(bottom - top, LEAST_HEIGHT)
    middle = (top + bottom) / 2
    title = f"{back}delivered {times(deliveries)}: {ends}"
    chart.stretch(x, end, middle - height / 2, height, STYLES.get(outcome, "warn"), title, least=3)
    if labelled and deliveries > 1:
        with chart.mark(max(end, x + 3)):
            chart.canvas.text(max(end, x + 3) + 3, middle + 3.5, f"×{deliveries}", "muted tight")


def _reset(chart: Chart, row: Row, before: float, after: float) -> None:
    """The start offset was set from outside."""
    x = chart.x(row["first_ms"])
    words = (
        f"{clock(row['first_ms'])}  start offset set from {number(row['from_offset'])} to {number(row['to_offset'])}"
    )
    with chart.mark(x, words):
        chart.canvas.line(x, before, x, after, "noteline")
        chart.canvas.circle(x, after, 3, "note")
