"""More planted bugs, found by whole runs of a sweep: of clients, of producers, and of the two ways that requests take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from broker_sim.coordinator import offsets
from broker_sim.coordinator.classic import joining, membership
from broker_sim.coordinator.classic.group import State
from broker_sim.coordinator.outcome import CommitOffsets
from broker_sim.coordinator.state import ShardState
from broker_sim.handlers import k09_offset_fetch
from broker_sim.simulation.faults.kinds import Fault
from broker_sim.simulation.sweeps.trial import Case, run
from broker_sim.simulation.workloads.programs import Consumer
from broker_sim.storage.producer_state import ProducerState
from kafka_wire.errors import Err

pytestmark = pytest.mark.slow

Plant = Callable[[pytest.MonkeyPatch], None]


def consumers_commit_before_they_read(patch: pytest.MonkeyPatch) -> None:
    """At most once instead of at least once."""

    async def turn(self: Consumer, consumer: Any) -> None:
        batches = await consumer.getmany(timeout_ms=1000)
        if batches:
            await consumer.commit({partition: records[-1].offset + 1 for partition, records in batches.items()})
        for (topic, index), records in batches.items():
            assert self.gave is not None
            self.gave(self.group, topic, index, [record.offset for record in records], self.host.name)

    patch.setattr(Consumer, "_turn", turn)


def who_takes_over_begins_one_behind(patch: pytest.MonkeyPatch) -> None:
    real = k09_offset_fetch._shown

    def shown(of_topic: Any, of_partition: Any, rows: Any, pace: Any) -> Any:
        topics = yield from real(of_topic, of_partition, rows, pace)
        for topic in topics:
            for answer in topic.partitions:
                answer.committed_offset += answer.committed_offset > 0
        return topics

    patch.setattr(k09_offset_fetch, "_shown", shown)


def repeated_batches_are_taken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerState, "check", lambda self, header: None)


def an_answer_is_remembered_too_long(patch: pytest.MonkeyPatch) -> None:
    real = k09_offset_fetch._unchanged

    def unchanged(connection: Any, version: int, request: Any) -> Any:
        return None if real(connection, version, request) is None else lambda: True

    patch.setattr(k09_offset_fetch, "_unchanged", unchanged)


def a_heartbeat_by_the_general_way_is_no_sign_of_life(patch: pytest.MonkeyPatch) -> None:
    """Nor is a commit. What is remembered of both, which members take, is right: only who is sent the other way each time meets it."""
    patch.setattr(membership, "restart_session", lambda shard, group, member: None)
    real = offsets._refusal

    def refusal(shard: ShardState, request: CommitOffsets) -> Err:
        armed = len(shard.out.timers)
        error = real(shard, request)
        del shard.out.timers[armed:]
        return error

    patch.setattr(offsets, "_refusal", refusal)


def a_rebalance_always_takes_its_whole_timeout(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(joining, "try_complete_join", lambda shard, group: None)


def a_leader_that_joins_again_changes_nothing(patch: pytest.MonkeyPatch) -> None:
    real = joining._join_known

    def join(shard: Any, group: Any, token: int, client: Any, request: Any) -> Any:
        member = group.members.get(request.member_id)
        if member is not None and group.state is State.STABLE and group.leader == member.member_id:
            return joining.join_answer(shard, group, member, client.api_version)
        return real(shard, group, token, client, request)

    patch.setattr(joining, "_join_known", join)


@dataclass(frozen=True)
class Planted:
    """``invariants``: one of them is broken, within ``seeds`` runs of the case."""

    plant: Plant
    case: Case
    invariants: tuple[str, ...]
    seeds: int


TAKEOVER = (Fault(7.0, "crash", {"host": "c1", "for_s": 20}),)
LOST_ANSWERS = (Fault(1.0, "rule", {"api": "Produce", "drop_after": True, "probability": 0.3, "for_s": 8}),)
ODD = (Fault(0.0, "buggify", {"site": "takes no short way", "probability": 1.0}),)

PLANTED = [
    Planted(consumers_commit_before_they_read, Case("group", 0, 8.0, journal=True, plan=()), ("committed offsets have been read",), 2),
    Planted(who_takes_over_begins_one_behind, Case("group", 0, 12.0, journal=False, plan=TAKEOVER), ("no record is skipped",), 4),
    Planted(repeated_batches_are_taken, Case("idempotent", 0, 10.0, journal=True, plan=LOST_ANSWERS), ("sequence", "record twice"), 4),
    Planted(
        a_rebalance_always_takes_its_whole_timeout,
        Case("hostile", 0, 8.0, journal=True),
        ("the join phase ends when all members have joined",),
        4,
    ),
    Planted(
        a_leader_that_joins_again_changes_nothing,
        Case("hostile", 0, 8.0, journal=True),
        ("responses follow the coordinator's rules",),
        10,
    ),
    Planted(
        an_answer_is_remembered_too_long,
        Case("hostile", 0, 10.0, journal=False),
        ("acknowledged commits are never lost or regressed",),
        20,
    ),
    Planted(
        a_heartbeat_by_the_general_way_is_no_sign_of_life,
        Case("hostile", 0, 8.0, journal=False, plan=ODD),
        ("live members are not evicted", "members"),
        6,
    ),
]  # fmt: skip


@pytest.mark.parametrize("planted", PLANTED, ids=lambda each: each.plant.__name__)
def test_a_planted_bug_is_found(
    planted: Planted, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    planted.plant(monkeypatch)
    for seed in range(planted.seeds):
        outcome = run(replace(planted.case, seed=seed))
        if outcome.failure is not None:
            record_property("runs", seed + 1)
            assert any(name in outcome.failure for name in planted.invariants), outcome.text
            return
    pytest.fail(f"{planted.plant.__name__} was not found in {planted.seeds} seeds")


@pytest.mark.parametrize("planted", PLANTED, ids=lambda each: each.plant.__name__)
def test_the_same_runs_are_clean_without_it(planted: Planted) -> None:
    for seed in range(3):
        outcome = run(replace(planted.case, seed=seed))
        assert outcome.failure is None, outcome.text


def test_a_bug_of_the_general_way_stays_hidden_while_all_take_the_short_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bugs of this kind are the purpose of the site "takes no short way"."""
    a_heartbeat_by_the_general_way_is_no_sign_of_life(monkeypatch)
    calm = Case("cooperative", 0, 8.0, journal=False, plan=())
    found = {bool(run(replace(calm, seed=seed, plan=plan)).failure) for seed in range(3) for plan in ((), ODD)}
    assert found == {False, True}
