"""Records that the log cleaner has removed from an offsets log, and the statements of a report that are affected."""

from __future__ import annotations

from broker_sim.explain.phrases import count
from broker_sim.pipeline.facts import ReportFacts, Row
from broker_sim.pipeline.finding import LINES_ALONE, NO_LOG
from broker_sim.pipeline.phrases import named

__all__ = ["compacted_records", "compaction"]


def _gap(row: Row) -> int:
    """Number of records that are missing between the first and the last of a partition."""
    return int(row["last_offset"] - row["first_offset"] + 1 - row["records"])


def compacted_records(facts: ReportFacts) -> tuple[int, int]:
    """Number of offsets up to the last record of each partition that have no record any more, and of all of them. They are counted from
    offset 0: the cleaner removes the oldest records first, so that a count from the first one that is left would be too small."""
    if not facts.whole or not facts.logged:
        return 0, 0
    held = [row for row in facts.partitions if row["records"]]
    all_ = sum(row["last_offset"] + 1 for row in held)
    return all_ - sum(row["records"] for row in held), all_


def compaction(facts: ReportFacts) -> list[str]:
    """Sentences about records that are missing from the log, and about the statements of this report that are affected."""
    if not facts.logged:
        return [LINES_ALONE if facts.lines_alone else NO_LOG]
    if not facts.whole:
        return [
            f"Only {facts.scope} was read: deleted records can't be distinguished from records outside of this scope."
        ]
    held = [row for row in facts.partitions if row["records"]]
    holed = [row for row in held if _gap(row) > 0]
    begun = [row for row in held if row["first_offset"] > 0]
    lines = []
    if holed:
        missing = sum(map(_gap, holed))
        all_ = missing + sum(row["records"] for row in held)
        where = named([str(row["log_partition"]) for row in holed], 8)
        lines.append(
            f"{missing:,} of {all_:,} records ({missing / all_:.0%}) between the first and the last of their partitions are missing:"
            f" the log cleaner deleted them, in {count(len(holed), 'partition')} ({where})."
        )
    if begun:
        do = "does" if len(begun) == 1 else "do"
        lines.append(f"{count(len(begun), 'partition')} {do} not begin at offset 0: earlier records were deleted.")
        missing, all_ = compacted_records(facts)
        lines.append(
            f"Up to the last record of each partition {missing:,} of {all_:,} ({missing / all_:.0%}) are missing in all."
        )
    if not holed and not begun:
        lines.append(
            "No record is missing between the first and the last one of any partition: the log cleaner has deleted none."
        )
    else:
        lines += [
            "A compacted segment has only the last record of each key: intermediate commits are missing, and so are decreased offsets"
            " that a later commit corrected; commit counts and the curves of committed offsets are too low and too coarse there.",
            "It contains only the last generation of a group: earlier rebalances are known from the journal alone.",
            "Deleted offsets and groups are missing after delete.retention.ms, when their tombstones are deleted.",
        ]
    if facts.journal is None:
        without = (
            "duplicate deliveries" if facts.lines else "stuck periods, causes of removals and duplicate deliveries"
        )
        lines.append(f"There is no journal: the {'logs do' if facts.lines else 'log does'} not contain {without}.")
    return lines
