"""Groups from the outside: what `kafka-consumer-groups --describe` printed, or JSON, becomes records of the offsets log.

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

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from broker_sim.common.slices import at_once
from broker_sim.common.text import UsageError, keys_once, unknown
from broker_sim.coordinator.loader import Loader
from broker_sim.coordinator.outcome import Offset
from broker_sim.coordinator.records import GroupRecord, OffsetRecord, Record, encode
from broker_sim.metadata.cluster_state import ClusterState, KafkaError
from broker_sim.metadata.creation_limits import MAX_AT_ONCE
from broker_sim.metadata.foreign_directory import FARTHEST_END, pad_log
from broker_sim.metadata.topics import OFFSETS_TOPIC, Partition, check_topic_name
from broker_sim.migration.describe_output import MEMBERS, OFFSETS, SAYS, DescribedRow, has_table, read_rows
from broker_sim.runtime.group_coordinator import GroupCoordinator
from broker_sim.runtime.log_reading import feeding
from broker_sim.storage import Origin, StorageError
from kafka_wire.codec import EncodeError
from kafka_wire.codec import encode as to_bytes
from kafka_wire.group_states import GROUP_STATES
from kafka_wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from kafka_wire.messages.offsets_log import GroupMetadataValue, MemberMetadata
from kafka_wire.record_batch import build_batch

__all__ = ["Imported", "ImportedGroup", "ImportedMember", "ImportedOffset", "apply", "read_describe", "read_files"]

SESSION_TIMEOUT_MS = 45_000
REBALANCE_TIMEOUT_MS = 300_000
"""A Java consumer's defaults, for missing values of a description."""

LAST_PARTITION = MAX_AT_ONCE - 1
MAX_INT32 = 2**31 - 1
MAX_INT64 = 2**63 - 1
_BATCH_RECORDS = 2000
_RECORD_ROOM = 32  # bytes of a record beside key and value, at most
_ROOM = 128  # of a batch of one record
_JSON = re.compile(r"\s*(\{|\[(?!\d{4}-))")  # a log's line may begin with a bracket, too: with a date
_PROTOCOL_VERSION = b"\x00\x01"  # of ConsumerProtocol: subscriptions and assignments

EMPTY, PREPARING, _, STABLE, DEAD = GROUP_STATES
STATES = (*GROUP_STATES, "Assigning", "Reconciling")  # the last two of KIP-848


@dataclass
class ImportedOffset:
    """A partition that a group has committed (``offset``), or that it is assigned without a commit; ``end`` is the log's."""

    topic: str
    partition: int
    offset: int | None = None
    end: int | None = None
    leader_epoch: int = -1
    metadata: str = ""


@dataclass
class ImportedMember:
    """A member; ``topics`` None: those of its assignment, or of the group's."""

    member_id: str
    client_id: str = ""
    client_host: str = ""
    instance_id: str | None = None
    assignment: dict[str, list[int]] = field(default_factory=dict)
    topics: list[str] | None = None
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    rebalance_timeout_ms: int = REBALANCE_TIMEOUT_MS


@dataclass
class ImportedGroup:
    """A group as it was described; None is what wasn't said."""

    group_id: str
    state: str | None = None
    generation: int | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    members: dict[str, ImportedMember] = field(default_factory=dict)
    offsets: dict[tuple[str, int], ImportedOffset] = field(default_factory=dict)
    newer_protocol: bool = False
    """Whether it was a KIP-848 group."""

    def member(self, member_id: str) -> ImportedMember:
        """The member of that id, made at the first call."""
        return self.members.setdefault(member_id, ImportedMember(member_id))

    def partitions(self) -> list[tuple[str, int]]:
        """Every partition that is named."""
        assigned = [(t, p) for m in self.members.values() for t, ps in m.assignment.items() for p in ps]
        return list(dict.fromkeys([*self.offsets, *assigned]))


@dataclass
class Imported:
    """The groups of an import, by their ids."""

    groups: dict[str, ImportedGroup] = field(default_factory=dict)

    def group(self, group_id: str) -> ImportedGroup:
        """The group of that id, made at the first call."""
        return self.groups.setdefault(group_id, ImportedGroup(group_id))

    def only(self, group_id: str) -> Imported:
        """That group alone. Raises UsageError where it isn't described."""
        if group_id not in self.groups:
            raise unknown("group", group_id, self.groups)
        return Imported({group_id: self.groups[group_id]})


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
    --verbose, any number of groups and tables), or out of JSON; added to ``into`` where given. Raises UsageError.
    """
    imported = Imported() if into is None else into
    if _JSON.match(text) and not has_table(text):
        return _read_json(text, imported)
    rows = list(read_rows(text))
    for row in rows:
        group = imported.group(row.need("GROUP"))
        {OFFSETS: _offset_row, MEMBERS: _member_row, SAYS: _apply_group_message}.get(row.kind, _state_row)(group, row)
    if not rows:
        raise UsageError("no group found (expected the output of kafka-consumer-groups --describe, or JSON)")
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
        _checked_topic(topic, row.error)
        epoch = row.integer("LEADER-EPOCH", -1, MAX_INT32)
        group.offsets[topic, partition] = ImportedOffset(
            topic,
            partition,
            row.integer("CURRENT-OFFSET", -(2**63), MAX_INT64),
            row.integer("LOG-END-OFFSET", 0, FARTHEST_END),
            -1 if epoch is None else epoch,
        )
    elif member_id is None:
        raise row.error("neither a partition nor a member")
    if member_id is None:
        return
    member = group.member(member_id)
    member.client_id, member.client_host = row.get("CLIENT-ID") or "", row.get("HOST") or ""
    if topic is not None and partition is not None:
        mine = member.assignment.setdefault(topic, [])
        if partition not in mine:
            mine.append(partition)


def _member_row(group: ImportedGroup, row: DescribedRow) -> None:
    member = group.member(row.need("CONSUMER-ID"))
    member.client_id, member.client_host = row.get("CLIENT-ID") or "", row.get("HOST") or ""
    member.instance_id = row.get("GROUP-INSTANCE-ID")
    text = row.get("ASSIGNMENT") or row.get("CURRENT-ASSIGNMENT")
    if text is not None:
        member.assignment = _assignment(text, row)
    group.newer_protocol = group.newer_protocol or row.get("CURRENT-EPOCH") is not None
    row.integer("#PARTITIONS", 0, MAX_INT32)


_TOPIC_OF_3 = re.compile(r"([a-zA-Z0-9._-]+)\(([0-9,]*)\)")
_TOPIC_OF_4 = re.compile(r"([a-zA-Z0-9._-]+):([0-9,]*)")


def _assignment(text: str, row: DescribedRow) -> dict[str, list[int]]:
    """``orders(0,1), audit(0)`` of 3.x, ``orders:0,1;audit:0`` of 4.x."""
    pattern, between = (_TOPIC_OF_3, ", ") if "(" in text else (_TOPIC_OF_4, ";")
    result: dict[str, list[int]] = {}
    for part in re.split(r",\s*(?=[^,]*\()" if between == ", " else r";\s*", text):
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


def _checked_topic(topic: str, error: Callable[[str], UsageError]) -> None:
    try:
        check_topic_name(topic)
    except KafkaError as wrong:
        raise error(wrong.message or f"{topic!r} is not a topic name") from None
    if topic == OFFSETS_TOPIC:
        raise error(f"{OFFSETS_TOPIC} can't be a topic of an import")


# --- reading: JSON ------------------------------------------------------------------------------------------------------

_TEXT, _MAYBE_TEXT, _NUMBER = "a string", "a string or null", "a whole number"
_GROUP_KEYS = {
    "group": _TEXT,
    "state": _MAYBE_TEXT,
    "generation": _NUMBER,
    "protocol_type": _MAYBE_TEXT,
    "protocol": _MAYBE_TEXT,
    "leader": _MAYBE_TEXT,
    "members": "a list",
    "offsets": "a list",
}
_MEMBER_KEYS = {
    "member": _TEXT,
    "client_id": _TEXT,
    "client_host": _TEXT,
    "instance": _MAYBE_TEXT,
    "session_timeout_ms": _NUMBER,
    "rebalance_timeout_ms": _NUMBER,
    "topics": "a list or null",
    "assignment": "an object or null",
}
_OFFSET_KEYS = {
    "topic": _TEXT,
    "partition": _NUMBER,
    "offset": _NUMBER,
    "end": _NUMBER,
    "leader_epoch": _NUMBER,
    "metadata": _TEXT,
}
_TYPES: dict[str, tuple[type, ...]] = {
    _TEXT: (str,),
    _MAYBE_TEXT: (str, type(None)),
    _NUMBER: (int, type(None)),
    "a list": (list,),
    "a list or null": (list, type(None)),
    "an object or null": (dict, type(None)),
}


def _read_json(text: str, imported: Imported) -> Imported:
    try:
        data = json.loads(text, object_pairs_hook=keys_once)
    except UsageError:
        raise
    except json.JSONDecodeError as error:
        raise UsageError(f"line {error.lineno}, column {error.colno}: not JSON: {error.msg}") from None
    except ValueError as error:
        raise UsageError(f"not valid JSON: {error}") from None
    except RecursionError:
        raise UsageError("not valid JSON: nested too deeply") from None
    at = ""
    if isinstance(data, dict) and "groups" in data:
        data, at = data["groups"], "groups"
    if isinstance(data, dict):
        data = [data]
    if not isinstance(data, list) or not data:
        raise UsageError(f"{at or 'the JSON'} is not a group or a list of groups")
    for index, group in enumerate(data):
        _group_of(imported, group, f"{at}[{index}]")
    return imported


def _keys(data: object, known: Mapping[str, str], needed: str, at: str) -> dict[str, Any]:
    """The object at a place of the JSON, its keys and their types checked."""
    if not isinstance(data, dict):
        raise UsageError(f"{at} is not an object")
    for key, value in data.items():
        if key not in known:
            raise UsageError(f"{at}: {unknown('key', key, known)}")
        if not isinstance(value, _TYPES[known[key]]) or isinstance(value, bool):
            raise UsageError(f"{at}.{key} is {value!r} (expected {known[key]})")
    for key in needed.split():
        if data.get(key) is None:
            raise UsageError(f"{at} has no {key!r}")
    return data


def _within(data: Mapping[str, Any], key: str, default: int, least: int, most: int, at: str) -> int:
    value = data.get(key)
    value = default if value is None else value
    if not least <= value <= most:
        raise UsageError(f"{at}.{key} is {value} (expected {least} to {most})")
    return int(value)


def _group_of(imported: Imported, data: object, at: str) -> None:
    data = _keys(data, _GROUP_KEYS, "group", at)
    if data["group"] in imported.groups:
        raise UsageError(f"{at}: the group {data['group']!r} occurs twice")
    group = imported.group(data["group"])
    group.state = data.get("state")
    if group.state is not None and group.state not in STATES:
        raise UsageError(f"{at}.state: {unknown('state of a group', group.state, STATES)}")
    if data.get("generation") is not None:
        group.generation = _within(data, "generation", 0, 0, MAX_INT32, at)
    group.protocol_type, group.protocol, group.leader = (data.get(k) for k in ("protocol_type", "protocol", "leader"))
    for index, member in enumerate(data.get("members", [])):
        _member_of(group, member, f"{at}.members[{index}]")
    if group.leader is not None and group.leader not in group.members:
        raise UsageError(f"{at}.leader: {unknown('member', group.leader, group.members)}")
    for index, offset in enumerate(data.get("offsets", [])):
        _offset_of(group, offset, f"{at}.offsets[{index}]")


def _member_of(group: ImportedGroup, data: object, at: str) -> None:
    data = _keys(data, _MEMBER_KEYS, "member", at)
    if data["member"] in group.members:
        raise UsageError(f"{at}: the member {data['member']!r} occurs twice")
    member = group.member(data["member"])
    member.client_id, member.client_host = data.get("client_id", ""), data.get("client_host", "")
    member.instance_id = data.get("instance")
    member.session_timeout_ms = _within(data, "session_timeout_ms", SESSION_TIMEOUT_MS, 1, MAX_INT32, at)
    member.rebalance_timeout_ms = _within(data, "rebalance_timeout_ms", REBALANCE_TIMEOUT_MS, 0, MAX_INT32, at)
    member.topics = data.get("topics")
    for topic in member.topics or []:
        if not isinstance(topic, str):
            raise UsageError(f"{at}.topics: {topic!r} is not a string")
    for topic, partitions in (data.get("assignment") or {}).items():
        where = f"{at}.assignment.{topic}"
        _checked_topic(topic, lambda why, where=where: UsageError(f"{where}: {why}"))  # type: ignore[misc]
        if not isinstance(partitions, list) or not all(type(p) is int and 0 <= p <= LAST_PARTITION for p in partitions):
            raise UsageError(f"{where} is not a list of partitions")
        member.assignment[topic] = list(dict.fromkeys(partitions))


def _offset_of(group: ImportedGroup, data: object, at: str) -> None:
    data = _keys(data, _OFFSET_KEYS, "topic partition", at)
    _checked_topic(data["topic"], lambda why: UsageError(f"{at}.topic: {why}"))
    key = data["topic"], _within(data, "partition", 0, 0, LAST_PARTITION, at)
    offset = data.get("offset")
    group.offsets[key] = ImportedOffset(
        *key,
        None if offset is None else _within(data, "offset", 0, -(2**63), MAX_INT64, at),
        None if data.get("end") is None else _within(data, "end", 0, 0, FARTHEST_END, at),
        _within(data, "leader_epoch", -1, -1, MAX_INT32, at),
        data.get("metadata", ""),
    )


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
