"""Processes that tests start, and waits for them which no busy machine cuts short.

    done = run([sys.executable, "-m", "broker_sim", "where", "billing"])    # to its end: exit code, stdout, stderr
    process = start([sys.executable, "-m", "broker_sim", "serve"])          # its stdout and stderr are pipes
    ready = line(process, "the ready line")                                 # the next line of its stdout
    out, errors = finish(process, "serve to end after SIGTERM")             # the rest of both, once it has ended

A wait lasts `DEADLINE_S`, which measures nothing: a process that has not answered by then hangs. The test fails with what was waited
for, the end of the process's output and the stacks of all its threads: those of Python on SIGABRT, through faulthandler; those of a JVM
or of Go on SIGQUIT (``stacks_on=signal.SIGQUIT``).
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

import pytest

DEADLINE_S = 300.0
"""Below the timeout of a test, whose report would hold the stacks of the wrong process."""

_STACKS_S = 10.0
_TAIL = 8_000
Command = Sequence[str | os.PathLike[str]]


def start(
    command: Command,
    *,
    env: Mapping[str, str] | None = None,
    stdin: int = subprocess.DEVNULL,
    stdout: int | IO[Any] = subprocess.PIPE,
    stderr: int | IO[Any] = subprocess.PIPE,
    **options: Any,
) -> subprocess.Popen[str]:
    """A process that shows its stacks on SIGABRT. ``env``: all of its environment, as ``subprocess`` takes it."""
    environment = {**(os.environ if env is None else env), "PYTHONFAULTHANDLER": "1"}
    return subprocess.Popen(command, env=environment, stdin=stdin, stdout=stdout, stderr=stderr, text=True, **options)


def run(
    command: Command,
    *,
    input: str | None = None,
    check: bool = False,
    deadline_s: float | None = None,
    stacks_on: signal.Signals = signal.SIGABRT,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """A process to its end. ``input``: what it reads. ``check``: fail the test unless its exit code is 0.
    ``deadline_s``: another deadline, for a process that computes for long."""
    if input is not None:
        options["stdin"] = subprocess.PIPE
    process = start(command, **options)
    out, errors = finish(process, f"{_title(command)} to end", input=input, deadline_s=deadline_s, stacks_on=stacks_on)
    assert not check or process.returncode == 0, f"{_title(command)} ended with code {process.returncode}\n{errors}"
    return subprocess.CompletedProcess(process.args, process.returncode, out, errors)


def finish(
    process: subprocess.Popen[str],
    what: str,
    *,
    input: str | None = None,
    deadline_s: float | None = None,
    stacks_on: signal.Signals = signal.SIGABRT,
) -> tuple[str, str]:
    """Wait for the end of a process. Returns what it still had to say on stdout and stderr, where these are pipes."""
    try:
        out, errors = process.communicate(input, DEADLINE_S if deadline_s is None else deadline_s)
    except subprocess.TimeoutExpired as late:
        hangs(process, what, stacks_on=stacks_on, waited_s=late.timeout)
    except BaseException:
        kill(process)
        raise
    return out or "", errors or ""


def line(process: subprocess.Popen[str], what: str, *, of: str = "stdout") -> str:
    """The next line of stdout, or of stderr, or what there is of it where the process has ended. ``finish`` gives what follows it."""
    stream: IO[str] | None = getattr(process, of)
    assert stream is not None
    deadline_s = time.monotonic() + DEADLINE_S
    text = bytearray()
    while not text.endswith(b"\n"):
        ready, _, _ = select.select([stream], [], [], max(0.0, deadline_s - time.monotonic()))
        if not ready:
            hangs(process, what, said=text.decode(errors="replace"))
        byte = os.read(stream.fileno(), 1)
        if not byte:
            break
        text += byte
    return text.decode()


def line_with(process: subprocess.Popen[str], part: str, *, of: str = "stdout") -> str:
    """The next line that holds ``part``; fails the test where the process ends without one."""
    lines: list[str] = []
    while part not in (text := line(process, f"a line with {part!r}", of=of)):
        lines.append(text)
        if not text.endswith("\n"):
            pytest.fail(f"{_title(process.args)} ended without a line with {part!r}:\n{''.join(lines)}", pytrace=False)
    return text


def hangs(
    process: subprocess.Popen[str],
    what: str,
    *,
    said: str = "",
    stacks_on: signal.Signals = signal.SIGABRT,
    waited_s: float | None = None,
) -> NoReturn:
    """Fail the test: tell what the process was waited for, what it has said, and where its threads are. It ends."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(stacks_on)
    try:
        out, errors = process.communicate(timeout=_STACKS_S)
    except subprocess.TimeoutExpired:  # a JVM goes on after its stacks; a process that is stopped takes no other signal
        process.kill()
        out, errors = process.communicate()
    waited_s = DEADLINE_S if waited_s is None else waited_s
    told = [f"waited {waited_s:g} s for {what}, in vain; process {process.pid}: {_title(process.args)}"]
    for name, text in (("stdout", said + (out or "")), ("stderr and stacks", errors or "")):
        told += [f"--- {name}", text[-_TAIL:].rstrip()]
    pytest.fail("\n".join(told), pytrace=False)


def kill(process: subprocess.Popen[str]) -> None:
    """SIGKILL, where it still runs; its pipes are closed."""
    if process.poll() is None:
        process.kill()
    with contextlib.suppress(ValueError):  # its pipes are closed already
        process.communicate()


def _title(command: Any) -> str:
    words = [command] if isinstance(command, str | Path) else list(map(os.fspath, command))
    return " ".join(word if len(word) < 100 else f"{word[:100]}..." for word in words)
