"""The clients of a running scenario: one process each, told and listened to line by line (see apps).

Rules:
1. A crash is SIGKILL, a freeze SIGSTOP: the client gets no chance to say goodbye. A hang is an application that stops polling.
2. What a client tells goes into the journal as ``client`` events, in the order in which it came.
3. Nothing is left running: ``stop_all`` ends every process, thawed first.
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
from collections.abc import Callable, Mapping
from typing import Any

from broker_sim.scenario.model import ClientPlan
from broker_sim.words import UsageError

__all__ = ["Client", "Clients"]

_APPS = {"aiokafka": "aiokafka_app", "confluent": "confluent_app", "kafka-python": "kafka_python_app", "crowd": "crowd"}
_NEEDS = {"crowd": "protocol", "aiokafka": "aiokafka", "confluent": "confluent_kafka", "kafka-python": "kafka"}
_PATIENCE_S = 10.0
_TAIL = 20


class Client:
    """One client. ``tell(action, **details)`` hears what it says and what becomes of it."""

    def __init__(self, plan: ClientPlan, command: list[str], tell: Callable[..., object]) -> None:
        self.plan, self.command, self._tell = plan, command, tell
        self.process: asyncio.subprocess.Process | None = None
        self.errors: deque[str] = deque(maxlen=_TAIL)
        self._reading: list[asyncio.Task[None]] = []
        self._frozen = False

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.returncode is None

    async def start(self) -> None:
        """Start its process; nothing happens where it runs."""
        if self.running:
            return
        self.process = await asyncio.create_subprocess_exec(
            *self.command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=1 << 20,
        )
        self._frozen = False
        self._tell(self.plan.name, "started")
        self._reading = [
            asyncio.ensure_future(self._listen(self.process)),
            asyncio.ensure_future(self._log(self.process)),
        ]

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            try:
                said = json.loads(line)
                says = said.pop("says")
            except (ValueError, KeyError, AttributeError):
                self.errors.append(line.decode(errors="replace").rstrip())
                continue
            self._tell(self.plan.name, str(says), **said)
        code = await process.wait()
        self._tell(self.plan.name, "exited", code=code)

    async def _log(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        async for line in process.stderr:
            self.errors.append(line.decode(errors="replace").rstrip())

    def command_line(self, text: str) -> None:
        """A command of the line protocol. Raises UsageError where it doesn't run."""
        if not self.running or self.process is None or self.process.stdin is None:
            raise UsageError(f"the client {self.plan.name} is not running")
        self.process.stdin.write(f"{text}\n".encode())

    def kill(self, number: signal.Signals) -> None:
        """Send it a signal. Raises UsageError where it doesn't run."""
        if not self.running or self.process is None:
            raise UsageError(f"the client {self.plan.name} is not running")
        self._frozen = number is signal.SIGSTOP
        self.process.send_signal(number)

    async def ended(self) -> None:
        """Wait until its process is gone and all that it said is heard."""
        if self.process is not None:
            await self.process.wait()
            await asyncio.gather(*self._reading, return_exceptions=True)

    async def stop(self) -> None:
        """End it: thawed, asked by the end of stdin, killed where it doesn't listen."""
        if self.process is None:
            return
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGCONT)
            if self.process.stdin is not None:
                self.process.stdin.close()
            try:
                await asyncio.wait_for(self.process.wait(), 2.0)
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    self.process.kill()
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


def _need(kind: str) -> None:
    import importlib.util

    if importlib.util.find_spec(_NEEDS[kind]) is None:
        raise UsageError(
            f"clients of the kind {kind} need the package {_NEEDS[kind].replace('_', '-')}, which is not installed"
        )


async def outside(command: list[str], bootstrap: str, control: str | None) -> asyncio.subprocess.Process:
    """The user's own program: ``{bootstrap}`` in its arguments and BOOTSTRAP in its environment are the brokers' address."""
    words = [word.replace("{bootstrap}", bootstrap).replace("{control}", control or "") for word in command]
    environment = {**os.environ, "BOOTSTRAP": bootstrap, "BROKER_SIM_BOOTSTRAP": bootstrap}
    if control:
        environment["BROKER_SIM_CONTROL"] = control
    try:
        return await asyncio.create_subprocess_exec(
            *words, env=environment, stdin=asyncio.subprocess.DEVNULL, start_new_session=True
        )
    except OSError as error:
        raise UsageError(f"{words[0]} can't be started: {error.strerror}") from None
