"""Error responses of an API's requests, for injected errors: ``TRAITS`` in a handler's file.

Most handlers need none: the error response follows from the entities in the API's messages (``broker_sim.faults``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_wire.errors import Err

if TYPE_CHECKING:
    from broker_sim.metadata.cluster_state import Broker

__all__ = ["PLAIN", "ErrorRequest", "ErrorTraits", "HealthyRow", "PartialErrors", "SessionPartitions"]

SessionPartitions = Iterable[tuple[str, bytes, int]]
"""Partitions of a request's fetch session, which the request need not name: topic name, topic id, partition."""

HealthyRow = Callable[[str, bytes, int], tuple[int, int] | None]
"""Called with topic name, topic id and partition. Returns the log start offset and the high watermark; None if the partition fails."""


class ErrorRequest(NamedTuple):
    """A request that fails with ``err``. ``session_partitions`` and ``healthy_row`` are for requests with a fetch session."""

    request: Any
    version: int
    err: Err
    session_partitions: SessionPartitions = ()
    healthy_row: HealthyRow | None = None


class PartialErrors(NamedTuple):
    """An error of some topics or partitions of a request; the handler processes the others."""

    errors: frozenset[Err] = frozenset(Err)
    """The errors that brokers return for a partition; any other error fails the whole request."""
    since: int = 0
    """The first version of the API with such errors."""
    answers_nothing: bool = False
    """Whether a request without any remaining topic is still handled, as one for no topics instead of one for all."""


class ErrorTraits(NamedTuple):
    """``failed``: makes the response to a request that fails as a whole, if it is more than the error in each error field; it returns
    None if the connection is closed instead. ``parts``: errors of some partitions, if the API has these. ``session_partitions``:
    returns the partitions that a fetch session adds to a request."""

    failed: Callable[[ErrorRequest], Any | None] | None = None
    parts: PartialErrors | None = None
    session_partitions: Callable[[Broker, Any], SessionPartitions] | None = None


PLAIN = ErrorTraits()
