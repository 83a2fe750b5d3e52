"""The rebalances of a group from its records in ``__consumer_offsets``, without a journal: one ``Generation`` for each.

    reader = Generations()
    for record in records:                   # the group's, tombstones among them, in the order of the log
        reader.take(record)
    reader.generations

Rules:
1. A record is a generation if its number differs from the record before, or if it is the first after a tombstone; generation 0 is a
   group that has only committed. A rebalance whose assignment was never stored has no record, and compaction removes records:
   ``missing`` is the number of generations in between.
2. A record has the time since when the group is in its state: the end of the join phase. It has neither its beginning nor why members
   departed.
3. A generation lasted until the next record of another one, or of a group without members, or the tombstone: at most. That record has
   the time of its state, which is more exact than its timestamp; before it the group may have been in PreparingRebalance.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

__all__ = ["Change", "Generation", "Generations", "GroupMetadataRecord", "StoredMember"]

Change = Literal["joined", "departed", "metadata_changed", "rejoined", "unknown"]
"""The difference from the record before: members joined (static ones may have rejoined with a new id), members departed, the same ones
with other subscriptions or assignments, the same ones again."""


@dataclass(frozen=True, slots=True)
class StoredMember:
    """A member as a group's record holds it; ``topics`` and ``assigned`` (``orders-0``) are empty unless it is a consumer."""

    member: str
    client_id: str | None = None
    instance: str | None = None
    topics: tuple[str, ...] = ()
    assigned: tuple[str, ...] = ()
    session_ms: int | None = None
    rebalance_ms: int | None = None


@dataclass(frozen=True, slots=True)
class GroupMetadataRecord:
    """A group's record: when it was written, since when the group is in its state (None before value v2), its generation (None: a
    tombstone) and its members; ``place``: its offset in the log."""

    ts_ms: int | None
    state_ms: int | None
    generation: int | None
    members: tuple[StoredMember, ...] = ()
    place: int | None = None

    @property
    def since_ms(self) -> int | None:
        """Since when the state is valid, in ms since 1970; see rule 3."""
        return min((at for at in (self.state_ms, self.ts_ms) if at is not None), default=None)


@dataclass(slots=True, eq=False)
class Generation:
    """A generation that left a record. ``before``, ``old``: the generation and the members of the record before, None if there is
    none. ``closed_ms``: the end of its join phase; ``stored_ms``: when its record was written; ``left_ms``: rule 3."""

    generation: int
    before: int | None
    old: tuple[StoredMember, ...] | None
    new: tuple[StoredMember, ...]
    change: Change
    who: list[str] | None
    closed_ms: int | None
    stored_ms: int | None
    left_ms: int | None = None
    place: int | None = None
    before_stored_ms: int | None = None
    """Time at which the record before was written: this rebalance began later."""

    @property
    def missing(self) -> int | None:
        """The number of generations before it without a record; None if unknown."""
        return None if self.before is None else max(self.generation - self.before - 1, 0)

    @property
    def whole(self) -> bool:
        """Whether the log has the record of the previous generation."""
        return self.old is not None and self.generation - 1 == self.before


class Generations:
    """Reads the records of one group."""

    def __init__(self) -> None:
        self.generations: list[Generation] = []
        self._last: GroupMetadataRecord | None = None
        self._lasting: list[Generation] = []  # whose end is unknown

    def comes_over(self, record: GroupMetadataRecord) -> None:
        """A consumer group is downgraded to a classic one with this record: no generation, but the state before the next one."""
        self._last = record

    def take(self, record: GroupMetadataRecord) -> None:
        """Add the group's next record, in the log's order."""
        last, self._last = self._last, record
        another = last is None or record.generation != last.generation
        if (another or not record.members) and record.since_ms is not None:
            for member in self._lasting:
                member.left_ms = record.since_ms
            self._lasting.clear()
        if another and record.generation is not None and record.generation > 0:
            self.generations.append(_generation(last, record, record.generation))
            self._lasting.append(self.generations[-1])


def _generation(last: GroupMetadataRecord | None, record: GroupMetadataRecord, generation: int) -> Generation:
    before = 0 if generation == 1 else None
    old: tuple[StoredMember, ...] | None = None
    if last is not None and last.generation is not None:
        before, old = last.generation, last.members
    elif last is not None or generation == 1:
        old = ()  # it begins anew
    change: Change = "unknown"
    who: list[str] | None = None
    if old is not None:
        change, who = _change(old, record.members)
    closed_ms = record.state_ms
    if closed_ms is None and not record.members:
        closed_ms = record.ts_ms
    return Generation(
        generation,
        before,
        old,
        record.members,
        change,
        who,
        closed_ms,
        record.ts_ms,
        place=record.place,
        before_stored_ms=None if last is None else last.ts_ms,
    )


def _change(old: Iterable[StoredMember], new: Iterable[StoredMember]) -> tuple[Change, list[str]]:
    """The difference of the members, and those that joined or departed."""
    was, now = {member.member: member for member in old}, {member.member: member for member in new}
    joined, departed = [name for name in now if name not in was], [name for name in was if name not in now]
    if joined:
        back = {now[name].instance for name in joined} & {was[name].instance for name in departed} - {None}
        return ("joined", joined) if back or not departed else ("unknown", joined + departed)
    if departed:
        return "departed", departed
    same = _topics(was.values()) == _topics(now.values()) and _assigned(was.values()) == _assigned(now.values())
    return "rejoined" if same else "metadata_changed", []


def _topics(members: Iterable[StoredMember]) -> set[str]:
    return {topic for member in members for topic in member.topics}


def _assigned(members: Iterable[StoredMember]) -> list[str]:
    return sorted(partition for member in members for partition in member.assigned)
