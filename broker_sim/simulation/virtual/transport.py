"""One end of a connection in memory, as asyncio's protocols and streams use it; see ``network`` for the rules."""

from __future__ import annotations

import asyncio
import contextvars
import errno
import random
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker_sim.simulation.virtual.process import PROCESS

if TYPE_CHECKING:
    from broker_sim.simulation.virtual.network import Machine, SimNetwork

__all__ = ["SimTransport"]

_HIGH, _LOW = 262_144, 65_536
"""Bytes on their way at which a writer is paused and goes on: the buffers of the transport and of two kernels."""


class SimTransport(asyncio.Transport):
    """One end of a connection, on ``machine``. ``chance``: of what it sends."""

    def __init__(
        self,
        network: SimNetwork,
        machine: Machine,
        names: tuple[tuple[str, int], tuple[str, int]],
        context: contextvars.Context,
        chance: random.Random,
    ) -> None:
        super().__init__({"sockname": names[0], "peername": names[1], "socket": None})
        self.network, self.loop, self.machine, self.context = network, network.loop, machine, context
        self.process = context.get(PROCESS)
        self.peer: SimTransport
        self.protocol: Any = None
        self.lost = self.closing = self.ended = False
        self.stalled: deque[tuple[str, bytes]] = deque()
        """Data that was sent to this end and is held up."""
        self.inbox: deque[tuple[str, bytes]] = deque()
        """Data that has arrived and is not read yet."""
        self._unsent: list[tuple[str, bytes]] = []  # while the machine is held
        self._bits = chance.getrandbits
        self._last = 0.0  # when the last byte sent arrives
        self._unread = 0  # bytes sent and not yet read
        self._full = False
        self._reading = True
        self._high, self._low = _HIGH, _LOW

    def draw_from(self, chance: random.Random) -> None:
        """Set the randomness for data that is sent from now on."""
        self._bits = chance.getrandbits

    # --- writing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.ended and not self.closing:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self.closing or not data:
            return
        data = bytes(data)
        link = self.network.link_of(self.machine.name, self.peer.machine.name)
        draw = self._bits(96)
        if link.loss and (draw >> 76) < link.loss * (1 << 20):
            self.network.lose(self)
            return
        self._unread += len(data)
        arrives = self.loop.time() + (link.latency_ms + link.jitter_ms * (draw & 0xFFFFF) / 0x100000) / 1000
        if len(data) > 1 and ((draw >> 20) & 0xFFFF) < link.chunks * 0x10000:
            cut = 1 + ((draw >> 36) & 0xFFFFF) % (len(data) - 1)
            self._send("data", data[:cut], arrives)
            arrives += link.jitter_ms * ((draw >> 56) & 0xFFFFF) / 0x100000 / 1000
            data = data[cut:]
        self._send("data", data, arrives)
        if self._unread > self._high and not self._full:
            self._full = True
            self.protocol.pause_writing()

    def _send(self, kind: str, data: bytes = b"", arrives: float | None = None) -> None:
        if self.machine.dark:
            return
        if self.machine.held:
            self._unsent.append((kind, data))
            return
        if arrives is None:
            link = self.network.link_of(self.machine.name, self.peer.machine.name)
            arrives = self.loop.time() + link.latency_ms / 1000
        self._last = arrives = max(arrives, self._last)
        self.loop.call_at(arrives, self.peer.arrive, kind, data, context=self.network.context)

    def write_eof(self) -> None:
        if not (self.closing or self.ended):
            self.ended = True
            self._send("eof")

    def can_write_eof(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return self._unread

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = _HIGH if high is None else max(high, 0)
        self._low = self._high // 4 if low is None else low

    # --- receiving

    def arrive(self, kind: str, data: bytes) -> None:
        """Something that the other end has sent is there, unless it is stopped on its way."""
        if self.stalled or (self.peer.machine.name, self.machine.name) in self.network.cuts:
            self.stalled.append((kind, data))
        elif not self.machine.dark:
            self._received(kind, data)

    def _received(self, kind: str, data: bytes) -> None:
        if self.lost:
            if kind != "rst" and not self.peer.lost:
                self._send("rst")
        elif self.inbox or not self._may_read():
            self.inbox.append((kind, data))
        else:
            self._deliver(kind, data)

    def _may_read(self) -> bool:
        process = self.process
        stopped = process is not None and process.state != 0
        return self._reading and self.protocol is not None and not self.machine.held and not stopped

    def released(self) -> None:
        """The way to this end may be free again, its machine may go on."""
        if self._unsent and not self.machine.held:
            unsent, self._unsent = self._unsent, []
            for kind, data in unsent:
                self._send(kind, data)
        if self.stalled:
            link = self.network.link_of(self.peer.machine.name, self.machine.name)
            self.loop.call_later(link.latency_ms / 1000, self._unstall, context=self.network.context)
        if self.inbox:
            self.loop.call_soon(self.drain, context=self.network.context)

    def _unstall(self) -> None:
        while self.stalled and (self.peer.machine.name, self.machine.name) not in self.network.cuts:
            kind, data = self.stalled.popleft()
            if not self.machine.dark:
                self._received(kind, data)

    def drain(self) -> None:
        """Deliver what has been received, if there is a reader."""
        while self.inbox and self._may_read():
            self._deliver(*self.inbox.popleft())

    def _deliver(self, kind: str, data: bytes) -> None:
        if kind == "rst":
            self._end(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))
            return
        if self.closing:
            return
        try:
            if kind == "data":
                self.peer._read(len(data))
                self.context.run(self.protocol.data_received, data)
            elif not self.context.run(self.protocol.eof_received):
                self.close()
        except Exception as error:
            message = f"Fatal error: protocol.{kind}_received() call failed."
            self.loop.call_exception_handler(
                {"message": message, "exception": error, "transport": self, "protocol": self.protocol}
            )
            self._send("rst")
            self._end(error)

    def _read(self, size: int) -> None:
        """The other end has read that much."""
        self._unread -= size
        if self._full and self._unread <= self._low and not self.lost:
            self._full = False
            self.loop.call_soon(self.protocol.resume_writing, context=self.context)

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if not self._reading:
            self._reading = True
            if self.inbox:
                self.loop.call_soon(self.drain, context=self.network.context)

    def is_reading(self) -> bool:
        return self._reading and not self.closing

    # --- the end

    def close(self) -> None:
        if self.closing:
            return
        self.closing = True
        if not self.ended:
            self._send("eof")
        self._end(None)

    def abort(self) -> None:
        if not self.lost:
            self._send("rst")
            self._end(None)

    def is_closing(self) -> bool:
        return self.closing

    def _end(self, error: BaseException | None) -> None:
        if self.lost:
            return
        self.vanish()
        if self.protocol is not None:
            self.loop.call_soon(self.protocol.connection_lost, error, context=self.context)

    def vanish(self) -> None:
        """Remove this end of the connection without a packet to its peer."""
        self.lost = self.closing = True
        self.inbox.clear()
        self.network.transports.pop(self, None)

    def reset(self) -> None:
        """Reset this end: its protocol gets ConnectionResetError."""
        self._end(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self.protocol
        return protocol

    def accept(self, factory: Callable[[], Any]) -> None:
        """The server's end gets its protocol, in the server's process."""
        if self.lost:
            return
        self.protocol = factory()
        self.protocol.connection_made(self)
        if self.inbox:
            self.loop.call_soon(self.drain, context=self.network.context)

    def __repr__(self) -> str:
        state = " lost" if self.lost else ""
        return f"<{self.machine.name} -> {self.peer.machine.name} {self._extra['peername']}{state}>"  # type: ignore[attr-defined]
