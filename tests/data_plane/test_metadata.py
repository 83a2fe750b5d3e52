"""Metadata: which topics are told, which are created, and what is told of them."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_wire.codec import decode, encode
from kafka_wire.errors import Err
from kafka_wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.support.ctx import Sim


def ask(*names: str, **options: bool) -> MetadataRequest:
    return MetadataRequest([MetadataRequestTopic(name=name) for name in names], **options)


def ask_ids(*ids: bytes) -> MetadataRequest:
    return MetadataRequest([MetadataRequestTopic(one, None) for one in ids])


def told(response: MetadataResponse) -> list[tuple[int, str | None]]:
    return [(topic.error_code, topic.name) for topic in response.topics]


def test_all_topics_are_an_empty_list_in_v0_and_null_from_v1_on() -> None:
    sim = Sim(topics={"a": 1, "b": 1})
    assert told(sim.call(MetadataRequest([]), 0)) == [(0, "a"), (0, "b")]
    assert told(sim.call(MetadataRequest([]), 1)) == []
    assert told(sim.call(MetadataRequest(None), 1)) == [(0, "a"), (0, "b")]


def test_brokers_cluster_and_controller() -> None:
    sim = Sim(brokers=3)
    sim.state.brokers[2].rack = "r2"
    answer = sim.call(MetadataRequest([]), 12, broker=3)
    assert [(b.node_id, b.host, b.port, b.rack) for b in answer.brokers] == [
        (1, "127.0.0.1", 9092, None),
        (2, "127.0.0.1", 9093, "r2"),
        (3, "127.0.0.1", 9094, None),
    ]
    assert (answer.cluster_id, answer.controller_id) == (sim.state.cluster_id, 1)


def test_partitions_with_leaders_replicas_and_epochs() -> None:
    sim = Sim(brokers=3)
    topic = sim.state.create_topic("t", 2, replication_factor=2)
    sim.state.set_leader(topic.partitions[0], 2)
    [answer] = sim.call(ask("t"), 12).topics
    assert (answer.topic_id, answer.is_internal) == (topic.topic_id, False)
    assert [(p.partition_index, p.leader_id, p.leader_epoch, p.replica_nodes) for p in answer.partitions] == [
        (0, 2, 1, [1, 2]),
        (1, 2, 0, [2, 3]),
    ]


def test_a_dead_broker_is_not_listed_and_its_replicas_are_offline() -> None:
    sim = Sim(brokers=2)
    topic = sim.state.create_topic("t", 1, replication_factor=2)
    sim.state.brokers[2].alive = False
    sim.state.set_leader(topic.partitions[0], -1)
    answer = sim.call(ask("t"), 12)
    assert [broker.node_id for broker in answer.brokers] == [1]
    [partition] = answer.topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (Err.LEADER_NOT_AVAILABLE, -1)
    assert partition.offline_replicas == [2]


def test_a_client_of_v0_is_not_told_of_replicas_that_are_down_but_that_some_are() -> None:
    sim = Sim(brokers=2)
    topic = sim.state.create_topic("t", 1, replication_factor=2)
    sim.state.brokers[2].alive = False
    [partition] = sim.call(ask("t"), 0).topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (Err.REPLICA_NOT_AVAILABLE, 1)
    assert (partition.replica_nodes, partition.isr_nodes) == ([1], [1])
    assert topic.partitions[0].replicas == [1, 2]
    [later] = sim.call(ask("t"), 1).topics[0].partitions
    assert (later.error_code, later.replica_nodes) == (Err.NONE, [1, 2])


def test_a_topic_is_created_and_told_from_the_next_request_on() -> None:
    sim = Sim(config={"num.partitions": 3})
    assert told(sim.call(ask("new"), 9)) == [(Err.UNKNOWN_TOPIC_OR_PARTITION, "new")]
    [topic] = sim.call(ask("new"), 9).topics
    assert len(topic.partitions) == 3


@pytest.mark.parametrize(("config", "allow"), [({"auto.create.topics.enable": "false"}, True), ({}, False)])
def test_nothing_is_created_where_broker_or_client_forbids_it(config: dict[str, str], allow: bool) -> None:
    sim = Sim(config=config)
    answer = sim.call(ask("new", allow_auto_topic_creation=allow), 9)
    assert told(answer) == [(Err.UNKNOWN_TOPIC_OR_PARTITION, "new")]
    assert sim.state.topics == {}


def test_internal_topics_are_created_with_their_own_settings() -> None:
    sim = Sim(config={"transaction.state.log.num.partitions": 2})
    sim.call(ask("__consumer_offsets", "__transaction_state"), 9)
    assert len(sim.state.topics["__consumer_offsets"].partitions) == 50
    assert len(sim.state.topics["__transaction_state"].partitions) == 2
    assert [topic.is_internal for topic in sim.call(MetadataRequest(None), 9).topics] == [True, True]


def test_names_that_cannot_be_are_refused() -> None:
    sim = Sim(topics={"a.b": 1})
    assert told(sim.call(ask("a b", "", "a_b"), 9)) == [(17, "a b"), (17, ""), (17, "a_b")]
    assert list(sim.state.topics) == ["a.b"]


def test_known_topics_come_before_unknown_ones_and_each_once() -> None:
    sim = Sim(topics={"a": 1, "b": 1})
    answer = sim.call(ask("x", "b", "x", "a", "b", allow_auto_topic_creation=False), 12)
    assert told(answer) == [(0, "b"), (0, "a"), (3, "x")]


def test_topics_are_found_by_their_ids() -> None:
    sim = Sim(topics={"a": 1})
    topic_id = sim.state.topics["a"].topic_id
    answer = sim.call(ask_ids(topic_id, b"1" * 16, b"1" * 16), 12)
    assert told(answer) == [(Err.UNKNOWN_TOPIC_ID, None), (0, "a")]
    assert answer.topics[0].topic_id == b"1" * 16


def test_an_id_decides_even_where_a_name_stands_beside_it() -> None:
    sim = Sim(topics={"a": 1, "b": 1})
    both = MetadataRequestTopic(sim.state.topics["a"].topic_id, "b")
    assert told(sim.call(MetadataRequest([both]), 12)) == [(0, "a")]


@pytest.mark.parametrize("version", [10, 11])
def test_ids_are_refused_before_v12(version: int) -> None:
    sim = Sim(topics={"a": 1})
    answer = sim.call(ask_ids(sim.state.topics["a"].topic_id), version)
    assert told(answer) == [(Err.INVALID_REQUEST, "")]
    assert (answer.brokers, answer.cluster_id, answer.controller_id) == ([], None, -1)


def test_neither_name_nor_id() -> None:
    answer = Sim().call(ask_ids(bytes(16)), 12)
    assert told(answer) == [(Err.UNKNOWN_SERVER_ERROR, "")]
    assert answer.error_code == Err.UNKNOWN_SERVER_ERROR  # from v13 on it has a place on the wire


def test_authorized_operations_are_told_where_asked_for() -> None:
    sim = Sim(topics={"a": 1})
    options = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
    answer = sim.call(ask("a", "x", allow_auto_topic_creation=False, **options), 8)
    assert answer.cluster_authorized_operations == 8096
    assert [topic.topic_authorized_operations for topic in answer.topics] == [3576, 3576]
    silent = sim.call(ask("a"), 8)
    assert silent.cluster_authorized_operations == silent.topics[0].topic_authorized_operations == -(2**31)


# ------------------------------------------------------------------------------------------------ the fast path


class Connection:
    """Part of a connection that the fast path needs."""

    def __init__(self, sim: Sim) -> None:
        self.broker = sim.state.brokers[1]
        self.listener = "PLAINTEXT"


def fast(sim: Sim, request: Any, version: int) -> bytes | None:
    from broker_sim.handlers.k03_metadata import FAST

    answer = FAST[version](Connection(sim), b"head" + encode(request, version), 4, 1)  # type: ignore[arg-type]
    assert answer is None or isinstance(answer, bytes)
    return answer


@pytest.mark.parametrize("version", range(14))
def test_the_fast_path_answers_the_same(version: int) -> None:
    sim = Sim(brokers=3, topics={"a": 3, "b": 1})
    for request in (ask("a"), ask("b", "a"), MetadataRequest([]), *([MetadataRequest(None)] if version else [])):
        expected = encode(sim.call(request, version), version)
        assert fast(sim, request, version) == expected
        assert fast(sim, request, version) == expected  # the kept one


def test_the_fast_path_leaves_what_may_create_a_topic() -> None:
    sim = Sim(topics={"a": 1})
    assert fast(sim, ask("a", "new"), 9) is None
    assert fast(sim, ask_ids(sim.state.topics["a"].topic_id), 12) is None
    assert list(sim.state.topics) == ["a"]


def test_a_kept_answer_lapses_with_every_change() -> None:
    sim = Sim(brokers=2, topics={"a": 1})

    def shown() -> MetadataResponse:
        answer = fast(sim, MetadataRequest(None), 9)
        assert answer is not None
        return decode(MetadataResponse, 9, answer)

    assert len(shown().topics) == 1
    sim.state.create_topic("b", 1)
    assert len(shown().topics) == 2
    sim.state.create_partitions("a", 2)
    assert len(shown().topics[0].partitions) == 2
    sim.state.set_leader(sim.state.topics["a"].partitions[0], 2)
    assert shown().topics[0].partitions[0].leader_id == 2
    sim.state.delete_topic("b")
    assert len(shown().topics) == 1
    sim.state.brokers[2].alive = False
    sim.state.changed()
    assert len(shown().brokers) == 1


def test_an_answer_with_very_many_partitions_is_made_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_sim.handlers.k03_metadata.MAX_KEPT_PARTITIONS", 5)
    sim = Sim(topics={"t": 3})
    assert fast(sim, ask("t"), 9) is not None
    assert fast(sim, ask("t", "t"), 9) is None
    assert fast(sim, MetadataRequest(None), 9) is not None
    sim.state.create_topic("u", 3)
    assert fast(sim, MetadataRequest(None), 9) is None


def test_kept_answers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_sim.metadata.answers.MOST_BYTES", 100_000)
    sim = Sim()
    for count in range(4200):
        assert fast(sim, MetadataRequest([], include_topic_authorized_operations=bool(count % 2)), 8) is not None
    names = [f"t{number}" for number in range(4200)]
    for name in names:
        sim.state.topics[name] = sim.state.topics.get("t0") or sim.state.create_topic("t0", 1)
        fast(sim, ask(name), 9)
    assert 10 < len(sim.state.answers) < 4200
    assert sim.state.answers.size <= 100_000
