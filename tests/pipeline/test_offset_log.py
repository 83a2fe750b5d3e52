"""The table offset_log: each record once, and which commits count."""

from __future__ import annotations

from typing import Any

import pytest

from broker_sim.pipeline.schemas import OFFSET_LOG
from broker_sim.pipeline.tables.offset_log import commits, offset_log
from tests.pipeline.offsets import T0, Log, collected, frame

pytestmark = pytest.mark.spark


def test_a_record_that_is_read_twice_is_one_row(spark: Any) -> None:
    log = Log()
    log.commit(0, 10)
    log.commit(5, 20)
    again = frame(spark, [*log.rows, log.rows[0]])
    assert offset_log(again).count() == 2


def test_it_may_be_applied_to_its_own_result_and_to_the_union_of_reads(spark: Any) -> None:
    log = Log()
    log.commit(0, 10)
    log.generation(5, 1)
    once = offset_log(log.frame(spark))
    twice = offset_log(once.unionByName(offset_log(once)))
    assert twice.count() == 2
    assert twice.columns == list(OFFSET_LOG.names)


def test_records_of_other_partitions_and_runs_are_others(spark: Any) -> None:
    rows = [row for log in (Log(1), Log(2), Log(1, "r2")) for row in [log.commit(0, 10)]]
    assert offset_log(frame(spark, rows)).count() == 3


def test_the_run_can_be_renamed_and_missing_columns_are_null(spark: Any) -> None:
    log = Log()
    log.commit(0, 10)
    (row,) = offset_log(log.frame(spark).drop("metadata", "members"), "monday").collect()
    assert (row.run_id, row.metadata, row.members, row.committed_offset) == ("monday", None, None, 10)


def test_a_commit_takes_effect_where_it_lies_and_a_tombstone_deletes(spark: Any) -> None:
    log = Log()
    log.generation(0, 1)
    log.commit(10, 100)
    log.delete(20)
    names = ("effect_offset", "at_ms", "committed_offset", "deleted")
    assert collected(commits(log.frame(spark)), *names, by="effect_offset") == [
        (1, T0 + 10, 100, False),
        (2, T0 + 20, None, True),
    ]


def test_a_transaction_counts_at_its_marker_and_not_if_it_was_aborted_or_is_open(spark: Any) -> None:
    log = Log()
    log.in_transaction(7, 0, 100)  # 0
    log.in_transaction(8, 1, 900, partition=1)  # 1
    log.commit(2, 50)  # 2
    log.end_transaction(8, 3, committed=False)  # 3
    log.end_transaction(7, 4, committed=True)  # 4
    log.in_transaction(7, 5, 200)  # 5: the same producer's next one
    log.end_transaction(7, 6, committed=False)  # 6
    log.in_transaction(8, 7, 300)  # 7: open
    names = ("log_offset", "effect_offset", "at_ms", "committed_offset")
    assert collected(commits(log.frame(spark)), *names, by="effect_offset") == [(2, 2, T0 + 2, 50), (0, 4, T0 + 4, 100)]


def test_the_timestamp_of_the_value_is_used_if_the_record_has_none(spark: Any) -> None:
    log = Log()
    log.commit(0, 10, record_ts_ms=None, commit_ts_ms=T0 + 77)
    assert collected(commits(log.frame(spark)), "at_ms", by="log_offset") == [(T0 + 77,)]
