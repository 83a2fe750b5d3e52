"""Common part of the handlers of the group APIs: the coordinator check, in each coordinator's order of checks."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

from broker_sim.common.slices import Pace, distinct, in_order
from broker_sim.coordinator.client import Client
from broker_sim.coordinator.epochs.group import EpochGroup
from broker_sim.coordinator.group import Group
from broker_sim.coordinator.shard import Shard
from broker_sim.requests.context import ConnectionLike, RequestContext
from kafka_wire.errors import Err

C = TypeVar("C", bound=RequestContext)
Q = TypeVar("Q")
R = TypeVar("R")


def behind_timers(handle: Callable[[C, Q], R]) -> Callable[[C, Q], R | None]:
    """Wrap a handler whose requests do not extend a session: while timers are overdue (``timers``) a request is handled after they have
    fired, so that it does not find a member whose session has expired."""

    def handled(ctx: C, request: Q) -> R | None:
        if not waits_for_timers(ctx, request):
            return handle(ctx, request)
        return None

    return handled


def waits_for_timers(ctx: RequestContext, request: object) -> bool:
    """Whether timers are overdue; if so, ``request`` comes to its handler again when they have fired."""
    timers = ctx.coordinators.groups.timers
    if not timers.overdue():
        return False
    timers.then(lambda: ctx.connection.run_handler(ctx, request))
    return True


_MANY_NAMES = 4000
"""Topic names of a heartbeat from which on they are put in order in pieces."""


class _HeartbeatRequest(Protocol):
    group_id: str
    subscribed_topic_names: list[str] | None


B = TypeVar("B", bound=_HeartbeatRequest)
E = TypeVar("E")


def with_names_in_order(
    expecting: Callable[[Shard, Client, B], Generator[None, None, E]],
) -> Callable[[Callable[[RequestContext, B, E | None], R]], Callable[[RequestContext, B], R | None]]:
    """Wrap a handler of heartbeats: many topic names are sorted in pieces before it is called, each once, and passed to it with the
    result of ``expecting``. The group handles a heartbeat in one step, and sorting and encoding a megabyte of names would take most of
    the time that the step may take."""

    def decorated(handle: Callable[[RequestContext, B, E | None], R]) -> Callable[[RequestContext, B], R | None]:
        def handled(ctx: RequestContext, request: B) -> R | None:
            names = request.subscribed_topic_names
            if names is None or len(names) < _MANY_NAMES:
                return handle(ctx, request, None)
            answer: R | None = ctx.in_pieces(in_pieces(ctx, request, names))
            return answer

        def in_pieces(ctx: RequestContext, request: B, names: list[str]) -> Generator[None, None, R]:
            named = yield from in_order((yield from distinct(names)))
            yield
            request = replace(request, subscribed_topic_names=named)  # type: ignore[type-var]
            shard = find_shard(ctx, request.group_id)
            expected = None if isinstance(shard, Err) else (yield from expecting(shard, ctx.client, request))
            yield
            return handle(ctx, request, expected)

        return handled

    return decorated


class _Topic(Protocol):
    partitions: list[Any]


T = TypeVar("T", bound=_Topic)
K = TypeVar("K", bound=Hashable)


def find_shard(ctx: RequestContext | ConnectionLike, group_id: str, *, empty_id_is_legal: bool = False) -> Shard | Err:
    """The shard that coordinates the group on this broker, or the error that every group API returns first."""
    if group_id == "" and not empty_id_is_legal:
        return Err.INVALID_GROUP_ID
    shard: Shard | Err = ctx.coordinators.groups.locate(ctx.broker, group_id)
    return shard


class _MemberHeartbeat(Protocol):
    group_id: str
    member_id: str
    member_epoch: int


class _Response(Protocol):
    error_code: int


A = TypeVar("A", bound=_Response)


def repeatable(ctx: RequestContext, shard: Shard, request: _MemberHeartbeat) -> Callable[[A], A]:
    """For a heartbeat (KIP-848, 932, 1071) that goes to its group now: a function that passes its response on, and lets the connection
    repeat it for as long as neither the group nor the member changes. It may not if they changed meanwhile, or if the member joins or
    leaves: each join may be another client's."""

    def answered_by() -> tuple[Group, int, object] | None:
        group = shard.groups.get(request.group_id)
        return None if group is None else (group, group.version, group.current_of(request.member_id))

    before = answered_by()

    def response(answer: A) -> A:
        if (
            answer.error_code == Err.NONE
            and request.member_epoch > 0
            and before is not None
            and answered_by() == before
        ):
            group = before[0]
            if isinstance(group, EpochGroup) and group.repeats(request.member_id):
                ctx.repeats = partial(ctx.coordinators.groups.unchanged, shard, request.group_id, request.member_id)
        return answer

    return response


class _Described(Protocol):
    error_code: int
    authorized_operations: int


D = TypeVar("D", bound=_Described)

_PIECE = 50
"""Groups that are described before others are served."""


def describe_all(
    ctx: RequestContext,
    request: Any,
    describe: Callable[[Shard, str], D | Generator[None, None, D]],
    refused: Callable[[Err, str], D],
    *,
    off: bool,
) -> Generator[None, None, list[D]]:
    """The groups of a request that describes those of one kind, in the order asked. ``describe`` may do it in pieces; ``off``: this
    broker has none of that kind."""
    groups: list[D] = []
    pace = Pace(_PIECE)
    for group_id in request.group_ids:
        if pace.full():
            yield
        shard = Err.UNSUPPORTED_VERSION if off else find_shard(ctx, group_id)
        if isinstance(shard, Err):
            groups.append(refused(shard, group_id))
            continue
        described = describe(shard, group_id)
        group = (yield from described) if isinstance(described, Generator) else described
        ctx.long = ctx.long or _names(group) > _MANY_NAMES
        if request.include_authorized_operations and group.error_code == Err.NONE:
            group.authorized_operations = ctx.coordinators.groups.settings.policy.group_operations
        groups.append(group)
    return groups


def _names(group: object) -> int:
    """Number of topic names in the members' subscriptions of a described group."""
    members = getattr(group, "members", ())
    return sum(len(getattr(member, "subscribed_topic_names", ())) for member in members)


def merged(missing: dict[K, T], answered: Iterable[tuple[K, T]]) -> list[T]:
    """The topics of an answer of 4.x: first those ``missing``, by what they were called, with what isn't there; then those that the
    coordinator has answered, in the request's order. One that is called twice has an entry for each, unless something was missing (the
    builders' ``merge`` in OffsetCommitResponse.java and OffsetDeleteResponse.java)."""
    if not missing:
        return [topic for _, topic in answered]
    topics = dict(missing)
    for called, topic in answered:
        known = topics.setdefault(called, topic)
        if known is not topic:
            known.partitions += topic.partitions
    return list(topics.values())
