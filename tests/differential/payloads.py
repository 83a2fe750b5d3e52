"""Byte fields that steps describe: record batches (sound and broken in named ways), subscriptions, assignments.

{"batch": {"records": [{"key": "k", "value": "v"}, ...], "codec": 0, ...}}      see `batch`
{"subscription": {"version": 1, "topics": ["t0"], "cut": 4}}
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import google_crc32c

from kafka_wire import compression
from kafka_wire.codec import encode
from kafka_wire.messages.consumer_protocol import ConsumerProtocolSubscription
from kafka_wire.record_batch import varint

if TYPE_CHECKING:
    from tests.differential.symbols import Scope

_AFTER_CRC = struct.Struct(">hiqqqhii")


def build(tree: dict[str, Any], scope: Scope) -> bytes:
    [(kind, given)] = tree.items()
    if kind == "batch":
        return batch(given, scope)
    if kind == "batches":
        return b"".join(batch(one, scope) for one in given)
    if kind == "subscription":
        return subscription(given, scope)
    raise ValueError(f"no payload of kind {kind!r}")


def subscription(given: dict[str, Any], scope: Scope) -> bytes:
    """A consumer's subscription; `claim` another version than it has, `cut` bytes less, `extra` bytes behind."""
    topics = [scope.text(name) for name in given.get("topics", [])]
    version = given.get("version", 1)
    made = encode(ConsumerProtocolSubscription(topics=topics), version)
    raw = struct.pack(">h", given.get("claim", version)) + made
    raw = raw[: len(raw) - given["cut"]] if given.get("cut") else raw
    return raw + bytes.fromhex(given.get("extra", ""))


def batch(given: dict[str, Any], scope: Scope) -> bytes:
    """A record batch of magic 2 (`magic`: claims another) with the CRC of what it holds (`crc`: another one).

    `records`: see `record`. `at` ms from the play's time; `codec`, `attributes` (more bits), `pid`, `epoch`, `seq`
    (numbers or symbols), `count`, `last_delta`, `length`, `max_at` and `base_offset` where they shall lie, `base_timestamp` and
    `max_timestamp` (ms since the epoch); `tail` bytes
    behind the records, before compression; `squeezed` bytes behind compressed records; `behind` bytes after the batch;
    `keep`: only so many bytes of the whole.
    """
    rows = given.get("records", [])
    body = b"".join(record(row, number) for number, row in enumerate(rows)) + bytes.fromhex(given.get("tail", ""))
    codec = given.get("codec", 0)
    if 1 <= codec <= 4:
        body = compression.compress(compression.Codec(codec), body)
    body += bytes.fromhex(given.get("squeezed", ""))
    base_at = scope.now_ms + given.get("at", 0) if given.get("at") != "none" else -1
    latest = max((row.get("at", 0) for row in rows), default=0)
    max_at = min(base_at + given.get("max_at", latest), 2**63 - 1) if base_at >= 0 else -1
    covered = (
        _AFTER_CRC.pack(
            codec | given.get("attributes", 0),
            given.get("last_delta", max(len(rows) - 1, 0)),
            given.get("base_timestamp", base_at),
            given.get("max_timestamp", max_at),
            scope.number(given.get("pid", -1)),
            scope.number(given.get("epoch", -1)),
            scope.number(given.get("seq", -1)),
            given.get("count", len(rows)),
        )
        + body
    )
    crc = given.get("crc", google_crc32c.value(covered))
    rest = struct.pack(">ibI", given.get("leader_epoch", -1), given.get("magic", 2), crc) + covered
    head = struct.pack(">qi", given.get("base_offset", 0), given.get("length", len(rest)))
    whole = head + rest + bytes.fromhex(given.get("behind", ""))
    return whole[: given["keep"]] if "keep" in given else whole


def record(row: dict[str, Any], number: int) -> bytes:
    """One record: `key`, `value` (text or None), `at` and `delta` (timestamp and offset deltas), `headers` of [name, value].

    It lies with `size` (its own length), `key_size`, `value_size`, `header_count`; `more` bytes behind its fields;
    `raw`: these bytes and no others.
    """
    if "raw" in row:
        return bytes.fromhex(row["raw"])
    parts = [bytes([row.get("attributes", 0)]), varint(row.get("at", 0)), varint(row.get("delta", number))]
    for name in ("key", "value"):
        text = row.get(name)
        raw = None if text is None else text.encode()
        parts.append(varint(row.get(f"{name}_size", -1 if raw is None else len(raw))))
        parts.append(raw or b"")
    headers = row.get("headers", [])
    parts.append(varint(row.get("header_count", len(headers))))
    for name, value in headers:
        parts.append(varint(-1) if name is None else varint(len(name.encode())) + name.encode())
        parts.append(varint(-1) if value is None else varint(len(value.encode())) + value.encode())
    made = b"".join(parts) + bytes.fromhex(row.get("more", ""))
    return varint(row.get("size", len(made))) + made
