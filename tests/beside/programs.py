"""Programs that people run beside Kafka, each in a process of its own that answers HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from tests.clients.clients import JVM
from tests.clients.driver import eventually
from tests.support.real_kafka import need_tool

__all__ = ["UP_S", "Program", "java", "topic_setting"]

UP_S = 120.0
"""Seconds that a program may take until it answers, or until it has done what was requested."""


class Program:
    """A process with a log in ``directory`` and an HTTP port; the end of a ``with`` block kills it. ``env``: more variables."""

    def __init__(
        self, name: str, command: Sequence[str], directory: Path, port: int, env: Mapping[str, str] | None = None
    ) -> None:
        self.name, self.port, self.log = name, port, directory / f"{name}.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "LC_ALL": "C", **(env or {})},
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def url(self) -> str:
        """URL of the program's REST API."""
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path: str, body: dict[str, Any] | None = None, method: str | None = None) -> Any:
        """Return the program's answer to a request, decoded; the request is repeated until it succeeds."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}{path}", data, headers, method=method)

        def answer() -> tuple[bool, Any]:
            if self.process.poll() is not None:
                pytest.fail(f"{self.name} ended with code {self.process.returncode}:\n{self.tail()}")
            try:
                with urllib.request.urlopen(request, timeout=UP_S) as reply:
                    text = reply.read()
                    return True, json.loads(text) if text else None
            except urllib.error.HTTPError as error:
                return False, f"{error.code} {error.read()[:300]!r}"
            except OSError as error:
                return False, str(error)

        return eventually(f"{self.name} answers {path}", answer, lambda result: result[0], UP_S)[1]

    def tail(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-3000:]

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait(60)


def java(*arguments: str, memory: str = "256m") -> list[str]:
    """The command line of a JVM that logs warnings alone, where the program logs through slf4j-simple."""
    flags = [flag for flag in JVM if not flag.startswith("-Xmx")]
    return [need_tool("java"), f"-Xmx{memory}", *flags, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", *arguments]


def topic_setting(bootstrap: str, topic: str, name: str) -> str | None:
    """A setting of a topic."""
    from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    return admin.describe_configs([resource])[resource].result(UP_S)[name].value
