"""Virtual versions of calls that block, for the threads of a simulation: sleeping, locks, conditions, joins, sockets, selectors.

Everything is patched when the first thread starts: it is virtual for these threads alone.
"""

from __future__ import annotations

import _thread
import atexit
import importlib
import importlib.util
import inspect
import queue
import select
import selectors
import socket
import ssl
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import process as processes
from typing import TYPE_CHECKING, Any
from zlib import crc32

from broker_sim.simulation.errors import LibraryMoved
from broker_sim.simulation.sync.sockets import PairSocket, SimSelector, TcpSocket
from broker_sim.simulation.sync.threads import SimLock, SimRLock, SimThread, Threads, current

if TYPE_CHECKING:
    from broker_sim.simulation.virtual.patches import Patches

__all__ = ["KAFKA_PINS", "install"]


def install(p: Patches, threads: Threads) -> None:
    """Replace all blocking calls of the standard library in simulated threads. Raises LibraryMoved."""
    for what in (_clocks, _locks, _waits, _threads, _sockets, _selectors):
        what(p, threads)
    if _import_kafka(p):
        for pin in KAFKA_PINS.values():
            pin(p)


def _import_kafka(p: Patches) -> bool:
    """Whether kafka-python is installed. It is imported before a program does it, so that it takes no virtual function for good."""
    if importlib.util.find_spec("kafka") is None:
        return False
    with p.lifted(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the way in which it reads its files
        importlib.import_module("kafka")
    return True


def _me() -> SimThread:
    thread = current()
    assert thread is not None
    return thread


def _of_threads(p: Patches, owner: Any, name: str, virtual: Callable[..., Any], *, at_name: bool = False) -> None:
    """Replace a function for the simulation's threads; in the loop's one it is what it was, or what it is already."""
    p.in_threads[p.patch(owner, name, None, at_name=at_name)] = virtual


def _clocks(p: Patches, threads: Threads) -> None:
    loop = p.loop
    for name, virtual in (("time", loop.wall), ("monotonic", loop.time), ("perf_counter", loop.time)):

        def read(virtual: Callable[[], float] = virtual) -> float:
            _me().work()
            return virtual()

        _of_threads(p, time, name, read)
        _of_threads(p, time, name + "_ns", lambda read=read: int(read() * 1e9))
    for module, name in ((queue, "time"), (threading, "_time")):
        if getattr(module, name, None) is None:
            raise LibraryMoved(f"{module.__name__} has no {name}, which counts how long it has waited")
        _of_threads(p, module, name, loop.time, at_name=True)  # which are not everybody's: see ``around``

    def sleep(seconds: float) -> None:
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        me, deadline_s = _me(), loop.time() + seconds
        me.wait(seconds, "a sleep to end")
        while (left_s := deadline_s - loop.time()) > 0:
            me.wait(left_s, "a sleep to end")

    _of_threads(p, time, "sleep", sleep)


def _locks(p: Patches, threads: Threads) -> None:
    _of_threads(p, threading, "Lock", SimLock)
    _of_threads(p, threading, "RLock", SimRLock)
    _of_threads(p, queue, "SimpleQueue", queue._PySimpleQueue)  # type: ignore[attr-defined]


class _Waiter:
    """A thread that waits in a Condition, until ``notify`` releases it."""

    def __init__(self, thread: SimThread) -> None:
        self.thread, self.released = thread, False

    def release(self) -> None:
        self.released = True
        self.thread.wake()


def _waits(p: Patches, threads: Threads) -> None:
    """Conditions, and with them events, queues, semaphores and barriers."""
    if not {"_waiters", "_release_save", "_acquire_restore", "_is_owned"} <= {
        *vars(threading.Condition()),
        *dir(threading.Condition),
    }:
        raise LibraryMoved("threading.Condition has other parts")

    def wait(self: Any, timeout: float | None = None) -> bool:
        if not self._is_owned():
            raise RuntimeError("cannot wait on un-acquired lock")
        me = _me()
        waiter = _Waiter(me)
        self._waiters.append(waiter)
        saved = self._release_save()
        deadline_s = None if timeout is None else p.loop.time() + timeout
        try:
            while not waiter.released:
                left_s = None if deadline_s is None else deadline_s - p.loop.time()
                if left_s is not None and left_s <= 0:
                    break
                me.wait(left_s, "an event, a queue or a condition")
            else:
                return True
            if timeout is not None and timeout <= 0:
                me.yield_()
            return waiter.released
        finally:
            if not waiter.released and waiter in self._waiters:
                self._waiters.remove(waiter)
            self._acquire_restore(saved)

    _of_threads(p, threading.Condition, "wait", wait)


def _threads(p: Patches, threads: Threads) -> None:
    """Let threads that a simulated thread starts be simulated, too."""
    Thread = threading.Thread
    real_init = Thread.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        with p.lifted():
            real_init(self, *args, **kwargs)
            if kwargs.get("name") is None and not args[2:]:
                self.name = threads.next_name()

    def start(self: Any) -> None:
        if hasattr(self, "_in_simulation"):
            raise RuntimeError("threads can only be started once")
        threads.begin(self)

    def join(self: Any, timeout: float | None = None) -> None:
        thread = getattr(self, "_in_simulation", None)
        if thread is not None:
            thread.join(_me(), timeout)
        elif self.ident is None:
            raise RuntimeError("cannot join thread before it is started")
        else:
            p.loop.forbid(f"waiting for thread {self.name}", "start it in the simulation")

    def is_alive(self: Any) -> bool:
        thread = getattr(self, "_in_simulation", None)
        if thread is not None:
            return not thread.done
        with p.lifted():
            return bool(Thread.is_alive(self))

    for name, virtual in (("__init__", init), ("start", start), ("join", join), ("is_alive", is_alive)):
        _of_threads(p, Thread, name, virtual)

    def no_thread(*_: Any, **__: Any) -> None:
        p.loop.forbid("starting a thread past threading", "use threading.Thread")

    for name in ("start_new_thread", "start_new"):
        if hasattr(_thread, name):
            _of_threads(p, _thread, name, no_thread)

    def no_processes(self: Any, *_: Any, **__: Any) -> None:
        p.loop.forbid("starting a process", "let it be a program on another host")

    _of_threads(p, atexit, "register", lambda function, *_, **__: function)  # it is not this process that it waits for
    _of_threads(p, processes.ProcessPoolExecutor, "__init__", no_processes)


def _sockets(p: Patches, threads: Threads) -> None:
    real_new = socket.socket.__new__

    def new(cls: type[Any], *args: Any, **kwargs: Any) -> Any:
        if cls is socket.socket and current() is not None:
            cls = TcpSocket
        return real_new(cls)

    p.put(socket.socket, "__new__", staticmethod(new))
    _of_threads(p, socket, "create_connection", p.real(socket, "create_connection"))  # which comes to what is above
    _of_threads(p, socket, "socketpair", lambda *_, **__: PairSocket.pair())
    _of_threads(p, socket, "getaddrinfo", lambda host, port, *_, **__: p.loop.network.getaddrinfo(host, port))
    _of_threads(p, socket, "gethostbyname", lambda host: p.loop.network.getaddrinfo(host, 0)[0][4][0])

    def no_tls(self: Any, *_: Any, **__: Any) -> None:
        p.loop.forbid("TLS", "connect without it")

    _of_threads(p, ssl.SSLContext, "wrap_socket", no_tls)


def _selectors(p: Patches, threads: Threads) -> None:
    default = selectors.DefaultSelector

    def new(cls: type[Any], *args: Any, **kwargs: Any) -> Any:
        return object.__new__(SimSelector if cls is default and current() is not None else cls)

    p.put(default, "__new__", staticmethod(new))

    def no_select(*_: Any, **__: Any) -> None:
        p.loop.forbid("the module select", "use selectors.DefaultSelector")

    for name in ("select", "poll", "epoll"):
        if hasattr(select, name):
            _of_threads(p, select, name, no_select)


# --- kafka-python ------------------------------------------------------------------------------------------------------


def _kafka_partitions(p: Patches) -> None:
    """Sets of its TopicPartition are iterated in the same order whatever Python's hash seed is."""
    from kafka.structs import TopicPartition

    if TopicPartition._fields != ("topic", "partition"):
        raise LibraryMoved(f"kafka-python's TopicPartition has the fields {', '.join(TopicPartition._fields)}")
    p.put(TopicPartition, "__hash__", lambda self: crc32(self[0].encode()) * 31 + self[1])


def _kafka_tasks(p: Patches) -> None:
    """Tasks of its I/O loop that are due at the same time run in the order of their creation, not of their addresses."""
    from kafka.net.selector import Task

    if "__lt__" not in vars(Task) or list(inspect.signature(Task.__init__).parameters) != ["self", "coro"]:
        raise LibraryMoved("kafka-python's Task has other parts")
    real = Task.__init__

    def init(self: Any, coro: Any) -> None:
        self._number_in_simulation = p.loop.next_number()
        real(self, coro)

    def number(self: Any) -> int:
        number_of_thread: int = getattr(self, "_number_in_simulation", 0)
        return number_of_thread

    p.put(Task, "__init__", init)
    p.put(Task, "__lt__", lambda self, other: number(self) < number(other))
    p.put(Task, "__hash__", number)


def _kafka_selector(p: Patches) -> None:
    """The selector of kafka-python is Python's default one, which is virtual on a thread of the simulation."""
    from kafka.net.selector import NetworkSelector

    if NetworkSelector.DEFAULT_CONFIG.get("selector") is not selectors.DefaultSelector:
        raise LibraryMoved("kafka-python's NetworkSelector takes another selector")


def _kafka_record_times(p: Patches) -> None:
    """Records have virtual timestamps, although kafka-python's builder has ``time.time`` as a default argument."""
    from kafka.record.default_records import DefaultRecordBatchBuilder

    taken = list(inspect.signature(DefaultRecordBatchBuilder.append).parameters)
    if taken[:6] != ["self", "offset", "timestamp", "key", "value", "headers"]:
        raise LibraryMoved(f"kafka-python's DefaultRecordBatchBuilder.append takes {', '.join(taken)}")
    real, wall = p.real(DefaultRecordBatchBuilder, "append"), p.loop.wall

    def append(self: Any, offset: int, timestamp: int | None, key: Any, value: Any, headers: Any) -> Any:
        return real(self, offset, int(wall() * 1000) if timestamp is None else timestamp, key, value, headers)

    _of_threads(p, DefaultRecordBatchBuilder, "append", append)


def _kafka_finalisers(p: Patches) -> None:
    """A producer without references does not close itself, which takes a second, once its process or the simulation has ended."""
    from kafka import KafkaProducer

    real = vars(KafkaProducer).get("__del__")
    if real is None:
        raise LibraryMoved("kafka-python's KafkaProducer has no __del__")

    def finalise(self: Any) -> None:
        me = current()
        if me is not None and not me.over:
            real(self)

    p.put(KafkaProducer, "__del__", finalise)


def _kafka_producer_names(p: Patches) -> None:
    """The generated client ids of producers count from 1 in each simulation."""
    producers = importlib.import_module("kafka.producer.kafka")
    name = "PRODUCER_CLIENT_ID_SEQUENCE"
    if not hasattr(getattr(producers, name, None), "increment"):
        raise LibraryMoved(f"kafka-python's producer has no {name}")
    p.put(producers, name, type(getattr(producers, name))())


KAFKA_PINS: dict[str, Callable[[Patches], None]] = {
    "kafka-python's partitions": _kafka_partitions,
    "kafka-python's tasks": _kafka_tasks,
    "kafka-python's selector": _kafka_selector,
    "kafka-python's record times": _kafka_record_times,
    "kafka-python's producer names": _kafka_producer_names,
    "kafka-python's finalisers": _kafka_finalisers,
}
"""Parts of kafka-python that are pinned, or checked, by name."""
