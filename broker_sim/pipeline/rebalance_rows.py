"""Rows of the table `rebalances`, made of a group's steps and records one after the other: pure Python, no Spark.

Rules:
1. What a rebalance is, and what a log alone can tell of it, say `broker_sim.explain.rebalances` and `generations`; here are columns.
2. What the journal tells of a generation is not told by the log again, nor what a record tells by a broker's line: that adds when the
   window opened, and why (`log_causes`). A rebalance that left no record is told by its lines alone.
3. A group is not held in memory, its rebalances are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from broker_sim.explain.epoch_steps import from_epochs
from broker_sim.explain.events import Snapshot
from broker_sim.explain.generations import Generation, Generations, GroupRecord, StoredMember
from broker_sim.explain.holdups import Holdup, chief, holdups
from broker_sim.explain.rebalances import COMPLETING, PREPARING, STABLE, Cause, Phases, Rebalances, Step
from broker_sim.pipeline.cause_changes import grown, owned
from broker_sim.pipeline.log_causes import (
    CAUSES,
    CERTAIN,
    LIKELY,
    Window,
    Windows,
    cause_of_reason,
    departures,
    poll_ran_out,
    waiting,
)
from broker_sim.pipeline.modern_groups import EPOCHS, ModernGroup

__all__ = ["CLOSED", "GROWN", "JOINS", "rebalances_of"]

CLOSED = "connection closed"
"""What a row of `TOLD` tells of a member's last connection."""
JOINS, GROWN = "JoinGroup", "topic grown"
"""``what`` of rows with the partitions that a member owns as it joins, and of a topic that has more partitions than before."""

Row = Mapping[str, Any]


def rebalances_of(told: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """Rows of `tables.rebalances.TOLD`, group by group and each group's steps before its records, both in order, as rows of the table
    without the moments for people. What a row leaves out is null."""
    for (run_id, group), rows in groupby(told, key=lambda row: (row["run_id"], row["group"])):
        account = _Account()
        for row in rows:
            account.take(row)
        for found in account.rows():
            yield {"run_id": run_id, "group": group, "protocol_type": account.protocol_type, **found}


@dataclass(slots=True, eq=False)
class _Told(Phases):
    """A rebalance with the steps that the table shows something of."""

    partition: int | None = None
    clients: dict[str, str | None] = field(default_factory=dict, repr=False)
    first: Step | None = field(default=None, repr=False)
    changes: list[str] = field(default_factory=list, repr=False)
    closing: Step | None = field(default=None, repr=False)
    ending: Step | None = field(default=None, repr=False)


class _Account:
    """One group."""

    def __init__(self) -> None:
        self.steps = Rebalances(_Told)
        self.records = Generations()
        self.lines = Windows()
        self.modern = ModernGroup()
        self.epochs = ModernGroup()
        """as the journal has it; `modern` as the log has."""
        self._came_back: tuple[Snapshot, Cause] | None = None
        self._over = _Changeovers(self.records, self.modern)
        self.partition: int | None = None
        self.protocol_type: str | None = None
        self._closed: dict[str, int] = {}
        self._metadata = _Metadata()
        self._seen: dict[str, list[int]] = {}
        self._progress: dict[int, dict[str, list[int]]] = {}
        self._fresh = True

    def take(self, row: Row) -> None:
        if row["coordinator_partition"] is not None:
            self.partition = row["coordinator_partition"]
        self.protocol_type = row.get("protocol_type") or self.protocol_type
        what = row.get("what")
        if what is not None and row.get("at") is not None:
            self.lines.take(row)
            return
        if what == CLOSED:
            self._closed[row["cause_members"]] = row["ts_ms"]
            return
        if what in (JOINS, GROWN):
            self._metadata.take(row)
            return
        if what == EPOCHS and not row["of_log"]:
            taken = self.epochs.take(row)
            self._came_back = from_epochs(taken) if taken is not None and taken.stays else None
            return
        if what is not None:
            self.modern.take(self._over.modern(row))
            return
        if row["of_log"]:
            self._record(row)
            return
        step = _step(row, fresh=self._fresh)
        came_back, self._came_back, self._fresh = self._came_back, None, False
        if came_back is not None and step.before is None and step.after is not None:
            step = Step(step.ts_ms, came_back[0], step.after, came_back[1])
        if step.cause.kind == "expired" and step.cause.members:
            step.cause.closed_ms = self._closed.get(step.cause.members[0])
        last = self.steps.found[-1].began_ms if self.steps.found else 0
        changes = [*_parsed(row.get("cause_changes")), *self._metadata.changes(step, last)]
        for turn, rebalance in self.steps.take(step):
            if turn == "began":
                rebalance.changes = changes
            for at in (step.before, step.after):
                if at is not None:
                    rebalance.clients |= {name: each.get("client_id") for name, each in at.members.items()}
            if turn in ("found", "began"):
                rebalance.first, rebalance.partition = step, self.partition
            elif turn == "closed":
                rebalance.closing = step
            elif turn == "ended":
                rebalance.ending = step

    def _record(self, row: Row) -> None:
        """A classic group's record, with what was committed since the one before."""
        self._seen |= {one["name"]: one["seen"] for one in _parsed(row.get("progress"))}
        members = tuple(_stored(one) for one in _parsed(row["members_after"]))
        found = len(self.records.found)
        self._over.classic(GroupRecord(row["ts_ms"], row["state_ms"], row["generation"], members, row.get("place")))
        if len(self.records.found) > found:
            self._progress[found] = dict(self._seen)

    def rows(self) -> Iterator[dict[str, Any]]:
        """What there is to tell."""
        known = {one.generation for one in self.steps.found}
        yield from map(_of_steps, self.steps.found)
        used: list[Window] = []
        for number, one in enumerate(self.records.found):
            if one.generation in known:
                continue
            row = {"coordinator_partition": self.partition, "kind": "classic", **_of_records(one)}
            seen = self._progress.get(number, {})
            self._committed(row, one, seen)
            row |= self._over.cause(number)
            window = self.lines.of(one.generation, one.stored_ms)
            if window is not None:
                used.append(window)
                silent = row["cause"] == "poll timeout" and row["who"]
                row |= _of_window(window, row)
                if silent and row["cause"] == "leave" and set(row["who"]) <= set(silent):
                    # it left after it had been silent for just max.poll.interval.ms: aiokafka says no more than that
                    row |= {"cause": "poll timeout", "cause_certainty": LIKELY}
                if row["cause"] == CAUSES["went_over"]:
                    row = self.lines.why_gone(row)
            yield self._polled(row)
        for window in self.lines.found:
            if not any(window is one for one in used) and window.old + 1 not in known:
                yield self._polled({"coordinator_partition": self.partition, **_of_lines(window, self.lines.found)})
        for row in self.epochs.rows():
            yield {"coordinator_partition": self.partition, **row}
        epochs = {one.epoch for one in self.epochs.found}
        for row in self.modern.rows():
            if row["generation"] not in epochs:
                told = self.lines.why_gone({"coordinator_partition": self.partition, **row})
                yield self._polled(self.lines.upgraded(told))

    def _polled(self, row: dict[str, Any]) -> dict[str, Any]:
        """With a client's own word that it left as its poll timeout had run out: its broker may not know."""
        if row["cause"] in ("leave", "gone", "unknown"):
            since_ms = row.get("started_ms") or row.get("started_after_ms")
            said = self.lines.late_poll(row.get("who_clients") or (), since_ms, row.get("closed_ms") or row["ended_ms"])
            if said is not None:
                lines = [*(row.get("evidence_lines") or ()), said]
                row |= {"cause": "poll timeout", "cause_certainty": CERTAIN, "evidence_lines": lines}
        return row

    def _committed(self, row: dict[str, Any], one: Generation, seen: dict[str, list[int]]) -> None:
        """What commits show of a generation's cause and of how long it took."""
        told = departures(one, seen)
        if told is not None:
            cause, sure, who = told
            came = one.old is not None and any(each.member not in {old.member for old in one.old} for each in one.new)
            if one.change == "gone" or (came and cause != "leave"):
                row |= {"cause": cause, "cause_certainty": sure, "who": who, "who_clients": _clients(one, who)}
        elif one.change not in ("unknown", "gone"):
            row["cause_certainty"] = CERTAIN
        waited = waiting(one, seen)
        if waited is not None:
            row["waited_ms"], row["waited_for"] = waited


class _Changeovers:
    """Where a group of the log goes over to the consumer protocol, or back: the record that it begins with there is the state in which
    it comes, and no rebalance. Such a record has the number of the last one before, and members of it."""

    def __init__(self, records: Generations, epochs: ModernGroup) -> None:
        self.records, self.epochs = records, epochs
        self._stored: GroupRecord | None = None
        self._ended: tuple[int, dict[str, str | None]] | None = None
        self._gone: dict[str, str | None] | None = None
        self._downgraded: dict[int, dict[str, str | None]] = {}

    def modern(self, row: Row) -> Row:
        """A record of a group by epochs, marked where the group comes over with it."""
        if not row["what"].endswith("GroupMetadata"):
            return row
        stored, self._stored = self._stored, None
        if row["generation"] is None:
            self._ended = None if self.epochs.epoch is None else (self.epochs.epoch, self.epochs.members)
            return row
        self._ended, present = None, self.epochs.present
        if stored is not None and stored.generation == row["generation"] and self.epochs.epoch is None:
            return {**row, "over": bool(present) and present <= {one.member for one in stored.members}}
        return row

    def classic(self, record: GroupRecord) -> None:
        """A record of a classic group."""
        ended, self._ended = self._ended, None
        if record.generation is not None:
            self._stored = record
        stay = {one.member for one in record.members}
        if ended is not None and ended[0] == record.generation and stay and stay <= set(ended[1]):
            gone = {name: client for name, client in ended[1].items() if name not in stay}
            # where a classic member takes a static one's place no member is gone, and no rebalance begins
            self._gone = gone or None
            others = (StoredMember(name, client) for name, client in gone.items())
            self.records.comes_over(replace(record, members=(*record.members, *others)))
            return
        found = len(self.records.found)
        self.records.take(record)
        if self._gone is not None and len(self.records.found) > found:
            self._downgraded[found], self._gone = self._gone, None

    def cause(self, number: int) -> dict[str, Any]:
        """Why a generation began, the first one after the group has come back to the classic protocol."""
        gone = self._downgraded.get(number)
        if gone is None:
            return {}
        who = {"who": list(gone), "who_clients": list(gone.values())}
        return {"cause": CAUSES["went_over"], "cause_certainty": CERTAIN, **who}


class _Metadata:
    """What of the metadata of a group's members is new as they join again, beyond what the step itself shows: partitions that they own,
    topics that have more partitions."""

    _JOINED = ("first", "joined", "rejoined", "replaced", "changed", "leader_rejoined")

    def __init__(self) -> None:
        self._owns: dict[str, list[str]] = {}
        self._owned: dict[str, list[str]] = {}
        self._grown: list[tuple[int, str]] = []

    def take(self, row: Row) -> None:
        """A row of `JOINS` or `GROWN`."""
        if row["what"] == JOINS:
            self._owns[row["cause_members"]] = _parsed(row["detail"])
        else:
            self._grown.append((row["ts_ms"], grown(row["cause_members"], row["size_before"], row["size_after"])))

    def changes(self, step: Step, since_ms: int) -> list[str]:
        """Of a step; ``since_ms``: when the last rebalance began."""
        kind, found = step.cause.kind, []
        for name in step.cause.members if kind in self._JOINED else ():
            had, has = self._owned.get(name), self._owns.get(name, [])
            self._owned[name] = has
            if had is not None and kind in ("changed", "leader_rejoined") and step.after is not None:
                found += owned(step.after.members.get(name, {}).get("client_id") or name, had, has)
        stood = step.before is not None and step.before.state in (STABLE, COMPLETING)
        if kind in ("changed", "leader_rejoined") and stood:
            found += dict.fromkeys(words for ts_ms, words in self._grown if ts_ms >= since_ms)
        return found


# ------------------------------------------------------------------------------------------------ in


def _step(row: Row, *, fresh: bool) -> Step:
    """``fresh``: it is the first of the group. A journal that is begun late shows the groups that are there as loaded."""
    before = _snapshot(row["state_from"], row["generation_from"], row["size_before"], row["members_before"])
    after = _snapshot(row["state_to"], row["generation"], row["size_after"], row["members_after"], row.get("leader"))
    shown = fresh and before is None and row["cause"] in ("loaded", "too_large")
    if shown and after is not None and after.state in (PREPARING, COMPLETING):
        before = after
    cause = Cause(row["cause"] or "unknown", row["ts_ms"], _parsed(row["cause_members"]), row["error"])
    return Step(row["ts_ms"], before, after, cause)


def _snapshot(
    state: str | None, generation: int | None, size: int | None, members: str | None, leader: str | None = None
) -> Snapshot | None:
    if state is None:
        return None
    return Snapshot(
        state, generation or 0, leader, None, {one["member"]: one for one in _parsed(members)}, [], size or 0
    )


def _parsed(array: str | None) -> list[Any]:
    """Of JSON. What is null in an object may be there or not, as the engine wrote it."""
    found: list[Any] = json.loads(array) if array else []
    return found


def _stored(one: Row) -> StoredMember:
    assigned = (
        f"{each['topic']}-{index}" for each in one.get("assigned") or () for index in each.get("partitions") or ()
    )
    return StoredMember(
        one["member"],
        one.get("client_id"),
        one.get("instance"),
        tuple(one.get("topics") or ()),
        tuple(assigned),
        one.get("session_ms"),
        one.get("rebalance_ms"),
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
        "cause_changes": one.changes or None,
        "who": who,
        "who_clients": None if who is None else [clients.get(name) for name in who],
        "error": (one.cause.error or "REQUEST_TIMED_OUT") if kind == "append_failed" else None,
        "size_before": None if before is None else before.size,
        "members_before": None if before is None else list(before.members),
        "from_empty": one.from_empty if one.whole else None,
        "whole": one.whole,
        "kind": "classic",
        "source": "journal",
    }
    if one.closing is not None and one.closing.after is not None:
        had: Iterable[str] = () if one.closing.before is None else one.closing.before.members
        has = one.closing.after.members
        row["size_after"], row["members_after"] = one.closing.after.size, list(has)
        row["timed_out"] = [name for name in had if name not in has] if one.closing.cause.kind == "timer" else []
    return row | _held(chief(holdups(one)), {name: client for name, client in one.clients.items() if client})


def _held(held: Holdup | None, clients: Mapping[str, str]) -> dict[str, Any]:
    """The columns of what a rebalance waited for the longest."""
    if held is None:
        return {}
    return {
        "held_by": held.what,
        "held_ms": held.ms,
        "held_who": held.members,
        "held_clients": [clients.get(name) or client_of(name) for name in held.members],
        "held_closed": held.closed,
    }


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
        "log_offset": one.place,
        "started_after_ms": one.before_stored_ms,
    }


def _clients(one: Generation, who: Iterable[str]) -> list[str | None]:
    clients = {member.member: member.client_id for member in (*one.new, *(one.old or ()))}
    return [clients.get(name) for name in who]


def _reason(window: Window) -> dict[str, Any]:
    """Its cause, and whose it is."""
    kind, who, error = cause_of_reason(window.reason)
    if kind == "leave" and any(poll_ran_out(said) for said in window.said.values()):
        kind = "poll timeout"
    said = [text for text in window.said.values() if text and text != "not provided" and text not in window.reason]
    detail = window.reason + (f"; client reason: {said[0]}" if said and "client reason" not in window.reason else "")
    return {"cause": kind, "cause_detail": detail, "cause_certainty": CERTAIN, "who": who, "error": error}


def _of_window(window: Window, row: Row) -> dict[str, Any]:
    """What a broker's lines add to a generation's record."""
    closed_ms = row["closed_ms"] if row["closed_ms"] is not None else window.closed_ms
    told = _reason(window)
    if told["cause"] == CAUSES["went_over"]:  # the broker doesn't say who was the last
        told["who"] = list(row["who"] or ())
    clients = dict(zip(row["who"] or (), row["who_clients"] or (), strict=False))
    late = window.late or ([] if window.closed_ms is not None else None)
    return {
        **told,
        "who_clients": [clients.get(name) or client_of(name) for name in told["who"]],
        "started_ms": window.started_ms,
        "preparing_ms": _lasted(window.started_ms, closed_ms),
        "timed_out": late,
        "evidence_lines": window.lines,
        **_held(window.held(), clients),
    }


def _of_lines(window: Window, others: list[Window]) -> dict[str, Any]:
    """A rebalance of which there is no record. It failed where another one began from its own generation, or from the one before it."""
    after = [one for one in others if one.started_ms > window.started_ms]
    following = min(after, key=lambda one: one.started_ms) if after else None
    ended_ms: int | None = window.assigned_ms
    end: str | None = "stable"
    if window.emptied:
        ended_ms, end = window.closed_ms, "empty"
    elif window.assigned_ms is None:
        ended_ms, end = (following.started_ms, "failed") if following is not None else (None, None)
    told = _reason(window)
    return {
        **told,
        "who_clients": [client_of(name) for name in told["who"]],
        "generation": window.generation,
        "generation_before": window.old,
        "started_ms": window.started_ms,
        "closed_ms": window.closed_ms,
        "ended_ms": ended_ms,
        "end": end,
        "preparing_ms": _lasted(window.started_ms, window.closed_ms),
        "completing_ms": None if window.emptied else _lasted(window.closed_ms, ended_ms),
        "size_after": window.size,
        "timed_out": window.late,
        **_held(window.held(), {}),
        "whole": False,
        "source": "broker log",
        "evidence_lines": window.lines,
    }


def client_of(member: str) -> str:
    """A member id is the client id, a hyphen and a UUID."""
    return member[:-37] if len(member) > 37 and member[-37] == "-" else member


def _lasted(from_ms: int | None, to_ms: int | None) -> int | None:
    """A duration where both its ends are known; never below 0, for records' times are those of several clocks."""
    return None if from_ms is None or to_ms is None else max(to_ms - from_ms, 0)
