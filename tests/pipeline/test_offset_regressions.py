"""The table offset_regressions: what went back, by how much, across which generations, and whether somebody reset it."""

from __future__ import annotations

from typing import Any

import pytest

from broker_sim.pipeline.tables.offset_regressions import offset_regressions
from tests.pipeline.offsets import T0, Log, collected, frame

pytestmark = pytest.mark.spark

WHAT = ("group", "partition", "from_offset", "to_offset", "by", "how")
BY = ["log_partition", "log_offset"]


def test_offsets_that_only_increase_or_repeat_are_no_regressions(spark: Any) -> None:
    log = Log()
    for at, offset in enumerate((10, 20, 20, 35)):
        log.commit(at, offset)
    log.commit(9, 5, partition=1)
    log.commit(10, 1, group="audit")
    assert offset_regressions(log.frame(spark)).count() == 0


def test_each_kind_of_regression_has_its_generations(spark: Any) -> None:
    log = Log()
    log.generation(0, 1)  # 0
    log.commit(10, 100)  # 1
    log.commit(20, 40)  # 2: the consumer itself went back
    log.commit(30, 120)  # 3
    log.generation(40, 2, ("m-1", "m-2"))  # 4
    log.commit(50, 90)  # 5: another member went on from an older place
    log.generation(60, 3, ())  # 6: everybody has gone
    log.commit(70, 0)  # 7: kafka-consumer-groups --reset-offsets
    log.commit(80, 500)  # 8
    log.delete(90)  # 9
    log.commit(95, 7)  # 10
    table = offset_regressions(log.frame(spark))
    names = ("log_offset", "from_offset", "to_offset", "from_generation", "to_generation", "members", "reset", "how")
    assert collected(table, *names, by=BY) == [
        (2, 100, 40, 1, 1, 1, False, "rewind"),
        (5, 120, 90, 1, 2, 2, False, "rebalance"),
        (7, 90, 0, 2, 3, 0, True, "reset"),
        (10, 500, 7, 3, 3, 0, True, "deleted"),
    ]


def test_the_log_s_order_decides_and_not_the_clock(spark: Any) -> None:
    log = Log()
    log.commit(5000, 10, commit_ts_ms=T0 + 5000)
    log.commit(1000, 20, commit_ts_ms=T0 + 1000)  # by its time this is the first one
    assert offset_regressions(log.frame(spark)).count() == 0
    log.commit(9000, 15)
    rows = collected(offset_regressions(log.frame(spark)), "at_ms", "before_ms", "by", by=BY)
    assert rows == [(T0 + 9000, T0 + 1000, 5)]


def test_without_the_group_s_record_nothing_is_claimed(spark: Any) -> None:
    log = Log()
    log.commit(0, 10)
    log.commit(1, 5)
    (row,) = offset_regressions(log.frame(spark)).collect()
    assert (row.how, row.reset, row.from_generation, row.members, row.by) == (None, None, None, None, 5)


def test_an_aborted_transaction_moves_nothing(spark: Any) -> None:
    log = Log()
    log.commit(0, 100)
    log.in_transaction(7, 1, 10)
    log.end_transaction(7, 2, committed=False)
    log.commit(3, 110)
    assert offset_regressions(log.frame(spark)).count() == 0


def test_a_transactional_offset_decreases_at_its_marker(spark: Any) -> None:
    log = Log()
    log.in_transaction(7, 0, 50)
    log.commit(1, 80)
    log.end_transaction(7, 2, committed=True)
    rows = collected(offset_regressions(log.frame(spark)), "from_offset", "to_offset", "at_ms", by=BY)
    assert rows == [(80, 50, T0 + 2)]


def test_groups_partitions_and_runs_have_their_own_offsets_and_generations(spark: Any) -> None:
    first, second = Log(1), Log(2)
    for log, group, generation in ((first, "billing", 3), (second, "audit", 8)):
        log.generation(0, generation, group=group)
        log.commit(1, 50, group=group)
        log.commit(2, 90, group=group, partition=1)
        log.commit(3, 20, group=group)
    other = Log(1, "r2")
    other.commit(0, 60)
    table = offset_regressions(frame(spark, [*first.rows, *second.rows, *other.rows]))
    assert collected(table, *WHAT, "to_generation", by=BY) == [
        ("billing", 0, 50, 20, 30, "rewind", 3),
        ("audit", 0, 50, 20, 30, "rewind", 8),
    ]
