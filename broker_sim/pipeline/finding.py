"""A finding: one sentence that the tables allow, with its weight. `findings` tells which there are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from broker_sim.pipeline.facts import Row

__all__ = ["KINDS", "LONG_MS", "OFTEN", "OFTEN_MS", "SEVERITIES", "Finding", "by_group", "matching"]

LONG_MS = 10_000
"""A rebalance that takes longer is told."""
OFTEN = 5
"""So many rebalances of a group within OFTEN_MS are told."""
OFTEN_MS = 300_000

SEVERITIES = ("note", "warn", "bad")
"""Of what is not good, the least first."""

KINDS = {
    "nothing": "nothing unusual",
    "stuck": "an offsets partition took nothing although somebody tried",
    "silence": "nothing was written to an offsets partition, while others were busy",
    "restless": "a group rebalanced often (journal)",
    "storm": "a group went from generation to generation (log)",
    "slow": "a rebalance took long",
    "lost": "a member's session ran out (journal)",
    "gone": "a member left or fell silent, and did not come back (log)",
    "churn": "a group lost many members to session timeouts (journal)",
    "regression": "a committed offset went back",
    "deleted": "committed offsets expired or were deleted",
    "duplicates": "records were handed out twice",
    "lag": "a group fell behind",
    "hot": "one offsets partition has most of the work",
    "placed": "groups do not lie where their hash says",
    "skipped": "a part of the input could not be read",
}
"""Each kind of finding, and what it tells."""


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


def matching(found: Iterable[Finding], wanted: Iterable[str]) -> list[Finding]:
    """Those of a kind that is ``wanted``, or of a severity that is, or worse."""
    names = set(wanted)
    least = min((SEVERITIES.index(name) for name in names if name in SEVERITIES), default=len(SEVERITIES))
    severe = SEVERITIES[least:]
    return [one for one in found if one.kind in names or one.severity in severe]
