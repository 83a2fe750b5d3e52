"""The requests for the share coordinator (83-87): the named share partitions one after the other, each at its own shard.

Brokers send them to one another (CLUSTER_ACTION); without an authorizer any client may. Source: KafkaApis, ShareCoordinatorService
(4.x).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, Protocol

from broker_sim.common.slices import Pace
from broker_sim.coordinator.share_state.commands import (
    Command,
    Delete,
    Initialize,
    Read,
    Summarize,
    Write,
    failed,
)
from broker_sim.coordinator.share_state.state import ShareKey
from broker_sim.requests.context import RequestContext
from broker_sim.runtime.share_state_coordinator import coordinator_key
from kafka_wire.errors import Err


class ShareStateTopic(Protocol):
    """A topic in such a request."""

    topic_id: bytes
    partitions: list[Any]


class ShareStateRequest(Protocol):
    """A request with share partitions by topic."""

    group_id: str

    @property
    def topics(self) -> Sequence[ShareStateTopic]: ...


_DOES: dict[type, str] = {
    Initialize: "initialize share group state",
    Read: "read share group state",
    Write: "write share group state",
    Delete: "delete share group state",
    Summarize: "read share group state summary",
}

_PIECE, _TOPICS = 200, 5000
"""Partitions whose shard is asked, and topics that are looked at, before others are served."""


def answer(
    ctx: RequestContext,
    request: ShareStateRequest,
    command: Callable[[ShareKey, Any], Command],
    row: Callable[[int, Any], Any],
    response: Callable[[list[tuple[bytes, list[Any]]]], object],
    *,
    takes_empty_topics: bool = False,
) -> None:
    """Send a command to the shard of each partition. ``command`` makes it, ``row`` makes a row of the response from its result,
    ``response`` the response from all rows. A request without a group id, or with a topic without partitions unless these are accepted,
    gets an empty response (4.1.0, 4.4.0)."""
    if not request.group_id or not (takes_empty_topics or all(topic.partitions for topic in request.topics)):
        ctx.reply(response([]))
        return
    ctx.in_pieces(_ask_all(ctx, request, command, row, response))


def _ask_all(
    ctx: RequestContext,
    request: ShareStateRequest,
    command: Callable[[ShareKey, Any], Command],
    row: Callable[[int, Any], Any],
    response: Callable[[list[tuple[bytes, list[Any]]]], object],
) -> Generator[None, None, None]:
    topics: list[tuple[bytes, list[Any]]] = []
    waiting = 1
    pace, topic_pace = Pace(_PIECE), Pace(_TOPICS)

    def done() -> None:
        nonlocal waiting
        waiting -= 1
        if not waiting:
            ctx.reply(response(_by_id(topics)))

    def put_result(rows: list[Any], at: int, index: int, result: Any) -> None:
        rows[at] = row(index, result)
        done()

    for topic in request.topics:
        if topic_pace.full():
            yield
        rows: list[Any] = [None] * len(topic.partitions)
        topics.append((topic.topic_id, rows))
        for at, part in enumerate(topic.partitions):
            if pace.full():
                yield
            waiting += 1
            key = ShareKey(request.group_id, topic.topic_id, part.partition)
            requested, answered = command(key, part), partial(put_result, rows, at, part.partition)
            # without share groups there is no share coordinator, and the error has no message (4.1.0)
            shard = ctx.coordinators.share_states.locate(ctx.broker, coordinator_key(key))
            if isinstance(shard, Err):
                words = f"Unable to {_DOES[type(requested)]}: {shard.text}" if shard is Err.NOT_COORDINATOR else None
                answered(failed(requested, shard, words))
            else:
                ctx.coordinators.share_states.command(shard, requested, answered)
    done()


def _by_id(topics: list[tuple[bytes, list[Any]]]) -> list[tuple[bytes, list[Any]]]:
    """As Kafka answers, from maps: a topic or partition that is named twice is there once, one without partitions is missing."""
    result: dict[bytes, dict[int, Any]] = {}
    for topic_id, rows in topics:
        for row in rows:
            result.setdefault(topic_id, {})[row.partition] = row
    return [(topic_id, list(rows.values())) for topic_id, rows in result.items()]
