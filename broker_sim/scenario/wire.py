"""A connection that sends given requests: for those that no client library sends, and for hundreds of members.

It authenticates by PLAIN or SCRAM and encrypts where the brokers' listeners want that: ``security`` are librdkafka's settings.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import ssl
from collections.abc import Mapping
from typing import Any

from kafka_wire.api_keys import ApiKey
from kafka_wire.codec import decode, encode
from kafka_wire.frame import encode_request_header, frame, response_is_tagged

__all__ = ["Wire"]


class Wire:
    """A connection of its own to a broker."""

    def __init__(self, client_id: str, security: Mapping[str, str] | None = None) -> None:
        self._client_id = client_id
        self._security = security or {}
        self._numbers = itertools.count(1)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def connect(self, host: str, port: int) -> None:
        """Connect, or connect elsewhere. Raises OSError; EOFError where the broker hangs up during the authentication."""
        self.close()
        authority, mechanism = self._security.get("ssl.ca.location"), self._security.get("sasl.mechanism")
        context = None if authority is None else ssl.create_default_context(cafile=authority)
        self._reader, self._writer = await asyncio.open_connection(host, port, ssl=context)
        if mechanism is not None:
            await self._authenticate(mechanism)

    async def _authenticate(self, mechanism: str) -> None:
        from broker_sim.authentication.client import client_tokens
        from kafka_wire.messages.k17_sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
        from kafka_wire.messages.k36_sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

        await self.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism), SaslHandshakeResponse)
        tokens = client_tokens(mechanism, self._security["sasl.username"], self._security["sasl.password"])
        token = next(tokens)
        with contextlib.suppress(StopIteration):
            while True:
                request = SaslAuthenticateRequest(token)
                answer = await self.ask(ApiKey.SASL_AUTHENTICATE, 2, request, SaslAuthenticateResponse)
                if answer.error_code:
                    raise ConnectionRefusedError(answer.error_message)
                token = tokens.send(answer.auth_bytes)

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
