"""A step as the bytes that go out, and what can be done to them.

Damage is a list of [what, ...]: ["cut", n] n bytes less; ["set", position, byte]; ["more", hex] bytes behind the
message; ["insert", position, hex]; ["size", n] the frame claims n bytes; ["key", k] and ["version", v] another header.
Positions count from the body, modulo its length.

`wire` changes what stands around a sound message: {"client": text or None} another client id, {"client_hex": hex} one of
these bytes, {"client_size": n} one that claims to be so long; {"head_tags": tags} and {"tags": tags} tagged fields that nobody
knows, [[tag, hex], ...], in the header and behind the message; {"head": "short"} the header of versions without tags.
"""

from __future__ import annotations

import struct
from typing import Any

from kafka_wire.api_keys import is_flexible
from kafka_wire.codec import encode
from kafka_wire.frame import encode_request_header
from tests.differential.catalogue import NULL, apis, build
from tests.differential.sequence import Step
from tests.differential.symbols import Scope


def frame(step: Step, scope: Scope, correlation_id: int, client_id: str) -> bytes:
    """The frame of a step, its size included. Raises EncodeError where no bytes say what the step wants."""
    api = apis()[step.api]
    body = _with_nulls(encode(build(api.request, step.body, scope.fill), step.version))
    head = bytearray(_header(step, correlation_id, client_id))
    if "tags" in step.wire and is_flexible(api.key, step.version) and body.endswith(b"\0"):
        body = body[:-1] + _tags(step.wire["tags"])
    size = None
    for what, *args in step.damage:
        if what == "key":
            head[0:2] = args[0].to_bytes(2, "big", signed=True)
        elif what == "version":
            head[2:4] = args[0].to_bytes(2, "big", signed=True)
        elif what == "size":
            size = args[0]
        else:
            body = _DAMAGES[what](body, *args)
    payload = bytes(head) + body
    return (len(payload) if size is None else size).to_bytes(4, "big", signed=True) + payload


def _header(step: Step, correlation_id: int, client_id: str) -> bytes:
    key, wire = apis()[step.api].key, step.wire
    if not wire:
        return encode_request_header(key, step.version, correlation_id, client_id)
    client = wire["client"].encode() if wire.get("client") is not None else client_id.encode()
    client = bytes.fromhex(wire["client_hex"]) if "client_hex" in wire else client
    size = -1 if "client" in wire and wire["client"] is None else wire.get("client_size", len(client))
    head = struct.pack(">hhih", key, step.version, correlation_id, size) + (client if size != -1 else b"")
    if not is_flexible(key, step.version) or wire.get("head") == "short":
        return head
    return head + _tags(wire.get("head_tags", []))


def _tags(tags: list[list[Any]]) -> bytes:
    out = _unsigned(len(tags))
    for tag, data in tags:
        out += _unsigned(tag) + _unsigned(len(data) // 2) + bytes.fromhex(data)
    return out


def _unsigned(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _set(body: bytes, position: int, value: int) -> bytes:
    at = position % max(len(body), 1)
    return body[:at] + bytes([value]) + body[at + 1 :]


def _insert(body: bytes, position: int, more: str) -> bytes:
    at = position % max(len(body), 1)
    return body[:at] + bytes.fromhex(more) + body[at:]


_DAMAGES: dict[str, Any] = {
    "cut": lambda body, count: body[: max(len(body) - count, 0)],
    "more": lambda body, more: body + bytes.fromhex(more),
    "set": _set,
    "insert": _insert,
}

_MARK = NULL.encode()
_PLAIN, _COMPACT = len(_MARK).to_bytes(2, "big") + _MARK, bytes([len(_MARK) + 1]) + _MARK


def _with_nulls(body: bytes) -> bytes:
    if _MARK not in body:
        return body
    return body.replace(_PLAIN, b"\xff\xff").replace(_COMPACT, b"\0")
