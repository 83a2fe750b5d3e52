"""Heat map of the load of the partitions of ``__consumer_offsets``: one cell each, darker where more records are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from broker_sim.pipeline.report.sheet import NARROW, Chart, number

__all__ = ["heat"]

MOST_CELLS = 1000
LEGEND_STEPS = 8
DARK = 3.0
"""So many times its fair share makes a partition as dark as can be, if no other one has more."""


def heat(rows: Sequence[Mapping[str, Any]], jammed: Iterable[int], width: int) -> str:
    """Rows of coordinator_hotspots as a grid; ``jammed``: the partitions that were stuck."""
    by_partition = {int(row["log_partition"]): row for row in rows}
    known = max((int(row["partitions"] or 0) for row in rows), default=0)
    count = min(max(known, max(by_partition, default=-1) + 1, 1), MOST_CELLS)
    chart = Chart(width, "Records by partition of __consumer_offsets")
    columns = _columns(count, width)
    size = min(width / columns, 58.0)
    most = max([DARK / count, *(float(row["share"] or 0) for row in rows)])
    stuck = set(jammed)
    for partition in range(count):
        x, y = (partition % columns) * size, (partition // columns) * size
        _cell(chart, partition, by_partition.get(partition), (x, y, size), most, partition in stuck)
    bottom = -(-count // columns) * size
    _legend(chart, bottom + 12, most, any(row["misplaced"] for row in rows), bool(stuck))
    busiest = max(rows, key=lambda row: row["records"], default=None)
    note = (
        "" if busiest is None else f"The busiest is partition {busiest['log_partition']} with {busiest['share']:.0%}."
    )
    return chart.drawn(bottom + 34, note)


def _columns(count: int, width: int) -> int:
    few = 10 if count <= 200 else 20
    return min(count, few if width <= NARROW or count <= 100 else 40)


def _cell(
    chart: Chart,
    partition: int,
    row: Mapping[str, Any] | None,
    place: tuple[float, float, float],
    most: float,
    stuck: bool,
) -> None:
    x, y, size = place
    canvas, gap = chart.canvas, 2 if size > 14 else 0.5
    share = 0.0 if row is None else float(row["share"] or 0)
    words = f"__consumer_offsets-{partition}: nothing in it"
    if row is not None:
        held = "" if row["bytes"] is None else f", {number(row['bytes'])} bytes"
        words = (
            f"__consumer_offsets-{partition}: {number(row['groups'])} groups, {number(row['records'])} records{held}"
        )
        words += f" ({share:.1%})"
        if row["busiest_group"] is not None:
            words += f"\nthe most of them of {row['busiest_group']}: {number(row['busiest_records'])}"
        if row["misplaced"]:
            words += f"\n{number(row['misplaced'])} groups don't belong here by their hash"
    if stuck:
        words += "\nit was stuck"
    canvas.group(words)
    canvas.rect(x + gap, y + gap, size - 2 * gap, size - 2 * gap, "cell", radius=5)
    strength = share / most
    if share:
        opacity = f'opacity="{0.12 + 0.88 * strength:.2f}"'
        canvas.parts.append(f"<g {opacity}>")
        canvas.rect(x + gap, y + gap, size - 2 * gap, size - 2 * gap, "heat", radius=5)
        canvas.parts.append("</g>")
    if stuck:
        canvas.rect(x + gap, y + gap, size - 2 * gap, size - 2 * gap, "jammed", radius=5)
    if row is not None and row["misplaced"]:
        canvas.diamond(x + size - 9, y + 9, 4, "odd")
    if size >= 22:
        style = "on mid" if strength > 0.5 else "muted mid small"
        canvas.text(x + size / 2, y + size / 2 + 4, str(partition), style)
    canvas.end_group()


def _legend(chart: Chart, y: float, most: float, misplaced: bool, stuck: bool) -> None:
    canvas, x = chart.canvas, 26.0
    canvas.text(0, y + 10, "0 %", "muted small")
    for step in range(LEGEND_STEPS):
        canvas.parts.append(f'<g opacity="{0.12 + 0.88 * step / (LEGEND_STEPS - 1):.2f}">')
        canvas.rect(x, y, 12, 12, "heat")
        canvas.parts.append("</g>")
        x += 12
    canvas.text(x + 6, y + 10, f"{most:.0%} of the records", "muted small")
    x += 130
    if stuck:
        canvas.rect(x, y + 1, 11, 11, "jammed", radius=2)
        canvas.text(x + 17, y + 10, "stuck", "muted small")
        x += 62
    if misplaced:
        canvas.diamond(x + 5, y + 6, 4, "odd")
        canvas.text(x + 15, y + 10, "groups of another hash", "muted small")
