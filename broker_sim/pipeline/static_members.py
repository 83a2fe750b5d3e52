"""Static members (group.instance.id) that come back under another member id, from a group's records: pure Python, no Spark.

Rules:
1. A static member whose process restarts joins without a member id and gets a new one in its own place: the group keeps its assignment,
   and as long as its session lasts nothing is rebalanced. The group's records have the same instance id with another member id.
2. It was away since the last commit of its partitions, or since it left for a while (KIP-848, member epoch -2); where a log has
   neither, for how long is not known.
3. One that was removed before it came back was no bounce: the group had rebalanced without it (``removed``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from broker_sim.explain.generations import StoredMember

__all__ = ["Bounce", "StaticMembers"]


@dataclass(slots=True)
class Bounce:
    """``instance``: the group.instance.id; ``client``: client id of the member that came; ``former``, ``member``: its member ids before
    and since then; ``at_ms``: when; ``away_ms``: rule 2; ``removed``: rule 3."""

    instance: str
    client: str | None
    former: str
    member: str
    at_ms: int | None
    away_ms: int | None
    removed: bool = False
    log_offset: int | None = None
    """log offset of the record that shows the return."""

    def row(self) -> dict[str, Any]:
        """As an element of `rebalances.bounces`."""
        return asdict(self)


class StaticMembers:
    """The static members of a classic group, record after record."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[StoredMember, int | None]] = {}
        """instance id -> the member, and when its first record was written"""
        self._before: set[str] = set()

    def take(
        self,
        ts_ms: int | None,
        place: int | None,
        members: Iterable[StoredMember],
        committed: Mapping[str, Sequence[int]],
    ) -> list[Bounce]:
        """The bounces that a record shows. ``place``: its offset; ``committed``: `orders-0` -> first ms, last ms, .. of the commits
        before it."""
        bounces, present = [], set()
        for member in members:
            instance = member.instance
            if instance is None:
                continue
            present.add(member.member)
            known = self._known.get(instance)
            if known is None or known[0].member != member.member:
                if known is not None:
                    former, since_ms = known
                    away_ms = _away_ms(former, since_ms, ts_ms, committed)
                    removed = former.member not in self._before
                    bounces.append(
                        Bounce(instance, member.client_id, former.member, member.member, ts_ms, away_ms, removed, place)
                    )
                self._known[instance] = member, ts_ms
            elif member.assigned:
                self._known[instance] = member, known[1]
        self._before = present
        return bounces

    def forget(self) -> None:
        """The group was deleted."""
        self._known.clear()
        self._before = set()


def _away_ms(
    former: StoredMember, since_ms: int | None, ts_ms: int | None, committed: Mapping[str, Sequence[int]]
) -> int | None:
    """Milliseconds between a member's last commit and a record; None if it had not committed since its own record."""
    last = [committed[name][1] for name in former.assigned if name in committed]
    if not last or ts_ms is None or since_ms is None or max(last) < since_ms:
        return None
    return max(ts_ms - max(last), 0)
