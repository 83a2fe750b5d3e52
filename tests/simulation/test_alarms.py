"""An alarm - a test's time is up - ends the run wherever it rings, and leaves the surroundings as they were."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import signal
import subprocess
import sys
import threading
import time
import traceback
import weakref
from asyncio import events
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import broker_sim.simulation
from broker_sim.common.commandline import handling
from broker_sim.simulation import Simulation, simulate
from broker_sim.simulation.sweeps.seeds import Interrupted, Search
from broker_sim.simulation.virtual import alarms, patches, watchdog

REPOSITORY = Path(__file__).resolve().parents[2]
ROOM = str(Path(broker_sim.simulation.__file__).parent)
ENDS = (signal.SIGALRM, signal.SIGINT, signal.SIGTERM)
BOOKKEEPING = (ROOM, contextlib.__file__, asyncio.base_events.__file__)


class TimeIsUp(BaseException):
    """Exception that the alarm raises."""


class TooLate(Exception):
    """Exception that another alarm raises, for code that swallows every Exception."""


rings: signal.Signals = signal.SIGALRM


def ring() -> None:
    signal.raise_signal(rings)


def surroundings() -> tuple[Any, ...]:
    """Return everything that a simulation replaces while it runs."""
    handlers = *map(signal.getsignal, ENDS), watchdog._handler_after(signal.getsignal(signal.SIGVTALRM))
    pinned = time.time, time.sleep, random.random, random.Random.seed, vars(gc)["collect"]
    collector = gc.isenabled(), gc.get_freeze_count() > 0
    return (*handlers, *pinned, *collector, patches._current, alarms._current, events._get_running_loop())


@contextmanager
def an_alarm(raises: type[BaseException] = TimeIsUp) -> Iterator[None]:
    def alarm(number: int, frame: object) -> None:
        raise raises

    before = signal.signal(signal.SIGALRM, alarm)
    around = surroundings()
    try:
        yield
        assert surroundings() == around
    finally:
        signal.signal(signal.SIGALRM, before)


@contextmanager
def ctrl_c(number: signal.Signals) -> Iterator[None]:
    """`ring` sends this signal, which interrupts."""
    global rings
    with handling(signal.default_int_handler, number):
        rings, before = number, rings
        try:
            yield
        finally:
            rings = before


def ends_by(
    live: Callable[[], object], raises: type[BaseException] = TimeIsUp, told: type[BaseException] | None = None
) -> BaseException:
    """``live()`` is ended by the alarm that rings in it; ``told``: by what, if not by what that raises."""
    with an_alarm(raises), pytest.raises(told or raises) as caught:
        live()
    assert all(entry.lineno is not None for entry in traceback.extract_tb(caught.tb))
    return caught.value


# --- places -----------------------------------------------------------------------------------------------------------


class Last:
    """Rings when it is finalised; a cycle, so that the collector does that."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        ring()


def in_a_task(sim: Simulation) -> None:
    async def work() -> None:
        ring()

    sim.host("a").spawn(work)
    sim.run_for(10)


def in_a_task_that_swallows_everything(sim: Simulation) -> None:
    async def work() -> None:
        while True:
            with contextlib.suppress(BaseException):
                ring()
            await asyncio.sleep(1)

    sim.host("a").spawn(work)
    sim.run_for(10)


def while_a_task_handles_an_exception(sim: Simulation) -> None:
    async def work() -> None:
        try:
            raise KeyError("x")
        except KeyError:
            ring()
        finally:
            await asyncio.sleep(1)

    sim.host("a").spawn(work)
    sim.run_for(10)


def in_the_last_callback_of_a_run(sim: Simulation) -> None:
    sim.loop.call_soon(ring)
    sim.loop.call_soon(sim.loop.stop)
    sim.run_for(1)


def in_a_call_from_c(sim: Simulation) -> None:
    sim.loop.call_soon(lambda: sorted([3, 1, 2], key=lambda value: (value, ring())))
    sim.run_for(1)


def in_a_finaliser_of_a_run(sim: Simulation) -> None:
    def drop() -> None:
        last = Last()
        last.me = None  # type: ignore[assignment]

    sim.loop.call_soon(drop)
    sim.run_for(1)


def in_a_finaliser_of_the_test(sim: Simulation) -> None:
    last = Last()
    last.me = None  # type: ignore[assignment]
    del last  # nothing is raised here: Python tells of it and goes on


def in_a_finaliser_at_the_end(sim: Simulation) -> None:
    Last()


def in_a_weak_reference(sim: Simulation) -> None:
    class Thing:
        pass

    thing = Thing()
    sim.loop.call_soon(weakref.ref, thing)
    kept = weakref.ref(thing, lambda _: ring())
    del thing
    sim.run_for(1)
    assert kept() is None


def in_the_garbage_collector(sim: Simulation) -> None:
    def collected(phase: str, info: object) -> None:
        gc.callbacks.remove(collected)
        ring()

    gc.callbacks.append(collected)


def between_turns(sim: Simulation) -> None:
    sim.loop.after_turn = ring
    sim.loop.call_soon(print)
    sim.run_for(1)


def in_a_condition(sim: Simulation) -> None:
    sim.loop.call_later(2, print)
    sim.run_until(lambda: sim.elapsed_s > 1 and (ring() or True))


def in_a_condition_that_swallows(sim: Simulation) -> None:
    def condition() -> bool:
        with contextlib.suppress(BaseException):
            ring()
        return True

    sim.run_until(condition)


def in_the_test(sim: Simulation) -> None:
    ring()
    raise AssertionError("the test's own code is interrupted at once")


def in_the_test_which_swallows_it(sim: Simulation) -> None:
    with contextlib.suppress(BaseException):
        ring()
    for _ in range(10**9):
        sim.run_for(1)


def in_a_synchronous_program(sim: Simulation) -> None:
    def work() -> None:
        signal.pthread_kill(main, rings)
        time.sleep(1)

    main = threading.get_ident()
    sim.host("a").spawn_sync(work)
    sim.run_for(10)


def at_the_end_in_a_task(sim: Simulation) -> None:
    async def work() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            ring()

    async def other() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append(True)

    ended: list[bool] = []
    sim.host("a").spawn(work)
    sim.host("a").spawn(other)
    sim.run_for(1)
    sim.loop.ended = ended


PLACES = [
    in_a_task,
    in_a_task_that_swallows_everything,
    while_a_task_handles_an_exception,
    in_the_last_callback_of_a_run,
    in_a_call_from_c,
    in_a_finaliser_of_a_run,
    in_a_finaliser_of_the_test,
    in_a_finaliser_at_the_end,
    in_a_weak_reference,
    in_the_garbage_collector,
    between_turns,
    in_a_condition,
    in_a_condition_that_swallows,
    in_the_test,
    in_the_test_which_swallows_it,
    in_a_synchronous_program,
    at_the_end_in_a_task,
]
by_place = pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)


@pytest.mark.parametrize("raises", [TimeIsUp, TooLate])
@by_place
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_alarm_ends_the_run_wherever_it_rings(
    place: Callable[[Simulation], None], raises: type[BaseException]
) -> None:
    def live() -> None:
        with simulate(1) as sim:
            place(sim)

    ends_by(live, raises)


@by_place
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_alarm_ends_a_search_wherever_it_rings_and_names_the_seed(place: Callable[[Simulation], None]) -> None:
    def body(sim: Simulation) -> None:
        if sim.seed == 3:
            place(sim)

    error = ends_by(lambda: Search(body, repeat=0, caught=(Exception,)).first(range(100)), told=Interrupted)
    assert isinstance(error.__cause__, TimeIsUp)
    assert "seed 3 was running" in error.__cause__.__notes__


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@by_place
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_ends_the_run_wherever_it_comes(
    place: Callable[[Simulation], None], number: signal.Signals
) -> None:
    def live() -> None:
        with simulate(1) as sim:
            place(sim)

    with ctrl_c(number):
        error = ends_by(live, told=KeyboardInterrupt)
    assert number.name in "".join(error.__notes__)


@by_place
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_ends_a_search_as_what_it_is(place: Callable[[Simulation], None]) -> None:
    def body(sim: Simulation) -> None:
        if sim.seed == 3:
            place(sim)

    with ctrl_c(signal.SIGINT):
        error = ends_by(lambda: Search(body, repeat=0).first(range(100)), told=KeyboardInterrupt)
    assert "seed 3 was running" in error.__notes__


def test_an_interrupt_while_a_failure_is_made_small_ends_the_search() -> None:
    def body(sim: Simulation) -> None:
        if search.runs > 1:
            ring()
        raise ValueError("planted")

    search = Search(body, repeat=0)
    with ctrl_c(signal.SIGINT):
        ends_by(lambda: search.first([1]), told=KeyboardInterrupt)
    assert search.runs == 2


def test_an_interrupt_that_tasks_pass_on_ends_a_run_once() -> None:
    left: list[Any] = []

    async def interrupts() -> None:
        raise KeyboardInterrupt  # as a signal does, where code does not come back

    async def waits() -> None:
        await asyncio.create_task(interrupts())

    def live() -> None:
        with simulate(1) as sim:
            left.append(sim.loop)
            sim.cluster()
            sim.host("a").spawn(waits)
            sim.run_for(1)

    ends_by(live, told=KeyboardInterrupt)

    assert not asyncio.all_tasks(left[0])


def test_an_alarm_between_two_seeds_ends_the_search() -> None:
    runs: list[object] = []

    def between() -> None:
        if len(runs) == 3:
            with contextlib.suppress(BaseException):
                ring()

    search = Search(lambda sim: runs.append(sim.seed), repeat=0, between=between)
    ends_by(lambda: search.first(range(100)), told=Interrupted)
    assert runs == [0, 1, 2]


def test_an_alarm_behind_the_last_seed_ends_the_search_all_the_same() -> None:
    def seeds() -> Iterator[int]:
        yield 1
        ring()

    ends_by(lambda: Search(lambda sim: None, repeat=0).first(seeds()))


def test_an_alarm_does_not_keep_a_world_from_being_taken_apart() -> None:
    left: list[Any] = []

    def live() -> None:
        with simulate(1) as sim:
            at_the_end_in_a_task(sim)
            left.append(sim.loop)

    ends_by(live)
    assert left[0].is_closed()
    assert left[0].ended == [True]
    assert not asyncio.all_tasks(left[0])


# --- code that does not come back ---------------------------------------------------------------------------------------


def _spin() -> None:
    while True:
        pass


async def spin_in_a_task() -> None:
    ring()
    _spin()


def test_a_task_that_does_not_come_back_is_interrupted() -> None:
    def live() -> None:
        with simulate(1, patience="1h") as sim:
            sim.host("a").spawn(spin_in_a_task)
            sim.run_for(10)

    error = ends_by(live)
    assert "_spin" in [entry.name for entry in traceback.extract_tb(error.__traceback__)]
    assert "SIGALRM came at test_alarms.py" in "".join(error.__notes__)


def test_what_does_not_come_back_when_the_world_ends_is_interrupted_too() -> None:
    async def work() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            await spin_in_a_task()

    def live() -> None:
        with simulate(1, patience="1h") as sim:
            sim.host("a").spawn(work)
            sim.run_for(1)

    ends_by(live)


# --- every place ----------------------------------------------------------------------------------------------------------


def a_short_life() -> None:
    """A bit of everything."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        writer.close()

    async def server() -> None:
        await asyncio.start_server(serve, "0.0.0.0", 9000)
        await asyncio.sleep(1000)

    async def client() -> None:
        reader, writer = await asyncio.open_connection("a", 9000)
        writer.write(b"x\n")
        assert await reader.readline() == b"x\n"
        writer.close()

    with simulate(1) as sim:
        sim.host("a").spawn(server)
        sim.run_for(1)
        sim.host("b").spawn(client)
        sim.run_for(1)
        sim.crash("b")


class Tracer:
    """Counts the lines of the simulation's own bookkeeping, each as often as it runs, but three times at most; at the line number
    ``at`` it rings, as a signal would: the handler is called, and what it raises comes out there."""

    def __init__(self, at: int) -> None:
        self.at, self.lines = at, 0
        self._often: dict[tuple[Any, int], int] = {}

    def __call__(self, frame: FrameType, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.startswith(BOOKKEEPING) or frame.f_code.co_filename == alarms.__file__:
            return None
        return self._line

    def _line(self, frame: FrameType, event: str, _: object) -> Any:
        if event == "line":
            place = frame.f_code, frame.f_lineno
            self._often[place] = often = self._often.get(place, 0) + 1
            if often <= 3:
                self.lines += 1
                if self.lines == self.at:
                    handler: Any = signal.getsignal(signal.SIGALRM)
                    handler(signal.SIGALRM, frame)
        return self._line

    def run(self) -> None:
        before = sys.gettrace()
        sys.settrace(self)
        try:
            a_short_life()
        finally:
            sys.settrace(before)


def lines_of_a_short_life() -> int:
    """Return the number of lines run when nothing is done for the first time, and no garbage of others is collected."""
    a_short_life()  # it looks at all objects for the names that they have taken: many more lines in a process of many modules
    counts = set()
    for _ in range(3):
        tracer = Tracer(0)
        with an_alarm():
            tracer.run()
        counts.add(tracer.lines)
    assert min(counts) > 1000
    return min(counts)


def rung_at(places: Iterable[int]) -> None:
    for at in places:
        try:
            ends_by(Tracer(at).run)
        except BaseException as error:
            error.add_note(f"it rang at line number {at}")
            raise


@pytest.mark.slow
def test_an_alarm_may_ring_anywhere() -> None:
    rung_at(random.sample(range(1, lines_of_a_short_life() + 1), 10))


@pytest.mark.parametrize(
    ("places", "deadline_s"),
    [
        pytest.param("sorted(random.Random(1).sample(every, 120))", 280, marks=pytest.mark.slow, id="120 of them"),
        pytest.param("every", 1780, marks=[pytest.mark.long, pytest.mark.timeout(1800)], id="all"),
    ],
)
def test_an_alarm_may_ring_everywhere(places: str, deadline_s: int) -> None:
    """In a process that has loaded no more than what the simulation looks into: a life runs through the same lines there as beside the
    modules of a whole suite, in a tenth of the time."""
    script = (
        f"import faulthandler; faulthandler.dump_traceback_later({deadline_s}, exit=True)\n"
        f"import aiohttp, aiokafka, numpy\nfrom {__name__} import *\n"
        f"every = range(1, lines_of_a_short_life() + 1)\nrung_at({places})"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# --- lines -------------------------------------------------------------------------------------------------------------


def test_an_exception_raised_between_two_lines_has_a_line_all_the_same() -> None:
    def loop() -> None:
        for number in range(3):
            if number < 0:
                print(number)

    def ring_between_lines(frame: FrameType, event: str, _: object) -> Any:
        frame.f_trace_opcodes = frame.f_code is loop.__code__
        if event == "opcode" and frame.f_lineno is None:
            handler: Any = signal.getsignal(signal.SIGALRM)
            handler(signal.SIGALRM, frame)
        return ring_between_lines

    def live() -> None:
        with simulate(1):
            before = sys.gettrace()
            sys.settrace(ring_between_lines)
            try:
                loop()
            finally:
                sys.settrace(before)
            pytest.skip("this Python has a line for every instruction of a loop")

    error = ends_by(live)
    lines = {entry.name: entry.lineno for entry in traceback.extract_tb(error.__traceback__)}
    assert lines["loop"] in range(loop.__code__.co_firstlineno, loop.__code__.co_firstlineno + 4)
