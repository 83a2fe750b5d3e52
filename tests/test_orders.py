"""`make test-orders`: how often it runs the tests, in which orders, and beside how many busy loops."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ORDERS = Path(__file__).with_name("orders.py")

COUNTS = """
import os
import pathlib
import time

import pytest


def loops():
    '''Busy loops that the parent of this run has started.'''
    count = 0
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = stat.read_text().rpartition(") ")[2].split()[1]
            line = stat.with_name("cmdline").read_text()
        except OSError:
            continue
        count += parent == str(os.getppid()) and "while os.getppid()" in line
    return count


@pytest.mark.parametrize("number", range(9))
def test_it(number):
    with open("begun", "a") as file:
        file.write(f"{number}")
    if number == 0:
        with open("loops", "a") as file:
            file.write(f"{loops()}")


def test_second_run_is_red_where_it_is_told_to():
    if os.path.exists("second"):
        assert not os.path.exists("red")
    open("second", "w").close()
"""


def orders(pytester: pytest.Pytester, *arguments: str, load: str | None = None) -> subprocess.CompletedProcess[str]:
    """Call it."""
    pytester.makepyfile(test_counts=COUNTS)
    environment = {name: value for name, value in os.environ.items() if name not in ("CI", "LOAD")}
    if load is not None:
        environment["LOAD"] = load
    options = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    command = [sys.executable, str(ORDERS), *arguments, *options]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processes are counted in /proc")
@pytest.mark.parametrize(
    ("load", "loops", "told"),
    [
        (None, "01", ["", ", beside a busy loop"]),
        ("1", "11", [", beside a busy loop"] * 2),
        ("0", "00", ["", ""]),
    ],
)
def test_every_run_has_another_order_and_its_load(
    pytester: pytest.Pytester, load: str | None, loops: str, told: list[str]
) -> None:
    called = orders(pytester, "2", load=load)
    assert called.returncode == 0, called
    assert (pytester.path / "loops").read_text() == loops
    begun = (pytester.path / "begun").read_text()
    assert sorted(begun[:9]) == sorted(begun[9:]) == list("012345678")
    runs = re.findall(r"^== run (\d) of 2(.*): python .*--randomly-seed=(\d+)$", called.stdout, re.MULTILINE)
    assert [run[:2] for run in runs] == [("1", told[0]), ("2", told[1])]
    assert runs[0][2] != runs[1][2]
    assert called.stdout.endswith("2 runs in a row were green\n")


@pytest.mark.slow
def test_the_first_red_run_is_the_last_and_can_be_repeated(pytester: pytest.Pytester) -> None:
    (pytester.path / "red").touch()
    called = orders(pytester, "5", load="1")
    assert called.returncode == 1
    assert "== run 3" not in called.stdout
    assert re.search(r"red; 1 runs before it were green\. Again: python -m pytest .*--randomly-seed=\d+", called.stdout)


def test_a_load_that_is_no_number_is_refused(pytester: pytest.Pytester) -> None:
    called = orders(pytester, "5", load="much")
    assert called.returncode == 2
    assert called.stderr == "invalid LOAD 'much' (expected a number of busy loops)\n"
    assert called.stdout == ""
