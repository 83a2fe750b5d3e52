"""Planted bugs in the rules of share groups (KIP-932), each found by runs of the workload `shares`: by its members, who check what they
are told, or by the reader of the records of the group's state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from broker_sim.coordinator.share_partition.inflight import Delivery, DeliveryState
from broker_sim.coordinator.share_partition.partition import Refusal, SharePartition
from broker_sim.coordinator.share_partition.sessions import ShareSession, ShareSessions
from broker_sim.coordinator.share_partition.transition import Reason, Transition
from broker_sim.coordinator.share_state import shard
from broker_sim.coordinator.share_state.batches import StateBatch
from broker_sim.handlers import share_acknowledging
from broker_sim.runtime.share_partitions import SharePartitions
from broker_sim.simulation.sweeps.trial import Case, run
from kafka_wire.errors import Err

pytestmark = pytest.mark.slow

Plant = Callable[[pytest.MonkeyPatch], None]


def a_session_forgets_a_request(patch: pytest.MonkeyPatch) -> None:
    real = ShareSession.move_on
    patch.setattr(ShareSession, "move_on", lambda self: None if self.epoch == 3 else real(self))


def a_session_takes_requests_of_any_epoch(patch: pytest.MonkeyPatch) -> None:
    real = ShareSessions.resume

    def resume(self: ShareSessions, key: Any, epoch: int) -> Any:
        known = self.get(key)
        return real(self, key, epoch if known is None else known.epoch)

    patch.setattr(ShareSessions, "resume", resume)


def a_session_that_is_not_there_is_of_a_wrong_epoch(patch: pytest.MonkeyPatch) -> None:
    real = ShareSessions.resume

    def resume(self: ShareSessions, key: Any, epoch: int) -> Any:
        found = real(self, key, epoch)
        return Err.INVALID_SHARE_SESSION_EPOCH if found is Err.SHARE_SESSION_NOT_FOUND else found

    patch.setattr(ShareSessions, "resume", resume)


def batches_are_cut(patch: pytest.MonkeyPatch) -> None:
    real = SharePartition.acquire
    patch.setattr(SharePartition, "acquire", lambda self, *args, **how: real(self, *args, **{**how, "exactly": True}))


def a_record_that_somebody_has_is_free(patch: pytest.MonkeyPatch) -> None:
    acquirable = (DeliveryState.AVAILABLE, DeliveryState.ACQUIRED)
    patch.setattr(Delivery, "is_free", property(lambda self: self.state in acquirable and not self.moving))


def anybody_may_speak_of_a_record(patch: pytest.MonkeyPatch) -> None:
    real = SharePartition._acknowledge

    def acknowledge(self: SharePartition, member: str, said: Any, *rest: Any) -> Any:
        owner = next((run[2].member for run in self.locked() if run[0] <= said.first <= run[1]), member)
        return real(self, owner, said, *rest)

    patch.setattr(SharePartition, "_acknowledge", acknowledge)


def what_is_malformed_is_of_a_wrong_state(patch: pytest.MonkeyPatch) -> None:
    real = share_acknowledging.Acknowledging.adding

    def adding(self: Any, parts: Any) -> Any:
        yield from real(self, parts)
        for answer in self.answers.values():
            if answer.error is Err.INVALID_REQUEST:
                answer.error = Err.INVALID_RECORD_STATE

    patch.setattr(share_acknowledging.Acknowledging, "adding", adding)


def a_part_of_a_range_counts(patch: pytest.MonkeyPatch) -> None:
    real, undo = SharePartition.acknowledging, SharePartition.undo

    def acknowledging(self: SharePartition, *args: Any) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(SharePartition, "undo", SharePartition.settle)
            return (yield from real(self, *args))

    assert undo is not None
    patch.setattr(SharePartition, "acknowledging", acknowledging)


def what_lies_below_the_start_is_refused(patch: pytest.MonkeyPatch) -> None:
    real = SharePartition._acknowledge

    def acknowledge(self: SharePartition, member: str, said: Any, *rest: Any) -> Any:
        if said.last < self.start_offset:
            return Refusal(Err.INVALID_RECORD_STATE, None)
        return (yield from real(self, member, said, *rest))

    patch.setattr(SharePartition, "_acknowledge", acknowledge)


def all_locks_end_with_the_first(patch: pytest.MonkeyPatch) -> None:
    real = SharePartition.expire

    def expire(self: SharePartition, now_ms: int) -> list[Transition]:
        ended = real(self, now_ms)
        return ended + self.expire_of({run[2].member for run in self.locked()}) if ended else ended

    patch.setattr(SharePartition, "expire", expire)


def locks_never_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SharePartition, "next_deadline_ms", lambda self: None)


def locks_end_early(patch: pytest.MonkeyPatch) -> None:
    real = SharePartitions.limits
    patch.setattr(SharePartitions, "limits", lambda self, group: replace(real(self, group), lock_ms=400))
    patch.setattr(SharePartitions, "lock_ms", lambda self, group: real(self, group).lock_ms)


def a_release_is_not_counted(patch: pytest.MonkeyPatch) -> None:
    real = SharePartition._move

    def move(self: Any, first: int, last: int, delivery: Any, state: Any, moved: Any, why: Reason, **how: Any) -> None:
        real(
            self,
            first,
            last,
            delivery,
            state,
            moved,
            why,
            uncounted=why is Reason.RELEASED or how.get("uncounted", False),
        )

    patch.setattr(SharePartition, "_move", move)


def records_come_beyond_their_limit(patch: pytest.MonkeyPatch) -> None:
    real = SharePartitions.limits
    patch.setattr(SharePartitions, "limits", lambda self, group: replace(real(self, group), deliveries=100))


def the_start_stays(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SharePartition, "_advance", lambda self: None)


def the_start_passes_what_somebody_has(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Delivery, "is_settled", property(lambda self: self.state is not DeliveryState.AVAILABLE))


def that_a_record_is_acquired_is_stored(patch: pytest.MonkeyPatch) -> None:
    real = Transition.batches

    def batches(self: Transition) -> list[StateBatch]:
        assert real.fget is not None
        return [one._replace(state=one.state or DeliveryState.ACQUIRED) for one in real.fget(self)]

    patch.setattr(Transition, "batches", property(batches))


def a_snapshot_forgets_what_was_said(patch: pytest.MonkeyPatch) -> None:
    real = shard.snapshot
    patch.setattr(shard, "snapshot", lambda state: real(state._replace(batches=state.batches[-1:])))


def what_was_accepted_comes_again_with_another_leader(patch: pytest.MonkeyPatch) -> None:
    real = SharePartition.loaded

    def loaded(policy: Any, limits: Any, start: int, stored: Any) -> SharePartition:
        free = [one._replace(state=0) if one.state == DeliveryState.ACKNOWLEDGED else one for one in stored]
        return real(policy, limits, start, free)

    patch.setattr(SharePartition, "loaded", loaded)


@dataclass(frozen=True)
class Planted:
    """``invariants``: those that may break; ``seeds``: so many runs find it at most."""

    plant: Plant
    invariants: tuple[str, ...]
    seeds: int


HANDS, SESSIONS = "a record is acquired by one member", "share sessions check their epoch"
PLANTED = [
    Planted(a_session_forgets_a_request, (SESSIONS,), 5),
    Planted(a_session_takes_requests_of_any_epoch, (SESSIONS,), 20),
    Planted(a_session_that_is_not_there_is_of_a_wrong_epoch, (SESSIONS,), 20),
    Planted(batches_are_cut, ("batches are acquired whole",), 20),
    Planted(a_record_that_somebody_has_is_free, (HANDS, "the delivery count stays within its limit"), 10),
    Planted(anybody_may_speak_of_a_record, (HANDS, "who has a record may say"), 40),
    Planted(what_is_malformed_is_of_a_wrong_state, ("responses follow the coordinator's rules",), 20),
    Planted(
        a_part_of_a_range_counts, ("answers follow", "who has a record may say", "a start offset passes", "records"), 40
    ),
    Planted(what_lies_below_the_start_is_refused, ("responses follow the coordinator's rules",), 20),
    Planted(all_locks_end_with_the_first, (HANDS, "who has a record may say"), 40),
    Planted(locks_never_end, ("records",), 10),
    Planted(locks_end_early, (HANDS, "who has a record may say"), 40),
    Planted(
        a_release_is_not_counted,
        ("the delivery count never decreases", "the delivery count stays within its limit", "nothing is done"),
        10,
    ),
    Planted(records_come_beyond_their_limit, ("the delivery count stays within its limit",), 10),
    Planted(the_start_stays, ("the share-partition start offset keeps up",), 10),
    Planted(the_start_passes_what_somebody_has, ("the share-partition start offset passes completed records",), 10),
    Planted(that_a_record_is_acquired_is_stored, ("acquired state is never persisted",), 5),
    Planted(
        a_snapshot_forgets_what_was_said,
        ("a share snapshot is complete", "the share-partition start offset passes completed records"),
        20,
    ),
    Planted(
        what_was_accepted_comes_again_with_another_leader,
        ("completed records are never redelivered", "completed records stay completed"),
        40,
    ),
]


@pytest.mark.parametrize("planted", PLANTED, ids=lambda each: each.plant.__name__)
def test_a_planted_bug_is_found(
    planted: Planted, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    planted.plant(monkeypatch)
    for seed in range(planted.seeds):
        outcome = run(Case("share-groups", seed, 10.0))
        if outcome.failure is not None:
            record_property("runs", seed + 1)
            assert any(name in outcome.failure for name in planted.invariants), outcome.text
            return
    pytest.fail(f"{planted.plant.__name__} was not found in {planted.seeds} seeds")


@pytest.mark.parametrize("version", ["4.1", "4.4"])
def test_share_groups_as_they_are_break_nothing(version: str) -> None:
    for seed in range(20):
        outcome = run(Case("share-groups", seed, 10.0, as_version=version))
        assert outcome.failure is None, outcome.text
