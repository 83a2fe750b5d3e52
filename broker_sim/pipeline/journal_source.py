"""The journal as a source of Spark's: `sim_journal`, batch and stream, and `sim_journal_skipped`, what of it can't be read.

    spark.read.format("sim_journal").load("JOURNAL")                               # a file, a directory, wildcards, a URI
    spark.readStream.format("sim_journal").option("runId", "friday").load("JOURNAL")

Options: ``path`` (several with commas between); ``runId``: the run's name (default: the directory's); ``body``: whether the column
`body` holds the whole line (default true; false is quicker); ``tasks``: how many tasks a batch is read in at most (default: as many as
this machine has cores).

Rules:
1. Rows are `EVENTS`. Lines that can't be read are rows of the type `skipped`, which say where they stand and why; a file that is no
   journal at all is one such row. Where no file is a journal, that is an error of one line.
2. A stream's offset is {"positions": {file: byte}, "journals": {file: number}}: up to the end of the last whole line of each file,
   which is known by its name without `.part`. So every line is read once over restarts, growing and rotated files included.
3. A file of which a stream has read and which is gone, or has become shorter, is told as a skipped row.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from broker_sim.pipeline.files import names_of
from broker_sim.pipeline.journal_events import Row, Where, batches, rows_of, skipped_row
from broker_sim.pipeline.journal_files import (
    JournalFile,
    JournalUnreadable,
    Range,
    complete_to,
    find,
    lines,
    number_journals,
    refusal,
    tasks,
)
from broker_sim.pipeline.schemas import SKIPPED
from broker_sim.pipeline.tables.events import EVENTS
from broker_sim.words import UsageError, unknown

__all__ = ["SimJournal", "SkippedJournal"]

_OPTIONS = ("path", "paths", "runId", "body", "tasks")


@dataclass(frozen=True)
class Options:
    """What a user may say. Raises UsageError."""

    paths: tuple[str, ...]
    run_id: str | None
    body: bool
    tasks: int

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Options:
        known = {name.lower(): name for name in _OPTIONS}
        given = {}
        for name, value in options.items():
            if name.lower() not in known:
                raise unknown("option of sim_journal", name, _OPTIONS)
            given[known[name.lower()]] = value
        body = given.get("body", "true").lower()
        if body not in ("true", "false"):
            raise UsageError(f"sim_journal: body is true or false, not {body!r}")
        number = given.get("tasks", str(os.cpu_count() or 1))
        if not number.isdecimal() or not 1 <= int(number) <= 100_000:
            raise UsageError(f"sim_journal: tasks is a number from 1 to 100000, not {number!r}")
        return cls(tuple(names_of(options)), given.get("runId"), body == "true", int(number))


class Ranges(InputPartition):
    """What one task reads."""

    def __init__(self, ranges: Sequence[Range]) -> None:
        super().__init__(None)
        self.ranges = tuple(ranges)


class SimJournal(DataSource):
    """`sim_journal`: see the module."""

    @classmethod
    def name(cls) -> str:
        return "sim_journal"

    def schema(self) -> Any:
        return EVENTS.spark()

    def reader(self, schema: Any) -> DataSourceReader:
        return JournalReader(Options.of(self.options), _names(schema))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return JournalStream(Options.of(self.options), _names(schema))


class SkippedJournal(DataSource):
    """`sim_journal_skipped`: see the module."""

    @classmethod
    def name(cls) -> str:
        return "sim_journal_skipped"

    def schema(self) -> Any:
        return SKIPPED.spark()

    def reader(self, schema: Any) -> DataSourceReader:
        return SkippedReader(replace(Options.of(self.options), body=False))


def _names(schema: Any) -> list[str]:
    """The columns that are asked for. Raises UsageError for one that isn't."""
    for name in schema.names:
        if name not in EVENTS.names:
            raise unknown("column of sim_journal", name, EVENTS.names)
    return list(schema.names)


class JournalReader(DataSourceReader):
    """A batch."""

    def __init__(self, options: Options, names: list[str]) -> None:
        self.options, self.names = options, names

    def partitions(self) -> list[Ranges]:
        files = number_journals(find(self.options.paths, self.options.run_id))
        if not files:
            raise JournalUnreadable(
                f"{', '.join(self.options.paths)}: no journal files (journal-000001.ndjson, or *.ndjson, *.jsonl)"
            )
        whole = [Range(file, 0, file.size, to_end=True, refused=refusal(file)) for file in files]
        if all(one.refused for one in whole):
            more = f", and {len(whole) - 1} more files like it" if len(whole) > 1 else ""
            raise JournalUnreadable(f"{whole[0].file.path} is {whole[0].refused}{more}")
        return [Ranges(task) for task in tasks(whole, self.options.tasks)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Ranges)
        return _chosen(batches(_rows(partition.ranges, self.options.body)), self.names)


class SkippedReader(JournalReader):
    """Of a batch what can't be read."""

    def __init__(self, options: Options) -> None:
        super().__init__(options, [])

    def read(self, partition: InputPartition) -> Iterator[Any]:
        import pyarrow

        assert isinstance(partition, Ranges)
        rows = (row for row in _rows(partition.ranges, body=False) if row["type"] == "skipped")
        for row in rows:
            values = {"run_id": row["run_id"], "file": row["file"], "position": row["position"], "bytes": row["bytes"]}
            yield pyarrow.RecordBatch.from_pylist([{**values, "reason": row["text"]}], schema=SKIPPED.arrow())


class JournalStream(DataSourceStreamReader):
    """A stream: every line once."""

    def __init__(self, options: Options, names: list[str]) -> None:
        self.options, self.names = options, names
        find(options.paths)  # says at once what is wrong

    def initialOffset(self) -> dict[str, Any]:
        return {"positions": {}, "journals": {}}

    def latestOffset(self, start: dict[str, Any] | None = None, limit: object = None) -> dict[str, Any]:
        begun = start or self.initialOffset()
        positions, journals = dict(begun["positions"]), dict(begun["journals"])
        for file in number_journals(find(self.options.paths, self.options.run_id), journals):
            known = positions.get(file.name, 0)
            try:
                end = file.size if refusal(file) else complete_to(file, known)
            except OSError:
                continue  # deleted meanwhile: told once a range of it is read
            if end > known:
                positions[file.name], journals[file.name] = end, file.journal
        return {"positions": positions, "journals": journals}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Ranges]:
        there = {file.name: file for file in find(self.options.paths, self.options.run_id)}
        ranges = []
        for name, position in end["positions"].items():
            begin = start["positions"].get(name, 0)
            if position > begin:
                ranges.append(self._range(there.get(name), name, begin, position, end["journals"].get(name, 1)))
        ranges.sort(key=lambda one: (one.file.run_id, one.file.number, one.file.name))
        return [Ranges(task) for task in tasks(ranges, self.options.tasks)]

    def _range(self, file: JournalFile | None, name: str, begin: int, end: int, journal: int) -> Range:
        if file is None:
            gone = JournalFile(name, self.options.run_id or "", 0, 0, journal)
            return Range(gone, begin, end, refused="the file is gone")
        file = replace(file, journal=journal)
        if file.size < end:
            return Range(file, begin, end, refused=f"the file had {end} bytes and has {file.size} now")
        return Range(file, begin, end, refused=refusal(file))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Ranges)
        return _chosen(batches(_rows(partition.ranges, self.options.body)), self.names)


def _rows(ranges: Iterable[Range], body: bool) -> Iterator[Row]:
    """The rows of a task."""
    for one in ranges:
        where = Where(one.file.run_id, one.file.journal, one.file.name, body)
        if one.refused:
            yield skipped_row(where, one.start or None, one.end - one.start, one.refused)
            continue
        read_to = one.start
        try:
            for row in rows_of(lines(one), where):
                read_to = row["position"]
                yield row
        except OSError as error:
            yield skipped_row(where, read_to, one.end - read_to, f"can't be read: {error.strerror or error}")


def _chosen(found: Iterable[Any], names: list[str]) -> Iterator[Any]:
    """Of record batches the columns that are asked for."""
    for batch in found:
        yield batch if names == list(EVENTS.names) else batch.select(names)
