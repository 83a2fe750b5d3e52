"""Topics that have more partitions than before, from a group's assignments in the log: pure Python, no Spark.

An assignor assigns all partitions of the topics that members subscribe to. So the highest partition of a complete assignment is the
topic's last one, and a later assignment with a higher one shows that the topic grew. A cooperative assignor leaves partitions out that
members have yet to revoke: what a log that lacks the group's beginning shows first counts once a second assignment has agreed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker_sim.pipeline.cause_changes import grown

__all__ = ["GrownTopics", "counts_of"]


class GrownTopics:
    """The partitions of the topics of one group, assignment after assignment."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, bool]] = {}
        """topic -> its number of partitions, and whether that is sure"""

    def take(self, counts: Mapping[str, int], *, complete: bool) -> list[tuple[str, int, int]]:
        """(topic, before, after) of those that grew. ``counts``: topic -> the highest assigned partition, plus one; ``complete``: no
        partition can be left out."""
        result = []
        for topic, now in counts.items():
            before, is_sure = self._known.get(topic, (0, False))
            if before < now:
                if is_sure:
                    result.append((topic, before, now))
                self._known[topic] = now, complete or is_sure
            else:
                self._known[topic] = before, is_sure or complete or before == now
        return result

    def classic(self, partitions: Iterable[str], generation: int) -> list[str]:
        """Topics that grew by a classic group's assignment, as phrases of `cause_changes`. ``partitions``: as `orders-0`."""
        pairs = (name.rpartition("-") for name in partitions)
        counts = counts_of((topic, int(number)) for topic, _, number in pairs)
        return [grown(*one) for one in self.take(counts, complete=generation == 1)]

    def forget(self) -> None:
        """Forget the partitions that were assigned before."""
        self._known.clear()


def counts_of(partitions: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Topic -> the highest partition, plus one."""
    result: dict[str, int] = {}
    for topic, number in partitions:
        result[topic] = max(result.get(topic, 0), number + 1)
    return result
