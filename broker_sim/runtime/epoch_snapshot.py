"""A group by epochs as the journal shows it: its epochs, and what each member has, is to give up and lacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from broker_sim.coordinator.consumer.group import ConsumerGroup
from broker_sim.coordinator.share.group import ShareGroup
from broker_sim.coordinator.topics import Topics, in_order

__all__ = ["GONE", "changes", "epochs"]

GONE: dict[str, Any] = {
    "state": "Dead",
    "group_epoch": 0,
    "target_epoch": 0,
    "assignor": None,
    "size": 0,
    "members": [],
}
"""Of a group that is no more, or a classic one from here on."""


Shown = ConsumerGroup | ShareGroup
"""The kinds of groups that are shown so."""


def epochs(group: Shown, topics: Topics) -> dict[str, Any]:
    """What the log has of it, as far as it is committed."""
    stored = group.stored
    return {
        "state": group.state_name,
        "group_epoch": stored.group_epoch,
        "target_epoch": stored.target_epoch,
        "assignor": group.assignor if isinstance(group, ConsumerGroup) else "simple",
        "size": len(stored.members),
        "members": [
            _member(group, member_id, topics) if isinstance(group, ConsumerGroup) else _sharer(group, member_id, topics)
            for member_id in stored.members
        ],
    }


def _member(group: ConsumerGroup, member_id: str, topics: Topics) -> dict[str, Any]:
    member, current = group.stored.members[member_id], group.stored.current(member_id)
    target = group.stored.target(member_id)
    lacks = {
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
        "gives_up": _named(current.revoking, topics),
        "lacks": _named(lacks, topics),
    }


def _sharer(group: ShareGroup, member_id: str, topics: Topics) -> dict[str, Any]:
    """A member of a share group: it gives nothing up by handshake, and what it has others may have as well."""
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
        "gives_up": {},
        "lacks": {},
    }


def _named(units: Mapping[bytes, Iterable[int]], topics: Topics) -> dict[str, list[int]]:
    """By the topics' names; one that is gone has none, and isn't there."""
    named = {topics.names[topic]: list(numbers) for topic, numbers in units.items() if topic in topics.names}
    return {name: numbers for name, numbers in sorted(named.items()) if numbers}


def changes(before: Mapping[str, Any] | None, after: dict[str, Any], whole: int) -> dict[str, Any]:
    """``after`` as it is written: of a large group the members that are otherwise than ``before``."""
    if after["size"] <= whole:
        return after
    known = {member["member"]: member for member in before["members"]} if before else {}
    return {**after, "members": [member for member in after["members"] if known.get(member["member"]) != member]}
