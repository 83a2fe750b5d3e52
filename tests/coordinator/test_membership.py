"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup in the pure core; section numbers are those of the behaviour specification."""

from __future__ import annotations

import pytest

from broker_sim.coordinator.policy import JAVA, SCALA
from kafka_wire.errors import Err
from tests.coordinator.harness import START_MS, Core

BOTH = pytest.mark.parametrize("policy", [SCALA, JAVA], ids=["scala", "java"])


def test_a_dynamic_member_must_come_back_with_the_id_it_was_given() -> None:
    core = Core()
    answer = core.answers[core.join()]
    assert (answer.error_code, answer.generation_id, answer.member_id) == (Err.MEMBER_ID_REQUIRED, -1, "c-0000")
    token = core.join("c-0000")
    core.advance(0)
    assert core.joined(token).generation_id == 1


def test_before_v4_a_member_joins_at_once() -> None:
    core = Core()
    token = core.join(version=3)
    core.advance(0)
    assert core.joined(token).generation_id == 1


@BOTH
def test_only_the_java_coordinator_stores_a_group_that_a_join_has_made(policy) -> None:
    core = Core(policy=policy)
    core.join()
    assert len(core.log) == (1 if policy is JAVA else 0)
    if policy is JAVA:
        assert core.log[0][1].hex() == f"0003{'0000'}{'00000000'}ffffffff{START_MS:016x}00000000"


@BOTH
def test_joiners_extend_the_initial_delay_up_to_the_rebalance_timeout(policy) -> None:
    core = Core(policy=policy, initial_rebalance_delay_ms=1000)
    tokens = [core.join(version=3)]
    for pause in (700, 700, 700):
        core.advance(pause)
        tokens.append(core.join(version=3))
    core.advance(1899)  # 3.999 s after the first
    assert not core.answers
    core.advance(1)
    assert [core.joined(token).generation_id for token in tokens] == [1] * 4


@BOTH
def test_the_initial_delay_is_bounded_by_the_first_members_rebalance_timeout(policy) -> None:
    core = Core(policy=policy, initial_rebalance_delay_ms=1000)
    first = core.join(version=3, rebalance_ms=1500)
    core.advance(900)
    core.join(version=3)
    core.advance(599)
    assert not core.answers
    core.advance(1)
    assert core.joined(first).generation_id == 1


@BOTH
def test_a_group_that_was_empty_again_extends_its_window_only_with_the_java_coordinator(policy) -> None:
    core = Core(policy=policy, initial_rebalance_delay_ms=1000)
    first = core.join(version=3)
    core.advance(1000)
    core.leave((core.joined(first).member_id, None))
    assert core.state() == "Empty"
    again = core.join(version=3)
    core.advance(500)
    core.join(version=3)
    core.advance(500)
    assert (again in core.answers) == (policy is SCALA)
    core.advance(1000)
    assert again in core.answers


def test_the_leader_alone_is_told_the_members() -> None:
    core = Core()
    first, second = core.join(version=3), core.join(version=3)
    core.advance(0)
    leader, follower = core.joined(first), core.joined(second)
    assert [m.member_id for m in leader.members] == [leader.member_id, follower.member_id]
    assert follower.members == []
    assert follower.leader == leader.member_id


def test_the_protocol_most_members_prefer_wins_among_those_all_support() -> None:
    core = Core()
    tokens = [
        core.join(version=3, protocols=(("a", b""), ("b", b""))),
        core.join(version=3, protocols=(("c", b""), ("b", b""), ("a", b""))),
        core.join(version=3, protocols=(("b", b""), ("a", b""))),
    ]
    core.advance(0)
    assert {core.joined(token).protocol_name for token in tokens} == {"b"}


@pytest.mark.parametrize(
    ("protocols", "protocol_type"),
    [((("roundrobin", b""),), "consumer"), ((("range", b""),), "connect"), ((), "consumer")],
)
def test_a_joiner_without_a_common_protocol_is_refused_and_nobody_notices(protocols, protocol_type) -> None:
    core = Core()
    ids = core.stable(2)
    answer = core.answers[core.join(protocols=protocols, protocol_type=protocol_type)]
    assert (answer.error_code, answer.protocol_type, answer.protocol_name) == (
        Err.INCONSISTENT_GROUP_PROTOCOL,
        None,
        None,
    )
    assert core.heartbeat(ids[0], 1) is Err.NONE
    assert core.state() == "Stable"


def test_a_follower_that_joins_unchanged_gets_the_present_generation_and_no_rebalance() -> None:
    core = Core()
    ids = core.stable(2)
    answer = core.joined(core.join(ids[1]))
    assert (answer.generation_id, answer.members) == (1, [])
    assert core.state() == "Stable"


def test_a_leader_that_joins_again_always_rebalances() -> None:
    core = Core()
    ids = core.stable(2)
    token = core.join(ids[0])
    assert core.state() == "PreparingRebalance"
    assert core.heartbeat(ids[1], 1) is Err.REBALANCE_IN_PROGRESS
    core.join(ids[1])
    assert core.joined(token).generation_id == 2


def test_a_join_sent_again_on_another_connection_takes_over_and_the_first_is_never_answered() -> None:
    core = Core()
    ids = core.stable(2)
    lost, taken = core.join(ids[0]), core.join(ids[0])
    core.join(ids[1])
    assert core.joined(taken).generation_id == 2
    assert lost not in core.answers


def test_a_member_that_misses_the_rebalance_timeout_is_removed_unless_static() -> None:
    core = Core()
    dynamic = core.join(version=3, rebalance_ms=2000)
    static = core.join(instance="i", version=5, rebalance_ms=1500, session_ms=9000)
    core.advance(0)
    ids = [core.joined(dynamic).member_id, core.joined(static).member_id]
    core.sync(ids[0], 1, {})
    core.sync(ids[1], 1)
    newcomer = core.join(version=3, rebalance_ms=2000)
    core.advance(1999)
    assert newcomer not in core.answers
    core.advance(1)
    group = core.shard.groups["g"]
    assert list(group.members) == [ids[1], core.joined(newcomer).member_id]
    assert group.leader == core.joined(newcomer).member_id


def test_silent_static_members_alone_keep_the_window_open() -> None:
    core = Core()
    token = core.join(instance="i", version=5, rebalance_ms=1000, session_ms=60_000)
    core.advance(0)
    member = core.joined(token).member_id
    core.sync(member, 1, {})
    newcomer = core.join(version=3, rebalance_ms=1000)
    newcomer_id = next(m for m in core.shard.groups["g"].members if m != member)
    core.leave((newcomer_id, None))
    assert core.answers[newcomer].error_code == Err.UNKNOWN_MEMBER_ID
    core.advance(5000)
    assert core.state() == "PreparingRebalance"
    assert core.shard.groups["g"].generation == 1


def test_an_outstanding_member_id_holds_the_rebalance_until_its_session_is_over() -> None:
    core = Core()
    ids = core.stable(1)
    core.new_member_id(session_ms=3000)
    token = core.join(ids[0])
    core.advance(2999)
    assert token not in core.answers
    core.advance(1)
    assert core.joined(token).generation_id == 2


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


def test_no_sync_within_the_rebalance_timeout_removes_the_member_in_completing_and_in_stable() -> None:
    core = Core()
    first = core.join(version=3, rebalance_ms=2000, session_ms=60_000)
    second = core.join(version=3, rebalance_ms=1000, session_ms=60_000)
    core.advance(0)
    leader, silent = core.joined(first).member_id, core.joined(second).member_id
    core.sync(leader, 1, {})
    assert core.state() == "Stable"
    core.advance(2000)
    assert list(core.shard.groups["g"].members) == [leader]
    assert core.heartbeat(silent, 1) is Err.UNKNOWN_MEMBER_ID
    assert core.state() == "PreparingRebalance"
    core.join(leader, version=3, rebalance_ms=2000)
    core.advance(2000)
    assert (core.state(), core.shard.groups["g"].generation) == ("Empty", 3)


def test_sync_before_the_leaders_waits_and_after_it_is_answered_at_once() -> None:
    core = Core()
    first, second = core.join(version=3), core.join(version=3)
    core.advance(0)
    leader, follower = core.joined(first).member_id, core.joined(second).member_id
    early = core.sync(follower, 1)
    assert early not in core.answers
    done = core.sync(leader, 1, {follower: b"f", "stranger": b"x"})
    assert core.answers[early].assignment == b"f"
    assert (core.answers[done].error_code, core.answers[done].assignment) == (0, b"")
    late = core.answers[core.sync(follower, 1)]
    assert (late.assignment, late.protocol_type, late.protocol_name) == (b"f", "consumer", "range")
    assert core.answers[core.sync(leader, 1, {follower: b"other"})].assignment == b""  # a new assignment is ignored
    assert core.answers[core.sync(follower, 1)].assignment == b"f"


def test_the_order_of_sync_checks() -> None:
    core = Core()
    ids = core.stable(1)
    assert core.answers[core.sync(ids[0], 1, group="nobody")].error_code == Err.UNKNOWN_MEMBER_ID
    assert core.answers[core.sync("stranger", 9)].error_code == Err.UNKNOWN_MEMBER_ID
    assert core.answers[core.sync(ids[0], 9, protocol_type="x")].error_code == Err.ILLEGAL_GENERATION
    for more in ({"protocol_type": "x"}, {"protocol_name": "x"}):
        refused = core.answers[core.sync(ids[0], 1, **more)]
        assert (refused.error_code, refused.protocol_type, refused.assignment) == (
            Err.INCONSISTENT_GROUP_PROTOCOL,
            None,
            b"",
        )


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


def test_a_session_ends_after_silence_and_every_sign_of_life_renews_it() -> None:
    core = Core()
    ids = core.stable(2)
    core.advance(9999)
    assert core.heartbeat(ids[0], 1) is Err.NONE
    core.commit(1, ids[1], 1)
    core.advance(9999)
    assert len(core.shard.groups["g"].members) == 2
    core.heartbeat(ids[0], 1)
    core.advance(1)
    assert list(core.shard.groups["g"].members) == [ids[0]]
    assert core.state() == "PreparingRebalance"


def test_a_parked_join_is_alive() -> None:
    core = Core()
    ids = core.stable(2, session_ms=10_000, rebalance_ms=60_000)
    token = core.join(ids[0])
    for _ in range(5):
        core.advance(9000)
        core.heartbeat(ids[1], 1)
    assert token not in core.answers
    assert len(core.shard.groups["g"].members) == 2


def test_heartbeats_of_a_group_with_no_such_member() -> None:
    core = Core()
    assert core.heartbeat("m", 1) is Err.UNKNOWN_MEMBER_ID
    ids = core.stable(1)
    assert core.heartbeat("m", 1) is Err.UNKNOWN_MEMBER_ID
    assert core.heartbeat(ids[0], 2) is Err.ILLEGAL_GENERATION
    assert core.heartbeat(ids[0], 1, instance="i") is Err.UNKNOWN_MEMBER_ID
    core.leave((ids[0], None))
    assert (core.state(), core.heartbeat(ids[0], 1)) == ("Empty", Err.UNKNOWN_MEMBER_ID)


@BOTH
def test_leaving_in_a_batch_answers_each_and_rebalances(policy) -> None:
    core = Core(policy=policy)
    ids = core.stable(3)
    pending = core.new_member_id()
    assert core.leave((ids[1], None), ("nobody", None), ("", "unknown"), (pending, None)) == (
        Err.NONE,
        [Err.NONE, Err.UNKNOWN_MEMBER_ID, Err.UNKNOWN_MEMBER_ID, Err.NONE],
    )
    assert core.state() == "PreparingRebalance"
    assert core.leave((ids[0], None), group="nobody") == (Err.NONE, [Err.UNKNOWN_MEMBER_ID])
    core.leave((ids[0], None), (ids[2], None))
    assert (core.state(), core.shard.groups["g"].generation) == ("Empty", 2)


def test_a_static_member_comes_back_without_a_rebalance_and_its_old_id_is_fenced() -> None:
    core = Core()
    token = core.join(instance="i", version=9)
    core.advance(0)
    old = core.joined(token).member_id
    core.sync(old, 1, {old: b"mine"})
    back = core.joined(core.join(instance="i", version=9))
    assert (back.generation_id, back.leader, back.skip_assignment) == (1, back.member_id, True)
    assert len(back.members) == 1
    assert core.state() == "Stable"
    assert core.heartbeat(old, 1, instance="i") is Err.FENCED_INSTANCE_ID
    assert core.answers[core.commit(5, old, 1, instance="i")] is Err.FENCED_INSTANCE_ID
    assert core.answers[core.join(old, instance="i")].error_code == Err.FENCED_INSTANCE_ID
    assert core.answers[core.sync(back.member_id, 1)].assignment == b"mine"


@BOTH
@pytest.mark.parametrize(("first_ms", "second_ms"), [(1500, 1500), (30_000, 1500), (1500, 30_000)])
def test_a_static_newcomer_replaced_while_it_is_parked_lives_as_its_generation_says(
    policy, first_ms, second_ms
) -> None:
    """3.4 expires it by the timeout of the one it replaced, parked or not; 4.1 not while it is parked."""
    core = Core(policy=policy)
    [leader] = core.stable()
    first = core.join(instance="i", session_ms=first_ms)
    second = core.join(instance="i", session_ms=second_ms)
    assert core.answers[first].error_code == Err.FENCED_INSTANCE_ID
    core.advance(1500)
    assert (second in core.answers) == (policy is SCALA and first_ms == 1500)
    if second in core.answers:
        assert core.answers[second].error_code == Err.UNKNOWN_MEMBER_ID
    else:
        core.join(leader)
        assert core.joined(second).generation_id == 2


@BOTH
def test_a_static_member_that_comes_back_has_the_session_of_the_one_it_replaced_until_it_is_heard(policy) -> None:
    core = Core(policy=policy)
    one, two = (core.join(instance=instance, version=5, session_ms=1500) for instance in "ij")
    core.advance(0)
    ids = [core.joined(token).member_id for token in (one, two)]
    core.sync(ids[1], 1)
    core.sync(ids[0], 1, dict.fromkeys(ids, b""))
    again = core.joined(core.join(instance="j", session_ms=30_000)).member_id
    core.heartbeat(ids[0], 1)
    core.advance(1499)
    assert again in core.shard.groups["g"].members
    core.advance(1)
    assert again not in core.shard.groups["g"].members


@BOTH
def test_a_group_whose_members_support_no_protocol_in_common_never_ends_its_join_phase(policy) -> None:
    """A protocol that is named twice is counted twice."""
    core = Core(policy=policy)
    twice = core.join(version=3, protocols=(("a", b""), ("a", b"")))
    core.advance(290_000)
    member_id = next(iter(core.shard.groups["g"].members))
    assert twice not in core.answers
    assert core.heartbeat(member_id, 1) is Err.REBALANCE_IN_PROGRESS
    other = core.join(version=3, protocols=(("a", b""), ("b", b"")))
    assert core.answers[other].error_code == Err.INCONSISTENT_GROUP_PROTOCOL
    core.leave((member_id, None))
    assert core.answers[twice].error_code == Err.UNKNOWN_MEMBER_ID
    newcomer = core.join(version=3, protocols=(("a", b""),))
    core.advance(290_000)
    assert newcomer not in core.answers
    again = core.reload()
    token = again.join(version=3)
    again.advance(0)
    assert again.joined(token).generation_id == 1


def test_before_v9_a_static_leader_that_comes_back_is_told_its_old_id_leads() -> None:
    core = Core()
    token = core.join(instance="i", version=8)
    core.advance(0)
    old = core.joined(token).member_id
    core.sync(old, 1, {})
    back = core.joined(core.join(instance="i", version=8))
    assert (back.leader, back.members, back.skip_assignment) == (old, [], False)


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


def test_a_static_member_is_removed_by_its_instance_alone() -> None:
    core = Core()
    token = core.join(instance="i", version=9)
    core.advance(0)
    core.sync(core.joined(token).member_id, 1, {})
    assert core.leave(("", "i")) == (Err.NONE, [Err.NONE])
    assert core.state() == "Empty"


@BOTH
def test_a_full_group_refuses_the_next_member(policy) -> None:
    core = Core(policy=policy, max_group_size=2)
    core.stable(2)
    refused = core.answers[core.join()]
    assert (refused.error_code, refused.member_id) == (Err.GROUP_MAX_SIZE_REACHED, "")


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
