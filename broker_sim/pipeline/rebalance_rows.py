"""Rows of the table `rebalances`, made of a group's steps and records one after the other: pure Python, no Spark.

Rules:
1. `broker_sim.explain.rebalances` and `generations` define a rebalance, and what a log alone shows of it; here are its columns.
2. A generation of the journal gets no second row from the log, nor a record's from a broker's line: the line adds the
   beginning of the join phase and the cause (`log_causes`). A rebalance without a record has a row from its lines alone.
3. A group is not held in memory, its rebalances are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from broker_sim.explain.epoch_steps import from_epochs
from broker_sim.explain.events import GroupSnapshot
from broker_sim.explain.generations import Generation, Generations, GroupMetadataRecord, StoredMember
from broker_sim.explain.holdups import Holdup, chief, holdups
from broker_sim.explain.rebalances import COMPLETING, PREPARING, STABLE, Cause, GroupStep, Phases, Rebalances
from broker_sim.pipeline.cause_changes import grown, owned
from broker_sim.pipeline.grown_topics import GrownTopics
from broker_sim.pipeline.log_causes import (
    CAUSES,
    CERTAIN,
    LIKELY,
    LoggedRebalance,
    LoggedRebalances,
    cause_of_reason,
    departures,
    poll_ran_out,
    waiting,
)
from broker_sim.pipeline.modern_groups import EPOCHS, ModernGroup
from broker_sim.pipeline.static_members import Bounce, StaticMembers

__all__ = ["CLOSED", "GROWN", "JOINS", "rebalances_of"]

CLOSED = "connection closed"
"""Value of ``what`` in a row of `REBALANCE_INPUT` for the end of a member's last connection."""
JOINS, GROWN = "JoinGroup", "topic grown"
"""Values of ``what`` in rows for the partitions that a member owns as it joins, and for a topic whose number of partitions grew."""

Row = Mapping[str, Any]


def rebalances_of(steps: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """Rows of `tables.rebalances.REBALANCE_INPUT`, group by group and each group's steps before its records, both in order, as rows of
    the table without the moments for people. What a row leaves out is null."""
    for (run_id, group), rows in groupby(steps, key=lambda row: (row["run_id"], row["group"])):
        account = _GroupRows()
        for row in rows:
            account.take(row)
        for result in account.rows():
            yield {"run_id": run_id, "group": group, "protocol_type": account.protocol_type, **result}


@dataclass(slots=True, eq=False)
class _TableRebalance(Phases):
    """A rebalance with the steps that columns are made of."""

    partition: int | None = None
    clients: dict[str, str | None] = field(default_factory=dict, repr=False)
    first: GroupStep | None = field(default=None, repr=False)
    changes: list[str] = field(default_factory=list, repr=False)
    closing: GroupStep | None = field(default=None, repr=False)
    ending: GroupStep | None = field(default=None, repr=False)


class _GroupRows:
    """Collects the steps, records and lines of one group and makes its rows."""

    def __init__(self) -> None:
        self._closed: dict[str, int] = {}
        self.steps = Rebalances(_TableRebalance, self._closed.get)
        self.records = Generations()
        self.lines = LoggedRebalances()
        self.modern = ModernGroup()
        self.epochs = ModernGroup(self._closed)
        """as the journal has it; `modern` as the log has."""
        self._came_back: tuple[GroupSnapshot, Cause] | None = None
        self._over = _ProtocolChanges(self.records, self.modern)
        self.partition: int | None = None
        self.protocol_type: str | None = None
        self._metadata = _Metadata()
        self._seen: dict[str, list[int]] = {}
        self._progress: dict[int, dict[str, list[int]]] = {}
        self._static, self._bounces = StaticMembers(), dict[int, list[Bounce]]()
        self._topics, self._grown = GrownTopics(), dict[int, list[str]]()
        """Grown topics of classic generations, by their number."""
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
            self._came_back = from_epochs(taken) if taken is not None and taken.classic_members else None
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
            step = GroupStep(step.ts_ms, came_back[0], step.after, came_back[1])
        if step.cause.kind == "session_expired" and step.cause.members:
            step.cause.closed_ms = self._closed.get(step.cause.members[0])
        last = self.steps.rebalances[-1].began_ms if self.steps.rebalances else 0
        changes = [*_parsed(row.get("cause_changes")), *self._metadata.changes(step, last)]
        for turn, rebalance in self.steps.take(step):
            if turn == "began":
                rebalance.changes = changes
            for at in (step.before, step.after):
                if at is not None:
                    rebalance.clients |= {name: member.get("client_id") for name, member in at.members.items()}
            if turn in ("found", "began"):
                rebalance.first, rebalance.partition = step, self.partition
            elif turn == "closed":
                rebalance.closing = step
            elif turn == "ended":
                rebalance.ending = step

    def _record(self, row: Row) -> None:
        """A classic group's record, with what was committed since the one before."""
        self._seen |= {entry["name"]: entry["seen"] for entry in _parsed(row.get("progress"))}
        members = tuple(_stored(member) for member in _parsed(row["members_after"]))
        known = len(self.records.generations)
        self._over.classic(
            GroupMetadataRecord(row["ts_ms"], row["state_ms"], row["generation"], members, row.get("place"))
        )
        if len(self.records.generations) > known:
            self._progress[known] = dict(self._seen)
            assigned = (name for member in members for name in member.assigned)
            self._grown[known] = self._topics.classic(assigned, row["generation"])
        if row["generation"] is None:
            self._static.forget()
            self._topics.forget()
        else:
            bounces = self._static.take(row["ts_ms"], row.get("place"), members, self._seen)
            self._bounces.setdefault(len(self.records.generations) - 1, []).extend(bounces)

    def rows(self) -> Iterator[dict[str, Any]]:
        """All rows of the group."""
        known = {rebalance.generation for rebalance in self.steps.rebalances}
        yield from map(_of_steps, self.steps.rebalances)
        used: list[LoggedRebalance] = []
        for number, generation in enumerate(self.records.generations):
            if generation.generation in known:
                continue
            row = {"coordinator_partition": self.partition, "kind": "classic", **_of_records(generation)}
            seen = self._progress.get(number, {})
            self._committed(row, generation, seen)
            if (
                number == 1
                and row["cause"] == "metadata change"
                and self._may_be_converted(self.records.generations[0])
            ):
                row["cause_certainty"] = LIKELY
            row |= self._over.cause(number)
            row["cause_changes"] = self._grown.get(number) or None
            row["bounces"] = [bounce.row() for bounce in self._bounces.get(number, ())] or None
            window = self.lines.of(generation.generation, generation.stored_ms)
            if window is not None:
                used.append(window)
                silent = row["cause"] == "poll timeout" and row["who"]
                row |= _of_window(window, row)
                if silent and row["cause"] == "leave" and set(row["who"]) <= set(silent):
                    # it left after max.poll.interval.ms without a commit: aiokafka gives no reason
                    row |= {"cause": "poll timeout", "cause_certainty": LIKELY}
                if row["cause"] == CAUSES["converted"]:
                    row = self.lines.with_removal_cause(row)
            yield self._polled(row)
        for window in self.lines.rebalances:
            if not any(window is other for other in used) and window.old + 1 not in known:
                yield self._polled(
                    {"coordinator_partition": self.partition, **_of_lines(window, self.lines.rebalances)}
                )
        for row in self.epochs.rows():
            yield {"coordinator_partition": self.partition, **row}
        epochs = {epoch.epoch for epoch in self.epochs.epochs}
        for row in self.modern.rows():
            if row["generation"] not in epochs:
                explained = self.lines.with_removal_cause({"coordinator_partition": self.partition, **row})
                yield self._polled(self.lines.upgraded(explained))

    def _polled(self, row: dict[str, Any]) -> dict[str, Any]:
        """With a client's line that it left as its poll timeout had expired: its broker may not know."""
        if row["cause"] in ("leave", "departed", "unknown"):
            since_ms = row.get("started_ms") or row.get("started_after_ms")
            line = self.lines.late_poll(row.get("who_clients") or (), since_ms, row.get("closed_ms") or row["ended_ms"])
            if line is not None:
                lines = [*(row.get("evidence_lines") or ()), line]
                row |= {"cause": "poll timeout", "cause_certainty": CERTAIN, "evidence_lines": lines}
        return row

    @staticmethod
    def _may_be_converted(first: Generation) -> bool:
        """Whether the group's first record in the log may be that of a downgrade, whose consumer group the log cleaner has removed."""
        return first.old is None and first.generation > 1

    def _committed(self, row: dict[str, Any], generation: Generation, seen: dict[str, list[int]]) -> None:
        """Add what commits show of a generation's cause and duration."""
        departed = departures(generation, seen)
        if departed is not None:
            cause, certainty, members = departed
            came = generation.old is not None and any(
                member.member not in {old.member for old in generation.old} for member in generation.new
            )
            if generation.change == "departed" or (came and cause != "leave"):
                row |= {
                    "cause": cause,
                    "cause_certainty": certainty,
                    "who": members,
                    "who_clients": _clients(generation, members),
                }
        elif generation.change not in ("unknown", "departed"):
            row["cause_certainty"] = CERTAIN
        waited = waiting(generation, seen)
        if waited is not None:
            row["waited_ms"], row["waited_for"] = waited


class _ProtocolChanges:
    """A group of the log that is converted to the consumer protocol, or back: the first record after it is the state at the conversion,
    and no rebalance. Such a record has the generation or epoch of the last one before, and members of it. If the log lacks that epoch,
    a classic group's record just after a deleted consumer group is that of a downgrade; the next generation has no known cause."""

    def __init__(self, records: Generations, epochs: ModernGroup) -> None:
        self.records, self.epochs = records, epochs
        self._stored: GroupMetadataRecord | None = None
        self._ended: tuple[int | None, dict[str, str | None]] | None = None
        self._departed: dict[str, str | None] | None = None
        self._downgraded: dict[int, dict[str, str | None]] = {}
        """Number of the first generation after a downgrade -> its departed members; none if they are unknown."""

    def modern(self, row: Row) -> Row:
        """A record of a consumer, share or streams group, marked if the group is converted with it."""
        if not row["what"].endswith("GroupMetadata"):
            return row
        stored, self._stored = self._stored, None
        if row["generation"] is None:
            self._ended = self.epochs.epoch, self.epochs.members
            return row
        self._ended, present = None, self.epochs.present
        if stored is not None and stored.generation == row["generation"] and self.epochs.epoch is None:
            return {**row, "over": bool(present) and present <= {member.member for member in stored.members}}
        return row

    def classic(self, record: GroupMetadataRecord) -> None:
        """A record of a classic group."""
        ended, self._ended = self._ended, None
        if record.generation is not None:
            self._stored = record
        stay = {member.member for member in record.members}
        if ended is not None and ended[0] is None and stay:
            self._departed = {}
            self.records.comes_over(record)
            return
        if ended is not None and ended[0] == record.generation and stay and stay <= set(ended[1]):
            departed = {name: client for name, client in ended[1].items() if name not in stay}
            # if a classic member replaces a static one no member departs, and no rebalance begins
            self._departed = departed or None
            others = (StoredMember(name, client) for name, client in departed.items())
            self.records.comes_over(replace(record, members=(*record.members, *others)))
            return
        known = len(self.records.generations)
        self.records.take(record)
        if self._departed is not None and len(self.records.generations) > known:
            if not self._departed:
                first = self.records.generations[known]
                first.old, first.change, first.who = None, "unknown", None
            self._downgraded[known], self._departed = self._departed, None

    def cause(self, number: int) -> dict[str, Any]:
        """The cause of a generation that is the first one after a downgrade to the classic protocol."""
        departed = self._downgraded.get(number)
        if not departed:
            return {}
        who = {"who": list(departed), "who_clients": list(departed.values())}
        return {"cause": CAUSES["converted"], "cause_certainty": CERTAIN, **who}


class _Metadata:
    """Changes in the metadata of members that rejoin, besides those that the step itself shows: partitions that they own, topics with
    more partitions."""

    _JOINED = ("first_member", "joined", "rejoined", "replaced", "metadata_changed", "leader_rejoined")

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

    def changes(self, step: GroupStep, since_ms: int) -> list[str]:
        """Changes of metadata that caused a step, as phrases. ``since_ms``: start of the last rebalance."""
        kind, changes = step.cause.kind, []
        for name in step.cause.members if kind in self._JOINED else ():
            had, has = self._owned.get(name), self._owns.get(name, [])
            self._owned[name] = has
            if had is not None and kind in ("metadata_changed", "leader_rejoined") and step.after is not None:
                changes += owned(step.after.members.get(name, {}).get("client_id") or name, had, has)
        assigned = step.before is not None and step.before.state in (STABLE, COMPLETING)
        if kind in ("metadata_changed", "leader_rejoined") and assigned:
            changes += dict.fromkeys(words for ts_ms, words in self._grown if ts_ms >= since_ms)
        return changes


# ------------------------------------------------------------------------------------------------ in


def _step(row: Row, *, fresh: bool) -> GroupStep:
    """``fresh``: it is the first of the group. A journal that begins late shows existing groups as loaded."""
    before = _snapshot(row["state_from"], row["generation_from"], row["size_before"], row["members_before"])
    after = _snapshot(row["state_to"], row["generation"], row["size_after"], row["members_after"], row.get("leader"))
    shown = fresh and before is None and row["cause"] in ("loaded", "over_capacity")
    if shown and after is not None and after.state in (PREPARING, COMPLETING):
        before = after
    cause = Cause(row["cause"] or "unknown", row["ts_ms"], _parsed(row["cause_members"]), row["error"])
    return GroupStep(row["ts_ms"], before, after, cause)


def _snapshot(
    state: str | None, generation: int | None, size: int | None, members: str | None, leader: str | None = None
) -> GroupSnapshot | None:
    if state is None:
        return None
    return GroupSnapshot(
        state, generation or 0, leader, None, {member["member"]: member for member in _parsed(members)}, [], size or 0
    )


def _parsed(array: str | None) -> list[Any]:
    """The elements of a JSON array. Null fields of an object may be missing, depending on the engine."""
    elements: list[Any] = json.loads(array) if array else []
    return elements


def _stored(member: Row) -> StoredMember:
    assigned = (
        f"{topic['topic']}-{index}" for topic in member.get("assigned") or () for index in topic.get("partitions") or ()
    )
    return StoredMember(
        member["member"],
        member.get("client_id"),
        member.get("instance"),
        tuple(member.get("topics") or ()),
        tuple(assigned),
        member.get("session_ms"),
        member.get("rebalance_ms"),
    )


# ------------------------------------------------------------------------------------------------ out


def _of_steps(rebalance: _TableRebalance) -> dict[str, Any]:
    assert rebalance.first is not None
    before, after = rebalance.first.before, rebalance.first.after
    kind = rebalance.cause.kind if rebalance.whole else None
    members = rebalance.cause.members if rebalance.whole else None
    clients = {
        name: member.get("client_id") for at in (after, before) if at is not None for name, member in at.members.items()
    }
    closed_ms = None if rebalance.found_in == COMPLETING else rebalance.closed_ms  # that was before anything is known
    row = {
        "coordinator_partition": rebalance.partition,
        "generation": rebalance.generation,
        "generation_before": rebalance.generation_before,
        "started_ms": rebalance.began_ms if rebalance.whole else None,
        "closed_ms": closed_ms,
        "ended_ms": rebalance.ended_ms,
        "end": rebalance.end or None,
        "preparing_ms": _lasted(rebalance.began_ms, closed_ms) if rebalance.whole else None,
        "completing_ms": None if rebalance.closing is rebalance.ending else _lasted(closed_ms, rebalance.ended_ms),
        "stable_ms": _lasted(rebalance.ended_ms, rebalance.left_ms),
        "cause": None if kind is None else CAUSES.get(kind, "unknown"),
        "cause_detail": kind,
        "cause_changes": rebalance.changes or None,
        "who": members,
        "who_clients": None if members is None else [clients.get(name) for name in members],
        "error": (rebalance.cause.error or "REQUEST_TIMED_OUT") if kind == "append_failed" else None,
        "size_before": None if before is None else before.size,
        "members_before": None if before is None else list(before.members),
        "from_empty": rebalance.from_empty if rebalance.whole else None,
        "whole": rebalance.whole,
        "kind": "classic",
        "source": "journal",
    }
    if rebalance.closing is not None and rebalance.closing.after is not None:
        had: Iterable[str] = () if rebalance.closing.before is None else rebalance.closing.before.members
        has = rebalance.closing.after.members
        row["size_after"], row["members_after"] = rebalance.closing.after.size, list(has)
        row["timed_out"] = (
            [name for name in had if name not in has] if rebalance.closing.cause.kind == "rebalance_timer" else []
        )
    waits = holdups(rebalance)
    known = {name: client for name, client in rebalance.clients.items() if client}
    columns = [
        {"what": held.what, "ms": held.ms, "who": held.members, "clients": _names(held, known), "closed": held.closed}
        for held in waits
    ]
    return {**row, "waits": columns or None, **_longest_wait(chief(waits), known)}


def _longest_wait(held: Holdup | None, clients: Mapping[str, str]) -> dict[str, Any]:
    """The columns of what a rebalance waited for the longest."""
    if held is None:
        return {}
    return {
        "held_by": held.what,
        "held_ms": held.ms,
        "held_who": held.members,
        "held_clients": _names(held, clients),
        "held_closed": held.closed,
    }


def _names(held: Holdup, clients: Mapping[str, str]) -> list[str]:
    return [clients.get(name) or client_of(name) for name in held.members]


def _of_records(generation: Generation) -> dict[str, Any]:
    old, empty = generation.old, not generation.new
    clients = {member.member: member.client_id for member in (*generation.new, *(old or ()))}
    return {
        "generation": generation.generation,
        "generation_before": generation.before,
        "closed_ms": generation.closed_ms,
        "ended_ms": generation.stored_ms,
        "end": "empty" if empty else "stable",
        "completing_ms": None if empty else _lasted(generation.closed_ms, generation.stored_ms),
        "stable_ms": None if empty else _lasted(generation.stored_ms, generation.left_ms),
        "cause": CAUSES.get(generation.change, "unknown"),
        "who": generation.who,
        "who_clients": None if generation.who is None else [clients.get(name) for name in generation.who],
        "size_before": None if old is None else len(old),
        "size_after": len(generation.new),
        "members_before": None if old is None else [member.member for member in old],
        "members_after": [member.member for member in generation.new],
        "from_empty": None if old is None else not old,
        "whole": generation.whole,
        "missing_before": generation.missing,
        "source": "log",
        "log_offset": generation.place,
        "started_after_ms": generation.before_stored_ms,
    }


def _clients(generation: Generation, names: Iterable[str]) -> list[str | None]:
    clients = {member.member: member.client_id for member in (*generation.new, *(generation.old or ()))}
    return [clients.get(name) for name in names]


def _reason(window: LoggedRebalance) -> dict[str, Any]:
    """Cause of a rebalance in a broker's lines, and the members that caused it."""
    kind, members, error = cause_of_reason(window.reason)
    if kind == "leave" and any(poll_ran_out(reason) for reason in window.leave_reasons.values()):
        kind = "poll timeout"
    reasons = [
        text for text in window.leave_reasons.values() if text and text != "not provided" and text not in window.reason
    ]
    detail = window.reason + (
        f"; client reason: {reasons[0]}" if reasons and "client reason" not in window.reason else ""
    )
    return {"cause": kind, "cause_detail": detail, "cause_certainty": CERTAIN, "who": members, "error": error}


def _of_window(window: LoggedRebalance, row: Row) -> dict[str, Any]:
    """Columns that a broker's lines add to a generation's record."""
    closed_ms = row["closed_ms"] if row["closed_ms"] is not None else window.closed_ms
    reason = _reason(window)
    if reason["cause"] == CAUSES["converted"]:  # the broker doesn't log which member was the last
        reason["who"] = list(row["who"] or ())
    clients = dict(zip(row["who"] or (), row["who_clients"] or (), strict=False))
    late = window.late or ([] if window.closed_ms is not None else None)
    return {
        **reason,
        "who_clients": [clients.get(name) or client_of(name) for name in reason["who"]],
        "started_ms": window.started_ms,
        "preparing_ms": _lasted(window.started_ms, closed_ms),
        "timed_out": late,
        "evidence_lines": window.lines,
        **_longest_wait(window.held(), clients),
    }


def _of_lines(window: LoggedRebalance, others: list[LoggedRebalance]) -> dict[str, Any]:
    """A rebalance without a record. It failed if another one began from its own generation, or from the one before it."""
    after = [other for other in others if other.started_ms > window.started_ms]
    following = min(after, key=lambda other: other.started_ms) if after else None
    ended_ms: int | None = window.assigned_ms
    end: str | None = "stable"
    if window.emptied:
        ended_ms, end = window.closed_ms, "empty"
    elif window.assigned_ms is None:
        ended_ms, end = (following.started_ms, "failed") if following is not None else (None, None)
    reason = _reason(window)
    return {
        **reason,
        "who_clients": [client_of(name) for name in reason["who"]],
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
        **_longest_wait(window.held(), {}),
        "whole": False,
        "source": "broker log",
        "evidence_lines": window.lines,
    }


def client_of(member: str) -> str:
    """A member id is the client id, a hyphen and a UUID."""
    return member[:-37] if len(member) > 37 and member[-37] == "-" else member


def _lasted(from_ms: int | None, to_ms: int | None) -> int | None:
    """A duration if both its ends are known; never below 0, since the times of records are of several clocks."""
    return None if from_ms is None or to_ms is None else max(to_ms - from_ms, 0)
