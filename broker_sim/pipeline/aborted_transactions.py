"""Transactions that their producers aborted, from `__transaction_state` and from the offsets log's markers: counts, pure Python.

Rules:
1. An abort that its producer asked for is ordinary: a program aborts what it can't finish, and does it again. Those of fenced producers
   and those after transaction.timeout.ms have findings of their own.
2. The aborts of an id are far above its own past if MOST of WINDOW transactions, one after the other, were aborted, and at most one
   TIMES-th of that share of the PAST ones just before. An id with fewer transactions before has no past to compare with.
3. Without `__transaction_state` the markers in the offsets log count, by producer id: aborted transactions with offsets of a group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from typing import Any

from broker_sim.common.text import duration_text
from broker_sim.explain.phrases import count
from broker_sim.pipeline.facts import ReportFacts
from broker_sim.pipeline.finding import Finding
from broker_sim.pipeline.phrases import named, when

__all__ = ["ABOUT_ABORTS", "aborts_of"]

WINDOW, MOST, PAST, TIMES = 10, 8, 50, 10

Row = Mapping[str, Any]


def aborts_of(seen: Iterable[Row]) -> list[dict[str, Any]]:
    """Rows of SEEN of the coordinator's log, as `ReportFacts.aborts`: one for each transactional id with an abort."""
    by_id: dict[str, list[Row]] = defaultdict(list)
    for row in seen:
        if row["source"] == "state" and row["end"] is not None and row["to_ms"] is not None:
            by_id[row["transactional_id"]].append(row)
    result = []
    for transactional_id, rows in sorted(by_id.items()):
        rows.sort(key=lambda row: row["to_ms"])
        aborted = [row["result"] == "abort" for row in rows]
        mine = [row for row, is_abort in zip(rows, aborted, strict=True) if is_abort]
        if mine:
            often = _often(aborted)
            result.append(
                {
                    "transactional_id": transactional_id,
                    "producer_id": mine[-1]["producer_id"],
                    "groups": None,
                    "aborts": len(mine),
                    "ended": len(rows),
                    "first_ms": mine[0]["to_ms"],
                    "last_ms": mine[-1]["to_ms"],
                    "longest_ms": max(max(row["to_ms"] - row["from_ms"], 0) for row in mine),
                    "often_from_ms": None if often is None else rows[often[0]]["to_ms"],
                    "often_to_ms": None if often is None else rows[often[1] - 1]["to_ms"],
                    "often_aborts": None if often is None else sum(aborted[often[0] : often[1]]),
                    "often_ended": None if often is None else often[1] - often[0],
                    "past_aborts": None if often is None else sum(aborted[often[0] - PAST : often[0]]),
                }
            )
    return result


def _often(aborted: list[bool]) -> tuple[int, int] | None:
    """The first stretch in which aborts were far above the past (rule 2): from and to which place; None without one."""
    sums = [0, *accumulate(map(int, aborted))]
    for at in range(PAST, len(aborted) - WINDOW + 1):
        number, before = sums[at + WINDOW] - sums[at], sums[at] - sums[at - PAST]
        if aborted[at] and number >= MOST and before * TIMES * WINDOW <= number * PAST:
            end = at + WINDOW
            while end < len(aborted) and sums[end + 1] - sums[end + 1 - WINDOW] >= MOST:
                end += 1
            while not aborted[end - 1]:
                end -= 1
            return at, end
    return None


def _aborts(facts: ReportFacts) -> Iterable[Finding]:
    for row in facts.aborts:
        group = row["groups"][0] if row["groups"] and len(row["groups"]) == 1 else None
        who = row["transactional_id"] or f"producer {row['producer_id']}"
        of_groups = f" with offsets of {named(row['groups'])}" if row["groups"] else ""
        if row.get("often_from_ms") is not None:
            words = (
                f"{row['often_aborts']} of {count(row['often_ended'], 'transaction')} of {who} between"
                f" {when(row['often_from_ms'])} and {when(row['often_to_ms'])} were aborted; of the {PAST} before"
                f" {row['past_aborts'] or 'none'}"
            )
            advice = "Its producer aborted them: look in its application's log for what failed at that time."
            at = (group, None, row["often_from_ms"], row["often_to_ms"], "likely")
            yield Finding("aborts", "warn", 140, f"{words}.", advice, *at)
            continue
        words = f"{row['aborts']} of {count(row['ended'], 'transaction')}{of_groups} of {who} {_were(row['aborts'])} aborted"
        words += (
            f" at {when(row['first_ms'])}"
            if row["aborts"] == 1
            else f" between {when(row['first_ms'])} and {when(row['last_ms'])}"
        )
        if row.get("longest_ms") is not None:
            words += f", {'after' if row['aborts'] == 1 else 'the longest after'} {duration_text(row['longest_ms'])}"
        advice = "Their offsets and records count for nothing, and are read and written again: so such programs go on after errors."
        if row["transactional_id"] is None:
            advice += " The offsets log does not show whether the producer aborted them, or the coordinator did."
        yield Finding("aborts", "note", 42, f"{words}.", advice, group, None, row["first_ms"], row["last_ms"])


def _were(number: int) -> str:
    return "was" if number == 1 else "were"


ABOUT_ABORTS: tuple[Callable[[ReportFacts], Iterable[Finding]], ...] = (_aborts,)
"""Findings about aborted transactions."""
