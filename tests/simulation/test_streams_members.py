"""The workload's members of a streams group: what they take for tasks that they must give up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from broker_sim.simulation.checks.answers import InvariantBroken
from broker_sim.simulation.checks.epochs import Unit
from broker_sim.simulation.checks.streams_log import ACTIVE, STANDBY, StreamsLog, StreamsTaskKey
from broker_sim.simulation.workloads.by_epochs import EpochAnswers, Holdings
from broker_sim.simulation.workloads.by_streams import StreamsGroupMember
from broker_sim.simulation.workloads.raw import GROUP, REBALANCE_MS, RawContext
from broker_sim.simulation.world import Simulation, simulate
from kafka_wire.messages.offsets_log import StreamsGroupMemberMetadataValue

COUNTS = "1"
ACTIVE_0, STANDBY_0 = (StreamsTaskKey(ACTIVE, COUNTS), 0), (StreamsTaskKey(STANDBY, COUNTS), 0)
STANDBY_1 = (StreamsTaskKey(STANDBY, COUNTS), 1)


@contextmanager
def bench(as_version: str) -> Iterator[tuple[Simulation, Holdings, list[InvariantBroken]]]:
    """Simulation of a streams group: the holdings that its members share, and the breaches that they report."""
    with simulate(1) as sim:
        kafka = sim.cluster(1, {"orders": 2}, as_version=as_version)
        kafka.state.ensure_offsets_topic()
        breaches: list[InvariantBroken] = []
        answers = EpochAnswers(kafka.state, lambda: sim.elapsed_s, breaches.append, waive=frozenset())
        partition = answers.partition(GROUP)
        assert partition is not None
        log = StreamsLog(GROUP, lambda: partition, answers.report, 1)
        yield sim, Holdings(log, RawContext(sim, kafka, answers)), breaches


@pytest.mark.parametrize(
    ("as_version", "owned", "assigned", "to_revoke"),
    [
        ("4.4", {STANDBY_0, STANDBY_1}, {ACTIVE_0, STANDBY_1}, set()),  # seed 20261129000665 of streams-groups
        ("4.4", {STANDBY_0, STANDBY_1}, {ACTIVE_0}, {STANDBY_1}),
        ("4.4", {ACTIVE_0}, {STANDBY_0}, {ACTIVE_0}),
        ("4.4", {ACTIVE_0, STANDBY_0}, set(), {ACTIVE_0, STANDBY_0}),
        ("4.2", {STANDBY_0, STANDBY_1}, {ACTIVE_0, STANDBY_1}, {STANDBY_0}),
    ],
    ids=["standby to active", "another standby goes", "active to standby", "all go", "standby to active before 4.4"],
)
def test_a_standby_task_that_becomes_active_is_not_given_up(
    as_version: str, owned: set[Unit], assigned: set[Unit], to_revoke: set[Unit]
) -> None:
    """CurrentAssignmentBuilder of streams groups (4.4): a promoted standby task is not among the tasks pending revocation."""
    with bench(as_version) as (_sim, holdings, _breaches):
        member = StreamsGroupMember(holdings.context, holdings, "c1", None, "process-0")
        member.owned, member.assigned = frozenset(owned), frozenset(assigned)
        assert member._to_revoke() == to_revoke


@pytest.mark.parametrize(("answered_s", "late"), [(0.1, True), (4.0, False)], ids=["at once", "held up"])
def test_the_time_to_give_up_begins_when_the_request_was_handled_at_the_latest(answered_s: float, late: bool) -> None:
    """A heartbeat that a fault holds up may meet a coordinator that has just loaded: seed 715440 of streams-groups."""
    with bench("4.2") as (sim, holdings, breaches):
        member = StreamsGroupMember(holdings.context, holdings, "c1", None, "process-0")
        member.owned, member.assigned = frozenset({ACTIVE_0}), frozenset()
        sim.run_for(answered_s)
        member._check_debt(0.0)
        sim.run_for(REBALANCE_MS / 1000 + 2.0 - answered_s)
        member._check_debt(sim.elapsed_s)
        assert bool(breaches) == late


@pytest.mark.parametrize("removed", [False, True], ids=["a member", "removed meanwhile"])
def test_tasks_in_a_response_that_comes_after_its_member_was_removed_may_be_anothers(removed: bool) -> None:
    """A response that a cut link holds back until the session has expired: seed 911740 of streams-groups."""
    with bench("4.2") as (_sim, holdings, breaches):
        holdings.log.members = {
            name: StreamsGroupMemberMetadataValue() for name in ("c1", "c2") if name == "c2" or not removed
        }
        holdings.take("c2", frozenset({ACTIVE_0}))
        holdings.take("c1", frozenset({ACTIVE_0}))
        assert bool(breaches) == (not removed)
