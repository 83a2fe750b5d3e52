"""The clients of a running scenario: one process each, told and listened to line by line (see apps).

Rules:
1. A crash is SIGKILL, a freeze SIGSTOP: the client gets no chance to say goodbye. A hang is an application that stops polling.
2. What a client tells goes into the journal as ``client`` events, in the order in which it came.
3. A client that ends although nobody told it to is told with the last lines of its stderr.
4. Nothing is left running: ``stop_all`` ends every process, thawed first.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from broker_sim.scenario.model import ClientPlan
from broker_sim.words import UsageError

__all__ = ["Client", "Clients"]

_APPS = {"aiokafka": "aiokafka_app", "confluent": "confluent_app", "kafka-python": "kafka_python_app", "crowd": "crowd"}
_NEEDS = {"crowd": "protocol", "aiokafka": "aiokafka", "confluent": "confluent_kafka", "kafka-python": "kafka"}
_PATIENCE_S = 2.0
_TAIL = 20


class Client:
    """One client. ``tell(action, **details)`` hears what it says and what becomes of it."""

    def __init__(self, plan: ClientPlan, command: list[str], tell: Callable[..., object]) -> None:
        self.plan, self.command, self._tell = plan, command, tell
        self.process: asyncio.subprocess.Process | None = None
        self.errors: deque[str] = deque(maxlen=_TAIL)
        self._reading: list[asyncio.Task[None]] = []
        self._told_to_end = False

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.returncode is None

    async def start(self) -> None:
        """Start its process; nothing happens where it runs. Raises UsageError where it can't be started."""
        if self.running:
            return
        self._told_to_end = False
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
        self._tell(self.plan.name, "started")
        logging = asyncio.ensure_future(self._log(process))
        self._reading = [logging, asyncio.ensure_future(self._listen(process, logging))]

    async def _listen(self, process: asyncio.subprocess.Process, logging: asyncio.Task[None]) -> None:
        assert process.stdout is not None
        async for line in _lines(process.stdout):
            try:
                said = json.loads(line)
                says = said.pop("says")
            except (ValueError, KeyError, AttributeError, TypeError):
                self.errors.append(line)
                continue
            self._tell(self.plan.name, str(says), **said)
        code = await process.wait()
        await logging
        words = "" if self._told_to_end else f"nobody told it to; its last words: {' / '.join(self.errors) or 'none'}"
        self._tell(self.plan.name, "exited", code=code, text=words)

    async def _log(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        async for line in _lines(process.stderr):
            self.errors.append(line)

    def command_line(self, text: str) -> None:
        """A command of the line protocol. Raises UsageError where it doesn't run."""
        if not self.running or self.process is None or self.process.stdin is None:
            raise UsageError(f"the client {self.plan.name} is not running")
        self._told_to_end |= text == "leave"
        self.process.stdin.write(f"{text}\n".encode())

    def kill(self, number: signal.Signals) -> None:
        """Send it a signal. Raises UsageError where it doesn't run."""
        if not self.running or self.process is None:
            raise UsageError(f"the client {self.plan.name} is not running")
        self._told_to_end |= number is signal.SIGKILL
        self._signal(number)

    def _signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    async def ended(self) -> None:
        """Wait until its process is gone and all that it said is heard."""
        if self.process is None:
            return
        await self.process.wait()
        _, silent = await asyncio.wait(self._reading, timeout=_PATIENCE_S)
        for task in silent:  # somebody that it has left behind holds its stdout
            task.cancel()
        await asyncio.gather(*self._reading, return_exceptions=True)

    async def stop(self) -> None:
        """End it: thawed, asked by the end of stdin, killed where it doesn't listen, with all that it has started."""
        if self.process is None:
            return
        if self.running:
            self._told_to_end = True
            self._signal(signal.SIGCONT)
            if self.process.stdin is not None:
                self.process.stdin.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE_S):
                    await self.process.wait()
            self._signal(signal.SIGKILL)
        await self.ended()


class Clients:
    """All clients of a scenario. ``commands``: other programs in place of the apps, by kind (or client name), as command lines."""

    def __init__(
        self,
        plans: list[ClientPlan],
        bootstrap: str,
        tell: Callable[..., object],
        commands: Mapping[str, str] | None = None,
    ) -> None:
        self._bootstrap, self._commands = bootstrap, dict(commands or {})
        self.all = {plan.name: Client(plan, self._command(plan), tell) for plan in plans if plan.kind != "outside"}

    def _command(self, plan: ClientPlan) -> list[str]:
        settings = json.dumps({"bootstrap": self._bootstrap, "client_id": plan.name, **plan.settings})
        own = self._commands.get(plan.name) or self._commands.get(plan.kind)
        if own is None and plan.kind != "crowd":
            own = self._commands.get("*")
        if own is not None and own not in _APPS:
            return [*shlex.split(own), settings]
        kind = own or plan.kind
        _need(kind)
        return [sys.executable, "-m", f"broker_sim.scenario.apps.{_APPS[kind]}", settings]

    def _one(self, name: str) -> Client:
        if name not in self.all:
            raise UsageError(f"the client {name} is somebody else's: only its owner can do that")
        return self.all[name]

    async def do(
        self, action: str, names: list[str], for_s: float | None, later: Callable[[float, Any], object]
    ) -> None:
        """Do ``action`` to the clients. ``later(seconds, call)`` undoes a freeze. Raises UsageError."""
        for name in names:
            client = self._one(name)
            if action == "start":
                await client.start()
            elif action == "crash":
                client.kill(signal.SIGKILL)
                await client.ended()
            elif action == "freeze":
                client.kill(signal.SIGSTOP)
                if for_s is not None:
                    later(for_s, client)
            elif action == "thaw":
                client.kill(signal.SIGCONT)
            elif action == "hang":
                client.command_line(f"hang {for_s if for_s is not None else 86_400}")
            else:
                client.command_line(action)

    async def start(self) -> None:
        """Start those that begin with the scenario."""
        for client in self.all.values():
            if client.plan.start:
                await client.start()

    async def stop_all(self) -> None:
        """End every process."""
        await asyncio.gather(*(client.stop() for client in self.all.values()))


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    """The lines of a stream as text; of one that is longer than the stream's limit what comes of it."""
    while True:
        try:
            line = await stream.readline()
        except ValueError:  # longer than the limit: what was read of it is gone
            continue
        if not line:
            return
        yield line.decode(errors="replace").rstrip()


def _need(kind: str) -> None:
    import importlib.util

    if importlib.util.find_spec(_NEEDS[kind]) is None:
        raise UsageError(
            f"clients of the kind {kind} need the package {_NEEDS[kind].replace('_', '-')}, which is not installed"
        )


async def outside(command: list[str], bootstrap: str) -> asyncio.subprocess.Process:
    """The user's own program: ``{bootstrap}`` in its arguments and BOOTSTRAP in its environment are the brokers' address."""
    words = [word.replace("{bootstrap}", bootstrap) for word in command]
    environment = {**os.environ, "BOOTSTRAP": bootstrap, "BROKER_SIM_BOOTSTRAP": bootstrap}
    try:
        return await asyncio.create_subprocess_exec(
            *words, env=environment, stdin=asyncio.subprocess.DEVNULL, start_new_session=True
        )
    except OSError as error:
        raise UsageError(f"{words[0]} can't be started: {error.strerror}") from None
