"""CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords, InitProducerId: every error in Kafka's words."""

from __future__ import annotations

import pytest

from kafka_wire.errors import Err
from kafka_wire.messages.k19_create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from kafka_wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafka_wire.messages.k21_delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafka_wire.messages.k22_init_producer_id import InitProducerIdRequest
from kafka_wire.messages.k37_create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tests.data_plane.helpers import creatable, create, fetch, fill, only
from tests.support.ctx import Sim

ASSIGNMENT = "The manual partition assignment includes "


def assigned(name: str, *replicas: list[int], partitions: int = -1, factor: int = -1) -> CreatableTopic:
    assignments = [CreatableReplicaAssignment(index, nodes) for index, nodes in enumerate(replicas)]
    return CreatableTopic(name, partitions, factor, assignments, [])


# ------------------------------------------------------------------------------------------------ CreateTopics


def test_a_created_topic_is_described() -> None:
    sim = Sim(brokers=2)
    [answer] = sim.call(CreateTopicsRequest([creatable("t", 3, 2, {"retention.ms": "5"})], 1000), 7).topics
    topic = sim.state.topics["t"]
    assert (answer.error_code, answer.error_message, answer.topic_id) == (0, None, topic.topic_id)
    assert (answer.num_partitions, answer.replication_factor) == (3, 2)
    settings = {one.name: (one.value, one.config_source) for one in answer.configs}
    assert settings["retention.ms"] == ("5", 1)
    assert settings["cleanup.policy"] == ("delete", 5)
    assert len(topic.partitions) == 3


def test_replicas_by_hand_on_a_broker_that_is_down_are_not_in_sync() -> None:
    sim = Sim(brokers=3)
    sim.state.brokers[3].alive = False
    text = (
        "All brokers specified in the manual partition assignment for partition 0 are fenced or in controlled shutdown."
    )
    assert create(sim, assigned("t", [3, 1])) == [(0, None)]
    [partition] = sim.state.topics["t"].partitions
    assert (partition.leader, partition.isr) == (1, [1])
    assert create(sim, assigned("u", [3])) == [(Err.INVALID_REPLICA_ASSIGNMENT, text)]
    assert grow(sim, "t", 2, [[3, 2]]) == (0, None)
    assert sim.state.topics["t"].partitions[1].isr == [2]


def test_settings_of_tiered_storage_are_shown_by_3_4_where_a_topic_is_made() -> None:
    sim = Sim(as_version="3.4")
    [answer] = sim.call(CreateTopicsRequest([creatable("t", 1, 1)], 1000), 5).topics
    settings = {one.name: (one.value, one.config_source) for one in answer.configs}
    tiered = [settings.get(name) for name in ("local.retention.ms", "local.retention.bytes", "remote.storage.enable")]
    assert tiered == [("-2", 5), ("-2", 5), ("false", 5)]


def test_defaults_stand_in_for_minus_one() -> None:
    sim = Sim(brokers=2, config={"num.partitions": 4, "default.replication.factor": 2})
    assert create(sim, creatable("t", -1, -1)) == [(0, None)]
    assert [p.replicas for p in sim.state.topics["t"].partitions] == [[1, 2], [2, 1], [1, 2], [2, 1]]


def test_validate_only_changes_nothing() -> None:
    sim = Sim()
    [answer] = sim.call(CreateTopicsRequest([creatable("t", 2)], 1000, True), 7).topics
    assert (answer.error_code, answer.num_partitions, sim.state.topics) == (0, 2, {})
    assert create(sim, creatable("t", 0), validate_only=True)[0][0] == Err.INVALID_PARTITIONS


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "é", "x" * 250])
def test_names_that_cannot_be(name: str) -> None:
    [(error, message)] = create(Sim(), creatable(name))
    assert error == Err.INVALID_TOPIC_EXCEPTION
    assert message is not None
    assert message.startswith("Topic name is invalid: ")


@pytest.mark.parametrize("name", ["a", "A-b_c.9", "x" * 249, "..."])
def test_names_that_can_be(name: str) -> None:
    assert create(Sim(), creatable(name)) == [(0, None)]


def test_names_that_collide_or_exist() -> None:
    sim = Sim(topics={"a.b": 1})
    assert create(sim, creatable("a.b")) == [(Err.TOPIC_ALREADY_EXISTS, "Topic 'a.b' already exists.")]
    collides = (Err.INVALID_TOPIC_EXCEPTION, "Topic 'a_b' collides with existing topic: a.b")
    assert create(sim, creatable("a_b")) == [collides]
    assert create(sim, creatable("x.y"), creatable("x_y")) == [(0, None), (0, None)]  # within one request they may
    assert create(sim, creatable("__cluster_metadata"))[0][0] == Err.INVALID_REQUEST


@pytest.mark.parametrize("names", [("d2_x", "d2.x"), ("d2.x", "d2_x")])
def test_a_name_collides_with_one_that_was_there_though_the_request_names_that_too(names: tuple[str, str]) -> None:
    """As brokers of 3.4.0, 3.9.0 and 4.1.0 answer, in either order."""
    answers = {
        "d2_x": (Err.TOPIC_ALREADY_EXISTS, "Topic 'd2_x' already exists."),
        "d2.x": (Err.INVALID_TOPIC_EXCEPTION, "Topic 'd2.x' collides with existing topic: d2_x"),
    }
    sim = Sim(topics={"d2_x": 1})
    assert create(sim, *(creatable(name) for name in names)) == [answers[name] for name in names]
    assert list(sim.state.topics) == ["d2_x"]


def test_a_name_that_stands_twice_is_refused_once() -> None:
    sim = Sim()
    assert create(sim, creatable("t"), creatable("u"), creatable("t")) == [
        (Err.INVALID_REQUEST, "Duplicate topic name."),
        (0, None),
    ]
    assert list(sim.state.topics) == ["u"]


@pytest.mark.parametrize(
    ("topic", "error", "message"),
    [
        (creatable("t", 0), Err.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."),
        (creatable("t", -2), Err.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."),
        (
            creatable("t", 1, 0),
            Err.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            creatable("t", 1, 3),
            Err.INVALID_REPLICATION_FACTOR,
            "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because "
            "only 2 broker(s) are registered.",
        ),
        (creatable("t", 10_001), Err.POLICY_VIOLATION, "Excessively large number of partitions per request."),
        (
            assigned("t", [1], partitions=1),
            Err.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
        (
            assigned("t", [1], factor=1),
            Err.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        ),
        (assigned("t", []), Err.INVALID_REPLICA_ASSIGNMENT, ASSIGNMENT + "an empty replica list."),
        (
            assigned("t", [9]),
            Err.INVALID_REPLICA_ASSIGNMENT,
            ASSIGNMENT + "broker 9, but no such broker is registered.",
        ),
        (assigned("t", [1, 1]), Err.INVALID_REPLICA_ASSIGNMENT, ASSIGNMENT + "the broker 1 more than once."),
        (
            assigned("t", [1], [1, 2]),
            Err.INVALID_REPLICA_ASSIGNMENT,
            ASSIGNMENT
            + "a partition with 2 replica(s), but this is not consistent with previous partitions, which have "
            "1 replica(s).",
        ),
        (
            CreatableTopic("t", -1, -1, [CreatableReplicaAssignment(1, [1])], []),
            Err.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            CreatableTopic("t", -1, -1, [CreatableReplicaAssignment(0, [1])] * 2, []),
            Err.INVALID_REPLICA_ASSIGNMENT,
            "Found multiple manual partition assignments for partition 0",
        ),
        (creatable("t", 1, 1, {"foo": "1"}), Err.INVALID_CONFIG, "Unknown topic config name: foo"),
        (
            creatable("t", 1, 1, {"retention.ms": None}),
            Err.INVALID_CONFIG,
            "Null value not supported for topic configs: retention.ms",
        ),
        (creatable("t", 1, 9, {"foo": "1"}), Err.INVALID_CONFIG, "Unknown topic config name: foo"),
    ],
)
def test_what_cannot_be_created(topic: CreatableTopic, error: Err, message: str) -> None:
    sim = Sim(brokers=2)
    assert create(sim, topic) == [(error, message)]
    assert sim.state.topics == {}


def test_replicas_may_be_given_by_hand() -> None:
    sim = Sim(brokers=3)
    assert create(sim, assigned("t", [3, 1], [2, 3])) == [(0, None)]
    assert [(p.leader, p.replicas) for p in sim.state.topics["t"].partitions] == [(3, [3, 1]), (2, [2, 3])]


# ------------------------------------------------------------------------------------------------ DeleteTopics


def delete(sim: Sim, *topics: str | bytes, version: int = 6) -> list[tuple[str | None, int, str | None]]:
    """(name, error, message) of every answer; bytes are topic ids."""
    states = [DeleteTopicState(one) if isinstance(one, str) else DeleteTopicState(None, one) for one in topics]
    names = [one for one in topics if isinstance(one, str)]
    request = DeleteTopicsRequest(states if version >= 6 else [], names if version < 6 else [], 1000)
    return [(one.name, one.error_code, one.error_message) for one in sim.call(request, version).responses]


@pytest.mark.parametrize("version", range(7))
def test_topics_are_deleted_by_name(version: int) -> None:
    sim = Sim(topics={"a": 1, "b": 1})
    assert [(name, error) for name, error, _ in delete(sim, "a", "x", version=version)] == [("x", 3), ("a", 0)]
    assert list(sim.state.topics) == ["b"]


def test_topics_are_deleted_by_id() -> None:
    sim = Sim(topics={"a": 1})
    topic_id = sim.state.topics["a"].topic_id
    assert delete(sim, topic_id) == [("a", 0, None)]
    assert delete(sim, topic_id) == [(None, Err.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")]


def test_a_topic_named_twice_is_not_deleted() -> None:
    sim = Sim(topics={"a": 1})
    topic_id = sim.state.topics["a"].topic_id
    assert delete(sim, "a", "a") == [("a", Err.INVALID_REQUEST, "Duplicate topic name.")]
    assert delete(sim, topic_id, topic_id) == [(None, Err.INVALID_REQUEST, "Duplicate topic id.")]
    clash = "The provided topic name maps to an ID that was already supplied."
    assert delete(sim, topic_id, "a") == [("a", Err.INVALID_REQUEST, clash)]
    assert list(sim.state.topics) == ["a"]


def test_both_or_neither_of_name_and_id() -> None:
    sim = Sim(topics={"a": 1})
    request = DeleteTopicsRequest([DeleteTopicState("a", b"1" * 16), DeleteTopicState(None)], [], 1000)
    assert [(one.error_code, one.error_message) for one in sim.call(request, 6).responses] == [
        (Err.INVALID_REQUEST, "You may not specify both topic name and topic id."),
        (Err.INVALID_REQUEST, "Neither topic name nor id were specified."),
    ]


@pytest.mark.parametrize(("version", "error"), [(2, Err.INVALID_REQUEST), (3, Err.TOPIC_DELETION_DISABLED)])
def test_deletion_may_be_forbidden(version: int, error: Err) -> None:
    sim = Sim(topics={"a": 1}, config={"delete.topic.enable": "false"})
    assert [code for _, code, _ in delete(sim, "a", version=version)] == [error]


# ------------------------------------------------------------------------------------------------ CreatePartitions


def grow(
    sim: Sim, name: str, count: int, assignments: list[list[int]] | None = None, validate_only: bool = False
) -> tuple[int, str | None]:
    given = None if assignments is None else [CreatePartitionsAssignment(nodes) for nodes in assignments]
    request = CreatePartitionsRequest([CreatePartitionsTopic(name, count, given)], 1000, validate_only)
    [answer] = sim.call(request, 3).results
    return answer.error_code, answer.error_message


def test_a_topic_grows() -> None:
    sim = Sim(brokers=3, topics={"t": 2})
    old = list(sim.state.topics["t"].partitions)
    assert grow(sim, "t", 5, validate_only=True) == (0, None)
    assert len(sim.state.topics["t"].partitions) == 2
    assert grow(sim, "t", 4) == (0, None)
    assert sim.state.topics["t"].partitions[:2] == old
    assert grow(sim, "t", 5, [[2]]) == (0, None)
    assert [p.leader for p in sim.state.topics["t"].partitions] == [1, 2, 3, 1, 2]


@pytest.mark.parametrize(
    ("count", "assignments", "error", "message"),
    [
        (2, None, Err.INVALID_PARTITIONS, "Topic already has 2 partition(s)."),
        (1, None, Err.INVALID_PARTITIONS, "The topic t currently has 2 partition(s); 1 would not be an increase."),
        (-1, None, Err.INVALID_PARTITIONS, "The topic t currently has 2 partition(s); -1 would not be an increase."),
        (
            4,
            [[1]],
            Err.INVALID_REPLICA_ASSIGNMENT,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (3, [[9]], Err.INVALID_REPLICA_ASSIGNMENT, ASSIGNMENT + "broker 9, but no such broker is registered."),
        (3, [[]], Err.INVALID_REPLICA_ASSIGNMENT, ASSIGNMENT + "an empty replica list."),
    ],
)
def test_how_a_topic_cannot_grow(
    count: int, assignments: list[list[int]] | None, error: Err, message: str | None
) -> None:
    sim = Sim(topics={"t": 2})
    assert grow(sim, "t", count, assignments) == (error, message)
    assert len(sim.state.topics["t"].partitions) == 2


def test_an_unknown_topic_does_not_grow() -> None:
    assert grow(Sim(), "x", 3) == (Err.UNKNOWN_TOPIC_OR_PARTITION, None)


def test_a_topic_named_twice_does_not_grow() -> None:
    sim = Sim(topics={"t": 1})
    request = CreatePartitionsRequest([CreatePartitionsTopic("t", n, None) for n in (2, 3)], 1000)
    answers = [(one.error_code, one.error_message) for one in sim.call(request, 3).results]
    assert answers == [(Err.INVALID_REQUEST, "Duplicate topic name.")]


# ------------------------------------------------------------------------------------------------ DeleteRecords


def delete_records(sim: Sim, offset: int, topic: str = "t", partition: int = 0, broker: int = 1) -> tuple[int, int]:
    """(error, low watermark)."""
    request = DeleteRecordsRequest([DeleteRecordsTopic(topic, [DeleteRecordsPartition(partition, offset)])], 1000)
    [answer] = sim.call(request, 2, broker=broker).topics[0].partitions
    return answer.error_code, answer.low_watermark


def test_records_are_deleted_up_to_an_offset() -> None:
    sim = Sim(topics={"t": 1})
    fill(sim, "t", 5)
    assert delete_records(sim, 3) == (0, 3)
    assert delete_records(sim, 2) == (0, 3)  # they are gone already
    assert delete_records(sim, -1) == (0, 5)  # all that is committed
    assert delete_records(sim, 5) == (0, 5)


def test_a_reader_who_waits_notices() -> None:
    sim = Sim(topics={"t": 1})
    fill(sim, "t", 5)
    ctx = sim.start(fetch({("t", 0): 2}, max_wait_ms=500, min_bytes=10_000), 12)
    delete_records(sim, 3)
    assert only(ctx.response).error_code == Err.OFFSET_OUT_OF_RANGE


def test_what_cannot_be_deleted() -> None:
    sim = Sim(brokers=2, topics={"t": 1})
    fill(sim, "t", 2)
    sim.state.topics["t"].partitions[0].high_watermark_frozen = True
    fill(sim, "t", 2)
    sim.state.create_topic("c", configs={"cleanup.policy": "compact"}, assignments={0: [1]})
    sim.state.ensure_offsets_topic()
    assert delete_records(sim, 3) == (Err.OFFSET_OUT_OF_RANGE, -1)  # not committed yet
    assert delete_records(sim, -2) == (Err.OFFSET_OUT_OF_RANGE, -1)
    assert delete_records(sim, 0, "x") == (Err.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert delete_records(sim, 0, partition=7) == (Err.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert delete_records(sim, 0, broker=2) == (Err.NOT_LEADER_OR_FOLLOWER, -1)
    assert delete_records(sim, 0, "c") == (Err.POLICY_VIOLATION, -1)
    assert delete_records(sim, 0, "__consumer_offsets") == (Err.INVALID_TOPIC_EXCEPTION, -1)


# ------------------------------------------------------------------------------------------------ InitProducerId


@pytest.mark.parametrize("version", range(6))
def test_every_producer_has_an_id_of_its_own(version: int) -> None:
    sim = Sim(brokers=2)
    answers = [sim.call(InitProducerIdRequest(None, 1000), version, broker=broker) for broker in (1, 2, 1)]
    assert [(one.error_code, one.producer_id, one.producer_epoch) for one in answers] == [
        (0, 0, 0),
        (0, 1, 0),
        (0, 2, 0),
    ]


def test_an_idempotent_producer_that_asks_again_has_a_new_id() -> None:
    sim = Sim()
    assert sim.call(InitProducerIdRequest(None, 1000, 5, 3), 3).producer_id == 0


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (InitProducerIdRequest("", 1000), Err.INVALID_REQUEST),
        (InitProducerIdRequest(None, 1000, 5, -1), Err.INVALID_REQUEST),
        (InitProducerIdRequest(None, 1000, -1, 5), Err.INVALID_REQUEST),
    ],
)
def test_ids_that_are_not_given(request_: InitProducerIdRequest, error: Err) -> None:
    answer = Sim().call(request_, 4)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (error, -1, -1)
