"""Where the time of a request goes: brokers without sockets, from a connection's bytes to its answer.

A group rebalances, and transactions are committed, in both versions and without any. Each request's CPU time is taken, and a signal
every few milliseconds of it tells in whose room the code is that runs; what C does counts for its caller.

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
from broker_sim.handlers import Routes
from broker_sim.metadata.cluster_state import ClusterState
from broker_sim.metadata.topics import OFFSETS_TOPIC, TRANSACTION_TOPIC
from broker_sim.network.connection import Connection
from broker_sim.network.server import BrokerServer
from broker_sim.runtime.group_coordinator import GroupCoordinator
from broker_sim.runtime.transaction_coordinator import TransactionCoordinator
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
from kafka_wire.record_batch import TRANSACTIONAL_BIT, build_batch

TRANSACTIONS, MEMBERS, ROUNDS = 4000, 100, 60
_RECORDS = [(b"key%d" % number, b"v" * 100) for number in range(10)]
_TAKEN_EVERY_S = 0.004
_BODY = 9  # where an answer's body begins: size, correlation id, no tags
_PRODUCE = {0: 9, 1: 11, 2: 12}  # the version of Produce that goes with a transaction's
_NAME, _TOPIC, _GROUP = "tx", "orders", "billing"

_ROOMS = (
    ("/broker_sim/network/", "connection"),
    ("/broker_sim/handlers/__init__", "codec"),
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

    def __init__(self, connections: int = 1) -> None:
        settings = {"num.partitions": 1, "replication.factor": 1}
        options = {
            f"{topic}.{name}": value
            for topic in ("offsets.topic", "transaction.state.log")
            for name, value in settings.items()
        }
        clock = RealClock()
        config = BrokerConfig({**options, "transaction.state.log.min.isr": 1, "group.initial.rebalance.delay.ms": 0})
        state = ClusterState(config, clock, rng=random.Random(1))
        broker = state.add_broker(1, "127.0.0.1", 9092)
        state.load()
        state.create_topic(_TOPIC, 1)
        for topic in (OFFSETS_TOPIC, TRANSACTION_TOPIC):
            state.ensure_internal_topic(topic)
        broker.runtime, broker.transactions = (
            GroupCoordinator(state, chance=Chance.seeded(1)),
            TransactionCoordinator(state),
        )
        broker.runtime.start()
        broker.transactions.start()
        server = BrokerServer(broker, clock, Routes(state.as_version))
        self.state = state
        self.connections: list[tuple[Connection, _Transport]] = []
        for _ in range(connections):
            pair = Connection(server), _Transport()
            pair[0].connection_made(pair[1])  # type: ignore[arg-type]
            self.connections.append(pair)
        self.cost_ns: dict[str, int] = defaultdict(int)
        self.asked: Counter[str] = Counter()
        self.samples: dict[str, Counter[str]] = defaultdict(Counter)
        self._now = ""

    async def ask(self, name: str, frames: list[bytes]) -> list[bytes]:
        """Each frame on a connection of its own, which goes out before the next one's answer is waited for; the answers' bodies."""
        pairs = self.connections[: len(frames)]
        for _, transport in pairs:
            transport.answer = b""
        self._now = name
        began = time.process_time_ns()
        for (connection, _), data in zip(pairs, frames, strict=True):
            connection.data_received(data)
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
        """What is asked from here on counts."""
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
    ]
    for title, run in work:
        _print(title, asyncio.run(run()))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
