"""A consumer with client.rack is referred to a replica in its rack (KIP-392), and replicas are placed over racks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker_sim.metadata.topics import spread_replicas
from kafka_wire.errors import Err
from kafka_wire.messages.k01_fetch import FetchRequest
from tests.data_plane.helpers import fetch, fill, only
from tests.support.ctx import Sim

SELECTOR = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}


def three_racks(**config: object) -> Sim:
    """Three replicas of a partition that broker 1 leads, in the racks a, b and b."""
    sim = Sim(brokers=3, config={**SELECTOR, "default.replication.factor": 3, **config})
    for node, rack in ((1, "a"), (2, "b"), (3, "b")):
        sim.state.brokers[node].rack = rack
    sim.state.create_topic("t", 1)
    fill(sim, "t", 2, 3)
    return sim


def from_rack(rack: str, offset: int = 0, **options: object) -> FetchRequest:
    return replace(fetch({("t", 0): offset}, **options), rack_id=rack)  # type: ignore[arg-type]


def test_the_leader_names_the_replica_and_returns_no_records() -> None:
    sim = three_racks()
    answer = only(sim.call(from_rack("b", max_wait_ms=500), 12))  # it does not wait
    assert (answer.error_code, answer.preferred_read_replica, answer.records) == (0, 3, b"")
    assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (5, 5, 0)
    assert answer.aborted_transactions is None


def test_the_replica_serves_the_consumer() -> None:
    sim = three_racks()
    answer = only(sim.call(from_rack("b"), 12, broker=3))
    assert (answer.error_code, answer.preferred_read_replica) == (0, -1)
    assert answer.records


@pytest.mark.parametrize("rack", ["a", "c", ""])
def test_the_leader_serves_its_own_rack_and_those_that_no_replica_is_in(rack: str) -> None:
    answer = only(three_racks().call(from_rack(rack), 12))
    assert answer.preferred_read_replica == -1
    assert answer.records


def test_without_a_selector_the_leader_serves_all() -> None:
    sim = Sim(brokers=2, config={"default.replication.factor": 2})
    sim.state.brokers[2].rack = "b"
    sim.state.create_topic("t", 1)
    fill(sim, "t", 1)
    assert only(sim.call(from_rack("b"), 12)).preferred_read_replica == -1


def test_a_replica_that_is_down_or_out_of_sync_is_not_named() -> None:
    sim = three_racks()
    partition = sim.state.topics["t"].partitions[0]
    sim.state.brokers[3].alive = False
    assert only(sim.call(from_rack("b"), 12)).preferred_read_replica == 2
    partition.isr = [1]
    assert only(sim.call(from_rack("b"), 12)).preferred_read_replica == -1


def test_an_offset_that_no_replica_has_is_an_error_of_the_leader() -> None:
    answer = only(three_racks().call(from_rack("b", 99), 12))
    assert (answer.error_code, answer.preferred_read_replica) == (Err.OFFSET_OUT_OF_RANGE, -1)


def test_an_incremental_session_names_it_each_time() -> None:
    sim = three_racks()
    first = sim.call(replace(from_rack("b"), session_epoch=0), 12)
    again = sim.call(replace(from_rack("b"), topics=[], session_id=first.session_id, session_epoch=1), 12)
    assert only(first).preferred_read_replica == only(again).preferred_read_replica == 3


def test_replicas_are_in_as_many_racks_as_there_are() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}
    for factor in range(1, 6):
        for replicas in spread_replicas(racks, 30, factor, 4):
            assert len(set(replicas)) == factor
            assert len({racks[node] for node in replicas}) == min(factor, 3)
    leaders = [replicas[0] for replicas in spread_replicas(racks, 12, 1, 0)]
    assert {racks[node]: sum(racks[leader] == racks[node] for leader in leaders) for node in racks} == {
        "a": 4, "b": 4, "c": 4,
    }  # fmt: skip
    assert leaders.count(1) == leaders.count(2)
    assert spread_replicas({1: None, 2: None}, 3, 2, 1) == [[2, 1], [1, 2], [2, 1]]
