"""Time for which one request of up to 1 MiB keeps the event loop from other clients, request by request.

Hostile requests unpack or multiply, honest ones are merely large; ``greatest`` are the counts of ``tests/support/greatest_counts.py``.
What counts is the CPU time of the longest callback (``benchmarks.watched``), which other processes on the machine hardly change; the
worst heartbeat on another connection, by the wall clock, is printed beside it.

The second figure is the memory that the broker keeps: its resident size after the request was sent `TURNS` times, on a connection each,
when the connections are closed, the sessions of the members are over and the topics that were created are deleted.
"""

from __future__ import annotations

import mmap
import os
import socket
import struct
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.compare import BROKER_CORE
from benchmarks.fillings import TOPIC, VERSION, fillings
from benchmarks.scale import Figure
from benchmarks.systems import Running, System
from benchmarks.watched import longest, reset, shared
from kafka_wire import compression
from kafka_wire.codec import decode, encode
from kafka_wire.compression import Codec
from kafka_wire.frame import encode_request_header, frame, response_is_tagged
from kafka_wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kafka_wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from kafka_wire.messages.k15_describe_groups import DescribeGroupsRequest
from kafka_wire.messages.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafka_wire.messages.k20_delete_topics import DeleteTopicsRequest
from kafka_wire.messages.k21_delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafka_wire.messages.k30_create_acls import AclCreation, CreateAclsRequest
from kafka_wire.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafka_wire.messages.k35_describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kafka_wire.messages.k37_create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafka_wire.record_batch import build_batch
from tests.support.greatest_counts import batch
from tests.support.greatest_topologies import CASES, TOPICS, Case

LIMIT_MS = 100
LIMIT_MB = 150
TURNS = int(os.environ.get("HOSTILE_TURNS", "20"))
_SETTLED_S = 40
_SMALL_MB = 30
"""Megabytes that an allocator may keep: their release is not waited for."""
_MIB = 1_000_000
_DEADLINE_S = 30
_COMPACTED_S = 90
_AT_ONCE = 5000
"""Partitions of a new topic: a request may make 10,000 records of topics and partitions."""
_MAINTENANCE_MS = 100
Address = tuple[str, int]
Request = tuple[object, int]


def hostile(system: System) -> Iterator[Figure]:
    """Two figures for each request, as soon as they are measured: the CPU time of the longest callback, and the memory kept. The broker
    is a new one after each request that made or deleted topics."""
    with tempfile.TemporaryDirectory(prefix="hostile-") as directory:
        memory = shared(Path(directory) / "longest")
        watched = replace(system, command=lambda where, port: _watched(system, Path(directory), where, port))
        names = [(kind, name) for kind, names in _GROUPS.items() for name in names if _wanted(f"{kind}{name}")]
        for number, (kind, name, broker, works) in enumerate(_all_work(watched, names), 1):
            with _Memory(broker) as kept:
                yield _figure(f"{kind}{name}", f"{number} of {len(names)}", _address(broker), works[0], memory)
                for work in works[1:]:
                    _alone(_address(broker), work)
            yield Figure(f"{kind}{name}: kept", kept.mb, "MB", LIMIT_MB, f"{len(works)} times; {kept.note}")
        memory.close()


_ONLY = [part for part in os.environ.get("HOSTILE_ONLY", "").split(",") if part]
_CHANGING = ("CreateTopics", "DeleteTopics", "CreatePartitions", "AlterConfigs", "IncrementalAlterConfigs")


def _wanted(name: str) -> bool:
    return not _ONLY or any(part in name for part in _ONLY)


Work = Callable[[socket.socket], object]


def _all_work(watched: System, names: list[tuple[str, str]]) -> Iterator[tuple[str, str, Running, list[Work]]]:
    """Kind, name, a broker that has what the request is about, and what sends it there, for each turn."""
    names = list(names)
    while names:
        kind = names[0][0]
        with watched.running(BROKER_CORE) as broker:
            address = _address(broker)
            topic_id = _prepared(address, _TOPICS[kind])
            made = [dict(fillings(topic_id, turn=turn)) if kind == _FILLED else REQUESTS for turn in range(TURNS)]
            while names and names[0][0] == kind:
                _, name = names.pop(0)
                if kind == _GREATEST:
                    works: list[Work] = [partial(_carried_out, CASES[name])] * TURNS
                else:
                    works = [partial(_made_and_sent, requests[name]) for requests in made]
                yield kind, name, broker, works
                if kind == _FILLED and name.startswith(_CHANGING):
                    break


def _address(broker: Running) -> Address:
    host, _, port = broker.address.rpartition(":")
    return host, int(port)


def _watched(system: System, shared_in: Path, where: Path, port: int) -> list[str]:
    python, _, _, *words = system.command(where, port)  # python -m broker_sim ..
    words += ["--as-version", VERSION, "--config", f"log.cleaner.backoff.ms={_MAINTENANCE_MS}"]
    words += [
        "--config",
        "group.streams.initial.rebalance.delay.ms=0",
        "--config",
        "offsets.retention.check.interval.ms=1000",
    ]
    for kind in ("consumer", "share", "streams"):
        words += ["--config", f"group.{kind}.min.session.timeout.ms=6000"]
        words += ["--config", f"group.{kind}.session.timeout.ms=10000"]
    return [python, "-m", "benchmarks.watched", str(shared_in / "longest"), *words]


def _figure(name: str, progress: str, address: Address, work: Work, memory: mmap.mmap) -> Figure:
    reset(memory)
    worst, took = _beside(address, work)
    cpu, callback = longest(memory)
    answered = f"answered after {took * 1000:,.0f} ms" if took >= 0 else f"not answered within {_DEADLINE_S} s"
    note = f"{progress}; {answered}; heartbeat {worst * 1000:,.0f} ms; {callback[:60]}"
    return Figure(name, cpu * 1000, "ms of CPU", LIMIT_MS, note)


class _Memory:
    """Growth of a broker's resident memory over the block, after clients have released theirs (``mb``); ``note``: its maximum."""

    def __init__(self, broker: Running) -> None:
        self._broker, self._address = broker, _address(broker)
        self.mb, self.note = 0.0, ""

    def __enter__(self) -> _Memory:
        self._topics = _topics(self._address)
        self._before = _resident(self._broker.pid, "VmRSS")
        with suppress(OSError):
            Path(f"/proc/{self._broker.pid}/clear_refs").write_text("5")  # the peak begins anew
        return self

    def __exit__(self, *_: object) -> None:
        peak = _resident(self._broker.pid, "VmHWM") - self._before
        with suppress(OSError):
            _delete(self._address, _topics(self._address) - self._topics)
        began = time.monotonic()
        while (mb := _resident(self._broker.pid, "VmRSS") - self._before) > _SMALL_MB:
            if time.monotonic() - began > _SETTLED_S:
                break
            time.sleep(1)
        self.mb, self.note = max(mb, 0.0), f"at most {peak:,.0f} MB"


def _resident(pid: int, name: str) -> float:
    """MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith(name))


def _topics(address: Address) -> set[str]:
    with socket.create_connection(address) as sock:
        sock.settimeout(_DEADLINE_S)
        return {topic.name for topic in _ask(sock, MetadataRequest(None), 9).topics}


def _delete(address: Address, topics: set[str]) -> None:
    names = sorted(topics)
    with socket.create_connection(address) as sock:
        sock.settimeout(10 * _DEADLINE_S)
        for begin in range(0, len(names), 1000):
            _ask(sock, DeleteTopicsRequest([], names[begin : begin + 1000], 60_000), 3)


def _alone(address: Address, work: Work) -> None:
    with suppress(OSError), socket.create_connection(address) as sock:
        sock.settimeout(_DEADLINE_S)
        work(sock)


def _prepared(address: Address, topics: Mapping[str, int]) -> bytes:
    """Make the coordinator, and the topics that requests are about; the id of the first."""
    with socket.create_connection(address) as sock:
        sock.settimeout(_DEADLINE_S)
        _ask(sock, FindCoordinatorRequest("g", 0), 3)
    return _make_topics(address, topics) if topics else bytes(16)


def _make_topics(address: Address, topics: Mapping[str, int]) -> bytes:
    """The id of the first."""
    with socket.create_connection(address) as sock:
        sock.settimeout(_DEADLINE_S)
        rows = [CreatableTopic(name, min(count, _AT_ONCE), 1) for name, count in topics.items()]
        answer: CreateTopicsResponse = _ask(sock, CreateTopicsRequest(rows, 50_000), 7)
        for name, count in topics.items():
            if count > _AT_ONCE:
                _ask(sock, CreatePartitionsRequest([CreatePartitionsTopic(name, count, None)], 50_000), 2)
        return answer.topics[0].topic_id


def _framed(request: Any, version: int) -> bytes:
    return frame(encode_request_header(request.__spec__.api_key, version, 1, "load") + encode(request, version))


def _ask(sock: socket.socket, request: Any, version: int) -> Any:
    key = request.__spec__.api_key
    sock.sendall(_framed(request, version))
    (size,) = struct.unpack(">i", _exactly(sock, 4))
    messages = sys.modules[type(request).__module__]
    answer = getattr(messages, type(request).__name__.replace("Request", "Response"))
    return decode(answer, version, _exactly(sock, size), 5 if response_is_tagged(key, version) else 4)


def _sent(data: bytes, sock: socket.socket) -> None:
    sock.sendall(data)
    with suppress(ConnectionError):
        _answer(sock)


def _made_and_sent(make: Callable[[], Request], sock: socket.socket) -> None:
    _sent(_framed(*make()), sock)


def _carried_out(case: Case, sock: socket.socket) -> None:
    case(_OnSocket(sock), _MIB)


class _OnSocket:
    """`greatest_counts.Speaker` over a socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    def ask(self, request: Any, version: int) -> Any:
        return _ask(self._socket, request, version)

    def send(self, data: bytes) -> None:
        _sent(data, self._socket)

    def compact(self, topic: str, written: int) -> None:
        began = time.monotonic()
        while self._size(topic) >= written and time.monotonic() - began < _COMPACTED_S:
            time.sleep(_MAINTENANCE_MS / 1000)

    def _size(self, topic: str) -> int:
        answer = self.ask(DescribeLogDirsRequest([DescribableLogDirTopic(topic, [0])]), 1)
        return int(answer.results[0].topics[0].partitions[0].partition_size)


def _beside(address: Address, work: Callable[[socket.socket], object]) -> tuple[float, float]:
    """The longest heartbeat (s) beside what is done on another connection, and how long that took; -1 where it was longer than the
    deadline."""
    beat = frame(encode_request_header(12, 4, 7, "beat") + encode(HeartbeatRequest("g", 1, "m"), 4))
    worst, over = 0.0, threading.Event()
    with socket.create_connection(address) as busy, socket.create_connection(address) as other:
        busy.settimeout(_DEADLINE_S)
        other.settimeout(_DEADLINE_S)

        def beats() -> None:
            nonlocal worst
            while not over.is_set():
                began = time.perf_counter()
                other.sendall(beat)
                _answer(other)
                worst = max(worst, time.perf_counter() - began)
                time.sleep(0.001)

        thread = threading.Thread(target=beats)
        thread.start()
        began = time.perf_counter()
        took = -1.0
        try:
            work(busy)
            took = time.perf_counter() - began
        except (TimeoutError, ConnectionError):
            pass
        finally:
            over.set()
            thread.join()
    return worst, took


def _answer(sock: socket.socket) -> None:
    head = _exactly(sock, 4)
    _exactly(sock, struct.unpack(">i", head)[0])


def _exactly(sock: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = sock.recv(min(size, 1 << 20))
        if not part:
            raise ConnectionError("closed")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


# --- the requests -------------------------------------------------------------------------------------------------------


def _produce(topic: str, records: bytes) -> Request:
    return ProduceRequest(
        None, -1, 5000, [TopicProduceData(topic, partition_data=[PartitionProduceData(0, records)])]
    ), 9


def _tiny_records(codec: Codec, topic: str = "bombs") -> Request:
    """7 million records of 9 bytes that are all the same."""
    count = 7_000_000
    return _produce(topic, batch(compression.compress(codec, b"\x10\0\0\0\x02k\x02v\0" * count), count, codec))


def _members() -> Request:
    packer = zlib.compressobj(wbits=31)
    empty = packer.compress(b"") + packer.flush()
    return _produce("bombs", batch(empty * 50_000, 1, Codec.GZIP))


def _keyed() -> Request:
    rows = [(b"%06d" % n, None) for n in range(60_000)]
    return _produce("bombs", build_batch(rows, int(time.time() * 1000)))


def _names(size: int = 8) -> list[str]:
    return [f"{n:0{size}x}" for n in range(_MIB // (size + 2))]


def _fetch() -> FetchRequest:
    rows = [FetchPartition(n, fetch_offset=0, partition_max_bytes=1 << 20) for n in range(_MIB // 34)]
    return FetchRequest(min_bytes=1, max_bytes=1 << 20, session_epoch=-1, topics=[FetchTopic("many", partitions=rows)])


def _commit(partitions: int) -> OffsetCommitRequest:
    rows = [OffsetCommitRequestPartition(n % 1000, 5, -1, None) for n in range(partitions)]
    return OffsetCommitRequest("g", -1, "", topics=[OffsetCommitRequestTopic("many", partitions=rows)])


REQUESTS: dict[str, Callable[[], Request]] = {
    "CreateTopics of the topics": lambda: (
        CreateTopicsRequest(
            [CreatableTopic("bombs", 1, 1, [], [CreatableTopicConfig("cleanup.policy", "compact")])], 5000
        ),
        5,
    ),
    "CreateTopics of 9,999 partitions": lambda: (CreateTopicsRequest([CreatableTopic("many", 9_999, 1)], 5000), 5),
    "CreateTopics of 1,000 topics": lambda: (
        CreateTopicsRequest([CreatableTopic(f"t{n}", 1, 1) for n in range(1000)], 5000),
        5,
    ),
    "CreatePartitions of 100": lambda: (
        CreatePartitionsRequest([CreatePartitionsTopic(f"t{n}", 2, None) for n in range(100)], 5000),
        2,
    ),
    "CreatePartitions from 9,999 to 10,100": lambda: (
        CreatePartitionsRequest([CreatePartitionsTopic("many", 10_100, None)], 5000),
        2,
    ),
    "Produce of 60,000 keyed records": _keyed,
    "Produce of 7 million records, gzip": lambda: _tiny_records(Codec.GZIP),
    "Produce of 7 million records, zstd": lambda: _tiny_records(Codec.ZSTD),
    "Produce of 7 million records, lz4": lambda: _tiny_records(Codec.LZ4),
    "Produce of 50,000 empty gzip members": _members,
    "Metadata of 100,000 unknown topics": lambda: (
        MetadataRequest([MetadataRequestTopic(name=name) for name in _names()], allow_auto_topic_creation=False),
        9,
    ),
    "Metadata of everything": lambda: (MetadataRequest(None), 9),
    "Fetch of 29,000 partitions": lambda: (_fetch(), 11),
    "ListOffsets of 60,000 partitions": lambda: (
        ListOffsetsRequest(
            -1, 0, [ListOffsetsTopic("many", [ListOffsetsPartition(n % 10_000, -1, -1) for n in range(_MIB // 16)])]
        ),
        5,
    ),
    "OffsetCommit of 50,000 partitions": lambda: (_commit(50_000), 7),
    "OffsetCommit of 20,000 partitions, as many as a batch holds": lambda: (_commit(20_000), 7),
    "OffsetFetch of 250,000 partitions": lambda: (
        OffsetFetchRequest("g", [OffsetFetchRequestTopic("many", [n % 1000 for n in range(_MIB // 4)])]),
        5,
    ),
    "JoinGroup with 90,000 protocols": lambda: (
        JoinGroupRequest(
            "g", 10_000, 10_000, "", None, "consumer", [JoinGroupRequestProtocol(n, b"") for n in _names(5)]
        ),
        3,
    ),
    "FindCoordinator of 100,000 groups": lambda: (FindCoordinatorRequest("", 0, _names()), 4),
    "DescribeGroups of 100,000 groups": lambda: (DescribeGroupsRequest(_names()), 4),
    "DescribeConfigs of 80,000 topics": lambda: (
        DescribeConfigsRequest([DescribeConfigsResource(2, n, None) for n in _names(6)[:80_000]]),
        2,
    ),
    "DescribeConfigs of 1,000 topics": lambda: (
        DescribeConfigsRequest([DescribeConfigsResource(2, f"t{n}", None) for n in range(1000)]),
        2,
    ),
    "DeleteRecords of 80,000 partitions": lambda: (
        DeleteRecordsRequest(
            [DeleteRecordsTopic("many", [DeleteRecordsPartition(n % 10_000, 0) for n in range(_MIB // 12)])], 5000
        ),
        1,
    ),
    "CreateAcls of 70,000 rules": lambda: (
        CreateAclsRequest([AclCreation(2, "t", 3, "U:a", "*", 3, 3)] * (_MIB // 15)),
        1,
    ),
    "CreateTopics of 60,000 names that cannot be": lambda: (
        CreateTopicsRequest([CreatableTopic("", 1, 1)] * (_MIB // 16), 5000),
        4,
    ),
    "DeleteTopics of 100,000 unknown topics": lambda: (DeleteTopicsRequest([], _names(), 5000), 3),
    "DeleteTopics of 10,100 partitions": lambda: (DeleteTopicsRequest([], ["many"], 5000), 3),
}

_FILLED, _GREATEST = "1 MiB: ", "greatest: "
_GROUPS: dict[str, list[str]] = {
    "": list(REQUESTS),
    _FILLED: [name for name, _ in fillings(bytes(16))],
    _GREATEST: list(CASES),
}
_TOPICS: dict[str, Mapping[str, int]] = {
    "": {},
    _FILLED: {TOPIC: 10_000} | {f"t{n}": 1 for n in range(1000)},
    _GREATEST: TOPICS,
}
