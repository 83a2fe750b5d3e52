"""The life of a cluster's metadata on a simulated disk: topics are made, grow, are altered and deleted, records come and producer
ids go, the disk refuses things, and the process dies in the midst of any call, again and again. A model knows what must be there then.

    metadata_life(seed, sync=False, power=True)     # None, or what is not as it must be; power: the deaths are of the machine
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from broker_sim.common.clock import ManualClock
from broker_sim.config.settings import BrokerConfig
from broker_sim.metadata.cluster_state import ClusterState, KafkaError
from broker_sim.metadata.meta_files import StoreError, find_partitions
from broker_sim.metadata.topics import Partition
from broker_sim.simulation.virtual.disk import ProcessKilled, SimDisk
from broker_sim.storage import StorageError
from kafka_wire.record_batch import RecordBatchError, build_batch
from tests.storage.batches import NOW_MS

HOME = Path("/data")
NAMES = ("orders", "audit", "a.b", "x-1")


@dataclass(frozen=True)
class Known:
    """A topic as it was acknowledged."""

    partitions: int
    configs: dict[str, str]
    topic_id: bytes


Topics = dict[str, Known]


@dataclass
class Model:
    """State that is acknowledged, that the call under way may leave, and that a refused call may leave after a loss of power."""

    topics: Topics = field(default_factory=dict)
    coming: Topics | None = None
    unsure: list[Topics] = field(default_factory=list)
    values: dict[bytes, dict[int, list[bytes]]] = field(default_factory=dict)
    ids: int = -1


class Life:
    """See the module."""

    def __init__(self, seed: object, sync: bool, power: bool) -> None:
        self.rng = random.Random(f"{seed} metadata")
        self.sync, self.power, self.seed = sync, power, seed
        self.disk = SimDisk(seed)
        self.model = Model()
        self.machine_died = False
        self.number = 0
        self.state: ClusterState

    def open(self) -> None:
        """Raises ProcessKilled, and what a start must not raise."""
        self.number += 1
        clock = ManualClock(NOW_MS + self.number)
        state = ClusterState(
            BrokerConfig({}, "4.1"),
            clock,
            data_dir=HOME,
            rng=random.Random(f"{self.seed} ids {self.number}"),
            sync=self.sync,
            files=self.disk,
        )
        for node in (1, 2):
            state.add_broker(node, "localhost", 9000 + node)
        state.load()
        self.state = state

    def die(self) -> None:
        self.machine_died = self.machine_died or self.power
        self.disk = self.disk.power_lost() if self.power else self.disk.killed()

    # --- what happens

    def step(self) -> None:
        """Raises ProcessKilled."""
        draw, rng, model = self.rng.random(), self.rng, self.model
        name = rng.choice(NAMES)
        known = model.topics.get(name)
        if draw < 0.35:
            self._append()
        elif draw < 0.4:
            found = self.state.next_producer_id()
            assert found > model.ids, f"producer id {found} after {model.ids}"
            model.ids = found
        elif draw < 0.45:
            self.state.run_log_maintenance(NOW_MS)
        elif draw < 0.5 and known is not None:
            partition = self.state.topics[name].partitions[0]
            self.state.set_leader(partition, 3 - partition.leader)
        elif draw < 0.55:
            for partition in self.state.partitions():
                partition.log.roll(NOW_MS)
        else:
            self._change(name, known)

    def _change(self, name: str, known: Known | None) -> None:
        rng, model, state = self.rng, self.model, self.state
        fault = rng.choice(("full", "fails", "readonly")) if rng.random() < 0.3 else None
        deed: Callable[[], object]
        if known is None:
            count, configs = rng.randint(1, 3), {"retention.ms": str(rng.randrange(10**6))}
            fresh = Known(count, configs, b"")
            deed = lambda: state.create_topic(name, count, configs=configs)  # noqa: E731
        elif (draw := rng.random()) < 0.4:
            fresh, deed = None, lambda: state.delete_topic(name)
        elif draw < 0.7:
            fresh = replace(known, configs={"retention.ms": str(rng.randrange(10**6))})
            deed = lambda: state.alter_topic(name, fresh.configs)  # noqa: E731
        else:
            fresh = replace(known, partitions=known.partitions + rng.randint(1, 2))
            deed = lambda: state.create_partitions(name, fresh.partitions)  # noqa: E731
        rest = {key: value for key, value in model.topics.items() if key != name}
        model.coming = rest if fresh is None else rest | {name: fresh}
        try:
            if fault is None:
                deed()
            else:
                calls = rng.choice((("write",), ("sync",), ("write", "sync")))
                paths = rng.choice(("*", "*/cluster.json*", f"*/{name}-*", "/data"))
                with self.disk.fault(fault, paths=paths, free_bytes=rng.randrange(2500), calls=calls):
                    deed()
        except KafkaError:
            model.unsure.append(model.coming)
        else:
            if known is None:
                model.coming[name] = Known(count, configs, state.topics[name].topic_id)
                model.values[state.topics[name].topic_id] = {}
            model.topics, model.unsure = model.coming, []
        model.coming = None

    def _append(self) -> None:
        partitions = list(self.state.partitions())
        if partitions:
            partition = self.rng.choice(partitions)
            value = b"%d" % self.rng.randrange(10**9)
            there = self.model.values[partition.topic.topic_id].setdefault(partition.index, [])
            there.append(value)  # first: it may be on its way when the process dies
            partition.append(build_batch([(None, value)], NOW_MS), now_ms=NOW_MS)

    # --- what must be

    def check(self) -> str | None:
        """After a start: what is wrong. The model is what was found from then on."""
        model, state = self.model, self.state
        found = {n: Known(len(t.partitions), t.configs, t.topic_id) for n, t in state.topics.items()}
        may = [model.topics, *([model.coming] if model.coming is not None else [])]
        if self.machine_died:
            may += model.unsure
        if not any(_same(found, one) for one in may):
            return f"there are {found}; there were {may}"
        if state.disk.adopted:
            return "its own directories are another broker's"
        for topic in state.topics.values():
            for partition in topic.partitions:
                told = self._differs(partition)
                if told is not None:
                    return told
        left = self._left()
        if left and not self.machine_died:
            return f"nobody knows {left}"
        model.topics, model.coming, model.unsure = found, None, []
        self.machine_died = False
        return None

    def _differs(self, partition: Partition) -> str | None:
        there = self.model.values.setdefault(partition.topic.topic_id, {}).setdefault(partition.index, [])
        log = partition.log
        if log.log_start_offset != 0:
            return f"{partition.name} begins at {log.log_start_offset}"
        found = [(row.offset, row.value) for one in log.batches() for row in one.records()]
        if found != list(enumerate(there[: len(found)])):
            return f"{partition.name} has {found}, not the beginning of {there}"
        if len(found) < len(there) - 1 and (self.sync or not self.machine_died):
            return f"{partition.name} has {len(found)} records of {len(there)}"
        there[:] = there[: len(found)]
        return None

    def _left(self) -> list[str]:
        known = {partition.name for partition in self.state.partitions()}
        return [
            p.name for logs in find_partitions(HOME, self.disk).values() for p in logs.values() if p.name not in known
        ]


def _same(found: Topics, known: Topics) -> bool:
    if found.keys() != known.keys():
        return False
    return all(
        (f.partitions, f.configs) == (known[n].partitions, known[n].configs) and known[n].topic_id in (b"", f.topic_id)
        for n, f in found.items()
    )


def metadata_life(seed: object, *, sync: bool = False, power: bool = False, lives: int = 5) -> str | None:
    """See the module."""
    life = Life(seed, sync, power)
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        for _ in range(lives):
            told = _one(life)
            if told is not None:
                return told
    except (
        AssertionError,
        ValueError,
        OSError,
        LookupError,
        StorageError,
        StoreError,
        KafkaError,
        RecordBatchError,
    ) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        logging.disable(before)
    return None


def _one(life: Life) -> str | None:
    rng = life.rng
    while True:
        life.disk.cancel_death()
        if rng.random() < 0.4:
            life.disk.die_in(rng.randint(1, 40), lambda: None)
        try:
            life.open()
        except ProcessKilled:
            life.die()
            continue
        break
    life.disk.cancel_death()
    told = life.check()
    if told is not None:
        return told
    life.disk.die_in(int(1 + rng.expovariate(1 / 40)), lambda: None)
    try:
        for _ in range(rng.randint(1, 40)):
            life.step()
        life.disk.cancel_death()
        if rng.random() < 0.5:
            life.state.close()
    except ProcessKilled:
        pass
    life.die()
    return None
