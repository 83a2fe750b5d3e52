"""Streams whose batches are appended to Parquet, each line of the input once, over restarts.

    events = AppendedStream(spark, EVENTS, "run-1", folder, checkpoint, lock)
    events.begin(frame, every_ms=2000, then=lambda batch: ...)     # a streaming DataFrame; `then` gets each batch as it was written
    events.frame()                                                 # all that was appended, as a batch DataFrame
    events.stop()

Rules:
1. Batch N of a stream is the folder ``batch=N``, written whole. A batch that was interrupted is asked for again by Spark under the same
   number, with the same input, and takes the place of what was left of it: nothing is there twice, nothing is lost.
2. That holds as long as folder and checkpoint belong together; `watch` sees to it.
3. Writing and reading take turns by ``lock``: no reader sees a batch that is half written. `then` is called while it is held.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker_sim.pipeline.schemas import TableSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["AppendedStream", "StreamFailed"]


class _Stopping(RuntimeError):
    """A batch that came when the stream was being stopped: Spark asks for it again at the next start."""


class StreamFailed(RuntimeError):
    """A stream ended by itself; the text is what Spark says of it, in a line."""


class AppendedStream:
    """One stream of one run. ``folder``: where its batches go, as Spark writes it; ``batches``: how many this process has appended."""

    def __init__(
        self, spark: Any, table: TableSchema, run_id: str, folder: str, checkpoint: str, lock: threading.RLock
    ) -> None:
        self.spark, self.table, self.run_id, self.folder, self.checkpoint = spark, table, run_id, folder, checkpoint
        self.batches = 0
        self._lock = lock
        self._then: Callable[[DataFrame], object] = lambda batch: None
        self._query: Any = None
        self._begun: tuple[DataFrame, int] | None = None
        self._ours: BaseException | None = None
        self._stopping = False

    @property
    def begun(self) -> bool:
        return self._query is not None

    def begin(self, frame: DataFrame, every_ms: int, then: Callable[[DataFrame], object]) -> None:
        """Let the stream run: a batch every ``every_ms``, if there is anything new."""
        self._then, self._begun = then, (frame, every_ms)
        writer = frame.writeStream.queryName(f"broker-sim {self.table.name}").foreachBatch(self._take)
        writer = writer.option("checkpointLocation", self.checkpoint)
        self._query = writer.trigger(processingTime=f"{every_ms} milliseconds").start()

    def restart(self) -> None:
        """After `check` has raised: go on where the checkpoint says; the batch that failed comes again (rule 1)."""
        assert self._begun is not None
        self._ours = None
        self.begin(*self._begun, self._then)

    def _take(self, batch: DataFrame, number: int) -> None:
        """On a thread of Spark's: append a batch."""
        with self._lock:
            if self._stopping:
                raise _Stopping
            path = f"{self.folder}/batch={number:08d}"
            self.table.conform(batch).drop("run_id").write.mode("overwrite").parquet(path)
            self.batches += 1
            try:
                self._then(self._read(path))
            except Exception as error:  # Spark would log it as a Java exception of many lines
                self._ours = error
                raise

    def frame(self) -> DataFrame:
        """All batches. The lock is to be held while the frame is used."""
        if not self.is_there():
            nothing: DataFrame = self.table.frame(self.spark)
            return nothing
        return self._read(f"{self.folder}/batch=*")

    def _read(self, path: str) -> DataFrame:
        """Batches with their run: other readers know it from the name of the folder above."""
        from pyspark.sql import functions as f

        table = self.table.only(name for name in self.table.names if name != "run_id")
        rows = self.spark.read.schema(table.spark()).parquet(path).withColumn("run_id", f.lit(self.run_id))
        selected: DataFrame = rows.select(*self.table.names)
        return selected

    def is_there(self) -> bool:
        """Whether any batch was appended, by whomever."""
        jvm = self.spark.sparkContext._jvm
        path = jvm.org.apache.hadoop.fs.Path(f"{self.folder}/batch=*")
        batches = path.getFileSystem(self.spark.sparkContext._jsc.hadoopConfiguration()).globStatus(path)
        return batches is not None and len(batches) > 0

    def check(self) -> None:
        """Raises StreamFailed where the stream has ended by itself."""
        if self._query is None or self._query.isActive:
            return
        if self._ours is not None:
            raise self._ours
        error = self._query.exception()
        if error is not None:
            raise StreamFailed(_in_a_line(str(error)))

    def caught_up(self) -> None:
        """Returns when all input that is there now has been appended."""
        if self._query is not None:
            self._query.processAllAvailable()

    def stop(self) -> None:
        """End the stream. A batch that is under way is brought to its end, one that has just begun is the next start's first."""
        query, self._query = self._query, None
        if query is None:
            return
        context = self.spark.sparkContext
        with self._lock:
            self._stopping = True
        context.setLogLevel("OFF")  # Spark logs a batch that gives up as an error, with a hundred lines
        try:
            query.stop()
        finally:
            context.setLogLevel("ERROR")


def _in_a_line(text: str) -> str:
    """Line of a Java exception that describes it best."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "Error: " in line or "Unreadable: " in line]
    return (errors or lines or ["it ended without a word"])[-1 if errors else 0][:400]
