"""Authentication of clients: SASL exchanges and the certificates of a TLS listener. No sockets, no event loop.

``mechanisms`` are the exchanges (PLAIN, SCRAM, OAUTHBEARER), ``authenticator`` is the order of requests on one connection,
``security`` is what a listener requires, ``certificates`` makes and reads the files of TLS, ``client`` is the other side.
"""

from __future__ import annotations

__all__ = ["AuthenticationFailed", "Unanswered"]


class AuthenticationFailed(Exception):
    """The exchange ends here. The text is for the broker's log; ``shown``: what the client gets; None for the sentence without a
    reason, as Kafka tells no client whether a user exists."""

    def __init__(self, reason: str, shown: str | None = None) -> None:
        super().__init__(reason)
        self.shown = shown
        self.is_delayed = shown is not None
        """Whether the connection is closed after connection.failed.authentication.delay.ms also where there is no answer: what Kafka
        has as SaslAuthenticationException, not as SaslException (KafkaChannel.prepare)."""


class Unanswered(AuthenticationFailed):
    """A failure that is an exception of Java's own in Kafka: the connection is closed without an answer and at once."""
