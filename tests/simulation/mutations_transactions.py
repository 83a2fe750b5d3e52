"""Planted bugs of transactions, one or more for each of their rules: which version a request is of (KIP-890), when epochs grow, who is
fenced how, what is stable and what is aborted. Each is found by a sweep over one workload within the number of seeds that stands beside
it: with faults as the seed draws them, but for the few that take two of them at once, for which a plan stands here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from broker_sim.coordinator import outcome
from broker_sim.coordinator.classic.group import ClassicGroup
from broker_sim.coordinator.store import GroupStore
from broker_sim.coordinator.transaction import ending, opening, shard
from broker_sim.coordinator.transaction.transaction import DECIDED, State
from broker_sim.handlers import in_transaction, k09_offset_fetch, k24_add_partitions_to_txn, k26_end_txn
from broker_sim.metadata.topics import Partition
from broker_sim.simulation.faults.kinds import Fault
from broker_sim.storage.log import PartitionLog
from kafka_wire.errors import Err
from tests.simulation.mutations import Mutation, Patches

Plan = tuple[Fault, ...]
MUTATIONS: list[tuple[Mutation, str, Plan | None]] = []
"""With the workload that is swept, and the plan of its faults; None: as the seed draws it."""

LEADERLESS: Plan = tuple(
    fault
    for at in (1, 3, 5, 7)
    for fault in (
        Fault(at, "state", {"log": "accounts-0", "state": "no_leader", "for_s": 1.0}),
        *(Fault(at + 0.5, "move", {"log": f"__transaction_state-{index}"}) for index in range(3)),
    )
)
"""Markers that can't be written, and their coordinators move meanwhile."""

AWAY: Plan = tuple(
    Fault(at, "state", {"log": "accounts-1", "state": "no_leader", "for_s": 0.6}) for at in (1, 2, 3, 4, 5, 6, 7, 8, 9)
)
"""Markers that are late, and the next transaction begins meanwhile."""

ABSENT: Plan = tuple(
    Fault(at, "pause", {"host": host, "for_s": 3.5}) for at, host in ((1, "c1"), (1.6, "c2"), (5.5, "c2"), (6.1, "c3"))
)
"""Tellers who come back when their session is over, and their transaction is not."""

Plant = Callable[[Patches], None]


def mutation(seeds: int, workload: str, plan: Plan | None = None) -> Callable[[Plant], Plant]:
    def note(plant: Plant) -> Plant:
        MUTATIONS.append((Mutation(plant.__name__, plant, seeds), workload, plan))
        return plant

    return note


# --- which version a request is of


@mutation(10, "transactions")
def every_end_is_of_version_1(p: Patches) -> None:
    p.put(k26_end_txn, "_BUMPS", 99)


@mutation(10, "transactions")
def every_end_is_of_version_2(p: Patches) -> None:
    p.put(k26_end_txn, "_BUMPS", 0)


@mutation(10, "transactions")
def a_marker_of_version_2_has_its_data_s_epoch(p: Patches) -> None:
    """The epoch grows when all is over, and not with the decision."""
    real = ending._mark

    def mark(state: Any, transaction: Any) -> None:
        real(state, transaction)
        for one in state.out.appends:
            if one.producer.marker is not None and transaction.stored.client_version == 2:
                one.producer = replace(one.producer, epoch=one.producer.epoch - 1)

    p.put(ending, "_mark", mark)


@mutation(10, "transactions")
def an_end_that_comes_again_is_refused(p: Patches) -> None:
    p.put(ending, "_epoch_holds", lambda state, same, again, bumps: same)


# --- who is told what


@mutation(10, "transactions")
def producers_are_told_that_they_are_fenced(p: Patches) -> None:
    p.put(in_transaction._Verification, "_client_error", lambda self, error: error)


@mutation(10, "transactions")
def coordinators_tell_of_an_invalid_epoch(p: Patches) -> None:
    p.put(k24_add_partitions_to_txn, "_KNOWS_FENCED", 99)


@mutation(50, "tellers", AWAY)
def nobody_waits_for_markers(p: Patches) -> None:
    def refusal(state: Any, transaction: Any, body: Any) -> Err:
        if transaction is None:
            return Err.INVALID_PRODUCER_ID_MAPPING
        same = transaction.epoch == body.producer_epoch
        return Err.NONE if same else Err.PRODUCER_FENCED

    real = opening.add_partitions

    def add(state: Any, token: int, body: Any) -> None:
        transaction = state.transactions.get(body.transactional_id)
        if transaction is not None and transaction.stored.state in DECIDED:
            state.reply(token, dict.fromkeys(body.partitions, Err.NONE))
        else:
            real(state, token, body)

    p.put(opening, "_refusal", refusal)
    p.put(opening, "add_partitions", add)


@mutation(10, "transactions")
def every_producer_is_told_in_the_new_way_of_what_was_not_added(p: Patches) -> None:
    real = in_transaction._Verification._client_error

    def told(self: Any, error: Err) -> Err:
        return error if error is Err.TRANSACTION_ABORTABLE else real(self, error)

    p.put(in_transaction._Verification, "_client_error", told)


@mutation(10, "transactions")
def siblings_of_a_partition_that_is_not_there_are_told_that_they_were_added(p: Patches) -> None:
    real = k24_add_partitions_to_txn._response

    def response(version: int, results: Any) -> Any:
        rows = [
            (
                one,
                {at: Err.NONE if error is Err.OPERATION_NOT_ATTEMPTED else error for at, error in told.items()},
                echoes,
            )
            for one, told, echoes in results
        ]
        return real(version, rows)

    p.put(k24_add_partitions_to_txn, "_response", response)


# --- fences


def _without_a_bump(p: Patches, at: str) -> None:
    """Let the handling of ``at`` abort an open transaction under the transaction's own epoch."""
    inside = [False]
    real = ending.replace

    def replace(stored: Any, **changes: Any) -> Any:
        if inside[0] and changes.get("state") is State.PREPARE_ABORT:
            changes["epoch"] = stored.epoch
        return real(stored, **changes)

    def within(of_table: Callable[..., None]) -> Callable[..., None]:
        def done(*args: Any) -> None:
            inside[0] = True
            try:
                of_table(*args)
            finally:
                inside[0] = False

        return done

    p.put(ending, "replace", replace)
    if at == "timeout":
        p.item(shard._TIMERS, at, within(shard._TIMERS[at]))
    else:
        p.put(opening, at, within(getattr(opening, at)))


@mutation(10, "transactions")
def a_fence_needs_no_epoch_of_its_own(p: Patches) -> None:
    _without_a_bump(p, "init_producer_id")


@mutation(10, "transactions")
def a_timeout_fences_nobody(p: Patches) -> None:
    _without_a_bump(p, "timeout")


@mutation(40, "tellers")
def who_begins_anew_commits_what_the_last_one_left(p: Patches) -> None:
    real = ending.replace

    def replace(stored: Any, **changes: Any) -> Any:
        if changes.get("state") is State.PREPARE_ABORT and "started_ms" not in changes:
            changes["state"] = State.PREPARE_COMMIT
        return real(stored, **changes)

    p.put(ending, "replace", replace)


@mutation(50, "tellers", LEADERLESS)
def what_is_decided_is_forgotten_with_its_coordinator(p: Patches) -> None:
    def resume(state: Any, transaction: Any) -> None:
        if transaction.stored.state is State.ONGOING:
            ending.arm_timeout(state, transaction)

    p.put(ending, "resume", resume)


@mutation(10, "tellers")
def one_marker_is_enough(p: Patches) -> None:
    real = ending.send_markers

    def send_markers(state: Any, transaction: Any) -> Any:
        after = real(state, transaction)
        for at in list(transaction.unmarked)[1:]:
            del transaction.unmarked[at]
        state.out.appends[:] = [one for one in state.out.appends if one.to in (None, *transaction.unmarked)]
        return after

    p.put(ending, "send_markers", send_markers)


# --- what is stable


@mutation(10, "tellers")
def all_is_stable(p: Patches) -> None:
    p.put(Partition, "last_stable_offset", property(lambda self: self.high_watermark))


@mutation(10, "tellers")
def readers_are_not_told_of_aborted_transactions(p: Patches) -> None:
    p.put(PartitionLog, "aborted_within", lambda self, offset, size: [])


@mutation(10, "transactions")
def offsets_that_are_staged_are_shown_as_stable(p: Patches) -> None:
    p.put(k09_offset_fetch, "unstable_offsets", lambda state, group: set())


@mutation(10, "transactions")
def everybody_waits_for_what_is_stable(p: Patches) -> None:
    real = k09_offset_fetch._rows

    def rows(state: Any, group_id: str, asked: Any, *, require_stable: bool) -> Any:
        return real(state, group_id, asked, require_stable=True)

    p.put(k09_offset_fetch, "_rows", rows)


@mutation(10, "transactions")
def what_was_staged_always_wins(p: Patches) -> None:
    real = GroupStore.end_transaction

    def end(self: Any, producer_id: int, *, committed: bool) -> None:
        for group_id, topic, partition in self.transactions.get(producer_id, ()):
            self.groups[group_id].pending_txn_offsets[topic, partition].committed_at = -1
        real(self, producer_id, committed=committed)

    p.put(GroupStore, "end_transaction", end)


@mutation(10, "tellers")
def staged_offsets_count_whatever_their_transaction_comes_to(p: Patches) -> None:
    real = GroupStore.end_transaction
    p.put(
        GroupStore, "end_transaction", lambda self, producer_id, *, committed: real(self, producer_id, committed=True)
    )


@mutation(50, "tellers", ABSENT)
def zombies_of_a_generation_stage_offsets(p: Patches) -> None:
    """Accept transactional commits of any generation, which KIP-447 fences."""
    real = ClassicGroup.validate_commit

    def lenient(group: ClassicGroup, request: outcome.CommitOffsets) -> Err:
        error = real(group, request)
        return Err.NONE if request.producer is not outcome.NO_PRODUCER else error

    p.put(ClassicGroup, "validate_commit", lenient)
