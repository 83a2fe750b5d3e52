"""Rows of the table `rebalances`, made of a group's steps and records one after the other: pure Python, no Spark.

Rules:
1. What a rebalance is, and what a log alone can tell of it, say `broker_sim.explain.rebalances` and `generations`; here are columns.
2. What the journal tells of a generation is not told by the log again.
3. A group is not held in memory, its rebalances are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from broker_sim.explain.events import Snapshot
from broker_sim.explain.generations import Generation, Generations, GroupRecord, StoredMember
from broker_sim.explain.rebalances import COMPLETING, PREPARING, Cause, Phases, Rebalances, Step

__all__ = ["CAUSES", "rebalances_of"]

CAUSES = {
    "first": "join",
    "joined": "join",
    "replaced": "join",
    "left": "leave",
    "expired": "session timeout",
    "changed": "metadata change",
    "leader_rejoined": "metadata change",
    "sync_timeout": "sync failed",
    "append_failed": "sync failed",
    "loaded": "load",
    "too_large": "load",
    "no_room": "no room",
    "gone": "gone",
    "rejoined": "rejoin",
}
"""What `broker_sim.explain` calls a cause, or a change between two records -> what the table calls it; any other is `unknown`."""

Row = Mapping[str, Any]


def rebalances_of(told: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """Rows of `tables.rebalances.TOLD`, group by group and each group's steps before its records, both in order, as rows of the table
    without the moments for people. What a row leaves out is null."""
    for (run_id, group), rows in groupby(told, key=lambda row: (row["run_id"], row["group"])):
        account = _Account()
        for row in rows:
            account.take(row)
        for found in account.rows():
            yield {"run_id": run_id, "group": group, **found}


@dataclass(slots=True, eq=False)
class _Told(Phases):
    """A rebalance with the steps that the table shows something of."""

    partition: int | None = None
    first: Step | None = field(default=None, repr=False)
    closing: Step | None = field(default=None, repr=False)
    ending: Step | None = field(default=None, repr=False)


class _Account:
    """One group."""

    def __init__(self) -> None:
        self.steps = Rebalances(_Told)
        self.records = Generations()
        self.partition: int | None = None
        self._fresh = True

    def take(self, row: Row) -> None:
        self.partition = row["coordinator_partition"]
        if row["of_log"]:
            members = tuple(_stored(one) for one in _parsed(row["members_after"]))
            self.records.take(GroupRecord(row["ts_ms"], row["state_ms"], row["generation"], members))
            return
        step = _step(row, fresh=self._fresh)
        self._fresh = False
        for turn, rebalance in self.steps.take(step):
            if turn in ("found", "began"):
                rebalance.first, rebalance.partition = step, self.partition
            elif turn == "closed":
                rebalance.closing = step
            elif turn == "ended":
                rebalance.ending = step

    def rows(self) -> Iterator[dict[str, Any]]:
        """What there is to tell."""
        known = {one.generation for one in self.steps.found}
        yield from map(_of_steps, self.steps.found)
        for one in self.records.found:
            if one.generation not in known:
                yield {"coordinator_partition": self.partition, **_of_records(one)}


# ------------------------------------------------------------------------------------------------ in


def _step(row: Row, *, fresh: bool) -> Step:
    """``fresh``: it is the first of the group. A journal that is begun late shows the groups that are there as loaded."""
    before = _snapshot(row["state_from"], row["generation_from"], row["size_before"], row["members_before"])
    after = _snapshot(row["state_to"], row["generation"], row["size_after"], row["members_after"])
    shown = fresh and before is None and row["cause"] in ("loaded", "too_large")
    if shown and after is not None and after.state in (PREPARING, COMPLETING):
        before = after
    cause = Cause(row["cause"] or "unknown", row["ts_ms"], _parsed(row["cause_members"]), row["error"])
    return Step(row["ts_ms"], before, after, cause)


def _snapshot(state: str | None, generation: int | None, size: int | None, members: str | None) -> Snapshot | None:
    if state is None:
        return None
    return Snapshot(state, generation or 0, None, None, {one["member"]: one for one in _parsed(members)}, [], size or 0)


def _parsed(array: str | None) -> list[Any]:
    """Of JSON. What is null in an object is not in it."""
    found: list[Any] = json.loads(array) if array else []
    return found


def _stored(one: Row) -> StoredMember:
    assigned = (f"{each['topic']}-{index}" for each in one.get("assigned", ()) for index in each.get("partitions", ()))
    return StoredMember(
        one["member"], one.get("client_id"), one.get("instance"), tuple(one.get("topics", ())), tuple(assigned)
    )


# ------------------------------------------------------------------------------------------------ out


def _of_steps(one: _Told) -> dict[str, Any]:
    assert one.first is not None
    before, after = one.first.before, one.first.after
    kind = one.cause.kind if one.whole else None
    who = one.cause.members if one.whole else None
    clients = {
        name: each.get("client_id") for at in (after, before) if at is not None for name, each in at.members.items()
    }
    closed_ms = None if one.found_in == COMPLETING else one.closed_ms  # that was before anything is known
    row = {
        "coordinator_partition": one.partition,
        "generation": one.generation,
        "generation_before": one.generation_before,
        "started_ms": one.began_ms if one.whole else None,
        "closed_ms": closed_ms,
        "ended_ms": one.ended_ms,
        "end": one.end or None,
        "preparing_ms": _lasted(one.began_ms, closed_ms) if one.whole else None,
        "completing_ms": None if one.closing is one.ending else _lasted(closed_ms, one.ended_ms),
        "stable_ms": _lasted(one.ended_ms, one.left_ms),
        "cause": None if kind is None else CAUSES.get(kind, "unknown"),
        "cause_detail": kind,
        "who": who,
        "who_clients": None if who is None else [clients.get(name) for name in who],
        "error": (one.cause.error or "REQUEST_TIMED_OUT") if kind == "append_failed" else None,
        "size_before": None if before is None else before.size,
        "members_before": None if before is None else list(before.members),
        "from_empty": one.from_empty if one.whole else None,
        "whole": one.whole,
        "source": "journal",
    }
    if one.closing is not None and one.closing.after is not None:
        had: Iterable[str] = () if one.closing.before is None else one.closing.before.members
        has = one.closing.after.members
        row["size_after"], row["members_after"] = one.closing.after.size, list(has)
        row["timed_out"] = [name for name in had if name not in has] if one.closing.cause.kind == "timer" else []
    return row


def _of_records(one: Generation) -> dict[str, Any]:
    old, empty = one.old, not one.new
    clients = {member.member: member.client_id for member in (*one.new, *(old or ()))}
    return {
        "generation": one.generation,
        "generation_before": one.before,
        "closed_ms": one.closed_ms,
        "ended_ms": one.stored_ms,
        "end": "empty" if empty else "stable",
        "completing_ms": None if empty else _lasted(one.closed_ms, one.stored_ms),
        "stable_ms": None if empty else _lasted(one.stored_ms, one.left_ms),
        "cause": CAUSES.get(one.change, "unknown"),
        "who": one.who,
        "who_clients": None if one.who is None else [clients.get(name) for name in one.who],
        "size_before": None if old is None else len(old),
        "size_after": len(one.new),
        "members_before": None if old is None else [member.member for member in old],
        "members_after": [member.member for member in one.new],
        "from_empty": None if old is None else not old,
        "whole": one.whole,
        "missing_before": one.missing,
        "source": "log",
    }


def _lasted(from_ms: int | None, to_ms: int | None) -> int | None:
    """A duration where both its ends are known; never below 0, for records' times are those of several clocks."""
    return None if from_ms is None or to_ms is None else max(to_ms - from_ms, 0)
