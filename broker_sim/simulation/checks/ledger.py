"""Ledger of the records that were delivered to the groups of a run, which checks at-least-once delivery as it happens.

    ledger = DeliveryLedger(breach)
    ledger.gave("billing", "orders", 0, [17, 18], "c1")     # to an application, by its consumer
    ledger.shows("billing", "orders-0", 19)                 # is committed now

Rules:
1. A record may be delivered twice, to any member, in any order of generations; but only after all earlier records of its partition
   were delivered to some member of the group. So a gap is reported when it occurs, not when it is final.
2. Committed records count as delivered: a new owner of the partition starts at the committed offset.
3. It knows partitions that begin at offset 0 and lose nothing at their beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker_sim.simulation.checks.answers import InvariantBroken

__all__ = ["DeliveryLedger"]


class DeliveryLedger:
    """See the module; ``report(error)`` is called at every breach."""

    def __init__(self, report: Callable[[InvariantBroken], object]) -> None:
        self._report = report
        self._ends: dict[tuple[str, str, int], int] = {}
        self._read: dict[tuple[str, str], None] = {}

    def reads(self, group: str, topic: str) -> None:
        """A group reads a topic, from its first record on."""
        self._read[group, topic] = None

    def gave(self, group: str, topic: str, index: int, offsets: Sequence[int], who: str) -> None:
        """An application has been given the records at these offsets."""
        key = group, topic, index
        end = self._ends.get(key, 0)
        first = offsets[0]
        if first > end:
            self._breach(
                "no record is skipped",
                f"group {group}: {who} is given {topic}-{index} from {first} on, no member received {end}",
            )
        last = offsets[-1]
        if last - first != len(offsets) - 1:
            self._breach(
                "no record is skipped", f"group {group}: {who} is given {topic}-{index} {list(offsets)}, with gaps"
            )
        self._ends[key] = max(end, last + 1)

    def shows(self, group: str, name: str, offset: int) -> None:
        """``offset`` of the partition ``name`` is what the group has committed."""
        topic, _, index = name.rpartition("-")
        if (group, topic) not in self._read:
            return
        end = self._ends.get((group, topic, int(index)), 0)
        if offset > end:
            self._breach(
                "committed offsets have been read", f"group {group}: {name} is {offset}, given was all before {end}"
            )

    def _breach(self, name: str, what: str) -> None:
        self._report(InvariantBroken(name, what))
