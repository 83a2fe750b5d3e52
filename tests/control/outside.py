"""A broker in a process of its own, and what its users see of it: two lines on stdout, HTTP, the command line."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from functools import cache
from typing import Any

import jsonschema
import pytest

from broker_sim.control.client import ControlClient, ControlFailed
from broker_sim.control.openapi import document
from broker_sim.control.operations import OPERATIONS
from tests.support import processes
from tests.support.command import command
from tests.support.processes import DEADLINE_S

READY = re.compile(r"broker-sim ready: bootstrap=([\w.]+:\d+(?:,[\w.]+:\d+)*)\n")
CONTROL = re.compile(r"broker-sim control: (http://\S+:\d+)\n")


@cache
def answer_schema(operation: str) -> dict[str, Any]:
    """The JSON Schema of what an operation answers, by the OpenAPI document."""
    api = document()
    entries = [entry for path in api["paths"].values() for entry in path.values()]
    [responses] = [one["responses"] for one in entries if one["operationId"] == camel(operation)]
    done = next(response for status, response in responses.items() if status.startswith("2"))
    schema: dict[str, Any] = done["content"]["application/json"]["schema"]
    return {**schema, "components": api["components"]}


def camel(operation: str) -> str:
    first, *rest = operation.replace("_", ".").split(".")
    return first + "".join(map(str.capitalize, rest))


class Brokers:
    """Brokers of another process, as their users have them: where they are, and a client of the control server."""

    def __init__(self, bootstrap: str, client: ControlClient) -> None:
        self.bootstrap, self.client = bootstrap, client

    async def do(self, operation: str, **params: Any) -> Any:
        """An operation over HTTP; see `ControlClient.perform`. The answer is what the OpenAPI document says."""
        if "timeout" in OPERATIONS[operation].parameters:  # ten seconds where nothing is said
            params.setdefault("timeout", DEADLINE_S)
        answer = await asyncio.to_thread(self.client.perform, operation, **params)
        jsonschema.validate(answer, answer_schema(operation))
        return answer

    async def refused(self, operation: str, **params: Any) -> ControlFailed:
        """The error of an operation that must fail."""
        try:
            answer = await self.do(operation, **params)
        except ControlFailed as failed:
            return failed
        pytest.fail(f"{operation} {params} was done: {answer}")


class Outside(Brokers):
    """``broker-sim serve --control 0`` with more arguments; ends with ``close``."""

    def __init__(self, *arguments: str, control: str = "0", token: str | None = None) -> None:
        serve = [sys.executable, "-m", "broker_sim", "serve", "--control", control, *arguments]
        self.process = processes.start(serve)
        bootstrap = self._line(READY)
        self.url = self._line(CONTROL)
        super().__init__(bootstrap, ControlClient(self.url, token))

    def _line(self, wanted: re.Pattern[str]) -> str:
        text = processes.line(self.process, f"a line like {wanted.pattern!r}")
        match = wanted.fullmatch(text)
        if match is None:
            self.process.kill()
            pytest.fail(f"no line like {wanted.pattern!r} but {text!r}; stderr:\n{self.process.communicate()[1]}")
        return match[1]

    def run(self, *words: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """A command against this broker."""
        return command(*words, environment={"BROKER_SIM_CONTROL": self.url, **(environment or {})})

    def close(self) -> tuple[int, str, str]:
        """End it as a user does; exit code, the rest of stdout, stderr."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        out, errors = processes.finish(self.process, "serve to end after SIGTERM")
        return self.process.returncode, out, errors
