"""A record of very many headers holds nobody up: not where it is produced, nor where it is looked for by its time.

The headers of a record take two bytes each, and packed less than a bit: 9 KB may hold millions of them.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from broker_sim import ClusterThread
from kafka_wire.codec import decode, encode
from kafka_wire.compression import Codec
from kafka_wire.errors import Err
from kafka_wire.frame import encode_request_header, frame, response_is_tagged
from kafka_wire.messages.k00_produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kafka_wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kafka_wire.record_batch import Record, encode_batch
from tests.server.test_work_at_once import MOST, Work
from tests.support.sampling import sampled

NOW_MS = int(time.time() * 1000)
FUTURE_MS = NOW_MS + 10 * 86_400_000

SHAPES = {
    "one record, packed": ([200_000], Codec.GZIP),
    "one record as it is": ([100_000], Codec.NONE),
    "some thousand in each record": ([4000] * 40, Codec.NONE),
    "in the last record": ([0, 1] * 100 + [100_000], Codec.GZIP),
}


@pytest.fixture(scope="module")
def broker() -> Iterator[ClusterThread]:
    with ClusterThread(topics={"t": len(SHAPES), "warm": 1}) as thread:
        yield thread


def batch(shape: str, time_ms: int) -> bytes:
    counts, codec = SHAPES[shape]
    rows = [Record(index, time_ms, b"k", b"v", [("", None)] * count) for index, count in enumerate(counts)]
    return encode_batch(rows, codec=codec)


class Client:
    """A connection to the broker, whose work it counts."""

    def __init__(self, broker: ClusterThread) -> None:
        host, _, port = broker.bootstrap.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=120)
        self.thread = broker.run(lambda _: threading.get_ident())

    def ask(self, request: Any, version: int, answer: type[Any]) -> tuple[Any, Work]:
        data = frame(encode_request_header(request.__spec__.api_key, version, 1, "c") + encode(request, version))
        with Work(self.thread).counted() as work:
            self.socket.sendall(data)
            with self.socket.makefile("rb") as answers:
                size = int.from_bytes(answers.read(4))
                body = answers.read(size)
        return decode(answer, version, body, 5 if response_is_tagged(request.__spec__.api_key, version) else 4), work

    def produce(self, topic: str, index: int, records: bytes) -> tuple[Err, Work]:
        request = ProduceRequest(
            None, -1, 1000, [TopicProduceData(topic, bytes(16), [PartitionProduceData(index, records)])]
        )
        answer, work = self.ask(request, 8, ProduceResponse)
        return Err(answer.responses[0].partition_responses[0].error_code), work

    def offset_of(self, topic: str, index: int, time_ms: int) -> tuple[tuple[int, int], Work]:
        request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(topic, [ListOffsetsPartition(index, -1, time_ms)])])
        answer, work = self.ask(request, 7, ListOffsetsResponse)
        found = answer.topics[0].partitions[0]
        assert found.error_code == Err.NONE
        return (found.timestamp, found.offset), work


@pytest.fixture(scope="module")
def client(broker: ClusterThread) -> Iterator[Client]:
    client = Client(broker)
    with client.socket:
        for time_ms in (NOW_MS, FUTURE_MS):  # the first time something may be imported or compiled, once for all
            client.produce("warm", 0, encode_batch([Record(0, time_ms, b"k", b"v", [("", None)])], codec=Codec.GZIP))
        client.offset_of("warm", 0, NOW_MS)
        yield client


@pytest.mark.parametrize("shape", sampled(SHAPES, 4))
def test_a_turn_of_the_loop_is_short(client: Client, shape: str) -> None:
    index, last = list(SHAPES).index(shape), len(SHAPES[shape][0]) - 1
    error, work = client.produce("t", index, batch(shape, FUTURE_MS))
    assert (error, work.most < MOST) == (Err.INVALID_TIMESTAMP, True), f"{work.most} lines in {work.at}"
    error, work = client.produce("t", index, batch(shape, NOW_MS))
    assert (error, work.most < MOST) == (Err.NONE, True), f"{work.most} lines in {work.at}"
    for asked, expected in ((NOW_MS, (NOW_MS, 0)), (-3, (NOW_MS, 0))):
        found, work = client.offset_of("t", index, asked)
        assert (found, work.most < MOST) == (expected, True), f"{work.most} lines in {work.at}"
    client.produce("t", index, batch(shape, NOW_MS + 1))
    found, work = client.offset_of("t", index, NOW_MS + 1)
    assert (found, work.most < MOST) == ((NOW_MS + 1, last + 1), True), f"{work.most} lines in {work.at}"
