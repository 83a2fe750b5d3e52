"""Prometheus' text format, read back."""

from __future__ import annotations

import re

__all__ = ["Sample", "samples"]

Sample = tuple[str, tuple[tuple[str, str], ...]]
"""A name with its labels, sorted."""

_LINE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def samples(text: str) -> dict[Sample, float]:
    """The samples of a scrape."""
    result = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            found = _LINE.fullmatch(line)
            assert found is not None, line
            name, labels, value = found.groups()
            result[name, tuple(sorted(_LABEL.findall(labels or "")))] = float(value)
    return result
