"""An offsets log as Parquet files, written where its segments are decoded; and what is computed of these where they are read.

    parts = write_parts(spark, find_logs([where]), where_to, run_id)
    parts.records, parts.skipped, parts.files

Rules:
1. Records go from a segment to Parquet, and from there through `condensing`, within one Python process: a worker of Spark's, or this
   one beside DuckDB. An engine gets file names, numbers and what is left. The other way, rows of a data source that Spark writes, has
   each record copied through Arrow into the JVM and out again: 4 million commits cost 7 times the CPU time
   (`benchmarks/skewed_log.py`). It remains for what only Spark's file systems reach.
2. A part has the records of whole segments, in the order of the log, one after the other.
3. A file gets its name when it is whole: a task that is repeated replaces what the one before it wrote.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from broker_sim.common.text import UsageError
from broker_sim.pipeline.engine import engine_of, functions, is_in_process
from broker_sim.pipeline.offset_logs import FoundLogs, Slice, share_out
from broker_sim.pipeline.record_batches import gathered
from broker_sim.pipeline.schemas import OFFSET_LOG, TableSchema
from broker_sim.pipeline.segments import Skipped, read_offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["STORED", "Parts", "batches_of", "frame_of", "write_parts"]

PART_BYTES = 64 << 20
"""Bytes of segments that make a part, more or less: what progress is counted in, and what a worker begins again with."""
ROWS = 1 << 17
"""Rows of a row group."""

STORED = OFFSET_LOG.only(name for name in OFFSET_LOG.names if name != "run_id")
"""Columns of the files: the run is in the name of their folder."""

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Parts:
    """``files``: paths on this machine's disks; ``records``: in all of them; ``skipped``: what could not be read."""

    files: tuple[str, ...]
    records: int
    skipped: tuple[Skipped, ...]


class _Written(NamedTuple):
    """Result of a task: the file that it wrote, the number of its records, and what was skipped."""

    file: str
    records: int
    skipped: list[Skipped]


def write_parts(
    session: Any, found: FoundLogs, folder: str, run_id: str, progress: Callable[[Callable[[], int]], object]
) -> Parts:
    """Write all records of the logs below ``folder``. ``session``: of Spark or DuckDB; ``progress(records)`` is called once, with a
    function that returns how many records are written so far. Raises UsageError."""
    parallel = _parallel(session)
    total = sum(log.size for log in found.logs)
    shares: list[list[Slice]] = share_out(found.logs, max(parallel, -(-total // PART_BYTES))) or [[]]
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror or error}") from None
    work = partial(_write, folder=folder, run_id=run_id)
    written = list(_computed(session, list(enumerate(shares)), work, lambda one: one.records, progress))
    return Parts(
        tuple(one.file for one in written),
        sum(one.records for one in written),
        (*found.skipped, *(skipped for one in written for skipped in one.skipped)),
    )


def _parallel(session: Any) -> int:
    return 1 if is_in_process(session) else int(session.sparkContext.defaultParallelism)


def _computed(
    session: Any,
    tasks: Sequence[T],
    work: Callable[[T], R],
    counted: Callable[[R], int],
    progress: Callable[[Callable[[], int]], object],
) -> Iterable[R]:
    """Results of ``work`` for the tasks, in their order: computed by Spark's workers, or in this process."""
    if is_in_process(session):
        done = [0]
        progress(lambda: done[0])
        for task in tasks:
            result = work(task)
            done[0] += counted(result)
            yield result
        return
    records = session.sparkContext.accumulator(0)
    progress(lambda: int(records.value))

    def on_worker(task: T) -> R:
        result = work(task)
        records.add(counted(result))
        return result

    yield from session.sparkContext.parallelize(tasks, len(tasks)).map(on_worker).collect()


def _write(task: tuple[int, list[Slice]], *, folder: str, run_id: str) -> _Written:
    """One part. On a worker."""
    from pyarrow import parquet

    number, slices = task
    skipped: list[Skipped] = []
    records = 0
    place = Path(folder, f"part-{number:05}.parquet")
    hidden = place.with_name(f".{place.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        with parquet.ParquetWriter(hidden, STORED.arrow(), compression="snappy") as writer:
            for table in gathered(_records(slices, run_id, skipped), ROWS):
                writer.write_table(table, row_group_size=ROWS)
                records += table.num_rows
        hidden.replace(place)
    finally:
        hidden.unlink(missing_ok=True)
    return _Written(str(place), records, skipped)


def _records(slices: Iterable[Slice], run_id: str, skipped: list[Skipped]) -> Iterator[Any]:
    for part in slices:
        yield from read_offsets(
            part.path,
            start=part.start,
            end=part.end,
            run_id=run_id,
            table=STORED,
            skipped=skipped.append,
            hint=part.hint,
        )


def batches_of(files: Iterable[str], columns: TableSchema, run_id: str) -> Iterator[Any]:
    """The records of parts as record batches with these columns, ``run_id`` among them."""
    import pyarrow
    from pyarrow import parquet

    schema = columns.arrow()
    stored = [name for name in columns.names if name != "run_id"]
    for path in files:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(ROWS, columns=stored):
                run = pyarrow.repeat(pyarrow.scalar(run_id, pyarrow.string()), batch.num_rows)
                of = {**{name: batch.column(name) for name in stored}, "run_id": run}
                yield pyarrow.RecordBatch.from_arrays([of[name] for name in columns.names], schema=schema)


def frame_of(session: Any, parts: Parts, where: str, run_id: str) -> DataFrame:
    """The records of parts, whose folder has the address ``where``, as a frame of the session with the columns of OFFSET_LOG."""
    rows: DataFrame = (
        session.of_parquet(parts.files, STORED.names)
        if is_in_process(session)
        else session.read.schema(STORED.spark()).parquet(where)
    )
    with engine_of(rows):
        return rows.select(functions.lit(run_id).alias("run_id"), *rows.columns)
