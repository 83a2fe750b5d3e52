"""Test programs of other languages' users, run as their users run them: against ``broker-sim`` on the PATH, by HTTP alone."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

BUILD_S = 240.0
RUN_S = 120.0


def compiled(command: Sequence[str], cwd: Path) -> None:
    """Run a compiler; what it refuses fails the test, for the tools and what is compiled against are there."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=BUILD_S, check=False)
    if done.returncode != 0:
        pytest.fail(f"{' '.join(command[:2])} failed:\n{done.stdout}{done.stderr}", pytrace=False)


def on_path(directory: Path) -> dict[str, str]:
    """The environment in which ``broker-sim`` is this package; ``directory`` gets the program."""
    program = directory / "broker-sim"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m broker_sim "$@"\n')
    program.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name != "BROKER_SIM_COMMAND"}
    return {**environment, "PATH": os.pathsep.join([str(directory), os.environ.get("PATH", "")])}


FETCH = """\
#!/bin/sh
[ "$1 $2 $3 $4" = "{expected}" ] || {{ echo "unexpected: $*" >&2; exit 2; }}
while [ "$1" != serve ]; do shift; done
exec {python} -m broker_sim "$@"
"""


FETCHERS = {
    "uvx": "--from broker-sim[control,tls] broker-sim serve",
    "pipx": "run --spec broker-sim[control,tls] broker-sim",
}
"""Programs that fetch the package -> the first four arguments by which they are asked to."""


def alone(directory: Path, fetcher: str = "", *, asked: bool = True) -> dict[str, str]:
    """An environment without ``broker-sim``. At most ``fetcher``, one of FETCHERS, is on its PATH, as a program that runs this package;
    ``asked``: whether it is asked for."""
    path = directory / "path"
    path.mkdir()
    if fetcher:
        (path / fetcher).write_text(FETCH.format(expected=FETCHERS[fetcher], python=shlex.quote(sys.executable)))
        (path / fetcher).chmod(0o755)
    return {**on_path(directory), "PATH": str(path), "BROKER_SIM_FETCH": "1" if fetcher and asked else ""}


@contextlib.contextmanager
def serving() -> Iterator[str]:
    """The address of a control server that runs meanwhile."""
    command = [sys.executable, "-m", "broker_sim", "serve", "--control", "0", "--until-eof"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        yield lines[1].removeprefix("broker-sim control: ").strip()
        process.stdin.close()  # it ends


def run(command: Sequence[str], cwd: Path, environment: dict[str, str], what: str) -> tuple[int, str]:
    """The exit code and the output of a test program. What it started ends with it; one that hangs fails the test."""
    output = cwd / "output"
    with output.open("w") as file:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(RUN_S)
        except subprocess.TimeoutExpired:
            pytest.fail(f"waited {RUN_S:g} s for {what} to end; up to now:\n{output.read_text()}", pytrace=False)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return code, output.read_text()
