"""Transactions that are decided while one of their partitions takes no marker: its broker does not answer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from kafka_wire.errors import Err
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kafka_wire.messages.k19_create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from kafka_wire.messages.k24_add_partitions_to_txn import AddPartitionsToTxnRequest
from tests.conformance import transactional
from tests.conformance.driver import GIVE_UP_S, POLL_S, Kafka, clock_s, topic_known
from tests.conformance.transactions import Id, Producer

pytestmark = [pytest.mark.profile("pair-transactions"), pytest.mark.generations("3.4", "4.1", "4.4")]
new_flow = pytest.mark.generations("4.1", "4.4")

NONE, FENCED, NO_MAPPING = Err.NONE, Err.PRODUCER_FENCED, Err.INVALID_PRODUCER_ID_MAPPING
WAITS, INVALID_STATE = Err.CONCURRENT_TRANSACTIONS, Err.INVALID_TXN_STATE
COORDINATOR, OTHER = 1, 2


async def opened(kafka: Kafka) -> tuple[Producer, str]:
    """A producer whose coordinator is node 1, in a transaction with the one partition of a topic of node 2."""
    topic = kafka.name("far")
    made = CreatableTopic(topic, -1, -1, [CreatableReplicaAssignment(0, [OTHER])])
    answer = await kafka.watch(CreateTopicsRequest([made], timeout_ms=10_000), 5)
    assert answer.topics[0].error_code == NONE, answer
    for node in (COORDINATOR, OTHER):
        await topic_known(
            lambda request, version, at=node: kafka.watch(request, version, broker=at), topic, 1, alone=False
        )
    producer = Producer(kafka)
    producer.name = await _coordinated(kafka)
    kafka.recording.named[producer.name] = "an id of node 1"
    await producer.begin()
    await producer.begin()  # so that there is an earlier epoch
    assert await producer.add((topic, 0)) == {(topic, 0): NONE}
    return producer, topic


async def _coordinated(kafka: Kafka) -> str:
    give_up = clock_s() + GIVE_UP_S
    while True:
        request = FindCoordinatorRequest(
            key_type=1, coordinator_keys=[kafka.name(f"x{number}") for number in range(20)]
        )
        answer = await kafka.watch(request, 4)
        names: list[str] = [one.key for one in answer.coordinators if one.node_id == COORDINATOR]
        if names:
            return names[0]
        assert clock_s() < give_up, answer
        await asyncio.sleep(POLL_S)


@contextlib.asynccontextmanager
async def silent(kafka: Kafka, topic: str) -> AsyncIterator[None]:
    """The topic's leader answers nobody."""
    if kafka.kind == "sim":
        async with kafka.cluster.log(topic, 0).stuck():
            yield
        return
    node = kafka.cluster.nodes[OTHER]
    node.pause()
    try:
        yield
    finally:
        node.resume()


def others(producer: Producer) -> tuple[Id, Id, Id]:
    """The producer with the epoch before, with the one behind, and somebody else."""
    return producer.epoch(-1), producer.epoch(1), (99_999, 0)


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
async def test_who_asks_while_markers_are_on_their_way_is_to_come_again(kafka: Kafka, commit: bool) -> None:
    producer, topic = await opened(kafka)
    async with silent(kafka, topic):
        assert await producer.end(commit, version=3) is NONE
        assert (await producer.state()).transaction_state == ("PrepareCommit" if commit else "PrepareAbort")
        assert (await producer.init())[0] is WAITS
        for own in (producer.id, *others(producer)):
            await producer.init(own)
            for version in (1, 3):
                await producer.add_one(own, version)
                await producer.offsets("g", own=own, version=version)
                for again in (True, False):
                    await producer.end(again, own=own, version=version)
        assert await producer.add_one() is WAITS
        assert await producer.end(commit, version=3) is WAITS
        assert await producer.offsets("g") is WAITS
        await producer.state()
    await producer.log("CompleteCommit" if commit else "CompleteAbort")
    assert await producer.add_one() is NONE


@new_flow
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
async def test_new_clients_ask_while_markers_are_on_their_way(kafka: Kafka, commit: bool) -> None:
    producer, topic = await opened(kafka)
    before = producer.id
    async with silent(kafka, topic):
        assert await producer.end(commit, version=5) is NONE
        assert producer.id == (before[0], before[1] + 1)
        for own in (before, producer.id, *others(producer)):
            for again in (True, False):
                for version in (4, 5):
                    await kafka.ask(producer.ending(again, own), version)
            asked = [producer.asks((topic, 0), ("t0", 0), own=own), producer.asks(("t0", 0), own=own, verify=False)]
            for one in asked:
                await kafka.ask(AddPartitionsToTxnRequest([one]), 5)
        assert await producer.end(commit, own=before, version=5) is WAITS
    await producer.log("CompleteCommit" if commit else "CompleteAbort")
    assert await producer.end(commit, own=before, version=5) is NONE


async def test_a_transaction_that_is_fenced_while_its_markers_can_not_be_written(kafka: Kafka) -> None:
    producer, topic = await opened(kafka)
    zombie = producer.id
    async with silent(kafka, topic):
        assert (await producer.init())[0] is WAITS
        assert (await producer.state()).transaction_state == "PrepareAbort"
        for own in (zombie, *others(producer)):
            await producer.init(own)
            await producer.add_one(own)
            await producer.end(own=own, version=3)
            await producer.end(False, own=own, version=3)
    await producer.log("CompleteAbort")


@new_flow
async def test_what_is_written_while_markers_are_on_their_way(kafka: Kafka) -> None:
    """Produce and TxnOffsetCommit that add partitions themselves wait for a while, and are answered what their coordinator says."""
    producer, topic = await opened(kafka)
    near = kafka.name("near")
    made = CreatableTopic(near, -1, -1, [CreatableReplicaAssignment(0, [COORDINATOR])])
    assert (await kafka.watch(CreateTopicsRequest([made], timeout_ms=10_000), 5)).topics[0].error_code == NONE
    await topic_known(kafka.watch, near, 1)
    async with silent(kafka, topic):
        assert await producer.end(version=5) is NONE
        hand = transactional.Producer(kafka, producer.name, *producer.id)
        for version in (9, 11, 12):
            await hand.produce(near, 0, version=version)
            await hand.shifted(-1).produce(near, 0, version=version)
    await producer.until("CompleteCommit")
    assert await hand.produce(near, 0, version=12) is NONE
