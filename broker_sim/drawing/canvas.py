"""SVG elements as text. All text that comes from outside goes through ``escaped``."""

from __future__ import annotations

import re

__all__ = ["Canvas", "escaped", "fitted", "possible"]

_IMPOSSIBLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def possible(words: str) -> str:
    """``words`` with U+FFFD for characters that neither XML nor HTML can hold."""
    return _IMPOSSIBLE.sub("\ufffd", words)


def escaped(words: str) -> str:
    """``possible`` text for XML, attributes included."""
    safe = possible(words)
    for plain, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;")):
        safe = safe.replace(plain, entity)
    return safe


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


class Canvas:
    """Collects elements. ``style``: class names; ``title``: what a tooltip says."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def _put(self, tag: str, attributes: str, title: str = "", inner: str = "") -> None:
        content = inner + (f"<title>{escaped(title)}</title>" if title else "")
        self.parts.append(f"<{tag} {attributes}>{content}</{tag}>" if content else f"<{tag} {attributes}/>")

    def group(self, title: str, extra: str = "") -> None:
        """Begin a group: elements up to ``end_group`` share a tooltip."""
        self.parts.append(f"<g {extra}><title>{escaped(title)}</title>")

    def end_group(self) -> None:
        self.parts.append("</g>")

    def rect(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        style: str,
        title: str = "",
        *,
        radius: float = 0,
    ) -> None:
        rounded = f' rx="{_n(min(radius, width / 2))}"' if radius else ""
        place = f'x="{_n(x)}" y="{_n(y)}" width="{_n(max(width, 0.1))}" height="{_n(height)}"'
        self._put("rect", f'class="{style}" {place}{rounded}', title)

    def line(self, x1: float, y1: float, x2: float, y2: float, style: str, title: str = "") -> None:
        self._put("line", f'class="{style}" x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}"', title)

    def circle(self, x: float, y: float, radius: float, style: str, title: str = "") -> None:
        self._put("circle", f'class="{style}" cx="{_n(x)}" cy="{_n(y)}" r="{_n(radius)}"', title)

    def path(self, d: str, style: str, title: str = "") -> None:
        self._put("path", f'class="{style}" d="{d}"', title)

    def text(self, x: float, y: float, words: str, style: str, title: str = "", *, room: float | None = None) -> None:
        """``room``: px that there are; longer text is cut."""
        if room is not None:
            words = fitted(words, room)
        if words:
            self._put("text", f'class="{style}" x="{_n(x)}" y="{_n(y)}"', title, escaped(words))

    # shapes

    def cross(self, x: float, y: float, size: float, style: str, title: str = "") -> None:
        low, high = _n(y - size), _n(y + size)
        left, right = _n(x - size), _n(x + size)
        self.path(f"M{left} {low}L{right} {high}M{left} {high}L{right} {low}", style, title)

    def diamond(self, x: float, y: float, size: float, style: str, title: str = "") -> None:
        self.path(
            f"M{_n(x)} {_n(y - size)}L{_n(x + size)} {_n(y)}L{_n(x)} {_n(y + size)}L{_n(x - size)} {_n(y)}Z",
            style,
            title,
        )

    def triangle(self, x: float, y: float, size: float, style: str, title: str = "") -> None:
        self.path(f"M{_n(x)} {_n(y - size)}L{_n(x + size)} {_n(y + size)}L{_n(x - size)} {_n(y + size)}Z", style, title)

    def bolt(self, x: float, y: float, style: str, title: str = "") -> None:
        """Draw a lightning bolt, for a fault."""
        points = ((1.5, -8), (-4.5, 1.2), (-0.6, 1.2), (-1.8, 8), (4.5, -1.8), (0.6, -1.8))
        self.path("M" + "L".join(f"{_n(x + dx)} {_n(y + dy)}" for dx, dy in points) + "Z", style, title)

    def bubble(self, x: float, y: float, style: str, title: str = "") -> None:
        """Draw a speech bubble, for a note."""
        self.path(f"M{_n(x - 5)} {_n(y - 4)}h10v7h-6l-3 3v-3h-1Z", style, title)

    def zigzag(self, x: float, top: float, bottom: float, style: str, title: str = "") -> None:
        """A line down from ``top`` that is no line."""
        self.path(f"M{x - 3:.1f} {top:.0f}" + "l6 4l-6 4" * max(int((bottom - top) / 8), 1), style, title)

    def door(self, x: float, y: float, style: str, title: str = "") -> None:
        """Draw an arrow that leaves, for a member that left."""
        self.path(
            f"M{_n(x)} {_n(y - 6)}V{_n(y + 6)}M{_n(x + 3)} {_n(y)}H{_n(x + 11)}M{_n(x + 8)} {_n(y - 3)}l3 3l-3 3",
            style,
            title,
        )


def fitted(words: str, room: float, px: float = 6.4) -> str:
    """``words``, or as much of them as there is room for."""
    most = int(room / px)
    return words if len(words) <= most else words[: most - 1] + "…" if most >= 3 else ""
