"""The processes of the demo: the broker and the consumers."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable
from pathlib import Path
from typing import Any

from broker_sim.demo.consumer import SESSION_MS, TOPIC

READY_S = 20.0
PARTITIONS = 6
OFFSETS_PARTITIONS = 10
CONFIG = {
    "group.initial.rebalance.delay.ms": "700",  # Kafka's 3000 is long to look at
    "group.min.session.timeout.ms": str(SESSION_MS // 2),
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
}


class DemoFailed(Exception):
    """Something that had to happen didn't; the text says what."""


class DemoBroker:
    """`broker-sim serve` on a data directory; after a kill it starts again on the same directory and port."""

    def __init__(self, directory: Path, as_version: str) -> None:
        self.directory = directory
        self.as_version = as_version
        self.port = 0
        self.process: Process | None = None

    @property
    def log(self) -> Path:
        return self.directory / "broker.log"

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Returns when clients can connect. Raises DemoFailed."""
        command = [sys.executable, "-m", "broker_sim", "serve", "--port", str(self.port)]
        command += ["--data", str(self.directory / "data"), "--topic", f"{TOPIC}:{PARTITIONS}"]
        command += ["--as-version", self.as_version]
        for name, value in CONFIG.items():
            command += ["--config", f"{name}={value}"]
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=PIPE, stderr=log)
        assert self.process.stdout is not None
        try:
            line = await asyncio.wait_for(self.process.stdout.readline(), READY_S)
        except TimeoutError:
            raise DemoFailed(
                f"waited {READY_S:.0f} s for the broker's address; its log ends:\n{tail(self.log)}"
            ) from None
        if b"bootstrap=" not in line:
            raise DemoFailed(f"the broker did not start: {tail(self.log)}")
        self.port = int(line.decode().strip().rpartition(":")[2])

    async def kill(self) -> None:
        """End the process with SIGKILL, without a flush of its files or a message to its peers."""
        if self.process is not None:
            await end(self.process)
            self.process = None


class ConsumerProcess:
    """One consumer process. ``heard(member, event)`` is called with each of its reports."""

    def __init__(self, name: str, directory: Path, heard: Callable[[ConsumerProcess, dict[str, Any]], None]) -> None:
        self.name = name
        self.log = directory / f"{name}.log"
        self.heard = heard
        self.owned: list[int] = []
        self.reads = 0
        self.reads_when_assigned = 0
        self.since_commit = 0
        self.ended = ""
        """Reason of the process's end: "killed" or "left"."""
        self.process: Process | None = None
        self._listening: asyncio.Task[None] | None = None

    async def start(self, bootstrap: str) -> None:
        """Start the process; what it does is heard."""
        command = [sys.executable, "-m", "broker_sim.demo.consumer", self.name, bootstrap]
        with self.log.open("wb") as log:
            self.process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=log)
        self._listening = asyncio.create_task(self._listen(self.process))

    async def _listen(self, process: Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            if line.endswith(b"\n"):  # a kill may have cut the last line
                self.heard(self, json.loads(line))
        code = await process.wait()
        if not self.ended:
            self.heard(self, {"event": "died", "code": code})

    def command(self, text: str) -> None:
        """Tell it ``fast`` or ``leave``."""
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode() + b"\n")

    async def kill(self) -> None:
        """SIGKILL: no LeaveGroup, no last commit."""
        if self.process is not None:
            self.ended = self.ended or "killed"
            await end(self.process)
        if self._listening is not None:
            await self._listening


async def end(process: Process) -> None:
    """Kill a process and wait for its end."""
    if process.returncode is None:
        process.kill()
    await process.wait()


def tail(path: Path, lines: int = 20) -> str:
    """The end of a log file."""
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) if path.exists() else ""
