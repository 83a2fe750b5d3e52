"""An offset_log without the commits that tell nothing but that there were more of them: what the other tables are made of.

Rules:
1. A table that reads `Condensed.rows` has the same rows as one that reads the whole log: a commit's neighbours of its key are there
   wherever one of them matters (`condensing` has the rule), and ``records`` is how many of the log a row represents.
2. It is one pass without a shuffle. What is shuffled afterwards grows with what happened, not with the commits of a group.
3. A log in `log_parts` is read from its files by the pass itself; of any other frame the engine hands it the rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from broker_sim.pipeline.duck.frames import Frame
from broker_sim.pipeline.engine import Window, on_its_engine
from broker_sim.pipeline.engine import functions as f
from broker_sim.pipeline.log_parts import batches_of
from broker_sim.pipeline.schemas import OFFSET_LOG, TableSchema
from broker_sim.pipeline.tables.groups import sizes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["SILENCE_MS", "Condensed", "condensed", "summaries_of"]

SILENCE_MS = 10_000
"""Shorter silences of a partition are not reported."""


@dataclass(frozen=True)
class Condensed:
    """``rows``: CONDENSED; ``partitions``, ``groups``: summaries of pauses (run_id, log_partition, log_offset, group, detail)."""

    rows: DataFrame
    partitions: DataFrame
    groups: DataFrame
    kept: DataFrame
    """Persisted DataFrame from which the three others are made; `unpersist` releases it."""


@on_its_engine
def condensed(
    log: DataFrame,
    window_ms: int,
    *,
    silence_ms: int = SILENCE_MS,
    ordered: bool = False,
    files: Sequence[str] = (),
    run_id: str = "",
    block: int | None = None,
) -> Condensed:
    """The CONDENSED of an offset_log. ``window_ms``: of the table lag. ``ordered``: the rows of each segment come in the order of the
    log and one after the other already, as the source gives them. ``files``: those of the run's `log_parts`, which have the same rows.
    ``block``: so many records are looked at together."""
    from broker_sim.pipeline.condensing import BLOCK, CONDENSED, GROUP, NEEDED, PARTITION, SUMMARIES

    log = OFFSET_LOG.conform(log)
    once = _Pass(window_ms, silence_ms, _outside(log), block or BLOCK)
    if files:
        made = _over_files(log, _PassOverFiles(once, tuple(files), OFFSET_LOG.only(NEEDED), run_id), SUMMARIES)
    else:
        given = log.select(*NEEDED)
        if not ordered:
            given = given.repartition("run_id", "log_partition", "segment").sortWithinPartitions(
                "run_id", "log_partition", "segment", "log_offset"
            )
        made = given.mapInArrow(once, SUMMARIES.schema_for(log))
    made = made.persist()
    summary = made.where(f.col("kind").isin(PARTITION, GROUP)).select(
        "run_id", "log_partition", "log_offset", "kind", "group", "detail"
    )
    passed = f.col("kind").isin("commit", "commit_tombstone", "txn_commit", "txn_abort")
    others = log.where(~passed).withColumn("records", f.lit(1))
    commits = made.where(passed).drop("detail")
    commits = commits.withColumn("record_ts", f.timestamp_millis("record_ts_ms"))
    return Condensed(
        CONDENSED.conform(others).unionByName(CONDENSED.conform(commits)),
        summary.where(f.col("kind") == PARTITION),
        summary.where(f.col("kind") == GROUP),
        made,
    )


def summaries_of(batches: Iterable[Any], *names: str) -> Iterator[tuple[dict[str, Any], Iterator[Any]]]:
    """On the workers, of summaries in order: the columns ``names`` of each log partition or group, and what its summaries say."""
    rows = (row for batch in batches for row in batch.to_pylist())
    for where, mine in groupby(rows, key=itemgetter(*names)):
        yield dict(zip(names, where, strict=True)), (json.loads(row["detail"]) for row in mine)


@dataclass(frozen=True)
class _Pass:
    """Function that Spark's workers call with batches of records."""

    window_ms: int
    silence_ms: int
    outside: dict[tuple[str, int, str], tuple[list[int], list[int]]]
    block: int

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        from broker_sim.pipeline.condensing import condensed as of_batches

        return of_batches(
            batches, window_ms=self.window_ms, silence_ms=self.silence_ms, outside=self.outside, block=self.block
        )


@dataclass(frozen=True)
class _PassOverFiles:
    """As `_Pass`; a row of its input has the number of a file."""

    once: _Pass
    files: tuple[str, ...]
    columns: TableSchema
    run_id: str

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        return self.once(batches_of((self.files[number] for number in numbers), self.columns, self.run_id))


def _over_files(log: DataFrame, work: _PassOverFiles, made: TableSchema) -> DataFrame:
    """On Spark a task for each file, else one after the other."""
    if isinstance(log, Frame):
        of_files = work.once(batches_of(work.files, work.columns, work.run_id))
        found: DataFrame = log.session.of_batches(of_files, made.arrow())
        return found
    numbers = log.sparkSession.range(0, len(work.files), 1, len(work.files))
    return numbers.mapInArrow(work, made.spark())


def _outside(log: DataFrame) -> dict[tuple[str, int, str], tuple[list[int], list[int]]]:
    """By group that has members at any time, when it had none: from which log offset, and up to which. Few: changes of groups."""
    per = ["run_id", "log_partition", "group"]
    steps = sizes(log).select(*per, "log_offset", "members")
    had = steps.where(f.col("members") > 0).select(*per).distinct()
    until = f.lead("log_offset").over(Window.partitionBy(*per).orderBy("log_offset")).alias("until")
    periods = steps.select("*", until).where(f.col("members") == 0).join(had, per, "left_semi")
    result: dict[tuple[str, int, str], tuple[list[int], list[int]]] = {}
    for row in periods.orderBy("log_offset").collect():
        starts, ends = result.setdefault((row["run_id"], row["log_partition"], row["group"]), ([], []))
        starts.append(row["log_offset"])
        ends.append(1 << 62 if row["until"] is None else row["until"])
    return result
