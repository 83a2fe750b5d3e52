"""The probers of a sweep: what they know is right, and they tell when it is not."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import pytest

from broker_sim.coordinator.transaction import queries
from broker_sim.coordinator.transaction.state import TransactionState
from broker_sim.handlers import k01_fetch, k18_api_versions
from broker_sim.metadata import leader_election, log_maintenance
from broker_sim.metadata.topics import Partition
from broker_sim.requests.context import RequestContext
from broker_sim.simulation import simulate
from broker_sim.simulation.checks.answers import InvariantBroken
from broker_sim.simulation.checks.leaders import Leaders
from broker_sim.simulation.checks.log_model import LogModel, SentRecord
from broker_sim.simulation.faults.kinds import Fault
from broker_sim.simulation.sweeps.trial import Case, run
from broker_sim.simulation.workloads.probing.groups import GroupProber
from broker_sim.simulation.workloads.probing.prober import Calm
from broker_sim.storage import validation
from kafka_wire.errors import Err
from kafka_wire.messages.k15_describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from kafka_wire.messages.k16_list_groups import ListGroupsResponse
from kafka_wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_wire.messages.k65_describe_transactions import TransactionState as Described
from tests.support.sampling import sampled

A, B, C = (SentRecord(1000 + number, b"k", b"value %d" % number) for number in range(3))


def test_a_log_is_what_was_acknowledged() -> None:
    log = LogModel("orders-0")
    log.sent([A, B])
    assert log.acknowledged(0, [A, B]) is None
    assert log.read(0, [(0, A), (1, B)], 2) is None
    assert "was" in (log.read(0, [(0, A), (1, C)], 2) or "")
    assert "left out" in (log.read(0, [(1, B)], 2) or "")
    assert "nothing from 1 on" in (log.read(0, [(0, A)], 2) or "")
    assert "never sent" in (log.read(0, [(0, A), (1, B), (2, C)], 3) or "")


def test_what_is_in_doubt_may_be_there_once() -> None:
    log = LogModel("orders-0")
    log.sent([A])
    log.doubtful()
    assert log.read(0, [(0, A)], 1) is None
    assert "in the log already" in (log.read(0, [(0, A), (1, A)], 2) or "")


def test_compaction_leaves_the_last_of_every_key() -> None:
    log = LogModel("orders-0", compacts=True)
    log.sent([A, B])
    assert log.acknowledged(0, [A, B]) is None
    assert log.read(0, [(1, B)], 2) is None
    assert "compaction took offset 1" in (log.read(0, [(0, A)], 2) or "")


def test_an_exact_log_knows_its_end() -> None:
    log = LogModel("orders-0")
    log.sent([A, B])
    assert log.acknowledged(0, [A]) is None
    assert "the log ended at 1" in (log.acknowledged(2, [B]) or "")


def test_where_an_epoch_began_is_unknown_behind_a_batch_of_an_unknown_epoch() -> None:
    log = LogModel("orders-0")
    log.sent([A, B, C])
    assert log.acknowledged(0, [A], epoch=0) is None
    assert log.acknowledged(1, [B]) is None
    assert log.acknowledged(2, [C], epoch=1) is None
    assert (log.end_of_epoch(0), log.end_of_epoch(1)) == (None, (1, 3))


def test_calm_is_what_no_fault_of_the_plan_touches() -> None:
    now_s = [0.0]
    calm = Calm(
        [Fault(10, "pause", {"host": "c1", "for_s": 2}), Fault(0, "buggify", {"site": "lingers"})], lambda: now_s[0]
    )
    assert calm.odd
    now_s[0] = 9
    assert calm.since(1)
    now_s[0] = 11
    assert not calm.since(10.5)
    now_s[0] = 60
    assert calm.since(40)
    assert not calm.since(11)


def test_a_fault_without_an_end_is_over_when_all_is_healed() -> None:
    now_s = [30.0]
    calm = Calm([Fault(1, "state", {"log": "orders-0", "state": "stuck"})], lambda: now_s[0])
    assert not calm.since(29)
    calm.healed()
    now_s[0] = 40
    assert calm.since(35)


def test_a_disk_that_stalls_does_so_to_its_end_though_all_is_healed_before() -> None:
    now_s = [10.0]
    calm = Calm([Fault(8, "disk", {"what": "stalls", "for_s": 9})], lambda: now_s[0])
    calm.healed()
    now_s[0] = 17.1
    assert not calm.since(14)
    now_s[0] = 30
    assert calm.since(20)


@pytest.mark.parametrize("workload", sampled(["logs", "topics", "lives", "kept"], 2))
def test_the_same_seed_is_the_same_run_and_clean(workload: str) -> None:
    first, second = (run(Case(workload, 3, 2.0)) for _ in range(2))
    assert first.failure is None, first.text
    assert (first.journal_hash, first.schedule_hash) == (second.journal_hash, second.schedule_hash)


Plant = Callable[[pytest.MonkeyPatch], None]


def the_high_watermark_is_told_too_low(patch: pytest.MonkeyPatch) -> None:
    real = k01_fetch.Fetch._read_one

    def read_one(self: k01_fetch.Fetch, *args: object) -> object:
        answer = real(self, *args)  # type: ignore[arg-type]
        return dataclasses.replace(answer, high_watermark=max(0, answer.high_watermark - 1))

    patch.setattr(k01_fetch.Fetch, "_read_one", read_one)


def appends_are_not_told_apart_from_resends(patch: pytest.MonkeyPatch) -> None:
    from broker_sim.storage.producer_state import ProducerState

    patch.setattr(ProducerState, "check", lambda self, header: None)


@pytest.mark.parametrize(
    ("plant", "workload"),
    [(the_high_watermark_is_told_too_low, "logs"), (appends_are_not_told_apart_from_resends, "logs")],
)
def test_a_planted_bug_is_found_in_calm(plant: Plant, workload: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert any(run(Case(workload, seed, 3.0, plan=())).failure is not None for seed in range(3))


def a_reader_is_not_told_where_its_log_parts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(k01_fetch, "_diverging", lambda partition, asked: None)


def records_of_any_time_are_taken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(validation._Records, "_fault_in_time", lambda self, record, time: "")


def a_transaction_is_shown_without_its_partitions(patch: pytest.MonkeyPatch) -> None:
    real = queries.describe

    def describe(shard: TransactionState, transactional_id: str) -> Described:
        return dataclasses.replace(real(shard, transactional_id), topics=[])

    patch.setattr(queries, "describe", describe)


def a_transaction_is_listed_whatever_is_asked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(queries.Filters, "pass_", lambda self, transaction, started_ms, now_ms: True)


def a_version_less_is_spoken(patch: pytest.MonkeyPatch) -> None:
    real = k18_api_versions.handle

    def handle(ctx: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
        answer = real(ctx, request)
        rows = [
            dataclasses.replace(each, max_version=each.max_version - (each.api_key == 3)) for each in answer.api_keys
        ]
        return dataclasses.replace(answer, api_keys=rows)

    patch.setattr(k18_api_versions, "handle", handle)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "workload", "rule"),
    [
        (a_reader_is_not_told_where_its_log_parts, "logs", "a Fetch returns the diverging epoch"),
        (records_of_any_time_are_taken, "logs", "invalid requests are refused"),
        (a_transaction_is_shown_without_its_partitions, "transactions", "transactions are shown as they are"),
        (a_transaction_is_listed_whatever_is_asked, "transactions", "transactions are shown as they are"),
        (a_version_less_is_spoken, "topics", "supported API versions are advertised"),
    ],
)
def test_a_rule_is_broken_by_its_bug(plant: Plant, workload: str, rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    broken = (run(Case(workload, seed, 4.0, plan=())).invariant for seed in range(8))
    assert next((name for name in broken if name is not None), None) == rule


@pytest.mark.parametrize("seed", [7, 20, 25])
def test_a_rebalance_is_not_late_because_the_one_who_waits_was_paused(seed: int) -> None:
    pauses = tuple(Fault(1.5, "pause", {"host": f"c{number}", "for_s": 5.0}) for number in range(1, 6))
    assert run(Case("lives", seed, 8.0, plan=pauses)).failure is None


@pytest.mark.slow
def test_retention_is_looked_at_in_runs_of_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_maintenance.LogMaintenance, "_look_at_retention", lambda self: None)
    broken = (run(Case("logs", seed, 10.0, plan=())).invariant for seed in range(12))
    assert next((name for name in broken if name is not None), None) == "retention deletes expired segments only"


def _leaders(break_it: Callable[[Partition], object]) -> list[str]:
    found: list[InvariantBroken] = []
    with simulate(1, invariants=False) as sim:
        kafka = sim.cluster(3, {"orders": 1}, config={"default.replication.factor": 3})
        leaders = Leaders(lambda: kafka.state, found.append)
        leaders.look()
        leader_election.elect(kafka.state, kafka.log("orders", 0).partition)
        leaders.look()
        assert not found
        break_it(kafka.log("orders", 0).partition)
        leaders.look()
    return [error.name for error in found]


def _follower_is_lost(partition: Partition) -> None:
    partition.isr = [partition.leader]
    partition.partition_epoch += 1


def _other_leader(partition: Partition) -> None:
    partition.leader = next(node for node in partition.replicas if node != partition.leader)


def _older_epoch(partition: Partition) -> None:
    partition.leader_epoch -= 1


def _stranger(partition: Partition) -> None:
    partition.isr = [*partition.isr, 9]
    partition.partition_epoch += 1


@pytest.mark.parametrize(
    ("break_it", "name"),
    [
        (_follower_is_lost, "brokers that are up are in the ISR"),
        (_other_leader, "a new leader has a new leader epoch"),
        (_older_epoch, "leader epochs never decrease"),
        (_stranger, "the ISR is a subset of the replicas"),
    ],
)
def test_what_no_leader_may_be_is_told(break_it: Callable[[Partition], object], name: str) -> None:
    assert name in _leaders(break_it)


def test_a_timer_that_is_late_waits_for_the_sockets_in_a_simulation_too() -> None:
    with simulate(1) as sim:
        kafka = sim.cluster()
        called: list[float] = []
        assert kafka.state.clock.call_after_reading(lambda: called.append(sim.elapsed_s))
        sim.run_for(1)
        assert len(called) == 1


class LookedAt(GroupProber):
    """Asks nobody: the group is there, and ListGroups has ``error`` and no group."""

    def __init__(self, error: Err) -> None:
        self.error, self.rng, self.checked = error, random.Random(1), 0
        self.broken: list[str] = []

    def breach(self, name: str, what: str) -> None:
        self.broken.append(name)

    def pick(self, kind: Any, least: int = 0) -> int:
        return 4

    async def ask_of(
        self, group: str, request: Any, least: int = 0, *, number: int = 0, version: int = -1
    ) -> tuple[Any, int]:
        if isinstance(request, DescribeGroupsRequest):
            return DescribeGroupsResponse(groups=[DescribedGroup(0, group_id=group, group_state="Empty")]), 4
        return ListGroupsResponse(error_code=self.error), 4


@pytest.mark.parametrize(("error", "breaches"), [(Err.COORDINATOR_LOAD_IN_PROGRESS, 0), (Err.NONE, 1)])
async def test_a_list_of_groups_says_nothing_while_a_partition_of_the_broker_loads(error: Err, breaches: int) -> None:
    prober = LookedAt(error)
    prober.rng.choice = lambda options: []  # type: ignore[method-assign]
    await prober.look("billing", "Empty")
    assert prober.broken == ["DescribeGroups matches the group"] * breaches
