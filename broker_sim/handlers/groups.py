"""What the handlers of the group APIs share: the common gate, in each coordinator's order of checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from broker_sim.coordinator.shard import Shard
from broker_sim.handlers.context import ConnectionLike, RequestContext
from kafka_wire.errors import Err

C = TypeVar("C", bound=RequestContext)
Q = TypeVar("Q")
R = TypeVar("R")


def behind_timers(handle: Callable[[C, Q], R]) -> Callable[[C, Q], R | None]:
    """A handler whose requests are no sign of life of a member: one that comes while timers are overdue (``timers``) is handled once
    they have fired, so that nobody who asks later finds a member that should be gone."""

    def handled(ctx: C, request: Q) -> R | None:
        if not waits_for_timers(ctx, request):
            return handle(ctx, request)
        return None

    return handled


def waits_for_timers(ctx: RequestContext, request: object) -> bool:
    """Whether timers are overdue; if so, ``request`` comes to its handler again when they have fired."""
    timers = ctx.broker.runtime.timers
    if not timers.overdue():
        return False
    timers.then(lambda: ctx.connection.run_handler(ctx, request))
    return True


class _Topic(Protocol):
    name: str
    partitions: list[Any]


T = TypeVar("T", bound=_Topic)


def gate(ctx: RequestContext | ConnectionLike, group_id: str, *, empty_id_is_legal: bool = False) -> Shard | Err:
    """The shard that coordinates the group here, or the error that every group API answers first."""
    if group_id == "" and not empty_id_is_legal:
        return Err.INVALID_GROUP_ID
    found: Shard | Err = ctx.broker.runtime.locate(ctx.broker, group_id)
    return found


def merged(missing: dict[str, T], answered: Iterable[T]) -> list[T]:
    """The topics of an answer of 4.x: first those ``missing``, by name, with what isn't there; then those that the coordinator has
    answered, in the request's order. One that is named twice has an entry for each, unless something was missing (the builders'
    ``merge`` in OffsetCommitResponse.java and OffsetDeleteResponse.java)."""
    if not missing:
        return list(answered)
    topics = dict(missing)
    for topic in answered:
        known = topics.setdefault(topic.name, topic)
        if known is not topic:
            known.partitions += topic.partitions
    return list(topics.values())
