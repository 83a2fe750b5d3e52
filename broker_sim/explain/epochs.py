"""What happened to a consumer group of KIP-848, in words: who moved its epoch, and who waited for whose partitions, and for how long.

It is read from the journal's events ``epochs``. A partition that a member should have and hasn't is a wait; the member that has it, or
has been told to give it up and hasn't said so, is the one that it waits for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from broker_sim.common.text import clock, duration_text
from broker_sim.explain.events import Event, items, number, table, text
from broker_sim.explain.phrases import count, joined

__all__ = ["Told", "told"]

_WORTH_TELLING_MS = 100
"""Waits that are shorter are the usual step from one heartbeat to the next, on clocks that don't stand still."""

_Unit = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Told:
    """One thing that happened, and when."""

    ts_ms: int
    text: str


@dataclass(frozen=True, slots=True)
class _Member:
    name: str
    has: frozenset[_Unit]
    gives_up: frozenset[_Unit]
    lacks: frozenset[_Unit]


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

    def take(self, event: Event) -> None:
        ts_ms = number(event, "ts_ms") or 0
        before = dict(self.known)
        whole = len(items(event, "members")) == (number(event, "size") or 0)
        found = dict(self._members(event))
        self.known = found if whole else {**self.known, **found}
        self.state, self.log = text(event, "state") or "", text(event, "log") or self.log
        epoch = number(event, "group_epoch")
        if epoch is not None and epoch != self.epoch and (self.epoch is not None or epoch > 0):
            self.epoch = epoch
            self.out.append(Told(ts_ms, f"epoch {epoch}: {self._why(event, before)}"))
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
                    self.names[member_id], _units(row, "assignment"), _units(row, "gives_up"), _units(row, "lacks")
                ),
            )

    def _why(self, event: Event, before: dict[str, _Member]) -> str:
        cause = table(event, "cause")
        came = [self.names[each] for each in self.known if each not in before]
        gone = [self.names.get(each, each) for each in before if each not in self.known]
        said: list[str] = []
        if came:
            said.append(f"{joined(came)} joined")
        if gone and text(cause, "timer") == "session":
            said.append(f"{joined(gone)} was out, silent for longer than its session")
        elif gone and text(cause, "timer") == "revocation":
            said.append(
                f"{joined(gone)} was out, as it had not given up what it was told to within its rebalance timeout"
            )
        elif gone:
            said.append(f"{joined(gone)} left")
        return "; ".join(said) or "what its members read has changed"

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


def told(events: Iterable[Event], group: str) -> tuple[str, list[Told]] | None:
    """How the group stands, and what happened to it; None for one that has been no consumer group."""
    reader, last_ms, met = _Reader(group), 0, False
    for event in events:
        if isinstance(event, dict):
            last_ms = max(last_ms, number(event, "ts_ms") or 0)
            if event.get("event") == "epochs" and event.get("group") == group:
                met = True
                reader.take(event)
    if not met:
        return None
    things = reader.end(last_ms)
    where = f" on {reader.log}" if reader.log else ""
    standing = f"{reader.state}, epoch {reader.epoch or 0}, {count(len(reader.known), 'member')}"
    return f"Consumer group {group}{where}: {standing}.", things


def lines(things: Iterable[Told]) -> list[str]:
    """One line for each."""
    return [f"{clock(one.ts_ms)}  {one.text}" for one in things]
