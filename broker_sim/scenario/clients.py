"""The clients of a running scenario, each a process that reads commands and writes reports, a line each (see apps); ``virtual`` has the
clients on simulated hosts.

Rules:
1. A crash is SIGKILL, a freeze SIGSTOP: the client gets no chance to say goodbye. A hang is an application that stops polling.
2. Reports of a client are written to the journal as ``client`` events, in the order in which they came.
3. A client that ends without a command is reported with the last lines of its stderr.
4. Nothing is left running: ``stop_all`` ends every client, thawed first.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import shlex
import shutil
import signal
import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from broker_sim.common.text import UsageError, expected, installing, nearest, unknown
from broker_sim.scenario.model import ClientPlan

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster

__all__ = [
    "APPS",
    "Access",
    "Clients",
    "OnReport",
    "ProcessClient",
    "ScenarioClient",
    "check_given",
    "kind_or_command",
    "need",
    "processes",
    "settings_of",
]

OnReport = Callable[..., object]
"""``report(client, reports, **details)``: called with what a client reports, and with its start and exit."""

APPS = {
    "aiokafka": "aiokafka_app",
    "confluent": "confluent_app",
    "kafka-python": "kafka_python_app",
    "classic": "classic_app",
    "consumer": "consumer_app",
    "share": "share_app",
    "streams": "streams_app",
    "transactional": "transactional_app",
}
OWN = ("classic", "consumer", "share", "streams", "transactional")
"""Kinds that are no library's: a program that replaces all clients does not replace these."""
_NEEDS = {
    "classic": "kafka_wire",
    "consumer": "kafka_wire",
    "share": "kafka_wire",
    "streams": "kafka_wire",
    "transactional": "kafka_wire",
    "aiokafka": "aiokafka",
    "confluent": "confluent_kafka",
    "kafka-python": "kafka",
}
_PATIENCE_S = 2.0
_TAIL = 20


@dataclass(frozen=True, slots=True)
class Access:
    """Address of the brokers and, by librdkafka's names, the client settings that their listeners require; none for PLAINTEXT."""

    bootstrap: str
    security: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def to(cls, kafka: Cluster) -> Access:
        """To the brokers of a cluster."""
        plain = kafka.brokers[0].protocol(kafka.listener_names[0]) == "PLAINTEXT"
        return cls(kafka.bootstrap, {} if plain else kafka.security.client_settings())


class ScenarioClient(ABC):
    """One client, wherever it runs."""

    def __init__(self, plan: ClientPlan, report: OnReport) -> None:
        self.plan, self._report = plan, report
        self.errors: deque[str] = deque(maxlen=_TAIL)
        """The last lines of its stderr."""
        self._end_requested = False

    @property
    @abstractmethod
    def running(self) -> bool:
        """Whether it has been started and has not ended."""

    @abstractmethod
    async def start(self) -> None:
        """Start it; nothing happens where it runs. Raises UsageError where it can't be started."""

    @abstractmethod
    async def crash(self) -> None:
        """Kill the client, and wait until all its output is read. Raises UsageError if it is not running; so do the next three."""

    @abstractmethod
    def freeze(self) -> None:
        """Stop the client: it keeps its connections and sends nothing until ``thaw``."""

    @abstractmethod
    def thaw(self) -> None:
        """Resume the client after ``freeze``."""

    @abstractmethod
    def command_line(self, text: str) -> None:
        """A command of the line protocol."""

    @abstractmethod
    async def stop(self, *, leave: bool = False) -> None:
        """End it, whatever its state. ``leave``: it leaves its group first, if it can."""

    def _need_running(self) -> None:
        if not self.running:
            raise UsageError(f"the client {self.plan.name} is not running")

    def _exited(self, code: int) -> None:
        """Report the exit of the client's process and its exit code."""
        words = "" if self._end_requested else f"without a request; its last lines: {' / '.join(self.errors) or 'none'}"
        self._report(self.plan.name, "exited", code=code, text=words)


def _report_in(line: str) -> tuple[str, dict[str, Any]]:
    """Kind and details of a client's report, from a line of its stdout. Raises ValueError, KeyError, AttributeError or TypeError."""
    details = json.loads(line)
    return str(details.pop("reports")), details


def need_process_groups() -> None:
    """Raise UsageError on a system without POSIX signals to a process and what it has started."""
    if not hasattr(os, "killpg"):
        raise UsageError(
            "clients in processes of their own need Linux or macOS; scenarios in virtual time (--virtual) do not"
        )


class ProcessClient(ScenarioClient):
    """A client that is a process."""

    def __init__(self, plan: ClientPlan, command: list[str], report: OnReport) -> None:
        super().__init__(plan, report)
        self.command = command
        self.process: asyncio.subprocess.Process | None = None
        self._reading: list[asyncio.Task[None]] = []

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.returncode is None

    async def start(self) -> None:
        if self.running:
            return
        need_process_groups()
        self._end_requested = False
        self.errors.clear()
        try:
            process = self.process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=1 << 20,
                start_new_session=True,  # so that a signal reaches what it starts, too
            )
        except OSError as error:
            raise UsageError(
                f"the client {self.plan.name}: {self.command[0]} can't be started: {error.strerror}"
            ) from None
        self._report(self.plan.name, "started")
        logging = asyncio.ensure_future(self._log(process))
        self._reading = [logging, asyncio.ensure_future(self._listen(process, logging))]

    async def _listen(self, process: asyncio.subprocess.Process, logging: asyncio.Task[None]) -> None:
        assert process.stdout is not None
        async for line in _lines(process.stdout):
            try:
                reports, details = _report_in(line)
            except (ValueError, KeyError, AttributeError, TypeError):
                self.errors.append(line)
                continue
            self._report(self.plan.name, reports, **details)
        code = await process.wait()
        await logging
        self._exited(code)

    async def _log(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        async for line in _lines(process.stderr):
            self.errors.append(line)

    def command_line(self, text: str) -> None:
        self._need_running()
        assert self.process is not None
        assert self.process.stdin is not None
        self._end_requested |= text == "leave"
        self.process.stdin.write(f"{text}\n".encode())

    async def crash(self) -> None:
        self._need_running()
        self._end_requested = True
        self._signal(signal.SIGKILL)
        await self.ended()

    def freeze(self) -> None:
        self._need_running()
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._need_running()
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    async def ended(self) -> None:
        """Wait until its process has ended and all its output is read."""
        if self.process is None:
            return
        await self.process.wait()
        _, silent = await asyncio.wait(self._reading, timeout=_PATIENCE_S)
        for task in silent:  # a process that it started still holds its stdout
            task.cancel()
        await asyncio.gather(*self._reading, return_exceptions=True)

    async def stop(self, *, leave: bool = False) -> None:
        """End it: thawed, asked by the end of stdin, killed where it doesn't listen, with all that it has started."""
        if self.process is None:
            return
        if self.running:
            self._end_requested = True
            self._signal(signal.SIGCONT)
            if leave:
                self.command_line("leave")
                await self._patiently()
            if self.process.stdin is not None:
                self.process.stdin.close()
            await self._patiently()
            self._signal(signal.SIGKILL)
        await self.ended()

    async def _patiently(self) -> None:
        """Wait for the end of its process, as long as it may take."""
        assert self.process is not None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                await self.process.wait()


class Clients:
    """All clients of a scenario."""

    def __init__(self, clients: Iterable[ScenarioClient]) -> None:
        self.all = {client.plan.name: client for client in clients}

    def _one(self, name: str) -> ScenarioClient:
        if name not in self.all:
            raise UsageError(f"the client {name} belongs to another program; a scenario can't do that with it")
        return self.all[name]

    async def do(
        self, action: str, names: list[str], for_s: float | None, later: Callable[[float, ScenarioClient], object]
    ) -> None:
        """Do ``action`` to the clients. ``later(seconds, client)`` undoes a freeze. Raises UsageError."""
        for name in names:
            client = self._one(name)
            if action == "start":
                await client.start()
            elif action == "crash":
                await client.crash()
            elif action == "freeze":
                client.freeze()
                if for_s is not None:
                    later(for_s, client)
            elif action == "thaw":
                client.thaw()
            elif action == "hang":
                client.command_line(f"hang {for_s if for_s is not None else 86_400}")
            else:
                client.command_line(action)

    async def start(self) -> None:
        """Start those that begin with the scenario."""
        for client in self.all.values():
            if client.plan.start:
                await client.start()

    async def stop_all(self, *, leave: bool = False) -> None:
        """Stop all clients of the scenario, and wait for their ends. ``leave``: those that can leave their groups first."""
        await asyncio.gather(*(client.stop(leave=leave) for client in self.all.values()))


def processes(plans: list[ClientPlan], access: Access, report: OnReport, commands: Mapping[str, str]) -> Clients:
    """Clients that are processes. ``commands``: see ``kind_or_command``. Raises UsageError."""

    def command(plan: ClientPlan) -> list[str]:
        chosen = kind_or_command(plan, commands)
        if chosen not in APPS:
            check_program(chosen)
            return [*shlex.split(chosen), settings_of(plan, access)]
        need(chosen)
        return [sys.executable, "-m", f"broker_sim.scenario.apps.{APPS[chosen]}", settings_of(plan, access)]

    started = (plan for plan in plans if kind_or_command(plan, commands) != "external")
    return Clients(ProcessClient(plan, command(plan), report) for plan in started)


def check_program(chosen: str) -> None:
    """Raises UsageError for a misspelled kind of client that is not the name of a program either."""
    if chosen not in (*APPS, "external") and nearest(chosen, APPS) and shutil.which(chosen) is None:
        raise UsageError(f"{chosen!r} is neither a kind of client nor a program; {expected(chosen, APPS)}")


def kind_or_command(plan: ClientPlan, commands: Mapping[str, str]) -> str:
    """Return the kind of a client, or the command line of a program. ``commands``: replacements for the kind in the file, by client, by
    kind or for all ("*")."""
    own = commands.get(plan.name) or commands.get(plan.kind)
    if own is None and plan.kind not in OWN:
        own = commands.get("*")
    return own or plan.kind


def check_given(plans: Iterable[ClientPlan], commands: Mapping[str, str]) -> None:
    """Raise UsageError where something is to take the place of a client, or of clients of a kind, that the scenario doesn't have."""
    known = dict.fromkeys(name for plan in plans for name in (plan.name, plan.kind))
    for name in commands:
        if name != "*" and name not in known:
            raise unknown("client or kind of client", name, known)


def settings_of(plan: ClientPlan, access: Access) -> str:
    """Encode the settings with which an app is started as JSON."""
    security = {"security": dict(access.security)} if access.security else {}
    return json.dumps({"bootstrap": access.bootstrap, "client_id": plan.name, **security, **plan.settings})


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    """The lines of a stream as text; of one that is longer than the stream's limit what comes of it."""
    while True:
        try:
            line = await stream.readline()
        except ValueError:  # longer than the limit: what was read of it is lost
            continue
        if not line:
            return
        yield line.decode(errors="replace").rstrip()


def need(kind: str) -> None:
    """Raise UsageError where a kind of client is not installed."""
    module = _NEEDS[kind]
    if importlib.util.find_spec(module) is None:
        raise UsageError(f"clients of the kind {kind} need {module}, which is not installed: {installing(module)}")
