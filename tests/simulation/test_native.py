"""Clients with threads of their own outside Python are refused at once, whoever makes them, and however."""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import re
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from broker_sim.simulation import SimForbidden, SimStuck, simulate
from broker_sim.simulation.virtual import patches

CONFIG: dict[str, Any] = {"bootstrap.servers": "broker-1:9092", "group.id": "billing"}


class Own(Consumer):  # type: ignore[misc]
    """A subclass, as users have one."""

    def __init__(self) -> None:
        super().__init__(CONFIG)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Consumer(CONFIG), "Consumer"),
        (lambda: confluent_kafka.Producer(CONFIG), "Producer"),
        (lambda: AdminClient(CONFIG), "AdminClient"),
        (lambda: Own(), "Own"),
    ],
)
@pytest.mark.parametrize("sync", [False, True])
def test_a_client_of_librdkafka_is_refused_where_it_is_made(make: Callable[[], Any], name: str, sync: bool) -> None:
    async def program() -> None:
        make()

    with simulate(1) as sim:
        sim.cluster()
        host = sim.host("app")
        host.spawn_sync(make) if sync else host.spawn(program)
        with pytest.raises(SimForbidden, match=rf"{name} is not .* host app at test_native.py:\d+: .*aiokafka"):
            sim.run_for(5)


_C = ctypes.CDLL(None, use_errno=True)


def _connects_in_c(port: int) -> int:
    """As a driver that has its own sockets; returns the descriptor."""
    number: int = _C.socket(int(socket.AF_INET), int(socket.SOCK_STREAM), 0)
    address = struct.pack("=HH", socket.AF_INET, socket.htons(port)) + socket.inet_aton("127.0.0.1") + bytes(8)
    assert _C.connect(number, address, len(address)) == 0
    return number


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process which sockets it has")
def test_a_socket_that_c_code_opens_is_in_the_reasons_with_where_it_leads(listener: socket.socket) -> None:
    port, opened = listener.getsockname()[1], list[int]()

    async def program() -> None:
        opened.append(_connects_in_c(port))

    with simulate(1) as sim:
        sim.host("app").spawn(program)
        sim.run_for(1)
        sim.run_for(1)
        found = [reason for reason in sim.not_pinned if "socket" in reason]
    os.close(opened[0])
    assert len(found) == 1
    assert re.match(
        rf"C code has opened a socket of its own, socket {opened[0]} \(127.0.0.1:\d+ -> 127.0.0.1:{port}\)", found[0]
    )


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process which sockets it has")
def test_code_that_waits_at_such_a_socket_is_told_with_it(listener: socket.socket) -> None:
    port, opened = listener.getsockname()[1], list[int]()

    async def program() -> None:
        opened.append(_connects_in_c(port))
        while True:  # as a driver does that a signal has interrupted
            _C.recv(opened[0], ctypes.create_string_buffer(1), 1, 0)

    with simulate(1, patience="400ms") as sim:
        sim.host("app").spawn(program)
        with pytest.raises(SimStuck, match=rf"C code has opened socket \d+ \(127.0.0.1:\d+ -> 127.0.0.1:{port}\)"):
            sim.run_for(1)
    os.close(opened[0])


def test_sockets_of_the_test_and_of_its_threads_are_their_own(listener: socket.socket) -> None:
    connected: list[socket.socket] = []
    with simulate(1) as sim:
        running = patches.current()
        assert running is not None
        with running.lifted():
            thread = threading.Thread(target=lambda: connected.append(socket.create_connection(listener.getsockname())))
            thread.start()
            thread.join()
        sim.run_for(1)
        assert not [reason for reason in sim.not_pinned if "socket" in reason]
    connected[0].close()


def test_afterwards_clients_are_as_before() -> None:
    with simulate(1):
        assert Consumer is not confluent_kafka.cimpl.Consumer or Consumer.__new__ is not None
    assert Consumer is confluent_kafka.Consumer is sys.modules["confluent_kafka.cimpl"].Consumer  # type: ignore[attr-defined]
    for consumer in (Consumer(CONFIG), Own()):
        assert type(consumer) in (Consumer, Own)
        consumer.close()


def test_a_client_that_is_made_past_all_names_is_seen_by_its_threads() -> None:
    real = Consumer
    made: list[Any] = []

    async def program() -> None:
        made.append(real(CONFIG))

    try:
        with simulate(1, without=("confluent-kafka",)) as sim:
            sim.host("app").spawn(program)
            with pytest.raises(SimForbidden, match=r"confluent-kafka is not possible in a simulation.*clock='manual'"):
                sim.run_for(5)
    finally:
        made[0].close()


def test_one_that_does_not_come_back_is_told_within_a_second_or_two() -> None:
    made: list[Any] = []
    enough = threading.Event()

    def program() -> None:
        made.append(Consumer(CONFIG))
        while not enough.is_set():
            made[0].poll(0.1)

    try:
        with simulate(1, without=("confluent-kafka",), patience="20m") as sim:
            sim.host("app").spawn_sync(program)
            with pytest.raises(SimForbidden, match=r"confluent-kafka is not possible in a simulation at test_native"):
                sim.run_for(5)
            enough.set()
    finally:
        made[0].close()


def test_other_threads_of_c_code_make_a_run_that_is_not_pinned(tmp_path: Path) -> None:
    libc = ctypes.CDLL(None)
    thread = ctypes.c_ulong()
    seconds = ctypes.cast(libc.sleep, ctypes.c_void_p)

    async def program() -> None:
        libc.pthread_create(ctypes.byref(thread), None, seconds, ctypes.c_void_p(1))

    with simulate(1) as sim:
        sim.host("app").spawn(program)
        sim.run_for(5)
        assert any("C code has started threads of its own (" in reason for reason in sim.not_pinned)
    libc.pthread_join(thread, None)


def test_a_module_that_is_imported_in_the_run_has_none_either(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "late_client.py").write_text("from confluent_kafka import Consumer\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    async def program() -> None:
        importlib.import_module("late_client").Consumer(CONFIG)

    with simulate(1) as sim:
        sim.host("app").spawn(program)
        with pytest.raises(SimForbidden, match="Consumer is not possible"):
            sim.run_for(1)
    late: Any = sys.modules["late_client"]
    late.Consumer(CONFIG).close()


FIRST_IMPORTS = {
    "in the program": "from confluent_kafka import Consumer; Consumer(CONFIG)",
    "by its own name": "import confluent_kafka.cimpl; confluent_kafka.cimpl.Producer(CONFIG)",
    "of another client": "from confluent_kafka import SerializingProducer; SerializingProducer(CONFIG)",
    "of what is made of one": "from confluent_kafka.deserializing_consumer import DeserializingConsumer as C; C(CONFIG)",
    "of the admin client": "from confluent_kafka.admin import AdminClient; AdminClient(CONFIG)",
    "in the block": "names['Consumer'](CONFIG)",
}
FIRST = """
import json, os, sys
from broker_sim.simulation import SimForbidden, simulate
CONFIG = {"bootstrap.servers": "broker-1:9092", "group.id": "billing"}
assert not any(name.startswith("confluent_kafka") for name in sys.modules)
for sync in (False, True):
    for how, text in json.loads(sys.argv[1]).items():
        sys.stdout.flush()
        if os.fork() == 0:
            names = {}
            def program():
                exec(text, {"CONFIG": CONFIG, "names": names})
            async def coroutine():
                program()
            with simulate(1) as sim:
                if how == "in the block":
                    import confluent_kafka
                    names["Consumer"] = confluent_kafka.Consumer
                host = sim.host("app")
                host.spawn_sync(program) if sync else host.spawn(coroutine)
                try:
                    sim.run_for(5)
                    print(how, "was let through")
                except SimForbidden as error:
                    print(how, "is refused" if "aiokafka" in str(error) else error)
            import confluent_kafka
            client = confluent_kafka.Consumer(CONFIG)
            assert type(client) is confluent_kafka.Consumer is sys.modules["confluent_kafka.cimpl"].Consumer
            assert confluent_kafka.cimpl.__spec__.loader is confluent_kafka.cimpl.__loader__
            assert type(confluent_kafka.cimpl.__loader__).__module__ != "broker_sim.simulation.virtual.native"
            assert all(type(one).__module__ != "broker_sim.simulation.virtual.native" for one in sys.meta_path)
            client.close()
            sys.stdout.flush()
            os._exit(0)
        print(how, os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.mark.slow
def test_who_imports_it_in_a_simulation_for_the_first_time_is_refused_too() -> None:
    """In processes that have not imported it yet; behind the run its clients are as they should be."""
    done = subprocess.run(
        [sys.executable, "-c", FIRST, json.dumps(FIRST_IMPORTS)],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    expected = [line for how in FIRST_IMPORTS for line in (f"{how} is refused", f"{how} 0")]
    assert done.stdout.splitlines() == expected * 2, done.stderr
