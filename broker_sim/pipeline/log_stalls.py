"""Committed offsets that do not advance, of one group, from its windows of the table lag: pure functions, no Spark.

Rules: those of `tables.offset_stalls`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from statistics import median_low
from typing import Any

__all__ = ["LEAST_MS", "RESTARTS", "TIMES", "stalls_of"]

LEAST_MS = 10_000
TIMES = 10
RESTARTS = 3
JUMP = 5
"""So many usual steps at once are a jump."""

Row = Mapping[str, Any]
Key = tuple[str, int]


def stalls_of(windows: Iterable[Row], states: Iterable[Row], end_ms: int) -> Iterator[dict[str, Any]]:
    """``windows``: a group's rows of `lag` in order; ``states``: at_ms, members and generation of its records, in order; ``end_ms``:
    the
    log's last record."""
    by_key: dict[Key, list[Row]] = defaultdict(list)
    for row in windows:
        by_key[row["topic"], row["partition"]].append(row)
    moves = {key: _moves(rows) for key, rows in by_key.items()}
    all_states = list(states)
    for key, rows in by_key.items():
        at = [row["window_start_ms"] for row in moves[key]]
        if len(at) < 2:
            continue
        usual_ms = median_low([then - first for first, then in pairwise(at)])
        step = median_low([abs(then - first) for first, then in _steps(moves[key])] or [1])
        for number, first in enumerate(moves[key]):
            to_ms = at[number + 1] if number + 1 < len(at) else None
            lasted = (end_ms if to_ms is None else to_ms) - at[number]
            if first["committed"] is None or lasted < max(LEAST_MS, TIMES * max(usual_ms, first["window_ms"])):
                continue
            stall = _stall(first, rows, to_ms, lasted)
            if stall["pending"] is None and to_ms is not None:
                soon_ms = to_ms + 2 * max(usual_ms, first["window_ms"])
                after = [row for row in moves[key][number + 1 :] if row["window_start_ms"] <= soon_ms]
                stall["pending"] = _jumped(first, after, step)
            stall |= _meanwhile(all_states, at[number], at[number] + lasted)
            stall["moved"] = sum(
                any(at[number] + lasted // 2 < row["window_start_ms"] < at[number] + lasted for row in moves[other])
                for other in by_key
                if other != key
            )
            if stall["pending"] or (stall["pending"] is None and stall["generations"] >= RESTARTS):
                yield stall


def _moves(rows: list[Row]) -> list[Row]:
    """The windows in which the committed offset became another one."""
    moves: list[Row] = []
    for row in rows:
        if row["commits"] and (not moves or row["committed"] != moves[-1]["committed"]):
            moves.append(row)
    return moves


def _steps(moved: list[Row]) -> list[tuple[int, int]]:
    offsets = [row["committed"] for row in moved if row["committed"] is not None]
    return list(pairwise(offsets))


def _jumped(first: Row, after: list[Row], step: int) -> int | None:
    """Number of records that were committed soon after the stall, if they are far more than usual (by at least `JUMP` - 1 steps, as the
    first commit is of records that had been fetched before), so that they had been waiting; else None."""
    farthest = max((row["committed"] for row in after if row["committed"] is not None), default=first["committed"])
    jumped = int(farthest - first["committed"])
    return jumped if jumped >= (JUMP + len(after) - 1) * max(step, 1) else None


def _stall(first: Row, rows: list[Row], to_ms: int | None, lasted: int) -> dict[str, Any]:
    from_ms = first["window_start_ms"]
    inside = [
        row for row in rows if from_ms <= row["window_start_ms"] and (to_ms is None or row["window_start_ms"] < to_ms)
    ]
    ends = [(row["window_start_ms"], row["end"]) for row in inside if row["end"] is not None]
    # the latest records may just not have been read yet: those halfway through count
    halfway = [end for at_ms, end in ends if at_ms <= from_ms + lasted // 2]
    pending = None if not ends else 0
    if halfway and halfway[-1] > first["committed"]:
        pending = max(ends[-1][1] - first["committed"], 0)
    return {
        "topic": first["topic"],
        "partition": first["partition"],
        "log_offset": first["log_offset"],
        "offset": first["committed"],
        "from_ms": from_ms,
        "to_ms": to_ms,
        "stalled_ms": lasted,
        "commits": sum(row["commits"] or 0 for row in inside) - (first["commits"] or 0),
        "pending": pending,
    }


def _meanwhile(states: list[Row], from_ms: int, to_ms: int) -> dict[str, Any]:
    """State of the group meanwhile: number of generations that began, and whether it had members all the time (None: unknown)."""
    inside = [row for row in states if row["at_ms"] is not None and from_ms < row["at_ms"] <= to_ms]
    before = [row for row in states if row["at_ms"] is not None and row["at_ms"] <= from_ms]
    sizes = [row["members"] for row in (*before[-1:], *inside)]
    return {
        "generations": len({row["generation"] for row in inside if row["generation"] is not None and row["members"]}),
        "members": False if 0 in sizes else None if not sizes or None in sizes else True,
    }
