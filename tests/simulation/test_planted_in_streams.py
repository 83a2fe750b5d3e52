"""Planted bugs in the rules of streams groups (KIP-1071), each found by runs of the workload `streams`: by its members, who check what
they are told, by the reader of the records, or because the group does not come to rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from broker_sim.coordinator.epochs.holdings import covers
from broker_sim.coordinator.epochs.reconcile import LEFT_TEMPORARILY, MemberState
from broker_sim.coordinator.epochs.refused import Refused
from broker_sim.coordinator.epochs.sessions import arm_revocation
from broker_sim.coordinator.streams import advancing, departing, heartbeat
from broker_sim.coordinator.streams.group import ACTIVE, LAYOUT, StreamsGroup, StreamsState
from broker_sim.coordinator.streams.topology import ReceivedTopology
from broker_sim.simulation.sweeps.trial import Case, run
from kafka_wire import offsets_log as types
from kafka_wire.errors import Err
from kafka_wire.messages import offsets_log as log

pytestmark = pytest.mark.slow

Plant = Callable[[pytest.MonkeyPatch], None]
ONE_OWNER = ("a partition has one owner", "a partition is revoked before it is reassigned")
RULES = ("responses follow the coordinator's rules",)


def strangers_are_fenced(patch: pytest.MonkeyPatch) -> None:
    real = heartbeat._admit

    def admit(*args: Any) -> Any:
        try:
            return real(*args)
        except Refused as refused:
            if refused.error is Err.UNKNOWN_MEMBER_ID:
                raise Refused(Err.FENCED_MEMBER_EPOCH, refused.words) from None
            raise

    patch.setattr(heartbeat, "_admit", admit)


def the_epoch_before_needs_no_list(patch: pytest.MonkeyPatch) -> None:
    real = heartbeat._check_epoch

    def check(current: Any, request: Any) -> None:
        if request.member_epoch != current.previous:
            real(current, request)

    patch.setattr(heartbeat, "_check_epoch", check)


def the_epoch_before_is_good_with_any_list(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(heartbeat, "covers", lambda held, some: covers(held, []))


def a_lost_answer_is_not_forgiven(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(heartbeat, "covers", lambda held, some: False)


def epochs_from_the_future_are_taken(patch: pytest.MonkeyPatch) -> None:
    real = heartbeat._check_epoch

    def check(current: Any, request: Any) -> None:
        if request.member_epoch < current.epoch:
            real(current, request)

    patch.setattr(heartbeat, "_check_epoch", check)


def tasks_are_told_each_time(patch: pytest.MonkeyPatch) -> None:
    real = heartbeat._answer
    patch.setattr(heartbeat, "_answer", lambda *args, whole: real(*args, whole=True))


def tasks_are_told_at_the_start_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(heartbeat, "units", lambda held: None)


def who_says_nothing_has_given_up(patch: pytest.MonkeyPatch) -> None:
    real = advancing.reconciled
    patch.setattr(advancing, "reconciled", lambda current, goal, reported: real(current, goal, reported or []))


def what_others_hold_is_given(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StreamsState, "is_taken_from", lambda *args, **named: False)


def a_process_may_have_a_task_twice(patch: pytest.MonkeyPatch) -> None:
    """Active tasks alone are free before they are given."""
    real = StreamsState.is_taken_from

    def is_taken_from(state: Any, member_id: str, key: Any, number: int, *, in_place: bool) -> bool:
        return key.role == ACTIVE and real(state, member_id, key, number, in_place=in_place)

    patch.setattr(StreamsState, "is_taken_from", is_taken_from)


def a_standby_task_is_assigned_beside_the_active_one(patch: pytest.MonkeyPatch) -> None:
    real = advancing.StreamsMember
    patch.setattr(advancing, "StreamsMember", lambda process, *rest: real(f"{process} {rest}", *rest))


def a_task_is_assigned_to_nobody(patch: pytest.MonkeyPatch) -> None:
    real = advancing._units

    def units(assignment: Any) -> Any:
        return real(replace(assignment, active=tuple(task for task in assignment.active if task != ("1", 2))))

    patch.setattr(advancing, "_units", units)


def standby_tasks_are_never_assigned(patch: pytest.MonkeyPatch) -> None:
    real = advancing.assign
    patch.setattr(advancing, "assign", lambda counts, members, standbys: real(counts, members, 0))


def nobody_has_to_give_up_in_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(advancing, "arm_revocation", lambda *args: None)


def the_time_to_give_up_begins_anew(patch: pytest.MonkeyPatch) -> None:
    real = heartbeat.reconcile

    def reconcile(shard: Any, changes: Any, member_id: str, before: Any, reported: Any) -> Any:
        after = real(shard, changes, member_id, before, reported)
        if after.state is MemberState.UNREVOKED:
            arm_revocation(shard, changes.group, member_id, after)
        return after

    patch.setattr(heartbeat, "reconcile", reconcile)


def an_instance_that_is_there_is_taken_over(patch: pytest.MonkeyPatch) -> None:
    real = heartbeat._admit

    def admit(group: Any, request: Any) -> Any:
        holder = group.latest.static_members.get(request.instance_id)
        if request.member_epoch == 0 and holder is not None:
            return holder
        return real(group, request)

    patch.setattr(heartbeat, "_admit", admit)


def who_takes_over_moves_the_group(patch: pytest.MonkeyPatch) -> None:
    real = departing.take_over

    def take_over(shard: Any, changes: Any, *args: Any) -> None:
        real(shard, changes, *args)
        changes.subscription_changed = True

    patch.setattr(departing, "take_over", take_over)


def each_heartbeat_moves_the_group(patch: pytest.MonkeyPatch) -> None:
    real = heartbeat.move_group

    def move(shard: Any, changes: Any, found: Any) -> None:
        changes.subscription_changed = True
        real(shard, changes, found)

    patch.setattr(heartbeat, "move_group", move)


def another_topology_is_taken_for_the_same(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReceivedTopology, "is_same", lambda received, known: True)


def a_later_topology_takes_the_place_of_the_first(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReceivedTopology, "is_same", lambda received, known: True)
    real = heartbeat.move_group

    def move(shard: Any, changes: Any, found: Any) -> None:
        known = changes.group.latest.topology
        later = replace(known, epoch=known.epoch + 1)
        if found.is_ready and known.epoch < 4:
            changes.add(types.STREAMS_GROUP_TOPOLOGY, log.StreamsGroupTopologyKey(changes.group.group_id), later)
        real(shard, changes, found)

    patch.setattr(heartbeat, "move_group", move)


def tasks_that_there_are_not_are_taken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(heartbeat, "_check_tasks", lambda found, reported: None)


def the_initial_delay_never_ends(patch: pytest.MonkeyPatch) -> None:
    def compute(shard: Any, changes: Any, found: Any) -> str:
        changes.group.delayed = True
        return advancing.BY_INITIAL_DELAY

    patch.setattr(heartbeat, "compute_target", compute)


def internal_topics_are_not_created(patch: pytest.MonkeyPatch) -> None:
    real = heartbeat.submit

    def submit(shard: Any, token: Any, changes: Any, answer: Any, refusal: Any = None) -> None:
        real(shard, token, changes, None if answer is None else (answer[0], {}), refusal)

    patch.setattr(heartbeat, "submit", submit)


def commits_of_any_epoch_are_taken(patch: pytest.MonkeyPatch) -> None:
    real = StreamsGroup.validate_commit

    def validate(self: StreamsGroup, request: Any) -> Err:
        error = real(self, request)
        return Err.NONE if error is Err.STALE_MEMBER_EPOCH else error

    patch.setattr(StreamsGroup, "validate_commit", validate)


def records_stand_as_they_come(patch: pytest.MonkeyPatch) -> None:
    real = heartbeat.submit

    def submit(shard: Any, token: Any, changes: Any, *rest: Any) -> None:
        changes.records.sort(key=lambda record: getattr(record, "type", 0) == LAYOUT.target)
        real(shard, token, changes, *rest)

    patch.setattr(heartbeat, "submit", submit)


def a_heartbeat_is_no_sign_of_life(patch: pytest.MonkeyPatch) -> None:
    real = heartbeat.restart_session

    def restart(shard: Any, group: Any, member_id: str) -> None:
        if member_id not in group.stored.members:
            real(shard, group, member_id)

    patch.setattr(heartbeat, "restart_session", restart)


def who_leaves_stays(patch: pytest.MonkeyPatch) -> None:
    real = departing.submit

    def submit(shard: Any, token: Any, changes: Any, answer: Any, refusal: Any = None) -> None:
        if token is None or answer[0].member_epoch == LEFT_TEMPORARILY:
            real(shard, token, changes, answer, refusal)
        else:
            changes.group.latest = changes.group.stored.copy()
            shard.answer(token, answer, refusal)

    patch.setattr(departing, "submit", submit)


@dataclass(frozen=True)
class Planted:
    """Planted bug: one of ``invariants`` is broken, within ``seeds`` runs."""

    plant: Plant
    invariants: tuple[str, ...]
    seeds: int


PLANTED = [
    Planted(strangers_are_fenced, RULES, 3),
    Planted(the_epoch_before_needs_no_list, RULES, 6),
    Planted(the_epoch_before_is_good_with_any_list, RULES, 12),
    Planted(a_lost_answer_is_not_forgiven, ("a valid member epoch is not fenced",), 20),
    Planted(epochs_from_the_future_are_taken, RULES, 3),
    Planted(tasks_are_told_each_time, ("an assignment is sent only when it has changed",), 3),
    Planted(tasks_are_told_at_the_start_alone, ("members", "live members are not evicted"), 6),
    Planted(who_says_nothing_has_given_up, ONE_OWNER, 6),
    Planted(what_others_hold_is_given, ONE_OWNER, 3),
    Planted(a_process_may_have_a_task_twice, ONE_OWNER, 20),
    Planted(a_standby_task_is_assigned_beside_the_active_one, ("the target assignment assigns a partition once",), 10),
    Planted(a_task_is_assigned_to_nobody, ("members",), 2),
    Planted(standby_tasks_are_never_assigned, ("members",), 6),
    Planted(nobody_has_to_give_up_in_time, ("members that revoke nothing are removed",), 20),
    Planted(the_time_to_give_up_begins_anew, ("members that revoke nothing are removed",), 20),
    Planted(an_instance_that_is_there_is_taken_over, ("a group.instance.id has one member",), 40),
    Planted(who_takes_over_moves_the_group, ("the group epoch changes only when the group changes",), 20),
    Planted(each_heartbeat_moves_the_group, ("the group epoch changes only when the group changes",), 2),
    Planted(another_topology_is_taken_for_the_same, RULES, 6),
    Planted(a_later_topology_takes_the_place_of_the_first, ("the stored topology never changes",), 3),
    Planted(tasks_that_there_are_not_are_taken, RULES, 6),
    Planted(the_initial_delay_never_ends, ("members",), 3),
    Planted(internal_topics_are_not_created, ("members",), 3),
    Planted(commits_of_any_epoch_are_taken, ("commits are fenced by member epoch",), 6),
    Planted(records_stand_as_they_come, ("records are written in Kafka's order",), 3),
    Planted(a_heartbeat_is_no_sign_of_life, ("live members are not evicted",), 3),
    Planted(who_leaves_stays, ("members that left are removed",), 6),
]


@pytest.mark.parametrize("planted", PLANTED, ids=lambda each: each.plant.__name__)
def test_a_planted_bug_is_found(
    planted: Planted, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    planted.plant(monkeypatch)
    for seed in range(planted.seeds):
        outcome = run(Case("streams-groups", seed, 10.0))
        if outcome.failure is not None:
            record_property("runs", seed + 1)
            assert any(name in outcome.failure for name in planted.invariants), outcome.text
            return
    pytest.fail(f"{planted.plant.__name__} was not found in {planted.seeds} seeds")


@pytest.mark.parametrize("version", ["4.2", "4.4"])
def test_streams_groups_as_they_are_break_nothing(version: str) -> None:
    for seed in range(20):
        outcome = run(Case("streams-groups", seed, 10.0, as_version=version))
        assert outcome.failure is None, outcome.text
