"""A database in memory in the place of a SparkSession: reads the pipeline's sources, keeps frames, writes Parquet.

    session = DuckSession()
    log = session.read.format("consumer_offsets").load("DIR")
    coordinator_hotspots(log).collect()

Rules:
1. Sources are decoded by the readers that Spark's sources are made of, in this process.
2. The database is this session's alone, and forgotten with it. It uses the threads that the machine has; queries come one at a time.
3. It takes `MEMORY` at most: what is more waits in a temporary directory, which goes with the session.
"""

from __future__ import annotations

import importlib.util
import os
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count
from pathlib import Path
from typing import Any

from broker_sim.common.text import UsageError
from broker_sim.pipeline import files
from broker_sim.pipeline.duck.frames import Frame
from broker_sim.pipeline.journal_events import batches as batches_of
from broker_sim.pipeline.journal_events import rows_in
from broker_sim.pipeline.journal_files import whole
from broker_sim.pipeline.offset_logs import find_logs, share_out
from broker_sim.pipeline.schemas import OFFSET_LOG, TableSchema
from broker_sim.pipeline.segments import read_offsets
from broker_sim.pipeline.tables.events import EVENTS

__all__ = ["DuckMissing", "DuckReader", "DuckSession", "is_installed"]

MEMORY = 1 << 30
"""Bytes that the database may hold in memory, on a machine with four times as much; else a quarter of what it has."""
BATCH = 32 * 1024
"""Rows of an Arrow batch."""
NEEDED = ("duckdb", "pyarrow", "numpy")
_numbers = count(1)


class DuckMissing(UsageError):
    """DuckDB, pyarrow or NumPy is not installed; one line."""


def is_installed() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in NEEDED)


def need_duckdb() -> None:
    """Raises DuckMissing unless DuckDB can be imported."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise DuckMissing(f"{' and '.join(missing)} not installed; this needs: pip install 'broker-sim[pipeline]'")


class DuckSession:
    """See the module. Raises DuckMissing."""

    def __init__(self) -> None:
        need_duckdb()
        import duckdb

        self.place = Path(tempfile.gettempdir(), f"broker-sim-{secrets.token_hex(8)}")
        """A directory that goes with the session, made when something has to wait there."""
        self._forget = weakref.finalize(self, shutil.rmtree, self.place, ignore_errors=True)
        self.connection: Any = duckdb.connect(":memory:")
        self._do(f"SET temp_directory = {_text(str(self.place))}")
        self._do("SET TimeZone = 'UTC'")
        self._do(f"SET memory_limit = '{min(MEMORY, _physical_bytes() // 4) >> 20}MiB'")
        self.version: str = duckdb.__version__

    def of_arrow(self, table: Any) -> Frame:
        """A frame of a pyarrow.Table or a RecordBatchReader, copied into the database."""
        name = f"t{next(_numbers)}"
        self.connection.register("arriving", table)
        self._do(f"CREATE TABLE {name} AS SELECT * FROM arriving")
        self.connection.unregister("arriving")
        return Frame(self, f"SELECT * FROM {name}", table.schema.names)

    def read_through(self, frame: Frame) -> Any:
        """The frame's rows as a pyarrow.RecordBatchReader, which reads on while other queries of the session run."""
        return self.connection.cursor().sql(frame.sql()).to_arrow_reader(BATCH)

    def of_batches(self, batches: Iterable[Any], schema: Any) -> Frame:
        """As `of_arrow`, batch by batch: no more than a few of them are in memory."""
        import pyarrow

        return self.of_arrow(pyarrow.RecordBatchReader.from_batches(schema, batches))

    def of_parquet(self, paths: Sequence[str], columns: Iterable[str]) -> Frame:
        """A frame of Parquet files, which are read whenever its rows are asked for."""
        listed = ", ".join(_text(path) for path in paths)
        return Frame(self, f"SELECT * FROM read_parquet([{listed}], hive_partitioning = false)", columns)

    def kept(self, frame: Frame) -> Frame:
        """The frame with its rows computed and stored in the database."""
        name = f"t{next(_numbers)}"
        self._do(f"CREATE TABLE {name} AS {frame.sql()}")
        return Frame(self, f"SELECT * FROM {name}", frame.columns)

    @property
    def read(self) -> DuckReader:
        return DuckReader(self)

    def written(self, frame: Frame, where: str) -> Frame:
        """The frame, computed, and as one Parquet file in a folder of this machine (a path or a `file:` address). Raises UsageError."""
        kept = self.kept(frame)
        folder = Path(files.local_path(where) or where)
        place = _text(str(folder / "part-00000.parquet"))
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._do(f"COPY ({kept.sql()}) TO {place} (FORMAT parquet, COMPRESSION snappy)")
        except OSError as error:
            raise UsageError(f"{folder}: {error.strerror or error}") from None
        return kept

    def _do(self, statement: str) -> None:
        """Run a statement and read its result to the end: an unread result keeps a connection of DuckDB 2 busy."""
        self.connection.execute(statement).fetchall()

    def stop(self) -> None:
        self.connection.close()
        self._forget()


def _text(words: str) -> str:
    """A string as SQL writes it."""
    escaped = words.replace("'", "''")
    return f"'{escaped}'"


def _physical_bytes(unknown: int = 4 * MEMORY) -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Windows has no sysconf
        return unknown


class DuckReader:
    """``session.read.format("consumer_offsets").option("runId", "friday").load("DIR")``, as Spark has it: the same formats, of whose
    options those that choose what is read (`runId`, `body`)."""

    def __init__(self, session: DuckSession) -> None:
        self._session, self._format, self._options = session, "", {"body": "true"}

    def format(self, name: str) -> DuckReader:
        self._format = name
        return self

    def option(self, name: str, value: str) -> DuckReader:
        self._options[name] = value
        return self

    def load(self, path: str) -> Frame:
        """Read the source's rows below ``path`` into a frame. Raises UsageError."""
        run_id = self._options.get("runId")
        body = self._options["body"] == "true"
        if self._format == "sim_journal":
            table, batches = EVENTS, batches_of(rows_in(whole([path], run_id), body), EVENTS)
        else:
            table, batches = {"consumer_offsets": _offsets}[self._format](path, run_id)
        return self._session.of_batches(batches, table.arrow())


def _offsets(path: str, run_id: str | None) -> tuple[TableSchema, Iterator[Any]]:
    slices = [part for share in share_out(find_logs([path], run_id).logs, 1) for part in share]
    read = (read_offsets(part.path, start=part.start, end=part.end, run_id=part.run_id) for part in slices)
    return OFFSET_LOG, chain.from_iterable(read)
