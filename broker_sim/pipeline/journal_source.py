"""The journal as a source of Spark's: `sim_journal`, batch and stream, and `sim_journal_skipped`, what of it can't be read.

    spark.read.format("sim_journal").load("JOURNAL")
    spark.readStream.format("sim_journal").option("runId", "friday").option("maxBytesPerTrigger", "64000000").load("JOURNAL")
    spark.read.format("sim_journal").schema("run_id string, seq bigint, type string").load("JOURNAL")   # those columns alone

Paths: a journal file, a directory with all journals that are below it, patterns (`runs/*`), several with commas between; `file:` URIs;
`hdfs://`, `s3a://` and so on as far as Arrow opens them.

Options (of both formats, unless noted):
  runId               the run's name; default: the directory's
  body                whether the column `body` holds the whole line; default `true`, `false` is quicker
  tasks               how many tasks a batch is read in at most (default: the session's default parallelism)
  maxBytesPerTrigger  stream: about how many bytes a micro-batch reads at most (default: to the end)
  startingOffsets     stream: `earliest` (default) or `latest`; what a checkpoint knows goes on from there

Rules:
1. Rows are `EVENTS`. Lines that can't be read are rows of the type `skipped`, which say where they stand and why; a file that is no
   journal at all is one such row. Where no file is a journal, that is an error of one line.
2. A stream's offset is {"positions": {file: byte}, "journals": {file: number}}: up to the end of the last whole line of each file,
   which is known by its name without `.part`. So every line is read once over restarts, growing and rotated files included; a line
   that has no end yet is waited for.
3. A file that a stream has read from and that is deleted or truncated then is reported as a skipped row.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from broker_sim.common.text import UsageError, unknown
from broker_sim.pipeline.files import base_name, names_of, parent
from broker_sim.pipeline.journal_events import batches, rows_in
from broker_sim.pipeline.journal_files import (
    JournalFile,
    Range,
    complete_to,
    find,
    number_journals,
    refusal,
    tasks,
    whole,
)
from broker_sim.pipeline.offsets_source import TASKS
from broker_sim.pipeline.schemas import SKIPPED
from broker_sim.pipeline.tables.events import EVENTS

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:  # before 4.2 that trigger reads all there is in one batch

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        pass


__all__ = ["SimJournal", "SkippedJournal"]

_OPTIONS = ("path", "paths", "runId", "body", "tasks", "maxBytesPerTrigger", "startingOffsets")
_STARTS = ("earliest", "latest")

Offsets = dict[str, Any]


@dataclass(frozen=True)
class JournalOptions:
    """Options of the sources `sim_journal` and `sim_journal_skipped`, as a user sets them."""

    paths: tuple[str, ...]
    run_id: str | None
    body: bool
    tasks: int
    most_bytes: int | None
    from_latest: bool

    @classmethod
    def of(cls, given: Mapping[str, str]) -> JournalOptions:
        """The options of a `spark.read`, their names in any case. Raises UsageError."""
        known = {name.lower(): name for name in _OPTIONS}
        options = {}
        for name, value in given.items():
            if name.lower() not in known:
                raise unknown("option", name, _OPTIONS, of="sim_journal")
            options[known[name.lower()]] = value
        return cls(
            tuple(names_of(options)),
            options.get("runId"),
            _choice("body", options.get("body", "true"), ("true", "false")) == "true",
            _number("tasks", options.get("tasks")) or int(os.environ.get(TASKS) or os.cpu_count() or 1),
            _number("maxBytesPerTrigger", options.get("maxBytesPerTrigger")),
            _choice("startingOffsets", options.get("startingOffsets", "earliest"), _STARTS) == "latest",
        )

    def files(self) -> list[JournalFile]:
        """Journal files below the paths. Raises UsageError."""
        return find(self.paths, self.run_id)


def _choice(name: str, value: str, known: tuple[str, ...]) -> str:
    if value.lower() not in known:
        raise unknown(name, value, known, of="sim_journal")
    return value.lower()


def _number(name: str, value: str | None) -> int | None:
    if value is None:
        return None
    if not value.isdecimal() or int(value) < 1:
        raise UsageError(f"{name} of sim_journal: {value!r} is not a whole number from 1 on")
    return int(value)


class JournalPartition(InputPartition):
    """The byte ranges of journal files that one task of Spark reads."""

    def __init__(self, ranges: Sequence[Range]) -> None:
        super().__init__(None)
        self.ranges = tuple(ranges)


class SimJournal(DataSource):
    """Spark's data source `sim_journal`, batch and stream; see the module."""

    @classmethod
    def name(cls) -> str:
        return "sim_journal"

    def schema(self) -> Any:
        return EVENTS.spark()

    def reader(self, schema: Any) -> DataSourceReader:
        return JournalReader(JournalOptions.of(self.options), _names(schema))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return JournalStream(JournalOptions.of(self.options), _names(schema))


class SkippedJournal(DataSource):
    """Spark's data source `sim_journal_skipped`, batch only; see the module."""

    @classmethod
    def name(cls) -> str:
        return "sim_journal_skipped"

    def schema(self) -> Any:
        return SKIPPED.spark()

    def reader(self, schema: Any) -> DataSourceReader:
        return SkippedJournalReader(replace(JournalOptions.of(self.options), body=False))


def _names(schema: Any) -> list[str]:
    """The columns that are asked for, in the user's words. Raises UsageError for one that isn't."""
    for name in schema.names:
        if name not in EVENTS.names:
            raise unknown("column", name, EVENTS.names, of="sim_journal")
    return list(schema.names)


class _RangeReading:
    """Reader of the rows of ranges, for batch and stream alike."""

    def __init__(self, options: JournalOptions, names: list[str]) -> None:
        self.options, self.names = options, names
        self.columns = EVENTS.only(names)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, JournalPartition)
        body = self.options.body and "body" in self.names
        for batch in batches(rows_in(partition.ranges, body), self.columns):
            yield batch.rename_columns(self.names)


class JournalReader(_RangeReading, DataSourceReader):
    """Reads all of a journal as one batch."""

    def partitions(self) -> list[JournalPartition]:
        return [
            JournalPartition(task) for task in tasks(whole(self.options.paths, self.options.run_id), self.options.tasks)
        ]


class SkippedJournalReader(JournalReader):
    """Batch reader of the lines that can't be read."""

    def __init__(self, options: JournalOptions) -> None:
        super().__init__(options, [])

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, JournalPartition)
        for row in rows_in(partition.ranges, body=False):
            if row["type"] == "skipped":
                yield row["run_id"], row["file"], row["position"], row["bytes"], row["text"]


class JournalStream(_RangeReading, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream: every line once. It remembers which files it has looked at, to look no further at those that are done; nothing hangs
    on it."""

    def __init__(self, options: JournalOptions, names: list[str]) -> None:
        super().__init__(options, names)
        self.options.files()  # says at once what is wrong
        self.judged: dict[str, str] = {}
        self.target: Offsets | None = None

    def initialOffset(self) -> Offsets:
        return self._ends(_nowhere()) if self.options.from_latest else _nowhere()

    def getDefaultReadLimit(self) -> Any:
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

        most = self.options.most_bytes
        return ReadAllAvailable() if most is None else ReadMaxBytes(most)

    def prepareForTriggerAvailableNow(self) -> None:
        self.target = self._ends(_nowhere())

    def latestOffset(self, start: Offsets | None = None, limit: object = None) -> Offsets:
        """Offsets at which the last whole lines end, no further than the limit allows."""
        return self._ends(start or _nowhere(), getattr(limit, "max_bytes", None), self.target)

    def _ends(self, start: Offsets, most: int | None = None, target: Offsets | None = None) -> Offsets:
        positions, journals = dict(start["positions"]), dict(start["journals"])
        for file in number_journals(self.options.files(), journals):
            known = positions.get(file.name, 0)
            if target is not None:
                file = replace(file, size=min(file.size, target["positions"].get(file.name, 0)))
            if file.size <= known or most == 0:
                continue
            try:
                end = file.size if self._refused(file) else complete_to(file, known, most)
            except OSError:
                continue  # deleted meanwhile: reported when a range of it is read
            if end > known:
                positions[file.name], journals[file.name] = end, file.journal
                most = None if most is None else max(0, most - (end - known))
        return {"positions": positions, "journals": journals}

    def _refused(self, file: JournalFile) -> str:
        """Reason why a file is no journal; "" if it is one, which is not checked again."""
        if self.judged.get(file.name) != "":
            self.judged[file.name] = refusal(file)
        return self.judged[file.name]

    def partitions(self, start: Offsets, end: Offsets) -> list[JournalPartition]:
        there = {file.name: file for file in self.options.files()}
        ranges = []
        for name, position in end["positions"].items():
            begin = start["positions"].get(name, 0)
            if position > begin:
                ranges.append(self._range(there.get(name), name, begin, position, end["journals"].get(name, 1)))
        ranges.sort(key=lambda range_: (range_.file.run_id, range_.file.number, range_.file.name))
        return [JournalPartition(task) for task in tasks(ranges, self.options.tasks)]

    def _range(self, file: JournalFile | None, name: str, begin: int, end: int, journal: int) -> Range:
        if file is None:
            missing = JournalFile(name, self.options.run_id or base_name(parent(name)), 0, 0, journal)
            return Range(missing, begin, end, refused="the file was deleted")
        file = replace(file, journal=journal)
        if file.size < end:
            return Range(file, begin, end, refused=f"the file had {end} bytes and has {file.size} now")
        return Range(file, begin, end, refused=self._refused(file))


def _nowhere() -> Offsets:
    return {"positions": {}, "journals": {}}
