"""The clients that scenarios are played with: which app each one is, and how the Java app is built."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from functools import cache
from pathlib import Path

from tests.clients.clients import JVM, built, run_tool
from tests.support.real_kafka import classpath, need_tool

HERE = Path(__file__).parent


@cache
def java(version: str) -> str:
    """The command line of java/App.java on kafka-clients ``version``; skips (CI=true: fails) without a JDK."""
    source = HERE / "java" / "App.java"
    javac, jars = need_tool("javac"), classpath(version)

    def build(directory: Path) -> None:
        run_tool([javac, "-nowarn", "-d", str(directory), "-cp", jars, str(source)], HERE)

    classes = built(f"scenario-java-{version}", [source], build, salt=version)
    log = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return shlex.join([need_tool("java"), *JVM, log, "-cp", os.pathsep.join([str(classes), jars]), "App"])


APPS: dict[str, Callable[[], str]] = {
    "crowd": lambda: "crowd",
    "epochs": lambda: "epochs",
    "share": lambda: "share",
    "streams": lambda: "streams",
    "aiokafka": lambda: "aiokafka",
    "confluent": lambda: "confluent",
    "java-4.1": lambda: java("4.1.0"),
    "java-3.4": lambda: java("3.4.0"),
}
"""Client -> what ``Options.clients`` takes for it."""
