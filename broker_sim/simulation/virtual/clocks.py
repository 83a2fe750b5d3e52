"""The clocks that simulated code can read are the loop's."""

from __future__ import annotations

import datetime
import functools
import gc
import logging
import os
import sys
import time
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from broker_sim.simulation.errors import LibraryMoved
from broker_sim.simulation.virtual import patches
from broker_sim.simulation.virtual.in_place import Builtin, put_in_class

if TYPE_CHECKING:
    from broker_sim.simulation.virtual.patches import Patches

__all__ = ["PINS"]


def _clocks(p: Patches) -> None:
    """``time.time``, ``monotonic``, ``perf_counter``, ``localtime`` and the like return virtual time; ``time.sleep`` is forbidden."""
    loop = p.loop
    for name, virtual in (("time", loop.wall), ("monotonic", loop.time), ("perf_counter", loop.time)):
        p.patch(time, name, virtual)
        p.patch(time, name + "_ns", _in_ns(virtual))

    def no_sleep(seconds: float) -> None:
        instead = "use asyncio.sleep, or asyncio.to_thread" if loop.is_running() else "use sim.run_for"
        loop.forbid(f"time.sleep({seconds!r})", instead)

    p.patch(time, "sleep", no_sleep)
    for name, at in (("gmtime", 0), ("localtime", 0), ("ctime", 0), ("strftime", 1), ("asctime", 0)):
        p.patch(time, name, _at_virtual_time(p, name, at))


def _in_ns(virtual: Callable[[], float]) -> Callable[[], int]:
    return lambda: int(virtual() * 1e9)


def _at_virtual_time(p: Patches, name: str, at: int) -> Callable[..., Any]:
    """A function of ``time`` whose argument number ``at`` is the present where it is left out."""
    broken_down = name in ("strftime", "asctime")

    def function(*args: Any) -> Any:
        if len(args) <= at or args[at] is None:
            now = p.loop.wall()
            args = (*args[:at], p.real(time, "localtime")(now) if broken_down else now)
        return p.real(time, name)(*args)

    return function


_OF_THE_DAY = {"CLOCK_REALTIME", "CLOCK_REALTIME_COARSE", "CLOCK_TAI"}


def _system_clocks(p: Patches) -> None:
    """``time.clock_gettime`` and ``clock_gettime_ns`` return virtual time for every clock."""
    loop = p.loop
    of_the_day = {getattr(time, name) for name in _OF_THE_DAY if hasattr(time, name)}

    def read(clock: int) -> float:
        return loop.wall() if clock in of_the_day else loop.time()

    if hasattr(time, "clock_gettime"):
        p.patch(time, "clock_gettime", read)
        p.patch(time, "clock_gettime_ns", lambda clock: int(read(clock) * 1e9))


def _work(p: Patches) -> None:
    """``time.process_time``, ``thread_time``, ``os.times`` and ``resource.getrusage`` return the virtual seconds since the start."""
    loop = p.loop

    def spent() -> float:
        return loop.elapsed_s

    for name in ("process_time", "thread_time"):
        if hasattr(time, name):
            p.patch(time, name, spent)
            p.patch(time, name + "_ns", _in_ns(spent))

    p.patch(os, "times", lambda: os.times_result((spent(), 0.0, 0.0, 0.0, loop.time())))
    resource = sys.modules.get("resource")
    if resource is not None:
        p.patch(resource, "getrusage", lambda who: resource.struct_rusage((spent(), *[0.0] + [0] * 14)))


def _dates(p: Patches) -> None:
    """``datetime.now()``, ``utcnow()`` and ``today()`` return virtual time.

    ``now()`` reads the clock in C, in a type that takes no other attribute: the way to it is behind the proxy of its dict. What was
    bound before - ``field(default_factory=datetime.now)`` - is an object for itself each time. ``today()`` asks ``time.time``."""
    kind = datetime.datetime
    real = put_in_class(kind, {"now": classmethod(now), "utcnow": classmethod(utcnow)})
    p.then(lambda: put_in_class(kind, real))
    _REAL_DATES.update(real)
    for bound in _bound_before(kind):
        bound.replace()
        p.then(bound.restore)
    if kind.now(datetime.UTC).timestamp() != p.loop.wall():
        raise LibraryMoved(
            "datetime.now() can't be given virtual time; simulate(without=['datetime']) leaves it as it is"
        )


_REAL_DATES: dict[str, Any] = {}


def now(cls: Any, tz: Any = None) -> Any:
    """The replacement of ``datetime.now`` in all simulations: the virtual time of the running simulation."""
    p = patches.current()
    if p is None or not p.inside():
        return _REAL_DATES["now"].__get__(None, cls)(tz)
    return cls.fromtimestamp(p.loop.wall(), tz)


def utcnow(cls: Any) -> Any:
    """In the place of ``datetime.utcnow``."""
    p = patches.current()
    if p is None or not p.inside():
        return _REAL_DATES["utcnow"].__get__(None, cls)()
    return cls.fromtimestamp(p.loop.wall(), datetime.UTC).replace(tzinfo=None)


_OURS = 2
"""References to a method that its `Builtin` alone holds, while they are counted."""


def _bound_before(kind: type) -> list[Builtin]:
    """References to ``datetime.now``: such methods are among those who refer to the class, which the collector knows. It is asked
    where there are other modules than the last time, or other references to the class, and always where these are not counted."""
    kinds = [kind]
    for clock_kind in kinds:
        kinds += clock_kind.__subclasses__()
    references = _references(kinds)
    if _Bound.there != (len(sys.modules), next(reversed(sys.modules), ""), references) or max(references) >= _IMMORTAL:
        # methods that only we reference are released; the original of each, which we keep, is not counted
        known = {id(method.function): method for method in _Bound.methods if sys.getrefcount(method.function) > _OURS}
        ours = {id(method.real) for method in known.values()}
        _Bound.methods = []
        with _thawed():
            builtins: list[Any] = [
                referrer for referrer in gc.get_referrers(*kinds) if type(referrer) is types.BuiltinMethodType
            ]
        virtual = {"now": now, "utcnow": utcnow}
        _Bound.methods = [
            known.get(id(builtin)) or Builtin(builtin, functools.partial(virtual[builtin.__name__], builtin.__self__))
            for builtin in builtins
            if builtin.__name__ in virtual and builtin.__self__ in kinds and id(builtin) not in ours
        ]
        _Bound.there = len(sys.modules), next(reversed(sys.modules), ""), _references(kinds)
    return _Bound.methods


_IMMORTAL = 1 << 30
"""So many references or more there are to what Python counts none of: from 3.12 on ``datetime`` is such a class."""


def _references(kinds: list[type]) -> list[int]:
    return [sys.getrefcount(kind) for kind in kinds]


class _Bound:
    """Cache of the bound methods that were found, valid while modules and references are the same."""

    there: tuple[Any, ...] = ()
    methods: list[Builtin] = []  # noqa: RUF012


_FROZEN_AT_START = 2000
"""Python 3.12 itself has frozen 375 objects when it has started; who calls ``gc.freeze()`` freezes tens of thousands."""


def is_frozen() -> bool:
    """Whether something in this process has called ``gc.freeze()``."""
    return gc.get_freeze_count() > _FROZEN_AT_START


@contextmanager
def _thawed() -> Iterator[None]:
    """The collector knows only the referrers of an object that are not frozen: who has called ``gc.freeze()``, as a server does
    before it forks and mypy before it checks, would keep what it has bound."""
    frozen = is_frozen()
    if frozen:
        gc.unfreeze()
    try:
        yield
    finally:
        if frozen:
            gc.freeze()


def _log_records(p: Patches) -> None:
    """``relativeCreated`` of log records counts from the start of the run, not from the import of ``logging``."""
    start = getattr(logging, "_startTime", None)
    if not isinstance(start, int | float):
        raise LibraryMoved("logging has no _startTime, from which relativeCreated counts")
    p.put(logging, "_startTime", p.loop.wall() if isinstance(start, float) else int(p.loop.wall() * 1e9))


PINS: dict[str, Callable[[Patches], None]] = {
    "clocks": _clocks,
    "system clocks": _system_clocks,
    "CPU time": _work,
    "datetime": _dates,
    "log records": _log_records,
}
