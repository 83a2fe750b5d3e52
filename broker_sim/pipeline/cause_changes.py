"""Changes that caused a rebalance although no member came or went: the elements of `rebalances.cause_changes`.

Each names the client, or the topic, before a colon: ``web-1: subscribed to payments``, ``orders: 2 to 6 partitions``. Partitions are
listed in full, as a table is read by programs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from broker_sim.explain.phrases import count

__all__ = ["counted", "grown", "owned", "subscribed"]


def subscribed(client: str, added: Iterable[str], lost: Iterable[str]) -> list[str]:
    """Changes of a client's subscription as phrases: topics ``added`` and ``lost``."""
    changes = (("subscribed to", added), ("unsubscribed from", lost))
    return [f"{client}: {what} {', '.join(topics)}" for what, some in changes if (topics := list(some))]


def owned(client: str, had: Iterable[str], has: Iterable[str]) -> list[str]:
    """The partitions that a client says it owns as it joins: a cooperative assignor's steps."""
    was, now = set(had), set(has)
    changes = (("revoked", was - now), ("acquired", now - was))
    return [f"{client}: {what} {', '.join(sorted(some))}" for what, some in changes if some]


def grown(topic: str, before: int, after: int) -> str:
    """A topic that has more partitions than before."""
    return f"{topic}: {before} to {after} partitions"


def counted(topics: Iterable[str], what: str) -> list[str]:
    """``orders: 2 partitions new``, of the topics of partitions."""
    return [f"{topic}: {count(number, 'partition')} {what}" for topic, number in sorted(Counter(topics).items())]
