"""Positions at a log's end from which a group begins to read a partition without a committed offset: the effect of
auto.offset.reset=latest.

One reader for explanations and for the pipeline: `explain.offsets` feeds it events, `pipeline.tables.offset_skips` rows.

Rules:
1. The evidence is a ListOffsets of a member with the timestamp -1 (latest), and then its Fetch, or a commit of the group, at the
   offset that it was answered. A seek to the end looks the same.
2. What lies before it begins where the group had got to: the highest offset that it has committed, or that its members have fetched,
   and the records that came with that. A request that deletes offsets, or a deletion of the topic, makes the group new there; an
   expiry does not. A group that has not been there begins at the log's start, as far as answers have shown it, else at 0.
3. ``first``: a partition that was there as the group began to read the topic. Where to start was the user's choice, nothing is lost.
   ``grown``: one that the topic got afterwards, by answers to Metadata. ``reached``: one that the group has read before.
4. Whose partition a Fetch is of goes by client id and host, and by the topics of the member: another client has no say.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

__all__ = ["LATEST", "Beginning", "Beginnings", "How", "Reader"]

Reader = tuple[str, str]
"""Client id and host."""
How = Literal["first", "grown", "reached"]
LATEST = -1
"""The timestamp by which ListOffsets asks for the log's end."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """``reader`` begins at ``to_offset``; no member was given what lies from ``from_offset`` on."""

    reader: Reader
    log: str
    from_offset: int
    to_offset: int
    ts_ms: int
    order: int
    how: How


class Beginnings:
    """One group. Partitions are named as their directories are (``orders-0``). Calls follow the order of the events; moments are ms of
    the broker's clock, ``order`` counts events."""

    def __init__(self) -> None:
        self._topics: dict[Reader, set[str]] = {}
        self._sizes: dict[str, int] = {}
        self._at_first: dict[str, int | None] = {}
        """The number of partitions of a topic when the group began to read it; None before a response has it."""
        self._listed: dict[str, dict[Reader, int]] = {}
        self._reached: dict[str, int] = {}
        self._committed: set[str] = set()
        self._starts: dict[str, int] = {}

    def member(self, reader: Reader, topics: Iterable[str]) -> None:
        """A member of the group, and what it subscribes to."""
        self._topics.setdefault(reader, set()).update(topics)

    def has(self, topic: str, partitions: int) -> None:
        """An answer to Metadata shows so many partitions."""
        self._sizes[topic] = max(partitions, self._sizes.get(topic, 0))
        if topic in self._at_first and self._at_first[topic] is None:
            self._at_first[topic] = partitions

    def listed(self, reader: Reader, log: str, offset: int | None) -> None:
        """A ListOffsets was answered; ``offset`` None: it did not ask for the end, or was refused."""
        if self._reads(reader, log):
            asked = self._listed.setdefault(log, {})
            asked.pop(reader, None)
            if offset is not None and offset >= 0 and log not in self._committed:
                asked[reader] = offset

    def fetched(
        self, reader: Reader, log: str, offset: int, records: int, log_start: int | None, ts_ms: int, order: int
    ) -> Beginning | None:
        """A Fetch from ``offset`` was answered without an error, with so many records."""
        if not self._reads(reader, log):
            return None
        if log_start is not None and log_start >= 0:
            self._starts[log] = log_start
        listed = self._listed.get(log, {}).pop(reader, None)
        beginning = self._begins(reader, log, offset, ts_ms, order) if listed == offset else None
        self._reached[log] = max(self._reached.get(log, 0), offset + records)
        return beginning

    def committed(self, log: str, offset: int, ts_ms: int, order: int) -> Beginning | None:
        """The group has a committed offset."""
        asked = self._listed.pop(log, {})
        who = next((reader for reader, listed in asked.items() if listed == offset), None)
        beginning = None if who is None else self._begins(who, log, offset, ts_ms, order)
        self._committed.add(log)
        self._reached[log] = max(self._reached.get(log, 0), offset)
        return beginning

    def deleted(self, log: str, reason: str) -> None:
        """The group's offset was deleted; ``reason`` as in the journal's ``offsets_deleted``."""
        self._committed.discard(log)
        if reason in ("requested", "topic deleted"):
            self._reached.pop(log, None)
        if reason == "topic deleted":
            topic = log.rpartition("-")[0]
            self._starts.pop(log, None)
            self._sizes.pop(topic, None)
            self._at_first.pop(topic, None)

    def _reads(self, reader: Reader, log: str) -> bool:
        """Whether it is a member's; with the first of a topic the group begins to read it."""
        topic = log.rpartition("-")[0]
        if topic not in self._topics.get(reader, ()):
            return False
        self._at_first.setdefault(topic, self._sizes.get(topic))
        return True

    def _begins(self, reader: Reader, log: str, offset: int, ts_ms: int, order: int) -> Beginning | None:
        if log in self._committed:
            return None
        topic, _, partition = log.rpartition("-")
        reached, first = self._reached.get(log), self._at_first.get(topic)
        how: How = "first" if first is None or int(partition) < first else "grown"
        how = how if reached is None else "reached"
        begun = max(reached or 0, self._starts.get(log, 0))
        return Beginning(reader, log, begun, offset, ts_ms, order, how) if begun < offset else None
