"""The routes of a connection whose client must authenticate first."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from broker_sim.authentication import AuthenticationFailed
from broker_sim.authentication.authenticator import LONGEST_TOKEN, Authenticator, State
from broker_sim.requests.error_response import after_failure_delay, error_response, refuse_client
from broker_sim.requests.routes import Route, Routes, UnsupportedRequest, wrong_size
from kafka_wire.errors import Err

if TYPE_CHECKING:
    from broker_sim.authentication.security import Sasl
    from broker_sim.requests.context import ConnectionLike, RequestContext

__all__ = ["AuthenticatingRoutes"]


class AuthenticatingRoutes:
    """The routes of one connection of a SASL listener. What may not come now closes the connection, without an answer before
    SaslHandshake and with ILLEGAL_SASL_STATE between it and the end of the exchange (SaslServerAuthenticator)."""

    def __init__(self, routes: Routes, sasl: Sasl) -> None:
        self._routes = routes
        self.authenticator = Authenticator(sasl)

    def longest_frame(self, limit: int) -> int:
        """As `Routes.longest_frame`."""
        return limit if self.authenticator.state is State.AUTHENTICATED else min(limit, LONGEST_TOKEN)

    def refuse_frame(self, connection: ConnectionLike, size: int, expected: str) -> None:
        """As `Routes.refuse_frame`. Before the client is authenticated a size that is negative or above the limit is a failed
        authentication: the connection is closed after connection.failed.authentication.delay.ms (SaslServerAuthenticator has
        InvalidReceiveException as a SaslAuthenticationException)."""
        if self.authenticator.state is State.AUTHENTICATED or 0 <= size <= LONGEST_TOKEN:
            self._routes.refuse_frame(connection, size, expected)
            return

        def authenticate(token: bytes) -> bytes:
            raise AuthenticationFailed(wrong_size(size, expected), "")

        later = partial(after_failure_delay, connection.broker.state)
        connection.read_tokens(authenticate, later).data_received(bytes(4))  # as a token that fails

    def __getitem__(self, code: int, /) -> Route:
        reason = self.authenticator.refusal(code >> 16)
        if reason is None:
            return self._routes[code]
        if not self.authenticator.expects_token:
            raise UnsupportedRequest(reason)
        asked = self._routes[code]

        def refuse(ctx: RequestContext, request: Any) -> Any:
            return refuse_client(
                ctx, error_response(request, asked.api_key, asked.api_version, Err.ILLEGAL_SASL_STATE), reason
            )

        return asked.handled_by(refuse)
