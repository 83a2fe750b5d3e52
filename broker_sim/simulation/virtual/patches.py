"""Replacements of functions during a simulation (patch points), and the patches that are removed at its end.

Rules:
1. A patch point is virtual in the simulation's threads only; for all others it is the original function.
2. A function of a module is replaced in itself (``in_place``), so that it does not matter who has taken it, when, and where it is held.
   What can't be - a method, a class that others can derive from, a function with a closure - is replaced at its name alone.
3. A function has the same patch point in all simulations.
4. What has been put is put back in the opposite order, whatever has happened.
5. What could not be made virtual is a line of ``reasons``: the run may be another one in another process.
"""

from __future__ import annotations

import functools
import itertools
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from broker_sim.simulation.errors import SimForbidden
from broker_sim.simulation.virtual.in_place import Builtin, FinalClass, PythonFunction, replaceable
from broker_sim.simulation.virtual.lots import Stream
from broker_sim.simulation.virtual.process import PROCESS, Process

if TYPE_CHECKING:
    import types

    from broker_sim.simulation.sync.threads import SimThread, Threads
    from broker_sim.simulation.virtual.loop import SimLoop

__all__ = ["PATCH_POINTS", "PatchPoint", "Patches", "begin", "current", "end", "threads"]


class PatchPoint:
    """The replacement of the function ``there``, which has the name ``key``. ``real``: the original for other threads. ``place``:
    set if the function is replaced in place, else ``function`` is assigned to its name."""

    __slots__ = ("function", "key", "place", "real", "there")

    def __init__(self, key: str, there: Any, *, in_place: bool, of_class: bool) -> None:
        self.key, self.there = key, there
        self.place: Builtin | FinalClass | PythonFunction | None = None
        if in_place:
            kind = FinalClass if isinstance(there, type) else PythonFunction if hasattr(there, "__code__") else Builtin
            self.place = kind(there, _entrance(key, lambda: self.real))
            self.real, self.function = self.place.real, there
        else:
            self.real = there
            entrance = _entrance(key, lambda: there)
            entrance.__name__ = entrance.__qualname__ = getattr(there, "__name__", key.rpartition(".")[2])
            entrance.__doc__ = getattr(there, "__doc__", None)
            # who has it for a class attribute is not to get a method, which a function of C wouldn't be
            self.function = entrance if of_class else functools.partial(entrance)


def _entrance(key: str, of_others: Callable[[], Callable[..., Any]]) -> Any:
    ident = threading.get_ident

    def entrance(*args: Any, **kwargs: Any) -> Any:
        patches = _current
        if patches is not None:
            me = ident()
            if me == patches.thread:
                virtual = patches.virtual.get(key)  # a pin may have been left out of this run, or be one of threads
                if virtual is not None:
                    return virtual(*args, **kwargs)
            elif me in patches.threads:
                return patches.in_thread(key, args, kwargs)
            del patches  # another thread may stay in there for hours, and is not to keep a simulation that has ended
        return of_others()(*args, **kwargs)

    return entrance


PATCH_POINTS: dict[str, PatchPoint] = {}
"""Patch points made in this process, by their keys."""
_IN_PLACE: dict[int, PatchPoint] = {}
"""Patch points of functions that are replaced in themselves, by the ids of the functions."""


class _Put:
    """One thing that has been replaced."""

    __slots__ = ("inherited", "name", "old", "owner")

    def __init__(self, owner: Any, name: str) -> None:
        self.owner, self.name = owner, name
        self.inherited = isinstance(owner, type) and name not in vars(owner)
        self.old = None if self.inherited else vars(owner)[name]

    def __call__(self) -> None:
        if self.inherited:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self.old)


class Patches:
    """Replacements in force for a simulation, and their undoing."""

    def __init__(self, loop: SimLoop, seed: object, reasons: list[str] | None = None) -> None:
        self.loop, self.seed, self.thread = loop, seed, threading.get_ident()
        self.number = next(_numbers)
        """Number of this run, in this process."""
        self.reasons: list[str] = [] if reasons is None else reasons
        """Reasons for which another process may run otherwise."""
        self.virtual: dict[str, Callable[..., Any]] = {}
        """The virtual function of each patch point."""
        self.threads: dict[int, SimThread] = {}
        """Threads of the simulation, by ident: see ``threads``."""
        self.in_threads: dict[str, Callable[..., Any]] = {}
        """The virtual functions for these threads, where they differ."""
        self.streams: dict[Process | None, dict[int, tuple[random.Random, random.Random]]] = {}
        """Sources of the generators that existed before, by process and their ids: see ``chance``."""
        self.in_place: list[PatchPoint] = []
        """Patches of functions that are replaced in place."""
        self.names: set[tuple[str, str]] = set()
        """(module, name) of all functions that were patched."""
        self.native_ids: set[str] = set()
        """Native ids of all threads so far: the system lists one that has ended for a moment more."""
        self.sync: Threads | None = None
        self._undo: list[Callable[[], object]] = []
        self._own = Stream(f"{seed}/test")

    def chance(self) -> random.Random:
        """The randomness of the running code."""
        process = PROCESS.get()
        return self._own if process is None else process.chance

    def put(self, owner: Any, name: str, value: object) -> None:
        """Set an attribute until the end."""
        put = _Put(owner, name)
        setattr(owner, name, value)
        self._undo.append(put)

    def patch(self, owner: Any, name: str, virtual: Callable[..., Any] | None, *, at_name: bool = False) -> str:
        """Replace a function by ``virtual`` in this thread while the simulation runs; other threads call the original. ``virtual``
        None: also in this thread, unless it is virtual already. ``at_name``: only under that name, not under others. Returns its
        key."""
        there = getattr(owner, name)
        key = _text(owner, name) if at_name else self.key(owner, name)
        in_place = not at_name and not isinstance(owner, type) and replaceable(there)
        made = PATCH_POINTS.get(key)
        if made is None or (there is not made.there and there is not made.function):
            made = PATCH_POINTS[key] = PatchPoint(key, there, in_place=in_place, of_class=isinstance(owner, type))
        if virtual is not None:
            self.virtual[key] = virtual
        self.names.add((owner.__name__, name))
        if made.place is None:
            if there is not made.function:
                self.put(owner, name, made.function)
        elif made not in self.in_place:
            _IN_PLACE[id(there)] = made
            self.in_place.append(made)
            made.place.replace()
            self.then(made.place.restore)
        return key

    def replace(self, function: types.FunctionType, virtual: Callable[..., Any]) -> Callable[..., Any]:
        """Replace a method of Python code in place (see ``patch``). Returns the original."""
        made = _IN_PLACE.get(id(function))
        key = f"{function.__module__}.{function.__qualname__}" if made is None else made.key
        if made is None:
            made = PATCH_POINTS[key] = _IN_PLACE[id(function)] = PatchPoint(key, function, in_place=True, of_class=True)
        self.virtual[key] = virtual
        self.in_place.append(made)
        if made.place is not None:
            made.place.replace()
            self.then(made.place.restore)
        return made.real

    def key(self, owner: Any, name: str) -> str:
        """The key of a patch point: if a function has several names, the first under which it was replaced."""
        there = getattr(owner, name, None)
        made = _IN_PLACE.get(id(there))
        if made is not None and made.there is there:
            return made.key
        return _text(owner, name)

    def real(self, owner: Any, name: str) -> Callable[..., Any]:
        """The original function, as threads outside of the simulation call it."""
        made = PATCH_POINTS.get(self.key(owner, name))
        there: Callable[..., Any] = getattr(owner, name)
        return made.real if made is not None and (there is made.there or there is made.function) else there

    def inside(self) -> bool:
        """Whether the caller is code of the simulation."""
        me = threading.get_ident()
        return me == self.thread or me in self.threads

    def in_thread(self, key: str, args: Any, kwargs: Any) -> Any:
        """Call the function that a thread of the simulation gets. A forbidden call ends the run, whatever the thread catches."""
        virtual = self.in_threads.get(key) or self.virtual.get(key) or PATCH_POINTS[key].real
        try:
            return virtual(*args, **kwargs)
        except SimForbidden as error:
            self.loop.forbidden = error
            raise

    def not_pinned(self, reason: str) -> None:
        """Note a reason why another process may run otherwise."""
        if reason not in self.reasons:
            self.reasons.append(reason)

    @contextmanager
    def lifted(self) -> Iterator[None]:
        """In the block all patch points call the original functions."""
        global _current
        before, _current = _current, None
        try:
            yield
        finally:
            _current = before

    def then(self, undo: Callable[[], object]) -> None:
        """Call it at the end."""
        self._undo.append(undo)

    def restore(self) -> None:
        """Put back everything that was replaced."""
        while self._undo:
            self._undo.pop()()


def _text(owner: Any, name: str) -> str:
    return f"{getattr(owner, '__module__', '')}.{owner.__name__}.{name}"


_numbers = itertools.count(1)
_current: Patches | None = None
"""Patches of the running simulation; None without one."""


def current() -> Patches | None:
    """Patches of the simulation that runs in this process; None for none."""
    return _current


def begin(patches: Patches) -> None:
    """Note that a simulation runs. Raises RuntimeError if another one runs in this process."""
    global _current
    if _current is not None:
        raise RuntimeError("another simulation is running in this process: what is pinned is pinned once")
    _current = patches


def end() -> None:
    """The simulation has ended: all patch points call the original functions."""
    global _current
    _current = None


def threads() -> list[int]:
    """The idents of the threads of the simulation that runs: of its synchronous programs."""
    return [] if _current is None else list(_current.threads)
