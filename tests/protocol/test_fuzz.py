"""Damaged frames: decoding returns or raises DecodeError, whatever the bytes, and needs no more than they justify."""

from __future__ import annotations

import contextlib
import struct
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from kafka_wire import codec
from kafka_wire.codec import DecodeError, EncodeError, UnknownVersionError, decode, decode_from, encode
from kafka_wire.frame import decode_request_header, encode_request_header
from kafka_wire.schema import FieldSpec
from tests.protocol.generate import EVERY, MESSAGES, random_message, versions
from tests.protocol.mutate import mutate

REQUESTS = {cls.__spec__.api_key: cls for cls in MESSAGES if cls.__name__.endswith("Request")}  # type: ignore[attr-defined]

FRAMES = 100_000
MEMORY_PER_BYTE = 100
"""An array's element of few bytes becomes a Python object of about a hundred; this is the factor that stays bounded."""

MEMORY_AT_LEAST = 64 * 1024
SECONDS_EACH = 1.0


def _frames(rng: Random) -> list[tuple[type, int, bytes]]:
    """One frame of every (class, version) for each of three random messages: a request with its header, a response bare."""
    frames = []
    for cls, version in EVERY:
        for _ in range(3):
            body = encode(random_message(rng, cls, version), version)
            if cls in REQUESTS.values():
                body = encode_request_header(cls.__spec__.api_key, version, 7, "fuzz") + body  # type: ignore[attr-defined]
            frames.append((cls, version, body))
    return frames


def _receive(cls: type, version: int, frame: bytes) -> Any:
    """Decode a frame as its receiver: a broker for requests (a damaged header may name another API), a client for responses."""
    if cls not in REQUESTS.values():
        return decode(cls, version, frame)
    header = decode_request_header(frame)
    request = REQUESTS.get(header.api_key)
    if request is None:
        raise UnknownVersionError(f"no api {header.api_key}")
    return decode(request, header.api_version, frame, header.body)


@pytest.mark.long
def test_a_hundred_thousand_damaged_frames_are_read_or_refused() -> None:
    rng = Random("a hundred thousand")
    frames = _frames(rng)
    outcomes: Counter[str] = Counter()
    for cls, version, frame in frames:  # compiles everything, outside of the measurement
        _receive(cls, version, frame)
        codec._lenient_decoder(cls, version)
    tracemalloc.start()
    try:
        for number in range(FRAMES):
            cls, version, frame = frames[number % len(frames)]
            damaged = mutate(rng, frame, rng.choice(frames)[2])
            tracemalloc.reset_peak()
            before, began = tracemalloc.get_traced_memory()[0], time.thread_time()
            try:
                message = _receive(cls, version, damaged)
                outcomes["read"] += 1
                del message
            except DecodeError:
                outcomes["refused"] += 1
            used, took = tracemalloc.get_traced_memory()[1] - before, time.thread_time() - began
            where = f"frame {number}, {cls.__name__} v{version}: {damaged.hex()}"
            assert used <= MEMORY_AT_LEAST + MEMORY_PER_BYTE * len(damaged), f"{used} bytes for {where}"
            assert took <= SECONDS_EACH, f"{took:.1f} s for {where}"
    finally:
        tracemalloc.stop()
    assert sum(outcomes.values()) == FRAMES
    assert min(outcomes["read"], outcomes["refused"]) > FRAMES // 10, outcomes


def test_noise_is_read_or_refused_in_every_version() -> None:
    rng = Random("noise")
    noise = [rng.randbytes(rng.choice([0, 1, 2, 3, 8, 50, 500])) for _ in range(20)]
    noise += [byte * 4096 for byte in (b"\x00", b"\x01", b"\x02", b"\x7f", b"\x80", b"\xff")]
    for cls, version in EVERY:
        for data in noise:
            try:
                message, position = decode_from(cls, version, data)
            except DecodeError:
                continue
            assert 0 <= position <= len(data)
            encode(message, version)


def _with_array(cls: Any, version: int, count: int) -> Iterator[Any]:
    """Messages in which one array after the other, wherever nested, has ``count`` elements."""
    for name, spec in cls.__fields__:
        if version not in spec.versions:
            continue
        if spec.kind == "array":
            yield cls(**{name: [_least(spec.element()) for _ in range(count)]})
        if isinstance(spec.item, type):
            for inner in _with_array(spec.item, version, count):
                yield cls(**{name: [inner] if spec.kind == "array" else inner})


def _least(spec: FieldSpec) -> Any:
    if spec.kind == "struct":
        return spec.item()
    return {"string": "", "bytes": b"", "uuid": bytes(16)}.get(spec.kind, 0)


@pytest.mark.slow
def test_memory_is_proportional_to_the_bytes_of_any_array() -> None:
    """The message that makes the most of its bytes: thousands of the smallest elements in an array."""
    for cls in MESSAGES:
        for version in {versions(cls)[0], versions(cls)[-1]}:
            for message in _with_array(cls, version, 2000):
                data = encode(message, version)
                decode(cls, version, data)
                tracemalloc.start()
                try:
                    decode(cls, version, data)
                    used = tracemalloc.get_traced_memory()[1]
                finally:
                    tracemalloc.stop()
                assert used <= MEMORY_AT_LEAST + MEMORY_PER_BYTE * len(data), (cls.__name__, version, len(data))


def test_an_array_that_claims_more_than_there_is_costs_nothing() -> None:
    """A length of 2^31-1 with few bytes behind it is refused before the first element is read."""
    for cls, version in EVERY:
        first = next(((n, s) for n, s in cls.__fields__ if version in s.versions), None)  # type: ignore[attr-defined]
        if first is None or first[1].kind != "array":
            continue
        lie = b"\xff\xff\xff\xff\x07" if version in cls.__spec__.flexible else struct.pack(">i", 2**31 - 1)  # type: ignore[attr-defined]
        with pytest.raises(DecodeError, match=first[0]):
            decode(cls, version, lie + bytes(10_000))


def test_an_encoder_refuses_nonsense_with_encode_error_only() -> None:
    """Any field of any message set to something of a wrong type, out of range, or None."""
    nonsense: list[Any] = [
        None,
        "text",
        b"bytes",
        2**70,
        -(2**70),
        1.5,
        object(),
        [None],
        [1, "x"],
        "\ud800",
        (),
        {1: 2},
    ]
    for cls, version in EVERY:
        for name, spec in cls.__fields__:  # type: ignore[attr-defined]
            if version not in spec.versions:
                continue
            for value in nonsense:
                message = cls()
                setattr(message, name, value)
                with contextlib.suppress(EncodeError):
                    assert isinstance(encode(message, version), bytes)
