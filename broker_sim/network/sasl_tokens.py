"""SASL tokens without Kafka's headers, as they follow SaslHandshake of version 0: four bytes of size and the token, both ways.

Clients of Kafka 0.10 do this, and sarama unless its configuration says otherwise. The transport's bytes come here until the client is
authenticated, then again to its connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker_sim.authentication import AuthenticationFailed
from broker_sim.authentication.authenticator import LONGEST_TOKEN, State

if TYPE_CHECKING:
    from broker_sim.network.connection import Connection

__all__ = ["SaslTokens"]


class SaslTokens(asyncio.Protocol):
    """Between ``transport`` and ``connection``; ``authenticate`` answers one token, or raises AuthenticationFailed."""

    def __init__(
        self, connection: Connection, transport: asyncio.Transport, authenticate: Callable[[bytes], bytes]
    ) -> None:
        self._connection, self._transport, self._authenticate = connection, transport, authenticate
        self._received = bytearray()

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 4:
            size = int.from_bytes(self._received[:4], "big", signed=True)
            if not 0 <= size <= LONGEST_TOKEN:
                self._connection.refuse(f"a SASL token of {size} bytes; expected 0 to {LONGEST_TOKEN}")
                return
            if len(self._received) < 4 + size:
                return
            token = bytes(self._received[4 : 4 + size])
            del self._received[: 4 + size]
            try:
                answer = self._authenticate(token)
            except AuthenticationFailed as error:
                self._connection.refuse(str(error))  # there is no answer that would say it
                return
            self._transport.write(len(answer).to_bytes(4, "big") + answer)
            authenticator = self._connection.authenticator
            if authenticator is not None and authenticator.state is State.AUTHENTICATED:
                self._transport.set_protocol(self._connection)
                if self._received:
                    self._connection.data_received(bytes(self._received))
                return

    def eof_received(self) -> bool:
        return self._connection.eof_received()

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.connection_lost(exc)
