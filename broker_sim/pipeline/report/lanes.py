"""Data that the pictures over time share: the time that they span, and each group's rebalances, stuck periods and falls."""

from __future__ import annotations

import re
from collections.abc import Iterable

from broker_sim.common.text import clock, duration_text
from broker_sim.pipeline.facts import ReportFacts, Row
from broker_sim.pipeline.finding import Finding
from broker_sim.pipeline.phrases import cause, ended
from broker_sim.pipeline.report.sheet import merged, number
from broker_sim.pipeline.report.timeline import Bar, GroupLane

__all__ = ["lanes", "rebalancing", "stuck_spans", "time"]

Spans = list[tuple[int, int]]
MOST_CUTS, LEAST_QUIET = 4, 0.08
"""So many quiet times may be drawn shorter than they were, if each is such a share of all."""


def time(facts: ReportFacts) -> tuple[int, int, Spans]:
    """(from, to, when something happened): the axis of every picture. Only the few longest quiet times count as such: a picture with
    a cut at every turn shows nothing but cuts."""
    assert facts.from_ms is not None
    assert facts.to_ms is not None
    from_ms, to_ms = facts.from_ms, max(facts.to_ms, facts.from_ms + 1)
    moments = [(row["from_ms"], row["from_ms"]) for row in facts.stuck]
    moments += [(row["to_ms"], row["to_ms"]) for row in facts.stuck if row["to_ms"] is not None]
    moments += [(row["at_ms"], row["at_ms"]) for row in facts.regressions]
    moments += [(_began(row) or 0, _ended(row, facts)) for row in facts.rebalances if _began(row) is not None]
    moments += [(row[name], row[name]) for row in facts.deliveries for name in ("first_ms", "last_ms")]
    ends = [from_ms, *(at for span in merged(moments) for at in span), to_ms]
    quiet = [
        (end, start)
        for end, start in zip(ends[::2], ends[1::2], strict=True)
        if start - end >= LEAST_QUIET * (to_ms - from_ms)
    ]
    quiet = sorted(sorted(quiet, key=lambda gap: gap[0] - gap[1])[:MOST_CUTS])
    busy = [from_ms, *(at for gap in quiet for at in gap), to_ms]
    active = [
        (start, end)
        for start, end in zip(busy[::2], busy[1::2], strict=True)
        if end > start or start not in (from_ms, to_ms)
    ]
    return from_ms, to_ms, active if moments else []


def lanes(facts: ReportFacts, most: int, flags: Iterable[tuple[str, Finding]] = ()) -> list[GroupLane]:
    """The groups with something to show, those with the most trouble first, at most so many; ``flags``: findings with their ids in the
    page, each to stand in its group's row."""
    flagged = [(key, finding) for key, finding in flags if finding.group is not None and finding.at_ms is not None]
    names = dict.fromkeys(row["group"] for row in facts.rebalances if _began(row) is not None)
    names |= dict.fromkeys(row["group"] for row in facts.regressions)
    names |= dict.fromkeys(group for row in facts.stuck for group in row["groups"] or ())
    names |= dict.fromkeys(finding.group or "" for _, finding in flagged)
    result = [_lane(facts, group) for group in names]
    by_name = {lane.group: lane for lane in result}
    for key, finding_ in flagged:
        by_name[finding_.group or ""].flags.append((finding_.at_ms or 0, key, finding_.severity, finding_.text))
    result.sort(key=lambda lane: (not (lane.bars or lane.flags), -_trouble(lane), lane.group))
    return result[:most]


def _trouble(lane: GroupLane) -> int:
    failed = sum(not bar.stable for bar in lane.bars)
    severities = sum({"bad": 200, "warn": 100}.get(severity, 0) for _, _, severity, _ in lane.flags)
    return (
        severities
        + 1000 * bool(lane.stuck)
        + 50 * min(len(lane.falls), 10)
        + 20 * min(failed, 20)
        + min(len(lane.bars), 20)
    )


def _lane(facts: ReportFacts, group: str) -> GroupLane:
    lane = GroupLane(group)
    rows = [row for row in facts.rebalances if row["group"] == group and _began(row) is not None]
    for row in sorted(rows, key=lambda row: _began(row) or 0):
        lane.bars.append(_bar(row, facts))
    lane.stuck = [(from_ms, to_ms, words) for from_ms, to_ms, words in _stuck(facts, group)]
    for row in facts.of_group(facts.regressions, group):
        words = (
            f"{clock(row['at_ms'])}  {row['topic']}-{row['partition']} decreased from {number(row['from_offset'])} to "
            f"{number(row['to_offset'])}, by {number(row['by'])}"
        )
        lane.falls.append((row["at_ms"], words))
    lane.falls.sort()
    lane.changes = list(_changes(sorted(rows, key=lambda row: _began(row) or 0)))
    return lane


_GROWN = re.compile(r"(.+): (\d+) to (\d+) partitions|(.+): (\d+) partitions? new")
"""A topic that has more partitions, as `cause_changes` has it: of a journal, and of records."""


def _changes(rows: Iterable[Row]) -> Iterable[tuple[int, str]]:
    """(time in ms, words) of each change of a group's protocol, and of each topic that has more partitions than before."""
    kind: str | None = None
    for row in rows:
        at_ms = _began(row) or 0
        if kind is not None and row["kind"] is not None and row["kind"] != kind:
            yield at_ms, f"{clock(at_ms)}  the group changed its protocol: {kind} to {row['kind']}"
        kind = row["kind"] or kind
        for change in row["cause_changes"] or ():
            if _GROWN.fullmatch(change):
                yield at_ms, f"{clock(at_ms)}  a topic has more partitions: {change}"


def _bar(row: Row, facts: ReportFacts) -> Bar:
    began, over = _began(row) or 0, _ended(row, facts)
    closed = over if row["closed_ms"] is None else min(max(row["closed_ms"], began), over)
    stable = row["end"] == "stable"
    stays = row["stable_ms"]
    until = over if not stable else (facts.to_ms or over) if stays is None else over + stays
    generation = "a window that never closed" if row["generation"] is None else f"generation {row['generation']}"
    lasted = f" {duration_text(over - began)}" if over > began else ""
    words = f"{clock(began)}  {generation}: {cause(row)}\n{ended(row)}{lasted and f' after{lasted}'}"
    if row["size_after"] is not None:
        words += f", {row['size_after']} members"
    known = row["started_ms"] is not None
    return Bar(row["generation"], began, closed, over, max(until, over), stable, words, known)


def _began(row: Row) -> int | None:
    """Time at which the window opened, or the first known one; None without one."""
    return next((row[name] for name in ("started_ms", "closed_ms", "ended_ms") if row[name] is not None), None)


def _ended(row: Row, facts: ReportFacts) -> int:
    known = row["ended_ms"] if row["ended_ms"] is not None else facts.to_ms
    return max(int(known or 0), _began(row) or 0)


def _stuck(facts: ReportFacts, group: str) -> list[tuple[int, int, str]]:
    spans = []
    for row in facts.stuck:
        if group in (row["groups"] or ()):
            to_ms = int((facts.to_ms or 0) if row["to_ms"] is None else row["to_ms"])
            words = f"{row['log']} took nothing from {clock(row['from_ms'])} to {clock(to_ms)}"
            spans.append((row["from_ms"], to_ms, words))
    return spans


def stuck_spans(facts: ReportFacts, group: str) -> Spans:
    """Periods in which the group's offsets partition was stuck."""
    return [(from_ms, to_ms) for from_ms, to_ms, _ in _stuck(facts, group)]


def rebalancing(facts: ReportFacts, group: str) -> Spans:
    """The time spans (from ms, to ms) of the group's rebalances."""
    rows = [row for row in facts.rebalances if row["group"] == group and _began(row) is not None]
    return merged((_began(row) or 0, _ended(row, facts)) for row in rows)
