"""History of an epoch-based group, in words: which members raised its epoch, and which waited for whose partitions or tasks.

It is read from the journal's events ``epochs``. A partition that a member should have and hasn't is a wait; the member that has it, or
has been asked to revoke it and has not acknowledged that, is the one that it waits for. Of a streams group (KIP-1071) these are tasks:
an active one waits for the member that has it as active, and any for another member of the same process that has it in any role. What
its topology lacks is also described. Why an epoch moved is described as far as a step shows it: what has changed of members,
subscriptions, partitions, assignor; where none of them has, that is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from broker_sim.common.text import clock, duration_text
from broker_sim.explain.causes import BY_HANDLE, HANDLE
from broker_sim.explain.epoch_steps import ACTIVE, EpochStep, EpochSteps, MemberSnapshot, Unit
from broker_sim.explain.events import Event, items, number, table, text
from broker_sim.explain.holdups import LEAVING_HEARTBEAT, dead_in_words, in_words, kept_in_words
from broker_sim.explain.last_requests import LEFT_FOR_A_WHILE, LastRequests
from broker_sim.explain.phrases import Advance, caller, count, joined, shortened

__all__ = ["TimelineEntry", "holding_words", "summary"]

_WORTH_TELLING_MS = 100
"""Waits that are shorter are the usual step from one heartbeat to the next, on clocks that don't stand still."""
_LONG_MS = 10_000
"""Members reach an epoch with their next heartbeats, of which one comes every 5 s by default."""
_DEAD = "Dead"
_UNSETTLED = ("Assigning", "Reconciling")
_OUT = {
    "session": "its session expired",
    "revocation": "it had not revoked what it was to give up within its rebalance timeout",
    "join": "it did not rejoin within its rebalance timeout",
    "unsynced": "it sent no SyncGroup within its rebalance timeout",
}
"""Reasons why a member was removed, by the timer that removed it."""


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


@dataclass(slots=True)
class _Unsettled:
    """A stretch in which the group was not Stable. ``expired``: members whose sessions ended in it, when, and whether they were
    dead."""

    from_ms: int
    epochs: list[int]
    expired: list[tuple[MemberSnapshot, int, bool]] = field(default_factory=list)
    request: int = 0


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
        """Time at which the group stopped being an epoch-based group, and its last epoch; None if it has not."""
        self.clients: dict[int, str] = {}
        """Client of each LeaveGroup and DeleteGroups, by the request's number."""
        self.last = LastRequests()
        self.unsettled: _Unsettled | None = None

    def asked(self, event: Event) -> None:
        """A request for the group: of a member, or of a client that removes one."""
        if event.get("api") in ("LeaveGroup", "DeleteGroups"):
            self.clients[number(event, "request") or 0] = text(event, "client_id") or ""
        self.last.asked(event)

    def take(self, event: Event) -> None:
        ts_ms = number(event, "ts_ms") or 0
        self.request = number(table(event, "cause"), "request") or self.request
        earlier = set(self.names)
        step = self.steps.take(event)
        if text(step.cause, "kind") in ("load", "unload"):
            self.last.loaded(ts_ms)
        self._name(event)
        self.state, self.log = step.state, text(event, "log") or self.log
        if step.state == _DEAD:
            self._note(ts_ms, self._end(step))
            self.ended = ts_ms, step.epoch_before or 0
            self.topology = None, ""
            self.stale.clear()
            self.waits.clear()
            self.unsettled = None
            return
        self.ended = None
        if step.moved:
            self._note(ts_ms, f"epoch {step.epoch}: {self._why(step, earlier)}")
        else:
            self._note_static(step)
        self._check_topology(event, ts_ms)
        self._update_waits(step)
        self._note_unsettled(step)

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
        """Reason why the group is not epoch-based from this step on: it was unloaded, deleted, Dead or downgraded."""
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
        """Clause with the sender of a step's request, a client or the test; "" if the journal lacks the request."""
        request = number(step.cause, "request")
        if request == BY_HANDLE:
            return f" by {HANDLE}"
        client = self.clients.get(request or 0)
        return "" if client is None else f" by {caller(client)} ({text(step.cause, 'api')})"

    def _end_of_session(self, step: EpochStep) -> str:
        """Clause about a member whose session expired: its last request, the end of its connection, and what had no living owner."""
        member = step.before[step.removed[0]]
        words = self.last.words(member.member)
        if text(step.cause, "timer") != "session" or not words:
            return ""
        died_ms, alone = self.last.died_ms(member), _without_others(member, step.before)
        if died_ms is not None and alone and step.ts_ms - died_ms >= _WORTH_TELLING_MS:
            words += f"; {_unit_words(alone)} had no living owner for {duration_text(step.ts_ms - died_ms)}"
        return f" ({words})"

    def _changed(self, step: EpochStep) -> str:
        """Change that raised the group's epoch, other than that of its members."""
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

    def _update_waits(self, step: EpochStep) -> None:
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
            if step.ts_ms - since_ms >= _WORTH_TELLING_MS:
                self._note(step.ts_ms, self._wait_over(step, member_id, owner, since_ms, units))
        for key, owner in lacking.items():
            self.waits.setdefault(key, _Wait(step.ts_ms, key[1], owner))

    def _wait_over(self, step: EpochStep, member: str, owner: str, since_ms: int, units: list[Unit]) -> str:
        """Clause about a member's wait for partitions or tasks that another one had: its length, and what ended it."""
        waiting, holding = self.names.get(member, member), self.names.get(owner, owner)
        words = f"{waiting} waited {duration_text(step.ts_ms - since_ms)} for {_unit_words(units)}, "
        if owner in step.removed and step.removed_by == "session_expired":
            closed = self.last.died_ms(step.before[owner]) is not None
            return words + in_words("session", holding, several=False, closed=closed, leave=LEAVING_HEARTBEAT)
        if owner in step.removed and step.removed_by == "left":
            return words + f"until {holding} left, or was removed"
        itself = f", until {waiting} itself was removed or left" if member in step.removed else ""
        return f"{words}which {self._holder(owner, step.before)} had not revoked{itself}"

    def _holder(self, owner: str, members: Mapping[str, MemberSnapshot]) -> str:
        """A member that others wait for, and since when it is dead, if it is."""
        name, died_ms = self.names.get(owner, owner), self.last.died_ms(members[owner]) if owner in members else None
        return name if died_ms is None else f"{name}, dead since {clock(died_ms)},"

    def _note_unsettled(self, step: EpochStep) -> None:
        """A stretch in which the group is not Stable begins, continues with members whose sessions expire, or ends."""
        if self.unsettled is not None:
            self.unsettled.epochs.append(step.epoch or 0)
            if step.removed and step.removed_by == "session_expired":
                expired = [step.before[name] for name in step.removed if step.before[name].epoch != LEFT_FOR_A_WHILE]
                self.unsettled.expired += [
                    (member, step.ts_ms, self.last.died_ms(member) is not None) for member in expired
                ]
        if step.state in _UNSETTLED:
            if self.unsettled is None:
                self.unsettled = _Unsettled(step.ts_ms, [step.epoch or 0], request=self.request)
            return
        if self.unsettled is not None and self.unsettled.expired:
            self._describe_unsettled(self.unsettled, step.ts_ms, over=True)
        self.unsettled = None

    def _describe_unsettled(self, what: _Unsettled, until_ms: int, *, over: bool) -> None:
        """Describe a period in which the group was not Stable: the members that delayed it, and until when."""
        if until_ms - what.from_ms < _LONG_MS:
            return
        lasted = duration_text(until_ms - what.from_ms)
        between = f"from {clock(what.from_ms)} to {clock(until_ms)}" if over else f"since {clock(what.from_ms)}"
        first, last = what.epochs[0], what.epochs[-1]
        epochs = f"epoch {first}" if first == last else f"epochs {first} to {last}"
        clauses = []
        for closed in (True, False):
            some: list[tuple[MemberSnapshot, int | None]] = [
                (one, at) for one, at, dead in what.expired if dead is closed
            ]
            clauses += [self._dead(some, closed=closed, ended=True)] if some else []
        if not over:
            dead = [member for member in self.known.values() if self.last.died_ms(member) is not None]
            now = sorted([(one, self.last.session_ends_ms(one)) for one in dead], key=lambda at: at[1] or 0)
            clauses += [self._dead(now, closed=True, ended=False)] if now else []
        was = "was not" if over else "has not been"
        if clauses:
            words = f"the group {was} Stable {between} ({lasted}, {epochs}): {'; '.join(clauses)}"
            self.out.append(TimelineEntry(what.from_ms if over else until_ms, words, what.request, "trouble"))

    def _dead(self, members: list[tuple[MemberSnapshot, int | None]], *, closed: bool, ended: bool) -> str:
        names = [self.names[member.member] for member, _ in members]
        at = ["an unknown time" if ms is None else clock(ms) for _, ms in members]
        until = joined([f"{ms} ({name})" for ms, name in zip(at, names, strict=True)]) if len(names) > 1 else at[0]
        return dead_in_words(joined(names), until, len(names) > 1, closed=closed, ended=ended)

    def end(self, last_ms: int) -> list[TimelineEntry]:
        """The paragraphs at the journal's end."""
        if self.unsettled is not None:
            self._describe_unsettled(self.unsettled, last_ms, over=False)
        for member in self.known.values():
            died_ms, owned = self.last.died_ms(member), _without_others(member, self.known)
            if died_ms is not None and last_ms - died_ms >= _WORTH_TELLING_MS:
                kept, ends_ms = _unit_words(owned) if owned else "", self.last.session_ends_ms(member)
                name = self.names[member.member]
                words = kept_in_words(name, died_ms, kept, len(owned) != 1, ends_ms, LEAVING_HEARTBEAT)
                self.out.append(TimelineEntry(last_ms, words, self.request, "trouble"))
        still: dict[tuple[str, str, int], list[Unit]] = {}
        for (member_id, _), wait in self.waits.items():
            still.setdefault((member_id, wait.owner, wait.since_ms), []).append(wait.unit)
        for (member_id, owner, since_ms), units in still.items():
            if last_ms - since_ms >= _WORTH_TELLING_MS:
                waiting, holding = self.names.get(member_id, member_id), self._holder(owner, self.known)
                time, what = duration_text(last_ms - since_ms), _unit_words(units)
                self._note(last_ms, f"{waiting} has waited {time} for {what}, which {holding} has not revoked")
        return sorted(self.out, key=lambda line: line.ts_ms)


def _without_others(member: MemberSnapshot, members: Mapping[str, MemberSnapshot]) -> list[Unit]:
    """Partitions or active tasks that a member has and no other one does."""
    others = {
        unit for other in members.values() if other.member != member.member for unit in other.has | other.revoking
    }
    return sorted(unit for unit in member.has | member.revoking if unit.role in ("", ACTIVE) and unit not in others)


def holding_words(who: str, has: frozenset[Unit], revoking: frozenset[Unit], missing: frozenset[Unit]) -> str:
    """Assignment of a member in words: what it has, is to give up and waits for: ``app-1 has task 0_0, is to give up task 0_1``."""
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
                reader.last.connection(event)
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
