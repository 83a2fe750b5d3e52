"""Ends of stalls, in which committed offsets did not advance: the generation with which they went on, if only the log is known, which
does not show its beginning; and owners that may have ended, if the journal is known."""

from __future__ import annotations

from broker_sim.explain.phrases import count, joined
from broker_sim.pipeline.facts import ReportFacts, Row
from broker_sim.pipeline.finding import LONG_MS
from broker_sim.pipeline.phrases import at_of, short_member, when

__all__ = [
    "DISCONNECTED",
    "FAILING",
    "REBALANCED",
    "commits_may_have_failed",
    "disconnected",
    "ended_with",
    "generation_at_end",
    "rebalanced",
    "still_members",
]

REBALANCED = (
    "The log does not show when a rebalance begins: the group may have waited all the time, for members that did not rejoin, or that"
    " ended without a LeaveGroup, until their sessions expired. Logs of the broker (--broker-log) show for whom."
)
"""Advice about offsets that moved on with a new generation."""
_AT_ONCE_MS = LONG_MS // 2
"""Members commit again so soon after their generation was stored."""


def generation_at_end(facts: ReportFacts, stall: Row) -> Row | None:
    """The classic generation with which all partitions of a group moved on, if the log alone shows it: since when the group had
    rebalanced is unknown, so that nothing can be said of the owners."""
    if stall["to_ms"] is None or stall["moved"]:
        return None
    for row in facts.of_group(facts.rebalances, stall["group"]):
        known = row["source"] == "log" and row["started_ms"] is None and row.get("kind") in (None, "classic")
        at_ms = at_of(row) if known else None
        if at_ms is not None and at_ms > stall["from_ms"] and abs(at_ms - stall["to_ms"]) <= _AT_ONCE_MS:
            return row
    return None


def rebalanced(facts: ReportFacts, stall: Row) -> bool:
    """Whether a group rebalanced meanwhile, as far as the log shows it: a generation's record, or the next one does not follow the last
    before (its records were removed by compaction, or it never became Stable)."""
    if stall["generations"]:
        return True
    later = [row for row in facts.of_group(facts.rebalances, stall["group"]) if (at_of(row) or 0) >= stall["from_ms"]]
    following = min(later, key=lambda row: at_of(row) or 0, default=None)
    return following is not None and bool(following["missing_before"])


def ended_with(row: Row) -> str:
    """The generation that ended a stall, as a clause."""
    words = f"; then generation {row['generation']} was stored"
    if row["missing_before"]:
        words += f", behind {count(row['missing_before'], 'generation')} without a record, which never became Stable"
    gone = [name for name in row["members_before"] or () if name not in (row["members_after"] or ())]
    if row["size_before"] and gone and row["members_after"] is not None:
        words += f", without {count(len(gone), 'member')} of the one before"
    return words


DISCONNECTED = (
    "No LeaveGroup arrived: what a member owns that ends without one is not read until its session expires. A shutdown that closes the"
    " client, a shorter session.timeout.ms, or group.instance.id for a process that returns, avoids that."
)
"""Advice about an offset that stopped when a member ended."""


def disconnected(facts: ReportFacts, stall: Row) -> list[Row]:
    """Members of its group that ended without a LeaveGroup about when an offset stopped, and whose sessions have not expired yet."""
    end_ms = stall["from_ms"] + stall["stalled_ms"]
    mine = (row for row in facts.disconnected if row["group"] == stall["group"])
    return [row for row in mine if stall["from_ms"] - LONG_MS <= row["closed_ms"] <= end_ms - LONG_MS]


def still_members(dead: list[Row]) -> str:
    """Clause with the times at which these members' connections were closed, as the end of a sentence; "" for none."""
    if not dead:
        return ""
    names = [row["client_id"] or short_member(row["member"]) for row in dead]
    ended = joined([f"{name} at {when(row['closed_ms'])}" for name, row in zip(names, dead, strict=True)])
    if len(dead) == 1:
        return f"; the connection of {ended} was closed without a LeaveGroup, and it keeps its partitions until its session expires"
    return f"; the connections of {ended} were closed without a LeaveGroup, and they keep their partitions until their sessions expire"


FAILING = (
    "Its commits may also have failed: what is read and can't be committed looks the same. Logs of its clients (--client-log) or of the"
    " broker (--broker-log) show that."
)
"""Advice about an offset that did not advance, if nothing shows that commits succeeded."""


def commits_may_have_failed(facts: ReportFacts, stall: Row) -> bool:
    """Whether there is a sign that a group's commits failed while an offset did not advance: a client's line, a group that hardly
    committed, or an offsets partition without records."""
    to_ms = stall["to_ms"] if stall["to_ms"] is not None else stall["from_ms"] + stall["stalled_ms"]
    if any(
        row["group"] == stall["group"] and stall["from_ms"] <= row["ts_ms"] <= to_ms + LONG_MS
        for row in facts.failed_commits
    ):
        return True
    return any(
        row["log_partition"] == stall["log_partition"]
        and (not row["groups"] or stall["group"] in row["groups"])
        and row["from_ms"] <= to_ms
        and (row["to_ms"] is None or row["to_ms"] >= stall["from_ms"])
        for row in facts.silences
    )
