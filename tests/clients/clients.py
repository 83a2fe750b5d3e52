"""The clients of the matrix: how each driver is built and started, and what a client cannot do at all, with the reason.

Foreign toolchains (JDK, Go, Node) build into the test cache (BROKER_SIM_CACHE, else ~/.cache/broker-sim), keyed by a
hash of the driver's source, through their ordinary clients. A machine without one skips with the reason; where CI=true
it fails.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.real_kafka import cache_dir, classpath, need_tool, unavailable

HERE = Path(__file__).parent
BUILD_S = 240
RUST_BUILD_S = 900
JVM = ("-Xmx160m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


@dataclass(frozen=True)
class Client:
    """`command()` builds the driver and gives its command line, to which the bootstrap address is appended.

    `cannot` maps what the client has no way to do to the reason. `closed_log` is a regex for log lines that say that a
    connection was lost; `no_offset_error` and `fenced_error` for how the client reports these two. `attempts` > 1 is for a
    client with a known race of its own, which stands beside it.
    """

    name: str
    command: Callable[[], list[str]]
    closed_log: str
    no_offset_error: str = "NoOffset"
    fenced_error: str = "Fenced"
    foreign: bool = False
    attempts: int = 1
    compressions: tuple[str, ...] = ("gzip", "snappy", "lz4", "zstd")
    cannot: Mapping[str, str] = field(default_factory=dict)


def built(name: str, sources: list[Path], build: Callable[[Path], None], salt: str = "") -> Path:
    """A directory of the cache that `build` filled, made anew whenever a source changes."""
    digest = hashlib.sha256(salt.encode())
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    target = cache_dir() / "clients" / f"{name}-{digest.hexdigest()[:16]}"
    if not target.exists():
        scratch = target.with_name(f"{target.name}.{os.getpid()}")
        scratch.mkdir(parents=True)
        try:
            build(scratch)
            scratch.rename(target)
        except OSError:  # another process was faster
            if not target.exists():
                raise
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return target


def java_command(name: str, source: Path, version: str, jars: str, *options: str) -> list[str]:
    """The command line of a Java program of one source, without its own arguments: compiled against ``jars`` of ``version``, and run
    with them and more ``options`` of the JVM. It logs warnings."""
    javac = need_tool("javac")

    def build(directory: Path) -> None:
        run_tool([javac, "-nowarn", "-d", str(directory), "-cp", jars, str(source)], source.parent)

    classes = built(name, [source], build, salt=version)
    log = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return [need_tool("java"), *JVM, log, *options, "-cp", os.pathsep.join([str(classes), jars]), source.stem]


def rust_program(name: str) -> str:
    """A program of rust/, built once: cargo fetches the crate and builds its librdkafka."""
    tool = need_tool("cargo")
    sources = [HERE / "rust" / path for path in ("Cargo.toml", "src/main.rs", "src/bin/driver.rs")]

    def build(target: Path) -> None:
        work = target / "build"
        shutil.copytree(HERE / "rust", work)  # cargo writes its lock file beside the manifest
        run_tool([tool, "build", "--quiet"], work, RUST_BUILD_S)
        for program in ("member", "driver"):
            shutil.move(work / "target" / "debug" / program, target / program)
        shutil.rmtree(work)

    return str(built("rust", sources, build) / name)


def go_program(name: str, directory: Path, sources: list[str], package: str) -> str:
    """A program of the Go module in ``directory``, built once."""
    tool = need_tool("go")

    def build(target: Path) -> None:
        run_tool([tool, "build", "-buildvcs=false", "-o", str(target / name), package], directory)

    return str(built(name, [directory / path for path in [*sources, "go.mod", "go.sum"]], build) / name)


def run_tool(command: list[str], cwd: Path, timeout_s: int = BUILD_S) -> None:
    name = " ".join(command[:2])
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        unavailable(f"{name} was not done after {timeout_s} s")
    if done.returncode != 0:
        unavailable(f"{name} failed:\n{(done.stdout + done.stderr)[-3000:]}")


def marks(client: Client) -> list[pytest.MarkDecorator]:
    """Marks of a client's tests: all clients are processes of their own, which run in real time. A foreign client's first test may have
    to build its driver and to fetch the client for it."""
    foreign = [pytest.mark.clients, pytest.mark.timeout(BUILD_S + 60)] if client.foreign else []
    return [pytest.mark.real_time, *foreign]


def python(script: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, str(HERE / "python" / script)]


def java(version: str) -> Callable[[], list[str]]:
    def command() -> list[str]:
        source = HERE / "java" / "Driver.java"
        log = f"-Dorg.slf4j.simpleLogger.log.{NETWORK_CLIENT}=info"
        return java_command(f"java-{version}", source, version, classpath(version), log)

    return command


NETWORK_CLIENT = "org.apache.kafka.clients.NetworkClient"


def go() -> list[str]:
    tool = need_tool("go")
    sources = [HERE / "go" / name for name in ("main.go", "member.go", "connection.go", "go.mod", "go.sum")]

    def build(directory: Path) -> None:
        run_tool([tool, "build", "-buildvcs=false", "-o", str(directory / "driver"), "."], HERE / "go")

    return [str(built("franz-go", sources, build) / "driver")]


def node() -> list[str]:
    npm, tool = need_tool("npm"), need_tool("node")
    sources = [HERE / "node" / "package.json", HERE / "node" / "driver.js"]

    def build(directory: Path) -> None:
        for source in sources:
            shutil.copy(source, directory)
        run_tool([npm, "install", "--no-audit", "--no-fund", "--no-package-lock"], directory)

    return [tool, str(built("kafkajs", sources, build) / "driver.js")]


JAVA_CLOSED = r"Node -?\d+ disconnected|Connection to node .* could not be established|Uncaught"

CLIENTS = [
    Client(
        "aiokafka",
        python("aiokafka_driver.py"),
        closed_log=r"CorrelationIdError|Connection .*closed|Unable to request|Closed by",
        cannot={
            "cooperative-sticky": "aiokafka has eager assignors only",
            "fencing": "aiokafka treats FENCED_INSTANCE_ID as UNKNOWN_MEMBER_ID: two members with one group.instance.id keep"
            " evicting each other",
            "delete-group": "aiokafka's admin client has no DeleteGroups",
        },
    ),
    Client(
        "kafka-python",
        python("kafka_python_driver.py"),
        closed_log=r"[Dd]isconnected|[Cc]onnection (lost|closed)",
        # 3.0.12, on a real broker too: when new metadata starts a rejoin and poll() times out before it ends, the leader's
        # own assignment makes need_rejoin() false, nobody awaits the join any more and its heartbeats stay off
        attempts=2,
    ),
    Client(
        "confluent-kafka",
        python("confluent_driver.py"),
        closed_log=r"\|FAIL\||Disconnected",
        no_offset_error="_AUTO_OFFSET_RESET|_NO_OFFSET",
        fenced_error="(?i)fenced",
    ),
    Client("java-3.4", java("3.4.0"), closed_log=JAVA_CLOSED, foreign=True),
    Client("java-4.1", java("4.1.0"), closed_log=JAVA_CLOSED, foreign=True),
    Client(
        "franz-go",
        go,
        closed_log="LOST connection",
        no_offset_error="no prior committed offset",
        fenced_error="FENCED_INSTANCE_ID",
        foreign=True,
        cannot={
            "position": "franz-go has no call for the position",
            "max-poll-interval": "franz-go heartbeats however long the application takes",
            "transactional-offsets": "franz-go commits offsets in a transaction through its GroupTransactSession alone",
        },
    ),
    Client(
        "kafkajs",
        node,
        closed_log=r"Connection (error|timeout)|has closed connection|Uncaught",
        foreign=True,
        compressions=("gzip",),
        cannot={
            "assign": "kafkajs consumes through groups only",
            "transform": "kafkajs commits offsets in a transaction without its generation",
            "cooperative-sticky": "kafkajs rebalances eagerly only",
            "static": "kafkajs has no group.instance.id",
            "fencing": "kafkajs has no group.instance.id",
            "position": "kafkajs has no call for the position",
            "max-poll-interval": "kafkajs heartbeats between records, so a long pause is a lost session",
            "later-topic": "kafkajs wants a topic to exist when it subscribes",
            "reset-none": "kafkajs has fromBeginning true or false, nothing else",
            "pattern-follows": "kafkajs resolves a pattern once, when it subscribes",
        },
    ),
]
