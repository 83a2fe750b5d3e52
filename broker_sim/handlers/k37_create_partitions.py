"""CreatePartitions (37), versions 0-3, answered by any broker: let topics grow.

Source: ControllerApis.createPartitions, ReplicationControlManager.createPartitions.
"""

from __future__ import annotations

from collections.abc import Generator

from broker_sim.common.slices import Pace, counted, listed
from broker_sim.metadata.cluster_state import ClusterState, KafkaError
from broker_sim.metadata.creation_limits import MAX_AT_ONCE, check_growth, grows_in_part
from broker_sim.requests.context import RequestContext
from kafka_wire.errors import Err
from kafka_wire.messages.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

_PIECE = 10
"""Topics that grow before others are served."""


def handle(ctx: RequestContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse | None:
    response: CreatePartitionsResponse | None = ctx.in_pieces(_create_all(ctx, request))
    return response


def _create_all(
    ctx: RequestContext, request: CreatePartitionsRequest
) -> Generator[None, None, CreatePartitionsResponse]:
    state = ctx.broker.state
    count = yield from counted(topic.name for topic in request.topics)
    if request.timeout_ms <= 0 and 1 in count.values():
        # too late already when it comes to Kafka's controller, which does nothing then
        late = (CreatePartitionsTopicResult(topic.name, Err.REQUEST_TIMED_OUT) for topic in request.topics)
        return CreatePartitionsResponse(0, (yield from listed(late)))
    growth = yield from listed(_growth(state, topic) for topic in request.topics if count[topic.name] == 1)
    too_large: KafkaError | None = None
    try:
        check_growth(state.config.release, sum(growth), validate_only=request.validate_only)
    except KafkaError as error:
        too_large = error
    left = MAX_AT_ONCE
    results: dict[str, CreatePartitionsTopicResult] = {}
    pace = Pace(_PIECE)
    for topic in request.topics:
        if pace.full():
            yield
        name = topic.name
        if count[name] > 1:
            results[name] = CreatePartitionsTopicResult(name, Err.INVALID_REQUEST, "Duplicate topic name.")
            continue
        assignments = None if topic.assignments is None else [assignment.broker_ids for assignment in topic.assignments]
        more = _growth(state, topic)
        try:
            if too_large is not None:
                raise too_large
            yield from state.creating_partitions(
                name,
                topic.count,
                assignments=assignments,
                validate_only=request.validate_only,
                most=left if grows_in_part(state.config.release) else None,
            )
            left -= more
            results[name] = CreatePartitionsTopicResult(name)
        except KafkaError as error:
            if error.error is Err.UNKNOWN_SERVER_ERROR:
                left = 0
            silent = error.error in (Err.UNKNOWN_TOPIC_OR_PARTITION, Err.UNKNOWN_SERVER_ERROR)
            results[name] = CreatePartitionsTopicResult(name, error.error, None if silent else error.message)
    return CreatePartitionsResponse(0, list(results.values()))


def _growth(state: ClusterState, topic: CreatePartitionsTopic) -> int:
    """Number of partitions to add to the topic; 0 for a topic that can't grow."""
    known = state.topics.get(topic.name)
    return 0 if known is None else max(topic.count - len(known.partitions), 0)
