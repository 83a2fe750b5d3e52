"""One connection of the tester: frames out, frames in, in the order in which Kafka answers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

CLOSED = None
"""Value that comes instead of an answer when the broker closes the connection."""

Deliver = Callable[[int, bytes | None], None]


class Line(asyncio.Protocol):
    """Hands `(number of the step, the answer's payload or CLOSED)` to `deliver`, one call for each `send`."""

    def __init__(self, deliver: Deliver) -> None:
        self._deliver = deliver
        self._waiting: deque[int] = deque()
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self.is_closed = False

    @classmethod
    async def connect(cls, host: str, port: int, deliver: Deliver) -> Line:
        _, line = await asyncio.get_running_loop().create_connection(lambda: cls(deliver), host, port)
        return line

    @property
    def busy(self) -> bool:
        """Whether an answer is due."""
        return bool(self._waiting)

    def send(self, number: int, frame: bytes) -> None:
        self.expect([number])
        self.write(frame)

    def expect(self, numbers: Iterable[int]) -> None:
        """Answers to these steps are due, in this order."""
        self._waiting.extend(numbers)
        if self.is_closed:
            self._all_closed()

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self.is_closed:
            self._transport.write(data)

    def close(self) -> None:
        self._deliver = _nobody
        self.is_closed = True
        if self._transport is not None:
            self._transport.abort()

    # ---- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= 4:
            size = int.from_bytes(self._buffer[:4], "big")
            if len(self._buffer) < 4 + size:
                return
            payload = bytes(self._buffer[4 : 4 + size])
            del self._buffer[: 4 + size]
            self._deliver(self._whose(payload), payload)

    def _whose(self, payload: bytes) -> int:
        """The step that is answered: the one whose turn it is, or one of which no answer was due."""
        number = int.from_bytes(payload[:4], "big")
        return self._waiting.popleft() if number in self._waiting else number

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        self._all_closed()

    def _all_closed(self) -> None:
        while self._waiting:
            self._deliver(self._waiting.popleft(), CLOSED)


def _nobody(number: int, payload: bytes | None) -> None:
    """After `close` nobody is told anything."""
