"""Findings about records that a group's members were not given: `offset_skips`."""

from __future__ import annotations

from collections.abc import Iterable

from broker_sim.explain.phrases import count, times
from broker_sim.pipeline.facts import ReportFacts
from broker_sim.pipeline.finding import Finding, by_group
from broker_sim.pipeline.phrases import when

__all__ = ["from_the_end", "read_over"]

_BEGAN = {
    None: "where it had read up to, {}",
    "reached": "where the group had read up to, {}",
    "grown": "{}, the beginning of a partition that the topic got while the group was reading it",
}
"""Position at which a member did not continue, by `offset_skips.began`."""
_AT_END = (
    "the group had no committed offset there, and the log ended there (auto.offset.reset=latest, or a seek to the end)"
)
_NEW_PARTITIONS = (
    "A consumer discovers new partitions after metadata.max.age.ms, and producers may be earlier. With auto.offset.reset=earliest a new"
    " partition is read from its beginning; partitions with a committed offset are not affected."
)

_ELSE = (
    "If the log no longer contains the offset (retention, DeleteRecords), or the group has none committed, auto.offset.reset decides;"
    " a seek() has the same effect."
)


def read_over(facts: ReportFacts) -> Iterable[Finding]:
    """Records that members were not given, by group: the widest stretch."""
    for group, rows in by_group(row for row in facts.skips if row["began"] != "first"):
        worst = max(rows, key=lambda row: row["by"])
        where = f"{worst['topic']}-{worst['partition']}"
        began = "the committed offset {}" if worst["committed"] else _BEGAN[worst["began"]]
        lost = f"up to {count(worst['by'], 'record')} {'was' if worst['by'] == 1 else 'were'} not delivered to it"
        words = (
            f"{worst['client_id'] or 'a client'} of {group} continued to read {where} at {worst['to_offset']:,} at"
            f" {when(worst['at_ms'])}, not at {began.format(format(worst['from_offset'], ','))}: {lost}"
        )
        if worst["out_of_range"]:
            words += "; its last Fetch before got OFFSET_OUT_OF_RANGE"
        if worst["lookup_error"]:
            words += f"; its last OffsetFetch before got {worst['lookup_error']}"
        if worst["began"]:
            words += f"; {_AT_END}"
        if len(rows) > 1:
            words += f"; so {times(len(rows))} in all"
        yield Finding(
            "skipped records",
            "bad",
            560 + min(worst["by"], 10_000) / 1000,
            f"{words}.",
            _NEW_PARTITIONS if worst["began"] == "grown" else _ELSE,
            group,
            None,
            worst["at_ms"],
            max(row["at_ms"] for row in rows),
        )


def from_the_end(facts: ReportFacts) -> Iterable[Finding]:
    """Groups that began at the end of logs that were there before: a choice, by auto.offset.reset."""
    for group, rows in by_group(row for row in facts.skips if row["began"] == "first"):
        worst, records = max(rows, key=lambda row: row["by"]), sum(row["by"] for row in rows)
        partitions = len({(row["topic"], row["partition"]) for row in rows})
        yield Finding(
            "started at latest",
            "note",
            20,
            f"{group} began to read {count(partitions, 'partition')} at the log's end, as {worst['topic']}-{worst['partition']} at"
            f" {worst['to_offset']:,} at {when(worst['at_ms'])}: up to {count(records, 'record')} before that"
            f" {'is' if records == 1 else 'are'} not read; {_AT_END}.",
            "The partitions existed before the group read the topic, so its auto.offset.reset chose the start:"
            " earliest reads them from the beginning.",
            group,
            None,
            min(row["at_ms"] for row in rows),
        )
