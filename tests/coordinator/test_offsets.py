"""Commits, deletion, expiry and load in the pure core."""

from __future__ import annotations

import pytest

from broker_sim.coordinator import queries
from broker_sim.coordinator.offsets import unstable
from broker_sim.coordinator.outcome import DeleteGroup, DeleteOffsets, TopicsChanged
from broker_sim.coordinator.policy import JAVA, SCALA
from kafka_wire.codec import encode
from kafka_wire.errors import Err
from kafka_wire.messages.consumer_protocol import ConsumerProtocolSubscription
from tests.coordinator.harness import Core
from tests.coordinator.test_membership import BOTH

HOUR = 3_600_000


def subscription(*topics: str) -> bytes:
    return b"\0\0" + encode(ConsumerProtocolSubscription(topics=list(topics)), 0)


@BOTH
def test_who_may_commit_to_a_group_that_is_not_there(policy) -> None:
    core = Core(policy=policy)
    assert core.answers[core.commit(1, "m", 3)] is Err.ILLEGAL_GENERATION
    assert core.answers[core.commit(1, "m", 3, v9=True)] is (
        Err.GROUP_ID_NOT_FOUND if policy is JAVA else Err.ILLEGAL_GENERATION
    )
    assert core.answers[core.commit(7)] is Err.NONE
    assert (core.state(), core.offset()) == ("Empty", 7)
    assert core.answers[core.commit(8, "anybody", -1)] is Err.NONE  # an empty group doesn't look at the id
    assert core.answers[core.commit(9, "anybody", 0)] is Err.UNKNOWN_MEMBER_ID


def test_do_commit_offsets_in_order() -> None:
    core = Core()
    ids = core.stable(2)
    assert core.answers[core.commit(1)] is Err.UNKNOWN_MEMBER_ID  # assign mode on a live group
    assert core.answers[core.commit(1, "stranger", 7)] is Err.UNKNOWN_MEMBER_ID
    assert core.answers[core.commit(1, ids[0], 7)] is Err.ILLEGAL_GENERATION
    assert core.answers[core.commit(1, ids[0], -1)] is Err.ILLEGAL_GENERATION
    assert core.answers[core.commit(1, ids[0], 1)] is Err.NONE
    core.join(ids[0])
    assert core.answers[core.commit(2, ids[1], 1)] is Err.NONE  # during PreparingRebalance
    core.join(ids[1])
    assert core.state() == "CompletingRebalance"
    assert core.answers[core.commit(3, ids[1], 2)] is Err.REBALANCE_IN_PROGRESS
    assert core.answers[core.commit(3, "stranger", 2)] is Err.UNKNOWN_MEMBER_ID
    assert core.answers[core.commit(3, ids[1], 1)] is Err.ILLEGAL_GENERATION
    assert core.offset() == 2


@BOTH
@pytest.mark.parametrize(
    "error",
    [Err.NOT_ENOUGH_REPLICAS, Err.KAFKA_STORAGE_ERROR, Err.MESSAGE_TOO_LARGE, Err.NOT_ENOUGH_REPLICAS_AFTER_APPEND],
)
def test_a_commit_that_cannot_be_appended_changes_nothing(policy, error) -> None:
    core = Core(policy=policy)
    core.commit(1)
    core.log_error = error
    assert core.answers[core.commit(2)] is policy.commit_errors.get(error, error)
    assert core.offset() == 1


@BOTH
def test_a_stuck_commit_is_answered_after_its_timeout_and_what_becomes_of_it_differs(policy) -> None:
    core = Core(policy=policy)
    core.commit(1)
    core.held = True
    token = core.commit(2)
    assert unstable(core.shard, "g") == {("t", 0)}
    core.advance(5000)
    assert core.answers[token] is (Err.REQUEST_TIMED_OUT if policy is SCALA else Err.COORDINATOR_NOT_AVAILABLE)
    assert core.offset() == 1
    core.heal()
    assert core.offset() == (2 if policy is JAVA else 1)
    assert core.reload().offset() == 2  # the log holds it all the same


def test_a_commit_in_flight_is_invisible_until_it_is_committed() -> None:
    core = Core()
    core.held = True
    token = core.commit(5)
    assert token not in core.answers
    assert core.offset() == -1
    core.heal()
    assert core.answers[token] is Err.NONE
    assert core.offset() == 5


def test_value_versions() -> None:
    for policy, version in ((SCALA, 3), (JAVA, 4)):
        core = Core(policy=policy)
        core.commit(1)
        core.commit(2, expire_ts_ms=core.now_ms + 10)
        values = [value for key, value in core.log if key[:2] == b"\0\1"]
        assert [int.from_bytes(value[:2], "big") for value in values] == [version, 1]


@BOTH
def test_simple_groups_expire_by_commit_time_and_go_with_their_last_offset(policy) -> None:
    core = Core(policy=policy, offsets_retention_ms=HOUR, offsets_retention_check_interval_ms=1000)
    core.commit(1)
    core.advance(HOUR // 2)
    core.commit(2, partition=1)
    core.advance(HOUR // 2)
    assert (core.offset(), core.offset(partition=1)) == (-1, 2)
    core.advance(HOUR // 2)
    assert core.state() == "-"
    assert [value for _, value in core.log[2:]] == [None] * (
        3 if policy is JAVA else 2
    )  # gen 0: no group tombstone in 3.4
    assert core.reload().shard.groups == {}


def test_an_emptied_group_expires_by_the_time_it_became_empty() -> None:
    core = Core(offsets_retention_ms=HOUR, offsets_retention_check_interval_ms=1000)
    ids = core.stable(1, session_ms=10 * HOUR)
    core.commit(1, ids[0], 1)
    core.advance(HOUR * 2)
    assert core.offset() == -1 or core.offset() == 1
    core.commit(2, ids[0], 1)
    core.advance(HOUR // 2)
    core.leave((ids[0], None))
    core.advance(HOUR - 1)
    assert core.offset() == 2
    core.advance(1001)
    assert core.state() == "-"


def test_a_stable_group_loses_only_topics_it_does_not_read() -> None:
    core = Core(offsets_retention_ms=HOUR, offsets_retention_check_interval_ms=1000)
    ids = core.stable(1, session_ms=10 * HOUR, protocols=(("range", subscription("read")),))
    core.commit(1, ids[0], 1, topic="read")
    core.commit(2, ids[0], 1, topic="left")
    core.advance(HOUR + 1000)
    assert (core.offset("read"), core.offset("left")) == (1, -1)


def test_an_offset_with_its_own_expiry_goes_then() -> None:
    core = Core(offsets_retention_ms=HOUR, offsets_retention_check_interval_ms=1000)
    core.commit(1, expire_ts_ms=core.now_ms + 5000)
    core.commit(2, partition=1)
    core.advance(6000)
    assert (core.offset(), core.offset(partition=1)) == (-1, 2)


@BOTH
def test_delete_group(policy) -> None:
    core = Core(policy=policy)
    assert core.answers[core.request(DeleteGroup("g"))] is Err.GROUP_ID_NOT_FOUND
    core.commit(1)
    core.stable(1, group="live")
    assert core.answers[core.request(DeleteGroup("live"))] is Err.NON_EMPTY_GROUP
    assert core.answers[core.request(DeleteGroup("g"))] is Err.NONE
    assert core.state() == "-"
    assert "g" not in core.reload().shard.groups


def test_delete_offsets_of_what_nobody_reads() -> None:
    core = Core()
    ids = core.stable(1, protocols=(("range", subscription("read")),))
    core.commit(1, ids[0], 1, topic="read")
    core.commit(2, ids[0], 1, topic="left")
    error, results = core.answers[core.request(DeleteOffsets("g", [("read", 0), ("left", 0), ("left", 9)]))]
    assert error is Err.NONE
    assert results == {("read", 0): Err.GROUP_SUBSCRIBED_TO_TOPIC, ("left", 0): Err.NONE, ("left", 9): Err.NONE}
    assert (core.offset("read"), core.offset("left")) == (1, -1)
    assert core.answers[core.request(DeleteOffsets("nobody", []))] == (Err.GROUP_ID_NOT_FOUND, {})
    core.stable(1, group="connect", protocol_type="connect")
    assert core.answers[core.request(DeleteOffsets("connect", []))] == (Err.NON_EMPTY_GROUP, {})


def test_offsets_of_a_deleted_topic_go_at_once() -> None:
    core = Core()
    core.commit(1)
    core.commit(2, topic="u")
    core.step(TopicsChanged({"t": None}))
    assert (core.offset("t"), core.offset("u")) == (-1, 2)
    assert core.reload().offset("t") == -1


@BOTH
def test_a_reload_restores_what_was_acknowledged(policy) -> None:
    core = Core(policy=policy)
    ids = core.stable(3)
    core.commit(41, ids[0], 1)
    core.commit(42, ids[1], 1, partition=1)
    core.commit(7, group="simple")
    other = core.reload()
    group = other.shard.groups["g"]
    assert (other.state(), group.generation, group.leader, list(group.members)) == ("Stable", 1, ids[0], ids)
    assert [m.assignment for m in group.members.values()] == [member_id.encode() for member_id in ids]
    assert (other.offset(), other.offset(partition=1), other.offset(group="simple")) == (41, 42, 7)
    assert other.heartbeat(ids[2], 1) is Err.NONE
    other.advance(10_000)  # every loaded member has a session
    assert other.state() == "Empty"


def test_descriptions_hide_what_is_not_settled() -> None:
    core = Core()
    ids = core.stable(2)
    shown = queries.describe(core.shard, "g")
    assert shown is not None
    assert (shown.group_state, shown.protocol_type, shown.protocol_data) == ("Stable", "consumer", "range")
    assert [(m.member_id, m.member_metadata, m.member_assignment) for m in shown.members] == [
        (member_id, b"m", member_id.encode()) for member_id in ids
    ]
    core.join(ids[0])
    shown = queries.describe(core.shard, "g")
    assert shown is not None
    assert (shown.group_state, shown.protocol_data, shown.members[0].member_metadata) == ("PreparingRebalance", "", b"")
    assert queries.describe(core.shard, "nobody") is None


@BOTH
def test_list_filters(policy) -> None:
    core = Core(policy=policy)
    core.commit(1, group="simple")
    core.stable(1)
    names = lambda *args: [g.group_id for g in queries.listed(core.shard, *queries.filters_of(policy, *args))]  # noqa: E731
    assert names([], []) == ["simple", "g"]
    assert names(["Stable"], []) == ["g"]
    assert names(["stable"], []) == (["g"] if policy is JAVA else [])
    assert names(["Nonsense"], []) == []
    assert names([], ["consumer"]) == []


@pytest.mark.parametrize(("policy", "seen"), [(SCALA, -1), (JAVA, 7)])
def test_a_deletion_whose_tombstone_is_not_committed_shows_where_nobody_waits_for_it(policy, seen: int) -> None:
    core = Core(policy=policy)
    core.commit(7)
    core.commit(8, partition=1)
    core.held = True
    token = core.request(DeleteOffsets("g", [("t", 0)]))
    assert (token in core.answers) == (policy is SCALA)
    assert core.offset() == seen
    core.heal()
    assert core.offset() == -1
    assert core.offset(partition=1) == 8
