"""Each count of the wire and record formats at its greatest (``tests/support/greatest_counts.py``, ``greatest_topologies.py`` beside
it): no callback of the loop does more than `MOST` lines' work for it. What a library in C does is not counted here: ``benchmarks --only
hostile`` has its time."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from broker_sim import ClusterThread
from kafka_wire.codec import decode, encode
from kafka_wire.frame import encode_request_header, frame, response_is_tagged
from tests.server.test_work_at_once import MOST, Work
from tests.support.greatest_topologies import CASES, TOPICS
from tests.support.processes import DEADLINE_S
from tests.support.sampling import sampled
from tests.support.wire import api_key_of, response_class_of

_SIZE, _SIZE_TAGGED = 40_000, 70_000
_ONE_STEP = (
    "an assignment of very many partitions",  # a topic's 10,000 are shared out anew in one step
    "topic names of a share group",  # a member is given a topic's 10,000 partitions in one step
    "tasks of a member",  # the same of its tasks
    "topology: a chain of subtopologies",  # has a task for each
    "acknowledged batches",  # what was said, or given back, of 20,000 records of one batch is settled in one step
)
_PACKED_AS_OTHERS = (", snappy", ", lz4", ", zstd")
_NAMES = [
    name
    for name in CASES
    if not name.startswith(_ONE_STEP) and (not name.endswith(_PACKED_AS_OTHERS) or "block" in name or "frame" in name)
]


@pytest.fixture(scope="module")
def broker() -> Iterator[ClusterThread]:
    config = {
        "group.initial.rebalance.delay.ms": "0",
        "group.streams.initial.rebalance.delay.ms": "0",
        "group.streams.assignment.interval.ms": "0",
        "group.consumer.assignment.interval.ms": "0",  # else it is time that decides whether a request computes an assignment
        "log.initial.task.delay.ms": "86400000",  # a look at thousands of logs is nobody's request
    }
    with ClusterThread(
        topics=TOPICS, as_version="4.4", config=config, clock="manual"
    ) as thread:  # no session ends meanwhile
        yield thread


class Counted:
    """A connection to the broker, in whose loop lines are counted: `greatest_counts.Speaker`."""

    def __init__(self, broker: ClusterThread, sock: socket.socket) -> None:
        self._broker, self._socket = broker, sock

    def ask(self, request: Any, version: int) -> Any:
        key = api_key_of(request)
        answer = self._sent(frame(encode_request_header(key, version, 1, "c") + encode(request, version)))
        return decode(response_class_of(request), version, answer, 5 if response_is_tagged(key, version) else 4)

    def send(self, data: bytes) -> None:
        self._sent(data)

    def compact(self, topic: str, written: int) -> None:
        log = self._broker.run(lambda kafka: kafka.state.topics[topic].partitions[0].log)
        before = log.clean_end_offset
        self._broker.run(lambda kafka: kafka.state.run_log_maintenance(kafka.state.clock.now_ms()))
        while self._broker.run(lambda kafka: kafka.state.maintenance.busy):
            pass
        assert log.clean_end_offset > before

    def _sent(self, data: bytes) -> bytes:
        self._socket.sendall(data)
        with self._socket.makefile("rb") as answers:
            size = int.from_bytes(answers.read(4))
            answer = answers.read(size)
        self._broker.run(lambda _: None)  # the callback that answered has ended
        return answer


_LONG = [name for name in _NAMES if any(word in name for word in ("compaction", "gzip", "topology", "regular"))]
"""Some seconds each, most of them to make the request."""


@pytest.mark.parametrize(
    "name", [*sampled([name for name in _NAMES if name not in _LONG], 5), *sampled(_LONG, len(_LONG))]
)
def test_a_turn_of_the_loop_is_short(broker: ClusterThread, name: str) -> None:
    host, _, port = broker.bootstrap.rpartition(":")
    thread = broker.run(lambda _: threading.get_ident())
    for _ in range(2):  # the first time something may be imported or compiled, once for all
        with (
            socket.create_connection((host, int(port)), timeout=DEADLINE_S) as sock,
            Work(thread).counted() as work,
        ):
            CASES[name](Counted(broker, sock), _SIZE_TAGGED if "tagged" in name else _SIZE)
        if work.most <= MOST:
            return
    pytest.fail(f"{work.most} lines in {work.at}")
