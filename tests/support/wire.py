"""A raw client of Kafka's wire: one connection, any request, any version, any bytes. It knows protocol/ alone.

    wire = await Wire.connect("127.0.0.1:9092")
    response = await wire.send(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4)
    first, second = wire.start(request, 8), wire.start(other, 8)      # pipelined: two futures
    wire.write_raw(b"..."); frame = await wire.next_frame()           # what no well-behaved client would send
    await wire.closed()                                               # until the broker hangs up
    await wire.close()

Rules: every wait has a deadline (`DEADLINE_S`, or the caller's) and its error says what was awaited; an answer is
matched to its request by the correlation id and must end where its schema ends; an answer nobody asked for is handed
out by `next_frame`.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import Any

from kafka_wire.codec import decode_from, encode
from kafka_wire.frame import encode_request_header, frame, response_is_tagged

DEADLINE_S = 300.0
CLIENT_ID = "wire"


class WireClosedError(ConnectionError):
    """The broker closed the connection before it answered."""


@dataclass(slots=True)
class _Pending:
    answer: asyncio.Future[Any]
    response_class: type[Any]
    version: int
    tagged: bool


def api_key_of(request: Any) -> int:
    """The API key of a request object (an instance of one of kafka_wire.messages' request classes)."""
    key: int = type(request).__spec__.api_key
    return key


def response_class_of(request: Any) -> type[Any]:
    """The class of the answer: `XRequest` -> `XResponse` of the same module."""
    module = sys.modules[type(request).__module__]
    found: type[Any] = getattr(module, type(request).__name__.removesuffix("Request") + "Response")
    return found


class Wire:
    """One connection. Made by `connect`; `close` it when done (it never raises for a connection that is gone)."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client_id: str | None) -> None:
        self.client_id = client_id
        self._reader = reader
        self._writer = writer
        self._correlation_id = 0
        self._pending: dict[int, _Pending] = {}
        self._unasked: asyncio.Queue[bytes] = asyncio.Queue()
        self._task = asyncio.create_task(self._read())

    @classmethod
    async def connect(cls, bootstrap: str, *, client_id: str | None = CLIENT_ID) -> Wire:
        """Connects to `bootstrap`, "host:port" (of a list, the first)."""
        host, _, port = bootstrap.split(",")[0].rpartition(":")
        reader, writer = await asyncio.wait_for(asyncio.open_connection(host, int(port)), DEADLINE_S)
        return cls(reader, writer, client_id)

    def start(self, request: Any, version: int) -> asyncio.Future[Any]:
        """Writes the request now; the future gives its response, or WireClosedError when the broker hangs up."""
        self._correlation_id += 1
        key = api_key_of(request)
        header = encode_request_header(key, version, self._correlation_id, self.client_id)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        pending = _Pending(answer, response_class_of(request), version, response_is_tagged(key, version))
        self._pending[self._correlation_id] = pending
        self._writer.write(frame(header + encode(request, version)))
        if self._task.done():
            self._fail_pending()
        return answer

    async def send(self, request: Any, version: int, *, deadline_s: float = DEADLINE_S) -> Any:
        """The response to `request`. Raises TimeoutError (saying to what), WireClosedError."""
        return await within(
            self.start(request, version), deadline_s, f"the answer to {type(request).__name__} v{version}"
        )

    def write_raw(self, data: bytes) -> None:
        """Writes bytes as they are: no size, no header."""
        self._writer.write(data)

    async def next_frame(self, *, deadline_s: float = DEADLINE_S) -> bytes:
        """The next frame (without its size) that answers nothing `start` has sent."""
        unasked: bytes = await within(self._unasked.get(), deadline_s, "a frame from the broker")
        return unasked

    async def next_frame_or_end(self) -> bytes | None:
        """As `next_frame`; None if the broker closes the connection instead."""
        frame = asyncio.ensure_future(self._unasked.get())
        await within(asyncio.wait([frame, self._task], return_when="FIRST_COMPLETED"), DEADLINE_S, "a frame or the end")
        if frame.done():
            return frame.result()
        frame.cancel()
        return None if self._unasked.empty() else self._unasked.get_nowait()

    async def closed(self, *, deadline_s: float = DEADLINE_S) -> None:
        """Returns once the broker has closed the connection."""
        await within(asyncio.shield(self._task), deadline_s, "the broker to close the connection")

    @property
    def is_closed(self) -> bool:
        """Whether the broker has closed the connection."""
        return self._task.done()

    def abort(self) -> None:
        """Drops the connection with a reset, as a crashed client does."""
        self._writer.transport.abort()

    async def close(self) -> None:
        """Closes the connection and waits until its socket is gone. Unanswered requests are cancelled."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        for pending in self._pending.values():
            pending.answer.cancel()
        self._writer.close()
        await asyncio.gather(self._writer.wait_closed(), return_exceptions=True)

    async def _read(self) -> None:
        try:
            while True:
                size = int.from_bytes(await self._reader.readexactly(4), "big", signed=True)
                self._take(await self._reader.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            self._fail_pending()

    def _take(self, payload: bytes) -> None:
        pending = self._pending.pop(int.from_bytes(payload[:4], "big", signed=True), None)
        if pending is None:
            self._unasked.put_nowait(payload)
            return
        if pending.answer.done():  # its sender gave up waiting
            return
        try:
            position = 4
            if pending.tagged:
                if payload[4] != 0:
                    raise ValueError(f"the response header carries {payload[4]} tagged fields")
                position = 5
            response, end = decode_from(pending.response_class, pending.version, payload, position)
            if end != len(payload):
                raise ValueError(
                    f"{len(payload) - end} bytes follow {pending.response_class.__name__} v{pending.version}"
                )
        except ValueError as error:
            pending.answer.set_exception(error)
        else:
            pending.answer.set_result(response)

    def _fail_pending(self) -> None:
        for pending in self._pending.values():
            if not pending.answer.done():
                pending.answer.set_exception(
                    WireClosedError(f"the broker closed the connection, {pending.response_class.__name__} never came")
                )
                pending.answer.exception()  # retrieved: a test that only watches the connection is not warned
        self._pending.clear()


async def within(awaitable: Any, deadline_s: float, what: str) -> Any:
    """The awaitable's result; TimeoutError naming `what` after `deadline_s`."""
    try:
        return await asyncio.wait_for(awaitable, deadline_s)
    except TimeoutError:
        raise TimeoutError(f"waited {deadline_s:g} s for {what}") from None
