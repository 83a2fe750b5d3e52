"""Planted bugs in the rules of consumer groups (KIP-848), each found by runs of the workload `consumer-groups`: by its
members, which check their responses, or by the reader of the records."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from broker_sim.coordinator.consumer import (
    advancing,
    classic_members,
    departing,
    heartbeat,
    migration,
    subscriptions,
    timers,
)
from broker_sim.coordinator.consumer.group import LAYOUT, ConsumerGroup
from broker_sim.coordinator.consumer.requests import Refused
from broker_sim.coordinator.epochs.holdings import covers
from broker_sim.coordinator.epochs.reconcile import MemberState
from broker_sim.coordinator.epochs.state import EpochState
from broker_sim.simulation.sweeps.trial import Case, run
from kafka_wire import offsets_log as types
from kafka_wire.errors import Err

pytestmark = pytest.mark.slow

Plant = Callable[[pytest.MonkeyPatch], None]


class _Anything:
    """Equal to all, and different from nothing."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False


def strangers_are_fenced(patch: pytest.MonkeyPatch) -> None:
    real = heartbeat._admit

    def admit(*args: Any) -> None:
        try:
            real(*args)
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


def an_assignment_is_told_each_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(heartbeat, "_is_full", lambda request: True)


def an_assignment_is_told_at_the_start_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(heartbeat, "units", lambda held: None)


def who_says_nothing_has_given_up(patch: pytest.MonkeyPatch) -> None:
    real = advancing.reconciled
    patch.setattr(advancing, "reconciled", lambda current, goal, reported: real(current, goal, reported or []))


def what_others_hold_is_given(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EpochState, "is_taken", lambda self, key, number: False)


def nobody_has_to_give_up_in_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(timers, "arm_revocation", lambda *args: None)


def the_time_to_give_up_begins_anew(patch: pytest.MonkeyPatch) -> None:
    real = heartbeat.reconcile

    def reconcile(shard: Any, changes: Any, member_id: str, before: Any, reported: Any, **more: Any) -> Any:
        after = real(shard, changes, member_id, before, reported, **more)
        if after.state is MemberState.UNREVOKED:
            timers.arm_revocation(shard, changes.group, member_id, after)
        return after

    patch.setattr(heartbeat, "reconcile", reconcile)


def an_instance_that_is_there_is_taken_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(heartbeat, "LEFT_TEMPORARILY", _Anything())


def who_takes_over_moves_the_group(patch: pytest.MonkeyPatch) -> None:
    real = heartbeat._take_over

    def take_over(shard: Any, changes: Any, *args: Any) -> None:
        real(shard, changes, *args)
        changes.subscription_changed = True

    patch.setattr(heartbeat, "_take_over", take_over)


def names_in_another_order_are_other_names(patch: pytest.MonkeyPatch) -> None:
    real = heartbeat._put_member

    def say(shard: Any, changes: Any, client: Any, request: Any, *args: Any) -> None:
        real(shard, changes, client, request, *args)
        changes.subscription_changed |= (request.subscribed_topic_names or []) != sorted(
            request.subscribed_topic_names or []
        )

    patch.setattr(heartbeat, "_put_member", say)


def expressions_match_nothing(patch: pytest.MonkeyPatch) -> None:
    class Nothing:
        def matcher(self) -> Nothing:
            return self

        def matching(self, name: str) -> Iterator[bool]:
            return iter([False])

    def compiling(text: str) -> Generator[None, None, Nothing]:
        yield
        return Nothing()

    patch.setattr(subscriptions, "compiling", compiling)


def expressions_are_looked_at_once(patch: pytest.MonkeyPatch) -> None:
    real = subscriptions.maybe_refresh

    def refresh(shard: Any, group: ConsumerGroup, *args: Any) -> None:
        if any(text not in group.latest.matched for text in group.latest.patterns):
            real(shard, group, *args)

    patch.setattr(heartbeat.subscriptions, "maybe_refresh", refresh)


def commits_without_epochs_are_taken(patch: pytest.MonkeyPatch) -> None:
    real = ConsumerGroup.validate_commit

    def validate(self: ConsumerGroup, request: Any) -> Err:
        return real(self, replace(request, epoch_errors=True))

    patch.setattr(ConsumerGroup, "validate_commit", validate)


def commits_of_any_epoch_are_taken(patch: pytest.MonkeyPatch) -> None:
    real = ConsumerGroup.validate_commit

    def validate(self: ConsumerGroup, request: Any) -> Err:
        error = real(self, request)
        return Err.NONE if error is Err.STALE_MEMBER_EPOCH else error

    patch.setattr(ConsumerGroup, "validate_commit", validate)


def records_stand_as_they_come(patch: pytest.MonkeyPatch) -> None:
    real = heartbeat.submit

    def submit(shard: Any, token: Any, changes: Any, *rest: Any) -> None:
        changes.records.sort(key=lambda record: getattr(record, "type", 0) == LAYOUT.target)
        real(shard, token, changes, *rest)

    patch.setattr(heartbeat, "submit", submit)


def a_classic_group_keeps_members_by_epochs(patch: pytest.MonkeyPatch) -> None:
    real = migration.to_classic

    def to_classic(*args: Any) -> Any:
        made, records = real(*args)
        return made, [one for one in records if getattr(one, "type", 0) != types.CONSUMER_GROUP_MEMBER_METADATA]

    patch.setattr(departing.migration, "to_classic", to_classic)


def a_heartbeat_is_no_sign_of_life(patch: pytest.MonkeyPatch) -> None:
    real = heartbeat.restart_session

    def restart(shard: Any, group: Any, member_id: str) -> None:
        if member_id not in group.stored.members:
            real(shard, group, member_id)

    patch.setattr(heartbeat, "restart_session", restart)


def who_leaves_stays(patch: pytest.MonkeyPatch) -> None:
    real = departing.go

    def go(shard: Any, token: Any, group: Any, member_ids: Any, answer: Any, refusal: Any) -> None:
        if token is None:
            real(shard, token, group, member_ids, answer, refusal)
        else:
            shard.answer(token, answer, refusal)

    patch.setattr(departing, "go", go)


def classic_members_are_never_told_to_join(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(classic_members, "_waits", lambda *args: True)
    real = classic_members.heartbeat

    def beat(shard: Any, token: int, client: Any, request: Any) -> None:
        group = shard.groups[request.group_id]
        if request.member_id in group.latest.members:
            shard.arm(("session", group.group_id, request.member_id), 2000)
            shard.answer(token, Err.NONE)
        else:
            real(shard, token, client, request)

    patch.setattr(classic_members, "heartbeat", beat)


@dataclass(frozen=True)
class Planted:
    """Planted bug: one of ``invariants`` is broken, within ``seeds`` runs."""

    plant: Plant
    invariants: tuple[str, ...]
    seeds: int


PLANTED = [
    Planted(strangers_are_fenced, ("responses follow the coordinator's rules",), 3),
    Planted(the_epoch_before_needs_no_list, ("responses follow the coordinator's rules",), 6),
    Planted(the_epoch_before_is_good_with_any_list, ("responses follow the coordinator's rules",), 6),
    Planted(a_lost_answer_is_not_forgiven, ("a valid member epoch is not fenced",), 20),
    Planted(epochs_from_the_future_are_taken, ("responses follow the coordinator's rules",), 3),
    Planted(an_assignment_is_told_each_time, ("an assignment is sent only when it has changed",), 2),
    Planted(an_assignment_is_told_at_the_start_alone, ("members", "live members are not evicted"), 3),
    Planted(who_says_nothing_has_given_up, ("a partition is revoked before it is reassigned",), 6),
    Planted(what_others_hold_is_given, ("a partition has one owner",), 2),
    Planted(nobody_has_to_give_up_in_time, ("members that revoke nothing are removed",), 50),
    Planted(the_time_to_give_up_begins_anew, ("members that revoke nothing are removed",), 50),
    Planted(an_instance_that_is_there_is_taken_over, ("a group.instance.id has one member",), 40),
    Planted(who_takes_over_moves_the_group, ("the group epoch changes only when the group changes",), 10),
    Planted(names_in_another_order_are_other_names, ("the group epoch changes only when the group changes",), 10),
    Planted(expressions_match_nothing, ("members",), 4),
    Planted(expressions_are_looked_at_once, ("members",), 8),
    Planted(commits_without_epochs_are_taken, ("commits are fenced by member epoch",), 4),
    Planted(commits_of_any_epoch_are_taken, ("commits are fenced by member epoch",), 4),
    Planted(records_stand_as_they_come, ("records are written in Kafka's order",), 2),
    Planted(a_classic_group_keeps_members_by_epochs, ("a group has one type",), 40),
    Planted(a_heartbeat_is_no_sign_of_life, ("live members are not evicted",), 3),
    Planted(who_leaves_stays, ("members that left are removed",), 4),
    Planted(classic_members_are_never_told_to_join, ("members",), 40),
]


@pytest.mark.parametrize("planted", PLANTED, ids=lambda each: each.plant.__name__)
def test_a_planted_bug_is_found(
    planted: Planted, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    planted.plant(monkeypatch)
    for seed in range(planted.seeds):
        outcome = run(Case("consumer-groups", seed, 10.0))
        if outcome.failure is not None:
            record_property("runs", seed + 1)
            assert any(name in outcome.failure for name in planted.invariants), outcome.text
            return
    pytest.fail(f"{planted.plant.__name__} was not found in {planted.seeds} seeds")


@pytest.mark.parametrize("version", ["4.1", "4.4"])
def test_the_coordinator_as_it_is_breaks_nothing(version: str) -> None:
    for seed in range(20):
        outcome = run(Case("consumer-groups", seed, 10.0, as_version=version))
        assert outcome.failure is None, outcome.text
