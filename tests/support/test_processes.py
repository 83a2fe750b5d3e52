"""A process that hangs is told with its stacks; one that ends says what it said."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.support import processes

HANGS = """
import sys, threading
def waits_for_nobody():
    print("not well", file=sys.stderr, flush=True)
    print("on the way", flush=True)
    threading.Event().wait()
waits_for_nobody()
"""


def test_what_a_process_says_and_how_it_ends() -> None:
    code = "import sys; print(sys.stdin.read()[::-1]); print('no', file=sys.stderr); sys.exit(3)"
    done = processes.run([sys.executable, "-c", code], input="abc")
    assert (done.returncode, done.stdout, done.stderr) == (3, "cba\n", "no\n")


def test_lines_come_one_by_one_and_the_rest_at_the_end() -> None:
    process = processes.start([sys.executable, "-c", "print('a\\nb\\nc', end='')"])
    assert processes.line(process, "a") == "a\n"
    assert processes.finish(process, "the end") == ("b\nc", "")
    assert process.returncode == 0
    process = processes.start([sys.executable, "-c", "print('half', end='')"])
    assert processes.line(process, "a line") == "half"
    processes.finish(process, "the end")


def test_a_line_is_awaited_by_what_it_holds() -> None:
    code = "import sys; print('a\\nready: b\\nc', file=sys.stderr)"
    process = processes.start([sys.executable, "-c", code])
    assert processes.line_with(process, "ready", of="stderr") == "ready: b\n"
    with pytest.raises(pytest.fail.Exception, match="ended without a line with 'ready'"):
        processes.line_with(process, "ready", of="stderr")
    processes.finish(process, "the end")


@pytest.mark.parametrize("wait", ["finish", "line"])
def test_a_process_that_hangs_is_told_with_its_stacks(wait: str, monkeypatch: pytest.MonkeyPatch) -> None:
    process = processes.start([sys.executable, "-c", HANGS])
    assert processes.line(process, "its first words") == "on the way\n"
    monkeypatch.setattr(processes, "DEADLINE_S", 0)
    with pytest.raises(pytest.fail.Exception) as failed:
        getattr(processes, wait)(process, "the answer to everything")
    told = str(failed.value)
    assert told.startswith("waited 0 s for the answer to everything, in vain; process ")
    assert "not well" in told
    assert "in waits_for_nobody" in told
    assert process.returncode is not None


def test_stacks_may_come_on_another_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
import signal, sys
signal.signal(signal.SIGQUIT, lambda *_: sys.exit("stacks as a JVM tells them"))
print("ready", flush=True)
signal.pause()
"""
    process = processes.start([sys.executable, "-c", code])
    processes.line_with(process, "ready")
    monkeypatch.setattr(processes, "DEADLINE_S", 0)
    with pytest.raises(pytest.fail.Exception, match="stacks as a JVM tells them"):
        processes.finish(process, "its end", stacks_on=signal.SIGQUIT)


def test_one_that_is_killed_leaves_nothing_open() -> None:
    process = processes.start([sys.executable, "-c", HANGS])
    processes.kill(process)
    processes.kill(process)
    assert process.stdout is not None
    assert process.stdout.closed
    assert isinstance(process, subprocess.Popen)
