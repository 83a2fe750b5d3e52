"""Tests planted to hang are named with the stacks of all threads, and the others run, each once."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

SOON = """
import pytest_timeout

from tests.support import hangs

running = []


def pytest_runtest_setup(item):
    running[:] = [item]


def hang_soon(in_c=False):
    [item] = running
    usual = item.stash.get(hangs._SETTINGS, None)
    hangs.GRACE_S = 0.2 if in_c else 60
    settings = pytest_timeout.Settings(0.2, "signal", False, False)
    item.config.hook.pytest_timeout_set_timer(item=item, settings=settings)
    item.stash[hangs._SETTINGS] = usual  # a teardown behind it has its time
"""
"""The time of a test begins where it hangs: however busy the machine is, it is over there and not before. The watchdog is in a hurry
only where nothing else ends the test."""

PLANTED = """
import asyncio, collections, itertools, pathlib, subprocess, sys, threading

import pytest

from conftest import hang_soon

SLEEPS = [sys.executable, "-c", "import time; time.sleep(600)"]
begun = pathlib.Path(__file__).with_name("begun")


@pytest.fixture(autouse=True)
def told(request):
    with begun.open("a") as file:
        file.write(request.node.name + "\\n")


def wait_in_a_thread():
    threading.Event().wait()


def hold_the_interpreter():
    collections.deque(itertools.repeat(None), maxlen=0)


def test_first():
    pass


def test_lock():
    threading.Thread(target=wait_in_a_thread, daemon=True).start()
    hang_soon()
    threading.Event().wait()


def test_c_call():
    threading.Thread(target=wait_in_a_thread, daemon=True).start()
    hang_soon(in_c=True)
    hold_the_interpreter()


async def test_loop():
    hang_soon()
    await asyncio.Event().wait()


def test_child():
    hang_soon()
    subprocess.run(SLEEPS)


def test_child_of_its_own():
    hang_soon()
    subprocess.Popen(SLEEPS).wait()


@pytest.fixture(scope="module")
def never_made():
    hang_soon()
    threading.Event().wait()


def test_of_the_module_1(never_made):
    pass


def test_of_the_module_2(never_made):
    pass


@pytest.fixture
def never_ends():
    yield
    hang_soon()
    threading.Event().wait()


def test_teardown(never_ends):
    pass


def test_fails_and_then_teardown(never_ends):
    raise AssertionError("said as well")


def test_last():
    pass
"""


def test_who_hangs_is_named_and_the_others_run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("CI", raising=False)
    pytester.makeconftest(SOON)
    pytester.makepyfile(test_planted=PLANTED)
    result = pytester.runpytest_subprocess(
        *("-p", "tests.conftest", "-p", "no:randomly", "-n", "1", "-rA", "-o", "asyncio_mode=auto"),
        *("-o", "asyncio_default_fixture_loop_scope=function"),
    )
    out, err = result.stdout.str(), result.stderr.str()
    outcomes = dict(reversed(found) for found in re.findall(r"^(PASSED|FAILED|ERROR) \S+::(\w+)", out, re.MULTILINE))
    names = re.findall(r"def (test_\w+)", PLANTED)
    assert {name for name in names if outcomes[name] == "PASSED"} == {"test_first", "test_last"}, out
    begun = Counter((pytester.path / "begun").read_text().split())
    assert begun == Counter(name for name in names if not name.startswith("test_of_the_module")), begun

    # those that Python interrupts: where they are, and where other threads are
    for name in names:
        if outcomes[name] != "PASSED" and name != "test_c_call":
            section = out.partition(f" {name} __")[2].partition("\n___")[0]
            assert "Timeout (>0.2s) from pytest-timeout" in section, out
    lock = out.partition(" test_lock __")[2].partition("\n___")[0]
    assert re.search(r"Stack of Thread-\d+ \(wait_in_a_thread\)(.*\n)+.*in wait_in_a_thread", lock), lock
    assert re.search(r"Captured left behind teardown -+\nthread 'Thread-\d+ \(wait_in_a_thread\)'", lock), lock
    child = out.partition(" test_child_of_its_own __")[2].partition("\n___")[0]
    assert re.search(r"Captured left behind teardown -+\nchild process \d+ \(.*time\.sleep\(600\)\)", child), child
    loop = out.partition(" test_loop __")[2].partition("\n___")[0]
    assert re.search(
        r"Pending tasks -+\n(.*\n)*Task-\d+\n  File .*test_planted\.py.*in test_loop\n.*in wait\n", loop
    ), loop

    # the one that it can't: all stacks, and the test's name
    assert re.search(r"worker 'gw\d' crashed while running '.*::test_c_call'", out), out
    assert re.search(r"Timeout \(0:00:00\.4\d*\)!(.*\n)+.*in wait_in_a_thread", err), err
    assert re.search(r"in hold_the_interpreter\n.*in test_c_call", err), err
