"""What happened to an epoch-based group, in words: which members raised its epoch, and which waited for whose partitions or tasks.

It is read from the journal's events ``epochs``. A partition that a member should have and hasn't is a wait; the member that has it, or
has been asked to revoke it and has not acknowledged that, is the one that it waits for. Of a streams group (KIP-1071) these are tasks:
an active one waits for the member that has it as active, and any for another member of the same process that has it in any role. What
its topology lacks is also described. Why an epoch moved is described as far as a step shows it: what has changed of members,
subscriptions, partitions, assignor; where none of them has, that is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from broker_sim.common.text import clock, duration_text
from broker_sim.explain.causes import BY_HANDLE, HANDLE
from broker_sim.explain.epoch_steps import ACTIVE, EpochStep, EpochSteps, MemberSnapshot, Unit
from broker_sim.explain.events import Event, items, number, table, text
from broker_sim.explain.phrases import Advance, an, caller, count, joined, shortened

__all__ = ["TimelineEntry", "holding_words", "summary"]

_WORTH_TELLING_MS = 100
"""Waits that are shorter are the usual step from one heartbeat to the next, on clocks that don't stand still."""
_DEAD = "Dead"
LEFT_FOR_A_WHILE = -2
"""The member epoch of a static member that has left and may come back."""
_OUT = {
    "session": "its session expired",
    "revocation": "it had not revoked what it was to give up within its rebalance timeout",
    "join": "it did not rejoin within its rebalance timeout",
    "unsynced": "it sent no SyncGroup within its rebalance timeout",
}
"""Why a member was removed, by the timer that removed it."""


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One thing that happened, and when; ``request``: the number of the request that it came with, which orders things of one ms;
    ``kind``: as that of a paragraph."""

    ts_ms: int
    text: str
    request: int = 0
    kind: str = "rebalance"
    advance: Advance | None = None


@dataclass(slots=True)
class _Wait:
    since_ms: int
    unit: Unit
    owner: str


class _EpochReader:
    def __init__(self, group: str, statics: Mapping[str, str]) -> None:
        self.group, self.statics = group, statics
        self.topology: tuple[int | None, str] = (None, "")
        self.stale: set[str] = set()
        self.steps = EpochSteps()
        self.state = ""
        self.log = ""
        self.out: list[TimelineEntry] = []
        self.waits: dict[tuple[str, Unit], _Wait] = {}
        self.names: dict[str, str] = {}
        self.request = 0
        """The last one that has led to an event."""
        self.ended: tuple[int, int] | None = None
        """When it stopped being an epoch-based group, and its last epoch, if it has."""
        self.clients: dict[int, str] = {}
        """Whose a LeaveGroup or DeleteGroups is, by its request's number."""
        self.last: dict[str, tuple[str, int, int]] = {}
        """Member -> the API, time and connection of its last request."""
        self.closed: dict[int, int] = {}
        """Connection -> when it was closed."""

    def asked(self, event: Event) -> None:
        """A request for the group: of a member, or of a client that removes one."""
        if event.get("api") in ("LeaveGroup", "DeleteGroups"):
            self.clients[number(event, "request") or 0] = text(event, "client_id") or ""
        member = text(event, "member")
        if member is not None:
            self.last[member] = text(event, "api") or "?", number(event, "ts_ms") or 0, number(event, "connection") or 0

    def connection(self, event: Event) -> None:
        """A connection was opened or closed."""
        if event.get("action") == "closed":
            self.closed[number(event, "connection") or 0] = number(event, "ts_ms") or 0

    def take(self, event: Event) -> None:
        ts_ms = number(event, "ts_ms") or 0
        self.request = number(table(event, "cause"), "request") or self.request
        earlier = set(self.names)
        step = self.steps.take(event)
        self._name(event)
        self.state, self.log = step.state, text(event, "log") or self.log
        if step.state == _DEAD:
            self._note(ts_ms, self._end(step))
            self.ended = ts_ms, step.epoch_before or 0
            self.topology = None, ""
            self.stale.clear()
            self.waits.clear()
            return
        self.ended = None
        if step.moved:
            self._note(ts_ms, f"epoch {step.epoch}: {self._why(step, earlier)}")
        else:
            self._note_static(step)
        self._check_topology(event, ts_ms)
        self._update_waits(ts_ms)

    def _note_static(self, step: EpochStep) -> None:
        """Static members that left for a while, or came back under another member id: neither moves the epoch."""
        for name, holder in step.after.items():
            was = step.before.get(name)
            if holder.epoch == LEFT_FOR_A_WHILE and was is not None and was.epoch != LEFT_FOR_A_WHILE:
                kept = "its partitions stay assigned to it until its session expires"
                self._note(step.ts_ms, f"{self.names[name]} left for a while, as static members do: {kept}")
        for new, old in step.back.items():
            clients = [
                f"{side.client_id or 'a client'} at {side.client_host or '?'}"
                for side in (step.after[new], step.before[old])
            ]
            instance = step.after[new].instance
            words = f"the static member {self.names[new]} rejoined with another member id"
            if clients[0] != clients[1]:
                words = f"{clients[0]} replaced {clients[1]}: it joined with the same group.instance.id, {instance}"
            self._note(step.ts_ms, f"{words}; the epoch did not move")

    def _note(self, ts_ms: int, words: str) -> None:
        self.out.append(TimelineEntry(ts_ms, words, self.request))

    @property
    def known(self) -> dict[str, MemberSnapshot]:
        """The members as last shown, by member id."""
        return self.steps.known

    def _name(self, event: Event) -> None:
        """Name the members that an event shows: by their instance, or by their client if it has one member alone."""
        rows = [row for row in items(event, "members") if isinstance(row, dict)]
        clients = [text(row, "client_id") for row in rows]
        for row, client in zip(rows, clients, strict=True):
            member_id = text(row, "member") or "?"
            alone = client is not None and clients.count(client) == 1
            self.names[member_id] = self.statics.get(member_id) or (client if alone and client else member_id)

    def _named(self, members: Iterable[str]) -> str:
        return joined([self.names[member] for member in members])

    def _why(self, step: EpochStep, earlier: set[str]) -> str:
        """``earlier``: the ids of all that have been members."""
        if step.found:
            return (
                f"the journal begins with {self._named(step.after)} in it"
                if step.after
                else "the journal begins with it"
            )
        new = [member for member in step.joined if member not in earlier]
        again = [member for member in step.joined if member in earlier]
        clauses = [
            *([f"{self._named(new)} joined"] if new else []),
            *([f"{self._named(again)} joined again"] if again else []),
            *([f"the group was upgraded from the classic protocol with {self._named(step.over)}"] if step.over else []),
            *(f"{self.names[member]} rejoined with another member id" for member in step.back),
            *([self._removed(step)] if step.removed else []),
        ]
        return "; ".join(clauses) or self._changed(step)

    def _end(self, step: EpochStep) -> str:
        """Why the group is not epoch-based from here on: it was unloaded, deleted or converted."""
        if step.unloaded:
            return "the group's coordinator was unloaded"
        if text(step.cause, "api") == "DeleteGroups":
            return f"the group was deleted{self._by(step)}"
        if not step.classic_members:
            return "the group became Dead"
        removed = (
            f", as {self._named(step.removed)} {'was' if len(step.removed) == 1 else 'were'} removed"
            if step.removed
            else ""
        )
        return f"the group was downgraded to the classic protocol with {self._named(step.classic_members)}{removed}"

    def _removed(self, step: EpochStep) -> str:
        names, api = self._named(step.removed), text(step.cause, "api")
        out = _OUT.get(text(step.cause, "timer") or "")
        if out is not None:
            return f"{names} was removed: {out}{self._end_of_session(step)}"
        client = self.clients.get(number(step.cause, "request") or 0)
        removed_members = [step.before[member] for member in step.removed]
        if api == "LeaveGroup" and not any(holder.classic and holder.client_id == client for holder in removed_members):
            return f"{names} was removed{self._by(step) or ' by a LeaveGroup'}"
        return f"{names} left" if api is not None else f"{names} is no longer a member"

    def _by(self, step: EpochStep) -> str:
        """Which client, or the test, sent the request of a step; "" where the journal lacks it."""
        request = number(step.cause, "request")
        if request == BY_HANDLE:
            return f" by {HANDLE}"
        client = self.clients.get(request or 0)
        return "" if client is None else f" by {caller(client)} ({text(step.cause, 'api')})"

    def _end_of_session(self, step: EpochStep) -> str:
        """When a member whose session expired was heard of last, and whether its connection had been closed."""
        last = self.last.get(step.removed[0])
        if text(step.cause, "timer") != "session" or last is None:
            return ""
        api, ts_ms, connection = last
        closed_ms = self.closed.get(connection)
        words = f" (its last request was {an(api)} at {clock(ts_ms)}"
        return words + (f"; its connection was closed at {clock(closed_ms)})" if closed_ms is not None else ")")

    def _changed(self, step: EpochStep) -> str:
        """What else than its members has moved its epoch."""
        others = [
            f"{self.names[member]} subscribes to {joined(now)} now (before: {joined(was)})"
            for member, (was, now) in step.subscribed.items()
            if was and now
        ]
        if others:
            return "; ".join(others)
        if step.kind != "streams" and (step.new_units or step.lost_units):
            moved = [(step.new_units, "newly assigned"), (step.lost_units, "no longer assigned")]
            return "; ".join(f"{_places(units)} {_are(units)} {what}" for units, what in moved if units)
        if not step.before and not step.after:
            return "the group was created"
        if step.kind == "streams":
            return "its topics or the settings of its assignment have changed"
        if text(step.cause, "timer") == "patterns":
            return "its members' regular expressions match other topics than before"
        if step.assignor_before and step.assignor and step.assignor != step.assignor_before:
            return f"its assignor is {step.assignor} now, it was {step.assignor_before}"
        return "its members' topics or subscriptions have changed (the journal doesn't say how)"

    def _check_topology(self, event: Event, ts_ms: int) -> None:
        """Whether the tasks of a streams group can be assigned, and which members have an older topology."""
        if "topology" not in event:
            return
        topology = table(event, "topology")
        problem = table(topology, "problem")
        now = number(topology, "epoch"), text(problem, "status") or ""
        if now != self.topology:
            detail = (text(problem, "detail") or "").rstrip(".")
            if now[1]:
                self._note(ts_ms, f"no task is assigned: {now[1]}, {_lower(detail)}")
            elif self.topology[1]:
                self._note(ts_ms, "the topology has all its topics: its tasks are assigned")
            self.topology = now
        for member_id, member in self.known.items():
            behind = None not in (now[0], member.topology_epoch) and (member.topology_epoch or 0) < (now[0] or 0)
            if behind and member_id not in self.stale:
                self.stale.add(member_id)
                name, has = self.names[member_id], member.topology_epoch
                words = f"{name} has topology epoch {has}, the group has {now[0]}: STALE_TOPOLOGY"
                self._note(ts_ms, words)

    def _owners(self) -> dict[Unit, list[str]]:
        by_owner: dict[Unit, list[str]] = {}
        for member_id, member in self.known.items():
            for unit in sorted(member.has | member.revoking):
                by_owner.setdefault(unit, []).append(member_id)
        return by_owner

    def _owner(self, member_id: str, unit: Unit, owners: dict[Unit, list[str]]) -> str | None:
        """The other member that a member waits for."""
        if unit.role in ("", ACTIVE):
            first = next((owner for owner in owners.get(unit, ()) if owner != member_id), None)
            if first is not None or not unit.role:
                return first
        process = self.known[member_id].process
        same = [other for other in self.known if other != member_id and self.known[other].process == process]
        return next(
            (
                owner
                for role in _ROLES
                for owner in owners.get(Unit(unit.name, unit.number, role), ())
                if owner in same and process
            ),
            None,
        )

    def _update_waits(self, ts_ms: int) -> None:
        owners = self._owners()
        lacking = {
            (member_id, unit): owner
            for member_id, member in self.known.items()
            for unit in sorted(member.missing)
            if (owner := self._owner(member_id, unit, owners)) is not None
        }
        over: dict[tuple[str, str, int], list[Unit]] = {}
        for key, wait in list(self.waits.items()):
            if key not in lacking:
                del self.waits[key]
                over.setdefault((key[0], wait.owner, wait.since_ms), []).append(wait.unit)
        for (member_id, owner, since_ms), units in over.items():
            self._describe_wait(ts_ms, member_id, owner, since_ms, units, over=True)
        for key, owner in lacking.items():
            self.waits.setdefault(key, _Wait(ts_ms, key[1], owner))

    def _describe_wait(
        self, ts_ms: int, member: str, owner: str, since_ms: int, units: list[Unit], *, over: bool
    ) -> None:
        if ts_ms - since_ms < _WORTH_TELLING_MS:
            return
        what = _unit_words(units)
        waiting, holding = self.names.get(member, member), self.names.get(owner, owner)
        time = duration_text(ts_ms - since_ms)
        words = f"{waiting} waited {time} for {what}, which {holding} had not revoked"
        if not over:
            words = f"{waiting} has waited {time} for {what}, which {holding} has not revoked"
        self._note(ts_ms, words)

    def end(self, last_ms: int) -> list[TimelineEntry]:
        """The paragraphs at the journal's end."""
        still: dict[tuple[str, str, int], list[Unit]] = {}
        for (member, _), wait in self.waits.items():
            still.setdefault((member, wait.owner, wait.since_ms), []).append(wait.unit)
        for (member, owner, since_ms), units in still.items():
            self._describe_wait(last_ms, member, owner, since_ms, units, over=False)
        return sorted(self.out, key=lambda line: line.ts_ms)


def holding_words(who: str, has: frozenset[Unit], revoking: frozenset[Unit], missing: frozenset[Unit]) -> str:
    """What a member has, is to give up and waits for: ``app-1 has task 0_0, is to give up task 0_1``."""
    parts = (("has", has), ("is to give up", revoking), ("waits for", missing))
    return f"{who} " + ", ".join(f"{what} {_unit_words(sorted(units))}" for what, units in parts if units)


_ROLES = (ACTIVE, "standby", "warm-up")


def _unit_words(units: Sequence[Unit]) -> str:
    """``orders-2 and orders-3``; ``tasks 0_1 and 0_2``; ``standby task 0_3``."""
    parts = [] if units[0].role else [_places(unit for unit in units if not unit.role)]
    for role in _ROLES:
        ids = [f"{unit.name}_{unit.number}" for unit in units if unit.role == role]
        if ids:
            parts.append(
                f"{'' if role == ACTIVE else role + ' '}{'task' if len(ids) == 1 else 'tasks'} {shortened(ids)}"
            )
    return joined(parts)


def _lower(words: str) -> str:
    return words[:1].lower() + words[1:]


def _places(units: Iterable[Unit]) -> str:
    """Partitions or tasks by name: ``orders-4 and orders-5``."""
    return shortened(f"{unit.name}-{unit.number}" for unit in sorted(units))


def _are(units: frozenset[Unit]) -> str:
    return "is" if len(units) == 1 else "are"


def summary(
    events: Iterable[Event], group: str, statics: Mapping[str, str] = MappingProxyType({})
) -> tuple[str, list[TimelineEntry]] | None:
    """The group's state and history; None if it was never a consumer, share or streams group. ``statics``: the names of members with a
    group.instance.id, by member id."""
    reader, last_ms, met = _EpochReader(group, statics), 0, False
    for event in events:
        if isinstance(event, dict):
            last_ms = max(last_ms, number(event, "ts_ms") or 0)
            kind, mine = event.get("event"), event.get("group") == group
            if kind == "epochs" and mine:
                met = True
                reader.take(event)
            elif kind == "request" and mine:
                reader.asked(event)
            elif kind == "connection":
                reader.connection(event)
    if not met:
        return None
    things = reader.end(last_ms)
    where = f" on {reader.log}" if reader.log else ""
    if reader.ended is not None:
        at_ms, epoch = reader.ended
        return (
            f"{reader.steps.kind.capitalize()} group {group}{where}: until {clock(at_ms)}, the last epoch was {epoch}.",
            things,
        )
    standing = f"{reader.state}, epoch {reader.steps.epoch or 0}, {count(len(reader.known), 'member')}"
    return f"{reader.steps.kind.capitalize()} group {group}{where}: {standing}.", things


def lines(things: Iterable[TimelineEntry]) -> list[str]:
    """The entries as lines, each with its time."""
    return [f"{clock(line.ts_ms)}  {line.text}" for line in things]
