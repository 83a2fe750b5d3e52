"""Streams groups on the epoch core: delays, tasks that change hands, timeouts, static members, and what a load finds."""

from __future__ import annotations

from typing import Any

import pytest

from broker_sim.common.slices import at_once
from broker_sim.coordinator import queries
from broker_sim.coordinator.outcome import (
    Client,
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    Heartbeat,
    LeaveGroup,
    Leaver,
    Offset,
)
from broker_sim.coordinator.policy import JAVA_SINCE, Policy
from broker_sim.coordinator.streams.describing import describing
from broker_sim.coordinator.streams.group import StreamsGroup
from broker_sim.coordinator.streams.topology import StatusCode
from kafka_wire.errors import Err
from kafka_wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.messages.k14_sync_group import SyncGroupRequest
from kafka_wire.messages.k88_streams_group_heartbeat import (
    Endpoint,
    KeyValue,
    TaskIds,
    TaskOffset,
)
from kafka_wire.messages.k89_streams_group_describe import DescribedGroup
from tests.coordinator.streams.harness import COUNTING, LATEST, PLAIN, POLICIES, TIMEOUT_MS, Streams, reloaded

ALL = pytest.mark.parametrize("policy", POLICIES.values(), ids=list(POLICIES))
BOTH_TASKS = {"0": [0, 1]}


def two(core: Streams) -> None:
    """A and B, with a task each."""
    core.join("A")
    core.join("B")
    core.settle("A", "B")
    assert [core.threads[name].active for name in ("A", "B")] == [{"0": [0]}, {"0": [1]}]


def counting(core: Streams) -> None:
    """A and B, each with a task of both subtopologies."""
    core.join("A", COUNTING)
    core.create()
    core.settle("A")
    core.join("B", COUNTING)
    core.settle("A", "B")


def described(core: Streams) -> DescribedGroup:
    return at_once(describing(core.shard, "g"))


# joining


@ALL
def test_the_first_member_brings_the_topology_and_has_all_tasks(policy: Policy) -> None:
    core = Streams(policy)
    assert core.join("A").active == BOTH_TASKS
    assert core.threads["A"].epoch == 2
    assert core.kinds() == [19, 23, 17, 21, 20, 22]
    current = core.written()[-1][1]
    assert (current.state, current.active_tasks[0].assignment_epochs) == (1, [2, 2])
    assert core.beat("A").active_tasks is None
    assert len(core.log) == 6


def test_a_second_member_gets_its_task_when_the_first_has_given_it_up() -> None:
    core = Streams()
    core.join("A")
    since = len(core.log)
    assert core.join("B").active == {}
    assert core.kinds(since) == [19, 17, 21, 21, 20, 22]
    assert core.written()[-1][1].state == 3
    assert core.beat("B").active_tasks is None
    assert [one.partitions for one in core.beat("A").active_tasks or ()] == [[0]]
    assert (core.written()[-1][1].state, core.threads["A"].epoch) == (2, 2)
    assert core.beat("B").active_tasks is None, "A has not said that it has given the task up"
    assert core.acknowledge("A").epoch == 3
    assert core.acknowledge("B").active == {"0": [1]}
    assert described(core).group_state == "Stable"


def test_a_heartbeat_of_the_previous_epoch_has_to_say_which_tasks_are_there() -> None:
    core = Streams()
    core.join("A")
    core.join("B")
    core.beat("A")
    assert core.acknowledge("A").epoch == 3
    none: list[TaskIds] = []
    one = [TaskIds("0", [0])]
    assert core.beat("A", 2).error_code == Err.FENCED_MEMBER_EPOCH
    assert core.beat("A", 2, active_tasks=[TaskIds("0", [1])], standby_tasks=none, warmup_tasks=none).error_code == 110
    assert core.beat("A", 2, active_tasks=one, standby_tasks=none, warmup_tasks=none).member_epoch == 3
    assert core.beat("A", 1, active_tasks=one, standby_tasks=none, warmup_tasks=none).error_code == 110
    assert core.beat("A", 9).error_code == Err.FENCED_MEMBER_EPOCH
    assert core.beat("X", 3).error_code == Err.UNKNOWN_MEMBER_ID


def test_a_member_that_rejoins_gets_its_whole_assignment_and_nothing_is_written() -> None:
    core = Streams()
    core.join("A")
    since = len(core.log)
    assert core.join("A").active == BOTH_TASKS
    assert core.log[since:] == []


def test_a_group_that_is_not_there_and_one_of_another_kind() -> None:
    core = Streams()
    assert core.beat("A", 3).error_message == "Streams group g not found."
    assert core.beat("A", -1).error_message == "Group g not found."
    core.answers.clear()
    core.ask(JoinGroupRequest("g", 10_000, 10_000, "", "i", "consumer", [JoinGroupRequestProtocol("range", b"")]))
    refused = core.beat("A", 3)
    assert (refused.error_code, refused.error_message) == (Err.GROUP_ID_NOT_FOUND, "Group g is not a streams group.")


def test_a_full_group_takes_those_that_are_in_alone() -> None:
    core = Streams(max_size=1)
    core.join("A")
    refused = core.beat("B", 0, topology=PLAIN, process_id="p", rebalance_timeout_ms=1, active_tasks=[])
    assert refused.error_code == Err.GROUP_MAX_SIZE_REACHED
    assert core.join("A").active == BOTH_TASKS


# delays


@ALL
def test_in_the_initial_delay_members_wait_and_are_assigned_together(policy: Policy) -> None:
    core = Streams(policy, initial_rebalance_delay_ms=3000)
    first, second = core.join("A"), core.join("B")
    assert (first.epoch, first.status, first.active) == (1, [StatusCode.ASSIGNMENT_DELAYED], {})
    core.advance(2999)
    core.beat("A")
    assert first.status == [StatusCode.ASSIGNMENT_DELAYED]
    since = len(core.log)
    core.advance(1)
    assert core.kinds(since) == [21, 21, 20]
    core.settle("A", "B")
    assert sorted([first.active["0"], second.active["0"]]) == [[0], [1]]
    assert (first.status, core.kinds()[-1]) == ([], 22)


def test_the_initial_delay_begins_again_with_an_emptied_group_alone() -> None:
    core = Streams(initial_rebalance_delay_ms=3000)
    core.join("A")
    core.advance(3000)
    core.acknowledge("A")
    assert core.join("B").status == []
    core.beat("A", -1)
    core.beat("B", -1)
    assert core.join("C").status == [StatusCode.ASSIGNMENT_DELAYED]


def test_a_group_without_members_when_the_delay_is_over() -> None:
    core = Streams(initial_rebalance_delay_ms=3000)
    core.join("A")
    core.beat("A", -1)
    since = len(core.log)
    core.advance(3000)
    assert core.log[since:] == []
    assert core.join("B").status == [StatusCode.ASSIGNMENT_DELAYED]


def test_within_the_assignment_interval_nothing_is_assigned() -> None:
    core = Streams(assignment_interval_ms=1000)
    core.join("A")
    second = core.join("B")
    assert (second.status, second.active, second.epoch) == ([StatusCode.ASSIGNMENT_DELAYED], {}, 2)
    assert described(core).group_state == "Assigning"
    core.advance(1000)
    core.settle("A", "B")
    assert (second.status, second.active) == ([], {"0": [1]})


# tasks


def test_standby_tasks_are_with_another_process() -> None:
    core = Streams(standby_replicas=1)
    counting(core)
    a, b = core.threads["A"], core.threads["B"]
    assert a.active == {"0": [0], "1": [0]}
    assert b.active == {"0": [1], "1": [1]}
    assert (a.standby, b.standby) == ({"1": [1]}, {"1": [0]})


def test_another_number_of_standby_tasks_moves_the_group() -> None:
    core = Streams()
    counting(core)
    epoch = core.group().latest.group_epoch
    core.configure(standby_replicas=1)
    core.settle("A", "B")
    assert core.group().latest.group_epoch == epoch + 1
    assert core.threads["A"].standby == {"1": [1]}


def test_before_4_4_a_task_changes_its_role_when_the_member_has_closed_it() -> None:
    core = Streams(POLICIES["4.3"], standby_replicas=1)
    counting(core)
    assert core.threads["A"].standby == {"1": [1]}
    core.beat("B", -1)
    assert core.beat("A").active_tasks is not None
    assert core.threads["A"].standby == {}, "the standby task is closed first"
    assert core.threads["A"].active == {"0": [0], "1": [0]}
    core.settle("A")
    assert core.threads["A"].active == {"0": [0, 1], "1": [0, 1]}


def test_a_standby_task_becomes_active_without_being_given_up() -> None:
    core = Streams(standby_replicas=1)
    counting(core)
    core.beat("B", -1)
    assert core.acknowledge("A").active == {"0": [0, 1], "1": [0, 1]}
    assert core.threads["A"].standby == {}


def test_an_active_task_becomes_a_standby_one_while_it_is_given_up() -> None:
    core = Streams(standby_replicas=1)
    core.join("A", COUNTING)
    core.create()
    core.settle("A")
    core.join("B", COUNTING)
    core.beat("A")
    assert (core.threads["A"].active, core.threads["A"].standby) == ({"0": [0], "1": [0]}, {"1": [1]})
    assert core.written()[-1][1].state == 2
    core.beat("B", -1)
    assert core.beat("A").active_tasks is None, "it waits until the member has revoked what it was asked to"
    core.settle("A")
    assert core.threads["A"].active == {"0": [0, 1], "1": [0, 1]}


def test_two_threads_of_a_process_do_not_hold_a_task_twice() -> None:
    core = Streams(standby_replicas=1)
    core.join("A", COUNTING, process_id="p")
    core.create()
    core.join("B", COUNTING, process_id="p")
    core.settle("A", "B")
    assert (core.threads["A"].standby, core.threads["B"].standby) == ({}, {})


def test_reported_changelog_offsets_bring_a_task_back_to_its_state() -> None:
    core = Streams()
    core.join("A", COUNTING)
    core.create()
    core.settle("A")
    core.join("B", COUNTING, task_offsets=[TaskOffset("1", 0, 50), TaskOffset("1", 1, 60)])
    core.settle("A", "B")
    assert described(core).members[1].task_offsets[0].offset == 50
    core.beat("A", -1)
    core.settle("B")
    assert core.threads["B"].active == {"0": [0, 1], "1": [0, 1]}


# leaving and time


@ALL
def test_a_member_that_leaves_gives_its_tasks_to_the_others(policy: Policy) -> None:
    core = Streams(policy)
    two(core)
    since = len(core.log)
    left = core.beat("B", -1)
    assert (left.member_epoch, left.status, left.heartbeat_interval_ms) == (-1, [], 0)
    assert core.kinds(since) == [22, 21, 19, 17]
    core.settle("A")
    assert core.threads["A"].active == BOTH_TASKS
    since = len(core.log)
    core.beat("A", -1)
    assert core.kinds(since) == [22, 21, 19, 17] + ([20] if policy is LATEST else [])
    assert described(core).group_state == "Empty"


def test_a_silent_member_is_expelled() -> None:
    core = Streams(session_timeout_ms=10_000)
    two(core)
    core.advance(9000)
    core.beat("A")
    core.advance(1000)
    assert list(core.group().latest.members) == ["A"]
    core.settle("A")
    assert core.threads["A"].active == BOTH_TASKS


def test_who_does_not_give_up_its_tasks_in_time_is_expelled() -> None:
    core = Streams()
    core.join("A")
    core.join("B")
    core.beat("A")
    core.advance(TIMEOUT_MS - 1)
    core.beat("A")
    assert list(core.group().latest.members) == ["A", "B"]
    core.advance(1)
    assert list(core.group().latest.members) == ["B"]
    assert core.beat("A").error_code == Err.UNKNOWN_MEMBER_ID


def test_a_shutdown_is_returned_to_all_members_until_the_group_is_empty() -> None:
    core = Streams()
    two(core)
    core.beat("B", shutdown_application=True)
    core.beat("A")
    assert core.threads["A"].status == [StatusCode.SHUTDOWN_APPLICATION]
    core.beat("B", -1)
    core.beat("A")
    assert core.threads["A"].status == [StatusCode.SHUTDOWN_APPLICATION]
    core.beat("A", -1)
    assert core.join("C").status == []


def test_a_member_that_leaves_may_ask_for_the_shutdown() -> None:
    core = Streams()
    two(core)
    core.beat("B", -1, shutdown_application=True)
    core.beat("A")
    assert core.threads["A"].status == [StatusCode.SHUTDOWN_APPLICATION]


def test_required_client_tags_are_returned_to_clients_that_know_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    core = Streams(rack_aware_tags=("zone", "rack"))
    assert core.join("A", client_tags=[KeyValue("zone", "a")]).status == [StatusCode.MISSING_CLIENT_TAGS]
    assert core.join("A", client_tags=[KeyValue("zone", "a"), KeyValue("rack", "b")]).status == []
    monkeypatch.setattr("tests.coordinator.streams.harness.CLIENT", Client("app", "/127.0.0.1", 0))
    assert core.join("B").status == []
    assert core.group().latest.assignment_settings["rack.aware.assignment.tags"] == "zone,rack"


# static members


def test_a_static_member_comes_back_with_its_tasks() -> None:
    core = Streams()
    core.join("A", instance_id="i")
    core.join("B")
    core.settle("A", "B")
    assert core.beat("C", 0, topology=PLAIN, instance_id="i").error_code == Err.UNRELEASED_INSTANCE_ID
    assert core.beat("A", -2, instance_id="i").member_epoch == -2
    epoch, since = core.group().latest.group_epoch, len(core.log)
    back = core.join("C", instance_id="i", process_id="p-A")
    assert (back.active, back.epoch) == ({"0": [0]}, epoch)
    assert core.kinds(since) == [22, 21, 19, 19, 21, 22, 22]
    assert core.beat("A", epoch, instance_id="i").error_code == Err.FENCED_INSTANCE_ID
    assert core.beat("C", epoch, instance_id="j").error_code == Err.UNKNOWN_MEMBER_ID


def test_a_static_member_that_stays_away_is_expelled() -> None:
    core = Streams(session_timeout_ms=10_000)
    core.join("A", instance_id="i")
    core.beat("A", -2, instance_id="i")
    core.advance(9999)
    assert list(core.group().latest.members) == ["A"]
    core.advance(1)
    assert core.group().is_empty


# interactive queries


def test_endpoints_are_returned_when_they_change() -> None:
    core = Streams()
    core.join("A")
    core.join("A", user_endpoint=Endpoint("host", 1))
    answer = core.beat("A", endpoint_information_epoch=0)
    assert answer.endpoint_information_epoch == 1
    [row] = answer.partitions_by_user_endpoint or ()
    assert [(one.topic, one.partitions) for one in row.active_partitions] == [("t", [0, 1])]
    assert core.beat("A", endpoint_information_epoch=1).partitions_by_user_endpoint is None
    core.join("B")
    assert core.beat("A", endpoint_information_epoch=1).endpoint_information_epoch == 2


# offsets, other requests, the log


def commit(core: Streams, member: str, epoch: int, partition: int = 0, *, errors: bool = True) -> Any:
    offsets = [("t", partition, Offset(5, -1, "", core.now_ms))]
    return core.ask(CommitOffsets("g", epoch, member, None, offsets, epoch_errors=errors))


def test_commits_of_older_epochs_are_good_for_tasks_that_stayed() -> None:
    core = Streams()
    two(core)
    epoch = core.threads["A"].epoch
    assert commit(core, "A", epoch) is Err.NONE
    assert commit(core, "A", epoch + 1) is Err.STALE_MEMBER_EPOCH
    assert commit(core, "A", 2) is Err.NONE
    assert commit(core, "A", 2, 1) in (Err.STALE_MEMBER_EPOCH, {("t", 1): Err.STALE_MEMBER_EPOCH})
    both = [("t", partition, Offset(6, -1, "", core.now_ms)) for partition in (0, 1)]
    assert core.ask(CommitOffsets("g", 2, "A", None, both, epoch_errors=True)) == {
        ("t", partition): Err.STALE_MEMBER_EPOCH for partition in (0, 1)
    }
    assert core.offset() == 5
    assert commit(core, "X", epoch) is Err.UNKNOWN_MEMBER_ID
    assert commit(core, "A", epoch, errors=False) is Err.UNSUPPORTED_VERSION
    assert commit(core, "", -1) is Err.UNKNOWN_MEMBER_ID
    assert queries.fetch_refusal(core.shard, "g", "A", epoch) is Err.NONE
    assert queries.fetch_refusal(core.shard, "g", "A", epoch - 1) is Err.STALE_MEMBER_EPOCH
    assert queries.fetch_refusal(core.shard, "g", "X", epoch) is Err.UNKNOWN_MEMBER_ID
    assert queries.fetch_refusal(core.shard, "g", None, -1) is Err.NONE


def test_it_is_listed_and_deleted_as_what_it_is() -> None:
    core = Streams()
    core.join("A")
    assert commit(core, "A", 2) is Err.NONE
    [listed] = queries.listed(core.shard, [], ["streams"])
    assert (listed.group_type, listed.protocol_type, listed.group_state) == ("streams", "streams", "Stable")
    assert queries.describe(core.shard, "g").error_code == Err.GROUP_ID_NOT_FOUND  # type: ignore[union-attr]
    assert core.ask(DeleteOffsets("g", [("t", 0)])) == (Err.NONE, {("t", 0): Err.GROUP_SUBSCRIBED_TO_TOPIC})
    assert core.ask(DeleteGroup("g")) is Err.NON_EMPTY_GROUP
    core.beat("A", -1)
    since = len(core.log)
    assert core.ask(DeleteGroup("g")) is Err.NONE
    assert core.kinds(since) == [20, 17, 23]
    assert "g" not in core.shard.groups
    assert core.join("A").epoch == 2


def test_classic_members_are_none_of_it_and_take_an_empty_one_over() -> None:
    core = Streams()
    core.join("A")
    join = JoinGroupRequest("g", 10_000, 10_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")])
    assert core.ask(join).error_code == Err.INCONSISTENT_GROUP_PROTOCOL
    assert core.ask(SyncGroupRequest("g", 1, "A")).error_code == Err.UNKNOWN_MEMBER_ID
    assert core.ask(Heartbeat("g", 1, "A", None)) is Err.UNKNOWN_MEMBER_ID
    assert core.ask(LeaveGroup("g", [Leaver("A", None)])) == (Err.NONE, [Err.UNKNOWN_MEMBER_ID])
    core.beat("A", -1)
    core.ask(JoinGroupRequest("g", 10_000, 10_000, "", "i", "consumer", join.protocols))
    assert core.shard.classic("g") is not None


def test_an_empty_classic_group_gives_its_place_with_its_offsets() -> None:
    core = Streams()
    assert commit(core, "", -1, errors=False) is Err.NONE
    core.join("A")
    assert isinstance(core.shard.groups["g"], StreamsGroup)
    assert core.offset() == 5


def test_a_load_finds_the_group_in_every_state() -> None:
    core = Streams(standby_replicas=1)
    steps: list[Any] = [
        lambda: core.join("A", COUNTING),
        core.create,
        lambda: core.settle("A", rounds=1),
        lambda: core.join("B", COUNTING, instance_id="i"),
        lambda: core.beat("A"),
        lambda: core.acknowledge("A"),
        lambda: core.settle("A", "B"),
        lambda: core.beat("B", -2, instance_id="i"),
        lambda: core.beat("A", -1),
    ]
    for step in steps:
        step()
        before, after = core.group(), reloaded(core).group()
        assert after.stored == before.stored
        assert after.latest == before.latest
        assert set(after.timers_of("A")) == set(before.timers_of("A"))


def test_a_reloaded_group_goes_on_where_it_was() -> None:
    core = Streams()
    core.join("A")
    core.join("B")
    core.beat("A")
    again = reloaded(core)
    assert again.acknowledge("A").epoch == 3
    assert again.acknowledge("B").active == {"0": [1]}
    again.advance(TIMEOUT_MS)
    assert list(again.group().latest.members) == ["A", "B"]


def test_a_release_without_streams_groups_passes_over_their_records() -> None:
    core = Streams()
    core.join("A")
    older = Streams(JAVA_SINCE[-1][1])
    older.log, older.high_watermark = core.log, len(core.log)
    assert older.reload().shard.groups == {}


def test_what_the_log_refuses_is_undone() -> None:
    core = Streams()
    core.log_error = Err.NOT_ENOUGH_REPLICAS
    refused = core.beat("A", 0, topology=PLAIN, rebalance_timeout_ms=1, process_id="p")
    assert (refused.error_code, core.missing) == (Err.COORDINATOR_NOT_AVAILABLE, {})
    assert "g" not in core.shard.groups
    core.log_error = Err.NONE
    assert core.join("A").epoch == 2
