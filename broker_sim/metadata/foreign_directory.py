"""A log directory that another broker left (a real Kafka's, or a part of it), found out before anything in it is opened.

    found = survey(directory, store.find_partitions(directory), partitions=None)
    found.counts["__consumer_offsets"]      # 50, although only __consumer_offsets-12 was copied
    found.lines                             # messages for the user

Rules:
1. Nothing is written here. What can't be served as it was is a StoreError, and the directory stays as it is.
2. How many partitions the offsets topic has decides which broker a group asks and which log it is in, so the number is
   proved by the groups that are found: each has to hash to the partition that it lies in.
   Where the cluster's metadata is there, it tells, and so it does for the other topics and their settings.
3. A topic that groups have committed and whose logs were not copied is known by name, partitions and least size.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from broker_sim.metadata.kraft_metadata import KnownTopic, Row, read_topics, rows_of, segments
from broker_sim.metadata.meta_files import PARTITION_FILE, PRODUCER_ID_BLOCK, StoreError
from broker_sim.metadata.topics import (
    METADATA_TOPIC,
    OFFSETS_TOPIC,
    TRANSACTION_TOPIC,
    KafkaError,
    Topic,
    check_topic_name,
)
from broker_sim.storage import Origin, PartitionLog, partition_for
from broker_sim.storage.checkpoints import LEADER_EPOCH_FILE
from broker_sim.storage.errors import StorageError
from kafka_wire import record_batch as rb
from kafka_wire import transaction_log
from kafka_wire.codec import DecodeError, decode
from kafka_wire.last_values import BatchLayouts, KeyValue, is_plain
from kafka_wire.messages.consumer_protocol import ConsumerProtocolAssignment
from kafka_wire.messages.offsets_log import GroupMetadataKey, OffsetCommitKey
from kafka_wire.offsets_log import GROUP_METADATA, OFFSET_COMMIT, decode_key, decode_value, kind_name, offset_commit_key

USUAL_PARTITIONS = 50
"""The default of offsets.topic.num.partitions."""

MOST_PARTITIONS = 1000
"""Largest number of offsets partitions that is tried."""

MOST_OFFSETS_IN_A_BATCH = 2**31 - 1

LAST_PARTITION = 99_999
"""A directory whose name ends in a larger number is hardly a partition's."""

LAST_UNSEEN = 9_999
"""The largest number of a partition that is made because a group names it."""

FARTHEST_END = 2**40
"""Commits may hold any number; beyond this none is taken for the end of a log."""

_FIRST_FLEXIBLE = 4
"""The version of a commit's value from which on a broker before 3.5 can't read it."""

_LEAVING = re.compile(r".+-[0-9]+\.[0-9a-f]{32}-(?P<why>delete|future|stray)")
_WHY = {
    "delete": "Kafka was deleting it",
    "future": "an unfinished move between disks",
    "stray": "Kafka no longer knew it",
}

Partitions = Mapping[str, Mapping[int, Path]]
"""Topic -> partition -> directory."""


@dataclass
class OffsetsContent:
    """The contents of the present offsets partitions, by their records."""

    places: dict[tuple[str, int], None] = field(default_factory=dict)
    """(group, offsets partition), in the order in which they were met."""
    committed: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """(group, topic, partition) -> the offset in its last record."""
    assigned: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    """Group -> what its members are assigned, as far as they are consumers."""
    open: dict[int, dict[str, None]] = field(default_factory=dict)
    """Producer id -> groups of its transaction that has no end."""
    other_kinds: Counter[str] = field(default_factory=Counter)
    needs_later_reader: bool = False
    records: int = 0

    def groups(self) -> list[str]:
        """Every group id that was met."""
        return list(dict.fromkeys(group for group, _ in self.places))

    def topics(self) -> dict[str, dict[int, int]]:
        """Topic -> partition -> the largest offset that a group has committed of it; 0 for one that is only assigned."""
        result: dict[str, dict[int, int]] = {}
        for topic, partition in (place for assigned in self.assigned.values() for place in assigned):
            if 0 <= partition <= LAST_UNSEEN:
                result.setdefault(topic, {})[partition] = 0
        for (_, topic, partition), offset in self.committed.items():
            if not 0 <= partition <= LAST_UNSEEN:
                continue
            known = result.setdefault(topic, {})
            known[partition] = max(offset, known.get(partition, 0))
        return result


@dataclass
class Survey:
    """A directory of logs as another broker left it."""

    logs: dict[str, dict[int, Path]] = field(default_factory=dict)
    """Topic -> partition -> directory, of those that are logs."""
    counts: dict[str, int] = field(default_factory=dict)
    """Topic -> how many partitions it has."""
    missing: dict[str, dict[int, int]] = field(default_factory=dict)
    """Topics that groups have committed and that have no logs here -> partition -> largest committed offset."""
    known: dict[str, KnownTopic] = field(default_factory=dict)
    """Topics in the cluster's metadata."""
    lines: list[str] = field(default_factory=list)
    """Findings, as text for users."""


def survey(
    directory: Path,
    directories: Partitions,
    *,
    partitions: int | None = None,
    known: Collection[str] = (),
    old: bool = False,
) -> Survey:
    """Look at the logs ``found`` in ``directory``. ``partitions`` is a number of offsets partitions that was asked for, ``known`` are
    topics that need no logs, ``old`` says that the broker to be can't read what Kafka 3.5 and later write. Raises StoreError, OSError.

    First metadata, then logs, then offsets logs: each fills what the one before left open (partitions without logs, missing topics).
    """
    out = Survey(lines=passed_over(directory))
    topics = read_topics(directory)
    if topics:
        out.known = topics
        out.lines.append(f"{METADATA_TOPIC}-0 has the settings and the partitions of {len(topics)} topics")
    for topic, paths in directories.items():
        logs = {index: path for index, path in paths.items() if _is_log(path)}
        out.lines += [
            f"{path.name} is skipped: it is not a log" for path in paths.values() if path not in logs.values()
        ]
        if not logs:
            continue
        out.logs[topic] = logs
        if max(logs) > LAST_PARTITION:
            raise StoreError(f"{logs[max(logs)]} is not a partition: a topic can't have so many; remove the directory")
        for path in logs.values():
            _check_formats(path)
        if topic != OFFSETS_TOPIC:
            out.counts[topic] = max(max(logs) + 1, _partitions(topics, topic))
            _report_gaps(out, topic, logs)
    logs = out.logs.get(OFFSETS_TOPIC, {})
    if not logs:
        return out
    content = OffsetsContent()
    for index, path in logs.items():
        read_offsets_log(path, index, content)
    known_count = _partitions(topics, OFFSETS_TOPIC)
    if partitions is None and known_count > max(logs):
        count, source = known_count, "by the cluster's metadata"
    else:
        count, source = partition_count(content.places, logs, partitions)
    out.counts[OFFSETS_TOPIC] = count
    out.lines += _coordinated_lines(content, count, len(logs), source, coordinated=TRANSACTION_TOPIC in out.logs)
    if old and content.needs_later_reader:
        out.lines.append(
            "some records of it are of later releases: this one gives up the partition that holds them; "
            "--as-version 4.1 reads them"
        )
    out.missing = {
        topic: ends
        for topic, ends in content.topics().items()
        if topic not in out.logs and topic not in known and _is_topic(topic)
    }
    for name, ends in out.missing.items():
        if (last := _partitions(topics, name) - 1) >= 0:
            ends.setdefault(last, 0)
    if out.missing:
        names = ", ".join(f"{name} ({max(ends) + 1})" for name, ends in sorted(out.missing.items()))
        out.lines.append(
            f"topics without logs here, known from the groups: {names}; they are made with empty logs that end at the "
            "largest committed offset"
        )
    return out


def _partitions(topics: Mapping[str, KnownTopic], name: str) -> int:
    """The number of a topic's partitions in the cluster's metadata; 0 if it is not there."""
    return topics[name].partitions if name in topics else 0


def passed_over(directory: Path) -> list[str]:
    """A line for every directory that looks like a log and is none."""
    lines = []
    for path in sorted(directory.iterdir()):
        leaving = _LEAVING.fullmatch(path.name)
        if leaving is not None and path.is_dir():
            lines.append(f"{path.name} is skipped: {_WHY[leaving['why']]}")
    return lines


def _report_gaps(out: Survey, topic: str, logs: Mapping[int, Path]) -> None:
    absent = [index for index in range(out.counts[topic]) if index not in logs]
    if absent:
        out.lines.append(
            f"{topic}: of its {out.counts[topic]} partitions {numbers(absent)} are not here and begin empty"
        )


def _coordinated_lines(content: OffsetsContent, count: int, here: int, source: str, *, coordinated: bool) -> list[str]:
    groups = content.groups()
    lines = [
        f"{OFFSETS_TOPIC}: {here} of {count} partitions are here ({source}); {len(groups)} group ids in {content.records} "
        "records"
    ]
    if content.other_kinds:
        kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(content.other_kinds.items()))
        total = sum(content.other_kinds.values())
        lines.append(f"{total} records are of kinds that classic groups don't have: {kinds}")
    end = "before its coordinator, whose log is here, ends it" if coordinated else "and is aborted in a minute"
    for producer_id, names in content.open.items():
        lines.append(
            f"the transaction of producer {producer_id} has no end: what it committed for {', '.join(names)} does not "
            f"show{'' if coordinated else ','} {end}"
        )
    return lines


def numbers(indexes: Iterable[int]) -> str:
    """``0-3, 7``: ascending numbers for people."""
    runs: list[list[int]] = []
    for index in indexes:
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def first_free_producer_id(topics: Iterable[Topic]) -> int:
    """A producer id above all that these logs and transactional ids know, at the beginning of a block: a controller gives out blocks,
    and of the last one more may have been given than were used."""
    highest = -1
    for topic in topics:
        for partition in topic.partitions:
            highest = max([highest, *partition.log.producers.entries])
            if topic.name == TRANSACTION_TOPIC:
                highest = max([highest, *_transactional_producers(partition.log)])
    return (highest // PRODUCER_ID_BLOCK + 1) * PRODUCER_ID_BLOCK


def _transactional_producers(log: PartitionLog) -> Iterator[int]:
    """The producer ids of transactional ids; an invalid record ends the list, and its coordinator reports it when it loads the log."""
    with contextlib.suppress(DecodeError, StorageError, rb.RecordBatchError):
        for batch in log.batches():
            for record in batch.records():
                if batch.header.is_control or not record.key or not record.value:
                    continue
                if transaction_log.decode_key(record.key) is not None:
                    value = transaction_log.decode_value(record.value)
                    yield max(value.producer_id, value.next_producer_id, value.previous_producer_id)


# --- how many partitions ------------------------------------------------------------------------------------------------


def partition_count(
    places: Collection[tuple[str, int]], indexes: Collection[int], given: int | None
) -> tuple[int, str]:
    """The offsets topic's number of partitions, and why. ``places`` are (group, partition that it lies in), ``indexes`` the partitions
    that are there, ``given`` is what the user said. Raises StoreError where several numbers could be, or none.
    """
    least = max(indexes) + 1
    if given is not None:
        if given < least:
            raise StoreError(f"offsets.topic.num.partitions={given}, but there is {OFFSETS_TOPIC}-{least - 1}")
        misplaced = _misfits(places, given)
        return given, "as asked" + (f"; {_lost(misplaced, given)}" if misplaced else "")
    complete = len(indexes) == least
    if not places:
        count = least if complete and least > 1 else max(least, USUAL_PARTITIONS)
        return count, "no group tells how many there are"
    order = [least, USUAL_PARTITIONS] if complete and least > 1 else [USUAL_PARTITIONS]
    proof = f"{len(places)} groups lie where their hashes put them" if len(places) > 1 else "its group hashes there"
    for count in order:
        if count >= least and not _misfits(places, count):
            return count, proof
    if complete and least > 1:
        return least, _lost(_misfits(places, least), least)
    fitting = [count for count in range(least, MOST_PARTITIONS + 1) if not _misfits(places, count)]
    hint = "--config offsets.topic.num.partitions=N tells"
    if len(fitting) == 1:
        return fitting[0], proof
    group, index = next(iter(places))
    if not fitting:
        raise StoreError(
            f"no number of {OFFSETS_TOPIC} partitions puts every group where it lies (as {group!r} in {index}); {hint}"
        )
    raise StoreError(
        f"{OFFSETS_TOPIC} may have {', '.join(map(str, fitting[:5]))}{' ...' * (len(fitting) > 5)} partitions by the groups "
        f"that lie here; {hint}"
    )


def _misfits(places: Iterable[tuple[str, int]], count: int) -> list[tuple[str, int]]:
    return [(group, index) for group, index in places if partition_for(group, count) != index]


def _lost(places: list[tuple[str, int]], count: int) -> str:
    group, index = places[0]
    return (
        f"not found by clients is {group!r}: it lies in {index}, where {count} partitions put it into "
        f"{partition_for(group, count)}; groups like it: {len(places)}"
    )


# --- reading ------------------------------------------------------------------------------------------------------------


def _is_topic(name: str) -> bool:
    """Whether a topic can have that name: it becomes a directory's."""
    try:
        check_topic_name(name)
    except KafkaError:
        return False
    return name not in (OFFSETS_TOPIC, METADATA_TOPIC)


def _is_log(path: Path) -> bool:
    """Whether it has a segment, or what Kafka puts beside one."""
    return any(file.suffix == ".log" or file.name in (PARTITION_FILE, LEADER_EPOCH_FILE) for file in path.iterdir())


def _check_formats(path: Path) -> None:
    """Raise StoreError where a segment begins with a message of a format before 2."""
    for file in segments(path):
        with file.open("rb") as handle:
            head = handle.read(rb.MAGIC_END)
        if len(head) == rb.MAGIC_END and head[16] in (0, 1):
            raise StoreError(f"{file} has messages of format {head[16]} (before Kafka 0.11), which is not supported")


def _rows(path: Path, read: Callable[[bytes, rb.BatchHeader], Iterable[Row]]) -> Iterator[tuple[rb.BatchHeader, Row]]:
    """The results of ``read`` for every batch of a log; a segment ends where a batch is damaged or cut, which is logged when the log is
    opened."""
    for file in segments(path):
        try:
            yield from rows_of(file, read)
        except rb.UnsupportedCompression as error:
            raise StoreError(f"{path.name} can't be read: {error}") from None
        except rb.UnsupportedForMessageFormat as error:
            raise StoreError(f"{file}: {error}") from None


def read_offsets_log(path: Path, index: int, content: OffsetsContent) -> None:
    """Take the records of an offsets partition in. Raises StoreError for what can't be unpacked, OSError."""
    _Reading(index, content).read(path)


class _Reading:
    """An offsets partition on its way into ``content``. Of the commits of a partition the last one is decoded, and the first."""

    def __init__(self, index: int, content: OffsetsContent) -> None:
        self.index, self.content = index, content
        self.latest: dict[bytes, bytes | None] = {}  # of a commit's key: the last value, where it is not decoded yet
        self.versions = set(range(_FIRST_FLEXIBLE + content.needs_later_reader))
        self.layouts = BatchLayouts(self.latest, self.versions)

    def read(self, path: Path) -> None:
        content = self.content
        for header, row in _rows(path, self._records):
            if row is None:
                continue
            if header.is_control:
                content.open.pop(header.producer_id, None)
                continue
            _, key, value = row
            group = self._take(key, value)
            if header.is_transactional and group is not None:
                content.open.setdefault(header.producer_id, {})[group] = None
        for key, value in self.latest.items():
            if value is not None:
                self._take(key, value)

    def _records(self, batch: bytes, header: rb.BatchHeader) -> Iterable[KeyValue | None]:
        if header.is_control:
            return iter([(header.base_offset, None, None)])
        self.content.records += header.record_count
        if is_plain(header):
            return self.layouts.last_values(batch, 0, header)
        return ((record.offset, record.key, record.value) for record in rb.records(batch, 0, header))

    def _take(self, encoded: bytes | None, value: bytes | None) -> str | None:
        """Note one record; the group whose offset it commits."""
        content = self.content
        if encoded is None:
            content.other_kinds["without a key"] += 1
            return None
        try:
            kind, key = decode_key(encoded)
            group = getattr(key, "group", getattr(key, "group_id", None))
            if isinstance(group, str):
                content.places[group, self.index] = None
            if not isinstance(key, OffsetCommitKey):
                if not isinstance(key, GroupMetadataKey):
                    content.other_kinds[kind_name(kind)] += 1
                    content.needs_later_reader = True
                else:
                    content.assigned[key.group] = _assigned(value)
                return None
            place = (key.group, key.topic, key.partition)
            # the partition's own key: there are others, older ones or with more behind
            self.latest[offset_commit_key(*place)] = None
            if value is None:
                content.committed.pop(place, None)
                return None
            if value[:2] > b"\x00\x03":
                content.needs_later_reader = True
                self.versions.add(_FIRST_FLEXIBLE)
            content.committed[place] = decode_value(OFFSET_COMMIT, value).offset
            return key.group
        except DecodeError:
            return None  # the load reports it


def _assigned(value: bytes | None) -> list[tuple[str, int]]:
    """Partitions that are assigned to the members in a group's record, as (topic, partition); none if they are no consumers."""
    result: list[tuple[str, int]] = []
    stored = decode_value(GROUP_METADATA, value)
    for member in stored.members if stored is not None and stored.protocol_type == "consumer" else ():
        try:
            given = decode(ConsumerProtocolAssignment, 0, member.assignment, 2)
        except DecodeError:
            continue
        result += [(t.topic, p) for t in given.assigned_partitions for p in t.partitions]
    return result


# --- logs that were not copied -------------------------------------------------------------------------------------------


def pad_log(log: PartitionLog, end: int, leader_epoch: int, now_ms: int) -> None:
    """Let ``log`` end at offset ``end`` without a record more: batches that compaction has emptied. Raises StorageError."""
    while log.log_end_offset < end <= FARTHEST_END:
        offsets = min(end - log.log_end_offset, MOST_OFFSETS_IN_A_BATCH)
        batch = rb.encode_batch([], last_offset=offsets - 1)
        log.append(batch, leader_epoch=leader_epoch, now_ms=now_ms, origin=Origin.COORDINATOR)
