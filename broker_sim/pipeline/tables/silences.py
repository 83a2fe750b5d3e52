"""Silences of partitions of the offsets log: no record for far longer than usual, between two commits, while others had some."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from broker_sim.pipeline.engine import functions as f
from broker_sim.pipeline.engine import on_its_engine
from broker_sim.pipeline.log_stuck import Silences
from broker_sim.pipeline.schemas import INT, LONG, RUN_ID, ColumnSpec, TableSchema
from broker_sim.pipeline.tables.condensed import summaries_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["silences"]

_SILENCES = TableSchema(
    "silences",
    (
        RUN_ID,
        ColumnSpec("log_partition", INT, "as in `stuck_partitions`"),
        *(ColumnSpec(name, LONG, "as in `stuck_partitions`") for name in ("from_ms", "to_ms", "pause_ms")),
    ),
)


@on_its_engine
def silences(log: DataFrame, partitions: DataFrame, least_ms: int) -> DataFrame:
    """run_id, log_partition, from_ms, to_ms, pause_ms, others (how many records other partitions got meanwhile) of an offset_log and of
    its `Condensed.partitions`."""
    where = ["run_id", "log_partition"]
    in_order = partitions.repartition(*where).sortWithinPartitions(*where, "log_offset").select(*where, "detail")
    found = in_order.mapInArrow(_SilencesOf(least_ms), _SILENCES.schema_for(in_order))
    log = log.where(f.col("record_ts_ms").isNotNull())
    second = f.floor(f.col("record_ts_ms") / 1000)
    moving = log.groupBy("run_id", second.alias("second")).agg(f.count("*").alias("moved"))
    meanwhile = (f.col("second") * 1000 > f.col("from_ms")) & ((f.col("second") + 1) * 1000 <= f.col("to_ms"))
    return (
        found.join(moving.withColumnRenamed("run_id", "run"), (f.col("run") == f.col("run_id")) & meanwhile)
        .groupBy("run_id", "log_partition", "from_ms", "to_ms", "pause_ms")
        .agg(f.sum("moved").alias("others"))
    )


@dataclass(frozen=True)
class _SilencesOf:
    """On the workers: summaries of one partition after the other to _SILENCES."""

    least_ms: int

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow

        for where, summaries in summaries_of(batches, "run_id", "log_partition"):
            one = Silences(self.least_ms)
            for summary in summaries:
                one.add(summary)
            found = [
                {**where, "from_ms": from_ms, "to_ms": to_ms, "pause_ms": to_ms - from_ms}
                for from_ms, to_ms in one.found()
            ]
            if found:
                yield pyarrow.RecordBatch.from_pylist(found, _SILENCES.arrow())
