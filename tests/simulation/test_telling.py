"""Reports of failures: records and their consumers, the first event that a passing run does not have, the state of the hosts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer

from broker_sim.simulation import Simulation, simulate
from broker_sim.simulation.faults.kinds import Fault
from broker_sim.simulation.reports.moment import hosts, logs, moment, value_at
from broker_sim.simulation.reports.parting import parting
from broker_sim.simulation.reports.records import in_question
from broker_sim.simulation.sweeps.seeds import Search
from broker_sim.simulation.sweeps.sweep import draw_case
from broker_sim.simulation.sweeps.trial import Case
from broker_sim.simulation.world import EPOCH_MS
from tests.simulation.planted import commits_are_not_loaded

_WORK_S = 0.5
LOST = "committed by a process that ended soon after, and delivered to no process since; lost unless it had processed them:"


async def work(bootstrap: str, done: list[bytes], *, commits_first: bool) -> None:
    consumer = AIOKafkaConsumer(
        "orders", bootstrap_servers=bootstrap, group_id="billing", enable_auto_commit=False, auto_offset_reset="earliest",
        max_poll_records=1,
    )  # fmt: skip
    async with consumer:
        async for record in consumer:
            if commits_first:
                await consumer.commit()
            await asyncio.sleep(_WORK_S)  # the work
            done.append(record.value)
            if not commits_first:
                await consumer.commit()


def a_worker_that_crashes(sim: Simulation, *, commits_first: bool) -> list[bytes]:
    """Run a worker that crashes in the midst of its work and starts again; return the records that it has done."""
    done: list[bytes] = []
    kafka = sim.cluster(topics={"orders": 1}, config={"group.initial.rebalance.delay.ms": 0})
    kafka.topic("orders").fill(4)
    app = sim.host("app")
    app.spawn(lambda: work(kafka.bootstrap, done, commits_first=commits_first))
    sim.run_until(lambda: len(done) == 1, within="1m")
    sim.run_for(_WORK_S / 2)
    app.crash(reset=True)
    sim.run_for(1)
    app.restart()
    sim.run_for(30)
    return done


def questions(sim: Simulation) -> list[str]:
    kafka = sim.clusters[0]
    return in_question(kafka.journal.events, EPOCH_MS, lambda log, offset: value_at(kafka, log, offset))


def test_a_record_that_was_committed_before_its_work_is_named() -> None:
    with simulate(3) as sim:
        done = a_worker_that_crashes(sim, commits_first=True)
        assert b"orders-1" not in done
        first, second, *_ = questions(sim)
    assert first == LOST
    assert second.startswith("  orders-0 [1] (b'orders-1'): delivered to app at ")
    assert "committed (2) at " in second
    assert "its process ended at " in second


def test_a_record_that_is_done_twice_is_named_too() -> None:
    with simulate(3) as sim:
        done = a_worker_that_crashes(sim, commits_first=False)
        assert done == [b"orders-0", b"orders-1", b"orders-2", b"orders-3"]
        lines = questions(sim)
    assert lines[0] == LOST  # no broker can know that the first one was done
    assert lines[1].startswith("  orders-0 [0] (b'orders-0'): delivered to app at ")
    assert lines[2] == "delivered to two processes:"
    assert lines[3].startswith("  orders-0 [1 to 3] (b'orders-1' ...): app at ")
    assert "whose last commit was 1, and app (process 2) at " in lines[3]


def test_nothing_is_in_question_where_all_goes_well() -> None:
    with simulate(3) as sim:
        kafka = sim.cluster(topics={"orders": 2})
        kafka.topic("orders").fill(10)
        done: list[bytes] = []
        sim.host("app").spawn(lambda: work(kafka.bootstrap, done, commits_first=True))
        sim.run_for(30)
        assert len(done) == 10
        assert questions(sim) == []


def test_what_was_committed_and_given_to_nobody_is_passed_by() -> None:
    events: list[dict[str, Any]] = [
        {"ts_ms": 1000, "event": "connection", "connection": 1, "peer": "/10.0.0.5", "host": "c1"},
        *fetched(1, 1000, 0, 2),
        {"ts_ms": 1500, "event": "request", "request": 7, "api": "OffsetCommit", "connection": 1, "client_id": "c1"},
        {"ts_ms": 1500, "event": "offsets", "group": "g", "offsets": {"orders-0": 6}, "request": 7},
        *fetched(2, 2000, 6, 3),
    ]
    assert in_question(events, 1000) == [
        "committed, but delivered to no consumer:",
        "  orders-0 [2 to 5]: committed (6) by c1 at 0.500 s",
    ]


def fetched(number: int, ts_ms: int, offset: int, count: int) -> list[dict[str, Any]]:
    asked = {"topics": [{"topic": "orders", "partitions": [{"partition": 0, "fetch_offset": offset}]}]}
    part = {"partition_index": 0, "high_watermark": 9, "records": {"bytes": 9, "records": count}}
    request = {"request": number, "api": "Fetch", "connection": 1, "client_id": "c1", "topics": ["orders-0"]}
    return [
        {"ts_ms": ts_ms, "event": "request", **request, "body": asked},
        {"ts_ms": ts_ms, "event": "response", **request, "body": {"responses": [{"topic": "orders", "partitions": [part]}]}},
    ]  # fmt: skip


# --- how the world stood ---------------------------------------------------------------------------------------------------


def test_hosts_are_told_with_the_lines_at_which_their_programs_wait() -> None:
    with simulate(3) as sim:
        a_worker_that_crashes(sim, commits_first=True)
        lines = hosts(sim, "app")
        assert any(line.startswith("  work at test_telling.py:") and "async for record" in line for line in lines)
        dead = next(at for at, line in enumerate(lines) if line.startswith("  its process 1 ended at "))
        assert lines[dead + 1].endswith("await asyncio.sleep(_WORK_S)  # the work")
        assert lines[0] == "app: up, process 2"
        assert "broker-1: up, leads 51 partitions" in "\n".join(moment(sim))
        kafka = sim.clusters[0]
        with kafka.log("orders", 0).stuck():
            (orders, *_) = [line for line in logs(kafka) if line.startswith("orders-0")]
            assert orders.endswith("ends at 4; orders-0 is stuck")


def test_a_paused_host_is_told_as_one_and_an_unknown_one_is_refused() -> None:
    with simulate(3) as sim:
        sim.cluster()
        sim.spawn("app", lambda: asyncio.sleep(100))
        sim.run_for(1)
        sim.pause("app")
        assert "app: paused" in hosts(sim)
        with pytest.raises(Exception, match="no host 'nobody'; expected one of broker-1, app"):
            hosts(sim, "nobody")


# --- beside it -------------------------------------------------------------------------------------------------------------


def test_the_first_event_at_which_two_runs_part_is_told() -> None:
    def events(crash: bool) -> list[dict[str, Any]]:
        with simulate(3) as sim:
            kafka = sim.cluster(topics={"orders": 1})
            kafka.topic("orders").fill(4)
            done: list[bytes] = []
            sim.host("app").spawn(lambda: work(kafka.bootstrap, done, commits_first=True))
            sim.run_for(10)
            if crash:
                sim.crash("app", reset=True)
            sim.run_for(2)
            return list(kafka.journal.events)

    failing, passing = events(True), events(False)
    assert parting(failing, failing, "itself", EPOCH_MS) == []
    title, *lines = parting(failing, passing, "without the crash", EPOCH_MS)
    assert title.startswith("the nearest run that passes is without the crash; the runs differ from 10.0")
    assert [line.split()[0] for line in lines[:3]] == ["both", "both", "fails"]
    assert any(line.startswith("  passes ") and " of app" in line for line in lines)


def test_a_failed_test_tells_all_of_it() -> None:
    def story(sim: Simulation) -> None:
        done: list[bytes] = []
        kafka = sim.cluster(topics={"orders": 1}, config={"group.initial.rebalance.delay.ms": 0})
        kafka.topic("orders").fill(8)
        sim.host("app").spawn(lambda: work(kafka.bootstrap, done, commits_first=True))
        sim.run_for(20)
        assert len(done) == 8

    plan = [[2, "restart", {"host": "app"}], [15, "elect", {"log": "orders-0"}]]
    found = Search(story, faults=plan, repeat=0).first([5])
    assert found is not None
    assert [fault.kind for fault in found.faults] == ["restart"]
    assert found.run.records[0] == LOST
    assert found.beside[0].startswith(
        "the nearest run that passes is without 2 s: restart host app; the runs differ from 2.0"
    )
    assert any("process 1 ended at 2.0" in line for line in found.run.moment)


def test_a_sweeps_failure_tells_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    commits_are_not_loaded(monkeypatch)
    moves = Fault(12.0, "move", {"log": "offsets(billing)", "step": 1})
    picture, _ = draw_case(Case("group", 5, 15.0, as_version="4.1", order="fifo", journal=True, plan=(moves,)))
    assert "the nearest run that passes is without 12 s: move" in picture
    assert "the hosts at 12." in picture
    assert "\n  c1: up\n" in picture
