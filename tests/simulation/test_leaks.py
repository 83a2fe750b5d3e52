"""Time and chance that a program's modules took before the run: virtual, the same in every process, and given back."""

from __future__ import annotations

import copy
import gc
import logging
import os
import platform
import random
import re
import resource
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from broker_sim.simulation import SimForbidden, simulate
from broker_sim.simulation.virtual import patches
from broker_sim.simulation.virtual.patches import DOORS
from tests.simulation import leaks
from tests.simulation.leaks import LEAKS, what_is_seen
from tests.simulation.test_determinism import in_fresh_processes


@pytest.fixture(scope="module")
def told() -> list[dict[str, Any]]:
    """By two fresh interpreters."""
    return in_fresh_processes([], ["1", "2"], module="tests.simulation.leaks")


@pytest.mark.parametrize("leak", LEAKS)
def test_what_a_module_has_taken_is_the_same_in_every_process(told: list[dict[str, Any]], leak: str) -> None:
    first, second = (one["seen"][leak] for one in told)
    assert first == second


def test_it_is_the_same_again_in_one_process_and_another_for_another_seed() -> None:
    first, again, other = what_is_seen(7)["seen"], what_is_seen(7)["seen"], what_is_seen(8)["seen"]
    assert first == again
    for leak in ("module-level Random()", "Random() as a default", "numpy's generators of a module", "ssl.RAND_bytes"):
        assert first[leak] != other[leak]


def _held() -> list[Any]:
    """What the module has, object by object."""
    attribute, event = leaks._Attribute, leaks._Event
    return [
        *(leaks.seconds, leaks.monotonic, leaks._in_a_list[0], leaks._in_a_dict["clock"], leaks._now, leaks.urandom),
        *(leaks._by_default.__defaults__[0], leaks._by_keyword.__kwdefaults__["clock"], leaks._slots.clock),
        *(leaks._closure.__closure__[0].cell_contents, attribute.clock, attribute.stamp, leaks._object.clock),
        *(event.__dataclass_fields__["at"].default_factory, event.__dataclass_fields__["id"].default_factory.args[0:0]),
        *(leaks.LEAKS["functools.partial"].func, leaks.draw, leaks.choice, leaks.getpid),
    ]


def test_all_is_given_back_to_the_same_object_even_where_a_run_fails() -> None:
    before, during = _held(), list[Any]()
    states = [copy.deepcopy(each) for each in (leaks._rng.getstate(), leaks._numpys.bit_generator.state)]
    with pytest.raises(ZeroDivisionError), simulate(1):  # noqa: PT012
        during += _held()
        leaks._rng.random(), leaks._numpys.random()
        _ = 1 / 0
    assert [id(one) for one in _held()] == [id(one) for one in before]
    assert sum(a is not b for a, b in zip(before, during, strict=True)) == len(before) - 1
    assert [leaks._rng.getstate(), leaks._numpys.bit_generator.state] == states


def test_who_takes_a_function_between_two_runs_is_found_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    with simulate(1):
        pass
    monkeypatch.setitem(leaks._in_a_dict, "later", time.time)
    with simulate(1, epoch_ms=1_600_000_000_000):
        assert leaks._in_a_dict["later"]() == 1_600_000_000
    assert leaks._in_a_dict["later"] is time.time


def test_what_raises_whatever_it_is_asked_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy whose context is not there, as Flask's globals are between requests."""

    class Proxy:
        def __getattribute__(self, name: str) -> object:
            raise RuntimeError(f"working outside of a context: {name}")

    there = Proxy()
    monkeypatch.setitem(globals(), "_proxy", there)
    monkeypatch.setitem(leaks._in_a_dict, "proxy", [time.time, random.Random(), there])
    monkeypatch.setitem(sys.modules, "a_lazy_module", there)
    with simulate(1, epoch_ms=1_600_000_000_000):
        assert leaks._in_a_dict["proxy"][0]() == 1_600_000_000
    assert leaks._in_a_dict["proxy"][0] is time.time


def test_what_a_process_has_taken_that_froze_its_heap_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As mypy does in whoever calls it, and a server before it forks."""
    monkeypatch.setitem(leaks._in_a_dict, "frozen", time.time)
    gc.freeze()
    try:
        with simulate(1, epoch_ms=1_600_000_000_000):
            assert leaks._in_a_dict["frozen"]() == 1_600_000_000
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
    assert leaks._in_a_dict["frozen"] is time.time


def test_what_can_not_be_replaced_is_told_and_the_run_is_not_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "_ticks", iter(time.time, None), raising=False)
    with simulate(1) as sim:
        assert not sim.pinned
        assert "time.time is held by a callable_iterator, where no simulation can replace it" in sim.not_pinned
        assert "callable_iterator" in str(sim.not_pinned)
    monkeypatch.undo()
    with simulate(1) as sim:
        assert "callable_iterator" not in str(sim.not_pinned)


def test_each_host_draws_for_itself_from_what_a_module_has_taken() -> None:
    def drawn(more: int) -> list[float]:
        found: list[float] = []

        async def few() -> None:
            found.extend([leaks.draw(), leaks.urandom(1)[0]])

        async def many() -> None:
            for _ in range(more):
                leaks.draw()

        with simulate(3) as sim:
            sim.spawn("b", many)
            sim.spawn("a", few)
            sim.run_for(1)
        return found

    assert drawn(0) == drawn(9)


def test_logging_and_other_threads_keep_their_own_time() -> None:
    seen: list[float] = []
    with simulate(1, epoch_ms=1_600_000_000_000):
        record = logging.makeLogRecord({})
        record = logging.LogRecord("x", logging.INFO, "p", 1, "m", None, None)
        assert record.created == 1_600_000_000
        assert record.relativeCreated == 0
        thread = threading.Thread(target=lambda: seen.append(leaks.seconds()))
        with patches.current().lifted():  # type: ignore[union-attr]
            thread.start()
            thread.join()
    assert abs(seen[0] - time.time()) < 60


def test_a_process_has_an_id_and_can_not_signal_the_test() -> None:
    pids: list[int] = []

    async def program() -> None:
        pids.append(os.getpid())

    async def ends_itself() -> None:
        os.kill(os.getpid(), 15)

    with simulate(1) as sim:
        for name in ("a", "b"):
            sim.host(name).spawn(program)
        sim.run_for(1)
        sim.restart("a")
        sim.run_for(1)
        sim.host("c").spawn(ends_itself)
        with pytest.raises(SimForbidden, match=r"sending SIGTERM .os.kill.*sim.crash"):
            sim.run_for(1)
    assert len(set(pids)) == len(pids) == 3
    assert min(pids) > 1 << 22


def test_what_the_documentation_says_of_functions_is_so() -> None:
    """Each name of the table that is a function of a module has a door."""
    text = Path(__file__).parents[2].joinpath("docs", "simulation.md").read_text()
    table = text.partition("| what | in a simulation |")[2].partition("\n\n")[0]
    told = ("virtual", "drawn", "forbidden", "simulated")
    rows = [row.split(" | ") for row in table.splitlines() if any(word in row for word in told)]
    named = {name for row in rows for name in re.findall(r"`(\w+\.\w+)`", row[0])}
    assert {"os.getrandom", "resource.getrusage", "os.kill", "ssl.RAND_bytes", "platform.node"} <= named
    with simulate(1):
        assert platform.node() == "test"
        assert resource.getrusage(resource.RUSAGE_SELF).ru_utime == 0
    of_classes = {"datetime.now"}
    assert {f".{name}" for name in named - of_classes} <= DOORS.keys()
