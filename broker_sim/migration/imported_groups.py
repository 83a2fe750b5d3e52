"""Groups of an import as they were described, in tables or in JSON, before they become records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from broker_sim.common.text import UsageError, unknown
from broker_sim.metadata.cluster_state import KafkaError
from broker_sim.metadata.creation_limits import MAX_AT_ONCE
from broker_sim.metadata.topics import OFFSETS_TOPIC, check_topic_name
from kafka_wire.group_states import GROUP_STATES

__all__ = [
    "DEAD", "EMPTY", "LAST_PARTITION", "MAX_INT32", "MAX_INT64", "PREPARING", "STABLE", "STATES",
    "Imported", "ImportedGroup", "ImportedMember", "ImportedOffset", "checked_topic",
]  # fmt: skip

SESSION_TIMEOUT_MS = 45_000
REBALANCE_TIMEOUT_MS = 300_000
"""A Java consumer's defaults, for missing values of a description."""

LAST_PARTITION = MAX_AT_ONCE - 1
MAX_INT32 = 2**31 - 1
MAX_INT64 = 2**63 - 1

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
    is_streams: bool = False
    """Whether it was a streams group, of which only offsets are read."""

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
        """Import of this group alone. Raises UsageError if it is not described."""
        if group_id not in self.groups:
            raise unknown("group", group_id, self.groups)
        return Imported({group_id: self.groups[group_id]})


def checked_topic(topic: str, error: Callable[[str], UsageError]) -> None:
    """Raise ``error`` of a reason if a topic can't be imported."""
    try:
        check_topic_name(topic)
    except KafkaError as wrong:
        raise error(wrong.message or f"{topic!r} is not a topic name") from None
    if topic == OFFSETS_TOPIC:
        raise error(f"{OFFSETS_TOPIC} can't be a topic of an import")
