"""Findings about partitions of `__consumer_offsets` that got other leaders, and with them their groups' coordinator.

Rules:
1. A broker that stops loses all its partitions, so moves at one time are one finding. A broker's line has the moment; the log alone has
   a time between the last record of the epoch before and the first record of the new one. Moves are at one time if these times overlap.
2. A partition moves once at one time: that it goes back to its former leader is another finding, however soon.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from broker_sim.common.text import duration_text
from broker_sim.pipeline.facts import ReportFacts, Row
from broker_sim.pipeline.finding import Finding
from broker_sim.pipeline.phrases import named, when

__all__ = ["moved", "unclean"]

AT_ONCE_MS = 2000
"""Lines about one decision of the controller are so far apart at most, from broker to broker."""
MOST_MS = 10_000
"""So far apart may the first records of partitions be that moved at one time."""


def moved(facts: ReportFacts) -> Iterable[Finding]:
    """Moves of coordinators: those at one time together, since a broker that stops loses all its partitions."""
    clean = (row for row in facts.moves if row["at_ms"] is not None and not row["unclean"])
    for rows in _at_one_time(sorted(clean, key=lambda row: (_stayed(row), row["at_ms"]))):
        if _stayed(rows[0]):
            yield _re_elected(rows)
            continue
        partitions = list(dict.fromkeys(row["log_partition"] for row in rows))
        first = rows[0]
        which = named([f"__consumer_offsets-{partition}" for partition in partitions], 12)
        words = (
            f"{which} went to {'another leader' if len(partitions) == 1 else 'other leaders'} at {when(first['at_ms'])}"
        )
        if first["node"] is not None:
            words += f", broker {named(str(row['node']) for row in rows if row['node'] is not None)}"
        epochs = sorted({row["to_epoch"] for row in rows if row["to_epoch"] is not None})
        if epochs:
            words += f" (epoch {named(str(epoch) for epoch in epochs)})"
        groups = [name for name, row in facts.states.items() if row["log_partition"] in partitions]
        if groups:
            words += f"; the coordinator of {named(groups)} moved with {'it' if len(partitions) == 1 else 'them'}"
        loaded = max((row["loaded_ms"] or 0 for row in rows), default=0)
        if loaded >= 1000:
            words += f"; it took {duration_text(loaded)} to load"
        yield Finding(
            "coordinator moved",
            "note",
            68,
            f"{words}.",
            "Clients find the new coordinator by themselves; commits and rebalances wait meanwhile. A broker was restarted, was"
            " lost, or"
            " leadership was moved.",
            None,
            partitions[0] if len(partitions) == 1 else None,
            first["at_ms"],
            rows[-1]["at_ms"],
            "certain",
            tuple((row["log_partition"], row["log_offset"]) for row in rows if row["log_offset"] is not None),
            tuple(line for row in rows for line in (row["evidence_lines"] or ())[:2]),
        )


def _at_one_time(rows: Iterable[Row]) -> list[list[Row]]:
    """Moves in order, put together by rules 1 and 2."""
    together: list[list[Row]] = []
    for row in rows:
        last = together[-1] if together else []
        if (
            last
            and _stayed(row) == _stayed(last[0])
            and row["log_partition"] not in {other["log_partition"] for other in last}
            and _since(row) <= last[0]["at_ms"]
        ):
            last.append(row)
        else:
            together.append([row])
    return together


def _since(row: Row) -> int:
    """From when on it may have moved."""
    at_ms = int(row["at_ms"])
    if row["evidence_lines"]:
        return at_ms - AT_ONCE_MS
    return at_ms - MOST_MS if row["after_ms"] is None else max(row["after_ms"], at_ms - MOST_MS)


def _stayed(row: Row) -> bool:
    """Whether the broker that led was elected again."""
    return row["node"] is not None and row["node"] == row["from_node"]


def _re_elected(rows: list[Row]) -> Finding:
    """Partitions that got a new leader epoch at one time and kept their leaders."""
    partitions = list(dict.fromkeys(row["log_partition"] for row in rows))
    which = named([f"__consumer_offsets-{partition}" for partition in partitions], 12)
    who = named(str(row["node"]) for row in rows)
    return Finding(
        "leader epoch",
        "note",
        12,
        f"{which} got a new leader epoch at {when(rows[0]['at_ms'])}; broker {who} is still the leader, so"
        " the groups' coordinator stayed.",
        "Under 3.x each change of the in-sync replicas by the controller does that: another broker was fenced or restarted.",
        None,
        partitions[0] if len(partitions) == 1 else None,
        rows[0]["at_ms"],
        rows[-1]["at_ms"],
        "certain",
        tuple((row["log_partition"], row["log_offset"]) for row in rows if row["log_offset"] is not None),
        tuple(line for row in rows for line in (row["evidence_lines"] or ())[:2]),
    )


def unclean(facts: ReportFacts) -> Iterable[Finding]:
    """Elections outside of the in-sync replicas in the brokers' logs: one finding for each offsets partition, or other topic."""
    topics: dict[tuple[str, int | None], list[Row]] = defaultdict(list)
    for row in facts.marks:
        if row["what"] == "unclean" and row["topic"] is not None:
            ours = row["topic"] == "__consumer_offsets"
            topics[row["topic"], row["partition"] if ours else None].append(row)
    for (topic, index), rows in topics.items():
        partitions = list(dict.fromkeys(row["partition"] for row in rows))
        which = named([f"{topic}-{partition}" for partition in partitions], 6)
        words = f"{which} got a leader from outside of the in-sync replicas at {when(rows[0]['ts_ms'])}"
        groups = [] if index is None else [name for name, row in facts.states.items() if row["log_partition"] == index]
        if index is None:
            words += ": records that only the in-sync replicas had are lost"
            advice = "Consumers that were ahead continue at the offset where the logs diverge."
        else:
            words += f": records that only the in-sync replicas had are lost, as are commits of {named(groups or ['its groups'])}"
            advice = "Its groups continue from older offsets at their next OffsetFetch, and read the records after them again."
        yield Finding(
            "unclean election",
            "bad",
            720,
            f"{words}.",
            f"unclean.leader.election.enable allows it, or an operator ran kafka-leader-election. {advice}",
            groups[0] if len(groups) == 1 else None,
            index,
            rows[0]["ts_ms"],
            None,
            "certain",
            (),
            tuple(f"{row['file']}:{row['line']}" for row in rows),
        )
