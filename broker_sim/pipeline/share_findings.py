"""Findings about share groups (KIP-932): records that were archived or redelivered again and again, and offsets set from outside.

Rules:
1. `__share_group_state` has outcomes and counts, and no acquisitions. Why a record was redelivered is stated as far as its time shows
   it: as a member went; and one that waited for seconds before it was delivered again was not released by an application that goes on
   reading, for such a record is delivered again at once.
2. A journal has it: then it is certain, and the event is named.
3. A record that was released once and then taken is what share groups are for: a note.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from broker_sim.common.text import duration_text
from broker_sim.explain.phrases import count, times
from broker_sim.pipeline.facts import ReportFacts, Row
from broker_sim.pipeline.finding import Finding, by_group
from broker_sim.pipeline.phrases import at_of, named, when

__all__ = ["ABOUT_SHARES", "RETURNS"]

WAITED_MS = 5000
"""A record that became available and was not delivered again for so long: its consumer had hung, and no other read that partition."""
NEAR_MS = 15_000
"""A member whose session expires is removed so long after it lost its connection, and with it its acquired records, or longer."""
RETURNS = {
    "expired": "the acquisition lock of {} expired",
    "released": "{} released it",
    "session closed": "the share session of {} was closed",
}
"""Reasons why a record becomes available again: actions of the journal's events `delivery`, in words."""
_LONGER = "Fewer records per poll, faster work, a longer lock, or RENEW."
_ADVICE = {
    "expired": "Its acquisition lock expired (group.share.record.lock.duration.ms): its consumer processed its records for longer,"
    f" and its late acknowledgement is refused. {_LONGER}",
    "released": "Its consumer released it (RELEASE), or gave it back as it was closed: it is processed twice, at least in part.",
    "session closed": "Its consumer was closed, or lost its connection or its session, before it acknowledged: it is processed twice,"
    " at least in part.",
}
"""Explanation and advice, by the reason."""
_WRITTEN_MS = 1000
"""So long after a record has become available again that is written."""
OFTEN = 3
"""Records that are released so often may reach the delivery limit."""


def _archived(facts: ReportFacts) -> Iterable[Finding]:
    """Archived records: a warning for those at the delivery limit, a note for rejected ones."""
    for group, rows in by_group([row for row in facts.deliveries if row["outcome"] == "archived"]):
        worn = [row for row in rows if (row["deliveries"] or 0) > 1]
        for some, given_up in ((worn, True), ([row for row in rows if row not in worn], False)):
            if not some:
                continue
            first = min(some, key=lambda row: row["last_ms"])
            records = sum(row["records"] or 0 for row in some)
            example = _where(first)
            if given_up:
                most = max(row["deliveries"] for row in some)
                words = (
                    f"{group} archived {count(records, 'record')} after {times(most).replace(' times', ' deliveries')}: {example} at"
                    f" {when(first['last_ms'])}"
                )
                seen = {one["seq"]: one["action"] for row in some for one in _returned(facts, row)}
                counts = Counter(seen.values()).most_common()
                why = named(f"{times(number)} {_BRIEFLY[action]}" for action, number in counts)
                advice = (
                    f"Their deliveries ended {why} (journal),"
                    if seen
                    else "Its consumers may have released it, let its lock expire, or crashed on it,"
                ) + (
                    " until group.share.delivery.count.limit: look at that record, and at what the consumers logged. No member gets it"
                    " again, unless the start offset is reset."
                )
            else:
                words = f"{group} rejected {count(records, 'record')}: {example} at {when(first['last_ms'])}"
                advice = "Its application rejected them (REJECT): no member gets them again. Was that intended?"
            if len(some) > 1:
                words += f", and {count(len(some) - 1, 'place')} more until {when(max(row['last_ms'] for row in some))}"
            yield Finding(
                "archived",
                "warn" if given_up else "note",
                520 + min(records, 100) if given_up else 60,
                f"{words}.",
                advice,
                group,
                _home(facts, group),
                first["first_ms"],
                max(row["last_ms"] for row in some),
            )


def _redelivered(facts: ReportFacts) -> Iterable[Finding]:
    """Records that became available again and were acknowledged in the end, or still wait."""
    for group, rows in by_group([row for row in facts.deliveries if row["returns"] and row["outcome"] != "archived"]):
        rows.sort(key=lambda row: row["first_ms"])
        left = [row for row in rows if _went(facts, group, row["first_ms"])]
        slow = [row for row in rows if row not in left and _waited(row, facts) >= WAITED_MS]
        again = [row for row in rows if row["returns"] >= OFTEN]
        first = (slow or again or rows)[0]
        records = sum(row["records"] or 0 for row in rows)
        in_places = "" if len(rows) == 1 else f", in {count(len(rows), 'place')}"
        words = (
            f"{count(records, 'record')} of {group} became available again"
            f"{in_places}: {_where(first)} at {when(first['first_ms'])}"
        )
        if again:
            words += f", {times(max(row['returns'] for row in again))}"
        why = _returned(facts, first)
        if why:
            words += _because(facts, rows, why[0])
        elif slow:
            words += f"; it waited {duration_text(_waited(first, facts))} until its next delivery, and no member had been removed"
        elif left:
            words += f"; {'a member was removed then' if len(left) == len(rows) else 'for some of them a member was removed'}"
        open_ = [row for row in rows if row["outcome"] is None]
        if open_:
            words += f"; {count(sum(row['records'] or 0 for row in open_), 'record')} of them still wait at the end"
        advice = (
            _ADVICE[why[0]["action"]]
            if why
            else "That fits an expired acquisition lock (group.share.record.lock.duration.ms): its consumer may have processed its"
            f" records for longer, and its late acknowledgement is refused. {_LONGER}"
            if slow
            else "Released by its consumer, by a closed share session, or by an expired lock: it"
            " is processed twice, at least in part."
        )
        yield Finding(
            "redelivered",
            "warn" if slow or again else "note",
            150 + min(len(slow) + len(again), 40) if slow or again else 58,
            f"{words}.",
            advice,
            group,
            _home(facts, group),
            first["first_ms"],
            max(row["last_ms"] for row in rows),
            "likely" if slow and not why else "certain",
        )


def _returned(facts: ReportFacts, row: Row) -> list[Row]:
    """The events of the journal by which records of a row became available again."""
    return [
        one
        for one in facts.returned
        if (one["group"], one["topic"], one["partition"]) == (row["group"], row["topic"], row["partition"])
        and one["base_offset"] < row["to_offset"]
        and row["from_offset"] <= one["last_offset"]
        and row["first_ms"] - _WRITTEN_MS <= one["ts_ms"] <= row["last_ms"] + _WRITTEN_MS
    ]


def _because(facts: ReportFacts, rows: list[Row], first: Row) -> str:
    """Clause with the reason why the first of these records became available again, its event, and the reasons of the others."""
    who = first["client_id"] or "a member"
    words = f"; {RETURNS[first['action']].format(who)} (event {first['seq']} of the journal)"
    seen = {one["seq"]: one["action"] for row in rows for one in _returned(facts, row)}
    if len(seen) > 1:
        counts = Counter(seen.values()).most_common()
        words += f"; in all {named(f'{times(number)} {_BRIEFLY[action]}' for action, number in counts)}"
    return words


_BRIEFLY = {"expired": "by an expired lock", "released": "released", "session closed": "by a closed share session"}


def _set(facts: ReportFacts) -> Iterable[Finding]:
    for row in facts.deliveries:
        if row["outcome"] != "reset":
            continue
        by = row["to_offset"] - row["from_offset"]
        what = "are read again" if by < 0 else "are skipped"
        yield Finding(
            "reset",
            "warn",
            400 + min(abs(by), 10_000) / 200,
            f"The start offset of {row['group']} on {_topic(row)} was set from outside at {when(row['first_ms'])}: from"
            f" {row['from_offset']:,} to {row['to_offset']:,}; up to {count(abs(by), 'record')} {what}.",
            "kafka-share-groups --reset-offsets does that, or an admin client (AlterShareGroupOffsets). Was that intended?",
            row["group"],
            _home(facts, row["group"]),
            row["first_ms"],
        )


def _waited(row: Row, facts: ReportFacts) -> int:
    """Milliseconds that records waited for their next delivery, on average; to the end of the input if they still wait."""
    until_ms = row["last_ms"] if row["outcome"] is not None else (facts.to_ms or row["last_ms"])
    waited_ms: int = max(until_ms - row["first_ms"], 0) // max(row["returns"], 1)
    return waited_ms


def _went(facts: ReportFacts, group: str, at_ms: int) -> bool:
    """Whether the group lost a member then, or soon after."""
    for row in facts.rebalances:
        if row["group"] != group or row["cause"] not in ("departed", "leave", "session timeout", "unknown"):
            continue
        gone_ms = at_of(row)
        if gone_ms is not None and at_ms - 2000 <= gone_ms <= at_ms + NEAR_MS:
            return True
    return False


def _home(facts: ReportFacts, group: str) -> int | None:
    """The partition of `__consumer_offsets` of a share group."""
    state = facts.states.get(group)
    return None if state is None else state["log_partition"]


def _topic(row: Row) -> str:
    return f"{row['topic'] or 'topic ' + row['topic_id']}-{row['partition']}"


def _where(row: Row) -> str:
    if row["records"] == 1:
        return f"offset {row['from_offset']:,} of {_topic(row)}"
    return f"offsets {row['from_offset']:,} to {row['to_offset'] - 1:,} of {_topic(row)}"


ABOUT_SHARES: tuple[Callable[[ReportFacts], Iterable[Finding]], ...] = (_archived, _redelivered, _set)
