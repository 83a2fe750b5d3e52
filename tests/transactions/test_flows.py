"""Flows of transactions, and the records that the coordinator writes: the golden traces of real brokers."""

from __future__ import annotations

import pytest

from broker_sim.coordinator.transaction.transaction import State
from kafka_wire.errors import Err
from tests.transactions.harness import P0, P1, TX, World

OLD, NEW = (3, 4), (4, 1)


@pytest.mark.parametrize("release", [OLD, NEW])
def test_the_flow_of_old_clients(release: tuple[int, int]) -> None:
    world = World(release)
    granted = world.init()
    assert (granted.error, granted.epoch) == (Err.NONE, 0)
    producer = granted.producer_id, granted.epoch
    assert world.add(producer) == {Err.NONE}
    assert world.add(producer) == {Err.NONE}  # no record: it is there
    assert world.end(producer).error is Err.NONE
    assert world.states() == [("Empty", 0), ("Ongoing", 0), ("PrepareCommit", 0), ("CompleteCommit", 0)]
    assert world.markers == [(P0, "commit", *producer, 0)]
    assert world.add(producer, P1) == {Err.NONE}
    assert world.end(producer, commit=False).error is Err.NONE
    assert world.states()[4:] == [("Ongoing", 0), ("PrepareAbort", 0), ("CompleteAbort", 0)]
    assert world.markers[1:] == [(P1, "abort", *producer, 0)]


def test_with_an_epoch_for_each_transaction_the_decision_has_the_next_one() -> None:
    world = World()
    granted = world.init()
    producer = granted.producer_id, granted.epoch
    assert world.add(producer, flow=2) == {Err.NONE}
    assert world.add(producer, P0, P1, flow=2) == {Err.NONE}
    ended = world.end(producer, flow=2)
    assert (ended.error, ended.producer_id, ended.epoch) == (Err.NONE, producer[0], 1)
    assert world.states() == [
        ("Empty", 0),
        ("Ongoing", 0),
        ("Ongoing", 0),
        ("PrepareCommit", 1),
        ("CompleteCommit", 1),
    ]
    assert world.markers == [(P0, "commit", producer[0], 1, 0), (P1, "commit", producer[0], 1, 0)]
    assert [r.value.client_version for r in world.records() if r.value] == [0, 2, 2, 2, 2]
    assert world.records()[4].value is not None
    assert world.stored.partitions == ()
    assert world.end(producer, flow=2) == ended  # its answer was lost
    assert world.end(producer, commit=False, flow=2).error is Err.INVALID_TXN_STATE


def test_a_second_instance_fences_the_first_with_two_epochs() -> None:
    world = World()
    first = world.init()
    producer = first.producer_id, first.epoch
    world.add(producer, flow=2)
    assert world.init().error is Err.CONCURRENT_TRANSACTIONS
    assert world.init().epoch == 2
    assert world.states()[2:] == [("PrepareAbort", 1), ("CompleteAbort", 1), ("Empty", 2)]
    assert world.markers == [(P0, "abort", producer[0], 1, 0)]
    assert world.end(producer, flow=2).error is Err.PRODUCER_FENCED
    assert world.add(producer) == {Err.PRODUCER_FENCED}
    assert world.init(producer).error is Err.PRODUCER_FENCED


def test_a_transaction_that_takes_too_long_is_aborted_at_the_next_look() -> None:
    world = World(timeout_check_interval_ms=1000)
    granted = world.init(timeout_ms=2000)
    producer = granted.producer_id, granted.epoch
    world.advance(500)
    world.add(producer)
    world.advance(2499)
    assert world.state is State.ONGOING
    world.advance(1)
    assert world.states()[2:] == [("PrepareAbort", 1), ("CompleteAbort", 1)]
    assert world.stored.client_version == 2  # the coordinator's own flow
    assert world.end(producer).error is Err.PRODUCER_FENCED
    assert world.init(producer).epoch == 1  # KIP-588: it may go on


def test_a_decision_that_was_found_in_the_log_is_carried_out() -> None:
    world = World()
    granted = world.init()
    producer = granted.producer_id, granted.epoch
    world.add(producer, P0, P1)
    world.refusing = {P0: Err.LEADER_NOT_AVAILABLE}
    world.end(producer)
    assert world.state is State.PREPARE_COMMIT
    world.refusing = {}
    world.coordinator_epoch = 7
    world.load()
    assert world.state is State.COMPLETE_COMMIT
    assert world.markers[1:] == [(P0, "commit", *producer, 7), (P1, "commit", *producer, 7)]


def test_a_marker_is_tried_again_until_it_is_there() -> None:
    world = World()
    granted = world.init()
    producer = granted.producer_id, granted.epoch
    world.add(producer, P0, P1)
    world.refusing = {P0: Err.LEADER_NOT_AVAILABLE}
    assert world.end(producer).error is Err.NONE
    world.advance(10_000)
    assert (world.state, world.markers) == (State.PREPARE_COMMIT, [(P1, "commit", *producer, 0)])
    assert world.init().error is Err.CONCURRENT_TRANSACTIONS
    assert world.add(producer) == {Err.CONCURRENT_TRANSACTIONS}
    assert world.end(producer).error is Err.CONCURRENT_TRANSACTIONS
    world.refusing = {}
    world.advance(100)
    assert (world.state, world.markers[1:]) == (State.COMPLETE_COMMIT, [(P0, "commit", *producer, 0)])


def test_a_partition_that_is_gone_needs_no_marker() -> None:
    world = World()
    granted = world.init()
    producer = granted.producer_id, granted.epoch
    world.add(producer)
    world.refusing = {P0: Err.UNKNOWN_TOPIC_OR_PARTITION}
    world.end(producer)
    assert (world.state, world.markers) == (State.COMPLETE_COMMIT, [])


def test_epochs_end_and_the_producer_gets_another_id() -> None:
    world = World()
    granted = world.init()
    transaction = world.shard.transactions[TX]
    transaction.stored = type(transaction.stored)(granted.producer_id, 32766, 60_000, State.EMPTY)
    again = world.init((granted.producer_id, 32766))
    assert (again.error, again.epoch, again.producer_id != granted.producer_id) == (Err.NONE, 0, True)
    assert world.init((granted.producer_id, 32766)) == again  # its answer was lost
    world.init()
    assert world.init((granted.producer_id, 32766)).error is Err.PRODUCER_FENCED


def test_epochs_end_with_a_transaction() -> None:
    world = World()
    granted = world.init()
    transaction = world.shard.transactions[TX]
    transaction.stored = type(transaction.stored)(granted.producer_id, 32766, 60_000, State.EMPTY)
    producer = granted.producer_id, 32766
    world.add(producer, flow=2)
    ended = world.end(producer, flow=2)
    assert (ended.error, ended.epoch, ended.producer_id != granted.producer_id) == (Err.NONE, 0, True)
    assert world.markers == [(P0, "commit", granted.producer_id, 32767, 0)]
    assert world.states()[2:] == [("PrepareCommit", 32767), ("CompleteCommit", 0)]
    assert world.end(producer, flow=2) == ended  # its answer was lost
