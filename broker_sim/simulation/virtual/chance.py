"""Randomness of simulated code, from the seed, and the properties of its machine and process, which are the simulated ones."""

from __future__ import annotations

import _random
import os
import random
import signal
import socket
import sys
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from zlib import crc32

from broker_sim.simulation.errors import LibraryMoved
from broker_sim.simulation.virtual import numpy_generators, patches
from broker_sim.simulation.virtual.in_place import Operator
from broker_sim.simulation.virtual.lots import Stream
from broker_sim.simulation.virtual.process import PROCESS

if TYPE_CHECKING:
    from broker_sim.simulation.virtual.patches import Patches

__all__ = ["PINS"]

_MADE_IN = "_broker_sim_run"
"""Attribute of a generator that was made in a run: the run's number."""


def _draws(p: Patches) -> None:
    """The functions of ``random`` draw from the seed, separately for each process."""
    state = random.getstate()
    random.seed(f"{p.seed}/random")  # for callers of getstate()
    p.then(lambda: random.setstate(state))


def _generators(p: Patches) -> None:
    """``random.Random()`` gets a seed from the run's; existing generators draw from the run's seed, separately for each process."""
    real = {name: p.real(random.Random, name) for name in ("seed", "getstate", "setstate")}

    def seed(self: random.Random, a: Any = None, version: int = 2) -> None:
        if "gauss_next" not in vars(self):  # it is being made
            vars(self)[_MADE_IN] = p.number
        real["seed"](_source(p, self), p.chance().getrandbits(256) if a is None else a, version)

    p.patch(random.Random, "seed", seed)
    p.patch(random.Random, "getstate", lambda self: real["getstate"](_source(p, self)))
    p.patch(random.Random, "setstate", lambda self, state: real["setstate"](_source(p, self), state))
    gauss = vars(random.Random)["gauss"]  # which keeps half of what it has drawn
    real_gauss = p.replace(gauss, lambda self, *args, **kwargs: real_gauss(_source(p, self), *args, **kwargs))
    for operator in _OPERATORS or _make_operators():
        operator.replace()
        p.then(operator.restore)


def _source(p: Patches, generator: random.Random) -> random.Random:
    """Return the stream that a generator draws from: itself, where it was made in this run."""
    own = getattr(generator, "__dict__", None)
    if own is None or own.get(_MADE_IN) == p.number or type(generator) is Stream:
        return generator
    process = PROCESS.get()
    streams = p.streams.setdefault(process, {})
    entry = streams.get(id(generator))
    if entry is None:
        stream: random.Random
        if generator is _HIDDEN:
            stream = p.chance()
        elif _of_hypothesis():
            return generator
        else:
            place = "test" if process is None else f"process {process.host} {process.number}"
            stream = Stream(f"{p.seed}/{place}/generator {len(streams) + 1}")
        entry = streams[id(generator)] = generator, stream
    return entry[1]


_HIDDEN: Any = getattr(random, "_inst", None)
"""The generator of the functions of ``random``."""


def _of_hypothesis() -> bool:
    """Whether Hypothesis draws an example, for which it has a generator of its own."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") in ("random", __name__, patches.__name__):
        frame = frame.f_back  # type: ignore[assignment]
    return frame is not None and str(frame.f_globals.get("__name__")).startswith("hypothesis.")


_OPERATORS: list[Operator] = []


def _make_operators() -> list[Operator]:
    """For all simulations: what a method of any generator leads to."""

    def entrance(real: Any) -> Callable[..., Any]:
        def draw(self: random.Random, *bits: int) -> Any:
            p = patches.current()
            return real(self if p is None or not p.inside() else _source(p, self), *bits)

        return draw

    _OPERATORS.extend(
        Operator(_random.Random, name, entrance(vars(Stream)[name])) for name in ("random", "getrandbits")
    )
    return _OPERATORS


def _numpy(p: Patches) -> None:
    """numpy's global generator is seeded; ``default_rng()`` uses ``secrets``, which draws from the seed."""
    numpy = sys.modules.get("numpy.random")
    if numpy is None:
        return
    state = numpy.get_state()
    numpy.seed(crc32(f"{p.seed}/numpy".encode()))
    p.then(lambda: numpy.set_state(state))


def _numpy_generators(p: Patches) -> None:
    """numpy's generators of modules, classes and default arguments are seeded for the run by their names."""
    numpy_generators.seed(p)


def _system(p: Patches) -> None:
    """``os.urandom``, ``os.getrandom``, ``ssl.RAND_bytes``, ``secrets`` and ``random.SystemRandom`` draw from the seed."""

    def urandom(size: int) -> bytes:
        return p.chance().randbytes(size)

    p.patch(os, "urandom", urandom)
    if hasattr(os, "getrandom"):
        p.patch(os, "getrandom", lambda size, flags=0: urandom(size))
    ssl = sys.modules.get("ssl")
    if ssl is not None:
        p.patch(ssl, "RAND_bytes", urandom)


def _uuids(p: Patches) -> None:
    """``uuid4`` and ``uuid1`` are drawn from the seed, in place of ``os.urandom``, the machine's address and a clock in C."""
    for name in ("_generate_time_safe", "_last_timestamp", "getnode"):
        if not hasattr(uuid, name):
            raise LibraryMoved(f"uuid has no {name}, which uuid1 uses")
    p.put(uuid, "_generate_time_safe", None)
    p.put(uuid, "_last_timestamp", None)
    p.patch(uuid, "getnode", lambda: 0x02_00_00_00_00_01)


def _temporary_names(p: Patches) -> None:
    """Names of temporary files are drawn from the seed; the files are real."""
    tempfile = sys.modules.get("tempfile")
    if tempfile is not None:
        if not hasattr(tempfile, "_name_sequence"):
            raise LibraryMoved("tempfile has no _name_sequence, which draws names")
        p.put(tempfile, "_name_sequence", None)


# --- who one is --------------------------------------------------------------------------------------------------------

_FIRST_PID = 1 << 22
"""Above all ids that Linux gives to processes."""
_PIDS = 1 << 20


def _pid() -> int:
    process = PROCESS.get()
    return (
        _FIRST_PID if process is None else _FIRST_PID + 1 + crc32(f"{process.host} {process.number}".encode()) % _PIDS
    )


def _identity(p: Patches) -> None:
    """``os.getpid`` returns the number of the simulated process, ``os.getppid`` 1; ``os.kill`` is forbidden."""
    p.patch(os, "getpid", _pid)
    if hasattr(os, "getppid"):
        p.patch(os, "getppid", lambda: 1)

    def kill(pid: int, number: int) -> None:
        if PROCESS.get() is not None:
            name = signal.Signals(number).name if number in signal.valid_signals() else str(number)
            p.loop.forbid(f"sending {name} (os.kill)", "let the test do it: sim.crash(host), sim.restart(host)")
        with p.lifted():
            os.kill(os.getpid() if pid == _FIRST_PID else pid, number)

    p.patch(os, "kill", kill)


def _host_names(p: Patches) -> None:
    """``socket.gethostname``, ``os.uname`` and ``platform.node`` return the name of the simulated host."""

    def name() -> str:
        process = PROCESS.get()
        return "test" if process is None else process.host

    def uname() -> Any:
        with p.lifted():
            real = tuple(os.uname())
        return os.uname_result((real[0], name(), *real[2:]))

    p.patch(socket, "gethostname", name)
    p.patch(socket, "getfqdn", lambda host="": host or name())
    if hasattr(os, "uname"):
        p.patch(os, "uname", uname)
    if "platform" in sys.modules:
        p.patch(sys.modules["platform"], "node", name)


PINS: dict[str, Callable[[Patches], None]] = {
    "random": _draws,
    "generators": _generators,
    "numpy": _numpy,
    "numpy's generators": _numpy_generators,
    "urandom": _system,
    "uuid": _uuids,
    "temporary names": _temporary_names,
    "process ids": _identity,
    "host names": _host_names,
}
