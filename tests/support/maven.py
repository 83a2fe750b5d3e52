"""Programs and libraries of Maven Central for the tests, in their cache, filled once under a file lock.

Without java, mvn or a way to the repository a test skips with the reason; where CI=true it fails.
"""

from __future__ import annotations

import os
import shutil
import tarfile
from pathlib import Path

from tests.support.real_kafka import cache_dir, locked, maven, maven_libs

_DEPENDENCY = """\
    <dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>
"""
_POM = """\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>broker-sim.tests</groupId><artifactId>{name}</artifactId><version>1</version>
  <dependencies>
{dependencies}  </dependencies>
</project>
"""
_LOG = "org.slf4j:slf4j-simple:1.7.36"


def maven_classpath(name: str, *artifacts: str) -> str:
    """Class path of ``artifacts`` ("group:artifact:version") with all that they need and slf4j-simple; ``name``: of its folder in the
    cache, with a version."""
    dependencies = "".join(_DEPENDENCY.format(*artifact.split(":")) for artifact in (*artifacts, _LOG))
    libs = maven_libs(name, _POM.format(name=name, dependencies=dependencies))
    return os.pathsep.join(map(str, sorted(libs.glob("*.jar"))))


def streams_classpath(version: str) -> str:
    """Class path of Kafka Streams ``version``."""
    return maven_classpath(f"streams-{version}", f"org.apache.kafka:kafka-streams:{version}")


def connect_classpath(version: str) -> str:
    """Class path of a Kafka Connect worker ``version`` with its file connectors, and of MirrorMaker."""
    artifacts = ("connect-runtime", "connect-file", "connect-mirror")
    return maven_classpath(
        f"connect-and-mirror-{version}", *(f"org.apache.kafka:{artifact}:{version}" for artifact in artifacts)
    )


def unpacked(artifact: str) -> Path:
    """The directory with the content of an archive: "group:artifact:version:tar.gz:classifier"."""
    target = cache_dir() / "archives" / artifact.replace(":", "+")
    target.mkdir(parents=True, exist_ok=True)
    with locked(target / "lock"):
        if not (target / "complete").exists():
            maven(target, "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={target / 'archive'}")
            (archive,) = (target / "archive").iterdir()
            with tarfile.open(archive) as tar:
                tar.extractall(target / "content", filter="data")
            shutil.rmtree(target / "archive")
            (target / "complete").touch()
    return target / "content"
