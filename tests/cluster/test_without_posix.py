"""Differences of Windows and macOS are simulated: clusters in memory and with a data directory work all the same.

Nothing here has run on Windows or macOS (docs/platforms.md). In a process of its own the modules, calls and constants are taken away
that Python's documentation gives to Unix alone; files are text unless O_BINARY is given, and can't be removed or renamed while this
process has them open; the event loop is no SelectorEventLoop, and the methods that a proactor loop has not are errors, but for asyncio.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import signal
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from broker_sim import Cluster
from broker_sim.cli.process import allow_many_connections
from broker_sim.network.server import listen
from broker_sim.storage.files import Files
from tests.support import processes

WITHOUT = """
import sys
import asyncio, concurrent.futures.process, ctypes, errno, fcntl, os, select, shutil, signal, socket, subprocess, sysconfig
import tempfile, types
from asyncio import selector_events, unix_events
from pathlib import Path

sysconfig.get_paths()  # asks this system for its own file
lock_file = fcntl.flock

def locking(fd, mode, size):
    if mode != msvcrt.LK_NBLCK or size != 1:
        raise ValueError(mode, size)
    try:
        lock_file(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise PermissionError(errno.EACCES, "Permission denied") from None

msvcrt = types.ModuleType("msvcrt")
msvcrt.LK_NBLCK, msvcrt.locking = 2, locking
sys.modules["msvcrt"] = msvcrt
for name in ("fcntl", "resource", "termios", "pwd", "grp", "uvloop"):
    sys.modules[name] = None

for module, names in (
    (os, "pread pwrite fdatasync fork killpg getuid geteuid uname sched_getaffinity O_CLOEXEC O_NOFOLLOW O_DIRECTORY"),
    (select, "poll epoll kqueue"),
    (signal, "SIGALRM SIGHUP SIGKILL SIGSTOP SIGUSR1 SIGUSR2 ITIMER_REAL setitimer alarm pthread_sigmask"),
    (socket, "SO_REUSEPORT"),
):
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)

# an exclusive port is what Linux does without any option
socket.SO_EXCLUSIVEADDRUSE = socket.SO_KEEPALIVE

def missing(*arguments, **named):
    raise NotImplementedError

for name in ("add_signal_handler", "remove_signal_handler", "create_unix_server", "create_unix_connection"):
    setattr(unix_events._UnixSelectorEventLoop, name, missing)

def missing_outside(method):
    def call(*arguments):
        if not sys._getframe(1).f_globals["__name__"].startswith("asyncio."):
            raise NotImplementedError
        return method(*arguments)
    return call

loop_class = selector_events.BaseSelectorEventLoop
for name in ("add_reader", "add_writer", "remove_reader", "remove_writer"):
    setattr(loop_class, name, missing_outside(getattr(loop_class, name)))
asyncio.SelectorEventLoop = type("SelectorEventLoop", (), {})  # of which the loop is not one, as on Windows

class CDLL(ctypes.CDLL):
    def __init__(self, name, *more, **options):
        if name is None:
            raise TypeError("the process itself is no library")
        super().__init__(name, *more, **options)

ctypes.CDLL = CDLL

# files: text unless O_BINARY is given; one that is open is neither removed nor renamed, and no directory can be opened
os.O_BINARY = 1 << 40
tempfile.gettempdir()
shutil._use_fd_functions = False
tempfile._bin_openflags |= os.O_BINARY
of_os = {name: getattr(os, name) for name in ("open", "read", "write", "remove", "unlink", "rename", "replace")}
text_files = set()

def open_file(path, flags, *more, **named):
    if os.path.isdir(path):
        raise PermissionError(errno.EACCES, "Permission denied", path)
    fd = of_os["open"](path, flags & ~os.O_BINARY, *more, **named)
    (text_files.discard if flags & os.O_BINARY else text_files.add)(fd)
    return fd

def binary_alone(name):
    def call(fd, *more):
        if fd in text_files and os.path.isfile(f"/proc/self/fd/{fd}"):
            raise AssertionError(f"{os.readlink(f'/proc/self/fd/{fd}')} was opened without O_BINARY")
        return of_os[name](fd, *more)
    return call

def closed_first(name):
    def call(*paths, **named):
        for fd in os.listdir("/proc/self/fd"):
            try:
                target = os.readlink(f"/proc/self/fd/{fd}")
            except OSError:
                continue
            if target in [os.path.abspath(os.fspath(path)) for path in paths] and not named:
                raise PermissionError(errno.EACCES, "The process cannot access the file because it is being used", target)
        return of_os[name](*paths, **named)
    return call

os.open = open_file
for name in ("read", "write"):
    setattr(os, name, binary_alone(name))
for name in ("remove", "unlink", "rename", "replace"):
    setattr(os, name, closed_first(name))
sys.platform = "win32"
"""

CONSUMING = """
import asyncio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from broker_sim import Cluster

async def main():
    async with Cluster(topics={"orders": 2}, journal=JOURNAL, internal_topics="at-start") as kafka:
        async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
            await producer.send_and_wait("orders", b"42")
        options = {"bootstrap_servers": kafka.bootstrap, "group_id": "billing", "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer("orders", **options) as consumer:
            print((await consumer.getone()).value)
            await consumer.commit()
            await kafka.group("billing").lag_below(1)
            with kafka.fault("OffsetCommit", delay="1ms", times=1):
                await consumer.commit()
"""


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return processes.run([sys.executable, "-c", WITHOUT + code, *arguments])


def test_a_cluster_in_memory_serves_clients(tmp_path: Path) -> None:
    done = run(CONSUMING.replace("JOURNAL", repr(str(tmp_path))) + "\nasyncio.run(main())")
    assert (done.stdout, done.stderr, done.returncode) == ("b'42'\n", "", 0)
    assert [path.name for path in tmp_path.iterdir()] == ["journal-000001.ndjson"]


def test_a_cluster_on_a_thread_starts_and_ends() -> None:
    done = run(
        "from broker_sim import ClusterThread\nwith ClusterThread(2) as kafka:\n    print(kafka.bootstrap.count(','))"
    )
    assert (done.stdout, done.stderr, done.returncode) == ("1\n", "", 0)


def test_the_plugin_and_all_public_names_are_imported() -> None:
    code = (
        "import broker_sim, broker_sim.testing.pytest_plugin\nfor name in broker_sim.__all__: getattr(broker_sim, name)"
    )
    done = run(f"{code}\nprint('all')")
    assert (done.stdout, done.stderr, done.returncode) == ("all\n", "", 0)


DURABLE = """
import asyncio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from broker_sim import Cluster

SETTINGS = {"log.segment.bytes": 20_000, "log.cleaner.min.cleanable.ratio": 0.01, "log.cleanup.policy": "compact",
    "log.retention.check.interval.ms": 1000, "log.cleaner.backoff.ms": 1000, "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 2, "offsets.topic.segment.bytes": 20_000}

async def main(times):
    options = {"data_dir": sys.argv[1], "journal": sys.argv[2], "sync": True, "as_version": "3.9", "config": SETTINGS}
    options["internal_topics"] = "at-start"
    async with Cluster(topics={"orders": 1, "gone": 1}, clock="manual", **options) as kafka:
        async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
            for number in range(200):
                await producer.send("orders", bytes(500), key=b"%d" % (number % 7))
            await producer.flush()
        consuming = {"bootstrap_servers": kafka.bootstrap, "group_id": "billing", "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer("orders", enable_auto_commit=False, **consuming) as consumer:
            await consumer.getone()
            await consumer.commit({TopicPartition("orders", 0): 100 * times})
        kafka.topic("gone").delete()
        await kafka.time.advance("2m")
        log = kafka.state.topics["orders"].partitions[0].log
        async with asyncio.timeout(120):
            while log.clean_end_offset <= 200 * times - 100:
                await asyncio.sleep(0)
        print(times, log.log_end_offset, kafka.group("billing").committed())
        if times == 1:
            try:
                other = Cluster(**options)
                await other.start()
            except Exception as error:
                print(error)

for times in (1, 2):
    asyncio.run(main(times))
"""


def test_a_data_directory_is_reopened(tmp_path: Path) -> None:
    done = run(DURABLE, str(tmp_path / "data"), str(tmp_path / "journal"))
    assert (done.stderr, done.returncode) == ("", 0)
    first, locked, second = done.stdout.splitlines()
    assert first == "1 200 {('orders', 0): 100}"
    assert "in use by another cluster" in locked
    assert second == "2 400 {('orders', 0): 200}"
    names = {path.name for path in (tmp_path / "data").iterdir() if not path.name.startswith("__")}
    assert "orders-0" in names
    assert "gone-0" not in names
    events = [line for path in (tmp_path / "journal").iterdir() for line in path.read_bytes().splitlines()]
    assert all(json.loads(event)["seq"] for event in events)


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        (["--virtual"], 0, ": held after 5.8 s of virtual time"),
        ([], 2, "clients in processes of their own need Linux or macOS; scenarios in virtual time (--virtual) do not"),
    ],
)
def test_a_scenario_runs_in_virtual_time(more: list[str], code: int, words: str) -> None:
    command = ["run", "crash-without-leave", *more]
    done = run(f"from broker_sim.cli.main import main\nsys.exit(main({command!r}))")
    assert done.returncode == code, done.stderr
    assert words in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_is_open_keeps_its_directory(tmp_path: Path) -> None:
    code = """
from broker_sim.storage.files import FILES
fd = FILES.open(Path(sys.argv[1], "file"), create=True)
try:
    FILES.remove_dir(Path(sys.argv[1]))
except PermissionError as error:
    print(error.filename, FILES.names(Path(sys.argv[1])))
FILES.close(fd)
FILES.add_dir(Path(sys.argv[1], "folder"))
FILES.remove_dir(Path(sys.argv[1]))
"""
    folder = tmp_path / "folder"
    folder.mkdir()
    done = run(code, str(folder))
    assert (done.stdout, done.stderr) == (f"{folder / 'file'} ['file']\n", "")
    assert not folder.exists()


def test_links_are_not_followed(tmp_path: Path) -> None:
    code = """
from broker_sim.network.server import listen
from broker_sim.storage.files import FILES
Path(sys.argv[1], "file").write_text("x")
Path(sys.argv[1], "link").symlink_to("file")
FILES.close(FILES.open(Path(sys.argv[1], "file")))
try:
    FILES.open(Path(sys.argv[1], "link"))
except OSError as error:
    print(error.errno == errno.ELOOP)
"""
    assert run(code, str(tmp_path)).stdout == "True\n"


def test_a_timeline_is_written_in_a_code_page(tmp_path: Path) -> None:
    """Python prints to a pipe in it on Windows, and it has no box-drawing characters."""
    run(CONSUMING.replace("JOURNAL", repr(str(tmp_path))) + "\nasyncio.run(main())")
    command = ["timeline", "billing", "--journal", str(tmp_path)]
    code = f"from broker_sim.cli.main import main\nsys.exit(main({command!r}))"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = processes.run([sys.executable, "-c", WITHOUT + code], env=environment)
    assert (done.stderr, done.returncode) == ("", 0)
    assert "generation 1 Stable" in done.stdout


async def test_localhost_is_its_ipv4_address_as_for_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS and Windows have the other address first."""
    found = socket.getaddrinfo

    def ipv6_first(*arguments: Any, **named: Any) -> list[Any]:
        other = (socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("::1", 0, 0, 0))
        return [other, *found("127.0.0.1", *arguments[1:], **named)]

    monkeypatch.setattr(socket, "getaddrinfo", ipv6_first)
    for name in ("localhost", ""):
        with closing(listen(name, 0)) as sock:
            assert sock.family is socket.AF_INET


class CaseInsensitive(Files):
    """Files of a system that keeps the case of a name, and does not distinguish it: macOS and Windows."""

    def _there(self, path: Path) -> Path:
        names = os.listdir(path.parent) if path.parent.is_dir() else []
        return path.with_name(next((name for name in names if name.casefold() == path.name.casefold()), path.name))

    def exists(self, path: Path) -> bool:
        return super().exists(self._there(path))

    def is_dir(self, path: Path) -> bool:
        return super().is_dir(self._there(path))

    def names(self, path: Path) -> list[str]:
        return super().names(self._there(path))


async def test_a_topic_that_differs_in_case_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    async with Cluster(topics={"orders": 1}, data_dir=tmp_path) as kafka:
        kafka.topic("orders").fill(3)
        kafka.state.disk.files = CaseInsensitive()
        with pytest.raises(Exception, match="does not distinguish upper and lower case"):
            kafka.create_topic("Orders", 1)
        kafka.create_topic("bills", 1)
        assert sorted(kafka.state.topics) == ["bills", "orders"]
    assert [path.name for path in tmp_path.glob("[oO]rders*")] == ["orders-0"]
    async with Cluster(data_dir=tmp_path) as kafka:
        assert len(kafka.topic("orders").records()) == 3


def test_on_macos_one_kind_of_lock_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There flock and lockf exclude each other, according to its manual: the second would find the first."""

    def excluded(*arguments: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "locked by flock")

    monkeypatch.setattr(fcntl, "lockf", excluded)
    with pytest.raises(BlockingIOError):
        Files().lock(tmp_path / ".lock")
    monkeypatch.setattr(sys, "platform", "darwin")
    with closing(Files().lock(tmp_path / ".lock")), pytest.raises(BlockingIOError):
        Files().lock(tmp_path / ".lock")


@pytest.mark.parametrize(
    ("taken", "limits"),
    [
        ((20_000,), [(20_000, 20_000)]),
        ((10_240,), [(20_000, 20_000), (10_240, 20_000)]),
        ((), [(20_000, 20_000), (10_240, 20_000)]),
    ],
)
def test_descriptors_are_raised_as_far_as_the_system_lets(
    monkeypatch: pytest.MonkeyPatch, taken: tuple[int, ...], limits: list[tuple[int, int]]
) -> None:
    asked: list[tuple[int, int]] = []

    def setrlimit(_: int, limit: tuple[int, int]) -> None:
        asked.append(limit)
        if limit[0] not in taken:
            raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 20_000))
    monkeypatch.setattr(resource, "setrlimit", setrlimit)
    allow_many_connections()
    assert asked == limits


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_ends_with_a_signal(number: signal.Signals, tmp_path: Path) -> None:
    command = ["serve", "--topic", "orders", "--data", str(tmp_path / "data")]
    code = f"{WITHOUT}\nfrom broker_sim.cli.main import main\nsys.exit(main({command!r}))"
    serving = processes.start([sys.executable, "-c", code])
    assert processes.line(serving, "the ready line").startswith("broker-sim ready: ")
    serving.send_signal(number)
    assert processes.finish(serving, "serve to end") == ("", "")
    assert serving.returncode == 0
