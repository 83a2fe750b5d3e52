"""Properties of an API that its messages don't declare, for the observation and the faults of requests: ``TRAITS`` in a handler's file.

Most handlers have none: how a request of theirs fails follows from the entities in its messages (``broker_sim.faults``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka_wire.errors import Err

if TYPE_CHECKING:
    from broker_sim.metadata.cluster_state import Broker

__all__ = ["PLAIN", "Failing", "Held", "Parts", "Traits", "WellRow"]

Held = Iterable[tuple[str, bytes, int]]
"""Partitions that a request is about although it doesn't name them: topic name, topic id, partition."""

WellRow = Callable[[str, bytes, int], tuple[int, int] | None]
"""The log start offset and the high watermark of a partition that does not fail, by its topic's name and id; None: it fails."""


@dataclass(frozen=True, slots=True)
class Failing:
    """A request that is to fail with ``err``. ``held`` and ``well`` are for those that go on with a session."""

    request: Any
    version: int
    err: Err
    held: Held = ()
    well: WellRow | None = None


@dataclass(frozen=True, slots=True)
class Parts:
    """A request may fail at some of its topics and partitions while the handler gets the others."""

    errors: frozenset[Err] = frozenset(Err)
    """Those that brokers find at a partition; any other fails the whole request."""
    since: int = 0
    """The first version of which that is true."""
    answers_nothing: bool = False
    """A request that is left without topics still has an answer worth giving, which is not that of all topics."""


@dataclass(frozen=True, slots=True)
class Traits:
    """``failed``: the answer to a request that fails as a whole, where it isn't plainly the error wherever there is a place for it;
    None where the connection is closed instead. ``parts``: how it fails in part, if it can. ``held``: what a session adds to a request.
    """

    failed: Callable[[Failing], Any | None] | None = None
    parts: Parts | None = None
    held: Callable[[Broker, Any], Held] | None = None


PLAIN = Traits()
