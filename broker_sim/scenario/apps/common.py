"""Common parts of the apps: settings, reports, commands.

An app is a function ``live(settings, line)`` that returns its exit code, or a coroutine function; `program` makes a process of it, and
``broker_sim.scenario.virtual`` runs it in virtual time.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

MAX_TEXT = 500

Obey = Callable[[str, str], object]
"""``obey(command, argument)``: a command of the scenario."""


_PYTHON_NAMES = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
}


class AppSettings:
    """Settings with which an app is started; times in ms, None where the client's own default holds."""

    def __init__(self, source: str) -> None:
        given: Mapping[str, Any] = json.loads(source)
        self.bootstrap: str = given["bootstrap"]
        self.client_id: str = given["client_id"]
        self.group: str | None = given.get("group")
        self.topics: list[str] = given.get("topics", [])
        self.pattern: str | None = given.get("pattern")
        """A regular expression that whole names of topics match, in place of topics."""
        self.anchored: str | None = None if self.pattern is None else f"^({self.pattern})$"
        """The same for a library that looks for the beginning of a match, or knows patterns by their ``^``."""
        self.assign: bool = given.get("assign", False)
        self.commit: str = given.get("commit", "batch")
        self.assignor: str | None = given.get("assignor")
        self.instance_id: str | None = given.get("instance_id")
        self.reset: str = given.get("reset", "earliest")
        self.work_s: float = given.get("work", 0.0)
        self.max_poll_records: int | None = given.get("max_poll_records")
        self.members: int = given.get("members", 100)
        self.transactional_id: str | None = given.get("transactional_id")
        self.transaction_version: int | None = None
        if given.get("transaction_version") is not None:
            self.transaction_version = int(given["transaction_version"])
        self.to: str | None = given.get("to")
        self.config: dict[str, Any] = dict(given.get("config", {}))
        self.security: dict[str, str] = dict(given.get("security", {}))
        """Settings that the brokers' listeners require, by librdkafka's names; empty for PLAINTEXT."""
        self._given = given

    @property
    def python_security(self) -> dict[str, str]:
        """`security` by the names that aiokafka and kafka-python have in common."""
        return {_PYTHON_NAMES[name]: value for name, value in self.security.items() if name in _PYTHON_NAMES}

    def ms(self, name: str) -> int | None:
        """A duration of the settings, in seconds, as whole ms; None stays None."""
        value = self._given.get(name)
        return None if value is None else round(value * 1000)


def encoded_event(reports: str, details: dict[str, Any]) -> str:
    """Encode a report of an app as a line of JSON."""
    if "text" in details:
        details["text"] = str(details["text"])[:MAX_TEXT]
    return json.dumps({"reports": reports, **details})


def report(reports: str, **details: Any) -> None:
    """One line for the scenario."""
    try:
        sys.stdout.write(encoded_event(reports, details) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os._exit(0)


class Orders:
    """The commands that an app has received and not yet carried out."""

    def __init__(self) -> None:
        self.hang_s = 0.0
        self.leaving = self.wants_commit = False
        self.left = asyncio.Event()
        """Set when the client has to leave; for apps that only wait for it."""

    def obey(self, command: str, argument: str) -> None:
        """A command of the scenario."""
        if command == "hang":
            self.hang_s = float(argument)
        elif command == "commit":
            self.wants_commit = True
        elif command == "leave":
            self.leaving = True
            self.left.set()


def listen(obey: Obey) -> None:
    """Call ``obey(command, argument)`` for each line of stdin, on a thread; its end ends the process."""

    def run() -> None:
        for line in sys.stdin:
            command, _, argument = line.strip().partition(" ")
            if command:
                obey(command, argument)
        os._exit(0)

    threading.Thread(target=run, daemon=True, name="commands").start()


class ScenarioPipe:
    """Channel between an app and its scenario: the stdout and stdin of a process."""

    def report(self, reports: str, **details: Any) -> None:
        """One line for the scenario."""
        report(reports, **details)

    def listen(self, obey: Obey) -> None:
        """Call ``obey`` for each command from now on: in the running event loop, or on a thread of its own without a loop."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            listen(obey)
        else:
            listen(lambda command, argument: loop.call_soon_threadsafe(obey, command, argument))


Live = Callable[[AppSettings, ScenarioPipe], Any]
"""An app: a coroutine function, or an ordinary one; what it returns is its exit code."""


class Member(ABC):
    """A member that speaks the protocol itself."""

    _hangs_until = 0.0  # in the event loop's seconds

    @abstractmethod
    async def run(self) -> None:
        """Run the member until it is cancelled."""

    @abstractmethod
    async def leave(self) -> None:
        """Leave the group as the client's close() does. Called once, before the program ends."""

    def hang(self, seconds: float) -> None:
        """Stop the application's polls for ``seconds``; heartbeats are sent."""
        self._hangs_until = asyncio.get_running_loop().time() + seconds

    @property
    def hangs_for_s(self) -> float:
        """Time until the application polls again, 0 if it polls."""
        return max(self._hangs_until - asyncio.get_running_loop().time(), 0)


async def until_told_to_leave(member: Member, line: ScenarioPipe) -> int:
    """A member's whole life, which the command `leave` ends in order; the program's exit code."""
    stop = asyncio.Event()

    def obey(command: str, argument: str) -> None:
        if command == "leave":
            stop.set()
        elif command == "hang":
            member.hang(float(argument))

    line.listen(obey)
    task = asyncio.ensure_future(member.run())
    await stop.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await member.leave()
    line.report("left")
    return 0


def program(live: Live) -> None:
    """The process of an app."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    settings, line = AppSettings(sys.argv[1]), ScenarioPipe()
    sys.exit(asyncio.run(live(settings, line)) if inspect.iscoroutinefunction(live) else live(settings, line))
