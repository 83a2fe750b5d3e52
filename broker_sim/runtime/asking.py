"""A request as the coordinators' runtime sees it: who asks, and how to answer. Handlers, above, have the whole of it."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Final, Protocol

from broker_sim.coordinator.client import Client

__all__ = ["DEFERRED", "Asking", "Deferred", "Replying"]


class Deferred(enum.Enum):
    """The type of ``DEFERRED``: a request is answered at the end of this iteration of the event loop."""

    DEFERRED = "deferred"


DEFERRED: Final = Deferred.DEFERRED


class Asking(Protocol):
    """A request that a coordinator answers."""

    client_id: str | None

    @property
    def request_id(self) -> int:
        """The request's number in the journal; 0 without one."""

    @property
    def name(self) -> str:
        """The name of its API."""

    @property
    def client(self) -> Client:
        """The client that asks, as an event of a coordinator names it."""

    @property
    def connection(self) -> object:
        """The connection on which it came."""

    def reply(self, response: object) -> None:
        """Answer with a response."""

    def reply_made(self, made: object) -> None:
        """Answer with a response, or with that of a job that makes it in pieces."""

    def on_disconnect(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` if the client disconnects before the answer."""


class Replying(Protocol):
    """A connection on which a queued commit has reserved its reply."""

    def replied(self) -> None:
        """The reply is complete."""
