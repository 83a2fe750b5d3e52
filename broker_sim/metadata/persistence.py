"""The part of the cluster's state that is on disk: how it is written, and how it comes back after a restart.

Rules:
1. `cluster.json` has the topics. Partitions' directories are created before they are in it, and removed after it has
   ceased to: a creation or a deletion that was cut short, by a crash or by the disk, leaves at most directories, which the
   next start removes. What was acknowledged outlives a loss of power, with or without `sync`.
2. A change that the disk does not take is KAFKA_STORAGE_ERROR, and `cluster.json` has the state as it was before.
3. Every change goes through `ClusterState.changed`, which also lets kept answers lapse.
4. A directory without a `cluster.json` is another broker's. What that left is looked at as a whole before anything is opened
   (`foreign_directory`), and serving it removes nothing: no retention, no compaction and no expiry until they are configured.
5. Records of unknown topics are neither served nor deleted: they stay in place, or are moved aside, with a warning.
"""

from __future__ import annotations

import contextlib
import errno
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from broker_sim.common.clock import Clock
from broker_sim.config.settings import BrokerConfig, ConfigError
from broker_sim.metadata import meta_files
from broker_sim.metadata.entity_configs import Entity
from broker_sim.metadata.topics import (
    INTERNAL_TOPICS,
    OFFSETS_TOPIC,
    TRANSACTION_TOPIC,
    KafkaError,
    Partition,
    Topic,
    log_config,
)
from broker_sim.storage import LogConfig, PartitionLog, StorageError, checkpoints
from broker_sim.storage.files import Files
from broker_sim.storage.recovery import MAX_EPOCH, segment_bases
from kafka_wire.errors import Err
from kafka_wire.uuids import uuid_text

if TYPE_CHECKING:
    from pathlib import Path

    from broker_sim.metadata.kraft_metadata import KnownTopic
    from broker_sim.metadata.log_maintenance import LogMaintenance
    from broker_sim.metadata.saved_state import SavedState

log = logging.getLogger("broker_sim.metadata")

MAX_DELETED_IDS = 1000
"""Maximum number of ids of deleted topics that are kept, for the directories that a crash may have left of them."""

MAX_LOGGED = 10
"""The number of unknown directories that are named in the log."""

_NOT_KNOWN = (
    "it has records (or files that no log has), and cluster.json knows no such partition; copy it into a directory of its "
    "own to have it served there with --data"
)


_KEPT = {"retention.ms": "-1", "retention.bytes": "-1", "min.cleanable.dirty.ratio": "1.0"}
"""Settings under which the logs of another broker stay as they are: Kafka cleans above this ratio alone."""

_LOSS = {
    OFFSETS_TOPIC: "its groups lose their members and the offsets that were committed there",
    TRANSACTION_TOPIC: "its transactional ids lose their producers and open transactions",
}
_LOSS_OF_RECORDS = "offsets committed beyond its end are out of range, so that consumers reset (auto.offset.reset)"

_ENDS_KEEPING = ("max.compaction.lag.ms",)

_COMPACTED = INTERNAL_TOPICS | {"__share_group_state"}

KEEP_OFFSETS_MINUTES = 2**31 - 1
"""offsets.retention.minutes where another broker's groups are served: what they committed is old by nature."""


class Saved(Protocol):
    """The part of a `ClusterState` that is saved and restored."""

    config: BrokerConfig
    clock: Clock
    cluster_id: str
    topics: dict[str, Topic]
    topics_by_id: dict[bytes, Topic]
    entity_configs: dict[Entity, dict[str, dict[str, str]]]
    scram_credentials: dict[str, dict[str, str]]
    next_leader: int
    maintenance: LogMaintenance

    def broker_ids(self) -> list[int]: ...

    def new_uuid(self) -> bytes: ...

    def install(self, topic: Topic) -> None: ...

    def changed(self) -> None: ...


class Persistence:
    """The files of a cluster's state and of its logs. ``data_dir`` None keeps everything in memory; ``files`` is the disk that it is
    on; ``id_is_given``: the cluster's id stays what it is, whatever was saved."""

    def __init__(
        self, state: Saved, data_dir: Path | None, files: Files, *, sync: bool = False, id_is_given: bool = False
    ) -> None:
        self._state = state
        self.data_dir = data_dir
        self.sync = sync
        self.files = files
        self.adopted = False
        """Whether logs of another broker are served."""
        self._id_is_given = id_is_given
        self.deleted_topic_ids: list[str] = []
        """Ids of deleted topics."""
        self._texts: dict[str, str] = {}  # of the topics in cluster.json, as far as they are still true
        self._next_producer_id = 0
        self._reserved_producer_id = 0
        self._written: bytes | None = None  # cluster.json, as far as it was read or written
        self._loaded = False  # whether all of what the directory has is known
        self._behind = False  # whether it may differ from what is true
        self._together = False  # whether it may do so for a while

    # -------------------------------------------------------------------------------------------- logs

    def _open_log(self, topic: Topic, index: int, settings: LogConfig) -> PartitionLog:
        path = self._log_dir(topic, index)
        files = self.files
        if path is not None:
            files.make_dir(path)  # what makes `cluster.json` durable does so with its name
            meta_files.write_partition_id(path, topic.topic_id, files=files, sync=self.sync)
        name = f"{topic.name}-{index}"
        now_ms = self._state.clock.now_ms()
        opened = PartitionLog(path, settings, now_ms=now_ms, sync=self.sync, name=name, files=files)
        self._state.maintenance.watch(opened, now_ms)
        return opened

    def make_log(self, topic: Topic, index: int, settings: LogConfig) -> PartitionLog:
        """The log of a new partition, of which nothing stays where it can't be made. Raises OSError."""
        path = self._log_dir(topic, index)
        if path is not None and self.files.is_dir(path):
            self._clear(path)
        try:
            return self._open_log(topic, index, settings)
        except OSError:
            if path is not None:
                self._remove(path)
            raise

    def _clear(self, path: Path) -> None:
        """Make room for a new partition's directory (rule 5). Raises OSError."""
        if path.name not in self.files.names(path.parent):
            reason = "the file system does not distinguish upper and lower case, and another topic has this directory"
            raise FileExistsError(errno.EEXIST, reason, str(path))
        if self._is_left_over(path):
            self.files.remove_dir(path, last=meta_files.PARTITION_FILE)
            return
        stray = f"{path.name}.{self._state.new_uuid().hex()}-stray"  # as Kafka names what it does not know
        aside = path.with_name(stray)
        self.files.rename(path, aside)
        log.warning(
            "%s occupied the directory of a new partition and was renamed to %s: %s", path, aside.name, _NOT_KNOWN
        )

    def _is_left_over(self, path: Path) -> bool:
        """Whether a directory that no topic has is of a deletion, or of a creation, that was cut short."""
        topic_id = meta_files.read_partition_id(path, self.files)
        if topic_id is not None and uuid_text(topic_id) in self.deleted_topic_ids:
            return True
        return not meta_files.holds_records(path, self.files)

    def _remove(self, path: Path) -> None:
        try:
            if self.files.is_dir(path):
                self.files.remove_dir(path, last=meta_files.PARTITION_FILE)
        except OSError as error:
            log.warning("%s could not be removed completely; the next start retries: %s", path, error)

    def _log_dir(self, topic: Topic, index: int) -> Path | None:
        return None if self.data_dir is None else self.data_dir / f"{topic.name}-{index}"

    def drop_log(self, deleted: PartitionLog) -> None:
        """Remove a log, now or at the next start."""
        try:
            deleted.delete()
        except StorageError as error:
            log.warning("%s could not be deleted completely; the next start retries: %s", deleted.name, error)

    def sync_removals(self) -> None:
        """Make the removal of directories durable, as far as the disk allows, while the ids of their topics are known."""
        if self.data_dir is not None:
            with contextlib.suppress(OSError):
                self.files.sync_dir(self.data_dir)

    def close_logs(self) -> None:
        """Flush and close every log, and write down their ends, with which the next start compares: a clean shutdown. Failed writes are
        logged; where a log was not flushed the ends are not written, and the next start is one after a crash (LogManager.shutdown)."""
        partitions = [partition for topic in self._state.topics.values() for partition in topic.partitions]
        failures: list[StorageError] = []
        for partition in partitions:
            try:
                partition.log.flush()
            except StorageError as error:
                failures.append(error)
            partition.log.close()
        if failures:
            log.warning(
                "%d of %d logs could not be flushed, the first: %s", len(failures), len(partitions), failures[0]
            )
        if failures or self.data_dir is None or not self._loaded:
            return
        rows = [(partition.topic.name, partition.index, partition.log_end_offset) for partition in partitions]
        try:
            checkpoints.write_rows(self.data_dir / checkpoints.ENDS_FILE, rows, files=self.files, sync=True)
        except OSError as error:
            log.warning("%s can't be written: %s", self.data_dir / checkpoints.ENDS_FILE, error)

    # -------------------------------------------------------------------------------------------- producers

    def next_producer_id(self) -> int:
        """A producer id that no producer of this cluster has had: ids are set aside on disk in blocks before they are
        given out. Raises KAFKA_STORAGE_ERROR.
        """
        if self._next_producer_id >= self._reserved_producer_id:
            before, self._reserved_producer_id = (
                self._reserved_producer_id,
                self._next_producer_id + meta_files.PRODUCER_ID_BLOCK,
            )
            try:
                self._save()
            except KafkaError:
                self._reserved_producer_id = before
                raise
        self._next_producer_id += 1
        return self._next_producer_id - 1

    # -------------------------------------------------------------------------------------------- disk

    def write(self, topics: Sequence[Topic], adding: Sequence[Partition] = ()) -> None:
        """As `ClusterState.changed`, once that has noted the change."""
        self._note_change(topics)
        if adding and self.data_dir is not None:
            [topic] = topics
            self._texts[topic.name] = self._text(topic, adding)
        try:
            self._save()
        except KafkaError:
            for topic in topics:
                self._texts.pop(topic.name, None)  # the caller takes it back
            raise

    def write_if_it_can(self, topics: Sequence[Topic]) -> None:
        """Write the state of changed topics; a failed write is logged and retried at the next change."""
        if self._together:
            self._behind = True
            self._note_change(topics)
            return
        with contextlib.suppress(KafkaError):
            self.write(topics)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """In this block the changes passed to `write_if_it_can` are written together at its end, since each write waits for the
        disk."""
        if self._together:
            yield
            return
        self._together = True
        try:
            yield
        finally:
            self._together = False
            self.catch_up()

    def _note_change(self, topics: Sequence[Topic]) -> None:
        for name in [topic.name for topic in topics] or list(self._texts):
            self._texts.pop(name, None)

    def catch_up(self) -> None:
        """Write the state, if it has changed since the last write."""
        if self._behind:
            with contextlib.suppress(KafkaError):
                self._save()

    def _text(self, topic: Topic, adding: Sequence[Partition] = ()) -> str:
        return meta_files.topic_text(topic.topic_id, topic.configs, [entry(p) for p in (*topic.partitions, *adding)])

    def _save(self) -> None:
        if self.data_dir is None:
            return
        for topic in self._state.topics.values():
            if topic.name not in self._texts:
                self._texts[topic.name] = self._text(topic)
        state = {
            "cluster_id": self._state.cluster_id,
            "next_producer_id": self._reserved_producer_id,
            "dynamic_configs": self._state.config.dynamic_default,
            "broker_configs": {str(node): values for node, values in self._state.config.dynamic_broker.items()},
            "group_configs": self._state.entity_configs[Entity.GROUP],
            "client_metrics_configs": self._state.entity_configs[Entity.CLIENT_METRICS],
            "scram_credentials": self._state.scram_credentials,
            "deleted_topic_ids": self.deleted_topic_ids[-MAX_DELETED_IDS:],
            "adopted": self.adopted,
        }
        texts = {name: self._texts[name] for name in self._state.topics}
        try:
            self._written = meta_files.write_state(self.data_dir, state, texts, self._written, files=self.files)
        except OSError as error:
            self._behind = True
            log.error("the cluster's state can't be written: %s", error)
            raise KafkaError(Err.KAFKA_STORAGE_ERROR, str(error)) from error
        self._behind = False

    def load(self) -> None:
        """Read the data directory, after the brokers were added: topics of `cluster.json`, then logs that it doesn't
        know.

        Where there is no `cluster.json` log directories (another broker's) become topics under the ids of their
        partition.metadata. Every leader gets a new epoch, as after a restart of its broker. Raises StoreError, OSError.
        """
        if self.data_dir is None:
            return
        from broker_sim.metadata.saved_state import SavedState, parse_state

        self.files.make_dir(self.data_dir, sync=True)
        meta_files.refuse_links(self.data_dir, self.files)
        self._written = meta_files.read_bytes(self.data_dir, self.files)
        saved = SavedState()
        if self._written is not None:
            saved = parse_state(self._written, self.data_dir / meta_files.STATE_FILE, self._state.config)
        lost = self._load_state(saved)
        unknown = self._unknown(is_another_brokers=self._written is None)
        if self.adopted or self._written is None:
            self._adopt_all(unknown)
        else:
            self._log_unknown(unknown)
        self._log_lost(lost)
        if self.adopted:
            self._state.config.assume("offsets.retention.minutes", KEEP_OFFSETS_MINUTES)
        node_id, directory_id = next(iter(self._state.broker_ids()), 1), uuid_text(self._state.new_uuid())
        meta_files.write_properties(self.data_dir, self._state.cluster_id, node_id, directory_id, files=self.files)
        self._state.changed()
        self._loaded = True
        if self._written is not None:
            # The ends are those of a clean shutdown; after a crash they would be those of the one before, of topics perhaps that
            # have been deleted since. What another broker left stays.
            self.files.remove(self.data_dir / checkpoints.ENDS_FILE)
            self.files.sync_dir(self.data_dir)

    def _load_state(self, saved: SavedState) -> dict[str, str]:
        """The state as it was saved; by directory's name a line for each partition that has lost its log. Raises StoreError."""
        assert self.data_dir is not None
        known_id = saved.cluster_id or meta_files.read_cluster_id(self.data_dir, self.files)
        if known_id and not self._id_is_given:
            self._state.cluster_id = known_id
        self._next_producer_id = self._reserved_producer_id = saved.next_producer_id
        self.adopted, self.deleted_topic_ids = saved.adopted, saved.deleted_topic_ids
        self._state.config.restore(saved.dynamic_configs, saved.broker_configs)
        for entity, named in saved.entity_configs.items():
            self._state.entity_configs[entity].update(named)
        self._state.scram_credentials.update(saved.scram_credentials)
        lost: dict[str, str] = {}
        for saved_topic in saved.topics:
            topic = Topic(saved_topic.name, saved_topic.topic_id, saved_topic.configs)
            logs = log_config(self._state.config, topic)
            for index, old in enumerate(saved_topic.partitions):
                if (line := self._lost(topic, index)) is not None:
                    lost[f"{topic.name}-{index}"] = line
                self._reopen(topic, index, old.replicas, old.leader, old.leader_epoch + 1, logs)
            self._state.install(topic)
        return lost

    def _log_lost(self, lost: dict[str, str]) -> None:
        """Log the partitions that have `lost` their logs, and those whose log ends before the end that it had at the last clean
        shutdown: an emptied file is a valid log.
        """
        assert self.data_dir is not None
        for topic, index, end, known in self._shorter():
            if f"{topic}-{index}" not in lost:
                what = f"ends at offset {end}, and at {known} in {checkpoints.ENDS_FILE}: its last records are lost"
                lost[f"{topic}-{index}"] = f"{topic}-{index} {what}; {_LOSS.get(topic, _LOSS_OF_RECORDS)}"
        for line in list(lost.values())[:MAX_LOGGED]:
            log.warning("%s", line)
        if len(lost) > MAX_LOGGED:
            log.warning("the same for %d more partitions in %s", len(lost) - MAX_LOGGED, self.data_dir)

    def _shorter(self) -> Iterator[tuple[str, int, int, int]]:
        """(topic, partition, end of its log, end in the checkpoint) of every log that is shorter than the checkpoint says."""
        assert self.data_dir is not None
        known = checkpoints.offsets_or_none(self.data_dir, checkpoints.ENDS_FILE, self.files) or {}
        for (topic, index), end in known.items():
            partitions = self._state.topics[topic].partitions if topic in self._state.topics else []
            if index < len(partitions) and partitions[index].log_end_offset < end:
                yield topic, index, partitions[index].log_end_offset, end

    def _lost(self, topic: Topic, index: int) -> str | None:
        """A line about a partition whose log isn't there."""
        path = self._log_dir(topic, index)
        assert path is not None
        if not self.files.is_dir(path):
            what = "its directory is missing"
        elif not segment_bases(path, self.files):
            what = "its directory has no segment"
        else:
            return None
        seen = _LOSS.get(topic.name, _LOSS_OF_RECORDS)
        return f"{path.name}: {what}, and its records are lost; it begins at offset 0: {seen}"

    def _reopen(
        self, topic: Topic, index: int, replicas: list[int], leader: int, epoch: int, settings: LogConfig
    ) -> None:
        """A partition as it was, as far as its brokers are still there. Raises StoreError."""
        existing = [node for node in replicas if node in self._state.broker_ids()]
        if not existing:
            nodes = self._state.broker_ids()
            existing = [nodes[(self._state.next_leader + index) % len(nodes)]] if nodes else replicas
        files = self._open_log(topic, index, settings)
        epoch = max(epoch, files.latest_epoch + 1)
        if epoch > MAX_EPOCH:
            raise meta_files.StoreError(
                f"{files.directory} has records of the leader epoch {files.latest_epoch}, the largest possible one"
            )
        topic.partitions.append(
            Partition(topic, index, existing, leader if leader in existing else existing[0], epoch, files)
        )

    def _unknown(self, *, is_another_brokers: bool) -> dict[str, dict[int, Path]]:
        """Directories of partitions without a topic. The rest of an interrupted creation or deletion is removed first (rule 1). Raises
        OSError."""
        assert self.data_dir is not None
        unknown: dict[str, dict[int, Path]] = {}
        for name, logs in meta_files.find_partitions(self.data_dir, self.files).items():
            known = len(self._state.topics[name].partitions) if name in self._state.topics else 0
            for index, path in logs.items():
                if index < known:
                    continue
                if is_another_brokers:
                    if self.files.names(path):
                        unknown.setdefault(name, {})[index] = path
                elif self._is_left_over(path):
                    log.warning("removing %s: its topic was deleted, or its creation was interrupted", path)
                    self.files.remove_dir(path, last=meta_files.PARTITION_FILE)
                elif meta_files.is_log(path, self.files):
                    unknown.setdefault(name, {})[index] = path
        return unknown

    def _log_unknown(self, unknown: Mapping[str, Mapping[int, Path]]) -> None:
        """Log the directories of unknown topics, which stay as they are (rule 5)."""
        paths = [path for logs in unknown.values() for path in logs.values()]
        for path in paths[:MAX_LOGGED]:
            log.warning("%s is not served and left unchanged: %s", path, _NOT_KNOWN)
        if len(paths) > MAX_LOGGED:
            log.warning("the same for %d more directories in %s", len(paths) - MAX_LOGGED, self.data_dir)

    def _adopt_all(self, directories: dict[str, dict[int, Path]]) -> None:
        """Make topics of another broker's logs. Raises StoreError, OSError."""
        assert self.data_dir is not None
        grown = {name: logs for name, logs in directories.items() if name in self._state.topics}
        self._log_unknown(grown)
        directories = {name: logs for name, logs in directories.items() if name not in self._state.topics}
        if not directories:
            return
        if not self.files.real:
            raise meta_files.StoreError(
                f"{self.data_dir} has logs that are missing in {meta_files.STATE_FILE}: {', '.join(directories)}"
            )
        from broker_sim.metadata import (
            foreign_directory,  # it reads records of groups and controllers, which most starts don't need
        )

        setting_name = "offsets.topic.num.partitions"
        survey = foreign_directory.survey(
            self.data_dir,
            directories,
            partitions=self._state.config.int(setting_name) if self._state.config.given(setting_name) else None,
            known=self._state.topics,
            old=self._state.config.release < (3, 5),
        )
        for line in survey.lines:
            log.warning("%s", line)
        if not survey.logs:
            return
        self.adopted = True
        for name, logs in survey.logs.items():
            self._adopt(name, logs, survey.counts[name], survey.known.get(name))
        for name, ends in survey.missing.items():
            self._adopt(name, {}, max(ends) + 1, survey.known.get(name))
            for partition in self._state.topics[name].partitions:
                end = ends.get(partition.index, 0)
                foreign_directory.pad_log(partition.log, end, partition.leader_epoch, self._state.clock.now_ms())
                partition.advance_high_watermark()
        free = foreign_directory.first_free_producer_id(self._state.topics.values())
        self._next_producer_id = self._reserved_producer_id = max(self._next_producer_id, free)
        log.warning(
            "%s has another broker's logs: cluster.json and what clients write are added to it; what is there stays, with "
            "retention, compaction and the expiry of offsets off until they are set",
            self.data_dir,
        )

    def _adopt(
        self, name: str, directories: Mapping[int, Path], partitions: int, known_topic: KnownTopic | None
    ) -> None:
        """A topic of these log directories, as far as its settings let its logs stay as they are; gaps become empty
        partitions.
        """
        known = [meta_files.read_partition_id(path) for path in directories.values()] + [
            known_topic.topic_id if known_topic else None
        ]
        topic_id = next(
            (candidate for candidate in known if candidate is not None and candidate not in self._state.topics_by_id),
            None,
        )
        settings = {"cleanup.policy": "compact"} if name in _COMPACTED else {}
        if name == OFFSETS_TOPIC:
            settings["compression.type"] = "producer"
            settings["segment.bytes"] = str(self._state.config.int("offsets.topic.segment.bytes"))
        for setting, value in (known_topic.configs if known_topic else {}).items():
            if setting not in _ENDS_KEEPING:
                with contextlib.suppress(ConfigError):  # of another release, perhaps
                    settings |= self._state.config.check_topic({setting: value})
        topic = Topic(name, topic_id or self._state.new_uuid(), settings | _KEPT)
        nodes, logs = self._state.broker_ids(), log_config(self._state.config, topic)
        for index in range(partitions):
            leader = nodes[(self._state.next_leader + index) % len(nodes)]
            self._reopen(topic, index, [leader], leader, 0, logs)
        self._state.install(topic)


def entry(partition: Partition) -> dict[str, Any]:
    """The JSON object of a partition in `cluster.json`."""
    names = ("replicas", "isr", "leader", "leader_epoch")
    return {name: getattr(partition, name) for name in names}
