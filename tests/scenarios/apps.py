"""The clients that scenarios are played with: which app each one is, and how the Java app is built."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from functools import cache
from pathlib import Path

from tests.clients.clients import java_command
from tests.support.real_kafka import classpath

HERE = Path(__file__).parent


@cache
def java(version: str) -> str:
    """The command line of java/App.java on kafka-clients ``version``; skips (CI=true: fails) without a JDK."""
    return shlex.join(java_command(f"scenario-java-{version}", HERE / "java" / "App.java", version, classpath(version)))


APPS: dict[str, Callable[[], str]] = {
    "classic": lambda: "classic",
    "consumer": lambda: "consumer",
    "share": lambda: "share",
    "streams": lambda: "streams",
    "aiokafka": lambda: "aiokafka",
    "confluent": lambda: "confluent",
    "java-4.1": lambda: java("4.1.0"),
    "java-3.4": lambda: java("3.4.0"),
}
"""Client -> what ``Options.clients`` takes for it."""
