"""`broker-sim serve` as a process, started as a user would: three brokers, waited for by their ready line."""

from __future__ import annotations

import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

BROKERS = 3
READY_S = 60.0


class Simulator:
    """One `broker-sim serve`; `kill` is SIGKILL, after which `start` brings it up again on the same data and `port`."""

    def __init__(
        self,
        log_path: Path,
        config: Mapping[str, object],
        *,
        as_version: str | None = None,
        data: Path | None = None,
        port: int | None = None,
    ) -> None:
        self.log_path = log_path
        self.bootstrap = ""
        self._command = [sys.executable, "-m", "broker_sim", "serve", "--brokers", str(BROKERS)]
        if as_version:
            self._command += ["--as-version", as_version]
        if data:
            self._command += ["--data", str(data)]
        if port:
            self._command += ["--port", str(port)]
        for name, value in config.items():
            self._command += ["--config", f"{name}={value}"]
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Simulator:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self.bootstrap = self._bootstrap_line(self._process)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
        assert process.stdout is not None
        process.stdout.close()

    def _bootstrap_line(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            if select.select([process.stdout], [], [], 0.1)[0]:
                line = process.stdout.readline().strip()
                if line:
                    return line.rpartition("=")[2]
                break
        log = self.log_path.read_text()[-3000:]
        self.stop()
        raise AssertionError(f"waited {READY_S} s for the simulator's ready line; its log:\n{log}")
