"""What every chart of the report begins with.

Rules:
1. Every chart is a function of rows and a width, so that the page can hold a wide one and one for a phone.
2. A chart is bounded: points nearer than a pixel are one, and what is left out is said.
"""

from __future__ import annotations

from collections.abc import Iterable

from broker_sim.common.text import date
from broker_sim.drawing.sheet import Sheet, Span

__all__ = ["NAME", "NARROW", "WIDE", "Chart", "merged", "number", "short"]

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

    def axis(self, top: float, bottom: float, *, apart: float = 96, dated: bool = False) -> None:
        """Times above ``top``, lines down to ``bottom``; ``dated``: with the day."""
        self.times(top - 5, (top - 14, bottom), apart=apart, room=58)
        if dated:
            self.canvas.text(0, top - 5, f"{date(self.scale.from_ms)} UTC", "muted small", room=self.left)

    def drawn(self, height: float, about: str = "") -> str:
        """The SVG element; ``about``: what it shows, for who can't see it."""
        size = "" if self.every else " narrow" if self.width <= NARROW else " wide"
        return self.document(height, f"chart{size}", f"{self.name}. {about}".strip() if about else self.name)


def merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Overlapping intervals as one, in order."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found
