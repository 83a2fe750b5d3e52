"""``broker-sim serve`` as a process of its own, as a user starts it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

READY = "broker-sim ready: bootstrap="
DEADLINE_S = 60.0


class BrokerProcess:
    """Started when constructed; ``bootstrap`` is its address. Leaving the ``with`` block ends it, by SIGTERM if it still runs."""

    def __init__(self, *arguments: str, stderr: Path | None = None) -> None:
        with contextlib.ExitStack() as stack:
            log = subprocess.DEVNULL if stderr is None else stack.enter_context(stderr.open("a"))
            self.process = subprocess.Popen(
                [sys.executable, "-m", "broker_sim", "serve", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.bootstrap = self._wait_until_ready()

    def _wait_until_ready(self) -> str:
        assert self.process.stdout is not None
        deadline = time.monotonic() + DEADLINE_S
        readable, _, _ = select.select([self.process.stdout], [], [], deadline - time.monotonic())
        line = self.process.stdout.readline() if readable else ""
        if not line.startswith(READY):
            self.kill()
            raise AssertionError(f"no line {READY!r} within {DEADLINE_S} s, but {line!r}")
        return line.removeprefix(READY).strip()

    def kill(self) -> None:
        """SIGKILL: no handler runs."""
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(DEADLINE_S)

    def stop(self) -> int:
        """SIGTERM; returns the exit status."""
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGTERM)
        return self.process.wait(DEADLINE_S)

    def __enter__(self) -> BrokerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        finally:
            if self.process.stdout is not None:
                self.process.stdout.close()
