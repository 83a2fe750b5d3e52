"""CPU time of a request, by layer: brokers without sockets, from a connection's bytes to its answer.

A classic and a consumer group rebalance, a share group reads, and transactions are committed, in both versions and without any. Each
request's CPU time is taken, and a signal every few milliseconds of it finds the layer whose code runs; C code counts for its caller.

    python -m benchmarks.steps
"""

from __future__ import annotations

import asyncio
import gc
import random
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from broker_sim.common.chance import Chance
from broker_sim.common.clock import RealClock
from broker_sim.config.settings import BrokerConfig
from broker_sim.coordinator.share_partition.partition import ACCEPT
from broker_sim.metadata.cluster_state import ClusterState
from broker_sim.metadata.topics import OFFSETS_TOPIC, TRANSACTION_TOPIC
from broker_sim.network.connection import Connection
from broker_sim.network.server import BrokerServer
from broker_sim.requests.routes import Routes
from broker_sim.runtime.coordinators import Coordinators
from kafka_wire.codec import decode, encode
from kafka_wire.frame import encode_request_header, frame
from kafka_wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from kafka_wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_wire.messages.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafka_wire.messages.k24_add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafka_wire.messages.k25_add_offsets_to_txn import AddOffsetsToTxnRequest
from kafka_wire.messages.k26_end_txn import EndTxnRequest
from kafka_wire.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
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
from kafka_wire.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from kafka_wire.messages.k78_share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
    ShareFetchResponse,
)
from kafka_wire.record_batch import TRANSACTIONAL_BIT, build_batch

TRANSACTIONS, MEMBERS, ROUNDS = 4000, 100, 60
_LARGE_GROUP, _MOST_PARTITIONS = 10_000, 10_000
_RECORDS = [(b"key%d" % number, b"v" * 100) for number in range(10)]
_TAKEN_EVERY_S = 0.004
_BODY = 9  # where an answer's body begins: size, correlation id, no tags
_PRODUCE = {0: 9, 1: 11, 2: 12}  # the version of Produce that goes with a transaction's
_NAME, _TOPIC, _GROUP = "tx", "orders", "billing"

_OPTIONS: dict[str, object] = {
    "offsets.topic.num.partitions": 1,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
}
_OPTIONS_OF: dict[str, dict[str, object]] = {
    "4.4": {
        "group.consumer.assignment.interval.ms": 0,
        "share.coordinator.state.topic.num.partitions": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
    }
}


_ROOMS = (
    ("/broker_sim/network/", "connection"),
    ("/broker_sim/requests/routes", "codec"),
    ("/broker_sim/handlers/context", "context"),
    ("/broker_sim/handlers/", "handler"),
    ("/broker_sim/runtime/", "runtime"),
    ("/broker_sim/coordinator/", "core"),
    ("/broker_sim/storage/", "log"),
    ("/broker_sim/metadata/", "log"),
    ("/kafka_wire/record_", "log"),
    ("/kafka_wire/end_markers", "log"),
    ("/kafka_wire/", "codec"),
    ("<decode", "codec"),
    ("<encode", "codec"),
    ("/asyncio/", "loop"),
)
ROOMS = (*dict.fromkeys(room for _, room in _ROOMS), "else")


def _room(frame: FrameType | None) -> str:
    while frame is not None:
        path = frame.f_code.co_filename
        for part, room in _ROOMS:
            if part in path:
                return room
        if path == __file__:
            return "else"
        frame = frame.f_back  # a library's: its caller's
    return "else"


class _Transport:
    """A socket that keeps the last answer."""

    def __init__(self) -> None:
        self.answer = b""

    def write(self, data: bytes) -> None:
        self.answer = data

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return "127.0.0.1", 1

    def close(self) -> None: ...

    abort = pause_reading = resume_reading = close


class _Bench:
    """One broker with its connections, what each request has cost so far, and where samples fell meanwhile."""

    def __init__(
        self,
        connections: int = 1,
        *,
        partitions: int = 1,
        as_version: str = "4.1",
        more: dict[str, object] | None = None,
    ) -> None:
        clock = RealClock()
        options = {**_OPTIONS, **_OPTIONS_OF.get(as_version, {}), **(more or {})}
        state = ClusterState(BrokerConfig(options, as_version=as_version), clock, rng=random.Random(1))
        broker = state.add_broker(1, "127.0.0.1", 9092)
        state.load()
        state.create_topic(_TOPIC, partitions)
        for topic in (OFFSETS_TOPIC, TRANSACTION_TOPIC):
            state.ensure_internal_topic(topic)
        coordinators = Coordinators(state, Chance.seeded(1))
        coordinators.load()
        server = BrokerServer(broker, coordinators, clock, Routes(state.as_version))
        self.state = state
        self.connections: list[tuple[Connection, _Transport]] = []
        for _ in range(connections):
            pair = Connection(server, server.listeners[0]), _Transport()
            pair[0].connection_made(pair[1])  # type: ignore[arg-type]
            self.connections.append(pair)
        self.cost_ns: dict[str, int] = defaultdict(int)
        self.asked: Counter[str] = Counter()
        self.samples: dict[str, Counter[str]] = defaultdict(Counter)
        self._now = ""
        self.longest_ns: int | None = None
        """CPU time of the longest request or iteration of the loop; None: not measured, as that costs time."""

    async def ask(self, name: str, frames: list[bytes]) -> list[bytes]:
        """Each frame on a connection of its own, which goes out before the next one's answer is waited for; the answers' bodies."""
        pairs = self.connections[: len(frames)]
        for _, transport in pairs:
            transport.answer = b""
        self._now = name
        began = time.process_time_ns()
        for (connection, _), data in zip(pairs, frames, strict=True):
            before = time.process_time_ns() if self.longest_ns is not None else 0
            connection.data_received(data)
            if self.longest_ns is not None:
                self.longest_ns = max(self.longest_ns, time.process_time_ns() - before)
        while not pairs[-1][1].answer:  # noqa: ASYNC110 - who answers is the code under test, in turns of this loop
            await asyncio.sleep(0)
        self.cost_ns[name] += time.process_time_ns() - began
        self._now = ""
        self.asked[name] += len(frames)
        if not all(transport.answer for _, transport in pairs):
            raise RuntimeError(f"{name}: not every request was answered")
        return [transport.answer[_BODY:] for _, transport in pairs]

    def _note(self, signum: int, frame: FrameType | None) -> None:
        if self._now:
            self.samples[self._now][_room(frame)] += 1

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count and sample the requests of the block alone."""
        self.cost_ns.clear()
        self.asked.clear()
        gc.collect()
        gc.disable()
        before = signal.signal(signal.SIGPROF, self._note)
        signal.setitimer(signal.ITIMER_PROF, _TAKEN_EVERY_S, _TAKEN_EVERY_S)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)
            gc.enable()


def _request(key: int, version: int, message: Any) -> bytes:
    return frame(encode_request_header(key, version, 1, "bench") + encode(message, version))


async def transactions(flow: int, count: int) -> _Bench:
    """Batches with a group's offset, each pair in a transaction of version ``flow``; 0: in none."""
    bench = _Bench()
    (body,) = await bench.ask("", [_request(22, 4, InitProducerIdRequest(_NAME if flow else None, 60_000))])
    given = decode(InitProducerIdResponse, 4, body)
    requests, epoch, sequence = [], given.producer_epoch, 0
    for number in range(count):
        requests.append(_transaction(flow, given.producer_id, epoch, sequence, number))
        epoch, sequence = (epoch + 1, 0) if flow == 2 else (epoch, sequence + len(_RECORDS))
    warm = count // 4
    for request in requests[:warm]:
        for name, data in request:
            await bench.ask(name, [data])
    with bench.counted():
        for request in requests[warm:]:
            for name, data in request:
                await bench.ask(name, [data])
    (data_log,) = bench.state.topics[_TOPIC].partitions
    kept = count * (len(_RECORDS) + (flow > 0))  # with a marker each
    if not kept == data_log.log_end_offset == data_log.last_stable_offset:
        raise RuntimeError(f"{count} transactions left {data_log.last_stable_offset} stable offsets, not {kept}")
    return bench


def _transaction(flow: int, producer_id: int, epoch: int, sequence: int, offset: int) -> list[tuple[str, bytes]]:
    batch = build_batch(
        _RECORDS,
        int(time.time() * 1000),
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        attributes=TRANSACTIONAL_BIT if flow else 0,
    )
    data = [TopicProduceData(_TOPIC, partition_data=[PartitionProduceData(0, batch)])]
    produce = _request(0, _PRODUCE[flow], ProduceRequest(_NAME if flow else None, -1, 30_000, data))
    if flow == 0:
        topic = OffsetCommitRequestTopic(_TOPIC, partitions=[OffsetCommitRequestPartition(0, offset)])
        return [("Produce", produce), ("OffsetCommit", _request(8, 8, OffsetCommitRequest(_GROUP, topics=[topic])))]
    own = TxnOffsetCommitRequestTopic(_TOPIC, partitions=[TxnOffsetCommitRequestPartition(0, offset)])
    offsets = TxnOffsetCommitRequest(_NAME, _GROUP, producer_id, epoch, topics=[own])
    end = EndTxnRequest(_NAME, producer_id, epoch, True)
    if flow == 2:
        return [("Produce", produce), ("TxnOffsetCommit", _request(28, 5, offsets)), ("EndTxn", _request(26, 5, end))]
    add = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=_NAME,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(_TOPIC, [0])],
    )
    return [
        ("AddPartitionsToTxn", _request(24, 3, add)),
        ("Produce", produce),
        ("AddOffsetsToTxn", _request(25, 3, AddOffsetsToTxnRequest(_NAME, producer_id, epoch, _GROUP))),
        ("TxnOffsetCommit", _request(28, 3, offsets)),
        ("EndTxn", _request(26, 3, end)),
    ]


async def rebalances(members: int, rounds: int) -> _Bench:
    """One group, all of whose members join, sync and send a first heartbeat, again and again."""
    bench = _Bench(members)

    def join(member_id: str) -> bytes:
        protocols = [JoinGroupRequestProtocol("range", b"\0\1" + b"m" * 40)]
        return _request(11, 9, JoinGroupRequest(_GROUP, 30_000, 60_000, member_id, None, "consumer", protocols))

    given = [decode(JoinGroupResponse, 9, answer) for answer in await bench.ask("", [join("")] * members)]
    ids = [answer.member_id for answer in given]
    joins = [join(member_id) for member_id in ids]

    async def once() -> None:
        answers = [decode(JoinGroupResponse, 9, answer) for answer in await bench.ask("JoinGroup", joins)]
        generation, leader = answers[-1].generation_id, answers[-1].leader
        if {(answer.error_code, answer.generation_id) for answer in answers} != {(0, generation)}:
            raise RuntimeError(f"not all of {members} members have joined generation {generation}")
        plan = [SyncGroupRequestAssignment(member_id, b"a" * 40) for member_id in ids]
        syncs = [
            _request(
                14,
                5,
                SyncGroupRequest(
                    _GROUP, generation, member_id, None, "consumer", "range", plan if member_id == leader else []
                ),
            )
            for member_id in ids
        ]
        await bench.ask("SyncGroup", syncs)
        await bench.ask(
            "Heartbeat", [_request(12, 4, HeartbeatRequest(_GROUP, generation, member_id, None)) for member_id in ids]
        )

    for _ in range(rounds // 4):
        await once()
    with bench.counted():
        for _ in range(rounds - rounds // 4):
            await once()
    return bench


async def large_consumer_group(members: int) -> float:
    """As `consumer_group`, with Kafka's assignment interval: the longest request of all, in CPU ms."""
    more = {"group.consumer.assignment.interval.ms": 1000, "group.consumer.max.size": members}
    bench = _Bench(members, partitions=min(2 * members, _MOST_PARTITIONS), as_version="4.4", more=more)
    bench.longest_ns = 0
    await _replace_members(bench, members, 1)
    return bench.longest_ns / 1e6


async def consumer_group(members: int, rounds: int) -> _Bench:
    """One consumer group (KIP-848) that one member leaves and one joins, again and again, until all are reconciled."""
    bench = _Bench(members, partitions=2 * members, as_version="4.4")
    await _replace_members(bench, members, rounds)
    return bench


async def _replace_members(bench: _Bench, members: int, rounds: int) -> None:
    partitions = len(bench.state.topics[_TOPIC].partitions)
    topic_id = bench.state.topics[_TOPIC].topic_id
    epochs, unacknowledged = [0] * members, [False] * members
    owned: list[list[int]] = [[] for _ in range(members)]
    ids = [f"member-{number}" for number in range(members)]

    def beat(number: int) -> bytes:
        request = ConsumerGroupHeartbeatRequest(_GROUP, ids[number], epochs[number])
        if not epochs[number]:
            request.rebalance_timeout_ms, request.subscribed_topic_names, request.topic_partitions = (
                60_000,
                [_TOPIC],
                [],
            )
        elif unacknowledged[number]:
            request.topic_partitions = [TopicPartitions(topic_id, owned[number])] if owned[number] else []
        return _request(68, 1, request)

    async def reconciled() -> None:
        while len(set(epochs)) > 1 or any(unacknowledged) or sum(map(len, owned)) != partitions:
            bodies = await bench.ask("ConsumerGroupHeartbeat", [beat(number) for number in range(members)])
            for number, body in enumerate(bodies):
                response = decode(ConsumerGroupHeartbeatResponse, 1, body)
                if response.error_code:
                    raise RuntimeError(f"ConsumerGroupHeartbeat: {response.error_code} {response.error_message}")
                epochs[number], unacknowledged[number] = response.member_epoch, False
                if response.assignment is not None:
                    now = [index for row in response.assignment.topic_partitions for index in row.partitions]
                    unacknowledged[number], owned[number] = now != owned[number], now

    async def once(number: int) -> None:
        epochs[number] = -1
        await bench.ask("leave", [beat(number)])
        epochs[number], owned[number] = 0, []
        await reconciled()

    await reconciled()
    await once(0)
    with bench.counted():
        for number in range(rounds):
            await once(number % members)


async def shares(fetches: int, partitions: int = 10) -> _Bench:
    """One member of a share group (KIP-932), each of whose ShareFetches of a batch of 100 records accepts those of the one before."""
    bench = _Bench(partitions=partitions, as_version="4.4")
    topic_id = bench.state.topics[_TOPIC].topic_id
    batch = build_batch([(None, b"v" * 100)] * 100, int(time.time() * 1000))
    for number in range(fetches + fetches // 4 + 1):
        rows = [PartitionProduceData(number % partitions, batch)]
        await bench.ask(
            "", [_request(0, 9, ProduceRequest(None, -1, 30_000, [TopicProduceData(_TOPIC, partition_data=rows)]))]
        )
    reset = AlterableConfig("share.auto.offset.reset", 0, "earliest")
    await bench.ask("", [_request(44, 1, IncrementalAlterConfigsRequest([AlterConfigsResource(32, _GROUP, [reset])]))])
    epoch, assigned = 0, 0
    while assigned < partitions:
        names = None if epoch else [_TOPIC]
        (body,) = await bench.ask(
            "", [_request(76, 1, ShareGroupHeartbeatRequest(_GROUP, "member", epoch, None, names))]
        )
        joined = decode(ShareGroupHeartbeatResponse, 1, body)
        epoch = joined.member_epoch
        if joined.assignment is not None:
            assigned = sum(len(row.partitions) for row in joined.assignment.topic_partitions)

    acknowledged = [FetchPartition(index) for index in range(partitions)]

    async def fetch(session: int) -> list[FetchPartition]:
        request = ShareFetchRequest(_GROUP, "member", session, 500, 1, 1 << 20, 100, 100)
        request.topics = [FetchTopic(topic_id, acknowledged)] if acknowledged else []
        (body,) = await bench.ask("ShareFetch", [_request(78, 2, request)])
        rows = [row for topic in decode(ShareFetchResponse, 2, body).responses for row in topic.partitions]
        if (
            any(row.error_code or row.acknowledge_error_code for row in rows)
            or sum(len(r.acquired_records) for r in rows) != 1
        ):
            raise RuntimeError(f"ShareFetch: {rows}")
        return [
            FetchPartition(
                row.partition_index, [AcknowledgementBatch(acquired.first_offset, acquired.last_offset, [ACCEPT])]
            )
            for row in rows
            for acquired in row.acquired_records
        ]

    for session in range(fetches // 4):
        acknowledged = await fetch(session)
    with bench.counted():
        for session in range(fetches // 4, fetches):
            acknowledged = await fetch(session)
    return bench


def _print(title: str, bench: _Bench) -> None:
    """A line for each request: its CPU us, and how they divide among the rooms."""
    print(f"\n{title}\n{'':20}{'us':>7} {''.join(f'{room:>12}' for room in ROOMS)}")
    for name, cost_ns in bench.cost_ns.items():
        took_us, counts = cost_ns / 1000 / bench.asked[name], bench.samples[name]
        every = sum(counts.values()) or 1
        print(f"{name:20}{took_us:7.1f} {''.join(f'{counts[room] / every * took_us:12.1f}' for room in ROOMS)}")


def main(count: int = TRANSACTIONS, members: int = MEMBERS, rounds: int = ROUNDS) -> None:
    """Measure all steps and print the tables."""
    work: list[tuple[str, Callable[[], Any]]] = [
        (f"a batch of {len(_RECORDS)} records and a group's offset", lambda: transactions(0, count)),
        ("the same in a transaction of version 1", lambda: transactions(1, count)),
        ("the same in a transaction of version 2", lambda: transactions(2, count)),
        (f"a rebalance of {members}, each member", lambda: rebalances(members, rounds)),
        (f"one of {members} members of a consumer group is replaced", lambda: consumer_group(members, rounds // 4)),
        ("a ShareFetch of 100 records that accepts the 100 before", lambda: shares(count)),
    ]
    for title, run in work:
        _print(title, asyncio.run(run()))
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)  # about as a server does
    longest_ms = asyncio.run(large_consumer_group(_LARGE_GROUP))
    print(f"\nthe longest request of a consumer group of {_LARGE_GROUP:,} members: {longest_ms:.0f} ms of CPU")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
