"""Sockets and selectors for the threads of a simulation: TCP over the simulated network, as blocking or non-blocking calls."""

from __future__ import annotations

import asyncio
import errno
import os
import selectors
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from broker_sim.simulation.sync.threads import SimThread, current
from broker_sim.simulation.virtual.patches import current as current_patches
from broker_sim.simulation.virtual.process import PROCESS, context_of

if TYPE_CHECKING:
    from broker_sim.simulation.virtual.loop import SimLoop
    from broker_sim.simulation.virtual.transport import SimTransport

__all__ = ["LoopSocket", "PairSocket", "SimSelector", "TcpSocket"]

_ROOM = 262_144
"""Bytes that wait to be read before their sender has to wait."""

_FIRST_FD = 1_000_000
"""Numbers of files that no real one has."""

_NOT_HERE = (
    *("accept", "bind", "detach", "dup", "listen", "recvfrom", "recvfrom_into", "recvmsg", "recvmsg_into"),
    *("sendfile", "sendmsg", "sendmsg_afalg", "sendto", "share", "ioctl"),
)


def _thread() -> SimThread:
    thread = current()
    if thread is None:
        raise OSError(errno.EBADF, "a socket of a simulation's thread is none in another one")
    return thread


class _Socket(socket.socket):
    """Common part of both kinds of sockets: whether they block, what waits for them, data that has arrived."""

    def __init__(self, family: int = -1, type: int = -1, proto: int = -1, fileno: int | None = None) -> None:
        self._io_refs, self._closed, self._gone = 0, False, False
        thread = self._owner()
        if fileno is not None or family not in (-1, socket.AF_UNSPEC, socket.AF_INET, socket.AF_INET6):
            thread.forbid("a socket that is not TCP's", "connect over TCP")
        if type not in (-1, socket.SOCK_STREAM):
            thread.forbid("a socket that is not TCP's", "connect over TCP")
        self.loop: SimLoop = getattr(thread, "loop", thread)
        self.inbox = bytearray()
        self.eof = False
        self.error = 0
        self.selectors: dict[SimSelector, None] = {}
        self._fd = _FIRST_FD + self.loop.next_number()
        self._timeout_s: float | None = None
        self._sleepers: list[SimThread] = []
        self._options: dict[tuple[int, int], Any] = {}

    def _owner(self) -> Any:
        """The owner of the socket: the simulated thread that creates it, or the loop. Raises SimForbidden outside of both."""
        return _thread()

    # --- what it is

    family = property(lambda self: socket.AF_INET)
    type = property(lambda self: socket.SOCK_STREAM)
    proto = property(lambda self: 6)
    timeout = property(lambda self: self._timeout_s)

    def fileno(self) -> int:
        return -1 if self._gone else self._fd

    def setblocking(self, flag: bool) -> None:
        self._timeout_s = None if flag else 0.0

    def getblocking(self) -> bool:
        return self._timeout_s != 0

    def settimeout(self, value: float | None) -> None:
        self._timeout_s = value

    def gettimeout(self) -> float | None:
        return self._timeout_s

    def setsockopt(self, level: int, option: int, value: Any, *_: Any) -> None:
        self._options[level, option] = value

    def getsockopt(self, level: int, option: int, *_: Any) -> Any:
        if (level, option) == (socket.SOL_SOCKET, socket.SO_ERROR):
            error, self.error = self.error, 0
            return error
        return self._options.get((level, option), 0)

    # --- waiting

    def readable(self) -> bool:
        return bool(self.inbox) or self.eof or self.error != 0

    def writable(self) -> bool:
        raise NotImplementedError

    def changed(self) -> None:
        """Wake the threads and selectors that wait for the socket."""
        for sleeper in self._sleepers:
            sleeper.wake()
        for selector in self.selectors:
            selector.look()

    def _until(self, ready: Callable[[], bool], what: str) -> None:
        """Wait as a blocking call does. Raises BlockingIOError, TimeoutError."""
        me = _thread()
        if ready():
            me.work()
            return
        if self._timeout_s == 0:
            me.work()
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        deadline_s = None if self._timeout_s is None else self.loop.time() + self._timeout_s
        self._sleepers.append(me)
        try:
            while not ready():
                left_s = None if deadline_s is None else deadline_s - self.loop.time()
                if left_s is not None and left_s <= 0:
                    raise TimeoutError("timed out")
                me.wait(left_s, what)
        finally:
            self._sleepers.remove(me)

    # --- bytes

    def recv(self, bufsize: int, flags: int = 0) -> bytes:
        self._need_open()
        self._until(self.readable, "bytes")
        if self.inbox:
            data = bytes(self.inbox[:bufsize])
            del self.inbox[:bufsize]
            self._taken(len(data))
            return data
        if self.error:
            raise _os_error(self.error)
        return b""

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        data = self.recv(nbytes or len(memoryview(buffer)))
        memoryview(buffer)[: len(data)] = data
        return len(data)

    def send(self, data: Any, flags: int = 0) -> int:
        self._need_open()
        self._until(self.writable, "room for bytes")
        if self.error:
            raise _os_error(self.error)
        return self._write(bytes(data))

    def sendall(self, data: Any, flags: int = 0) -> None:
        self.send(data)

    def _need_open(self) -> None:
        if self._gone:
            raise OSError(errno.EBADF, "Bad file descriptor")

    def _taken(self, size: int) -> None:
        """Somebody has read that much."""

    def _write(self, data: bytes) -> int:
        raise NotImplementedError

    def _real_close(self, *_: Any) -> None:
        """Close the socket for good: it has been closed, and so have all files from ``makefile``."""
        self._gone = True
        self.changed()

    def __repr__(self) -> str:
        return f"<simulated socket {self._fd}{' closed' if self._gone else ''}>"


def _os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))  # of the subclass that belongs to the number


def _not_here(name: str) -> Callable[..., Any]:
    def method(self: _Socket, *_: Any, **__: Any) -> None:
        _thread().forbid(f"socket.{name}", "connect, send and recv are possible")

    return method


for _name in _NOT_HERE:
    setattr(_Socket, _name, _not_here(_name))


class TcpSocket(_Socket):
    """A client's end of a TCP connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._transport: SimTransport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._full = self._held = False

    # --- connecting

    def _need_open(self) -> None:
        super()._need_open()
        if self._transport is None and self._connecting is None and not self.error:
            raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")

    def connect_ex(self, address: Any) -> int:
        super()._need_open()
        _thread().work()
        if self.error:
            error, self.error = self.error, 0
            return error
        if self._transport is not None:
            return errno.EISCONN
        if self._connecting is not None:
            return errno.EALREADY
        context = context_of(PROCESS.get())
        self._connecting = self.loop.create_task(self._connect(*address[:2]), name="connect", context=context)
        if self._timeout_s == 0:
            return errno.EINPROGRESS
        self._until(lambda: self._transport is not None or self.error != 0, "a connection")
        error, self.error = self.error, 0
        return error

    def connect(self, address: Any) -> None:
        error = self.connect_ex(address)
        if error == errno.EISCONN and self._timeout_s == 0:
            return
        if error:
            raise _os_error(error)

    async def _connect(self, host: str, port: int) -> None:
        try:
            self._transport, _ = await self.loop.network.connect(lambda: _Protocol(self), host, port)
        except OSError as error:
            self.error = error.errno or errno.EIO
        finally:
            self._connecting = None
        self.changed()

    def writable(self) -> bool:
        return self.error != 0 or (self._transport is not None and not self._full)

    # --- events of the connection

    def received(self, data: bytes) -> None:
        self.inbox += data
        if len(self.inbox) > _ROOM and not self._held and self._transport is not None:
            self._held = True
            self._transport.pause_reading()
        self.changed()

    def ended(self, error: int) -> None:
        self.eof = True
        self.error = self.error or error
        self.changed()

    def room(self, there_is: bool) -> None:
        self._full = not there_is
        self.changed()

    # --- and is notified

    def _taken(self, size: int) -> None:
        if self._held and len(self.inbox) <= _ROOM // 2 and self._transport is not None:
            self._held = False
            self._transport.resume_reading()

    def _write(self, data: bytes) -> int:
        if self._transport is None:
            raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")
        if self._transport.closing:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")
        self._transport.write(data)
        return len(data)

    def shutdown(self, how: int) -> None:
        if self._transport is None or self._transport.lost:
            raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")
        if how in (socket.SHUT_WR, socket.SHUT_RDWR):
            self._transport.write_eof()

    def _real_close(self, *_: Any) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
        if self._transport is not None:
            self._transport.close()
        super()._real_close()

    def getsockname(self) -> Any:
        return ("0.0.0.0", 0) if self._transport is None else self._transport.get_extra_info("sockname")

    def getpeername(self) -> Any:
        if self._transport is None:
            raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")
        return self._transport.get_extra_info("peername")


class LoopSocket(TcpSocket):
    """A socket that a coroutine makes, connects by ``loop.sock_connect`` and gives to ``loop.create_connection``: HTTP clients do."""

    def _owner(self) -> Any:
        patches = current_patches()
        assert patches is not None
        return patches.loop

    async def connected(self, address: Any) -> None:
        """`loop.sock_connect`. What comes is read by whom it is handed over to. Raises OSError."""
        if self._gone:
            raise OSError(errno.EBADF, "Bad file descriptor")
        self._transport, _ = await self.loop.network.connect(lambda: _Protocol(self), *address[:2])
        self._transport.pause_reading()

    def handed_over(self) -> SimTransport:
        """Return the connection, which the caller owns from now on. Raises OSError."""
        if self._transport is None:
            raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")
        transport, self._transport, self._gone = self._transport, None, True
        return transport

    def bind(self, address: Any) -> None:
        """The network gives each connection its port."""

    def _only_by_loop(self, *_: Any, **__: Any) -> Any:
        self.loop.forbid(
            "a call of a socket in a coroutine", "connect it by loop.sock_connect, and read and write by streams"
        )

    connect = connect_ex = recv = recv_into = send = sendall = _only_by_loop


class _Protocol(asyncio.Protocol):
    """Receives data for a simulated socket."""

    def __init__(self, owner: TcpSocket) -> None:
        self.owner = owner

    def data_received(self, data: bytes) -> None:
        self.owner.received(data)

    def eof_received(self) -> bool:
        self.owner.ended(0)
        return True  # the other way stays open

    def connection_lost(self, exc: BaseException | None) -> None:
        self.owner.ended(0 if exc is None else errno.ECONNRESET)

    def pause_writing(self) -> None:
        self.owner.room(False)

    def resume_writing(self) -> None:
        self.owner.room(True)


class PairSocket(_Socket):
    """Socket of a pair, connected to the other one, inside one process: data that it sends arrives there at once."""

    peer: PairSocket

    @classmethod
    def pair(cls) -> tuple[PairSocket, PairSocket]:
        left, other = (cls(socket.AF_INET, socket.SOCK_STREAM) for _ in range(2))
        left.peer, other.peer = other, left
        return left, other

    def writable(self) -> bool:
        return self.eof or len(self.peer.inbox) < _ROOM

    def _write(self, data: bytes) -> int:
        if self.peer._gone:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")
        self.peer.inbox += data
        self.peer.changed()
        return len(data)

    def _taken(self, size: int) -> None:
        self.peer.changed()

    def shutdown(self, how: int) -> None:
        self.peer.eof = True
        self.peer.changed()

    def _real_close(self, *_: Any) -> None:
        self.peer.eof = True
        self.peer.changed()
        super()._real_close()

    def getsockname(self) -> Any:
        return ""

    getpeername = getsockname


class SimSelector(selectors.DefaultSelector):
    """The selector of a simulation's thread, for sockets of this module."""

    def __init__(self) -> None:
        self._keys: dict[int, selectors.SelectorKey] = {}
        self._sleeper: SimThread | None = None

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        if not events or events & ~(selectors.EVENT_READ | selectors.EVENT_WRITE):
            raise ValueError(f"Invalid events: {events!r}")
        if not isinstance(fileobj, _Socket):
            _thread().forbid(f"waiting for {fileobj!r} in a selector", "sockets that this thread has made are possible")
        if fileobj.fileno() < 0:
            raise ValueError(f"Invalid file descriptor: {fileobj.fileno()}")
        if fileobj._fd in self._keys:
            raise KeyError(f"{fileobj!r} is already registered")
        key = self._keys[fileobj._fd] = selectors.SelectorKey(fileobj, fileobj._fd, events, data)
        fileobj.selectors[self] = None
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        key = self.get_key(fileobj)
        del self._keys[key.fd]
        key.fileobj.selectors.pop(self, None)  # type: ignore[union-attr]
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = self._keys[self.get_key(fileobj).fd] = self.get_key(fileobj)._replace(events=events, data=data)
        return key

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        number = fileobj if isinstance(fileobj, int) else getattr(fileobj, "_fd", -1)
        if number not in self._keys:
            raise KeyError(f"{fileobj!r} is not registered")
        return self._keys[number]

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return {key.fileobj: key for key in self._keys.values()}

    def _ready(self) -> list[tuple[selectors.SelectorKey, int]]:
        ready = []
        for key in self._keys.values():
            sock: Any = key.fileobj
            events = selectors.EVENT_READ if key.events & selectors.EVENT_READ and sock.readable() else 0
            if key.events & selectors.EVENT_WRITE and sock.writable():
                events |= selectors.EVENT_WRITE
            if events and not sock._gone:
                ready.append((key, events))
        return ready

    def look(self) -> None:
        """Wake the thread that selects if one of the sockets is ready."""
        if self._sleeper is not None and self._ready():
            self._sleeper.wake()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        me = _thread()
        ready = self._ready()
        if ready:
            me.work()
            return ready
        if timeout is not None and timeout <= 0:
            me.yield_()
            return self._ready()
        deadline_s = None if timeout is None else me.loop.time() + timeout
        while not ready:
            left_s = None if deadline_s is None else deadline_s - me.loop.time()
            if left_s is not None and left_s <= 0:
                break
            self._sleeper = me
            try:
                me.wait(left_s, "a socket or its time")
            finally:
                self._sleeper = None
            ready = self._ready()
        return ready

    def close(self) -> None:
        for key in list(self._keys.values()):
            self.unregister(key.fileobj)

    def fileno(self) -> int:
        return -1
