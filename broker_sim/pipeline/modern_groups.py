"""Consumer (KIP-848), share and streams groups from their records in `__consumer_offsets`, or from the steps of a journal.

Rules:
1. A rebalance is a group epoch. It begins with the record that raises it, so its moment is exact, and is over once each member's
   current assignment has reached it; only the partitions that move are not consumed meanwhile. An epoch that is superseded by the next
   is `failed` here as elsewhere: it was never Stable. An epoch that lacked only members that were removed is one: their removal begins
   the next epoch. How long it lacked each of them is in ``waits``.
2. Joined and removed members are in the members' records just before. A leave and an expired session write the same tombstone. A static
   member that rejoins with another member id neither joined nor left.
3. Partitions to revoke are in a member's current assignment until it acknowledges them or is removed: so long others
   wait. A streams group's record has whether its topology fits the topics; if it does not, no task is assigned.
4. Records have member ids; assignments have topic ids, which the log alone does not resolve.
5. A step of a journal (`EPOCHS`) is read as the records that it wrote, in Kafka's order, so that both give the same rows. The step
   also has why members were removed, and what else has changed the epoch.
6. The epoch with which a classic group is converted (``over``), or with which a journal begins (``found``), is no rebalance.
7. A log may lack its beginning: compaction and retention remove it. A member that has an assignment, or is removed, but whose joining
   is not in the log, was there before the group's first record in the log: it is added to all epochs so far. As it has a record for
   each epoch that it reaches, it had reached none of them.

Source: GroupMetadataManager.java, GroupCoordinatorRecordHelpers.java of 4.1;
ConsumerGroupMember.java (LEAVE_GROUP_STATIC_MEMBER_EPOCH).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from broker_sim.explain.epoch_steps import EpochStep, EpochSteps
from broker_sim.pipeline.cause_changes import counted, grown, subscribed
from broker_sim.pipeline.epoch_records import records_of
from broker_sim.pipeline.grown_topics import GrownTopics, counts_of
from broker_sim.pipeline.log_causes import CAUSES
from broker_sim.pipeline.static_members import Bounce

__all__ = ["EPOCHS", "RECORDS", "WITH_MEMBERS", "ModernGroup"]

WITH_MEMBERS = "^(Consumer|Share|Streams)Group(?:Metadata|MemberMetadata)$"
"""Types of records that show how many members a group by epochs has, as a regular expression; its group is the kind."""
EPOCHS = "GroupEpochs"
"""In the place of a record's type: a step of a journal, its ``detail`` an event `epochs`. Kafka has no such record."""

_RECORD = "(Consumer|Share|Streams)Group(Metadata|MemberMetadata|CurrentMemberAssignment)"
RECORDS = rf"^({_RECORD}|{EPOCHS})$"
"""Types of the records that are read, as a regular expression."""
_TYPE = re.compile(rf"^{_RECORD}$")
_FIRST_SINCE_4_2 = 2
"""A group's first epoch with a member since 4.2; before, it was 1. It comes with its first member's record."""
_AT_ONCE = 2
"""So many records after its first member's is a group's first epoch."""
_AWAY = -2
"""Member epoch of a static member that has left for a while."""
_STABLE = {"Consumer": 0, "Share": 0, "Streams": 1}
"""A member's state STABLE as records have it: streams groups count from 1 (StreamsGroup's MemberState.java)."""
_REVOKING = ("partitionsPendingRevocation", "activeTasksPendingRevocation")
"""Fields of the partitions or tasks that a member is to revoke, in a record of a consumer group and of a streams group."""
_REMOVALS = {"session_expired": "session", "left": "leave", "revocation_timeout": "rebalance timeout"}
"""Reason why a step of a journal removed members -> kind of wait of the group."""
_TOPOLOGY = "validatedTopologyEpoch"

Row = Mapping[str, Any]


@dataclass(slots=True)
class _Epoch:
    """A group epoch. ``waits``: members that have not reached it."""

    epoch: int
    before: int | None
    started_ms: int | None
    place: int | None
    kind: str
    old: list[str]
    new: list[str]
    clients: dict[str, str | None]
    waits: set[str]
    ended_ms: int | None = None
    end: str | None = None
    left_ms: int | None = None
    last: list[str] = field(default_factory=list)
    """the member that reached it last."""
    missed: dict[str, int] = field(default_factory=dict)
    """members that were removed before they reached it, and since when they had lacked an epoch."""
    dead: set[str] = field(default_factory=set)
    """members of `missed` whose connections had been closed."""
    removal: str = "removed"
    """kind of the wait for members of `missed`: one of `_REMOVALS`, or `removed` if the log does not show why they were removed."""
    ready: bool | None = None
    revoked: _Revoked | None = None
    step: EpochStep | None = None
    """step of a journal; None from a log."""
    changes: list[str] = field(default_factory=list)
    bounces: list[Bounce] = field(default_factory=list)
    """static members that came back under another member id in it; of a log."""


@dataclass(frozen=True, slots=True)
class _Revoked:
    """A revocation by a member, and how long it took after the request. ``tasks``: of a streams group."""

    client: str
    ms: int
    tasks: list[str] | None


class ModernGroup:
    """Reads the records of one group, in order."""

    def __init__(self, closed: Mapping[str, int] = MappingProxyType({})) -> None:
        """``closed``: member -> when the connection of its last request was closed, as far as the rows before have it."""
        self._closed = closed
        self.epochs: list[_Epoch] = []
        self.states: list[dict[str, Any]] = []
        """members and epoch, record by record: rows of `tables.group_states`. The reader removes them."""
        self._shown: tuple[int | None, set[str]] = None, set()
        self._held: dict[str, Any] | None = None
        self._members: dict[str, tuple[str | None, str | None]] = {}
        self._places: dict[str, int | None] = {}
        """member -> the offset of its last record."""
        self._about: dict[str, dict[str, Any]] = {}
        self._before: dict[str, tuple[str | None, str | None]] = {}
        self._epochs: dict[str, int] = {}
        self._assigned: dict[str, dict[str, int]] = {}
        """member -> topic id -> the highest partition that it has, plus one."""
        self._topics = GrownTopics()
        self._static: dict[str, str] = {}
        """instance id -> the member that had it last."""
        self._away: dict[str, int | None] = {}
        """static member that has left for a while -> since when."""
        self._revoking: dict[str, tuple[int, list[str] | None]] = {}
        self._lacking: dict[str, int] = {}
        self._epoch: int | None = None
        self._life = 0
        """The first of `epochs` since the group was last deleted."""
        self._steps = EpochSteps()
        self._step: EpochStep | None = None
        """Step of a journal, while its records are read."""

    @property
    def epoch(self) -> int | None:
        """The group's epoch; None if there is no such group."""
        return self._epoch

    @property
    def members(self) -> dict[str, str | None]:
        """Members at the group's last epoch: member id -> client id."""
        return {name: assigned[0] for name, assigned in self._before.items()}

    @property
    def present(self) -> set[str]:
        """Ids of the members that the group has by the members' records."""
        return set(self._members)

    def take(self, row: Row) -> EpochStep | None:
        """A row of a record, its type as ``what``; ``over``, ``found``: rule 6. Returns the step that a row of a journal is."""
        if row["what"] != EPOCHS:
            self._take(row)
            return None
        step = self._step = self._steps.take(json.loads(row["detail"]))
        for record in records_of(step, row):
            self._take(record)
        self._step = None
        return step

    def _take(self, row: Row) -> None:
        kind = _TYPE.match(row["what"])
        if kind is None:
            return
        if kind[2] == "MemberMetadata":
            self._member(row)
            return
        if kind[2] == "Metadata":
            self._raised(row, kind[1].lower())
        else:
            self._reached(row, _STABLE[kind[1]])
        is_described = row["detail"] is not None and self._epoch is not None
        if kind[2] == "Metadata" and row.get("stays"):
            self._go_over(row, row["stays"])
        elif kind[2] == "Metadata" or is_described:  # the records of the request's members come before
            self._show(row)

    def _begins(self, epoch: int, place: int | None) -> bool:
        """Whether a group of which nothing was known begins with that epoch. Since 4.2 the first epoch follows the record of its member
        (of a streams group, and its topology); an epoch 2 farther away has lost its epoch 1 to the log cleaner."""
        if epoch != _FIRST_SINCE_4_2 or len(self._members) != 1:
            return epoch == 1
        member = next((self._places.get(name) for name in self._members), None)
        return place is None or member is None or place - member <= _AT_ONCE

    def ended(self) -> None:
        """There are no more records."""
        if self._held is not None:
            self.states.append(self._held)
            self._held = None

    def _show(self, row: Row) -> None:
        shown = self._epoch, set(self._members)
        if shown == self._shown:
            return
        first, self._shown = self._shown == (None, set()), shown
        over = self._epoch is None
        state = {
            "run_id": row.get("run_id"),
            "group": row.get("group"),
            "log_partition": row.get("coordinator_partition"),
            "log_offset": row["place"],
            "record_ts_ms": row["ts_ms"],
            "kind": "group_tombstone" if over else "group",
            "generation": self._epoch,
            "members": None if over else [{"member_id": name, **self._about[name]} for name in self._members],
            "detail": _why(row),
        }
        if self._held is not None and self._held["generation"] == self._epoch:
            self._held["members"] = state["members"]
            return
        self.ended()
        if first and self._epoch == _FIRST_SINCE_4_2 and self._begins(_FIRST_SINCE_4_2, row["place"]):
            self.states.append({**state, "generation": self._epoch - 1, "members": [], "log_offset": row["place"] - 1})
            self.states.append(state)
        elif first and (self._epoch or 0) > 1:
            self._held = state  # compaction kept the members, perhaps after the epoch
        else:
            self.states.append(state)

    def _go_over(self, row: Row, stays: list[str]) -> None:
        """To the classic protocol: the other members left."""
        self.ended()
        if self.states:
            last = self.states[-1]
            members = [member for member in last["members"] or () if member["member_id"] in stays]
            about = {"log_offset": row["place"], "record_ts_ms": row["ts_ms"], "detail": _why(row)}
            self.states.append({**last, **about, "members": members})
        self._shown = None, set()

    def _member(self, row: Row) -> None:
        member = row["cause_members"]
        if row["detail"] is None:
            self._was_there(member, row)
            self._members.pop(member, None)
            self._places.pop(member, None)
            self._about.pop(member, None)
            self._epochs.pop(member, None)
        else:
            value = json.loads(row["detail"])
            self._places[member] = row["place"]
            known = self._members[member] = (value.get("clientId"), value.get("instanceId"))
            if known[1] is not None:
                self._bounced(known[1], known[0], row)
                self._replace(member, known[1], row["ts_ms"])
            self._about[member] = {
                "group_instance_id": value.get("instanceId"),
                "client_id": value.get("clientId"),
                "client_host": value.get("clientHost"),
                "topics": value.get("subscribedTopicNames"),
            }

    def _bounced(self, instance: str, client: str | None, row: Row) -> None:
        """See `static_members`."""
        member, ts_ms = row["cause_members"], row["ts_ms"]
        former = self._static.get(instance)
        self._static[instance] = member
        epoch = self.epochs[-1] if len(self.epochs) > self._life else None
        if epoch is None or self._step is not None or former is None:
            return
        if former == member:
            for bounce in epoch.bounces:
                if bounce.member == member:
                    bounce.client = client
            return
        away_ms = self._away.pop(former, None)
        away_ms = None if away_ms is None or ts_ms is None else max(ts_ms - away_ms, 0)
        removed = former not in self._before and former not in self._members
        epoch.bounces.append(Bounce(instance, client, former, member, ts_ms, away_ms, removed, row["place"]))

    def _replace(self, member: str, instance: str, ts_ms: int | None) -> None:
        """A static member that takes its own place within an epoch was there before, under another id."""
        former = [name for name, own in self._before.items() if own[1] == instance and name not in self._members]
        self._before = {member if name in former else name: own for name, own in self._before.items()}
        epoch = self.epochs[-1] if self.epochs else None
        for name in former:
            if epoch is not None and name in epoch.missed:
                epoch.waits.add(member)
                self._lacking[member] = (ts_ms or 0) - epoch.missed.pop(name)

    def _was_there(self, member: str, row: Row) -> None:
        """A record of a member follows; see rule 7 for one that is unknown."""
        if self._epoch is None or member in self._members or row.get("step") is not None:
            return
        self._members[member] = self._before[member] = (None, None)
        self._topics.forget()
        self._about[member] = dict.fromkeys(("group_instance_id", "client_id", "client_host", "topics"))
        for epoch in self.epochs[self._life :]:
            epoch.old.append(member)
            epoch.new.append(member)
            epoch.waits.add(member)
            if epoch.end in ("stable", "empty"):
                epoch.end, epoch.ended_ms = (None, None) if epoch.left_ms is None else ("failed", epoch.left_ms)
        if len(self.epochs) > self._life:
            self.epochs[self._life].before = None

    def _raised(self, row: Row, kind: str) -> None:
        if row["generation"] == self._epoch:
            return
        open_ = self.epochs[-1] if self.epochs else None
        if open_ is not None and open_.left_ms is None:
            if open_.end is None:
                open_.end, open_.ended_ms = "dead" if row["generation"] is None else "failed", row["ts_ms"]
            open_.left_ms = row["ts_ms"]
        if row["generation"] is None:  # the group ceased to be, or became a classic one
            self._before, self._epoch, self._life = {}, None, len(self.epochs)
            self._static.clear()
            self._topics.forget()
            self._assigned.clear()
            return
        if row.get("over") or row.get("found") in _SETTLED:
            self._before, self._epoch = dict(self._members), row["generation"]
            return
        clients = {name: member[0] for name, member in (self._before | self._members).items()}
        waits = {name for name in self._members if self._epochs.get(name) != _AWAY}
        before, preexisting = self._epoch, row.get("found") is not None
        if before is None and not preexisting and self._begins(row["generation"], row["place"]):
            before = row["generation"] - 1
        step: EpochStep | None = row.get("step")
        epoch = _Epoch(
            row["generation"],
            before,
            None if preexisting else row["ts_ms"],
            row["place"],
            kind,
            list(self._before),
            list(self._members),
            clients,
            waits,
            step=step,
            changes=_changes(step, clients) if step is not None and not preexisting else [],
        )
        if not self._members:
            epoch.end, epoch.ended_ms = "empty", row["ts_ms"]
        if kind == "streams":
            epoch.ready = json.loads(row["detail"] or "{}").get(_TOPOLOGY, -1) >= 0
        self.epochs.append(epoch)
        for name in waits if row["ts_ms"] is not None else ():
            self._lacking.setdefault(name, row["ts_ms"])
        self._before, self._epoch = dict(self._members), row["generation"]

    def _reached(self, row: Row, settled: int) -> None:
        member = row["cause_members"]
        self._was_there(member, row)
        value = json.loads(row["detail"] or "{}")
        self._watch_revocation(member, value, row["ts_ms"])
        if row["detail"] is None:
            self._assigned.pop(member, None)
            self._done(member, row)
            return
        self._epochs[member] = value["memberEpoch"]
        self._assigned[member] = counts_of(
            (one["topicId"], number)
            for one in value.get("assignedPartitions") or ()
            if "topicId" in one
            for number in one["partitions"]
        )
        if value["memberEpoch"] == _AWAY:
            self._away[member] = row["ts_ms"]
        else:
            self._away.pop(member, None)
        stable = value.get("state", settled) == settled
        if value["memberEpoch"] == _AWAY or (
            self._epoch is not None and value["memberEpoch"] >= self._epoch and stable
        ):
            self._done(member, row)

    def _watch_revocation(self, member: str, value: Mapping[str, Any], ts_ms: int | None) -> None:
        if ts_ms is None:
            return
        pending = next((value[name] for name in _REVOKING if value.get(name)), None)
        if pending is not None:
            self._revoking.setdefault(member, (ts_ms, _tasks(pending)))
            return
        since_ms, tasks = self._revoking.pop(member, (None, None))
        epoch = self.epochs[-1] if self.epochs else None
        if since_ms is None or epoch is None:
            return
        client = epoch.clients.get(member) or member
        if epoch.revoked is None or ts_ms - since_ms > epoch.revoked.ms:
            epoch.revoked = _Revoked(client, ts_ms - since_ms, tasks)

    def _done(self, member: str, row: Row) -> None:
        epoch = self.epochs[-1] if self.epochs else None
        if epoch is None or epoch.end is not None or member not in epoch.waits:
            return
        epoch.waits.discard(member)
        since_ms = self._lacking.pop(member, None)
        if row["detail"] is None:  # the tombstone of its assignment comes before that of the member
            if since_ms is not None and row["ts_ms"] is not None:
                epoch.missed[member] = max(row["ts_ms"] - since_ms, 0)
                if member in self._closed:
                    epoch.dead.add(member)
            if self._step is not None:
                epoch.removal = _REMOVALS.get(self._step.removed_by, "removed")
            return
        epoch.last = [member]
        if not epoch.waits:
            epoch.end, epoch.ended_ms = "stable", row["ts_ms"]
            if epoch.step is None:
                epoch.changes += self._grew()

    def _grew(self) -> list[str]:
        """Topics that have more partitions than before, once all members have what they are to have: in a log by their ids, unless
        members subscribe to a single one."""
        if not self._members.keys() <= self._assigned.keys():
            return []
        counts = counts_of(
            (topic, number - 1) for name in self._members for topic, number in self._assigned[name].items()
        )
        names = {name for about in self._about.values() for name in about["topics"] or ()}
        found = self._topics.take(counts, complete=True)
        return [
            grown(next(iter(names)) if len(names) == len(counts) == 1 else f"topic {topic}", before, now)
            for topic, before, now in found
        ]

    def _waits(self, epoch: _Epoch) -> list[dict[str, Any]] | None:
        """The members that were removed before they had reached an epoch, as `waits` of the table."""
        dead = epoch.dead if epoch.removal == "session" else ()
        return [
            {
                "what": epoch.removal,
                "ms": ms,
                "who": [member],
                "clients": [epoch.clients.get(member) or member],
                "closed": [member] if member in dead else [],
            }
            for member, ms in epoch.missed.items()
        ] or None

    def rows(self) -> Iterator[dict[str, Any]]:
        """Rows of `tables.rebalances.REBALANCES`, one for each group epoch."""
        for epoch in self.epochs:
            lasted = (
                None
                if epoch.started_ms is None or epoch.ended_ms is None
                else max(epoch.ended_ms - epoch.started_ms, 0)
            )
            stable = epoch.left_ms is not None and epoch.ended_ms is not None and epoch.end == "stable"
            known = epoch.before is not None
            row = {
                "generation": epoch.epoch,
                "generation_before": epoch.before,
                "started_ms": epoch.started_ms,
                "ended_ms": epoch.ended_ms,
                "end": epoch.end,
                "completing_ms": lasted,
                "stable_ms": max((epoch.left_ms or 0) - (epoch.ended_ms or 0), 0) if stable else None,
                "size_before": len(epoch.old) if known else None,
                "size_after": len(epoch.new),
                "members_before": epoch.old if known else None,
                "members_after": epoch.new,
                "from_empty": not epoch.old if known else None,
                "whole": known,
                "waits": self._waits(epoch),
                "bounces": [bounce.row() for bounce in epoch.bounces] or None,
                "waited_for": [epoch.clients.get(name) or name for name in epoch.last] if lasted else None,
                "revoked_by": None if epoch.revoked is None else epoch.revoked.client,
                "revoked_ms": None if epoch.revoked is None else epoch.revoked.ms,
                "revoked_tasks": None if epoch.revoked is None else epoch.revoked.tasks,
                "topology_ready": epoch.ready,
                "kind": epoch.kind,
                "source": "log" if epoch.step is None else "journal",
                "log_offset": epoch.place if epoch.step is None else None,
                **_cause(epoch),
            }
            if epoch.step is None:
                row["missing_before"] = None if epoch.before is None else max(epoch.epoch - epoch.before - 1, 0)
            yield row


def _cause(epoch: _Epoch) -> dict[str, Any]:
    """Cause of an epoch, and the members that caused it; null if the epoch before is unknown, as where the log's start was removed."""
    if epoch.before is None:
        return dict.fromkeys(("cause", "cause_detail", "cause_certainty", "cause_changes", "who", "who_clients"))
    joined = [name for name in epoch.new if name not in epoch.old]
    removed = [name for name in epoch.old if name not in epoch.new]
    members = joined or removed
    cause = "unknown" if joined and removed else "join" if joined else "departed" if removed else "metadata change"
    detail = None
    if epoch.step is not None:
        detail = (
            "unknown"
            if joined and removed
            else "joined"
            if joined
            else epoch.step.removed_by
            if removed
            else "metadata_changed"
        )
        cause = CAUSES.get(detail, "unknown") if cause == "departed" else cause
    return {
        "cause": cause,
        "cause_detail": detail,
        "cause_certainty": None if cause in ("departed", "unknown") else "certain",
        "cause_changes": epoch.changes or None,
        "who": members,
        "who_clients": [epoch.clients.get(name) for name in members],
    }


_SETTLED = ("Stable", "Empty")


def _why(row: Row) -> str | None:
    """Reason why members were removed with a step of a journal, or "loaded" if it is the first; None from a log."""
    step: EpochStep | None = row.get("step")
    return None if step is None else "loaded" if step.found else step.removed_by


def _changes(step: EpochStep, clients: Mapping[str, str | None]) -> list[str]:
    """Causes of the epoch other than joined and removed members."""
    if step.joined or step.removed or step.back or step.over:
        return []
    changes = []
    for name, (was, now) in step.subscribed.items():
        added, lost = (topic for topic in now if topic not in was), (topic for topic in was if topic not in now)
        changes += subscribed(clients.get(name) or name, added, lost)
    if step.kind != "streams":
        for units, what in ((step.new_units, "new"), (step.lost_units, "removed")):
            changes += counted((unit.name for unit in units), what)
    if step.cause.get("timer") == "patterns":
        changes.append("regular expressions match other topics")
    if step.assignor_before and step.assignor and step.assignor != step.assignor_before:
        changes.append(f"assignor: {step.assignor_before} to {step.assignor}")
    return changes


def _tasks(pending: list[Mapping[str, Any]]) -> list[str] | None:
    """``0_3``; None where these are partitions."""
    result = [
        f"{task['subtopologyId']}_{number}"
        for task in pending
        if "subtopologyId" in task
        for number in task["partitions"]
    ]
    return result or None
