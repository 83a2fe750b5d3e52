"""The table offset_resets, and states of groups, of logs that lack their beginning or were compacted."""

from __future__ import annotations

from typing import Any

import pytest

from broker_sim.pipeline.duck.session import DuckSession
from broker_sim.pipeline.tables.groups import groups
from broker_sim.pipeline.tables.offset_resets import offset_resets
from tests.pipeline.offsets import Log


def member(log: Log, at: int, name: str, *, there: bool = True) -> None:
    """A member's record in a consumer group, or its tombstone."""
    value = 0 if there else None
    log.add("other", at, group="billing", record_type="ConsumerGroupMemberMetadata", member=name, value_version=value)


def epoch(log: Log, at: int, number: int | None) -> None:
    """A consumer group's epoch, or its tombstone."""
    value = None if number is None else 0
    log.add("other", at, group="billing", record_type="ConsumerGroupMetadata", generation=number, value_version=value)


def resets(log: Log) -> list[tuple[Any, ...]]:
    rows = offset_resets(log.frame(DuckSession())).orderBy("log_offset").collect()
    return [(row["from_offset"], row["to_offset"]) for row in rows]


def state(log: Log) -> tuple[Any, ...]:
    (row,) = groups(log.frame(DuckSession())).collect()
    return row["state"], row["members"]


@pytest.mark.parametrize("lacks", [0, 5])
def test_a_member_that_joined_before_the_log_begins_commits_for_itself(lacks: int) -> None:
    log = Log()
    member(log, 0, "a")
    epoch(log, 0, 1)
    log.commit(10, 10)
    member(log, 15, "c")
    epoch(log, 15, 2)
    member(log, 20, "b")
    epoch(log, 20, 3)
    for at, name in ((30, "b"), (35, "c")):
        if not lacks or name == "b":
            member(log, at, name, there=False)
            epoch(log, at, 4 if name == "b" else 5)
    log.commit(40, 20)
    log.rows = log.rows[lacks:]
    assert resets(log) == []
    assert state(log) == (("members", 1) if not lacks else ("unknown", None))


def test_a_consumer_group_without_members_is_reset() -> None:
    log = Log()
    member(log, 0, "a")
    epoch(log, 0, 1)
    log.commit(10, 10)
    member(log, 30, "a", there=False)
    epoch(log, 30, 2)
    log.commit(40, 5)
    assert resets(log) == [(10, 5)]
    assert state(log) == ("empty", 0)


def test_a_compacted_log_lacks_the_record_of_the_group_that_committed() -> None:
    log = Log()  # downgraded: the classic group's first record after that was removed, as the next one has its key
    member(log, 0, "a")
    member(log, 10, "a", there=False)
    epoch(log, 10, None)
    log.commit(20, 10)
    log.generation(30, 5)
    assert resets(log) == []


def test_a_compacted_log_lacks_the_members_of_a_group_that_was_upgraded() -> None:
    log = Log()
    log.generation(0, 2)
    log.add("group_tombstone", 10, group="billing")
    log.commit(20, 10)
    member(log, 30, "b")
    epoch(log, 30, 4)
    assert resets(log) == []


def test_a_group_that_begins_anew_after_its_deletion_was_reset_in_between() -> None:
    log = Log()
    log.generation(0, 2)
    log.add("group_tombstone", 10, group="billing")
    log.commit(20, 10)
    log.generation(30, 1)
    assert resets(log) == [(None, 10)]
