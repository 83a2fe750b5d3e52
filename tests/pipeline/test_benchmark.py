"""The benchmark of reading compares like with like: both ways give the same rows; the large log is the small one, repeated."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from benchmarks import pipeline
from benchmarks.skewed_log import LOGS, write_skewed_log
from broker_sim.pipeline.schemas import OFFSET_LOG
from broker_sim.pipeline.segments import Skipped, read_offsets


@pytest.fixture
def small(tmp_path: Path) -> Path:
    pipeline.write_logs(tmp_path / "small", 50 * 60)
    return tmp_path / "small"


def read(directory: Path, *columns: str) -> list[dict[str, Any]]:
    skipped: list[Skipped] = []
    table = OFFSET_LOG.only(columns)
    folders = sorted(directory.iterdir())
    rows = [
        row
        for folder in folders
        for batch in read_offsets(str(folder), table=table, skipped=skipped.append)
        for row in batch.to_pylist()
    ]
    assert skipped == []
    return rows


def test_both_ways_give_the_same_rows(small: Path) -> None:
    files = sorted(small.glob("*/*.log"))
    content = pyarrow.RecordBatch.from_pydict(
        {"path": [path.as_uri() for path in files], "content": [path.read_bytes() for path in files]}
    )
    plain = [row for batch in pipeline.parsed_plainly(iter([content])) for row in batch.to_pylist()]
    assert plain == read(small, *pipeline._COLUMNS)
    assert len(plain) == 50 * 60


def test_the_large_log_is_the_small_one_again_and_again(small: Path, tmp_path: Path) -> None:
    pipeline.repeat_logs(small, tmp_path / "large", 3)
    before, after = (read(place, "log_partition", "log_offset", "group") for place in (small, tmp_path / "large"))
    assert len(after) == 3 * len(before)
    mine = [row["log_offset"] for row in after if row["log_partition"] == 7]
    assert mine == list(range(180))


def test_a_skewed_log_is_one_that_a_cluster_could_have_written(tmp_path: Path) -> None:
    write_skewed_log(tmp_path / "log", 20_000)
    rows = read(tmp_path / "log", "log_partition", "log_offset", "kind", "group", "record_ts_ms")
    groups = Counter(row["group"] for row in rows if row["kind"] == "commit")
    assert (len(groups), groups.total()) == (8, 20_000)
    assert 0.55 < max(groups.values()) / groups.total() < 0.65
    assert {row["log_partition"] for row in rows} == set(LOGS)
    for log in LOGS:
        mine = [row for row in rows if row["log_partition"] == log]
        assert [row["log_offset"] for row in mine] == list(range(len(mine)))
        times = [row["record_ts_ms"] for row in mine]
        assert times == sorted(times)
