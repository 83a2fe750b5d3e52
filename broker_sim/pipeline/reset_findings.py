"""Findings about offsets that were committed while their group had no members: set by a tool, or by a member whose session had expired.

Rules:
1. A commit with a member id is refused once the member is removed. librdkafka, aiokafka and kafka-python forget their member id when
   they learn of it, and may then commit once more, without one, what they had read: while they revoke their partitions. A coordinator
   accepts that if the group is empty.
2. Such a commit sets no offset back, comes within OWN_MS of the removal, which was no LeaveGroup, and its client joins again within
   OWN_MS, or the offsets partition was stuck. A reset by an operator may look the same: the finding is `possible`, and a note.
"""

from __future__ import annotations

from collections.abc import Iterable

from broker_sim.explain.phrases import count
from broker_sim.pipeline.facts import ReportFacts, Row
from broker_sim.pipeline.finding import Finding
from broker_sim.pipeline.phrases import at_of, named, short_member, when

__all__ = ["resets"]

OWN_MS = 60_000
"""A client learns of the end of its session by its next request. While its coordinator does not answer, that is a request timeout of up
to 30 s and a retry later."""


def resets(facts: ReportFacts) -> Iterable[Finding]:
    """One finding for each row of the table offset_resets."""
    for row in facts.resets:
        clients = _own_commit(facts, row)
        yield _of_members(row, clients) if clients is not None else _of_outsiders(row)


def _of_outsiders(row: Row) -> Finding:
    what = f"Offsets of {row['group']} were set from outside at {when(row['at_ms'])}: {_which(row)}"
    ends = []
    if row["back"]:
        ends.append(f"up to {count(row['back'], 'record')} {'is' if row['back'] == 1 else 'are'} read again")
    if row["skipped"]:
        ends.append(f"up to {count(row['skipped'], 'record')} {'is' if row['skipped'] == 1 else 'are'} skipped")
    unknown = row.get("unknown") or 0
    if unknown:
        ends.append(f"the earlier offsets of {count(unknown, 'partition')} are not in the log")
    words = f"{what}; {' and '.join(ends) or 'no record is read again or skipped'}"
    return Finding(
        "reset",
        "warn" if row["back"] or row["skipped"] or unknown else "note",
        400 + min(row["back"] + row["skipped"], 10_000) / 200,
        f"{words}.",
        "The group had no members: kafka-consumer-groups --reset-offsets does that, an admin client, or a consumer that uses assign()"
        " under the group's name. Was that intended?",
        row["group"],
        row["log_partition"],
        row["at_ms"],
        None,
        "certain",
        ((row["log_partition"], row["log_offset"]),),
    )


def _of_members(row: Row, clients: list[str]) -> Finding:
    words = f"Offsets of {row['group']} were committed at {when(row['at_ms'])}, while it had no members: {_which(row)}"
    back = f"; {named(clients)}, which had been removed without a LeaveGroup, joined again" if clients else ""
    return Finding(
        "reset",
        "note",
        64,
        f"{words}{back}.",
        "A client whose session has expired may commit once more what it had read (librdkafka, aiokafka, kafka-python): then no record"
        " is skipped. A tool that set the offsets looks the same.",
        row["group"],
        row["log_partition"],
        row["at_ms"],
        None,
        "possible",
        ((row["log_partition"], row["log_offset"]),),
    )


def _which(row: Row) -> str:
    where = (
        ""
        if row["from_offset"] is None
        else f", {row['topic']}-{row['partition']} from {row['from_offset']:,} to {row['to_offset']:,}"
    )
    return f"{count(row['partitions'], 'partition')}{where}"


def _own_commit(facts: ReportFacts, row: Row) -> list[str] | None:
    """Clients of former members that may have made these commits (rule 2); none, where the partition was stuck. None: no member did."""
    if row["back"] or row["empty_since_ms"] is None or row["at_ms"] - row["empty_since_ms"] > OWN_MS:
        return None
    mine = sorted(facts.of_group(facts.rebalances, row["group"]), key=lambda rebalance: at_of(rebalance) or 0)
    emptied = [one for one in mine if one["size_after"] == 0 and (at_of(one) or 0) <= row["at_ms"] and one["who"]]
    if not emptied or emptied[-1]["cause"] == "leave":
        return None
    gone = emptied[-1]
    clients = {
        client or short_member(name) for name, client in zip(gone["who"], gone["who_clients"] or (), strict=False)
    }
    again = set[str]()
    for one in mine:
        if row["at_ms"] <= (at_of(one) or 0) <= row["at_ms"] + OWN_MS and one is not gone:
            joined = zip(one["who"] or (), one["who_clients"] or (), strict=False)
            again |= {client or short_member(name) for name, client in joined} & clients
    stuck = any(
        stuck["log_partition"] == row["log_partition"]
        and stuck["from_ms"] - OWN_MS <= row["at_ms"]
        and (stuck["to_ms"] is None or row["at_ms"] <= stuck["to_ms"] + OWN_MS)
        for stuck in facts.stuck
    )
    return sorted(again) if again or stuck else None
