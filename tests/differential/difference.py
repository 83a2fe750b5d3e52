"""Differences between two answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Difference:
    """Step `number` (from 0; the log: the number of steps) was answered otherwise: rows of (where, real, simulated)."""

    number: int
    api: str
    version: int
    rows: tuple[tuple[str, Any, Any], ...]

    @property
    def signature(self) -> str:
        """Text that differences of the same cause have in common."""
        where, real, simulated = self.rows[0]
        generic = "".join(c for c in where if not c.isdigit())
        return f"{generic}: {_kind(real)} != {_kind(simulated)}"


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return value if value in ("not answered", "closed") else "text"
    return repr(value) if isinstance(value, int | None) else type(value).__name__
