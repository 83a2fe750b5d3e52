"""A picture with time from left to right, and a picture without: what every timeline and every chart begins with."""

from __future__ import annotations

from collections.abc import Sequence

from broker_sim.common.text import duration_text
from broker_sim.drawing.canvas import Canvas, escaped
from broker_sim.drawing.scale import Scale

__all__ = ["Sheet", "Span"]

Span = tuple[int, int, Sequence[tuple[int, int]]]
"""From and to, ms since 1970, and the intervals in which something happened: the rest may be cut short."""

CUT_LABEL = 46
"""Room in px that a cut needs for the time that it leaves out."""


class Sheet:
    """A canvas of ``width`` px; with ``span`` it has a time axis between ``left`` and ``right``."""

    def __init__(self, width: int, *, left: float = 0, right: float = 0, span: Span | None = None) -> None:
        self.width, self.left, self.right = width, left, right
        self.canvas = Canvas()
        self._scale = None
        if span is not None:
            from_ms, to_ms, active = span
            self._scale = Scale(from_ms, to_ms, width - left - right, active)

    @property
    def scale(self) -> Scale:
        """The time axis of the sheet; only for a sheet with a ``span``."""
        assert self._scale is not None
        return self._scale

    def x(self, ts_ms: float) -> float:
        """The x coordinate of a time (ms since 1970)."""
        return self.left + self.scale.x(ts_ms)

    def times(self, y: float, *lines: tuple[float, float], apart: float, room: float) -> None:
        """Labels of round times at ``y``, ``apart`` from each other and with so much ``room`` before the end; at each of them ``lines``
        from one height to another."""
        for at, label in self.scale.ticks(apart, room):
            x = self.left + at
            for top, bottom in lines:
                self.canvas.line(x, top, x, bottom, "grid")
            self.canvas.text(x + 4, y, label, "muted small")

    def cuts(self, top: float, bottom: float, style: str = "cut", *, labels: float | None = None) -> None:
        """Draw zigzags from ``top`` to ``bottom`` where idle time is cut out, after and above everything else. ``labels``: the y
        coordinate of texts with the duration that was cut; None: no texts."""
        for cut in self.scale.segments:
            if not cut.cut:
                continue
            x, lasted = self.left + (cut.start + cut.end) / 2, duration_text(cut.to_ms - cut.from_ms)
            words = f"{lasted} in which nothing happened are drawn shorter"
            self.canvas.zigzag(x, top, bottom, style, words)
            if labels is not None and cut.end - cut.start > CUT_LABEL:
                self.canvas.text(x, labels, lasted, "muted small mid", words)

    def band(self, from_ms: float, to_ms: float, top: float, height: float, style: str, title: str = "") -> None:
        """A rectangle from one moment to another."""
        x = self.x(from_ms)
        self.canvas.rect(x, top, max(self.x(to_ms) - x, 1.2), height, style, title, radius=3)

    def document(self, height: float, style: str, says: str, *, alone: str | None = None) -> str:
        """The SVG element of class ``style``; ``says``: what it shows, for who can't see it. ``alone``: its style sheet, where it is to
        stand in a file of its own as well."""
        size, head, says = f"0 0 {self.width} {height:.0f}", "", escaped(says)
        body = "\n".join(self.canvas.parts)
        if alone is None:
            return f'<svg class="{style}" viewBox="{size}" role="img" aria-label="{says}">\n{body}\n</svg>'
        area = f'width="{self.width}" height="{height:.0f}"'
        head = f'<title>{says}</title><style>{alone}</style><rect class="bg" {area}/>'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="{style}" viewBox="{size}" {area} role="img" '
            f'aria-label="{says}">{head}\n{body}\n</svg>'
        )
