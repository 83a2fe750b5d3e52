"""Findings from the tables, as sentences for an operator, those with the highest weight first, each with advice.

    for finding in findings(facts): print(finding.text)

Rules:
1. Every sentence is made of rows: its names, numbers and times are in the tables. What the rows don't show is no finding.
2. One finding for one problem: a finding about a stuck partition contains its effect on groups, which get no finding of their own.
3. Weights: above 1000 a partition or group made no progress, above 500 records were read twice or offsets lost, above 100 it cost time,
   below it is for information.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

from broker_sim.common.text import clock, date, duration_text
from broker_sim.explain.holdups import advice as advice_about
from broker_sim.explain.phrases import count, is_other, joined, times
from broker_sim.pipeline.aborted_transactions import ABOUT_ABORTS
from broker_sim.pipeline.account_findings import ABOUT_ACCOUNTS
from broker_sim.pipeline.compaction import compacted_records
from broker_sim.pipeline.crash_findings import ABOUT_CRASHES
from broker_sim.pipeline.facts import ReportFacts, Row
from broker_sim.pipeline.finding import LINES_ALONE, LONG_MS, NO_LOG, OFTEN, OFTEN_MS, WITNESSES, Finding, by_group
from broker_sim.pipeline.log_findings import ABOUT_GENERATIONS, is_orderly
from broker_sim.pipeline.offset_findings import ABOUT_OFFSETS
from broker_sim.pipeline.phrases import cause, named, on_its_day, when
from broker_sim.pipeline.refused_clients import ABOUT_CLIENTS
from broker_sim.pipeline.share_findings import ABOUT_SHARES
from broker_sim.pipeline.slow_rebalances import ABOUT_REBALANCES, dead_members, in_stuck
from broker_sim.pipeline.streams_findings import ABOUT_STREAMS

__all__ = ["Finding", "findings", "text"]

FEW = 3
"""Fewer members with expired sessions are reported one by one."""
HOT_TIMES, HOT_SHARE = 4.0, 0.25
"""A partition is hot with so many times its fair share, and so much of all."""
HOT_RECORDS = 1000
MOST_ALIKE = 20
"""Findings of one kind."""
MUCH_COMPACTED = 0.1
"""If so large a share of the records was removed, a period without records shows little."""


def findings(facts: ReportFacts) -> list[Finding]:
    """All findings, the most important first; one of the kind `nothing` if there is no other."""
    result = [finding for findings_of in _KINDS for finding in _few(list(findings_of(facts)))]
    result = [replace(finding, text=_dated(finding)) for finding in result]
    if not facts.logged:  # offsets of a `journal_log` are the journal's numbers
        result = [replace(finding, records=()) for finding in result]
    result.sort(key=lambda finding: (-finding.weight, finding.at_ms or 0, finding.text))
    if not any(finding.severity in ("bad", "warn") for finding in result):
        result.insert(0, _no_findings(facts, notes=len(result)))
    return result


def _dated(finding: Finding) -> str:
    """The finding's text, without the date that is printed before it."""
    return (
        finding.text.replace("\N{NO-BREAK SPACE}", " ")
        if finding.at_ms is None
        else on_its_day(finding.text, finding.at_ms)
    )


def _few(alike: list[Finding]) -> list[Finding]:
    """The weightiest ones of a kind; the last of them names the groups of the others."""
    if len(alike) <= MOST_ALIKE:
        return alike
    alike.sort(key=lambda finding: -finding.weight)
    kept, rest = alike[:MOST_ALIKE], alike[MOST_ALIKE:]
    whose = [finding.group or f"__consumer_offsets-{finding.log_partition}" for finding in rest]
    groups = named(whose, 5)
    return [*kept[:-1], replace(kept[-1], text=f"{kept[-1].text} To a lesser extent also: {groups}.")]


def _no_findings(facts: ReportFacts, notes: int) -> Finding:
    looked = [
        count(facts.groups, "group"),
        count(facts.commits, "committed offset"),
        count(facts.counts.get("rebalances", 0), "rebalance"),
    ]
    if facts.lines_alone:
        del looked[1]
    found = "Nothing unusual was" if not notes else "Only a note was" if notes == 1 else "Only notes were"
    words = f"{found} found in {joined(looked)}{f', {facts.scope}' if facts.scope else ''}."
    if facts.lines_alone:
        return Finding("nothing", "good", 0, f"{words} {LINES_ALONE}")
    if facts.journal is None:
        without = "A log alone shows only some stuck partitions, and no" if not facts.lines else "Logs do not show"
        words += f" {without} records that were delivered twice."
    if not facts.logged:
        words += f" {NO_LOG}"
    compacted, all_ = compacted_records(facts)
    if all_ and compacted / all_ >= MUCH_COMPACTED:
        words += f" {compacted / all_:.0%} of the log's records were deleted by compaction or retention; their contents are unknown."
    return Finding("nothing", "good", 0, words)


# ------------------------------------------------------------------------------------------------ stuck partitions


def _stuck(facts: ReportFacts) -> Iterable[Finding]:
    for row in facts.stuck:
        yield (
            _stuck_partition(facts, row)
            if row["attempts"] is not None and row["evidence"] in _OF_JOURNAL
            else _stuck_by_logs(facts, row)
        )


_OF_JOURNAL = ("appends", "produce", "answers")


def _silences(facts: ReportFacts) -> Iterable[Finding]:
    for row in facts.silences:
        yield _silence(row) if row["evidence"] == "silence" else _slowed(row)


def _stuck_partition(facts: ReportFacts, row: Row) -> Finding:
    """A partition in which no append was committed although clients tried, and its effect on its groups."""
    hit, partition = list(row["groups"] or ()), row["log_partition"]
    unstable_from = {
        group: at_ms
        for group in hit
        if (at_ms := _unstable_from(facts, group, row["from_ms"], row["to_ms"])) is not None
    }
    did, span = f"{_stuck_words(row)} ({_attempts(row)})", _between(row["from_ms"], row["to_ms"])
    its = "its" if len(unstable_from or hit) == 1 else "their"
    looked = row["evidence"] == "answers" and not row["commits"]  # no commit was refused
    if partition is None or not hit:
        words = f"{row['log']} {did} {span}"
    elif unstable_from:
        first = min(unstable_from.values())
        words = f"{named(unstable_from)} never became Stable {_between(first, row['to_ms'])}"
        if first - row["from_ms"] >= 1000:
            words += f", nor committed anything from {when(row['from_ms'])} on"
        words += f": {its} offsets partition {partition} {did}"
    else:
        could = "found no coordinator" if looked else "could not commit"
        words = f"{named(hit)} {could} {span}: {its} offsets partition {partition} {did}"
    others = (
        [group for group in facts.neighbours.get(partition, ()) if group not in hit] if partition is not None else []
    )
    if others:
        words += (
            f"; {count(len(others), 'other group')} {'shares' if len(others) == 1 else 'share'} it: {named(others)}"
        )
    if row["to_ms"] is None:
        words += "; it still is at the end of the input"
    advice = (
        f"Look at the replicas of {row['log']}: a follower that hangs but is still in the ISR, fewer in-sync replicas than"
        " min.insync.replicas, a full disk, a coordinator that moves or loads."
    )
    if partition is not None:
        advice += " Groups of other partitions are not affected; restarting consumers does not help."
    if looked:
        advice = f"No commit was refused. The broker that leads {row['log']} may have been down, or the coordinator moved or loaded."
    group = hit[0] if len(hit) == 1 else None
    return Finding(
        "stuck",
        "warn" if looked else "bad",
        (400 if looked else 1000) + (row["stuck_ms"] or 0) / 1000,
        f"{words}.",
        advice,
        group,
        partition,
        row["from_ms"],
        row["to_ms"],
    )


_SHOWN_BY = {
    "broker log": "its leader logged it",
    "client log": "their clients logged it",
    "together": "they stopped committing together with those of another partition, about which brokers or clients logged it",
    "repeated": "it committed the same offsets again after about offsets.commit.timeout.ms, and had read on when it could commit again,"
    " while groups of other partitions went on",
    "rhythm": "they slowed down together and caught up at once afterwards, while groups of other partitions did not",
}
_BY_PACE = ("together", "repeated", "rhythm")
"""No line shows when the partition committed appends again."""


def _stuck_by_logs(facts: ReportFacts, row: Row) -> Finding:
    """As `_stuck_partition`, of a cluster that has no journal."""
    partition, hit = row["log_partition"], list(row["groups"] or ())
    others = [group for group in facts.neighbours.get(partition, ()) if group not in hit]
    whose = named(hit) if hit else "No group"
    words = f"{whose} could {'not commit' if hit else 'commit'} {_between(row['from_ms'], row['to_ms'])}"
    if row["evidence"] in _BY_PACE and row["to_ms"] is not None:
        words += " at the latest"  # when they committed next
    words += (
        f": {'their' if len(hit) > 1 or not hit else 'its'} offsets partition {partition} committed nothing;"
        f" {_SHOWN_BY[row['evidence']]}"
    )
    if row["attempts"]:
        errors = f" ({joined(row['errors'][:2])})" if row["errors"] else ""
        words += f", {count(row['attempts'], 'failed attempt')}{errors}"
    if others:
        verb = "shares" if len(others) == 1 else "share"
        words += f"; {count(len(others), 'other group')} {verb} it: {named(others)}"
    advice = (
        f"Look at the replicas of {row['log']}: a follower that hangs and is still in the ISR, fewer in-sync replicas than"
        " min.insync.replicas, a full disk. Groups of other partitions are not affected; restarting consumers does not help."
    )
    alone = row["evidence"] == "repeated"
    return Finding(
        "stuck",
        "warn" if alone else "bad",
        (400 if alone else 1000) + (row["stuck_ms"] or 0) / 1000,
        f"{words}.",
        advice,
        hit[0] if len(hit) == 1 else None,
        partition,
        row["from_ms"],
        row["to_ms"],
        row["certainty"],
        tuple((partition, offset) for offset in row["evidence_offsets"] or ()),
        tuple(row["evidence_lines"] or ()),
    )


def _slowed(row: Row) -> Finding:
    """One group that slowed down."""
    words = f"{named(row['groups'] or ())} hardly committed {_between(row['from_ms'], row['to_ms'])}, and caught up at once afterwards"
    advice = (
        f"Only a hint: its commits may have failed ({row['log']} stuck), or its application delayed them. The logs of the clients"
        " or of the broker show which."
    )
    partition = row["log_partition"]
    records = tuple((partition, offset) for offset in row["evidence_offsets"] or ())
    group = (row["groups"] or [None])[0]
    return Finding(
        "no records",
        "note",
        88,
        f"{words}.",
        advice,
        group,
        partition,
        row["from_ms"],
        row["to_ms"],
        "possible",
        records,
    )


def _stuck_words(row: Row) -> str:
    if row["evidence"] == "answers":
        return "had no coordinator that answered"
    what = "record" if row["evidence"] == "produce" else "append"
    verb = (
        "committed" if row["evidence"] == "appends" and row["waiting"] else "accepted"
    )  # appended, above the high watermark
    return f"{verb} no {what}"


def _silence(row: Row) -> Finding:
    words = (
        f"Nothing was written to {row['log']} {_between(row['from_ms'], row['to_ms'])} ({duration_text(row['silence_ms'])}), while "
        f"others got {count(row['others'] or 0, 'record')}; it was busy before and after. Whether any client"
        " tried to write is not in the log"
    )
    advice = (
        "Only a hint: consumers without anything to commit do not write either, and a partition whose commits time out may still"
        " get records. See the logs of the clients or of the broker at that time (ISR changes, offset commit failures)."
    )
    partition = row["log_partition"]
    return Finding(
        "no records", "note", 90, f"{words}.", advice, None, partition, row["from_ms"], row["to_ms"], "possible"
    )


def _attempts(row: Row) -> str:
    errors = [error for error in row["errors"] or () if error and error != "NONE"]
    failed = count(row["attempts"] or 0, "attempt")
    return f"{failed}, answered {joined(errors)}" if errors else failed


def _between(from_ms: int, to_ms: int | None) -> str:
    if to_ms is None:
        return f"since {when(from_ms)}"
    return f"between {when(from_ms)} and {on_its_day(when(to_ms), from_ms)}"


def _unstable_from(facts: ReportFacts, group: str, from_ms: int, to_ms: int | None) -> int | None:
    """Start of the first rebalance within the time, if none of those within it ended Stable before the time's end; else None."""
    inside = [
        row
        for row in facts.of_group(facts.rebalances, group)
        if row["started_ms"] is not None
        and from_ms <= row["started_ms"]
        and (to_ms is None or row["started_ms"] < to_ms)
    ]
    over = [row["ended_ms"] for row in inside if row["end"] == "stable" and row["ended_ms"] is not None]
    if not inside or any(to_ms is None or ended_ms < to_ms for ended_ms in over):
        return None
    return min(int(row["started_ms"]) for row in inside)


# ------------------------------------------------------------------------------------------------ rebalances

_ADVICE = {
    "session timeout": advice_about("session"),
    "join": "Members that join one by one each cost a rebalance: start them together, give them group.instance.id, or raise"
    " group.initial.rebalance.delay.ms.",
    "leave": "Members that leave and rejoin cost two rebalances: group.instance.id (static membership) avoids both for a restart."
    " Check whether max.poll.interval.ms expired: then the client leaves by itself.",
    "metadata change": "Changed subscriptions or topics may be the cause, or partitions that members revoke for a cooperative assignor:"
    " see their logs.",
    "sync failed": "The assignment could not be stored, or members sent no SyncGroup in time: look at the group's offsets partition.",
}


def _frequent(facts: ReportFacts) -> Iterable[Finding]:
    """Groups that rebalanced often, or whose rebalances began again and again."""
    for group, rows in by_group(facts.rebalances):
        timed = [
            row
            for row in rows
            if row["source"] == "journal"  # of a log: storms, in `log_findings`
            and row["started_ms"] is not None
            and not in_stuck(facts, group, row["started_ms"])
        ]
        for run in _dense(timed):
            failed = sum(row["end"] == "failed" for row in run)
            lasted = (run[-1]["ended_ms"] or run[-1]["started_ms"]) - run[0]["started_ms"]
            causes = Counter(row["cause"] or "unknown" for row in _without_returns(run))
            most, number = causes.most_common(1)[0]
            words = f"{group} rebalanced {times(len(run))} within {duration_text(lasted)} from {when(run[0]['started_ms'])} on"
            if failed:
                words += f", {failed} of them restarted before they were Stable"
            example = next(row for row in run if (row["cause"] or "unknown") == most)
            words += f"; {times(number)} because of {_noun(most, run[0].get('protocol_type'))}" + (
                f" (as when {cause(example)})" if most != "unknown" else ""
            )
            # a deployment looks like that; members of epoch-based groups keep their partitions while epochs follow each other
            by_epochs = run[0].get("kind") in ("consumer", "share", "streams")
            starting = (most == "join" and not failed) or (by_epochs and is_orderly(run))
            yield Finding(
                "frequent rebalances",
                "note" if starting else "bad" if failed * 2 >= len(run) else "warn",
                (70 if starting else 100 + 5 * failed) + len(run),
                f"{words}.",
                _most_waited(run) or _advice(most, run[0].get("protocol_type"), example.get("kind")),
                group,
                None,
                run[0]["started_ms"],
            )


_LOST = ("session timeout", "poll timeout", "rebalance timeout")


def _without_returns(run: list[Row]) -> Iterable[Row]:
    """Without the joins of clients that had been lost just before: they follow from what lost them."""
    lost: set[str | None] = set()
    for row in run:
        clients = set(row.get("who_clients") or ())
        if row["cause"] in _LOST:
            lost |= clients
        elif row["cause"] == "join" and clients and clients <= lost:
            lost -= clients
            continue
        yield row


def _most_waited(run: list[Row]) -> str:
    """Advice about the kind of wait that is most of these rebalances' time; "" without one."""
    waits: Counter[str] = Counter()
    for row in run:
        if row.get("held_by") not in (None, "unknown", "initial delay"):
            waits[row["held_by"]] += row["held_ms"] or 0
    whole = sum((row["ended_ms"] or row["started_ms"]) - row["started_ms"] for row in run)
    what, ms = waits.most_common(1)[0] if waits else ("", 0)
    if ms < LONG_MS or ms * 2 < whole:
        return ""
    mine = [row for row in run if row.get("held_by") == what]
    closed = all(set(row["held_who"] or ()) <= set(row["held_closed"] or ()) for row in mine)
    return advice_about(what, closed, consumers=not is_other(run[0].get("protocol_type")))


def _dense(rows: list[Row]) -> list[list[Row]]:
    """Runs of at least OFTEN rebalances of which any OFTEN in a row began within OFTEN_MS."""
    runs: list[list[Row]] = []
    for at in range(OFTEN - 1, len(rows)):
        first = rows[at - OFTEN + 1]
        if rows[at]["started_ms"] - first["started_ms"] > OFTEN_MS:
            continue
        if runs and runs[-1][-1] is rows[at - 1]:
            runs[-1].append(rows[at])
        else:
            runs.append(list(rows[at - OFTEN + 1 : at + 1]))
    return runs


def _advice(cause_: str, protocol_type: str | None, kind: str | None) -> str:
    if cause_ == "join" and kind not in (None, "classic"):
        return "Each member that joins raises the group epoch; only members whose partitions move pause for it."
    if is_other(protocol_type) and cause_ in ("metadata change", "leave"):
        return "Each change of a member's metadata rebalances the whole group." if cause_ == "metadata change" else ""
    return _ADVICE.get(cause_, "")


def _noun(cause_: str, protocol_type: str | None = None) -> str:
    if cause_ == "metadata change" and is_other(protocol_type):
        return "changed metadata"
    return {
        "join": "members that joined",
        "leave": "members that left",
        "departed": "members that left or expired",
        "rejoin": "members that joined again",
        "session timeout": "session timeouts",
        "poll timeout": "poll timeouts",
        "rebalance timeout": "members that did not revoke their partitions in time",
        "downgrade": "groups that were downgraded to the classic protocol",
        "metadata change": "members that joined with other metadata, or topics that changed",
        "sync failed": "assignments that were not stored, or missing SyncGroups",
        "load": "loads of the coordinator",
        "max size reached": "members beyond group.max.size",
    }.get(cause_, "causes that the journal does not have")


# ------------------------------------------------------------------------------------------------ partitions, input


def _hot(facts: ReportFacts) -> Iterable[Finding]:
    total = sum(row["records"] for row in facts.hotspots)
    known = max((row["partitions"] or 50 for row in facts.hotspots), default=50)
    for row in facts.hotspots:
        if total < HOT_RECORDS or row["share"] < HOT_SHARE or row["share"] * known < HOT_TIMES:
            continue
        words = f"__consumer_offsets-{row['log_partition']} holds {row['share']:.0%} of all records, of {count(row['groups'], 'group')}"
        busiest = row["busiest_group"]
        if busiest is not None:
            words += f"; {busiest} alone wrote {row['busiest_records'] / total:.0%} of all"
        advice = (
            "Its leader coordinates all of them. Let the busiest group commit less often, or rename it: the hash of its name"
            " selects the partition."
        )
        yield Finding("hotspot", "note", 80 + 10 * row["share"], f"{words}.", advice, busiest, row["log_partition"])


def _placed(facts: ReportFacts) -> Iterable[Finding]:
    number = next((row["partitions"] for row in facts.hotspots if row["partitions"] is not None), None)
    if number is not None and number != 50:
        words = f"The groups are placed as if __consumer_offsets had {count(number, 'partition')}, not Kafka's usual 50"
        yield Finding("misplaced groups", "note", 40, f"{words}.")
    odd = [row for row in facts.hotspots if row["misplaced"]]
    if number is None and odd:
        groups = sum(row["misplaced"] for row in odd)
        where = joined(
            [str(row["log_partition"]) for row in odd[:5]] + ([f"{len(odd) - 5} more"] if len(odd) > 5 else [])
        )
        lie = f"{count(groups, 'group')} {'is' if groups == 1 else 'are'}"
        if sum(row["groups"] for row in facts.hotspots) < WITNESSES:
            words = (
                f"{lie} in other partitions ({where}) than with Kafka's default of 50 partitions of __consumer_offsets"
            )
            yield Finding("misplaced groups", "note", 40, f"{words}; so few groups do not show how many there are.")
            return
        words = f"{lie} in another offsets partition than the hash selects ({where}), with any number of partitions"
        advice = "Their coordinator does not read them there: offsets.topic.num.partitions was changed, or directories were mixed up."
        yield Finding("misplaced groups", "warn", 400, f"{words}.", advice)


def _session_timeouts(facts: ReportFacts) -> Iterable[Finding]:
    """Groups that lose members to session timeouts."""
    for row in facts.churn:
        lost, came = row["expirations"] or 0, row["joins"] or 0
        if lost - len(dead_members(facts, row["group"], expired=True)) >= FEW and lost * 3 >= came:
            static = row["static_expirations"] or 0
            words = f"{row['group']} lost {count(lost, 'member')} to session timeouts"
            words += f", {'all' if static == lost else static} of them static" if static else ""
            words += f"; {came} joined"
            advice = advice_about("session", static=static == lost)
            yield Finding("churn", "warn", 110 + min(lost, 40), f"{words}.", advice, row["group"])


def _skipped(facts: ReportFacts) -> Iterable[Finding]:
    if not facts.skipped:
        return
    first = facts.skipped[0]
    pieces = len(facts.skipped) + facts.left_out.get("skipped", 0)
    at = "" if first["position"] is None else f" at {first['position']:,}"
    words = f"{count(pieces, 'piece')} of the input could not be read: {first['file']}{at}: {first['reason']}"
    if pieces > 1:
        words += f", and {pieces - 1} more"
    yield Finding(
        "unreadable input",
        "warn",
        450,
        f"{words}.",
        "The rest of the input has been read; the report lists all such pieces.",
    )


_KINDS: tuple[Callable[[ReportFacts], Iterable[Finding]], ...] = (
    *(
        _stuck,
        _frequent,
        *ABOUT_REBALANCES,
        *ABOUT_GENERATIONS,
        *ABOUT_ACCOUNTS,
        *ABOUT_OFFSETS,
        *ABOUT_SHARES,
        *ABOUT_STREAMS,
        *ABOUT_CLIENTS,
        *ABOUT_CRASHES,
        *ABOUT_ABORTS,
    ),
    *(_hot, _placed, _session_timeouts, _silences, _skipped),
)


def text(findings: Iterable[Finding]) -> str:
    """The findings for a terminal or a file: one paragraph each."""
    lines = []
    for finding in findings:
        at = "" if finding.at_ms is None else f"{date(finding.at_ms)} {clock(finding.at_ms)}  "
        certainty = "" if finding.severity == "good" else f" ({finding.certainty})"
        lines.append(f"{at}{finding.text}{certainty}")
        if finding.advice:
            lines.append(f"    {finding.advice}")
        if finding.records or finding.lines:
            lines.append(f"    Shown by {finding.evidence()}.")
    return "\n".join(lines) + "\n"
