"""The members and the generation of a group, record by record: `group_states`, for groups of every type.

Rules:
1. A classic group's record has all its members. Records of consumer, share and streams groups are of one member each: `modern_groups`
   reads them, also for `rebalances`, and gives the members at each epoch, and static members that were replaced within one.
2. If a group is converted to the other protocol, its records end with a tombstone although no member leaves: it is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

from broker_sim.pipeline.engine import Window, on_its_engine
from broker_sim.pipeline.engine import functions as F
from broker_sim.pipeline.modern_groups import ModernGroup
from broker_sim.pipeline.schemas import OFFSET_LOG
from broker_sim.pipeline.tables.rebalances import modern_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["group_states"]

_STATES = OFFSET_LOG.only(
    ["run_id", "log_partition", "group", "log_offset", "record_ts_ms", "kind", "generation", "members", "detail"]
)
_ROWS = 2000


def _classic_states(log: DataFrame) -> DataFrame:
    """Run, log partition, group, log offset, record's time, kind (`group`, `group_tombstone`), generation and members of classic
    groups alone."""
    return _STATES.conform(log.where(F.col("kind").isin("group", "group_tombstone") & F.col("group").isNotNull()))


@on_its_engine
def group_states(log: DataFrame) -> DataFrame:
    """As `_classic_states`, of all groups of an offset_log, or of a `journal_log`; ``detail``: why members were removed, in the
    words of `events.cause`, if a journal has it ("loaded": no member joined or left), else null."""
    records = modern_records(log).repartition("run_id", "group").sortWithinPartitions("run_id", "group", "place")
    modern = records.mapInArrow(_batches, _STATES.schema_for(records))
    both = _classic_states(log).withColumn("modern", F.lit(False)).withColumn("detail", F.lit(None).cast("string"))
    both = both.unionByName(_STATES.conform(modern).withColumn("modern", F.lit(True)))
    order = Window.partitionBy("run_id", "log_partition", "group").orderBy("log_offset")
    following, preceding = F.lead(F.struct("kind", "modern")).over(order), F.lag("modern").over(order)
    both = both.withColumn("following", following).withColumn("preceding", preceding)
    goes_over = (
        (F.col("kind") == "group_tombstone")
        & (F.col("following.kind") == "group")
        & (F.col("following.modern") != F.col("modern"))
    )
    was_classic = F.col("modern") & (F.size("members") == 0) & ~F.col("preceding")  # it did not begin without members
    return _STATES.conform(both.where(~F.coalesce(goes_over | was_classic, F.lit(False))))


def _batches(batches: Iterable[Any]) -> Iterator[Any]:
    """On the workers: Arrow batches of `rebalances.REBALANCE_INPUT`, in order, to those of `_STATES`."""
    import pyarrow

    schema = _STATES.arrow()
    rows: list[dict[str, Any]] = []
    all_rows = (row for batch in batches for row in batch.to_pylist())
    for _, records in groupby(all_rows, key=lambda row: (row["run_id"], row["group"])):
        reader = ModernGroup()
        for record in records:
            reader.take(record)
        reader.ended()
        for at in range(0, len(reader.states), _ROWS):
            rows += reader.states[at : at + _ROWS]
            if len(rows) >= _ROWS:
                yield pyarrow.RecordBatch.from_pylist(rows, schema)
                rows = []
    if rows:
        yield pyarrow.RecordBatch.from_pylist(rows, schema)
