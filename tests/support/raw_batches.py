"""Batches byte by byte: their header and checksum are right, what is inside need not be."""

from __future__ import annotations

import time

import google_crc32c

from kafka_wire import compression
from kafka_wire.compression import Codec
from kafka_wire.record_batch import encode_batch, varint


def null_or(field: bytes | None) -> bytes:
    return varint(-1) if field is None else varint(len(field)) + field


def record(
    number: int,
    *,
    key: bytes | None = b"k",
    ahead_ms: int = 0,
    headers: bytes = b"\0",
    behind: bytes = b"",
    size: int | None = None,
) -> bytes:
    """One record as bytes; `headers` with their count, `size` in place of the true one."""
    content = b"\0" + varint(ahead_ms) + varint(number) + null_or(key) + null_or(b"v") + headers + behind
    return varint(len(content) if size is None else size) + content


def batch(*rows: bytes, codec: Codec = Codec.NONE, ahead_ms: int = 0, claims: int | None = None) -> bytes:
    """A batch of these records under a right header, but for the latest time, which it puts `ahead_ms` ahead."""
    now_ms = int(time.time() * 1000)
    inside = compression.compress(codec, b"".join(rows))
    head = bytearray(encode_batch([])[:61])
    head[21:23] = int(codec).to_bytes(2, "big")
    count = len(rows) if claims is None else claims
    head[23:27] = (count - 1).to_bytes(4, "big")
    head[27:35] = now_ms.to_bytes(8, "big")
    head[35:43] = (now_ms + ahead_ms).to_bytes(8, "big")
    head[57:61] = count.to_bytes(4, "big")
    head[8:12] = (len(head) + len(inside) - 12).to_bytes(4, "big")
    covered = bytes(head[21:]) + inside
    head[17:21] = google_crc32c.value(covered).to_bytes(4, "big")
    return bytes(head) + inside
