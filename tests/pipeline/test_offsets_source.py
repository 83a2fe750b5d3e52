"""`consumer_offsets` in Spark: batch and stream give every record once, whatever happens to the files and to the query."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_sim.common.text import UsageError
from broker_sim.pipeline.offsets_source import ConsumerOffsets, OffsetsOptions, OffsetsStream
from broker_sim.pipeline.schemas import OFFSET_LOG
from broker_sim.pipeline.segments import read_offsets
from broker_sim.storage import partition_for
from tests.importing.logs import NOW_MS, batch_of, commit, group_of, write_log

pytestmark = pytest.mark.spark

OFFSETS = "__consumer_offsets"
GROUPS = ("billing", "audit", "mail")


class Logs:
    """A data directory that grows as a broker's does: each group's commits in its partition, offsets that count up."""

    def __init__(self, directory: Path, partitions: int = 4) -> None:
        self.directory, self.partitions = directory, partitions
        self.ends: dict[int, int] = {}
        self.base: dict[int, int] = {}
        self.expected: list[tuple[int, int]] = []
        """(log partition, log offset) of every record that was ever appended."""

    def path(self, group: str) -> Path:
        index = partition_for(group, self.partitions)
        return self.directory / f"{OFFSETS}-{index}" / f"{self.base.get(index, 0):020d}.log"

    def append(self, group: str, count: int = 2, *, half: bool = False) -> bytes:
        """A batch of commits at the end of the group's log; ``half``: its first half, and what is missing is given back."""
        index = partition_for(group, self.partitions)
        at = self.ends.get(index, 0)
        data = batch_of([commit(group, "orders", n, at + n) for n in range(count)], at)
        self.ends[index] = at + count
        self.expected += [(index, at + n) for n in range(count)]
        path = self.path(group)
        path.parent.mkdir(parents=True, exist_ok=True)
        cut = len(data) // 2 if half else len(data)
        with path.open("ab") as file:
            file.write(data[:cut])
        return data[cut:]

    def roll(self, group: str) -> None:
        index = partition_for(group, self.partitions)
        self.base[index] = self.ends[index]
        self.path(group).write_bytes(b"")

    def clean(self, group: str) -> None:
        """All segments but the active one become one, as after a clean that had nothing to remove: other bytes, other files."""
        folder = self.path(group).parent
        *old, _ = sorted(folder.glob("*.log"))
        records = [
            commit(row["group"], row["topic"], row["partition"], row["committed_offset"])
            for rows in read_offsets(str(folder))
            for row in rows.to_pylist()
            if row["log_offset"] < int(_.stem)
        ]
        merged = b"".join(batch_of([pair], at) for at, pair in enumerate(records))
        for path in old:
            path.unlink()
        old[0].write_bytes(merged)


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    logs = Logs(tmp_path / "data")
    for group in GROUPS:
        logs.append(group)
    return logs


def reading(spark: Any, path: Path | str, **options: Any) -> Any:
    return spark.read.format("consumer_offsets").options(**options).load(str(path))


def places(rows: list[Any]) -> list[tuple[int, int]]:
    return sorted((row["log_partition"], row["log_offset"]) for row in rows)


# ------------------------------------------------------------------------------------------------ batch


def test_a_directory_becomes_rows(spark: Any, logs: Logs) -> None:
    frame = reading(spark, logs.directory)
    assert frame.schema == OFFSET_LOG.spark()
    assert places(frame.collect()) == sorted(logs.expected)
    row = frame.where("`group` = 'audit'").orderBy("log_offset").first()
    assert (row.run_id, row.kind, row.topic, row.partition, row.committed_offset) == ("data", "commit", "orders", 0, 0)
    assert row.commit_ts.timestamp() * 1000 == NOW_MS == row.commit_ts_ms


def test_rows_are_those_of_the_segments(spark: Any, tmp_path: Path) -> None:
    """Every column through Spark and back, nested ones and missing ones included."""
    pairs = [group_of("g", 3, "a", "b"), commit("g", "t", 0, 5), commit("g", "t", 1, None), (b"\0\x63?", b"!")]
    folder = write_log(tmp_path, OFFSETS, 1, (0, batch_of(pairs, 0)))
    rows = [row.asDict(recursive=True) for row in reading(spark, folder).orderBy("log_offset").collect()]
    told = [row for batch in read_offsets(str(folder), run_id=tmp_path.name) for row in batch.to_pylist()]
    for one in (*rows, *told):
        for name in ("record_ts", "commit_ts", "state_ts"):
            one[name] = one[name] and round(one[name].timestamp() * 1000)
    assert rows == told


def test_columns_that_are_asked_for_alone(spark: Any, logs: Logs) -> None:
    narrow = spark.read.format("consumer_offsets").schema("log_offset bigint, `group` string").load(str(logs.directory))
    assert narrow.columns == ["log_offset", "group"]
    assert sorted(narrow.collect()) == sorted(reading(spark, logs.directory).select("log_offset", "group").collect())


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ("grp string", "no column 'grp' of consumer_offsets; did you mean 'group'"),
        ("`group` int", "group of .* is string, not int"),
    ],
)
def test_columns_that_are_not_there(spark: Any, logs: Logs, schema: str, says: str) -> None:
    with pytest.raises(Exception, match=says):
        spark.read.format("consumer_offsets").schema(schema).load(str(logs.directory)).collect()


def test_several_runs_by_their_directories(spark: Any, tmp_path: Path) -> None:
    for run in ("monday", "tuesday"):
        Logs(tmp_path / run).append("billing")
    both = reading(spark, f"{tmp_path}/monday,{tmp_path}/tuesday")
    assert {row.run_id for row in both.collect()} == {"monday", "tuesday"}
    assert reading(spark, f"{tmp_path}/*").count() == both.count() == 4
    listed = [str(tmp_path / "monday"), (tmp_path / "tuesday").as_uri()]
    assert spark.read.format("consumer_offsets").load(listed).count() == 4
    assert {row.run_id for row in reading(spark, tmp_path / "monday", runId="x").collect()} == {"x"}


def test_tasks_are_about_as_many_as_cores(spark: Any, tmp_path: Path) -> None:
    """And no more than there is work for."""
    logs = Logs(tmp_path / "data", partitions=40)
    for number in range(200):
        logs.append(f"group-{number}", 2)
    assert reading(spark, logs.directory).rdd.getNumPartitions() == 1
    for number in range(200):
        logs.append(f"group-{number}", 60)
    assert reading(spark, logs.directory).rdd.getNumPartitions() == spark.sparkContext.defaultParallelism == 2
    assert reading(spark, logs.directory, tasks="3").rdd.getNumPartitions() == 3
    assert places(reading(spark, logs.directory, tasks="3").collect()) == sorted(logs.expected)


def test_unreadable_records_are_left_out_and_reported(spark: Any, logs: Logs) -> None:
    path = logs.path("billing")
    good = path.read_bytes()
    path.write_bytes(good[:80] + b"?" + good[81:])
    (logs.directory / f"{OFFSETS}-9").mkdir()
    torn = logs.path("audit")
    torn.write_bytes(torn.read_bytes() + b"torn")
    skipped = spark.read.format("consumer_offsets_skipped").load(str(logs.directory)).collect()
    assert {(row.run_id, row.file, row.position, row.bytes) for row in skipped} == {
        ("data", str(path), 0, len(good)),
        ("data", str(torn), torn.stat().st_size - 4, 4),
        ("data", str(logs.directory / f"{OFFSETS}-9"), None, None),
    }
    rest = [place for place in logs.expected if place[0] != partition_for("billing", 4)]
    assert places(reading(spark, logs.directory).collect()) == sorted(rest)


def test_fail_fast_names_file_and_position(spark: Any, logs: Logs) -> None:
    path = logs.path("audit")
    path.write_bytes(path.read_bytes() + b"torn")
    with pytest.raises(Exception, match=rf"{path} at position {path.stat().st_size - 4}: 4 bytes are too few"):
        reading(spark, logs.directory, mode="FAILFAST").collect()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"tasks": "0"}, "tasks of consumer_offsets: '0' is not a whole number from 1 on"),
        ({"mode": "failfats"}, "no mode 'failfats' of consumer_offsets; did you mean 'failfast'"),
        ({"runid": "x", "task": "3"}, "no option 'task' of consumer_offsets; did you mean 'tasks'"),
        ({"startingOffsets": "now"}, "no startingOffsets 'now' of consumer_offsets"),
    ],
)
def test_invalid_options(options: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        OffsetsOptions.of({"path": "x", **options})


def test_a_directory_without_groups_is_empty(spark: Any, tmp_path: Path) -> None:
    assert reading(spark, tmp_path).count() == 0
    with pytest.raises(Exception, match="nowhere: no such file or folder"):
        reading(spark, tmp_path / "nowhere").count()


# ------------------------------------------------------------------------------------------------ stream


class Query:
    """A stream whose rows are written to Parquet, restarted on the same checkpoint as often as one likes."""

    def __init__(self, spark: Any, path: Path, place: Path, **options: Any) -> None:
        self.spark, self.path, self.place, self.options = spark, path, place, options
        self.batches = 0

    def run(self) -> list[tuple[int, int]]:
        """Reads what there is, to the end, and stops; all rows that were ever written."""
        stream = self.spark.readStream.format("consumer_offsets").options(**self.options).load(str(self.path))
        writing = stream.writeStream.format("parquet").option("checkpointLocation", str(self.place / "checkpoint"))
        query = writing.trigger(availableNow=True).start(str(self.place / "rows"))
        query.awaitTermination()
        self.batches = sum(1 for progress in query.recentProgress if progress["numInputRows"])
        frame = self.spark.read.schema(OFFSET_LOG.spark()).parquet(str(self.place / "rows"))
        return places(frame.select("log_partition", "log_offset").collect())


@pytest.fixture
def query(spark: Any, logs: Logs, tmp_path: Path) -> Query:
    return Query(spark, logs.directory, tmp_path / "out")


def test_a_stream_over_restarts_reads_every_record_once(query: Query, logs: Logs) -> None:
    assert query.run() == sorted(logs.expected)
    logs.append("billing", 3)
    logs.append("newcomer", 1)
    assert query.run() == sorted(logs.expected)
    assert query.run() == sorted(logs.expected)
    assert query.batches == 0
    for group in GROUPS:
        logs.roll(group)
        logs.append(group, 5)
    logs.clean("billing")
    logs.append("billing")
    assert query.run() == sorted(logs.expected)


def test_an_incomplete_batch_is_read_once_complete(query: Query, logs: Logs) -> None:
    missing = logs.append("billing", 4, half=True)
    assert query.run() == sorted(logs.expected[:-4])
    with logs.path("billing").open("ab") as file:
        file.write(missing)
    assert query.run() == sorted(logs.expected)


def test_a_stream_in_small_steps(spark: Any, logs: Logs, tmp_path: Path) -> None:
    for _ in range(4):
        for group in GROUPS:
            logs.append(group, 5)
    query = Query(spark, logs.directory, tmp_path / "out", maxOffsetsPerTrigger="30")
    assert query.run() == sorted(logs.expected)
    assert 3 <= query.batches <= 5


def test_a_failed_batch_is_repeated_unchanged(spark: Any, logs: Logs, tmp_path: Path) -> None:
    """A batch stays the same when the log changes: a sink that has it already may skip it."""
    seen: list[tuple[int, list[tuple[int, int]]]] = []

    def sink(frame: Any, number: int) -> None:
        seen.append((number, places(frame.select("log_partition", "log_offset").collect())))
        if len(seen) == 1:
            raise RuntimeError("the sink broke")

    def run() -> None:
        stream = spark.readStream.format("consumer_offsets").load(str(logs.directory)).writeStream.foreachBatch(sink)
        stream.option("checkpointLocation", str(tmp_path / "at")).trigger(availableNow=True).start().awaitTermination()

    first = sorted(logs.expected)
    with pytest.raises(Exception, match="the sink broke"):
        run()
    logs.append("billing", 3)
    logs.roll("billing")
    logs.append("audit", 2)
    logs.clean("billing")
    run()
    assert seen[0] == seen[1] == (0, first)
    assert sorted(place for _, batch in seen[1:] for place in batch) == sorted(logs.expected)


# What the stream's reader does by itself, without Spark's machinery around it.


@pytest.fixture
def stream(logs: Logs) -> OffsetsStream:
    return OffsetsStream(OffsetsOptions.of({"path": str(logs.directory), "tasks": "2"}), OFFSET_LOG)


def between(stream: OffsetsStream, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[int, int]]:
    for share in stream.partitions(start, end):
        for rows in stream.read(share):
            yield from zip(rows["log_partition"].to_pylist(), rows["log_offset"].to_pylist(), strict=True)


def test_offsets_are_reported_by_run_and_partition(stream: OffsetsStream, logs: Logs) -> None:
    assert stream.initialOffset() == {}
    assert stream.latestOffset({}) == {f"data/{index}": end for index, end in sorted(logs.ends.items())}


def test_from_latest_on(logs: Logs) -> None:
    late = OffsetsStream(OffsetsOptions.of({"path": str(logs.directory), "startingOffsets": "latest"}), OFFSET_LOG)
    start, seen = late.initialOffset(), len(logs.expected)
    logs.append("billing", 3)
    logs.append("newcomer", 1)
    assert sorted(between(late, start, late.latestOffset(start))) == sorted(logs.expected[seen:])


def test_new_records_are_found_at_their_offset(stream: OffsetsStream, logs: Logs) -> None:
    """By its byte, as long as that is where it was; by its offset, whatever has become of the files."""
    first = stream.latestOffset({})
    list(between(stream, {}, first))
    seen = len(logs.expected)
    logs.append("billing", 3)
    second = stream.latestOffset(first)
    (share,) = stream.partitions(first, second)
    (one,) = share.slices  # type: ignore[attr-defined]
    assert one.hint == (
        0,
        logs.path("billing").stat().st_size - len(batch_of([commit("billing", "orders", n, 9) for n in range(3)], 0)),
    )
    assert sorted(between(stream, first, second)) == sorted(logs.expected[seen:])
    logs.roll("billing")
    logs.clean("billing")
    assert sorted(between(stream, first, second)) == sorted(logs.expected[seen:])
    again = OffsetsStream(stream.options, OFFSET_LOG)  # after a restart
    assert sorted(between(again, first, second)) == sorted(logs.expected[seen:])


@given(
    st.lists(st.sampled_from(["append", "half", "roll", "clean", "poll", "poll", "restart"]), max_size=30), st.data()
)
def test_every_record_comes_once_whatever_happens(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], data: st.DataObject
) -> None:
    logs = Logs(tmp_path_factory.mktemp("run") / "data", partitions=2)
    logs.append("billing")
    options = OffsetsOptions.of({"path": str(logs.directory), "maxOffsetsPerTrigger": "4"})
    stream, at, got = OffsetsStream(options, OFFSET_LOG), {}, []
    limits = st.sampled_from([stream.getDefaultReadLimit(), None])
    missing: dict[Path, bytes] = {}

    def complete(path: Path) -> None:
        with path.open("ab") as file:
            file.write(missing.pop(path, b""))

    def poll(limit: Any) -> None:
        nonlocal at
        end = stream.latestOffset(at, limit)
        got.extend(between(stream, at, end))
        at = end

    for step in [*steps, "poll", "poll"]:
        group = data.draw(st.sampled_from(GROUPS))
        path = logs.path(group)
        if step == "poll":
            poll(data.draw(limits))
            continue
        if step == "restart":
            stream = OffsetsStream(options, OFFSET_LOG)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        complete(path)
        if step == "half":
            missing[path] = logs.append(group, half=True)
        elif step == "append" or not path.stat().st_size:
            logs.append(group, data.draw(st.integers(1, 4)))
        else:
            logs.roll(group)
            if step == "clean":
                logs.clean(group)
    for path in list(missing):
        complete(path)
    poll(None)
    assert sorted(got) == sorted(logs.expected)


def test_a_deleted_log_does_not_decrease_offsets(stream: OffsetsStream, logs: Logs) -> None:
    first = stream.latestOffset({})
    shutil.rmtree(logs.path("billing").parent)
    second = stream.latestOffset(first)
    assert second == first
    assert list(between(stream, first, second)) == []


def test_a_format_has_the_name_that_users_write() -> None:
    assert ConsumerOffsets.name() == "consumer_offsets"
