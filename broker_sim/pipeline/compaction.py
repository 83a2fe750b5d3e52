"""What the log cleaner has removed from an offsets log, and which statements of a report suffer from it."""

from __future__ import annotations

from broker_sim.explain.phrases import count
from broker_sim.pipeline.facts import ReportFacts, Row
from broker_sim.pipeline.finding import NO_LOG
from broker_sim.pipeline.phrases import named

__all__ = ["compacted_records", "compaction"]


def _gap(row: Row) -> int:
    """How many records between the first and the last of a partition are gone."""
    return int(row["last_offset"] - row["first_offset"] + 1 - row["records"])


def compacted_records(facts: ReportFacts) -> tuple[int, int]:
    """How many offsets up to the last record of each partition hold none any more, and how many there are. The cleaner takes the oldest
    records first, so that counting from the first one that is left would flatter the log."""
    if not facts.whole or not facts.logged:
        return 0, 0
    held = [row for row in facts.partitions if row["records"]]
    all_ = sum(row["last_offset"] + 1 for row in held)
    return all_ - sum(row["records"] for row in held), all_


def compaction(facts: ReportFacts) -> list[str]:
    """What the log does not hold any more, and what of this report suffers from it."""
    if not facts.logged:
        return [NO_LOG]
    if not facts.whole:
        return [f"Looked at were {facts.scope} alone: what the cleaner took can't be told from what was not asked for."]
    held = [row for row in facts.partitions if row["records"]]
    holed = [row for row in held if _gap(row) > 0]
    begun = [row for row in held if row["first_offset"] > 0]
    lines = []
    if holed:
        gone = sum(map(_gap, holed))
        all_ = gone + sum(row["records"] for row in held)
        where = named([str(row["log_partition"]) for row in holed], 8)
        lines.append(
            f"{gone:,} of {all_:,} records ({gone / all_:.0%}) between the first and the last of their partitions are gone: the cleaner"
            f" took them, in {count(len(holed), 'partition')} ({where})."
        )
    if begun:
        do = "does" if len(begun) == 1 else "do"
        lines.append(f"{count(len(begun), 'partition')} {do} not begin at offset 0: what stood before is not there.")
        gone, all_ = compacted_records(facts)
        lines.append(
            f"Up to the last record of each partition {gone:,} of {all_:,} ({gone / all_:.0%}) are gone in all."
        )
    if not holed and not begun:
        lines.append(
            "Nothing is missing between the first and the last record of any partition: the cleaner has taken nothing."
        )
    else:
        lines += [
            "Of a cleaned segment each key's last record is left: intermediate commits, and with them regressions that were made good"
            " later, are not seen; commit counts and the curves of committed offsets are too low and too coarse there.",
            "Of a group's generations only the last one is left: earlier rebalances are known from the journal alone.",
            "Deleted offsets and groups vanish with their tombstones after delete.retention.ms.",
        ]
    if facts.journal is None:
        lines.append(
            "There is no journal: stuck periods, why members are gone and what was delivered twice are not in the log."
        )
    return lines
