"""DeleteTopics (20), versions 0-6, answered by any broker. v5 error messages, v6 by topic id too.

A name or id given twice is refused once, whatever it names. Source: ControllerApis.deleteTopics.
"""

from __future__ import annotations

from collections import Counter

from broker_sim.handlers.context import RequestContext
from broker_sim.metadata import ClusterState, KafkaError, Topic
from protocol.errors import Err
from protocol.messages.k20_delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from protocol.schema import ZERO_UUID


def handle(ctx: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    state = ctx.broker.state
    asked = request.topics if ctx.api_version >= 6 else [DeleteTopicState(name) for name in request.topic_names]
    if not state.config.bool("delete.topic.enable"):
        error = Err.TOPIC_DELETION_DISABLED if ctx.api_version >= 3 else Err.INVALID_REQUEST
        return DeleteTopicsResponse(0, [DeletableTopicResult(one.name, one.topic_id, error) for one in asked])
    count = Counter((one.name, one.topic_id) for one in asked)
    ids = {one.topic_id for one in asked if one.topic_id != ZERO_UUID}
    results: dict[tuple[str | None, bytes], DeletableTopicResult] = {}
    for one in asked:
        key = (one.name, one.topic_id)
        if key in results:
            continue
        try:
            topic = _find(state, one, count[key], ids)
            if topic is not None:
                state.delete_topic(topic.name)
                results[key] = DeletableTopicResult(topic.name, topic.topic_id)
        except KafkaError as error:
            name, topic_id = one.name, one.topic_id
            if error.error is Err.INVALID_REQUEST and name in state.topics and topic_id == ZERO_UUID:
                topic_id = state.topics[name].topic_id if state.topics[name].topic_id in ids else topic_id
            results[key] = DeletableTopicResult(name, topic_id, error.error, error.message)
    return DeleteTopicsResponse(0, list(results.values()))


def _find(state: ClusterState, asked: DeleteTopicState, times: int, ids: set[bytes]) -> Topic | None:
    """The topic to delete; None where its name stands elsewhere in the request with an error of its own."""
    name, topic_id = asked.name, asked.topic_id
    if name is None and topic_id == ZERO_UUID:
        raise KafkaError(Err.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if name is not None and topic_id != ZERO_UUID:
        raise KafkaError(Err.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if times > 1:
        raise KafkaError(Err.INVALID_REQUEST, f"Duplicate topic {'id' if name is None else 'name'}.")
    if name is None:
        topic = state.topics_by_id.get(topic_id)
        if topic is None:
            raise KafkaError(Err.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        return topic
    topic = state.topic(name)
    if topic.topic_id in ids:
        raise KafkaError(Err.INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied.")
    return topic
