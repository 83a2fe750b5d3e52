"""Styles of pictures: the classes that elements are drawn in, their colours for light and dark, the font."""

from __future__ import annotations

__all__ = ["FONT", "HUES", "picture_css"]

FONT = "ui-sans-serif, system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

# class: (what, light, dark)
_COLOURS: dict[str, tuple[str, str, str]] = {
    "bg": ("fill", "#ffffff", "#0f1520"),
    "ink": ("fill", "#172033", "#e8edf5"),
    "muted": ("fill", "#64748b", "#8fa0b7"),
    "grid": ("stroke", "#dfe5ee", "#263346"),
    "edge": ("stroke", "#ffffff", "#0f1520"),
    "track": ("fill", "#b9c4d4", "#43536b"),
    "prepare": ("fill", "#f5a623", "#f2a93b"),
    "complete": ("fill", "#7c5cfc", "#9b84ff"),
    "join": ("fill", "#f59e0b", "#f7b23b"),
    "sync": ("fill", "#7c5cfc", "#a594ff"),
    "open": ("fill", "#0e9aa7", "#3cc6d2"),
    "marking": ("fill", "#d9480f", "#ff8c5a"),
    "lock": ("fill", "#2f9e6e", "#5fd3a1"),
    "redelivered": ("fill", "#c2701c", "#f0a35a"),
    "owned": ("fill", "#6f93c8", "#7f9fd0"),
    "revoking": ("fill", "#e8590c", "#ff9254"),
    "awaiting": ("fill", "#b197fc", "#8f7ae0"),
    "slow": ("fill", "#d9a53a", "#c79a3c"),
    "commit": ("stroke", "#16a34a", "#4ade80"),
    "bad": ("fill", "#dc2626", "#ff6b6b"),
    "badline": ("stroke", "#dc2626", "#ff6b6b"),
    "warn": ("fill", "#d97706", "#fbbf24"),
    "warnline": ("stroke", "#d97706", "#fbbf24"),
    "faulty": ("fill", "#c026d3", "#e879f9"),
    "note": ("fill", "#2563eb", "#7fb0ff"),
    "noteline": ("stroke", "#2563eb", "#7fb0ff"),
    "goodline": ("stroke", "#16a34a", "#4ade80"),
}

HUES = (
    ("#3b82f6", "#eef5ff", "#142236"),
    ("#0f9f6e", "#ebf8f2", "#112823"),
    ("#0891b2", "#e9f7fb", "#102736"),
    ("#d1578a", "#fdf0f5", "#2c1b2c"),
    ("#6b8e23", "#f4f8e8", "#20281a"),
)
"""Colours of generations: the label's, and the tints behind the lanes for light and dark."""


def picture_css() -> str:
    """Rules for the SVG: light first, so that what knows no media query is light."""
    light = [f".{name}{{{what}:{colour}}}" for name, (what, colour, _) in _COLOURS.items()]
    dark = [f".{name}{{{what}:{colour}}}" for name, (what, _, colour) in _COLOURS.items()]
    for position, (label, tint, dark_tint) in enumerate(HUES):
        light += [f".g{position}{{fill:{label}}}", f".t{position}{{fill:{tint}}}"]
        dark.append(f".t{position}{{fill:{dark_tint}}}")
    shapes = [
        f"text{{font-family:{FONT};font-size:12px}}",
        ".h1{font-size:21px;font-weight:650}",
        ".h2{font-size:13px}",
        ".small{font-size:10.5px}",
        ".name{font-size:12.5px;font-weight:550}",
        ".on{fill:#ffffff;font-weight:650;font-size:12px}",
        ".mid{text-anchor:middle}",
        ".end{text-anchor:end}",
        ".grid,.commit,.badline,.warnline,.noteline,.goodline{fill:none}",
        ".grid{stroke-width:1}",
        ".commit{stroke-width:1.6;stroke-linecap:round}",
        ".badline,.warnline{stroke-width:2.2;stroke-linecap:round;stroke-linejoin:round}",
        ".goodline{stroke-width:2;stroke-linecap:round;stroke-linejoin:round}",
        ".noteline{stroke-width:1;stroke-dasharray:2 3;opacity:.75}",
        ".faint{opacity:.14}",
        ".veil{opacity:.3}",
    ]
    return "".join([*shapes, *light, f"@media (prefers-color-scheme:dark){{{''.join(dark)}}}"])
