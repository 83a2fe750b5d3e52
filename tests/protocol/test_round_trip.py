"""Every (class, version): what is written is read back, and what is read is written back."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_sim.common.slices import at_once
from kafka_wire import codec, wire
from kafka_wire.codec import DecodeError, decode_from, decoding, encode, encoding
from kafka_wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from tests.protocol.generate import MESSAGES, random_message, versions


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_message_survives_its_bytes(cls: type, data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(versions(cls)), label="version")
    message = random_message(data.draw(st.randoms(use_true_random=False)), cls, version)
    body = encode(message, version)
    before = data.draw(st.binary(max_size=3), label="bytes before")
    after = data.draw(st.binary(max_size=3), label="bytes after")
    again, position = decode_from(cls, version, before + body + after, len(before))
    assert again == message
    assert position == len(before) + len(body)


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_every_version_survives_its_bytes(cls: type) -> None:
    for version in versions(cls):
        rng = Random(f"{cls.__name__} v{version}")
        for _ in range(10):
            message = random_message(rng, cls, version)
            body = encode(message, version)
            assert decode_from(cls, version, body) == (message, len(body))


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_every_version_is_the_same_in_pieces(cls: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "PIECE", 1)  # each element is one
    monkeypatch.setattr(codec, "_decoders_in_pieces", {})
    monkeypatch.setattr(codec, "_encoders_in_pieces", {})
    for version in versions(cls):
        rng = Random(f"{cls.__name__} v{version}")
        for _ in range(10):
            message = random_message(rng, cls, version)
            parts: list[bytes] = []
            at_once(encoding(cls, version, message, parts.append))
            body = b"".join(parts)
            assert body == encode(message, version)
            assert at_once(decoding(cls, version, b"?" + body, 1)) == message
            for cut in (body[:-1], body[: len(body) // 2]):
                assert _told(lambda: decode_from(cls, version, cut)) == _told(  # noqa: B023
                    lambda: at_once(decoding(cls, version, cut))  # noqa: B023
                )


def _told(read: Callable[[], object]) -> str:
    try:
        read()
    except DecodeError as error:
        return str(error)
    return ""


def test_pieces_are_counted_over_all_arrays() -> None:
    topics = [FetchTopic("t", partitions=[FetchPartition(n) for n in range(999)]) for _ in range(10)]
    body = encode(FetchRequest(topics=topics), 11)
    assert len(list(decoding(FetchRequest, 11, body))) == 10 * 1000 // wire.PIECE
    assert len(list(encoding(FetchRequest, 11, FetchRequest(topics=topics), lambda part: None))) == 5


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_the_default_message_survives_in_every_version(cls: type) -> None:
    for version in versions(cls):
        assert decode_from(cls, version, encode(cls(), version))[0] == cls()


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_two_decoded_messages_share_no_lists(cls: type) -> None:
    for version in versions(cls):
        body = encode(cls(), version)
        first, second = decode_from(cls, version, body)[0], decode_from(cls, version, body)[0]
        for name, _ in cls.__fields__:  # type: ignore[attr-defined]
            value = getattr(first, name)
            assert not isinstance(value, list) or value is not getattr(second, name)
