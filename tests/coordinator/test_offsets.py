"""Offsets in the pure core, where the wire shows nothing: appends that fail, what is in flight, what a reload restores.

What each request is answered in each state is recorded from real brokers: tests/conformance."""

from __future__ import annotations

import pytest

from broker_sim.coordinator import queries
from broker_sim.coordinator.offsets import uncommitted_offsets
from broker_sim.coordinator.outcome import DeleteOffsets
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
    assert uncommitted_offsets(core.shard, "g") == {("t", 0)}
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
