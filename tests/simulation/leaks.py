"""A module that has taken all it could of time and chance before any simulation, as modules of users have under pytest.

``python -m tests.simulation.leaks``: what each of them gives a program on a host, as JSON.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import datetime as dates
import functools
import itertools
import json
import os
import random
import secrets
import socket
import ssl
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime
from os import getpid, urandom
from posix import urandom as urandom_of_c
from random import choice
from random import random as draw
from time import monotonic, perf_counter, time_ns
from time import time as seconds
from typing import Any

import numpy as np
from numpy.random import default_rng, rand

from broker_sim.simulation import simulate

_rng = random.Random()
_numpys = default_rng()
_old_numpys = np.random.RandomState()
_now = datetime.now
_in_a_list = [seconds]
_in_a_dict = {"clock": time_ns}


_in_a_set = {seconds}
_in_a_deque = collections.deque([random.Random()])
_missing = collections.defaultdict(time.time)
_ticks = iter(time.time_ns, None)
_dice = random.Random()
_cast, _bits, _bell = _dice.random, _dice.getrandbits, random.gauss
"""Methods that are bound."""
_Clock = collections.namedtuple("_Clock", ["now", "stamp"])
_clock = _Clock(time.monotonic, datetime.utcnow)


def _generated(clock: Callable[[], float]) -> Iterator[float]:
    while True:
        yield clock()


_generator = _generated(time.perf_counter)
next(_generator)


@functools.lru_cache
def _cached() -> random.Random:
    return random.Random()


_cached()


def _rolls() -> Callable[[], int]:
    dice = random.Random()
    return lambda: dice.randint(1, 10**9)


_roll = _rolls()


def _by_default(clock: Callable[[], float] = time.time) -> float:
    return clock()


_counted = map(_by_default, itertools.repeat(seconds))


def _by_keyword(*, clock: Callable[[], int] = time.monotonic_ns) -> int:
    return clock()


def _drawn_by_default(rng: random.Random = random.Random()) -> float:  # noqa: B008
    return rng.random()


def _closed_over() -> Callable[[], float]:
    clock = time.perf_counter
    return lambda: clock()


_closure = _closed_over()


class _Attribute:
    clock = time.monotonic
    stamp = staticmethod(time.time)
    rng = random.Random()

    until = functools.partialmethod(lambda self, clock: clock(), time.time)

    def read(self) -> list[float]:
        return [self.clock(), self.stamp(), self.rng.random(), self.until()]


class _Slots:
    __slots__ = ("clock",)

    def __init__(self) -> None:
        self.clock = time.monotonic


class _Object:
    def __init__(self) -> None:
        self.clock, self.rng = time.time_ns, random.Random()
        self.by_name = {"dice": random.Random()}


_slots, _object = _Slots(), _Object()


@dataclasses.dataclass
class _Event:
    at: float = dataclasses.field(default_factory=time.time)
    on: dates.datetime = dataclasses.field(default_factory=datetime.now)
    id: bytes = dataclasses.field(default_factory=functools.partial(os.urandom, 8))


def _sql(statement: str) -> Callable[[], object]:
    def read() -> object:
        import sqlite3

        with sqlite3.connect(":memory:") as connection:
            connection.execute("create table t (x, at text default current_timestamp)")
            connection.execute("insert into t (x) values (1)")
            return repr(connection.execute(statement).fetchall())

    return read


LEAKS: dict[str, Callable[[], Any]] = {
    "from time import time": seconds,
    "from time import monotonic": monotonic,
    "from time import perf_counter": perf_counter,
    "from time import time_ns": time_ns,
    "in a list": lambda: _in_a_list[0](),
    "in a dict": lambda: _in_a_dict["clock"](),
    "in a set": lambda: [clock() for clock in _in_a_set],
    "in a deque": lambda: _in_a_deque[0].random(),
    "in a defaultdict": lambda: _missing.pop("x", None) or _missing["x"],
    "in an iterator": lambda: next(_ticks),
    "in a map": lambda: next(_counted),
    "in a namedtuple": lambda: [_clock.now(), str(_clock.stamp())],
    "in a generator": lambda: next(_generator),
    "in an lru_cache": lambda: _cached().random(),
    "Random() in a closure": lambda: _roll(),
    "Random() in an object's dict": lambda: _object.by_name["dice"].choice(range(10**9)),
    "methods of a Random()": lambda: [_cast(), _bits(64)],
    "half of what gauss() draws": lambda: [_bell(0, 1), _dice.gauss(0, 1), random.gauss(0, 1)],
    "from posix import urandom": lambda: urandom_of_c(4).hex(),
    "default argument": _by_default,
    "keyword-only default": _by_keyword,
    "closure": _closure,
    "class attributes": lambda: _Attribute().read(),
    "slot of an object": lambda: _slots.clock(),
    "attribute of an object": lambda: [_object.clock(), _object.rng.random()],
    "functools.partial": functools.partial(time.strftime, "%H:%M:%S"),
    "dataclass default_factory": lambda: repr(_Event()),
    "datetime.now": lambda: str(_now()),
    "time.clock_gettime": lambda: [time.clock_gettime(time.CLOCK_REALTIME), time.clock_gettime_ns(1)],
    "time.process_time": lambda: [time.process_time(), time.thread_time_ns(), os.times()],
    "module-level Random()": _rng.random,
    "Random() as a default": _drawn_by_default,
    "from random import random": lambda: [draw(), choice(range(10**9))],
    "from os import urandom": lambda: urandom(8).hex(),
    "os.getrandom": lambda: os.getrandom(8).hex(),
    "ssl.RAND_bytes": lambda: ssl.RAND_bytes(8).hex(),
    "os.getpid": lambda: [getpid(), os.getppid()],
    "names of this machine": lambda: [socket.gethostname(), socket.getfqdn(), os.uname().nodename],
    "uuid and secrets": lambda: [str(uuid.uuid1()), str(uuid.uuid4()), secrets.token_hex(8)],
    "numpy's global generator": lambda: [float(np.random.random()), float(rand())],
    "numpy's default_rng()": lambda: int(default_rng().integers(10**9)),
    "numpy's generators of a module": lambda: [float(_numpys.random()), float(_old_numpys.random_sample())],
    "sqlite's random()": _sql("select random(), hex(randomblob(4))"),
    "sqlite's CURRENT_TIMESTAMP": _sql("select at, current_timestamp, current_date, current_time from t"),
    "sqlite's 'now'": _sql(
        "select datetime('now', '+1 day'), strftime('%s', 'now'), julianday(), date(0.0), unixepoch()"
    ),
    "temporary names": lambda: os.path.basename(tempfile.mktemp()),
}
"""By name; each is called by a program, on a host."""


def what_is_seen(seed: int = 7) -> dict[str, Any]:
    """Leak -> what it gives; and what the simulation says of itself."""
    seen: dict[str, Any] = {}

    async def look() -> None:
        for name, leak in LEAKS.items():
            await asyncio.sleep(1)
            seen[name] = leak()

    with simulate(seed) as sim:
        sim.host("app").spawn(look)
        sim.run_for(len(LEAKS) + 1)
        return {"seen": seen, "reasons": sim.not_pinned}


if __name__ == "__main__":
    json.dump(what_is_seen(), sys.stdout)
