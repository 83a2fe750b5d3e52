"""The brokers that are measured: how each is started, pinned, found ready and ended."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.programs import Unavailable, built

_ROOT = Path(__file__).parent.parent
_READY_S = 60.0


@dataclass(frozen=True)
class Running:
    """A broker that serves: its bootstrap address and the process whose CPU time is counted."""

    address: str
    pid: int


@dataclass(frozen=True)
class System:
    """One broker in one configuration. ``command(directory, port)`` starts it; ``ready`` is what a line of its stdout holds when
    it serves, with the address behind it. ``warm``: the process is kept for all runs of a row."""

    name: str
    command: Callable[[Path, int], list[str]]
    ready: str = ""
    load_flags: tuple[str, ...] = ()
    warm: bool = False

    @contextlib.contextmanager
    def running(self, core: int) -> Iterator[Running]:
        """Start the broker on ``core`` and end it by its pid. Raises Unavailable, RuntimeError where it doesn't come up."""
        directory = Path(tempfile.mkdtemp(prefix="bench-"))
        process: subprocess.Popen[bytes] | None = None
        try:
            command = self.command(directory, free_port())
            with (directory / "stdout").open("wb") as out, (directory / "stderr").open("wb") as err:
                process = subprocess.Popen(
                    ["taskset", "-c", str(core), *command],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    cwd=_ROOT,
                    start_new_session=True,
                )
            yield Running(self._address(process, directory), process.pid)
        finally:
            if process is not None:
                _end(process)
            shutil.rmtree(directory, ignore_errors=True)

    def _address(self, process: subprocess.Popen[bytes], directory: Path) -> str:
        deadline = time.monotonic() + _READY_S
        while time.monotonic() < deadline:
            for line in (directory / "stdout").read_text(errors="replace").splitlines():
                if self.ready in line:
                    return self._fixed(directory) or line.rpartition("=")[2].strip()
            if process.poll() is not None:
                break
            time.sleep(0.05 if self.warm else 0.002)
        tail = (directory / "stderr").read_text(errors="replace")[-800:] or (directory / "stdout").read_text()[-800:]
        raise RuntimeError(f"{self.name} did not come up within {_READY_S:.0f} s (waited for {self.ready!r}):\n{tail}")

    def _fixed(self, directory: Path) -> str:
        path = directory / "address"
        return path.read_text() if path.exists() else ""


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.kill(process.pid, signal.SIGTERM)
        os.kill(process.pid, signal.SIGCONT)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait(10)


def free_port() -> int:
    """A free port below the range that the kernel gives to outgoing connections."""
    for port in range(21000 + os.getpid() % 5000, 32700):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no free port")


# --- the simulator ------------------------------------------------------------------------------------------------------


def simulator(*, uvloop: bool, disk: bool = False, as_version: str = "", python: str = sys.executable) -> System:
    """``broker-sim serve``; groups form at once, as with the others. ``as_version``: Kafka's release; "": the default."""

    def command(directory: Path, port: int) -> list[str]:
        out = [python, "-m", "broker_sim", "serve", "--port", str(port)]
        out += ["--config", "group.initial.rebalance.delay.ms=0", "--log-level", "error"]
        if not uvloop:
            out.append("--no-uvloop")
        if as_version:
            out += ["--as-version", as_version]
        return [*out, "--data", str(directory / "data")] if disk else out

    return System("broker-sim uvloop" if uvloop else "broker-sim asyncio", command, ready="bootstrap=")


def has_uvloop() -> bool:
    """Whether uvloop is installed here."""
    return importlib.util.find_spec("uvloop") is not None


# --- peers --------------------------------------------------------------------------------------------------------------


def kfake(*, disk: bool = False) -> System:
    """franz-go's kfake, one broker, without its own main's profiling."""

    def command(directory: Path, port: int) -> list[str]:
        out = [str(built("kfake")), "-port", str(port)]
        return [*out, "-data", str(directory / "data")] if disk else out

    return System("kfake", command, ready="127.0.0.1:")


def librdkafka_mock() -> System:
    """librdkafka's mock cluster, one broker. It advertises versions of JoinGroup and SyncGroup that it can't parse, and makes
    topics of 4 partitions."""

    def command(directory: Path, port: int) -> list[str]:
        if importlib.util.find_spec("confluent_kafka") is None:
            raise Unavailable("confluent-kafka is not installed")
        return [sys.executable, str(Path(__file__).parent / "mock_host.py")]

    flags = ("--max-version", "11=5", "--max-version", "14=3", "--partitions", "4")
    return System("librdkafka mock", command, ready="127.0.0.1:", load_flags=flags)


def kafka(version: str = "4.1.0", *, linger_ms: int = 5) -> System:
    """Apache Kafka, one KRaft node, from the jars that the tests fetch too. It writes to a data directory, as it always does."""

    def command(directory: Path, port: int) -> list[str]:
        if shutil.which("java") is None:
            raise Unavailable("java is not installed")
        libs = _kafka_libs(version)
        properties = directory / "server.properties"
        properties.write_text(_KAFKA_PROPERTIES.format(port=port, controller=port + 1, dir=directory, linger=linger_ms))
        java = ["java", "-Xmx512m", "-Xms512m", "-cp", libs]
        format_log = [*java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(properties)]
        subprocess.run(format_log, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=True)
        (directory / "address").write_text(f"127.0.0.1:{port}")
        level = "-Dorg.slf4j.simpleLogger.defaultLogLevel=info"
        logger = "-Dorg.slf4j.simpleLogger.logFile=System.out"
        return [java[0], level, logger, *java[1:], "kafka.Kafka", str(properties)]

    return System(f"Kafka {version} linger {linger_ms}", command, ready="Kafka Server started", warm=True)


def _kafka_libs(version: str) -> str:
    """The class path of Kafka's jars, fetched through Maven once. Raises Unavailable."""
    try:
        import pytest

        from tests.support.real_kafka import classpath
    except ImportError as error:
        raise Unavailable(f"the tests' support for real brokers is not there ({error})") from None
    try:
        return classpath(version)
    except (pytest.skip.Exception, pytest.fail.Exception) as reason:
        raise Unavailable(str(reason)) from None


_CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"

_KAFKA_PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={dir}/data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
group.coordinator.append.linger.ms={linger}
broker.session.timeout.ms=3600000
"""
