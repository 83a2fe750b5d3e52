"""The table offset_deletions: which committed offsets ceased to stand, when, and whether anybody began anew."""

from __future__ import annotations

from typing import Any

import pytest

from broker_sim.pipeline.tables.lag import LOG_ENDS, group_lag, lag
from broker_sim.pipeline.tables.offset_deletions import RETENTION_MS, offset_deletions
from tests.pipeline.offsets import T0, Log, collected, frame

pytestmark = pytest.mark.spark

BY = ["log_partition", "log_offset"]
WHAT = ("group", "partition", "last_offset", "idle_ms", "group_ended", "next_offset", "how")


def test_a_deleted_group_an_expired_offset_and_one_that_was_begun_anew(spark: Any) -> None:
    log = Log()
    log.commit(0, 10)  # 0
    log.commit(5, 20, partition=1)  # 1
    log.generation(9, 2, ())  # 2
    log.delete(1000)  # 3: orders-0 of a living group: OffsetDelete, or the topic
    log.commit(2000, 3)  # 4: begun anew
    log.delete(RETENTION_MS + 5, partition=1)  # 5: nothing for seven days
    log.delete(RETENTION_MS + 6)  # 6: the last one, sooner than that
    log.add("group_tombstone", RETENTION_MS + 6, group="billing")  # 7
    rows = collected(offset_deletions(log.frame(spark)), *WHAT, by=BY)
    assert rows == [
        ("billing", 0, 10, 1000, False, 3, "deleted"),
        ("billing", 1, 20, RETENTION_MS, True, None, "expired"),
        ("billing", 0, 3, RETENTION_MS - 1994, True, None, "deleted"),
    ]


def test_removed_records_are_not_guessed_and_a_second_tombstone_deletes_nothing(spark: Any) -> None:
    log = Log()
    log.delete(1000)
    log.delete(2000)
    rows = collected(offset_deletions(log.frame(spark)), "at_ms", *WHAT, by=BY)
    assert rows == [(T0 + 1000, "billing", 0, None, None, False, None, None)]


def test_groups_and_runs_do_not_mix(spark: Any) -> None:
    one, two = Log(run_id="a"), Log(run_id="b")
    one.commit(0, 1, group="audit")
    one.delete(10, group="billing")
    one.add("group_tombstone", 11, group="audit")
    two.commit(0, 7)
    rows = collected(
        offset_deletions(frame(spark, [*one.rows, *two.rows])), "run_id", "group", "last_offset", "group_ended", by=BY
    )
    assert rows == [("a", "billing", None, False)]


def test_a_group_whose_offsets_are_deleted_has_not_caught_up(spark: Any) -> None:
    log = Log()
    log.commit(0, 100)
    log.commit(1000, 40, partition=1)
    log.delete(21_000)
    log.delete(41_000, partition=1)
    ends = LOG_ENDS.frame(
        spark,
        [{"run_id": "r1", "source": "log", "topic": "orders", "partition": n, "at_ms": T0, "end": 500} for n in (0, 1)],
    )
    table = group_lag(lag(log.frame(spark), ends, 10_000))
    names = ("window_start_ms", "lag", "deleted")
    assert collected(table, *names, by="window_start_ms") == [
        (T0, 860, 0),
        (T0 + 20_000, 460, 1),
        (T0 + 40_000, None, 2),
    ]
