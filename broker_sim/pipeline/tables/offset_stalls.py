"""The table offset_stalls: committed offsets that did not advance although there were records to read, or while their group rebalanced
again and again.

Rules:
1. A stall lasts from the window of `lag` in which an offset was reached to the one in which it advanced, or to the log's end. It is
   long if it lasts ten times as long as the usual time between two commits of the partition, and ten seconds.
2. There were records to read if the data topic's log end was after the offset halfway through; that is known from the topic's own
   directories, or a journal. A member that commits the same offset all night, at the log's end, does not stall.
3. Without log ends there were records to read if the offset then advanced by five of its usual steps at once. It is also a stall if the
   group had three generations within it: a record on which each consumer crashes looks like that. So does a partition without new
   records, in a group that is restarted: `pending` is null then.
4. Spark brings a group's windows and states together; `pipeline.log_stalls` reads them. A group has 240 windows a partition at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

from broker_sim.pipeline.engine import functions as f
from broker_sim.pipeline.engine import on_its_engine
from broker_sim.pipeline.log_stalls import stalls_of
from broker_sim.pipeline.schemas import BOOLEAN, INT, LONG, RUN_ID, STRING, ColumnSpec, TableSchema, moment
from broker_sim.pipeline.tables.columns import moments
from broker_sim.pipeline.tables.groups import sizes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["OFFSET_STALLS", "offset_stalls"]

OFFSET_STALLS = TableSchema(
    "offset_stalls",
    (
        RUN_ID,
        ColumnSpec("group", STRING, "group id", "offset_log"),
        ColumnSpec("topic", STRING, "topic", "offset_log"),
        ColumnSpec("partition", INT, "partition", "offset_log"),
        ColumnSpec("log_partition", INT, "partition of `__consumer_offsets`", "offset_log"),
        ColumnSpec("log_offset", LONG, "of the commit that reached the offset", "offset_log"),
        ColumnSpec("offset", LONG, "the offset that did not advance: the next record to be read", "offset_log"),
        *moment("from", "when it was reached: start of the window", "lag"),
        *moment("to", "when it continued; null if it did not", "lag"),
        ColumnSpec("stalled_ms", LONG, "how long, or until the log's last record", "lag"),
        ColumnSpec("commits", LONG, "commits of the same offset meanwhile", "lag"),
        ColumnSpec("generations", LONG, "generations of the group that began meanwhile", "offset_log"),
        ColumnSpec(
            "pending",
            LONG,
            "records behind it at the end of the stall, or read at once afterwards; null where neither is known",
            "both",
        ),
        ColumnSpec("moved", LONG, "other partitions of the group whose offsets moved in its second half", "lag"),
        ColumnSpec(
            "members", BOOLEAN, "whether the group had members all the time; null if that isn't known", "offset_log"
        ),
    ),
    "One row for each period in which a committed offset did not advance although there were records to read.",
)

_INPUT = TableSchema(
    "offset_stalls_input",
    (
        RUN_ID,
        OFFSET_STALLS["group"],
        ColumnSpec("sort", INT, "0 a state of the group, 1 a window of lag"),
        ColumnSpec("place", LONG, "their order"),
        OFFSET_STALLS["log_partition"],
        OFFSET_STALLS["topic"],
        OFFSET_STALLS["partition"],
        *(
            ColumnSpec(name, LONG, "as in lag or groups")
            for name in (
                "at_ms",
                "members",
                "generation",
                "window_start_ms",
                "window_ms",
                "committed",
                "end",
                "commits",
            )
        ),
        OFFSET_STALLS["log_offset"],
        ColumnSpec("end_ms", LONG, "the log's last record"),
    ),
)
_STALLS = OFFSET_STALLS.only(name for name in OFFSET_STALLS.names if name not in ("from", "to"))


@on_its_engine
def offset_stalls(log: DataFrame, lag: DataFrame) -> DataFrame:
    """OFFSET_STALLS of an offset_log and of the table LAG that is made of it."""
    ends = log.groupBy("run_id").agg(f.max("record_ts_ms").alias("end_ms"))
    states = sizes(log).withColumn("sort", f.lit(0)).withColumn("place", f.col("log_offset"))
    windows = lag.withColumn("sort", f.lit(1)).withColumn("place", f.col("window_start_ms"))
    rows = _INPUT.conform(states).unionByName(_INPUT.conform(windows)).drop("end_ms").join(f.broadcast(ends), "run_id")
    rows = rows.select(*_INPUT.names)
    in_order = rows.repartition("run_id", "group").sortWithinPartitions("run_id", "group", "sort", "place")
    stalls = in_order.mapInArrow(_batches, _STALLS.schema_for(in_order))
    for name in ("from", "to"):
        stalls = stalls.withColumn(name, moments(name, f.col(f"{name}_ms"))[0])
    return OFFSET_STALLS.conform(stalls)


def _batches(batches: Iterable[Any]) -> Iterator[Any]:
    import pyarrow

    rows = (row for batch in batches for row in batch.to_pylist())
    for (run_id, group), mine in groupby(rows, key=lambda row: (row["run_id"], row["group"])):
        all_ = list(mine)
        states = [row for row in all_ if row["sort"] == 0]
        home = next((row["log_partition"] for row in states), None)
        periods = stalls_of((row for row in all_ if row["sort"] == 1), states, all_[0]["end_ms"])
        stalls = [{"run_id": run_id, "group": group, "log_partition": home, **stall} for stall in periods]
        if stalls:
            yield pyarrow.RecordBatch.from_pylist(stalls, _STALLS.arrow())
