"""The state of a simulated cluster: brokers, topics, partitions and settings. Plain data and files, no asyncio.

    state = ClusterState(BrokerConfig(), clock, data_dir=None)
    state.add_broker(1, "127.0.0.1", 9092)
    state.load()
    state.create_topic("orders", 6)

Rules:
1. Every change goes through a method here, is written to disk before the method returns, and raises KafkaError, with
   the error and the text that a KRaft controller gives, before anything has changed.
2. `version` counts the changes, so that answers made from the state may be kept until it moves.
3. Ids come from the injected random generator: a seed gives the same ids again.
4. Order is the order of creation; no set is iterated.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import random
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from broker_sim.common.buggify import Buggify
from broker_sim.common.clock import Clock
from broker_sim.common.slices import Slices
from broker_sim.config.settings import BrokerConfig, ConfigError
from broker_sim.metadata.entity_configs import Entity
from broker_sim.metadata.meta_files import uuid_text
from broker_sim.metadata.persistence import Persistence
from broker_sim.metadata.topics import (
    METADATA_TOPIC,
    OFFSETS_TOPIC,
    KafkaError,
    Partition,
    Topic,
    assigned_replicas,
    check_assignment,
    check_topic_name,
    colliding_topic,
    log_config,
    spread_replicas,
)
from broker_sim.storage import PartitionLog, StorageError
from broker_sim.storage.files import FILES, Files
from kafka_wire.errors import Err

if TYPE_CHECKING:  # what the layers above hang onto a broker
    from broker_sim.handlers.fetch_session import FetchSessions
    from broker_sim.runtime.group_coordinator import GroupCoordinator

__all__ = ["OFFSETS_TOPIC", "Broker", "ClusterState", "KafkaError", "Partition", "Topic"]

log = logging.getLogger("broker_sim.metadata")

MAX_ANSWERS = 4096
"""How many worked-out answers are kept."""

MAX_PARTITIONS_AT_ONCE = 10_000
"""The most partitions that one creation may ask for (QuorumController.MAX_RECORDS_PER_USER_OP)."""


@dataclasses.dataclass(eq=False, slots=True)
class Broker:
    """One broker of the cluster, with what the layers above hang onto it."""

    node_id: int
    host: str
    port: int
    state: ClusterState = dataclasses.field(repr=False)
    rack: str | None = None
    alive: bool = True
    runtime: GroupCoordinator = dataclasses.field(init=False, repr=False)
    """The group coordinators of the cluster, attached with the server."""
    fetch_sessions: FetchSessions | None = dataclasses.field(default=None, repr=False)
    """Made by the first Fetch that wants a session."""


class ClusterState:
    """Everything that the brokers of one cluster agree on.

    `data_dir` None keeps the logs in memory, `files` is the disk that it is on. `sync` forces every write of the metadata to
    the disk. `rng` gives topic and cluster ids; without one the operating system's generator is used.
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        *,
        data_dir: Path | None = None,
        cluster_id: str | None = None,
        rng: random.Random | None = None,
        sync: bool = False,
        files: Files = FILES,
    ) -> None:
        self.config = config
        self.clock = clock
        self.rng = rng if rng is not None else random.SystemRandom()
        self.disk = Persistence(self, data_dir, files, sync=sync, id_is_given=cluster_id is not None)
        """Where it is kept."""
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[bytes, Topic] = {}
        self.next_leader = 0
        """How many partitions were placed: the first replica of the next one goes on from there."""
        self.entity_configs: dict[Entity, dict[str, dict[str, str]]] = {entity: {} for entity in Entity}
        """Settings of groups and of client metrics subscriptions, by their names."""
        self.cluster_id = cluster_id or uuid_text(self.new_uuid())
        self.version = 0
        self.answers: dict[tuple[object, ...], object] = {}
        """What handlers have worked out of this state and will be asked again; dropped at every change."""
        self.brokers: dict[int, Broker] = {}
        self.slices = Slices()
        """Requests that take longer than others should wait."""
        self.buggify: Buggify | None = None
        """See ``buggify``: None but in simulations."""
        self.told_of_transactions: dict[str | None, None] = {}
        """The client ids that want them: the log tells each of them once."""
        self.on_topics_changed: list[Callable[[Mapping[str, int | None]], object]] = []
        """Called when topics are there, have grown or are gone: name -> number of partitions, None for one that is gone."""
        self.on_leader_changed: list[Callable[[Partition], object]] = []
        """Called when a partition has another leader, or none, before who waits on it looks again: coordinators move with it."""
        self.on_election: list[Callable[[Partition, str], object]] = []
        """Called with the reason at every new leader epoch."""
        config.on_change(self._settings_changed)

    @property
    def as_version(self) -> str:
        """The Kafka release that is simulated, as "4.1"."""
        return self.config.as_version

    @property
    def controller_id(self) -> int:
        """The broker that is named as the controller: the first one alive; -1 where none is."""
        return next((broker.node_id for broker in self.brokers.values() if broker.alive), -1)

    # -------------------------------------------------------------------------------------------- what it is kept in

    def load(self) -> None:
        """Read the data directory, after the brokers were added: see `Persistence.load`. Raises StoreError, OSError."""
        self.disk.load()

    def install(self, topic: Topic) -> None:
        """A topic that was loaded."""
        self.topics[topic.name] = topic
        self.topics_by_id[topic.topic_id] = topic
        self.next_leader += len(topic.partitions)

    def changed(self, *topics: Topic, adding: Sequence[Partition] = ()) -> None:
        """Write the state to disk and let kept answers lapse; for whoever alters a broker or a partition by hand.

        `topics` are those that have changed, none stands for all of them; `adding` are partitions that the only one of them
        gets if this succeeds. Raises KAFKA_STORAGE_ERROR: then the disk has the state as it was before.
        """
        self._lapse()
        self.disk.write(topics, adding)

    def has_changed(self, *topics: Topic) -> None:
        """As `changed`, of what has happened whatever the disk says: what it does not take follows with the next change, or
        at the end.
        """
        self._lapse()
        self.disk.write_if_it_can(topics)

    def together(self) -> AbstractContextManager[None]:
        """What `has_changed` is told of inside is written once, at the end: each writing waits for the disk."""
        return self.disk.together()

    def _lapse(self) -> None:
        self.version += 1
        self.answers.clear()

    def keep_answer(self, key: tuple[object, ...], answer: object) -> None:
        """Remember under `key` until the state changes, or until there are MAX_ANSWERS of them."""
        if len(self.answers) >= MAX_ANSWERS:
            self.answers.clear()
        self.answers[key] = answer

    def next_producer_id(self) -> int:
        """A producer id that no producer of this cluster has had. Raises KAFKA_STORAGE_ERROR."""
        return self.disk.next_producer_id()

    def new_uuid(self) -> bytes:
        """A random (version 4) uuid which, as Kafka's, does not begin with a dash in text."""
        while True:
            raw = bytearray(self.rng.getrandbits(128).to_bytes(16, "big"))
            raw[6] = raw[6] & 0x0F | 0x40
            raw[8] = raw[8] & 0x3F | 0x80
            if not uuid_text(bytes(raw)).startswith("-"):
                return bytes(raw)

    # -------------------------------------------------------------------------------------------- brokers

    def add_broker(self, node_id: int, host: str, port: int, rack: str | None = None) -> Broker:
        """Register a broker; leaders of topics made later are spread over it too."""
        broker = Broker(node_id, host, port, self, rack)
        self.brokers[node_id] = broker
        self._lapse()
        return broker

    def broker_ids(self) -> list[int]:
        """The brokers there are."""
        return list(self.brokers)

    def alive_brokers(self) -> list[Broker]:
        """The brokers that answer, in the order in which they were added."""
        return [broker for broker in self.brokers.values() if broker.alive]

    def set_leader(self, partition: Partition, node_id: int, reason: str = "") -> None:
        """Make `node_id` (-1: nobody) the leader: the epoch moves on and everyone who waits on the partition looks
        again.
        """
        moved = node_id != partition.leader
        partition.leader = node_id
        partition.leader_epoch += 1
        partition.partition_epoch += 1
        with contextlib.suppress(StorageError):  # the first append of the epoch tries again
            partition.log.assign_epoch(partition.leader_epoch)
        self.has_changed(partition.topic)
        for told in self.on_election:
            told(partition, reason)
        if moved:
            for callback in self.on_leader_changed:
                callback(partition)
        partition.wake()

    def isr_changed(self, partition: Partition) -> None:
        """The in-sync replicas of a partition are others: everyone who waits on it looks again."""
        partition.partition_epoch += 1
        self.has_changed(partition.topic)
        partition.wake()

    # -------------------------------------------------------------------------------------------- look-ups

    def topic(self, name: str) -> Topic:
        """The topic of that name; raises UNKNOWN_TOPIC_OR_PARTITION."""
        try:
            return self.topics[name]
        except KeyError:
            raise KafkaError(Err.UNKNOWN_TOPIC_OR_PARTITION, _UNKNOWN_TOPIC) from None

    def partition(self, topic: str, index: int) -> Partition | None:
        """The partition, or None."""
        found = self.topics.get(topic)
        if found is None or not 0 <= index < len(found.partitions):
            return None
        return found.partitions[index]

    def partitions(self) -> Iterable[Partition]:
        """Every partition, by topic."""
        return (partition for topic in self.topics.values() for partition in topic.partitions)

    def min_isr(self, partition: Partition) -> int:
        """How many in-sync replicas a write with acks=all needs; from 3.9 on not more than there are replicas."""
        topic = partition.topic
        if partition.isr_too_small:
            return len(partition.isr) + 1
        if topic.min_isr is None:
            wanted = self.config.topic_value("min.insync.replicas", topic.configs)
            assert isinstance(wanted, int)
            topic.min_isr = wanted
        return min(topic.min_isr, len(partition.replicas)) if self.config.release >= (3, 9) else topic.min_isr

    # -------------------------------------------------------------------------------------------- topics

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        *,
        replication_factor: int = -1,
        configs: Mapping[str, str | None] | None = None,
        assignments: Mapping[int, Sequence[int]] | None = None,
        siblings: Container[str] = (),
        validate_only: bool = False,
    ) -> Topic:
        """Create a topic (-1: the broker's default number) as a KRaft controller does (ReplicationControlManager).

        `siblings` are topics of the same request, with which a name does not collide. `assignments` are replicas by
        partition, the leader first; then both numbers must be -1. With `validate_only` the topic is checked and
        returned, its partitions without logs, and nothing is kept. Raises KafkaError.
        """
        self.check_new_name(name, siblings)
        settings = self.check_topic_settings(configs or {})
        if assignments:
            replicas = assigned_replicas(partitions, replication_factor, assignments, self.brokers)
        else:
            replicas = self._placed(partitions, replication_factor)
        topic = Topic(name, self.new_uuid(), settings)
        if validate_only:
            memory = log_config(self.config, topic)
            topic.partitions = [
                Partition(topic, index, nodes, nodes[0], 0, PartitionLog(None, memory))
                for index, nodes in enumerate(replicas)
            ]
            return topic
        self.topics[name] = topic
        self.topics_by_id[topic.topic_id] = topic
        try:
            self._add_partitions(topic, replicas)
        except KafkaError:
            del self.topics[name]
            del self.topics_by_id[topic.topic_id]
            raise
        return topic

    def check_new_name(self, name: str, siblings: Container[str] = ()) -> None:
        """Raises KafkaError where no topic of this name can be made; `siblings` as in `create_topic`."""
        check_topic_name(name)
        if name == METADATA_TOPIC:
            raise KafkaError(Err.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
        if name in self.topics:
            raise KafkaError(Err.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        other = colliding_topic(name, self.topics)
        if other is not None and other not in siblings:
            raise KafkaError(Err.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")

    def _placed(self, partitions: int, factor: int) -> list[list[int]]:
        if factor < -1 or factor == 0:
            raise KafkaError(
                Err.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if partitions < -1 or partitions == 0:
            raise KafkaError(Err.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
        partitions = self.config.int("num.partitions") if partitions == -1 else partitions
        factor = self.config.int("default.replication.factor") if factor == -1 else factor
        if partitions > MAX_PARTITIONS_AT_ONCE and self.config.release >= (4, 0):
            raise KafkaError(Err.POLICY_VIOLATION, "Excessively large number of partitions per request.")
        return self._place(partitions, factor)

    def _place(self, partitions: int, factor: int) -> list[list[int]]:
        """Replicas for new partitions on the brokers alive; raises as the controller's replica placer does."""
        nodes = [broker.node_id for broker in self.alive_brokers()]
        if partitions > MAX_PARTITIONS_AT_ONCE:
            raise KafkaError(Err.UNKNOWN_SERVER_ERROR)  # the controller falls over the number of records
        if factor > len(nodes):
            cordoned = (
                " or some brokers have all their log directories cordoned" if self.config.release >= (4, 4) else ""
            )
            raise KafkaError(
                Err.INVALID_REPLICATION_FACTOR,
                f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} "
                f"cannot be reached because only {len(nodes)} broker(s) are registered{cordoned}.",
            )
        return spread_replicas(nodes, partitions, factor, self.next_leader)

    def _add_partitions(self, topic: Topic, replicas: Sequence[list[int]]) -> None:
        """Make the new partitions' logs, then write them down: with that they are there, all of them, and where the disk fails
        or the process ends before, none.
        """
        first = len(topic.partitions)
        leaders = [next((node for node in nodes if self.brokers[node].alive), -1) for nodes in replicas]
        logs: list[PartitionLog] = []
        added: list[Partition] = []
        try:
            settings = log_config(self.config, topic)
            for number, nodes in enumerate(replicas):
                logs.append(self.disk.make_log(topic, first + number, settings))
                added.append(Partition(topic, first + number, nodes, leaders[number], 0, logs[-1]))
            self.changed(topic, adding=added)
        except (KafkaError, OSError) as error:
            for made in logs:
                self.disk.drop_log(made)
            self.answers.clear()
            raise error if isinstance(error, KafkaError) else KafkaError(Err.KAFKA_STORAGE_ERROR, str(error)) from error
        topic.partitions.extend(added)
        self.next_leader += len(logs)
        self.answers.clear()
        self._tell_topics({topic.name: len(topic.partitions)})

    def delete_topic(self, name: str) -> None:
        """Remove a topic and its files; who waits on it is woken. Raises UNKNOWN_TOPIC_OR_PARTITION."""
        topic = self.topic(name)
        self.disk.gone.append(uuid_text(topic.topic_id))
        before = dict(self.topics)
        del self.topics[name]
        try:
            self.changed(topic)
        except KafkaError:
            self.topics = before
            self.disk.gone.pop()
            raise
        del self.topics_by_id[topic.topic_id]
        for partition in topic.partitions:
            partition.deleted = True
            partition.leader = -1
            self.disk.drop_log(partition.log)
        self.disk.sync_removals()
        for partition in topic.partitions:
            partition.wake()
        self._tell_topics({name: None})

    def _tell_topics(self, changed: Mapping[str, int | None]) -> None:
        for callback in self.on_topics_changed:
            callback(changed)

    def create_partitions(
        self, name: str, total: int, *, assignments: Sequence[Sequence[int]] | None = None, validate_only: bool = False
    ) -> None:
        """Let a topic grow to `total` partitions; `assignments` are the new ones' replicas. Raises KafkaError."""
        topic = self.topic(name)
        have = len(topic.partitions)
        if total == have:
            raise KafkaError(Err.INVALID_PARTITIONS, f"Topic already has {total} partition(s).")
        if total < have:
            raise KafkaError(
                Err.INVALID_PARTITIONS,
                f"The topic {name} currently has {have} partition(s); {total} would not be an increase.",
            )
        factor = len(topic.partitions[0].replicas)
        if assignments is None:
            replicas = self._place(total - have, factor)
        else:
            if len(assignments) != total - have:
                raise KafkaError(
                    Err.INVALID_REPLICA_ASSIGNMENT,
                    f"Attempted to add {total - have} additional partition(s), but only {len(assignments)} "
                    "assignment(s) were specified.",
                )
            for nodes in assignments:
                check_assignment(nodes, factor, self.brokers)
            replicas = [list(nodes) for nodes in assignments]
        if not validate_only:
            self._add_partitions(topic, replicas)

    def ensure_offsets_topic(self) -> Topic:
        """The log of committed offsets, created at the first call. Raises KafkaError."""
        return self.topics.get(OFFSETS_TOPIC) or self.create_internal_topic(OFFSETS_TOPIC)

    def create_internal_topic(self, name: str) -> Topic:
        """Create one of INTERNAL_TOPICS with the settings that Kafka gives it. Raises KafkaError.

        Where nobody has set its replication factor the default is lowered to the brokers there are, so that one broker
        alone serves groups; a factor that was set is kept to, as in Kafka.
        """
        config, settings = self.config, _internal_settings(name)
        factor = config.int(f"{settings}.replication.factor")
        if not config.given(f"{settings}.replication.factor"):
            factor = min(factor, len(self.alive_brokers()))
        configs = {"cleanup.policy": "compact", "segment.bytes": str(config.int(f"{settings}.segment.bytes"))}
        if name == OFFSETS_TOPIC:
            configs["compression.type"] = "producer"
        else:
            configs["compression.type"] = "uncompressed"
            configs["min.insync.replicas"] = str(min(config.int(f"{settings}.min.isr"), factor))
            configs["unclean.leader.election.enable"] = "false"
        partitions = config.int(f"{settings}.num.partitions")
        return self.create_topic(name, partitions, replication_factor=factor, configs=configs)

    def why_never(self, name: str) -> str | None:
        """Why one of INTERNAL_TOPICS that isn't there could not be made, either. Kafka starts with such settings, and says so only in
        its log, at each request that needs the topic. None where it is there, or could be made."""
        if name in self.topics:
            return None
        settings = _internal_settings(name)
        segment_bytes, factor = (f"{settings}.{one}" for one in ("segment.bytes", "replication.factor"))
        never = (
            f"so {name} could never be made, and no {'group' if name == OFFSETS_TOPIC else 'transaction'} would work"
        )
        size, replicas, brokers = self.config.int(segment_bytes), self.config.int(factor), len(self.brokers)
        try:
            self.config.check_topic({"segment.bytes": str(size)})
        except ConfigError as error:
            return f"{segment_bytes}={size}, but a topic can't have it ({error}), {never}"
        if self.config.given(factor) and replicas > brokers:
            there = "there is 1 broker" if brokers == 1 else f"there are {brokers} brokers"
            return f"{factor}={replicas}, but {there}, {never}"
        return None

    # -------------------------------------------------------------------------------------------- settings

    def check_topic_settings(self, configs: Mapping[str, str | None]) -> dict[str, str]:
        """The topic settings as they would be kept; raises INVALID_CONFIG."""
        for name, value in configs.items():
            if value is None:
                raise KafkaError(Err.INVALID_CONFIG, f"Null value not supported for topic configs: {name}")
        try:
            return self.config.check_topic(configs)
        except ConfigError as error:
            raise KafkaError(Err.INVALID_CONFIG, str(error)) from None

    def alter_topic(self, name: str, configs: Mapping[str, str]) -> None:
        """Put `configs` in the place of a topic's own settings; they were checked by `check_topic_settings`."""
        topic = self.topic(name)
        before, topic.configs = topic.configs, dict(configs)
        try:
            self.changed(topic)
        except KafkaError:
            topic.configs = before
            raise
        self._configure(topic)

    def alter_entity(self, entity: Entity, name: str, configs: Mapping[str, str]) -> None:
        """Put `configs` in the place of what a group or a client metrics subscription had; they were checked by
        `entity_configs.check`. Raises KAFKA_STORAGE_ERROR.
        """
        own = self.entity_configs[entity]
        before = own.pop(name, None)
        if configs:
            own[name] = dict(configs)
        try:
            self.changed()
        except KafkaError:
            own.pop(name, None)
            if before is not None:
                own[name] = before
            raise

    def _configure(self, topic: Topic) -> None:
        topic.min_isr = None
        everywhere = None if self.config.dynamic_broker else log_config(self.config, topic)
        for partition in topic.partitions:
            partition.log.config = everywhere or log_config(self.config, topic, partition.leader)

    def _settings_changed(self) -> None:
        for topic in self.topics.values():
            self._configure(topic)
        self.changed()

    # -------------------------------------------------------------------------------------------- maintenance

    def run_log_maintenance(self, now_ms: int) -> None:
        """Apply retention to every log and compact what asks for it; log starts that moved wake the waiters.

        A log whose disk fails is passed over with a log line; the others are done.
        """
        self.disk.catch_up()
        cleaner = self.config.bool("log.cleaner.enable")
        for partition in list(self.partitions()):
            files = partition.log
            start = files.log_start_offset
            try:
                files.apply_retention(now_ms, high_watermark=partition.high_watermark)
                if files.config.compacts and cleaner:
                    files.compact(now_ms, high_watermark=partition.high_watermark)
            except StorageError as error:
                log.error("maintenance of %s failed and is tried again: %s", partition.name, error)
            if files.log_start_offset != start:
                partition.wake()

    def roll_and_clean(self, partition: Partition, now_ms: int) -> None:
        """What maintenance does now and then, at once and to one log; a disk that fails is let be."""
        with contextlib.suppress(StorageError):
            partition.log.roll(now_ms)
            partition.log.compact(now_ms, high_watermark=partition.high_watermark, force=True)

    def close(self) -> None:
        """Flush and close every log."""
        self.disk.catch_up()
        for partition in self.partitions():
            partition.log.flush()
            partition.log.close()


_UNKNOWN_TOPIC = "This server does not host this topic-partition."


def _internal_settings(name: str) -> str:
    """How the broker settings of an internal topic begin."""
    return "offsets.topic" if name == OFFSETS_TOPIC else "transaction.state.log"
