"""A connection that sends given requests: for those that no client library sends, and for hundreds of members."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from kafka_wire.codec import decode, encode
from kafka_wire.frame import encode_request_header, frame, response_is_tagged

__all__ = ["Wire"]


class Wire:
    """A connection of its own to a broker."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._numbers = itertools.count(1)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def connect(self, host: str, port: int) -> None:
        """Connect, or connect elsewhere. Raises OSError."""
        self.close()
        self._reader, self._writer = await asyncio.open_connection(host, port)

    async def ask(self, api: int, version: int, request: object, answer: type[Any]) -> Any:
        """The response. Raises OSError or EOFError where the connection is lost."""
        assert self._reader is not None
        assert self._writer is not None
        head = encode_request_header(api, version, next(self._numbers), self._client_id)
        self._writer.write(frame(head + encode(request, version)))
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        payload = (await self._reader.readexactly(size))[4:]
        return decode(
            answer, version, payload[1:] if response_is_tagged(api, version) else payload
        )  # no broker sends tags

    def close(self) -> None:
        """Hang up, if it is connected."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
