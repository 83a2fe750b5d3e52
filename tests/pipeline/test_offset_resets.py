"""The table offset_resets, and states of groups, of cut and compacted logs; and who committed, in findings."""

from __future__ import annotations

from typing import Any

import pytest

from broker_sim.pipeline.duck.session import DuckSession
from broker_sim.pipeline.findings import findings
from broker_sim.pipeline.tables.groups import groups
from broker_sim.pipeline.tables.offset_resets import OFFSET_RESETS, offset_resets
from broker_sim.pipeline.tables.stuck_partitions import STUCK_PARTITIONS
from tests.pipeline.facts import facts, rebalance, row
from tests.pipeline.offsets import T0, Log


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


# ------------------------------------------------------------------------------------------------ whose commit it was

EMPTIED: dict[str, Any] = {"took": 0, "end": "empty", "size_after": 0, "cause": "departed", "source": "log"}


def committed_without_members(*rebalances: dict[str, Any], after: int = 20_000, back: int = 0, **others: Any) -> Any:
    reset = row(
        OFFSET_RESETS.names, group="billing", log_partition=12, log_offset=3, at_ms=T0 + after, partitions=2, back=back, skipped=902,
        topic="orders", partition=0, from_offset=10, to_offset=912, empty_since_ms=T0 + 10_000,
    )  # fmt: skip
    (found,) = (
        one
        for one in findings(facts(journal=None, resets=[reset], rebalances=list(rebalances), **others))
        if one.kind == "reset"
    )
    return found


def test_a_member_whose_session_had_expired_may_have_committed_what_it_had_read() -> None:
    found = committed_without_members(rebalance(10_000, **EMPTIED), rebalance(25_000, source="log"))
    assert (found.severity, found.certainty) == ("note", "possible")
    assert "app-1, which had been removed without a LeaveGroup, joined again." in found.text
    assert "skipped" not in found.text
    assert "outside" not in found.text


@pytest.mark.parametrize(
    ("emptied", "others"),
    [
        ({"cause": "leave"}, {}),  # it sent a LeaveGroup, and no commit can follow
        ({}, {"after": 500_000}),  # long after
        ({}, {"back": 7}),  # nobody reads backwards
        ({"who_clients": ["other"]}, {}),  # another client
    ],
)
def test_offsets_that_no_former_member_committed_were_set_from_outside(
    emptied: dict[str, Any], others: dict[str, Any]
) -> None:
    again = rebalance(others.get("after", 20_000) + 5000, source="log")
    found = committed_without_members(rebalance(10_000, **{**EMPTIED, **emptied}), again, **others)
    assert (found.severity, found.certainty) == ("warn", "certain")
    assert "were set from outside" in found.text


def test_while_its_offsets_partition_is_stuck_a_former_member_may_commit_and_never_join_again() -> None:
    stuck = row(
        STUCK_PARTITIONS.names, log="__consumer_offsets-12", log_partition=12, from_ms=T0, to_ms=T0 + 19_000, stuck_ms=19_000,
        groups=["billing"], errors=[], evidence="client log", certainty="certain",
    )  # fmt: skip
    assert committed_without_members(rebalance(10_000, **EMPTIED), stuck=[stuck]).certainty == "possible"
