"""CreateTopics (19), versions 0-7, answered by any broker (KRaft's brokers forward it to the controller).

v1 validate_only and error messages. v4 -1 for the broker's default numbers. v5 the numbers and settings of the created topic. v7 topic
ids. Source: ControllerApis.createTopics, ReplicationControlManager.createTopic.
"""

from __future__ import annotations

from collections.abc import Container, Generator, Mapping

from broker_sim.common.slices import Pace, counted, listed
from broker_sim.config.settings import ConfigSource, to_text
from broker_sim.handlers.context import RequestContext
from broker_sim.metadata.cluster_state import ClusterState, KafkaError, Topic
from kafka_wire.errors import Err
from kafka_wire.messages.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

_PIECE = 10
"""Topics that are made before others are served."""


def handle(ctx: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse | None:
    response: CreateTopicsResponse | None = ctx.in_pieces(_create_all(ctx, request))
    return response


def _create_all(ctx: RequestContext, request: CreateTopicsRequest) -> Generator[None, None, CreateTopicsResponse]:
    state = ctx.broker.state
    count = yield from counted(topic.name for topic in request.topics)
    if request.timeout_ms <= 0 and 1 in count.values():
        # too late already when it comes to Kafka's controller, which does nothing then
        late = KafkaError(Err.REQUEST_TIMED_OUT)
        return CreateTopicsResponse(0, (yield from listed(_refused(topic, late) for topic in request.topics)))
    # names are held against those that were there before the request, all at once: its own topics don't collide with one another
    fresh = set((yield from listed(name for name in count if name not in state.topics)))
    twice: set[str] = set()
    results: list[CreatableTopicResult] = []
    pace = Pace(_PIECE)
    for requested in request.topics:
        if pace.full():
            yield
        if count[requested.name] > 1:
            if requested.name not in twice:
                results.append(_refused(requested, KafkaError(Err.INVALID_REQUEST, "Duplicate topic name.")))
            twice.add(requested.name)
            continue
        try:
            results.append((yield from _create(state, requested, fresh, request.validate_only)))
        except KafkaError as error:
            results.append(_refused(requested, error))
    return CreateTopicsResponse(0, results)


def _create(
    state: ClusterState, requested: CreatableTopic, siblings: Container[str], validate_only: bool
) -> Generator[None, None, CreatableTopicResult]:
    nulls = [config.name for config in requested.configs if config.value is None]
    if nulls:  # collected while the settings are sorted into a map: each of them counts, whatever else is given
        state.check_new_name(requested.name, siblings)
        raise KafkaError(Err.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(nulls)}")
    assignments: dict[int, list[int]] = {}
    for assignment in requested.assignments:
        if assignment.partition_index in assignments:
            _check_up_to(state, requested, assignments, siblings)
            raise KafkaError(
                Err.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {assignment.partition_index}",
            )
        assignments[assignment.partition_index] = assignment.broker_ids
    topic = yield from state.creating_topic(
        requested.name,
        requested.num_partitions,
        replication_factor=requested.replication_factor,
        configs={config.name: config.value for config in requested.configs},
        assignments=assignments or None,
        siblings=siblings,
        validate_only=validate_only,
    )
    return CreatableTopicResult(
        topic.name,
        topic.topic_id,
        Err.NONE,
        None,
        0,
        len(topic.partitions),
        len(topic.partitions[0].replicas),
        _settings(state, topic, {config.name: config.value for config in requested.configs}),
    )


def _check_up_to(
    state: ClusterState, requested: CreatableTopic, assignments: dict[int, list[int]], siblings: Container[str]
) -> None:
    """Raise the errors that Kafka reports before a duplicate assignment: of the name, of the configs, of earlier assignments."""
    try:
        state.create_topic(
            requested.name,
            requested.num_partitions,
            replication_factor=requested.replication_factor,
            configs={config.name: config.value for config in requested.configs},
            assignments=assignments,
            siblings=siblings,
            validate_only=True,
        )
    except KafkaError as error:
        if "consecutive" not in (error.message or ""):
            raise


def _refused(requested: CreatableTopic, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(requested.name, bytes(16), error.error, error.message, 0, -1, -1, [])


_TO_COME = (("local.retention.bytes", "-2"), ("local.retention.ms", "-2"), ("remote.storage.enable", "false"))


def _settings(state: ClusterState, topic: Topic, given: Mapping[str, str | None]) -> list[CreatableTopicConfigs]:
    """All settings of the new topic, with their sources; those of the request as they were written."""
    config = state.config
    result: list[CreatableTopicConfigs] = []
    for name in config.topic_settings:
        entries = config.topic_entries(name, topic.configs)
        value = given.get(name) or to_text(config.topic_value(name, topic.configs))
        source = entries[0].source if entries else ConfigSource.DEFAULT
        result.append(CreatableTopicConfigs(name, value, False, source, False))
    if config.release < (3, 6):  # no settings yet; only this response has them
        result += [CreatableTopicConfigs(name, value, False, ConfigSource.DEFAULT, False) for name, value in _TO_COME]
    return result
