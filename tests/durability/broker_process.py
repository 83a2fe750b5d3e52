"""``broker-sim serve`` as a process of its own, as a user starts it."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from tests.support import processes

READY = "broker-sim ready: bootstrap="


class BrokerProcess:
    """Started when constructed; ``bootstrap`` is its address. Leaving the ``with`` block ends it, by SIGTERM if it still runs."""

    def __init__(self, *arguments: str, stderr: Path | None = None) -> None:
        command = [sys.executable, "-m", "broker_sim", "serve", *arguments]
        with contextlib.ExitStack() as stack:
            log = subprocess.PIPE if stderr is None else stack.enter_context(stderr.open("ab"))
            self.process = processes.start(command, stderr=log)
        self.bootstrap = self._wait_until_ready()

    def _wait_until_ready(self) -> str:
        line = processes.line(self.process, f"the line {READY!r}")
        if not line.startswith(READY):
            processes.kill(self.process)
            raise AssertionError(f"no line {READY!r}, but {line!r}")
        return line.removeprefix(READY).strip()

    def kill(self) -> None:
        """SIGKILL: no handler runs."""
        processes.kill(self.process)

    def stop(self) -> int:
        """SIGTERM; returns the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            processes.finish(self.process, "the broker to end after SIGTERM")
        return self.process.returncode

    def __enter__(self) -> BrokerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        finally:
            processes.kill(self.process)
