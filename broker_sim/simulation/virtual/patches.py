"""What stands in the place of a function while a simulation runs: doors, and everything that is put back at its end.

Rules:
1. A door is virtual in the simulation's threads alone; to all others it is the function that it stands for, in and after the run.
2. The door of a function is the same one in all simulations: a module that is first imported in one of them may take it for good, and
   is to see the next one's time.
3. What has been put is put back in the opposite order, whatever has happened.
4. What could not be made virtual is a line of ``reasons``: the run may be another one in another process.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import MethodType
from typing import TYPE_CHECKING, Any

from broker_sim.simulation.errors import SimForbidden
from broker_sim.simulation.virtual.process import PROCESS

if TYPE_CHECKING:
    from broker_sim.simulation.sync.threads import SimThread, Threads
    from broker_sim.simulation.virtual.loop import SimLoop

__all__ = ["DOORS", "Door", "Patches", "begin", "current", "end", "threads"]


class Door:
    """What stands for ``real``. ``function``: what is put in its place."""

    __slots__ = ("cells", "function", "key", "of_module", "real")

    def __init__(self, key: str, real: Callable[..., Any], *, of_module: bool) -> None:
        self.key, self.real, self.of_module = key, real, of_module
        entrance = _method(key, real) if of_module else _function(key, real)
        entrance.__name__ = entrance.__qualname__ = getattr(real, "__name__", key.rpartition(".")[2])
        entrance.__doc__ = getattr(real, "__doc__", None)
        self.cells = {id(cell) for cell in entrance.__closure__ or ()}
        """Where ``real`` is held for the door's own use."""
        # A module's function is often C's, which a class attribute does not bind; a bound method is not bound again either.
        self.function: Callable[..., Any] = MethodType(entrance, self) if of_module else entrance


def _function(key: str, real: Callable[..., Any]) -> Any:
    ident = threading.get_ident

    def function(*args: Any, **kwargs: Any) -> Any:
        patches = _current
        if patches is None:
            return real(*args, **kwargs)
        me = ident()
        if me == patches.thread:
            return patches.virtual[key](*args, **kwargs)
        if me in patches.threads:
            return patches.in_thread(key, args, kwargs)
        del patches  # another thread may stay in there for hours, and is not to keep a simulation that has ended
        return real(*args, **kwargs)

    return function


def _method(key: str, real: Callable[..., Any]) -> Any:
    ident = threading.get_ident

    def method(_: Door, *args: Any, **kwargs: Any) -> Any:
        patches = _current
        if patches is None:
            return real(*args, **kwargs)
        me = ident()
        if me == patches.thread:
            virtual = patches.virtual.get(key)  # a pin may have been left out of this run
            return real(*args, **kwargs) if virtual is None else virtual(*args, **kwargs)
        if me in patches.threads:
            return patches.in_thread(key, args, kwargs)
        del patches  # as above
        return real(*args, **kwargs)

    return method


DOORS: dict[str, Door] = {}
"""All that have been made in this process, by their keys."""


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


class Behind(dict[Any, Any]):
    """What is behind doors: no module's."""


class Patches:
    """What has been replaced, and by what it is to be put back."""

    def __init__(self, loop: SimLoop, seed: object, reasons: list[str] | None = None) -> None:
        self.loop, self.seed, self.thread = loop, seed, threading.get_ident()
        self.reasons: list[str] = [] if reasons is None else reasons
        """Why another process may run otherwise."""
        self.virtual: dict[str, Callable[..., Any]] = Behind()
        """What is behind each door."""
        self.threads: dict[int, SimThread] = {}
        """Threads of the simulation, by ident: see ``threads``."""
        self.in_threads: dict[str, Callable[..., Any]] = Behind()
        """What is behind a door for them, where it is something else."""
        self.stand_ins: dict[type, type] = Behind()
        """Classes that modules are given others for: see ``taken``."""
        self.native_ids: set[str] = set()
        """What the system calls those that there have been: one that has ended is listed for a moment more."""
        self.sync: Threads | None = None
        self._undo: list[Callable[[], object]] = []
        self._own = random.Random(f"{seed}/test")

    def chance(self) -> random.Random:
        """The randomness of the running code."""
        process = PROCESS.get()
        return self._own if process is None else process.chance

    def put(self, owner: Any, name: str, value: object) -> None:
        """Set an attribute until the end."""
        put = _Put(owner, name)
        setattr(owner, name, value)
        self._undo.append(put)

    def door(self, owner: Any, name: str, virtual: Callable[..., Any]) -> None:
        """Replace a function: it is ``virtual`` in this thread, as long as the simulation runs, and what it was for all others."""
        key = self.key(owner, name)
        self.virtual[key] = virtual
        real, made = getattr(owner, name), DOORS.get(key)
        if made is None or made.real is not real:
            made = DOORS[key] = Door(key, real, of_module=not isinstance(owner, type))
        self.put(owner, name, made.function)

    def key(self, owner: Any, name: str) -> str:
        """The name of a door."""
        return f"{getattr(owner, '__module__', '')}.{owner.__name__}.{name}"

    def real(self, owner: Any, name: str) -> Callable[..., Any]:
        """What is behind a door for everybody else."""
        made = DOORS.get(self.key(owner, name))
        return getattr(owner, name) if made is None else made.real

    def inside(self) -> bool:
        """Whether simulated code asks."""
        me = threading.get_ident()
        return me == self.thread or me in self.threads

    def in_thread(self, key: str, args: Any, kwargs: Any) -> Any:
        """What one of the simulation's threads finds behind a door. What is forbidden ends the run, whatever the thread catches."""
        virtual = self.in_threads.get(key) or self.virtual.get(key) or DOORS[key].real
        try:
            return virtual(*args, **kwargs)
        except SimForbidden as error:
            self.loop.forbidden = error
            raise

    def not_pinned(self, reason: str) -> None:
        """Another process may run otherwise."""
        if reason not in self.reasons:
            self.reasons.append(reason)

    @contextmanager
    def lifted(self) -> Iterator[None]:
        """All doors lead to the real world in the block."""
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
        """Everything is as before."""
        while self._undo:
            self._undo.pop()()


_current: Patches | None = None
"""Of the simulation that runs."""


def current() -> Patches | None:
    """Those of the simulation that runs in this process."""
    return _current


def begin(patches: Patches) -> None:
    """A simulation runs. Raises RuntimeError: another one does."""
    global _current
    if _current is not None:
        raise RuntimeError("another simulation is running in this process: what is pinned is pinned once")
    _current = patches


def end() -> None:
    """It does not any more: all doors lead to the real world."""
    global _current
    _current = None


def threads() -> list[int]:
    """The idents of the threads of the simulation that runs: of its synchronous programs."""
    return [] if _current is None else list(_current.threads)
