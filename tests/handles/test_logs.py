"""Logs, topics and brokers in the hand: states that end with their block, who waits for them, leaders, records."""

from __future__ import annotations

import asyncio

import pytest

from broker_sim import Cluster, Err, LogHandle, UsageError, WaitTimeout
from broker_sim.faults.conditions import KINDS
from kafka_wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from kafka_wire.record_batch import build_batch
from tests.handles.members import Member, commit_error
from tests.support.wire import Wire

pytestmark = pytest.mark.kafka(topics={"orders": 3})


def produce(acks: int = -1) -> ProduceRequest:
    data = PartitionProduceData(0, build_batch([(b"k", b"v")], 1, base_sequence=-1))
    return ProduceRequest(
        acks=acks, timeout_ms=30_000, topic_data=[TopicProduceData(name="orders", partition_data=[data])]
    )


# --- states -------------------------------------------------------------------------------------------------------------


async def test_a_state_begins_when_it_is_called_and_ends_with_the_block(kafka: Cluster) -> None:
    log = kafka.log("orders", 0)
    with log.stuck() as jam:
        assert (log.states, jam.active, repr(jam)) == (["stuck"], True, "<orders-0 is stuck>")
        log.fill(1)
        assert (log.end_offset, log.high_watermark) == (1, 0)
    assert (log.states, jam.active, log.high_watermark) == ([], False, 1)
    jam.heal()
    guard = log.readonly()
    async with guard as same:
        assert same is guard
    assert log.states == []


async def test_a_block_that_fails_heals_too(kafka: Cluster) -> None:
    log = kafka.log("orders", 0)
    with pytest.raises(ZeroDivisionError), log.full(free_bytes=10):
        _ = 1 // 0
    assert log.states == []


@pytest.mark.parametrize("name", KINDS)
async def test_every_kind_of_state_has_its_method(kafka: Cluster, name: str) -> None:
    log = kafka.offsets_log("billing")
    arguments = {"latency": "1s"} if name == "slow" else {}
    with getattr(log, name)(**arguments):
        assert log.states == [name]
    assert log.states == []
    healed = log.set(name, for_="1ms", **arguments)
    await asyncio.wait_for(kafka.journal.next(event="state", state=name, action="healed"), 60)
    assert not healed.active


async def test_states_of_different_aspects_go_together_and_heal_at_once(kafka: Cluster) -> None:
    log = kafka.log("orders", 0)
    log.stuck()
    log.readonly()
    with pytest.raises(UsageError, match="orders-0 is stuck already, which excludes slow"):
        log.slow("1s", jitter="2s")
    log.slow("1s", for_="1m").heal() if not log.states else log.set("slow", latency="1s", replace=True)
    assert sorted(log.states) == ["readonly", "slow"]
    log.heal()
    assert log.states == []


async def test_what_cannot_be_is_refused(kafka: Cluster) -> None:
    log = kafka.log("orders", 0)
    with pytest.raises(UsageError, match=r"no state 'stuk'; did you mean 'stuck'\?"):
        log.set("stuk")
    with pytest.raises(UsageError, match="orders-0 can't be loading"):
        log.loading()
    with pytest.raises(UsageError, match=r"no topic 'order'; did you mean 'orders'\?"):
        kafka.log("order", 0)
    with pytest.raises(UsageError, match="no partition 3 of topic 'orders'; expected 0 to 2"):
        kafka.log("orders", 3)


# --- who waits ----------------------------------------------------------------------------------------------------------


@pytest.mark.kafka(topics={"orders": 3}, clock="manual", as_version="3.9")
async def test_commits_wait_for_a_stuck_log_and_their_answers_can_be_had(kafka: Cluster) -> None:
    member = await Member.connect(kafka)
    await member.enter()
    log = kafka.group("billing").offsets_log
    async with log.stuck() as jam:
        coming = asyncio.create_task(jam.pending(2))
        answers = [member.commit(1)]
        other = await Member.connect(kafka, client_id="other")
        other.member_id, other.generation = member.member_id, member.generation
        (first,) = await jam.pending(1)
        assert (first.api, first.group, first.client_id) == ("OffsetCommit", "billing", "app")
        assert repr(first).startswith("<request ")
        assert not coming.done()
        answers.append(other.commit(2))
        assert [each.client_id for each in await coming] == ["app", "other"]
        await kafka.time.advance(5)
        seen = await first.answer()
        assert (seen.error, seen.took_ms) == (Err.REQUEST_TIMED_OUT, 5000)
        assert [commit_error(await each) for each in answers] == [Err.REQUEST_TIMED_OUT] * 2
    await member.close()
    await other.close()


async def test_a_produce_waits_for_a_stuck_log_too(kafka: Cluster) -> None:
    wire = await Wire.connect(kafka.bootstrap)
    log = kafka.log("orders", 0)
    with log.stuck() as jam:
        await wire.send(produce(acks=1), 8)
        waiting = wire.start(produce(), 8)
        (request,) = await jam.pending(1)
        assert request.api == "Produce"
    assert (await waiting).responses[0].partition_responses[0].error_code == 0
    assert (await request.answer()).ok
    await wire.close()


@pytest.mark.kafka(topics={"orders": 3}, clock="manual", as_version="4.1")
async def test_heartbeats_wait_behind_a_write_in_4_x(kafka: Cluster) -> None:
    member = await Member.connect(kafka)
    await member.enter()
    second = await Member.connect(kafka, client_id="heart")
    async with kafka.group("billing").offsets_log.stuck() as jam:
        commit = member.commit(1)
        await jam.pending(1)
        beat = second.wire.start(HeartbeatRequest("billing", member.generation, member.member_id), 4)
        assert [each.api for each in await jam.pending(2)] == ["OffsetCommit", "Heartbeat"]
    assert commit_error(await commit) is Err.NONE
    assert (await beat).error_code == 0
    await member.close()
    await second.close()


async def test_a_wait_for_requests_in_vain_tells_how_the_log_stands(kafka: Cluster) -> None:
    log = kafka.offsets_log("billing")
    with log.stuck() as jam, pytest.raises(WaitTimeout) as failure:
        await jam.pending(2, timeout="20ms")
    text = str(failure.value)
    assert text.startswith(f"2 requests that wait for {log.name}: not within 20 ms\n")
    assert "now: stuck; high watermark 0 of 0; no request waits" in text


# --- leaders and records ------------------------------------------------------------------------------------------------


@pytest.mark.kafka(brokers=3, topics={"orders": 3}, config={"offsets.topic.replication.factor": 3})
async def test_a_coordinator_moves(kafka: Cluster) -> None:
    billing = kafka.group("billing")
    log = billing.offsets_log
    target = next(node for node in (1, 2, 3) if node != log.leader)
    epoch = log.leader_epoch
    assert log.move_to(target).leader == target == billing.coordinator
    assert log.leader_epoch > epoch
    with pytest.raises(UsageError, match="9"):
        log.move_to(9)
    assert log.elect().leader in (1, 2, 3)
    led = {log.leader, *(log.move_to().leader for _ in range(4))}
    assert len(led) > 1


async def test_nobody_else_can_lead_where_there_is_one_broker(kafka: Cluster) -> None:
    log = kafka.offsets_log("billing")
    with pytest.raises(UsageError, match="no other broker is up to become its leader"):
        log.move_to()


async def test_records_are_spread_over_the_partitions(kafka: Cluster) -> None:
    orders = kafka.topic("orders").fill(1000).fill(1, value_bytes=1000)
    assert [orders.log(index).end_offset for index in range(3)] == [335, 333, 333]
    records = [record for batch in orders.log(1).partition.log.batches() for record in batch.records()]
    assert [(r.key, r.value) for r in records[:2]] == [(b"key-1", b"orders-1"), (b"key-4", b"orders-4")]
    last = [record for batch in orders.log(0).partition.log.batches() for record in batch.records()][-1]
    assert last.value == b"orders-0".ljust(1000, b".")
    log = orders.log(2).fill(2, value=lambda number: b"%d" % number)
    assert [r.value for batch in log.partition.log.batches() for r in batch.records()][-2:] == [b"333", b"334"]
    with pytest.raises(UsageError, match="is an internal partition"):
        kafka.offsets_log("billing").fill(1)


async def test_a_topic_is_made_and_grows(kafka: Cluster) -> None:
    payments = kafka.topic("payments", partitions=2)
    assert payments.partitions == 2
    assert payments.grow_to(4).partitions == 4
    with pytest.raises(UsageError, match="topic 'payments': "):
        payments.grow_to(3)
    assert isinstance(payments.log(3), LogHandle)


@pytest.mark.kafka(brokers=2, topics={"orders": 4})
@pytest.mark.kafka(internal_topics="on-demand")
async def test_a_broker_goes_and_comes_with_its_port(kafka: Cluster) -> None:
    second = kafka.broker(2)
    wire = await Wire.connect(second.address)
    before = (second.address, second.alive, second.leads)
    assert before[1:] == (True, ["orders-1", "orders-3"])
    async with second.down() as down:
        assert not second.alive
        await wire.closed()
        assert "down" in repr(down)
    assert (second.address, second.alive, second.leads) == before
    await down.heal()
    gone = await second.down()
    assert not second.alive
    await gone.heal()
    await second.restart()
    assert second.alive
    await wire.close()
    with pytest.raises(UsageError, match="no broker 7; expected one of 1, 2"):
        kafka.broker(7)
