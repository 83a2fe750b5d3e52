"""The order of requests on a connection of a SASL listener, as Kafka's SaslServerAuthenticator has it.

    ApiVersions (at most once) -> SaslHandshake -> SaslAuthenticate, one or more -> every other request

After SaslHandshake of version 0 the tokens come without Kafka's headers. A session ends where ``connections.max.reauth.ms`` or an OAuth
token says so (KIP-368): the client repeats SaslHandshake and SaslAuthenticate in time, as the same user with the same mechanism; after
the end the next other request closes the connection.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from broker_sim.authentication import AuthenticationFailed, Unanswered
from kafka_wire.api_keys import ApiKey

if TYPE_CHECKING:
    from broker_sim.authentication.credentials import ScramCredentials
    from broker_sim.authentication.mechanisms import Exchange
    from broker_sim.authentication.security import Sasl

__all__ = ["LONGEST_TOKEN", "Authenticator", "State"]

LONGEST_TOKEN = 524_288
"""Bytes of a frame until the client is authenticated (sasl.server.max.receive.size)."""

_MIN_REAUTHENTICATION_MS = 1000
"""Since the client last began to authenticate again; before, SaslHandshake is answered as on a connection whose session has no end
(KafkaChannel)."""


class State(enum.Enum):
    """State of authentication, which determines the requests that are allowed next."""

    INITIAL = "initial"
    HANDSHAKE = "handshake"
    AUTHENTICATE = "authenticate"
    AUTHENTICATED = "authenticated"
    REFUSED = "refused"
    """SaslHandshake with another mechanism than before was answered; whatever follows closes the connection."""


class Authenticator:
    """Authentication state of one connection."""

    __slots__ = ("_again_ms", "_exchange", "_expires_ms", "_mechanism", "_sasl", "state", "user")

    def __init__(self, sasl: Sasl) -> None:
        self._sasl = sasl
        self._exchange: Exchange | None = None
        self._mechanism = ""
        self._again_ms: int | None = None
        self._expires_ms: int | None = None
        self.state = State.INITIAL
        self.user = ""
        """Name of the authenticated user; "" before."""

    @property
    def mechanism(self) -> str:
        """SASL mechanism of the client's last SaslHandshake; "" before the first."""
        return self._mechanism

    @property
    def claimed(self) -> str:
        """The user that the client says it is: in the exchange that goes on or failed, else the authenticated one; "" before."""
        return self._exchange.claimed if self._exchange is not None else self.user

    def refusal(self, api_key: int) -> str | None:
        """Reason why a request is rejected now; None if it is allowed."""
        state = self.state
        if state is State.AUTHENTICATED:
            if self._expires_ms is None or api_key == ApiKey.SASL_HANDSHAKE or self._sasl.now_ms() < self._expires_ms:
                return None
            return f"the session of user {self.user!r} has expired, and the client did not authenticate again"
        if state is State.REFUSED:
            return f"user {self.user!r} may not authenticate again with another SASL mechanism than {self._mechanism}"
        if state is State.AUTHENTICATE:
            return (
                None
                if api_key == ApiKey.SASL_AUTHENTICATE
                else f"{_name(api_key)} between SaslHandshake and SaslAuthenticate"
            )
        if api_key == ApiKey.SASL_HANDSHAKE or (api_key == ApiKey.API_VERSIONS and state is State.INITIAL):
            return None
        return f"{_name(api_key)} before SaslHandshake; the listener's security.protocol is {self._sasl.protocol}"

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The enabled SASL mechanisms."""
        return self._sasl.mechanisms

    @property
    def credentials(self) -> ScramCredentials:
        """SCRAM credentials of the cluster's users."""
        return self._sasl.credentials

    def versions_answered(self) -> None:
        """ApiVersions was answered without an error."""
        if self.state is State.INITIAL:
            self.state = State.HANDSHAKE

    @property
    def expects_token(self) -> bool:
        """Whether SaslAuthenticate is next."""
        return self.state is State.AUTHENTICATE

    def may_handshake(self) -> bool:
        """Whether SaslHandshake begins an exchange; False on an authenticated connection whose session has no end, or whose client
        began to authenticate again less than a second ago."""
        if self.state is not State.AUTHENTICATED:
            return True
        if self._expires_ms is None:
            return False
        return self._again_ms is None or self._sasl.client_ms() - self._again_ms >= _MIN_REAUTHENTICATION_MS

    def handshake(self, mechanism: str) -> bool:
        """SaslHandshake. Returns whether the mechanism is enabled."""
        from broker_sim.authentication.mechanisms import begin

        if mechanism not in self._sasl.mechanisms:
            self._mechanism = mechanism
            return False
        if self.user:
            self._again_ms = self._sasl.client_ms()
            if mechanism != self._mechanism:
                self.state = State.REFUSED
                return True
        sasl = self._sasl
        self._mechanism = mechanism
        self._exchange = begin(mechanism, sasl.users, sasl.credentials, sasl.rng, sasl.now_ms, sasl.release)
        self.state = State.AUTHENTICATE
        return True

    def authenticate(self, token: bytes) -> tuple[bytes, int]:
        """SaslAuthenticate: the answer, and the milliseconds of the session (0: without end, or not authenticated yet). Raises
        AuthenticationFailed, with a text for the client."""
        exchange, again = self._exchange, bool(self.user)
        assert exchange is not None
        try:
            answer = exchange.evaluate(token)
            if not exchange.complete:
                return answer, 0
            if again and exchange.user != self.user:
                shown = f"Cannot change principals during re-authentication from User.{self.user}: User.{exchange.user}"
                raise AuthenticationFailed(f"user {exchange.user!r} on the connection of {self.user!r}", shown)
        except AuthenticationFailed as error:
            if error.shown is None:
                which = "re-authentication" if again else "authentication"
                error.shown = f"Authentication failed during {which} due to invalid credentials with SASL mechanism {self._mechanism}"
            raise
        lifetime_ms = self._lifetime_ms(exchange.expires_ms)
        self.user, self.state, self._exchange = exchange.user, State.AUTHENTICATED, None
        return answer, lifetime_ms

    def _lifetime_ms(self, expires_ms: int | None) -> int:
        """Lifetime of the session that begins now, in ms; 0 without a limit. A session of more nanoseconds than a Java long holds ends,
        before 4.2, after the nanoseconds that the overflow leaves (ReauthInfo). Raises AuthenticationFailed."""
        now_ms, limit_ms = self._sasl.now_ms(), self._sasl.max_session_ms
        ends = [] if expires_ms is None else [expires_ms - now_ms]
        lifetime_ms = min([*ends, limit_ms] if limit_ms else ends, default=None)
        if lifetime_ms is None:
            self._expires_ms = None
            return 0
        lifetime_ms = max(0, lifetime_ms)
        nanoseconds = (lifetime_ms * 1_000_000 + 2**63) % 2**64 - 2**63
        if nanoseconds != lifetime_ms * 1_000_000 and self._sasl.release >= (4, 2):
            raise Unanswered(f"a session of {lifetime_ms} ms is too long; is 'exp' of the OAuth token in seconds?")
        self._expires_ms = now_ms + nanoseconds // 1_000_000
        return lifetime_ms


def _name(api_key: int) -> str:
    try:
        return ApiKey(api_key).kafka_name
    except ValueError:
        return f"a request with API key {api_key}"
