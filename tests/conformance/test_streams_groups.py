"""Streams groups (KIP-1071): what a heartbeat is refused for, tasks that change hands, topologies and their topics, standby tasks,
static members, endpoints, offsets, and what the group writes."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_wire.errors import Err
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from kafka_wire.messages.k15_describe_groups import DescribeGroupsRequest
from kafka_wire.messages.k42_delete_groups import DeleteGroupsRequest
from kafka_wire.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_wire.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest
from kafka_wire.messages.k88_streams_group_heartbeat import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)
from kafka_wire.messages.k89_streams_group_describe import StreamsGroupDescribeRequest
from kafka_wire.messages.k93_streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from tests.conformance.consumers import JOIN
from tests.conformance.driver import SHORT_MS, Kafka, listed
from tests.conformance.streams import Threads, counting, plain, until

pytestmark = [pytest.mark.generations("4.4"), pytest.mark.profile("transactions")]

TWO = [TaskIds("0", [0, 1])]


async def test_k01_requests_that_no_group_takes(kafka: Kafka) -> None:
    threads = await Threads(kafka).at_once()
    whole = plain("t0")
    refused: list[dict[str, Any]] = [
        {"member": ""},
        {"topology": None},
        {"rebalance_timeout_ms": -1},
        {"active_tasks": None},
        {"active_tasks": TWO},
        {"standby_tasks": None},
        {"warmup_tasks": TWO},
        {"instance_id": ""},
        {"rack_id": ""},
        {"topology": Topology(0, [Subtopology("0", ["t0"], source_topic_regex=["t.*"])])},
        {"topology": Topology(0, [Subtopology("0", ["t0"], state_changelog_topics=[TopicInfo("log", 3)])])},
        {"topology": plain("__consumer_offsets")},
        {"topology": plain("t0", "a b")},
        {"topology": plain("t0", epoch=-1)},
        {"topology": Topology(0, [Subtopology("0")])},
        {"topology": Topology(0, [Subtopology("0", ["t0"], repartition_source_topics=[TopicInfo("rep")])])},
    ]
    for fields in refused:
        said = {"topology": whole, **fields}
        assert (await threads.join(said.pop("member", "A"), said.pop("topology"), **said)).error_code != Err.NONE
    for epoch in (-3, -2, -1, 2):
        assert (await threads.beat("A", epoch)).error_code != Err.NONE
    assert (await threads.beat("A", 2, topology=whole)).error_code == Err.INVALID_REQUEST
    assert (await threads.beat("A", 2, active_tasks=[])).error_code == Err.INVALID_REQUEST
    await threads.log()


async def test_k02_tasks_change_hands(kafka: Kafka) -> None:
    threads = await Threads(kafka).at_once()
    source = await kafka.topic(kafka.name("in"), 2)
    assert (await threads.join("A", plain(source))).active_tasks == TWO
    for _ in range(2):
        assert (await threads.beat("A")).active_tasks is None
    await threads.join("A", plain(source))
    await threads.join("B", plain(source), rack_id="r", client_tags=[KeyValue("z", "1"), KeyValue("a", "2")])
    await threads.beat("B")
    await threads.described()
    await threads.beat("A")
    await threads.beat("A")
    await threads.described(version=0)
    before = threads.epochs["A"]
    await threads.acknowledge("A")
    assert (await threads.acknowledge("A", before)).error_code == Err.NONE
    assert (await threads.beat("A", before)).error_code == Err.FENCED_MEMBER_EPOCH
    assert (await threads.beat("A", before + 7)).error_code == Err.FENCED_MEMBER_EPOCH
    assert (await threads.beat("A", before - 1)).error_code == Err.FENCED_MEMBER_EPOCH
    assert (await threads.beat("X", before)).error_code == Err.UNKNOWN_MEMBER_ID
    assert (await threads.beat("X", -1)).error_code == Err.UNKNOWN_MEMBER_ID
    threads.epochs["A"] = before + 1
    assert (await threads.acknowledge("B")).active_tasks is not None
    assert (await threads.described()).group_state == "Stable"
    for tasks in ([TaskIds("7", [0])], [TaskIds("0", [2])]):
        answer = await threads.beat("A", active_tasks=tasks, standby_tasks=[], warmup_tasks=[])
        assert answer.error_code == Err.INVALID_REQUEST
    await threads.beat("B", -1)
    await threads.acknowledge("A")
    await threads.beat("A", -1)
    await threads.described()
    await threads.join("C", plain(source))
    await threads.log()


async def test_k03_a_topology_stays_as_it_is(kafka: Kafka) -> None:
    threads = await Threads(kafka).at_once()
    await threads.join("A", plain("t0", epoch=2))
    assert (await threads.join("B", plain("t0", epoch=3))).error_code == Err.INVALID_REQUEST
    assert (await threads.join("B", plain("t0", "t1", epoch=2))).error_code == Err.INVALID_REQUEST
    assert (await threads.join("C", plain("t1", epoch=1))).error_code == Err.NONE
    await threads.beat("C")
    await threads.described()
    await threads.log()


async def test_k04_missing_topics(kafka: Kafka) -> None:
    threads = await Threads(kafka).at_once()
    late = kafka.name("late")
    await threads.join("A", plain(late))
    await threads.beat("A")
    assert (await threads.described()).group_state == "NotReady"
    await kafka.topic(late, 2)
    await threads.created("A", late)
    assert (await threads.join("A", plain(late))).active_tasks == TWO
    await threads.log()


async def test_k05_internal_topics_are_created(kafka: Kafka) -> None:
    threads = await Threads(kafka).at_once()
    source, rep, log = await kafka.topic(kafka.name("in"), 2), kafka.name("rep"), kafka.name("log")
    answer = await threads.join("A", counting(source, rep, log))
    assert [one.status_code for one in answer.status or ()] == [3]
    assert await threads.created("A", rep, log) == {rep: 2, log: 2}
    assert (await threads.join("A", counting(source, rep, log))).status == []
    await threads.described()
    await threads.log()


@pytest.mark.parametrize("case", ["joined", "fixed", "existing", "factor"])
async def test_k06_topics_with_wrong_partitions(kafka: Kafka, case: str) -> None:
    threads = await Threads(kafka).at_once()
    one, two = await kafka.topic(kafka.name("one"), 2), await kafka.topic(kafka.name("two"), 3)
    rep = kafka.name("rep")
    group = CopartitionGroup([0, 1], [], [0])
    both = Subtopology(
        "0",
        [one, two],
        repartition_sink_topics=[rep],
        repartition_source_topics=[TopicInfo(rep)],
        copartition_groups=[group],
    )
    if case == "fixed":
        both.repartition_source_topics = [TopicInfo(rep, 4)]
        both.copartition_groups = [CopartitionGroup([0], [], [0])]
    elif case == "existing":
        both.copartition_groups = []
        await kafka.topic(rep, 5)
        both.state_changelog_topics = [TopicInfo(await kafka.topic(kafka.name("log"), 2))]
    elif case == "factor":
        both.copartition_groups = [CopartitionGroup([1], [], [0])]
        both.repartition_source_topics = [TopicInfo(rep, 0, 7, [KeyValue("cleanup.policy", "delete")])]
    answer = await threads.join("A", Topology(0, [both]))
    assert [status.status_code for status in answer.status or ()] == [3 if case == "factor" else 2]
    await threads.log()


async def test_k07_standby_tasks(kafka: Kafka) -> None:
    threads = await Threads(kafka).at_once(num_standby_replicas=1)
    source, rep, log = await kafka.topic(kafka.name("in"), 2), kafka.name("rep"), kafka.name("log")
    topology = counting(source, rep, log)
    await threads.join("A", topology)
    await threads.created("A", rep, log)
    await threads.join("A", topology)
    await threads.join("B", topology, task_offsets=[TaskOffset("1", 0, 7)], task_end_offsets=[TaskOffset("1", 0, 9)])
    for _ in range(3):
        await threads.acknowledge("A")
        await threads.acknowledge("B")
    await threads.described()
    await threads.set("num.standby.replicas", 0)
    for _ in range(3):
        await threads.acknowledge("A")
        await threads.acknowledge("B")
    await threads.beat("B", -1)
    for _ in range(3):
        await threads.acknowledge("A")
    await threads.log()


async def test_k08_static_members(kafka: Kafka) -> None:
    threads = await Threads(kafka).at_once()
    source = await kafka.topic(kafka.name("in"), 2)
    await threads.join("A", plain(source), instance_id="i")
    await threads.beat("A", instance_id="i")
    assert (await threads.join("C", plain(source), instance_id="i")).error_code == Err.UNRELEASED_INSTANCE_ID
    assert (await threads.beat("C", 2, instance_id="i")).error_code == Err.FENCED_INSTANCE_ID
    assert (await threads.beat("A", 2, instance_id="j")).error_code == Err.UNKNOWN_MEMBER_ID
    assert (await threads.beat("A", -2, instance_id="i")).member_epoch == -2
    await threads.described()
    assert (await threads.join("C", plain(source), instance_id="i", process_id="p-A")).active_tasks == TWO
    assert (await threads.beat("A", 2)).error_code == Err.UNKNOWN_MEMBER_ID
    assert (await threads.beat("C", -2, instance_id="i")).member_epoch == -2
    await threads.join("D", plain(source), instance_id="i", process_id="another")
    await threads.beat("D", -1, instance_id="i")
    await threads.log()


async def test_k09_who_does_not_give_up_in_time_is_expelled(kafka: Kafka) -> None:
    threads = await Threads(kafka).at_once()
    source = await kafka.topic(kafka.name("in"), 2)
    await threads.join("A", plain(source), rebalance_timeout_ms=SHORT_MS // 2)
    await threads.join("B", plain(source))
    await threads.beat("A")

    async def expelled() -> bool:
        group = (await kafka.watch(StreamsGroupDescribeRequest([kafka.group]), 0)).groups[0]
        return [one.member_id for one in group.members] == ["B"]

    await until("A, which gives nothing up, to be expelled", expelled)
    assert (await threads.beat("A")).error_code == Err.UNKNOWN_MEMBER_ID
    assert (await threads.acknowledge("B")).active_tasks == TWO
    await threads.log()


async def test_k10_the_initial_rebalance_delay(kafka: Kafka) -> None:
    threads = await Threads(kafka).at_once(initial_rebalance_delay_ms=SHORT_MS)
    source = await kafka.topic(kafka.name("in"), 2)
    first = await threads.join("A", plain(source))
    assert ([one.status_code for one in first.status or ()], first.member_epoch) == ([5], 1)
    await threads.join("B", plain(source))
    await threads.beat("A")
    await threads.described()

    async def assigned() -> bool:
        group = (await kafka.watch(StreamsGroupDescribeRequest([kafka.group]), 0)).groups[0]
        return bool(group.assignment_epoch == group.group_epoch)

    await until("the assignment", assigned)
    for member in ("A", "B"):
        assert [one.partitions for one in (await threads.acknowledge(member)).active_tasks or ()] in ([[0]], [[1]])
    await threads.log()


async def test_k11_the_assignment_interval(kafka: Kafka) -> None:
    threads = await Threads(kafka).at_once(assignment_interval_ms=15_000)
    source = await kafka.topic(kafka.name("in"), 2)
    await threads.join("A", plain(source))
    await threads.join("B", plain(source))
    await threads.beat("A")
    await threads.described()
    await threads.set("assignment.interval.ms", 0)
    await threads.beat("B")
    await threads.log()


async def test_k12_the_shutdown_of_the_application(kafka: Kafka) -> None:
    threads = await Threads(kafka).at_once()
    await threads.join("A", plain("t0"))
    await threads.beat("A", shutdown_application=True)
    await threads.join("B", plain("t0"))
    await threads.beat("A", -1)
    await threads.beat("B")
    await threads.beat("B", -1)
    assert (await threads.join("C", plain("t0"))).status == []


async def test_k13_endpoints_and_client_tags(kafka: Kafka) -> None:
    threads = await Threads(kafka).at_once(rack_aware_assignment_tags="zone,rack")
    source = await kafka.topic(kafka.name("in"), 2)
    await threads.join("A", plain(source), user_endpoint=Endpoint("host", 9), client_tags=[KeyValue("zone", "z")])
    await threads.beat("A", endpoint_information_epoch=0)
    await threads.beat("A", endpoint_information_epoch=1)
    await threads.join("B", plain(source), user_endpoint=Endpoint("other", 65535), version=0)
    await threads.beat("A", endpoint_information_epoch=1)
    await threads.acknowledge("A")
    await threads.acknowledge("B")
    await threads.described()
    await threads.join("A", plain(source))
    await threads.log()


async def test_k14_offsets(kafka: Kafka) -> None:
    threads = await Threads(kafka).at_once()
    source = await kafka.topic(kafka.name("in"), 2)
    await threads.join("A", plain(source))
    await threads.join("B", plain(source))
    await threads.beat("A")
    await threads.acknowledge("A")
    await threads.acknowledge("B")
    now = threads.epochs["A"]

    async def commit(member: str, epoch: int, *partitions: int, topic: str = source, version: int = 9) -> None:
        rows = [OffsetCommitRequestPartition(number, 5, committed_metadata="") for number in partitions]
        topics = [OffsetCommitRequestTopic(name=topic, partitions=rows)]
        await kafka.ask(OffsetCommitRequest(kafka.group, epoch, member, topics=topics), version)

    await commit("A", now, 0, 1)
    await commit("A", now + 1, 0)
    await commit("A", now - 1, 0)
    await commit("A", now - 1, 1)
    await commit("A", now - 1, 0, 1)
    await commit("A", now - 1, 0, topic="t0")
    await commit("X", now, 0)
    await commit("", -1, 0)
    await commit("A", now, 0, version=8)
    for member_id, epoch in (("A", now), ("A", now - 1), ("X", now), (None, -1)):
        asked = OffsetFetchRequestGroup(kafka.group, member_id, epoch, None)
        await kafka.ask(OffsetFetchRequest(groups=[asked]), 9)
    await threads.log()


async def test_k15_requests_of_other_kinds_of_groups(kafka: Kafka) -> None:
    threads = await Threads(kafka).at_once()
    await threads.join("A", plain("t0"))
    assert (await listed(kafka, version=5, types_filter=["streams"]))[kafka.group].group_type == "streams"
    await kafka.ask(DescribeGroupsRequest([kafka.group]), 5)
    await kafka.ask(DescribeGroupsRequest([kafka.group]), 6)
    await kafka.ask(StreamsGroupDescribeRequest([kafka.name("none")], include_authorized_operations=True), 1)
    await kafka.ask(StreamsGroupDescribeRequest([kafka.group], True, include_topology_description=True), 1)
    await kafka.ask(ConsumerGroupHeartbeatRequest(kafka.group, "A", 0, **JOIN), 1)
    await kafka.ask(ShareGroupHeartbeatRequest(kafka.group, "AAAAAAAAAAAAAAAAAAAAAQ", 0, None, ["t0"]), 1)
    await kafka.ask(HeartbeatRequest(kafka.group, 2, "A"), 4)
    member = await kafka.member("m1", protocols=[("range", b"")])
    assert (await member.try_join()).error_code == Err.INCONSISTENT_GROUP_PROTOCOL
    assert (await kafka.ask(DeleteGroupsRequest([kafka.group]), 2)).results[0].error_code == Err.NON_EMPTY_GROUP
    await threads.beat("A", -1)
    assert (await kafka.ask(ConsumerGroupHeartbeatRequest(kafka.group, "A", 0, **JOIN), 1)).error_code != Err.NONE
    assert (await kafka.ask(DeleteGroupsRequest([kafka.group]), 2)).results[0].error_code == Err.NONE
    await kafka.ask(StreamsGroupDescribeRequest([kafka.group]), 1)
    await threads.log()


async def test_k16_an_empty_group_becomes_a_classic_one_and_back(kafka: Kafka) -> None:
    threads = await Threads(kafka).at_once()
    await threads.join("A", plain("t0"))
    await threads.beat("A", -1)
    member = await kafka.member("m1", instance="i")
    await member.join()
    await member.leave()
    assert (await threads.join("A", plain("t0"))).member_epoch == 2
    await threads.log()


async def test_k17_a_broker_without_the_plugin_refuses_descriptions_of_topologies(kafka: Kafka) -> None:
    threads = await Threads(kafka).at_once()
    await threads.join("A", plain("t0"))
    node = TopologyDescriptionNode("source", 1, ["t0"])
    described = TopologyDescription([TopologyDescriptionSubtopology("0", [node])])
    for member, epoch in (("A", 0), ("B", 0), ("", 0), ("A", 7)):
        request = StreamsGroupTopologyDescriptionUpdateRequest(kafka.group, member, epoch, described)
        answer = await kafka.ask(request, 0)
        assert answer.error_code == Err.UNSUPPORTED_VERSION


async def test_k18_an_empty_group_keeps_its_topology(kafka: Kafka) -> None:
    threads = await Threads(kafka).at_once()
    await threads.join("A", plain("t0"))
    await threads.beat("A", -1)
    assert (await threads.join("B", plain("t0", "t1", epoch=1))).error_code == Err.INVALID_REQUEST
    assert (await kafka.ask(DeleteGroupsRequest([kafka.group]), 2)).results[0].error_code == Err.NONE
    assert (await threads.join("C", plain("t0", "t1", epoch=1))).error_code == Err.NONE
    await threads.log()


async def test_k19_an_answer_that_assigns_tasks_is_not_repeated(kafka: Kafka) -> None:
    threads = await Threads(kafka).at_once()
    await threads.join("A", plain("t0"))
    before = (await threads.join("B", plain("t0"))).member_epoch
    await threads.beat("A")
    await threads.acknowledge("A")
    given = await threads.beat("B")
    assert given.active_tasks
    none: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    for epoch in (before, given.member_epoch):
        assert (await threads.beat("B", epoch, **none)).active_tasks is None
    assert (await threads.join("B", plain("t0"))).active_tasks == given.active_tasks
