"""Planted bugs: each a switch that makes the broker wrong in one place while its ``with`` block lasts.

``MUTATIONS`` lists them with what is said of each: whether the broker must be watched (a journal) for it to be found or must not be
(the bug is in one of the short ways that are off while a journal watches), and within how many seeds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from broker_sim.coordinator import loader, offsets, shard
from broker_sim.coordinator.classic import joining, membership, syncing
from broker_sim.coordinator.classic.group import ClassicGroup, State
from broker_sim.coordinator.outcome import CommitOffsets, CommitsLogged
from broker_sim.coordinator.records import OffsetRecord
from broker_sim.coordinator.state import ShardState
from broker_sim.runtime import commit_batching, group_coordinator, log_reading
from broker_sim.storage.partition_for import java_hash
from kafka_wire.errors import Err

Undo = Callable[[], object]


class Patches:
    """Replacements that a mutation has made, and how to undo them."""

    def __init__(self) -> None:
        self._undo: list[Undo] = []

    def put(self, owner: Any, name: str, value: Any) -> None:
        if name in vars(owner):
            old = vars(owner)[name]
            self._undo.append(lambda: setattr(owner, name, old))
        else:
            assert hasattr(owner, name), f"{owner} has no {name}"
            self._undo.append(lambda: delattr(owner, name))  # it was a base's
        setattr(owner, name, value)

    def item(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        old = table[key]
        table[key] = value
        self._undo.append(lambda: table.__setitem__(key, old))

    def everywhere(self, function: Any, value: Any) -> None:
        """In every module of the broker that knows it by name."""
        for name, module in list(sys.modules.items()):
            if name.startswith("broker_sim.") and getattr(module, function.__name__, None) is function:
                self.put(module, function.__name__, value)

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()


@dataclass(frozen=True)
class Mutation:
    """``journal``: True, False, or None where both find it. ``seeds``: it is found within so many, from ``first`` on."""

    name: str
    plant: Callable[[Patches], None]
    seeds: int
    journal: bool | None = None
    first: int = 0

    @contextmanager
    def planted(self) -> Iterator[None]:
        patches = Patches()
        try:
            self.plant(patches)
            yield
        finally:
            patches.undo()


MUTATIONS: list[Mutation] = []


def mutation(
    seeds: int, journal: bool | None = None, first: int = 0
) -> Callable[[Callable[[Patches], None]], Callable[[Patches], None]]:
    def note(plant: Callable[[Patches], None]) -> Callable[[Patches], None]:
        MUTATIONS.append(Mutation(plant.__name__, plant, seeds, journal, first))
        return plant

    return note


def _nothing(*args: Any, **kwargs: Any) -> None: ...


# --- commits


@mutation(5)
def zombie_commits_are_taken(p: Patches) -> None:
    p.put(ClassicGroup, "validate_commit", lambda self, request: Err.NONE)


@mutation(5)
def commits_of_an_older_generation_are_taken(p: Patches) -> None:
    real = ClassicGroup.validate_commit

    def lenient(group: ClassicGroup, request: CommitOffsets) -> Err:
        error = real(group, request)
        return Err.NONE if error is Err.ILLEGAL_GENERATION and request.generation < group.generation else error

    p.put(ClassicGroup, "validate_commit", lenient)


@mutation(60)
def an_acked_commit_is_dropped_when_the_generation_moves_during_the_append(p: Patches) -> None:
    begun: dict[int, tuple[Any, int]] = {}
    write = ShardState.write

    def noted(self: ShardState, one: Any) -> None:
        if isinstance(one, offsets.CommitWrite | offsets.CommitBatchWrite):
            group = self.classic(one.records[0].group_id)
            begun[id(one)] = one, -1 if group is None else group.generation
        write(self, one)

    def dropping(real: Callable[..., None], answer: Callable[..., None]) -> Callable[..., None]:
        def done(self: Any, shard: ShardState) -> None:
            group = shard.classic(self.records[0].group_id)
            generation = begun.pop(id(self), (None, -1))[1]
            if group is not None and generation >= 0 and group.generation != generation:
                answer(self, shard)
            else:
                real(self, shard)

        return done

    p.put(ShardState, "write", noted)
    told = lambda self, shard: shard.reply(self.token, Err.NONE)  # noqa: E731
    p.put(offsets.CommitWrite, "done", dropping(offsets.CommitWrite.done, told))
    p.put(
        offsets.CommitBatchWrite,
        "done",
        dropping(offsets.CommitBatchWrite.done, lambda self, s: self._answer(s, Err.NONE)),
    )


@mutation(60)
def a_commit_shows_before_it_is_committed(p: Patches) -> None:
    real = offsets.commit

    def early(shard: ShardState, token: int, client: Any, request: CommitOffsets) -> None:
        real(shard, token, client, request)
        if shard.out.appends:
            for topic, partition, offset in request.offsets:
                shard.store.replay(OffsetRecord(request.group_id, topic, partition, offset))

    p.put(offsets, "commit", early)


@mutation(20, journal=False)
def of_two_repeated_commits_in_a_turn_one_is_forgotten(p: Patches) -> None:
    real, calls = offsets.commits_logged, [0]

    def forgetful(shard: ShardState, event: CommitsLogged) -> None:
        calls[0] += 1
        real(shard, event if calls[0] % 7 else replace(event, commits=event.commits[:-1]))

    p.put(offsets, "commits_logged", forgetful)


# --- generations and members


@mutation(5)
def the_generation_is_not_bumped(p: Patches) -> None:
    real = ClassicGroup.enter

    def enter(self: ClassicGroup, state: State, now_ms: int) -> None:
        real(self, state, now_ms)
        if state is State.COMPLETING_REBALANCE and self.generation > 1:
            self.generation -= 1

    p.put(ClassicGroup, "enter", enter)


@mutation(5)
def the_others_parked_syncs_are_forgotten(p: Patches) -> None:
    real = syncing.answer_sync

    def forgetful(shard: ShardState, member: Any, answer: Any) -> bool:
        leads = any(group.leader == member.member_id for group in shard.classic_groups())
        return real(shard, member, answer) if leads else False

    p.put(syncing, "answer_sync", forgetful)


@mutation(5, journal=True)
def heartbeats_do_not_restart_the_session(p: Patches) -> None:
    p.put(membership, "restart_session", _nothing)
    p.put(ClassicGroup, "session_of", _nothing)


@mutation(20, journal=False)
def repeated_requests_do_not_restart_the_session(p: Patches) -> None:
    p.put(commit_batching, "_restart_session", _nothing)
    real = group_coordinator.GroupCoordinator.unchanged

    def unchanged(self: Any, shard: Any, group_id: str, member_id: str) -> Any:
        function = real(self, shard, group_id, member_id)
        session = self._timers.armed((shard.partition, ("session", group_id, member_id)))
        if function is None:
            return None

        def repeated() -> bool:
            deadline_ms = session.deadline_ms
            fine: bool = function()
            session.deadline_ms = deadline_ms
            return fine

        return repeated

    p.put(group_coordinator.GroupCoordinator, "unchanged", unchanged)


@mutation(20)
def an_expired_member_keeps_its_partitions(p: Patches) -> None:
    p.item(shard._TIMERS, "session", _nothing)


@mutation(40)
def who_owes_a_sync_may_owe_it_for_ever(p: Patches) -> None:
    p.item(shard._TIMERS, "sync", _nothing)


@mutation(40)
def a_replaced_static_member_is_not_fenced(p: Patches) -> None:
    real = ClassicGroup.validate_commit

    def unfenced(group: ClassicGroup, request: CommitOffsets) -> Err:
        error = real(group, request)
        return Err.NONE if error is Err.FENCED_INSTANCE_ID else error

    p.put(ClassicGroup, "validate_commit", unfenced)


@mutation(5)
def a_dynamic_member_joins_without_an_id(p: Patches) -> None:
    p.put(joining, "_KNOWN_ID_SINCE", 99)


@mutation(20)
def who_leaves_is_told_so_and_stays(p: Patches) -> None:
    p.put(membership, "_leave_one", lambda shard, group, leaver, *, rebalance: Err.NONE)


@mutation(5)
def the_leader_is_not_told_of_itself(p: Patches) -> None:
    real = ClassicGroup.described_members
    p.put(ClassicGroup, "described_members", lambda self: [m for m in real(self) if m.member_id != self.leader])


@mutation(10)
def everybody_gets_the_first_ones_assignment(p: Patches) -> None:
    real = syncing.sync_answer
    p.everywhere(real, lambda group, member: real(group, next(iter(group.members.values()))))


@mutation(5)
def member_ids_are_given_again(p: Patches) -> None:
    calls = [0]

    def new_id(rng: Any) -> str:
        calls[0] += 1
        return f"id-{calls[0] % 2}"

    p.put(group_coordinator, "_new_id", new_id)


@mutation(20)
def syncs_of_an_older_generation_are_taken(p: Patches) -> None:
    real = syncing._sync_refusal

    def lenient(group: ClassicGroup, request: Any) -> Err:
        error = real(group, request)
        if error is Err.ILLEGAL_GENERATION and request.generation_id < group.generation and group.state is State.STABLE:
            return Err.NONE
        return error

    p.put(syncing, "_sync_refusal", lenient)


# --- who coordinates, and what it loads


@mutation(5)
def a_negative_hash_is_masked(p: Patches) -> None:
    p.put(group_coordinator, "partition_of", lambda group, count: (java_hash(group) & 0x7FFFFFFF) % count)


@mutation(20)
def two_brokers_own_a_group_after_a_move(p: Patches) -> None:
    real = group_coordinator.GroupCoordinator.locate

    def locate(self: Any, broker: Any, group_id: str) -> Any:
        partition = self.partition_of(group_id)
        if partition is not None and partition.leader >= 0 and partition.leader != broker.node_id:
            broker = self.state.brokers[partition.leader]
        return real(self, broker, group_id)

    p.put(group_coordinator.GroupCoordinator, "locate", locate)


@mutation(10)
def a_log_is_replayed_backwards(p: Patches) -> None:
    real = log_reading.log_batches
    p.put(log_reading, "log_batches", lambda partition: iter(list(real(partition))[::-1]))


@mutation(60)
def a_tombstone_is_ignored_at_load(p: Patches) -> None:
    real = loader.Loader.add

    def lenient(self: Any, log_offset: int, key: Any, value: bytes | None, producer_id: int = -1) -> None:
        if value is not None or int.from_bytes(key[:2], "big") > 1:  # 0 and 1 are the keys of offsets
            real(self, log_offset, key, value, producer_id)

    p.put(loader.Loader, "add", lenient)


@mutation(20)
def the_last_records_of_a_log_are_not_loaded(p: Patches) -> None:
    real = log_reading.log_batches

    def short(partition: Any) -> Iterator[Any]:
        return iter(list(real(partition))[:-3])

    p.put(log_reading, "log_batches", short)


@mutation(40)
def who_is_parked_is_forgotten_when_the_coordinator_moves(p: Patches) -> None:
    def unload(shard: ShardState, group: ClassicGroup) -> None:
        group.end()

    p.item(shard._KINDS, ClassicGroup, shard._KINDS[ClassicGroup]._replace(unload=unload))
