"""A picture with time from left to right, and a picture without: what every chart of the report begins with.

Rules:
1. Every chart is a function of rows and a width, so that the page can hold a wide one and one for a phone.
2. Time is that of `broker_sim.explain.scale`: the same length for the same time, but for long stretches in which nothing happened,
   which are cut short and marked.
3. A picture is bounded: points nearer than a pixel are one, and what is left out is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from broker_sim.common.text import duration_text
from broker_sim.explain.canvas import Canvas, escaped
from broker_sim.explain.phrases import date
from broker_sim.explain.scale import Scale

__all__ = ["NAME", "NARROW", "WIDE", "Sheet", "merged", "number", "short"]

WIDE, NARROW = 1160, 400
"""Widths in px: a screen's and a phone's."""
NAME = 0.87
"""Names are set in bold: so much of the room that plain text of that length would take."""


def number(value: float) -> str:
    """``1,234,567``."""
    return f"{value:,.0f}"


def short(value: float) -> str:
    """``1.2 M``, ``35 k``, ``420``: a number for an axis or a tile."""
    for unit, divisor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= divisor * (10 if unit == "k" else 1):
            return f"{value / divisor:.1f}".removesuffix(".0") + f" {unit}"
    return f"{value:,.0f}"


class Sheet:
    """A canvas; with ``span`` (from, to, what is active in between) it has a time axis between ``left`` and ``right``."""

    def __init__(
        self,
        width: int,
        name: str,
        *,
        left: float = 0,
        right: float = 0,
        span: tuple[int, int, Sequence[tuple[int, int]]] | None = None,
    ) -> None:
        self.width, self.name, self.left, self.right = width, name, left, right
        self.canvas = Canvas()
        self.scale: Scale | None = None
        if span is not None:
            from_ms, to_ms, active = span
            self.scale = Scale(from_ms, to_ms, width - left - right, active)

    @property
    def narrow(self) -> bool:
        return self.width <= NARROW

    def x(self, ts_ms: float) -> float:
        """Where a moment stands."""
        assert self.scale is not None
        return self.left + self.scale.x(ts_ms)

    def axis(self, top: float, bottom: float, *, apart: float = 96, dated: bool = False) -> None:
        """Times above ``top``, lines down to ``bottom``, marks where time is cut."""
        assert self.scale is not None
        for at, label in self.scale.ticks(apart, 58):
            x = self.left + at
            self.canvas.line(x, top - 14, x, bottom, "grid")
            self.canvas.text(x + 4, top - 5, label, "muted small")
        if dated:
            self.canvas.text(0, top - 5, f"{date(self.scale.from_ms)} UTC", "muted small", room=self.left)

    def cuts(self, top: float, bottom: float) -> None:
        """Zigzags where idle time was left out; drawn last, above all else."""
        assert self.scale is not None
        for cut in self.scale.segments:
            if not cut.cut:
                continue
            x = self.left + (cut.start + cut.end) / 2
            words = f"{duration_text(cut.to_ms - cut.from_ms)} in which nothing happened are drawn shorter"
            self.canvas.path(f"M{x - 3:.1f} {top:.0f}" + "l6 4l-6 4" * max(int((bottom - top) / 8), 1), "cut", words)

    def band(self, from_ms: float, to_ms: float, top: float, height: float, style: str, title: str = "") -> None:
        """A rectangle from one moment to another."""
        x = self.x(from_ms)
        self.canvas.rect(x, top, max(self.x(to_ms) - x, 1.2), height, style, title, radius=3)

    def document(self, height: float, about: str = "") -> str:
        """The SVG element. ``about``: what it shows, for who can't see it."""
        size = "narrow" if self.narrow else "wide"
        body = "\n".join(self.canvas.parts)
        says = f"{self.name}. {about}".strip() if about else self.name
        return (
            f'<svg class="chart {size}" viewBox="0 0 {self.width} {height:.0f}" role="img" '
            f'aria-label="{escaped(says)}">\n{body}\n</svg>'
        )


def merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Overlapping intervals as one, in order."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found
