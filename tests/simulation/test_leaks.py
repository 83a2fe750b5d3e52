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
import types
from datetime import UTC
from datetime import datetime as dates
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

from broker_sim.simulation import SimForbidden, simulate
from broker_sim.simulation.virtual import clocks, patches
from broker_sim.simulation.virtual.patches import PATCH_POINTS
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
    of_chance = [
        "module-level Random()",
        "Random() as a default",
        "Random() in a closure",
        "in a deque",
        "ssl.RAND_bytes",
    ]
    for leak in (*of_chance, "numpy's generators of a module"):
        assert first[leak] != other[leak]


def _held() -> list[Any]:
    """Return the objects that the module holds, one by one."""
    attribute, event = leaks._Attribute, leaks._Event
    return [
        *(leaks.seconds, leaks.monotonic, leaks._in_a_list[0], leaks._in_a_dict["clock"], leaks._now, leaks.urandom),
        *(leaks._by_default.__defaults__[0], leaks._by_keyword.__kwdefaults__["clock"], leaks._slots.clock),
        *(leaks._closure.__closure__[0].cell_contents, attribute.clock, attribute.stamp, leaks._object.clock),
        *(event.__dataclass_fields__["at"].default_factory, event.__dataclass_fields__["on"].default_factory),
        *(
            leaks.LEAKS["functools.partial"].func,
            leaks.draw,
            leaks.choice,
            leaks.getpid,
            *leaks._clock,
            *leaks._in_a_set,
        ),
    ]


def test_what_is_held_is_the_same_object_in_a_run_and_what_it_was_afterwards_even_where_the_run_fails() -> None:
    before, during = _held(), list[Any]()
    described = [(hash(one), repr(one)) for one in before]
    states = [copy.deepcopy(each) for each in (leaks._rng.getstate(), leaks._numpys.bit_generator.state)]
    with pytest.raises(ZeroDivisionError), simulate(1):  # noqa: PT012
        during += _held()
        leaks._rng.random(), leaks._numpys.random()
        _ = 1 / 0
    assert [id(one) for one in _held()] == [id(one) for one in before] == [id(one) for one in during]
    assert [(hash(one), repr(one)) for one in before] == described
    assert [leaks._rng.getstate(), leaks._numpys.bit_generator.state] == states
    assert abs(leaks._clock.now() - time.monotonic()) < 60


def test_a_generator_with_a_seed_draws_it_where_it_was_made_in_the_run_and_else_from_the_runs() -> None:
    """Whether one that was there before had a seed can't be told."""
    expected = random.Random(5).random()

    def drawn(seed: int) -> list[float]:
        before = random.Random(5)
        with simulate(seed):
            seen = [before.random(), random.Random(5).random()]
            before.seed(5)
            return [*seen, before.random()]

    first, again, other = drawn(1), drawn(1), drawn(2)
    assert first == again
    assert first[1:] == other[1:] == [expected, expected]
    assert len({first[0], other[0], expected}) == 3


def test_a_generator_that_a_module_made_is_each_processes_own_as_all_that_the_module_has_would_be() -> None:
    def drawn(more: int) -> list[float]:
        found: list[float] = []

        async def few() -> None:
            found.extend(leaks._rng.random() for _ in range(3))

        async def many() -> None:
            for _ in range(more):
                leaks._rng.random()

        with simulate(3) as sim:
            sim.spawn("b", many)
            sim.spawn("a", few)
            sim.run_for(1)
        return found

    assert drawn(0) == drawn(9)


def test_the_state_of_a_generator_can_be_kept_and_given_back_in_a_run() -> None:
    before = random.Random(5)
    state = before.getstate()
    with simulate(1):
        kept = before.getstate()
        drawn = [before.random(), before.gauss(0, 1)]
        before.setstate(kept)
        assert [before.random(), before.gauss(0, 1)] == drawn
        assert copy.deepcopy(before).random() == before.random()
    assert before.getstate() == state


def test_who_takes_a_function_between_two_runs_is_found_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    with simulate(1):
        pass
    monkeypatch.setitem(leaks._in_a_dict, "later", time.time)
    with simulate(1, epoch_ms=1_600_000_000_000):
        assert leaks._in_a_dict["later"]() == 1_600_000_000
    assert leaks._in_a_dict["later"] is time.time


@pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")  # from Python 3.12 on
@pytest.mark.parametrize("counted", [True, False])
def test_who_binds_datetime_now_between_two_runs_is_found_by_the_next(
    monkeypatch: pytest.MonkeyPatch, counted: bool
) -> None:
    """Also where nobody counts references to the class: from Python 3.12 on it is immortal."""
    if not counted:
        monkeypatch.setattr(clocks, "_references", lambda kinds: [1 << 32 for _ in kinds])
    for _ in range(2):
        with simulate(1):
            pass
    bound = [dates.now, dates.utcnow]
    for _ in range(2):
        with simulate(1, epoch_ms=1_600_000_000_000):
            assert [each().year for each in bound] == [2020, 2020]
        assert min(each().year for each in bound) > 2020


def test_hypothesis_draws_its_examples_and_not_the_runs() -> None:
    """Hypothesis' generator was there before: with the run's numbers all examples would be the same but for their beginnings."""
    drawn: set[int] = set()

    @hypothesis.settings(max_examples=20, database=None, deadline=None)
    @hypothesis.given(strategies.data())
    def draws(data: strategies.DataObject) -> None:
        with simulate(3):
            data.draw(strategies.booleans())
            drawn.update(data.draw(strategies.integers(0, 10**9)) for _ in range(5))

    draws()
    assert len(drawn) > 20, "with the run's numbers there would be five"


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
    monkeypatch.setitem(leaks._in_a_dict, "frozen", dates.now)  # each is an object for itself, and looked for
    gc.freeze()
    try:
        with simulate(1, epoch_ms=1_600_000_000_000):
            assert leaks._in_a_dict["frozen"](UTC).timestamp() == 1_600_000_000
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
    assert leaks._in_a_dict["frozen"](UTC).timestamp() > 1_700_000_000


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
    """Each name of the table that is a function of a module has a patch point."""
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
    assert {f".{name}" for name in named - of_classes} <= PATCH_POINTS.keys()


@pytest.mark.slow
def test_methods_of_dates_are_found_once_however_often_they_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look finds what the looks before have made for themselves, too."""
    held = [dates.now, dates.now]
    with simulate(1):
        pass
    before = len(clocks._Bound.methods)
    for number in range(6):
        monkeypatch.setitem(sys.modules, f"made_for_this_test_{number}", types.ModuleType("made"))
        with simulate(1, epoch_ms=1_600_000_000_000):
            assert [now(UTC).timestamp() for now in held] == [1_600_000_000] * len(held)
        held.append(dates.now)
    assert len(clocks._Bound.methods) <= before + 6
    del held[:]
    monkeypatch.setitem(sys.modules, "made_for_this_test", types.ModuleType("made"))
    with simulate(1):
        assert len(clocks._Bound.methods) < before + 6, "what nobody has any more is let go"
