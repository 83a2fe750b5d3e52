"""The timeline of a group, of whichever kind it is."""

from __future__ import annotations

from broker_sim.common.text import UsageError
from broker_sim.reproduce.epoch_timeline import EPOCH_KINDS, kinds_of, read_epochs
from broker_sim.reproduce.evidence import Evidence
from broker_sim.reproduce.group_timeline import GroupTimeline, read_timeline

__all__ = ["NotReproducible", "timeline_of"]


class NotReproducible(UsageError):
    """Reason why a finding can't be reproduced, in one line."""


def timeline_of(evidence: Evidence, group: str, from_ms: int, to_ms: int) -> GroupTimeline:
    """Timeline of a group between two moments of a log. Raises NotReproducible if the group changed its protocol between them."""
    kinds = [kind for kind in kinds_of(evidence, group) if kind in EPOCH_KINDS]
    if not kinds:
        return read_timeline(evidence, group, from_ms, to_ms)
    classic = [
        row
        for row in evidence.of_group("rebalances", group)
        if row["kind"] == "classic" and row["members_after"] and from_ms <= (row["ended_ms"] or from_ms) <= to_ms
    ]
    if len(kinds) > 1 or classic:
        names = ", ".join([*(["classic"] if classic else []), *kinds])
        raise NotReproducible(f"{group}: it was a group of several protocols in that time ({names}); one is simulated")
    return read_epochs(evidence, group, kinds[0], from_ms, to_ms)
