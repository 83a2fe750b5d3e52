"""Threads that C code starts for itself: no simulation holds them. librdkafka's go out into the real world, and are forbidden.

Rules:
1. confluent-kafka's clients are refused where they are made, also under a name that a module has taken, and its subclasses; a run in
   which the module is imported for the first time sees it on its way in.
2. What is made past that is seen by its threads: the system lists those of this process, and Python knows its own. They are looked for
   whenever time has been let pass, and once a second while a call does not come back.
3. Other libraries' threads make a run that is not pinned: they may be a pool that computes, as those that come with numpy.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from broker_sim.simulation.errors import SimForbidden, caller
from broker_sim.simulation.virtual import patches

if TYPE_CHECKING:
    from types import FrameType

    from broker_sim.simulation.virtual.patches import Patches

__all__ = ["PINS", "NativeThreads"]

_TASKS = Path("/proc/self/task")
_LIBRDKAFKA = "rdk:"
"""Prefix of the names of librdkafka's threads."""
_INSTEAD = (
    "its threads and sockets are librdkafka's own, in real time. In a simulation use aiokafka, or kafka-python with spawn_sync; "
    "for confluent-kafka clock='manual' over TCP (docs/time.md)"
)
_MODULE = "confluent_kafka.cimpl"
"""Module of confluent-kafka's client classes; all others derive from these."""
_CLIENTS = ("Producer", "Consumer", "ShareConsumer", "_AdminClientImpl")


class NativeThreads:
    """Native threads of this process that were not started by Python, or before the simulation."""

    def __init__(self, p: Patches) -> None:
        self.p = p
        self._known = self._all()

    def _all(self) -> set[str]:
        try:
            return set(os.listdir(_TASKS))
        except OSError:  # not Linux
            return set()

    def names(self) -> list[str]:
        """The names of the native threads that were started during the simulation."""
        there = self._all() - self._known - self.p.native_ids
        if there:
            there -= {str(thread.native_id) for thread in threading.enumerate()}
        names = []
        for number in sorted(there, key=int):
            with contextlib.suppress(OSError):  # it has ended meanwhile
                names.append((_TASKS / number / "comm").read_text().strip())
        return names

    def look(self) -> None:
        """After time has been let pass. Raises SimForbidden."""
        names = self.names()
        error = self.forbidden(names)
        if error is not None:
            raise error
        if names:
            shown = ", ".join(dict.fromkeys(names))
            self.p.not_pinned(
                f"C code has started threads of its own ({shown}): import the library before the simulation"
            )

    def forbidden(self, names: list[str], frame: FrameType | None = None) -> SimForbidden | None:
        """Return the error for a run with these native threads: SimForbidden for librdkafka's, None for others."""
        if not any(name.startswith(_LIBRDKAFKA) for name in names):
            return None
        where = caller(frame) if frame is not None else ""
        return SimForbidden(f"a client of confluent-kafka is not possible in a simulation{where}: {_INSTEAD}")


def _native_threads(p: Patches) -> None:
    """Threads started by C code are detected: librdkafka's end the run, others set ``sim.pinned`` to False."""
    p.loop.native_threads = NativeThreads(p)


def _confluent(p: Patches) -> None:
    """Creating a client of confluent-kafka is forbidden: librdkafka has its own threads and sockets."""
    module = sys.modules.get(_MODULE)
    if module is not None:
        _refuse_clients(p, module)
        _refuse_where_taken(p)
        return
    arrival = _Arrival(p)
    sys.meta_path.insert(0, arrival)
    p.then(lambda: sys.meta_path.remove(arrival))
    p.then(_give_back)


def _give_back() -> None:
    """The library's modules that were imported in the run have taken stand-ins for good: they get their clients."""
    real = {stand_in: kind for kind, stand_in in _STAND_INS.items()}
    for name, module in sys.modules.copy().items():
        if name.partition(".")[0] == _MODULE.partition(".")[0]:
            for key, value in list(vars(module).items()):
                if isinstance(value, type) and value in real:
                    setattr(module, key, real[value])


def _refuse_clients(p: Patches, module: ModuleType) -> None:
    for name in _CLIENTS:
        real: Any = getattr(module, name, None)
        if isinstance(real, type):
            stand_in = _STAND_INS.setdefault(real, _stand_in(real))
            p.put(module, name, stand_in)
            _refuse(p, real.__subclasses__(), stand_in)


def _refuse_where_taken(p: Patches) -> None:
    """Replace the client classes in modules that took them by name. Others may check an object's class, where no stand-in helps."""
    real = {id(kind): kind for kind in _STAND_INS}
    for module in sys.modules.copy().values():
        if issubclass(type(module), ModuleType):  # no proxy, which may raise whatever it is asked
            for name, value in list(vars(module).items()):
                if id(value) in real:
                    p.put(module, name, _STAND_INS[value])


class _Arrival(MetaPathFinder, Loader):
    """An import hook for the first import of a module: installs the replacements before other code can import its names."""

    def __init__(self, p: Patches) -> None:
        self.p = p
        self.real: Any = None

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As the finders behind it, with itself for a loader."""
        if fullname != _MODULE:
            return None
        finders = [finder for finder in sys.meta_path if finder is not self]
        spec = next((spec for finder in finders if (spec := finder.find_spec(fullname, path, target))), None)
        if spec is not None:
            self.real, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Delegate to the real loader."""
        module: ModuleType | None = self.real.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """The real loader's; then its clients are refused."""
        self.real.exec_module(module)
        module.__loader__ = self.real
        if module.__spec__ is not None:
            module.__spec__.loader = self.real
        _refuse_clients(self.p, module)


_STAND_INS: dict[type, type] = {}
"""Stand-ins for the client classes, one for each in this process."""


def _stand_in(real: Any) -> type:
    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        p = patches.current()
        if p is not None and p.inside():
            p.loop.forbid(f"confluent_kafka.{real.__name__.removeprefix('_').removesuffix('Impl')}", _INSTEAD)
        return real(*args, **kwargs) if cls in _STAND_INS.values() else real.__new__(cls, *args, **kwargs)

    return type(real.__name__, (real,), {"__new__": new, "__doc__": real.__doc__, "__module__": real.__module__})


def _refuse(p: Patches, kinds: list[type], stand_in: type) -> None:
    """Subclasses that Python code has made of a client."""
    for kind in kinds:
        if kind is not stand_in:
            _refuse(p, kind.__subclasses__(), stand_in)
            p.patch(kind, "__init__", _no_client(p, kind.__name__))


def _no_client(p: Patches, name: str) -> Callable[..., None]:
    return lambda self, *args, **kwargs: p.loop.forbid(f"confluent_kafka.{name}", _INSTEAD)


PINS: dict[str, Callable[[Patches], None]] = {"confluent-kafka": _confluent, "native threads": _native_threads}
