"""Work done in one turn of the loop, counted in lines of Python that run, which is the same on every machine.

Each array of each API's request is filled as in ``benchmarks/fillings.py``. However long it is, no callback of the loop may do more
than `MOST` lines' work: everybody else waits for that long. A line takes 50 to 100 ns.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from benchmarks.fillings import TOPIC, VERSION, Make, fillings
from broker_sim import ClusterThread
from kafka_wire.codec import encode
from kafka_wire.frame import encode_request_header, frame
from tests.support.processes import DEADLINE_S
from tests.support.sampling import sampled

MOST = 150_000
_AT_ONCE = {
    "OffsetCommit v10, different topics.partitions": 220_000,
    "OffsetCommit v10, different topics": 220_000,
    "OffsetDelete v0, different topics.partitions": 300_000,
    "AlterShareGroupOffsets v0, different topics.partitions": 220_000,
    "Metadata v13, different topics": 300_000,
    "StreamsGroupTopologyDescriptionUpdate v0, different topology_description.global_stores": 200_000,
}
"""Limits of requests that take one longer step: the records of a group's commit, or of its deletion, are one batch of the log (larger
ones are refused before the batch is made); one topic is described with its 10,000 partitions;
2,000 elements of a description have two structs each."""
_SIZE = 70_000
_TOPIC_ID = bytes(15) + b"\x01"
_NAMES = [
    name
    for name, _ in fillings(_TOPIC_ID, _SIZE)
    if ", different " in name
    and name != "CreateTopics v7, different topics"  # 6,000 topics: test_long_requests has fewer
]


class Work:
    """The lines that run in each callback of one thread's loop."""

    def __init__(self, thread: int) -> None:
        self._thread = thread
        self._lines = 0
        self.most = 0
        self.at = ""

    def _line(self, at: FrameType, event: str, _: Any) -> Any:
        self._lines += 1
        return self._line

    @contextmanager
    def counted(self) -> Iterator[Work]:
        """From here on."""
        run = asyncio.Handle._run

        def counting(handle: Any) -> None:
            if threading.get_ident() != self._thread:
                run(handle)
                return
            self._lines = 0
            sys.settrace(self._line)
            try:
                run(handle)
            finally:
                sys.settrace(None)
            if self._lines > self.most:
                self.most, self.at = self._lines, repr(handle._callback)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(asyncio.Handle, "_run", counting)
            yield self


@contextmanager
def _broker() -> Iterator[ClusterThread]:
    with ClusterThread(
        topics={TOPIC: 10_000}, as_version=VERSION, clock="manual"
    ) as thread:  # no session ends meanwhile
        thread.run(lambda kafka: kafka.state.topics_by_id.update({_TOPIC_ID: kafka.state.topics[TOPIC]}))
        thread.run(lambda kafka: kafka.state.ensure_offsets_topic())
        yield thread


@pytest.fixture(scope="module")
def shared() -> Iterator[ClusterThread]:
    with _broker() as thread:
        yield thread


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[ClusterThread]:
    """Broker of a case. Requests about offsets take time for the offsets that are there: they get a broker without any."""
    if "Offset" not in request.getfixturevalue("name"):
        yield request.getfixturevalue("shared")
        return
    with _broker() as thread:
        yield thread


@pytest.mark.parametrize("name", sampled(_NAMES, 10))
def test_a_turn_of_the_loop_is_short_whatever_is_asked(broker: ClusterThread, name: str) -> None:
    make: Make = dict(fillings(_TOPIC_ID, _SIZE))[name]
    request, version = make()
    data = frame(encode_request_header(request.__spec__.api_key, version, 1, "load") + encode(request, version))  # type: ignore[attr-defined]
    assert len(data) > 0.9 * _SIZE
    host, _, port = broker.bootstrap.rpartition(":")
    thread = broker.run(lambda _: threading.get_ident())
    with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as sock:
        for _ in range(2):  # the first time something may be imported or compiled, once for all
            with Work(thread).counted() as work:
                _ask(sock, data)
            if work.most <= _AT_ONCE.get(name, MOST):
                return
    pytest.fail(f"{work.most} lines in {work.at}")


def _ask(sock: socket.socket, data: bytes) -> None:
    sock.sendall(data)
    with sock.makefile("rb") as answers:
        (size,) = struct.unpack(">i", answers.read(4))
        assert len(answers.read(size)) == size
