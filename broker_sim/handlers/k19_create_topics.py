"""CreateTopics (19), versions 0-7, answered by any broker (KRaft's brokers forward it to the controller).

v1 validate_only and error messages. v4 -1 for the broker's default numbers. v5 the numbers and settings of the created topic. v7 topic
ids. Source: ControllerApis.createTopics, ReplicationControlManager.createTopic.
"""

from __future__ import annotations

from collections.abc import Container, Generator, Mapping, Sequence

from broker_sim.common.slices import Pace, counted, listed
from broker_sim.config.settings import ConfigSource, to_text
from broker_sim.metadata.cluster_state import ClusterState, KafkaError, Topic
from broker_sim.metadata.creation_limits import MAX_AT_ONCE, check_records, check_total
from broker_sim.requests.context import RequestContext
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
    settings = Settings(state)
    too_large = yield from _too_large(
        state, request, [topic for topic in request.topics if count[topic.name] == 1], fresh
    )
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
            if too_large is not None:
                raise too_large
            topic = yield from _create(state, requested, fresh, request.validate_only)
            results.append(_created(topic, requested, settings))
        except KafkaError as error:
            results.append(_refused(requested, error))
    return CreateTopicsResponse(0, results)


def _too_large(
    state: ClusterState, request: CreateTopicsRequest, topics: Sequence[CreatableTopic], fresh: Container[str]
) -> Generator[None, None, KafkaError | None]:
    """The error of a request that makes too much at once. A topic that is refused for another reason makes no records, so that a large
    request is checked twice."""
    counts = yield from listed(_partitions_of(state, topic) for topic in topics)
    others = yield from listed(1 + len(topic.configs) for topic in topics)
    try:
        check_total(state.config.release, sum(counts))
        if sum(counts) + sum(others) <= MAX_AT_ONCE:
            return None
        records, pace = 0, Pace(_PIECE)
        for requested in topics:
            if pace.full():
                yield
            try:
                topic = yield from _create(state, requested, fresh, validate_only=True)
            except KafkaError as error:
                if error.error is Err.POLICY_VIOLATION:  # it is too large by itself
                    raise
                continue
            records += 1 + len(requested.configs) + len(topic.partitions)
            check_records(state.config.release, records, validate_only=request.validate_only)
    except KafkaError as error:
        return error
    return None


def _partitions_of(state: ClusterState, topic: CreatableTopic) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return state.config.int("num.partitions") if topic.num_partitions == -1 else max(topic.num_partitions, 0)


def _create(
    state: ClusterState, requested: CreatableTopic, siblings: Container[str], validate_only: bool
) -> Generator[None, None, Topic]:
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
    return (
        yield from state.creating_topic(
            requested.name,
            requested.num_partitions,
            replication_factor=requested.replication_factor,
            configs={config.name: config.value for config in requested.configs},
            assignments=assignments or None,
            siblings=siblings,
            validate_only=validate_only,
        )
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


class Settings:
    """All settings of new topics, with their sources; those of the request as they were written. Topics of a request mostly have the
    same ones: then they share the list, which has thirty objects."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._last: tuple[Mapping[str, str | None], list[CreatableTopicConfigs]] | None = None

    def of(self, topic: Topic, given: Mapping[str, str | None]) -> list[CreatableTopicConfigs]:
        """All settings of a topic for which those in ``given`` were requested."""
        if self._last is None or self._last[0] != given:
            self._last = given, self._made(topic, given)
        return self._last[1]

    def _made(self, topic: Topic, given: Mapping[str, str | None]) -> list[CreatableTopicConfigs]:
        config = self._state.config
        result: list[CreatableTopicConfigs] = []
        for name in config.topic_settings:
            entries = config.topic_entries(name, topic.configs)
            value = given.get(name) or to_text(config.topic_value(name, topic.configs))
            source = entries[0].source if entries else ConfigSource.DEFAULT
            result.append(CreatableTopicConfigs(name, value, False, source, False))
        if config.release < (3, 6):  # no settings yet; only this response has them
            result += [
                CreatableTopicConfigs(name, value, False, ConfigSource.DEFAULT, False) for name, value in _TO_COME
            ]
        return result


def _created(topic: Topic, requested: CreatableTopic, settings: Settings) -> CreatableTopicResult:
    given = {config.name: config.value for config in requested.configs}
    count, replicas = len(topic.partitions), len(topic.partitions[0].replicas)
    configs = settings.of(topic, given)
    return CreatableTopicResult(topic.name, topic.topic_id, Err.NONE, None, 0, count, replicas, configs)
