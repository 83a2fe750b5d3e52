"""Requests of a megabyte for every API: each array of a message in its turn filled with the smallest elements it can have.

Rules:
1. An array within an array is filled within one element; the rest of the request has the values of `_USUAL`: a topic of 10,000
   partitions, a group, a resource that is a topic. So the request passes the first checks, and its elements are looked at.
2. Each array is filled twice: with elements that differ (a name each, a partition each), and with elements that are all equal.
3. The highest version that is advertised: its lengths are the shortest.
4. The same request is made for several turns, which differ in the group and in the names of elements: what is remembered by them is
   remembered for each.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from broker_sim.requests.routes import handler_modules, supported
from kafka_wire.codec import encode
from kafka_wire.schema import FieldSpec

__all__ = ["TOPIC", "VERSION", "fillings"]

VERSION = "4.4"
"""The release that has all APIs."""
TOPIC, PARTITIONS, GROUP = "many", 10_000, "g"


class Names(NamedTuple):
    """The id of `TOPIC`, and the turn."""

    topic_id: bytes
    turn: int = 0

    def element(self, at: int) -> str:
        """The name of an element."""
        return f"{at:x}" if not self.turn else f"{self.turn:x}-{at:x}"

    def usual(self, name: str) -> Any:
        """The value of a field, by its name; KeyError where it has no usual one."""
        return f"{GROUP}{self.turn}" if name == "group_id" and self.turn else _USUAL[name]


_USUAL: dict[str, Any] = {
    "group_id": GROUP,
    "topic": TOPIC,
    "name": TOPIC,
    "topic_name": TOPIC,
    "resource_name": TOPIC,
    "resource_type": 2,
    "timeout_ms": 5000,
    "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 10_000,
    "protocol_type": "consumer",
    "protocol_name": "range",
    "acks": -1,
    "isolation_level": 0,
    "timestamp": -1,
    "generation_id": -1,
    "generation_id_or_member_epoch": -1,
    "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 20,
    "min_bytes": 1,
    "session_epoch": -1,
    "count": 10_001,
    "num_partitions": 1,
    "replication_factor": 1,
    "replica_id": -1,
    "key_type": 0,
    "response_partition_limit": 2000,
}

_MEMBER = "AAAAAAAAAAAAAAAAAAAAAQ"
_USUAL_OF: dict[str, dict[str, Any]] = {
    "StreamsGroupHeartbeatRequest": {"member_id": "m", "process_id": "p"},
    "ConsumerGroupHeartbeatRequest": {"member_id": "m", "member_epoch": 0},
    "ShareGroupHeartbeatRequest": {"member_id": _MEMBER, "member_epoch": 0},
    "ShareFetchRequest": {"member_id": _MEMBER, "share_session_epoch": 0},
}
"""Fields that one request needs besides; with them other requests would be refused."""

Make = Callable[[], tuple[object, int]]


def fillings(topic_id: bytes, size: int = 1_000_000, turn: int = 0) -> Iterator[tuple[str, Make]]:
    """(name, what makes the request and its version) for every array of every request, of `size` bytes. ``topic_id``: `TOPIC`'s."""
    names = Names(topic_id, turn)
    served = supported(VERSION)
    for key, module in handler_modules().items():
        if key not in served:
            continue  # an API of other releases
        version = served[key][1]
        api = "".join(map(str.capitalize, module.split("_")[1:]))
        cls = getattr(importlib.import_module(f"kafka_wire.messages.{module}"), api + "Request")
        for path in _arrays(cls, version):
            for kind in ("different", "equal"):
                name = f"{api} v{version}, {kind} {'.'.join(path)}"
                yield name, lambda c=cls, v=version, p=path, k=kind: (_filled(c, v, p, k == "equal", names, size), v)


def _fields(cls: type, version: int) -> list[tuple[str, FieldSpec]]:
    return [(name, spec) for name, spec in cls.__fields__ if version in spec.versions]  # type: ignore[attr-defined]


def _arrays(cls: type, version: int) -> Iterator[tuple[str, ...]]:
    for name, spec in _fields(cls, version):
        if spec.kind == "array":
            yield (name,)
        if spec.inner is not None:
            for inner in _arrays(spec.inner, version):
                yield (name, *inner)


def _filled(cls: type, version: int, path: tuple[str, ...], equal: bool, names: Names, size: int) -> Any:
    """The message with the array at `path` as long as its size allows."""

    def message(count: int) -> Any:
        return _struct(cls, version, path, count, equal, names, at=None)

    empty, count = len(encode(message(0), version)), 1000
    for _ in range(2):  # the numbers that make elements different get longer
        count = int(count * (size - empty) / (len(encode(message(count), version)) - empty))
    return message(count)


def _struct(
    cls: type, version: int, path: tuple[str, ...], count: int, equal: bool, names: Names, at: int | None
) -> Any:
    """One element of an array, the `at`-th, or the message itself; `path` leads to what is filled in it."""
    message = cls()
    for name, spec in _fields(cls, version):
        if spec.kind == "array":
            if path and path[0] == name:
                setattr(message, name, _array(spec, version, path[1:], count, equal, names))
            elif getattr(message, name) is None or spec.nullable.low > version:
                setattr(message, name, [])
        elif spec.kind == "struct":
            if path and path[0] == name:
                setattr(message, name, _struct(spec.inner, version, path[1:], count, equal, names, at=None))
        elif spec.tag is None or version not in spec.tagged:
            setattr(message, name, _scalar(name, spec, at, names, getattr(message, name)))
    for name, value in _USUAL_OF.get(cls.__name__, {}).items():
        setattr(message, name, value)
    return message


def _array(spec: FieldSpec, version: int, path: tuple[str, ...], count: int, equal: bool, names: Names) -> list[Any]:
    if path:
        return [_struct(spec.item, version, path, count, equal, names, at=None)]
    numbers = range(count) if not equal else [0] * count
    if isinstance(spec.item, str):
        return [_scalar("", spec.element(), n, names, 0) for n in numbers]
    return [_struct(spec.item, version, (), 0, equal, names, at=n) for n in numbers]


def _scalar(name: str, spec: FieldSpec, at: int | None, names: Names, default: Any) -> Any:
    """`at`: the number of the element that this is a part of."""
    if spec.kind == "string":
        if at is None:
            return names.usual(name) if name in _USUAL else default
        return None if default is None else names.element(at)
    if spec.kind == "uuid":
        same = at is None or (name == "topic_id" and at == 0)
        return names.topic_id if same else (names.turn << 64 | at).to_bytes(16, "big")
    if spec.kind in ("bytes", "records"):
        return default
    if name in _USUAL:
        return _USUAL[name]
    if at is not None and spec.kind == "int32" and default in (0, None):
        return at % PARTITIONS
    return 3 if spec.kind == "int8" and at is not None else default
