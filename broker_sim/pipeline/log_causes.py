"""The cause of a rebalance without a journal: from a broker's lines, which have it, or from the commits of members.

Rules:
1. A broker's line is certain. ``Preparing to rebalance`` has the reason and the beginning of the join phase; the reason of a
   member that left (KIP-800) is in the same line, or in 4.x in a line of its own just before.
2. From the log alone: a commit shows that a member is alive, for the coordinator restarts a member's session at each of them
   (GroupCoordinator.doCommitOffsets, ClassicGroup.rescheduleHeartbeat) but those in a transaction (GroupCoordinator.doTxnCommitOffsets,
   OffsetMetadataManager.commitTransactionalOffset). So a member that committed less than session.timeout.ms before
   the join phase ended cannot have been removed by its session: it left. That is certain. The session of one whose last
   commit was about a session timeout before, after regular ones, most likely expired; one without commits for max.poll.interval.ms,
   which clients send as their rebalance timeout, most likely left by itself as its poll timeout expired. If neither fits there is no
   cause; and why a client sent nothing is unknown: a late poll, a callback, or a suspended process.
3. With an eager protocol members commit, revoke all partitions, and rejoin. If they had committed regularly, the first of them that
   stopped shows how long the group waited, and the one that committed last is the member for which it waited.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from broker_sim.explain.generations import Generation, StoredMember
from broker_sim.explain.holdups import Holdup

__all__ = [
    "CAUSES",
    "CERTAIN",
    "LIKELY",
    "POSSIBLE",
    "LoggedRebalances",
    "Progress",
    "cause_of_reason",
    "departures",
    "poll_ran_out",
    "waiting",
]

CERTAIN, LIKELY, POSSIBLE = "certain", "likely", "possible"

CAUSES = {
    "first_member": "join",
    "joined": "join",
    "replaced": "join",
    "left": "leave",
    "session_expired": "session timeout",
    "metadata_changed": "metadata change",
    "leader_rejoined": "metadata change",
    "sync_timeout": "sync failed",
    "append_failed": "sync failed",
    "loaded": "load",
    "over_capacity": "load",
    "max_size_reached": "max size reached",
    "revocation_timeout": "rebalance timeout",
    "converted": "downgrade",
    "departed": "departed",
    "rejoined": "rejoin",
}
"""A cause of `broker_sim.explain`, or a change between two records -> the cause in the table; any other is `unknown`."""

SLACK_MS = 5000
"""Other members learn of a rebalance from their next heartbeat: after three seconds by default, and a little more."""
REGULAR = 4
"""The number of commits of a partition from which its commit interval is derived."""

Progress = Mapping[str, list[int]]
"""``orders-0`` -> [first ms, last ms, commits, last offset, last ms outside of transactions or None] since the record before."""

_MEMBER = re.compile(
    r"(?:Adding new member|[Rr]emoving member|Updating metadata for(?: static)? member|Leader|for \(|Removing|static"
    r" member|Member|\(member: )"
    r" ?(?P<member>[^\s,;()]+)"
)
_CLIENT_REASON = re.compile(r"client reason: (.*)$")
_ERROR = re.compile(r"\b([A-Z]+(?:_[A-Z]+)+)\b")


def poll_ran_out(words: str | None) -> bool:
    """Whether a client reported that its poll timeout had expired, in the words of Java or librdkafka."""
    return words is not None and ("poll timeout has expired" in words or "max poll interval exceeded" in words)


def cause_of_reason(reason: str) -> tuple[str, list[str], str | None]:
    """(cause, members, error) of the reason in a broker's line: GroupCoordinator.scala, GroupMetadataManager.java."""
    member = _MEMBER.search(reason)
    members = [] if member is None else [member["member"]]
    client = _CLIENT_REASON.search(reason)
    why = "" if client is None else client[1]
    if "on heartbeat expiration" in reason:
        return "session timeout", members, None
    if "LeaveGroup" in reason:
        return ("poll timeout" if poll_ran_out(why) else "leave"), members, None
    if "pending sync request expiration" in reason:
        return "sync failed", members, None
    if "storing group assignment" in reason:
        error = _ERROR.search(reason)
        return "sync failed", members, None if error is None else error[1]
    if reason.startswith("Downgrade group"):
        return CAUSES["converted"], [], None
    if reason.startswith("Freshly-loaded"):
        return "load", [], None
    if "Updating metadata" in reason or "re-joining" in reason:
        changed = "metadata" in why or "subscription" in why
        return ("metadata change" if changed else "rejoin"), members, None
    if "Adding new member" in reason or "joining group during" in reason or "static member" in reason:
        return "join", members, None
    return "unknown", members, None


# ------------------------------------------------------------------------------------------------ broker's lines


@dataclass(slots=True)
class LoggedRebalance:
    """A rebalance from a broker's lines. ``old``: the generation before it."""

    old: int
    started_ms: int
    reason: str
    lines: list[str]
    partition: int | None = None
    closed_ms: int | None = None
    generation: int | None = None
    size: int | None = None
    assigned_ms: int | None = None
    emptied: bool = False
    late: list[str] = field(default_factory=list)
    """members that did not rejoin in time."""
    expired: list[tuple[int, str]] = field(default_factory=list)
    """(time in ms, member) of the sessions that expired while the group waited for their members."""
    leave_reasons: dict[str, str] = field(default_factory=dict)
    """member -> the reason in its LeaveGroup."""

    def held(self) -> Holdup | None:
        """Wait that delayed the rebalance; None if the lines do not show it."""
        if self.expired:
            return Holdup("session", self.expired[-1][0] - self.started_ms, [member for _, member in self.expired])
        if self.late and self.closed_ms is not None:
            return Holdup("rebalance timeout", self.closed_ms - self.started_ms, list(self.late))
        return None


class LoggedRebalances:
    """Reads the lines about one group, in order. Several brokers may have lines: only its coordinator logs them."""

    def __init__(self) -> None:
        self.rebalances: list[LoggedRebalance] = []
        self._left: dict[str, tuple[int, str, str]] = {}
        self._polls: list[tuple[int, str, str]] = []
        self._departed: dict[str, tuple[str, str]] = {}
        self._upgrades: list[tuple[int, str]] = []

    def take(self, row: Mapping[str, Any]) -> None:
        """A row of `tables.rebalances.REBALANCE_INPUT` that is a broker's line."""
        what, ts_ms, at, detail = row["what"], row["ts_ms"], row["at"], row.get("detail") or ""
        last = self.rebalances[-1] if self.rebalances else None
        if what == "poll timeout":
            # Java's consumer of KIP-848 logs it when the application polls again, and so many ms after the timeout
            self._polls.append((ts_ms - (row.get("size_after") or 0), detail, at))
        elif what in ("fenced", "modern left"):
            self._departed[row.get("cause_members") or ""] = (detail, at)
        elif what == "converted":
            if detail == "classic":
                self._upgrades.append((ts_ms, at))
            elif last is not None and last.reason.startswith("Downgrade group") and last.closed_ms is None:
                last.lines.append(at)
        elif what == "preparing":
            rebalance = LoggedRebalance(row["generation"] or 0, ts_ms, detail, [at], row.get("coordinator_partition"))
            for member, (left_ms, why, where) in self._left.items():
                if member in detail and 0 <= ts_ms - left_ms <= SLACK_MS:
                    rebalance.leave_reasons[member] = why
                    rebalance.lines.insert(0, where)
            self.rebalances.append(rebalance)
        elif what in ("left", "session timeout"):
            member = row.get("cause_members") or ""
            self._left[member] = (ts_ms, detail if what == "left" else "", at)
            if last is not None and last.closed_ms is None and what == "left":
                last.leave_reasons[member] = detail
            if last is not None and ts_ms - last.started_ms <= 100:
                last.lines.append(at)  # 3.4 logs the reason of the rebalance before the member that left
                if what == "left":
                    last.leave_reasons.setdefault(member, detail)
            elif last is not None and last.closed_ms is None and what == "session timeout":
                last.expired.append((ts_ms, member))  # it was awaited until then
                last.lines.append(at)
        elif last is not None:
            self._of_last(last, what, row)

    def _of_last(self, last: LoggedRebalance, what: str, row: Mapping[str, Any]) -> None:
        generation = row.get("generation")
        if what == "closed" and generation == last.old + 1:
            last.closed_ms, last.generation, last.size = row["ts_ms"], generation, row.get("size_after")
            last.lines.append(row["at"])
        elif what == "assigned" and generation == last.generation:
            last.assigned_ms = row["ts_ms"]
        elif what == "empty" and generation == last.old + 1:
            last.closed_ms, last.generation, last.size, last.emptied = row["ts_ms"], generation, 0, True
            last.lines.append(row["at"])
        elif what == "not rejoined":
            last.late += re.findall(r"[\w.#-]{30,}", row.get("detail") or "")
            last.lines.append(row["at"])

    def with_removal_cause(self, row: dict[str, Any]) -> dict[str, Any]:
        """A row with the cause of a removed member of a consumer, share or streams group from a broker's line: its session expired, it
        did not revoke its partitions in time, or it left. To a downgrade the line is added."""
        lines = [self._departed[name] for name in row["who"] or () if name in self._departed]
        if row["cause"] not in ("departed", CAUSES["converted"]) or not lines:
            return row
        detail, at = lines[0]
        if row["cause"] != "departed":
            return row | {"evidence_lines": [at, *(row.get("evidence_lines") or ())]}
        cause = "session timeout" if "session" in detail else "rebalance timeout" if "transition" in detail else "leave"
        return row | {"cause": cause, "cause_certainty": CERTAIN, "cause_detail": detail, "evidence_lines": [at]}

    def upgraded(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row of a consumer group's epoch, with the line of the group's upgrade if the group began with this epoch."""
        started_ms = row.get("started_ms")
        for place, (ts_ms, at) in enumerate(self._upgrades):
            if started_ms is not None and -SLACK_MS <= started_ms - ts_ms <= SLACK_MS:
                del self._upgrades[place]
                return row | {"evidence_lines": [at, *(row.get("evidence_lines") or ())]}
        return row

    def late_poll(self, clients: Iterable[str | None], from_ms: int | None, to_ms: int | None) -> str | None:
        """The line about an expired poll timeout of one of these clients, between two moments."""
        wanted = {client for client in clients if client}
        for ts_ms, client, at in self._polls:
            # librdkafka's lines of an application without client.id all have one name
            near = (from_ms is None or from_ms - SLACK_MS <= ts_ms) and (to_ms is None or ts_ms <= to_ms + SLACK_MS)
            if near and client in wanted:
                return at
        return None

    def of(self, generation: int, stored_ms: int | None) -> LoggedRebalance | None:
        """The rebalance of a generation, the nearest one if the group was deleted in between. It begins before the record."""
        fits = [
            rebalance
            for rebalance in self.rebalances
            if rebalance.old + 1 == generation and (stored_ms is None or rebalance.started_ms <= stored_ms + SLACK_MS)
        ]
        return fits[-1] if fits else None


# ------------------------------------------------------------------------------------------------ what was committed


def _last_commit(member: StoredMember, seen: Progress) -> tuple[int, int | None] | None:
    """(last ms, commit interval in ms or None if unknown) of the partitions of a member."""
    mine = [seen[name] for name in member.assigned if name in seen]
    if not mine:
        return None
    last = max(mine, key=lambda commits: commits[1])
    rhythms = [(commits[1] - commits[0]) // (commits[2] - 1) for commits in mine if commits[2] >= REGULAR]
    return last[1], min(rhythms) if rhythms else None


def departures(generation: Generation, seen: Progress) -> tuple[str, str, list[str]] | None:
    """(cause, certainty, members) of departed members, None if the commits do not show it. ``seen``: the commits in the generation
    before, or earlier."""
    if generation.old is None or generation.closed_ms is None:
        return None
    stay = {member.member for member in generation.new}
    removed = [member for member in generation.old if member.member not in stay]
    back = {member.client_id for member in generation.new} if generation.new else set()
    reasons: list[tuple[str, str, str]] = []
    for member in removed:
        if member.instance is not None and any(other.instance == member.instance for other in generation.new):
            continue  # the same static member
        known = _last_sign(member, seen, generation.before_stored_ms)
        if known is None or not member.session_ms:
            return None
        alive_ms = _last_alive(member, seen, generation.before_stored_ms)
        reason = _departure(member, known, alive_ms, generation.closed_ms, member.client_id in back)
        if reason is None:
            return None
        reasons.append((*reason, member.member))
    if not reasons:
        return None
    causes = {cause for cause, _, _ in reasons}
    if len(causes) > 1:
        return None
    certainty = CERTAIN if all(reason[1] == CERTAIN for reason in reasons) else LIKELY
    return reasons[0][0], certainty, [member for _, _, member in reasons]


def _last_sign(member: StoredMember, seen: Progress, since_ms: int | None) -> tuple[int, int | None] | None:
    """As `_last_commit`; a member's SyncGroup, sent when its generation was stored, also shows that it was alive."""
    known = _last_commit(member, seen)
    if since_ms is not None and (known is None or known[0] < since_ms):
        return since_ms, None
    return known


def _last_alive(member: StoredMember, seen: Progress, since_ms: int | None) -> int | None:
    """Time of a member's last request in the log that restarted its session; None without one."""
    mine = [seen[name][4] for name in member.assigned if name in seen]
    return max((ms for ms in (*mine, since_ms) if ms is not None), default=None)


def _departure(
    member: StoredMember, known: tuple[int, int | None], alive_ms: int | None, closed_ms: int, returned: bool
) -> tuple[str, str] | None:
    last_ms, rhythm_ms = known
    session_ms, poll_ms = member.session_ms or 0, member.rebalance_ms or 0
    silent_ms = closed_ms - last_ms
    if alive_ms is not None and closed_ms - alive_ms < session_ms:
        # its session was restarted by its last commit: it can't have expired
        return "leave", CERTAIN
    if silent_ms < session_ms:
        return None  # a commit in a transaction
    if rhythm_ms is None:
        # it never committed: a session timeout after its generation began, with the same client in its place, it sent no LeaveGroup
        return ("session timeout", LIKELY) if returned and silent_ms <= session_ms + SLACK_MS else None
    if rhythm_ms * 3 > session_ms:
        return None  # its commits had long pauses at other times, too
    slack_ms = rhythm_ms + session_ms // 3 + SLACK_MS
    by_session = silent_ms - session_ms
    by_poll = abs(silent_ms - poll_ms) if poll_ms > session_ms else None
    if by_poll is not None and by_poll <= slack_ms and (by_poll < by_session or by_session > slack_ms):
        return "poll timeout", LIKELY
    return ("session timeout", LIKELY) if by_session <= slack_ms else None


def waiting(generation: Generation, seen: Progress) -> tuple[int, list[str]] | None:
    """(ms, clients): how long the remaining members had not committed when the join phase ended, and which committed last; None if that
    does not show waiting: no commit interval is known, or the first member that stopped did so for no longer than usual."""
    if generation.old is None or generation.closed_ms is None:
        return None
    stayed = {member.member for member in generation.new}
    rhythms = []
    for member in generation.old:
        known = _last_commit(member, seen) if member.member in stayed else None
        if known is not None and known[1] is not None:
            rhythms.append((known[0], known[1], member.client_id or member.member))
    if len(rhythms) < 2:
        return None
    first_ms, rhythm_ms, _ = min(rhythms)
    waited_ms = generation.closed_ms - first_ms
    last_ms, _, last = max(rhythms)
    if waited_ms < 3 * rhythm_ms or generation.closed_ms - last_ms > waited_ms // 2:
        return None
    return max(waited_ms - rhythm_ms, 0), [last]
