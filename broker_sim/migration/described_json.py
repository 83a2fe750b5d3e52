"""Groups described in JSON: this project's own, with all fields, and what `kcl group describe --format json` prints.

Rules:
1. A key that is not known is an error with its place: a misspelt one would be lost in silence.
2. kcl's document is recognised by its ``_command``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from broker_sim.common.text import UsageError, keys_once, unknown
from broker_sim.metadata.foreign_directory import FARTHEST_END
from broker_sim.migration.imported_groups import (
    DEAD,
    LAST_PARTITION,
    MAX_INT32,
    MAX_INT64,
    REBALANCE_TIMEOUT_MS,
    SESSION_TIMEOUT_MS,
    STATES,
    Imported,
    ImportedGroup,
    ImportedOffset,
    checked_topic,
)

__all__ = ["read_json"]

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


def read_json(text: str, imported: Imported) -> Imported:
    """Add the groups of a JSON document to ``imported``, and return that. Raises UsageError with the place in the document."""
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
    if isinstance(data, dict) and "_command" in data:
        return _read_kcl(data, imported)
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
    value = _value(data, key, int, at, default)
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
        checked_topic(topic, lambda why, where=where: UsageError(f"{where}: {why}"))  # type: ignore[misc]
        if not isinstance(partitions, list) or not all(type(p) is int and 0 <= p <= LAST_PARTITION for p in partitions):
            raise UsageError(f"{where} is not a list of partitions")
        member.assignment[topic] = list(dict.fromkeys(partitions))


def _offset_of(group: ImportedGroup, data: object, at: str) -> None:
    data = _keys(data, _OFFSET_KEYS, "topic partition", at)
    checked_topic(data["topic"], lambda why: UsageError(f"{at}.topic: {why}"))
    key = data["topic"], _within(data, "partition", 0, 0, LAST_PARTITION, at)
    offset = data.get("offset")
    group.offsets[key] = ImportedOffset(
        *key,
        None if offset is None else _within(data, "offset", 0, -(2**63), MAX_INT64, at),
        None if data.get("end") is None else _within(data, "end", 0, 0, FARTHEST_END, at),
        _within(data, "leader_epoch", -1, -1, MAX_INT32, at),
        data.get("metadata", ""),
    )


# --- kcl -----------------------------------------------------------------------------------------------------------------


def _read_kcl(data: dict[str, Any], imported: Imported) -> Imported:
    """The document of `kcl group describe --format json`; keys that it may get later are passed over."""
    command = str(data["_command"])
    if not command.startswith("group.describe"):
        raise UsageError(f"the output of kcl's {command}; expected that of kcl group describe --format json")
    for index, described in enumerate(_listed(data, "groups", "the JSON")):
        at = f"groups[{index}]"
        group = imported.group(_value(described, "group", str, at))
        group.state = _value(described, "state", str, at, "") or (DEAD if described.get("error") else None)
        if group.state is not None and group.state not in STATES:
            raise UsageError(f"{at}.state: {unknown('state of a group', group.state, STATES)}")
        group.protocol = _value(described, "balancer", str, at, "") or None
        for number, row in enumerate(_listed(described, "members", at)):
            place = f"{at}.members[{number}]"
            member = group.member(_value(row, "member_id", str, place))
            member.client_id, member.client_host = (_value(row, key, str, place, "") for key in ("client_id", "host"))
            member.instance_id = _value(row, "instance_id", str, place, "") or None
            group.newer_protocol = group.newer_protocol or "member_epoch" in row
        for number, row in enumerate(_listed(described, "lag", at)):
            _kcl_offset(group, row, f"{at}.lag[{number}]")
    return imported


def _kcl_offset(group: ImportedGroup, row: dict[str, Any], at: str) -> None:
    topic = _value(row, "topic", str, at)
    checked_topic(topic, lambda why: UsageError(f"{at}.topic: {why}"))
    partition = _within(row, "partition", 0, 0, LAST_PARTITION, at)
    offset = _within(row, "current_offset", -1, -1, MAX_INT64, at)
    end = _within(row, "log_end_offset", -1, -1, FARTHEST_END, at)
    known = None if offset < 0 else offset, None if end < 0 else end
    group.offsets[topic, partition] = ImportedOffset(topic, partition, *known)
    member_id = _value(row, "member_id", str, at, "")
    if member_id:
        group.member(member_id).assignment.setdefault(topic, []).append(partition)


def _listed(data: Mapping[str, Any], key: str, at: str) -> list[dict[str, Any]]:
    """A list of objects of the JSON, [] where it is missing or null."""
    rows = data.get(key) or []
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UsageError(f"{at}: {key} is not a list of objects")
    return rows


def _value(data: Mapping[str, Any], key: str, kind: type, at: str, default: Any = None) -> Any:
    value = data.get(key)
    value = default if value is None else value
    if not isinstance(value, kind) or isinstance(value, bool):
        raise UsageError(f"{at}.{key} is {value!r} (expected {'a string' if kind is str else 'a whole number'})")
    return value
