"""Independent reader of an offsets partition's log: the state that a coordinator that loads it must have.

It shares nothing with the coordinator's loader but the format of the records: a mistake there is a difference here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafka_wire.codec import DecodeError
from kafka_wire.offsets_log import GROUP_METADATA, OFFSET_COMMIT, OFFSET_COMMIT_LEGACY, decode_key, decode_value

if TYPE_CHECKING:
    from broker_sim.metadata.cluster_state import Partition

__all__ = ["StoredGroup", "differences", "groups_in_log"]

Offsets = dict[tuple[str, int], int]


@dataclass(slots=True)
class StoredGroup:
    """State of one group in the log: its offsets; its generation and members where there is a record of it."""

    offsets: Offsets = field(default_factory=dict)
    generation: int | None = None
    members: frozenset[str] = frozenset()
    protocol_type: str | None = None


def groups_in_log(partition: Partition, *, group_tombstone_ends_offsets: bool) -> dict[str, StoredGroup]:
    """Group id -> its state by the records of an offsets partition, read to its end. Transactional batches are ignored: no client of
    these worlds writes any."""
    groups: dict[str, StoredGroup] = {}
    for batch in partition.log.batches():
        if batch.header.is_control or batch.header.is_transactional:
            continue
        for record in batch.records():
            try:
                kind, key = decode_key(record.key or b"")
                value = decode_value(kind, record.value)
            except DecodeError:
                continue
            if kind in (OFFSET_COMMIT, OFFSET_COMMIT_LEGACY):
                group = groups.setdefault(key.group, StoredGroup())
                if value is None:
                    group.offsets.pop((key.topic, key.partition), None)
                else:
                    group.offsets[key.topic, key.partition] = value.offset
            elif kind == GROUP_METADATA:
                group = groups.setdefault(key.group, StoredGroup())
                group.generation, group.members, group.protocol_type = None, frozenset(), None
                if value is not None:
                    group.generation, group.protocol_type = value.generation, value.protocol_type
                    group.members = frozenset(member.member_id for member in value.members)
                elif group_tombstone_ends_offsets:
                    group.offsets.clear()
    return groups


def differences(stored: Mapping[str, StoredGroup], groups: Mapping[str, Any], *, loaded: bool) -> list[tuple[str, str]]:
    """(group, in words) for each in which a coordinator's ``groups`` are others. ``loaded``: it has just been loaded, so members and
    generation are the log's, too."""
    differences_found = []
    for name in {**stored, **groups}:
        says, group = stored.get(name, StoredGroup()), groups.get(name)
        has = (
            {} if group is None else {(t, p): o.offset for t, parts in group.offsets.items() for p, o in parts.items()}
        )
        if has != says.offsets:
            keys = [key for key in {**has, **says.offsets} if says.offsets.get(key) != has.get(key)]
            other = [f"{key[0]}-{key[1]} {says.offsets.get(key)}, not {has.get(key)}" for key in sorted(keys)]
            differences_found.append((name, f"the log says {'; '.join(other)}"))
        if loaded and group is not None and says.generation is not None:
            if group.generation != says.generation:
                differences_found.append((name, f"the log says generation {says.generation}, not {group.generation}"))
            if frozenset(group.members) != says.members:
                differences_found.append(
                    (name, f"the log says members {sorted(says.members)}, not {sorted(group.members)}")
                )
    return differences_found
