"""Two brokers: what the one answers that is not the coordinator of a group, or not the leader of a partition.

The common gate; catalogue 1, 53, 66, 77, 100, 108, 131, 135, 137.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafka_wire.errors import Err
from kafka_wire.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kafka_wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from kafka_wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.messages.k14_sync_group import SyncGroupRequest
from kafka_wire.messages.k15_describe_groups import DescribeGroupsRequest
from kafka_wire.messages.k16_list_groups import ListGroupsRequest
from kafka_wire.messages.k42_delete_groups import DeleteGroupsRequest
from kafka_wire.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.conformance.driver import Kafka, commit_errors, commit_request, fetch_request

pytestmark = pytest.mark.profile("pair")
T = ("t0", 0)


async def brokers_of(kafka: Kafka, group: str | None = None) -> tuple[int, int]:
    """(the coordinator of the group, the other broker). Which of the two it is, is not compared."""
    answer = await kafka.watch(FindCoordinatorRequest(kafka.group if group is None else group), 0)
    assert answer.error_code == Err.NONE
    return answer.node_id, 3 - answer.node_id


def join(kafka: Kafka, **fields: Any) -> JoinGroupRequest:
    given: dict[str, Any] = {
        "group_id": kafka.group,
        "session_timeout_ms": 20_000,
        "rebalance_timeout_ms": 20_000,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol("range", b"")],
    }
    return JoinGroupRequest(**{**given, **fields})


@pytest.mark.parametrize("version", [0, 4, 9])
async def test_001_join(kafka: Kafka, version: int) -> None:
    _, other = await brokers_of(kafka)
    answer = await kafka.ask(join(kafka), version, broker=other)
    assert (answer.error_code, answer.generation_id, answer.member_id) == (Err.NOT_COORDINATOR, -1, "")


async def test_001_join_creates_no_group_there(kafka: Kafka) -> None:
    mine, other = await brokers_of(kafka)
    await kafka.ask(join(kafka), 9, broker=other)
    answer = await kafka.ask(DescribeGroupsRequest([kafka.group]), 5, broker=mine)
    assert answer.groups[0].group_state == "Dead"


async def test_s2_0_session_timeout_and_gate_of_a_join(kafka: Kafka) -> None:
    """4.1 looks at the session timeout before it looks whether the group is its own."""
    _, other = await brokers_of(kafka)
    answer = await kafka.ask(join(kafka, session_timeout_ms=1), 9, broker=other)
    assert answer.error_code == kafka.pick(old=Err.NOT_COORDINATOR, new=Err.INVALID_SESSION_TIMEOUT)


@pytest.mark.parametrize("node", [1, 2])
async def test_s2_0_empty_group_id_comes_before_the_gate(kafka: Kafka, node: int) -> None:
    answer = await kafka.ask(join(kafka, group_id=""), 9, broker=node)
    assert answer.error_code == Err.INVALID_GROUP_ID


async def test_053_sync(kafka: Kafka) -> None:
    _, other = await brokers_of(kafka)
    answer = await kafka.ask(SyncGroupRequest(kafka.group, 1, "m", None, "consumer", "range"), 5, broker=other)
    assert answer.error_code == Err.NOT_COORDINATOR


async def test_054_v5_sync_without_protocol_is_refused_even_here(kafka: Kafka) -> None:
    _, other = await brokers_of(kafka)
    answer = await kafka.ask(SyncGroupRequest(kafka.group, 1, "m"), 5, broker=other)
    assert answer.error_code == Err.INCONSISTENT_GROUP_PROTOCOL


async def test_066_heartbeat(kafka: Kafka) -> None:
    _, other = await brokers_of(kafka)
    answer = await kafka.ask(HeartbeatRequest(kafka.group, 1, "m"), 4, broker=other)
    assert answer.error_code == Err.NOT_COORDINATOR


@pytest.mark.parametrize("version", [0, 2, 3, 5])
async def test_077_leave(kafka: Kafka, version: int) -> None:
    _, other = await brokers_of(kafka)
    request = LeaveGroupRequest(kafka.group, "m" if version < 3 else "", [MemberIdentity("m")] if version >= 3 else [])
    answer = await kafka.ask(request, version, broker=other)
    unshaped = kafka.old and version < 3
    assert answer.error_code == (Err.UNSUPPORTED_VERSION if unshaped else Err.NOT_COORDINATOR)
    assert answer.members == []


@pytest.mark.parametrize("version", [2, 8])
async def test_100_commit(kafka: Kafka, version: int) -> None:
    _, other = await brokers_of(kafka)
    answer = await kafka.ask(commit_request(kafka.group, {T: 5, ("t1", 0): 6}), version, broker=other)
    assert commit_errors(answer) == dict.fromkeys((T, ("t1", 0)), Err.NOT_COORDINATOR)


async def test_100_commit_of_unknown_topics_beside_the_gate(kafka: Kafka) -> None:
    _, other = await brokers_of(kafka)
    answer = await kafka.ask(commit_request(kafka.group, {T: 5, ("none", 0): 6}), 8, broker=other)
    assert commit_errors(answer) == {T: Err.NOT_COORDINATOR, ("none", 0): Err.UNKNOWN_TOPIC_OR_PARTITION}


@pytest.mark.parametrize("version", [1, 2, 7, 8])
async def test_108_offset_fetch(kafka: Kafka, version: int) -> None:
    _, other = await brokers_of(kafka)
    answer = await kafka.ask(fetch_request(kafka.group, [T], version), version, broker=other)
    if version == 1:
        assert answer.topics[0].partitions[0].error_code == Err.NOT_COORDINATOR
    elif version < 8:
        assert answer.error_code == Err.NOT_COORDINATOR
    else:
        assert answer.groups[0].error_code == Err.NOT_COORDINATOR


@pytest.mark.parametrize("version", [2, 7, 8])
async def test_108_offset_fetch_of_all(kafka: Kafka, version: int) -> None:
    _, other = await brokers_of(kafka)
    answer = await kafka.ask(fetch_request(kafka.group, None, version), version, broker=other)
    assert (answer.groups[0] if version == 8 else answer).error_code == Err.NOT_COORDINATOR


@pytest.mark.parametrize("version", [0, 5])
async def test_135_describe(kafka: Kafka, version: int) -> None:
    _, other = await brokers_of(kafka)
    shown = (await kafka.ask(DescribeGroupsRequest([kafka.group]), version, broker=other)).groups[0]
    assert (shown.error_code, shown.group_state, shown.members) == (Err.NOT_COORDINATOR, "", [])


async def test_131_delete_groups(kafka: Kafka) -> None:
    _, other = await brokers_of(kafka)
    answer = await kafka.ask(DeleteGroupsRequest([kafka.group]), 2, broker=other)
    assert [(item.group_id, item.error_code) for item in answer.results] == [(kafka.group, Err.NOT_COORDINATOR)]


async def test_132_delete_groups_of_both_brokers(kafka: Kafka) -> None:
    """Only its own are deleted."""
    names = {}
    for number in range(40):
        group = kafka.name(str(number))
        names.setdefault((await brokers_of(kafka, group))[0], group)
    assert set(names) == {1, 2}
    for node, group in names.items():
        wire = await kafka.wire(broker=node, record=False)
        await wire.send(commit_request(group, {T: 1}), 8)
    wire = await kafka.wire(broker=1, record=False)
    answer = await wire.send(DeleteGroupsRequest([names[2], names[1]]), 2)
    errors = {item.group_id: item.error_code for item in answer.results}
    assert errors == {names[1]: Err.NONE, names[2]: Err.NOT_COORDINATOR}


async def test_s2_8_offset_delete(kafka: Kafka) -> None:
    _, other = await brokers_of(kafka)
    topics = [OffsetDeleteRequestTopic("t0", [OffsetDeleteRequestPartition(0)])]
    answer = await kafka.ask(OffsetDeleteRequest(kafka.group, topics), 0, broker=other)
    assert (answer.error_code, answer.topics) == (Err.NOT_COORDINATOR, [])


async def test_137_list_shows_the_groups_of_one_broker(kafka: Kafka) -> None:
    mine, other = await brokers_of(kafka)
    await kafka.ask(commit_request(kafka.group, {T: 1}), 8, broker=mine)
    here = await kafka.ask(ListGroupsRequest(), 4, broker=mine)
    there = await kafka.ask(ListGroupsRequest(), 4, broker=other)
    assert kafka.group in {group.group_id for group in here.groups}
    assert kafka.group not in {group.group_id for group in there.groups}


async def test_s2_1_every_broker_knows_the_coordinator(kafka: Kafka) -> None:
    groups = [kafka.name(str(number)) for number in range(8)]
    answers = [
        await kafka.watch(FindCoordinatorRequest(coordinator_keys=groups), 4, broker=node) for node in kafka.brokers
    ]
    first, second = [[(item.key, item.node_id, item.port) for item in answer.coordinators] for answer in answers]
    assert first == second
    assert {f"127.0.0.1:{port}" for _, _, port in first} == set(kafka.brokers.values())


async def test_s2_2_member_joins_through_its_coordinator(kafka: Kafka) -> None:
    mine, other = await brokers_of(kafka)
    member = await kafka.member(broker=mine)
    await member.join()
    await member.sync({member.id: b"x"})
    elsewhere = await kafka.wire("m1", broker=other)
    assert await member.heartbeat(wire=elsewhere) == Err.NOT_COORDINATOR
    assert await member.heartbeat() == Err.NONE


async def test_s2_9_list_offsets_from_a_broker_that_does_not_lead(kafka: Kafka) -> None:
    wanted = [ListOffsetsPartition(index, timestamp=-1) for index in range(3)]
    answers = [
        await kafka.watch(ListOffsetsRequest(-1, topics=[ListOffsetsTopic("t0", wanted)]), 7, broker=node)
        for node in kafka.brokers
    ]
    for index in range(3):
        errors = {answer.topics[0].partitions[index].error_code for answer in answers}
        assert errors == {Err.NONE, Err.NOT_LEADER_OR_FOLLOWER}
