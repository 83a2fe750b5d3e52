"""Records of groups in __consumer_offsets in few words: ``8A 2<1 UNREVOKED t01 -t2``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka_wire.consumer_protocol import assigned_partitions
from kafka_wire.offsets_log import decode_key, decode_value

STATES = ("STABLE", "UNREVOKED", "UNRELEASED")

NameOf = Callable[[bytes], str]
"""A topic's name by its id."""


def short(key: bytes, value: bytes | None, name_of: NameOf) -> str:
    """Return a record's type, its member's id, and its epochs, states and partitions; "gone" for a tombstone."""
    kind, named = decode_key(key)
    who = f"{kind}{getattr(named, 'member_id', '')}"
    said = decode_value(kind, value)
    if said is None:
        return f"{who} gone"
    if kind == 3:
        return f"{who} e{said.epoch}{'' if said.metadata_hash else ' nothing'}"
    if kind == 5:
        return f"{who} {','.join(said.subscribed_topic_names)}".strip()
    if kind == 6:
        return f"{who} e{said.assignment_epoch}{' timed' if said.assignment_timestamp else ''}"
    if kind == 7:
        return f"{who} {held(said.topic_partitions, name_of)}".strip()
    if kind == 8:
        going = "".join(f" -{part}" for part in held(said.partitions_pending_revocation, name_of).split())
        return (
            f"{who} {said.member_epoch}<{said.previous_member_epoch} {STATES[said.state]} "
            f"{held(said.assigned_partitions, name_of)}".strip()
            + going
        )
    return f"{who} {','.join(said.topics)}" if kind == 16 else f"{who} ..."


def whole(key: bytes, value: bytes | None, name_of: NameOf) -> str:
    """As `short`, with all that a member says of itself, a classic group's generation and members, and offsets."""
    kind, named = decode_key(key)
    said = decode_value(kind, value)
    if said is None or kind in (3, 6, 7, 16):
        return short(key, value, name_of)
    if kind == 1:
        return f"1 {named.topic}-{named.partition} {said.offset}"
    if kind == 2:
        members = " ".join(
            f"{one.member_id}{'' if one.group_instance_id is None else '/' + one.group_instance_id}:{_assigned(one.assignment)}"
            for one in sorted(said.members, key=lambda one: (one.group_instance_id or "", one.member_id))
        )
        return f"2 g{said.generation} {said.protocol_type} {said.protocol} leader {said.leader} {members}".strip()
    if kind == 5:
        classic = said.classic_member_metadata
        more = {
            "instance": said.instance_id,
            "rack": said.rack_id,
            "regex": said.subscribed_topic_regex,
            "assignor": said.server_assignor,
            "rebalance": said.rebalance_timeout_ms,
            "classic": None
            if classic is None
            else f"{classic.session_timeout_ms} {','.join(one.name for one in classic.supported_protocols)}",
        }
        told = " ".join(f"{name}={value!r}" for name, value in more.items() if value is not None)
        return f"{short(key, value, name_of)} {told}"
    if kind == 8:
        epochs = [list(one.assignment_epochs) for one in said.assigned_partitions]
        return f"{short(key, value, name_of)} since {epochs}" if any(epochs) else short(key, value, name_of)
    return short(key, value, name_of)


def held(listed: list[Any], name_of: NameOf) -> str:
    """``t01 u2``, by name."""
    parts = [f"{name_of(one.topic_id)}{''.join(map(str, sorted(one.partitions)))}" for one in listed]
    return " ".join(sorted(parts))


def _assigned(assignment: bytes) -> str:
    if not assignment:
        return "nothing"
    parts = assigned_partitions(assignment)
    return "?" if parts is None else " ".join(f"{topic}{numbers}" for topic, numbers in sorted(parts.items()))
