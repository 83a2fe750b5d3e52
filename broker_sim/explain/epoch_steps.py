"""Steps of consumer, share and streams groups (KIP-848, KIP-932, KIP-1071): members, their assignments, and why the epoch changed.
Explanations and the tables of the pipeline share them.

    reader = EpochSteps()
    for event in events:                     # the group's ``epochs`` events, in order
        step = reader.take(event)

Rules:
1. A step is read from its event and the events before it alone. Of a group with more than 64 members an event shows those that the step
   changed: the removal of the member whose request or timer it was is known from the size, that of others is not.
2. A coordinator that is unloaded and loaded again changes no member: the step after a load is compared with the one before the unload.
3. The first step of a group is ``found`` if it is that of a load: what was before it is unknown, and no member has joined with it.
4. A classic group that is upgraded to the consumer protocol keeps its members, and one that is downgraded keeps its classic ones: these
   neither join nor leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from broker_sim.explain.events import Event, GroupSnapshot, items, names_in, number, table, text
from broker_sim.explain.rebalances import STABLE, Cause, Kind

__all__ = [
    "ACTIVE",
    "REMOVED_BY",
    "EpochStep",
    "EpochSteps",
    "Holding",
    "MemberSnapshot",
    "Unit",
    "from_epochs",
    "note_holdings",
]

ACTIVE = "active"
"""Role of a task that processes records."""

_DEAD = "Dead"
_BY_ASSIGNOR = {"simple": "share", "sticky": "streams"}
"""Assignors that one kind of group alone has; a consumer group has any other."""

REMOVED_BY: dict[str | None, Kind] = {
    "session": "session_expired",
    "revocation": "revocation_timeout",
    "join": "revocation_timeout",
    "unsynced": "sync_timeout",
}
"""Timer of a step -> why it removed members: their session expired, they did not revoke or (classic members) rejoin or
send their SyncGroup in time."""


@dataclass(frozen=True, slots=True, order=True)
class Unit:
    """A partition; or, where it has a ``role``, a task of a streams group, ``name`` being its subtopology."""

    name: str
    number: int = 0
    role: str = ""


@dataclass(frozen=True, slots=True)
class MemberSnapshot:
    """A member: what it has, was asked to revoke, and should have and has not. ``epoch``: its member epoch, -2 of a static member that
    has left for a while."""

    member: str
    client_id: str = ""
    client_host: str = ""
    instance: str | None = None
    classic: bool = False
    epoch: int = 0
    topics: tuple[str, ...] = ()
    has: frozenset[Unit] = frozenset()
    revoking: frozenset[Unit] = frozenset()
    missing: frozenset[Unit] = frozenset()
    process: str | None = None
    topology_epoch: int | None = None
    shown: Event = field(default_factory=dict, compare=False, repr=False)

    @property
    def all(self) -> frozenset[Unit]:
        return self.has | self.revoking | self.missing

    @classmethod
    def of(cls, row: Event) -> MemberSnapshot:
        """The member as an event shows it."""
        has, revoking, missing = (_tasks(row, tasks) if "tasks" in row else _units(row, some) for tasks, some in _OWNED)
        return cls(
            text(row, "member") or "?",
            text(row, "client_id") or "",
            text(row, "client_host") or "",
            text(row, "instance"),
            text(row, "protocol") == "classic",
            number(row, "epoch") or 0,
            tuple(names_in(row, "topics")),
            has,
            revoking,
            missing,
            text(row, "process"),
            number(row, "topology_epoch"),
            row,
        )


@dataclass(frozen=True, slots=True, eq=False)
class EpochStep:
    """One step. ``epoch_before`` None: nothing was known of the group, or it was not there; ``epoch`` None: it is no epoch-based group
    any more. ``before``, ``after``: its members by their ids; ``unloaded``: its coordinator was, and the group is as it was."""

    ts_ms: int
    kind: str
    state: str
    cause: Event
    before: Mapping[str, MemberSnapshot]
    after: Mapping[str, MemberSnapshot]
    epoch_before: int | None
    epoch: int | None
    assignor_before: str | None = None
    assignor: str | None = None
    found: bool = False
    unloaded: bool = False

    @property
    def moved(self) -> bool:
        """Whether the group has another epoch; a group is made with epoch 0."""
        return self.epoch is not None and self.epoch != self.epoch_before and bool(self.epoch_before or self.epoch)

    @property
    def over(self) -> list[str]:
        """Classic members with whom the group has come over from the classic protocol (rule 4)."""
        came = not self.before and not self.found
        return [name for name, holder in self.after.items() if holder.classic] if came else []

    @property
    def classic_members(self) -> list[str]:
        """The members with which the group is converted to a classic group; empty unless it is."""
        over = self.epoch is None and not self.unloaded
        return [name for name, holder in self.before.items() if holder.classic] if over else []

    @property
    def back(self) -> dict[str, str]:
        """Static members under another id: the new id -> the one before."""
        was = {
            holder.instance: name for name, holder in self.before.items() if name not in self.after and holder.instance
        }
        new = ((name, holder.instance) for name, holder in self.after.items() if name not in self.before)
        return {name: was[instance] for name, instance in new if instance in was}

    @property
    def joined(self) -> list[str]:
        """Ids of members that joined with this step."""
        known = {*self.before, *self.back, *self.over}
        return [] if self.found else [name for name in self.after if name not in known]

    @property
    def removed(self) -> list[str]:
        """Ids of members that were removed; ``removed_by`` has the cause."""
        stay = {*self.after, *self.back.values(), *self.classic_members}
        return [name for name in self.before if name not in stay]

    @property
    def removed_by(self) -> Kind:
        """Reason of the removal: "session_expired", "revocation_timeout", "left" (a request), "unknown"."""
        timer = REMOVED_BY.get(text(self.cause, "timer"))
        return timer or ("left" if text(self.cause, "api") is not None else "unknown")

    @property
    def subscribed(self) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
        """Members that stayed and subscribe to other topics than before: (topics before, topics now)."""
        both = ((name, self.before[name], holder) for name, holder in self.after.items() if name in self.before)
        return {name: (was.topics, holder.topics) for name, was, holder in both if was.topics != holder.topics}

    @property
    def new_units(self) -> frozenset[Unit]:
        """Partitions or tasks that are assigned now and were not before."""
        return _all(self.after) - _all(self.before)

    @property
    def lost_units(self) -> frozenset[Unit]:
        """Partitions or tasks that were assigned before and are not now."""
        return _all(self.before) - _all(self.after)


class EpochSteps:
    """Reads the steps of one group."""

    def __init__(self) -> None:
        self.kind = "consumer"
        self.known: dict[str, MemberSnapshot] = {}
        self.epoch: int | None = None
        self.assignor: str | None = None
        self._first = True

    def take(self, event: Event) -> EpochStep:
        """The step of the next ``epochs`` event."""
        before, epoch_before, assignor_before = self.known, self.epoch, self.assignor
        cause, first = table(event, "cause"), self._first
        state, self._first = text(event, "state") or "", False
        unloaded = state == _DEAD and text(cause, "kind") == "unload"
        if state != _DEAD:
            shown = {holder.member: holder for holder in map(MemberSnapshot.of, _objects(event))}
            self.known = self._completed(shown, number(event, "size") or 0, cause)
            self.epoch = number(event, "group_epoch")
            self.assignor = text(event, "assignor") or self.assignor
            self.kind = self._kind(event)
        elif not unloaded:
            self.known, self.epoch, self.assignor = {}, None, None
        return EpochStep(
            number(event, "ts_ms") or 0,
            self.kind,
            state,
            cause,
            before,
            self.known,
            epoch_before,
            self.epoch,
            assignor_before,
            self.assignor,
            found=first and text(cause, "kind") == "load",
            unloaded=unloaded,
        )

    def _completed(self, shown: dict[str, MemberSnapshot], size: int, cause: Event) -> dict[str, MemberSnapshot]:
        """All members after a step that shows only changed ones (rule 1)."""
        if len(shown) >= size:
            return shown
        known = {**self.known, **shown}
        member = text(cause, "member")
        if len(known) > size and member in known and member not in shown:
            del known[member]
        return known

    def _kind(self, event: Event) -> str:
        if "topology" in event:
            return "streams"
        return _BY_ASSIGNOR.get(text(event, "assignor") or "", self.kind)


@dataclass(slots=True)
class Holding:
    """Assignment of a member of an epoch-based group in a period (``to_ms`` None: to the end): partitions or tasks that it had, was to
    revoke and had not yet."""

    from_ms: int
    to_ms: int | None
    has: frozenset[Unit]
    revoking: frozenset[Unit]
    missing: frozenset[Unit]


def note_holdings(holdings: dict[str, list[Holding]], step: EpochStep) -> None:
    """Note in ``holdings``, by member id, what a step has changed."""
    for name in {**step.before, **step.after}:
        member, known = step.after.get(name), holdings.setdefault(name, [])
        now = None if member is None else (member.has, member.revoking, member.missing)
        last = known[-1] if known and known[-1].to_ms is None else None
        if last is not None and now == (last.has, last.revoking, last.missing):
            continue
        if last is not None:
            last.to_ms = step.ts_ms
        if now is not None and any(now):
            known.append(Holding(step.ts_ms, None, *now))


def from_epochs(step: EpochStep) -> tuple[GroupSnapshot, Cause]:
    """The state of a group before its downgrade to the classic protocol, as a step of classic groups has it, and why it was
    downgraded: the last member of the consumer protocol left."""
    members = {name: holder.shown for name, holder in step.before.items()}
    before = GroupSnapshot(
        STABLE, step.epoch_before or 0, None, step.assignor_before, members, [], len(members), "consumer"
    )
    return before, Cause("converted", step.ts_ms, members=step.removed, protocol_type="consumer")


# ------------------------------------------------------------------------------------------------ fields of an event

_OWNED = (
    ("tasks", "assignment"),
    ("tasks_pending_revocation", "pending_revocation"),
    ("tasks_pending_assignment", "pending_assignment"),
)
"""Fields of a member's event for its assignment, what it is to revoke and what it is to get: as tasks, else as partitions."""


def _objects(event: Event) -> Iterable[Event]:
    return (row for row in items(event, "members") if isinstance(row, Mapping))


def _all(members: Mapping[str, MemberSnapshot]) -> frozenset[Unit]:
    return frozenset[Unit]().union(*(holder.all for holder in members.values()))


def _units(row: Event, key: str) -> frozenset[Unit]:
    return frozenset(
        Unit(str(topic), number)
        for topic, numbers in table(row, key).items()
        if isinstance(numbers, list)
        for number in numbers
        if isinstance(number, int)
    )


def _tasks(row: Event, key: str) -> frozenset[Unit]:
    """``0_3`` is task 3 of subtopology 0."""
    tasks = []
    for role, ids in table(row, key).items():
        for task in ids if isinstance(ids, list) else ():
            name, _, index = str(task).rpartition("_")
            if index.isdecimal():
                tasks.append(Unit(name, int(index), str(role)))
    return frozenset(tasks)
