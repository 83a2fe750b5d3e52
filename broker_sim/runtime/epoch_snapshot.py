"""An epoch-based group as the journal shows it: its epochs, and what each member has, is to revoke and is to get."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from broker_sim.coordinator.consumer.group import ConsumerGroup
from broker_sim.coordinator.epochs.group import EpochGroup
from broker_sim.coordinator.epochs.refused import Refused
from broker_sim.coordinator.share.group import ShareGroup
from broker_sim.coordinator.streams.group import ACTIVE, ROLES, StreamsGroup, TaskKey
from broker_sim.coordinator.streams.topology import Topology
from broker_sim.coordinator.topics import Topics, in_order
from kafka_wire.messages.offsets_log import Subtopology

__all__ = ["GONE", "changes", "epochs"]

GONE: dict[str, Any] = {
    "state": "Dead",
    "group_epoch": 0,
    "target_epoch": 0,
    "assignor": None,
    "size": 0,
    "members": [],
}
"""The snapshot of a deleted group, or of one that is a classic group now."""


def epochs(group: EpochGroup[Any], topics: Topics) -> dict[str, Any]:
    """Snapshot of a group's committed state."""
    stored, shown = group.stored, _KINDS[type(group)]
    return {
        "state": group.state_name,
        "group_epoch": stored.group_epoch,
        "target_epoch": stored.target_epoch,
        "assignor": group.assignor,
        "size": len(stored.members),
        "members": [shown.member(group, member_id, topics) for member_id in stored.members],
        **shown.more(group, topics),
    }


def _member(group: ConsumerGroup, member_id: str, topics: Topics) -> dict[str, Any]:
    member, current = group.stored.members[member_id], group.stored.current(member_id)
    target = group.stored.target(member_id)
    missing = {
        topic: [number for number in numbers if number not in current.assigned.get(topic, ())]
        for topic, numbers in target.items()
    }
    session = group.session_of(member_id)
    return {
        "member": member_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "instance": member.instance_id,
        "protocol": "consumer" if member.classic_member_metadata is None else "classic",
        "epoch": current.epoch,
        "session_timeout_ms": group.session_timeout_ms if session is None else session[1],
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "topics": in_order([*member.subscribed_topic_names, *group.stored.matched_by(member)]),
        "assignment": _named(current.assigned, topics),
        "pending_revocation": _named(current.revoking, topics),
        "pending_assignment": _named(missing, topics),
    }


def _sharer(group: ShareGroup, member_id: str, topics: Topics) -> dict[str, Any]:
    """A member of a share group: it revokes nothing, and other members may share its partitions."""
    member, current = group.stored.members[member_id], group.stored.current(member_id)
    return {
        "member": member_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "instance": None,
        "protocol": "share",
        "epoch": current.epoch,
        "session_timeout_ms": group.session_timeout_ms,
        "rebalance_timeout_ms": group.session_timeout_ms,
        "topics": in_order(member.subscribed_topic_names),
        "assignment": _named(current.assigned, topics),
        "pending_revocation": {},
        "pending_assignment": {},
    }


def _topology(group: StreamsGroup, topics: Topics) -> dict[str, Any]:
    """The topology on the topics as they are: its epoch, and the status that keeps its tasks from being assigned."""
    topology = group.stored.topology
    if topology is None:
        return {"topology": None}
    try:
        problem = group.configured(topology, topics).problem
    except Refused:
        problem = None  # invalid for any topics: heartbeats with it are refused
    status = None if problem is None else {"status": problem[0].name, "detail": problem[1]}
    return {"topology": {"epoch": topology.epoch, "problem": status}}


def _streams_thread(group: StreamsGroup, member_id: str, topics: Topics) -> dict[str, Any]:
    """A member of a streams group: its tasks, and of the active ones the partitions that they read."""
    stored, topology = group.stored, group.stored.topology
    member, current = stored.members[member_id], stored.current(member_id)
    missing = {
        key: [number for number in numbers if number not in current.assigned.get(key, ())]
        for key, numbers in stored.target(member_id).items()
    }
    session = group.session_of(member_id)
    read = [] if topology is None else [name for subtopology in topology.subtopologies for name in _read(subtopology)]
    return {
        "member": member_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "instance": member.instance_id,
        "protocol": "streams",
        "epoch": current.epoch,
        "session_timeout_ms": group.session_timeout_ms if session is None else session[1],
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "topics": sorted(set(read)),
        "assignment": _partitions(current.assigned, topology, topics),
        "pending_revocation": _partitions(current.revoking, topology, topics),
        "pending_assignment": _partitions(missing, topology, topics),
        "process": member.process_id,
        "topology_epoch": member.topology_epoch,
        "tasks": _tasks(current.assigned),
        "tasks_pending_revocation": _tasks(current.revoking),
        "tasks_pending_assignment": _tasks(missing),
    }


def _tasks(owned: Mapping[TaskKey, Iterable[int]]) -> dict[str, list[str]]:
    """Role -> task ids as Kafka Streams writes them, of the roles in which there are any."""
    by_role = {
        role: [
            f"{key.subtopology}_{number}" for key in sorted(owned) if key.role == role for number in sorted(owned[key])
        ]
        for role in ROLES
    }
    return {role: tasks for role, tasks in by_role.items() if tasks}


def _read(subtopology: Subtopology) -> list[str]:
    """The topics that a subtopology's tasks read."""
    return [*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics)]


def _partitions(
    tasks: Mapping[TaskKey, Iterable[int]], topology: Topology | None, topics: Topics
) -> dict[str, list[int]]:
    """Partitions that active tasks read, by topic: a task has the partition of its number of each topic of its subtopology."""
    result: dict[str, list[int]] = {}
    for subtopology in topology.subtopologies if topology is not None else ():
        numbers = sorted(tasks.get(TaskKey(ACTIVE, subtopology.subtopology_id), ()))
        for name in _read(subtopology):
            image = topics.by_name.get(name)
            has = [number for number in numbers if image is not None and number < image.partitions]
            if has:
                result[name] = has
    return dict(sorted(result.items()))


def _named(units: Mapping[bytes, Iterable[int]], topics: Topics) -> dict[str, list[int]]:
    """By the topics' names, without deleted topics."""
    named = {topics.names[topic]: list(numbers) for topic, numbers in units.items() if topic in topics.names}
    return {name: numbers for name, numbers in sorted(named.items()) if numbers}


class _Shown(NamedTuple):
    """Functions for groups of one kind: ``member`` shows a member, ``more`` what other kinds do not have."""

    member: Callable[[Any, str, Topics], dict[str, Any]]
    more: Callable[[Any, Topics], dict[str, Any]] = lambda group, topics: {}


_KINDS: dict[type, _Shown] = {
    ConsumerGroup: _Shown(_member),
    ShareGroup: _Shown(_sharer),
    StreamsGroup: _Shown(_streams_thread, _topology),
}


def changes(before: Mapping[str, Any] | None, after: dict[str, Any], whole: int) -> dict[str, Any]:
    """``after`` as it is written: of a large group the members that are otherwise than ``before``."""
    if after["size"] <= whole:
        return after
    known = {member["member"]: member for member in before["members"]} if before else {}
    return {**after, "members": [member for member in after["members"] if known.get(member["member"]) != member]}
