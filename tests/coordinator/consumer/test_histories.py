"""Random histories of consumer groups over a log that is at times stuck or failing: what must hold whatever happens."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from broker_sim.coordinator.consumer.group import ConsumerGroup
from broker_sim.coordinator.epochs.state import EpochState
from broker_sim.coordinator.outcome import DeleteGroup
from kafka_wire.errors import Err
from kafka_wire.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tests.coordinator.consumer.crowd import Crowd
from tests.coordinator.test_store import hard, rebuilt

GROUPS = ("a", "b")
MEMBERS = tuple("ABCDE")


class Consumer:
    """A client as it should be: it holds what it is told, and says that it has given up what it was told to one heartbeat later."""

    def __init__(self, member_id: str) -> None:
        self.member_id, self.epoch = member_id, 0
        self.owned: dict[bytes, list[int]] = {}
        self.waiting: int | None = None  # the token of a heartbeat that has no answer yet
        self.names = ["t", "u"]
        self.unsure = False  # an answer was lost: the next heartbeat says everything, and is told everything


class History:
    """Consumers that come, go, die, change their mind and lose answers, in two groups."""

    def __init__(self, seed: int, release: tuple[int, int]) -> None:
        self.rng = random.Random(seed)
        self.core = Crowd(release, {"t": 3, "u": 2}, assignment_interval_ms=self.rng.choice([0, 1000]))
        self.clients: dict[tuple[str, str], Consumer] = {}
        self.epochs: dict[tuple[str, str], int] = {}
        self.group_epochs: dict[str, tuple[ConsumerGroup, int]] = {}
        self.was_stable = 0
        self.losses = 0.05  # how many answers are lost

    def run(self, steps: int) -> None:
        for _ in range(steps):
            if self.rng.random() < 0.02:
                self.core.log_error = self.rng.choice([Err.NONE, Err.NOT_ENOUGH_REPLICAS])
            if self.rng.random() < 0.03:
                if self.core.held:
                    self.core.heal()
                elif self.core.log_error is Err.NONE:
                    self.core.held = True
            self.act()
            self.hear()
            self.check()

    def settle(self) -> None:
        """The log is well again, and everybody heartbeats."""
        self.core.log_error = Err.NONE
        self.core.heal()
        self.hear()
        self.losses = 0.0
        for _ in range(30):
            self.core.advance(1001)
            for (group, _), client in self.clients.items():
                self.beat(group, client)
            self.hear()
            self.check()
        self.losses = 0.05

    def act(self) -> None:
        group, member = self.rng.choice(GROUPS), self.rng.choice(MEMBERS)
        client = self.clients.get((group, member))
        kind = self.rng.randrange(20)
        if kind == 0:
            self.core.advance(self.rng.choice([1, 500, 2000, 11_000]))
        elif kind == 1:
            self.core.topics({"u": self.rng.choice([None, 2, 5]), "v": self.rng.choice([None, 1])})
        elif kind == 2 and self.rng.random() < 0.3:
            self.core.request(DeleteGroup(group))
        elif client is None:
            client = self.clients[group, member] = Consumer(member)
            self.beat(group, client)
        elif kind == 3:
            del self.clients[group, member]  # dies without a word
        elif kind == 4:
            self.send(group, client, member_epoch=self.rng.choice([-1, -1, client.epoch + 1]))
            del self.clients[group, member]
        elif kind == 5:
            client.epoch = 0  # as one that was fenced
            client.owned = {}
            self.beat(group, client)
        elif kind == 6:
            names = self.rng.choice([["t"], ["u"], ["t", "u"], [], ["v", "t"]])
            self.beat(group, client, subscribed_topic_names=names)
        else:
            self.beat(group, client)

    def beat(self, group: str, client: Consumer, **more: object) -> None:
        if client.waiting is not None:
            return
        client.names = more.get("subscribed_topic_names", client.names)  # type: ignore[assignment]
        if client.epoch == 0 or client.unsure:
            more = {"rebalance_timeout_ms": 3000, "subscribed_topic_names": client.names}
        client.unsure = False
        self.send(group, client, member_epoch=client.epoch, **more)

    def send(self, group: str, client: Consumer, **more: object) -> None:
        owned = [TopicPartitions(topic, list(numbers)) for topic, numbers in client.owned.items()]
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=client.member_id,
            topic_partitions=owned,
            **more,  # type: ignore[arg-type]
        )
        client.waiting = self.core.request(request, version=1)

    def hear(self) -> None:
        for (group, member), client in list(self.clients.items()):
            answer = None if client.waiting is None else self.core.answers.get(client.waiting)
            if answer is None:
                continue
            client.waiting = None
            if answer.error_code in (Err.FENCED_MEMBER_EPOCH, Err.UNKNOWN_MEMBER_ID, Err.GROUP_ID_NOT_FOUND):
                client.epoch, client.owned = 0, {}
            elif answer.error_code == Err.NONE:
                if self.rng.random() < self.losses:
                    client.unsure = True
                    continue  # it is lost
                client.epoch = answer.member_epoch
                if answer.assignment is not None:
                    client.owned = {one.topic_id: one.partitions for one in answer.assignment.topic_partitions}
                self.epochs[group, member] = answer.member_epoch

    def check(self) -> None:
        for group_id in GROUPS:
            group = self.core.shard.groups.get(group_id)
            if not isinstance(group, ConsumerGroup):
                self.group_epochs.pop(group_id, None)
                continue
            for state in (group.stored, group.latest):
                self.check_state(state)
            seen, epoch = self.group_epochs.get(group_id, (group, 0))
            assert group is not seen or group.stored.group_epoch >= epoch, (
                "an epoch went back, and the group is not a new one"
            )
            self.group_epochs[group_id] = group, group.stored.group_epoch
            self.was_stable += group.state_name == "Stable"

    def check_state(self, state: EpochState[bytes, object]) -> None:
        held: dict[tuple[bytes, int], str] = {}
        for member_id, current in state.currents.items():
            assert member_id in state.members
            assert current.epoch <= state.target_epoch <= state.group_epoch or current.epoch < 0
            for part in (current.assigned, current.revoking):
                for topic, numbers in part.items():
                    for number in numbers:
                        assert (topic, number) not in held, f"{topic!r}-{number}: {member_id} and {held[topic, number]}"
                        held[topic, number] = member_id
        owners = {(topic, n): member for topic, holders in state.owners.items() for n, member in holders.items()}
        assert owners == held
        given = [unit for target in state.targets.values() for unit in _units(target.items())]
        assert len(given) == len(set(given)), "a partition is to go to two"


def _units(target: Iterable[tuple[bytes, Iterable[int]]]) -> list[tuple[bytes, int]]:
    return [(topic, number) for topic, numbers in target for number in numbers]


@pytest.mark.parametrize("release", [(4, 1), (4, 4)], ids=["4.1", "4.4"])
@pytest.mark.parametrize("seed", range(25))
def test_no_partition_has_two_owners_and_a_rebuilt_shard_is_equal(release: tuple[int, int], seed: int) -> None:
    history = History(seed, release)
    for _ in range(4):
        history.run(60)
        history.settle()
        core = history.core
        assert hard(core.shard.store) == hard(rebuilt(core))
        for group in core.shard.groups.values():
            if isinstance(group, ConsumerGroup):
                assert group.stored == group.latest
                assert group.stored.named == {}  # counted once, in working state
                assert group.stored.copy().named == group.latest.named
            assert group.state_name in ("Stable", "Empty")
            if isinstance(group, ConsumerGroup):
                assert all(("session", group.group_id, member_id) in core.timers for member_id in group.latest.members)
    assert history.was_stable > 20


@pytest.mark.parametrize("release", [(4, 1), (4, 4)], ids=["4.1", "4.4"])
def test_what_everybody_was_told_is_what_the_coordinator_knows(release: tuple[int, int]) -> None:
    history = History(7, release)
    history.run(100)
    history.settle()
    told = 0
    for (group_id, member), client in history.clients.items():
        group = history.core.consumer(group_id)
        current = group.latest.current(member)
        assert client.epoch == current.epoch
        assert {t: sorted(n) for t, n in client.owned.items()} == {t: list(n) for t, n in current.assigned.items()}
        told += len(client.owned)
    assert told > 0
