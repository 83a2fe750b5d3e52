"""Consumer groups of KIP-848: heartbeats in all states, epochs, static members, regular expressions, both protocols in one group."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_wire.consumer_protocol import assignment_of
from kafka_wire.errors import Err
from kafka_wire.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kafka_wire.messages.k15_describe_groups import DescribeGroupsRequest
from kafka_wire.messages.k42_delete_groups import DeleteGroupsRequest
from kafka_wire.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.conformance.consumers import JOIN, Consumers
from tests.conformance.driver import Kafka, commit_errors, commit_request, listed

pytestmark = pytest.mark.generations("4.1", "4.4")


@pytest.mark.parametrize(
    "said",
    [
        {"member_id": ""},
        {"member_epoch": -3},
        {"rebalance_timeout_ms": -1},
        {"topic_partitions": None},
        {"subscribed_topic_names": None},
        {"instance_id": ""},
        {"rack_id": ""},
        {"member_epoch": -2},
    ],
    ids=lambda said: "-".join(f"{key}.{value}" for key, value in said.items()),
)
async def test_c01_a_request_that_no_group_takes(kafka: Kafka, said: dict[str, Any]) -> None:
    fields = {"group_id": kafka.group, "member_id": "m", "member_epoch": 0, **JOIN, **said}
    answer = await kafka.ask(ConsumerGroupHeartbeatRequest(**fields), 1)
    assert answer.error_code == Err.INVALID_REQUEST


async def test_c02_assignors_and_expressions_that_are_none(kafka: Kafka) -> None:
    members = Consumers(kafka)
    for name in ("foo", ""):
        assert await members.refused("m", 0, **JOIN, server_assignor=name) is Err.UNSUPPORTED_ASSIGNOR
    for text in ("[a", "(?<x>", "(?!a)b", "a**", "\\1", "a)", "[b-a]"):
        said = {**JOIN, "subscribed_topic_names": None, "subscribed_topic_regex": text}
        assert await members.refused("m", 0, **said) is Err.INVALID_REGULAR_EXPRESSION


async def test_c03_who_is_unknown(kafka: Kafka) -> None:
    members = Consumers(kafka)
    assert await members.refused("m", 5) is Err.GROUP_ID_NOT_FOUND
    assert await members.refused("m", -1) is Err.GROUP_ID_NOT_FOUND
    assert await members.refused("m", -2, instance_id="i") is Err.GROUP_ID_NOT_FOUND
    epoch = await members.join("m")
    assert epoch == members.first
    assert await members.refused("x", epoch) is Err.UNKNOWN_MEMBER_ID
    assert await members.refused("x", -1) is Err.UNKNOWN_MEMBER_ID
    assert await members.refused("m", epoch + 1) is Err.FENCED_MEMBER_EPOCH
    assert await members.join("m") == epoch


async def test_c04_a_partition_goes_from_one_to_another(kafka: Kafka) -> None:
    members = await Consumers(kafka).at_once()
    first = members.first
    assert await members.join("A") == first
    assert members.has("A") == [0, 1, 2]
    assert await members.join("B") == first + 1
    assert members.has("B") == []
    assert (await members.beat("B", first + 1)).assignment is None
    assert (await members.beat("A", first)).member_epoch == first
    assert members.has("A") == [0, 1]
    assert (await members.described()).group_state == "Reconciling"
    assert (await members.beat("A", first)).assignment is None
    assert (await members.beat("A", first, topic_partitions=members.owned["A"])).member_epoch == first + 1
    await members.beat("B", first + 1)
    assert members.has("B") == [2]
    repeated = await members.beat("A", first, topic_partitions=members.owned["A"])
    assert (repeated.error_code, repeated.member_epoch) == (Err.NONE, first + 1)
    assert await members.refused("A", first) is Err.FENCED_MEMBER_EPOCH
    group = await members.described()
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", first + 1, first + 1)
    full = {**JOIN, "topic_partitions": members.owned["A"]}
    assert (await members.beat("A", first + 1, **full)).assignment is not None


async def test_c05_other_subscriptions(kafka: Kafka) -> None:
    members = await Consumers(kafka).at_once()
    epoch = await members.join("A")
    assert (await members.beat("A", epoch, subscribed_topic_names=["t0", "t1"])).member_epoch == epoch + 1
    assert (await members.beat("A", epoch + 1, subscribed_topic_names=["t1", "t0"])).member_epoch == epoch + 1
    assert (await members.beat("A", epoch + 1, subscribed_topic_names=["nowhere"])).member_epoch == epoch + 1
    assert members.has("A") == []
    assert (await members.beat("A", epoch + 1, topic_partitions=[])).member_epoch == epoch + 2


async def test_c06_static_members(kafka: Kafka) -> None:
    members = await Consumers(kafka).at_once()
    epoch = await members.join("A", instance_id="i")
    assert await members.refused("B", 0, **JOIN, instance_id="i") is Err.UNRELEASED_INSTANCE_ID
    assert (await members.beat("A", -2, instance_id="i")).member_epoch == -2
    assert (await members.described()).members[0].member_epoch == -2
    assert await members.join("B", instance_id="i") == epoch
    assert members.has("B") == [0, 1, 2]
    assert await members.refused("A", epoch, instance_id="i") is Err.FENCED_INSTANCE_ID
    assert await members.refused("B", epoch, instance_id="j") is Err.UNKNOWN_MEMBER_ID
    assert await members.refused("X", -2, instance_id="i") is Err.FENCED_INSTANCE_ID
    assert (await members.beat("B", -1, instance_id="i")).member_epoch == -1
    assert (await members.described()).group_state == "Empty"


async def test_c07_offsets_by_epochs(kafka: Kafka) -> None:
    members = await Consumers(kafka).at_once()
    first = await members.join("A")

    async def commit(member: str, epoch: int, partition: int = 0, version: int = 9) -> Err:
        fields = {"member_id": member, "generation_id_or_member_epoch": epoch}
        answer = await kafka.ask(commit_request(kafka.group, {("t0", partition): 1}, **fields), version)
        return commit_errors(answer)["t0", partition]

    async def fetch(member: str | None, epoch: int) -> Err:
        answer = await kafka.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(kafka.group, member, epoch)]), 9)
        return Err(answer.groups[0].error_code)

    assert await commit("A", first) is Err.NONE
    assert await commit("A", first + 1) is Err.STALE_MEMBER_EPOCH
    assert await commit("A", first - 1) is Err.STALE_MEMBER_EPOCH
    assert await commit("X", first) is Err.UNKNOWN_MEMBER_ID
    assert await commit("", -1) is Err.UNKNOWN_MEMBER_ID
    assert await commit("A", first, version=8) is Err.UNSUPPORTED_VERSION
    assert [await fetch("A", first), await fetch("A", first + 1), await fetch("X", first), await fetch(None, -1)] == [
        *(Err.NONE, Err.STALE_MEMBER_EPOCH, Err.UNKNOWN_MEMBER_ID, Err.NONE),
    ]
    await members.join("B")
    await members.beat("A", first)
    await members.beat("A", first, topic_partitions=members.owned["A"])
    await members.beat("B", first + 1)
    late = Err.STALE_MEMBER_EPOCH if kafka.generation == "4.1" else Err.NONE
    assert await commit("A", first) is late
    assert await commit("A", first, 2) is Err.STALE_MEMBER_EPOCH
    assert await commit("B", first, 2) is Err.STALE_MEMBER_EPOCH


async def test_c08_other_apis_and_the_end(kafka: Kafka) -> None:
    members = Consumers(kafka)
    await members.join("A")
    old = (await kafka.ask(DescribeGroupsRequest([kafka.group]), 5)).groups[0]
    assert (old.error_code, old.group_state) == (Err.NONE, "Dead")
    new = (await kafka.ask(DescribeGroupsRequest([kafka.group]), 6)).groups[0]
    assert new.error_code == Err.GROUP_ID_NOT_FOUND
    assert (await listed(kafka, version=5))[kafka.group].group_type == "consumer"
    (refused,) = (await kafka.ask(DeleteGroupsRequest([kafka.group]), 2)).results
    assert refused.error_code == Err.NON_EMPTY_GROUP
    await members.beat("A", -1)
    (deleted,) = (await kafka.ask(DeleteGroupsRequest([kafka.group]), 2)).results
    assert deleted.error_code == Err.NONE
    assert (await members.described()).error_code == Err.GROUP_ID_NOT_FOUND


async def test_c09_a_classic_group_goes_over_and_comes_back(kafka: Kafka) -> None:
    members = await Consumers(kafka).at_once()
    [classic] = await kafka.joined(1)
    await classic.sync({classic.id: assignment_of({"t0": [0, 1, 2]}, as_in=b"\0\0")})
    epoch = await members.join("N")
    assert epoch == 2
    assert members.has("N") == []
    assert await classic.heartbeat() == Err.REBALANCE_IN_PROGRESS
    again = await classic.try_join()
    assert (again.error_code, again.leader, again.members) == (Err.NONE, "", [])
    assert (await classic.sync()).error_code == Err.NONE
    await members.beat("N", epoch)
    assert await classic.heartbeat(member_id="N", generation_id=epoch) == Err.UNKNOWN_MEMBER_ID
    assert (await members.beat("N", -1)).error_code == Err.NONE
    assert (await kafka.state()).group_state == "PreparingRebalance"
    assert await classic.heartbeat() == Err.REBALANCE_IN_PROGRESS
