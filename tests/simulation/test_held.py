"""A process that dies lets go of what it held of the real world: files, their locks, databases."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import fcntl
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker_sim.simulation import SimForbidden, simulate


def dies_and_starts_again(program: Callable[[], Any], *, sync: bool = False, **crash: Any) -> None:
    """Run it, let it crash after a second, and run it again."""
    with simulate(1) as sim:
        host = sim.host("app")
        host.spawn_sync(program) if sync else host.spawn(program)
        sim.run_for(1)
        host.crash(**crash)
        sim.run_for(1)
        host.restart()
        sim.run_for(1)


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("reads", [False, True])
def test_a_transaction_of_the_dead_is_rolled_back_and_its_locks_are_gone(
    tmp_path: Path, sync: bool, reads: bool
) -> None:
    path, seen = tmp_path / "db", list[list[int]]()
    with sqlite3.connect(path) as first:
        first.execute("create table t (x)")
        first.executemany("insert into t values (?)", [(1,), (2,)])
    first.close()

    def begin() -> tuple[Any, Any]:
        connection = sqlite3.connect(path)
        seen.append([x for (x,) in connection.execute("select x from t")])
        rows = connection.execute("select x from t")
        if reads:
            next(rows)  # as long as it is not read to its end it locks
        connection.execute("begin immediate")
        connection.execute("insert into t values (3)")
        return connection, rows

    async def program() -> None:
        held = begin()
        await asyncio.sleep(1000)
        del held

    def sync_program() -> None:
        held = begin()
        time.sleep(1000)
        del held

    dies_and_starts_again(sync_program if sync else program, sync=sync)
    assert seen == [[1, 2], [1, 2]]


def test_a_database_that_somebody_alive_has_locked_is_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "db"

    async def program() -> None:
        connection = sqlite3.connect(path, timeout=60)
        connection.execute("begin exclusive")
        await asyncio.sleep(1000)

    with simulate(1) as sim:
        sim.host("one").spawn(program)
        sim.run_for(1)
        sim.host("other").spawn(program)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            sim.run_for(1)


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("use", ["execute", "cursor", "cursor of the module", "commit"])
def test_a_connection_that_was_opened_before_the_run_is_refused_with_what_to_do_instead(
    tmp_path: Path, use: str, sync: bool
) -> None:
    """A connection from before the run belongs to no process: the transaction of one that died would be committed by the next one."""
    of_the_module = sqlite3.connect(tmp_path / "db", check_same_thread=False)
    of_the_module.execute("create table t (x)")
    cursor = of_the_module.cursor()
    ways: dict[str, Callable[[], object]] = {
        "execute": lambda: of_the_module.execute("insert into t values (1)"),
        "cursor": lambda: of_the_module.cursor().execute("insert into t values (1)"),
        "cursor of the module": lambda: cursor.execute("insert into t values (1)"),
        "commit": lambda: of_the_module.commit(),
    }

    def uses_it() -> None:
        with contextlib.suppress(Exception):  # as a program may: the run ends all the same
            ways[use]()

    async def program() -> None:
        uses_it()

    with simulate(1) as sim:
        of_the_module.execute("insert into t values (0)")  # the test may: it does not crash
        host = sim.host("app")
        host.spawn_sync(uses_it) if sync else host.spawn(program)
        with pytest.raises(SimForbidden, match=r"on host app at test_held.py:\d+: open it in the program"):
            sim.run_for(1)
    assert of_the_module.execute("select x from t").fetchall() == [(0,)]
    of_the_module.close()


def test_what_a_process_commits_is_there_for_the_next_one_and_what_it_does_not_is_not(tmp_path: Path) -> None:
    path, seen = tmp_path / "db", list[list[int]]()
    with sqlite3.connect(path) as first:
        first.execute("create table t (x)")
    first.close()

    async def program() -> None:
        connection = sqlite3.connect(path)
        seen.append([x for (x,) in connection.execute("select x from t")])
        connection.execute("insert into t values (1)")
        connection.commit()
        connection.execute("insert into t values (2)")
        await asyncio.sleep(1000)

    dies_and_starts_again(program)
    assert seen == [[], [1]]


def test_a_connection_of_another_process_is_refused_too() -> None:
    shared: list[sqlite3.Connection] = []

    async def opens() -> None:
        shared.append(sqlite3.connect(":memory:"))

    async def uses() -> None:
        shared[0].execute("select 1")

    with simulate(1) as sim:
        sim.host("a").spawn(opens)
        sim.run_for(1)
        sim.host("b").spawn(uses)
        with pytest.raises(SimForbidden, match="that this process has not opened"):
            sim.run_for(1)
    shared[0].close()


@pytest.mark.parametrize("opened", ["open", "path", "os.open", "temporary"])
def test_a_lock_on_a_file_dies_with_its_process(tmp_path: Path, opened: str) -> None:
    path, locked = tmp_path / "lock", list[int]()

    async def program() -> None:
        file: Any = None
        if opened == "os.open":
            file = os.open(path, os.O_RDWR | os.O_CREAT)
        elif opened == "temporary":
            file = tempfile.NamedTemporaryFile(dir=tmp_path)  # noqa: SIM115
        else:
            file = builtins.open(path, "w") if opened == "open" else path.open("w")  # noqa: SIM115
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        locked.append(1)
        try:
            await asyncio.sleep(1000)
        finally:  # at the end of the simulation
            os.close(file) if isinstance(file, int) else file.close()

    dies_and_starts_again(program)
    assert locked == [1, 1]


def test_what_was_not_flushed_is_lost_with_a_process_and_what_was_is_there(tmp_path: Path) -> None:
    path = tmp_path / "out"

    async def program() -> None:
        with path.open("a") as file:
            file.write("flushed ")
            file.flush()
            file.write("not flushed ")
            await asyncio.sleep(1000)

    with simulate(1) as sim:
        sim.host("app").spawn(program)
        sim.run_for(1)
        sim.host("app").crash()
    assert path.read_text() == "flushed "


def test_a_number_that_the_dead_had_closed_is_left_to_who_has_it_now(tmp_path: Path) -> None:
    numbers: list[int] = []

    async def closes() -> None:
        with (tmp_path / "one").open("w") as file:
            numbers.append(file.fileno())
        await asyncio.sleep(1000)

    async def writes() -> None:
        with (tmp_path / "two").open("w") as file:
            numbers.append(file.fileno())
            await asyncio.sleep(2)
            file.write("here")

    with simulate(1) as sim:
        sim.host("one").spawn(closes)
        sim.run_for(1)
        sim.host("two").spawn(writes)
        sim.run_for(1)
        assert len(set(numbers)) == 1
        sim.host("one").crash()
        sim.run_for(5)
    assert (tmp_path / "two").read_text() == "here"


def test_files_of_the_test_outlive_everybody(tmp_path: Path) -> None:
    with (tmp_path / "mine").open("w") as before, simulate(1) as sim:
        during = (tmp_path / "too").open("w")
        sim.host("app").spawn(lambda: asyncio.sleep(1000))
        sim.run_for(1)
        sim.host("app").crash()
        before.write("1")
        during.write("2")
        during.close()
    assert (tmp_path / "mine").read_text() + (tmp_path / "too").read_text() == "12"


def test_a_device_that_gives_chance_makes_a_run_that_is_not_pinned() -> None:
    async def program() -> None:
        with builtins.open("/dev/urandom", "rb") as file:
            file.read(1)

    with simulate(1) as sim:
        sim.host("app").spawn(program)
        sim.run_for(1)
        assert "/dev/urandom was opened: take os.urandom" in sim.not_pinned
