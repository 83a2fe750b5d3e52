"""Deliveries of a share group from a log, and the clients that bring them about.

Rules:
1. `__share_group_state` has no acquisitions. A record that became available again within a second of its append, or of its last
   delivery, was released (or rejected) by its consumer; one that took longer was held until its lock expired, or until its consumer
   ended.
2. The records of the scenario are appended when those of the log were, at the same offsets: clients name offsets.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from broker_sim.common.text import duration_text
from broker_sim.reproduce.evidence import Evidence, Row
from broker_sim.reproduce.group_timeline import Act, GroupTimeline, Log, ScenarioMember

__all__ = ["DELIVERY_CAUSES", "add_deliveries"]

RELEASED, REJECTED, LOCK_EXPIRED, CONSUMER_ENDED, RESET = (
    "released",
    "rejected",
    "lock expired",
    "consumer ended",
    "start offset set",
)
DELIVERY_CAUSES = (RELEASED, REJECTED, LOCK_EXPIRED, CONSUMER_ENDED, RESET)
HELD_MS = 900
"""A record that was held for longer was not released by a consumer that had just received it. The shortest lock duration is a
second."""
LOCK_MS, LEAST_LOCK_MS, MOST_LOCK_MS = 30_000, 1000, 60_000
SLOW_MS = 5000
"""Records that waited for so long until their next delivery: no member asked for records meanwhile."""
MOST_RECORDS = 200_000
"""Records before the incident that are appended, so that its offsets are those of the log."""
STEP_MS = 500
"""Appends within so long are one step."""
ASSUMED_LOCK_MS = 10_000
"""The lock duration where the log does not show when records were appended."""
WORK = "1s"
"""Per record, of a consumer that ends with records in its hands."""


def add_deliveries(timeline: GroupTimeline, evidence: Evidence) -> None:
    """Add the acts ``delivery`` and ``fill``, and what the members do with records."""
    rows = [
        row
        for row in evidence.of_group("share_deliveries", timeline.group)
        if row["topic"] in timeline.partitions and timeline.from_ms - STEP_MS <= row["first_ms"] <= timeline.to_ms
    ]
    appended = _appended(timeline, evidence)
    for row in rows:
        log = (row["topic"], row["partition"])
        if log not in appended and row["to_offset"] is not None:  # the topic's log is not in the input
            timeline.notes.append(f"The log of {log[0]} is missing: its records are appended just before the incident.")
            first = min(other["from_offset"] for other in rows if (other["topic"], other["partition"]) == log)
            points = sorted(
                (_before(timeline, other), other["to_offset"])
                for other in rows
                if (other["topic"], other["partition"]) == log
            )
            appended[log] = [(timeline.from_ms, first), *points]
    for row in rows:
        log = (row["topic"], row["partition"])
        cause, held_ms = _cause(timeline, row, appended.get(log, []))
        place = f"{row['topic']}-{row['partition']}"
        why = f"offsets {row['from_offset']} to {(row['to_offset'] or 0) - 1} of {place}: {row['outcome'] or 'available'}, {cause}"
        if held_ms is not None:
            why += f" after {duration_text(held_ms)}"
        outcome = row["outcome"] or "available"
        timeline.acts.append(
            Act(
                row["first_ms"],
                "delivery",
                None,
                held_ms or 0,
                ((log, row["from_offset"]),),
                why,
                cause=f"{outcome}, {cause}",
            )
        )
        _bring_about(timeline, row, cause, held_ms, appended.get(log, []))
    if rows:
        _fill(timeline, appended, rows)


def _before(timeline: GroupTimeline, row: Row) -> int:
    """Time at which records whose append is not in the log are appended: shortly before they were available again, or a lock duration
    before that if they had been held."""
    held = not _ended(timeline, row) and _waited(row)
    first_ms: int = row["first_ms"]
    return max(first_ms - (ASSUMED_LOCK_MS if held else STEP_MS // 2), timeline.from_ms + 1)


def _waited(row: Row) -> bool:
    """Whether records waited long for their next delivery: what a consumer releases is delivered again at once."""
    return bool(row["returns"]) and row["last_ms"] - row["first_ms"] >= SLOW_MS * row["returns"]


def _ended(timeline: GroupTimeline, row: Row) -> bool:
    """Whether a member ended when the records became available again."""
    ends = [act.at_ms for act in timeline.acts if act.kind in ("crash", "leave")]
    return any(-2000 <= row["first_ms"] - at_ms <= 2000 for at_ms in ends)


def _appended(timeline: GroupTimeline, evidence: Evidence) -> dict[Log, list[tuple[int, int]]]:
    """Appends of each partition: (time in ms, log end after it), in order."""
    ends: dict[Log, list[tuple[int, int]]] = defaultdict(list)
    for row in evidence.rows("log_ends"):
        if row["topic"] in timeline.partitions:
            ends[row["topic"], row["partition"]].append((row["at_ms"], row["end"]))
    return {log: sorted(points) for log, points in ends.items()}


def _cause(timeline: GroupTimeline, row: Row, appended: list[tuple[int, int]]) -> tuple[str, int | None]:
    """Reason why records were available again, or archived, and how long they had been held, ms; None if unknown."""
    if row["outcome"] == "reset":
        return RESET, None
    if row["outcome"] == "archived" and not row["returns"]:
        return REJECTED, None
    came = next((at_ms for at_ms, end in appended if end > row["from_offset"]), None)
    present = [record.at_ms for record in (timeline.begin, *timeline.records) if record is not None and record.entries]
    since = max(came or 0, min(present, default=0))
    held_ms = row["first_ms"] - since if came is not None else None
    if row["outcome"] == "archived" and (row["deliveries"] or 0) > 1 and row["last_ms"] > row["first_ms"]:
        held_ms = (row["last_ms"] - row["first_ms"]) // max((row["deliveries"] or 2) - 1, 1)
    if _ended(timeline, row):
        return CONSUMER_ENDED, held_ms
    if _waited(row):
        return LOCK_EXPIRED, held_ms
    return (LOCK_EXPIRED if held_ms is not None and held_ms >= HELD_MS else RELEASED), held_ms


def _bring_about(
    timeline: GroupTimeline, row: Row, cause: str, held_ms: int | None, appended: list[tuple[int, int]]
) -> None:
    members = timeline.members
    if not members:
        return
    bad = [f"{row['topic']}-{row['partition']} {offset}" for offset in range(row["from_offset"], row["to_offset"])][
        :1000
    ]
    if cause in (RELEASED, REJECTED):
        if row["outcome"] == "acknowledged":  # what was taken in the end fails at its first deliveries
            bad = [f"{name} {max(row['returns'], 1)}" for name in bad]
        for member in members:
            _also(member, "fails_on", bad)
            if cause == REJECTED:
                member.configure(then="reject")
    if row["outcome"] == "archived" and (row["deliveries"] or 0) > 1:
        timeline.config["group.share.delivery.count.limit"] = str(min(max(row["deliveries"], 2), 10))
    if cause == LOCK_EXPIRED and held_ms is not None:
        lock = min(max(round(held_ms, -2), LEAST_LOCK_MS), MOST_LOCK_MS)
        if lock < LOCK_MS:
            timeline.config["group.share.min.record.lock.duration.ms"] = str(lock)
        if lock != LOCK_MS:
            timeline.config["group.share.record.lock.duration.ms"] = str(lock)
        if row["outcome"] == "archived":
            for member in members:
                member.settings["commit"] = "never"
            return
        for member in members:
            _also(member, "holds", bad)
    elif cause == CONSUMER_ENDED:
        ended = {act.who for act in timeline.acts if act.kind in ("crash", "leave")}
        for member in members:
            if member.name in ended:
                member.settings["work"] = WORK


def _also(member: ScenarioMember, key: str, records: list[str]) -> None:
    known = member.settings.get("config", {}).get(key, [])
    member.configure(**{key: [*known, *(name for name in records if name not in known)]})


def _fill(timeline: GroupTimeline, appended: dict[Log, list[tuple[int, int]]], rows: list[Row]) -> None:
    """The appends of the log as steps, behind as many records as there were before."""
    for topic in timeline.partitions:
        logs = {log: points for log, points in appended.items() if log[0] == topic}
        before = {
            log: max((end for at_ms, end in points if at_ms <= timeline.from_ms), default=0)
            for log, points in logs.items()
        }
        timeline.rates.pop(topic, None)
        shown = [before[log] for log in before if log in {(row["topic"], row["partition"]) for row in rows}]
        most = max(shown or before.values(), default=0)
        if most:
            timeline.records_before[topic] = most * timeline.partitions[topic]
        for log, points in logs.items():
            inside = [
                (timeline.from_ms, most),
                *((at, end) for at, end in points if timeline.from_ms < at <= timeline.to_ms),
            ]
            steps: dict[int, tuple[int, int]] = {}
            for (_, old), (at_ms, end) in pairwise(inside):
                first_ms, records = steps.get(at_ms // STEP_MS, (at_ms, 0))
                steps[at_ms // STEP_MS] = first_ms, records + max(end - old, 0)
            why = f"so many records were appended to {log[0]}-{log[1]}"
            timeline.acts += [
                Act(at_ms, "fill", None, 0, ((log, records),), why) for at_ms, records in steps.values() if records
            ]
