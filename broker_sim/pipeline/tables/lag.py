"""The table lag: how far each group was behind, by windows of time.

Rules:
1. ``committed`` is the last commit of the window in the log's order, else the one before it that is still stored.
2. ``end`` is the log's end when the window ended, as LOG_ENDS knows it: from the data topics' segments, where the directory has them
   (`log_ends.py`), else from the journal. A copy of ``__consumer_offsets-*`` alone knows no ends: then ``end`` and ``lag`` are null.
3. Windows in which neither moved have no row: the values before them are still valid. A partition's first row is that of its first
   commit.
4. An end below the committed offset is either late knowledge (a journal knows ends from Fetch and Produce alone, a copied log's files
   may be older than the copied offsets), or the offset lies beyond the log's end. It is given, negative, where the log is known to have
   ended there at the commit's moment or later; else ``lag`` is null.
5. Windows begin at multiples of their length since 1970, so that runs can be laid side by side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_sim.pipeline.engine import Window, on_its_engine
from broker_sim.pipeline.engine import functions as f
from broker_sim.pipeline.schemas import INT, LONG, RUN_ID, STRING, ColumnSpec, TableSchema, moment
from broker_sim.pipeline.tables.offset_log import commits

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

__all__ = ["LAG", "LOG_ENDS", "WINDOWS_MS", "group_lag", "journal_ends", "lag", "window_ms_for"]

LAG = TableSchema(
    "lag",
    (
        RUN_ID,
        ColumnSpec("source", STRING, "of `end`: `log` (segments), `journal`, or null where no end is known", ""),
        ColumnSpec("group", STRING, "group id", "offset_log"),
        ColumnSpec("topic", STRING, "topic", "offset_log"),
        ColumnSpec("partition", INT, "partition", "offset_log"),
        *moment("window_start", "when the window begins", ""),
        ColumnSpec("window_ms", LONG, "how long it is", "option"),
        ColumnSpec("committed", LONG, "committed offset at its end; null if it was deleted", "offset_log"),
        ColumnSpec("end", LONG, "log end offset at its end; null where it is not known", "log ends"),
        ColumnSpec(
            "lag",
            LONG,
            "end - committed; null where one of them is, and where the end that is known is older than the commit and below it."
            " Negative: committed beyond the log's end",
            "both",
        ),
        ColumnSpec(
            "start", LONG, "where the log begins, as far as it is known by then; null where it is not", "log ends"
        ),
        ColumnSpec(
            "below_start",
            LONG,
            "how many offsets from `committed` on lie before `start`: records that were deleted before they were committed, at most so"
            " many; null where either is",
            "both",
        ),
        ColumnSpec("commits", LONG, "commits in the window", "offset_log"),
        ColumnSpec(
            "log_offset",
            LONG,
            "where in the group's offsets partition the last of them took effect; null without a commit",
            "offset_log",
        ),
    ),
    "One row for each group, partition and window in which a commit was made or the log grew.",
)

LOG_ENDS = TableSchema(
    "log_ends",
    (
        RUN_ID,
        ColumnSpec("source", STRING, "`log` (segments) or `journal`", ""),
        ColumnSpec("topic", STRING, "topic", "folder name"),
        ColumnSpec("partition", INT, "partition", "folder name"),
        ColumnSpec("at_ms", LONG, "when the log reached it, ms since 1970", "batch header"),
        ColumnSpec("end", LONG, "log end offset", "batch header"),
        ColumnSpec(
            "start", LONG, "where the log begins; null where that is not known for then", "file names, checkpoint"
        ),
    ),
    "How the data topics' logs grew.",
)

WINDOWS_MS = (
    *(100, 250, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000),
    *(60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000, 7_200_000, 21_600_000, 86_400_000),
)

_KEY = ("run_id", "group", "topic", "partition")


def window_ms_for(span_ms: int, most: int = 240) -> int:
    """The shortest usual window of which ``most`` cover the span."""
    return next(
        (window_ms for window_ms in WINDOWS_MS if window_ms * most >= span_ms), max(span_ms // most, WINDOWS_MS[-1])
    )


@on_its_engine
def lag(log: DataFrame, log_ends: DataFrame, window_ms: int = 10_000) -> DataFrame:
    """LAG of an offset_log and of LOG_ENDS (which may be empty), by windows of ``window_ms``."""
    taken = commits(log).where(f.col("at_ms").isNotNull()).withColumn("window", _window("at_ms", window_ms))
    kept = _kept(taken)
    # all that happens to a key, in one frame; RANGE takes what happens in the same window together
    moves = kept.unionByName(_log_ends_by_window(taken, _ends(log_ends, window_ms)), allowMissingColumns=True)
    so_far = Window.partitionBy(*_KEY).orderBy("window").rangeBetween(Window.unboundedPreceding, Window.currentRow)
    filled = (
        moves.select(
            *_KEY,
            *("window", "commits", "place"),
            f.last("kept", ignorenulls=True).over(so_far).alias("kept"),
            f.last("ends", ignorenulls=True).over(so_far).alias("ends"),
        )
        .groupBy(*_KEY, "window")
        .agg(
            f.sum(f.coalesce("commits", f.lit(0))).alias("commits"),
            f.first("kept").alias("kept"),
            f.first("ends").alias("ends"),
            f.max("place").alias("log_offset"),
        )
    )
    result = filled.select(
        "*",
        f.col("kept.committed").alias("committed"),
        f.col("ends.end").alias("end"),
        f.col("ends.start").alias("start"),
        f.greatest(f.col("ends.start") - f.col("kept.committed"), f.lit(0)).alias("below"),
        f.when(f.col("ends.logged"), "log").when(~f.col("ends.logged"), "journal").alias("source"),
        (f.col("ends.end") - f.col("kept.committed")).alias("apart"),
        (f.col("ends.at_ms") > f.col("kept.at_ms")).alias("later"),
        f.col("window").alias("window_start_ms"),
        f.timestamp_millis("window").alias("window_start"),
        f.lit(window_ms).alias("window_ms"),
    )
    both = f.col("end").isNotNull() & f.col("committed").isNotNull()
    known = both & ((f.col("apart") >= 0) | f.col("later"))
    begun = f.col("start").isNotNull() & f.col("committed").isNotNull()
    result = result.withColumn("below_start", f.when(begun, f.col("below")))
    return LAG.conform(result.withColumn("lag", f.when(known, f.col("apart"))))


@on_its_engine
def group_lag(table: DataFrame) -> DataFrame:
    """A LAG table by group: run_id, group, window_start_ms, window_ms, lag (of all partitions that have one then; null where none has),
    deleted (partitions whose committed offset is deleted then: their lag is unknown), commits.
    A partition without a row in a window is unchanged."""
    of_key = Window.partitionBy(*_KEY).orderBy("window_start_ms")
    of_group = (
        Window.partitionBy("run_id", "group").orderBy("window_start_ms").rowsBetween(Window.unboundedPreceding, 0)
    )

    def change(value: SparkColumn) -> SparkColumn:
        return value - f.coalesce(f.lag(value).over(of_key), f.lit(0))

    behind = f.greatest(
        f.coalesce("lag", f.lit(0)), f.lit(0)
    )  # what lies beyond one log's end makes up for nothing in another
    moved = table.withColumn("behind", behind).select(
        *("run_id", "group", "window_start_ms", "window_ms", "commits"),
        change(f.col("behind")).alias("lag"),
        change(f.col("lag").isNotNull().cast("int")).alias("known"),
        change(f.col("committed").isNull().cast("int")).alias("deleted"),
    )
    windows = moved.groupBy("run_id", "group", "window_start_ms", "window_ms").agg(
        *(f.sum(name).alias(name) for name in ("lag", "known", "deleted", "commits"))
    )
    total, known, deleted = (f.sum(name).over(of_group) for name in ("lag", "known", "deleted"))
    return windows.select(
        *("run_id", "group", "window_start_ms", "window_ms"),
        f.when(known > 0, total).alias("lag"),
        deleted.alias("deleted"),
        "commits",
    )


@on_its_engine
def journal_ends(events: DataFrame) -> DataFrame:
    """LOG_ENDS of a journal: high watermarks and log starts in Fetch's answers, and what Produce wrote where."""
    from broker_sim.pipeline.tables.events import by_partition

    answers = events.where(
        (f.col("type") == "response") & f.col("api").isin("Fetch", "Produce") & f.col("partitions").isNotNull()
    )
    asked = events.where((f.col("type") == "request") & (f.col("api") == "Produce") & f.col("partitions").isNotNull())
    per_partition = ["run_id", "journal", "request", "topic", "partition"]
    sent = by_partition(asked, events).groupBy(*per_partition).agg(f.sum("records").alias("sent"))
    answered = by_partition(answers, events).drop("records").join(f.broadcast(sent), per_partition, "left")
    end = f.when(f.col("api") == "Fetch", f.col("high_watermark")).otherwise(
        f.col("offset") + f.coalesce("sent", f.lit(1))
    )
    good = f.coalesce("partition_error_code", f.lit(0)) == 0
    rows = answered.where(good & (end >= 0) & f.col("topic").isNotNull() & ~f.col("topic").startswith("__"))
    return LOG_ENDS.conform(
        rows.select(
            "run_id",
            "topic",
            "partition",
            f.col("ts_ms").alias("at_ms"),
            end.alias("end"),
            f.when(f.col("log_start") >= 0, f.col("log_start")).alias("start"),
            f.lit("journal").alias("source"),
        )
    )


def _log_ends_by_window(taken: DataFrame, ends: DataFrame) -> DataFrame:
    """By key and window, from the key's first commit on: where the log ended. What was known before counts for the first window."""
    firsts = taken.groupBy(*_KEY).agg(f.min("window").alias("first"))
    known = ends.join(firsts, ["run_id", "topic", "partition"])
    window = f.greatest("window", "first").alias("window")
    # numbers and booleans alone are aggregated: without a sort
    windows = known.groupBy(*_KEY, window).agg(
        f.max_by("end", "ends_window").alias("end"),
        f.max_by("logged", "ends_window").alias("logged"),
        f.max_by("ends_at_ms", "ends_window").alias("ends_at_ms"),
        f.max("start").alias("start"),
    )
    bounds = f.struct("end", "logged", f.col("ends_at_ms").alias("at_ms"), "start").alias("ends")
    return windows.select(*_KEY, "window", bounds)


def _kept(taken: DataFrame) -> DataFrame:
    """By key and window: the last commit or deletion in the log's order, and how many commits there were."""
    return taken.groupBy(*_KEY, "window").agg(
        f.struct(
            f.max_by("committed_offset", "effect_offset").alias("committed"),
            f.max_by("at_ms", "effect_offset").alias("at_ms"),
        ).alias("kept"),
        f.coalesce(f.sum(f.when(~f.col("deleted"), f.col("records"))), f.lit(0)).alias("commits"),
        f.max("effect_offset").alias("place"),
    )


def _ends(log_ends: DataFrame, window_ms: int) -> DataFrame:
    """By topic, partition and window: where the log ended, and whether segments show it."""
    window = _window("at_ms", window_ms).alias("window")
    last = f.max(f.struct("at_ms", "end", (f.col("source") == "log").alias("logged"))).alias("last")
    ends = log_ends.groupBy("run_id", "topic", "partition", window).agg(last, f.max("start").alias("start"))
    return ends.select(
        *("run_id", "topic", "partition", "window"),
        f.col("window").alias("ends_window"),
        "last.end",
        "last.logged",
        f.col("last.at_ms").alias("ends_at_ms"),
        "start",
    )


def _window(moment_ms: str, window_ms: int) -> SparkColumn:
    return f.col(moment_ms) - f.pmod(f.col(moment_ms), f.lit(window_ms))
