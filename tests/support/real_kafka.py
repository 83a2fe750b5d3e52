"""Real Apache Kafka for the tests: its jars through Maven, its brokers as KRaft processes on the loopback.

    with RealKafka("4.1.0", config={"group.initial.rebalance.delay.ms": 0}) as kafka:
        kafka.bootstrap                                    # "127.0.0.1:23456"
        kafka.nodes[1].pause()                             # SIGSTOP: a replica that stopped answering

Rules:
1. Without java, mvn or a way to the Maven repository a test skips with the reason; where CI=true it fails.
2. The jars live in a cache (env BROKER_SIM_CACHE, else ~/.cache/broker-sim), filled once under a file lock.
3. A broker inherits no lock, pipe or terminal; it dies with this process where the platform can do that (setpriv),
   it is ended by its pid, and its directory is removed.
4. Every wait has a deadline and says what it waited for, with the tail of the broker's own log.

Nothing here knows the simulator; benchmarks may use it too (outside pytest a skip is an exception like any other).
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import NoReturn

import pytest

from tests.support import real_sasl

VERSIONS = ("3.4.0", "4.1.0")
CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
JVM_FLAGS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Djava.awt.headless=true")
START_DEADLINE_S = 90.0
START_ATTEMPTS = 3

_TOOLS = """    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{version}</version>
    </dependency>
"""
_POM = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>broker-sim</groupId><artifactId>truth</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{version}</version></dependency>
{tools}    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
"""

_JMX_POM = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>broker-sim</groupId><artifactId>jmx</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>io.prometheus.jmx</groupId><artifactId>jmx_prometheus_javaagent</artifactId><version>1.0.1</version>
    </dependency>
  </dependencies>
</project>
"""
_LOGGING_POM = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>broker-sim</groupId><artifactId>logging</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-reload4j</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
"""
_LOG4J = """log4j.rootLogger=INFO, stdout, server
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=[%d] %p %m (%c)%n
{files}
log4j.logger.kafka.request.logger=WARN
log4j.logger.kafka.network.RequestChannel$=WARN
log4j.logger.kafka.controller=INFO, controller
log4j.additivity.kafka.controller=false
log4j.logger.org.apache.kafka.controller=INFO, controller
log4j.additivity.org.apache.kafka.controller=false
log4j.logger.state.change.logger=INFO, state-change
log4j.additivity.state.change.logger=false
log4j.logger.kafka.log.LogCleaner=INFO, log-cleaner
log4j.additivity.kafka.log.LogCleaner=false
log4j.logger.org.apache.kafka.storage.internals.log.LogCleaner=INFO, log-cleaner
log4j.additivity.org.apache.kafka.storage.internals.log.LogCleaner=false
"""
_LOG4J_FILE = """log4j.appender.{name}=org.apache.log4j.FileAppender
log4j.appender.{name}.File={directory}/{name}.log
log4j.appender.{name}.layout=org.apache.log4j.PatternLayout
log4j.appender.{name}.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
LOG_FILES = ("server", "controller", "state-change", "log-cleaner")
"""Logs that a broker writes with Kafka's shipped logging configuration, as far as used here (config/log4j.properties, log4j2.yaml)."""


# ------------------------------------------------------------------------------------------------ jars


def kafka_libs(version: str) -> Path:
    """The directory with every jar that Kafka `version` (one of VERSIONS or any released one) needs to run.

    Copied there by Maven on the first use, later calls return at once. Skips (CI=true: fails) without java or mvn.
    """
    return maven_libs(version, _POM.format(version=version, tools=_tools(version)))


def jmx_exporter() -> Path:
    """The jar of Prometheus' JMX exporter, an agent for a broker's JVM. As `kafka_libs`."""
    return next(maven_libs("jmx-exporter", _JMX_POM).glob("jmx_prometheus_javaagent-*.jar"))


def maven_libs(name: str, pom: str) -> Path:
    """The directory with every jar that the dependencies of `pom` need, in the cache by `name`. As `kafka_libs`."""
    need_tool("java")
    target = cache_dir() / "kafka" / name
    complete = target / "complete"
    if complete.exists():
        return target / "libs"
    need_tool("mvn")
    target.mkdir(parents=True, exist_ok=True)
    with locked(target / "lock"):
        if not complete.exists():
            (target / "pom.xml").write_text(pom)
            maven(target, "dependency:copy-dependencies", f"-DoutputDirectory={target / 'libs'}")
            complete.touch()
    return target / "libs"


def maven(directory: Path, *arguments: str) -> None:
    """Runs Maven in a directory."""
    done = subprocess.run(
        [need_tool("mvn"), "-q", "-B", *arguments],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode != 0:
        unavailable(f"mvn {' '.join(arguments)} failed for {directory.name}:\n{(done.stdout + done.stderr)[-2000:]}")


def _tools(version: str) -> str:
    """The command line tools have an artifact of their own up to 4.1."""
    return _TOOLS.format(version=version) if tuple(map(int, version.split(".")[:2])) <= (4, 1) else ""


def cache_dir() -> Path:
    """Return the folder in which downloads that tests need are kept between runs."""
    return Path(os.environ.get("BROKER_SIM_CACHE") or Path.home() / ".cache" / "broker-sim")


def need_tool(name: str) -> str:
    """Absolute path of the program `name`; skips (CI=true: fails) where it is not installed."""
    found = shutil.which(name)
    return found if found is not None else unavailable(f"{name} is not installed")


def unavailable(reason: str) -> NoReturn:
    """Ends the test that needs what is not there: a skip with the reason on a user's machine, a failure in CI."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds a lock file, among processes."""
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def classpath(version: str, *, log4j: bool = False) -> str:
    """Class path of Kafka `version` with one SLF4J binding: slf4j-simple, which writes to stderr unconfigured, or `log4j`'s, which
    lays out lines as Kafka's shipped configuration does (-Dlog4j.configuration names it)."""
    jars = sorted(kafka_libs(version).glob("*.jar"))
    if log4j:
        ours = sorted(maven_libs("logging", _LOGGING_POM).glob("*.jar"))
        jars = ours + [jar for jar in jars if not jar.name.startswith(("slf4j-", "reload4j-"))]
    return os.pathsep.join(str(jar) for jar in jars if not jar.name.startswith("slf4j-reload4j") or log4j)


def java_command(version: str, main_class: str, *args: str, jvm: Sequence[str] = (), log4j: bool = False) -> list[str]:
    """The command line that runs `main_class` of Kafka `version`."""
    return [need_tool("java"), *JVM_FLAGS, *jvm, "-cp", classpath(version, log4j=log4j), main_class, *args]


def java_program(version: str, source: Path) -> Path:
    """A folder with the classes of one Java source, compiled against the jars of Kafka `version`, for each state of it once."""
    text = source.read_bytes()
    target = cache_dir() / "programs" / f"{source.stem}-{version}-{hashlib.sha256(text).hexdigest()[:16]}"
    target.mkdir(parents=True, exist_ok=True)
    with locked(target / "lock"):
        if not (target / "complete").exists():
            command = [need_tool("javac"), "-nowarn", "-d", str(target), "-cp", classpath(version), str(source)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"javac {source}:\n{done.stdout}{done.stderr}")
            (target / "complete").touch()
    return target


def log4j_properties(directory: Path) -> str:
    """Kafka's shipped logging configuration: its layout, and its files (LOG_FILES) in `directory`."""
    return _LOG4J.format(files="".join(_LOG4J_FILE.format(name=name, directory=directory) for name in LOG_FILES))


def java_tool(
    version: str, main_class: str, *args: str, timeout_s: float = 50, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs one of Kafka's command line tools to its end; stdout and stderr come back as text, the exit code as it is.

    3.4: kafka.admin.ConsumerGroupCommand, kafka.admin.TopicCommand, kafka.tools.DumpLogSegments, ...
    4.x: org.apache.kafka.tools.consumer.group.ConsumerGroupCommand, org.apache.kafka.tools.TopicCommand, ...
    """
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return subprocess.run(
        java_command(version, main_class, *args, jvm=[quiet]),
        input="" if stdin is None else stdin,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


# ------------------------------------------------------------------------------------------------ ports and waiting


def free_port() -> int:
    """A TCP port that is free on 127.0.0.1 now, below the range from which the kernel serves outgoing connections."""
    chooser = random.SystemRandom()
    for _ in range(200):
        port = chooser.randrange(20000, 32700)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no free port between 20000 and 32700 in 200 attempts")


# ------------------------------------------------------------------------------------------------ moving replicas


def reassignment_frame(topic: str, replicas: Mapping[int, Sequence[int]], correlation_id: int = 2**30) -> bytes:
    """An AlterPartitionReassignments v0 request, size and header included: `replicas` of each partition from now on.

    A partition whose leader is not among them gets another one. For `Wire.write_raw`; any frame that comes back means
    that the controller has taken it.
    """
    name = topic.encode()
    rows = [struct.pack(">i", index) + _compact(nodes) + b"\0" for index, nodes in replicas.items()]
    partitions = _varint(len(rows) + 1) + b"".join(rows)
    topics = _varint(2) + _varint(len(name) + 1) + name + partitions + b"\0"
    payload = struct.pack(">hhihx", 45, 0, correlation_id, -1) + struct.pack(">i", 20_000) + topics + b"\0"
    return struct.pack(">i", len(payload)) + payload


def election_frame(
    topic: str, partitions: Sequence[int], correlation_id: int = 2**30, *, unclean: bool = False
) -> bytes:
    """An ElectLeaders v1 request: every partition's first replica leads it, if it is in the ISR; `unclean`: any replica that lives
    leads a partition without a leader. Used as the above."""
    name = topic.encode()
    topics = struct.pack(f">ih{len(name)}s", 1, len(name), name) + struct.pack(
        f">i{len(partitions)}i", len(partitions), *partitions
    )
    payload = struct.pack(">hhihb", 43, 1, correlation_id, -1, int(unclean)) + topics + struct.pack(">i", 20_000)
    return struct.pack(">i", len(payload)) + payload


def _compact(numbers: Sequence[int]) -> bytes:
    return _varint(len(numbers) + 1) + struct.pack(f">{len(numbers)}i", *numbers)


def _varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


# ------------------------------------------------------------------------------------------------ brokers


class Node:
    """One broker process of a RealKafka. `node_id` 1 is also the controller."""

    def __init__(self, kafka: RealKafka, node_id: int, port: int) -> None:
        self.kafka = kafka
        self.node_id = node_id
        self.port = port
        self.sasl_port = free_port() if kafka.users else 0
        self.directory = kafka.directory / f"node-{node_id}"
        self.data_dir = self.directory / "data"
        self.properties = self.directory / "server.properties"
        self.log_path = self.directory / "server.log"
        self.logs_dir = self.directory / "logs"
        self.process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    def write_properties(self, properties: Mapping[str, object]) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.properties.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))

    def format(self) -> None:
        """Formats the data directory (once in a node's life). What Kafka's tool writes depends on the release, its features and the
        node's id alone: this process has it written once for each and copies it, as the tool costs a second of a core."""
        key = self.kafka.version, self.node_id, frozenset(self.kafka.features.items())
        made = _FORMATTED.get(key)
        if made is None:
            self._format()
            written = (path for path in self.data_dir.rglob("*") if path.is_file())
            _FORMATTED[key] = {path.relative_to(self.data_dir): path.read_bytes() for path in written}
            return
        for name, content in made.items():  # 4.4 writes a folder, too: __cluster_metadata-0
            path = self.data_dir / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def _format(self) -> None:
        levels = [text for name, level in self.kafka.features.items() for text in ("--feature", f"{name}={level}")]
        arguments = ["format", "-t", CLUSTER_ID, "-c", str(self.properties), *levels]
        done = java_tool(self.kafka.version, "kafka.tools.StorageTool", *arguments)
        if done.returncode != 0:
            raise RuntimeError(f"formatting node {self.node_id} failed:\n{done.stdout}{done.stderr}")

    def start(self) -> None:
        """Starts the process; `wait_ready` tells when it serves. A stopped node starts again on its own data."""
        command = java_command(
            self.kafka.version, "kafka.Kafka", str(self.properties), jvm=self._jvm(), log4j=self.kafka.log_files
        )
        dies_with_us = shutil.which("setpriv")
        if dies_with_us and threading.current_thread() is threading.main_thread():
            command = [dies_with_us, "--pdeathsig", "KILL", *command]
        self._log_start = self.log_path.stat().st_size if self.log_path.exists() else 0
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.directory, start_new_session=True
            )
        _RUNNING.add(self)

    def _jvm(self) -> list[str]:
        if not self.kafka.log_files:
            return list(self.kafka.jvm)
        self.logs_dir.mkdir(exist_ok=True)
        layout = self.directory / "log4j.properties"
        layout.write_text(log4j_properties(self.logs_dir))
        return [*self.kafka.jvm, f"-Dlog4j.configuration=file:{layout}"]

    def wait_ready(self, deadline: float) -> None:
        """Blocks until the broker says that it started; `deadline` is a time.monotonic() value."""
        while True:
            log = self.log()
            if "Kafka Server started" in log:
                return
            if self.process is None or self.process.poll() is not None:
                raise BrokerDied(f"Kafka {self.kafka.version} node {self.node_id} ended while starting", log)
            if time.monotonic() > deadline:
                raise BrokerDied(
                    f"waited for 'Kafka Server started' of Kafka {self.kafka.version} node {self.node_id}", log
                )
            time.sleep(0.05)

    def log(self) -> str:
        """Return the process's log since its last start."""
        with self.log_path.open("rb") as handle:
            handle.seek(self._log_start)
            return handle.read().decode(errors="replace")

    def pause(self) -> None:
        """SIGSTOP: connections stay open, nothing is answered, nothing is fetched from the leader."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL: the broker dies without a word."""
        self._signal(signal.SIGKILL)
        self._reap()

    def stop(self, timeout_s: float = 30) -> None:
        """SIGTERM, a controlled shutdown; SIGKILL when that takes longer than `timeout_s`."""
        if self.process is None or self.process.poll() is not None:
            self._reap()
            return
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout_s)
        self.kill()

    def _signal(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            os.kill(self.process.pid, number)

    def _reap(self) -> None:
        if self.process is not None:
            self.process.wait(30)
            self.process = None
        _RUNNING.discard(self)


class BrokerDied(RuntimeError):
    """A broker that did not come up: what was waited for, and the tail of its log."""

    def __init__(self, reason: str, log: str) -> None:
        super().__init__(f"{reason}; its log ends:\n" + "\n".join(log.splitlines()[-30:]))
        self.log = log


_RUNNING: set[Node] = set()
_FORMATTED: dict[tuple[str, int, frozenset[tuple[str, int]]], dict[Path, bytes]] = {}


@atexit.register
def _kill_what_still_runs() -> None:
    for node in list(_RUNNING):
        node.kill()


class RealKafka:
    """A cluster of real brokers: `version` "3.4.0" or "4.1.0" (any released one), node ids 1..`brokers`.

    `config` holds broker settings by Kafka's names and wins over what is set here. `nodes` maps node id -> Node. `log_files`:
    each node writes LOG_FILES to its `logs_dir`, too. `jvm`: flags that win over JVM_FLAGS. `features`: levels that it is formatted
    with. `users`: passwords by name; each node also has a SASL_PLAINTEXT listener (`sasl_port`) for PLAIN, SCRAM (from 3.5 on; before,
    a KRaft broker knows no SCRAM user) and OAUTHBEARER with unsecured tokens.
    """

    def __init__(
        self,
        version: str,
        brokers: int = 1,
        config: Mapping[str, object] | None = None,
        *,
        log_files: bool = False,
        jvm: Sequence[str] = (),
        features: Mapping[str, int] | None = None,
        users: Mapping[str, str] | None = None,
    ) -> None:
        self.version = version
        self.users = dict(users or {})
        self.features = dict(features or {})
        self.brokers = brokers
        self.config = dict(config or {})
        self.log_files = log_files
        self.jvm = tuple(jvm)
        self.directory = Path()
        self.nodes: dict[int, Node] = {}

    @property
    def bootstrap(self) -> str:
        """host:port of every node, comma separated, node 1 first."""
        return ",".join(f"127.0.0.1:{node.port}" for node in self.nodes.values())

    def __enter__(self) -> RealKafka:
        kafka_libs(self.version)
        for attempt in range(1, START_ATTEMPTS + 1):
            self.directory = Path(tempfile.mkdtemp(prefix=f"real-kafka-{self.version}-"))
            try:
                self._start()
                return self
            except BrokerDied as died:
                self.close(graceful=False)
                port_lost = re.search(r"Address already in use|BindException", died.log)
                if not port_lost or attempt == START_ATTEMPTS:
                    raise
            except BaseException:
                self.close(graceful=False)
                raise
        raise AssertionError("unreachable")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close(graceful=False)

    def close(self, *, graceful: bool) -> None:
        """Ends every node (`graceful`: by a controlled shutdown) and removes their directories."""
        for node in reversed(list(self.nodes.values())):
            node.stop() if graceful else node.kill()
        self.nodes.clear()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _start(self) -> None:
        controller_port = free_port()
        for node_id in range(1, self.brokers + 1):
            node = self.nodes[node_id] = Node(self, node_id, free_port())
            node.write_properties(self._properties(node, controller_port))
        with ThreadPoolExecutor() as pool:
            list(pool.map(Node.format, self.nodes.values()))
        deadline = time.monotonic() + START_DEADLINE_S
        for node in self.nodes.values():
            node.start()
        for node in self.nodes.values():
            node.wait_ready(deadline)
        if self.users and tuple(map(int, self.version.split(".")[:2])) >= (3, 5):
            listeners = [(node.port, node.sasl_port) for node in self.nodes.values()]
            real_sasl.add_scram_users(self.users, listeners, deadline)

    def _properties(self, node: Node, controller_port: int) -> dict[str, object]:
        replicas = min(self.brokers, 3)
        listeners = advertised = f"PLAINTEXT://127.0.0.1:{node.port}"
        if self.users:
            listeners = advertised = f"{advertised},SASL_PLAINTEXT://127.0.0.1:{node.sasl_port}"
        if node.node_id == 1:
            listeners += f",CONTROLLER://127.0.0.1:{controller_port}"
        return {
            "process.roles": "broker,controller" if node.node_id == 1 else "broker",
            "node.id": node.node_id,
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "listeners": listeners,
            "advertised.listeners": advertised,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            **(real_sasl.properties(self.users) if self.users else {}),
            "log.dirs": node.data_dir,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": 1,
            "log.cleaner.dedupe.buffer.size": 16 * 1024 * 1024,
            **self.config,
        }
