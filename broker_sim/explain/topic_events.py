"""The topics that a group reads: who created, grew or deleted them, and whether a client has produced to them.

A consumer that subscribes to a misspelt name has the broker create this topic (auto.create.topics.enable): its group is Stable, reads
all of its partitions, and gets nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from broker_sim.explain.events import Event, names_in, number, text
from broker_sim.explain.model import Incident
from broker_sim.explain.phrases import count

__all__ = ["TopicEvents", "done_by", "nothing_to_read"]


def done_by(event: Event) -> str:
    """Originator of a ``topic`` event: ``CreateTopics of admin-1``."""
    api = text(event, "api")
    if api is None:
        return "the test, a command or HTTP"
    client = text(event, "client_id")
    return f"{api} of {client or 'a client without a name'}"


@dataclass(slots=True)
class _Change:
    ts_ms: int
    order: int
    topic: str
    action: str
    automatic: bool
    words: str


class TopicEvents:
    """Topic events of a journal, in its order."""

    def __init__(self) -> None:
        self._changes: list[_Change] = []
        self._produced: dict[str, None] = {}
        self._read: dict[str, None] = {}

    def read(self, topics: Iterable[str]) -> None:
        """Topics that a member of the group subscribes to, or is assigned."""
        self._read.update(dict.fromkeys(topics))

    def take(self, event: Event, ts_ms: int, order: int) -> None:
        """An event of any kind; ``order``: its number in the journal."""
        kind = event.get("event")
        if kind == "request" and event.get("api") == "Produce":
            self._produced.update((name.rpartition("-")[0], None) for name in names_in(event, "topics"))
        elif kind == "topic" and (topic := text(event, "topic")) is not None:
            action, total = text(event, "action") or "changed", number(event, "partitions") or 0
            automatic = event.get("automatic") is True
            if action == "created":
                how = "automatically, for" if automatic else "by"
                words = f"topic {topic} was created {how} {done_by(event)}, with {count(total, 'partition')}"
            else:
                words = f"topic {topic} was {action} by {done_by(event)}"
            self._changes.append(_Change(ts_ms, order, topic, action, automatic, words))

    def concerns(self, topic: str) -> bool:
        """Whether the group reads the topic, as far as its subscription is known."""
        return not self._read or topic in self._read

    def incidents(self) -> list[Incident]:
        """The creations and deletions of topics that the group reads. More partitions are no event of these: `Causes` has them."""
        return [
            Incident("topic", change.ts_ms, f"{change.words}{self._nothing_in(change)}", change.order)
            for change in self._changes
            if change.topic in self._read and change.action in ("created", "deleted")
        ]

    def nothing_to_read(self) -> list[str]:
        """A sentence for each topic of the group that a client's request created by the way, and that no client has produced to."""
        last = {change.topic: change for change in self._changes if change.topic in self._read}
        return [f"{change.words}{nothing}" for change in last.values() if (nothing := self._nothing_in(change))]

    def _nothing_in(self, change: _Change) -> str:
        if not change.automatic or change.topic in self._produced:
            return ""
        near = get_close_matches(change.topic, self._produced, 1)
        return "; no client has produced to it" + (f", only to {near[0]}" if near else "")


def nothing_to_read(events: Iterable[Event], topic: str) -> str:
    """Sentence about the client that created a topic by the way, if no client has produced to it since; "" for any other topic."""
    seen = TopicEvents()
    seen.read([topic])
    for order, event in enumerate(events):
        seen.take(event, number(event, "ts_ms") or 0, order)
    return "; ".join(seen.nothing_to_read())
