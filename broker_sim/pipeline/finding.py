"""A finding: one sentence that the tables allow, with its weight. `findings` tells which there are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from broker_sim.pipeline.facts import Row

__all__ = ["Finding", "by_group"]


@dataclass(frozen=True, slots=True)
class Finding:
    """``severity``: bad, warn, note or good; ``advice``: what the reader may do; ``at_ms``: when it began, where it has a time."""

    kind: str
    severity: str
    weight: float
    text: str
    advice: str = ""
    group: str | None = None
    log_partition: int | None = None
    at_ms: int | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def by_group(rows: Iterable[Row]) -> list[tuple[str, list[Row]]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["group"]].append(row)
    for of_group in found.values():
        of_group.sort(key=lambda row: row.get("started_ms") or row.get("at_ms") or 0)
    return list(found.items())
