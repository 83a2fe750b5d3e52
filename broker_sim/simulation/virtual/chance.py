"""What simulated code draws comes from the seed, and what it can learn of the machine and of its own process is the simulated one's."""

from __future__ import annotations

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
from broker_sim.simulation.virtual.process import PROCESS

if TYPE_CHECKING:
    from broker_sim.simulation.virtual.patches import Patches

__all__ = ["PINS"]

_DRAWS = (
    *("betavariate", "choice", "choices", "expovariate", "gammavariate", "gauss", "getrandbits", "lognormvariate"),
    *("normalvariate", "paretovariate", "randbytes", "randint", "random", "randrange", "sample", "shuffle"),
    *("triangular", "uniform", "vonmisesvariate", "weibullvariate"),
)
"""The functions of ``random`` that draw from the one hidden generator."""


def _draws(p: Patches) -> None:
    """The functions of ``random`` draw from the seed, for each process by itself."""
    state = random.getstate()
    random.seed(f"{p.seed}/random")  # for whoever has the hidden generator itself
    p.then(lambda: random.setstate(state))
    for name in _DRAWS:
        if hasattr(random, name):
            p.door(random, name, lambda *args, name=name, **kwargs: getattr(p.chance(), name)(*args, **kwargs))


def _generators(p: Patches) -> None:
    """``random.Random()`` has a seed that is drawn: it asks the system for one, past ``os.urandom``."""
    real = random.Random.seed

    def seed(self: random.Random, a: Any = None, version: int = 2) -> None:
        real(self, p.chance().getrandbits(256) if a is None else a, version)

    p.door(random.Random, "seed", seed)


def _numpy(p: Patches) -> None:
    """numpy's global generator is seeded; ``default_rng()`` asks ``secrets``, and so the seed."""
    numpy = sys.modules.get("numpy.random")
    if numpy is None:
        return
    state = numpy.get_state()
    numpy.seed(crc32(f"{p.seed}/numpy".encode()))
    p.then(lambda: numpy.set_state(state))


def _system(p: Patches) -> None:
    """``os.urandom``, ``os.getrandom``, ``ssl.RAND_bytes``, ``secrets`` and ``random.SystemRandom`` draw from the seed."""
    if getattr(random, "_urandom", None) is not os.urandom:
        raise LibraryMoved("random's _urandom, which SystemRandom and secrets draw from, is not os.urandom")

    def urandom(size: int) -> bytes:
        return p.chance().randbytes(size)

    p.door(os, "urandom", urandom)
    p.door(random, "_urandom", urandom)
    if hasattr(os, "getrandom"):
        p.door(os, "getrandom", lambda size, flags=0: urandom(size))
    ssl = sys.modules.get("ssl")
    if ssl is not None:
        p.door(ssl, "RAND_bytes", urandom)


def _uuids(p: Patches) -> None:
    """``uuid4`` and ``uuid1`` are of the seed: one reads ``os.urandom``, the other the machine's address and a clock in C."""
    for name in ("_generate_time_safe", "_last_timestamp", "getnode"):
        if not hasattr(uuid, name):
            raise LibraryMoved(f"uuid has no {name}, which uuid1 uses")
    p.put(uuid, "_generate_time_safe", None)
    p.put(uuid, "_last_timestamp", None)
    p.door(uuid, "getnode", lambda: 0x02_00_00_00_00_01)


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
    """``os.getpid`` is one number for each process of the simulation, ``os.getppid`` is 1; ``os.kill`` reaches nobody."""
    p.door(os, "getpid", _pid)
    if hasattr(os, "getppid"):
        p.door(os, "getppid", lambda: 1)

    def kill(pid: int, number: int) -> None:
        if PROCESS.get() is not None:
            name = signal.Signals(number).name if number in signal.valid_signals() else str(number)
            p.loop.forbid(f"sending {name} (os.kill)", "let the test do it: sim.crash(host), sim.restart(host)")
        with p.lifted():
            os.kill(os.getpid() if pid == _FIRST_PID else pid, number)

    p.door(os, "kill", kill)


def _host_names(p: Patches) -> None:
    """``socket.gethostname``, ``os.uname`` and ``platform.node`` tell the host's name in the simulation."""

    def name() -> str:
        process = PROCESS.get()
        return "test" if process is None else process.host

    def uname() -> Any:
        with p.lifted():
            real = tuple(os.uname())
        return os.uname_result((real[0], name(), *real[2:]))

    p.door(socket, "gethostname", name)
    p.door(socket, "getfqdn", lambda host="": host or name())
    if hasattr(os, "uname"):
        p.door(os, "uname", uname)
    if "platform" in sys.modules:
        p.door(sys.modules["platform"], "node", name)


PINS: dict[str, Callable[[Patches], None]] = {
    "random": _draws,
    "generators": _generators,
    "numpy": _numpy,
    "urandom": _system,
    "uuid": _uuids,
    "temporary names": _temporary_names,
    "process ids": _identity,
    "host names": _host_names,
}
