"""The harness side of the line protocol (its shape stands in python/line_protocol.py): processes, members, waiting.

Rules:
1. Nothing sleeps to wait for an event: `eventually` polls with a deadline and says what it waited for and what it saw.
2. A call to a driver has a deadline too; a driver that died answers every open call with the tail of its log.
3. A crash is SIGKILL of the process, a freeze SIGSTOP: the client gets no chance to say goodbye.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

CALL_S = 25.0
WAIT_S = 15.0
PROBE_EVERY_S = 0.03

Partition = tuple[str, int]


class ClientError(Exception):
    """Error that the client answered: its exception's type and message."""

    def __init__(self, op: str, error: dict[str, str]) -> None:
        super().__init__(f"{op}: {error['type']}: {error['message']}")
        self.type = error["type"]
        self.message = error["message"]


class Driver:
    """One driver process: `call` sends a request and waits for its reply, `send` gives the reply's future."""

    def __init__(self, command: Sequence[str], log_path: Path, environment: dict[str, str] | None = None) -> None:
        self.log_path = log_path
        self._ids = itertools.count(1)
        self._open: dict[int, tuple[str, Future[Any]]] = {}
        self._lock = threading.Lock()
        with log_path.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **(environment or {})},
                text=True,
                bufsize=1,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def call(self, op: str, timeout_s: float = CALL_S, **arguments: Any) -> Any:
        future = self.send(op, **arguments)
        try:
            return future.result(timeout_s)
        except TimeoutError:
            message = f"waited {timeout_s} s for the driver's answer to {op} {arguments}; its log ends:\n{self.tail()}"
            raise AssertionError(message) from None

    def send(self, op: str, **arguments: Any) -> Future[Any]:
        request_id = next(self._ids)
        future: Future[Any] = Future()
        with self._lock:
            self._open[request_id] = (op, future)
        try:
            assert self.process.stdin is not None
            self.process.stdin.write(json.dumps({"id": request_id, "op": op, **arguments}) + "\n")
            self.process.stdin.flush()
        except (OSError, ValueError):
            self._fail_open_calls()
        return future

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            reply = json.loads(line)
            with self._lock:
                op, future = self._open.pop(reply["id"])
            if "error" in reply:
                future.set_exception(ClientError(op, reply["error"]))
            else:
                future.set_result(reply["ok"])
        self._fail_open_calls()

    def _fail_open_calls(self) -> None:
        with self._lock:
            lost, self._open = self._open, {}
        for op, future in lost.values():
            future.set_exception(
                AssertionError(f"the driver ended before it answered {op}; its log ends:\n{self.tail()}")
            )

    def crash(self) -> None:
        self._signal(signal.SIGKILL)
        self.process.wait(10)

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self.process.poll() is None:
            os.kill(self.process.pid, number)

    def close(self) -> None:
        """Ends the process: the end of stdin asks it to, SIGKILL is for one that does not listen."""
        self.thaw()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.crash()
        self._reader.join(5)
        self.process.stdout.close()

    def log(self, start: int = 0) -> str:
        """Return the text that the process wrote to stderr, from byte `start` on."""
        with self.log_path.open("rb") as handle:
            handle.seek(start)
            return handle.read().decode(errors="replace")

    def tail(self, lines: int = 30) -> str:
        return "\n".join(self.log().splitlines()[-lines:])


class Member:
    """One consumer inside a driver; it polls by itself until `leave`."""

    def __init__(self, driver: Driver, name: str, options: dict[str, Any]) -> None:
        self.driver = driver
        self.name = name
        self.options = options
        self.left = False

    def start(self) -> Member:
        self.call("start", **self.options)
        return self

    def call(self, op: str, **arguments: Any) -> Any:
        return self.driver.call(op, member=self.name, **arguments)

    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = self.call("state")
        return state

    def assignment(self) -> set[Partition]:
        return partitions(self.state()["assignment"])

    def records(self) -> list[Record]:
        return [Record(*row) for row in self.state()["records"]]

    def values(self) -> list[str]:
        return [record.value for record in self.records()]

    def errors(self) -> list[str]:
        return [f"{error['type']}: {error['message']}" for error in self.state()["errors"]]

    def commit(self, how: str = "sync", offsets: Iterable[tuple[str, int, int, str]] | None = None) -> None:
        self.call("commit", how=how, offsets=None if offsets is None else [list(row) for row in offsets])

    def position(self, partition: Partition) -> int:
        ((_topic, _index, offset),) = self.call("position", partitions=[partition])
        return int(offset)

    def leave(self) -> None:
        self.left = True
        self.call("leave")

    def owns(self, expected: set[Partition]) -> None:
        """Waits until this member has been assigned exactly `expected`."""
        eventually(f"{self.name} owns {sorted(expected)}", self.assignment, lambda owned: owned == expected)

    def reads(self, expected: Iterable[str]) -> list[Record]:
        """Waits until every value of `expected` has arrived, and gives all records read so far."""
        wanted = set(expected)
        eventually(f"{self.name} reads {len(wanted)} values", self.values, lambda values: wanted <= set(values))
        return self.records()

    def fails(self, pattern: Callable[[str], Any]) -> None:
        """Waits until polling gives an error that `pattern` (a compiled regex's search) accepts."""
        eventually(f"{self.name} fails", self.errors, lambda errors: any(map(pattern, errors)))


class Record:
    """A record as a driver reports it."""

    def __init__(self, topic: str, partition: int, offset: int, key: str | None, value: str, timestamp_ms: int) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.key = key
        self.value = value
        self.timestamp_ms = timestamp_ms

    def __repr__(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset}:{self.value[:40]}"


def partitions(rows: Iterable[Sequence[Any]]) -> set[Partition]:
    return {(row[0], row[1]) for row in rows}


def eventually(
    what: str, probe: Callable[[], Any], accepts: Callable[[Any], Any] = bool, timeout_s: float = WAIT_S
) -> Any:
    """Calls `probe` until `accepts` its value, and returns that value."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = probe()
        if accepts(value):
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s} s until {what}; last seen: {value!r}")
        time.sleep(PROBE_EVERY_S)
