"""Messages as JSON can hold them: what the journal shows of requests and responses.

``to_json(message, version)`` gives Kafka's field names in snake_case, of the fields that the version has. Rules:

1. Records are counted, never shown: ``{"bytes": 812, "records": 10}``.
2. Subscriptions and assignments of the consumer protocol are decoded, partitions as ``{"orders": [0, 1]}``, and those of Connect's
   workers; other bytes are ``{"base64": ".."}``. Ids of topics read as Kafka prints them.
3. Sizes are bounded: longer byte strings are ``{"bytes": n}``, longer texts end with an ellipsis, and a message with too many values
   ends its arrays with ``{"more": n}``.
4. Credentials are counted, never shown: tokens of SaslAuthenticate, salts and salted passwords are ``{"bytes": n}``.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from kafka_wire.codec import DecodeError, decode_from
from kafka_wire.connect_protocol import PROTOCOL_TYPE as CONNECT
from kafka_wire.connect_protocol import work_of, worker_state
from kafka_wire.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafka_wire.schema import Entity, FieldSpec
from kafka_wire.uuids import uuid_text

__all__ = ["MOST_BYTES", "MOST_TEXT", "MOST_VALUES", "to_json"]

MOST_BYTES = 4096
MOST_TEXT = 2048
MOST_VALUES = 10_000
"""The most structs and array elements of one message that are shown."""

_CONSUMER = "consumer"
_ENUMERATED = ("api_key", "error_code")
"""Fields whose values are members of an enum where a handler has made them."""

_CREDENTIALS = ("auth_bytes", "salt", "salted_password")

_NEWEST = 3  # version of the consumer protocol

_BATCH = struct.Struct(">qi")  # base offset, length
_BATCH_COUNT = 57  # position of the record count in a batch of format v2


class _Budget:
    """Number of values of one message that may still be shown, and the protocol type of its bytes fields."""

    __slots__ = ("left", "protocol_type")

    def __init__(self) -> None:
        self.left = MOST_VALUES
        self.protocol_type: str | None = None


_Shower = Callable[[Any, _Budget], Any]


_structs: dict[tuple[type, int], _Shower] = {}


def to_json(message: object, version: int) -> dict[str, Any] | None:
    """The body of a message for the journal; None for no message."""
    if message is None:
        return None
    shown: dict[str, Any] = _struct(type(message), version)(message, _Budget())
    return shown


def _struct(cls: Any, version: int) -> _Shower:
    """Return the function that shows the structs of a class in one version; made for its fields, as a long poll has dozens of them."""
    known = _structs.get((cls, version))
    if known is not None:
        return known
    names: dict[str, Any] = {}
    fields: list[str] = []
    for name, spec in cls.__fields__:
        if version in spec.versions:
            show = _shower(name, spec, version)
            names[f"show_{name}"] = show
            shown = f"value.{name}"
            if show is not None:
                shown = f"int({shown})" if show is _number else f"show_{name}({shown}, budget)"
            fields.append(f"{name!r}: {shown}")
    lines = ["def shown(value, budget):", "    budget.left -= 1", f"    return {{{', '.join(fields)}}}"]
    if any(name == "protocol_type" for name, _ in cls.__fields__):
        lines[1:1] = ["    if value.protocol_type is not None:", "        budget.protocol_type = value.protocol_type"]
    exec("\n".join(lines), names)
    return _structs.setdefault((cls, version), names["shown"])


def _shower(name: str, spec: FieldSpec, version: int) -> _Shower | None:
    """Return the function that shows a field's value; None if the value is shown as it is."""
    if spec.kind == "array":
        element = spec.element()
        return _array(_struct(element.item, version) if element.kind == "struct" else _shower(name, element, version))
    if name in _CREDENTIALS:
        return lambda value, budget: {"bytes": len(value)}
    if spec.entity is Entity.SUBSCRIPTION:
        return lambda value, budget: _consumers(value, budget, _subscription)
    if spec.entity is Entity.ASSIGNMENT:
        return lambda value, budget: _consumers(value, budget, _assignment)
    match spec.kind:
        case "struct":
            show = _struct(spec.item, version)
            return lambda value, budget: None if value is None else show(value, budget)
        case "string":
            return _text
        case "bytes":
            return lambda value, budget: _bytes(value)
        case "records":
            return lambda value, budget: _records(value)
        case "uuid":
            return lambda value, budget: uuid_text(value)
    return _number if name in _ENUMERATED else None


def _array(show: _Shower | None) -> _Shower:
    def shown(values: Any, budget: _Budget) -> Any:
        if not values:
            return None if values is None else []
        if len(values) < budget.left:
            budget.left -= len(values)
            return list(values) if show is None else [show(value, budget) for value in values]
        out: list[Any] = []
        for value in values:
            if budget.left <= 0:
                out.append({"more": len(values) - len(out)})
                break
            budget.left -= 1
            out.append(value if show is None else show(value, budget))
        return out

    return shown


def _number(value: int, budget: _Budget) -> int:
    return int(value)


def _text(value: str | None, budget: _Budget) -> str | None:
    return value if value is None or len(value) <= MOST_TEXT else value[:MOST_TEXT] + "…"


def _bytes(value: bytes | None) -> dict[str, Any] | None:
    if value is None:
        return None
    return {"bytes": len(value)} if len(value) > MOST_BYTES else {"base64": base64.b64encode(value).decode()}


def _records(value: bytes | None) -> dict[str, int] | None:
    """Numbers of bytes and records; records of older formats are not counted. None for null."""
    if value is None:
        return None
    position, records, size = 0, 0, len(value)
    while position + _BATCH_COUNT + 4 <= size:
        length = _BATCH.unpack_from(value, position)[1]
        if length <= 0:
            break
        if value[position + 16] == 2:
            records += max(
                0, int.from_bytes(value[position + _BATCH_COUNT : position + _BATCH_COUNT + 4], "big", signed=True)
            )
        position += 12 + length
    return {"bytes": size, "records": records}


# --- the consumer protocol --------------------------------------------------------------------------------------------


def _consumers(value: bytes | None, budget: _Budget, read: Callable[[bytes, int], dict[str, Any]]) -> Any:
    if value and len(value) <= MOST_BYTES and budget.protocol_type == CONNECT:
        said = (worker_state if read is _subscription else work_of)(value)
        return _bytes(value) if said is None else asdict(said)
    if not value or len(value) > MOST_BYTES * 16 or budget.protocol_type not in (None, _CONSUMER):
        return _bytes(value)
    try:
        version = int.from_bytes(value[:2], "big", signed=True)
        return _bytes(value) if version < 0 else read(value, version)
    except DecodeError:
        return _bytes(value)


def _subscription(value: bytes, version: int) -> dict[str, Any]:
    """Raises DecodeError for what is none."""
    read, end = decode_from(ConsumerProtocolSubscription, min(version, _NEWEST), value, 2)
    _whole(value, version, end)
    out: dict[str, Any] = {"version": version, "topics": read.topics}
    if version >= 1:
        out["owned_partitions"] = {topic.topic: topic.partitions for topic in read.owned_partitions}
    if version >= 2:
        out["generation_id"] = read.generation_id
    if version >= 3:
        out["rack_id"] = read.rack_id
    return out | _user_data(read.user_data)


def _assignment(value: bytes, version: int) -> dict[str, Any]:
    """Raises DecodeError for what is none."""
    read, end = decode_from(ConsumerProtocolAssignment, min(version, _NEWEST), value, 2)
    _whole(value, version, end)
    partitions = {topic.topic: topic.partitions for topic in read.assigned_partitions}
    return {"version": version, "assigned_partitions": partitions} | _user_data(read.user_data)


def _whole(value: bytes, version: int, end: int) -> None:
    if end != len(value) and version <= _NEWEST:  # later versions may append
        raise DecodeError(f"{len(value) - end} bytes too many")


def _user_data(value: bytes | None) -> dict[str, Any]:
    return {"user_data": _bytes(value)} if value else {}
