"""DeleteTopics (20), versions 0-6, answered by any broker. v5 error messages, v6 topic ids.

A name or id that is given twice is refused once, whether it exists or not. Source: ControllerApis.deleteTopics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator

from broker_sim.common.slices import Pace, counted, listed
from broker_sim.metadata.cluster_state import ClusterState, KafkaError, Topic
from broker_sim.requests.context import RequestContext
from kafka_wire.errors import Err
from kafka_wire.messages.k20_delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kafka_wire.schema import ZERO_UUID

_PIECE = 500
"""Topics that are looked at, or a fiftieth as many deleted, before others are served."""


def handle(ctx: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse | None:
    response: DeleteTopicsResponse | None = ctx.in_pieces(_delete_all(ctx, request))
    return response


def _delete_all(ctx: RequestContext, request: DeleteTopicsRequest) -> Generator[None, None, DeleteTopicsResponse]:
    state = ctx.broker.state
    requested = request.topics
    if ctx.api_version < 6:
        requested = yield from listed(DeleteTopicState(name) for name in request.topic_names)
    if not state.config.bool("delete.topic.enable"):
        return (
            yield from _all_refused(
                requested, Err.TOPIC_DELETION_DISABLED if ctx.api_version >= 3 else Err.INVALID_REQUEST
            )
        )
    count = yield from counted((topic.name, topic.topic_id) for topic in requested)
    if request.timeout_ms <= 0 and any(
        _is_sound(topic) and count[topic.name, topic.topic_id] == 1 for topic in requested
    ):
        # too late already when it comes to Kafka's controller, which does nothing then
        return (yield from _all_refused(requested, Err.REQUEST_TIMED_OUT))
    chosen, results = yield from _choose(state, requested, count)
    pace = Pace(_PIECE // 50)
    for topic in chosen:
        if pace.full():
            yield
        if state.topics.get(topic.name) is not topic:  # another request was quicker
            results.append(DeletableTopicResult(topic.name, topic.topic_id, Err.UNKNOWN_TOPIC_OR_PARTITION))
            continue
        try:
            yield from state.deleting_topic(topic.name)
            results.append(DeletableTopicResult(topic.name, topic.topic_id))
        except KafkaError as error:
            results.append(DeletableTopicResult(topic.name, topic.topic_id, error.error, error.message))
    return DeleteTopicsResponse(0, results)


def _all_refused(requested: list[DeleteTopicState], error: Err) -> Generator[None, None, DeleteTopicsResponse]:
    return DeleteTopicsResponse(
        0, (yield from listed(DeletableTopicResult(topic.name, topic.topic_id, error) for topic in requested))
    )


def _is_sound(requested: DeleteTopicState) -> bool:
    """Whether it gives either a name or an id."""
    return (requested.name is None) != (requested.topic_id == ZERO_UUID)


def _choose(
    state: ClusterState, requested: list[DeleteTopicState], count: Counter[tuple[str | None, bytes]]
) -> Generator[None, None, tuple[list[Topic], list[DeletableTopicResult]]]:
    """The topics to delete, and a refusal for everything else that was asked, before anything is deleted."""
    ids = {item.topic_id for item in requested if item.name is None}
    chosen: dict[bytes, Topic] = {}
    refused: dict[tuple[str | None, bytes, int], DeletableTopicResult] = {}
    clashes: dict[bytes, DeletableTopicResult] = {}
    pace = Pace(_PIECE)
    for number, entry in enumerate(requested):
        if pace.full():
            yield
        key = (entry.name, entry.topic_id)
        try:
            topic = _find(state, entry, count[key])
        except KafkaError as error:
            answer = DeletableTopicResult(entry.name, entry.topic_id, error.error, error.message)
            refused.setdefault((*key, -1 if _is_sound(entry) else number), answer)  # else as often as it was requested
            continue
        if entry.name is not None and topic.topic_id in ids:
            text = "The provided topic name maps to an ID that was already supplied."
            clashes[topic.topic_id] = DeletableTopicResult(entry.name, topic.topic_id, Err.INVALID_REQUEST, text)
        chosen[topic.topic_id] = topic
    free = [topic for topic_id, topic in chosen.items() if topic_id not in clashes]
    return free, [*refused.values(), *clashes.values()]


def _find(state: ClusterState, requested: DeleteTopicState, times: int) -> Topic:
    name, topic_id = requested.name, requested.topic_id
    if name is None and topic_id == ZERO_UUID:
        raise KafkaError(Err.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if name is not None and topic_id != ZERO_UUID:
        raise KafkaError(Err.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if times > 1:
        raise KafkaError(Err.INVALID_REQUEST, f"Duplicate topic {'id' if name is None else 'name'}.")
    if name is not None:
        return state.topic(name)
    topic = state.topics_by_id.get(topic_id)
    if topic is None:
        raise KafkaError(Err.UNKNOWN_TOPIC_ID, Err.UNKNOWN_TOPIC_ID.text)
    return topic
