"""The real group beside the simulated one: the same tables of both, event by event, and how alike they are.

Rules:
1. An event is a row of a table: a member that joined, rejoined (with another id) or departed, an offset that decreased,
   offsets that were deleted, the group's end, a member that stood still. Names of clients and partitions are compared, the ids that
   brokers draw are not.
2. Events are paired in their order, by what they are (`Event.what`): a longest common subsequence. A pair may be some seconds apart.
3. The figure is 2 x pairs / all events of both. The differences between the pairs' times are reported beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from broker_sim.common.text import duration_text
from broker_sim.explain.phrases import count
from broker_sim.reproduce.group_timeline import GroupGeneration, GroupTimeline, log_text

__all__ = ["ENOUGH", "TAIL_MS", "Event", "Pair", "Similarity", "compare", "events_of"]


TAIL_MS = 15_000
"""The simulated history is read for so long behind the log's end: what happens later than in the log is paired; other events there,
of which the log does not show whether they followed, do not count."""
ENOUGH = 0.5
"""The least similarity of a reproduction."""


@dataclass(frozen=True)
class Event:
    """``at_ms``: since the timeline's begin; ``what``: how it is paired; ``text``: for people."""

    at_ms: int
    what: tuple[object, ...]
    text: str


@dataclass(frozen=True)
class Pair:
    """An event of one, of the other, or of both."""

    real: Event | None
    simulated: Event | None

    @property
    def apart_ms(self) -> int | None:
        if self.real is None or self.simulated is None:
            return None
        return self.simulated.at_ms - self.real.at_ms


@dataclass(frozen=True)
class Similarity:
    """``commits``: how many committed offsets a minute, real and simulated."""

    pairs: list[Pair]
    commits: tuple[float, float]

    @property
    def both(self) -> int:
        return sum(pair.apart_ms is not None for pair in self.pairs)

    @property
    def share(self) -> float:
        """1.0 where every event has its counterpart; 0.0 without any event."""
        events = sum((pair.real is not None) + (pair.simulated is not None) for pair in self.pairs)
        return 2 * self.both / events if events else 0.0

    @property
    def is_enough(self) -> bool:
        """Whether the histories are similar enough for a reproduction: `ENOUGH`, and one pair or more."""
        return self.both > 0 and self.share >= ENOUGH

    @property
    def apart_ms(self) -> int:
        """The median of how far the two of a pair are apart."""
        apart = [abs(pair.apart_ms) for pair in self.pairs if pair.apart_ms is not None]
        return round(median(apart)) if apart else 0

    def text(self) -> str:
        real = sum(pair.real is not None for pair in self.pairs)
        simulated = sum(pair.simulated is not None for pair in self.pairs)
        if not self.pairs:
            return "similarity 0%: neither the log nor the simulation has events that could be compared"
        near = f", {duration_text(self.apart_ms)} apart (median)" if self.both else ""
        return (
            f"similarity {self.share:.0%}: {self.both} pairs of {real} events in the log and {simulated} in the simulation{near};"
            f" committed offsets per minute: {self.commits[0]:.0f} and {self.commits[1]:.0f}"
        )


def events_of(timeline: GroupTimeline) -> list[Event]:
    """The events of a group that are compared, in order of their times."""
    events = [*_generations(timeline), *_offsets(timeline)]
    return sorted(events, key=lambda event: event.at_ms)


def _generations(timeline: GroupTimeline) -> list[Event]:
    result = []
    for before, record in pairwise([_start(timeline), *timeline.records]):
        old, new = (
            {entry.member_id: timeline.names[entry.member_id] for entry in moment.entries}
            for moment in (before, record)
        )
        came = {name for member_id, name in new.items() if member_id not in old}
        departed = {name for member_id, name in old.items() if member_id not in new} - (set(new.values()) - came)
        at_ms = record.at_ms - timeline.from_ms
        if record.generation is None:
            result.append(Event(at_ms, ("ended",), "the group ended"))
            continue
        of = f"generation {record.generation}, {count(len(set(new.values())), 'member')}"
        for name in sorted(came | departed):
            back = name in set(old.values())
            what = "removed" if name not in came else "rejoined" if back else "joined"
            result.append(Event(at_ms, (what, name), f"{name} {what}: {of}"))
        if before.generation != record.generation and not came and not departed:
            result.append(Event(at_ms, ("again",), f"the same members: {of}"))
    return result


_SHOWN = ("delivery", "not_revoked", "not_ready", "transaction", "decided", "ended")
"""Acts that are events of the log themselves. The others are what brings events about."""
_NOBODY = GroupGeneration(0, 0, 0, None, (), None)


def _start(timeline: GroupTimeline) -> GroupGeneration:
    return timeline.begin or _NOBODY


def _offsets(timeline: GroupTimeline) -> list[Event]:
    result, stood = [], dict(timeline.before)
    deleted: dict[int, list[str]] = {}
    for commit in timeline.commits:
        at_ms, log = commit.at_ms - timeline.from_ms, f"{commit.log[0]}-{commit.log[1]}"
        if commit.offset is None:
            if commit.log in stood:
                deleted.setdefault(at_ms // 1000, []).append(log)
            stood.pop(commit.log, None)
            continue
        if commit.log in stood and commit.offset < stood[commit.log]:
            by = stood[commit.log] - commit.offset
            result.append(
                Event(at_ms, ("back", log), f"{log} decreased from {stood[commit.log]} to {commit.offset}, by {by}")
            )
        stood[commit.log] = commit.offset
    for second, logs in deleted.items():
        result.append(
            Event(second * 1000, ("deleted", tuple(sorted(logs))), f"offsets deleted: {', '.join(sorted(logs))}")
        )
    for act in timeline.acts:
        if act.kind == "hang" and timeline.protocol == "classic":
            text = f"{act.who} committed nothing for {duration_text(act.for_ms)}"
            result.append(Event(act.at_ms - timeline.from_ms, ("hang", act.who), text))
        elif act.kind == "jam":
            text = f"nothing was committed for {duration_text(act.for_ms)}: {act.why}"
            result.append(Event(act.at_ms - timeline.from_ms, ("jam",), text))
        elif act.kind in ("move", "epoch"):
            # the simulated log has no lines about elections: both are a new epoch
            what = "the coordinator moved" if act.kind == "move" else "the coordinator's broker was re-elected"
            result.append(Event(act.at_ms - timeline.from_ms, ("epoch",), f"{what}: {act.why}"))
        elif act.kind in _SHOWN:
            places = tuple(log_text(log) for log, _ in act.offsets)
            what = f"{act.who}: {act.why}" if act.who else act.why
            result.append(Event(act.at_ms - timeline.from_ms, (act.kind, act.cause, places), what))
    return result


def compare(real: GroupTimeline, simulated: GroupTimeline) -> Similarity:
    """Pair the events of the incident with those of its reproduction, and compute their similarity."""
    real_events, other = events_of(real), events_of(simulated)
    last_ms = real.to_ms - real.from_ms
    rates = [
        60_000
        * sum(commit.offset is not None and commit.at_ms - timeline.from_ms <= last_ms for commit in timeline.commits)
        / max(last_ms, 1)
        for timeline in (real, simulated)
    ]
    pairs = [
        pair
        for pair in _paired(real_events, other)
        if pair.real is not None or (pair.simulated is not None and pair.simulated.at_ms <= last_ms)
    ]
    return Similarity(pairs, (rates[0], rates[1]))


def _paired(real: list[Event], other: list[Event]) -> list[Pair]:
    """A longest common subsequence, and what is left of both in between."""
    longest = [[0] * (len(other) + 1) for _ in range(len(real) + 1)]
    for i in range(len(real) - 1, -1, -1):
        for j in range(len(other) - 1, -1, -1):
            same = real[i].what == other[j].what
            longest[i][j] = longest[i + 1][j + 1] + 1 if same else max(longest[i + 1][j], longest[i][j + 1])
    pairs: list[Pair] = []
    i = j = 0
    while i < len(real) or j < len(other):
        if i < len(real) and j < len(other) and real[i].what == other[j].what:
            pairs.append(Pair(real[i], other[j]))
            i, j = i + 1, j + 1
        elif j == len(other) or (i < len(real) and longest[i + 1][j] >= longest[i][j + 1]):
            pairs.append(Pair(real[i], None))
            i += 1
        else:
            pairs.append(Pair(None, other[j]))
            j += 1
    return pairs
