"""Transactions that were open, or decided and not ended, when a real broker was killed: on a copy of its directory they live on as they
do on the broker when it is up again.

Between a decision and its end are milliseconds, so the last words are taken away: of the coordinator's log that all markers are there,
and of the partition's log the marker, as if the broker had been killed before it wrote them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from broker_sim.api.cluster import Cluster
from kafka_wire.errors import Err
from kafka_wire.messages.k22_init_producer_id import InitProducerIdRequest
from kafka_wire.messages.k26_end_txn import EndTxnRequest
from kafka_wire.messages.k61_describe_producers import DescribeProducersRequest, TopicRequest
from kafka_wire.messages.k65_describe_transactions import DescribeTransactionsRequest
from kafka_wire.record_batch import batches
from tests.conformance.driver import Kafka, create_topic, offsets_topic_ready, topic_known
from tests.conformance.transactional import Producer, both_ends, committed, ends, seen
from tests.importing.past import copy_of
from tests.support.real_kafka import VERSIONS, RealKafka

pytestmark = [pytest.mark.real_kafka]

SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 3_600_000,
}
LOOKS_OFTEN = {**SETTINGS, "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100}
TOPICS = ("open", "decided", "over", "late")
IDS = ("tx-open", "tx-decided", "tx-over", "tx-late")
GROUP, DEADLINE_S = "staged", 60
TIMEOUT_MS = {"tx-late": 1000}


@dataclass
class Killed:
    """Transactions that were open when the broker was killed, its answers after a restart, and its directory as it was at the kill."""

    version: str
    producers: dict[str, Producer]
    directory: Path
    told: list[Any]
    went_on: list[Any]

    def hand(self, address: str) -> Kafka:
        return Kafka(self.version[:3], "sim", {1: address}, "unused")

    def of(self, kafka: Kafka) -> dict[str, Producer]:
        return {name: replace(one, kafka=kafka) for name, one in self.producers.items()}


@pytest.fixture(scope="module", params=VERSIONS)
def killed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killed]:
    version, place = request.param, tmp_path_factory.mktemp("open")
    with RealKafka(version, config=SETTINGS) as kafka:
        hand = Kafka(version[:3], "kafka", {1: kafka.bootstrap}, "unused")
        producers = asyncio.run(_live(hand))
        node = kafka.nodes[1]
        node.kill()
        for log in ("__transaction_state-0", "decided-0"):
            _cut(node.data_dir / log)
        found = Killed(version, producers, copy_of(node.data_dir, place / "killed"), [], [])
        node.start()
        node.wait_ready(time.monotonic() + DEADLINE_S)
        found.told, found.went_on = asyncio.run(_both(found, kafka.bootstrap))
        yield found


async def _live(kafka: Kafka) -> dict[str, Producer]:
    try:
        await offsets_topic_ready(kafka.watch)
        for name in TOPICS:
            await create_topic(kafka.watch, name, 1)
            await topic_known(kafka.watch, name, 1)
        producers = {name: await _begun(kafka, name) for name in IDS}
        over, open_, decided, late = (producers[f"tx-{name}"] for name in ("over", "open", "decided", "late"))
        for sequence, commit in ((0, False), (1, True)):
            await over.add("over", 0)
            assert await over.produce("over", sequence) is Err.NONE
            await over.end(commit=commit, topic="over")
        for topic, one in (("open", open_), ("decided", decided), ("late", late)):
            await one.add(topic, 0)
            assert await one.produce(topic, 0) is Err.NONE
        await open_.add_offsets(GROUP)
        assert await open_.commit("open", 5, group=GROUP) is Err.NONE
        await decided.end(topic="decided")
        await _settled(kafka, 1, "CompleteCommit")
        return producers
    finally:
        await kafka.close()


async def _begun(kafka: Kafka, name: str) -> Producer:
    await Producer(kafka, name).begin()  # the coordinator is there
    answer = await kafka.watch(InitProducerIdRequest(name, TIMEOUT_MS.get(name, 60_000)), 4)
    assert answer.error_code == Err.NONE
    return Producer(kafka, name, answer.producer_id, answer.producer_epoch)


def _cut(log: Path) -> None:
    """Takes the last batch of a log away."""
    [segment] = log.glob("*.log")
    data = segment.read_bytes()
    *_, (at, _) = batches(data)
    segment.write_bytes(data[:at])


async def _states(kafka: Kafka) -> list[str]:
    answer = await kafka.watch(DescribeTransactionsRequest(list(IDS)), 0)
    return [row.transaction_state for row in answer.transaction_states]


async def _settled(kafka: Kafka, index: int, state: str) -> None:
    give_up = time.monotonic() + DEADLINE_S
    while (seen_ := (await _states(kafka))[index]) != state:
        assert time.monotonic() < give_up, f"waited {DEADLINE_S} s for {IDS[index]} to be {state}; it is {seen_}"
        await asyncio.sleep(0.02)


async def _both(killed: Killed, address: str) -> tuple[list[Any], list[Any]]:
    kafka = killed.hand(address)
    try:
        await offsets_topic_ready(kafka.watch)
        return await told(kafka), await went_on(killed, kafka)
    finally:
        await kafka.close()


async def told(kafka: Kafka) -> list[Any]:
    """Return the transactions' state as all APIs show it."""
    await _settled(kafka, 1, "CompleteCommit")  # its marker is written, once more
    rows: list[Any] = []
    for one in (await kafka.watch(DescribeTransactionsRequest(list(IDS)), 0)).transaction_states:
        topics = [(topic.topic, topic.partitions) for topic in one.topics]
        rows.append((one.transactional_id, one.transaction_state, one.producer_id, one.producer_epoch, sorted(topics)))
        rows.append((one.transaction_timeout_ms, one.transaction_start_time_ms))
    for topic in TOPICS:
        rows += [await both_ends(kafka, topic), await seen(kafka, topic, 0), await seen(kafka, topic, 1)]
        asked = DescribeProducersRequest([TopicRequest(topic, [0])])
        for one in (await kafka.watch(asked, 0)).topics[0].partitions[0].active_producers:
            rows.append((one.producer_id, one.producer_epoch, one.last_sequence, one.current_txn_start_offset))
    return [*rows, await committed(kafka, "open", group=GROUP, stable=True)]


async def went_on(killed: Killed, kafka: Kafka) -> list[Any]:
    """The producers are there still, and go on; markers get in; somebody else comes with an id."""
    producers = killed.of(kafka)
    open_, decided, late = producers["tx-open"], producers["tx-decided"], producers["tx-late"]
    rows: list[Any] = [await open_.produce("open", 0), await open_.produce("open", 1)]
    rows += [await _end(open_), await _end(decided)]
    await _settled(kafka, 0, "CompleteCommit")
    give_up = time.monotonic() + DEADLINE_S
    while (staged := await committed(kafka, "open", group=GROUP, stable=True))[1] is not Err.NONE:
        assert time.monotonic() < give_up, "the group's offsets never become stable"
        await asyncio.sleep(0.02)
    rows += [staged, await ends(kafka, "open"), await seen(kafka, "open", 1)]
    answer = await kafka.watch(InitProducerIdRequest("tx-late", 60_000), 4)
    rows.append(Err(answer.error_code))
    await _settled(kafka, 3, "CompleteAbort")
    rows += [await _end(late), await late.produce("late", 1), await ends(kafka, "late"), await seen(kafka, "late", 1)]
    return rows


async def _end(producer: Producer) -> Err:
    request = EndTxnRequest(producer.transactional_id, producer.producer_id, producer.epoch, True)
    return Err((await producer.kafka.watch(request, 3)).error_code)


async def test_they_are_told_of_and_go_on_as_at_the_broker(killed: Killed, tmp_path: Path) -> None:
    copy = copy_of(killed.directory, tmp_path / "copy")
    async with Cluster(data_dir=copy, as_version=killed.version[:3], config=SETTINGS) as cluster:
        kafka = killed.hand(cluster.bootstrap)
        assert await told(kafka) == killed.told
        assert await went_on(killed, kafka) == killed.went_on
        await kafka.close()


async def test_one_that_has_had_its_time_is_aborted(killed: Killed, tmp_path: Path) -> None:
    copy = copy_of(killed.directory, tmp_path / "copy")
    async with Cluster(data_dir=copy, as_version=killed.version[:3], config=LOOKS_OFTEN) as cluster:
        kafka = killed.hand(cluster.bootstrap)
        await _settled(kafka, 3, "CompleteAbort")
        assert (await _states(kafka))[:3] == ["Ongoing", "CompleteCommit", "CompleteCommit"]
        late = killed.of(kafka)["tx-late"]
        assert await _end(late) is Err.PRODUCER_FENCED
        assert (await ends(kafka, "late"), await seen(kafka, "late", 1)) == (2, ([0, 1], [0]))
        await kafka.close()
