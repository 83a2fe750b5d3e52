"""The requests of transactional producers, as clients send them, without sockets."""

from __future__ import annotations

from typing import Any

import pytest

from broker_sim.runtime.transaction_coordinator import TransactionCoordinator
from broker_sim.storage import partition_for
from kafka_wire.errors import Err
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kafka_wire.messages.k22_init_producer_id import InitProducerIdRequest
from kafka_wire.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kafka_wire.messages.k25_add_offsets_to_txn import AddOffsetsToTxnRequest
from kafka_wire.messages.k26_end_txn import EndTxnRequest
from kafka_wire.messages.k65_describe_transactions import DescribeTransactionsRequest
from kafka_wire.messages.k66_list_transactions import ListTransactionsRequest
from tests.support.ctx import Sim

Producer = tuple[int, int]
TX = "billing"


class Broker:
    """One broker, with the requests of a producer in short."""

    def __init__(self, as_version: str = "4.1") -> None:
        config = {"transaction.state.log.num.partitions": 3}
        self.sim = Sim(topics={"orders": 2}, config=config, as_version=as_version)
        self.sim.state.ensure_internal_topic("__transaction_state")
        self.coordinator = TransactionCoordinator(self.sim.state)
        self.sim.coordinators.transactions = self.coordinator

    def init(self, tx: str = TX, version: int = 4, producer: Producer = (-1, -1), timeout_ms: int = 60_000) -> Any:
        return self.sim.call(InitProducerIdRequest(tx, timeout_ms, *producer), version)

    def producer(self, tx: str = TX) -> Producer:
        answer = self.init(tx)
        assert answer.error_code == Err.NONE
        return answer.producer_id, answer.producer_epoch

    def add(self, producer: Producer, version: int = 3, tx: str = TX, *at: tuple[str, int]) -> dict[int, Err]:
        topics: dict[str, AddPartitionsToTxnTopic] = {}
        for topic, index in at or (("orders", 0),):
            topics.setdefault(topic, AddPartitionsToTxnTopic(topic)).partitions.append(index)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=tx,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=list(topics.values()),
        )
        answer = self.sim.call(request, version)
        return {
            row.partition_index: Err(row.partition_error_code)
            for topic in answer.results_by_topic_v3_and_below
            for row in topic.results_by_partition
        }

    def ask(self, *transactions: AddPartitionsToTxnTransaction, version: int = 5) -> dict[str, list[Err]]:
        answer = self.sim.call(AddPartitionsToTxnRequest(list(transactions)), version)
        return {
            one.transactional_id: [
                Err(r.partition_error_code) for t in one.topic_results for r in t.results_by_partition
            ]
            for one in answer.results_by_transaction
        }

    def end(self, producer: Producer, version: int = 4, *, commit: bool = True, tx: str = TX) -> Any:
        return self.sim.call(EndTxnRequest(tx, *producer, commit), version)

    def state(self, tx: str = TX) -> Any:
        (row,) = self.sim.call(DescribeTransactionsRequest([tx]), 0).transaction_states
        return row

    def listed(self, version: int = 2, **filters: Any) -> list[str]:
        answer = self.sim.call(ListTransactionsRequest(**filters), version)
        assert answer.error_code == Err.NONE
        return sorted(row.transactional_id for row in answer.transaction_states)


@pytest.fixture
def broker() -> Broker:
    return Broker()


def test_the_first_one_who_asks_for_a_coordinator_makes_the_topic() -> None:
    sim = Sim(config={"transaction.state.log.num.partitions": 3})
    sim.coordinators.transactions = TransactionCoordinator(sim.state)
    ask = FindCoordinatorRequest(key_type=1, coordinator_keys=[TX])
    errors = [Err(sim.call(ask, 4).coordinators[0].error_code) for _ in range(2)]
    assert errors == [Err.COORDINATOR_NOT_AVAILABLE, Err.NONE]
    topic = sim.state.topics["__transaction_state"]
    assert (len(topic.partitions), topic.configs["cleanup.policy"]) == (3, "compact")


def test_a_transaction(broker: Broker) -> None:
    producer = broker.producer()
    assert broker.state().transaction_state == "Empty"
    assert broker.add(producer) == {0: Err.NONE}
    row = broker.state()
    assert (row.transaction_state, [(t.topic, t.partitions) for t in row.topics]) == ("Ongoing", [("orders", [0])])
    assert broker.end(producer).error_code == Err.NONE
    broker.sim.clock.advance(1)
    assert broker.state().transaction_state == "CompleteCommit"
    partition = broker.sim.state.partition("orders", 0)
    assert partition is not None
    (marker,) = list(partition.log.batches())
    assert (marker.header.is_control, marker.header.producer_id, marker.header.base_sequence) == (True, producer[0], -1)


def test_an_epoch_for_each_transaction_is_told(broker: Broker) -> None:
    producer = broker.producer()
    one = AddPartitionsToTxnTransaction(TX, *producer, topics=[AddPartitionsToTxnTopic("orders", [1])])
    assert broker.ask(one) == {TX: [Err.NONE]}
    answer = broker.end(producer, 5)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (Err.NONE, producer[0], 1)


def test_brokers_ask_whether_partitions_are_in_a_transaction(broker: Broker) -> None:
    producer = broker.producer()
    broker.add(producer)
    topics = [AddPartitionsToTxnTopic("orders", [0, 1])]
    one = AddPartitionsToTxnTransaction(TX, *producer, verify_only=True, topics=topics)
    other = AddPartitionsToTxnTransaction("nobody", *producer, verify_only=True, topics=topics)
    assert broker.ask(one, other) == {
        TX: [Err.NONE, Err.TRANSACTION_ABORTABLE],
        "nobody": [Err.INVALID_PRODUCER_ID_MAPPING] * 2,
    }
    assert broker.ask() == {}


def test_where_a_partition_can_t_be_added_none_is(broker: Broker) -> None:
    producer = broker.producer()
    assert broker.add(producer, 3, TX, ("orders", 0), ("orders", 9)) == {
        0: Err.OPERATION_NOT_ATTEMPTED,
        9: Err.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert broker.add(producer, 3, TX, ("__consumer_offsets", 0)) == {0: Err.TOPIC_AUTHORIZATION_FAILED}
    assert broker.add(producer, 3, "") == {0: Err.INVALID_REQUEST}
    assert broker.state().transaction_state == "Empty"


def test_old_versions_do_not_know_that_a_producer_is_fenced(broker: Broker) -> None:
    producer = broker.producer()
    zombie, _ = producer, broker.producer()
    assert broker.add(zombie, 1) == {0: Err.INVALID_PRODUCER_EPOCH}
    assert broker.add(zombie, 2) == {0: Err.PRODUCER_FENCED}
    fenced = Err.PRODUCER_FENCED
    assert [broker.end(zombie, v).error_code for v in (1, 2, 5)] == [Err.INVALID_PRODUCER_EPOCH, fenced, fenced]
    offsets = AddOffsetsToTxnRequest(TX, *zombie, "group")
    assert [broker.sim.call(offsets, v).error_code for v in (1, 2)] == [Err.INVALID_PRODUCER_EPOCH, fenced]
    broker.producer()
    assert broker.init(version=3, producer=zombie).error_code == Err.INVALID_PRODUCER_EPOCH
    assert broker.init(version=4, producer=zombie).error_code == fenced


def test_a_group_s_partition_joins_whether_it_is_there_or_not(broker: Broker) -> None:
    producer = broker.producer()
    assert broker.sim.call(AddOffsetsToTxnRequest(TX, *producer, "group"), 3).error_code == Err.NONE
    assert broker.sim.call(AddOffsetsToTxnRequest(TX, *producer, ""), 3).error_code == Err.NONE
    assert broker.sim.call(AddOffsetsToTxnRequest("", *producer, "group"), 3).error_code == Err.INVALID_REQUEST
    (topic,) = broker.state().topics
    assert (topic.topic, topic.partitions) == (
        "__consumer_offsets",
        [partition_for("group", 50), partition_for("", 50)],
    )
    broker.end(producer)
    broker.sim.clock.advance(1)
    assert broker.state().transaction_state == "CompleteCommit"


def test_what_is_wrong_with_an_init(broker: Broker) -> None:
    errors = [
        broker.init(timeout_ms=0),
        broker.init(timeout_ms=900_001),
        broker.init(""),
        broker.init(producer=(5, -1)),
        broker.init(producer=(-1, 5)),
    ]
    timeout, invalid = Err.INVALID_TRANSACTION_TIMEOUT, Err.INVALID_REQUEST
    assert [Err(one.error_code) for one in errors] == [timeout, timeout, invalid, invalid, invalid]
    assert broker.init(timeout_ms=900_000).error_code == Err.NONE
    assert broker.init(producer=(99_999, 0)).error_code == Err.PRODUCER_FENCED


def test_another_broker_is_no_coordinator(broker: Broker) -> None:
    broker.sim.state.add_broker(2, "127.0.0.1", 9093)
    call = broker.sim.call
    not_here = Err.NOT_COORDINATOR
    assert call(InitProducerIdRequest(TX, 1000), 4, broker=2).error_code == not_here
    assert call(EndTxnRequest(TX, 1, 0), 4, broker=2).error_code == not_here
    assert call(AddOffsetsToTxnRequest(TX, 1, 0), 4, broker=2).error_code == not_here
    assert call(DescribeTransactionsRequest([TX]), 0, broker=2).transaction_states[0].error_code == not_here
    assert call(ListTransactionsRequest(), 0, broker=2).transaction_states == []


def test_ids_are_listed_by_state_producer_duration_and_pattern(broker: Broker) -> None:
    first, second = broker.producer("pay-1"), broker.producer("bill-1")
    broker.add(second, 3, "bill-1")
    assert broker.listed() == ["bill-1", "pay-1"]
    assert broker.listed(state_filters=["Ongoing", "bogus"]) == ["bill-1"]
    assert broker.listed(producer_id_filters=[first[0]]) == ["pay-1"]
    assert broker.listed(transactional_id_pattern="pay.*") == ["pay-1"]
    assert broker.listed(transactional_id_pattern="pay") == []
    broker.sim.clock.advance(5000)
    assert broker.listed(duration_filter=4999) == ["bill-1", "pay-1"]
    assert broker.listed(duration_filter=5000) == ["pay-1"]  # it began at -1
    answer = broker.sim.call(ListTransactionsRequest(state_filters=["bogus"]), 0)
    assert (answer.unknown_state_filters, answer.transaction_states) == (["bogus"], [])


@pytest.mark.parametrize("pattern", ["[a", "a(?=b)", r"(a)\1", "a*+"])
def test_a_pattern_that_re2_does_not_know(broker: Broker, pattern: str) -> None:
    answer = broker.sim.call(ListTransactionsRequest(transactional_id_pattern=pattern), 2)
    assert answer.error_code == Err.INVALID_REGULAR_EXPRESSION


def test_unknown_ids_are_told_so(broker: Broker) -> None:
    assert broker.state("nobody").error_code == Err.TRANSACTIONAL_ID_NOT_FOUND
    assert broker.state("").error_code == Err.INVALID_REQUEST
