"""Random histories of one shard: what must hold whatever happens in whatever order."""

from __future__ import annotations

import random
from typing import Any

import pytest

from broker_sim.coordinator.classic.group import State
from broker_sim.coordinator.loader import Loader
from broker_sim.coordinator.outcome import Heartbeat, LeaveGroup, Leaver, Outcome
from broker_sim.coordinator.policy import JAVA, SCALA, Settings
from broker_sim.coordinator.shard import Shard
from kafka_wire.errors import Err
from kafka_wire.messages.k11_join_group import JoinGroupResponse
from tests.coordinator.harness import START_MS, Core, counter_ids

GROUPS = ("a", "b")


class History:
    """A seeded crowd: well-behaved, stale and hostile members over a log that is at times stuck or failing."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.core = Core(policy=self.rng.choice([SCALA, JAVA]), initial_rebalance_delay_ms=self.rng.choice([0, 300]))
        self.ids: list[str] = ["", "stranger"]
        self.acked: dict[tuple[str, int], int] = {}
        self.maybe: dict[tuple[str, int], set[int]] = {}
        self.commits: dict[int, tuple[str, int, int]] = {}
        self.next_offset = 0
        self.faults = 1.0  # how much of what goes wrong with the log does

    def run(self, steps: int) -> None:
        acts = (
            self.join,
            self.sync,
            self.sync,
            self.sync,
            self.rejoin,
            self.rejoin,
            self.commit,
            self.commit,
            self.beat,
            self.leave,
            self.pass_time,
        )
        for _ in range(steps):
            if self.rng.random() < 0.03 * self.faults:
                self.core.log_error = self.rng.choice([Err.NONE, Err.NOT_ENOUGH_REPLICAS, Err.KAFKA_STORAGE_ERROR])
            if self.rng.random() < 0.05 * self.faults:
                if self.core.held:
                    self.core.heal()
                elif self.core.log_error is Err.NONE:
                    self.core.held = True
            self.rng.choice(acts)()
            self.check()
        self.core.log_error = Err.NONE
        self.core.heal()
        self.core.advance(10_000_000)
        self.check()

    def member(self) -> tuple[str, int, str]:
        """Somebody: mostly a real member with the right generation."""
        group_id = self.rng.choice(GROUPS)
        group = self.core.shard.groups.get(group_id)
        if group is not None and group.members and self.rng.random() < 0.8:
            return self.rng.choice(list(group.members)), group.generation - (self.rng.random() < 0.1), group_id
        return self.rng.choice(self.ids), self.rng.choice([-1, 0, 1, 2]), group_id

    def join(self) -> None:
        member_id, _, group = self.member()
        if self.rng.random() < 0.4:
            member_id = ""
        instance = self.rng.choice([None, None, None, "i1", "i2"])
        rebalance_ms = self.rng.choice([500, 2000])
        token = self.core.join(
            member_id,
            group=group,
            instance=instance,
            version=self.rng.choice([3, 8, 9]),
            session_ms=20_000,
            rebalance_ms=rebalance_ms,
        )
        answer = self.core.answers.get(token)
        if isinstance(answer, JoinGroupResponse) and answer.member_id:
            self.ids.append(answer.member_id)
            if answer.error_code == Err.MEMBER_ID_REQUIRED and self.rng.random() < 0.8:
                self.core.join(answer.member_id, group=group, session_ms=20_000, rebalance_ms=rebalance_ms)

    def rejoin(self) -> None:
        """Everybody who is asked to joins again, as clients do."""
        group_id = self.rng.choice(GROUPS)
        group = self.core.shard.groups.get(group_id)
        if group is not None and group.state is State.PREPARING_REBALANCE:
            for member_id, member in list(group.members.items()):
                if member.join_token is None and member_id in group.members:
                    self.core.join(
                        member_id, group=group_id, instance=member.instance_id, session_ms=20_000, rebalance_ms=2000
                    )

    def sync(self) -> None:
        member_id, generation, group_id = self.member()
        group = self.core.shard.groups.get(group_id)
        if (
            group is not None
            and group.state is State.COMPLETING_REBALANCE
            and group.leader is not None
            and self.rng.random() < 0.7
        ):
            member_id = group.leader
        assignments = {m: f"{generation}:{m}".encode() for m in (group.members if group is not None else ())}
        self.core.sync(member_id, generation, assignments, group=group_id)

    def commit(self) -> None:
        member_id, generation, group = self.member()
        if self.rng.random() < 0.2:
            member_id, generation = "", -1
        self.next_offset += 1
        partition = self.rng.randrange(2)
        token = self.core.commit(self.next_offset, member_id, generation, group=group, partition=partition)
        self.commits[token] = (group, partition, self.next_offset)

    def beat(self) -> None:
        member_id, generation, group = self.member()
        self.core.request(Heartbeat(group, generation, member_id, None))

    def leave(self) -> None:
        if self.rng.random() < 0.2:
            member_id, _, group = self.member()
            self.core.request(LeaveGroup(group, [Leaver(member_id, None)]))

    def pass_time(self) -> None:
        self.core.advance(self.rng.choice([1, 1, 100, 700, 2500]))

    def check(self) -> None:
        core = self.core
        for token, (group, partition, offset) in list(self.commits.items()):
            if token in core.answers:
                del self.commits[token]
                if core.answers[token] is Err.NONE:
                    self.acked[group, partition] = max(offset, self.acked.get((group, partition), -1))
                elif core.answers[token] in (Err.REQUEST_TIMED_OUT, Err.COORDINATOR_NOT_AVAILABLE):
                    self.maybe.setdefault((group, partition), set()).add(offset)
        for group_id, shown in core.shard.groups.items():
            parked = sum(m.join_token is not None for m in shown.members.values())
            assert shown.joining == parked
            assert shown.leader is None if not shown.members else shown.leader in shown.members
            assert set(shown.static_members.values()) <= set(shown.members)
            assert set(shown.pending_sync) <= set(shown.members)
            assert not set(shown.pending_members) & set(shown.members)
            assert (shown.state in (State.EMPTY, State.DEAD)) == (
                not shown.members
            ) or shown.state is State.PREPARING_REBALANCE
            if shown.state is not State.PREPARING_REBALANCE:
                assert parked <= sum(isinstance(w.records, list) for w in core.shard.writes.values())
            assert group_id in GROUPS


@pytest.mark.parametrize("seed", range(60))
def test_acknowledged_commits_survive_and_bookkeeping_holds(seed: int) -> None:
    history = History(seed)
    history.run(150)
    reloaded = history.core.reload()
    for (group, partition), offset in history.acked.items():
        kept = reloaded.offset(group=group, partition=partition)
        assert kept >= offset, f"{group}/{partition}: acknowledged {offset}, after a reload {kept}"
        assert kept == offset or kept in history.maybe.get((group, partition), set())


@pytest.mark.parametrize("seed", range(20))
def test_the_events_alone_rebuild_the_state(seed: int) -> None:
    history = History(seed)
    history.run(120)
    settings: Settings = history.core.settings
    first, second = (replayed(history, settings) for _ in range(2))
    assert first == second == picture(history.core.shard)


def replayed(history: History, settings: Settings) -> Any:
    shard = Shard(0, settings, counter_ids())
    shard.start(Loader(settings).finish(), START_MS)
    for now_ms, event in history.core.events:
        assert isinstance(shard.step(event, now_ms), Outcome)
    return picture(shard)


def picture(shard: Shard) -> Any:
    """Everything that a shard knows, as plain data."""
    return [
        (
            g.group_id, g.state, g.generation, g.protocol, g.leader, g.joining, g.offsets, g.pending_members, g.pending_sync,
            [(m.member_id, m.instance_id, m.assignment, m.protocols, m.join_token, m.sync_token) for m in g.members.values()],
        )
        for g in shard.groups.values()
    ]  # fmt: skip


def test_no_member_waits_for_ever() -> None:
    """Every parked JoinGroup and SyncGroup that the member did not send twice is answered once time has passed."""
    for seed in range(40):
        history = History(seed)
        history.run(100)
        for group in history.core.shard.groups.values():
            waiting = [m.member_id for m in group.members.values() if m.has_deferred_request]
            assert not waiting, f"seed {seed}: {group.group_id} in {group.state.value} holds {waiting}"
