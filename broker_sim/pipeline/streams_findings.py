"""Findings about streams groups (KIP-1071): topologies with missing or wrong topics, and members that revoked tasks late.

Rules:
1. A group's record says with each epoch whether its topology fits the topics. While it does not, its members are in and have no tasks.
2. A group is made before its internal topics are, by its first member's heartbeat: what is over within seconds is how it begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from broker_sim.common.text import duration_text
from broker_sim.explain.phrases import joined
from broker_sim.pipeline.facts import ReportFacts, Row
from broker_sim.pipeline.finding import LONG_MS, Finding, by_group
from broker_sim.pipeline.phrases import records_of, when

__all__ = ["ABOUT_STREAMS", "late_revocation"]


def _unready(facts: ReportFacts) -> Iterable[Finding]:
    """The longest time that a topology lacked topics, of each group."""
    for group, rows in by_group([row for row in facts.rebalances if row.get("topology_ready") is not None]):
        rows.sort(key=lambda row: row["generation"])
        stalls: list[tuple[Row, int | None]] = []
        since: Row | None = None
        for row in rows:
            lacks = row["topology_ready"] is False and row["end"] != "empty"
            if lacks and since is None:
                since = row
            elif not lacks and since is not None:
                stalls.append((since, row["started_ms"]))
                since = None
        if since is not None:
            stalls.append((since, None))
        timed = [stall for stall in stalls if stall[1] is None or stall[1] - (stall[0]["started_ms"] or 0) >= LONG_MS]
        if not timed:
            continue
        first, until_ms = max(
            timed, key=lambda stall: (stall[1] is None, (stall[1] or 0) - (stall[0]["started_ms"] or 0))
        )
        lasted = "" if until_ms is None else f" for {duration_text(until_ms - first['started_ms'])}"
        words = f"{group} had no task assigned{lasted} from {when(first['started_ms'])} on"
        yield Finding(
            "not ready",
            "bad" if until_ms is None else "warn",
            600 if until_ms is None else 300,
            f"{words}: topics of its topology were missing, or had the wrong number of partitions.",
            "Its members' logs, or StreamsGroupDescribe, say which: source topics must exist before the application starts, and"
            " internal topics are created by the broker, unless other topics have their names.",
            group,
            first["coordinator_partition"],
            first["started_ms"],
            until_ms,
            "certain",
            records_of([first]),
        )


def late_revocation(row: Row) -> str:
    """The member that took long to revoke its tasks or partitions, as a sentence; "" if none did."""
    if not row.get("revoked_ms") or row["revoked_ms"] < LONG_MS:
        return ""
    tasks = row.get("revoked_tasks") or []
    what = f"{'task' if len(tasks) == 1 else 'tasks'} {joined(tasks)}" if tasks else "partitions"
    it = "it" if len(tasks) == 1 else "them"
    return f" {row['revoked_by']} kept {what} for {duration_text(row['revoked_ms'])} after it was asked to revoke {it}."


ABOUT_STREAMS: tuple[Callable[[ReportFacts], Iterable[Finding]], ...] = (_unready,)
