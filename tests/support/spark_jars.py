"""Spark's own Kafka connector for the tests: its four jars by their Maven coordinates, each checked by its sha256.

Rules:
1. They are fetched once, by Maven, into the cache of `tests/support/real_kafka.py`, and are what they are said to be:
   a file with another digest is an error that names it.
2. `spark.jars.packages` is not used: where its resolver can't reach a repository, the JVM ends without a word.
3. Jars must be on the class path when the JVM starts, and a pytest process has one JVM: the session takes them when a test
   of the connector, or of Hadoop's file systems, is among those that were collected.
"""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.hadoop_jars import aws_jars
from tests.support.real_kafka import cache_dir, need_tool, unavailable

MAVEN_S = 120.0


@dataclass(frozen=True)
class Jar:
    """One file of Maven's, and what it must be."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"


CONNECTOR = (
    Jar(
        "org.apache.spark",
        "spark-sql-kafka-0-10_2.13",
        "4.2.0",
        "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705",
    ),
    Jar(
        "org.apache.spark",
        "spark-token-provider-kafka-0-10_2.13",
        "4.0.0",
        "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
    ),
    Jar(
        "org.apache.kafka",
        "kafka-clients",
        "3.9.2",
        "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8",
    ),
    Jar(
        "org.apache.commons",
        "commons-pool2",
        "2.12.1",
        "5273c8bc8c0dca2211175c0d27efbd7228efae99689aac001a8e1ef8e872e9ef",
    ),
)
"""Jars that Spark 4.2 needs beside its own to connect to Kafka."""


def jars_for(items: Iterable[pytest.Item]) -> dict[str, str]:
    """Return the Spark settings for a session of these tests; empty where the jars can't be had: tests that need them report it."""
    named = {item.path.name for item in items}
    jars: list[Path] = []
    for test, brought in (("test_connector.py", connector_jars), ("test_hadoop_files.py", aws_jars)):
        if test in named:
            with contextlib.suppress(pytest.skip.Exception, pytest.fail.Exception):
                jars += brought()
    return {"spark.jars": ",".join(map(str, jars))} if jars else {}


def connector_jars() -> list[Path]:
    """The connector's files. Skips (CI=true: fails) without java or mvn; a wrong file fails in any case."""
    need_tool("java")
    directory = cache_dir() / "spark-connector"
    return [_checked(directory / jar.name, jar) for jar in CONNECTOR]


def _checked(path: Path, jar: Jar) -> Path:
    if not path.exists():
        _fetch(path.parent, jar)
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != jar.sha256:
        raise AssertionError(
            f"{path} is not {jar.group}:{jar.artifact}:{jar.version}: its sha256 is {found}, not {jar.sha256}"
        )
    return path


def _fetch(directory: Path, jar: Jar) -> None:
    mvn = need_tool("mvn")
    directory.mkdir(parents=True, exist_ok=True)
    artifact = f"{jar.group}:{jar.artifact}:{jar.version}"
    command = [mvn, "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={directory}"]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=MAVEN_S, check=False
        )
    except subprocess.TimeoutExpired:
        unavailable(f"mvn had not fetched {artifact} after {MAVEN_S} s")
    if done.returncode != 0:
        unavailable(f"mvn could not fetch {artifact}:\n{(done.stdout + done.stderr)[-2000:]}")
