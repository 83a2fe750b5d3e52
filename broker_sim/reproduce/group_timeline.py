"""Timeline of one group from a log: members that come and go, hang and come back; offsets that are set, fall and are deleted; a
coordinator that moves.

    timeline = read_timeline(evidence, "billing", from_ms, to_ms)
    timeline.members     the members, by the names that the scenario gives them
    timeline.acts        what happens, in order, each with what it was read from and how sure that is

Rules:
1. A record has the end of a join phase and its members; the time of a member's removal follows from its last commit and its
   timeouts. Of two possible causes the likelier one is taken and the other one named.
2. A member whose partitions are not committed for long while it stays is taken to hang, as one whose application does not poll. Without
   any commit of the group this is unknown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median
from typing import Any

from broker_sim.common.text import duration_text
from broker_sim.reproduce.evidence import Evidence, Row

__all__ = [
    "ANY",
    "Act",
    "Commit",
    "GenerationMember",
    "GroupGeneration",
    "GroupTimeline",
    "Log",
    "ScenarioMember",
    "add_offset_acts",
    "log_text",
    "read_timeline",
    "read_topics",
    "rhythm_of",
]

LONG_MS = 5000
"""A pause of a member's commits that is shown: so long, and `UNUSUAL` times its commit interval."""
UNUSUAL = 6
BEFORE_MS = 500
"""So long before the first record that shows it a coordinator has moved: its clients look for it."""
HEARTBEAT_MS = 3000
"""Members hear of a rebalance by their heartbeats: Kafka's default interval."""
MINUTE_MS = 60_000
LATE = 0.25
"""The largest delay of an expiry, as a share of its retention."""

Log = tuple[str, int]
"""Topic and partition; ANY for a topic, or something else, that is compared as a whole."""
ANY = -1


def log_text(log: Log) -> str:
    """``orders-0``; the name alone of ANY."""
    topic, index = log
    return topic if index == ANY else f"{topic}-{index}"


@dataclass(frozen=True)
class Commit:
    """A committed offset; None where it was deleted."""

    at_ms: int
    log: Log
    offset: int | None


@dataclass(frozen=True)
class GenerationMember:
    """A member in a record."""

    member_id: str
    client_id: str
    instance: str | None
    session_ms: int
    rebalance_ms: int
    logs: tuple[Log, ...]


@dataclass(frozen=True)
class GroupGeneration:
    """A group's record: ``closed_ms``: when the join phase ended, if known; no entries: it is empty; generation None: a tombstone."""

    at_ms: int
    closed_ms: int
    generation: int | None
    protocol: str | None
    entries: tuple[GenerationMember, ...]
    epoch: int | None


@dataclass
class ScenarioMember:
    """A member as a client of the scenario. ``first``: there from the beginning."""

    name: str
    client_id: str
    instance: str | None
    session_ms: int
    rebalance_ms: int
    first: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    """More keys of the scenario's client."""

    def configure(self, **config: Any) -> None:
        """Set keys of the client's ``config``."""
        self.settings["config"] = {**self.settings.get("config", {}), **config}


@dataclass(frozen=True)
class Act:
    """``kind``: start, leave, crash, hang and freeze (``for_ms``), commit (``offsets``, of a member or, without ``who``, without one),
    delete_offsets, delete_group, expire, move, epoch (the coordinator's broker is elected again), jam (``for_ms``: nothing that is
    appended to the group's offsets partition is committed; ``refused_ms``: since when it is under its min.insync.replicas).

    Of groups with epochs, share groups and transactions also: not_revoked (a member does not confirm a revocation), fill (``offsets``:
    so many records are appended), delivery (``offsets``: records of a share group that were released, rejected or archived), create
    (a topic), and those of `transaction_timeline`. ``cause``: what brought it about, where the kind does not say it."""

    at_ms: int
    kind: str
    who: str | None = None
    for_ms: int = 0
    offsets: tuple[tuple[Log, int], ...] = ()
    why: str = ""
    is_certain: bool = True
    removed: bool = False
    """Whether the group went on without the member after a crash or a hang."""
    refused_ms: int | None = None
    cause: str = ""
    stood: tuple[tuple[Log, int], ...] = ()
    """Offsets that were committed before."""


@dataclass
class GroupTimeline:
    """``before``: offsets that stood at ``from_ms``; ``ends``: where the logs ended then, as far as that is known; ``protocol``: the
    kind of group, or `transaction`; ``config``: settings of the brokers; ``missing``: topics that do not exist at ``from_ms``."""

    group: str
    from_ms: int
    to_ms: int
    members: list[ScenarioMember] = field(default_factory=list)
    acts: list[Act] = field(default_factory=list)
    begin: GroupGeneration | None = None
    records: list[GroupGeneration] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    before: dict[Log, int] = field(default_factory=dict)
    ends: dict[Log, int] = field(default_factory=dict)
    partitions: dict[str, int] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)
    rhythm_ms: int = 1000
    names: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    protocol: str = "classic"
    config: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    records_before: dict[str, int] = field(default_factory=dict)
    """Topic -> records in it at ``from_ms``, where offsets of records are those of the log."""


def read_timeline(evidence: Evidence, group: str, from_ms: int, to_ms: int) -> GroupTimeline:
    """Timeline of a group's records and commits between two moments."""
    rows = sorted(evidence.of_group("offset_log", group), key=lambda row: (row["log_partition"], row["log_offset"]))
    records = [_generation_of(row) for row in rows if row["kind"] in ("group", "group_tombstone")]
    commits = [_commit(row) for row in rows if row["kind"] in ("commit", "commit_tombstone")]
    begin = _begin(records, from_ms)
    timeline = GroupTimeline(group, begin, max(to_ms, begin))
    timeline.records = [record for record in records if begin <= record.at_ms <= to_ms]
    timeline.commits = [commit for commit in commits if begin <= commit.at_ms <= to_ms]
    for commit in commits:
        if commit.at_ms < begin and commit.offset is not None:
            timeline.before[commit.log] = commit.offset
        elif commit.at_ms < begin:
            timeline.before.pop(commit.log, None)
    read_topics(timeline, evidence)
    timeline.rhythm_ms = rhythm_of(timeline.commits)
    known = [record for record in records if record.at_ms <= begin]
    timeline.begin = known[-1] if known else None
    timeline.records = [record for record in timeline.records if record.at_ms > begin]
    _TimelineReader(timeline, known).read()
    timeline.acts += _moves(timeline, evidence)
    timeline.acts.sort(key=lambda act: act.at_ms)
    return timeline


def _moves(timeline: GroupTimeline, evidence: Evidence) -> Iterator[Act]:
    """Elections of the group's offsets partition. Without a line its time is that before the first record of its epoch."""
    home = evidence.partition_of(timeline.group)
    for row in evidence.rows("coordinator_moves"):
        if (
            row["log_partition"] != home
            or row["at_ms"] is None
            or not timeline.from_ms <= row["at_ms"] <= timeline.to_ms
        ):
            continue
        said = row["evidence_lines"] or ()
        at_ms = row["at_ms"] if said else max(row["at_ms"] - BEFORE_MS, row["after_ms"] or 0, timeline.from_ms)
        stayed = row["node"] is not None and row["node"] == row["from_node"]
        before = "the leader epoch" if row["from_epoch"] is None else f"leader epoch {row['from_epoch']}"
        why = f"{before} became {row['to_epoch']}"
        if row["node"] is not None:
            why += f", broker {row['node']} {'stayed the leader' if stayed else 'was elected'}"
        if said:
            why += f" ({said[0]})"
        yield Act(at_ms, "epoch" if stayed else "move", why=why)


def _begin(records: list[GroupGeneration], from_ms: int) -> int:
    """The time from which the members are known, ms since 1970: ``from_ms`` if a record with members is not later, else
    that of the first such record."""
    if any(record.at_ms <= from_ms and record.entries for record in records):
        return from_ms
    return next((record.at_ms for record in records if record.entries and record.at_ms > from_ms), from_ms)


def _generation_of(row: Row) -> GroupGeneration:
    entries = tuple(
        GenerationMember(
            member["member_id"],
            member["client_id"] or "consumer",
            member["group_instance_id"],
            member["session_timeout_ms"] or 45_000,
            member["rebalance_timeout_ms"] or 300_000,
            tuple((topic["topic"], index) for topic in member["assigned"] or () for index in topic["partitions"] or ()),
        )
        for member in row["members"] or ()
    )
    at_ms = row["record_ts_ms"] or 0
    closed_ms = min(row["state_ts_ms"] or at_ms, at_ms)
    generation = row["generation"] if row["kind"] == "group" else None
    return GroupGeneration(at_ms, closed_ms, generation, row["protocol"], entries, row["leader_epoch"])


def _commit(row: Row) -> Commit:
    return Commit(
        row["record_ts_ms"] or row["commit_ts_ms"] or 0, (row["topic"], row["partition"]), row["committed_offset"]
    )


def read_topics(timeline: GroupTimeline, evidence: Evidence) -> None:
    """Read the topics' numbers of partitions, the ends of their logs, and how fast these grow."""
    logs = {commit.log for commit in timeline.commits} | set(timeline.before)
    logs |= {log for record in timeline.records for entry in record.entries for log in entry.logs}
    grown: dict[Log, list[tuple[int, int]]] = defaultdict(list)
    for row in evidence.rows("log_ends"):
        grown[row["topic"], row["partition"]].append((row["at_ms"], row["end"]))
    topics = {topic for topic, _ in logs}
    logs |= {log for log in grown if log[0] in topics}
    for topic in topics:
        known = max(index for name, index in logs if name == topic) + 1
        timeline.partitions[topic] = max(known, evidence.partitions.get(topic, 0))
    span_s = max((timeline.to_ms - timeline.from_ms) / 1000, 1.0)
    for log in sorted(logs):
        points = sorted(grown.get(log, [])) or [
            (commit.at_ms, commit.offset)
            for commit in timeline.commits
            if commit.log == log and commit.offset is not None
        ]
        first = max((end for at, end in points if at <= timeline.from_ms), default=timeline.before.get(log, 0))
        last = max((end for at, end in points if at <= timeline.to_ms), default=first)
        timeline.ends[log] = max(first, timeline.before.get(log, 0))
        timeline.rates[log[0]] = timeline.rates.get(log[0], 0.0) + max(last - first, 0) / span_s
    if not grown:
        timeline.notes.append(
            "The logs of the data topics are missing: their rates of records are estimated from the commits."
        )


def rhythm_of(commits: Iterable[Commit]) -> int:
    """Median time in ms between two commits of a partition."""
    of_log: dict[Log, list[int]] = defaultdict(list)
    for commit in commits:
        of_log[commit.log].append(commit.at_ms)
    pauses = [after - before for times in of_log.values() for before, after in pairwise(times) if after > before]
    return max(100, round(median(pauses))) if pauses else 1000


class _TimelineReader:
    """Goes through a group's records."""

    def __init__(self, timeline: GroupTimeline, before: list[GroupGeneration]) -> None:
        self.timeline = timeline
        self.names = timeline.names
        """Member id -> the scenario's name for it."""
        self.now: dict[str, GenerationMember] = {}
        self.since: dict[str, int] = {}
        """Member id -> when it joined, of those that came."""
        self.generation = before[-1].generation if before else None
        self.before = before
        begin = before[-1].entries if before else ()
        self.alone = len({(entry.client_id, entry.instance) for entry in begin}) == len(begin)
        """Each client id is one process: where it is there twice, the older member's process has ended."""
        for entry in begin:
            self._named(entry, () if self.alone else [self.names[member_id] for member_id in self.now]).first = True
            self.now[entry.member_id] = entry

    def read(self) -> None:
        for record in self.timeline.records:
            self._take(record)
        if not any(member.first for member in self.timeline.members):
            self.timeline.notes.append("The group has no member at the beginning.")
        self._pauses()
        self._offsets()

    # --- members --------------------------------------------------------------------------------------------------------

    def _take(self, record: GroupGeneration) -> None:
        if record.generation == self.generation:
            record = replace(record, closed_ms=record.at_ms)  # no window: its state is an older one's
        new = {entry.member_id: entry for entry in record.entries}
        departed = [entry for name, entry in self.now.items() if name not in new]
        came = [entry for name, entry in new.items() if name not in self.now]
        held = [self.names[name] for name in self.now if name in new]
        for entry in came:
            held.append(self._named(entry, () if self.alone else held).name)
        back = {self.names[entry.member_id]: entry for entry in came}
        for entry in departed:
            self._went(entry, record, back.get(self.names[entry.member_id]))
        for entry in came:
            self._came(entry, record)
        self.now, self.generation = new, record.generation

    def _named(self, entry: GenerationMember, held: Iterable[str]) -> ScenarioMember:
        """The scenario member of an entry: of the same client and instance, whose name is not ``held`` by another, else a new one."""
        members = self.timeline.members
        same = [
            member for member in members if (member.client_id, member.instance) == (entry.client_id, entry.instance)
        ]
        known = next((member for member in same if member.name not in held), None)
        if known is None:
            number = sum(member.client_id == entry.client_id for member in members)
            name = entry.client_id if not number else f"{entry.client_id}.{number + 1}"
            known = ScenarioMember(name, entry.client_id, entry.instance, entry.session_ms, entry.rebalance_ms)
            members.append(known)
        self.names[entry.member_id] = known.name
        return known

    def _last_sign(self, entry: GenerationMember, record: GroupGeneration) -> int | None:
        since = self.since.get(entry.member_id, 0)
        mine = [
            commit.at_ms
            for commit in self.timeline.commits
            if commit.log in entry.logs and since <= commit.at_ms < record.at_ms
        ]
        return max(mine, default=since or None)

    def _went(self, entry: GenerationMember, record: GroupGeneration, back: GenerationMember | None) -> None:
        name, last = self.names[entry.member_id], self._last_sign(entry, record)
        if any(self.names[other] == name for other in self.now if other in self._ids(record)):
            return  # its client had rejoined, and was noted then
        member = next(candidate for candidate in self.timeline.members if candidate.name == name)
        if entry.instance is not None and back is not None and record.generation == self.generation:
            why = f"the same instance {entry.instance} with a new member id, in the same generation"
            self._act(record.closed_ms - 600, "crash", name, why)
            return
        at_ms, kind, why, is_certain = self._end_of(entry, record, last, member)
        for_ms = member.rebalance_ms + 2000 if kind == "hang" else 0
        self._act(at_ms, kind, name, why, is_certain=is_certain, for_ms=for_ms, removed=kind != "leave")

    def _end_of(
        self, entry: GenerationMember, record: GroupGeneration, last: int | None, member: ScenarioMember
    ) -> tuple[int, str, str, bool]:
        if last is None:
            at_ms = record.closed_ms - min(HEARTBEAT_MS, 1000)
            return at_ms, "leave", "missing in the next record; the log does not show whether it left", False
        silent = record.closed_ms - last
        silence = f"no commit for {duration_text(silent)} before it was removed"
        room = self.timeline.rhythm_ms + HEARTBEAT_MS
        if silent < min(entry.session_ms, entry.rebalance_ms) * 0.6:
            return max(last, record.closed_ms - room), "leave", f"{silence}: a leave", True
        polls = (
            abs(silent - entry.rebalance_ms) < abs(silent - entry.session_ms) - 500
            and silent >= entry.rebalance_ms * 0.85
        )
        if polls and entry.rebalance_ms != entry.session_ms:
            limit = duration_text(entry.rebalance_ms)
            return last, "hang", f"{silence}, its max.poll.interval.ms being {limit}: it may not have polled", True
        at_ms = min(max(last, record.closed_ms - entry.session_ms - room), record.closed_ms - entry.session_ms)
        limit = duration_text(entry.session_ms)
        is_certain = abs(entry.rebalance_ms - entry.session_ms) > room
        return at_ms, "crash", f"{silence}, its session being {limit}: it crashed or lost its connection", is_certain

    def _came(self, entry: GenerationMember, record: GroupGeneration) -> None:
        name = self.names[entry.member_id]
        acts = [act for act in self.timeline.acts if act.who == name]
        hang = acts[-1] if acts and acts[-1].kind == "hang" else None
        if hang is not None and not any(
            self.names[member_id] == name for member_id in self.now if member_id in self._ids(record)
        ):
            place = self.timeline.acts.index(hang)  # it comes back by itself when it polls again
            for_ms = max(record.closed_ms - hang.at_ms - 300, 1000)
            self.timeline.acts[place] = replace(hang, for_ms=for_ms)
            return
        at_ms, held = self._joined(entry, record)
        self.since[entry.member_id] = at_ms
        why = f"it is a member in generation {record.generation}" + (", for which the group had waited" if held else "")
        if self._runs(name) and (acts or any(member.name == name and member.first for member in self.timeline.members)):
            self._act(at_ms - 300, "crash", name, "its client joins again while the old session is active")
        self._act(max([at_ms, *(act.at_ms + 200 for act in acts)]), "start", name, why)

    def _joined(self, entry: GenerationMember, record: GroupGeneration) -> tuple[int, bool]:
        """The estimated time (ms since 1970) at which a new member of a record joined, and whether the group waited from then on,
        without commits. Several members of one client in one join phase get successive times."""
        same = [
            other.member_id
            for other in record.entries
            if other.client_id == entry.client_id and other.member_id not in self.now
        ]
        last = max(
            (commit.at_ms for commit in self.timeline.commits if commit.at_ms < record.at_ms), default=record.closed_ms
        )
        held = bool(self.now) and record.closed_ms - last > max(HEARTBEAT_MS, 3 * self.timeline.rhythm_ms)
        first = last if held else record.closed_ms - 600
        step = max(0, record.closed_ms - 600 - first) // max(1, len(same))
        return max(first + step * same.index(entry.member_id), self.timeline.from_ms), held

    def _ids(self, record: GroupGeneration) -> set[str]:
        return {entry.member_id for entry in record.entries}

    def _runs(self, name: str) -> bool:
        """Whether the client's process runs, by the acts so far."""
        last = next((act.kind for act in reversed(self.timeline.acts) if act.who == name), "start")
        return last not in ("crash", "leave")

    def _act(
        self, at_ms: int, kind: str, who: str, why: str, *, is_certain: bool = True, for_ms: int = 0, **more: Any
    ) -> None:
        self.timeline.acts.append(
            Act(max(at_ms, self.timeline.from_ms), kind, who, for_ms, (), why, is_certain, **more)
        )

    # --- commits --------------------------------------------------------------------------------------------------------

    def _pauses(self) -> None:
        """Members that stay, and whose partitions are not committed for long, while others' are."""
        timeline = self.timeline
        long_ms = max(LONG_MS, UNUSUAL * timeline.rhythm_ms)
        times: dict[Log, list[Commit]] = defaultdict(list)
        for commit in timeline.commits:
            times[commit.log].append(commit)
        for log, log_commits in times.items():
            for before, after in pairwise(log_commits):
                if after.at_ms - before.at_ms < long_ms or before.offset is None or after.offset is None:
                    continue
                owner = self._owner(log, before.at_ms, after.at_ms)
                behind = after.offset - before.offset
                others = [
                    commit
                    for commit in timeline.commits
                    if before.at_ms < commit.at_ms < after.at_ms and commit.log != log
                ]
                busy = any(act.who == owner and before.at_ms <= act.at_ms <= after.at_ms + 500 for act in timeline.acts)
                if owner is None or behind <= 0 or not others or busy:
                    continue
                why = f"{log[0]}-{log[1]} was not committed for {duration_text(after.at_ms - before.at_ms)}, other partitions were"
                self._act(before.at_ms, "hang", owner, why, is_certain=False, for_ms=after.at_ms - before.at_ms)

    def _owner(self, log: Log, from_ms: int, to_ms: int) -> str | None:
        """Name of the member that had the partition at both moments; None if the owner changed."""
        owners = []
        for at_ms in (from_ms, to_ms):
            record = next(
                (earlier for earlier in reversed([*self.before, *self.timeline.records]) if earlier.at_ms <= at_ms),
                None,
            )
            owners += (
                [self.names.get(entry.member_id) for entry in record.entries if log in entry.logs] if record else []
            )
        return owners[0] if len(owners) == 2 and owners[0] == owners[1] else None

    def _offsets(self) -> None:
        """Offsets that fall, are set or deleted."""
        ends = [record.at_ms for record in self.timeline.records if record.generation is None]
        add_offset_acts(self.timeline, self._members_at, lambda log, at_ms: self._owner(log, at_ms, at_ms), ends)

    def _members_at(self, at_ms: int) -> bool:
        record = next(
            (earlier for earlier in reversed([*self.before, *self.timeline.records]) if earlier.at_ms <= at_ms), None
        )
        return bool(record and record.entries)


def add_offset_acts(
    timeline: GroupTimeline,
    has_members: Callable[[int], bool],
    owner: Callable[[Log, int], str | None],
    ends: Iterable[int],
) -> None:
    """Add acts for committed offsets that decrease, are set in an empty group, or are deleted. ``has_members``: whether the group had
    some at a moment; ``owner``: the member that had a partition then; ``ends``: when the group was deleted. All in ms since 1970."""
    stood = dict(timeline.before)
    last_ms: dict[Log, int] = {}
    moments: dict[tuple[int, str, str | None], list[tuple[Log, int]]] = defaultdict(list)
    before: dict[tuple[int, str, str | None], list[tuple[Log, int]]] = defaultdict(list)
    for commit in timeline.commits:
        empty = not has_members(commit.at_ms)
        if commit.offset is None:
            gone = commit.at_ms // 200, "delete", None
            moments[gone].append((commit.log, commit.at_ms - last_ms.get(commit.log, commit.at_ms)))
            if commit.log in stood:
                before[gone].append((commit.log, stood.pop(commit.log)))
            continue
        fell = commit.log in stood and commit.offset < stood[commit.log]
        if fell or (empty and commit.log in stood and commit.offset != stood[commit.log]):
            place = commit.at_ms // 200, "commit", None if empty else owner(commit.log, commit.at_ms)
            moments[place].append((commit.log, commit.offset))
            before[place].append((commit.log, stood[commit.log]))
        stood[commit.log], last_ms[commit.log] = commit.offset, commit.at_ms
    ended = list(ends)
    for key, offsets in moments.items():
        slot, kind, who = key
        at_ms = slot * 200 + (0 if who else 400)  # members that left before have departed by then
        if kind == "commit":
            why = "set while the group had no members" if who is None else "committed by a member of that generation"
            act = Act(at_ms, "commit", who, 0, tuple(offsets), why)
        else:
            act = _deleted(at_ms, offsets, has_members, ended)
        timeline.acts.append(replace(act, stood=tuple(before[key])))


def _deleted(
    at_ms: int, offsets: list[tuple[Log, int]], has_members: Callable[[int], bool], ends: Iterable[int]
) -> Act:
    idle_ms = max(idle for _, idle in offsets)
    minutes = idle_ms // MINUTE_MS
    late_ms = idle_ms - minutes * MINUTE_MS
    if minutes and late_ms <= max(LATE * minutes * MINUTE_MS, 5000) and not has_members(at_ms):
        why = f"{duration_text(idle_ms)} after the last commit, without members: expired"
        return Act(at_ms, "expire", None, minutes * MINUTE_MS, tuple(offsets), why, is_certain=False)
    ended = any(abs(end_ms - at_ms) < 2000 for end_ms in ends)
    why = "with the group" if ended else "without the group's end"
    return Act(at_ms, "delete_group" if ended else "delete_offsets", None, 0, tuple(offsets), f"deleted {why}")
