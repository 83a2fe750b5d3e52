"""What Windows has not is taken away, in a process of its own: a cluster in memory works all the same, and the rest says what it needs.

Nothing here has run on Windows. Taken away are the modules, calls and constants that Python's documentation gives to Unix alone. What
asyncio's proactor loop does not do can't be: the selector loop uses it itself.
"""

from __future__ import annotations

import errno
import fcntl
import resource
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from broker_sim.cli.process import allow_many_connections
from broker_sim.storage.files import Files
from tests.support import processes

WITHOUT = """
import sys
for name in ("fcntl", "resource", "termios", "pwd", "grp", "uvloop"):
    sys.modules[name] = None
import ctypes, os, select, signal
from asyncio import unix_events

for module, names in (
    (os, "pread pwrite fdatasync fork killpg getuid geteuid uname sched_getaffinity O_CLOEXEC O_NOFOLLOW O_DIRECTORY"),
    (select, "poll epoll kqueue"),
    (signal, "SIGALRM SIGHUP SIGKILL SIGUSR1 SIGUSR2 ITIMER_REAL setitimer alarm pthread_sigmask"),
):
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)

def missing(*arguments):
    raise NotImplementedError

for name in ("add_signal_handler", "remove_signal_handler"):
    setattr(unix_events._UnixSelectorEventLoop, name, missing)

class CDLL(ctypes.CDLL):
    def __init__(self, name, *more, **options):
        if name is None:
            raise TypeError("the process itself is no library")
        super().__init__(name, *more, **options)

ctypes.CDLL = CDLL
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


def run(code: str) -> subprocess.CompletedProcess[str]:
    return processes.run([sys.executable, "-c", WITHOUT + code])


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


def test_a_data_directory_says_what_it_needs(tmp_path: Path) -> None:
    done = run(f"from broker_sim.cli.main import main\nsys.exit(main(['serve', '--data', {str(tmp_path / 'data')!r}]))")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "data directories need Linux or macOS; without one logs are in memory" in done.stderr


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
def test_serve_ends_with_a_signal(number: signal.Signals) -> None:
    code = f"{WITHOUT}\nfrom broker_sim.cli.main import main\nsys.exit(main(['serve', '--topic', 'orders']))"
    serving = processes.start([sys.executable, "-c", code])
    assert processes.line(serving, "the ready line").startswith("broker-sim ready: ")
    serving.send_signal(number)
    assert processes.finish(serving, "serve to end") == ("", "")
    assert serving.returncode == 0
