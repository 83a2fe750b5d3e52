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
import logging
import random
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TypedDict, Unpack

from broker_sim.common.buggify import Buggify
from broker_sim.common.clock import Clock
from broker_sim.common.refusals import Once
from broker_sim.common.slices import Pace, Slices, at_once
from broker_sim.config.settings import BrokerConfig, ConfigError
from broker_sim.metadata.answers import Answers
from broker_sim.metadata.broker import Broker, Endpoint
from broker_sim.metadata.entity_configs import Entity
from broker_sim.metadata.log_maintenance import LogMaintenance
from broker_sim.metadata.persistence import Persistence
from broker_sim.metadata.topics import (
    INTERNAL_SETTINGS,
    METADATA_TOPIC,
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    KafkaError,
    LostRecords,
    Partition,
    Topic,
    assigned_replicas,
    check_assignment,
    check_factor,
    check_some_alive,
    check_topic_name,
    colliding_topic,
    log_config,
    spread_replicas,
)
from broker_sim.storage import PartitionLog, StorageError
from broker_sim.storage.files import FILES, Files
from kafka_wire.errors import Err
from kafka_wire.uuids import uuid_text

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["OFFSETS_TOPIC", "Broker", "ClusterState", "KafkaError", "Partition", "Topic"]

log = logging.getLogger("broker_sim.metadata")

_PARTITIONS_AT_A_TIME = 20  # whose directories are made or removed before others are served: some 25 ms


Replicas = Sequence[Sequence[int]]
"""By partition, the leader first."""


class TopicCreation(TypedDict, total=False):
    """Options for a new topic: `assignments` are replicas by partition, the leader first, in place of both numbers (-1); `siblings` are
    topics of the same request, with which a name does not collide."""

    replication_factor: int
    configs: Mapping[str, str | None] | None
    assignments: Mapping[int, Sequence[int]] | None
    siblings: Container[str]
    validate_only: bool


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
        """The files in which the state is kept."""
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[bytes, Topic] = {}
        self._in_work: dict[str, str] = {}
        """Topics whose partitions are being made or removed, a piece at a time, and what is said of them meanwhile."""
        self.next_leader = 0
        """The number of placed partitions, which determines the first replica of the next one."""
        self.entity_configs: dict[Entity, dict[str, dict[str, str]]] = {entity: {} for entity in Entity}
        """Settings of groups and of client metrics subscriptions, by their names."""
        self.scram_credentials: dict[str, dict[str, str]] = {}
        """Credentials of AlterUserScramCredentials: user -> mechanism -> text (`authentication.credentials`)."""
        self.cluster_id = cluster_id or uuid_text(self.new_uuid())
        self.version = 0
        self.answers = Answers()
        """Answers that handlers have derived from this state, kept for repeated requests; dropped at every change."""
        self.brokers: dict[int, Broker] = {}
        self.slices = Slices()
        """Requests that take longer than others should wait."""
        self.maintenance = LogMaintenance(self)
        self.warned_once = Once()
        """Warnings about a client that are logged once, although they apply to each of its requests."""
        self.security_protocol = "PLAINTEXT"
        """Security protocol of all listeners."""
        self.buggify: Buggify | None = None
        """See ``buggify``: None but in simulations."""
        self.on_topics_changed: list[Callable[[Mapping[str, int | None]], object]] = []
        """Called when topics were created, extended or deleted: name -> number of partitions, None for a deleted one."""
        self.on_group_configured: list[Callable[[str], object]] = []
        """Called with the id of a group that has other settings of its own than before."""
        self.on_leader_changed: list[Callable[[Partition], object]] = []
        """Called when a partition has another leader, or none, before its waiters: coordinators move with it."""
        self.on_election: list[Callable[[Partition, str], object]] = []
        """Called with the reason at every new leader epoch."""
        self.on_loss: list[Callable[[Partition, LostRecords], object]] = []
        """Called when a log has lost committed records."""
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
        """Write the state to disk and invalidate cached responses; for code that changes a broker or a partition directly.

        `topics`: the changed ones, by default all; `adding`: partitions that the only topic among them gets if the write
        succeeds. Raises KAFKA_STORAGE_ERROR: then the disk has the previous state.
        """
        self.lapse()
        self.disk.write(topics, adding)

    def has_changed(self, *topics: Topic) -> None:
        """As `changed`, for changes that don't depend on the disk: if it can't be written, the state is written with the next change,
        or at the end."""
        self.lapse()
        self.disk.write_if_it_can(topics)

    def together(self) -> AbstractContextManager[None]:
        """In this block changes reported to `has_changed` are written together at its end, since each write waits for the disk."""
        return self.disk.together()

    def lapse(self) -> None:
        """Cached responses are out of date."""
        self.version += 1
        self.answers.clear()

    def keep_answer(self, key: tuple[object, ...], answer: object) -> None:
        """Remember under `key` until the state changes, or until there are too many of them."""
        self.answers.keep(key, answer)

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
        """Register a broker with one listener, at this advertised address."""
        endpoint = Endpoint(host, port, self.security_protocol)
        return self.register_broker(node_id, {self.security_protocol: endpoint}, rack)

    def register_broker(self, node_id: int, endpoints: dict[str, Endpoint], rack: str | None = None) -> Broker:
        """Register a broker by its listeners; leaders of topics made later are spread over it too."""
        broker = self.brokers[node_id] = Broker(node_id, endpoints, self, rack)
        self.lapse()
        return broker

    def broker_ids(self) -> list[int]:
        """The node ids of all brokers, those that are down included."""
        return list(self.brokers)

    def alive_brokers(self) -> list[Broker]:
        """The brokers that answer, in the order in which they were added."""
        return [broker for broker in self.brokers.values() if broker.alive]

    def set_leader(self, partition: Partition, node_id: int, reason: str = "") -> None:
        """Make `node_id` (-1: no broker) the leader: the leader epoch is incremented, and requests that wait for the partition are
        checked again.
        """
        moved = node_id != partition.leader
        partition.leader = node_id
        partition.leader_epoch += 1
        partition.partition_epoch += 1
        with contextlib.suppress(StorageError):  # the first append of the epoch tries again
            partition.log.assign_epoch(partition.leader_epoch)
        self.has_changed(partition.topic)
        for on_election in self.on_election:
            on_election(partition, reason)
        if moved:
            for callback in self.on_leader_changed:
                callback(partition)
        partition.wake()

    def isr_changed(self, partition: Partition) -> None:
        """The in-sync replicas of a partition have changed: its waiters are called."""
        partition.partition_epoch += 1
        self.has_changed(partition.topic)
        partition.wake()

    # -------------------------------------------------------------------------------------------- look-ups

    def topic(self, name: str) -> Topic:
        """The topic of that name; raises UNKNOWN_TOPIC_OR_PARTITION."""
        try:
            return self.topics[name]
        except KeyError:
            raise KafkaError(Err.UNKNOWN_TOPIC_OR_PARTITION, Err.UNKNOWN_TOPIC_OR_PARTITION.text) from None

    def partition(self, topic: str, index: int) -> Partition | None:
        """A partition by topic name and number; None if it does not exist."""
        existing = self.topics.get(topic)
        if existing is None or not 0 <= index < len(existing.partitions):
            return None
        return existing.partitions[index]

    def partitions(self) -> Iterable[Partition]:
        """All partitions of all topics, topic by topic."""
        return (partition for topic in self.topics.values() for partition in topic.partitions)

    def min_isr(self, partition: Partition) -> int:
        """Number of in-sync replicas that a write with acks=all needs; from 3.9 on not more than there are replicas."""
        topic = partition.topic
        if partition.isr_too_small:
            return len(partition.isr) + 1
        if topic.min_isr is None:
            wanted = self.config.topic_value("min.insync.replicas", topic.configs)
            assert isinstance(wanted, int)
            topic.min_isr = wanted
        return min(topic.min_isr, len(partition.replicas)) if self.config.release >= (3, 9) else topic.min_isr

    # -------------------------------------------------------------------------------------------- topics

    def create_topic(self, name: str, partitions: int = -1, **how: Unpack[TopicCreation]) -> Topic:
        """Create a topic (-1: the broker's default number) as a KRaft controller does (ReplicationControlManager). With
        `validate_only` it is checked and returned, one partition in the place of all, and nothing is kept. Raises KafkaError.
        """
        return at_once(self.creating_topic(name, partitions, **how))

    def creating_topic(
        self, name: str, partitions: int = -1, **how: Unpack[TopicCreation]
    ) -> Generator[None, None, Topic]:
        """The same as a job (`Slices`): a partition's directory and files take a millisecond. It is there when all of them are."""
        assignments, factor = how.get("assignments"), how.get("replication_factor", -1)
        self.check_new_name(name, how.get("siblings", ()))
        settings = self.check_topic_settings(how.get("configs") or {})
        if assignments:
            replicas = assigned_replicas(partitions, factor, assignments, self.brokers)
            check_some_alive(replicas, self.brokers)
        else:
            replicas = self._placed(partitions, factor, how.get("validate_only", False))
        topic = Topic(name, self.new_uuid(), settings)
        if how.get("validate_only"):
            log = PartitionLog(None, log_config(self.config, topic))
            topic.partitions = [Partition(topic, 0, replicas[0], replicas[0][0], 0, log)] * len(replicas)
            return topic
        yield from self._add_partitions(topic, replicas)
        return topic

    def check_new_name(self, name: str, siblings: Container[str] = ()) -> None:
        """Raises KafkaError where no topic of this name can be made; `siblings` as in `create_topic`."""
        check_topic_name(name)
        if name == METADATA_TOPIC:
            raise KafkaError(Err.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
        if name in self.topics or name in self._in_work:
            words = self._in_work.get(name, "already exists")
            raise KafkaError(Err.TOPIC_ALREADY_EXISTS, f"Topic '{name}' {words}.")
        other = colliding_topic(name, (*self.topics, *self._in_work) if self._in_work else self.topics)
        if other is not None and other not in siblings:
            raise KafkaError(Err.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")

    def _placed(self, partitions: int, factor: int, validate_only: bool) -> list[list[int]]:
        if factor < -1 or factor == 0:
            raise KafkaError(
                Err.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if partitions < -1 or partitions == 0:
            raise KafkaError(Err.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
        partitions = self.config.int("num.partitions") if partitions == -1 else partitions
        factor = self.config.int("default.replication.factor") if factor == -1 else factor
        return self._place(partitions, factor, validate_only)

    def _place(self, partitions: int, factor: int, validate_only: bool) -> list[list[int]]:
        """Replicas for new partitions on the brokers alive; raises as the controller's replica placer does."""
        from broker_sim.metadata.creation_limits import check_records, check_total

        racks = {broker.node_id: broker.rack for broker in self.alive_brokers()}
        check_factor(factor, len(racks), self.config.release)
        check_total(self.config.release, partitions)
        check_records(self.config.release, partitions, validate_only=validate_only)
        return spread_replicas(racks, partitions, factor, self.next_leader)

    def _add_partitions(self, topic: Topic, replicas: Sequence[list[int]]) -> Generator[None, None, None]:
        """Make the new partitions' logs, then write them down: with that they are there, all of them, and where the disk fails
        or the process ends before, none. A topic that is new is there with its partitions.
        """
        first, is_new = len(topic.partitions), topic.name not in self.topics
        logs: list[PartitionLog] = []
        added: list[Partition] = []
        pace = Pace(_PARTITIONS_AT_A_TIME)
        try:
            with self._work_on(topic.name, "already exists"):
                settings = log_config(self.config, topic)
                for index, nodes in enumerate(replicas, first):
                    if pace.full():
                        yield
                    logs.append(self.disk.make_log(topic, index, settings))
                    added.append(Partition(topic, index, nodes, -1, 0, logs[-1]))
            for partition in added:  # a broker may have stopped or started meanwhile
                partition.isr = [node for node in partition.replicas if self.brokers[node].alive]
                partition.leader = next(iter(partition.isr), -1)
            if is_new:
                self.topics[topic.name] = self.topics_by_id[topic.topic_id] = topic
            self.changed(topic, adding=added)
        except (KafkaError, OSError, GeneratorExit) as error:
            if is_new and self.topics.get(topic.name) is topic:
                del self.topics[topic.name], self.topics_by_id[topic.topic_id]
            for made in logs:
                self.disk.drop_log(made)
            self.answers.clear()
            if isinstance(error, OSError):
                raise KafkaError(Err.KAFKA_STORAGE_ERROR, str(error)) from error
            raise
        topic.partitions.extend(added)
        self.next_leader += len(added)
        self.answers.clear()
        self._report_topics({topic.name: len(topic.partitions)})

    @contextlib.contextmanager
    def _work_on(self, name: str, words: str) -> Iterator[None]:
        """In this block no other request creates or deletes directories of the topic; `words`: the message of the error. Raises
        REQUEST_TIMED_OUT, a retriable error, if another request does."""
        if name in self._in_work:
            raise KafkaError(Err.REQUEST_TIMED_OUT, f"Partitions of topic '{name}' are being made or removed.")
        self._in_work[name] = words
        try:
            yield
        finally:
            del self._in_work[name]

    def delete_topic(self, name: str) -> None:
        """Remove a topic and its files; its waiters are called. Raises UNKNOWN_TOPIC_OR_PARTITION."""
        at_once(self.deleting_topic(name))

    def deleting_topic(self, name: str) -> Generator[None, None, None]:
        """The same as a job (`Slices`): the topic is deleted with its first piece, its name is free with the last."""
        topic = self.topic(name)
        with self._work_on(name, "is marked for deletion"):
            yield from self._delete(topic)

    def _delete(self, topic: Topic) -> Generator[None, None, None]:
        self.disk.deleted_topic_ids.append(uuid_text(topic.topic_id))
        before = dict(self.topics)
        del self.topics[topic.name]
        try:
            self.changed(topic)
        except KafkaError:
            self.topics = before
            self.disk.deleted_topic_ids.pop()
            raise
        del self.topics_by_id[topic.topic_id]
        for partition in topic.partitions:
            partition.deleted = True
            partition.leader = -1
        left, pace = iter(topic.partitions), Pace(_PARTITIONS_AT_A_TIME)
        try:
            for partition in left:
                self.disk.drop_log(partition.log)
                if pace.full():
                    yield
        finally:
            for partition in left:  # the cluster ends meanwhile
                self.disk.drop_log(partition.log)
        self.disk.sync_removals()
        for partition in topic.partitions:
            partition.wake()
        self._report_topics({topic.name: None})

    def _report_topics(self, changed: Mapping[str, int | None]) -> None:
        for callback in self.on_topics_changed:
            callback(changed)

    def create_partitions(
        self, name: str, total: int, *, assignments: Replicas | None = None, validate_only: bool = False
    ) -> None:
        """Let a topic grow to `total` partitions; `assignments` are the new ones' replicas. Raises KafkaError."""
        at_once(self.creating_partitions(name, total, assignments, validate_only))

    def creating_partitions(
        self,
        name: str,
        total: int,
        assignments: Replicas | None = None,
        validate_only: bool = False,
        most: int | None = None,
    ) -> Generator[None, None, None]:
        """The same as a job (`Slices`). ``most``: it gets so many partitions of a larger number, and UNKNOWN_SERVER_ERROR is raised."""
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
        added = total - have if most is None else min(total - have, most)
        if assignments is None:
            replicas = self._place(added, factor, validate_only)
        else:
            if len(assignments) != total - have:
                raise KafkaError(
                    Err.INVALID_REPLICA_ASSIGNMENT,
                    f"Attempted to add {total - have} additional partition(s), but only {len(assignments)} "
                    "assignment(s) were specified.",
                )
            for nodes in assignments:
                check_assignment(nodes, factor, self.brokers)
            replicas = [list(nodes) for nodes in assignments[:added]]
            check_some_alive(replicas, self.brokers, have)
        if replicas and not validate_only:
            yield from self._add_partitions(topic, replicas)
        if added < total - have:
            raise KafkaError(Err.UNKNOWN_SERVER_ERROR)

    def ensure_offsets_topic(self) -> Topic:
        """The log of committed offsets, created at the first call. Raises KafkaError."""
        return self.ensure_internal_topic(OFFSETS_TOPIC)

    def ensure_internal_topic(self, name: str) -> Topic:
        """Return a topic of INTERNAL_TOPICS, which is created at the first call. Raises KafkaError."""
        return self.topics.get(name) or self.create_internal_topic(name)

    def create_internal_topic(self, name: str) -> Topic:
        """Create one of INTERNAL_TOPICS with the settings that Kafka gives it. Raises KafkaError.

        A replication factor that is not set is lowered to the number of brokers, so that a single broker can serve
        groups; a configured one is used as it is, as in Kafka.
        """
        config, settings = self.config, INTERNAL_SETTINGS[name]
        factor = config.int(f"{settings}.replication.factor")
        if not config.given(f"{settings}.replication.factor"):
            factor = min(factor, len(self.alive_brokers()))
        configs = {"cleanup.policy": "compact", "segment.bytes": str(config.int(f"{settings}.segment.bytes"))}
        if name == OFFSETS_TOPIC:
            configs["compression.type"] = "producer"
        elif name == SHARE_STATE_TOPIC:
            configs |= {"cleanup.policy": "delete", "retention.ms": "-1", "compression.type": "producer"}
            configs["min.insync.replicas"] = str(min(config.int(f"{settings}.min.isr"), factor))
        else:
            configs["compression.type"] = "uncompressed"
            configs["min.insync.replicas"] = str(min(config.int(f"{settings}.min.isr"), factor))
            configs["unclean.leader.election.enable"] = "false"
        partitions = config.int(f"{settings}.num.partitions")
        return self.create_topic(name, partitions, replication_factor=factor, configs=configs)

    def why_never(self, name: str) -> str | None:
        """Reason why a missing topic of INTERNAL_TOPICS can't be created; None if it exists, or can be created. Kafka starts with such
        settings, and only logs it, at each request that needs the topic."""
        if name in self.topics:
            return None
        settings = INTERNAL_SETTINGS[name]
        segment_bytes, factor = (f"{settings}.{key}" for key in ("segment.bytes", "replication.factor"))
        never = (
            f"so {name} could never be made, and no {'group' if name == OFFSETS_TOPIC else 'transaction'} would work"
        )
        size, replicas, brokers = self.config.int(segment_bytes), self.config.int(factor), len(self.brokers)
        try:
            self.config.check_topic({"segment.bytes": str(size)})
        except ConfigError as error:
            return f"{segment_bytes}={size}, but a topic can't have it ({error}), {never}"
        if self.config.given(factor) and replicas > brokers:
            count_text = "there is 1 broker" if brokers == 1 else f"there are {brokers} brokers"
            return f"{factor}={replicas}, but {count_text}, {never}"
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
        """Replace the settings of a group or a client metrics subscription by `configs`, which `entity_configs.check` has checked.
        Raises KAFKA_STORAGE_ERROR."""
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
        for callback in self.on_group_configured if entity is Entity.GROUP else ():
            callback(name)

    def _configure(self, topic: Topic) -> None:
        topic.min_isr = None
        everywhere = None if self.config.dynamic_broker else log_config(self.config, topic)
        for partition in topic.partitions:
            partition.log.config = everywhere or log_config(self.config, topic, partition.leader)
        self.maintenance.wake_cleaner_for(topic.partitions)

    def _settings_changed(self) -> None:
        for topic in self.topics.values():
            self._configure(topic)
        self.changed()

    # -------------------------------------------------------------------------------------------- maintenance

    def run_log_maintenance(self, now_ms: int) -> None:
        """Begin to apply retention to every log and to compact dirty logs (`log_maintenance`), whatever their intervals."""
        self.maintenance.retain(now_ms)
        self.maintenance.clean(now_ms)

    def roll_and_clean(self, partition: Partition, now_ms: int) -> None:
        """Roll one log at once and, if its policy is to compact, compact it however little is dirty. Ignores disk failures."""
        with contextlib.suppress(StorageError):
            partition.log.roll(now_ms)
            if "compact" in partition.topic.configs.get("cleanup.policy", ""):
                partition.log.compact(now_ms, high_watermark=partition.high_watermark, force=True)

    def close(self) -> None:
        """Flush and close every log."""
        self.maintenance.stop()
        self.disk.catch_up()
        self.disk.close_logs()
