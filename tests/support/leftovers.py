"""A pytest plugin: what a test leaves behind fails that test, in its own teardown, and is named.

    socket 127.0.0.1:53122 -> 127.0.0.1:9092, opened in tests/server/test_tcp.py:12

Rules:
1. Things are open file descriptors (sockets among them), event loops, pending tasks, threads, child processes and temporary files and
   folders. For the latter, each process of a run has a temporary folder of its own, which its children inherit (``TMPDIR``).
2. The look is the last thing in a test's teardown, after all its fixtures. What is there and was not when its setup began is left
   behind by it, except
   - what a fixture of a wider scope opened: that is looked at when this fixture ends, and is then its own leftover;
   - what such a fixture opens later, when a test asks for it, in a block of `lasting`;
   - sockets, threads and processes that threads made which were there before, such as what a module's broker accepts;
   - tasks of a loop that runs in a thread of its own,
   - connections to the JVM of a Spark session, which py4j opens whenever it needs one more, also for finalisers.
3. The first look costs a tenth of a millisecond. Only where it finds something, the garbage is collected: a warning of a finaliser
   (ResourceWarning) is the test's own then, and not that of the test in which the collector happens to run.
4. Threads and processes that are about to end are waited for, `WAIT_S` at most, and only where something is left that is no garbage.
5. A left child process is killed, left temporary files are removed: the next test begins as if they had not been.
6. A test that has failed is not failed again: what it leaves is shown in its report. Tests of foreign programs (`FOREIGN`) are not
   judged: JVMs and client libraries keep threads for the life of the process.
"""

from __future__ import annotations

import _socket
import asyncio
import functools
import gc
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import weakref
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

WAIT_S = 60.0
"""Seconds for which a test's end waits for threads and processes that are about to end."""

LASTING_THREADS = ("broker-sim patience",)
"""Names of threads that outlast a test: one thread of all simulations of a process, which ends ten seconds after the last of them."""

FOREIGN = ("real_kafka", "clients", "spark", "browser", "real_time")
"""Marks of tests that are not judged."""

_FDS = next((path for path in ("/proc/self/fd", "/dev/fd") if os.path.isdir(path)), None)
_FRAMES = 3
"""Number of lines of the project's own code that are named on the way to a leftover."""

_LIBRARY = (os.path.dirname(os.__file__), os.path.dirname(pytest.__file__), "<")
_FAILED: pytest.StashKey[bool] = pytest.StashKey()

Thing = tuple[Any, ...]
"""("fd", number, device, inode) · ("loop", reference) · ("task", reference) · ("thread", native id) · ("child", pid) ·
("temporary", path)"""


# --- where things come from ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Origin:
    """Lines of code and thread in which something was made."""

    lines: tuple[tuple[str, int], ...]
    thread: int

    def __str__(self) -> str:
        return " < ".join(f"{_short(file)}:{line}" for file, line in self.lines) or "a library"


def _short(file: str) -> str:
    here = os.getcwd() + os.sep
    return file.removeprefix(here)


@functools.cache
def _of_library(file: str) -> bool:
    return file.startswith(_LIBRARY) or "site-packages" in file or file == __file__


def _origin() -> Origin:
    """The innermost lines of the caller's way here that are no library's."""
    lines: list[tuple[str, int]] = []
    frame = sys._getframe(2)
    while frame is not None and len(lines) < _FRAMES:  # type: ignore[redundant-expr]
        file = frame.f_code.co_filename
        if not _of_library(file):
            lines.append((file, frame.f_lineno))
        frame = frame.f_back  # type: ignore[assignment]
    return Origin(tuple(lines), threading.get_native_id())


class Origins:
    """Notes where sockets, loops, threads and processes are made."""

    def __init__(self) -> None:
        self.of: weakref.WeakKeyDictionary[Any, Origin] = weakref.WeakKeyDictionary()
        """Sockets and threads."""
        self.loops: weakref.WeakKeyDictionary[asyncio.BaseEventLoop, Origin] = weakref.WeakKeyDictionary()
        self.pids: dict[int, Origin] = {}
        self._undo: list[Callable[[], None]] = []

    def install(self) -> None:
        """From now on."""
        of, loops, pids = self.of, self.loops, self.pids

        def socket_made(made: Any) -> None:
            of[made] = _origin()

        def loop_made(made: Any) -> None:
            loops[made] = _origin()

        def process_started(started: Any) -> None:
            pids[started.pid] = _origin()

        self._behind(socket.socket, "__init__", socket_made)
        self._behind(asyncio.BaseEventLoop, "__init__", loop_made)
        self._behind(threading.Thread, "start", socket_made)
        self._behind(subprocess.Popen, "__init__", process_started)

    def _behind(self, kind: Any, name: str, note: Callable[[Any], None]) -> None:
        real = getattr(kind, name)

        @functools.wraps(real)
        def noting(self: Any, *args: Any, **kwargs: Any) -> None:
            real(self, *args, **kwargs)
            note(self)

        setattr(kind, name, noting)
        self._undo.append(lambda: setattr(kind, name, real))

    def remove(self) -> None:
        for undo in self._undo:
            undo()
        self._undo.clear()


def living(of: weakref.WeakKeyDictionary[T, Origin]) -> list[tuple[T, Origin]]:
    """Return the objects that exist now, with their origins. The copy is atomic: other threads and the collector change ``of``."""
    return [(one, made) for reference, made in of.data.copy().items() if (one := reference()) is not None]  # type: ignore[attr-defined]


_origins = Origins()
"""Origins of the whole process: sessions within a session share them."""

_sessions: list[Leftovers] = []


# --- what is there ---------------------------------------------------------------------------------------------------


def look(folder: str | None = None) -> set[Thing]:
    """All things that this process has open, and what lies in its temporary folder."""
    things: set[Thing] = set()
    for name in os.listdir(_FDS) if _FDS else ():
        with suppress(OSError):  # the listing's own
            there = os.fstat(int(name))
            things.add(("fd", int(name), there.st_dev, there.st_ino))
    for loop, _ in living(_origins.loops):
        if not loop.is_closed():
            things.add(("loop", weakref.ref(loop)))
    things.update(("task", weakref.ref(task)) for task in pending_tasks())
    for thread in threading.enumerate():
        own = thread is threading.main_thread() or isinstance(thread, threading._DummyThread)
        if not own and thread.name not in LASTING_THREADS:
            things.add(("thread", thread.native_id))
    things.update(("child", pid) for pid in _children())
    if folder is not None:
        with suppress(FileNotFoundError):
            things.update(("temporary", os.path.join(folder, name)) for name in os.listdir(folder))
    return things - _lasting() - _of_spark()


def pending_tasks() -> list[asyncio.Task[Any]]:
    """Return the pending tasks of all loops that don't run now in other threads."""
    return [task for loop, _ in living(_origins.loops) if not loop.is_running() for task in asyncio.all_tasks(loop)]


def _children() -> Iterator[int]:
    """Child processes that have not ended, or were not waited for."""
    if hasattr(os, "waitid"):
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return  # there is none
    if not os.path.isdir("/proc/self"):
        yield from (pid for pid in _origins.pids if _is_child(pid))
        return
    own = str(os.getpid()).encode()
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                _, _, rest = Path("/proc", name, "stat").read_bytes().rpartition(b") ")
                if rest.split()[1] == own:
                    yield int(name)


def _is_child(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except (ChildProcessError, AttributeError):
        return False


def _lasting() -> set[Thing]:
    """Return the things that Python itself keeps until the process ends: the process that tracks multiprocessing's named resources."""
    tracker = getattr(sys.modules.get("multiprocessing.resource_tracker"), "_resource_tracker", None)
    pid, number = getattr(tracker, "_pid", None), getattr(tracker, "_fd", None)
    if pid is None or number is None:
        return set()
    there = os.fstat(number)
    return {("child", pid), ("fd", number, there.st_dev, there.st_ino)}


def _of_spark() -> set[Thing]:
    """Connections to the JVM of the process's Spark session, if it has one."""
    context = getattr(
        sys.modules.get("pyspark.core.context") or sys.modules.get("pyspark.context"), "SparkContext", None
    )
    port = getattr(getattr(getattr(context, "_gateway", None), "gateway_parameters", None), "port", None)
    things: set[Thing] = set()
    for one, _ in living(_origins.of) if port is not None else ():
        with suppress(OSError):  # closed, or not connected
            peer = (
                one.getpeername() if isinstance(one, socket.socket) else ""
            )  # a pair of an event loop has the name ""
            if isinstance(peer, tuple) and peer[1] == port:
                number = one.fileno()
                there = os.fstat(number)
                things.add(("fd", number, there.st_dev, there.st_ino))
    return things


# --- how it is called ------------------------------------------------------------------------------------------------


def describe(things: Iterable[Thing]) -> dict[Thing, str]:
    """A line for each, without what belongs to another of them."""
    there = sorted(things, key=lambda thing: (_ORDER.index(thing[0]), str(thing[1])))
    of_loops = {number for kind, *rest in there if kind == "loop" for number in _fds_of(rest[0]())}
    return {
        thing: _DESCRIPTIONS[thing[0]](*thing[1:]) for thing in there if thing[0] != "fd" or thing[1] not in of_loops
    }


def _fds_of(loop: Any) -> Iterator[int]:
    for name in ("_selector", "_ssock", "_csock"):
        with suppress(Exception):
            yield getattr(loop, name).fileno()


def _loop(reference: weakref.ref[Any]) -> str:
    loop = reference()
    return f"event loop {loop!r}, made in {_origins.loops.get(loop)}" if loop is not None else "event loop"


def _task(reference: weakref.ref[Any]) -> str:
    task = reference()
    return f"pending task {task!r}"[:300]


def _thread(native_id: int) -> str:
    thread = next((one for one in threading.enumerate() if one.native_id == native_id), None)
    if thread is None or thread.ident is None:
        return f"thread {native_id}"
    frame = sys._current_frames().get(thread.ident)
    now = [] if frame is None else [f"{_short(one.filename)}:{one.lineno}" for one in traceback.extract_stack(frame)]
    return f"thread {thread.name!r}, started in {_origins.of.get(thread)}, now in {' < '.join(now[:-4:-1])}"


def _child(pid: int) -> str:
    line = ""
    with suppress(OSError):
        line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return f"child process {pid} ({line[:200] or 'ended, and was not waited for'}), started in {_origins.pids.get(pid)}"


def _temporary(path: str) -> str:
    return f"temporary {'folder' if os.path.isdir(path) else 'file'} {path}"


def _fd(number: int, device: int, inode: int) -> str:
    made = next(
        (one for one, _ in living(_origins.of) if isinstance(one, socket.socket) and one.fileno() == number), None
    )
    since = f", opened in {_origins.of[made]}" if made is not None else ""
    try:
        kind = os.readlink(f"{_FDS}/{number}")
    except OSError:
        kind = ""
    if kind.startswith("socket:") or made is not None:
        return _socket_line(number) + since
    return f"file descriptor {number} ({kind or 'closed meanwhile'})"


def _socket_line(number: int) -> str:
    try:
        one = _socket.socket(fileno=os.dup(number))
    except OSError:
        return f"socket {number}"
    try:
        here = _address(one.getsockname())
        listens = one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) if sys.platform == "linux" else 0
        if listens:
            return f"listening socket {here}"
        try:
            return f"socket {here} -> {_address(one.getpeername())}"
        except OSError:
            return f"socket {here}, not connected"
    finally:
        one.close()


def _address(name: Any) -> str:
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name) or "(a pair)"


_DESCRIPTIONS: dict[str, Callable[..., str]] = {
    "loop": _loop,
    "task": _task,
    "thread": _thread,
    "child": _child,
    "fd": _fd,
    "temporary": _temporary,
}
_ORDER = list(_DESCRIPTIONS)


# --- who is blamed ---------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Leftovers:
    """The plugin, one for each session."""

    folder: str | None = None
    """Folder for temporary files of this process and its children."""
    before: set[Thing] = field(default_factory=set)
    """Things that existed when the test's setup began."""
    wide: dict[Any, set[Thing]] = field(default_factory=lambda: defaultdict(set))
    """Things that each fixture of a wider scope has opened."""
    ended: dict[Thing, str] = field(default_factory=dict)
    """Things of such fixtures that have been finalised since -> text that names the fixture."""

    _outside: tuple[str | None, str | None] | None = None

    def use(self, folder: str) -> None:
        """For temporary files, until ``end``."""
        self._outside = tempfile.tempdir, os.environ.get("TMPDIR")
        tempfile.tempdir = self.folder = os.environ["TMPDIR"] = folder

    def end(self) -> None:
        """Temporary files are where they were."""
        if self._outside is not None:
            tempfile.tempdir, variable = self._outside
            del os.environ["TMPDIR"]
            if variable is not None:
                os.environ["TMPDIR"] = variable

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, None, None]:
        self.before = look(self.folder)
        yield

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        if fixturedef.scope == "function":
            return (yield)
        before = look(self.folder)
        try:
            return (yield)
        finally:
            opened = look(self.folder) - before
            self.wide[fixturedef] |= opened.difference(*self.wide.values())

    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[Any]) -> None:
        opened = self.wide.pop(fixturedef, None)
        if opened:
            self.ended |= dict.fromkeys(opened, f" (of the {fixturedef.scope}'s fixture {fixturedef.argname})")
            self.before -= opened

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.failed:
            item.stash[_FAILED] = True
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, None, None]:
        try:
            yield
        except BaseException as error:
            if lines := self.left(item):
                error.add_note("left behind:\n" + "\n".join(lines))
            raise
        lines = self.left(item)
        if not lines:
            return
        if item.stash.get(_FAILED, False):
            item.add_report_section("teardown", "left behind", "\n".join(lines))
        else:
            pytest.fail("\n".join(["the test leaves behind:", *(f"  {line}" for line in lines)]), pytrace=False)

    def left(self, item: pytest.Item) -> list[str]:
        """A line for each thing that the test has left."""
        try:
            if not self._new():
                return []
            if any(item.get_closest_marker(name) for name in FOREIGN):
                return []
            return self._second_look(waits=not item.stash.get(_FAILED, False))
        finally:
            self.ended.clear()

    def _new(self) -> set[Thing]:
        new = (look(self.folder) - self.before).difference(*self.wide.values())
        return {thing for thing in new if not self._of_another_thread(thing)} if new else new

    def _of_another_thread(self, thing: Thing) -> bool:
        """Whether a thread that was there before has opened this socket, or started this thread or process."""
        threads = {one[1] for one in self.before.union(*self.wide.values()) if one[0] == "thread"}
        return bool(threads) and any(origin.thread in threads for origin in _origins_of(thing))

    def _second_look(self, *, waits: bool) -> list[str]:
        """Garbage first: nobody will close it, however long one waits; then what somebody may still close."""
        new = self._new()
        if not new:
            return []
        lines = describe(new)
        with _heard() as heard:
            _forget_the_failure()
            gc.collect()
        left = self._new()
        if heard:
            garbage = [f"{line} (garbage)" for thing, line in lines.items() if thing not in left] or heard
        else:
            garbage = []
        if waits and left:
            self._wait()
        there = self._new()
        told = [line + self.ended.get(thing, "") for thing, line in describe(there).items()] + garbage
        for thing in there:
            _clear_away(thing)
        return told

    def _wait(self) -> None:
        """For those who may still close something."""
        deadline = time.monotonic() + WAIT_S
        while self._new() and _others() and time.monotonic() < deadline:
            time.sleep(0.01)


def _forget_the_failure() -> None:
    """Clear the frames of the failure reported last, so that they keep no variables of the test alive."""
    failure: BaseException | None = getattr(sys, "last_value", None)
    while failure is not None:
        for frame, _ in traceback.walk_tb(failure.__traceback__):
            with suppress(RuntimeError):  # it runs
                frame.clear()
                frame.f_locals  # noqa: B018 - which was read before, and forgets the variables when it is read again
        failure = failure.__cause__ or failure.__context__


@contextmanager
def lasting() -> Iterator[None]:
    """Exempt the things that the block opens: they belong to no test, a fixture of the session closes them."""
    plugin = _sessions[-1] if _sessions else None
    if plugin is None:
        yield
        return
    before = look(plugin.folder)
    try:
        yield
    finally:
        plugin.wide["lasting"] |= look(plugin.folder) - before


def _origins_of(thing: Thing) -> list[Origin]:
    kind, name = thing[:2]
    if kind == "child":
        return [_origins.pids[name]] if name in _origins.pids else []
    if kind == "thread":
        return [made for one, made in living(_origins.of) if getattr(one, "native_id", None) == name]
    if kind == "fd":
        there = living(_origins.of)
        return [made for one, made in there if isinstance(one, socket.socket) and one.fileno() == name]
    return []


def _others() -> bool:
    return threading.active_count() > 1 or next(_children(), None) is not None


@contextmanager
def _heard() -> Iterator[list[str]]:
    """Collect errors that finalisers raise within the block, as text."""
    heard: list[str] = []
    before = sys.unraisablehook
    sys.unraisablehook = lambda raised: heard.append(f"{type(raised.exc_value).__name__}: {raised.exc_value}")
    try:
        yield heard
    finally:
        sys.unraisablehook = before


def _clear_away(thing: Thing) -> None:
    kind, name = thing[:2]
    with suppress(OSError):
        if kind == "child":
            os.kill(name, signal.SIGKILL)
            os.waitpid(name, 0)
        elif kind == "temporary" and os.path.isdir(name) and not os.path.islink(name):
            shutil.rmtree(name, ignore_errors=True)
        elif kind == "temporary":
            os.unlink(name)


def _open_what_lasts() -> None:
    """libuv opens a pipe for signals with the first loop of a process, and never closes it."""
    with suppress(ImportError):
        import uvloop

        uvloop.new_event_loop().close()


@pytest.fixture(scope="session", autouse=True)
def own_temporary_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Temporary files of this process and of its children are in a folder below pytest's own, to the end of the session."""
    plugin = request.config.pluginmanager.get_plugin("leftovers")
    plugin.use(str(tmp_path_factory.mktemp("t", numbered=False)))


def pytest_configure(config: pytest.Config) -> None:
    if not _sessions:
        _origins.install()
        _open_what_lasts()
    plugin = Leftovers()
    _sessions.append(plugin)
    config.pluginmanager.register(plugin, "leftovers")


def pytest_unconfigure(config: pytest.Config) -> None:
    plugin = config.pluginmanager.unregister(name="leftovers")
    if isinstance(plugin, Leftovers):
        plugin.end()
        _sessions.remove(plugin)
    if not _sessions:
        _origins.remove()
