"""Facts made by hand: rows of the tables as a report gets them."""

from __future__ import annotations

from typing import Any

from broker_sim.pipeline.facts import ReportFacts
from broker_sim.pipeline.tables.coordinator_hotspots import COORDINATOR_HOTSPOTS
from broker_sim.pipeline.tables.member_churn import MEMBER_CHURN
from broker_sim.pipeline.tables.offset_regressions import OFFSET_REGRESSIONS
from broker_sim.pipeline.tables.rebalances import REBALANCES
from tests.pipeline.offsets import T0

Row = dict[str, Any]


def facts(**columns: Any) -> ReportFacts:
    """Ten minutes of a run with two groups, unless told otherwise."""
    known = {
        "run_id": "r1",
        "input": "data",
        "journal": "journal",
        "from_ms": T0,
        "to_ms": T0 + 600_000,
        "groups": 2,
        "commits": 100,
    }
    return ReportFacts(**{**known, **columns})


def row(names: tuple[str, ...], **columns: Any) -> Row:
    unknown = columns.keys() - set(names)
    assert not unknown, f"no columns {unknown}"
    return {**dict.fromkeys(names), "run_id": "r1", **columns}


def rebalance(at: int, took: int = 3000, **columns: Any) -> Row:
    """A rebalance of billing that began ``at`` ms after T0 and became Stable for 10 s."""
    known = {
        "group": "billing",
        "generation": 1,
        "started_ms": T0 + at,
        "closed_ms": T0 + at + took * 2 // 3,
        "ended_ms": T0 + at + took,
        "preparing_ms": took * 2 // 3,
        "completing_ms": took - took * 2 // 3,
        "stable_ms": 10_000,
        "end": "stable",
        "cause": "join",
        "who": ["app-1-5f0c2f7e-8d3b-4f4e-9d2a-1c2b3d4e5f60"],
        "who_clients": ["app-1"],
        "size_before": 1,
        "size_after": 2,
        "source": "journal",
    }
    return row(REBALANCES.names, **{**known, **columns})


def regression(at: int, from_offset: int, to_offset: int, how: str | None = "rebalance", **columns: Any) -> Row:
    """orders-0 of billing went back."""
    known = {
        "group": "billing",
        "topic": "orders",
        "partition": 0,
        "log_partition": 12,
        "log_offset": at,
        "at_ms": T0 + at,
        "from_offset": from_offset,
        "to_offset": to_offset,
        "by": from_offset - to_offset,
        "from_generation": 1,
        "to_generation": 2,
        "how": how,
        "source": "log",
    }
    return row(OFFSET_REGRESSIONS.names, **{**known, **columns})


def hotspot(partition: int, records: int, share: float, **columns: Any) -> Row:
    known = {
        "log_partition": partition,
        "records": records,
        "share": share,
        "groups": 1,
        "partitions": 50,
        "misplaced": 0,
    }
    return row(COORDINATOR_HOTSPOTS.names, **{**known, **columns})


def churned(group: str = "billing", **columns: Any) -> Row:
    return row(MEMBER_CHURN.names, group=group, source="journal", **columns)


def window(at: int, lag: int | None, commits: int = 0, **columns: Any) -> Row:
    """A window of 10 s of a group's lag."""
    return {
        "group": "billing",
        "window_start_ms": T0 + at,
        "window_ms": 10_000,
        "lag": lag,
        "deleted": 0,
        "commits": commits,
        **columns,
    }


def kept(at: int, committed: int | None, end: int | None = None) -> Row:
    """A row of the table lag of one partition."""
    return {**window(at, None, 1), "committed": committed, "end": end}
