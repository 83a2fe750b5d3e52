"""The table data_losses: committed records that a log has lost, and the groups that had committed offsets in it.

Rules:
1. A row is of one loss and one group that had a committed offset in that partition then; a loss without such a group has one row.
2. Offsets are no records: compacted ones and markers have offsets, too. ``offsets`` is the upper bound.
3. From a journal only. A log's evidence of a loss is in `coordinator_moves` (unclean) and `offset_regressions` (truncated).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_sim.pipeline.engine import functions as f
from broker_sim.pipeline.engine import on_its_engine
from broker_sim.pipeline.schemas import INT, LONG, RUN_ID, STRING, ColumnSpec, TableSchema, moment
from broker_sim.pipeline.tables.columns import moments
from broker_sim.pipeline.tables.events import EVENTS
from broker_sim.pipeline.tables.offset_log import commits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["DATA_LOSSES", "data_losses"]

DATA_LOSSES = TableSchema(
    "data_losses",
    (
        RUN_ID,
        ColumnSpec("topic", STRING, "topic", "journal"),
        ColumnSpec("partition", INT, "partition", "journal"),
        *moment("at", "when the log lost them", "journal"),
        ColumnSpec("part", STRING, "`tail`: its last records; `head`: its first ones", "journal"),
        ColumnSpec("first_offset", LONG, "of the first record that is lost", "journal"),
        ColumnSpec("last_offset", LONG, "of the last one", "journal"),
        ColumnSpec("offsets", LONG, "last_offset - first_offset + 1: at most so many records", "journal"),
        ColumnSpec("group", STRING, "a group with a committed offset there; null where none has one", "offset_log"),
        ColumnSpec("committed", LONG, "its committed offset then", "offset_log"),
        ColumnSpec(
            "outside",
            LONG,
            "of a tail: how far that is beyond the new end; of a head: how far before the new start; 0 where it is neither",
            "both",
        ),
    ),
    "One row for each loss of committed records and each group with a committed offset there. From a journal only.",
)

_LOSS = ("run_id", "topic", "partition", "ts_ms", "action", "base_offset", "last_offset")


@on_its_engine
def data_losses(events: DataFrame, log: DataFrame) -> DataFrame:
    """DATA_LOSSES of EVENTS and an offset_log."""
    lost = EVENTS.conform(events).where(f.col("type") == "data_loss").select(*_LOSS).distinct()
    stored = commits(log).select(
        *("run_id", "group", "topic", "partition", "at_ms", "effect_offset"),
        f.when(f.col("deleted"), f.lit(-1)).otherwise(f.col("committed_offset")).alias("stored"),
    )
    before = lost.join(stored, ["run_id", "topic", "partition"]).where(f.col("at_ms") <= f.col("ts_ms"))
    positions = before.groupBy(*_LOSS, "group").agg(f.max_by("stored", "effect_offset").alias("committed"))
    rows = lost.join(positions.where(f.col("committed") >= 0), list(_LOSS), "left")
    beyond = f.col("committed") - f.col("base_offset")
    missed = f.col("last_offset") + 1 - f.col("committed")
    outside = f.greatest(f.when(f.col("action") == "tail", beyond).otherwise(missed), f.lit(0))
    return DATA_LOSSES.conform(
        rows.select(
            *("run_id", "topic", "partition", "group", "committed", "last_offset"),
            *moments("at", f.col("ts_ms")),
            f.col("action").alias("part"),
            f.col("base_offset").alias("first_offset"),
            (f.col("last_offset") - f.col("base_offset") + 1).alias("offsets"),
            f.when(f.col("committed").isNotNull(), outside).alias("outside"),
        )
    )
