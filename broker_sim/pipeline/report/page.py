"""The report: one HTML page with findings on top and the pictures below, made of `ReportFacts`.

Rules:
1. One file without external resources. Its structure is in `report.html`, in which all text is escaped; pictures escape their own.
2. Its size is bounded by what `ReportFacts` holds and by the charts; what is left out is said where it is missing.
3. A section without anything to show says so in a line, or is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from markupsafe import Markup

from broker_sim.common.text import clock, date, duration_text
from broker_sim.drawing.colours import FONT, picture_css
from broker_sim.drawing.pages import page
from broker_sim.explain.phrases import count
from broker_sim.pipeline.compaction import compaction
from broker_sim.pipeline.facts import ReportFacts, Row
from broker_sim.pipeline.findings import Finding
from broker_sim.pipeline.report import lanes
from broker_sim.pipeline.report.assigned import assigned
from broker_sim.pipeline.report.bars import churn
from broker_sim.pipeline.report.delivered import delivered
from broker_sim.pipeline.report.heat import heat
from broker_sim.pipeline.report.lines import committed, lag
from broker_sim.pipeline.report.sheet import NARROW, WIDE, number, pieces, short
from broker_sim.pipeline.report.timeline import GroupLane, axis, legend, row

__all__ = ["html"]

MOST_LANES, FIRST_LANES = 300, 40
"""Groups with a row of their own; so many are shown before a reader asks for more."""
FIRST_CURVES = 12
MOST_NEAR = 5000
"""With more rebalances than that, those that are too near each other to be distinguished are one, even if zoomed."""
MOST_CHURN = 20
MOST_SKIPPED = 100
MOST_STATES = 500
MOST_SHARED = 60
"""Share partitions with a picture of their own."""
FIRST_FINDINGS, MOST_FINDINGS = 6, 60
HALF = 560
"""Width of a picture that has a table beside it, in px."""
LANE = WIDE - 140
"""Width of a row that has its group's name beside it."""


Cell = str | tuple[str, float]
"""Text of a table's cell; that of a number with its value, by which it is sorted."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A table; ``numbers``: the columns that are numbers; ``groups``: whose each row is, a group a line."""

    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    numbers: frozenset[int] = frozenset()
    groups: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class GroupPicture:
    """A picture of one group; ``more``: shown when a reader asks for more."""

    group: str
    picture: Markup
    more: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """Anchor, heading, a line that says what it shows, and what it shows; ``lanes``: a row a group below ``axis``, with the ``legend``
    behind them; ``many``: small pictures, side by side where there is room; ``left``: what is not shown."""

    key: str
    name: str
    lead: str = ""
    pictures: str | Markup = ""
    lanes: Sequence[GroupPicture] = ()
    axis: str | Markup = ""
    legend: str | Markup = ""
    many: Sequence[GroupPicture] = ()
    curves: bool = False
    table: Grid | None = None
    points: Sequence[str] = ()
    left: str = ""

    @property
    def folded(self) -> int:
        """Number of groups that are hidden until a reader opens them."""
        return sum(part.more for part in (*self.lanes, *self.many))


def html(facts: ReportFacts, findings: Sequence[Finding]) -> str:
    """The report as one HTML page."""
    shown = list(findings[:MOST_FINDINGS])
    sections = [section for section in (draw(facts) for draw in _SECTIONS) if section is not None]
    flags = [(f"finding-{number_}", finding) for number_, finding in enumerate(shown)]
    rebalances = _rebalances(facts, flags)
    if rebalances is not None:
        sections.insert(0, rebalances)
    return page(
        "pipeline/report/report.html",
        facts=facts,
        font=Markup(FONT),
        picture_css=Markup(picture_css()),
        script=_script(),
        time=[] if facts.from_ms is None else pieces(lanes.time(facts)),
        subtitle=_subtitle(facts),
        tiles=list(_tiles(facts)),
        groups=sorted({part.group for section in sections for part in (*section.lanes, *section.many)}),
        severities=[
            (name, sum(finding.severity == name for finding in shown))
            for name in ("bad", "warn", "note")
            if any(finding.severity == name for finding in shown)
        ],
        findings=[
            {
                "key": key,
                "group": finding.group or "",
                "about": "\n".join(_about(facts, finding)),
                "at": finding.at_ms,
                "severity": finding.severity,
                "when": _moment(finding.at_ms),
                "text": finding.text,
                "advice": finding.advice,
                "certainty": "" if finding.severity == "good" else finding.certainty,
                "evidence": finding.evidence(),
                "links": _links(finding),
            }
            for key, finding in flags
        ],
        first=FIRST_FINDINGS,
        more_findings=count(len(shown) - FIRST_FINDINGS, "more finding"),
        findings_left=_left(len(findings) - MOST_FINDINGS, "finding", "they are in findings.txt"),
        sections=sections,
        read=" and ".join(part for part in (facts.input, facts.journal, _logs(facts)) if part),
        rows=", ".join(f"{name} {number(rows)}" for name, rows in facts.counts.items()),
    )


@cache
def _script() -> Markup:
    """JavaScript of the page; a resource, as templates are."""
    return Markup(files("broker_sim").joinpath("pipeline/report/report.js").read_text("utf-8"))


def _subtitle(facts: ReportFacts) -> str:
    parts = [facts.run_id]
    if facts.from_ms is not None and facts.to_ms is not None:
        day = date(facts.from_ms)
        until = "" if date(facts.to_ms) == day else f"{date(facts.to_ms)} "
        parts.append(f"{day} {clock(facts.from_ms)} to {until}{clock(facts.to_ms)} UTC")
        parts.append(duration_text(facts.to_ms - facts.from_ms))
    if facts.scope:
        parts.append(f"only {facts.scope}")
    return " · ".join(parts)


def _tiles(facts: ReportFacts) -> Iterator[dict[str, object]]:
    tiles = [
        (facts.groups, "group", "groups", False),
        (facts.commits, "committed offset", "committed offsets", False),
        (facts.counts.get("rebalances", 0), "rebalance", "rebalances", False),
        (facts.counts.get("offset_regressions", 0), "offset decreased", "offsets decreased", True),
        (facts.counts.get("offset_deletions", 0), "offset deleted", "offsets deleted", False),
    ]
    if facts.lines_alone:  # which have no offsets
        tiles = [tiles[0], tiles[2]]
    if facts.journal is not None or facts.lines:  # the offsets log alone proves none, so that a 0 would be a lie
        tiles.append((facts.counts.get("stuck_partitions", 0), "stuck period", "stuck periods", True))
    if facts.journal is not None:
        tiles += [
            (facts.counts.get("duplicate_windows", 0), "range read twice", "ranges read twice", True),
        ]
    for value, singular, many, bad in tiles:
        name = singular if value == 1 else many
        yield {"number": number(value), "short": short(value), "name": name, "alarm": bad and value}


def _logs(facts: ReportFacts) -> str:
    return f"{count(len(facts.lines), 'log')} of brokers and clients" if facts.lines else ""


def _links(finding: Finding) -> str:
    """Evidence of a finding, all of it, a line each: shown as a tooltip of the few links in the page."""
    return "\n".join(
        [*(f"__consumer_offsets-{log} offset {offset}" for log, offset in finding.records), *finding.lines]
    )


def _about(facts: ReportFacts, finding: Finding) -> list[str]:
    """The groups that a finding concerns: its own; of an offsets partition all that are stored in it; of a transaction those that have
    offsets in it. A search for one of them finds it."""
    groups = dict.fromkeys([finding.group] if finding.group is not None else ())
    if finding.log_partition is not None and finding.kind in _OF_PARTITIONS:
        groups |= dict.fromkeys(facts.neighbours.get(finding.log_partition, ()))
        groups |= dict.fromkeys(_living(facts, finding.log_partition))
        for row in facts.stuck:
            if row["log_partition"] == finding.log_partition:
                groups |= dict.fromkeys(row["groups"] or ())
    if finding.kind == "coordinator moved" and finding.at_ms is not None:
        last_ms = finding.at_ms if finding.to_ms is None else finding.to_ms
        for row in facts.moves:
            if row["at_ms"] is not None and finding.at_ms <= row["at_ms"] <= last_ms:
                groups |= dict.fromkeys(_living(facts, row["log_partition"]))
    if finding.kind == "transaction":
        for row in facts.transactions:
            if row["from_ms"] == finding.at_ms and row["to_ms"] == finding.to_ms:
                groups |= dict.fromkeys(row["groups"] or ())
    return list(groups)


_OF_PARTITIONS = ("stuck", "no records", "leader epoch", "unclean election", "coordinator moved", "hotspot")
"""Kinds of findings about an offsets partition, and so about each group in it."""


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


def _rebalances(facts: ReportFacts, flags: Sequence[tuple[str, Finding]]) -> Section | None:
    if facts.from_ms is None:
        return None
    shown = lanes.lanes(facts, MOST_LANES, flags)
    if not shown:
        return None
    time = lanes.time(facts)
    lead = (
        "One row for each group, those with the most trouble first. Point at a bar for its history, drag over a stretch of time to "
        "see it closer in all pictures, click a name to see that group alone."
    )
    near = sum(len(lane.bars) for lane in shown) <= MOST_NEAR

    def drawn(lane: GroupLane) -> Markup:
        return _both(lambda width: row(lane, time, width, zoomable=near and width > NARROW), LANE)

    rows = [GroupPicture(lane.group, drawn(lane), number_ >= FIRST_LANES) for number_, lane in enumerate(shown)]
    more = _left(facts.groups - len(shown), "group", "the tables rebalances and offset_regressions have all")
    return Section(
        "rebalances",
        "Rebalances",
        lead,
        lanes=rows,
        axis=_both(lambda width: axis(time, width), LANE),
        legend=_both(lambda width: legend(shown, width), LANE),
        left=more,
    )


def _stuck(facts: ReportFacts) -> Section | None:
    if not facts.stuck:
        return None
    rows = [
        (
            row["log"],
            (f"{date(row['from_ms'])} {clock(row['from_ms'])}", row["from_ms"]),
            ("still stuck", 9e15)
            if row["to_ms"] is None
            else (f"{date(row['to_ms'])} {clock(row['to_ms'])}", row["to_ms"]),
            (duration_text(row["stuck_ms"] or 0), row["stuck_ms"] or 0),
            ("not known", -1) if row["attempts"] is None else (number(row["attempts"]), row["attempts"]),
            ", ".join(row["errors"] or ()),
            _some(row["groups"] or ()),
        )
        for row in facts.stuck
    ]
    whose = ["\n".join(row["groups"] or ()) for row in facts.stuck]
    head = ("partition", "first failure", "next success", "no success for", "attempts", "errors", "groups hit")
    lead = (
        "Partitions in which no append was committed although clients tried, from the first failed attempt to the next "
        "success: the cause may have begun earlier and ended sooner. A partition without attempts is not stuck."
    )
    more = _left(facts.left_out.get("stuck_partitions", 0), "period")
    return Section("stuck", "Stuck periods", lead, table=Grid(head, rows, frozenset({3, 4}), whose), left=more)


def _lag(facts: ReportFacts) -> Section | None:
    if not facts.lag:
        return None
    known = any(row["lag"] is not None for rows in facts.lag.values() for row in rows)
    lead = (
        "Records between the committed offsets and the logs' ends, all partitions of a group together; below it its commits."
        if known
        else "No log end is known: there are no segments of the data topics, and no journal. So only the commits are shown."
    )
    charts = [
        GroupPicture(
            group,
            Markup(
                lag(group, rows, lanes.time(facts), lanes.stuck_spans(facts, group), lanes.rebalancing(facts, group))
            ),
            number_ >= FIRST_CURVES,
        )
        for number_, (group, rows) in enumerate(facts.lag.items())
    ]
    more = _left(facts.left_out.get("lag", 0), "group", "the table lag has all")
    return Section("lag", "Lag" if known else "Commits", lead, many=charts, curves=known and len(charts) > 1, left=more)


def _committed(facts: ReportFacts) -> Section | None:
    if not facts.committed:
        return None
    charts: list[GroupPicture] = []
    for (group, topic, partition), rows in facts.committed.items():
        falls = [
            row
            for row in facts.of_group(facts.regressions, group)
            if (row["topic"], row["partition"]) == (topic, partition)
        ]
        key = f"{group} · {topic}-{partition}"
        picture = committed(key, rows, falls, lanes.time(facts), lanes.stuck_spans(facts, group))
        charts.append(GroupPicture(group, Markup(picture), len(charts) >= FIRST_CURVES))
    lead = "Blue: what was committed; dashed: the log's end, where it is known; red: where the offset decreased."
    more = _left(facts.left_out.get("committed", 0), "partition", "those that decreased the most are shown")
    return Section("committed", "Committed offsets", lead, many=charts, left=more)


def _heat(facts: ReportFacts) -> Section | None:
    if not facts.hotspots:
        return None
    jammed = {row["log_partition"] for row in facts.stuck if row["log_partition"] is not None}
    busiest = sorted(facts.hotspots, key=lambda row: -row["records"])[:8]
    rows = [
        (
            (str(row["log_partition"]), row["log_partition"]),
            (number(row["groups"]), row["groups"]),
            (number(row["records"]), row["records"]),
            (f"{row['share']:.1%}", row["share"]),
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


def _churn(facts: ReportFacts) -> Section | None:
    rows = [row for row in facts.churn if any(row[name] for name in ("joins", "departures", "expirations"))]
    if not rows:
        return None
    rows.sort(key=lambda row: (-(row["expirations"] or 0), -(row["joins"] or 0) - (row["leaves"] or 0), row["group"]))
    left = len(rows) - MOST_CHURN + facts.left_out.get("member_churn", 0)
    picture = _both(lambda width: churn(rows[:MOST_CHURN], width))
    return Section("churn", "Joined and removed members", pictures=picture, left=_left(left, "group"))


def _duplicates(facts: ReportFacts) -> Section | None:
    if not facts.duplicates:
        return None
    rows = [
        (
            row["group"],
            f"{row['topic']}-{row['partition']}",
            f"{number(row['from_offset'])} to {number(row['to_offset'] - 1)}",
            (number(row["records"]), row["records"]),
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
    table = Grid(head, rows, frozenset({3}), [row["group"] for row in facts.duplicates])
    return Section("duplicates", "Delivered twice", lead, table=table, left=more)


def _skipped(facts: ReportFacts) -> Section | None:
    if not facts.skipped:
        return None
    rows = [
        (
            row["file"] or "",
            ("", -1) if row["position"] is None else (number(row["position"]), row["position"]),
            ("", -1) if row["bytes"] is None else (number(row["bytes"]), row["bytes"]),
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


def _hidden(facts: ReportFacts) -> Section | None:
    if not facts.partitions:
        return None
    return Section("hidden", "What compaction hides", points=list(compaction(facts)))


def _groups(facts: ReportFacts) -> Section | None:
    if not facts.states:
        return None
    shown = list(facts.states.values())[:MOST_STATES]
    rows = [
        (
            row["group"],
            row["kind"] or "",
            row["state"] or "",
            ("", -1) if row["members"] is None else (number(row["members"]), row["members"]),
            ("", -1) if row["generation"] is None else (number(row["generation"]), row["generation"]),
            (number(row["commits"]), row["commits"]),
            (_moment(row["last_commit_ms"]), row["last_commit_ms"] or 0),
            (str(row["log_partition"]), row["log_partition"] or 0),
        )
        for row in shown
    ]
    head = (
        "group",
        "kind",
        "at the end",
        "members",
        "generation",
        "committed offsets",
        "last commit",
        "offsets partition",
    )
    lead = "What each group came to by the end of what was read. A simple group commits without members: by assign(), or a tool."
    more = _left(len(facts.states) - len(shown) + facts.left_out.get("groups", 0), "group", "the table groups has all")
    whose = [row["group"] for row in shown]
    return Section("groups", "Groups", lead, table=Grid(head, rows, frozenset({3, 4, 5, 7}), whose), left=more)


def _moves(facts: ReportFacts) -> Section | None:
    if not facts.moves:
        return None
    rows = [
        (
            (f"__consumer_offsets-{row['log_partition']}", row["log_partition"]),
            (_moment(row["at_ms"]), row["at_ms"] or 0),
            "" if row["from_epoch"] is None else str(row["from_epoch"]),
            str(row["to_epoch"]),
            "not known" if row["node"] is None else str(row["node"]),
            ("", -1) if row["loaded_ms"] is None else (duration_text(row["loaded_ms"]), row["loaded_ms"]),
            "yes" if row["unclean"] else "",
        )
        for row in facts.moves
    ]
    head = ("partition", "when", "epoch before", "epoch now", "broker", "load took", "unclean")
    lead = (
        "Partitions of __consumer_offsets that went to another leader, and with them the coordinator of their groups."
    )
    more = _left(facts.left_out.get("coordinator_moves", 0), "move", "the table coordinator_moves has all")
    whose = ["\n".join(_living(facts, row["log_partition"])) for row in facts.moves]
    return Section("moves", "Coordinators that moved", lead, table=Grid(head, rows, groups=whose), left=more)


def _transactions(facts: ReportFacts) -> Section | None:
    if not facts.transactions:
        return None
    rows = [
        (
            row["transactional_id"] or f"producer {row['producer_id']}",
            (_moment(row["from_ms"]), row["from_ms"]),
            (duration_text(row["open_ms"] or 0), row["open_ms"] or 0),
            _end_of(row),
            ("", -1) if row["blocked_ms"] is None else (duration_text(row["blocked_ms"]), row["blocked_ms"]),
            _some(list(row["blocked"] or row["partitions"] or ()), 4),
            _some(list(row["readers"] or ()), 4),
        )
        for row in facts.transactions
    ]
    head = ("whose", "begun", "open", "ended", "blocked readers", "where", "who waited")
    lead = (
        "Transactions that were open for long, hang, or were ended in spite of their producers. Readers of what is committed get"
        " nothing behind an open one."
    )
    more = _left(facts.left_out.get("transactions", 0), "transaction", "the table transactions has all")
    whose = ["\n".join(row["groups"] or ()) for row in facts.transactions]
    return Section("transactions", "Transactions", lead, table=Grid(head, rows, frozenset({2, 4}), whose), left=more)


def _deliveries(facts: ReportFacts) -> Section | None:
    if not facts.deliveries:
        return None
    rows = [
        (
            row["group"],
            f"{row['topic'] or row['topic_id']}-{row['partition']}",
            (_offsets_of(row), row["from_offset"]),
            (_moment(row["first_ms"]), row["first_ms"]),
            row["outcome"] or "waits",
            (duration_text(row["last_ms"] - row["first_ms"]), row["last_ms"] - row["first_ms"]),
            (number(row["deliveries"] or 0), row["deliveries"] or 0),
            (number(row["returns"] or 0), row["returns"] or 0),
        )
        for row in facts.deliveries
    ]
    head = ("share group", "partition", "offsets", "first", "end", "until its end", "deliveries", "returns")
    lead = (
        "Records of share groups that became available again, or that no member gets any more (archived: rejected, or"
        " delivered as often as they may be). What was delivered once and acknowledged is no row. A bar is a range of offsets"
        " from the first return to its end, ×3 the number of its deliveries; green: acknowledged, red: archived, orange: not"
        " delivered again yet, grey: below the start offset."
    )
    by_partition: dict[tuple[str, str], list[Row]] = {}
    for seen in facts.deliveries:
        log = f"{seen['topic'] or seen['topic_id']}-{seen['partition']}"
        by_partition.setdefault((seen["group"], log), []).append(seen)
    timed = [] if facts.from_ms is None else list(by_partition.items())[:MOST_SHARED]
    charts = [
        GroupPicture(group, Markup(delivered(f"{group} · {log}", some, lanes.time(facts))), number_ >= FIRST_CURVES)
        for number_, ((group, log), some) in enumerate(timed)
    ]
    more = _left(facts.left_out.get("share_deliveries", 0), "row", "the table share_deliveries has all")
    table = Grid(head, rows, frozenset({5, 6, 7}), [row["group"] for row in facts.deliveries])
    return Section("deliveries", "Share groups' deliveries", lead, many=charts, table=table, left=more)


def _assigned(facts: ReportFacts) -> Section | None:
    if not facts.assignments or facts.from_ms is None:
        return None
    by_group: dict[str, list[Row]] = {}
    for holding in facts.assignments:
        by_group.setdefault(holding["group"], []).append(holding)
    charts = [
        GroupPicture(group, Markup(assigned(group, rows, lanes.time(facts))), number_ >= FIRST_CURVES)
        for number_, (group, rows) in enumerate(by_group.items())
    ]
    lead = (
        "What the members of consumer, share and streams groups had: partitions or tasks, and how many. Blue: all that it was to"
        " have; orange: it was to revoke some; violet: it waited for what another member had; pale: standby tasks alone."
    )
    more = _left(facts.left_out.get("assignments", 0), "group")
    return Section("assignments", "Assignments", lead, many=charts, left=more)


def _offsets_of(row: Row) -> str:
    first, behind = row["from_offset"], row["to_offset"]
    if row["outcome"] == "reset":
        return f"from {number(first)} to {number(behind)}"
    return number(first) if behind == first + 1 else f"{number(first)} to {number(behind - 1)}"


def _end_of(row: Row) -> str:
    if row["hangs"]:
        return "lost abort" if row["lost_abort"] else "hangs" if row["to_ms"] is None else "hung, was aborted by hand"
    by = f" by {row['ended_by']}" if row["ended_by"] else ""
    return f"{row['result'] or row['end'] or 'open'}{by}"


def _living(facts: ReportFacts, log_partition: int) -> list[str]:
    return [group for group, row in facts.states.items() if row["log_partition"] == log_partition]


_SECTIONS = (
    _stuck,
    _moves,
    _transactions,
    _assigned,
    _deliveries,
    _lag,
    _committed,
    _duplicates,
    _groups,
    _heat,
    _churn,
    _skipped,
    _hidden,
)


def _some(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
