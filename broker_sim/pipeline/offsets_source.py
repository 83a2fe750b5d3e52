"""The offsets log as a source of Spark's: `consumer_offsets`, batch and stream; `consumer_offsets_skipped`: what can't be read.

    spark.read.format("consumer_offsets").load("DIR")                       # rows of OFFSET_LOG
    spark.readStream.format("consumer_offsets").option("maxOffsetsPerTrigger", "100000").load("DIR")
    spark.read.format("consumer_offsets").schema("`group` string, log_offset bigint").load("DIR")   # quicker: those columns alone

Paths: a data directory of the simulator or a copy of a broker's, one `__consumer_offsets-N` folder, one of its `.log` files,
patterns of them (`runs/*`), several with commas between; `file:` URIs; `hdfs://`, `s3a://` and so on as far as Arrow opens them.

Options (of both formats, unless noted):
  runId                 the run's name; default: the data directory's own. With it all that is read is one run's
  mode                  `permissive` (default): what can't be read is left out, and reported by consumer_offsets_skipped;
                        `failfast`: it is an error with file, position and reason
  tasks                 into how many tasks the bytes are shared out at most (default: the session's default parallelism)
  maxOffsetsPerTrigger  stream: about how many offsets a micro-batch reaches further (default: to the end)
  startingOffsets       stream: `earliest` (default) or `latest`; what a checkpoint knows goes on from there

A stream's offset is {"RUN/N": the next offset of partition N of __consumer_offsets}, not bytes: so every record that is there is
read once over restarts, whether its segment grows, is rolled or rewritten by the cleaner meanwhile. A batch that is only half
written is read when it is whole. What compaction removes before it is read is never seen.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from broker_sim.common.text import UsageError, unknown
from broker_sim.pipeline.files import names_of
from broker_sim.pipeline.offset_logs import LEAST_BYTES, Log, Slice, find_logs, packed, share_out
from broker_sim.pipeline.record_batches import gathered
from broker_sim.pipeline.schemas import OFFSET_LOG, SKIPPED, TableSchema
from broker_sim.pipeline.segments import SegmentEnd, SegmentFile, Skipped, next_offset, read_offsets

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:  # before 4.2 that trigger reads all there is in one batch

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        pass


__all__ = ["TASKS", "ConsumerOffsets", "SkippedOffsets"]

TASKS = "BROKER_SIM_TASKS"
"""Environment variable of Spark's Python workers: the session's default parallelism, which they can't ask for."""

MOST_ROWS = 32 * 1024
"""Batches of fewer rows are put together up to that."""

Offsets = dict[str, int]
Hint = tuple[int, int]
_MODES = ("permissive", "failfast")
_STARTS = ("earliest", "latest")


# ------------------------------------------------------------------------------------------------ options


@dataclass(frozen=True)
class OffsetsOptions:
    """Options of the sources `consumer_offsets` and `consumer_offsets_skipped`, as a user sets them."""

    paths: tuple[str, ...]
    run_id: str | None
    fail_fast: bool
    tasks: int
    most_offsets: int | None
    from_latest: bool

    @classmethod
    def of(cls, given: Mapping[str, str]) -> OffsetsOptions:
        """The options of a `spark.read`, their names in any case. Raises UsageError."""
        named = ("path", "paths", "runId", "mode", "tasks", "maxOffsetsPerTrigger", "startingOffsets")
        known = {name.lower(): name for name in named}
        options: dict[str, str] = {}
        for name, value in given.items():
            if name.lower() not in known:
                raise unknown("option", name, named, of="consumer_offsets")
            options[known[name.lower()]] = value
        return cls(
            tuple(names_of(options)),
            options.get("runId"),
            _choice("mode", options.get("mode", "permissive"), _MODES) == "failfast",
            _number("tasks", options.get("tasks")) or int(os.environ.get(TASKS) or os.cpu_count() or 1),
            _number("maxOffsetsPerTrigger", options.get("maxOffsetsPerTrigger")),
            _choice("startingOffsets", options.get("startingOffsets", "earliest"), _STARTS) == "latest",
        )

    def logs(self) -> list[Log]:
        """Logs below the paths. Raises UsageError."""
        logs = find_logs(self.paths, self.run_id)
        if self.fail_fast and logs.skipped:
            raise UsageError(_skipped_text(logs.skipped[0]))
        return logs.logs


def _choice(name: str, value: str, known: tuple[str, ...]) -> str:
    if value.lower() not in known:
        raise unknown(name, value, known, of="consumer_offsets")
    return value.lower()


def _number(name: str, value: str | None) -> int | None:
    if value is None:
        return None
    if not value.isdecimal() or int(value) < 1:
        raise UsageError(f"{name} of consumer_offsets: {value!r} is not a whole number from 1 on")
    return int(value)


def _skipped_text(skipped: Skipped) -> str:
    return f"{skipped.file}{'' if skipped.position is None else f' at position {skipped.position}'}: {skipped.reason}"


# ------------------------------------------------------------------------------------------------ sources


class ConsumerOffsets(DataSource):
    """Spark's data source `consumer_offsets`, batch and stream; see the module."""

    @classmethod
    def name(cls) -> str:
        return "consumer_offsets"

    def schema(self) -> Any:
        return OFFSET_LOG.spark()

    def reader(self, schema: Any) -> DataSourceReader:
        return OffsetsReader(OffsetsOptions.of(self.options), _chosen(schema))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return OffsetsStream(OffsetsOptions.of(self.options), _chosen(schema))


class SkippedOffsets(DataSource):
    """`consumer_offsets_skipped`: see the module. It reads all that `consumer_offsets` reads, to find out."""

    @classmethod
    def name(cls) -> str:
        return "consumer_offsets_skipped"

    def schema(self) -> Any:
        return SKIPPED.spark()

    def reader(self, schema: Any) -> DataSourceReader:
        return SkippedOffsetsReader(OffsetsOptions.of(self.options))


def _chosen(schema: Any) -> TableSchema:
    """The columns of a schema that a user gave. Raises UsageError."""
    for field in schema.fields:
        if field.name not in OFFSET_LOG.names:
            raise unknown("column", field.name, OFFSET_LOG.names, of="consumer_offsets")
        kind = str(OFFSET_LOG[field.name].type)
        if field.dataType.simpleString() != kind:
            raise UsageError(
                f"column {field.name} of consumer_offsets is {kind}, not {field.dataType.simpleString()}; cast what was read"
            )
    return OFFSET_LOG.only(schema.names)


class OffsetsPartition(InputPartition):
    """The slices of offsets logs that one task of Spark reads."""

    def __init__(self, slices: Iterable[Slice], skipped: Iterable[tuple[str | None, Skipped]] = ()) -> None:
        super().__init__(None)
        self.slices, self.skipped = tuple(slices), tuple(skipped)


class _PartitionReading:
    """Reader of the rows of a share, for batch and stream alike."""

    def __init__(self, options: OffsetsOptions, table: TableSchema) -> None:
        self.options, self.table = options, table

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, OffsetsPartition)
        for table in gathered(self._rows(partition), MOST_ROWS):
            yield from table.combine_chunks().to_batches()

    def _rows(self, share: OffsetsPartition) -> Iterator[Any]:
        report = _fail if self.options.fail_fast else _ignore_skipped
        for part in share.slices:
            yield from read_offsets(
                part.path,
                start=part.start,
                end=part.end,
                run_id=part.run_id,
                table=self.table,
                skipped=report,
                hint=part.hint,
            )


class OffsetsReader(_PartitionReading, DataSourceReader):
    """Reads all of the logs as one batch."""

    def partitions(self) -> list[InputPartition]:
        return [OffsetsPartition(slices) for slices in share_out(self.options.logs(), self.options.tasks)] or [
            OffsetsPartition([])
        ]


class SkippedOffsetsReader(DataSourceReader):
    """The unreadable parts of a batch. Those known from names and folders are found when tasks are planned."""

    def __init__(self, options: OffsetsOptions) -> None:
        self.options = options

    def partitions(self) -> list[InputPartition]:
        logs = find_logs(self.options.paths, self.options.run_id)
        run_id = self.options.run_id
        skipped = [(run_id or _run_of(entry.file, logs.logs), entry) for entry in logs.skipped]
        shares: list[InputPartition] = [OffsetsPartition(slices) for slices in share_out(logs.logs, self.options.tasks)]
        return [OffsetsPartition([], skipped), *shares]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, OffsetsPartition)
        skipped_parts: list[tuple[str | None, Skipped]] = list(partition.skipped)
        for part in partition.slices:
            mine: list[Skipped] = []
            for _ in read_offsets(
                part.path, start=part.start, end=part.end, table=OFFSET_LOG.only(["log_offset"]), skipped=mine.append
            ):
                pass
            skipped_parts += [(part.run_id, skipped) for skipped in mine]
        for run_id, skipped in skipped_parts:
            yield (run_id, *skipped)


def _run_of(file: str, logs: Iterable[Log]) -> str | None:
    """The run below whose directory a folder lies, if there is one."""
    return next((log.run_id for log in logs if file.startswith(log.path.rpartition("/")[0])), None)


def _ignore_skipped(skipped: Skipped) -> None:
    """Ignores it: the format `consumer_offsets_skipped` reports it."""


def _fail(skipped: Skipped) -> None:
    raise UsageError(_skipped_text(skipped))


# ------------------------------------------------------------------------------------------------ stream


@dataclass
class _LogEnd:
    """Position up to which a log has been read: its last segment, and the end of that segment's whole batches."""

    segment: SegmentFile
    reached: SegmentEnd


class OffsetsStream(_PartitionReading, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream. It remembers where logs ended when it last looked, to look at what is new alone; nothing hangs on it."""

    def __init__(self, options: OffsetsOptions, table: TableSchema) -> None:
        super().__init__(options, table)
        self.ends: dict[str, _LogEnd] = {}
        self.hints: dict[str, dict[int, Hint]] = {}
        self.target: Offsets | None = None

    def initialOffset(self) -> Offsets:
        return self._ends() if self.options.from_latest else {}

    def getDefaultReadLimit(self) -> Any:
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

        most = self.options.most_offsets
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        self.target = self._ends()

    def reportLatestOffset(self) -> Offsets | None:
        return {key: end.reached.offset for key, end in self.ends.items()} or None

    def latestOffset(self, start: Offsets | None = None, limit: object = None) -> Offsets:
        """Offsets at which the logs end, no further than the limit allows, and never before ``start``."""
        begin = start or {}
        latest = begin | {key: max(end, begin.get(key, 0)) for key, end in self._ends().items()}
        if self.target is not None:
            latest = {key: max(begin.get(key, 0), min(end, self.target.get(key, 0))) for key, end in latest.items()}
        most = getattr(limit, "max_rows", None)
        return latest if start is None or most is None else _limited(begin, latest, most)

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        logs = {log.key: log for log in self.options.logs()}
        wanted = {key: logs[key] for key in sorted(end) if key in logs and end[key] > start.get(key, 0)}
        slices = [self._slice(log, start.get(key, 0), end[key]) for key, log in wanted.items()]
        tasks = max(1, min(self.options.tasks, -(-sum(part.size for part in slices) // LEAST_BYTES)))
        return [OffsetsPartition(share) for share in packed(slices, tasks)] or [OffsetsPartition([])]

    def _slice(self, log: Log, start: int, end: int) -> Slice:
        hints = self.hints.get(log.key, {})
        self.hints[log.key] = {offset: hint for offset, hint in hints.items() if offset >= start}
        first, last = hints.get(start), hints.get(end)
        size = last[1] - first[1] if first is not None and last is not None and first[0] == last[0] else log.size
        return Slice(log.path, log.run_id, start, end, first, size)

    def _ends(self) -> Offsets:
        return {log.key: self._end_of(log) for log in self.options.logs() if log.segments}

    def _end_of(self, log: Log) -> int:
        last = log.segments[-1]
        known = self.ends.get(log.key)
        reached = known.reached if known is not None and known.segment.base == last.base else None
        if reached is None or last.size != reached.position:
            try:
                reached = next_offset(last, reached)
            except OSError:  # it has been cleaned since it was listed, or can't be read: perhaps next time
                return known.reached.offset if known is not None else last.base
            self.ends[log.key] = _LogEnd(last, reached)
            self.hints.setdefault(log.key, {})[reached.offset] = (last.base, reached.position)
        return reached.offset


def _limited(start: Offsets, latest: Offsets, most: int) -> Offsets:
    """Each log goes on by its share of ``most``, by what is left of it; by one at least, so that none waits for ever."""
    left = {key: end - start.get(key, 0) for key, end in latest.items()}
    total = sum(left.values())
    if total <= most:
        return latest
    return {key: start.get(key, 0) + min(more, -(-more * most // total)) for key, more in left.items()}
