"""One member's way from its current to its target assignment, one heartbeat at a time: revoke, follow the epoch, then take new units.

No unit is assigned to a member while another one owns it, or has to revoke it and has not confirmed that: the owner stays in the
group's ``owners`` until its heartbeat confirms the revocation. Source: CurrentAssignmentBuilder (4.x); the stored states are those of
MemberState.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic

from broker_sim.coordinator.epochs.holdings import K, UnitEpochs, Units, touches, units

LEFT = -1
"""The epoch with which a member leaves for good."""
LEFT_TEMPORARILY = -2
"""The epoch with which a static member leaves temporarily: it stays in the group with its units, and its session runs on."""


class MemberState(enum.IntEnum):
    """The state of a member's reconciliation, as in the records of consumer groups."""

    STABLE = 0
    UNREVOKED = 1
    UNRELEASED = 2


STABLE, UNREVOKED, UNRELEASED = MemberState
"""The states as names of the module: as attributes of their class they cost as much as a call (see `kafka_wire.errors.NO_ERROR`)."""
STATES = {state.value: state for state in MemberState}
"""By their numbers."""


@dataclass(slots=True)
class Current(Generic[K]):
    """A member's current assignment, never changed. ``previous`` is the epoch that it may still send if the response with the new one
    was lost; ``revoking`` are units that it must revoke and still owns."""

    epoch: int = 0
    previous: int = 0
    state: MemberState = STABLE
    assigned: UnitEpochs[K] = field(default_factory=dict)
    revoking: UnitEpochs[K] = field(default_factory=dict)

    def is_at(self, target_epoch: int) -> bool:
        """Whether it has nothing to do until the target moves."""
        return self.state is STABLE and self.epoch == target_epoch


@dataclass(slots=True)
class Step(Generic[K]):
    """The effect of a heartbeat on a member: the units that it keeps, must revoke, and gets after that revocation."""

    kept: dict[K, dict[int, int]] = field(default_factory=dict)
    revoking: dict[K, dict[int, int]] = field(default_factory=dict)
    taking: dict[K, list[int]] = field(default_factory=dict)


@dataclass(slots=True)
class Goal(Generic[K]):
    """A member's target assignment and its epoch. ``is_taken(key, number)``: whether any member owns a unit. ``regained``: units that
    the member may have again as soon as it has revoked them. ``recast(owned, step, waits)``: changes a step of a member with the units
    ``owned``, if units may change their key; ``waits()``: whether the member must revoke units first. ``revoking_step``: by how much
    the epoch of a member grows that has revoked units and must revoke more."""

    epoch: int
    units: Units[K]
    is_taken: Callable[[K, int], bool]
    regained: UnitEpochs[K] = field(default_factory=dict)
    recast: Callable[[UnitEpochs[K], Step[K], Callable[[], bool]], None] | None = None
    revoking_step: int = 1


Reported = Iterable[tuple[K, Iterable[int]]] | None
"""The units that a member owns according to its heartbeat; None: the heartbeat doesn't contain them, and the member counts as still
owning all that it owned."""


def reconciled(current: Current[K], goal: Goal[K], reported: Reported[K]) -> Current[K]:
    """The member's current assignment after a heartbeat; the same object if it has not changed."""
    if current.is_at(goal.epoch):
        return current
    if current.state is not UNREVOKED:
        return _next(current, current.epoch, goal, reported)
    if reported is None or touches(current.revoking, reported):
        return current
    # It has given up what it was to; whatever the target has become meanwhile, it is not at the target's epoch yet.
    return _next(current, current.epoch + goal.revoking_step, goal, reported)


def _next(current: Current[K], epoch: int, goal: Goal[K], reported: Reported[K]) -> Current[K]:
    if goal.recast is None and [*units(current.assigned).items()] == [*goal.units.items()]:
        return _unless_same(
            current, Current(goal.epoch, current.epoch, STABLE, current.assigned, {})
        )  # most members, most times
    step: Step[K] = Step()
    kept, revoking, taking = step.kept, step.revoking, step.taking
    waits = False
    for key in dict.fromkeys([*goal.units, *current.assigned]):
        wanted, has = goal.units.get(key, ()), current.assigned.get(key, {})
        keeps = {number: has[number] for number in wanted if number in has}
        revokes = {number: since for number, since in has.items() if number not in keeps}
        missing = [number for number in wanted if number not in has]
        regained = goal.regained.get(key, ())
        free = [number for number in missing if number in regained or not goal.is_taken(key, number)]
        waits = waits or len(free) < len(missing)
        if keeps:
            kept[key] = keeps
        if revokes:
            revoking[key] = revokes
        if free:
            taking[key] = free

    def has_to_give_up() -> bool:
        return bool(revoking) and (reported is None or touches(revoking, reported))

    if goal.recast is not None:
        goal.recast(current.assigned, step, has_to_give_up)
    if has_to_give_up():
        return _unless_same(current, Current(epoch, current.epoch, UNREVOKED, kept, revoking))
    for key, numbers in taking.items():
        together = {**kept.get(key, {}), **dict.fromkeys(numbers, goal.epoch)}
        kept[key] = dict(sorted(together.items()))
    state = UNRELEASED if waits else STABLE
    return _unless_same(current, Current(goal.epoch, current.epoch, state, kept, {}))


def _unless_same(before: Current[K], after: Current[K]) -> Current[K]:
    return before if before == after else after


def without(current: Current[K], keys: Sequence[K], reported: Reported[K]) -> Current[K]:
    """Take all units of ``keys`` away from a member, which revokes those that it may still hold."""
    if not keys:
        return current
    assigned = {key: numbers for key, numbers in current.assigned.items() if key not in keys}
    revoking = {**current.revoking}
    for key in keys:
        revoking[key] = {**revoking.get(key, {}), **current.assigned[key]}
    if reported is None or touches(revoking, reported):
        return Current(current.epoch, current.epoch, UNREVOKED, assigned, revoking)
    return replace(current, previous=current.epoch, assigned=assigned)


def paused(current: Current[K]) -> Current[K]:
    """A static member has left temporarily: it keeps its units, and commits with an older epoch are refused. Its state stays as it was,
    also if it had to revoke units, of which none is left."""
    assigned = {key: dict.fromkeys(numbers, 0) for key, numbers in current.assigned.items()}
    return replace(current, epoch=LEFT_TEMPORARILY, assigned=assigned, revoking={})


def taken_over(current: Current[K]) -> Current[K]:
    """Return the current assignment of the member that takes the place of a static member that has left temporarily: with epoch 0."""
    return replace(current, epoch=0, previous=0)
