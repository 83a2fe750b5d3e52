"""Groups from the outside: what `kafka-consumer-groups --describe`, `rpk group describe` or `kcl group describe` printed, or JSON,
becomes records of the offsets log.

    imported = read_describe(Path("ticket.txt").read_text())
    for line in apply(cluster.state, cluster.runtime, imported):
        print(line)

Rules:
1. What is imported is appended to `__consumer_offsets` as the coordinator writes it, and then loaded as at a broker's start: there
   is no other way into a group. Members are there with sessions that run, as after any load.
2. A topic is made with enough partitions, and where its log is empty it ends at the log end that was described: no record, but
   lag as it was.
3. All is checked before anything is written: UsageError (what is wrong, in which line or at which key), and the cluster is as it was.

The JSON is a list of groups, or an object {"groups": [...]}, or one group:

    {"group": "billing", "state": "Stable", "generation": 7, "protocol_type": "consumer", "protocol": "range", "leader": "c-1",
     "members": [{"member": "c-1", "client_id": "c", "client_host": "/10.0.0.1", "instance": null, "topics": ["orders"],
                  "assignment": {"orders": [0, 1]}, "session_timeout_ms": 45000, "rebalance_timeout_ms": 300000}],
     "offsets": [{"topic": "orders", "partition": 0, "offset": 5, "end": 12, "leader_epoch": 3, "metadata": ""}]}
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from broker_sim.common.slices import at_once
from broker_sim.common.text import UsageError, unknown
from broker_sim.coordinator.loader import Loader
from broker_sim.coordinator.outcome import Offset
from broker_sim.coordinator.records import GroupRecord, OffsetRecord, Record, encode
from broker_sim.metadata.cluster_state import ClusterState, KafkaError
from broker_sim.metadata.foreign_directory import FARTHEST_END, pad_log
from broker_sim.metadata.topics import OFFSETS_TOPIC, Partition
from broker_sim.migration.describe_output import MEMBERS, OFFSETS, SAYS, DescribedRow, has_table, read_rows
from broker_sim.migration.described_json import read_json
from broker_sim.migration.imported_groups import (
    DEAD,
    EMPTY,
    LAST_PARTITION,
    MAX_INT32,
    MAX_INT64,
    PREPARING,
    STABLE,
    STATES,
    Imported,
    ImportedGroup,
    ImportedMember,
    ImportedOffset,
    checked_topic,
)
from broker_sim.runtime.group_coordinator import GroupCoordinator
from broker_sim.runtime.log_reading import feeding
from broker_sim.storage import Origin, StorageError
from kafka_wire.codec import EncodeError
from kafka_wire.codec import encode as to_bytes
from kafka_wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from kafka_wire.messages.offsets_log import GroupMetadataValue, MemberMetadata
from kafka_wire.record_batch import build_batch

__all__ = ["Imported", "ImportedGroup", "ImportedMember", "ImportedOffset", "apply", "read_describe", "read_files"]

_BATCH_RECORDS = 2000
_RECORD_ROOM = 32  # bytes of a record beside key and value, at most
_ROOM = 128  # of a batch of one record
_JSON = re.compile(r"\s*(\{|\[(?!\d{4}-))")  # a log's line may begin with a bracket, too: with a date
_PROTOCOL_VERSION = b"\x00\x01"  # of ConsumerProtocol: subscriptions and assignments


# --- reading: tables ----------------------------------------------------------------------------------------------------


def read_files(paths: Iterable[str | os.PathLike[str]]) -> Imported:
    """As :func:`read_describe` of several files together: a group's offsets may be in one, its members in another. Raises UsageError
    that names the file.
    """
    imported = Imported()
    for path in paths:
        try:
            read_describe(Path(path).read_text(encoding="utf-8"), imported)
        except UsageError as error:
            raise UsageError(f"{path}: {error}") from None
        except UnicodeDecodeError:
            raise UsageError(f"{path}: not text in UTF-8") from None
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror or error}") from None
    return imported


def read_describe(text: str, into: Imported | None = None) -> Imported:
    """Groups out of what `kafka-consumer-groups --describe` printed (3.4 to 4.x; --offsets, --members, --state, with or without
    --verbose, any number of groups and tables), `rpk group describe`, `kcl group describe`, `kafka-streams-groups --describe
    --verbose`, or out of JSON; added to ``into`` where given. Raises UsageError.
    """
    imported = Imported() if into is None else into
    if _JSON.match(text) and not has_table(text):
        return read_json(text, imported)
    rows = list(read_rows(text))
    for row in rows:
        group = imported.group(row.need("GROUP"))
        {OFFSETS: _offset_row, MEMBERS: _member_row, SAYS: _apply_group_message}.get(row.kind, _state_row)(group, row)
    if not rows:
        raise UsageError(
            "no group found (expected the output of kafka-consumer-groups --describe, rpk or kcl group describe, or JSON)"
        )
    return imported


def _apply_group_message(group: ImportedGroup, row: DescribedRow) -> None:
    says = row.need("SAYS")
    state = EMPTY if "active" in says else PREPARING if "rebalancing" in says else DEAD
    group.state = group.state or state


def _offset_row(group: ImportedGroup, row: DescribedRow) -> None:
    topic, partition = row.get("TOPIC"), row.integer("PARTITION", 0, LAST_PARTITION)
    member_id = row.get("CONSUMER-ID")
    if (topic is None) != (partition is None):
        raise row.error("TOPIC and PARTITION must both have a value or both be -")
    if topic is not None and partition is not None:
        checked_topic(topic, row.error)
        epoch = row.integer("LEADER-EPOCH", -1, MAX_INT32)
        end = row.integer("LOG-END-OFFSET", -1, FARTHEST_END)  # kcl prints -1 where the broker did not say it
        group.offsets[topic, partition] = ImportedOffset(
            topic,
            partition,
            row.integer("CURRENT-OFFSET", -(2**63), MAX_INT64),
            None if end == -1 or row.get("ERROR") is not None else end,
            -1 if epoch is None else epoch,
        )
    elif member_id is None:
        raise row.error("neither a partition nor a member")
    group.is_streams = group.is_streams or row.of_streams
    if member_id is None:
        return
    member = _described(group, row, member_id)
    if topic is not None and partition is not None:
        mine = member.assignment.setdefault(topic, [])
        if partition not in mine:
            mine.append(partition)


_INSTANCE = re.compile(r"(?P<host>\S+) \((?:instance=(?P<instance>[^,)]+))?[^)]*\)")
"""A host as kcl prints it of a static member."""


def _described(group: ImportedGroup, row: DescribedRow, member_id: str) -> ImportedMember:
    """The member of a row, with its client, host and instance id."""
    member = group.member(member_id)
    member.client_id, member.client_host = row.get("CLIENT-ID") or "", row.get("HOST") or ""
    member.instance_id = row.get("GROUP-INSTANCE-ID") or member.instance_id
    static = _INSTANCE.fullmatch(member.client_host)
    if static is not None:
        member.client_host, member.instance_id = static["host"], static["instance"]
    return member


def _member_row(group: ImportedGroup, row: DescribedRow) -> None:
    member = _described(group, row, row.need("CONSUMER-ID"))
    text = row.get("ASSIGNMENT") or row.get("CURRENT-ASSIGNMENT")
    if text is not None:
        member.assignment = _assignment(text, row)
    subscribed = row.get("SUBSCRIBED-TOPICS")
    if subscribed is not None:
        member.topics = subscribed.split(",")
    group.newer_protocol = group.newer_protocol or bool(row.get("CURRENT-EPOCH") or row.get("MEMBER-EPOCH"))
    row.integer("#PARTITIONS", 0, MAX_INT32)


_TOPIC_OF_3 = re.compile(r"([a-zA-Z0-9._-]+)\(([0-9,]*)\)")
_TOPIC_OF_4 = re.compile(r"([a-zA-Z0-9._-]+):([0-9,]*)")


def _assignment(text: str, row: DescribedRow) -> dict[str, list[int]]:
    """``orders(0,1), audit(0)`` of 3.x, ``orders:0,1;audit:0`` of 4.x, ``orders:0,1 audit:0`` of kcl."""
    pattern, between = (_TOPIC_OF_3, r",\s*(?=[^,]*\()") if "(" in text else (_TOPIC_OF_4, r";\s*|\s+")
    result: dict[str, list[int]] = {}
    for part in re.split(between, text):
        match = pattern.fullmatch(part.strip())
        numbers = [] if match is None else [int(number) for number in match[2].split(",") if number]
        if match is None or max(numbers, default=0) > LAST_PARTITION:
            raise row.error(f"invalid assignment {part!r} (expected orders(0,1) or orders:0,1)")
        result[match[1]] = numbers
    return result


def _state_row(group: ImportedGroup, row: DescribedRow) -> None:
    state = row.need("STATE")
    if state not in STATES:
        raise row.error(str(unknown("state of a group", state, STATES)))
    group.state = state
    group.protocol = row.get("ASSIGNMENT-STRATEGY")
    epoch = row.integer("GROUP-EPOCH", 0, MAX_INT32)
    if epoch is not None:
        group.generation, group.newer_protocol = epoch, True
    row.integer("#MEMBERS", 0, MAX_INT32)


# --- into the cluster ---------------------------------------------------------------------------------------------------


def apply(state: ClusterState, runtime: GroupCoordinator, imported: Imported) -> list[str]:
    """Create the topics and append the groups' records, then let their coordinators load them. Returns messages for the user, a
    line each. Raises UsageError before anything is changed, and if a write fails.
    """
    messages: list[str] = []
    groups = [group for group in imported.groups.values() if _counts(group, messages)]
    topics = _topics(groups)
    _check_topics(state, topics)
    runtime.flush_batches()
    records = {group.group_id: _encoded(group, state, runtime) for group in groups}
    _check_absent(state, runtime, groups)
    try:
        for name, ends in topics.items():
            _make_topic(state, name, ends, messages)
        state.ensure_offsets_topic()
        touched: dict[int, Partition] = {}
        for group in groups:
            partition = runtime.partition_of(group.group_id)
            assert partition is not None  # the topic is there
            _append(partition, records[group.group_id], state.clock.now_ms())
            touched[partition.index] = partition
    except KafkaError as error:
        raise UsageError(f"the import failed: {error.message or error.error.name}") from None
    except StorageError as error:
        raise UsageError(f"the import could not be written: {error}") from None
    for partition in touched.values():
        runtime.reload(partition)
    messages += [_summary(group) for group in groups]
    return messages


def _counts(group: ImportedGroup, messages: list[str]) -> bool:
    """Whether the group is to be imported; notes what of it can't be as it was."""
    name = group.group_id
    if group.state == EMPTY and group.members:
        raise UsageError(f"group {name!r} is Empty and has {len(group.members)} members")
    if group.state == DEAD:
        messages.append(f"{name}: there was no such group; nothing is imported")
        return False
    if group.newer_protocol:
        messages.append(f"{name}: it used the newer protocol (KIP-848), and is a classic group here")
    if group.is_streams:
        messages.append(
            f"{name}: it is a streams group; its offsets are imported, members and tasks were not described"
        )
    if group.members and group.state not in (None, STABLE):
        messages.append(
            f"{name}: it was {group.state}; a group that is loaded is Stable until a member rejoins or is missed"
        )
    if not group.members and group.state not in (None, EMPTY):
        messages.append(f"{name}: it was {group.state}, but its members were not described; it begins Empty")
    return True


def _summary(group: ImportedGroup) -> str:
    commits = sum(offset.offset is not None for offset in group.offsets.values())
    standing = f"Stable with {len(group.members)} member{'s'[: len(group.members) != 1]}" if group.members else "Empty"
    return f"{group.group_id}: {standing}, {commits} committed offset{'s'[: commits != 1]}"


def _topics(groups: list[ImportedGroup]) -> dict[str, dict[int, int]]:
    """Topic -> partition -> the end of its log, 0 where it isn't known."""
    by_topic: dict[str, dict[int, int]] = {}
    for group in groups:
        for topic, partition in group.partitions():
            known = group.offsets.get((topic, partition))
            end = 0 if known is None else known.offset or 0 if known.end is None else known.end
            ends = by_topic.setdefault(topic, {})
            ends[partition] = max(ends.get(partition, 0), end)
    return by_topic


def _check_topics(state: ClusterState, topics: Mapping[str, Mapping[int, int]]) -> None:
    for name, ends in topics.items():
        if name not in state.topics:
            try:
                state.create_topic(name, max(ends) + 1, siblings=topics, validate_only=True)
            except KafkaError as error:
                raise UsageError(f"topic {name!r}: {error.message or error.error.name}") from None


def _make_topic(state: ClusterState, name: str, ends: Mapping[int, int], messages: list[str]) -> None:
    topic = state.topics.get(name)
    if topic is None:
        topic = state.create_topic(name, max(ends) + 1)
    elif len(topic.partitions) <= max(ends):
        state.create_partitions(name, max(ends) + 1)
    for index, end in ends.items():
        partition = topic.partitions[index]
        if partition.log_end_offset == 0:
            pad_log(partition.log, end, partition.leader_epoch, state.clock.now_ms())
            if not partition.high_watermark_frozen:
                partition.advance_high_watermark()
        elif partition.log_end_offset != end:
            messages.append(
                f"{partition.name}: its log is not empty and ends at {partition.log_end_offset}, not at {end}"
            )


def _check_absent(state: ClusterState, runtime: GroupCoordinator, groups: list[ImportedGroup]) -> None:
    """Raise UsageError for a group that the log holds already."""
    if OFFSETS_TOPIC not in state.topics:
        return
    wanted: dict[int, list[str]] = {}
    for group in groups:
        partition = runtime.partition_of(group.group_id)
        if partition is not None and partition.log_end_offset > partition.log_start_offset:
            wanted.setdefault(partition.index, []).append(group.group_id)
    for index, names in wanted.items():
        loader = Loader(runtime.settings)
        at_once(feeding(loader, state.topics[OFFSETS_TOPIC].partitions[index]))
        there = loader.finish().groups
        for name in names:
            if name in there:
                raise UsageError(f"group {name!r} exists already; import it into a cluster without that group")


# --- records ------------------------------------------------------------------------------------------------------------


def _encoded(group: ImportedGroup, state: ClusterState, runtime: GroupCoordinator) -> list[tuple[bytes, bytes | None]]:
    """The group's records as its coordinator writes them: members last, as they stand on what is committed."""
    now_ms = state.clock.now_ms()
    records: list[Record] = []
    for entry in group.offsets.values():
        if len(entry.metadata) > runtime.max_metadata_chars:
            raise UsageError(f"group {group.group_id!r}: metadata of {entry.topic}-{entry.partition} is too long")
        if entry.offset is not None:
            value = Offset(entry.offset, entry.leader_epoch, entry.metadata, now_ms)
            records.append(OffsetRecord(group.group_id, entry.topic, entry.partition, value))
    if group.members or not records or group.protocol_type or group.generation:
        records.append(GroupRecord(group.group_id, _group_value(group, now_ms)))
    try:
        encoded = [encode(record, runtime.settings.policy.commit_value_version) for record in records]
    except EncodeError as error:
        raise UsageError(f"group {group.group_id!r} can't be written: {error}") from None
    most = state.config.int("message.max.bytes") - _ROOM
    if any(len(key) + len(value or b"") > most for key, value in encoded):
        raise UsageError(f"group {group.group_id!r} exceeds message.max.bytes; increase that setting")
    return encoded


def _group_value(group: ImportedGroup, now_ms: int) -> GroupMetadataValue:
    kind = group.protocol_type if group.protocol_type is not None else "consumer"
    protocol = "range" if group.protocol is None or group.newer_protocol else group.protocol
    everything = list(dict.fromkeys(topic for member in group.members.values() for topic in member.assignment))
    members = [
        MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=_subscription(member, everything) if kind == "consumer" else b"",
            assignment=_assigned(member) if kind == "consumer" else b"",
        )
        for member in group.members.values()
    ]
    generation = group.generation if group.generation is not None else 1 if members else 0
    return GroupMetadataValue(
        protocol_type=kind,
        generation=generation,
        protocol=protocol if members else None,
        leader=(group.leader or members[0].member_id) if members else None,
        current_state_timestamp=now_ms,
        members=members,
    )


def _subscription(member: ImportedMember, everything: list[str]) -> bytes:
    """A consumer's metadata: the topics it was said to want, else those it has, else those the others have."""
    topics = member.topics if member.topics is not None else list(member.assignment) or everything
    return _PROTOCOL_VERSION + to_bytes(ConsumerProtocolSubscription(sorted(topics)), 1)


def _assigned(member: ImportedMember) -> bytes:
    parts = [
        ConsumerProtocolAssignmentTopicPartition(topic, sorted(partitions))
        for topic, partitions in sorted(member.assignment.items())
    ]
    return _PROTOCOL_VERSION + to_bytes(ConsumerProtocolAssignment(parts), 1)


def _append(partition: Partition, pairs: list[tuple[bytes, bytes | None]], now_ms: int) -> None:
    """Batches as large as the log takes them."""
    most = partition.log.config.max_message_bytes - _ROOM
    batch: list[tuple[bytes | None, bytes | None]] = []
    size = 0
    for key, value in pairs:
        more = len(key) + len(value or b"") + _RECORD_ROOM
        if batch and (size + more > most or len(batch) >= _BATCH_RECORDS):
            partition.append(build_batch(batch, now_ms), now_ms=now_ms, origin=Origin.COORDINATOR)
            batch, size = [], 0
        batch.append((key, value))
        size += more
    if batch:
        partition.append(build_batch(batch, now_ms), now_ms=now_ms, origin=Origin.COORDINATOR)
