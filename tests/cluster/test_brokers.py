"""Brokers taken down, brought up and restarted; leaders and coordinators that move: under real clients and raw requests."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from broker_sim import Cluster, ClusterThread, Err, UsageError
from kafka_wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from tests.handles.members import TOPIC, Member, commit_error
from tests.support.wire import Wire, WireClosedError

SOON: dict[str, object] = {"group.initial.rebalance.delay.ms": 0}


@pytest.fixture
async def kafka() -> AsyncIterator[Cluster]:
    async with Cluster(brokers=2, topics={TOPIC: 2}, config=SOON, journal=True) as cluster:
        yield cluster


async def found(kafka: Cluster, group: str, ask: int) -> tuple[Err, int]:
    wire = await Wire.connect(kafka.broker(ask).address)
    answer = (await wire.send(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4)).coordinators[0]
    await wire.close()
    return Err(answer.error_code), answer.node_id


async def fetch(kafka: Cluster, node_id: int, epoch: int, partition: int = 0) -> Any:
    wire = await Wire.connect(kafka.broker(node_id).address)
    topics = [FetchTopic(TOPIC, partitions=[FetchPartition(partition, epoch, 0, partition_max_bytes=1 << 20)])]
    answer = await wire.send(FetchRequest(max_wait_ms=0, max_bytes=1 << 20, topics=topics), 11)
    await wire.close()
    return answer.responses[0].partitions[0]


def coordinator_of(kafka: Cluster, group: str) -> int:
    """The broker that coordinates a group; its topic has a replica on each broker."""
    return kafka.offsets_log(group).leader


def other(node_id: int) -> int:
    return 3 - node_id


def app(kafka: Cluster) -> Any:
    """A consumer of the group ``billing`` that hurries."""
    return AIOKafkaConsumer(
        TOPIC,
        bootstrap_servers=kafka.bootstrap,
        group_id="billing",
        auto_offset_reset="earliest",
        heartbeat_interval_ms=50,
        retry_backoff_ms=20,
        enable_auto_commit=False,
    )


async def stop(consumer: Any) -> None:
    try:
        await consumer.stop()
    except asyncio.CancelledError:  # aiokafka 0.14 cancels a fetch that waits to be retried, and lets that out
        await consumer._client.close()


async def consumed(consumer: Any, count: int) -> None:
    """Until it was given so many records; after a rebalance it may get some again."""
    got = 0
    while got < count:
        got += sum(map(len, (await consumer.getmany(timeout_ms=50)).values()))


async def caught_up(kafka: Cluster, consumer: Any) -> None:
    """Until it has committed everything."""
    while kafka.group("billing").lag().total > 0:
        await consumer.getmany(timeout_ms=50)
        await consumer.commit()


# --- ports and connections --------------------------------------------------------------------------------------------


async def test_a_broker_that_is_down_refuses_and_keeps_its_port(kafka: Cluster) -> None:
    host, port = kafka.broker(2).address.split(":")
    wire = await Wire.connect(kafka.broker(2).address)
    before = kafka.bootstrap
    await kafka.broker_down(2)
    await wire.closed()
    await wire.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(host, int(port))
    with socket.socket() as thief, pytest.raises(OSError, match="in use") as refused:
        thief.bind((host, int(port)))
    assert refused.value.errno == errno.EADDRINUSE
    assert kafka.bootstrap == before
    await kafka.broker_up(2)
    wire = await Wire.connect(f"{host}:{port}")
    await wire.close()


async def test_down_and_up_twice_do_nothing_more(kafka: Cluster) -> None:
    for _ in range(2):
        await kafka.broker_down(2)
    for _ in range(2):
        await kafka.broker_up(2)
    events = [(event["broker"], event["action"]) for event in kafka.journal.events if event["event"] == "broker"]
    assert events == [(2, "down"), (2, "up")]


async def test_a_parked_request_dies_with_its_broker(kafka: Cluster) -> None:
    node_id = coordinator_of(kafka, "billing")
    member, newcomer = await Member.connect(kafka), await Member.connect(kafka, client_id="new")
    await member.enter()
    newcomer.member_id = (await newcomer.join()).member_id
    joining = newcomer.join()
    await kafka.group("billing").state_is("PreparingRebalance")
    await kafka.broker_down(node_id)
    with pytest.raises(WireClosedError):
        await joining
    await member.close()
    await newcomer.close()


async def test_all_brokers_down_and_up(kafka: Cluster) -> None:
    assert coordinator_of(kafka, "billing") in (1, 2)
    for node_id in (1, 2):
        await kafka.broker_down(node_id)
    assert kafka.state.controller_id == -1
    for node_id in (1, 2):
        await kafka.broker_up(node_id)
    assert await found(kafka, "billing", 1) == await found(kafka, "billing", 2)


async def test_the_cluster_stops_while_a_broker_is_down() -> None:
    kafka = Cluster(brokers=2, topics={TOPIC: 2})
    async with kafka:
        await kafka.broker_down(1)
        bootstrap = kafka.bootstrap
    async with kafka:
        assert kafka.bootstrap == bootstrap
        assert [broker.alive for broker in kafka.brokers] == [True, True]


# --- leaders ----------------------------------------------------------------------------------------------------------


async def test_partitions_without_another_replica_wait_for_their_broker(kafka: Cluster) -> None:
    orders = kafka.state.topics[TOPIC].partitions
    assert sorted(partition.leader for partition in orders) == [1, 2]
    [mine] = [partition for partition in orders if partition.leader == 2]
    await kafka.broker_down(2)
    assert (mine.leader, mine.replicas) == (-1, [2])
    assert (await fetch(kafka, 1, -1, mine.index)).error_code == Err.NOT_LEADER_OR_FOLLOWER
    await kafka.broker_up(2)
    assert mine.leader == 2
    assert (await fetch(kafka, 2, -1, mine.index)).error_code == Err.NONE


async def test_preferred_leaders_come_back_when_asked_for(kafka: Cluster) -> None:
    kafka.state.create_topic("pair", 4, replication_factor=2)
    pair = kafka.state.topics["pair"].partitions
    await kafka.broker_down(1)
    await kafka.broker_up(1)
    assert {partition.leader for partition in pair} == {2}
    await kafka.broker_up(1, elect="preferred")
    assert [partition.leader for partition in pair] == [partition.replicas[0] for partition in pair]
    assert kafka.elect_preferred() == 0
    with pytest.raises(UsageError, match="did you mean 'preferred'"):
        await kafka.broker_up(1, elect="prefered")


@pytest.mark.parametrize("enabled", ["true", "false"])
async def test_preferred_leaders_come_back_by_themselves(enabled: str) -> None:
    config = {**SOON, "auto.leader.rebalance.enable": enabled}
    async with Cluster(brokers=2, clock="manual", config=config) as kafka:
        kafka.state.create_topic("pair", 4, replication_factor=2)
        pair = kafka.state.topics["pair"].partitions
        await kafka.restart(1)
        assert {partition.leader for partition in pair} == {2}
        await kafka.time.advance(299.999)
        assert {partition.leader for partition in pair} == {2}
        assert "election of preferred leaders" in await kafka.time.advance(0.001)
        assert {partition.leader for partition in pair} == ({1, 2} if enabled == "true" else {2})


async def test_a_dead_broker_that_nobody_has_noticed_yet() -> None:
    async with Cluster(brokers=2, clock="manual", config=SOON) as kafka:
        kafka.state.create_topic("pair", 2, replication_factor=2)
        pair = kafka.state.topics["pair"].partitions
        await kafka.broker_down(1, noticed_after="9s")
        with pytest.raises(ConnectionRefusedError):
            await Wire.connect(kafka.broker(1).address)
        assert (kafka.broker(1).alive, {partition.leader for partition in pair}) == (True, {1, 2})
        await kafka.time.advance(8.999)
        assert {partition.leader for partition in pair} == {1, 2}
        assert await kafka.time.advance(0.001) == ["session of a broker that is down"]
        assert (kafka.broker(1).alive, {partition.leader for partition in pair}) == (False, {2})
        await kafka.broker_up(1)
        await kafka.broker_down(2, noticed_after="9s")
        epochs = [partition.leader_epoch for partition in pair]
        await kafka.broker_up(2)  # the controller sees that it is another incarnation
        assert {partition.leader for partition in pair} == {1}
        assert [partition.leader_epoch for partition in pair] == [epoch + 1 for epoch in epochs]
        await kafka.broker_down(2, noticed_after="9s")


async def test_a_dead_broker_coordinates_nothing_even_unnoticed() -> None:
    """The process is gone, whoever Metadata shows as the leader: no session ends there, and a topic's deletion removes no offset."""
    topics = {TOPIC: 1, "shipments": 1}
    async with Cluster(brokers=2, clock="manual", topics=topics, config=SOON, journal=True) as kafka:
        kafka.state.create_topic("__consumer_offsets", 1, replication_factor=2)
        member = await Member.connect(kafka)
        await member.enter()
        assert commit_error(await member.commit(7)) is Err.NONE
        dead = coordinator_of(kafka, "billing")
        written = kafka.offsets_log("billing").end_offset
        await kafka.broker_down(dead, noticed_after="25s")
        await member.close()
        await kafka.time.advance(20)  # the member's session timeout is 10 s
        kafka.topic(TOPIC).delete()
        assert (coordinator_of(kafka, "billing"), kafka.offsets_log("billing").end_offset) == (dead, written)
        await kafka.time.advance(5)
        assert coordinator_of(kafka, "billing") == other(dead)
        await kafka.group("billing").stable(members=1)
        assert kafka.group("billing").committed() == {(TOPIC, 0): 7}
        assert "session of" in " ".join(await kafka.time.advance(10))
        assert kafka.group("billing").members == []


async def test_a_new_epoch_of_the_same_leader_fences_the_old_one(kafka: Cluster) -> None:
    log = kafka.log(TOPIC, 0)
    leader, epoch = log.leader, kafka.state.topics[TOPIC].partitions[0].leader_epoch
    assert (await fetch(kafka, leader, epoch)).error_code == Err.NONE
    kafka.elect(log.partition)
    assert log.leader == leader
    assert (await fetch(kafka, leader, epoch)).error_code == Err.FENCED_LEADER_EPOCH
    assert (await fetch(kafka, leader, epoch + 1)).error_code == Err.NONE
    assert (await fetch(kafka, leader, epoch + 2)).error_code == Err.UNKNOWN_LEADER_EPOCH


async def test_a_partition_moves_to_a_broker_without_a_replica(kafka: Cluster) -> None:
    kafka.topic(TOPIC).fill(10)
    log = kafka.log(TOPIC, 0)
    old = log.leader
    kafka.move_leader(log.partition, other(old))
    assert (log.partition.replicas, log.partition.isr) == ([other(old)], [other(old)])
    assert (await fetch(kafka, old, -1)).error_code == Err.NOT_LEADER_OR_FOLLOWER
    answer = await fetch(kafka, other(old), -1)
    assert (answer.error_code, answer.high_watermark) == (Err.NONE, 5)
    leads = [event for event in kafka.journal.events if event["event"] == "leader" and event["log"] == "orders-0"]
    assert [(event["leader"], event["reason"]) for event in leads] == [(other(old), "moved")]


async def test_a_follower_that_is_behind_leads_with_what_it_has(kafka: Cluster) -> None:
    kafka.state.create_topic("pair", 1, replication_factor=2)
    log = kafka.log("pair", 0)
    log.fill(3)
    with log.stuck():
        log.fill(2)
        assert (log.partition.high_watermark, log.partition.log_end_offset) == (3, 5)
        kafka.move_leader(log.partition, other(log.leader))
    assert (log.partition.high_watermark, log.partition.log_end_offset) == (3, 3)


async def test_what_can_not_be(kafka: Cluster) -> None:
    partition = kafka.log(TOPIC, 0).partition
    await kafka.broker_down(2)
    down = kafka.broker_down(7), kafka.broker_up(7), kafka.restart(7)
    for work in down:
        with pytest.raises(UsageError, match="no broker 7; expected one of 1, 2"):
            await work
    for node_id, why in ((7, "no broker 7"), (2, "broker 2 is down")):
        with pytest.raises(UsageError, match=why):
            kafka.move_leader(partition, node_id)
        with pytest.raises(UsageError, match=why):
            kafka.elect(partition, node_id)
    await kafka.broker_up(2)
    with pytest.raises(UsageError, match=r"already has the leader \d"):
        kafka.move_leader(partition, partition.leader)
    with pytest.raises(UsageError, match="not an in-sync replica"):
        kafka.elect(partition, other(partition.leader))


@pytest.mark.parametrize("target", [1, 3], ids=["a replica", "no replica"])
async def test_a_partition_that_moves_leaves_replicas_that_are_down_out_of_its_isr(target: int) -> None:
    async with Cluster(brokers=3, as_version="3.4", config=SOON) as kafka:
        topic = kafka.state.create_topic("pair", assignments={0: [1, 2]})
        (partition,) = topic.partitions
        await kafka.broker_down(1)
        await kafka.broker_down(2)
        assert (partition.leader, partition.isr) == (-1, [2]), "up to 4.0 the last one stays in the ISR"
        if target == 1:
            await kafka.broker_up(1)
            assert partition.leader == -1, "it is not in sync"
        kafka.move_leader(partition, target)
        assert (partition.leader, partition.isr) == (target, [target])
        await kafka.broker_up(2)
        assert partition.isr == [target, 2]


async def test_no_leader_lasts_whoever_comes_and_goes(kafka: Cluster) -> None:
    kafka.state.create_topic("pair", 1, replication_factor=2)
    log, alone = kafka.log("pair", 0), kafka.log(TOPIC, 0)
    old, owner = log.leader, alone.leader
    with log.no_leader():
        await kafka.restart(old)
        assert log.leader == -1
        assert kafka.elect_preferred() == 0
        with pytest.raises(UsageError, match="pair-0 is in the state no_leader; clear that state first"):
            kafka.move_leader(log.partition, 1)
        with pytest.raises(UsageError, match="no_leader"):
            kafka.elect(log.partition)
        await kafka.broker_down(old)
    assert log.leader == other(old)
    await kafka.broker_up(old)
    await kafka.broker_down(owner)
    with alone.no_leader():
        await kafka.broker_up(owner)
        assert alone.leader == -1
    assert alone.leader == owner


async def test_the_isr_after_a_state_has_those_who_are_alive(kafka: Cluster) -> None:
    kafka.state.create_topic("pair", 1, replication_factor=2)
    log = kafka.log("pair", 0)
    with log.under_min_isr():
        await kafka.broker_down(other(log.leader))
    assert log.partition.isr == [log.leader]
    await kafka.broker_up(other(log.leader))
    assert sorted(log.partition.isr) == [1, 2]
    await kafka.broker_down(other(log.leader))
    with log.under_min_isr():
        await kafka.broker_up(other(log.leader))
        assert log.partition.isr == [log.leader]
    assert sorted(log.partition.isr) == [1, 2]


@pytest.mark.parametrize("as_version", ["3.4", "4.1"])
async def test_who_came_up_while_there_was_no_leader_is_in_sync_with_the_next_one(as_version: str) -> None:
    async with Cluster(brokers=2, as_version=as_version, config=SOON) as kafka:
        kafka.state.create_topic("pair", 1, replication_factor=2)
        log = kafka.log("pair", 0)
        with log.no_leader():
            await kafka.restart(1)
            await kafka.restart(2)
        assert log.leader > 0
        assert (sorted(log.partition.isr), log.partition.eligible) == ([1, 2], [])
        last = log.leader
        for node in (other(last), last):
            await kafka.broker_down(node)
        await kafka.broker_up(other(last))
        assert log.leader == -1
        await kafka.broker_up(last)
        assert (log.leader, sorted(log.partition.isr)) == (last, [1, 2])


# --- coordinators -----------------------------------------------------------------------------------------------------


async def test_a_coordinator_moves_with_its_partition(kafka: Cluster) -> None:
    old = coordinator_of(kafka, "billing")
    member, newcomer = await Member.connect(kafka), await Member.connect(kafka, client_id="new")
    await member.enter()
    assert commit_error(await member.commit(7)) is Err.NONE
    newcomer.member_id = (await newcomer.join()).member_id
    parked = newcomer.join()
    await kafka.group("billing").state_is("PreparingRebalance")
    kafka.offsets_log("billing").move_to(other(old))
    assert (await parked).error_code == Err.NOT_COORDINATOR
    assert commit_error(await member.commit(8)) is Err.NOT_COORDINATOR
    assert await found(kafka, "billing", old) == (Err.NONE, other(old))
    await member.close()
    member.wire = await Wire.connect(kafka.broker(other(old)).address)
    beat = HeartbeatRequest("billing", member.generation, member.member_id)
    while (error := (await member.wire.send(beat, 3)).error_code) == Err.COORDINATOR_LOAD_IN_PROGRESS:
        pass
    assert error == Err.NONE  # the group is as the log has it: stable, without the newcomer
    assert kafka.group("billing").committed() == {(TOPIC, 0): 7}
    await member.close()
    await newcomer.close()


async def test_moves_during_commits_lose_no_commit_that_was_acknowledged(kafka: Cluster) -> None:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=kafka.bootstrap, group_id="billing", enable_auto_commit=False, retry_backoff_ms=5
    )
    await consumer.start()
    partition = TopicPartition(TOPIC, 0)
    consumer.assign([partition])
    acknowledged = 0
    try:
        async with asyncio.timeout(30):
            for offset in range(1, 41):
                if offset % 5 == 0:
                    log = kafka.offsets_log("billing")
                    log.move_to(other(log.leader))
                await consumer.commit({partition: offset})
                acknowledged = offset
                assert await consumer.committed(partition) == acknowledged
    finally:
        await consumer.stop()
    assert acknowledged == 40


async def test_a_consumer_lives_through_the_loss_of_each_broker() -> None:
    """Three of them: aiokafka forgets brokers that are down, and with two would know only the next one to go."""
    async with Cluster(brokers=3, config=SOON) as kafka:
        kafka.state.create_topic(TOPIC, 6, replication_factor=3)
        consumer, producer = app(kafka), AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, retry_backoff_ms=20)
        await consumer.start()
        await producer.start()
        try:
            async with asyncio.timeout(40):
                for round_ in range(6):
                    async with kafka.broker(1 + round_ % 3).down(graceful=round_ >= 3):
                        for number in range(12):
                            await producer.send_and_wait(TOPIC, b"%d" % number, partition=number % 6)
                        await consumed(consumer, 12)
                        await consumer.commit()
                await caught_up(kafka, consumer)
        finally:
            await producer.stop()
            await stop(consumer)


# --- restarts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("graceful", [True, False])
async def test_a_lone_broker_restarts_with_its_groups(graceful: bool) -> None:
    async with Cluster(topics={TOPIC: 1}, config=SOON) as kafka:
        member = await Member.connect(kafka, instance="one")
        await member.enter()
        assert commit_error(await member.commit(5)) is Err.NONE
        address = kafka.bootstrap
        await kafka.restart(1, graceful=graceful)
        await member.wire.closed()
        await member.close()
        assert kafka.bootstrap == address
        member.wire = await Wire.connect(address)
        while (error := commit_error(await member.commit(6))) is Err.COORDINATOR_LOAD_IN_PROGRESS:
            pass
        assert error is Err.NONE
        billing = kafka.group("billing")
        assert (billing.state, billing.generation) == ("Stable", 1)
        assert [view.instance_id for view in billing.members] == ["one"]
        await member.close()


@pytest.mark.parametrize("graceful", [True, False])
async def test_the_whole_cluster_restarts(kafka: Cluster, tmp_path: Path, graceful: bool) -> None:
    kafka.state.create_topic("pair", 2, replication_factor=2)
    member = await Member.connect(kafka)
    await member.enter()
    assert commit_error(await member.commit(5)) is Err.NONE
    leaders = {partition.name: partition.leader for partition in kafka.state.partitions()}
    in_sync = {partition.name: partition.isr for partition in kafka.state.partitions()}
    await kafka.restart_all(graceful=graceful)
    assert {partition.name: partition.leader for partition in kafka.state.partitions()} == leaders
    assert {partition.name: partition.isr for partition in kafka.state.partitions()} == in_sync
    await member.wire.closed()
    await member.close()
    billing = await kafka.group("billing").stable(members=1)
    assert billing.committed() == {(TOPIC, 0): 5}


async def test_a_rolling_restart_under_a_consumer(kafka: Cluster) -> None:
    consumer = app(kafka)
    await consumer.start()
    try:
        async with asyncio.timeout(40):
            for _ in range(2):
                for node_id in (1, 2):
                    await kafka.restart(node_id)
                    kafka.topic(TOPIC).fill(10)
                    await consumed(consumer, 10)
                    await consumer.commit()
            await caught_up(kafka, consumer)
    finally:
        await stop(consumer)


def test_brokers_from_another_thread() -> None:
    with ClusterThread(brokers=2, topics={"orders": 2}) as kafka:
        with kafka.broker(2).down():
            assert not kafka.broker(2).alive
        assert kafka.broker(2).alive
        kafka.log("orders", 0).move_to(2 if kafka.log("orders", 0).leader == 1 else 1)
