"""An offsets log as Parquet files: the same rows as the source gives, in their order, on both engines."""

from __future__ import annotations

import gc
import io
import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_sim.common.text import UsageError
from broker_sim.pipeline import log_parts
from broker_sim.pipeline.condensing import NEEDED
from broker_sim.pipeline.duck.session import DuckSession
from broker_sim.pipeline.log_parts import Parts, batches_of, frame_of, write_parts
from broker_sim.pipeline.offset_logs import find_logs
from broker_sim.pipeline.progress import Steps
from broker_sim.pipeline.schemas import OFFSET_LOG
from broker_sim.pipeline.segments import Skipped, read_offsets
from broker_sim.pipeline.tables.condensed import condensed
from broker_sim.reproduce.evidence import read
from tests.importing.logs import batch_of, commit, group_of, write_log

OFFSETS = "__consumer_offsets"
RUN = "friday's"
DEADLINE_S = 60


@pytest.fixture(scope="module")
def duck() -> Iterator[DuckSession]:
    session = DuckSession()
    yield session
    session.stop()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two partitions, one of two segments; records of all kinds; a damaged batch and a torn end."""
    folder = tmp_path / "data"
    others = [group_of("billing", 3, "a", "b"), (b"\0\x63?", b"!"), commit("billing", "orders", 1, None)]
    commits = [[commit("billing", "orders", 0, at + n) for n in range(3)] for at in (0, 3, 6, 9)]
    torn = batch_of(commits[0], 12)[:40]
    write_log(
        folder,
        OFFSETS,
        1,
        (0, batch_of(others, 0) + batch_of(commits[0], 3)),
        (6, batch_of(commits[1], 6) + damaged(batch_of(commits[2], 9)) + batch_of(commits[3], 12) + torn),
    )
    write_log(folder, OFFSETS, 2, (0, batch_of([commit("audit", "orders", 0, 7)], 0)))
    return folder


def damaged(batch: bytes) -> bytes:
    return batch[:70] + bytes([batch[70] ^ 1]) + batch[71:]


def written(session: Any, data: Path, out: Path) -> Parts:
    return write_parts(session, find_logs([str(data)], RUN), str(out), RUN, lambda records: None)


def expected(data: Path) -> tuple[list[dict[str, Any]], list[Skipped]]:
    skipped: list[Skipped] = []
    rows = [
        row
        for index in (1, 2)
        for batch in read_offsets(str(data / f"{OFFSETS}-{index}"), run_id=RUN, skipped=skipped.append)
        for row in batch.to_pylist()
    ]
    return rows, skipped


def rows_of(frame: Any) -> list[str]:
    rows = frame.orderBy("log_partition", "log_offset").collect()
    return [json.dumps(row.asDict(recursive=True), sort_keys=True, default=str) for row in rows]


def test_the_parts_of_a_log_have_its_rows(duck: DuckSession, data: Path, tmp_path: Path) -> None:
    parts = written(duck, data, tmp_path / "out")
    rows, skipped = expected(data)
    assert len(rows) == parts.records == 13
    assert sorted(parts.skipped) == sorted(skipped)
    assert len(parts.skipped) == 2
    assert list(tmp_path.joinpath("out").iterdir()) == [Path(one) for one in parts.files]
    frame = frame_of(duck, parts, "", RUN)
    assert tuple(frame.columns) == OFFSET_LOG.names
    assert rows_of(frame) == rows_of(OFFSET_LOG.frame(duck, rows))


@pytest.mark.spark
def test_spark_writes_and_reads_the_same_parts(
    spark: Any, duck: DuckSession, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker_sim.pipeline.offset_logs.LEAST_BYTES", 1)
    parts = written(spark, data, tmp_path / "out")
    rows, skipped = expected(data)
    assert (parts.records, sorted(parts.skipped)) == (len(rows), sorted(skipped))
    assert len(parts.files) == 2
    frame = frame_of(spark, parts, (tmp_path / "out").as_uri(), RUN)
    assert [(field.name, field.dataType) for field in frame.schema] == [
        (field.name, field.dataType) for field in OFFSET_LOG.spark()
    ]
    assert rows_of(frame) == rows_of(spark.createDataFrame(OFFSET_LOG.frame(duck, rows).toArrow(), OFFSET_LOG.spark()))
    short = condensed(frame, 10_000, files=parts.files, run_id=RUN)
    assert rows_of(short.rows) == rows_of(condensed(frame, 10_000).rows)


def test_the_pass_over_files_is_that_over_rows(duck: DuckSession, data: Path, tmp_path: Path) -> None:
    parts = written(duck, data, tmp_path / "out")
    frame = frame_of(duck, parts, "", RUN)
    over_files = condensed(frame, 10_000, files=parts.files, run_id=RUN)
    over_rows = condensed(frame, 10_000, ordered=True)
    for name in ("rows", "partitions", "groups"):
        assert rows_by_all(getattr(over_files, name)) == rows_by_all(getattr(over_rows, name))


def rows_by_all(frame: Any) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in frame.collect())


def test_batches_have_the_columns_asked_for(duck: DuckSession, data: Path, tmp_path: Path) -> None:
    parts = written(duck, data, tmp_path / "out")
    table = OFFSET_LOG.only(NEEDED)
    rows = [row for batch in batches_of(parts.files, table, RUN) for row in batch.to_pylist()]
    assert rows == [{name: row[name] for name in NEEDED} for row in expected(data)[0]]


def test_a_log_without_records_is_a_part_without_rows(duck: DuckSession, tmp_path: Path) -> None:
    (tmp_path / "data" / f"{OFFSETS}-1").mkdir(parents=True)
    parts = written(duck, tmp_path / "data", tmp_path / "out")
    assert (parts.records, len(parts.files)) == (0, 1)
    assert [skipped.reason for skipped in parts.skipped] == ["no segments in it"]
    assert frame_of(duck, parts, "", RUN).collect() == []


def test_a_part_that_fails_leaves_nothing_and_one_that_is_written_again_is_the_same(
    duck: DuckSession, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*given: Any, **named: Any) -> Iterator[Any]:
        yield from list(read_offsets(*given, **named))[:1]
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(log_parts, "read_offsets", fails)
        with pytest.raises(MemoryError):
            written(duck, data, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
    first = written(duck, data, tmp_path / "out")
    content = Path(first.files[0]).read_bytes()
    assert written(duck, data, tmp_path / "out") == first
    assert Path(first.files[0]).read_bytes() == content


def test_a_folder_that_cannot_be_made_is_a_line(duck: DuckSession, data: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(UsageError, match="out: File exists"):
        written(duck, data, tmp_path / "out")


def test_progress_is_in_records(duck: DuckSession, data: Path, tmp_path: Path) -> None:
    seen: list[Callable[[], int]] = []
    found = find_logs([str(data)], RUN)
    write_parts(duck, found, str(tmp_path / "out"), RUN, seen.append)
    assert [records() for records in seen] == [13]


def test_what_is_read_for_a_reproduction_goes_with_it(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, waiting = tmp_path / "work", tmp_path / "waiting"
    work.mkdir()
    waiting.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setattr("tempfile.tempdir", str(waiting))
    evidence = read(str(data), Steps(io.StringIO(), quiet=True))
    assert len(evidence.rows("offset_log")) == 13
    assert list(work.iterdir()) == []
    assert list(waiting.iterdir()) != []
    del evidence
    gc.collect()
    assert list(waiting.iterdir()) == []


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_line_of_a_step_counts_records_until_it_is_done() -> None:
    steps, counted, next_one = Steps(Terminal()), threading.Event(), threading.Event()

    def records() -> int:
        counted.set()
        return 12_345_678

    def tasks() -> None:
        if counted.is_set():
            next_one.set()

    steps.tasks = tasks
    with steps.step("reading"):
        steps.counts_records(records)
        assert counted.wait(DEADLINE_S), "the running step was not shown"
    next_one.clear()
    with steps.step("tables"):
        assert next_one.wait(DEADLINE_S), "the running step was not shown"
    reading, _, tables = steps.stream.getvalue().partition("reading: done")  # type: ignore[attr-defined]
    assert re.search(r"reading \.\.\. \d+ s, 12,345,678 records", reading)
    assert "tables ..." in tables
    assert "records" not in tables
