"""Consumer groups of KIP-848 over the wire."""

from __future__ import annotations

import pytest

from broker_sim.api.cluster import Cluster
from kafka_wire.errors import Err
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kafka_wire.messages.k15_describe_groups import DescribeGroupsRequest
from kafka_wire.messages.k16_list_groups import ListGroupsRequest
from kafka_wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_wire.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kafka_wire.messages.k69_consumer_group_describe import ConsumerGroupDescribeRequest
from tests.support.wire import Wire


class Members(Wire):
    """A connection that heartbeats for members of ``g``."""

    async def join(self, member: str, **more: object) -> ConsumerGroupHeartbeatResponse:
        said = {"rebalance_timeout_ms": 5000, "subscribed_topic_names": ["orders"], "topic_partitions": [], **more}
        return await self.beat(member, 0, **said)

    async def beat(self, member: str, epoch: int, **said: object) -> ConsumerGroupHeartbeatResponse:
        request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member, member_epoch=epoch, **said)  # type: ignore[arg-type]
        answer = await self.send(request, 1)
        assert isinstance(answer, ConsumerGroupHeartbeatResponse)
        return answer


async def connected(kafka: Cluster) -> Members:
    kafka.state.ensure_offsets_topic()
    return await Members.connect(kafka.bootstrap)


async def test_two_members_share_a_topic_and_are_described() -> None:
    async with Cluster(topics={"orders": 3}) as kafka:
        wire = await connected(kafka)
        a = await wire.join("A")
        assert (a.member_epoch, a.heartbeat_interval_ms) == (1, 5000)
        assert a.assignment is not None
        (given,) = a.assignment.topic_partitions
        assert given.partitions == [0, 1, 2]
        assert (await wire.join("B")).member_epoch == 2
        told = (await wire.beat("A", 1)).assignment
        assert told is not None
        assert told.topic_partitions[0].partitions == [0, 1]
        assert (await wire.beat("A", 1)).assignment is None
        assert (await wire.beat("A", 1, topic_partitions=told.topic_partitions)).member_epoch == 2
        b = (await wire.beat("B", 2)).assignment
        assert b is not None
        assert b.topic_partitions == [TopicPartitions(given.topic_id, [2])]
        (group,) = (await wire.send(ConsumerGroupDescribeRequest(["g"], include_authorized_operations=True), 1)).groups
        assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 2, 2)
        assert (group.assignor_name, group.authorized_operations) == ("uniform", 3400)
        assert {m.member_id: m.assignment.topic_partitions[0].partitions for m in group.members} == {
            "A": [0, 1],
            "B": [2],
        }
        assert {m.assignment.topic_partitions[0].topic_name for m in group.members} == {"orders"}
        assert {m.member_type for m in group.members} == {1}
        await wire.close()


async def test_other_requests_tell_what_kind_of_group_it_is() -> None:
    async with Cluster(topics={"orders": 3}) as kafka:
        wire = await connected(kafka)
        await wire.join("A")
        (old,) = (await wire.send(DescribeGroupsRequest(["g"]), 5)).groups
        assert (old.error_code, old.group_state) == (Err.NONE, "Dead")
        (new,) = (await wire.send(DescribeGroupsRequest(["g"]), 6)).groups
        assert (new.error_code, new.error_message) == (Err.GROUP_ID_NOT_FOUND, "Group g is not a classic group.")
        (listed,) = (await wire.send(ListGroupsRequest(types_filter=["Consumer"]), 5)).groups
        assert (listed.group_id, listed.protocol_type, listed.group_state, listed.group_type) == (
            *("g", "consumer", "Stable", "consumer"),
        )
        assert (await wire.send(ListGroupsRequest(types_filter=["classic"]), 5)).groups == []
        (none,) = (await wire.send(ConsumerGroupDescribeRequest(["nobody"]), 1)).groups
        assert (none.error_code, none.error_message) == (Err.GROUP_ID_NOT_FOUND, "Group nobody not found.")
        await wire.close()


async def test_offsets_go_by_member_epochs() -> None:
    async with Cluster(topics={"orders": 3}) as kafka:
        wire = await connected(kafka)
        await wire.join("A")

        async def commit(epoch: int, member: str = "A", version: int = 9) -> Err:
            part = OffsetCommitRequestPartition(0, 7)
            request = OffsetCommitRequest(
                "g", epoch, member, topics=[OffsetCommitRequestTopic("orders", partitions=[part])]
            )
            answer = await wire.send(request, version)
            return Err(answer.topics[0].partitions[0].error_code)

        async def fetch(epoch: int, member: str | None = "A") -> Err:
            answer = await wire.send(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", member, epoch)]), 9)
            return Err(answer.groups[0].error_code)

        for _ in range(3):  # the third comes by the layout that the others had
            assert await commit(1) is Err.NONE
        assert await commit(2) is Err.STALE_MEMBER_EPOCH
        assert await commit(1, "Z") is Err.UNKNOWN_MEMBER_ID
        assert await commit(1, version=8) is Err.UNSUPPORTED_VERSION
        assert [await fetch(1), await fetch(2), await fetch(1, "Z"), await fetch(-1, None)] == [
            *(Err.NONE, Err.STALE_MEMBER_EPOCH, Err.UNKNOWN_MEMBER_ID, Err.NONE),
        ]
        await wire.close()


async def test_heartbeats_that_repeat_keep_the_session_and_see_what_changes() -> None:
    async with Cluster(topics={"orders": 3}, config={"group.consumer.heartbeat.interval.ms": 1000}) as kafka:
        wire = await connected(kafka)
        assert (await wire.join("A")).heartbeat_interval_ms == 1000
        for _ in range(4):
            assert (await wire.beat("A", 1)).error_code == Err.NONE
        await wire.join("B")
        told = [await wire.beat("A", 1) for _ in range(3)]
        assert [answer.assignment is None for answer in told] == [False, True, True]
        await wire.close()


async def test_settings_of_a_group_act_on_it() -> None:
    async with Cluster(topics={"orders": 3}, config={"group.consumer.min.heartbeat.interval.ms": 100}) as kafka:
        wire = await connected(kafka)
        configs = [AlterableConfig("consumer.heartbeat.interval.ms", 0, "300")]
        answer = await wire.send(IncrementalAlterConfigsRequest([AlterConfigsResource(32, "g", configs)]), 1)
        assert answer.responses[0].error_code == Err.NONE
        assert (await wire.join("A")).heartbeat_interval_ms == 300
        await wire.close()


@pytest.mark.parametrize("as_version", ["4.1", "4.4"])
async def test_a_group_goes_on_where_its_log_says_when_the_coordinator_moves(as_version: str) -> None:
    async with Cluster(topics={"orders": 3}, brokers=2, as_version=as_version) as kafka:
        kafka.state.ensure_offsets_topic()
        partition = kafka.runtime.partition_of("g")
        assert partition is not None
        leader = partition.leader
        addresses = kafka.bootstrap.split(",")
        wire, other = [await Members.connect(addresses[node - 1]) for node in (leader, 3 - leader)]
        epoch = (await wire.join("A")).member_epoch
        kafka.state.set_leader(partition, 3 - leader)
        while (answer := await other.beat("A", epoch)).error_code == Err.COORDINATOR_LOAD_IN_PROGRESS:
            pass
        assert (answer.error_code, answer.member_epoch) == (Err.NONE, epoch)
        await wire.close()
        await other.close()
