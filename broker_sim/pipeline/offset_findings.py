"""Findings about committed offsets: they decreased, were deleted or fell behind, or records were delivered twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from broker_sim.common.answers import about_one
from broker_sim.common.text import duration_text
from broker_sim.explain.phrases import count, times
from broker_sim.pipeline.facts import ReportFacts, Row
from broker_sim.pipeline.finding import LAGS, Finding, by_group
from broker_sim.pipeline.phrases import named, on_its_day, when
from broker_sim.pipeline.skip_findings import from_the_end, read_over
from broker_sim.pipeline.slow_rebalances import lag_grew

__all__ = ["ABOUT_OFFSETS"]

NEAR_MS = 5000
"""So far may a client's line and a commit be apart."""
AT_ONCE_MS = 1000
"""So far may a line about expired offsets and their tombstones be apart."""
OFTEN_REFUSED = 3
"""So many refused commits are no single late one."""

_BACK = {
    "reset": (
        "note",
        "was reset from outside",
        "A client set these offsets while the group had no members; was that intended?",
    ),
    "deleted": (
        "warn",
        "started again after its offset had been deleted",
        "Offsets of a group without members expire after offsets.retention.minutes; auto.offset.reset then decides where it continues.",
    ),
    "rebalance": (
        "bad",
        "committed a lower offset after a rebalance",
        "The new owner continued from an older offset than the last commit: the old owner may have committed late, or a commit failed."
        " Commit in onPartitionsRevoked, and make processing idempotent.",
    ),
    "truncated": (
        "bad",
        "committed a lower offset after the topic's log was truncated",
        "Another leader was elected that did not have these records (unclean.leader.election.enable, or a disk that was lost):"
        " they are lost,"
        " and other records have their offsets.",
    ),
    "rewind": (
        "warn",
        "committed a lower offset within a generation",
        "A member of that generation committed it: after a seek(), or with commits that overtake each other"
        " (asynchronous ones, retried).",
    ),
    "regrouped": (
        "warn",
        "committed a lower offset after another group record of the same generation",
        "A static member may have rejoined and continued from an older offset, or the group may have been deleted and created again.",
    ),
    None: (
        "warn",
        "committed a lower offset",
        "No earlier record of the group itself is known, so the cause is unknown.",
    ),
}
_NEVER_JOINED = (
    "No record of the group itself is in the log, and the log is whole: its consumers commit without joining (assign()), or a tool or"
    " admin client set the offset. A seek, an old position that was committed again, or a reset would look like this."
)
_NO_STEP = (
    "The journal holds no step of the group before: it may have begun later, or its consumers commit without joining (assign()), or a"
    " tool or admin client set the offset."
)
_CLEANED = (
    "No record of the group itself is in the log any more, or never was: the log has been cleaned. A rebalance, a reset, a seek, or a"
    " commit without a group (assign()) would look like this."
)


def _regressions(facts: ReportFacts) -> Iterable[Finding]:
    """Committed offsets that decreased: one finding per group and cause, as each cause has its own advice; its text has the
    largest step."""
    kinds: dict[tuple[str, str | None], list[Row]] = defaultdict(list)
    reset = {row["group"] for row in facts.resets}
    for row in facts.regressions:
        if row["how"] == "reset" and row["group"] in reset:
            continue  # part of the finding about later offsets
        kinds[row["group"], "truncated" if _was_lost(facts, row) else row["how"]].append(row)
    for (group, how), rows in kinds.items():
        severity, what, advice = _BACK.get(how, _BACK[None])
        worst = max(rows, key=lambda row: row["by"])
        if how not in _BACK or how is None:
            in_journal = worst["source"] == "journal"
            advice = (
                _NO_STEP if in_journal else _NEVER_JOINED if _is_complete(facts, worst["log_partition"]) else _CLEANED
            )
        total = sum(row["by"] for row in rows)
        where = f"{worst['topic']}-{worst['partition']}"
        words = f"{group} {what} on {where}: from {worst['from_offset']:,} to {worst['to_offset']:,} at {when(worst['at_ms'])}"
        if how == "rebalance":
            words += f", as generation {worst['to_generation']} followed {worst['from_generation']}"
        good = _caught_up_at_once(worst)
        if good:
            words += (
                f"; the next commit, {duration_text(worst['next_ms'] - worst['at_ms'])} later, was at {worst['next_offset']:,}"
                f" again"
            )
            advice = _ONCE if how in ("rebalance", "rewind") else advice
        elif how == "truncated":
            words += f"; up to {count(worst['by'], 'record')} {'is' if worst['by'] == 1 else 'are'} lost"
        else:
            words += f"; up to {count(worst['by'], 'record')} {'is' if worst['by'] == 1 else 'are'} read again"
        log_lines = _client_lines(facts, group, rows)
        if log_lines:
            words += f"; {_CLIENT_LINES[log_lines[0]['what']]}"
        if len(rows) > 1:
            words += f". It did so {times(len(rows))} (up to {count(total, 'record')} in all)"
        weight = {"bad": 600.0, "warn": 500.0, "note": 60.0}[severity] + min(len(rows), 90)
        yield Finding(
            "regression",
            severity,
            weight,
            f"{words}.",
            advice,
            group,
            worst["log_partition"],
            worst["at_ms"],
            max(row["at_ms"] for row in rows),
            "certain",
            tuple((row["log_partition"], row["log_offset"]) for row in rows if row["log_partition"] is not None),
            tuple(f"{mark['file']}:{mark['line']}" for mark in log_lines),
        )


def _was_lost(facts: ReportFacts, row: Row) -> bool:
    """Whether a journal shows that the log lost the records in between, since the commit before."""
    since_ms = row["before_ms"] if row.get("before_ms") is not None else row["at_ms"]
    same = (loss for loss in facts.losses if (loss["topic"], loss["partition"]) == (row["topic"], row["partition"]))
    return any(
        loss["part"] == "tail"
        and since_ms <= loss["at_ms"] <= row["at_ms"]
        and loss["first_offset"] <= row["to_offset"] <= loss["last_offset"]
        for loss in same
    )


_ONCE = (
    "An older position was committed once, and the next commit corrected it: an earlier batch (asynchronous commits that overtake each"
    " other, a retried commit), or a seek and its way back. A consumer that gets the partition in between reads records again."
)
_CLIENT_LINES = {
    "seek": "its client logged a seek of the application",
    "reset": "its client logged a reset by auto.offset.reset",
    "truncated": "its client logged a truncation of the log",
    "out of range": "its client logged a position outside of the log",
}


def _caught_up_at_once(row: Row) -> bool:
    return row.get("next_offset") is not None and row["next_offset"] >= row["from_offset"]


def _client_lines(facts: ReportFacts, group: str, rows: Iterable[Row]) -> list[Row]:
    """Lines of the group's clients about these partitions, between the commit before and shortly after the decrease."""
    marks = []
    for row in rows:
        since_ms = row["before_ms"] if row.get("before_ms") is not None else row["at_ms"]
        for mark in facts.marks:
            same = mark["topic"] == row["topic"] and mark["partition"] == row["partition"] and mark["group"] == group
            near = since_ms - NEAR_MS <= mark["ts_ms"] <= row["at_ms"] + NEAR_MS
            if mark["what"] in _CLIENT_LINES and same and near and mark not in marks:
                marks.append(mark)
    return marks


def _is_complete(facts: ReportFacts, log_partition: int | None) -> bool:
    """Whether that partition has all its records, from the first on."""
    row = next((partition for partition in facts.partitions if partition["log_partition"] == log_partition), None)
    return row is not None and row["first_offset"] == 0 and row["records"] == row["last_offset"] + 1


_ANEW = (
    "A consumer without a committed offset starts by its auto.offset.reset: earliest reads all retained records again, latest skips"
    " the records written meanwhile."
)


def _deletions(facts: ReportFacts) -> Iterable[Finding]:
    """Deleted committed offsets: one finding for each group, at the moment at which it lost the most."""
    for group, rows in by_group(facts.deletions):
        row = max(rows, key=lambda deletion: (deletion["returned"], deletion["offsets"]))
        topic, partition = row["example"]["topic"], row["example"]["partition"]
        where = (
            f"of {topic}-{partition}"
            if row["offsets"] == 1
            else f"of {row['offsets']} partitions, such as {topic}-{partition}"
        )
        words = f"{group} lost its committed {'offset' if row['offsets'] == 1 else 'offsets'} {where} at {when(row['at_ms'])}"
        idle = None if row["idle_ms"] is None else duration_text(row["idle_ms"])
        log_line = _deletion(facts, row)
        if log_line is not None:
            words += f": {_DELETED[log_line['what']]}" + (f", {idle} after the last commit" if idle is not None else "")
        elif row.get("reason") in _REASONS:
            words += f": {_REASONS[row['reason']]}" + (f", {idle} after the last commit" if idle is not None else "")
        elif row["how"] == "expired":
            words += f": nothing was committed for {idle}, and by default offsets expire after 7 days"
        elif idle is not None:
            words += f", {idle} after the last commit: deleted with their topic or by a request, or retained for less than 7 days here"
        else:
            words += "; the log no longer contains the earlier commits"
        if row["group_ended"]:
            words += "; the group itself was deleted with them"
        if row["returned"]:
            words += f"; {count(row['returned'], 'offset')} {'was' if row['returned'] == 1 else 'were'} committed again later"
        elsewhere = sum(other["offsets"] for other in rows if other is not row)
        if elsewhere:
            words += f". At other times it lost {count(elsewhere, 'offset')} more"
        severity, weight = ("warn", 520.0) if row["returned"] else ("note", 65.0)
        yield Finding(
            "deleted offsets",
            severity,
            weight + min(row["offsets"], 50) / 10,
            f"{words}.",
            _ANEW,
            group,
            row["log_partition"],
            row["at_ms"],
            None,
            "certain",
            ((row["log_partition"], row["first_offset"]),) if row.get("first_offset") is not None else (),
            () if log_line is None else (f"{log_line['file']}:{log_line['line']}",),
        )


_REASONS = {
    "expired": "they expired (offsets.retention.minutes)",
    "requested": "they were deleted by a request (OffsetDelete, DeleteGroups)",
    "topic deleted": "their topic was deleted",
}
"""Reasons of deletions in a journal, as clauses."""

_DELETED = {
    "deleted": "the group was deleted by a request",
    "offsets deleted": "they were deleted by a request",
    "expired": "the broker logged that they expired, or that their topic was deleted",
}


def _deletion(facts: ReportFacts, row: Row) -> Row | None:
    """The broker's line about a deletion: one that names the group, else one about expired offsets of that offsets partition, which is
    written with their tombstones, and counts them."""

    def away_ms(mark: Row) -> int:
        return abs(int(mark["ts_ms"] - row["at_ms"]))

    near = [mark for mark in facts.marks if mark["what"] in _DELETED and away_ms(mark) <= NEAR_MS]
    naming = [mark for mark in near if row["group"] in _named_in(mark)]
    expired = [
        mark
        for mark in near
        if mark["what"] == "expired"
        and mark["partition"] == row["log_partition"]
        and away_ms(mark) <= AT_ONCE_MS
        and (mark.get("number") is None or mark["number"] >= row["offsets"])
    ]
    return min(naming or expired, key=away_ms, default=None)


def _named_in(mark: Row) -> list[str]:
    """The groups that a line about deletions names."""
    if mark["what"] == "deleted":
        return [name.strip() for name in (mark["detail"] or "").split(",")]
    return [mark["group"]] if mark["what"] == "offsets deleted" and mark["group"] else []


def _duplicates(facts: ReportFacts) -> Iterable[Finding]:
    for group, rows in by_group(facts.duplicates):
        delivered = [row for row in rows if row["evidence"] == "delivered"]
        shown = delivered or rows
        worst = max(shown, key=lambda row: row["records"] or 0)
        total = sum(row["records"] or 0 for row in shown)
        whom = _owners_text(worst["from_client"], worst["to_client"])
        words = (
            f"{group} got {count(total, 'record')} twice{'' if delivered else ' in Fetch responses'}: {_offsets(worst)} in generation "
            f"{worst['from_generation']} and again in {worst['to_generation']}{whom}"
        )
        if len(shown) > 1:
            words += f", and {count(len(shown) - 1, 'window')} more like it"
        if delivered:
            advice = _why_read_again(facts, worst)
            yield Finding(
                "duplicates", "warn", 550 + min(len(rows), 40), f"{words}.", advice, group, None, worst["at_ms"]
            )
        else:
            advice = "Both owners fetched them ahead; whether the first application got them is unknown."
            yield Finding("duplicates", "note", 45, f"{words}.", advice, group, None, worst["at_ms"])


def _why_read_again(facts: ReportFacts, row: Row) -> str:
    """Reason why records were read again: they were not committed, or the committed offset was deleted or set back."""

    name = f"{row['topic']}-{row['partition']}"
    before = [
        deletion
        for deletion in facts.deletions
        if deletion["group"] == row["group"] and deletion["at_ms"] <= row["at_ms"]
    ]
    again = (deletion["next_commit_ms"] for deletion in before if name in deletion.get("logs", ()))
    if any(at_ms is None or at_ms >= row["at_ms"] for at_ms in again):
        return "The committed offset had been deleted before: the consumer started by its auto.offset.reset."
    mine = (row["group"], row["topic"], row["partition"], row["from_offset"])
    resets = (
        regression
        for regression in facts.regressions
        if regression["how"] == "reset" and regression["at_ms"] <= row["at_ms"]
    )
    if any(
        (regression["group"], regression["topic"], regression["partition"], regression["to_offset"]) == mine
        for regression in resets
    ):
        return "The committed offset had been reset to there while the group had no members. Was that intended?"
    return "They were read and not committed when the partition got another owner: commit more often, or make processing idempotent."


def _owners_text(first: str | None, then: str | None) -> str:
    if not first or not then:
        return ""
    return f" (both times to {first})" if first == then else f" (to {first}, then to {then})"


def _offsets(row: Row) -> str:
    first, last, where = row["from_offset"], row["to_offset"] - 1, f"{row['topic']}-{row['partition']}"
    return f"offset {first:,} of {where}" if first == last else f"offsets {first:,} to {last:,} of {where}"


def _lag(facts: ReportFacts) -> Iterable[Finding]:
    """At most one finding per group, the most serious one that is true: it stopped committing, its lag grows, its lag was high."""
    for group, rows in facts.lag.items():
        known = [row for row in rows if row["lag"] is not None]
        if not known:
            continue
        peak = max(known, key=lambda row: row["lag"])
        if rows[-1]["lag"] is None:
            if peak["lag"] >= LAGS:
                words = (
                    f"{group} was up to {peak['lag']:,} records behind at {when(peak['window_start_ms'])}, and {known[-1]['lag']:,}"
                    " when its last committed offsets were deleted; its lag since then is unknown"
                )
                yield Finding("lag", "note", 50, f"{words}.", "", group, None, peak["window_start_ms"])
            continue
        now, deleted = known[-1]["lag"], rows[-1]["deleted"]
        left = f" (without {count(deleted, 'partition')} whose offsets are deleted)" if deleted else ""
        last = next((row for row in reversed(rows) if row["commits"]), None)
        if (
            now >= LAGS
            and last is not None
            and known[-1]["window_start_ms"] > last["window_start_ms"]
            and last["lag"] < now
        ):
            ended = _ended(facts, group, last)
            if ended is not None:
                yield ended
                continue
            words = (
                f"{group} committed for the last time at {when(last['window_start_ms'])}, while its logs grew: from a lag of "
                f"{last['lag'] or 0:,} to {now:,} at the end{left}"
            )
            yield Finding(
                "lag",
                "bad",
                300 + min(now / 1000, 100),
                f"{words}.",
                "Its consumers may have ended, hang, or be unable to commit.",
                group,
                None,
                last["window_start_ms"],
            )
        elif peak["lag"] >= LAGS and lag_grew(facts, group, peak):
            continue  # a finding about a rebalance has it
        elif peak["lag"] >= LAGS and now * 2 >= peak["lag"] and now > known[0]["lag"]:
            words = f"{group} falls behind: its lag grew from {known[0]['lag']:,} to {now:,}{left}"
            advice = "Its consumers are slower than the producers: add consumers (at most one per partition), or reduce their work."
            yield Finding(
                "lag",
                "warn",
                150 + 50 * now / (now + 10_000),
                f"{words}.",
                advice,
                group,
                None,
                known[0]["window_start_ms"],
            )
        elif peak["lag"] >= LAGS:
            words = f"{group} was up to {peak['lag']:,} records behind at {when(peak['window_start_ms'])}, and is {now:,} behind"
            words += f" at the end{left}"
            yield Finding("lag", "note", 50, f"{words}.", "", group, None, peak["window_start_ms"])


def _ended(facts: ReportFacts, group: str, last: Row) -> Finding | None:
    """The lag of a group without members: no client reads its partitions, which is no incident if all members left in order."""
    state = facts.states.get(group)
    if state is None or state["state"] not in ("empty", "ended"):
        return None
    crashed = next(
        (
            row
            for row in facts.rebalances
            if row["group"] == group
            and row["size_after"] == 0
            and row["cause"] in ("session timeout", "poll timeout", "rebalance timeout")
        ),
        None,
    )
    since = f" since {when(state['state_since_ms'])}" if state["state_since_ms"] is not None else ""
    behind = f"up to {known_lag(facts, group):,} records at the end"
    words = f"{group} has no members{since}; no member reads the records written since then ({behind})"
    at = (group, state["log_partition"], state["state_since_ms"] or last["window_start_ms"])
    records = () if state["state_offset"] is None else ((state["log_partition"], state["state_offset"]),)
    if crashed is not None and state["state"] == "empty":
        advice = "Its last member was removed, and none has joined since."
        return Finding("lag", "bad", 300, f"{words}.", advice, *at, None, "certain", records)
    left = any(row["group"] == group and row["size_after"] == 0 and row["cause"] == "leave" for row in facts.rebalances)
    how = "Its members left in order" if left else "Whether its members left in order is not known"
    advice = f"{how}; was that intended? Its offsets expire after offsets.retention.minutes."
    return Finding("lag", "note", 52, f"{words}.", advice, *at, None, "certain", records)


def known_lag(facts: ReportFacts, group: str) -> int:
    """The last lag of a group that is known."""
    return next((int(row["lag"]) for row in reversed(facts.lag.get(group, ())) if row["lag"] is not None), 0)


def _together(rows: list[Row]) -> Row:
    """Refused commits of one topic and error, of all clients."""
    return {
        **rows[0],
        "commits": sum(row["commits"] for row in rows),
        "in_part": sum(row["in_part"] for row in rows),
        "taken_topics": sorted({topic for row in rows for topic in row["taken_topics"] or ()}),
        "first_ms": min(row["first_ms"] for row in rows),
        "last_ms": max(row["last_ms"] for row in rows),
    }


def _refused(facts: ReportFacts) -> Iterable[Finding]:
    """Commits that were refused for a topic: refusals of a whole coordinator or member are part of their findings."""
    refusals = [row for row in facts.refusals if row["in_part"] or about_one(row["error"] or "")]
    for group, rows in by_group(refusals):
        topics: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for row in rows:
            topics[row["topic"], row["error"]].append(row)
        some = max(topics.values(), key=lambda alike: sum(row["commits"] for row in alike))
        first = _together(some)
        who = named(row["client_id"] or "a client" for row in some)
        span = f"at {when(first['first_ms'])}"
        if first["last_ms"] - first["first_ms"] >= 1000:
            span = f"between {when(first['first_ms'])} and {on_its_day(when(first['last_ms']), first['first_ms'])}"
        words = f"{count(first['commits'], 'commit')} of {who} in {group} for {first['topic']} {span} "
        words += f"{'was' if first['commits'] == 1 else 'were'} answered {first['error']}"
        if first["in_part"]:
            both = "what they" if first["in_part"] == first["commits"] else f"what {first['in_part']} of them"
            words += f"; {both} committed for {named(first['taken_topics'] or ())} was accepted"
        others = [f"{topic} ({error})" for topic, error in topics if topic != first["topic"]]
        if others:
            words += f"; commits for {named(others)} were also refused"
        yield Finding(
            "refused commits",
            "warn" if first["commits"] >= OFTEN_REFUSED else "note",
            130 + min(first["commits"], 60) if first["commits"] >= OFTEN_REFUSED else 55,
            f"{words}.",
            "The topic may be deleted, or not created yet, or the client may keep positions of a topic that it"
            " no longer reads. A client that"
            " retries such a commit before it rejoins may delay a rebalance.",
            group,
            None,
            first["first_ms"],
            first["last_ms"],
        )


def _and_others(rows: list[Row]) -> str:
    """The rest of a group's partitions, after the worst one; empty if it has no other."""
    return f", and {count(len(rows) - 1, 'other partition')}" if len(rows) > 1 else ""


def _beyond_end(facts: ReportFacts) -> Iterable[Finding]:
    for group, rows in by_group(facts.beyond):
        worst = min(rows, key=lambda row: row["lag"])
        more = _and_others(rows)
        yield Finding(
            "beyond log end",
            "warn",
            515,
            f"{group} is committed at {worst['committed']:,} of {worst['topic']}-{worst['partition']}{more} at"
            f" {when(worst['window_start_ms'])}, beyond the log's end {worst['end']:,}.",
            "The topic may have been deleted and created again, its log may have been truncated, or a client set"
            " the offset. A consumer that"
            " starts there uses its auto.offset.reset.",
            group,
            None,
            worst["window_start_ms"],
        )


def _below_start(facts: ReportFacts) -> Iterable[Finding]:
    for group, rows in by_group(facts.below):
        worst = max(rows, key=lambda row: row["below_start"])
        more = _and_others(rows)
        yield Finding(
            "below log start",
            "bad",
            565,
            f"{group} is committed at {worst['committed']:,} of {worst['topic']}-{worst['partition']}{more} at"
            f" {when(worst['window_start_ms'])}, before the log's start {worst['start']:,}: up to"
            f" {count(worst['below_start'], 'record')} that it had not committed {'is' if worst['below_start'] == 1 else 'are'}"
            " deleted.",
            "Retention or DeleteRecords deleted them, or they are lost; whether the group had read them without a commit is unknown."
            " A consumer that starts there uses its auto.offset.reset.",
            group,
            None,
            worst["window_start_ms"],
        )


def _losses(facts: ReportFacts) -> Iterable[Finding]:
    """Findings, one for each loss, with the groups that had committed there."""
    by_loss: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in facts.losses:
        by_loss[row["topic"], row["partition"], row["at_ms"], row["first_offset"]].append(row)
    for rows in by_loss.values():
        first, tail = rows[0], rows[0]["part"] == "tail"
        hit = [row for row in rows if row["outside"]]
        words = (
            f"{first['topic']}-{first['partition']} lost its {'last' if tail else 'first'} records at {when(first['at_ms'])}, "
            f"which were committed: offsets {first['first_offset']:,} to {first['last_offset']:,}"
        )
        where = "beyond the new end" if tail else "before the new start"
        words += "".join(
            f"; {row['group']} is committed at {row['committed']:,}, {row['outside']:,} {where}" for row in hit[:_SHOWN]
        )
        words += f"; also {count(len(hit) - _SHOWN, 'other group')}" if len(hit) > _SHOWN else ""
        advice = "An unclean leader election, or a disk restored from an earlier state. "
        if tail:
            advice += "New records get these offsets: a group beyond the end skips some of them, or resets."
        else:
            advice += "A consumer that starts before the new start uses its auto.offset.reset."
        whose = hit[0]["group"] if len(hit) == 1 else None
        yield Finding("data loss", "bad", 700, f"{words}.", advice, whose, None, first["at_ms"])


_SHOWN = 3
"""Groups that are named with a loss."""

ABOUT_OFFSETS: tuple[Callable[[ReportFacts], Iterable[Finding]], ...] = (
    *(
        _regressions,
        _deletions,
        _duplicates,
        _lag,
        _refused,
        read_over,
        from_the_end,
        _beyond_end,
        _below_start,
        _losses,
    ),
)
