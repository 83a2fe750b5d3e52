"""Every kind of shard at every step of random histories, over logs that refuse, hold back and commit late.

1. What is committed is what the log says: after each event the shard equals a follower, which reads the committed records of its log.
2. What is latest is that and the pending records, whichever of them failed before.
3. The shard is a function of its events: another one, given the same, ends in the same state with the same answers.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from broker_sim.common.slices import at_once
from broker_sim.coordinator.epochs.group import EpochGroup
from broker_sim.coordinator.loader import Loader
from broker_sim.coordinator.outcome import Client, Committed, DeleteGroup, DeleteOffsets, Request, TopicsChanged
from broker_sim.coordinator.policy import JAVA, JAVA_SINCE, SCALA, Policy
from broker_sim.coordinator.records import EpochRecord
from broker_sim.coordinator.shard import Shard
from broker_sim.coordinator.share_state import commands
from broker_sim.coordinator.share_state.batches import StateBatch
from broker_sim.coordinator.share_state.shard import ShareStateShard, replay
from broker_sim.coordinator.share_state.state import ShareKey, applied, decode
from broker_sim.coordinator.store import GroupStore
from broker_sim.coordinator.streams.requests import StreamsHeartbeat, reading_tags
from broker_sim.coordinator.streams.topology import receiving
from broker_sim.coordinator.topics import TopicImage
from broker_sim.coordinator.transaction.store import TransactionStore
from broker_sim.simulation.exhaustive.canonical import CanonicalNames, canonical
from kafka_wire.errors import Err
from kafka_wire.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest
from kafka_wire.messages.k88_streams_group_heartbeat import StreamsGroupHeartbeatRequest
from tests.coordinator.consumer.test_histories import History as ConsumerHistory
from tests.coordinator.harness import START_MS, Core, counter_ids
from tests.coordinator.share import test_share_state as states
from tests.coordinator.share.test_share_group import Shared
from tests.coordinator.share.test_share_group import T as SHARED_TOPIC
from tests.coordinator.streams.harness import COUNTING, PLAIN, Streams
from tests.coordinator.test_histories import History
from tests.coordinator.test_loader import Every
from tests.coordinator.test_store import Deleting, DeletingInTransactions, InTransactions
from tests.transactions.harness import World
from tests.transactions.test_histories import History as TransactionHistory
from tests.transactions.test_histories import stored

CLIENT = Client("app", "/127.0.0.1", 1)


class Faults:
    """Faults of a core's log, at random: it refuses appends, holds back what it has, or commits that with too few replicas."""

    def __init__(self, core: Core | states.Core, rng: Random) -> None:
        self.core, self.rng = core, rng

    def act(self) -> None:
        core, rng = self.core, self.rng
        if rng.random() < 0.1:
            core.log_error = rng.choice([Err.NONE, Err.NOT_ENOUGH_REPLICAS, Err.KAFKA_STORAGE_ERROR])
        if rng.random() < 0.15:
            if not core.held:
                core.held = True
            elif rng.random() < 0.8:
                core.heal()
            else:
                core.held, core.high_watermark = False, len(core.log)
                core.step(Committed(core.high_watermark, Err.NOT_ENOUGH_REPLICAS_AFTER_APPEND))


# --- the groups of a shard --------------------------------------------------------------------------------------------


class Follower:
    """Reads the committed records of a core's log, and compares after each step. ``steps``: how often; ``pending``: how often
    something was not committed yet."""

    def __init__(self, core: Core) -> None:
        self.core, self.loader = core, Every(core.settings)
        self.read = self.steps = self.pending = 0
        core.after_step = self.look

    def look(self) -> None:
        core, shard = self.core, self.core.shard
        for offset in range(self.read, core.high_watermark):
            if offset in core.markers:
                producer_id, commits = core.markers[offset]
                self.loader.end_transaction(producer_id, committed=commits)
            else:
                self.loader.add(offset, *core.log[offset], core.producers.get(offset, -1))
        self.read = core.high_watermark
        self.steps += 1
        self.pending += shard.in_flight
        assert committed(shard.store) == committed(self.loader.store)
        for group in shard.groups.values():
            if isinstance(group, EpochGroup):
                assert group.latest == with_pending(shard, group)


def committed(store: GroupStore) -> dict[str, Any]:
    """The hard state of the groups that have any: of an id the group that the log knows."""
    groups = {group_id: store.oldest_deleted(group_id) for group_id in store.pending_deletion}
    rows = {}
    for group_id, group in {**store.groups, **groups}.items():
        assert group is not None
        known = group.stored if not isinstance(group, EpochGroup) or group.stored.is_known else None
        if known is not None or group.offsets or group.pending_txn_offsets:
            rows[group_id] = known, group.offsets, group.pending_txn_offsets
    return rows


def with_pending(shard: Shard, group: EpochGroup[Any]) -> Any:
    """A group's committed state and the pending records."""
    latest = group.stored.copy()
    for write in shard.writes.values():
        for record in write.records:
            if isinstance(record, EpochRecord) and record.group_id == group.group_id:
                latest.replay(record)
    return latest


def picture(shard: Any) -> Any:
    """Everything that a shard knows."""
    return canonical(shard, CanonicalNames((), 0, 0))


def check_events(core: Core) -> None:
    """Let another shard have the core's events."""
    shard, answers = Shard(0, core.settings, counter_ids()), {}
    shard.start(Loader(core.settings).finish(), START_MS)
    for now_ms, event in core.events:
        answers.update(shard.step(event, now_ms).replies)
    assert answers == core.answers
    assert picture(shard) == picture(core.shard)


@pytest.mark.parametrize("kind", [History, Deleting, InTransactions, DeletingInTransactions])
def test_classic_groups(kind: type[History]) -> None:
    steps = pending = 0
    for seed in range(80):
        history = kind(seed)
        if history.core.settings.policy is not JAVA:
            continue
        follower = Follower(history.core)
        history.run(100)
        check_events(history.core)
        steps, pending = steps + follower.steps, pending + follower.pending
    assert steps > pending > 300


@pytest.mark.parametrize("kind", [History, InTransactions])
def test_classic_groups_up_to_3_9_while_the_log_takes_all(kind: type[History]) -> None:
    """Up to 3.9 what failed or came late counts from the next load on, and deletions count before the log has them."""
    steps = 0
    for seed in range(40):
        history = kind(seed)
        if history.core.settings.policy is not SCALA:
            continue
        history.faults = 0.0
        follower = Follower(history.core)
        history.run(100)
        check_events(history.core)
        steps += follower.steps
    assert steps > 1000


@pytest.mark.parametrize("release", [(4, 1), (4, 4)], ids=["4.1", "4.4"])
def test_consumer_groups(release: tuple[int, int]) -> None:
    steps = pending = 0
    for seed in range(12):
        history = ConsumerHistory(seed, release)
        follower = Follower(history.core)
        history.run(150)
        check_events(history.core)
        steps, pending = steps + follower.steps, pending + follower.pending
    assert steps > pending > 100


class Crowd:
    """Members of one group that join, heartbeat with right and wrong epochs, and leave."""

    def __init__(self, core: Any, rng: Random) -> None:
        self.core, self.rng = core, rng
        self.epochs: dict[str, int] = {}
        self.waiting: dict[int, str] = {}

    def request(self, body: Any, member: str | None = None) -> None:
        token = next(self.core.tokens)
        if member is not None:
            self.waiting[token] = member
        self.core.step(Request(token, CLIENT, body))
        for asked, who in list(self.waiting.items()):
            answer = self.core.answers.get(asked)
            if answer is not None:
                del self.waiting[asked]
                answer = answer[0] if isinstance(answer, tuple) else answer
                self.epochs[who] = max(answer.member_epoch, 0) if answer.error_code == Err.NONE else 0

    def member(self) -> tuple[str, int]:
        """A member and the epoch of its next heartbeat: mostly its own."""
        member = self.rng.choice("ABC")
        dice, epoch = self.rng.random(), self.epochs.get(member, 0)
        return member, -1 if dice < 0.08 else epoch + 1 if dice < 0.1 else 0 if dice < 0.13 else epoch

    def act(self) -> None:
        dice = self.rng.random()
        if dice < 0.1:
            self.core.advance(self.rng.choice([1, 500, 3000, 50_000]))
        elif dice < 0.13:
            self.request(DeleteGroup("g"))
        elif dice < 0.16:
            self.request(DeleteOffsets("g", [("t", 0)]))
        else:
            self.beat(*self.member())

    def beat(self, member: str, epoch: int) -> None:
        raise NotImplementedError


class ShareCrowd(Crowd):
    """Members of a share group, whose topics come and go, and whose share coordinators fail."""

    def act(self) -> None:
        if self.rng.random() < 0.05:
            self.core.fail = self.rng.choice([Err.NONE, Err.NONE, Err.COORDINATOR_NOT_AVAILABLE])
        if self.rng.random() < 0.04:
            self.core.step(TopicsChanged({"t": self.rng.choice([None, TopicImage(SHARED_TOPIC, 3)])}))
        super().act()

    def beat(self, member: str, epoch: int) -> None:
        names = self.rng.choice([["t"], ["t"], ["t", "u"], ["u"]]) if epoch == 0 or self.rng.random() < 0.1 else None
        self.request(ShareGroupHeartbeatRequest("g", member, epoch, subscribed_topic_names=names), member)


class StreamsCrowd(Crowd):
    """Members of a streams group, with one topology or another, whose internal topics come and go."""

    def act(self) -> None:
        if self.rng.random() < 0.04:
            self.core.topic(self.rng.choice(["t", "rep", "log"]), self.rng.choice([None, 2, 2, 3]))
        super().act()

    def beat(self, member: str, epoch: int) -> None:
        said: dict[str, Any] = {}
        if epoch == 0:
            topology = self.rng.choice([PLAIN, COUNTING])
            said = {"rebalance_timeout_ms": 2000, "topology": topology, "process_id": f"p-{member}"}
        if epoch == 0 or self.rng.random() < 0.5:
            said |= {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
        request = StreamsGroupHeartbeatRequest("g", member, epoch, **said)
        received = None if request.topology is None else at_once(receiving(request.topology, self.core.shard.topics))
        self.request(StreamsHeartbeat(request, received, at_once(reading_tags(request))), member)


@pytest.mark.parametrize("policy", [policy for _, policy in JAVA_SINCE][:3], ids=lambda policy: policy.name)
@pytest.mark.parametrize(("core", "crowd"), [(Shared, ShareCrowd), (Streams, StreamsCrowd)], ids=["share", "streams"])
def test_share_and_streams_groups(core: Callable[[Policy], Core], crowd: type[Crowd], policy: Policy) -> None:
    steps = pending = epochs = 0
    for seed in range(15):
        rng, made = Random(f"groups {seed}"), core(policy)
        follower, people, faults = Follower(made), crowd(made, rng), Faults(made, rng)
        for _ in range(150):
            faults.act()
            people.act()
        made.log_error = Err.NONE
        made.heal()
        check_events(made)
        steps, pending = steps + follower.steps, pending + follower.pending
        epochs = max([epochs, *people.epochs.values()])
    assert steps > pending > 100
    assert epochs > 5, "the group lives"


# --- states of share partitions ---------------------------------------------------------------------------------------


def test_states_of_share_partitions() -> None:
    steps = pending = 0
    for seed in range(40):
        rng = Random(f"states {seed}")
        core = states.Core(updates_per_snapshot=rng.choice([0, 3, 500]), counts_completed=rng.random() < 0.5)
        faults, read, followed = Faults(core, rng), 0, dict[ShareKey, Any]()

        def look(core: states.Core = core, followed: dict[ShareKey, Any] = followed) -> None:
            nonlocal read, steps, pending
            for key, value in core.log[read : core.high_watermark]:
                replay(followed, decode(key, value))
            read = core.high_watermark
            steps, pending = steps + 1, pending + core.shard.in_flight
            assert core.shard.states == followed
            for key in KEYS:
                assert core.shard.known(key) == latest(core.shard, key)

        core.after_step = look
        start = 0
        for _ in range(80):
            faults.act()
            key = rng.choice(KEYS)
            match rng.randrange(6):
                case 0:
                    core.ask(commands.Initialize(key, rng.randrange(4), rng.choice([-1, start])))
                case 1:
                    core.ask(commands.Delete(key))
                case 2:
                    core.ask(commands.Read(key, rng.randrange(3)))
                case _:
                    start += rng.randrange(2)
                    first = start + rng.randrange(5)
                    batch = StateBatch(first, first + rng.randrange(4), rng.choice([0, 2, 4]), 1)
                    core.ask(commands.Write(key, rng.randrange(4), rng.randrange(3), start, [batch], -1))
        twin, answers = ShareStateShard(0, core.settings), dict[int, Any]()
        for now_ms, event in core.events:
            answers.update(twin.step(event, now_ms).replies)
        assert answers == core.answers
        assert picture(twin) == picture(core.shard)
    assert steps > pending > 300


KEYS = [ShareKey(group, states.TOPIC, number) for group in "gh" for number in range(2)]


def latest(shard: ShareStateShard, key: ShareKey) -> Any:
    """The committed state of a share partition and the pending records."""
    state = shard.states.get(key)
    for write in shard.writes.values():
        if write.record is not None and write.record.key == key:
            state = applied(state, write.record.value)
    return state


# --- transactions -----------------------------------------------------------------------------------------------------


class TransactionFollower:
    """Reads the committed records of a transaction coordinator's log, and compares after each step."""

    def __init__(self, world: World) -> None:
        self.world, self.store = world, TransactionStore()
        self.read = self.steps = self.pending = self.ids = 0
        world.after_step = self.look

    def look(self) -> None:
        world = self.world
        for record in world.records()[self.read : world.high_watermark]:
            self.store.replay(record)
        self.read = world.high_watermark
        self.steps += 1
        self.pending += world.shard.in_flight
        assert stored(world.shard.transactions) == stored(self.store.transactions)
        owners: dict[int, str] = {}
        for name, one in world.shard.transactions.items():
            assert owners.setdefault(one.stored.producer_id, name) == name, "an id is allocated once"
        waiting = {write.transaction.transactional_id for write in world.shard.writes.values()}
        for name, one in world.shard.transactions.items():
            is_ending = bool(one.unmarked) or ("markers", name) in world.timers
            assert (one.pending is not None) == (name in waiting or is_ending)


@pytest.mark.parametrize("release", [(3, 4), (3, 9), (4, 1), (4, 4)], ids=lambda release: ".".join(map(str, release)))
def test_transactions(release: tuple[int, int]) -> None:
    steps = pending = 0
    for seed in range(60):
        history = TransactionHistory(seed, release)
        world = history.world
        follower = TransactionFollower(world)
        history.run(60)
        twin, _ = world.fresh()
        answers = dict[int, Any]()
        for now_ms, event in world.events:
            answers.update(twin.step(event, now_ms).replies)
        assert answers.items() <= world.answers.items()
        assert picture(twin) == picture(world.shard)
        steps, pending = steps + follower.steps, pending + follower.pending
    assert steps > pending > 500
