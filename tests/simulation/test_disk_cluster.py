"""Brokers on a simulated disk: their process is killed, their machines lose power, their disk stalls; they start again from it."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import sys
from typing import Any

import pytest

from broker_sim.api.cluster import ClusterError
from broker_sim.common.text import UsageError
from broker_sim.journal import problems
from broker_sim.metadata.cluster_state import KafkaError
from broker_sim.simulation import Simulation, simulate
from broker_sim.simulation.checks.answers import InvariantBroken
from broker_sim.simulation.cluster import SimCluster
from broker_sim.simulation.faults.kinds import Fault, check, inject
from broker_sim.simulation.sweeps.trial import Case, run
from broker_sim.simulation.virtual.disk import ProcessKilled
from broker_sim.simulation.virtual.process import DEAD
from kafka_wire.errors import Err
from tests.simulation.workload import GROUP, Group, begin
from tests.support import processes
from tests.support.sampling import sampled

FEW = {"offsets.topic.num.partitions": 5}


def cluster(sim: Simulation, **options: Any) -> SimCluster:
    return sim.cluster(2, {"orders": 4}, disk=True, config=FEW, **options)


def group_on(sim: Simulation, **options: Any) -> Group:
    return begin(sim, kafka=cluster(sim, **options), members=2, every_s=0.3, request_timeout_ms=10_000)


@pytest.mark.parametrize("at_call", sampled([None, 1, 2, 7], 3))
@pytest.mark.parametrize("how", ["kill", "power_loss"])
def test_a_group_goes_on_after_its_brokers_have_died(how: str, at_call: int | None) -> None:
    with simulate(11) as sim:
        group = group_on(sim, sync=how == "power_loss")
        kafka = group.kafka
        for life in (1, 2, 3):
            sim.run_until(lambda: group.stable(2), within="2m")
            getattr(kafka, how)(at_call=at_call)
            sim.run_until(lambda: kafka.dead, within="3m")
            assert kafka.process.number == life
            sim.run_for(3)
            kafka.start_again()
            assert not kafka.dead
        sim.check({GROUP: 2}, lag=None)
        assert not sim.errors
        sim.run_for(60)
        assert group.producer.sent > 80
        assert not group.lost() - {max(group.producer.acked)}


def test_the_journal_goes_on_and_says_so() -> None:
    with simulate(3) as sim:
        group = group_on(sim)
        sim.run_for(10)
        journal = sim.journal
        before = journal.seq
        group.kafka.kill()
        assert group.kafka.journal is journal
        sim.run_for(2)
        group.kafka.start_again()
        sim.run_for(20)
        assert sim.journal is journal
        told = [each for each in journal.events if each["event"] == "cluster"]
        assert [(each["action"], each["process"]) for each in told] == [("killed", 1), ("started", 2)]
        assert told[0]["seq"] > before
        requests = [each["request"] for each in journal.events if each["event"] == "request"]
        assert requests == list(range(1, len(requests) + 1)), "each has its own number"
        answered = [each["request"] for each in journal.events if each["event"] == "response"]
        assert len(set(answered)) == len(answered)
        assert set(requests) - set(answered) == set(journal.open_requests)
        assert [problem for each in journal.events for problem in problems(each)] == []
        downs = [each["action"] for each in journal.events if each["event"] == "broker"]
        assert downs == ["down", "down", "up", "up"]


def test_nothing_is_left_in_memory_and_what_was_committed_is_read_from_the_disk() -> None:
    with simulate(4) as sim:
        group = group_on(sim)
        kafka = group.kafka
        sim.run_for(20)
        committed, state, addresses = kafka.group(GROUP).committed(), kafka.state, kafka.bootstrap
        assert sum(committed.values()) > 20
        ids = {each.member_id for each in kafka.group(GROUP).members}
        kafka.kill()
        with pytest.raises(ClusterError, match="not running"):
            _ = kafka.state
        assert not sim.network.ends_of(sim.network.machine("broker-1"))
        kafka.start_again()
        assert kafka.state is not state
        assert kafka.bootstrap == addresses
        sim.run_for(1)
        again = kafka.group(GROUP).committed()
        assert all(again[place] >= offset for place, offset in committed.items())
        sim.crash("c1", reset=True)
        sim.restart("c1")
        sim.run_for(20)
        sim.run_until(lambda: group.stable(2), within="2m")
        fresh = {each.member_id for each in kafka.group(GROUP).members} - ids
        assert fresh, "the chance of a new process is another one: it gives no id again"


@pytest.mark.slow
def test_without_sync_a_loss_of_power_costs_the_end_of_a_log_and_nothing_else() -> None:
    left = []
    for seed in range(6):
        with simulate(seed) as sim:
            group = group_on(sim)
            kafka = group.kafka
            sim.run_for(12)
            kafka.disk.fsync_all()
            sim.run_for(8)
            ends = [each.log_end_offset for each in kafka.state.topics["orders"].partitions]
            kafka.power_loss()
            sim.run_for(2)
            kafka.start_again()
            now = [each.log_end_offset for each in kafka.state.topics["orders"].partitions]
            assert all(new <= old for new, old in zip(now, ends, strict=True))
            left.append(sum(ends) - sum(now))
            sim.run_for(40)  # the invariants are watched
            assert group.stable(2)
    assert max(left) > 10
    assert min(left) < max(left)


def test_a_kill_resets_connections_and_a_loss_of_power_tells_nobody() -> None:
    for how, told in (("kill", True), ("power_loss", False)):
        with simulate(4) as sim:
            group = group_on(sim)
            sim.run_for(10)
            failures = len(group.producer.failures)
            ends = len(sim.network.ends_of(sim.network.machine("p")))
            getattr(group.kafka, how)()
            sim.run_for(0.5)
            assert (len(sim.network.ends_of(sim.network.machine("p"))) < ends) is told
            assert len(group.producer.failures) == failures


def test_brokers_that_were_down_are_up_with_the_next_process() -> None:
    with simulate(4) as sim:
        kafka = cluster(sim)
        sim.crash("broker-1")
        sim.pause("broker-2")
        sim.run_for(1)
        kafka.kill()
        assert [sim.host(name).state for name in kafka.hosts] == ["crashed", "crashed"]
        with pytest.raises(UsageError, match="start_again"):
            sim.restart("broker-2")
        with pytest.raises(UsageError, match="has crashed"):
            sim.pause("broker-2")
        with pytest.raises(UsageError, match="are dead"):
            kafka.power_loss()
        sim.run_for(1)
        kafka.start_again()
        kafka.start_again()
        assert [sim.host(name).state for name in kafka.hosts] == ["up", "up"]
        assert [broker.alive for broker in kafka.brokers] == [True, True]
        assert sim.host("broker-1").process is kafka.process
        sim.restart("broker-1")
        sim.run_for(10)
        assert sim.host("broker-1").state == "up"


def test_a_start_can_die_too() -> None:
    with simulate(4) as sim:
        group = group_on(sim)
        kafka = group.kafka
        sim.run_for(10)
        deaths = 0
        kafka.kill()
        for at_call in range(1, 60):
            kafka.start_again(at_call=at_call)
            if kafka.dead:
                deaths += 1
            else:
                break
        assert deaths > 10
        sim.check({GROUP: 2}, lag=None)


def test_heal_starts_what_is_dead() -> None:
    with simulate(4) as sim:
        group = group_on(sim)
        sim.run_for(10)
        group.kafka.kill()
        sim.run_for(1)
        sim.heal()
        assert group.kafka.process.state != DEAD
        sim.run_until(lambda: group.stable(2), within="60s")


def test_a_killed_process_does_nothing_more_in_the_callback_that_it_died_in() -> None:
    with simulate(4) as sim:
        kafka = cluster(sim)
        kafka.kill(at_call=1)
        with pytest.raises(ProcessKilled):
            kafka.create_topic("new", 3)
        assert kafka.dead
        kafka.start_again()
        topics = list(kafka.state.topics)
        assert topics in (["orders"], ["orders", "new"])


def test_a_deletion_that_is_cut_short_is_finished_whatever_it_had_removed() -> None:
    """The file that tells whose a directory is goes last: else what is left of it would be taken for another broker's log."""
    with simulate(4) as sim:
        kafka = cluster(sim)
        for at_call in range(1, 60):
            kafka.create_topic(f"t{at_call}", 2)
            kafka.kill(at_call=at_call)
            try:
                kafka.state.delete_topic(f"t{at_call}")
            except ProcessKilled:
                kafka.start_again()
                topic = kafka.state.topics.get(f"t{at_call}")
                assert topic is None or len(topic.partitions) == 2
                left = [path for path in kafka.disk.image() if f"/t{at_call}-" in path]
                assert (topic is None) == (left == []), left
                assert not kafka.state.disk.adopted
            else:
                kafka.disk.cancel_death()
                break
        assert at_call > 10


def test_brokers_start_after_a_loss_of_power_at_any_moment_though_nothing_is_synced() -> None:
    for seed in range(8):
        with simulate(seed) as sim:
            kafka = cluster(sim)
            for at_call in (1, 4, 9, 30):
                kafka.power_loss(at_call=at_call)
                with contextlib.suppress(ProcessKilled):
                    for number in range(50):
                        kafka.create_topic(f"t{at_call}-{number}", 1)
                kafka.start_again()
                assert not kafka.dead


# --- what its disk can do to it --------------------------------------------------------------------------------------------


def test_while_the_disk_stalls_the_process_stands_still_from_its_next_write_on() -> None:
    with simulate(4) as sim:
        group = group_on(sim)
        sim.run_until(lambda: group.stable(2), within="60s")
        sim.run_for(5)
        began = len(sim.journal.events), sim.elapsed_s
        inject(sim, [Fault(1, "disk", {"what": "stalls", "for_s": 5})])
        sim.run_for(3)
        assert group.kafka.process.state == 1
        acked, beats = len(group.producer.acked), len(sim.journal.events)
        sim.run_for(2.5)
        assert len(group.producer.acked) == acked, "nobody gets an answer"
        assert len(sim.journal.events) == beats
        sim.run_for(10)
        assert group.kafka.process.state == 0
        assert len(group.producer.acked) > acked + 10
        times = [each["ts_ms"] for each in list(sim.journal.events)[began[0] :]]
        assert times == sorted(times)
        stalled = [b - a for a, b in itertools.pairwise(times)]
        assert 3000 < max(stalled) <= 5000, "what comes behind the write has the time at which it ended"
        assert group.stable(2)


def test_a_stall_longer_than_a_session_costs_nobody_the_session() -> None:
    """The timers stand still with the process; when it goes on the members' heartbeats are in its kernel."""
    with simulate(4) as sim:
        group = begin(sim, kafka=cluster(sim), members=2, every_s=0.3, session_timeout_ms=6_000)
        sim.run_until(lambda: group.stable(2), within="60s")
        before = group.history()[-1]["generation"]
        with group.kafka.disk.fault("stalls"):
            sim.run_for(4)
        sim.run_for(10)
        assert group.history()[-1]["generation"] == before


def test_a_kill_ends_a_stall() -> None:
    with simulate(4) as sim:
        group = group_on(sim)
        sim.run_for(10)
        fault = group.kafka.disk.fault("stalls")
        sim.run_for(3)
        group.kafka.kill()
        group.kafka.start_again()
        assert group.kafka.process.state == 1, "its first write has to wait as well"
        fault.heal()
        sim.run_until(lambda: group.stable(2), within="2m")


@pytest.mark.parametrize("what", ["full", "fails", "readonly"])
def test_a_disk_that_takes_nothing_is_told_to_clients_and_loses_nothing(what: str) -> None:
    with simulate(4) as sim:
        group = group_on(sim)
        kafka = group.kafka
        sim.run_for(10)
        with kafka.disk.fault(what):
            sim.run_for(5)
            told = [
                each["error"]
                for each in sim.journal.events
                if each["event"] == "response" and each["api"] in ("Produce", "OffsetCommit") and "error" in each
            ]
            assert "KAFKA_STORAGE_ERROR" in told
            with pytest.raises(KafkaError) as refused:
                kafka.create_topic("new", 1)
            assert refused.value.error is Err.KAFKA_STORAGE_ERROR
            kafka.elect(kafka.log("orders", 0).partition)
        sim.check({GROUP: 2}, lag=None)
        kafka.kill()
        kafka.start_again()
        sim.check({GROUP: 2}, lag=None)
        assert not group.lost() - {max(group.producer.acked)}


def test_brokers_whose_disk_is_broken_do_not_start() -> None:
    with simulate(4) as sim:
        kafka = cluster(sim)
        kafka.kill()
        with kafka.disk.fault("readonly"), pytest.raises(ClusterError, match="Read-only"):
            kafka.start_again()
        assert kafka.dead
        full = "^data directory .*No space left"
        with kafka.disk.fault("full", paths="*/cluster.json*"), pytest.raises(ClusterError, match=full):
            kafka.start_again()
        kafka.start_again()
        assert not kafka.dead
        assert list(kafka.state.topics) == ["orders"]


def test_a_start_on_a_full_disk_says_so_though_the_logs_that_it_recovered_cannot_be_flushed() -> None:
    with simulate(4) as sim:
        kafka = cluster(sim)
        for _ in range(3):
            kafka.topic("orders").fill(20, value_bytes=4096)  # enough for entries in the indexes
        kafka.kill()
        full = "^data directory .*No space left"
        with (
            kafka.disk.fault("full", paths="*/cluster.json*"),
            kafka.disk.fault("full", paths="*.index"),
            pytest.raises(ClusterError, match=full),
        ):
            kafka.start_again()
        assert kafka.dead
        kafka.start_again()
        assert sum(kafka.log("orders", index).end_offset for index in range(4)) == 60


def test_another_broker_leads_though_the_disk_keeps_what_it_should_not_have() -> None:
    """A leader that takes over has no more than was replicated; where that can't be cut off it had replicated more, as may be."""
    with simulate(4) as sim:
        kafka = sim.cluster(2, {"orders": 4}, disk=True, config={**FEW, "default.replication.factor": 2})
        log = kafka.log("orders", 0)
        old = log.leader
        with log.stuck():
            kafka.topic("orders").fill(20)
            with kafka.disk.fault("readonly", paths="*.log"):
                sim.run(kafka.broker_down(old))
            assert (log.leader, log.high_watermark) == (3 - old, 0)
            assert log.end_offset > 0
        assert log.high_watermark == log.end_offset
        assert kafka.log("orders", 1).leader == 3 - old


def test_a_fault_starts_the_brokers_again_as_soon_as_the_disk_lets_it() -> None:
    with simulate(4) as sim:
        kafka = cluster(sim)
        injection = inject(
            sim,
            [
                Fault(1, "kill", {"for_s": 2, "start_at_call": 3}),
                Fault(2, "disk", {"what": "readonly", "for_s": 5}),
                Fault(2.5, "elect", {"log": "orders-0"}),
            ],
        )
        sim.run_for(5)
        assert kafka.dead
        assert [fault.kind for fault, _ in injection.skipped] == ["elect"]
        sim.run_for(5)
        assert not kafka.dead


# --- what is said, and what is the same again ---------------------------------------------------------------------------------


def test_brokers_in_memory_have_no_disk() -> None:
    with simulate(4) as sim:
        kafka = sim.cluster()
        for call in (kafka.kill, kafka.power_loss, lambda: kafka.disk):
            with pytest.raises(UsageError, match="disk=True"):
                call()
        with pytest.raises(UsageError, match="data_dir"):
            sim.cluster(name="other", disk=True, data_dir="x")


@pytest.mark.parametrize(
    "args", [{"what": "slow"}, {"what": "full", "free_bytes": -1}, {"what": "fails", "path": "*"}, {}]
)
def test_faults_of_a_disk_that_can_not_be_meant_are_refused(args: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        check(Fault(1, "disk", args))
    with pytest.raises(UsageError):
        check(Fault(1, "kill", {"at_call": 0}))


def test_a_loss_that_nobody_may_cause_is_found() -> None:
    with simulate(4) as sim:
        group = group_on(sim)
        sim.run_for(10)
        group.kafka.kill()
        disk = group.kafka.disk
        [log] = [path for path, data in disk.image().items() if path.endswith("orders-0/" + "0" * 20 + ".log")]
        node = disk._image.dirs[log.rpartition("/")[0]].names[log.rpartition("/")[2]]
        del node.data[-5:]  # type: ignore[union-attr]
        group.kafka.start_again()
        with pytest.raises(InvariantBroken, match="it was committed up to"):
            sim.run_for(1)


def test_what_another_one_finds_on_a_disk_is_a_run_of_its_own() -> None:
    """A disk outlives its simulation."""
    with simulate(4) as sim:
        kafka = cluster(sim)
        sim.run(kafka.stop())
        disk = kafka.disk
    with simulate(5) as sim:
        kafka = sim.cluster(2, disk=disk.killed(), config=FEW)
        assert list(kafka.state.topics) == ["orders"]


_PROGRAM = """
import json
from broker_sim.simulation.sweeps.trial import Case, run
from tests.support.sampling import sampled
told = [(o.journal_hash, o.schedule_hash, o.failure) for o in (run(Case(w, s)) for w, s in (("disk", 3), ("power", 5), ("power", 7)))]
print(json.dumps(told))
"""


@pytest.mark.slow
def test_fresh_processes_with_other_hash_seeds_run_the_same_on_a_disk() -> None:
    running = [
        processes.start([sys.executable, "-c", _PROGRAM], env={**os.environ, "PYTHONHASHSEED": seed})
        for seed in ("1", "2")
    ]
    told = [json.loads(processes.finish(process, "the two runs to end")[0]) for process in running]
    assert told[0] == told[1]
    assert all(failure is None for _, _, failure in told[0])


@pytest.mark.long
@pytest.mark.parametrize("workload", ["disk", "power"])
def test_sweeps_over_a_disk_find_nothing(workload: str) -> None:
    kinds = set()
    for seed in range(5):
        outcome = run(Case(workload, seed))
        assert outcome.failure is None, (seed, outcome.text)
        kinds |= {name for name in outcome.hits if name in ("kill", "power", "disk")}
    assert kinds == ({"kill", "disk"} if workload == "disk" else {"kill", "power", "disk"})
