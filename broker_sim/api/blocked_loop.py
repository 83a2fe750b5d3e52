"""Detection of tests that block the event loop, and with it the broker, which runs on the same loop and then responds to no request.

    async def test_it(kafka):
        producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap})
        producer.flush(6)                   # waits for a broker that can't run

`BlockedLoop` watches from a thread of its own. It speaks, once, when all of this was so at several looks in a row: the loop did not run
what it was handed, requests or connections wait unread, and the loop's thread was in the same place of the user's code. Or so it was at
most looks, for longer: code that blocks and yields in turn, ``consumer.poll(1.0); await asyncio.sleep(0)``, lets the broker answer one
request a second.

Rules:
1. A slow machine is no blocked loop. Looks are counted, not seconds: a process that gets no time makes none. A loop that is busy with
   many callbacks is in another frame each time.
2. Each look is in two parts, as code that yields each second has yielded by the end of most looks: what is so after the first part
   counts for code that yields, what is so after both for code that doesn't.
3. A stop in a debugger is not reported.
4. It changes nothing: the thread reads, and wakes the loop once for each look.
"""

from __future__ import annotations

import asyncio
import contextlib
import linecache
import select
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import CodeType, FrameType

from broker_sim.common.code_owner import is_users

__all__ = ["BlockedLoop", "ready"]

LOOK_S = 0.75
LOOKS = 4
"""So many looks have to agree: three seconds."""

_FIRST_PART = 1 / 3
_OFTEN, _OF = 8, 12
"""At so many of the last looks the loop was blocked by code that yields: in nine seconds."""

_DEBUGGERS = ("bdb", "pdb", "pydevd", "debugpy")


class BlockedLoop:
    """Watches the running loop, from its making to ``stop()``. ``waiting()``: whether anything waits unread at the brokers.
    ``say(text)`` is called from the watching thread."""

    def __init__(self, waiting: Callable[[], bool], say: Callable[[str], object]) -> None:
        self._loop, self._thread_id = asyncio.get_running_loop(), threading.get_ident()
        self._waiting, self._say = waiting, say
        self._over = threading.Event()
        self._ran = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="broker-sim watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread that watches the loop."""
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        seen: deque[_FramePlace | None] = deque(maxlen=LOOKS)
        often: deque[_FramePlace | None] = deque(maxlen=_OF)
        while True:
            self._ran.clear()
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._ran.set)
            for part, places, times, why in (
                (_FIRST_PART, often, _OFTEN, _YIELDS),
                (1 - _FIRST_PART, seen, LOOKS, f"for {LOOK_S * LOOKS:.0f} s now,"),
            ):
                if self._over.wait(LOOK_S * part):
                    return
                frame = self._blocking_frame()
                this = None if frame is None else _FramePlace(id(frame), frame.f_code)
                places.append(this)
                if frame is not None and places.count(this) >= times:
                    self._say(_text(frame, why))
                    return
                del frame

    def _blocking_frame(self) -> FrameType | None:
        """The frame of the user's code that blocks the loop while a socket has unread input; None if nothing is blocked."""
        frame = None if self._ran.is_set() else self._users_frame()
        return frame if frame is not None and self._waiting() else None

    def _users_frame(self) -> FrameType | None:
        """The innermost frame of the user's code on the loop's thread; None in a debugger."""
        innermost, frame = None, sys._current_frames().get(self._thread_id)
        while frame is not None:
            if frame.f_globals.get("__name__", "").partition(".")[0] in _DEBUGGERS:
                return None
            if innermost is None and is_users(frame.f_code):
                innermost = frame
            frame = frame.f_back
        return innermost


@dataclass(frozen=True, slots=True, eq=False)
class _FramePlace:
    """A frame. Not itself: what its names hold would live until the next look."""

    frame: int
    code: CodeType

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _FramePlace) and other.frame == self.frame and other.code is self.code
        )  # equal code may be another file's


_YIELDS = "most of the time, though it yields in between,"


def ready(files: Iterable[int]) -> bool:
    """Whether any of these sockets (file descriptors) has unread input: a request, a new connection, a closed one."""
    there = [file for file in files if file >= 0]
    if not hasattr(select, "poll"):  # Windows
        return bool(there and select.select(there, (), (), 0)[0])
    poll = select.poll()
    for file in there:
        poll.register(file, select.POLLIN)
    return any(events & select.POLLIN for _, events in poll.poll(0))


def _text(frame: FrameType, why: str) -> str:
    file, line = frame.f_code.co_filename, frame.f_lineno
    source = linecache.getline(file, line).strip()
    return (
        f"{file}:{line} blocks the event loop {why} and the broker runs on it: requests wait unread. "
        f"Use the fixture kafka_server (ClusterThread), or a thread: await asyncio.to_thread(...)\n    {source}"
    )
