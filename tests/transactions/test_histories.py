"""Random histories of transactions: logs that hold and refuse, partitions without a leader, coordinators that move, time that passes.

What must hold after each, whatever happened:

1. A shard that is rebuilt from its log is equal to the live one.
2. The log goes from state to state as Kafka's TransactionState allows, and a producer id's epochs never go back.
   (An append that the log has although it was refused, or late, is left out: it counts at the next load alone, as in Kafka.)
3. What is decided ends so: a marker of that kind and that epoch is in each partition before the log says that all are.
4. Every request has one answer.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from broker_sim.coordinator.transaction.commands import AddPartitions, EndTransaction, Granted, InitProducerId
from broker_sim.coordinator.transaction.store import TransactionLoader
from broker_sim.coordinator.transaction.transaction import LAST_EPOCH, NO_EPOCH, State, Stored, Transaction
from kafka_wire.errors import Err
from tests.transactions.harness import World

IDS = ["pay", "bill", "ship"]
PARTITIONS = [("orders", 0), ("orders", 1), ("audit", 0), ("__consumer_offsets", 7)]
REFUSALS = [Err.NONE, Err.LEADER_NOT_AVAILABLE, Err.NOT_ENOUGH_REPLICAS, Err.KAFKA_STORAGE_ERROR]
EMPTY, ONGOING = State.EMPTY, State.ONGOING
COMPLETE = {State.COMPLETE_COMMIT, State.COMPLETE_ABORT}
BEFORE = {
    EMPTY: {None, EMPTY, *COMPLETE},
    ONGOING: {EMPTY, ONGOING, *COMPLETE},
    State.PREPARE_COMMIT: {ONGOING},
    State.PREPARE_ABORT: {ONGOING, EMPTY, *COMPLETE},
    State.COMPLETE_COMMIT: {State.PREPARE_COMMIT},
    State.COMPLETE_ABORT: {State.PREPARE_ABORT},
}
"""State -> the states that may stand before it in the log."""


class History:
    """Clients that do this and that, rightly or not, in a world that goes wrong."""

    def __init__(self, seed: int, release: tuple[int, int]) -> None:
        self.rng = Random(seed)
        self.flows = [0, 2] if release >= (4, 0) else [0]
        self.world = World(release, timeout_check_interval_ms=1000)
        self.producers: dict[str, tuple[int, int]] = {}
        self.asked: dict[int, str] = {}

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.rng.choice([self.request] * 12 + [self.log, self.partition, self.time, self.time, self.move])()
        self.heal()

    def request(self) -> None:
        tx = self.rng.choice(IDS)
        producer_id, epoch = self.producers.get(tx, (4001, 0))
        if self.rng.random() < 0.1:
            epoch += self.rng.choice([-1, 1])
        if self.rng.random() < 0.05:
            producer_id += 1
        flow, at = self.rng.choice(self.flows), self.rng.sample(PARTITIONS, self.rng.randint(1, 3))
        kind = self.rng.random()
        if kind < 0.2 or tx not in self.producers:
            expected = self.rng.choice([None, None, (producer_id, epoch)])
            body: object = InitProducerId(tx, self.rng.choice([1500, 60_000]), expected)
        elif kind < 0.6:
            body = AddPartitions(tx, producer_id, epoch, at, client_version=flow)
        elif kind < 0.65:
            body = AddPartitions(tx, producer_id, epoch, at, verify_only=True)
        else:
            body = EndTransaction(tx, producer_id, epoch, self.rng.random() < 0.6, flow)
        token = self.world.start(body)
        self.asked[token] = tx
        self.learn()

    def learn(self) -> None:
        """Clients go on with what they are told."""
        for token, tx in list(self.asked.items()):
            answer = self.world.answers.get(token)
            if answer is None:
                continue
            del self.asked[token]
            if isinstance(answer, Granted) and answer.error is Err.NONE and answer.producer_id >= 0:
                self.producers[tx] = answer.producer_id, answer.epoch

    def log(self) -> None:
        """The shard's own log holds what is appended, or refuses it, or does so no more."""
        world = self.world
        if world.held:
            world.held = False
            world.commit()
        else:
            world.held = self.rng.random() < 0.5
        world.refusing[None] = self.rng.choice([Err.NONE, Err.NONE, Err.NOT_ENOUGH_REPLICAS])

    def partition(self) -> None:
        self.world.refusing[self.rng.choice(PARTITIONS)] = self.rng.choice(REFUSALS)

    def time(self) -> None:
        self.world.advance(self.rng.choice([1, 100, 1700]))

    def move(self) -> None:
        if not self.world.held:
            self.world.load()
            self.learn()

    def heal(self) -> None:
        world = self.world
        world.refusing.clear()
        if world.held:
            world.held = False
            world.commit()
        world.advance(5000)
        self.learn()


def stored(transactions: dict[str, Transaction]) -> dict[str, Stored]:
    """Return the log's state, without the order of the partitions, and without the previous producer id where it may be left out."""
    return {
        name: replace(one.stored, partitions=tuple(sorted(one.stored.partitions)), previous_producer_id=-1)
        for name, one in transactions.items()
        if one.stored.epoch != NO_EPOCH  # an InitProducerId that the log has refused
    }


def _rebuilt(world: World) -> dict[str, Stored]:
    loader = TransactionLoader()
    for offset, pair in enumerate(world.log):
        loader.add(offset, *pair)
    return stored(loader.finish().transactions)


def _look_at_the_log(world: World) -> None:
    last: dict[str, Stored] = {}
    epochs: dict[int, int] = {}
    for record in world.records():
        stored, before = record.value, last.get(record.transactional_id)
        assert stored is not None
        assert (None if before is None else before.state) in BEFORE[stored.state], (before, stored)
        assert stored.epoch >= epochs.get(stored.producer_id, 0), (before, stored)
        assert stored.epoch <= LAST_EPOCH + 1
        epochs[stored.producer_id] = stored.epoch
        if stored.state in COMPLETE:
            assert before is not None
            kind = "commit" if stored.state is State.COMPLETE_COMMIT else "abort"
            written = {
                at
                for at, k, producer, epoch, _ in world.markers
                if (k, producer, epoch) == (kind, before.producer_id, before.epoch)
            }
            assert set(before.partitions) <= written, (before, written)
        last[record.transactional_id] = stored
    open_ = {State.PREPARE_COMMIT, State.PREPARE_ABORT}
    assert not [one for one in last.values() if one.state in open_], "what is decided has ended"


@pytest.mark.parametrize("release", [(3, 4), (4, 1), (4, 4)], ids=lambda release: ".".join(map(str, release)))
def test_a_shard_that_is_rebuilt_from_its_log_is_the_live_one(release: tuple[int, int]) -> None:
    seen: set[State] = set()
    for seed in range(150):
        history = History(seed, release)
        history.run(60)
        assert _rebuilt(history.world) == stored(history.world.shard.transactions), f"seed {seed}"
        _look_at_the_log(history.world)
        assert not history.asked, f"seed {seed}: requests without an answer"
        seen |= {record.value.state for record in history.world.records() if record.value}
    assert seen == set(BEFORE), "the histories went everywhere"
