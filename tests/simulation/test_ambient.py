"""Pinned functions and settings: each pin has an effect, which a change of a library or of Python would take away."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import gc
import importlib
import os
import queue
import random
import secrets
import socket
import subprocess
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Callable
from pathlib import Path
from random import choice as chosen_before
from types import ModuleType
from typing import Any
from zlib import crc32

import aiokafka
import aiokafka.producer.message_accumulator as accumulator
import pytest
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.structs import BrokerMetadata, TopicPartition

from broker_sim.simulation import LibraryMoved, SimForbidden, simulate
from broker_sim.simulation.virtual.ambient import PINS


def in_two_runs(look: Callable[[], object], seeds: tuple[int, int] = (7, 7)) -> tuple[object, object]:
    """Return the results of ``look`` in two simulations with these seeds."""
    with simulate(seeds[0]):
        first = look()
    with simulate(seeds[1]):
        return first, look()


@pytest.mark.parametrize(
    "look",
    [
        lambda: (time.time(), time.time_ns()),
        lambda: (time.monotonic(), time.monotonic_ns()),
        lambda: (time.perf_counter(), time.perf_counter_ns()),
    ],
)
def test_clocks_are_the_loops(look: Callable[[], object]) -> None:
    first, second = in_two_runs(look)
    assert first == second


def test_time_passes_in_the_simulation_alone() -> None:
    real = time.monotonic()
    with simulate(1) as sim:
        before = time.time(), time.monotonic(), time.perf_counter(), time.time_ns()
        sim.run_for(3600)
        after = time.time(), time.monotonic(), time.perf_counter(), time.time_ns()
    assert [b - a for a, b in zip(before, after, strict=True)] == [3600, 3600, 3600, 3600 * 10**9]
    assert 0 <= time.monotonic() - real < 1800


def _draws() -> object:
    return (
        [random.random(), random.randint(1, 10**9), random.choice(range(10**9)), random.sample(range(1000), 5)],
        random.Random().random(),
        [os.urandom(8), secrets.token_hex(8), random.SystemRandom().random()],
        [uuid.uuid4(), uuid.uuid1()],
        chosen_before(range(10**9)),
    )


def test_randomness_comes_from_the_seed() -> None:
    first, second = in_two_runs(_draws)
    assert first == second
    assert not set(map(str, first)) & set(map(str, in_two_runs(_draws, (8, 8))[0]))  # type: ignore[call-overload]


def test_randomness_is_as_before_afterwards() -> None:
    random.seed(5)
    expected = [random.random() for _ in range(2)]
    random.seed(5)
    first = random.random()
    with simulate(1):
        random.random()
        chosen_before([1, 2])
    assert [first, random.random()] == expected
    assert len({os.urandom(8), os.urandom(8), uuid.uuid4().bytes, uuid.uuid4().bytes}) == 4


def test_what_one_host_draws_leaves_the_others_as_they_are() -> None:
    def drawn(more: int) -> list[float]:
        found: list[float] = []

        async def draw(count: int) -> None:
            found.extend(random.random() for _ in range(count))

        async def other() -> None:
            for _ in range(more):
                random.random()
                os.urandom(4)

        with simulate(3) as sim:
            sim.spawn("b", other)
            sim.spawn("a", lambda: draw(5))
            sim.run_for(1)
        return found

    assert drawn(0) == drawn(17)


def test_another_thread_sees_the_real_world() -> None:
    ready, go = threading.Event(), threading.Event()
    seen: list[Any] = []

    def look() -> None:
        ready.set()
        go.wait()
        seen.extend([time.time(), os.urandom(8), socket.socket().close()])

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    ready.wait()
    real = time.time()
    with simulate(1):
        go.set()
        thread.join()
    assert abs(seen[0] - real) < 1800
    assert len(seen) == 3


def test_who_has_taken_a_pinned_function_sees_every_simulations_time_and_the_real_one_between(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "late_import.py").write_text("from time import time as now\nfrom random import random as draw\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with simulate(1, epoch_ms=1_600_000_000_000):
        late: Any = importlib.import_module("late_import")
        seen = late.now(), late.draw()
    assert abs(late.now() - time.time()) < 1800
    with simulate(1, epoch_ms=1_600_000_000_000):
        assert (late.now(), late.draw()) == seen


# --- what there is none of -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reach", "instead"),
    [
        (lambda: time.sleep(1), "asyncio.sleep"),
        (lambda: socket.socket().connect(("broker-1", 9092)), "loop.sock_connect"),
        (lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM), "TCP"),
        (lambda: socket.getaddrinfo("localhost", 1), "loop.getaddrinfo"),
        (lambda: subprocess.Popen(["true"]), "coroutine"),
        (lambda: threading.Event().wait(5), "asyncio"),
        (lambda: queue.Queue().get(timeout=5), "asyncio"),
        (lambda: concurrent.futures.Future().result(timeout=5), "asyncio"),
        (lambda: threading.main_thread().join(), "await"),
        (lambda: asyncio.new_event_loop(), "await"),
    ],
)
def test_the_real_world_is_forbidden_and_the_error_tells_what_to_do(reach: Callable[[], Any], instead: str) -> None:
    async def program() -> None:
        with contextlib.suppress(Exception):  # as a client may: the run ends all the same
            reach()

    with simulate(1) as sim:
        sim.spawn("worker", program)
        with pytest.raises(SimForbidden, match=rf"host worker at test_ambient.py:\d+: .*{instead}"):
            sim.run_for(1)


# --- aiokafka --------------------------------------------------------------------------------------------------------------


def test_records_carry_virtual_time() -> None:
    def stamp() -> int:
        batch = accumulator.BatchBuilder(16384, 0)
        batch.append(timestamp=None, key=b"k", value=b"v")
        batch.close()
        return next(iter(DefaultRecordBatch(bytes(batch._build())))).timestamp  # type: ignore[no-any-return]

    with simulate(1, epoch_ms=1_600_000_000_000) as sim:
        sim.run_for(2)
        assert stamp() == 1_600_000_002_000
    with simulate(1, epoch_ms=1_600_000_000_000, without=("aiokafka's record times",)):
        assert stamp() > 1_700_000_000_000, "aiokafka does not read the clock in C any more: this pin can go"


def test_partitions_and_brokers_have_hashes_of_their_own() -> None:
    """Only the pin's effect is tested here; tests in fresh processes check that the order of sets does not depend on the process."""
    with simulate(1):
        pinned = hash(TopicPartition("orders", 3)), hash(BrokerMetadata(1, "broker-1", 9092, None))
        assert TopicPartition("orders", 3) in {TopicPartition("orders", 3)}
    assert pinned[0] == crc32(b"orders") * 31 + 3
    assert (hash(TopicPartition("orders", 3)), hash(BrokerMetadata(1, "broker-1", 9092, None))) != pinned
    assert hash(TopicPartition("orders", 3)) == hash(("orders", 3))


def test_an_aiokafka_that_has_moved_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def append(self: object, *, key: object, value: object) -> None: ...

    monkeypatch.setattr(accumulator.BatchBuilder, "append", append)
    with pytest.raises(LibraryMoved, match="BatchBuilder"), simulate(1):
        pass
    time.sleep(0)  # nothing stays pinned


def test_moved_named_tuples_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (TopicPartition, BrokerMetadata):
        with monkeypatch.context() as patch:
            patch.setattr(kind, "_fields", ("other",))
            with pytest.raises(LibraryMoved, match=kind.__name__), simulate(1):
                pass


def test_producers_are_numbered_from_one_in_every_simulation() -> None:
    async def names() -> list[str]:
        producers = [aiokafka.AIOKafkaProducer(bootstrap_servers="x") for _ in range(2)]
        for each in producers:
            each._closed = True  # it has nothing to close
        return [each.client._client_id for each in producers]

    for _ in range(2):
        with simulate(1) as sim:
            assert sim.run(names()) == ["aiokafka-producer-1", "aiokafka-producer-2"]


def test_the_sticky_assignor_of_each_process_remembers_its_own() -> None:
    class Own(StickyPartitionAssignor):  # type: ignore[misc]
        pass

    seen: list[Any] = []

    async def work(number: int) -> None:
        for kind in (StickyPartitionAssignor, Own):
            seen.append(kind.generation)
            kind.on_generation_assignment(number)
        await asyncio.sleep(1)
        seen.extend(kind.generation for kind in (StickyPartitionAssignor, Own))

    with simulate(1) as sim:
        for number in (1, 2):
            sim.host(f"h{number}").spawn(lambda number=number: work(number))  # type: ignore[misc]
        sim.run_for(2)
        sim.restart("h1")
        sim.run_for(2)
    assert seen == [-1, -1, -1, -1, 1, 1, 2, 2, -1, -1, 1, 1]
    assert StickyPartitionAssignor.generation == Own.generation == -1
    assert type(Own) is type(AbstractPartitionAssignor)


@pytest.mark.parametrize("reset", [True, False])
def test_clients_of_crashed_processes_are_not_warned_of_after_the_simulation(reset: bool) -> None:
    """Clients are collected after the simulation, and under ``-W error``."""
    kept: list[Any] = []

    async def program() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers="broker-1:9092")
        consumer = aiokafka.AIOKafkaConsumer("orders", bootstrap_servers="broker-1:9092", group_id="g")
        kept.extend([producer, consumer])
        await producer.start()
        await consumer.start()
        await asyncio.sleep(1000)

    with simulate(1) as sim:
        sim.cluster(topics=["orders"])
        sim.host("app").spawn(program)
        sim.run_for(5)
        sim.host("app").crash(reset=reset)
        sim.run_for(5)
        assert [client._closed for client in kept] == [False, False]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        kept.clear()
        gc.collect()
    assert [str(each.message) for each in warned] == []


@pytest.mark.slow
def test_a_client_that_the_test_itself_leaves_open_is_warned_of() -> None:
    kept: list[Any] = []

    async def of_the_test() -> None:
        kept.append(aiokafka.AIOKafkaProducer(bootstrap_servers="broker-1:9092"))

    with simulate(1) as sim:
        sim.run(of_the_test())
    with pytest.warns(ResourceWarning, match="Unclosed AIOKafkaProducer"):  # noqa: PT031
        kept.clear()
        gc.collect()


# --- all of them -----------------------------------------------------------------------------------------------------------


def _surroundings() -> list[object]:
    watched: list[object] = [getattr(random, name) for name in ("random", "choice", "shuffle", "_urandom")]
    watched += [time.time, time.monotonic, time.perf_counter, time.sleep, time.time_ns, os.urandom, uuid.getnode]
    watched += [socket.getaddrinfo, socket.getaddrinfo.__code__, vars(random.Random)["gauss"].__code__]
    watched += [*map(hash, watched), *map(repr, watched), gc.isenabled(), gc.get_freeze_count() > 0]
    return watched + _at_their_names()


def _at_their_names() -> list[object]:
    return [
        *(threading.Condition.wait, threading.Thread.join, random.Random.seed, threading.Thread.start),
        *(socket.socket.__init__, subprocess.Popen.__init__, accumulator.BatchBuilder.append),
        *(TopicPartition.__hash__, BrokerMetadata.__hash__),
    ]


def test_everything_is_as_before_afterwards() -> None:
    before = _surroundings()
    with pytest.raises(ZeroDivisionError), simulate(1):  # noqa: PT012
        during = _surroundings()
        _ = 1 / 0
    assert _surroundings() == before
    assert not set(map(id, _at_their_names())) & set(map(id, during[-len(_at_their_names()) :]))


def test_no_garbage_is_collected_during_a_run() -> None:
    with simulate(1):
        assert not gc.isenabled()


def test_pins_can_be_left_out_by_name() -> None:
    with simulate(1, without=tuple(PINS)):
        assert time.time() > 1_700_000_001
        time.sleep(0)


def test_what_is_imported_while_a_simulation_begins_does_not_harm_it() -> None:
    """Imports of another thread may happen at any time; here the collector's callback makes them."""
    made: list[str] = []

    def imported(phase: str, info: dict[str, int]) -> None:
        if len(made) < 3000:
            made.append(f"imported_meanwhile_{len(made)}")
            sys.modules[made[-1]] = ModuleType(made[-1])

    thresholds = gc.get_threshold()
    gc.callbacks.append(imported)
    gc.set_threshold(5, 10_000, 10_000)  # how much is made anew depends on what ran before in this process
    try:
        with simulate(1) as sim:
            sim.run_for(1)
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(imported)
        for name in made:
            del sys.modules[name]
    assert len(made) > 100
