"""The report: one HTML page with findings on top and the pictures below, made of `Facts`.

Rules:
1. One file, nothing from elsewhere. What stands where says `report.html`, in which all text is escaped; pictures escape their own.
2. Its size is bounded by what `Facts` holds and by the charts; what is left out is said where it is missing.
3. A section without anything to show says so in a line, or is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from broker_sim.common.text import clock, date, duration_text
from broker_sim.drawing.colours import FONT, picture_css
from broker_sim.drawing.pages import page
from broker_sim.explain.phrases import count
from broker_sim.pipeline.facts import Facts
from broker_sim.pipeline.findings import Finding, compaction
from broker_sim.pipeline.report import lanes
from broker_sim.pipeline.report.bars import churn
from broker_sim.pipeline.report.heat import heat
from broker_sim.pipeline.report.lines import committed, lag
from broker_sim.pipeline.report.sheet import NARROW, WIDE, number, short
from broker_sim.pipeline.report.timeline import timeline

__all__ = ["html"]

MOST_LANES = 40
MOST_CHURN = 20
MOST_SKIPPED = 100
FIRST_FINDINGS, MOST_FINDINGS = 6, 60
HALF = 640
"""Width of a picture that has a table beside it, in px."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A table; ``numbers``: the columns that are numbers."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Section:
    """Anchor, heading, a line that says what it shows, and what it shows; ``many``: small pictures, side by side where there is room;
    ``left``: what is not shown."""

    key: str
    name: str
    lead: str = ""
    pictures: str | Markup = ""
    many: bool = False
    table: Grid | None = None
    points: Sequence[str] = ()
    left: str = ""


def html(facts: Facts, findings: Sequence[Finding]) -> str:
    """The page."""
    return page(
        "pipeline/report/report.html",
        facts=facts,
        font=Markup(FONT),
        picture_css=Markup(picture_css()),
        subtitle=_subtitle(facts),
        tiles=list(_tiles(facts)),
        findings=[
            {"severity": one.severity, "when": _moment(one.at_ms), "text": one.text, "advice": one.advice}
            for one in findings[:MOST_FINDINGS]
        ],
        first=FIRST_FINDINGS,
        more_findings=count(min(len(findings), MOST_FINDINGS) - FIRST_FINDINGS, "more finding"),
        findings_left=_left(len(findings) - MOST_FINDINGS, "finding", "they are in findings.txt"),
        sections=[section for section in (draw(facts) for draw in _SECTIONS) if section is not None],
        read=" and ".join(part for part in (facts.input, facts.journal) if part),
        rows=", ".join(f"{name} {number(rows)}" for name, rows in facts.counts.items()),
    )


def _subtitle(facts: Facts) -> str:
    parts = [facts.run_id]
    if facts.from_ms is not None and facts.to_ms is not None:
        day = date(facts.from_ms)
        until = "" if date(facts.to_ms) == day else f"{date(facts.to_ms)} "
        parts.append(f"{day} {clock(facts.from_ms)} to {until}{clock(facts.to_ms)} UTC")
        parts.append(duration_text(facts.to_ms - facts.from_ms))
    return " · ".join(parts)


def _tiles(facts: Facts) -> Iterator[dict[str, object]]:
    tiles = [
        (facts.groups, "group", "groups", False),
        (facts.commits, "committed offset", "committed offsets", False),
        (facts.counts.get("rebalances", 0), "rebalance", "rebalances", False),
        (facts.counts.get("offset_regressions", 0), "offset went back", "offsets went back", True),
        (facts.counts.get("offset_deletions", 0), "offset deleted", "offsets deleted", False),
    ]
    if facts.journal is not None:  # a log alone proves neither, so that a 0 would be a lie
        tiles += [
            (facts.counts.get("stuck_partitions", 0), "stuck period", "stuck periods", True),
            (facts.counts.get("duplicate_windows", 0), "range read twice", "ranges read twice", True),
        ]
    for value, one, many, bad in tiles:
        name = one if value == 1 else many
        yield {"number": number(value), "short": short(value), "name": name, "alarm": bad and value}


def _moment(at_ms: int | None) -> str:
    return "" if at_ms is None else f"{date(at_ms)} {clock(at_ms)}"


def _left(number_: int, what: str, where: str = "") -> str:
    if number_ <= 0:
        return ""
    behind = f"; {where}" if where else ""
    return f"{count(number_, what)} more {'is' if number_ == 1 else 'are'} not shown{behind}."


def _both(draw: Callable[[int], str], wide: int = WIDE) -> Markup:
    """The picture for screens and the one for phones; the page shows one of them."""
    return Markup(draw(wide) + draw(NARROW))


# ------------------------------------------------------------------------------------------------ sections


def _rebalances(facts: Facts) -> Section | None:
    shown = lanes.lanes(facts, MOST_LANES)
    if not shown or facts.from_ms is None:
        return None
    left = facts.groups - len(shown)
    lead = "One row for each group. Point at a bar for its story; the groups with the most trouble come first."
    picture = _both(lambda width: timeline(shown, lanes.time(facts), width))
    more = _left(left, "group", "the tables rebalances and offset_regressions have all")
    return Section("rebalances", "Rebalances", lead, picture, left=more)


def _stuck(facts: Facts) -> Section | None:
    if not facts.stuck:
        return None
    rows = [
        (
            row["log"],
            f"{date(row['from_ms'])} {clock(row['from_ms'])}",
            "still stuck" if row["to_ms"] is None else f"{date(row['to_ms'])} {clock(row['to_ms'])}",
            duration_text(row["stuck_ms"] or 0),
            "not known" if row["attempts"] is None else number(row["attempts"]),
            ", ".join(row["errors"] or ()),
            _some(row["groups"] or ()),
        )
        for row in facts.stuck
    ]
    head = ("partition", "first failure", "next success", "no success for", "attempts", "errors", "groups hit")
    lead = (
        "Partitions that took nothing although somebody tried, from the first attempt that failed to the next that did "
        "not: what held them up may have begun earlier and ended sooner. A partition that nobody wrote to is not stuck."
    )
    more = _left(facts.left_out.get("stuck_partitions", 0), "period")
    return Section("stuck", "Stuck periods", lead, table=Grid(head, rows, frozenset({3, 4})), left=more)


def _lag(facts: Facts) -> Section | None:
    if not facts.lag:
        return None
    known = any(row["lag"] is not None for rows in facts.lag.values() for row in rows)
    lead = (
        "Records between the committed offsets and the logs' ends, all partitions of a group together; below it its commits."
        if known
        else "No log end is known: there are no segments of the data topics, and no journal. So only the commits are shown."
    )
    charts = [
        lag(group, rows, lanes.time(facts), lanes.stuck_spans(facts, group), lanes.rebalancing(facts, group))
        for group, rows in facts.lag.items()
    ]
    more = _left(facts.left_out.get("lag", 0), "group", "the table lag has all")
    name = "Lag" if known else "Commits"
    return Section("lag", name, lead, Markup("".join(charts)), many=True, left=more)


def _committed(facts: Facts) -> Section | None:
    if not facts.committed:
        return None
    charts = []
    for (group, topic, partition), rows in facts.committed.items():
        falls = [
            row
            for row in facts.of_group(facts.regressions, group)
            if (row["topic"], row["partition"]) == (topic, partition)
        ]
        key = f"{group} · {topic}-{partition}"
        charts.append(committed(key, rows, falls, lanes.time(facts), lanes.stuck_spans(facts, group)))
    lead = "Blue: what was committed; dashed: the log's end, where it is known; red: where the offset went back."
    more = _left(facts.left_out.get("committed", 0), "partition", "those that went back the most are shown")
    return Section("committed", "Committed offsets", lead, Markup("".join(charts)), many=True, left=more)


def _heat(facts: Facts) -> Section | None:
    if not facts.hotspots:
        return None
    jammed = {row["log_partition"] for row in facts.stuck if row["log_partition"] is not None}
    busiest = sorted(facts.hotspots, key=lambda row: -row["records"])[:8]
    rows = [
        (
            str(row["log_partition"]),
            number(row["groups"]),
            number(row["records"]),
            f"{row['share']:.1%}",
            row["busiest_group"] or "",
        )
        for row in busiest
    ]
    table = Grid(("partition", "groups", "records", "share", "most of group"), rows, frozenset({0, 1, 2, 3}))
    lead = (
        "Each cell is a partition of __consumer_offsets; its leader coordinates the groups in it. The darker, the more "
        "records are in it."
    )
    picture = _both(lambda width: heat(facts.hotspots, jammed, width), HALF)
    return Section("heat", "Offsets partitions", lead, picture, table=table)


def _churn(facts: Facts) -> Section | None:
    rows = [row for row in facts.churn if any(row[name] for name in ("joins", "departures", "expirations"))]
    if not rows:
        return None
    rows.sort(key=lambda row: (-(row["expirations"] or 0), -(row["joins"] or 0) - (row["leaves"] or 0), row["group"]))
    left = len(rows) - MOST_CHURN + facts.left_out.get("member_churn", 0)
    picture = _both(lambda width: churn(rows[:MOST_CHURN], width))
    return Section("churn", "Members that came and went", pictures=picture, left=_left(left, "group"))


def _duplicates(facts: Facts) -> Section | None:
    if not facts.duplicates:
        return None
    rows = [
        (
            row["group"],
            f"{row['topic']}-{row['partition']}",
            f"{number(row['from_offset'])} to {number(row['to_offset'] - 1)}",
            number(row["records"]),
            f"{row['from_generation']} → {row['to_generation']}",
            f"{row['from_client'] or row['from_member']} → {row['to_client'] or row['to_member']}",
            row["evidence"],
        )
        for row in facts.duplicates
    ]
    head = ("group", "partition", "offsets", "records", "generations", "from whom to whom", "evidence")
    lead = (
        'Records that one owner had been given and the next one was given again. Evidence "fetched": it was '
        "sent to both; whether the first application saw it is not known."
    )
    more = _left(facts.left_out.get("duplicate_windows", 0), "window")
    return Section("duplicates", "Delivered twice", lead, table=Grid(head, rows, frozenset({3})), left=more)


def _skipped(facts: Facts) -> Section | None:
    if not facts.skipped:
        return None
    rows = [
        (
            row["file"] or "",
            "" if row["position"] is None else number(row["position"]),
            "" if row["bytes"] is None else number(row["bytes"]),
            row["reason"] or "",
        )
        for row in facts.skipped[:MOST_SKIPPED]
    ]
    left = len(facts.skipped) - MOST_SKIPPED + facts.left_out.get("skipped", 0)
    table = Grid(("file", "position", "bytes", "reason"), rows, frozenset({1, 2}))
    more = _left(left, "piece", "the table skipped has all")
    return Section(
        "skipped", "What was skipped", "What could not be read. All around it has been read.", table=table, left=more
    )


def _hidden(facts: Facts) -> Section | None:
    if not facts.partitions:
        return None
    return Section("hidden", "What compaction hides", points=list(compaction(facts)))


_SECTIONS = (_rebalances, _stuck, _lag, _committed, _duplicates, _heat, _churn, _skipped, _hidden)


def _some(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
