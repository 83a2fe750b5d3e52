"""Each invariant by itself: what breaks it is told, what only looks like it is not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from broker_sim.simulation import simulate
from broker_sim.simulation.checks.answers import Answers, InvariantBroken, offsets_partition
from broker_sim.simulation.checks.invariants import Invariants
from broker_sim.simulation.checks.sent import SentRequest
from broker_sim.simulation.cluster import SimCluster
from broker_sim.simulation.workloads.raw import (
    CONFIG,
    GROUP,
    commit_request,
    fetch_request,
    join_request,
    sync_request,
)
from broker_sim.storage.partition_for import partition_for
from kafka_wire.errors import Err
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafka_wire.messages.k09_offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from kafka_wire.messages.k11_join_group import JoinGroupResponse, JoinGroupResponseMember
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_wire.messages.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from kafka_wire.messages.k14_sync_group import SyncGroupResponse
from kafka_wire.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

LOST = "acknowledged commits are never lost or regressed"
REMOVAL = OffsetDeleteRequest(GROUP, [OffsetDeleteRequestTopic("orders", [OffsetDeleteRequestPartition(0)])])


class Bench:
    """Answers, told of requests and responses by hand."""

    def __init__(self, kafka: SimCluster) -> None:
        self.kafka = kafka
        self.now_s = 100.0
        kafka.state.ensure_offsets_topic()
        self.answers = Answers(kafka.state, lambda: self.now_s, lambda error: None)
        partition = self.answers.partition(GROUP)
        assert partition is not None
        self.partition, self.leader = partition, partition.leader

    def sent(self, request: Any, version: int = 5, broker: int | None = None) -> SentRequest:
        api = type(request).__name__.removesuffix("Request")
        return self.answers.sent(api, request, version, broker or self.leader)

    def ask(self, request: Any, response: Any, version: int = 5, broker: int | None = None) -> None:
        self.answers.answered(self.sent(request, version, broker), response)

    def join(self, member: str, generation: int, *others: str, leader: str = "", instance: str | None = None) -> None:
        self.ask(join_request(member, instance), joined(member, generation, *others, leader=leader))

    def commit(self, value: int, error: Err = Err.NONE, member: str = "", generation: int = -1) -> None:
        self.ask(commit_request(member, None, generation, {0: value}), committed(error), 8)

    def read(self, value: int) -> None:
        self.ask(fetch_request(1), fetched(value), 7)

    @property
    def name(self) -> str | None:
        """The invariant that is broken."""
        return None if self.answers.broken is None else self.answers.broken.name


def joined(member: str, generation: int, *others: str, leader: str = "") -> JoinGroupResponse:
    members = [JoinGroupResponseMember(each) for each in (member, *others)] if not leader or leader == member else []
    return JoinGroupResponse(generation_id=generation, leader=leader or member, member_id=member, members=members)


def committed(error: Err) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[OffsetCommitResponseTopic("orders", partitions=[OffsetCommitResponsePartition(0, error)])]
    )


def fetched(value: int) -> OffsetFetchResponse:
    return OffsetFetchResponse(topics=[OffsetFetchResponseTopic("orders", [OffsetFetchResponsePartition(0, value)])])


def removed(error: Err) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(topics=[OffsetDeleteResponseTopic("orders", [OffsetDeleteResponsePartition(0, error)])])


def assigned(member: str, generation: int, members: list[str], parts: int = 4) -> SyncGroupResponse:
    given = sync_request(members[0], None, generation, members, parts).assignments
    return SyncGroupResponse(assignment=next(each.assignment for each in given if each.member_id == member))


@pytest.fixture
def bench() -> Iterator[Bench]:
    with simulate(1, invariants=False) as sim:
        yield Bench(sim.cluster(2, {"orders": 4}, journal=False, config=CONFIG))


# --- offsets


def test_an_acked_commit_that_is_lost(bench: Bench) -> None:
    bench.commit(5)
    bench.read(5)
    assert bench.name is None
    bench.read(-1)
    assert bench.name == LOST
    assert "not 5, acked" in str(bench.answers.broken)


@pytest.mark.parametrize(
    ("deleted", "then", "name"),
    [
        ([("orders", 0)], -1, None),  # seed 800581 of pattern: a coordinator that loads afterwards
        ([("orders", 0)], 5, None),  # the tombstone is not committed yet
        ([("orders", 1)], -1, LOST),
        ([("orders", 0)], 4, LOST),
    ],
    ids=["gone", "still there", "another partition", "another offset"],
)
def test_a_commit_whose_topic_is_deleted(
    bench: Bench, deleted: list[tuple[str, int]], then: int, name: str | None
) -> None:
    bench.commit(4)
    bench.commit(5)
    bench.answers.deleted_with_topic(GROUP, deleted)
    bench.read(then)
    assert bench.name == name


def test_an_acked_commit_that_regresses(bench: Bench) -> None:
    bench.commit(5)
    bench.commit(6)
    bench.read(5)
    assert bench.name == LOST


@pytest.mark.parametrize("seen", [5, 6])
def test_a_commit_that_timed_out_may_have_landed(bench: Bench, seen: int) -> None:
    bench.commit(5)
    bench.commit(6, Err.REQUEST_TIMED_OUT)
    bench.read(seen)
    bench.read(seen)
    assert bench.name is None


def test_what_was_read_once_is_not_unread(bench: Bench) -> None:
    bench.commit(5)
    bench.commit(6, Err.COORDINATOR_NOT_AVAILABLE)
    bench.read(6)
    bench.read(5)
    assert bench.name == LOST
    assert "not 6, seen before" in str(bench.answers.broken)


@pytest.mark.parametrize(("as_version", "told"), [("3.4", None), ("4.1", LOST)])
def test_what_3_x_shows_of_a_log_that_is_not_committed_may_be_cut_off(as_version: str, told: str | None) -> None:
    with simulate(1, invariants=False) as sim:
        bench = Bench(sim.cluster(2, {"orders": 4}, as_version=as_version, journal=False, config=CONFIG))
        bench.commit(5)
        bench.partition.high_watermark = bench.partition.log_end_offset - 1
        bench.commit(6, Err.NOT_COORDINATOR)
        bench.read(6)
        bench.read(5)
        assert bench.name == told


def test_a_refused_commit_that_shows(bench: Bench) -> None:
    bench.commit(5)
    bench.commit(6, Err.ILLEGAL_GENERATION, "somebody", 3)
    bench.read(6)
    assert bench.name == LOST


@pytest.mark.parametrize(("error", "seen"), [(Err.GROUP_SUBSCRIBED_TO_TOPIC, None), (Err.NONE, LOST)])
def test_a_removal_takes_something_away_where_it_is_acknowledged(bench: Bench, error: Err, seen: str | None) -> None:
    bench.commit(5)
    bench.ask(REMOVAL, removed(error), 0)
    bench.read(5)
    assert bench.name == seen


def test_a_group_that_an_offset_delete_may_have_deleted_begins_with_generation_1_again(bench: Bench) -> None:
    bench.join("a", 6)
    bench.ask(REMOVAL, removed(Err.NONE), 0)
    bench.join("b", 1)
    bench.join("b", 5)
    removal = bench.sent(REMOVAL, 0)
    bench.join("c", 1)
    bench.answers.answered(removal, removed(Err.NONE))
    bench.join("d", 2)
    bench.answers.lost(bench.sent(REMOVAL, 0))
    bench.join("e", 1)
    assert bench.name is None
    bench.join("e", 0)
    assert bench.name == "requests of older generations are refused"


def test_a_removal_that_waits_is_not_why_nothing_is_there(bench: Bench) -> None:
    removal = bench.sent(REMOVAL, 0)
    bench.read(-1)
    bench.commit(5)
    bench.answers.answered(removal, removed(Err.GROUP_SUBSCRIBED_TO_TOPIC))
    bench.read(5)
    assert bench.name is None


def test_commits_that_overlap_may_land_in_either_order(bench: Bench) -> None:
    first = bench.sent(commit_request("", None, -1, {0: 5}), 8)
    bench.commit(6)
    bench.answers.answered(first, committed(Err.NONE))
    bench.read(5)
    assert bench.name is None


# --- members and generations


def test_a_commit_of_an_older_generation(bench: Bench) -> None:
    bench.join("a", 3)
    bench.commit(5, Err.NONE, "a", 2)
    assert bench.name == "requests of older generations are refused"


def test_an_older_generation_under_another_coordinator_is_not_compared(bench: Bench) -> None:
    bench.join("a", 3)
    bench.partition.leader_epoch += 1
    bench.join("a", 2)
    assert bench.name is None


def test_an_epoch_that_comes_again_with_other_brokers_is_another_coordinator(bench: Bench) -> None:
    bench.join("a", 2)
    bench.answers.started()
    bench.join("b", 1)
    assert bench.name is None
    bench.join("b", 2)
    bench.join("c", 1)
    assert bench.name == "requests of older generations are refused"


def test_an_answer_that_was_under_way_when_the_generation_moved(bench: Bench) -> None:
    late = bench.sent(HeartbeatRequest(GROUP, 2, "b"), 4)
    bench.join("a", 3)
    bench.answers.answered(late, HeartbeatResponse())
    assert bench.name is None


def test_a_partition_with_two_owners(bench: Bench) -> None:
    for member in ("a", "b"):
        bench.ask(sync_request(member, None, 1, [], 4), assigned(member, 1, ["a", "b"]))
    assert bench.name is None
    bench.ask(sync_request("c", None, 1, [], 4), assigned("a", 1, ["a", "b"]))
    assert bench.name == "a partition has one owner"


def test_a_generation_with_two_sets_of_members(bench: Bench) -> None:
    bench.join("a", 1, "b")
    bench.join("b", 1, leader="a")
    assert bench.name is None
    bench.join("a", 1, "c")
    assert bench.name == "a generation has one set of members"


def test_a_leader_that_is_no_member(bench: Bench) -> None:
    bench.join("a", 1, "b")
    bench.join("b", 1, leader="c")
    assert bench.name in ("a generation has one leader", "the leader is a member")


def test_a_member_id_that_is_given_twice(bench: Bench) -> None:
    for _ in range(2):
        answer = JoinGroupResponse(error_code=Err.MEMBER_ID_REQUIRED, member_id="a")
        bench.ask(join_request("", None), answer)
    assert bench.name == "member ids are never reused"


def test_a_dynamic_member_that_joins_without_an_id(bench: Bench) -> None:
    bench.ask(join_request("", None), joined("a", 1), version=3)
    assert bench.name is None
    bench.ask(join_request("", None), joined("b", 2), version=4)
    assert bench.name == "a dynamic member joins with an assigned member id (KIP-394)"


def test_a_member_that_has_left(bench: Bench) -> None:
    bench.join("a", 1)
    left = LeaveGroupResponse(members=[MemberResponse("a", None)])
    bench.ask(LeaveGroupRequest(GROUP, members=[MemberIdentity("a", None)]), left)
    bench.ask(HeartbeatRequest(GROUP, 1, "a"), HeartbeatResponse(error_code=Err.UNKNOWN_MEMBER_ID), 4)
    assert bench.name is None
    bench.ask(HeartbeatRequest(GROUP, 1, "a"), HeartbeatResponse(), 4)
    assert bench.name == "removed members get UNKNOWN_MEMBER_ID"


@pytest.mark.parametrize(("silence_s", "name"), [(2.9, None), (3.1, "members expire after their session timeout")])
def test_a_member_that_was_silent(bench: Bench, silence_s: float, name: str | None) -> None:
    bench.join("a", 1)
    bench.ask(sync_request("a", None, 1, ["a"], 4), assigned("a", 1, ["a"]))
    bench.now_s += silence_s
    bench.ask(HeartbeatRequest(GROUP, 1, "a"), HeartbeatResponse(), 4)
    assert bench.name == name


@pytest.mark.parametrize(("silence_s", "name"), [(2.1, None), (1.9, "live members are not evicted")])
def test_a_member_that_was_heard_of(bench: Bench, silence_s: float, name: str | None) -> None:
    bench.join("a", 1)
    bench.ask(sync_request("a", None, 1, ["a"], 4), assigned("a", 1, ["a"]))
    bench.ask(HeartbeatRequest(GROUP, 1, "a"), HeartbeatResponse(), 4)
    bench.now_s += silence_s
    bench.ask(HeartbeatRequest(GROUP, 1, "a"), HeartbeatResponse(error_code=Err.UNKNOWN_MEMBER_ID), 4)
    assert bench.name == name


def test_a_member_that_the_group_had_no_room_for_when_it_rejoined(bench: Bench) -> None:
    """GroupCoordinator removes a member whose JoinGroup it refuses because of group.max.size: seed 704186 of hostile."""
    bench.join("a", 1)
    bench.ask(sync_request("a", None, 1, ["a"], 4), assigned("a", 1, ["a"]))
    bench.ask(HeartbeatRequest(GROUP, 1, "a"), HeartbeatResponse(), 4)
    bench.ask(join_request("a", None), JoinGroupResponse(error_code=Err.GROUP_MAX_SIZE_REACHED))
    bench.commit(5, Err.UNKNOWN_MEMBER_ID, "a", 1)
    assert bench.name is None


def test_a_member_that_never_syncs(bench: Bench) -> None:
    bench.join("a", 1)
    for name in (None, None, None, "members without a SyncGroup are removed"):
        bench.now_s += 1
        bench.ask(HeartbeatRequest(GROUP, 1, "a"), HeartbeatResponse(), 4)
        assert bench.name == name


def test_a_replaced_static_member(bench: Bench) -> None:
    for member in ("a", "b"):
        bench.ask(join_request("", "fixed"), joined(member, 1))
    bench.ask(HeartbeatRequest(GROUP, 1, "b", "fixed"), HeartbeatResponse(), 4)
    assert bench.name is None
    bench.ask(HeartbeatRequest(GROUP, 1, "a", "fixed"), HeartbeatResponse(), 4)
    assert bench.name == "a replaced static member is fenced"


# --- who answers, and when


def test_an_answer_of_the_wrong_broker(bench: Bench) -> None:
    other = 3 - bench.leader
    refused = HeartbeatResponse(error_code=Err.NOT_COORDINATOR)
    bench.ask(HeartbeatRequest(GROUP, 1, "a"), refused, 4, broker=other)
    assert bench.name is None
    unknown = HeartbeatResponse(error_code=Err.UNKNOWN_MEMBER_ID)
    bench.ask(HeartbeatRequest(GROUP, 1, "a"), unknown, 4, broker=other)
    assert bench.name == "a group has one coordinator"


def test_a_parked_request_that_is_forgotten(bench: Bench) -> None:
    bench.sent(join_request("a", None))
    bench.now_s += 4.9
    bench.answers.overdue()
    assert bench.name is None
    bench.now_s += 0.2
    bench.answers.overdue()
    assert bench.name == "deferred requests are answered"


def test_a_parked_request_whose_member_has_sent_another(bench: Bench) -> None:
    bench.sent(join_request("a", None))
    bench.join("a", 1)
    bench.now_s += 60
    bench.answers.overdue()
    assert bench.name is None


@pytest.mark.parametrize(
    "group", ["billing", "", "a", "ÜbergrößenträgerFactory", "polygenelubricants", "\U0001f980", "x" * 99]
)
def test_the_partition_of_a_group(group: str) -> None:
    for count in (1, 7, 50):
        assert offsets_partition(group, count) == partition_for(group, count)


# --- from the journal


def watched(sim: Any) -> tuple[SimCluster, Invariants, list[InvariantBroken]]:
    kafka = sim.cluster(1, {"orders": 4}, config=CONFIG)
    kafka.state.ensure_offsets_topic()
    found: list[InvariantBroken] = []
    return kafka, Invariants(kafka, found.append), found


def shown(state: str, generation: int, members: dict[str, list[int]], leader: str | None) -> dict[str, Any]:
    same = {"client_id": "one", "client_host": "/10.0.0.1", "instance": None, "topics": ["orders"], "deferred": None}
    timeouts = {"session_timeout_ms": 2000, "rebalance_timeout_ms": 3000}
    told = [{"member": name, **same, **timeouts, "assignment": {"orders": parts}} for name, parts in members.items()]
    group = {"state": state, "generation": generation, "protocol": "range", "leader": leader}
    return {**group, "size": len(told), "members": told, "pending": []}


STABLE = shown("Stable", 2, {"a": [0, 1], "b": [2]}, "a")


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        (STABLE, shown("PreparingRebalance", 2, {"a": [0]}, "a"), None),
        (STABLE, shown("Stable", 1, {"a": [0]}, "a"), "generations never decrease"),
        (STABLE, shown("Stable", 2, {"a": [0], "b": [0]}, "a"), "a partition has one owner"),
        (STABLE, shown("Stable", 2, {"a": [0]}, "b"), "the leader is a member"),
        (
            shown("PreparingRebalance", 2, {"a": []}, "a"),
            shown("CompletingRebalance", 2, {"a": []}, "a"),
            "a rebalance begins a new generation",
        ),
    ],
)
def test_a_step_of_a_group(before: dict[str, Any], after: dict[str, Any], name: str | None) -> None:
    with simulate(1, invariants=False) as sim:
        kafka, _, found = watched(sim)
        log = f"__consumer_offsets-{offsets_partition(GROUP, 7)}"
        cause = {"kind": "request", "request": 1, "api": "JoinGroup"}
        kafka.journal.write("group", log=log, group=GROUP, cause=cause, before=before, after=after)
        assert [each.name for each in found] == ([] if name is None else [name])


def test_a_member_that_comes_back_under_its_old_id() -> None:
    with simulate(1, invariants=False) as sim:
        kafka, _, found = watched(sim)
        log = f"__consumer_offsets-{offsets_partition(GROUP, 7)}"
        cause = {"kind": "request", "request": 1, "api": "LeaveGroup"}
        without = shown("PreparingRebalance", 2, {"a": [0]}, "a")
        kafka.journal.write("group", log=log, group=GROUP, cause=cause, before=STABLE, after=without)
        back = {**STABLE, "state": "PreparingRebalance"}
        kafka.journal.write("group", log=log, group=GROUP, cause=cause, before=without, after=back)
        assert [each.name for each in found] == ["member ids are never reused"]
        assert "is back" in str(found[0])


@pytest.mark.parametrize("removed", [True, False])
def test_a_join_that_waits_while_a_request_from_before_removes_its_member(removed: bool) -> None:
    """A rule had kept the LeaveGroup back: UNKNOWN_MEMBER_ID is right for a JoinGroup that came while "a" was a member still."""
    with simulate(1, invariants=False) as sim:
        kafka, watch, found = watched(sim)
        index = offsets_partition(GROUP, 7)
        partition, log = kafka.state.topics["__consumer_offsets"].partitions[index], f"__consumer_offsets-{index}"
        kafka.runtime.reload(partition, keep_loading=True)
        kafka.runtime.end_loading(partition)
        sim.run_for(1)
        preparing = shown("PreparingRebalance", 2, {"a": [], "b": []}, "b")
        watch._groups[GROUP] = preparing
        client = {"connection": 1, "correlation_id": 5, "client_id": "one", "client_host": "/10.0.0.1"}
        body = {"group_id": GROUP, "member_id": "a", "group_instance_id": None, "session_timeout_ms": 2000}
        kafka.journal.write(
            "request",
            request=7,
            api="JoinGroup",
            version=9,
            broker=1,
            **client,
            body={**body, "rebalance_timeout_ms": 3000},
        )
        if removed:
            cause = {"kind": "request", "request": 3, "api": "LeaveGroup"}
            without = shown("PreparingRebalance", 2, {"b": []}, "b")
            kafka.journal.write("group", log=log, group=GROUP, cause=cause, before=preparing, after=without)
        answer = {"error_code": 25, "generation_id": -1, "member_id": "", "leader": "", "members": []}
        kafka.journal.write("response", request=7, api="JoinGroup", took_ms=1, body=answer)
        assert [each.name for each in found] == ([] if removed else ["responses follow the coordinator's rules"])


def test_a_group_in_the_wrong_partition() -> None:
    with simulate(1, invariants=False) as sim:
        kafka, _, found = watched(sim)
        cause = {"kind": "request", "request": 1, "api": "JoinGroup"}
        kafka.journal.write("group", log="__consumer_offsets-1", group=GROUP, cause=cause, before=None, after=STABLE)
        assert [each.name for each in found] == ["a group is stored in the offsets partition of its hash"]


def test_offsets_that_show_before_they_are_committed() -> None:
    with simulate(1, invariants=False) as sim:
        kafka, _, found = watched(sim)
        log = f"__consumer_offsets-{offsets_partition(GROUP, 7)}"
        append = {"log": log, "kinds": ["offsets"], "groups": [GROUP], "records": 1}
        kafka.journal.write("append", requests=[1], base_offset=0, last_offset=0, high_watermark=1, **append)
        kafka.journal.write("offsets", log=log, group=GROUP, request=1, offsets={"orders-0": 5})
        assert not found
        kafka.journal.write("append", requests=[2], base_offset=1, last_offset=1, high_watermark=1, **append)
        kafka.journal.write("offsets", log=log, group=GROUP, request=2, offsets={"orders-0": 6})
        assert [each.name for each in found] == ["uncommitted offsets are not visible"]


def test_a_coordinator_that_has_what_its_log_has_not() -> None:
    with simulate(1, invariants=False) as sim:
        kafka, watch, found = watched(sim)

        async def commit() -> None:
            from broker_sim.simulation.workloads.raw import RawClient, RawContext

            client = RawClient(RawContext(sim, kafka, watch.answers), "one")
            await client.ask(commit_request("", None, -1, {0: 5}), 1)

        quiet = Answers(kafka.state, lambda: sim.elapsed_s, lambda error: None)
        watch.answers, real = quiet, watch.answers
        sim.run(commit())
        watch.answers = real
        watch.finish()
        assert not found
        shard = kafka.runtime.shard(offsets_partition(GROUP, 7))
        assert shard is not None
        shard.groups[GROUP].offsets["orders"][0].offset = 6
        watch.finish()
        assert [each.name for each in found] == ["the log matches the coordinator's state"]
