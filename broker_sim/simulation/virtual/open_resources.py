"""Real resources of a simulated process: its files, and its connections to SQLite databases. Files are real.

Rules:
1. When a process dies its kernel closes its files: what was not flushed is lost, and locks on them (flock, lockf) are released. Until
   the run ends the file's number stays in use (``os.devnull``): remaining writes of the dead process reach no file of another one.
2. A connection to a database is closed with its cursors, and so its transaction is rolled back.
3. A process uses the connections that it has opened itself. One that a module opened before the run would outlive every process, with
   the dead one's transaction in it, which the next one commits: it is refused.
4. SQLite's clock and chance are the simulation's: ``random()``, ``CURRENT_TIMESTAMP``, ``datetime('now')`` and their like.
5. The owner of a lock can't release it while another thread waits in C code: a locked database is an error at once.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import gc
import io
import os
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker_sim.simulation.errors import SimForbidden
from broker_sim.simulation.virtual.in_place import put_in_class
from broker_sim.simulation.virtual.process import PROCESS, Process

try:
    import sqlite3
except ImportError:  # a Python that was built without it
    sqlite3 = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from broker_sim.simulation.virtual.patches import Patches

__all__ = ["PINS"]

_ENTROPY = ("/dev/random", "/dev/urandom", "/dev/hwrng")


class _Files:
    """Processes that own files, by the file's number: a number that is given out again belongs to its new owner."""

    def __init__(self, p: Patches) -> None:
        self.p = p
        self._owners: dict[int, tuple[Process, _Identity, weakref.ref[Any] | None]] = {}
        self._of_the_dead: list[Any] = []  # numbers, and references to files
        p.then(self._end)

    def open(self, file: Any, *args: Any, **kwargs: Any) -> Any:
        """The built-in ``open`` that records the file as one of the running process."""
        opened = self.p.real(builtins, "open")(file, *args, **kwargs)
        self._taken(opened.fileno(), file, weakref.ref(opened))
        return opened

    def os_open(self, path: Any, *args: Any, **kwargs: Any) -> int:
        """``os.open`` that records the descriptor as one of the running process."""
        number: int = self.p.real(os, "open")(path, *args, **kwargs)
        self._taken(number, path)
        return number

    def _taken(self, number: int, path: object, opened: weakref.ref[Any] | None = None) -> None:
        process = PROCESS.get()
        if process is None:
            self._owners.pop(number, None)
            return
        if path in _ENTROPY:
            self.p.not_pinned(f"{path} was opened: take os.urandom")
        self._owners[number] = process, _identity(number), opened
        if self.dies not in process.at_death:
            process.at_death.append(self.dies)

    def dies(self, process: Process) -> None:
        """Close what is its own."""
        for number in [number for number, (owner, *_) in self._owners.items() if owner is process]:
            _, identity, opened = self._owners.pop(number)
            with contextlib.suppress(OSError):  # it is closed already
                if _identity(number) == identity:
                    self._close(number)
                    self._of_the_dead.append(number if opened is None else opened)

    def _close(self, number: int) -> None:
        nothing = self.p.real(os, "open")(os.devnull, os.O_RDWR)
        try:
            os.dup2(nothing, number, inheritable=False)
        finally:
            os.close(nothing)

    def _end(self) -> None:
        nothing = os.stat(os.devnull)
        for connection in self._of_the_dead:
            with contextlib.suppress(OSError):
                if not isinstance(connection, int):
                    file = connection()
                    if file is not None:
                        file.close()
                elif _identity(connection) == (nothing.st_dev, nothing.st_ino):
                    os.close(connection)


_Identity = tuple[int, int]


def _identity(number: int) -> _Identity:
    stat = os.fstat(number)
    return stat.st_dev, stat.st_ino


def _opened_files(p: Patches) -> None:
    """The files of a process that dies are closed without unflushed data, and their locks are released."""
    files = _Files(p)
    p.patch(builtins, "open", files.open)
    p.patch(io, "open", files.open)
    p.patch(os, "open", files.os_open)


# --- SQLite ------------------------------------------------------------------------------------------------------------


_PARAMETERS = ["timeout", "detect_types", "isolation_level", "check_same_thread", "factory", "cached_statements", "uri"]
"""Parameters of ``sqlite3.connect`` after the database."""


class _Databases:
    """Connections to SQLite databases. ``calendar``: a connection that computes dates."""

    def __init__(self, p: Patches) -> None:
        self.p = p
        self._of: dict[Process, dict[int, Any]] = {}
        """The connections that a process has opened, by their ids."""
        self._calendar: Any = None
        self._ask: Any = sqlite3.Connection.execute
        """Unguarded."""
        p.then(self._end)

    def connect(self, database: Any, *args: Any, **kwargs: Any) -> Any:
        """``sqlite3.connect`` whose connection belongs to the running process and never waits for a lock in real time."""
        # by name, as by position they are deprecated from Python 3.12 on
        named = dict(zip(_PARAMETERS, args, strict=False)) | kwargs
        named |= {"timeout": 0.0, "check_same_thread": False}  # the thread that has it is one of many that take turns
        connection = self.p.real(sqlite3, "connect")(database, **named)
        self._pin(connection)
        process = PROCESS.get()
        if process is not None:
            self._of.setdefault(process, {})[id(connection)] = connection
            if self.dies not in process.at_death:
                process.at_death.append(self.dies)
        return connection

    def dies(self, process: Process) -> None:
        """Close its connections, and first the cursors, which hold locks of their own."""
        connections = list(self._of.pop(process, {}).values())
        for referrer in gc.get_referrers(*connections):
            if isinstance(referrer, sqlite3.Cursor | sqlite3.Blob):
                with contextlib.suppress(sqlite3.Error):
                    referrer.close()
        for connection in connections:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def guard(self) -> None:
        """Let programs use no others than their own."""
        for kind, names in _USES.items():
            real = vars(kind)
            guarded = {name: self._guarded(real[name], kind is sqlite3.Cursor) for name in names if name in real}
            before = put_in_class(kind, guarded)
            self.p.then(functools.partial(put_in_class, kind, before))

    def _guarded(self, method: Any, of_cursor: bool) -> Callable[..., Any]:
        def guarded(self_: Any, *args: Any, **kwargs: Any) -> Any:
            process = PROCESS.get()
            if process is not None and id(self_.connection if of_cursor else self_) not in self._of.get(process, ()):
                self._refuse()
            return method(self_, *args, **kwargs)

        return functools.wraps(method)(guarded)

    def _refuse(self) -> None:
        try:
            self.p.loop.forbid(
                "using a connection to SQLite that this process has not opened",
                "open it in the program, with sqlite3.connect: what a process has opened is rolled back and closed with it",
            )
        except SimForbidden as error:
            self.p.loop.forbidden = self.p.loop.forbidden or error  # on a thread, too, whatever it catches
            raise

    def _pin(self, connection: Any) -> None:
        chance = self.p.chance

        def random() -> int:
            return chance().getrandbits(64) - (1 << 63)

        connection.create_function("random", 0, random)
        connection.create_function("randomblob", 1, lambda size: chance().randbytes(max(int(size), 1)))
        for name in ("timestamp", "date", "time"):
            of_now = self._at(name.replace("timestamp", "datetime"), 0)
            connection.create_function(f"current_{name}", 0, of_now, deterministic=True)
        for name, at in (
            ("date", 0),
            ("time", 0),
            ("datetime", 0),
            ("julianday", 0),
            ("unixepoch", 0),
            ("strftime", 1),
        ):
            connection.create_function(name, -1, self._at(name, at), deterministic=True)

    def _at(self, name: str, at: int) -> Callable[..., Any]:
        """A function of dates whose argument number ``at`` is the present where it is "now" or left out."""

        def function(*args: Any) -> Any:
            if len(args) <= at or (isinstance(args[at], str) and args[at].lower() == "now"):
                args = (*args[:at], 2440587.5 + self.p.loop.wall() / 86400, *args[at + 1 :])
            if self._calendar is None:
                self._calendar = self.p.real(sqlite3, "connect")(":memory:", check_same_thread=False)
            marks = ", ".join("?" * len(args))
            return self._ask(self._calendar, f"select {name}({marks})", args).fetchone()[0]

        return function

    def _end(self) -> None:
        # Who has lived until now dies with the simulation, and had no time to close what is open. SQLite holds a connection's functions
        # where no collector sees them: a circle would last for good.
        for process in list(self._of):
            self.dies(process)
        if self._calendar is not None:
            self._calendar.close()


_USES: dict[type, tuple[str, ...]] = {}
"""Methods that use a connection, by class."""
if sqlite3 is not None:
    _RUN = ("execute", "executemany", "executescript")
    _USES = {
        sqlite3.Connection: (*_RUN, "cursor", "commit", "rollback", "blobopen", "backup"),
        sqlite3.Cursor: _RUN,
    }


def _sqlite(p: Patches) -> None:
    """SQLite's ``random()`` and ``datetime('now')`` are virtual; a process uses only its own connections, which end with it."""
    if sqlite3 is not None:
        databases = _Databases(p)
        databases.guard()
        p.patch(sqlite3, "connect", databases.connect)
        p.patch(sqlite3.dbapi2, "connect", databases.connect)


PINS: dict[str, Callable[[Patches], None]] = {"opened files": _opened_files, "SQLite": _sqlite}
