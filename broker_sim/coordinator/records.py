"""What the coordinator writes into ``__consumer_offsets``, and the one way back: ``replay``.

A record is typed here and becomes bytes when it goes to the log (``encode``). ``replay`` applies it: at the log's answer to the
live shard, and at load to the shard that is being rebuilt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from broker_sim.coordinator.blocks import CommitShape
from broker_sim.coordinator.group import Group, Member, State
from broker_sim.coordinator.outcome import Offset
from broker_sim.coordinator.policy import Settings
from kafka_wire.codec import DecodeError
from kafka_wire.messages.offsets_log import GroupMetadataKey, GroupMetadataValue, MemberMetadata, OffsetCommitKey
from kafka_wire.offsets_log import (
    GROUP_METADATA,
    OFFSET_COMMIT,
    decode_key,
    decode_value,
    group_key,
    group_value,
    kind_name,
    offset_commit_key,
    offset_commit_value,
)

_GROUP_VALUE_VERSION = 3  # both of Kafka's coordinators write it


@dataclass(slots=True)
class OffsetRecord:
    """A committed offset, or its removal (``value`` None)."""

    group_id: str
    topic: str
    partition: int
    value: Offset | None


@dataclass(slots=True)
class GroupRecord:
    """A group's generation, protocol, leader, members and assignments, or its removal (``value`` None)."""

    group_id: str
    value: GroupMetadataValue | None


Record = OffsetRecord | GroupRecord


def encode(record: Record, commit_value_version: int) -> tuple[bytes, bytes | None]:
    """Key and value as Kafka writes them; a commit with its own expiry needs value version 1."""
    if isinstance(record, GroupRecord):
        value = None if record.value is None else group_value(_GROUP_VALUE_VERSION, record.value)
        return group_key(record.group_id), value
    key = offset_commit_key(record.group_id, record.topic, record.partition)
    o = record.value
    if o is None:
        return key, None
    version = commit_value_version if o.expire_ts_ms < 0 else 1
    return key, offset_commit_value(version, o.offset, o.leader_epoch, o.metadata, o.commit_ts_ms, o.expire_ts_ms)


def group_record(group: Group, assignments: dict[str, bytes] | None = None) -> GroupRecord:
    """The record of ``group`` as it is now, with other assignments where given."""
    members = [
        MemberMetadata(
            member_id=m.member_id,
            group_instance_id=m.instance_id,
            client_id=m.client_id,
            client_host=m.client_host,
            rebalance_timeout=m.rebalance_timeout_ms,
            session_timeout=m.session_timeout_ms,
            subscription=m.metadata(group.protocol),
            assignment=m.assignment if assignments is None else assignments[m.member_id],
        )
        for m in group.members.values()
    ]
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp=group.state_ts_ms,
        members=members,
    )
    return GroupRecord(group.group_id, value)


def replay(groups: dict[str, Group], record: Record) -> None:
    """Apply a record that the log holds to the live groups."""
    if isinstance(record, OffsetRecord):
        replay_offset(groups, record.group_id, record.topic, record.partition, record.value)
        return
    group = groups.get(record.group_id)
    if record.value is None:
        if group is not None:
            group.state = State.DEAD
            del groups[record.group_id]
    elif group is not None:
        for stored in record.value.members:
            member = group.members.get(stored.member_id)
            if member is not None:
                member.assignment = stored.assignment


def replay_chunks(groups: dict[str, Group], shape: CommitShape, chunks: Sequence[bytes], commit_ts_ms: int) -> None:
    """Apply a commit of a shape."""
    group_id = shape.command.group_id
    group = groups.get(group_id)
    if group is None:
        group = groups[group_id] = Group(group_id, state_ts_ms=-1)
    group.take(shape, chunks, commit_ts_ms)


def replay_offset(groups: dict[str, Group], group_id: str, topic: str, partition: int, value: Offset | None) -> None:
    """Apply one committed offset; a group that isn't there yet becomes a simple one."""
    group = groups.get(group_id)
    if value is None:
        if group is not None and topic in group.offsets:
            group.offset_changes += 1
            group.offsets[topic].pop(partition, None)
            if not group.offsets[topic]:
                del group.offsets[topic]
        return
    if group is None:
        group = groups[group_id] = Group(group_id, state_ts_ms=-1)
    group.offset_changes += 1
    partitions = group.offsets.get(topic)
    if partitions is None:
        partitions = group.offsets[topic] = {}
    partitions[partition] = value


@dataclass(slots=True)
class Loader:
    """Rebuilds a shard from its log: feed it every record in order, then take ``finish``'s groups.

    Later records win, null removes. Offsets in a transaction count from its commit marker on, and only where no plain commit was
    written behind them. Records of the KIP-848 protocol and of unknown kinds are counted in ``skipped`` and, by Kafka's names, in
    ``skipped_kinds``; before KIP-915 they, and flexible values, end the load with a DecodeError.
    """

    settings: Settings = field(default_factory=Settings)
    groups: dict[str, GroupMetadataValue] = field(default_factory=dict)
    offsets: dict[tuple[str, str, int], tuple[int, Offset]] = field(default_factory=dict)  # -> (log offset, value)
    pending: dict[int, dict[tuple[str, str, int], tuple[int, Offset]]] = field(default_factory=dict)  # by producer id
    met: dict[str, None] = field(default_factory=dict)  # groups that an offset was read of, where that makes them
    skipped: int = 0
    skipped_kinds: dict[str, int] = field(default_factory=dict)
    records: int = 0

    def add(self, log_offset: int, key: bytes | None, value: bytes | None, producer_id: int = -1) -> None:
        """One record; ``producer_id`` is that of a transactional batch, else -1. Raises DecodeError for what that Kafka can't read."""
        self.records += 1
        if key is None:
            self._skip("without a key")
            return
        kind, decoded = decode_key(key)
        if isinstance(decoded, OffsetCommitKey):
            self._offset(log_offset, (decoded.group, decoded.topic, decoded.partition), value, producer_id)
        elif isinstance(decoded, GroupMetadataKey):
            self._group(decoded.group, value)
        elif self.settings.reads_later_records:
            self._skip(kind_name(kind))
        else:
            raise DecodeError(f"a record of type {kind}")

    def _skip(self, kind: str) -> None:
        self.skipped += 1
        self.skipped_kinds[kind] = self.skipped_kinds.get(kind, 0) + 1

    def _group(self, group_id: str, value: bytes | None) -> None:
        if value is None:
            self.groups.pop(group_id, None)
            self.met.pop(group_id, None)
            if self.settings.policy.group_tombstone_ends_offsets:
                for key in [key for key in self.offsets if key[0] == group_id]:
                    del self.offsets[key]
            return
        stored = decode_value(GROUP_METADATA, value)
        assert isinstance(stored, GroupMetadataValue)
        if self._version(value) == 0:  # it had no rebalance timeout: the session timeout served for both
            for member in stored.members:
                member.rebalance_timeout = member.session_timeout
        self.groups[group_id] = stored

    def _version(self, value: bytes) -> int:
        version = int.from_bytes(value[:2], "big")
        if version > 3 and not self.settings.reads_later_records:
            raise DecodeError(f"a value of version {version}")
        return version

    def _offset(self, log_offset: int, key: tuple[str, str, int], value: bytes | None, producer_id: int) -> None:
        if value is None:
            self.offsets.pop(key, None)
            return
        self._version(value)
        v = decode_value(OFFSET_COMMIT, value)
        offset = Offset(v.offset, v.leader_epoch, v.metadata, v.commit_timestamp, v.expire_timestamp)
        if self.settings.policy.offset_read_makes_group:
            self.met[key[0]] = None
        if producer_id >= 0:
            self.pending.setdefault(producer_id, {})[key] = (log_offset, offset)
        else:
            self.offsets[key] = (log_offset, offset)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """A control record: COMMIT publishes the producer's pending offsets, ABORT drops them."""
        pending = self.pending.pop(producer_id, {})
        if committed:
            for key, (log_offset, offset) in pending.items():
                if key not in self.offsets or self.offsets[key][0] < log_offset:
                    self.offsets[key] = (log_offset, offset)

    def finish(self) -> dict[str, Group]:
        """The groups: with members Stable, without Empty, with offsets alone a simple group; so are those whose only offsets belong to
        a transaction without an end (no such offset shows), and in 4.x those that have lost theirs.
        """
        out = {group_id: _group_of(group_id, value) for group_id, value in self.groups.items()}
        for (group_id, topic, partition), (_, offset) in self.offsets.items():
            group = out.get(group_id)
            if group is None:
                group = out[group_id] = Group(group_id, state_ts_ms=-1)
            group.offsets.setdefault(topic, {})[partition] = offset
        for group_id in self.met:
            out.setdefault(group_id, Group(group_id, state_ts_ms=-1))
        for group_id, topic, partition in (key for keys in self.pending.values() for key in keys):
            group = out.setdefault(group_id, Group(group_id, state_ts_ms=-1))
            group.in_transactions[topic, partition] = None
        return out


def _group_of(group_id: str, value: GroupMetadataValue) -> Group:
    group = Group(group_id, generation=value.generation, state_ts_ms=value.current_state_timestamp)
    for m in value.members:
        group.add(
            Member(
                member_id=m.member_id,
                instance_id=m.group_instance_id,
                client_id=m.client_id,
                client_host=m.client_host,
                session_timeout_ms=m.session_timeout,
                rebalance_timeout_ms=m.rebalance_timeout,
                protocol_type=value.protocol_type,
                protocols=[(value.protocol or "", m.subscription)],
                assignment=m.assignment,
            )
        )
    group.protocol_type = value.protocol_type or None
    group.protocol = value.protocol
    group.leader = value.leader if value.leader in group.members else next(iter(group.members), None)
    group.state = State.STABLE if group.members else State.EMPTY
    group.fix_subscriptions()
    return group
