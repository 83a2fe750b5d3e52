"""Common base of the report's charts.

Rules:
1. Every chart is a function of rows and a width, so that the page can hold a wide one and one for a phone.
2. A chart is bounded: points nearer than a pixel are one, and what is left out is said.
3. Everything with a position in time is drawn inside of `plot()`, which the page stretches when a reader zooms in (``report.js``); in
   there what keeps its shape, text and marks, is drawn inside of `mark(x)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from broker_sim.drawing.canvas import escaped
from broker_sim.drawing.scale import Scale
from broker_sim.drawing.sheet import Sheet, Span

__all__ = ["LEAST_PX", "NAME", "NARROW", "WIDE", "Chart", "merged", "number", "pieces", "short"]

WIDE, NARROW = 900, 400
"""Widths in px: a screen's and a phone's."""
LEAST_PX = 1.6
"""The least width of a stretch of time."""
NAME = 0.87
"""Names are set in bold: so much of the room that plain text of that length would take."""


def number(value: float) -> str:
    """A number with separators: ``1,234,567``."""
    return f"{value:,.0f}"


def short(value: float) -> str:
    """``1.2 M``, ``35 k``, ``420``: a number for an axis or a tile."""
    for unit, divisor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= divisor * (10 if unit == "k" else 1):
            return f"{value / divisor:.1f}".removesuffix(".0") + f" {unit}"
    return f"{value:,.0f}"


class Chart(Sheet):
    """A named sheet of a page that shows it on screens of its size; with ``every``, on all."""

    def __init__(
        self,
        width: int,
        name: str,
        *,
        left: float = 0,
        right: float = 0,
        span: Span | None = None,
        every: bool = False,
    ) -> None:
        super().__init__(width, left=left, right=right, span=span)
        self.name, self.every = name, every

    def axis(self, top: float, bottom: float, *, apart: float = 96, labels: bool = True) -> None:
        """A line at each round time from ``top`` to ``bottom``, with ``labels`` what time it is above it; inside of `plot`."""
        for at, label in self.scale.ticks(apart, 58):
            x = self.left + at
            with self.mark(x):
                self.canvas.line(x, top - 14 * labels, x, bottom, "grid")
                if labels:
                    self.canvas.text(x + 4, top - 5, label, "muted small")

    @contextmanager
    def plot(self) -> Iterator[None]:
        """Context for drawings with positions in time: the page gets their left and right edges, and stretches them."""
        ends = f'data-left="{self.left:g}" data-right="{self.width - self.right:g}"'
        self.canvas.parts.append(f'<g class="plot" {ends}>')
        yield
        self.canvas.end_group()

    @contextmanager
    def mark(self, x: float, title: str = "") -> Iterator[None]:
        """Context for drawings around ``x`` whose width stays the same when the page stretches."""
        label = f"<title>{escaped(title)}</title>" if title else ""
        self.canvas.parts.append(f'<g class="mark" data-x="{x:.2f}">{label}')
        yield
        self.canvas.end_group()

    def stretch(
        self,
        x: float,
        end: float,
        top: float,
        height: float,
        style: str,
        title: str = "",
        *,
        least: float = LEAST_PX,
    ) -> None:
        """A rectangle that can be seen however short it is; the page learns how wide it is in truth, for a reader who zooms in."""
        drawn, true = max(end - x, least), max(end - x, 0.0)
        if drawn > true:
            self.canvas.parts.append(f'<g class="thin" data-w="{true:.3f}" data-least="{least:g}">')
        self.canvas.rect(x, top, drawn, height, style, title, radius=3 if drawn > 8 else 0)
        if drawn > true:
            self.canvas.end_group()

    def drawn(self, height: float, about: str = "") -> str:
        """The SVG element; ``about``: what it shows, for who can't see it."""
        size = "" if self.every else " narrow" if self.width <= NARROW else " wide"
        return self.document(height, f"chart{size}", f"{self.name}. {about}".strip() if about else self.name)


def pieces(span: Span) -> list[list[float]]:
    """Pieces of the time axis of every chart of ``span``: ``[from_ms, to_ms, start, end]``, the last two as shares of its width."""
    from_ms, to_ms, active = span
    return [
        [piece.from_ms, piece.to_ms, piece.start, piece.end] for piece in Scale(from_ms, to_ms, 1.0, active).segments
    ]


def merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Overlapping intervals as one, in order."""
    merged_spans: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged_spans and start <= merged_spans[-1][1]:
            merged_spans[-1] = (merged_spans[-1][0], max(merged_spans[-1][1], end))
        else:
            merged_spans.append((start, end))
    return merged_spans
