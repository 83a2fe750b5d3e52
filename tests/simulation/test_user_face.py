"""simulate(faults=...), what it tells, what ends a run, and sim.check."""

from __future__ import annotations

import asyncio
import importlib
import sys
from typing import Any

import pytest

import broker_sim
from broker_sim.common.text import UsageError
from broker_sim.simulation import Fault, InvariantBroken, NotAlive, SimError, Simulation, Swarm, Unsafe, simulate
from broker_sim.simulation.cluster import SimCluster
from broker_sim.simulation.faults.swarm import SWARM
from tests.simulation.workload import GROUP, Group, begin
from tests.support import processes

CRASH = Fault(12.0, "crash", {"host": "c2", "for_s": 5})


def a_group(sim: Simulation, **options: Any) -> Group:
    return begin(sim, brokers=3, every_s=0.2, session_timeout_ms=10_000, **options)


def ends(group: Group, sim: Simulation) -> None:
    """Nothing more is produced."""
    group.producer.count = group.producer.sent + 1
    sim.run_for(2)


# --- plans -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "faults",
    [
        [CRASH],
        [[12.0, "crash", {"host": "c2", "for_s": 5}]],
        [("12s", "crash", {"host": "c2", "for": "5s"})],
        [{"at": 12, "kind": "crash", "host": "c2", "for": "5s"}],
        [{"t_s": 12.0, "kind": "crash", "args": {"host": "c2", "for_s": 5.0}}],
    ],
)
def test_a_plan_can_be_written_in_several_ways_and_is_one(faults: Any) -> None:
    with simulate(1, faults=faults) as sim:
        a_group(sim)
        sim.run_for(15)
        assert sim.faults.plan == sim.faults.begun == [CRASH]
        assert sim.host("c2").state == "crashed"
        sim.run_for(5)
        assert sim.host("c2").state == "up"
        assert sim.faults.skipped == []


def test_a_plan_begins_when_time_first_runs_with_a_cluster_there() -> None:
    with simulate(1, faults=[Fault(1, "pause", {"host": "late"})]) as sim:
        sim.run_for(30)
        sim.cluster()
        host = sim.host("late")
        sim.run_for(0.5)
        assert host.state == "up"
        sim.run_for(1)
        assert host.state == "paused"


def test_what_cannot_be_is_left_out_and_told() -> None:
    with simulate(1, faults=[Fault(1, "crash", {"host": "x"}), Fault(2, "pause", {"host": "x"})]) as sim:
        sim.cluster()
        sim.host("x")
        sim.run_for(3)
        ((fault, why),) = sim.faults.skipped
        assert fault.kind == "pause"
        assert why == "host x is crashed"
        assert str(sim.faults).splitlines()[1].endswith("(left out: host x is crashed)")


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        ([[1, "crsh", {"host": "c1"}]], "no kind of fault 'crsh'; did you mean 'crash'?"),
        ([[1, "crash", {"hosts": "c1"}]], "no argument 'hosts' of the fault 'crash'; did you mean 'host'"),
        ([[1, "crash", {"host": "c1", "resett": True}]], "did you mean 'reset'"),
        ([[1, "state", {"log": "orders-0", "state": "stuk"}]], "no state 'stuk'; did you mean 'stuck'?"),
        ([["soon", "crash", {"host": "c1"}]], "a fault's time: 'soon' is not a duration"),
        ([[-1, "crash", {"host": "c1"}]], "a fault's time: -1 is not a duration"),
        ([["crash", "c1"]], "a fault's time: 'crash' is not a duration"),
        ([{"kind": "crash", "host": "c1"}], "a fault has a time 'at' and a 'kind'"),
        (["crash"], r"a fault is \[seconds, kind, arguments\], not 'crash'"),
        ("crash", "faults= takes a list of faults or a Swarm, not 'crash'"),
        (7, "faults= takes a list of faults or a Swarm, not 7"),
    ],
)
def test_a_fault_that_cannot_be_meant_is_refused_at_once_in_one_line(faults: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught, simulate(1, faults=faults):
        pytest.fail("it was taken")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Fault(1, "crash", {"host": "wroker"}), "crash host wroker: no host 'wroker'; did you mean 'worker'?"),
        (Fault(1, "cut", {"sender": "worker", "receiver": "broker-9"}), "no host 'broker-9'; did you mean 'broker-1'"),
        (Fault(1, "elect", {"log": "odrers-0"}), "no log 'odrers-0'; did you mean 'orders-0'?"),
        (Fault(1, "hang", {"client": "worker", "hang_s": 3}), "no client that can hang"),
    ],
)
def test_a_name_that_nothing_has_ends_the_run_with_the_nearest_one(fault: Fault, message: str) -> None:
    with simulate(1, faults=[fault]) as sim:
        sim.cluster(topics={"orders": 1})
        sim.host("worker")
        with pytest.raises(UsageError) as caught:
            sim.run_for(5)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_faults_without_anything_to_break_are_a_mistake() -> None:
    with pytest.raises(UsageError, match="had no effect"), simulate(1, faults=Swarm()) as sim:
        sim.run_for(1)
    with simulate(1) as sim, pytest.raises(UsageError, match="the simulation has no cluster yet"):
        sim.inject([CRASH])


# --- swarms ----------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_swarm_is_drawn_by_the_seed_and_finds_its_targets() -> None:
    def drawn(seed: int, **options: Any) -> list[Fault]:
        with simulate(seed, faults=Swarm(during="20s", **options)) as sim:
            a_group(sim)
            sim.run_for(0)
            return sim.faults.plan

    plans = [drawn(seed) for seed in range(12)]
    assert plans == [drawn(seed) for seed in range(12)]
    faults = [fault for plan in plans for fault in plan]
    assert len({str(plan) for plan in plans}) > 8
    assert all(0 <= fault.t_s <= 20 for fault in faults)
    hosts = {fault.args["host"] for fault in faults if "host" in fault.args}
    assert hosts <= {"c1", "c2", "c3", "p", "broker-1", "broker-2", "broker-3"}
    later = [fault for seed in range(12) for fault in drawn(seed, after="1m")]
    assert [fault.t_s for fault in later] == [pytest.approx(fault.t_s + 60) for fault in faults]


def test_a_swarm_can_be_of_some_kinds_and_targets() -> None:
    seen: set[str] = set()
    for seed in range(10):
        swarm = Swarm(
            kinds=["client.*", "state.*"], without=["state.slow"], hosts=["c1"], groups=[GROUP], logs=["orders-3"]
        )
        with simulate(seed, faults=swarm) as sim:
            a_group(sim)
            sim.run_for(0)
            for fault in sim.faults.plan:
                assert fault.kind in ("crash", "pause", "restart", "state")
                assert fault.args.get("host", "c1") == "c1"
                assert fault.args.get("log") in (None, "offsets(billing)", "orders-3")
                assert fault.args.get("state") != "slow"
                seen.add(fault.kind)
    assert seen == {"crash", "pause", "restart", "state"}


def test_only_hosts_whose_programs_can_start_again_are_hit() -> None:
    async def nothing() -> None: ...

    with simulate(3, faults=Swarm(kinds=["client.crash"])) as sim:
        sim.cluster()
        sim.spawn("once", nothing())
        sim.spawn("again", nothing)
        sim.run_for(40)
        assert {fault.args["host"] for fault in sim.faults.plan} == {"again"}


def test_groups_that_nobody_named_are_found_when_the_fault_comes() -> None:
    plan = [Fault(0, "elect", {"log": "offsets(*)"}), Fault(20, "elect", {"log": "offsets(*)"})]
    with simulate(1, faults=plan) as sim:
        group = a_group(sim)
        epoch = group.kafka.offsets_log(GROUP).partition.leader_epoch
        sim.run_for(25)
        assert [why for _, why in sim.faults.skipped] == ["no group is there yet"]
        assert group.kafka.offsets_log(GROUP).partition.leader_epoch == epoch + 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kinds": ["client.crsh"]}, "did you mean 'client.crash'"),
        ({"kinds": "client.crash"}, "kinds must be a list of names"),
        ({"during": "0s"}, "during is 0"),
        ({"without": list(SWARM)}, "all kinds of faults are excluded"),
    ],
)
def test_a_swarm_that_cannot_be_meant(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Swarm(**options)


def test_a_swarms_unknown_host_is_told_when_time_first_runs() -> None:
    with simulate(1, faults=Swarm(hosts=["c9"])) as sim:
        a_group(sim)
        with pytest.raises(UsageError, match="no host 'c9'"):
            sim.run_for(1)


def test_plans_can_be_injected_later_and_all_of_them_replaced() -> None:
    def run(instead: list[list[Fault]] | None) -> list[Fault]:
        with simulate(1, faults=[Fault(1, "pause", {"host": "c1", "for_s": 1})], instead=instead) as sim:
            a_group(sim)
            sim.run_for(5)
            sim.inject([[1, "pause", {"host": "c2", "for_s": 1}]])
            sim.run_for(5)
            return sim.faults.begun

    assert [fault.args["host"] for fault in run(None)] == ["c1", "c2"]
    assert [fault.args["host"] for fault in run([[], [Fault(0, "pause", {"host": "c3"})]])] == ["c3"]
    assert run([]) == []


# --- healing and checking --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_heal_ends_whatever_is_broken() -> None:
    plan = [
        Fault(0, "state", {"log": "orders-0", "state": "stuck"}),
        Fault(0, "rule", {"api": "Heartbeat", "hang": True}),
        Fault(0, "cut", {"sender": "c1", "receiver": "*"}),
        Fault(0, "crash", {"host": "c2"}),
        Fault(0, "crash", {"host": "broker-2"}),
        Fault(60, "crash", {"host": "c3"}),
    ]
    with simulate(1, faults=plan) as sim:
        group = a_group(sim)
        kafka = group.kafka
        kafka.fault("Metadata", error="UNKNOWN_SERVER_ERROR", must_hit=False)
        kafka.log("orders", 1).slow("1s")
        sim.run_for(10)
        assert sim.host("c2").state == sim.host("broker-2").state == "crashed"
        sim.heal()
        sim.run_for(60)
        assert kafka.faults.list() == []
        assert not [each for log in kafka.state.topics["orders"].partitions for each in kafka.conditions.of(log)]
        assert {host.state for host in sim.hosts.values()} == {"up"}
        assert not sim.network.cuts


def test_check_heals_and_waits_as_long_as_the_groups_timers_allow() -> None:
    with simulate(
        4, faults=[Fault(5, "crash", {"host": "c1"}), Fault(8, "rule", {"api": "SyncGroup", "hang": True})]
    ) as sim:
        group = a_group(sim, rebalance_timeout_ms=20_000, max_poll_interval_ms=20_000)
        sim.run_for(30)
        ends(group, sim)
        took_s = sim.check(groups={GROUP: 3})
        assert 0 < took_s < 90
        assert sim.check([GROUP]) == sim.check() == 0
        assert group.lost() == set()


@pytest.mark.slow
def test_check_tells_what_is_lacking_and_how_it_came_to_it() -> None:
    with simulate(4) as sim:
        group = a_group(sim)
        sim.run_for(20)
        ends(group, sim)
        began_s = sim.elapsed_s
        with pytest.raises(NotAlive, match=r"group 'billing' has 3 members, not 4: c2-.*\n\n.*billing") as caught:
            sim.check(groups={GROUP: 4}, request_timeout="10s")
        assert caught.value.lacking == "members"
        session_s = rebalance_s = 10
        assert sim.elapsed_s - began_s == pytest.approx(3 * 10 + session_s + 2 * (rebalance_s + 3) + 15, abs=0.6)
        with pytest.raises(NotAlive, match="2 s after everything was healed"):
            sim.check(groups={GROUP: 0}, within="2s")
        with pytest.raises(NotAlive, match="<lambda> does not hold"):
            sim.check(also=lambda: False, within="2s")


@pytest.mark.slow
def test_check_wants_everything_read_and_committed() -> None:
    with simulate(4) as sim:
        group = a_group(sim)
        for one in group.consumers:
            one.work_s = 0.7
        sim.run_for(20)
        with pytest.raises(NotAlive, match=r"has committed \d+ of \d+ in orders-\d+\n.*lag=None") as caught:
            sim.check(groups={GROUP: 3}, within="30s")
        assert caught.value.lacking == "lag"
        assert sim.check(groups={GROUP: 3}, lag=50) == 0
        assert sim.check(groups={GROUP: 3}, lag=None) == 0
        assert group.stable(3)


def test_check_notices_acknowledged_records_that_are_gone() -> None:
    with simulate(4) as sim:
        group = a_group(sim)
        sim.run_for(20)
        ends(group, sim)
        partition = max(group.kafka.state.topics["orders"].partitions, key=lambda each: each.log_end_offset)
        partition.log.truncate_to(partition.log_end_offset - 1)
        partition.high_watermark = partition.log_end_offset
        with pytest.raises(Unsafe, match="lost record: orders-"):
            sim.check(groups={GROUP: 3})


@pytest.mark.slow
def test_a_topic_that_is_deleted_and_made_again_has_lost_nothing() -> None:
    with simulate(4) as sim:
        group = a_group(sim)
        sim.run_for(20)
        group.producer.count = 0
        sim.run_for(2)
        for index in range(12):
            assert group.kafka.log("orders", index).partition.log_end_offset > 0
        group.kafka.state.delete_topic("orders")
        group.kafka.create_topic("orders", 12)
        sim.run_for(20)
        sim.check(lag=None)


def test_check_needs_a_journal_which_may_begin_late() -> None:
    with simulate(4) as sim:
        kafka = sim.cluster(topics={"orders": 12}, journal=False)
        with pytest.raises(UsageError, match="needs a journal"):
            sim.check()
        kafka.observe()
        group = a_group(sim, kafka=kafka)
        sim.run_for(20)
        ends(group, sim)
        assert sim.check(groups={GROUP: 3}) >= 0


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"biling": 3}, "no group 'biling'; did you mean 'billing'"),
        ({"billing": "3"}, "billing: '3' is not a number of members"),
        ("billing", r"groups= is a mapping like \{'billing': 3\}"),
    ],
)
def test_check_refuses_what_cannot_be_meant(groups: Any, message: str) -> None:
    with simulate(4) as sim:
        a_group(sim)
        sim.run_for(10)
        with pytest.raises(UsageError, match=message):
            sim.check(groups=groups)


# --- what ends a run -------------------------------------------------------------------------------------------------------


def test_a_listener_that_raises_ends_the_run_at_the_event() -> None:
    def look(event: dict[str, Any]) -> None:
        if event["event"] == "group" and event["after"]["state"] == "Stable":
            raise ValueError("stable already")

    with simulate(4) as sim:
        sim.watch(look)
        a_group(sim)
        with pytest.raises(ValueError, match="stable already") as caught:
            sim.run_for(60)
        assert 3 < sim.elapsed_s < 12
        (note,) = caught.value.__notes__
        assert note.startswith(f"noticed, {sim.elapsed_s:.3f} s from the beginning, seed 4")


def test_a_listener_of_the_journal_itself_ends_it_too() -> None:
    def look(event: dict[str, Any]) -> None:
        raise ZeroDivisionError

    with simulate(4) as sim:
        sim.cluster(topics={"orders": 1}).journal.subscribe(look)
        sim.note("something")
        with pytest.raises(ZeroDivisionError):
            sim.run_for(1)


def test_a_condition_that_is_to_hold_always() -> None:
    with simulate(4) as sim:
        group = a_group(sim)
        sim.always(lambda: group.producer.sent < 5, "fewer than five records")
        with pytest.raises(AssertionError, match="fewer than five records: does not hold any more"):
            sim.run_for(60)
        assert group.producer.sent == 5


def test_fail_from_a_test_is_raised_when_time_goes_on_or_at_the_end() -> None:
    with simulate(4) as sim:
        sim.fail(KeyError("x"))
        sim.fail(IndexError("the first one counts"))
        with pytest.raises(KeyError):
            sim.run_for(1)
        sim.run_for(1)
    with pytest.raises(KeyError), simulate(4) as sim:
        sim.fail(KeyError("x"))
    with pytest.raises(ZeroDivisionError), simulate(4) as sim:  # noqa: PT012
        sim.fail(KeyError("what the block raises goes first"))
        _ = 1 / 0


def _breaks_a_generation(kafka: SimCluster) -> None:
    kafka.group(GROUP)  # the journal is there
    shard = kafka.runtime.shard(kafka.offsets_log(GROUP).partition.index)
    assert shard is not None
    shard.groups[GROUP].generation = 0


def test_a_broken_invariant_ends_the_run_with_the_groups_story() -> None:
    with simulate(4) as sim:
        group = a_group(sim)
        sim.run_for(15)
        _breaks_a_generation(group.kafka)
        sim.crash("c1", reset=True)
        with pytest.raises(InvariantBroken) as caught:
            sim.run_for(60)
        assert sim.elapsed_s < 40
        assert "billing" in caught.value.__notes__[0]


@pytest.mark.slow
def test_invariants_can_be_waived_by_name_or_left_out() -> None:
    def broken(**options: Any) -> str | None:
        with simulate(4, **options) as sim:
            group = a_group(sim)
            sim.run_for(15)
            _breaks_a_generation(group.kafka)
            try:
                sim.run_for(5)
            except InvariantBroken as error:
                return error.name
            return None

    waived: list[str] = []
    while (name := broken(waive=waived)) is not None:
        assert name not in waived
        waived.append(name)
    assert waived
    assert broken(invariants=False) is None
    with pytest.raises(UsageError, match="waive= must be a list"), simulate(1, waive="generations never decrease"):
        pass
    with (
        simulate(1, waive=["generations grow"]) as sim,
        pytest.raises(UsageError, match="did you mean 'generations never decrease'"),
    ):
        sim.cluster()


def test_a_program_can_be_started_again_when_it_raises() -> None:
    lives: list[float] = []

    async def work() -> None:
        lives.append(asyncio.get_running_loop().time())
        await asyncio.sleep(1)
        if len(lives) == 2:
            raise asyncio.CancelledError  # as aiokafka's stop() may
        raise OSError(f"life {len(lives)}")

    with simulate(1) as sim:
        host = sim.host("w")
        host.spawn(work, again="2s")
        sim.run_for(8)
        assert len(lives) == 3
        assert [(at_s, str(error)) for at_s, error in host.failures] == [(1, "life 1"), (4, ""), (7, "life 3")]
        host.restart()
        sim.run_for(2.5)
        assert len(lives) == 4
        with pytest.raises(UsageError, match="again= is for a function"):
            host.spawn((coro := work()), again=1)
        coro.close()


def test_what_is_no_program_is_told() -> None:
    with simulate(1) as sim:
        with pytest.raises(UsageError, match="or a coroutine, not 7"):
            sim.spawn("x", 7)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="it has returned 5"):
            sim.spawn("x", lambda: 5)  # type: ignore[arg-type, return-value]


def test_a_program_that_ends_as_if_cancelled_is_no_silent_end() -> None:
    async def work() -> None:
        raise asyncio.CancelledError

    async def cancelled() -> None:
        await asyncio.sleep(60)

    with simulate(1) as sim:
        sim.spawn("x", cancelled).cancel()
        sim.run_for(1)
        sim.spawn("w", work, "worker")
        with pytest.raises(SimError, match=r"worker ended by a CancelledError without a call of cancel\(\)"):
            sim.run_for(1)


# --- names -----------------------------------------------------------------------------------------------------------------


def test_public_names() -> None:
    simulation = importlib.import_module("broker_sim.simulation")
    assert broker_sim.simulate is simulation.simulate
    for name in simulation.__all__:
        assert getattr(simulation, name) is not None


def test_the_package_loads_no_simulation_until_it_is_asked_for() -> None:
    code = "import sys, broker_sim; assert not any('simulation' in m for m in sys.modules); broker_sim.simulate"
    done = processes.run([sys.executable, "-c", code])
    assert done.returncode == 0, done.stderr


def test_coroutines_of_the_test_run_under_the_plan_too() -> None:
    async def wait() -> float:
        await asyncio.sleep(3)
        return asyncio.get_running_loop().time()

    with simulate(1, faults=[Fault(1, "pause", {"host": "x"})]) as sim:
        sim.cluster()
        sim.host("x")
        sim.run(wait())
        assert sim.host("x").state == "paused"
