"""Damaged frames against a whole broker: each costs at most its own connection, with one log line; nothing else notices."""

from __future__ import annotations

import gc
import logging
import resource
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from broker_sim import Cluster
from broker_sim.common.clock import ManualClock
from broker_sim.network.connection import Connection
from kafka_wire.errors import Err
from kafka_wire.frame import frame
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafka_wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.protocol.mutate import mutate

from . import corpus
from .fakes import FakeTransport, request_frame, response_in

FRAMES = 100_000
BATCH = 250
SECONDS_EACH = 1.0
GROWTH_MIB = 64
HALF_AN_HOUR_MS = 1_800_000


class Target:
    """A running cluster, met through transports without sockets; its time stands still."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.neighbour = self.connect()

    def connect(self) -> tuple[Connection, FakeTransport]:
        server = self.cluster.servers[0]
        connection, transport = Connection(server, server.listeners[0]), FakeTransport()
        transport.connection = connection
        connection.connection_made(transport)
        return connection, transport

    def ask(self, request: Any, version: int, response_class: type[Any], key: int) -> Any:
        """The neighbour's question, which must be answered at once."""
        connection, transport = self.neighbour
        connection.data_received(request_frame(request, version, 1, "neighbour"))
        self.cluster.servers[0].end_iteration()
        ((_, rest),) = transport.replies()
        return response_in(response_class, version, rest, key)

    def hit(self, data: bytes) -> None:
        """One connection sends ``data``; when it is gone nothing of it may be left."""
        connection, _ = self.connect()
        gc.disable()  # a collection of all that other tests of this process have left takes a second, whatever the frame is
        began = time.thread_time()
        try:
            connection.data_received(data)
            self.cluster.servers[0].end_iteration()
        finally:
            took = time.thread_time() - began
            gc.enable()
            connection.connection_lost(None)
        assert took < SECONDS_EACH, f"{took:.1f} s of CPU for {data.hex()}"

    def check_neighbour(self) -> None:
        """Somebody else still gets right answers."""
        answer = self.ask(ApiVersionsRequest(), 0, ApiVersionsResponse, 18)
        assert answer.error_code == Err.NONE
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        topic = OffsetCommitRequestTopic(name="mine", partitions=[partition])
        request = OffsetCommitRequest(group_id="mine", generation_id_or_member_epoch=-1, topics=[topic])
        answer = self.ask(request, 8, OffsetCommitResponse, 8)
        assert answer.topics[0].partitions[0].error_code == Err.NONE


@asynccontextmanager
async def target(as_version: str, clock: ManualClock) -> AsyncIterator[Target]:
    topics, config = {"orders": 2, "mine": 1}, {"connections.max.idle.ms": -1}
    async with Cluster(topics=topics, config=config, clock=clock, rng=Random(1), as_version=as_version) as cluster:
        cluster.state.ensure_offsets_topic()
        broker = Target(cluster)
        try:
            yield broker
        finally:
            broker.neighbour[0].connection_lost(None)


def damaged(rng: Random, frames: list[bytes]) -> bytes:
    """Return one to three frames in a row, one of them damaged: most often behind a size that is right again."""
    whole = rng.choice(frames)
    if rng.random() < 0.7:
        bad = frame(mutate(rng, whole[4:], rng.choice(frames)[4:]))
    else:
        bad = mutate(rng, whole, rng.choice(frames))
    return rng.choice([b"", b"", rng.choice(frames)]) + bad + rng.choice([b"", b"", rng.choice(frames)])


class Lines(logging.Handler):
    """Log records of the broker, kept from pytest, which would keep the lines of all 100,000 frames."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def __enter__(self) -> Lines:
        logger = logging.getLogger("broker_sim")
        logger.addHandler(self)
        logger.propagate = False
        return self

    def __exit__(self, *error: object) -> None:
        logger = logging.getLogger("broker_sim")
        logger.removeHandler(self)
        logger.propagate = True

    def texts(self) -> list[str]:
        return [logging.Formatter().format(record) for record in self.records]


async def run_batch(rng: Random, count: int) -> None:
    as_version = rng.choice(["3.4", "3.9", "4.1", "4.4"])
    frames = corpus.frames(as_version)
    clock = ManualClock()
    async with target(as_version, clock) as broker:
        for _ in range(count):
            data = damaged(rng, frames)
            with Lines() as log:
                broker.hit(data)
            assert not any(record.exc_info for record in log.records), "\n".join([*log.texts(), "frame:", data.hex()])
            assert len([record for record in log.records if record.name == "broker_sim.server"]) <= 1, log.texts()
        with Lines() as log:
            clock.advance(HALF_AN_HOUR_MS)  # whatever those requests have armed fires
        assert not any(record.exc_info for record in log.records), log.texts()
        broker.check_neighbour()


@pytest.mark.parametrize("as_version", ["3.4", "3.9", "4.1", "4.4"])
async def test_every_whole_frame_is_taken(as_version: str, caplog: pytest.LogCaptureFixture) -> None:
    async with target(as_version, ManualClock()) as broker:
        for data in corpus.frames(as_version):
            broker.hit(data)
        broker.check_neighbour()
    lines = [record.getMessage() for record in caplog.records if record.name == "broker_sim.server"]
    # Kafka, too, refuses access rules whose writer did not know what to put there: a number that is 0; equal lines are counted
    refused = ("Acls contains unknown elements", "more connections were closed: ")
    assert [line for line in lines if not any(words in line for words in refused)] == []


@pytest.mark.slow
@hypothesis.given(rng=st.randoms(use_true_random=False))
@hypothesis.settings(max_examples=40, suppress_health_check=[hypothesis.HealthCheck.too_slow])
async def test_damaged_frames(rng: Random) -> None:
    await run_batch(rng, 25)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_hundred_thousand_damaged_frames() -> None:
    await run_batch(Random(0), BATCH)
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for seed in range(1, FRAMES // BATCH + 1):
        await run_batch(Random(seed), BATCH)
    grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib) / 1024
    assert grown_mib < GROWTH_MIB
