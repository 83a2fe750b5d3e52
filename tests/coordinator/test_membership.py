"""Members of a group in the pure core, where the wire shows nothing: appends that fail or never return, records, moves.

What each request is answered in each state is recorded from real brokers: tests/conformance."""

from __future__ import annotations

import pytest

from broker_sim.coordinator.outcome import LeaveGroup, Leaver, TimerFired
from broker_sim.coordinator.policy import JAVA, SCALA
from kafka_wire.errors import Err
from tests.coordinator.harness import START_MS, Core

BOTH = pytest.mark.parametrize("policy", [SCALA, JAVA], ids=["scala", "java"])


@BOTH
def test_only_the_java_coordinator_stores_a_group_that_a_join_has_made(policy) -> None:
    core = Core(policy=policy)
    core.join()
    assert len(core.log) == (1 if policy is JAVA else 0)
    if policy is JAVA:
        assert core.log[0][1].hex() == f"0003{'0000'}{'00000000'}ffffffff{START_MS:016x}00000000"


def test_the_leader_alone_is_told_the_members() -> None:
    core = Core()
    first, second = core.join(version=3), core.join(version=3)
    core.advance(0)
    leader, follower = core.joined(first), core.joined(second)
    assert [m.member_id for m in leader.members] == [leader.member_id, follower.member_id]
    assert follower.members == []
    assert follower.leader == leader.member_id


def test_a_parked_new_member_is_given_up_after_five_minutes() -> None:
    core = Core()
    ids = core.stable(1, rebalance_ms=900_000)
    token = core.join(version=3, rebalance_ms=900_000)
    for _ in range(59):
        core.advance(5000)
        core.heartbeat(ids[0], 1)
    core.advance(4999)
    assert token not in core.answers
    core.advance(1)
    assert (core.answers[token].error_code, core.answers[token].member_id) == (Err.UNKNOWN_MEMBER_ID, "")


@BOTH
@pytest.mark.parametrize(
    "error", [Err.NOT_ENOUGH_REPLICAS, Err.KAFKA_STORAGE_ERROR, Err.MESSAGE_TOO_LARGE, Err.INVALID_REQUEST]
)
def test_an_assignment_that_cannot_be_stored_makes_everybody_join_again(policy, error) -> None:
    core = Core(policy=policy)
    first, second = core.join(version=3), core.join(version=3)
    core.advance(0)
    leader, follower = core.joined(first).member_id, core.joined(second).member_id
    parked = core.sync(follower, 1)
    core.log_error = error
    token = core.sync(leader, 1, {})
    expected = policy.sync_errors.get(error, error)
    assert core.answers[token].error_code == core.answers[parked].error_code == expected
    assert core.state() == "PreparingRebalance"
    core.log_error = Err.NONE
    again = core.join(leader, version=3)
    core.join(follower, version=3)
    assert core.joined(again).generation_id == 2


@BOTH
def test_a_stuck_append_times_out_the_sync_and_what_lands_late_is_ignored(policy) -> None:
    core = Core(policy=policy)
    token = core.join(version=3)
    core.advance(0)
    member = core.joined(token).member_id
    core.held = True
    sync = core.sync(member, 1, {member: b"a"})
    core.advance(4999)
    assert sync not in core.answers
    core.advance(1)
    expected = Err.REBALANCE_IN_PROGRESS if policy is SCALA else Err.COORDINATOR_NOT_AVAILABLE
    assert core.answers[sync].error_code == expected
    assert core.state() == "PreparingRebalance"
    core.heal()
    assert core.state() == "PreparingRebalance"
    assert core.reload().shard.groups["g"].members[member].assignment == b"a"


@BOTH
def test_a_replacement_that_cannot_be_stored_is_undone(policy) -> None:
    core = Core(policy=policy)
    token = core.join(instance="i", version=9)
    core.advance(0)
    old = core.joined(token).member_id
    core.sync(old, 1, {})
    core.log_error = Err.NOT_LEADER_OR_FOLLOWER
    failed = core.answers[core.join(instance="i", version=9)]
    assert (failed.error_code, failed.member_id) == (Err.NOT_COORDINATOR, "")
    core.log_error = Err.NONE
    assert core.heartbeat(old, 1, instance="i") is Err.NONE
    assert list(core.shard.groups["g"].members) == [old]


def test_moving_away_answers_everything_that_is_parked() -> None:
    core = Core()
    core.stable(2, group="a")
    leader = next(iter(core.shard.groups["a"].members))
    join = core.join(leader, group="a")
    first = core.join(version=3, group="b")
    core.advance(0)
    core.join(version=3, group="b2")
    core.held = True
    sync = core.sync(core.joined(first).member_id, 1, {}, group="b")
    core.perform(core.shard.stop())
    assert core.answers[join].error_code == Err.NOT_COORDINATOR
    assert core.answers[sync].error_code == Err.NOT_COORDINATOR
    assert core.shard.groups == {}


@pytest.mark.parametrize("rebalance_ms", [0, -1, -(2**31)])
def test_a_join_phase_that_no_timeout_ends_is_looked_at_later_and_not_at_once_again(rebalance_ms: int) -> None:
    core = Core()
    first, second = core.join(instance="i1"), core.join(instance="i2", rebalance_ms=rebalance_ms)
    core.advance(0)
    leader, other = core.joined(first).member_id, core.joined(second).member_id
    core.sync(leader, 1, {other: b"a"})
    core.sync(other, 1)
    core.leave((leader, "i1"))
    key = ("rebalance", "g")
    assert core.timers.pop(key) == core.now_ms + rebalance_ms
    core.step(TimerFired(key))
    assert core.timers[key] > core.now_ms


@BOTH
def test_the_request_that_ends_a_join_phase_without_a_vote_fails(policy) -> None:
    """A member that names its one protocol twice counts twice, so that no protocol is left that as many support as there are members:
    Kafka throws inside of the request, and the others wait on (measured on 3.4.0, 4.1.0 and 4.4.0)."""
    core = Core(policy=policy)
    (member,) = core.stable(1)
    token = core.join(member, protocols=(("range", b"m"), ("range", b"m")))
    answer = core.answers[token]
    assert (answer.error_code, answer.member_id, answer.generation_id) == (Err.UNKNOWN_SERVER_ERROR, "", -1)
    again = core.answers[core.join(member)]
    assert (again.error_code, again.member_id) == (Err.INCONSISTENT_GROUP_PROTOCOL, member)


@BOTH
def test_a_leave_group_may_be_that_request(policy) -> None:
    core = Core(policy=policy)
    stays, leaves = core.stable(2)
    parked = core.join(stays, protocols=(("range", b"m"), ("range", b"m")))
    token = core.request(LeaveGroup("g", [Leaver(leaves, None)]))
    assert core.answers[token] == (Err.UNKNOWN_SERVER_ERROR, [])
    assert parked not in core.answers
    assert list(core.shard.groups["g"].members) == [stays]
