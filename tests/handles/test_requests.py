"""Requests that the brokers received: read, counted, waited for."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from broker_sim import Cluster, ClusterThread, Err, UsageError, WaitTimeout
from kafka_wire.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kafka_wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from tests.support.wire import Wire


@pytest.mark.kafka(topics={"orders": 2})
async def test_what_clients_sent_is_there_with_its_answers(kafka: Cluster) -> None:
    commits = kafka.requests("OffsetCommit", client_id="app-1")
    assert not commits
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, client_id="shop") as producer:
        await producer.send_and_wait("orders", b"42", partition=1)
    async with AIOKafkaConsumer(
        "orders", bootstrap_servers=kafka.bootstrap, group_id="billing", client_id="app-1", enable_auto_commit=False
    ) as consumer:
        await kafka.group("billing").stable(members=1)
        waiting = asyncio.create_task(commits.wait(1, answered=True))
        await asyncio.sleep(0)
        await consumer.commit({TopicPartition("orders", 1): 1})
        assert (await waiting) is commits
    [commit] = commits
    assert commits.all() == [commit]
    assert len(commits) == 1
    assert (commit.client_id, commit.group, commit.topics, commit.error) == ("app-1", "billing", ["orders-1"], Err.NONE)
    assert commit.body["topics"][0]["partitions"][0]["committed_offset"] == 1
    assert commit.errors == {"orders-1": Err.NONE}
    assert len(kafka.requests("Produce", topic="orders", partition=1)) == 1
    assert not kafka.requests("Produce", topic="orders", partition=0)
    assert {seen.client_id for seen in kafka.requests(["Produce", "OffsetCommit"])} == {"shop", "app-1"}
    assert {seen.api for seen in kafka.requests(client_id="app-*", group="billing")} >= {"JoinGroup", "SyncGroup"}


async def test_a_wait_says_what_was_received_instead(kafka: Cluster) -> None:
    with pytest.raises(WaitTimeout) as nothing:
        await kafka.requests("OffsetCommit", client_id="app-1").wait(timeout="10ms")
    assert "1 request: OffsetCommit client_id=app-1: not within 10 ms" in str(nothing.value)
    assert nothing.value.now == "0 so far; requests that arrived: none"
    wire = await Wire.connect(kafka.bootstrap, client_id="app-2")
    await wire.send(LeaveGroupRequest(group_id="billing", members=[MemberIdentity("a", None)]), 4)
    with pytest.raises(WaitTimeout) as other:
        await kafka.requests("LeaveGroup", client_id="app-1").wait(2, timeout="10ms")
    assert "request 1, LeaveGroup v4 of 'app-2' (group 'billing'): its client id is 'app-2'" in other.value.now
    with pytest.raises(WaitTimeout) as another:
        await kafka.requests("Heartbeat").wait(timeout="10ms")
    assert another.value.now == "0 so far; requests that arrived: LeaveGroup 1"
    await wire.close()


async def test_a_request_without_an_answer_has_none(kafka: Cluster) -> None:
    wire = await Wire.connect(kafka.bootstrap, client_id="app")
    with kafka.fault("LeaveGroup", hang=True) as hang:
        pending = wire.start(LeaveGroupRequest(group_id="billing", members=[MemberIdentity("a", None)]), 4)
        leaving = kafka.requests("LeaveGroup")
        await leaving.wait()
        [request] = leaving
        assert "answer" not in request
        assert not request.ok or request.error is Err.NONE
        with pytest.raises(WaitTimeout, match="1 answered request: LeaveGroup"):
            await leaving.wait(answered=True, timeout="10ms")
        hang.release()
        await pending
    await leaving.wait(answered=True)
    await wire.close()


async def test_each_group_member_and_topic_of_a_request_selects_it(kafka: Cluster) -> None:
    wire = await Wire.connect(kafka.bootstrap)
    groups = [OffsetFetchRequestGroup(group_id=name, topics=[]) for name in ("a", "b")]
    await wire.send(OffsetFetchRequest(groups=groups), 8)
    members = [MemberIdentity("one", None), MemberIdentity("", "static")]
    await wire.send(LeaveGroupRequest(group_id="billing", members=members), 4)
    await wire.send(CreateTopicsRequest([CreatableTopic("orders-1", 1, 1), CreatableTopic("audit", 1, 1)], 1000), 7)
    await wire.close()
    for selected in (
        kafka.requests(group="b"),
        kafka.requests("LeaveGroup", member="static"),
        kafka.requests(topic="orders-1"),
        kafka.requests("CreateTopics", topic="aud*"),
    ):
        assert len(selected) == 1, selected
    assert not kafka.requests(topic="orders")


async def test_what_is_no_selector_is_an_error_at_once(kafka: Cluster) -> None:
    with pytest.raises(UsageError, match="did you mean 'OffsetCommit'"):
        kafka.requests("OfsetCommit")
    with pytest.raises(UsageError, match="no selector 'client'; did you mean 'client_id'"):
        kafka.requests(client="app")  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="count"):
        await kafka.requests("Fetch").wait(-1)


@pytest.mark.kafka(topics={"orders": 1})
def test_it_is_the_same_on_a_thread(kafka_server: ClusterThread) -> None:
    async def ask() -> None:
        async with AIOKafkaProducer(bootstrap_servers=kafka_server.bootstrap, client_id="shop") as producer:
            await producer.send_and_wait("orders", b"42")

    asyncio.run(ask())
    produced = kafka_server.requests("Produce", client_id="shop")
    assert produced.wait(1, answered=True).all()[0].error is Err.NONE
    assert len(produced) == 1
    assert [seen.topics for seen in produced] == [["orders-0"]]
