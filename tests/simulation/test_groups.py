"""Groups of real aiokafka clients in virtual time: crash, session's end, rebalance, a stuck offsets partition, brokers that go."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker_sim.simulation import simulate
from broker_sim.simulation.workloads.programs import Consumer
from tests.simulation.workload import GROUP, begin, two_minutes


def test_a_silent_crash_costs_a_session_and_then_the_others_take_over() -> None:
    with simulate(3) as sim:
        group = begin(sim, session_timeout_ms=30_000)
        sim.run_until(lambda: group.stable(3), within="30s")
        sim.run_for(10)
        crashed_s = sim.elapsed_s
        sim.crash("c2")
        sim.run_until(lambda: group.stable(2), within="60s")
        assert 26 < sim.elapsed_s - crashed_s < 40  # a heartbeat was up to 3 s ago; the others notice at theirs
        kinds = [e["timer"] for e in sim.journal.events if e["event"] == "timer" and e["group"] == GROUP]
        assert "session" in kinds
        sim.run_for(30)
        sim.restart("c2")
        sim.run_until(lambda: group.stable(3), within="60s")
        sim.run_for(10)
        assert not group.lost()


def test_a_client_that_never_stops_is_given_up() -> None:
    """aiokafka's stop() has no end where the answer to its last auto-commit takes its coordinator from it."""
    with simulate(3) as sim:
        group = begin(sim, members=2)
        consumer = group.consumers[0]
        consumer.commit_every_s = 5.0
        sim.run_until(lambda: group.stable(2), within="30s")
        sim.run_for(10)
        with group.kafka.fault("OffsetCommit", error="COORDINATOR_NOT_AVAILABLE"):
            consumer.leaving = True
            sim.run_for(20)
        assert not consumer.failures
        sim.run_for(30)
        assert [text.partition(" ")[2] for text in consumer.failures] == ["stop() did not return within 45.0 s"]
        sim.run_until(lambda: group.stable(1), within="60s")


def test_commits_of_a_stuck_offsets_partition_wait_and_come_through() -> None:
    with simulate(4) as sim:
        group = begin(sim)
        sim.run_for(20)
        with group.kafka.offsets_log(GROUP).stuck():
            sim.run_for(20)
            errors = {
                e.get("error") for e in sim.journal.events if e["event"] == "response" and e["api"] == "OffsetCommit"
            }
            assert "REQUEST_TIMED_OUT" in errors or "COORDINATOR_NOT_AVAILABLE" in errors
        sim.run_for(60)
        assert group.stable(3)
        assert not group.lost()


@pytest.mark.slow
def test_a_parked_join_longer_than_the_clients_patience_makes_no_phantoms() -> None:
    """Requests of a connection are served one at a time, so a client that is tired of waiting comes on a new connection."""
    with simulate(6) as sim:
        group = begin(sim, members=3, max_poll_interval_ms=300_000, request_timeout_ms=40_000)
        sim.run_until(lambda: group.stable(3), within="30s")
        group.consumers[0].hang_s = 250
        sim.run_for(5)
        sim.restart("c3")  # its last life is a member until its session ends: so long the new one's JoinGroup is parked
        restarted = sim.journal.seq
        sim.run_for(280)
        sim.run_until(lambda: group.stable(3), within="120s")
        sim.run_for(60)
        assert group.stable(3)
        later = [e for e in sim.journal.since(restarted) if e.get("api") == "JoinGroup"]
        joins = [e for e in later if e["event"] == "request" and e["client_id"] == "c3"]
        assert len({e["connection"] for e in joins}) == 2
        unanswered = {e["request"] for e in later if e.get("action") == "not answered"}
        assert len(unanswered & {e["request"] for e in joins}) == 1
        assert len({e["member"] for e in joins if e.get("member")}) == 1, "the id it was given before (KIP-394)"
        assert max(len(each["members"]) for each in group.history()) <= 4
        assert not group.lost()


def test_a_long_rebalance_timeout_costs_little() -> None:
    with simulate(8) as sim:
        group = begin(sim, members=2, fetch_max_wait_ms=30_000)
        group.producer.count = 0
        sim.run_until(lambda: group.stable(2), within="30s")
        group.consumers[0].hang_s = 10_000
        sim.run_for(5)
        sim.host("c3").spawn(Consumer(sim, sim.host("c3"), group.kafka.bootstrap, GROUP, ["orders"]).run)
        steps = sim.loop.steps
        sim.run_for(300)
        assert sim.loop.steps - steps < 40_000, "a poll for each ms of the timeout would be ten times as many"


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_brokers_and_clients_that_fail_lose_nothing(seed: int) -> None:
    with simulate(seed) as sim:
        group = two_minutes(sim)
        assert sim.host("broker-1").state == "up"
        sim.run_until(lambda: group.stable(3), within="60s")
        sim.run_for(20)
        assert not sim.errors
        assert not group.lost()


def test_a_broker_that_is_gone_is_noticed_after_its_session() -> None:
    with simulate(2) as sim:
        group = begin(sim, brokers=3)
        sim.run_for(15)
        leaders = group.kafka.state
        sim.crash("broker-2")
        sim.run_for(8)
        assert any(partition.leader == 2 for partition in leaders.partitions())
        sim.run_for(2)
        assert not any(partition.leader == 2 for partition in leaders.partitions())
        sim.restart("broker-2")
        sim.run_for(10)
        assert group.kafka.broker(2).alive


def test_a_paused_broker_answers_later() -> None:
    with simulate(2) as sim:
        group = begin(sim, brokers=1)
        sim.run_for(15)
        sent = group.producer.sent
        sim.pause("broker-1")
        sim.run_for(20)
        assert group.producer.sent <= sent + 1
        sim.resume("broker-1")
        sim.run_for(10)
        assert group.producer.sent > sent + 5
        assert not group.producer.failures


def test_compression_is_done_in_place() -> None:
    with simulate(1) as sim:
        group = begin(sim, members=1)
        group.producer.options["compression_type"] = "gzip"
        sim.run_for(20)
        assert group.producer.sent > 10
        assert not group.lost() - {max(group.producer.acked)}


def test_live_members_survive_any_stretch_of_time() -> None:
    """Time passes timer by timer, and heartbeats with it: nobody expires because a test was in a hurry."""
    with simulate(5) as sim:
        group = begin(sim, members=2, session_timeout_ms=6_000)
        sim.run_until(lambda: group.stable(2), within="30s")
        before = group.history()[-1]["generation"]
        sim.run_for("3m")  # thirty sessions
        assert group.history()[-1]["generation"] == before


def test_a_manual_clock_of_the_brokers_goes_with_virtual_wire_time() -> None:
    with simulate(5) as sim:
        kafka = sim.cluster(topics={"orders": 1}, clock="manual")
        before_ms = kafka.time.now_ms()
        sim.run_for(100)
        assert kafka.time.now_ms() == before_ms
        sim.run(kafka.time.advance("46s"))
        assert kafka.time.now_ms() == before_ms + 46_000
        assert asyncio.get_running_loop() is sim.loop


@pytest.mark.slow
def test_brokers_that_keep_their_logs_on_a_disk_start_from_there(tmp_path: Path) -> None:
    """The disk is the real one; what is on it, and where, changes nothing of the run."""

    def run(directory: Path) -> tuple[str, str]:
        with simulate(6) as sim:
            kafka = sim.cluster(topics={"orders": 4}, data_dir=directory, config={"offsets.topic.num.partitions": 5})
            group = begin(sim, kafka=kafka, members=1, every_s=0.3)
            sim.run_for(20)
            sim.run(kafka.restart_all())
            sim.run_for(10)
            sim.run(kafka.stop())
            sim.run_for(5)
            sim.run(kafka.start())
            sim.run_for(30)
            assert group.producer.sent > 150
            assert not group.lost()
            assert not sim.errors
            return sim.journal_hash, sim.schedule_hash

    assert run(tmp_path / "one") == run(tmp_path / "two")
