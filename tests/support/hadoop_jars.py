"""Jars for what Spark's Hadoop reads from: `hadoop-aws` with as much of Amazon's SDK as it needs, and Hadoop's own mini cluster.

Rules:
1. Maven brings them once, into the cache of `tests/support/real_kafka.py`; each is what `hadoop_jars.txt` says by its sha256 (folder,
   file, digest). Of the SDK the modules are taken that are used, and not its bundle of 600 MB.
2. Jars of a session must be there when its JVM starts: see `spark_jars.jars_for`.
"""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
from pathlib import Path

from tests.support.real_kafka import cache_dir, need_tool, unavailable

__all__ = ["aws_jars", "mini_jars"]

HADOOP, SDK = "3.5.0", "2.35.4"
"""The Hadoop of Spark 4.2, and the SDK that it names."""
MAVEN_S = 300.0
AWS = [("software.amazon.awssdk", name, SDK) for name in ("s3", "s3-transfer-manager", "sts")]
MINI = [
    ("org.apache.hadoop", "hadoop-client-minicluster", HADOOP),
    ("org.junit.jupiter", "junit-jupiter-api", "5.13.4"),
    ("org.junit.platform", "junit-platform-commons", "1.13.4"),
    ("org.opentest4j", "opentest4j", "1.3.0"),
]
_POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>tests</groupId><artifactId>jars</artifactId><version>1</version><dependencies>{}</dependencies></project>
"""
_NOT = "<exclusions>{}</exclusions>"


def aws_jars() -> list[Path]:
    """Return the jars that s3a:// needs. Skips (CI=true: fails) without java or mvn; a wrong file fails in any case."""
    without = [("software.amazon.awssdk", "bundle"), ("org.apache.hadoop", "*")]
    aws = _dependency("org.apache.hadoop", "hadoop-aws", HADOOP, without)
    return _jars("aws", aws + "".join(_dependency(*one, []) for one in AWS))


def mini_jars() -> list[Path]:
    """Return the jars that `MiniHadoopClusterManager` needs besides Spark's own."""
    return _jars("mini", "".join(_dependency(*one, [("*", "*")]) for one in MINI))


def _dependency(group: str, artifact: str, version: str, without: list[tuple[str, str]]) -> str:
    def place(group: str, artifact: str) -> str:
        return f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId>"

    left_out = _NOT.format("".join(f"<exclusion>{place(*one)}</exclusion>" for one in without)) if without else ""
    return f"<dependency>{place(group, artifact)}<version>{version}</version>{left_out}</dependency>"


def _jars(folder: str, dependencies: str) -> list[Path]:
    need_tool("java")
    listed = [line.split() for line in Path(__file__).with_suffix(".txt").read_text().splitlines()]
    wanted = {name: digest for kind, name, digest in listed if kind == folder}
    directory = cache_dir() / f"hadoop-{folder}"
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:  # tests run in several processes
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not all((directory / name).exists() for name in wanted):
            _fetch(directory, dependencies)
    for name, digest in wanted.items():
        path = directory / name
        found = hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else "missing"
        if found != digest:
            raise AssertionError(f"{path} is not what it should be: its sha256 is {found}, not {digest}")
    return [directory / name for name in wanted]


def _fetch(directory: Path, dependencies: str) -> None:
    mvn = need_tool("mvn")
    pom = directory / "pom.xml"
    pom.write_text(_POM.format(dependencies))
    command = [mvn, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={directory}"]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=MAVEN_S, check=False
        )
    except subprocess.TimeoutExpired:
        unavailable(f"mvn had not fetched the jars of {directory.name} after {MAVEN_S} s")
    if done.returncode != 0:
        unavailable(f"mvn could not fetch the jars of {directory.name}:\n{(done.stdout + done.stderr)[-2000:]}")
