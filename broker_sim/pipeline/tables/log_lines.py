"""The table log_lines: lines of brokers' and clients' logs about groups and partitions, one row for each line that was parsed.

Rules:
1. A line has its file and number, so that a reader can verify a finding there.
2. Log4j writes the time of its machine without a zone. It is read as UTC, unless a line and the group's record in
   `__consumer_offsets`, whose time is exact, are about the same generation and differ by a whole number of quarters of an hour: then
   the times of the file are moved by it.
3. A client's line without a group gets the group of its client id elsewhere in the file, or of all its other lines; else the only
   group whose records in `__consumer_offsets` have a member with that client id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from broker_sim.pipeline.engine import functions as F
from broker_sim.pipeline.engine import on_its_engine
from broker_sim.pipeline.lines.reading import LineFile, rows_of
from broker_sim.pipeline.schemas import BOOLEAN, INT, LONG, RUN_ID, STRING, ColumnSpec, TableSchema, moment
from broker_sim.pipeline.tables.columns import moments

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["LOG_LINES", "UNREAD", "aligned", "log_lines", "with_groups"]

UNREAD = "unread"
"""Value of `what` in a row for a file, or a part of it, that could not be read: `skipped` has the reason."""

LOG_LINES = TableSchema(
    "log_lines",
    (
        RUN_ID,
        ColumnSpec("source", STRING, "`broker` or `client`; never null", "option"),
        ColumnSpec("file", STRING, "file; never null", "path"),
        ColumnSpec("line", LONG, "number of the line in it, from 1; never null", "file"),
        *moment("ts", "when it was written, UTC; see rule 2", "line"),
        ColumnSpec("level", STRING, "`INFO`, `WARN`, ..; null where the line has none", "line"),
        ColumnSpec("what", STRING, "kind of line, see below; never null", "line"),
        ColumnSpec("node", INT, "the broker's id, where the line names it", "line"),
        ColumnSpec("group", STRING, "group id, where it names one", "line"),
        ColumnSpec("generation", INT, "generation, or group epoch; of `preparing` the old one", "line"),
        ColumnSpec(
            "member", STRING, "member id; of `transaction timeout` and `producer fenced` the transactional id", "line"
        ),
        ColumnSpec("instance", STRING, "group.instance.id", "line"),
        ColumnSpec("client_id", STRING, "client id of a client's line", "line"),
        ColumnSpec(
            "address",
            STRING,
            "the other end of a connection: of a broker's line the client's host, of a client's the broker's host and port",
            "line",
        ),
        ColumnSpec("topic", STRING, "topic of the partition in the line", "line"),
        ColumnSpec("partition", INT, "that partition", "line"),
        ColumnSpec("epoch", INT, "leader epoch; of `ISR` the partition's version", "line"),
        ColumnSpec("offset", LONG, "offset; of `ISR shrinks` the leader's high watermark", "line"),
        ColumnSpec(
            "number",
            LONG,
            "members, offsets, ms of a load, the broker that is meant, the leader's log end (`ISR shrinks`), min.insync.replicas"
            " (`refused`)",
            "line",
        ),
        ColumnSpec("detail", STRING, "reason, error or replicas, in the line's words", "line"),
        ColumnSpec("text", STRING, "the line, at most 400 characters", "line"),
    ),
    "One row for each line of a broker or client log about a group, a partition, a connection or a transactional producer.",
)

_RAW_LINES = LOG_LINES.only(name for name in LOG_LINES.names if name != "ts")
_FILES = TableSchema(
    "files",
    (
        RUN_ID,
        ColumnSpec("path", STRING, "file"),
        ColumnSpec("source", STRING, "`broker` or `client`"),
        ColumnSpec("size", LONG, "bytes"),
        ColumnSpec("named", BOOLEAN, "whether it was named itself"),
    ),
)
_ROWS = 2000
TASKS = 64
"""Files are many and small, or few and large: more tasks than that help neither."""
_QUARTER_MS = 900_000
_NEAR_MS = 120_000
"""So far apart a line and its record may be, zones aside."""


def log_lines(spark: SparkSession, files: Iterable[LineFile], run_id: str) -> DataFrame:
    """`LOG_LINES` of files, and of what can't be read a row of `what` UNREAD with the reason as its ``detail``."""
    import pyarrow

    wanted = [(run_id, file.path, file.source, file.size, file.named) for file in files]
    tasks = _FILES.of_arrow(
        spark,
        pyarrow.Table.from_pylist(
            [dict(zip(_FILES.names, values, strict=True)) for values in wanted], schema=_FILES.arrow()
        ),
    )
    tasks = tasks.repartition(max(min(len(wanted), TASKS), 1))
    return _dated(tasks.mapInArrow(_batches, _RAW_LINES.schema_for(tasks)), run_id)


@on_its_engine
def _dated(rows: DataFrame, run_id: str) -> DataFrame:
    dated = rows.withColumn("run_id", F.lit(run_id)).withColumn("ts", moments("ts", F.col("ts_ms"))[0])
    return LOG_LINES.conform(dated)


def _batches(batches: Iterable[Any]) -> Iterator[Any]:
    import pyarrow

    schema = _RAW_LINES.arrow()
    for batch in batches:
        for file in batch.to_pylist():
            del file["run_id"]
            rows = rows_of(LineFile(**file))
            while some := list(islice(rows, _ROWS)):
                yield pyarrow.RecordBatch.from_pylist(some, schema)


@on_its_engine
def with_groups(lines: DataFrame, log: DataFrame) -> DataFrame:
    """The lines, clients' with the groups that the log knows their client ids in: rule 3. librdkafka names no group in most of its
    lines."""
    member = F.explode("members").alias("member")
    classic = log.where(F.col("kind") == "group").select("run_id", "group", member)
    classic = classic.select("run_id", "group", F.col("member.client_id").alias("client_id"))
    is_member = F.col("record_type").rlike("MemberMetadata$")
    modern = log.where(is_member & F.col("detail").isNotNull()).select(
        "run_id", "group", F.get_json_object("detail", "$.clientId").alias("client_id")
    )
    known = classic.unionByName(modern).where(F.col("client_id").isNotNull() & (F.col("client_id") != "")).distinct()
    only_group = (
        known.groupBy("run_id", "client_id")
        .agg(F.min("group").alias("its_group"), F.count("*").alias("groups"))
        .where(F.col("groups") == 1)
        .drop("groups")
    )
    both = lines.join(F.broadcast(only_group), ["run_id", "client_id"], "left")
    of_client = F.when(F.col("source") == "client", F.col("its_group"))
    return LOG_LINES.conform(both.withColumn("group", F.coalesce("group", of_client)))


@on_its_engine
def aligned(lines: DataFrame, log: DataFrame) -> DataFrame:
    """The lines with their times in UTC: rule 2."""
    stored = (
        log.where((F.col("kind") == "group") & F.col("record_ts_ms").isNotNull())
        .groupBy("run_id", "group", "generation")
        .agg(F.min("record_ts_ms").alias("stored_ms"))
    )
    generations = lines.where(F.col("what").isin("assigned", "synced") & F.col("ts_ms").isNotNull())
    apart = F.col("ts_ms") - F.col("stored_ms")
    zone = F.round(apart / _QUARTER_MS).cast("bigint") * _QUARTER_MS
    seen = (
        generations.join(F.broadcast(stored), ["run_id", "group", "generation"])
        .where((F.abs(apart - zone) <= _NEAR_MS) & (F.abs(zone) <= 15 * 3_600_000))
        .groupBy("run_id", "file", zone.alias("zone"))
        .agg(F.count("*").alias("times"))
    )
    best = seen.groupBy("run_id", "file").agg(F.max_by("zone", "times").alias("zone")).where(F.col("zone") != 0)
    moved = lines.join(F.broadcast(best), ["run_id", "file"], "left")
    ts_ms = F.col("ts_ms") - F.coalesce("zone", F.lit(0))
    moved = moved.withColumn("ts_ms", ts_ms)
    return LOG_LINES.conform(moved.withColumn("ts", F.timestamp_millis("ts_ms")))
