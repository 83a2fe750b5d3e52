"""The table lag: by windows, what was committed, where the log ended, what lay in between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker_sim.pipeline.log_ends import ends_of, log_ends, log_ends_rows
from broker_sim.pipeline.tables.lag import LOG_ENDS, lag, window_ms_for
from kafka_wire.record_batch import Record, encode_batch
from tests.pipeline.offsets import T0, Log, collected

NAMES = ("window_start_ms", "committed", "end", "lag", "commits")


def ends(spark: Any, *moments: tuple[int, int], partition: int = 0) -> Any:
    """LOG_ENDS of orders: (ms after T0, end)."""
    rows = [
        {"run_id": "r1", "source": "log", "topic": "orders", "partition": partition, "at_ms": T0 + at, "end": end}
        for at, end in moments
    ]
    return LOG_ENDS.frame(spark, rows)


@pytest.mark.spark
def test_the_last_commit_of_a_window_in_the_log_s_order_counts(spark: Any) -> None:
    log = Log()
    log.commit(100, 10)
    log.commit(900, 30)
    log.commit(800, 20)  # a clock that went back: it is the later one all the same
    log.commit(2500, 60)
    rows = collected(lag(log.frame(spark), ends(spark), 1000), *NAMES, by="window_start_ms")
    assert rows == [(T0, 20, None, None, 3), (T0 + 2000, 60, None, None, 1)]


@pytest.mark.spark
def test_the_lag_grows_with_the_log_while_nothing_is_committed(spark: Any) -> None:
    log = Log()
    log.commit(100, 10)
    log.commit(5100, 500)
    grown = ends(spark, (50, 10), (1500, 200), (3500, 400), (3900, 450), (5050, 500))
    assert collected(lag(log.frame(spark), grown, 1000), *NAMES, by="window_start_ms") == [
        (T0, 10, 10, 0, 1),
        (T0 + 1000, 10, 200, 190, 0),
        (T0 + 3000, 10, 450, 440, 0),
        (T0 + 5000, 500, 500, 0, 1),
    ]


@pytest.mark.spark
def test_an_end_from_before_the_first_commit_is_known_at_it(spark: Any) -> None:
    log = Log()
    log.commit(7100, 40)
    rows = collected(lag(log.frame(spark), ends(spark, (0, 60), (3000, 100)), 1000), *NAMES, by="window_start_ms")
    assert rows == [(T0 + 7000, 40, 100, 60, 1)]


@pytest.mark.spark
def test_a_deleted_offset_has_no_lag_until_the_next_commit(spark: Any) -> None:
    log = Log()
    log.commit(0, 10)
    log.delete(1000)
    log.commit(3000, 5)
    rows = collected(lag(log.frame(spark), ends(spark, (0, 50), (2000, 60)), 1000), *NAMES, by="window_start_ms")
    assert rows == [
        (T0, 10, 50, 40, 1),
        (T0 + 1000, None, 50, None, 0),
        (T0 + 2000, None, 60, None, 0),
        (T0 + 3000, 5, 60, 55, 1),
    ]


@pytest.mark.spark
def test_an_end_that_is_known_late_makes_no_negative_lag(spark: Any) -> None:
    log = Log()
    log.commit(0, 100)
    rows = collected(lag(log.frame(spark), ends(spark, (0, 90)), 1000), *NAMES, by="window_start_ms")
    assert rows == [(T0, 100, 90, None, 1)]


@pytest.mark.spark
def test_groups_and_partitions_don_t_mix(spark: Any) -> None:
    log = Log()
    log.commit(0, 10, partition=0)
    log.commit(0, 99, partition=1)
    log.commit(0, 20, group="audit")
    both = ends(spark, (0, 100)).unionByName(ends(spark, (0, 100), partition=1))
    rows = collected(lag(log.frame(spark), both, 1000), "group", "partition", "lag", by=["group", "partition"])
    assert rows == [("audit", 0, 80), ("billing", 0, 90), ("billing", 1, 1)]


def test_windows_are_usual_lengths_and_not_too_many() -> None:
    assert window_ms_for(40_000) == 250
    assert window_ms_for(30 * 60_000) == 10_000
    assert window_ms_for(0) == 100
    assert window_ms_for(10**13) >= 10**13 // 240


# ------------------------------------------------------------------------------------------------ log ends


def batch(base_offset: int, at: int, count: int) -> bytes:
    """A batch of so many records, T0 + ``at`` ms the largest timestamp."""
    records = [Record(base_offset + i, T0 + at, None, b"v", ()) for i in range(count)]
    return encode_batch(records, base_offset=base_offset)


def test_ends_come_from_batch_headers_and_stop_at_a_torn_one(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(batch(0, 10, 3) + batch(3, 25, 2) + batch(5, 30, 1)[:-4])
    assert list(ends_of(str(path))) == [(T0 + 10, 3), (T0 + 25, 5)]
    path.write_bytes(b"no batch at all, but long enough to be taken for the header of one")
    assert list(ends_of(str(path))) == []
    assert list(ends_of(str(tmp_path / "00000000000000000009.log"))) == []


def test_segments_are_read_in_order_and_time_does_not_decrease_between_them(tmp_path: Path) -> None:
    folder = tmp_path / "orders-3"
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(batch(0, 10, 3) + batch(3, 2500, 2))
    (folder / "00000000000000000005.log").write_bytes(batch(5, 1200, 1) + batch(6, 4000, 1))
    for other in ("__consumer_offsets-0", "no partition", "audit-1"):
        (tmp_path / other).mkdir()
    (tmp_path / "__consumer_offsets-0" / "00000000000000000000.log").write_bytes(batch(0, 0, 1))
    rows = log_ends_rows(str(tmp_path), "r1")
    assert [(row["topic"], row["partition"], row["at_ms"] - T0, row["end"]) for row in rows] == [
        ("orders", 3, 10, 3),
        ("orders", 3, 2500, 6),
        ("orders", 3, 4000, 7),
    ]


@pytest.mark.spark
def test_a_directory_without_data_topics_knows_no_ends(spark: Any, tmp_path: Path) -> None:
    assert log_ends(spark, str(tmp_path), "r1").count() == 0
    assert log_ends(spark, str(tmp_path / "not there"), "r1").count() == 0
