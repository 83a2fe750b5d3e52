"""What simulated code gets from its surroundings without asking the loop: clocks, randomness, threads, sockets, the garbage collector.

Rules:
1. Everything here is in force from the beginning of a simulation to its end, in its thread alone: other threads see the real world.
   Those of synchronous programs have doors of their own (``blocking``).
2. Randomness is drawn per process: what one host draws leaves the others as they are.
3. Where a library has to be met inside, the place is looked at first: `LibraryMoved` where it is no longer what it was. A test of the
   suite asks every one of ``PINS`` whether it has an effect.
4. The hash seed of Python can't be pinned inside a process: see ``hashseed``.
5. Not reached: clocks and generators that C code has for itself, hashes of objects by their address. Code that iterates a set of plain
   objects is not repeatable.
"""

from __future__ import annotations

import asyncio
import ctypes
import datetime
import gc
import importlib
import importlib.util
import inspect
import os
import random
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from zlib import crc32

from broker_sim.simulation.errors import LibraryMoved, SimForbidden
from broker_sim.simulation.virtual.process import PROCESS

if TYPE_CHECKING:
    from broker_sim.simulation.sync.threads import SimThread, Threads
    from broker_sim.simulation.virtual.loop import SimLoop

try:
    import _posixsubprocess
except ImportError:  # Windows
    _posixsubprocess = None  # type: ignore[assignment]

__all__ = ["PINS", "ambient"]

_DRAWS = (
    *("betavariate", "choice", "choices", "expovariate", "gammavariate", "gauss", "getrandbits", "lognormvariate"),
    *("normalvariate", "paretovariate", "randbytes", "randint", "random", "randrange", "sample", "shuffle"),
    *("triangular", "uniform", "vonmisesvariate", "weibullvariate"),
)
"""The functions of ``random`` that draw from the one hidden generator."""


class _Patches:
    """What has been replaced, and by what it is to be put back."""

    def __init__(self, loop: SimLoop, seed: object) -> None:
        self.loop, self.seed, self.thread = loop, seed, threading.get_ident()
        self.virtual: dict[str, Callable[..., Any]] = {}
        """What is behind each door."""
        self.threads: dict[int, SimThread] = {}
        """Threads of the simulation, by ident: see ``threads``."""
        self.in_threads: dict[str, Callable[..., Any]] = {}
        """What is behind a door for them, where it is something else."""
        self.sync: Threads | None = None
        self._undo: list[Callable[[], object]] = []
        self._own = random.Random(f"{seed}/test")

    def chance(self) -> random.Random:
        """The randomness of the running code."""
        process = PROCESS.get()
        return self._own if process is None else process.chance

    def put(self, owner: Any, name: str, value: object) -> None:
        inherited = isinstance(owner, type) and name not in vars(owner)
        old = None if inherited else vars(owner)[name]
        setattr(owner, name, value)
        self._undo.append(lambda: delattr(owner, name) if inherited else setattr(owner, name, old))

    def door(self, owner: Any, name: str, virtual: Callable[..., Any]) -> None:
        """Replace a function: it is ``virtual`` in this thread, as long as the simulation runs, and what it was for all others."""
        key = self.key(owner, name)
        self.virtual[key] = virtual
        self.put(owner, name, _door(key, getattr(owner, name)))

    def key(self, owner: Any, name: str) -> str:
        """The name of a door."""
        return f"{getattr(owner, '__module__', '')}.{owner.__name__}.{name}"

    def real(self, owner: Any, name: str) -> Callable[..., Any]:
        """What is behind a door for everybody else."""
        made = _DOORS.get(self.key(owner, name))
        return getattr(owner, name) if made is None else made[1]

    def inside(self) -> bool:
        """Whether simulated code asks."""
        me = threading.get_ident()
        return me == self.thread or me in self.threads

    def in_thread(self, key: str, args: Any, kwargs: Any) -> Any:
        """What one of the simulation's threads finds behind a door. What is forbidden ends the run, whatever the thread catches."""
        try:
            return (self.in_threads.get(key) or self.virtual[key])(*args, **kwargs)
        except SimForbidden as error:
            self.loop.forbidden = error
            raise

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
        self._undo.append(undo)

    def restore(self) -> None:
        while self._undo:
            self._undo.pop()()


_current: _Patches | None = None
"""Of the simulation that runs."""


def threads() -> list[int]:
    """The idents of the threads of the simulation that runs: of its synchronous programs."""
    return [] if _current is None else list(_current.threads)


_DOORS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {}


def _door(key: str, real: Callable[..., Any]) -> Callable[..., Any]:
    """The function that stands for ``real``. It is the same one in all simulations: a module that is first imported in one of them may
    take it for good, and is to see the next one's time."""
    made = _DOORS.get(key)
    if made is not None and made[1] is real:
        return made[0]
    ident = threading.get_ident

    def function(*args: Any, **kwargs: Any) -> Any:
        patches = _current
        if patches is None:
            return real(*args, **kwargs)
        me = ident()
        if me == patches.thread:
            return patches.virtual[key](*args, **kwargs)
        return patches.in_thread(key, args, kwargs) if me in patches.threads else real(*args, **kwargs)

    _DOORS[key] = function, real
    return function


# --- clocks ------------------------------------------------------------------------------------------------------------


def _clocks(p: _Patches) -> None:
    """``time.time``, ``monotonic``, ``perf_counter``, ``localtime`` and their like are the loop's; ``time.sleep`` is forbidden."""
    loop = p.loop
    for name, virtual in (("time", loop.wall), ("monotonic", loop.time), ("perf_counter", loop.time)):
        p.door(time, name, virtual)
        p.door(time, name + "_ns", lambda virtual=virtual: int(virtual() * 1e9))

    def no_sleep(seconds: float) -> None:
        loop.forbid(f"time.sleep({seconds!r})", "use asyncio.sleep" if loop.is_running() else "use sim.run_for")

    p.door(time, "sleep", no_sleep)
    for name, at in (("gmtime", 0), ("localtime", 0), ("ctime", 0), ("strftime", 1), ("asctime", 0)):
        p.door(time, name, _at_virtual_time(getattr(time, name), at, loop))


def _at_virtual_time(real: Callable[..., Any], at: int, loop: SimLoop) -> Callable[..., Any]:
    """A function of ``time`` whose argument number ``at`` is the present where it is left out."""
    broken_down = real in (time.strftime, time.asctime)
    localtime = time.localtime

    def function(*args: Any) -> Any:
        if len(args) <= at or args[at] is None:
            args = (*args[:at], localtime(loop.wall()) if broken_down else loop.wall())
        return real(*args)

    return function


def _dates(p: _Patches) -> None:
    """``datetime.now()``, ``utcnow()`` and ``today()`` are the loop's time.

    ``now()`` reads the clock in C, in a type that takes no other attribute: the way to it is behind the proxy of its dict.
    ``today()`` asks ``time.time``."""
    kind = datetime.datetime
    members = gc.get_referents(vars(kind))[0]
    real = {name: members[name] for name in ("now", "utcnow")}

    def now(cls: Any, tz: Any = None) -> Any:
        if not p.inside():
            return real["now"].__get__(None, cls)(tz)
        return cls.fromtimestamp(p.loop.wall(), tz)

    def utcnow(cls: Any) -> Any:
        if not p.inside():
            return real["utcnow"].__get__(None, cls)()
        return cls.fromtimestamp(p.loop.wall(), datetime.UTC).replace(tzinfo=None)

    def put(functions: dict[str, Any]) -> None:
        members.update(functions)
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))

    put({"now": classmethod(now), "utcnow": classmethod(utcnow)})
    p.then(lambda: put(real))
    if kind.now(datetime.UTC).timestamp() != p.loop.wall():
        raise LibraryMoved(
            "datetime.now() can't be given virtual time; simulate(without=['datetime']) leaves it as it is"
        )


# --- randomness --------------------------------------------------------------------------------------------------------


def _draws(p: _Patches) -> None:
    """The functions of ``random`` draw from the seed, for each process by itself."""
    state = random.getstate()
    random.seed(f"{p.seed}/random")  # for whoever took a function of the module before
    p.then(lambda: random.setstate(state))
    for name in _DRAWS:
        if hasattr(random, name):
            p.door(random, name, lambda *args, name=name, **kwargs: getattr(p.chance(), name)(*args, **kwargs))


def _generators(p: _Patches) -> None:
    """``random.Random()`` has a seed that is drawn: it asks the system for one, past ``os.urandom``."""
    real = random.Random.seed

    def seed(self: random.Random, a: Any = None, version: int = 2) -> None:
        real(self, p.chance().getrandbits(256) if a is None else a, version)

    p.door(random.Random, "seed", seed)


def _system(p: _Patches) -> None:
    """``os.urandom``, ``secrets`` and ``random.SystemRandom`` draw from the seed."""
    if getattr(random, "_urandom", None) is not os.urandom:
        raise LibraryMoved("random's _urandom, which SystemRandom and secrets draw from, is not os.urandom")

    def urandom(size: int) -> bytes:
        return p.chance().randbytes(size)

    p.door(os, "urandom", urandom)
    p.door(random, "_urandom", urandom)


def _uuids(p: _Patches) -> None:
    """``uuid4`` and ``uuid1`` are of the seed: one reads ``os.urandom``, the other the machine's address and a clock in C."""
    for name in ("_generate_time_safe", "_last_timestamp", "getnode"):
        if not hasattr(uuid, name):
            raise LibraryMoved(f"uuid has no {name}, which uuid1 uses")
    p.put(uuid, "_generate_time_safe", None)
    p.put(uuid, "_last_timestamp", None)
    p.door(uuid, "getnode", lambda: 0x02_00_00_00_00_01)


# --- what there is none of ---------------------------------------------------------------------------------------------


def _threads(p: _Patches) -> None:
    """No thread is started but those of synchronous programs."""

    def start(thread: threading.Thread) -> None:
        p.loop.forbid(f"starting thread {thread.name}", "use tasks; run_in_executor runs its function in place")

    p.door(threading.Thread, "start", start)


def _blocking(p: _Patches) -> None:
    """Nobody waits for another thread: queues, events, futures of executors. Between two runs a test may."""
    real_wait, real_join, loop = threading.Condition.wait, threading.Thread.join, p.loop

    def wait(self: threading.Condition, timeout: float | None = None) -> bool:
        if loop.is_running() and (timeout is None or timeout > 0):
            loop.forbid("waiting for another thread (Event, Queue, Future.result)", "use asyncio's")
        return real_wait(self, timeout)

    def join(self: threading.Thread, timeout: float | None = None) -> None:
        if loop.is_running():
            loop.forbid(f"waiting for thread {self.name}", "use tasks, and await them")
        real_join(self, timeout)

    p.door(threading.Condition, "wait", wait)
    p.door(threading.Thread, "join", join)


def _loops(p: _Patches) -> None:
    """No other event loop is made."""

    def no_loop() -> None:
        p.loop.forbid("making another event loop", "await it in the one that is running")

    def no_run(main: Any, **options: Any) -> None:
        if asyncio.iscoroutine(main):
            main.close()
        p.loop.forbid("asyncio.run", "await it in a program, sim.run it in a test")

    for module in (asyncio, asyncio.events):
        p.door(module, "new_event_loop", no_loop)
    for module in (asyncio, asyncio.runners):
        p.door(module, "run", no_run)


def _sockets(p: _Patches) -> None:
    """No real socket is opened, no name looked up."""

    def no_socket(*args: Any, **kwargs: Any) -> None:
        p.loop.forbid("opening a socket", "use asyncio's streams, loop.create_connection or loop.create_server")

    def no_lookup(*args: Any, **kwargs: Any) -> None:
        p.loop.forbid("looking up a name through socket", "use loop.getaddrinfo")

    def no_client(address: Any, *args: Any, **kwargs: Any) -> None:
        what = f"connecting to {address!r} (urllib, http.client and the like)"
        p.loop.forbid(what, "use asyncio.open_connection to a server that is a coroutine on another host")

    p.door(socket, "create_connection", no_client)
    p.door(socket.socket, "__init__", no_socket)
    p.door(socket, "getaddrinfo", no_lookup)
    p.door(socket, "gethostbyname", no_lookup)


def _programs(p: _Patches) -> None:
    """No process is started."""

    def no_program(self: Any, *args: Any, **kwargs: Any) -> None:
        self._child_created = False  # for its __del__
        p.loop.forbid("starting a program", "let it be a coroutine on a host")

    def no_process(name: str) -> Callable[..., None]:
        return lambda *args, **kwargs: p.loop.forbid(f"starting a process ({name})", "let it be a coroutine on a host")

    p.door(subprocess.Popen, "__init__", no_program)
    for name in ("fork", "forkpty", "system", "posix_spawn", "posix_spawnp"):
        if hasattr(os, name):
            p.door(os, name, no_process(f"os.{name}"))
    if _posixsubprocess is not None:
        p.door(_posixsubprocess, "fork_exec", no_process("multiprocessing"))


# --- aiokafka ----------------------------------------------------------------------------------------------------------


def _record_times(p: _Patches) -> None:
    """Records have virtual timestamps: aiokafka's builder is C and reads the clock there where none is given."""
    from aiokafka.producer import message_accumulator

    real = message_accumulator.BatchBuilder.append
    parameters = inspect.signature(real).parameters
    if list(parameters) != ["self", "timestamp", "key", "value", "headers"]:
        raise LibraryMoved(f"aiokafka's BatchBuilder.append takes {', '.join(parameters)}")
    wall = p.loop.wall

    def append(self: Any, *, timestamp: Any, key: Any, value: Any, headers: Any = None) -> Any:
        if timestamp is None:
            timestamp = int(wall() * 1000)
        return real(self, timestamp=timestamp, key=key, value=value, headers=headers)

    p.door(message_accumulator.BatchBuilder, "append", append)


def _partition_hashes(p: _Patches) -> None:
    """Sets of TopicPartition are iterated in the same order whatever Python's hash seed is."""
    from aiokafka.structs import TopicPartition

    if TopicPartition._fields != ("topic", "partition"):
        raise LibraryMoved(f"aiokafka's TopicPartition has the fields {', '.join(TopicPartition._fields)}")

    class Names(dict[str, int]):
        def __missing__(self, name: str) -> int:
            self[name] = crc = crc32(name.encode()) * 31
            return crc

    names = Names()

    def partition_hash(self: Any) -> int:
        return names[self[0]] + self[1]  # type: ignore[no-any-return]

    p.put(TopicPartition, "__hash__", partition_hash)


def _broker_hashes(p: _Patches) -> None:
    """Sets of BrokerMetadata, which has a host's name and None in it: until Python 3.12 the hash of None is its address."""
    from aiokafka.structs import BrokerMetadata

    if BrokerMetadata._fields != ("nodeId", "host", "port", "rack"):
        raise LibraryMoved(f"aiokafka's BrokerMetadata has the fields {', '.join(BrokerMetadata._fields)}")

    def broker_hash(self: Any) -> int:
        return hash((crc32(f"{self[0]} {self[1]}".encode()), self[2]))

    p.put(BrokerMetadata, "__hash__", broker_hash)


def _producer_names(p: _Patches) -> None:
    """A producer without a client id is called by how many there have been: those of this simulation."""
    from aiokafka import AIOKafkaProducer

    name = "_PRODUCER_CLIENT_ID_SEQUENCE"
    if not isinstance(vars(AIOKafkaProducer).get(name), int):
        raise LibraryMoved(f"aiokafka's AIOKafkaProducer has no {name}")
    p.put(AIOKafkaProducer, name, 0)


def _sticky_memory(p: _Patches) -> None:
    """The sticky assignor keeps what it was assigned on its class, as a process has but one: here each process has its own."""
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    kept: dict[tuple[Any, Any, str], Any] = {}
    names = ("member_assignment", "generation")
    missing = [name for name in names if name not in vars(StickyPartitionAssignor)]
    if missing:
        raise LibraryMoved(f"aiokafka's StickyPartitionAssignor has no {' and no '.join(missing)}")
    first = {name: vars(StickyPartitionAssignor)[name] for name in names}

    def of_process(name: str) -> property:
        def read(cls: Any) -> Any:
            return kept.get((cls, PROCESS.get(), name), first[name])

        def write(cls: Any, value: Any) -> None:
            kept[cls, PROCESS.get(), name] = value

        return property(read, write)

    usual: Any = type(StickyPartitionAssignor)
    meta = type("PerProcess", (usual,), {name: of_process(name) for name in names})
    kinds = [StickyPartitionAssignor]
    for kind in kinds:
        kinds += kind.__subclasses__()
        kind.__class__ = meta

    def as_before() -> None:
        for kind in kinds:
            kind.__class__ = usual

    p.then(as_before)


# --- memory ------------------------------------------------------------------------------------------------------------


def _garbage(p: _Patches) -> None:
    """No finaliser runs in the middle of a run; what was there before is not looked at when it ends."""
    if gc.isenabled():
        gc.disable()
        p.then(gc.enable)
    if not gc.get_freeze_count():
        gc.freeze()
        p.then(gc.unfreeze)


PINS: dict[str, Callable[[_Patches], None]] = {
    "clocks": _clocks,
    "datetime": _dates,
    "random": _draws,
    "generators": _generators,
    "urandom": _system,
    "uuid": _uuids,
    "threads": _threads,
    "blocking": _blocking,
    "loops": _loops,
    "sockets": _sockets,
    "programs": _programs,
    "aiokafka's record times": _record_times,
    "aiokafka's partitions": _partition_hashes,
    "aiokafka's brokers": _broker_hashes,
    "aiokafka's producer names": _producer_names,
    "aiokafka's sticky memory": _sticky_memory,
    "garbage": _garbage,
}
"""What is pinned, by name. Those of aiokafka only where it is installed."""


def _import_clients() -> bool:
    """Whether aiokafka is installed. It is imported before anything is pinned, so that it takes no pinned function for good."""
    if importlib.util.find_spec("aiokafka") is None:
        return False
    importlib.import_module("aiokafka.admin")
    return True


@contextmanager
def ambient(loop: SimLoop, seed: object, *, without: tuple[str, ...] = ()) -> Iterator[None]:
    """Pin everything but what is named ``without`` while the block runs. Raises LibraryMoved."""
    global _current
    if _current is not None:
        raise RuntimeError("another simulation is running in this process: what is pinned is pinned once")
    kafka = _import_clients()
    patches = _current = _Patches(loop, seed)
    try:
        for name, pin in PINS.items():
            if name not in without and (kafka or not name.startswith("aiokafka")):
                pin(patches)
        yield
    finally:
        _current = None
        patches.restore()
