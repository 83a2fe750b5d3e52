"""The phrases that findings and pictures share: why a rebalance began, how it ended, and which members caused it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from broker_sim.common.text import clock, date
from broker_sim.explain.phrases import is_other, shortened
from broker_sim.pipeline.facts import Row

__all__ = [
    "LATE_ASSIGNMENT",
    "are_static",
    "at_of",
    "cause",
    "ended",
    "lines_of",
    "named",
    "on_its_day",
    "records_of",
    "short_member",
    "when",
    "who",
]

LATE_ASSIGNMENT = (
    "The leader computes the assignment and sends it, and the log stores it: look at that client, and at the group's offsets partition."
    " If the leader ended without a LeaveGroup, the group waited for its session to expire: a log does not show which."
)
"""Advice about an assignment that was stored late."""

_HARD = "\N{NO-BREAK SPACE}"
_UUID = re.compile(r"-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_WHY = {
    "join": "{who} joined",
    "leave": "{who} left",
    "departed": "{who} left, or {its} expired",
    "rejoin": "{who} joined again",
    "poll timeout": "{who} reported that its poll timeout (max.poll.interval.ms) expired, and left",
    "rebalance timeout": "{who} had not revoked its partitions within its rebalance timeout",
    "session timeout": "the session of {who} expired",
    "metadata change": "{who} joined with other metadata, or topics had changed",
    "downgrade": "the group was downgraded to the classic protocol, as {who} was removed",
    "load": "the coordinator loaded the group",
    "max size reached": "the group had group.max.size members",
    "unknown": "the cause is not known",
}
_ENDS = {
    "stable": "Stable",
    "empty": "the group was Empty",
    "failed": "it began again before it was Stable",
    "moved": "the coordinator was unloaded",
    "dead": "the group became Dead",
    None: "in progress",
}


def named(names: Iterable[str], most: int = 3) -> str:
    """``app-1, app-2 and 7 more``."""
    return shortened(names, most)


def short_member(member: str) -> str:
    """A member id without its random part."""
    return _UUID.sub("", member)


def are_static(members: Iterable[str], clients: Iterable[str | None]) -> bool:
    """Whether all of these classic members have a group.instance.id: a broker makes a member id of that, or of the client id, and a
    UUID. False where nothing is known."""
    pairs = list(zip(members, clients, strict=False))
    return bool(pairs) and all(
        client is not None and _UUID.search(member) is not None and short_member(member) != client
        for member, client in pairs
    )


def who(row: Row) -> str:
    """The members that caused a rebalance: client ids, or member ids without their random part."""
    clients = row["who_clients"] or []
    members = row["who"] or []
    names = [
        client or short_member(member)
        for client, member in zip(clients or [None] * len(members), members, strict=False)
    ]
    return named(names) if names else "a member"


def cause(row: Row) -> str:
    """Cause of a rebalance, as a clause."""
    if row["cause"] == "sync failed":
        error = f" ({row['error']})" if row["error"] else ""
        if row["cause_detail"] == "append_failed":
            return f"the assignment could not be stored{error}"
        return f"{who(row)} sent no SyncGroup within the rebalance timeout{error}"
    if row["cause"] == "metadata change" and row.get("cause_changes"):
        return f"metadata changed ({named(row['cause_changes'])})"
    if row["cause"] == "metadata change" and is_other(row.get("protocol_type")):
        return f"{who(row)} joined with other metadata"
    if row["cause"] == "poll timeout" and row.get("cause_certainty") == "likely":
        return f"{who(row)} left after about its max.poll.interval.ms without a commit"
    its = "its session" if len(row["who"] or ()) <= 1 else "their sessions"
    return _WHY.get(row["cause"] or "unknown", _WHY["unknown"]).format(who=who(row), its=its)


def at_of(row: Row) -> int | None:
    """Start of a rebalance, or the first moment of it that is known; None without one."""
    for name in ("started_ms", "closed_ms", "ended_ms"):
        if row[name] is not None:
            return int(row[name])
    return None


def records_of(rows: Iterable[Row]) -> tuple[tuple[int, int], ...]:
    """(partition of `__consumer_offsets`, offset) of the records of rebalances."""
    return tuple(
        (row["coordinator_partition"], row["log_offset"])
        for row in rows
        if row.get("log_offset") is not None and row["coordinator_partition"] is not None
    )


def lines_of(rows: Iterable[Row], most: int | None = None) -> tuple[str, ...]:
    """Log lines of rebalances, ``FILE:LINE (GROUP)``; of each the first ``most``."""
    return tuple(f"{line} ({row['group']})" for row in rows for line in (row.get("evidence_lines") or ())[:most])


def ended(row: Row) -> str:
    """End of a rebalance, in words: Stable, empty, failed or unknown."""
    return _ENDS.get(row["end"], str(row["end"]))


def when(ts_ms: int) -> str:
    """``2026-03-29 10:03:11``, UTC; with its ms where that is not a whole second. Date and time are held together by a space that does
    not break: see `on_its_day`."""
    return f"{date(ts_ms)}{_HARD}{clock(ts_ms).removesuffix('.000')}"


def on_its_day(text: str, at_ms: int) -> str:
    """A text without the date of that moment: if the moment is printed before it, only other days need their date."""
    return text.replace(f"{date(at_ms)}{_HARD}", "").replace(_HARD, " ")
