"""What happened to a consumer group of KIP-848, in words: who moved its epoch, and who waited for whose partitions, and for how long.

It is read from the journal's events ``epochs``. A partition that a member should have and hasn't is a wait; the member that has it, or
has been told to give it up and hasn't said so, is the one that it waits for. Why an epoch moved is told as far as a step shows it: what
has changed of members, subscriptions, partitions, assignor; where none of them has, that is said.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from broker_sim.common.text import clock, duration_text
from broker_sim.explain.events import Event, items, names_in, number, table, text
from broker_sim.explain.phrases import count, joined, quoted

__all__ = ["Told", "told"]

_WORTH_TELLING_MS = 100
"""Waits that are shorter are the usual step from one heartbeat to the next, on clocks that don't stand still."""

_SHOWN = 4
"""Partitions that a sentence names."""

_Unit = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Told:
    """One thing that happened, and when; ``request``: the number of the request that it came with, which orders things of one ms."""

    ts_ms: int
    text: str
    request: int = 0


@dataclass(frozen=True, slots=True)
class _Member:
    name: str
    has: frozenset[_Unit]
    gives_up: frozenset[_Unit]
    lacks: frozenset[_Unit]
    client_id: str = ""
    instance: str | None = None
    topics: tuple[str, ...] = ()
    classic: bool = False

    @property
    def all(self) -> frozenset[_Unit]:
        return self.has | self.gives_up | self.lacks


@dataclass(slots=True)
class _Wait:
    since_ms: int
    unit: _Unit
    owner: str


class _Reader:
    def __init__(self, group: str) -> None:
        self.group = group
        self.known: dict[str, _Member] = {}
        self.epoch: int | None = None
        self.state = ""
        self.log = ""
        self.out: list[Told] = []
        self.waits: dict[tuple[str, _Unit], _Wait] = {}
        self.names: dict[str, str] = {}
        self.assignor: str | None = None
        self.ended_ms = 0
        """When it was a group by epochs no more, where that is its state."""
        self.clients: dict[int, str] = {}
        """Whose a LeaveGroup is, by its request's number."""

    def leave(self, event: Event) -> None:
        """A LeaveGroup for the group: of a member, or of somebody who removes one."""
        self.clients[number(event, "request") or 0] = text(event, "client_id") or ""

    def take(self, event: Event) -> None:
        ts_ms = number(event, "ts_ms") or 0
        before = dict(self.known)
        whole, earlier = len(items(event, "members")) == (number(event, "size") or 0), set(self.names)
        found = dict(self._members(event))
        self.known = found if whole else {**self.known, **found}
        self.state, self.log = text(event, "state") or "", text(event, "log") or self.log
        if self.state == "Dead":
            self.out.append(Told(ts_ms, self._end(event, before), number(table(event, "cause"), "request") or 0))
            self.ended_ms = ts_ms
            return
        epoch = number(event, "group_epoch")
        if epoch is not None and epoch != self.epoch and (self.epoch is not None or epoch > 0):
            self.epoch = epoch
            request = number(table(event, "cause"), "request") or 0
            self.out.append(Told(ts_ms, f"epoch {epoch}: {self._why(event, before, earlier)}", request))
        self.assignor = text(event, "assignor") or self.assignor
        self._look_for_waits(ts_ms)

    def _members(self, event: Event) -> Iterable[tuple[str, _Member]]:
        rows = [row for row in items(event, "members") if isinstance(row, dict)]
        clients = [text(row, "client_id") for row in rows]
        for row in rows:
            member_id, client = text(row, "member") or "?", text(row, "client_id")
            alone = client is not None and clients.count(client) == 1
            self.names[member_id] = text(row, "instance") or (client if alone and client else member_id)
            yield (
                member_id,
                _Member(
                    self.names[member_id],
                    _units(row, "assignment"),
                    _units(row, "gives_up"),
                    _units(row, "lacks"),
                    client or "",
                    text(row, "instance"),
                    tuple(names_in(row, "topics")),
                    text(row, "protocol") == "classic",
                ),
            )

    def _why(self, event: Event, before: dict[str, _Member], earlier: set[str]) -> str:
        """``earlier``: the ids of all that have been members."""
        came = [each for each in self.known if each not in before]
        gone = {one.instance or each: each for each, one in before.items() if each not in self.known}
        back = [each for each in came if self.known[each].instance in gone]
        for each in back:
            del gone[self.known[each].instance or ""]
        over = [] if before else [each for each in came if self.known[each].classic]
        came = [each for each in came if each not in over]
        new = [self.names[each] for each in came if each not in back and each not in earlier]
        again = [self.names[each] for each in came if each not in back and each in earlier]
        said = [
            *([f"{joined(new)} joined"] if new else []),
            *([f"{joined(again)} joined again"] if again else []),
            *(
                [f"the classic group went over to it with {joined([self.names[each] for each in over])}"]
                if over
                else []
            ),
            *(f"{self.names[each]} came back under another id" for each in back),
            *([self._gone(table(event, "cause"), [before[each] for each in gone.values()])] if gone else []),
        ]
        return "; ".join(said) or self._changed(event, before)

    def _end(self, event: Event, before: dict[str, _Member]) -> str:
        """What became of the group, which is none by epochs from here on."""
        cause = table(event, "cause")
        if cause.get("kind") == "unload":
            return "the group's coordinator was unloaded"
        if text(cause, "api") == "DeleteGroups":
            return "the group was deleted"
        classic = [one.name for one in before.values() if one.classic]
        if not classic:
            return "the group ceased to exist"
        gone = [one.name for one in before.values() if not one.classic]
        return f"the group went over to the classic protocol with {joined(classic)}" + (
            f", as {joined(gone)} {'was' if len(gone) == 1 else 'were'} gone" if gone else ""
        )

    def _gone(self, cause: Event, gone: list[_Member]) -> str:
        names = joined([one.name for one in gone])
        timer, api = text(cause, "timer"), text(cause, "api")
        out = {
            "session": "silent for longer than its session",
            "revocation": "as it had not given up what it was told to within its rebalance timeout",
            "join": "as it had not joined again within its rebalance timeout",
        }.get(timer or "")
        if out is not None:
            return f"{names} was out, {out}"
        client = self.clients.get(number(cause, "request") or 0)
        if api == "LeaveGroup" and not any(one.classic and one.client_id == client for one in gone):
            return f"{names} was removed by a LeaveGroup" + (f" of {quoted(client)}" if client else "")
        return f"{names} left" if api is not None else f"{names} is no member any more"

    def _changed(self, event: Event, before: dict[str, _Member]) -> str:
        """What else than its members has moved its epoch."""
        others = [
            f"{one.name} subscribes to {joined(one.topics)} now (before: {joined(before[each].topics)})"
            for each, one in self.known.items()
            if each in before and one.topics != before[each].topics and one.topics and before[each].topics
        ]
        if others:
            return "; ".join(others)
        was, now = (frozenset[_Unit]().union(*(one.all for one in known.values())) for known in (before, self.known))
        if now - was or was - now:
            moved = [(now - was, "new to its members"), (was - now, "no longer theirs")]
            return "; ".join(f"{_places(units)} {_are(units)} {what}" for units, what in moved if units)
        if not before and not self.known:
            return "the group was made"
        cause, assignor = table(event, "cause"), text(event, "assignor")
        if text(cause, "timer") == "patterns":
            return "its members' regular expressions match other topics than before"
        if assignor and self.assignor and assignor != self.assignor:
            return f"its assignor is {assignor} now, it was {self.assignor}"
        return "its members' topics or subscriptions have changed (the journal doesn't say how)"

    def _look_for_waits(self, ts_ms: int) -> None:
        owners: dict[_Unit, str] = {}
        for member_id, member in self.known.items():
            owners.update(dict.fromkeys([*member.has, *member.gives_up], member_id))
        lacking = {
            (member_id, unit): owners[unit]
            for member_id, member in self.known.items()
            for unit in sorted(member.lacks)
            if unit in owners and owners[unit] != member_id
        }
        over: dict[tuple[str, str, int], list[_Unit]] = {}
        for key, wait in list(self.waits.items()):
            if key not in lacking:
                del self.waits[key]
                over.setdefault((key[0], wait.owner, wait.since_ms), []).append(wait.unit)
        for (member_id, owner, since_ms), units in over.items():
            self._tell(ts_ms, member_id, owner, since_ms, units, over=True)
        for key, owner in lacking.items():
            self.waits.setdefault(key, _Wait(ts_ms, key[1], owner))

    def _tell(self, ts_ms: int, member: str, owner: str, since_ms: int, units: list[_Unit], *, over: bool) -> None:
        if ts_ms - since_ms < _WORTH_TELLING_MS:
            return
        what = joined([f"{topic}-{partition}" for topic, partition in units])
        who, whom = self.names.get(member, member), self.names.get(owner, owner)
        time = duration_text(ts_ms - since_ms)
        words = f"{who} waited {time} for {what}, which {whom} had not given up"
        if not over:
            words = f"{who} has waited {time} for {what}, which {whom} has not given up"
        self.out.append(Told(ts_ms, words))

    def end(self, last_ms: int) -> list[Told]:
        """What there is to tell at the journal's end."""
        still: dict[tuple[str, str, int], list[_Unit]] = {}
        for (member, _), wait in self.waits.items():
            still.setdefault((member, wait.owner, wait.since_ms), []).append(wait.unit)
        for (member, owner, since_ms), units in still.items():
            self._tell(last_ms, member, owner, since_ms, units, over=False)
        return self.out


def _units(row: Event, key: str) -> frozenset[_Unit]:
    return frozenset(
        (str(topic), one) for topic, numbers in table(row, key).items() if isinstance(numbers, list) for one in numbers
    )


def _places(units: Iterable[_Unit]) -> str:
    """``orders-4 and orders-5``; of many so many of their topics."""
    logs = sorted(units)
    shown = [f"{topic}-{partition}" for topic, partition in logs]
    if len(shown) <= _SHOWN:
        return joined(shown)
    return f"{len(shown)} partitions of {joined(list(dict.fromkeys(topic for topic, _ in logs))[:_SHOWN])}"


def _are(units: frozenset[_Unit]) -> str:
    return "is" if len(units) == 1 else "are"


def told(events: Iterable[Event], group: str) -> tuple[str, list[Told]] | None:
    """How the group stands, and what happened to it; None for one that has been no consumer group."""
    reader, last_ms, met = _Reader(group), 0, False
    for event in events:
        if isinstance(event, dict):
            last_ms = max(last_ms, number(event, "ts_ms") or 0)
            if event.get("group") != group:
                continue
            if event.get("event") == "epochs":
                met = True
                reader.take(event)
            elif event.get("api") == "LeaveGroup" and event.get("event") == "request":
                reader.leave(event)
    if not met:
        return None
    things = reader.end(last_ms)
    where = f" on {reader.log}" if reader.log else ""
    if reader.state == "Dead":
        return (
            f"Consumer group {group}{where}: until {clock(reader.ended_ms)}, the last epoch was {reader.epoch or 0}.",
            things,
        )
    standing = f"{reader.state}, epoch {reader.epoch or 0}, {count(len(reader.known), 'member')}"
    return f"Consumer group {group}{where}: {standing}.", things


def lines(things: Iterable[Told]) -> list[str]:
    """One line for each."""
    return [f"{clock(one.ts_ms)}  {one.text}" for one in things]
