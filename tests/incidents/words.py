"""Findings' sentences, read: their times, names and numbers; and the claims that they make."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

__all__ = ["AT", "LASTED", "WINDOW_MS", "Claim", "Found", "duration", "moment", "names_in", "number_in", "times_in"]

Found = Mapping[str, Any]
"""A finding as `findings.json` has it."""
WINDOW_MS = 1000
"""Offsets over time are known by windows of 500 ms, and commits a little after their time."""
AT = r"(?:\d{4}-\d\d-\d\d[\s\u00a0])?\d\d:\d\d:\d\d(?:\.\d{3})?"
LASTED = r"(?:\d+ (?:h|min) )?[\d.]+ (?:min|ms|s|h)"
_UNITS = {"ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000}
_TIMES = {"once": 1, "twice": 2}


@dataclass
class Claim:
    """``true`` None: a ledger can't tell."""

    says: str
    true: bool | None
    why: str = ""


def moment(text: str, near_ms: int) -> int:
    """A clock's time on the day of ``near_ms``, or the day that is written."""
    text = text.replace("\u00a0", " ")
    day = datetime.fromtimestamp(near_ms / 1000, UTC).strftime("%Y-%m-%d")
    date, clock = text.split(" ") if " " in text else (day, text)
    form = "%Y-%m-%d %H:%M:%S.%f" if "." in clock else "%Y-%m-%d %H:%M:%S"
    return round(datetime.strptime(f"{date} {clock}", form).replace(tzinfo=UTC).timestamp() * 1000)


def duration(text: str) -> float:
    parts = text.split(" ")
    return sum(float(number) * _UNITS[unit] for number, unit in zip(parts[::2], parts[1::2], strict=True))


def names_in(text: str) -> list[str]:
    """``a, b and 2 more`` -> a, b."""
    return [name for name in re.split(r", | and ", text) if not re.fullmatch(r"\d+ (?:more|others?)", name)]


def number_in(text: str) -> int:
    return int(text.replace(",", ""))


def times_in(text: str) -> int:
    return _TIMES[text] if text in _TIMES else number_in(text.split(" ")[0])
