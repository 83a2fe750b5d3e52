"""The transaction coordinators of a running cluster: they load, move, get stuck, and go on after a kill."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from broker_sim import Cluster
from kafka_wire.errors import Err
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kafka_wire.messages.k22_init_producer_id import InitProducerIdRequest
from kafka_wire.messages.k24_add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafka_wire.messages.k26_end_txn import EndTxnRequest
from kafka_wire.messages.k65_describe_transactions import DescribeTransactionsRequest
from kafka_wire.record_batch import build_batch
from tests.support.wire import Wire

TX, DATA = "billing", ("orders", 0)
CONFIG = {"transaction.state.log.num.partitions": 1}
Id = tuple[int, int]


class Client:
    """A transactional producer on one connection to one broker."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.id: Id = (-1, -1)

    async def find(self) -> int:
        """The coordinator's node id; the first call makes the topic."""
        ask = FindCoordinatorRequest(key_type=1, coordinator_keys=[TX])
        for _ in range(2):
            found = (await self.wire.send(ask, 4)).coordinators[0]
        assert found.error_code == Err.NONE
        return int(found.node_id)

    async def init(self, timeout_ms: int = 60_000) -> Err:
        answer = await self.wire.send(InitProducerIdRequest(TX, timeout_ms), 4)
        if answer.error_code == Err.NONE:
            self.id = answer.producer_id, answer.producer_epoch
        return Err(answer.error_code)

    async def add(self) -> Err:
        topics = [AddPartitionsToTxnTopic(DATA[0], [DATA[1]])]
        answer = await self.wire.send(AddPartitionsToTxnRequest([], TX, *self.id, topics), 3)
        return Err(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

    async def end(self, *, commit: bool = True) -> Err:
        return Err((await self.wire.send(EndTxnRequest(TX, *self.id, commit), 3)).error_code)

    async def state(self) -> str:
        row = (await self.wire.send(DescribeTransactionsRequest([TX]), 0)).transaction_states[0]
        return str(row.transaction_state) or Err(row.error_code).name


def markers(kafka: Cluster) -> list[tuple[int, int]]:
    """Producer id and epoch of every marker in the data log."""
    partition = kafka.state.partition(*DATA)
    assert partition is not None
    return [(b.header.producer_id, b.header.producer_epoch) for b in partition.log.batches() if b.header.is_control]


@asynccontextmanager
async def cluster(brokers: int = 1, **options: Any) -> AsyncIterator[tuple[Cluster, Client]]:
    """A cluster, and a client of its first broker whose coordinator is there."""
    async with Cluster(brokers, {DATA[0]: 1}, config=CONFIG, **options) as kafka:
        wire = await Wire.connect(kafka.bootstrap.split(",")[0])
        try:
            client = Client(wire)
            await client.find()
            yield kafka, client
        finally:
            await wire.close()


async def until(condition: Callable[[], bool], what: str) -> None:
    """Looks at a coordinator until it is so: what becomes of transactions has no events to wait for."""
    loop = asyncio.get_running_loop()
    give_up = loop.time() + 60
    while not condition():
        if loop.time() > give_up:
            raise TimeoutError(f"waited 60 s for {what}")
        await asyncio.sleep(0.005)


async def ended(kafka: Cluster, state: str) -> None:
    """Until the transaction is in this state."""

    def there() -> bool:
        shard = kafka.transactions.shard(0)
        found = None if shard is None else shard.transactions.get(TX)
        return found is not None and found.stored.state.kafka_name == state

    await until(there, f"the transaction to be {state}")


@pytest.mark.slow
@pytest.mark.parametrize("moves", [False, True], ids=["one coordinator", "its successor"])
async def test_the_markers_of_a_large_transaction_are_written_in_pieces(moves: bool) -> None:
    """Others are served between the pieces; a coordinator that moves meanwhile leaves the rest to its successor."""
    many = 9000
    async with cluster(2, as_version="4.1") as (kafka, client):
        kafka.state.create_topic("wide", many)
        if await client.find() != 1:
            kafka.log("__transaction_state").move_to(1)
        assert await client.init() is Err.NONE
        topics = [AddPartitionsToTxnTopic("wide", list(range(many)))]
        answer = await client.wire.send(AddPartitionsToTxnRequest([], TX, *client.id, topics), 3)
        rows = answer.results_by_topic_v3_and_below[0].results_by_partition
        assert {row.partition_error_code for row in rows} == {Err.NONE}
        partitions = kafka.state.topics["wide"].partitions
        assert await client.end() is Err.NONE
        first = sum(one.log_end_offset for one in partitions)
        assert first < many, "it is answered when the decision is stored"
        if moves:
            kafka.log("__transaction_state").move_to(2)
        await ended(kafka, "CompleteCommit")
        assert {one.log_end_offset for one in partitions} <= {1, 2}, "a successor may write one again"
        kinds = [batch.header.is_control for one in partitions for batch in one.log.batches()]
        assert all(kinds)
        assert len(kinds) >= many
        assert moves or len(kinds) == many


async def test_a_coordinator_moves_with_its_partition_and_its_successor_ends_what_was_decided() -> None:
    async with cluster(2) as (kafka, client):
        leader = await client.find()
        if leader != 1:
            kafka.log("__transaction_state").move_to(1)
        assert (await client.init(), await client.add()) == (Err.NONE, Err.NONE)
        with kafka.log(*DATA).no_leader():
            assert await client.end() is Err.NONE
            assert await client.state() == "PrepareCommit"
            kafka.log("__transaction_state").move_to(2)
            assert await client.state() == "NOT_COORDINATOR"
            assert await client.find() == 2
        await ended(kafka, "CompleteCommit")
        assert markers(kafka) == [client.id]


async def test_while_its_log_is_stuck_nobody_is_answered_and_others_are_told_to_wait() -> None:
    async with cluster() as (kafka, client):
        assert (await client.init(), await client.add()) == (Err.NONE, Err.NONE)
        other = Client(await Wire.connect(kafka.bootstrap))
        other.id = client.id
        with kafka.log("__transaction_state").stuck():
            ending = client.wire.start(EndTxnRequest(TX, *client.id, True), 3)
            shard = kafka.transactions.shard(0)
            assert shard is not None
            await until(lambda: shard.in_flight, "an append that is not committed")
            busy = Err.CONCURRENT_TRANSACTIONS
            assert [await other.init(), await other.add(), await other.end()] == [busy] * 3
            assert (ending.done(), await other.state(), markers(kafka)) == (False, "Ongoing", [])
        assert (await ending).error_code == Err.NONE
        await ended(kafka, "CompleteCommit")
        await other.wire.close()


async def test_while_it_loads_everybody_is_told_so() -> None:
    async with cluster() as (kafka, client):
        assert await client.init() is Err.NONE
        with kafka.log("__transaction_state").loading():
            assert await client.init() is Err.COORDINATOR_LOAD_IN_PROGRESS
            assert await client.state() == "COORDINATOR_LOAD_IN_PROGRESS"
        await ended(kafka, "Empty")
        assert (await client.init(), client.id[1]) == (Err.NONE, 1)


async def test_a_log_that_refuses_costs_nothing_but_the_request() -> None:
    async with cluster() as (kafka, client):
        assert (await client.init(), await client.add()) == (Err.NONE, Err.NONE)
        with kafka.log("__transaction_state").under_min_isr():
            assert await client.end() is Err.COORDINATOR_NOT_AVAILABLE
            assert await client.state() == "Ongoing"
        assert await client.end() is Err.NONE
        await ended(kafka, "CompleteCommit")
        assert markers(kafka) == [client.id]


@pytest.mark.parametrize("state", ["stuck", "under_min_isr", "storage_error", "no_leader"])
async def test_a_marker_waits_for_its_partition_whatever_ails_it(state: str) -> None:
    async with cluster() as (kafka, client):
        assert (await client.init(), await client.add()) == (Err.NONE, Err.NONE)
        with kafka.log(*DATA).set(state):
            assert await client.end() is Err.NONE
            assert await client.state() == "PrepareCommit"
        await ended(kafka, "CompleteCommit")
        assert markers(kafka) == [client.id]


@pytest.mark.parametrize("meanwhile", ["nothing", "another record"])
async def test_a_marker_that_a_new_leader_does_not_have_is_written_again(meanwhile: str) -> None:
    async with cluster(2) as (kafka, client):
        client = Client(await Wire.connect(kafka.bootstrap.split(",")[await client.find() - 1]))
        partition = kafka.state.partition(*DATA)
        assert partition is not None
        partition.replicas, partition.isr = [1, 2], [1, 2]
        assert (await client.init(), await client.add()) == (Err.NONE, Err.NONE)
        with kafka.log(*DATA).stuck():
            assert await client.end() is Err.NONE
            assert markers(kafka) == [client.id]
            kafka.move_leader(partition)
            assert markers(kafka) == []
        if meanwhile == "another record":
            now_ms = kafka.state.clock.now_ms()
            partition.append(build_batch([(None, b"in its place")], now_ms), now_ms=now_ms)
        await ended(kafka, "CompleteCommit")
        assert markers(kafka) == [client.id]
        await client.wire.close()


async def test_a_topic_that_is_deleted_meanwhile_counts_as_done() -> None:
    async with cluster() as (kafka, client):
        assert (await client.init(), await client.add()) == (Err.NONE, Err.NONE)
        kafka.log(*DATA).stuck()
        assert await client.end() is Err.NONE
        kafka.state.delete_topic(DATA[0])
        await ended(kafka, "CompleteCommit")


async def test_a_broker_that_was_stopped_in_the_midst_of_a_commit_goes_on_with_it(tmp_path: Path) -> None:
    async with cluster(data_dir=tmp_path) as (kafka, client):
        assert (await client.init(), await client.add()) == (Err.NONE, Err.NONE)
        kafka.log(*DATA).no_leader()
        assert await client.end() is Err.NONE
        assert await client.state() == "PrepareCommit"
    async with Cluster(data_dir=tmp_path, config=CONFIG) as kafka:
        await ended(kafka, "CompleteCommit")
        assert markers(kafka) == [client.id]


async def test_a_compacted_log_says_the_same() -> None:
    async with cluster() as (kafka, client):
        for _ in range(20):
            assert (await client.init(), await client.add(), await client.end()) == (Err.NONE,) * 3
            await ended(kafka, "CompleteCommit")
        partition = kafka.state.partition("__transaction_state", 0)
        assert partition is not None
        before = sum(batch.header.record_count for batch in partition.log.batches())
        kafka.state.roll_and_clean(partition, kafka.state.clock.now_ms())
        after = sum(batch.header.record_count for batch in partition.log.batches())
        assert after < before
        epoch = client.id[1]
        kafka.transactions.reload(partition)
        await ended(kafka, "CompleteCommit")
        assert (await client.init(), client.id[1]) == (Err.NONE, epoch + 1)


async def test_time_that_is_moved_by_hand_passes_for_transactions_too() -> None:
    async with cluster(clock="manual") as (kafka, client):
        assert (await client.init(timeout_ms=20_000), await client.add()) == (Err.NONE, Err.NONE)
        assert await kafka.time.advance("25s") == []
        due = kafka.time.next_timer()
        assert due is not None
        assert due[1] in (f"timeout of the transaction of {TX}", "log retention")  # both are due then
        fired = await kafka.time.advance("30s")
        assert f"timeout of the transaction of {TX}" in fired
        assert (await client.state(), markers(kafka)) == ("CompleteAbort", [(client.id[0], client.id[1] + 1)])


async def test_ids_that_nobody_uses_are_forgotten() -> None:
    async with cluster(clock="manual") as (kafka, client):
        assert await client.init() is Err.NONE
        await kafka.time.advance("6d")
        assert await client.state() == "Empty"
        await kafka.time.advance("2d")
        assert await client.state() == "TRANSACTIONAL_ID_NOT_FOUND"
        partition = kafka.state.partition("__transaction_state", 0)
        assert partition is not None
        kafka.transactions.reload(partition)
        await kafka.time.advance("1s")
        assert await client.state() == "TRANSACTIONAL_ID_NOT_FOUND"


async def test_markers_wait_for_as_many_replicas_as_their_topic_wants() -> None:
    async with cluster(2) as (kafka, client):
        client = Client(await Wire.connect(kafka.bootstrap.split(",")[await client.find() - 1]))
        partition = kafka.state.partition(*DATA)
        assert partition is not None
        replicas, partition.replicas, partition.isr = partition.replicas, [1, 2], [partition.leader]
        kafka.state.topics[DATA[0]].min_isr = 2
        assert (await client.init(), await client.add(), await client.end()) == (Err.NONE, Err.NONE, Err.NONE)
        assert await client.state() == "PrepareCommit"
        assert markers(kafka) == []
        partition.isr = [1, 2]
        await ended(kafka, "CompleteCommit")
        assert markers(kafka) == [client.id]
        partition.replicas = replicas
        await client.wire.close()
