"""Faults as data: what they do, when they end, what can't be; the plans that seeds draw; what must be well after the healing."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from broker_sim.common.text import UsageError
from broker_sim.faults.conditions import KINDS as STATES
from broker_sim.simulation import simulate
from broker_sim.simulation.checks.liveness import ExpectedGroup, NotAlive, Unsafe, converge, safe
from broker_sim.simulation.faults.kinds import KINDS, Fault, check, checked, from_json, inject, to_json
from broker_sim.simulation.faults.swarm import SWARM, Targets, draw, habits
from broker_sim.simulation.workloads.catalogue import WORKLOADS
from broker_sim.simulation.workloads.programs import DeliveredRecord
from tests.simulation.workload import GROUP, begin

TARGETS = Targets(
    (GROUP,), ("orders-0", "orders-1"), ("broker-1", "broker-2", "broker-3"), ("c1", "c2", "p"), ("c1", "c2")
)

PLAN = [
    Fault(1.0, "state", {"log": "offsets(billing)", "state": "stuck", "for_s": 3}),
    Fault(2.0, "crash", {"host": "c2", "reset": True, "for_s": 4.5}),
]


def test_a_plan_survives_json() -> None:
    assert from_json(to_json(PLAN)) == PLAN
    assert from_json('[[3, "elect", {"log": "orders-0"}]]') == [Fault(3, "elect", {"log": "orders-0"})]
    assert PLAN[0].text == "1 s: state log offsets(billing), state stuck, for 3 s"


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ("[", "must be JSON"),
        ({}, "a list of"),
        ([["crash", 1, {}]], "no kind of fault 1"),
        ([[1]], "a fault is"),
        ([[-1, "elect", {"log": "orders-0"}]], "elect: t_s: -1 is not a duration"),
        ([[1, "elekt", {}]], "did you mean 'elect'"),
        ([[1, "elect"]], "elect: log is missing"),
        ([[1, "pause", {"host": "c1", "fro_s": 1}]], "did you mean 'for_s'"),
        ([[1, "state", {"log": "orders-0", "state": "stuk"}]], "did you mean 'stuck'"),
        ([[1, "rule", {"api": "Fetch"}]], "needs an action"),
        ([[1, "cut", {"sender": "a", "for_s": True}]], "for_s: True is not a duration"),
    ],
)
def test_what_can_not_be_meant_is_said_before_anything_runs(plan: object, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        from_json(plan)


OF_A_DISK = {"disk", "kill", "power"}
"""Kinds that need a cluster on a disk: see test_disk."""


def test_each_kind_begins_and_ends() -> None:
    with simulate(1) as sim:
        group = begin(sim, brokers=3)
        hung: list[float] = []
        usual = sim.network.link_of("c1", "broker-1")
        log = group.kafka.log("orders", 0)
        epoch = log.leader_epoch
        plan = [
            Fault(1, "state", {"log": "orders-0", "state": "stuck", "for_s": 2}),
            Fault(1, "state", {"log": "offsets(billing)", "state": "slow", "latency": 0.2, "for_s": 2}),
            Fault(1, "rule", {"api": "Heartbeat", "error": "NOT_COORDINATOR", "for_s": 2}),
            Fault(1, "link", {"sender": "c1", "latency_ms": 100.0, "for_s": 2}),
            Fault(1, "link", {"sender": "c1", "receiver": "broker-1", "jitter_ms": 50.0, "for_s": 1}),
            Fault(1, "cut", {"sender": "c2", "receiver": "broker-1", "for_s": 2}),
            Fault(1, "crash", {"host": "c3", "for_s": 2}),
            Fault(1, "pause", {"host": "c2", "for_s": 2}),
            Fault(1, "hang", {"client": "c1", "hang_s": 9}),
            Fault(1, "buggify", {"site": "loads slowly", "for_s": 2}),
            Fault(4, "crash", {"host": "broker-2", "noticed_after_s": 0, "for_s": 2}),
            Fault(7, "restart", {"host": "c1"}),
            Fault(8, "reset", {"sender": "p"}),
            Fault(9, "elect", {"log": "orders-0"}),
            Fault(9, "move", {"log": "orders-0", "step": 1}),
            Fault(9.5, "lose", {"log": "orders-1", "part": "head", "records": 1}),
        ]
        assert {fault.kind for fault in plan} == set(KINDS) - OF_A_DISK
        faults = inject(sim, plan, hangs={"c1": hung.append})
        sim.run_for(1.5)
        assert log.states == ["stuck"]
        assert group.kafka.offsets_log(GROUP).states == ["slow"]
        assert len(group.kafka.faults) == 1
        changed = sim.network.link_of("c1", "broker-1")
        assert (changed.latency_ms, changed.jitter_ms) == (100.0, 50.0)
        assert ("c2", "broker-1") in sim.network.cuts
        assert ("broker-1", "c2") not in sim.network.cuts
        assert (sim.host("c3").state, sim.host("c2").state) == ("crashed", "paused")
        assert hung == [9]
        assert faults.buggify is not None
        assert faults.buggify is group.kafka.state.buggify
        assert faults.buggify.is_on("loads slowly")
        sim.run_for(1)
        assert sim.network.link_of("broker-1", "c1").latency_ms == 100.0
        assert sim.network.link_of("c1", "broker-1").jitter_ms == usual.jitter_ms
        sim.run_for(1)
        assert not group.kafka.conditions.of()
        assert len(group.kafka.faults) == 0
        assert sim.network.link_of("c1", "broker-1") == usual
        assert not sim.network.cuts
        assert not faults.buggify.is_on("loads slowly")
        assert (sim.host("c3").state, sim.host("c2").state) == ("up", "up")
        sim.run_for(1)
        assert not group.kafka.broker(2).alive
        sim.run_for(6)
        assert group.kafka.broker(2).alive
        assert log.leader_epoch > epoch
        assert sim.host("c1").process.number == 2
        assert [fault.kind for fault in faults.begun] == [fault.kind for fault in plan]
        assert not faults.skipped
        assert group.kafka.log("orders", 1).start_offset == 1


def test_what_can_not_be_at_its_moment_is_left_out_and_told() -> None:
    with simulate(1) as sim:
        begin(sim, brokers=1)
        plan = [
            Fault(1, "crash", {"host": "c1"}),
            Fault(2, "crash", {"host": "c1"}),
            Fault(2, "pause", {"host": "c1"}),
            Fault(2, "move", {"log": "orders-0"}),
            Fault(2, "state", {"log": "orders-0", "state": "stuck"}),
            Fault(3, "state", {"log": "orders-0", "state": "slow", "latency": 1}),
            Fault(3, "restart", {"host": "c9"}),
            Fault(3, "elect", {"log": "ordres-0"}),
            Fault(3, "hang", {"client": "p", "hang_s": 1}),
        ]
        faults = inject(sim, plan)
        sim.run_for(5)
        assert faults.begun == [plan[0], plan[4]]
        told = {plan.index(fault): text for fault, text in faults.skipped}
        assert sorted(told) == [1, 2, 3, 5, 6, 7, 8]
        assert "is down" in told[1]
        assert "excludes slow" in told[5]


def test_healing_ends_what_lasts_and_what_was_to_come() -> None:
    with simulate(3) as sim:
        group = begin(sim, brokers=3, session_timeout_ms=10_000, request_timeout_ms=12_000)
        faults = inject(
            sim,
            [
                Fault(8, "state", {"log": "offsets(billing)", "state": "no_leader"}),
                Fault(9, "rule", {"api": "Fetch", "hang": True}),
                Fault(9, "cut", {"sender": "c1", "receiver": "*", "both": True}),
                Fault(9, "link", {"sender": "*", "latency_ms": 500.0}),
                Fault(10, "crash", {"host": "broker-1"}),
                Fault(10, "pause", {"host": "c3"}),
                Fault(50, "crash", {"host": "c1"}),
            ],
        )
        sim.run_for(30)
        faults.heal()
        faults.heal()
        sim.run_for(1)
        assert all(host.state == "up" for host in sim.hosts.values())
        assert not group.kafka.conditions.of()
        assert not sim.network.cuts
        assert sim.network.link_of("c1", "p") == sim.network.link
        group.producer.count = group.producer.sent + 1
        assert converge(sim, group.kafka, [ExpectedGroup(GROUP, 3, ("orders",))], 120) < 90
        assert sim.host("c1").state == "up"
        safe(group.consumers, [group.producer], group.kafka)


def test_a_plan_needs_a_cluster() -> None:
    with simulate(1) as sim, pytest.raises(UsageError, match="no cluster"):
        inject(sim, PLAN)


# --- the swarm -----------------------------------------------------------------------------------------------------------


def test_a_seed_draws_the_same_plan_and_others_draw_others() -> None:
    plans = [draw(seed, 30, TARGETS) for seed in range(50)]
    assert plans == [draw(seed, 30, TARGETS) for seed in range(50)]
    assert len({repr(plan) for plan in plans if plan}) == len([plan for plan in plans if plan]) > 40


def test_everything_is_drawn_and_what_is_drawn_can_be_meant() -> None:
    kinds: Counter[str] = Counter()
    sizes: set[int] = set()
    for seed in range(400):
        plan = draw(seed, 30, replace(TARGETS, disk=("", "cached", "synced")[seed % 3]))
        sizes.add(len(plan))
        assert [fault.t_s for fault in plan] == sorted(fault.t_s for fault in plan)
        plan = habits(seed) + plan
        for fault in plan:
            check(fault)
            verdict = next(
                (key for key in fault.args if key.endswith(("error", "_after", "hang", "drop", "delay"))), ""
            )
            kinds[f"{fault.kind} {fault.args.get('state', verdict)}"] += 1
        assert from_json(to_json(plan)) == plan
    assert {f"state {name}" for name in STATES} <= set(kinds)
    assert {kind.split()[0] for kind in kinds} == set(KINDS) - {"lose"}  # nothing acknowledged is lost by chance
    assert {0, 1, 2, 5, 10} <= sizes


@pytest.mark.parametrize(
    ("workload", "api"), [("share-groups", "ShareGroupHeartbeat"), ("streams-groups", "StreamsGroupHeartbeat")]
)
def test_the_heartbeats_of_share_and_streams_groups_are_hit(workload: str, api: str) -> None:
    targets = WORKLOADS[workload].targets()
    rules = [fault.args for seed in range(200) for fault in draw(seed, 30, targets) if fault.kind == "rule"]
    hits = [rule for rule in rules if rule["api"] == api]
    assert {"error", "drop_after"} <= {key for rule in hits for key in rule}


def test_a_rule_may_name_what_the_release_has() -> None:
    rule = Fault(1.0, "rule", {"api": "StreamsGroupHeartbeat", "drop": True})
    assert checked([rule]) == checked([rule], "4.2") == [rule]
    with pytest.raises(UsageError, match=r"Kafka 4\.1 has no API StreamsGroupHeartbeat"):
        checked([rule], "4.1")


def test_a_kind_less_leaves_the_other_faults_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0
    for seed in range(60):
        whole = draw(seed, 30, TARGETS)
        if not 1 < len(whole) < 14:
            continue  # of too many some are left out
        for name in SWARM:
            with monkeypatch.context() as patch:
                patch.setattr("broker_sim.simulation.faults.swarm.SWARM", {k: v for k, v in SWARM.items() if k != name})
                rest = draw(seed, 30, TARGETS)
            assert [fault for fault in whole if fault in rest] == rest
            compared += len(rest) < len(whole)
    assert compared > 20


# --- what must be well ---------------------------------------------------------------------------------------------------


def test_a_group_that_does_not_come_back_is_told_with_what_lacks_and_its_story() -> None:
    with simulate(2) as sim:
        group = begin(sim, session_timeout_ms=10_000)
        group.producer.count = 5
        inject(sim, [Fault(9, "crash", {"host": "c2"}), Fault(10, "state", {"log": "orders-0", "state": "stuck"})])
        sim.run_for(15)
        with pytest.raises(NotAlive) as caught:
            converge(sim, group.kafka, [ExpectedGroup(GROUP, 3, ("orders",))], 30, lambda: "the moon is not blue")
        assert caught.value.lacking == "members"
        for told in ("30 s after", "has 2 members, not 3", "the moon is not blue", "c2"):
            assert told in str(caught.value)


def test_lost_records_and_commits_are_seen() -> None:
    with simulate(2) as sim:
        group = begin(sim)
        group.producer.count = 10
        sim.run_for(25)
        safe(group.consumers, [group.producer], group.kafka)
        (place, value), one = next(iter(group.producer.acked.items())), group.consumers[0]

        def broken(change: Any, back: Any, said: str) -> None:
            change()
            with pytest.raises(Unsafe, match=said):
                safe(group.consumers, [group.producer], group.kafka)
            back()

        nowhere = (0, 10_000)
        broken(
            lambda: group.producer.acked.update({nowhere: b"x"}),
            lambda: group.producer.acked.pop(nowhere),
            "lost record",
        )
        given = DeliveredRecord(1.0, "orders", place[0], place[1], b"other")
        broken(lambda: one.delivered.append(given), one.delivered.pop, "other record")
        broken(
            lambda: group.producer.acked.update({place: b"y"}),
            lambda: group.producer.acked.update({place: value}),
            "was read",
        )
        broken(
            lambda: one.committed.update({("orders", 0): 99}), lambda: None, "lost commit.*99 was acknowledged to c1"
        )
