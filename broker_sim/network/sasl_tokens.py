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
    from broker_sim.common.clock import Timer
    from broker_sim.network.connection import Connection
    from broker_sim.requests.context import Later

__all__ = ["SaslTokens"]


class SaslTokens(asyncio.Protocol):
    """Between ``transport`` and ``connection``; ``authenticate`` answers one token, or raises AuthenticationFailed; ``later`` calls a
    function after connection.failed.authentication.delay.ms."""

    def __init__(
        self,
        connection: Connection,
        transport: asyncio.Transport,
        authenticate: Callable[[bytes], bytes],
        later: Later,
    ) -> None:
        self._connection, self._transport, self._authenticate, self._later = connection, transport, authenticate, later
        self._received = bytearray()
        self._closing: Timer | None = None

    @classmethod
    def put_before(
        cls,
        connection: Connection,
        transport: asyncio.Transport,
        authenticate: Callable[[bytes], bytes],
        later: Later,
    ) -> SaslTokens:
        """A new one that has what the transport receives from now on."""
        tokens = cls(connection, transport, authenticate, later)
        transport.set_protocol(tokens)
        return tokens

    def data_received(self, data: bytes) -> None:
        if self._closing is not None:
            return
        self._received += data
        while len(self._received) >= 4:
            size = int.from_bytes(self._received[:4], "big", signed=True)
            if not 0 <= size <= LONGEST_TOKEN:
                self._refuse(f"a SASL token of {size} bytes; expected 0 to {LONGEST_TOKEN}")
                return
            if len(self._received) < 4 + size:
                return
            token = bytes(self._received[4 : 4 + size])
            del self._received[: 4 + size]
            try:
                answer = self._authenticate(token)
            except AuthenticationFailed as error:  # there is no answer that would say it
                if error.is_delayed:
                    self._refuse(str(error))
                else:
                    self._connection.refuse(str(error))
                return
            self._transport.write(len(answer).to_bytes(4, "big") + answer)
            authenticator = self._connection.authenticator
            if authenticator is not None and authenticator.state is State.AUTHENTICATED:
                self._transport.set_protocol(self._connection)
                if self._received:
                    self._connection.data_received(bytes(self._received))
                return

    def _refuse(self, reason: str) -> None:
        """Close after the delay; what comes meanwhile is not read."""
        self._connection.end(reason)
        self._closing = self._later(self._connection.close)

    def eof_received(self) -> bool:
        return self._connection.eof_received()

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._closing is not None:
            self._closing.cancel()
        self._connection.connection_lost(exc)
