"""The report: one HTML page with findings on top and the pictures below, made of `Facts`.

Rules:
1. One file, nothing from elsewhere. All text from outside is escaped.
2. Its size is bounded by what `Facts` holds and by the charts; what is left out is said where it is missing.
3. A section without anything to show says so in a line, or is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from broker_sim.common.text import duration_text
from broker_sim.explain.canvas import escaped
from broker_sim.explain.phrases import clock, count, date
from broker_sim.pipeline.facts import Facts
from broker_sim.pipeline.findings import Finding, compaction
from broker_sim.pipeline.report import lanes
from broker_sim.pipeline.report.bars import churn
from broker_sim.pipeline.report.heat import heat
from broker_sim.pipeline.report.lines import committed, lag
from broker_sim.pipeline.report.sheet import NARROW, WIDE, number, short
from broker_sim.pipeline.report.style import SCRIPT, css
from broker_sim.pipeline.report.timeline import timeline

__all__ = ["html"]

MOST_LANES = 40
MOST_CHURN = 20
MOST_SKIPPED = 100
FIRST_FINDINGS, MOST_FINDINGS = 6, 60
HALF = 640
"""Width of a picture that has a table beside it, in px."""


def html(facts: Facts, findings: Sequence[Finding]) -> str:
    """The page."""
    sections = [
        _findings(findings),
        *(section for section in (draw(facts) for draw in _SECTIONS) if section),
    ]
    title = f"{facts.run_id}: what happened to the consumer groups"
    links = "".join(f'<a href="#{key}">{escaped(name)}</a>' for key, name, _ in sections)
    body = "\n".join(
        f'<section id="{key}" aria-label="{escaped(name)}"><h2>{escaped(name)}</h2>{inner}</section>'
        for key, name, inner in sections
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escaped(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{css()}</style></head><body><main>\n<h1>What happened to the consumer groups</h1>\n"
        f'<p class="sub">{_subtitle(facts)}</p>\n{_tiles(facts)}\n<nav aria-label="sections">{links}</nav>\n{body}\n'
        f'{_footer(facts)}</main><div id="tip"></div><script>{SCRIPT}</script></body></html>\n'
    )


Section = tuple[str, str, str]
"""anchor, heading, what stands below it."""


def _subtitle(facts: Facts) -> str:
    parts = [facts.run_id]
    if facts.from_ms is not None and facts.to_ms is not None:
        day = date(facts.from_ms)
        until = "" if date(facts.to_ms) == day else f"{date(facts.to_ms)} "
        parts.append(f"{day} {clock(facts.from_ms)} to {until}{clock(facts.to_ms)} UTC")
        parts.append(duration_text(facts.to_ms - facts.from_ms))
    return escaped(" · ".join(parts))


def _tiles(facts: Facts) -> str:
    tiles = [
        (facts.groups, "group", "groups", ""),
        (facts.commits, "committed offset", "committed offsets", ""),
        (facts.counts.get("rebalances", 0), "rebalance", "rebalances", ""),
        (facts.counts.get("offset_regressions", 0), "offset went back", "offsets went back", "bad"),
        (facts.counts.get("offset_deletions", 0), "offset deleted", "offsets deleted", ""),
    ]
    if facts.journal is not None:  # a log alone proves neither, so that a 0 would be a lie
        tiles += [
            (facts.counts.get("stuck_partitions", 0), "stuck period", "stuck periods", "bad"),
            (facts.counts.get("duplicate_windows", 0), "range read twice", "ranges read twice", "bad"),
        ]
    cells = []
    for value, one, many, alarm in tiles:
        style, name = "tile bad" if alarm and value else "tile", one if value == 1 else many
        cells.append(f'<div class="{style}" title="{number(value)}"><b>{short(value)}</b><span>{name}</span></div>')
    return f'<div class="tiles">{"".join(cells)}</div>'


def _findings(findings: Sequence[Finding]) -> Section:
    rows = [
        f'<li class="{one.severity}">{_moment(one.at_ms)}<p>{escaped(one.text)}</p>'
        f"{f'<p class=do>{escaped(one.advice)}</p>' if one.advice else ''}</li>"
        for one in findings[:MOST_FINDINGS]
    ]
    first = f'<ol class="findings">{"".join(rows[:FIRST_FINDINGS])}</ol>'
    if len(rows) > FIRST_FINDINGS:
        rest = f'<ol class="findings">{"".join(rows[FIRST_FINDINGS:])}</ol>'
        first += f"<details><summary>{count(len(rows) - FIRST_FINDINGS, 'more finding')}</summary>{rest}</details>"
    return "findings", "Findings", first + _left(len(findings) - MOST_FINDINGS, "finding", "they are in findings.txt")


def _moment(at_ms: int | None) -> str:
    return "" if at_ms is None else f"<time>{date(at_ms)} {clock(at_ms)}</time>"


def _left(number_: int, what: str, where: str = "") -> str:
    if number_ <= 0:
        return ""
    behind = f"; {where}" if where else ""
    return f'<p class="hint">{count(number_, what)} more {"is" if number_ == 1 else "are"} not shown{behind}.</p>'


def _both(draw: Callable[[int], str], wide: int = WIDE) -> str:
    """The picture for screens and the one for phones; the page shows one of them."""
    return draw(wide) + draw(NARROW)


# ------------------------------------------------------------------------------------------------ sections


def _rebalances(facts: Facts) -> Section | None:
    shown = lanes.lanes(facts, MOST_LANES)
    if not shown or facts.from_ms is None:
        return None
    left = facts.groups - len(shown)
    lead = '<p class="lead">One row for each group. Point at a bar for its story; the groups with the most trouble come first.</p>'
    picture = _both(lambda width: timeline(shown, lanes.time(facts), width))
    more = _left(left, "group", "the tables rebalances and offset_regressions have all")
    return "rebalances", "Rebalances", lead + picture + more


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
        '<p class="lead">Partitions that took nothing although somebody tried, from the first attempt that failed to the next that did '
        "not: what held them up may have begun earlier and ended sooner. A partition that nobody wrote to is not stuck.</p>"
    )
    return (
        "stuck",
        "Stuck periods",
        lead + _table(head, rows, {3, 4}) + _left(facts.left_out.get("stuck_partitions", 0), "period"),
    )


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
    return "lag", name, f'<p class="lead">{lead}</p><div class="many">{"".join(charts)}</div>{more}'


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
    lead = '<p class="lead">Blue: what was committed; dashed: the log\'s end, where it is known; red: where the offset went back.</p>'
    more = _left(facts.left_out.get("committed", 0), "partition", "those that went back the most are shown")
    return "committed", "Committed offsets", f'{lead}<div class="many">{"".join(charts)}</div>{more}'


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
    table = _table(("partition", "groups", "records", "share", "most of group"), rows, {0, 1, 2, 3})
    lead = (
        '<p class="lead">Each cell is a partition of __consumer_offsets; its leader coordinates the groups in it. The darker, the more '
        "records are in it.</p>"
    )
    return (
        "heat",
        "Offsets partitions",
        f'{lead}<div class="split"><div>{_both(lambda width: heat(facts.hotspots, jammed, width), HALF)}</div>{table}</div>',
    )


def _churn(facts: Facts) -> Section | None:
    rows = [row for row in facts.churn if any(row[name] for name in ("joins", "departures", "expirations"))]
    if not rows:
        return None
    rows.sort(key=lambda row: (-(row["expirations"] or 0), -(row["joins"] or 0) - (row["leaves"] or 0), row["group"]))
    left = len(rows) - MOST_CHURN + facts.left_out.get("member_churn", 0)
    return (
        "churn",
        "Members that came and went",
        _both(lambda width: churn(rows[:MOST_CHURN], width)) + _left(left, "group"),
    )


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
        '<p class="lead">Records that one owner had been given and the next one was given again. Evidence "fetched": it was '
        "sent to both; whether the first application saw it is not known.</p>"
    )
    table = _table(head, rows, {3})
    return "duplicates", "Delivered twice", lead + table + _left(facts.left_out.get("duplicate_windows", 0), "window")


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
    lead = '<p class="lead">What could not be read. All around it has been read.</p>'
    table = _table(("file", "position", "bytes", "reason"), rows, {1, 2})
    return "skipped", "What was skipped", lead + table + _left(left, "piece", "the table skipped has all")


def _hidden(facts: Facts) -> Section | None:
    if not facts.partitions:
        return None
    items = "".join(f"<li>{escaped(words)}</li>" for words in compaction(facts))
    return "hidden", "What compaction hides", f'<ul class="plain">{items}</ul>'


_SECTIONS = (_rebalances, _stuck, _lag, _committed, _duplicates, _heat, _churn, _skipped, _hidden)


# ------------------------------------------------------------------------------------------------ parts


def _some(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _table(head: Iterable[str], rows: Iterable[Sequence[str]], numbers: set[int]) -> str:
    def cells(tag: str, words: Iterable[str]) -> str:
        return "".join(
            f"<{tag}{' class=n' if at in numbers else ''}>{escaped(word)}</{tag}>" for at, word in enumerate(words)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{cells("th", head)}</tr></thead><tbody>{body}</tbody></table></div>'


def _footer(facts: Facts) -> str:
    tables = ", ".join(f"{name} {number(rows)}" for name, rows in facts.counts.items())
    read = " and ".join(part for part in (facts.input, facts.journal) if part)
    return (
        f"<footer>Read: {escaped(read)}. Rows: {escaped(tables)}. Times are UTC; order is that of the logs. "
        "Made by broker-sim pipeline run; docs/pipeline.md tells what each table holds.</footer>"
    )
