"""Selection of the finding that is reproduced, and of the time over which its group is examined.

Rules:
1. A finding is one of the pipeline, or one of `_own`, for what the pipeline does not find in a log alone.
2. Without --group the weightiest finding is taken that can be played; with --at the one nearest to that moment.
3. What no scenario can bring about is said in one line: UNPLAYABLE.
4. An incident of an offsets partition (PARTITIONED) shows in all groups of the partition and in log lines: the finding for the
   whole log applies to the group, and is reproduced and looked for with its time and duration.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from broker_sim.common.text import clock, unknown
from broker_sim.explain.phrases import count
from broker_sim.pipeline.finding import Finding
from broker_sim.reproduce.causes import ABOUT_DELIVERIES, Cause, cause_of
from broker_sim.reproduce.epoch_timeline import EPOCH_KINDS, SESSION, kinds_of
from broker_sim.reproduce.evidence import Evidence
from broker_sim.reproduce.group_timeline import GroupTimeline
from broker_sim.reproduce.timelines import NotReproducible, timeline_of
from broker_sim.reproduce.transaction_timeline import row_of, unplayable

__all__ = ["OF_COMMITS", "NotReproducible", "Recurrence", "SelectedIncident", "choose", "recurs", "seen"]

PLAYABLE = (
    *(
        "stuck",
        "storm",
        "frequent rebalances",
        "slow rebalance",
        "session expired",
        "poll timeout",
        "departed",
        "churn",
    ),
    *("regression", "reset", "stalled", "coordinator moved", "deleted offsets", "poison", "static bounce"),
    *("rebalance timeout", "archived", "redelivered", "not ready", "transaction"),
)
UNPLAYABLE = {
    "no records": "an offsets partition without records does not show whether any client tried to write",
    "unreadable input": "unreadable input shows nothing",
    "hotspot": "the placement of groups on offsets partitions is no incident of one group",
    "misplaced groups": "the placement of groups on offsets partitions is no incident of one group",
    "duplicates": "records delivered twice are a consequence: choose the finding that caused it",
    "unclean election": "an unclean election loses records that the log no longer has",
    "leader epoch": "the re-election of a leader does not change a group",
    "grown topic": "a scenario that is written from a log has its topics as they are at the end",
    "protocol change": "a group of several protocols is not simulated",
    "lag": "a lag is a consequence: choose the finding that caused it",
    "aborts": "the log does not show why a producer aborts",
    "beyond log end": "it is about the log of a topic, not about what the group did",
    "below log start": "it is about the log of a topic, not about what the group did",
    "authentication": "clients that can't connect are not simulated",
    "crashed": "the error of an application is not simulated",
    "producer fenced": "it is reproduced from the transaction, where the log has one",
    "invalid request": "such requests are not simulated",
    "nothing": "nothing unusual was found",
}
_SILENT = ("nothing", "misplaced groups", "hotspot")
"""Kinds that are no reason."""
PARTITIONED = ("stuck", "coordinator moved")
"""Kinds of incidents of a partition of `__consumer_offsets`, and so of each of its groups."""
MOST_GROUPS = 100
"""So many groups are looked at where the pipeline has found nothing."""
NEAR_MS = 15_000
"""Such a finding may begin and end so much later or earlier than the fault: clients retry each 5 to 10 s."""
AFTER_S, BEFORE_S, MOST_S = 90, 30, 900
"""Seconds that are reproduced: after the beginning of a finding without an end, before a finding, and at most in all."""

_EARLIER = ("deleted offsets", "departed", "session expired", "poll timeout", "regression", "reset")
"""Kinds whose cause may have happened before the finding begins."""

OF_COMMITS = ("stalled", "poison")
"""Findings about the commits of members: the members of groups with epochs that a scenario has do not commit."""
_CLASSIC = (*OF_COMMITS, "static bounce")
"""Findings that are reproduced of classic groups only."""

SAME = {
    "storm": ("frequent rebalances",),
    "departed": ("session expired", "churn"),
    "session expired": ("departed", "churn"),
    "poll timeout": ("departed", "session expired"),
    "reset": ("regression",),
}
"""Other kinds that the same incident may have in a simulated log, which has no logs of brokers and clients beside it."""


@dataclass(frozen=True)
class SelectedIncident:
    """``from_ms``, ``to_ms``: what of the group's life is played."""

    finding: Finding
    group: str
    from_ms: int
    to_ms: int


def seen(evidence: Evidence, group: str) -> list[Finding]:
    """The findings from the tables of a group's log: those of the pipeline, and `_own`."""
    findings = [finding for finding in evidence.findings if finding.group in (group, None)]
    return findings + [
        finding for finding in _own(evidence, group) if finding.kind not in {finding.kind for finding in findings}
    ]


def _own(evidence: Evidence, group: str) -> Iterator[Finding]:
    """Members with expired sessions, without polls or with partitions that are not committed, and restarted static members: from a
    log's records and commits alone."""
    try:
        timeline = timeline_of(evidence, group, evidence.from_ms or 0, evidence.to_ms or 0)
    except NotReproducible:
        return

    def own_finding(kind: str, weight: float, text: str, at_ms: int | None) -> Finding:
        return Finding(kind, "warn" if weight > 100 else "note", weight, text, group=group, at_ms=at_ms)

    if timeline.protocol in EPOCH_KINDS:
        for act in timeline.acts:
            if act.kind in ("crash", "freeze") and act.cause == SESSION:
                text = f"The session of {act.who} in {group} expired: {act.why}."
                yield own_finding("session expired", 130, text, act.at_ms)
            elif act.kind == "not_revoked":
                text = f"{act.who} was removed from {group}: {act.why}."
                yield own_finding("rebalance timeout", 130, text, act.at_ms)
            elif act.kind == "leave":
                yield own_finding("departed", 60, f"{act.who} left {group}: {act.why}.", act.at_ms)
        return
    for act in timeline.acts:
        if act.kind == "crash" and act.removed:
            yield own_finding(
                "session expired", 130, f"The session of {act.who} in {group} expired: {act.why}.", act.at_ms
            )
        elif act.kind == "hang" and act.removed:
            yield own_finding("poll timeout", 130, f"{act.who} was removed from {group}: {act.why}.", act.at_ms)
        elif act.kind == "hang":
            yield own_finding("stalled", 120, f"{act.who} of {group} committed nothing: {act.why}.", act.at_ms)
        elif act.kind == "move":
            yield own_finding("coordinator moved", 20, f"The coordinator of {group} moved: {act.why}.", act.at_ms)
    for row in evidence.of_group("member_churn", group):
        if row["replacements"]:
            times = count(row["replacements"], "static member")
            yield own_finding(
                "static bounce",
                1,
                f"{group}: {times} rejoined with a new member id, without a rebalance.",
                _bounced(evidence, group),
            )


def _bounced(evidence: Evidence, group: str) -> int | None:
    """Time at which a record first had another member id for an instance in the same generation; None without one."""
    known: dict[str, tuple[str, int]] = {}
    for row in sorted(evidence.of_group("offset_log", group), key=lambda row: row["log_offset"]):
        for member in row["members"] or ():
            name, now = member["group_instance_id"], (member["member_id"], row["generation"])
            if name is not None and name in known and known[name][0] != now[0]:
                return int(row["record_ts_ms"])
            if name is not None:
                known[name] = now
    return None


def choose(whole: Evidence, group: str | None, at_ms: int | None) -> tuple[str | None, Finding | None]:
    """The group, and of the whole log's findings the one about it (or about its offsets partition); no group for one about a
    transaction.
    Raises UsageError."""
    groups = whole.groups()
    if group is not None and group not in groups:
        raise unknown("group", group, groups)
    playable = [finding for finding in whole.findings if finding.kind in PLAYABLE]
    epochs = {row["group"] for row in whole.rows("rebalances") if row["kind"] in ("consumer", "streams")}
    about = [finding for finding in playable if finding.kind not in _CLASSIC or finding.group not in epochs]
    about = [
        finding for finding in about if group is None or finding.group == group or _in_partition(whole, finding, group)
    ]
    if at_ms is not None:
        about.sort(key=lambda finding: _away_ms(finding, at_ms))
    why_not = ""
    for finding in about:
        if finding.kind == "transaction":
            row = row_of(whole, finding)
            reason = "it is not in the input" if row is None else unplayable(row, None)
            if reason is None:
                return None, finding
            why_not = why_not or f"{finding.text} Not reproduced: {reason}"
            continue
        whose = group or finding.group or _hit(whole, finding)
        if whose is not None:
            return whose, _of_its_own(whole, finding, whose)
    if group is not None:
        return group, None
    for whose in groups[:MOST_GROUPS]:
        own = [finding for finding in _own(whole, whose) if finding.kind != "static bounce" and finding.weight > 100]
        if own and at_ms is not None:
            return whose, min(own, key=lambda finding: _away_ms(finding, at_ms))
        if own:
            return whose, max(own, key=lambda finding: finding.weight)
    raise NotReproducible(why_not or _why_not(whole))


def _away_ms(finding: Finding, at_ms: int) -> float:
    """Milliseconds between a moment and a finding: 0 within one that lasts."""
    if finding.at_ms is None:
        return float("inf")
    return max(finding.at_ms - at_ms, at_ms - max(finding.to_ms or finding.at_ms, finding.at_ms), 0)


def _in_partition(whole: Evidence, finding: Finding, group: str) -> bool:
    if finding.kind not in PARTITIONED and finding.group is not None:
        return False
    return whole.partition_of(group) in _partitions(whole, finding)


def _partitions(whole: Evidence, finding: Finding) -> set[int]:
    """The offsets partitions of a finding: one finding has all moves of the same time."""
    if finding.log_partition is not None:
        return {finding.log_partition}
    if finding.kind != "coordinator moved" or finding.at_ms is None:
        return set()
    last_ms = finding.at_ms if finding.to_ms is None else finding.to_ms
    moves = [row for row in whole.rows("coordinator_moves") if row["at_ms"] is not None]
    return {row["log_partition"] for row in moves if finding.at_ms <= row["at_ms"] <= last_ms}


def _of_its_own(whole: Evidence, finding: Finding, group: str) -> Finding:
    """The finding with the group's own data: the time of its own move, if there are several moves; for a note that a member of a
    group with epochs departed, the finding that has the reason."""
    has_epochs = any(kind in EPOCH_KINDS for kind in kinds_of(whole, group))
    if has_epochs and (finding.kind, finding.severity) == ("departed", "note") and finding.at_ms is not None:
        reasons = [own for own in _own(whole, group) if own.weight > finding.weight and own.at_ms is not None]
        return min(reasons, key=lambda own: abs((own.at_ms or 0) - (finding.at_ms or 0)), default=finding)
    if finding.kind != "coordinator moved" or finding.at_ms is None:
        return finding
    home = whole.partition_of(group)
    moves = [row["at_ms"] for row in whole.rows("coordinator_moves") if row["log_partition"] == home and row["at_ms"]]
    mine = [
        at_ms
        for at_ms in moves
        if finding.at_ms <= at_ms <= (finding.at_ms if finding.to_ms is None else finding.to_ms)
    ]
    return replace(finding, at_ms=mine[0], to_ms=mine[0]) if mine else finding


def _hit(whole: Evidence, finding: Finding) -> str | None:
    """Busiest group of a partition with a finding; of several partitions, that of the busiest one. None without one."""
    mine = _partitions(whole, finding)
    rows = [row for row in whole.rows("coordinator_hotspots") if row["log_partition"] in mine and row["busiest_group"]]
    return max(rows, key=lambda row: (row["records"], -row["log_partition"]))["busiest_group"] if rows else None


def incident(mine: Evidence, group: str, of_all: Finding | None, at_ms: int | None) -> SelectedIncident:
    """Select the incident of one group's log that is played. Raises NotReproducible."""
    candidates = [
        finding for finding in seen(mine, group) if finding.kind in PLAYABLE and finding.kind != "transaction"
    ]
    if any(kind in ("consumer", "streams") for kind in kinds_of(mine, group)):
        candidates = [finding for finding in candidates if finding.kind not in _CLASSIC]
    if of_all is not None and (of_all.kind in PARTITIONED or of_all.group is None):
        candidates = [of_all]
    if of_all is not None:
        kinds = (of_all.kind, *SAME.get(of_all.kind, ()))
        candidates = (
            [finding for finding in candidates if finding.kind == of_all.kind]
            or [finding for finding in candidates if finding.kind in kinds]
            or [of_all]
        )
    else:
        candidates = [finding for finding in candidates if finding.kind != "static bounce"] or candidates
    candidates.sort(key=lambda finding: -finding.weight)
    if not candidates:
        raise NotReproducible(f"{group}: {_why_not(mine, group)}")
    wanted_ms = at_ms if at_ms is not None else of_all.at_ms if of_all is not None else None
    if wanted_ms is not None:
        candidates.sort(key=lambda finding: _away_ms(finding, wanted_ms))
    finding = candidates[0]
    first, last = mine.from_ms or 0, mine.to_ms or 0
    at = finding.at_ms if finding.at_ms is not None else last - AFTER_S * 1000
    over = getattr(finding, "to_ms", None) or at
    if finding.kind in ("storm", "frequent rebalances"):
        over = max(
            [over, *(row["ended_ms"] or 0 for row in mine.of_group("rebalances", group) if (row["ended_ms"] or 0) > at)]
        )
    end = min(last, over + AFTER_S * 1000)
    back_s = BEFORE_S + (120 if finding.kind in _EARLIER else 0)
    begin = max(first, at - back_s * 1000, end - MOST_S * 1000)
    # a share group's state is in another log, which may go on for longer than the offsets log
    if finding.kind in ABOUT_DELIVERIES:
        end = max(end, over + 1000)
    return SelectedIncident(finding, group, begin, max(end, begin + 1000))


def _why_not(evidence: Evidence, group: str | None = None) -> str:
    """Reason why there is nothing to reproduce, from the most severe finding of the group, or of all groups."""
    for finding in evidence.findings:
        if finding.kind in _SILENT or (group is not None and finding.group not in (group, None)):
            continue
        reason = UNPLAYABLE.get(finding.kind)
        if finding.kind == "transaction" and finding.group == group:
            row = row_of(evidence, finding)
            reason = "it is not in the input" if row is None else unplayable(row, None)
        elif finding.kind in OF_COMMITS:
            reason = "members of groups with epochs do not commit offsets in a scenario"
        elif finding.kind == "static bounce":
            reason = "static members of groups with epochs come back without a new epoch, which is not simulated"
        if reason is not None:
            when = f" ({clock(finding.at_ms)})" if finding.at_ms is not None else ""
            return f"no finding that can be reproduced; {finding.kind}{when}: {reason}"
    return "nothing unusual was found, so there is nothing to reproduce"


@dataclass(frozen=True)
class Recurrence:
    """``again``: the finding in the simulated log, with the same cause, else None. ``cause``: that of the log.
    ``other``: a finding of the same kind with another cause, or at another time, and that cause."""

    again: Finding | None
    cause: Cause | None
    other: tuple[Finding, Cause | None] | None = None


def recurs(
    finding: Finding, real: GroupTimeline, again: list[Finding], simulated: GroupTimeline, later_ms: int
) -> Recurrence:
    """Whether the finding is in the simulated log: of the same kind, else of one that says the same with less known, with the same
    cause.
    What happened to a partition has to be there at its time, ``later_ms`` after the real one's, and be over when that was."""
    cause, other = cause_of(finding, real), None
    for kind in (finding.kind, *SAME.get(finding.kind, ())):
        for candidate in again:
            if candidate.kind != kind:
                continue
            its = cause_of(candidate, simulated)
            in_place = kind not in PARTITIONED or _in_place(finding, candidate, later_ms)
            if (
                cause is not None
                and its is not None
                and cause.same_as(its, less_known=kind != finding.kind)
                and in_place
            ):
                return Recurrence(candidate, cause)
            other = other or (candidate, its)
    return Recurrence(None, cause, other)


def _in_place(real: Finding, simulated: Finding, later_ms: int) -> bool:
    if real.at_ms is None or simulated.at_ms is None:
        return False
    if abs(simulated.at_ms - real.at_ms - later_ms) > NEAR_MS:
        return False
    if real.kind != "stuck" or real.to_ms is None:
        return True
    return simulated.to_ms is not None and abs(simulated.to_ms - real.to_ms - later_ms) <= NEAR_MS
