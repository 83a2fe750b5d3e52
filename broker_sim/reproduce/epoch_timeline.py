"""Timeline of a group with epochs from a log: a consumer group (KIP-848), a share group or a streams group.

Rules:
1. A record of an epoch has the moment at which a member joined or was removed. A leave and an expired session write the same tombstone.
   Which one it was follows, in this order, from a revocation that lasted for the member's rebalance timeout, from a later return
   with the same member id (only a fenced member does that: a new process has a new id), and from the silence of its commits. Where none
   of them shows it, a leave is played, and the page says that it is not certain.
2. The session timeout is a setting of the brokers (or of the group), which the log does not have. It is Kafka's default, or the time
   since the last record of the removed member if that is shorter.
3. A journal, where it is read, has the cause itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from broker_sim.common.text import duration_text
from broker_sim.coordinator.regular_expressions import PatternError, pattern
from broker_sim.reproduce.evidence import Evidence, Row
from broker_sim.reproduce.group_timeline import (
    Act,
    Commit,
    GenerationMember,
    GroupGeneration,
    GroupTimeline,
    Log,
    ScenarioMember,
    add_offset_acts,
    read_topics,
    rhythm_of,
)
from broker_sim.reproduce.share_acts import add_deliveries

__all__ = ["EPOCH_KINDS", "LEFT", "NOT_REVOKED", "REMOVED", "SESSION", "kinds_of", "read_epochs"]

EPOCH_KINDS = ("consumer", "share", "streams")
SESSION, NOT_REVOKED, LEFT, REMOVED = "session expired", "not revoked", "left", "removed"
"""Causes of a removal; the last one where the log does not show which it was."""
SESSION_MS, LEAST_SESSION_MS = 45_000, 1000
"""Kafka's default of group.*.session.timeout.ms, and the shortest one that is played."""
START_MS = 300
"""A client's process starts so long before its first heartbeat."""
KEPT_MS, HANG_MS = 5000, 1000
"""A revocation that took so long is a hang, which began so long before the rebalance."""
SILENT_MS = 3000
"""A member that had not committed for longer did not leave: a consumer commits as it closes."""
REVOKED_SHARE = 0.9
"""A revocation that lasted for so much of the rebalance timeout ended with it."""
_OF_JOURNAL = {"session timeout": SESSION, "rebalance timeout": NOT_REVOKED, "leave": LEFT}


def kinds_of(evidence: Evidence, group: str) -> list[str]:
    """The kinds of group that a group was: of EPOCH_KINDS and ``classic``, as far as its log has rebalances."""
    return sorted({str(row["kind"]) for row in evidence.of_group("rebalances", group) if row["kind"]})


def read_epochs(evidence: Evidence, group: str, kind: str, from_ms: int, to_ms: int) -> GroupTimeline:
    """Timeline of a group's epochs between two moments. ``kind``: one of EPOCH_KINDS."""
    rows = [
        row
        for row in evidence.of_group("rebalances", group)
        if row["kind"] == kind and row["started_ms"] is not None and row["started_ms"] <= to_ms
    ]
    rows.sort(key=lambda row: (row["started_ms"], row["log_offset"] or 0))
    begin = from_ms
    if not any(row["started_ms"] <= from_ms and row["members_after"] for row in rows):
        begin = next((row["started_ms"] for row in rows if row["members_after"]), from_ms)
    timeline = GroupTimeline(group, begin, max(to_ms, begin), protocol=kind)
    members = _MemberRecords(evidence, group)
    records = [_generation(row, members) for row in rows]
    earlier = [record for record in records if record.at_ms <= begin]
    timeline.begin = earlier[-1] if earlier else None
    timeline.records = records[len(earlier) :]
    _read_commits(timeline, evidence)
    timeline.rhythm_ms = rhythm_of(timeline.commits)
    _read_topics(timeline, evidence, members)
    _EpochReader(timeline, members, rows[len(earlier) :], rows).read()
    if kind != "share":
        _read_offsets(timeline, members)
    if kind == "share":
        add_deliveries(timeline, evidence)
    if kind == "streams":
        _read_topology(timeline, evidence, rows)
    timeline.acts.sort(key=lambda act: act.at_ms)
    return timeline


class _MemberRecords:
    """The records about members: what each said of itself, and when it was last heard of."""

    def __init__(self, evidence: Evidence, group: str) -> None:
        self.about: dict[str, dict[str, Any]] = {}
        self.heard: dict[str, list[int]] = {}
        self.topology: dict[str, Any] = {}
        self.assigned: dict[str, list[tuple[int, set[tuple[str, int]]]]] = {}
        self.names = {
            row["topic_id"]: row["topic"] for row in evidence.of_group("offset_log", group) if row["topic_id"]
        }
        """Topic id -> name, as far as commits have both."""
        self.indexes: set[int] = set()
        """Numbers of assigned partitions."""
        self.released = [row["first_ms"] for row in evidence.of_group("share_deliveries", group) if row["returns"]]
        """Times at which records of a share group became available again."""
        rows = sorted(evidence.of_group("offset_log", group), key=lambda row: (row["log_partition"], row["log_offset"]))
        self.ends: list[int] = []
        """Times at which the group was deleted."""
        for row in rows:
            if row["detail"] is None:
                if row["record_type"] in ("ConsumerGroupMetadata", "StreamsGroupMetadata"):
                    self.ends.append(row["record_ts_ms"] or 0)
                continue
            detail: dict[str, Any] = json.loads(row["detail"])
            if row["record_type"] == "StreamsGroupTopology":
                self.topology = detail
            if row["member"] is None:
                continue
            if str(row["record_type"]).endswith("MemberMetadata"):
                self.about[row["member"]] = detail
            if str(row["record_type"]).endswith(("MemberMetadata", "CurrentMemberAssignment")):
                self.heard.setdefault(row["member"], []).append(row["record_ts_ms"] or 0)
            if "assignedPartitions" in detail:
                pairs = {(topic["topicId"], i) for topic in detail["assignedPartitions"] for i in topic["partitions"]}
                self.assigned.setdefault(row["member"], []).append((row["record_ts_ms"] or 0, pairs))
            for topic in detail.get("topicPartitions") or ():
                self.indexes |= set(topic["partitions"])

    def entry(self, member_id: str) -> GenerationMember:
        about = self.about.get(member_id, {})
        return GenerationMember(
            member_id,
            about.get("clientId") or "consumer",
            about.get("instanceId"),
            SESSION_MS,
            about.get("rebalanceTimeoutMs") or 300_000,
            (),
        )

    def assigned_at(self, member_id: str, at_ms: int, topics: list[str]) -> set[tuple[str, int]]:
        """The partitions that a member had last before a moment, by name. ``topics``: all of the group."""
        held = [pairs for since_ms, pairs in self.assigned.get(member_id, ()) if since_ms < at_ms and pairs]
        only = topics[0] if len(topics) == 1 else None
        return {(self.names.get(topic_id) or only or topic_id, index) for topic_id, index in (held[-1] if held else ())}

    def last_heard(self, member_id: str, before_ms: int) -> int | None:
        return max((at_ms for at_ms in self.heard.get(member_id, ()) if at_ms < before_ms), default=None)


def _generation(row: Row, members: _MemberRecords) -> GroupGeneration:
    entries = tuple(members.entry(member_id) for member_id in row["members_after"] or ())
    return GroupGeneration(row["started_ms"], row["started_ms"], row["generation"], None, entries, None)


def _read_commits(timeline: GroupTimeline, evidence: Evidence) -> None:
    for row in evidence.of_group("offset_log", timeline.group):
        if row["kind"] not in ("commit", "commit_tombstone") or row["topic"] is None:
            continue
        at_ms, log = row["record_ts_ms"] or 0, (row["topic"], row["partition"])
        if at_ms < timeline.from_ms and row["committed_offset"] is None:
            timeline.before.pop(log, None)
        elif at_ms < timeline.from_ms:
            timeline.before[log] = row["committed_offset"]
        elif at_ms <= timeline.to_ms:
            timeline.commits.append(Commit(at_ms, log, row["committed_offset"]))


def _read_offsets(timeline: GroupTimeline, members: _MemberRecords) -> None:
    """Committed offsets that decrease, are set or deleted."""
    topics = sorted(timeline.partitions)

    def at(at_ms: int) -> GroupGeneration | None:
        known = [record for record in (timeline.begin, *timeline.records) if record is not None]
        return next((record for record in reversed(known) if record.at_ms <= at_ms), None)

    def has_members(at_ms: int) -> bool:
        record = at(at_ms)
        return record is not None and bool(record.entries)

    def owner(log: Log, at_ms: int) -> str | None:
        record = at(at_ms)
        ids = [entry.member_id for entry in record.entries] if record is not None else []
        holders = [one for one in ids if log in members.assigned_at(one, at_ms, topics)] or ids
        return timeline.names[holders[0]] if holders else None

    add_offset_acts(timeline, has_members, owner, members.ends)


def _read_topics(timeline: GroupTimeline, evidence: Evidence, members: _MemberRecords) -> None:
    """The subscribed topics, with their partitions."""
    read_topics(timeline, evidence)
    names: set[str] = set()
    for about in members.about.values():
        names |= set(about.get("subscribedTopicNames") or ())
        if about.get("subscribedTopicRegex"):
            names |= _matching(about["subscribedTopicRegex"], evidence.partitions)
    for part in members.topology.get("subtopologies") or ():
        names |= set(part.get("sourceTopics") or ())
    widest = max(members.indexes, default=0) + 1
    for topic in names:
        timeline.partitions[topic] = evidence.partitions.get(topic, 0) or timeline.partitions.get(topic, 0) or widest
    if timeline.protocol == "streams":
        timeline.missing = sorted(names - set(evidence.partitions)) if evidence.partitions else []
    for topic in set(timeline.partitions) - names:
        del timeline.partitions[topic]


def _matching(expression: str, topics: Iterable[str]) -> set[str]:
    """The topics that an expression of a member's record matches, in RE2's syntax; none if it is not valid."""
    try:
        matcher = pattern(expression).matcher()
    except PatternError:
        return set()
    return {topic for topic in topics if matcher.matches(topic)}


def _read_topology(timeline: GroupTimeline, evidence: Evidence, rows: list[Row]) -> None:
    """Add the time in which the topology lacked topics: one of its source topics is taken to have been created when it became ready."""
    timed = [row for row in rows if row["topology_ready"] is not None and row["started_ms"] <= timeline.to_ms]
    lacking = [row for row in timed if row["topology_ready"] is False and row["members_after"]]
    if not lacking:
        timeline.missing = []
        return
    first = lacking[0]
    ready = next((row for row in timed if row["topology_ready"] and row["started_ms"] > first["started_ms"]), None)
    at_ms = max(first["started_ms"], timeline.from_ms)
    lasted_ms = (timeline.to_ms if ready is None else ready["started_ms"]) - at_ms
    if lasted_ms < NOT_READY_MS:  # the group's internal topics were created
        timeline.missing = []
        return
    why = f"the topology was not ready for {duration_text(lasted_ms)}"
    timeline.acts.append(Act(at_ms, "not_ready", None, lasted_ms, why=why))
    if not timeline.missing and timeline.partitions:
        timeline.missing = [sorted(timeline.partitions)[-1]]
        timeline.notes.append(f"Which topic was missing is not in the log: {timeline.missing[0]} is taken.")
    if ready is not None and timeline.missing:
        why = "the topology became ready then"
        timeline.acts += [
            Act(ready["started_ms"] - START_MS, "create", topic, why=why, is_certain=False)
            for topic in timeline.missing
        ]


NOT_READY_MS = 10_000
"""A topology that lacks topics for so long is a finding of the pipeline."""


class _EpochReader:
    """Goes through the epochs of a group."""

    def __init__(self, timeline: GroupTimeline, members: _MemberRecords, rows: list[Row], all_: list[Row]) -> None:
        self.timeline, self.members, self.rows, self.all = timeline, members, rows, all_
        self.now: dict[str, GenerationMember] = {}
        self.fenced: dict[str, int] = {}
        """Member id -> place of the act that removed it, of those that come back by themselves."""

    def read(self) -> None:
        begin = self.timeline.begin
        for entry in begin.entries if begin is not None else ():
            self._named(entry).first = True
            self.now[entry.member_id] = entry
        for record, row in zip(self.timeline.records, self.rows, strict=True):
            after = {entry.member_id: entry for entry in record.entries}
            came = [entry for name, entry in after.items() if name not in self.now]
            departed = [entry for name, entry in self.now.items() if name not in after]
            for entry in departed:
                del self.now[entry.member_id]
            for entry in came:
                member = self._named(entry)
                self.now[entry.member_id] = entry
                self._joined(entry, member, record)
            present = {self.timeline.names[name] for name in after}
            for entry in departed:
                if self.timeline.names[entry.member_id] not in present:
                    self._removed(entry, row)
        self._hung()
        self._configure()

    def _hung(self) -> None:
        """Members that kept what they were to revoke for long, and revoked it in the end: their applications did not poll."""
        for row in self.rows:
            kept_ms, client = row["revoked_ms"] or 0, row["revoked_by"]
            if kept_ms < KEPT_MS or client is None:
                continue
            entries = [
                entry for entry in map(self.members.entry, row["members_before"] or ()) if entry.client_id == client
            ]
            entry = next((entry for entry in entries if entry.member_id in self.timeline.names), None)
            if entry is None or kept_ms >= entry.rebalance_ms * REVOKED_SHARE:
                continue
            at_ms = max(row["started_ms"] - HANG_MS, self.timeline.from_ms)
            why = f"it kept for {duration_text(kept_ms)} what it was to revoke: it did not poll"
            for_ms = row["started_ms"] + kept_ms - at_ms
            self._act(at_ms, "hang", self.timeline.names[entry.member_id], why, for_ms=for_ms, is_certain=False)

    def _named(self, entry: GenerationMember) -> ScenarioMember:
        names, members = self.timeline.names, self.timeline.members
        if entry.member_id in names:
            return next(member for member in members if member.name == names[entry.member_id])
        held = {names[name] for name in self.now}
        same = [one for one in members if (one.client_id, one.instance) == (entry.client_id, entry.instance)]
        known = next((member for member in same if member.name not in held), None)
        if known is None:
            number = sum(member.client_id == entry.client_id for member in members)
            name = entry.client_id if not number else f"{entry.client_id}.{number + 1}"
            known = ScenarioMember(name, entry.client_id, entry.instance, entry.session_ms, entry.rebalance_ms)
            about = self.members.about.get(entry.member_id, {})
            if self.timeline.protocol == "streams":
                self._topology(known, about)
            members.append(known)
        names[entry.member_id] = known.name
        return known

    def _topology(self, member: ScenarioMember, about: dict[str, Any]) -> None:
        member.configure(topology_epoch=about.get("topologyEpoch") or 0)
        if about.get("processId"):
            member.configure(process=member.name)
        parts = self.members.topology.get("subtopologies") or []
        changelogs = [topic["name"] for part in parts for topic in part.get("stateChangelogTopics") or ()]
        if changelogs:
            member.configure(changelog=changelogs[0])
        if len(parts) > 1:
            self.timeline.notes.append("The topology of the simulated members is one subtopology.")

    def _joined(self, entry: GenerationMember, member: ScenarioMember, record: GroupGeneration) -> None:
        acts = self.timeline.acts
        place = self.fenced.pop(entry.member_id, None)
        if place is not None:
            act = acts[place]
            if act.kind == "freeze":
                acts[place] = replace(act, for_ms=max(record.at_ms - START_MS - act.at_ms, 1000))
            return
        mine = [act for act in acts if act.who == member.name]
        if (mine and mine[-1].kind in ("start", "freeze")) or (not mine and member.first):
            why = "its client joins with a new member id while the old member is in the group"
            self._act(record.at_ms - 2 * START_MS, "crash", member.name, why)
        why = f"it is a member from epoch {record.generation} on"
        at_ms = max([record.at_ms - START_MS, *(act.at_ms + 100 for act in mine)])
        self._act(at_ms, "start", member.name, why)

    def _removed(self, entry: GenerationMember, row: Row) -> None:
        name, at_ms = self.timeline.names[entry.member_id], row["started_ms"]
        back = any(
            later["started_ms"] > at_ms and entry.member_id in (later["members_after"] or ()) for later in self.rows
        )
        cause, why, is_certain = self._cause(entry, row, back)
        if cause == NOT_REVOKED:
            member = next(one for one in self.timeline.members if one.name == name)
            member.configure(revokes=False)
            self._act(at_ms, "not_revoked", name, why, cause=cause, is_certain=is_certain, removed=True)
            if back:
                self.fenced[entry.member_id] = len(self.timeline.acts) - 1
            return
        if cause != SESSION:
            self._act(at_ms, "leave", name, why, cause=cause, is_certain=is_certain)
            return
        committed = self._silent_ms(entry, at_ms)
        heard = self.members.last_heard(entry.member_id, at_ms)
        if committed is not None:
            heard = max(heard or 0, at_ms - committed)
        last = self._released(at_ms) or heard
        silent = at_ms - (last if last is not None else at_ms - SESSION_MS)
        session = max(min(SESSION_MS, silent), LEAST_SESSION_MS)
        member = next(one for one in self.timeline.members if one.name == name)
        member.session_ms = min(member.session_ms, session)
        self._act(
            at_ms - session,
            "freeze" if back else "crash",
            name,
            why,
            cause=cause,
            is_certain=is_certain,
            removed=True,
            for_ms=max(self.timeline.to_ms - at_ms, 0) + session if back else 0,
        )
        if back:
            self.fenced[entry.member_id] = len(self.timeline.acts) - 1

    def _cause(self, entry: GenerationMember, row: Row, back: bool) -> tuple[str, str, bool]:
        if row["source"] == "journal" and row["cause"] in _OF_JOURNAL and entry.member_id in (row["who"] or ()):
            return _OF_JOURNAL[row["cause"]], f"the journal: {row['cause']}", True
        at_ms = row["started_ms"]
        for before in self.all:
            kept = (
                before["revoked_by"] == entry.client_id
                and before["ended_ms"] is not None
                and abs(before["ended_ms"] - at_ms) <= START_MS
                and entry.member_id in {name for wait in before["waits"] or () for name in wait["who"] or ()}
            )
            if kept and (before["revoked_ms"] or 0) >= entry.rebalance_ms * REVOKED_SHARE:
                limit = duration_text(entry.rebalance_ms)
                return NOT_REVOKED, f"it did not confirm a revocation within its rebalance timeout, {limit}", True
        if back:
            why = "it came back with the same member id: its session had expired, or its max.poll.interval.ms"
            return SESSION, why, False
        released = self._released(at_ms)
        if released is not None:
            ago = duration_text(at_ms - released)
            return (
                SESSION,
                f"records became available again {ago} before it was removed: its connection had ended",
                False,
            )
        silent = self._silent_ms(entry, at_ms)
        if silent is None:
            return REMOVED, "it left, or its session expired: the log does not show which", False
        silence = f"no commit for {duration_text(silent)} before it was removed"
        if silent > max(2 * self.timeline.rhythm_ms, SILENT_MS):
            return SESSION, f"{silence}: its session expired", silent >= SESSION_MS * REVOKED_SHARE
        return LEFT, f"{silence}: it left", True

    def _released(self, at_ms: int) -> int | None:
        """Time at which records became available again before a removal, if that was once within a session timeout; else None."""
        times = {ms // 1000: ms for ms in self.members.released if at_ms - SESSION_MS - 2000 <= ms <= at_ms - 3000}
        return next(iter(times.values())) if len(times) == 1 else None

    def _silent_ms(self, entry: GenerationMember, at_ms: int) -> int | None:
        """Milliseconds from the last commit of the member's partitions to its removal; None if unknown: a member commits as it
        leaves."""
        mine = self.members.assigned_at(entry.member_id, at_ms, sorted(self.timeline.partitions))
        last = [commit.at_ms for commit in self.timeline.commits if commit.log in mine and commit.at_ms < at_ms]
        return at_ms - max(last) if last and self.timeline.protocol == "consumer" else None

    def _act(self, at_ms: int, kind: str, who: str, why: str, **more: Any) -> None:
        self.timeline.acts.append(Act(max(at_ms, self.timeline.from_ms), kind, who, why=why, **more))

    def _configure(self) -> None:
        """The brokers' settings of sessions."""
        timeline = self.timeline
        session = min((member.session_ms for member in timeline.members), default=SESSION_MS)
        if session < SESSION_MS:
            timeline.config |= dict(_sessions(timeline.protocol, session))
            timeline.notes.append(
                f"The log does not have the session timeout: it is {duration_text(session)} here, from the last record of a member"
                " to its removal."
            )


def _sessions(kind: str, session_ms: int) -> Iterator[tuple[str, str]]:
    beat = str(max(min(session_ms // 3, 5000), 1))
    yield f"group.{kind}.min.session.timeout.ms", str(session_ms)
    yield f"group.{kind}.session.timeout.ms", str(session_ms)
    yield f"group.{kind}.min.heartbeat.interval.ms", beat
    yield f"group.{kind}.heartbeat.interval.ms", beat
