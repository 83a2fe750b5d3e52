"""The coordinator's rules as independent tables: the response to a request by the state of its group; the legal state transitions.

Written from Kafka's rules, not from the coordinator's code, and compared with it event by event (`invariants`): a condition that is
wrong there is a difference here. ``shown`` is a group's snapshot in the journal, None for one that is not there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka_wire.errors import Err
from kafka_wire.group_states import GROUP_STATES

if TYPE_CHECKING:
    from broker_sim.simulation.checks.sent import SentRequest

__all__ = ["RULED", "answer_of", "at_once", "step_error", "waits_in_vain"]

EMPTY, PREPARING, COMPLETING, STABLE, DEAD = GROUP_STATES

RULED = frozenset(
    {
        Err.NONE, Err.UNKNOWN_MEMBER_ID, Err.ILLEGAL_GENERATION, Err.REBALANCE_IN_PROGRESS, Err.FENCED_INSTANCE_ID,
        Err.MEMBER_ID_REQUIRED,
    }
)  # fmt: skip
"""Errors that follow from the state of the group; all others may come at any time."""

_ID_FIRST_SINCE = 4
"""JoinGroup version from which a dynamic member is given its id before it joins (KIP-394)."""

_STEPS: dict[tuple[str, str], frozenset[int]] = {
    (EMPTY, EMPTY): frozenset({0}),
    (EMPTY, PREPARING): frozenset({0}),
    (PREPARING, PREPARING): frozenset({0}),
    (PREPARING, COMPLETING): frozenset({1}),
    (PREPARING, EMPTY): frozenset({1}),
    (COMPLETING, COMPLETING): frozenset({0, 1}),  # 1: who was alone has joined again
    (COMPLETING, STABLE): frozenset({0}),
    (COMPLETING, PREPARING): frozenset({0}),
    (COMPLETING, EMPTY): frozenset({1}),
    (STABLE, STABLE): frozenset({0}),
    (STABLE, PREPARING): frozenset({0}),
    (STABLE, COMPLETING): frozenset({1}),
    (STABLE, EMPTY): frozenset({1}),
}
"""From, to -> by how much the generation grows. One event may take a group through PreparingRebalance and on."""


def answer_of(ask: SentRequest, shown: dict[str, Any] | None) -> frozenset[Err] | None:
    """The errors with which a loaded coordinator may respond to ``ask`` at once; None if that does not follow from ``shown``, the
    snapshot of the group."""
    if shown is not None and shown["size"] != len(shown["members"]):
        return None  # shown in part
    rule = _RULES.get(ask.api)
    return None if rule is None else rule(ask, shown)


def _one(*errors: Err) -> frozenset[Err]:
    return frozenset(errors)


def _membership(ask: SentRequest, shown: dict[str, Any]) -> Err:
    """Return the error of a request whose member id or instance is not in the group, else NONE."""
    members = {member["member"]: member["instance"] for member in shown["members"]}
    if ask.instance is not None:
        holder = next((name for name, instance in members.items() if instance == ask.instance), None)
        if holder is None:
            return Err.UNKNOWN_MEMBER_ID
        if holder != ask.member:
            return Err.FENCED_INSTANCE_ID
    return Err.NONE if ask.member in members else Err.UNKNOWN_MEMBER_ID


def _of_a_member(ask: SentRequest, shown: dict[str, Any] | None, by_state: dict[str, Err]) -> frozenset[Err] | None:
    """Membership, then generation, then state."""
    if shown is None:
        return _one(Err.UNKNOWN_MEMBER_ID)
    error = _membership(ask, shown)
    if error is Err.NONE and ask.generation != shown["generation"]:
        error = Err.ILLEGAL_GENERATION
    if error is not Err.NONE:
        return _one(error)
    expected = by_state.get(shown["state"])
    return None if expected is None else _one(expected)


def _heartbeat(ask: SentRequest, shown: dict[str, Any] | None) -> frozenset[Err] | None:
    by_state = {EMPTY: Err.UNKNOWN_MEMBER_ID, PREPARING: Err.REBALANCE_IN_PROGRESS}
    return _of_a_member(ask, shown, {**by_state, COMPLETING: Err.NONE, STABLE: Err.NONE})


def _sync(ask: SentRequest, shown: dict[str, Any] | None) -> frozenset[Err] | None:
    by_state = {EMPTY: Err.UNKNOWN_MEMBER_ID, PREPARING: Err.REBALANCE_IN_PROGRESS, STABLE: Err.NONE}
    return _of_a_member(ask, shown, by_state)  # in CompletingRebalance it may be parked


def _commit(ask: SentRequest, shown: dict[str, Any] | None) -> frozenset[Err] | None:
    if shown is None:
        return _one(Err.NONE if ask.generation < 0 else Err.ILLEGAL_GENERATION)
    if ask.generation < 0 and shown["state"] == EMPTY:
        return _one(Err.NONE)
    if ask.generation < 0 and not ask.member and ask.instance is None:
        return _one(Err.UNKNOWN_MEMBER_ID)
    by_state = {PREPARING: Err.NONE, STABLE: Err.NONE, COMPLETING: Err.REBALANCE_IN_PROGRESS}
    return _of_a_member(ask, shown, by_state)


def _join(ask: SentRequest, shown: dict[str, Any] | None) -> frozenset[Err] | None:
    if not ask.member:
        if ask.instance is None and ask.version >= _ID_FIRST_SINCE:
            return _one(Err.MEMBER_ID_REQUIRED)
        return None
    if shown is None:
        return _one(Err.UNKNOWN_MEMBER_ID)
    if ask.member in shown["pending"]:
        return None
    error = _membership(ask, shown)
    if error is not Err.NONE:
        return _one(error)
    return _one(Err.UNKNOWN_MEMBER_ID) if shown["state"] == EMPTY else _one(Err.NONE)


_RULES = {"Heartbeat": _heartbeat, "SyncGroup": _sync, "OffsetCommit": _commit, "JoinGroup": _join}


def at_once(ask: SentRequest, shown: dict[str, Any], body: dict[str, Any]) -> str | None:
    """Describe the error in a successful response that was given at once; None for no error."""
    mine = next((member for member in shown["members"] if member["member"] == ask.member), None)
    if mine is None:
        return None
    if ask.api == "JoinGroup":
        generation = body["generation_id"]
        if shown["state"] == STABLE and shown["leader"] == ask.member and generation == shown["generation"]:
            return "a leader that joins a stable group again is in the generation that it was in"
        if shown["state"] == PREPARING and generation != shown["generation"] + 1:
            return f"the rebalance of generation {shown['generation']} ended in generation {generation}"
    elif ask.api == "SyncGroup" and shown["state"] == STABLE:
        given = (body["assignment"] or {}).get("assigned_partitions") if isinstance(body["assignment"], dict) else None
        if given is not None and given != (mine["assignment"] or {}):
            return f"it has {mine['assignment']}, and gets {given}"
    return None


def step_error(before: dict[str, Any], after: dict[str, Any]) -> str | None:
    """Describe the error in a group's transition, made by one event; None for no error."""
    old, new = before["state"], after["state"]
    if DEAD in (old, new):
        return None
    grown = after["generation"] - before["generation"]
    allowed = _STEPS.get((old, new))
    if allowed is None:
        return f"from {old} to {new}"
    if grown not in allowed:
        return f"from {old} to {new} its generation grew by {grown}"
    if old == new and old in (STABLE, COMPLETING) and not grown and _who(before) != _who(after):
        return f"{new} continues with {sorted(_who(after))} in place of {sorted(_who(before))}"
    return None


def waits_in_vain(shown: dict[str, Any]) -> bool:
    """Whether the join phase continues although all members have joined and no assigned member id is pending. That is legal only
    during the initial rebalance delay of an empty group."""
    members = shown["members"]
    all_in = all(member["deferred"] == "JoinGroup" for member in members) and len(members) == shown["size"] > 0
    return shown["state"] == PREPARING and all_in and not shown["pending"]


def _who(shown: dict[str, Any]) -> set[str]:
    """Members of a group, static ones by their instance id, which stays when their member id changes."""
    return {member["instance"] or member["member"] for member in shown["members"]}
