"""The routes of a connection whose client must authenticate first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker_sim.authentication.authenticator import LONGEST_TOKEN, Authenticator, State
from broker_sim.handlers import Route, Routes, UnsupportedRequest
from broker_sim.handlers.error_response import error_response, refuse_client
from kafka_wire.errors import Err

if TYPE_CHECKING:
    from broker_sim.authentication.security import Sasl
    from broker_sim.handlers.context import RequestContext

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
