"""Request and response headers, flexible and not."""

from __future__ import annotations

from random import Random

import pytest

from kafka_wire.api_keys import ApiKey
from kafka_wire.codec import DecodeError, EncodeError
from kafka_wire.frame import (
    RequestHeader,
    decode_request_header,
    encode_request_header,
    encode_response_head,
    frame,
    response_is_tagged,
)
from tests.protocol.generate import MESSAGES, versions


def test_header_v1_is_these_bytes() -> None:
    data = encode_request_header(ApiKey.HEARTBEAT, 3, 7, "me")
    assert data.hex(" ") == "00 0c 00 03 00 00 00 07 00 02 6d 65"
    assert decode_request_header(data + b"body") == RequestHeader(12, 3, 7, "me", len(data))


def test_header_v2_ends_with_tags_and_its_client_id_is_not_compact() -> None:
    data = encode_request_header(ApiKey.HEARTBEAT, 4, 7, "me")
    assert data.hex(" ") == "00 0c 00 04 00 00 00 07 00 02 6d 65 00"
    assert decode_request_header(data) == RequestHeader(12, 4, 7, "me", len(data))


def test_unknown_tags_of_a_header_are_skipped() -> None:
    data = encode_request_header(ApiKey.HEARTBEAT, 4, 7, "me")[:-1] + bytes.fromhex("02 00 01 ff 05 00")
    assert decode_request_header(data + b"!").body == len(data)


@pytest.mark.parametrize("length", ["ffff", "8000"])
def test_a_client_without_an_id(length: str) -> None:
    data = bytes.fromhex("000c 0003 00000007" + length)
    assert decode_request_header(data) == RequestHeader(12, 3, 7, None, 10)
    assert encode_request_header(12, 3, 7, None) == bytes.fromhex("000c 0003 00000007 ffff")


def test_an_empty_client_id_is_not_null() -> None:
    assert decode_request_header(encode_request_header(12, 3, 7, "")).client_id == ""


def test_a_client_id_that_is_not_utf8_is_replaced() -> None:
    assert decode_request_header(bytes.fromhex("000c 0003 00000007 0002 61ff")).client_id == "a\ufffd"


def test_the_header_may_stand_anywhere_in_the_buffer() -> None:
    data = encode_request_header(ApiKey.HEARTBEAT, 4, 7, "me")
    assert decode_request_header(b"xyz" + data + b"body", 3).body == 3 + len(data)


@pytest.mark.parametrize("version", [3, 4])
def test_every_cut_of_a_header_is_refused(version: int) -> None:
    data = encode_request_header(ApiKey.HEARTBEAT, version, 7, "client")
    for end in range(len(data)):
        with pytest.raises(DecodeError):
            decode_request_header(data[:end])


def test_a_client_id_that_lies_about_its_length_is_refused() -> None:
    with pytest.raises(DecodeError, match="client id has the length 32767, 2 bytes are left"):
        decode_request_header(bytes.fromhex("000c 0003 00000007 7fff 6161"))


@pytest.mark.parametrize("client_id", ["x" * 32768, "\ud800"])
def test_a_header_that_can_not_be_written_is_refused(client_id: str) -> None:
    with pytest.raises(EncodeError, match="request header"):
        encode_request_header(12, 3, 7, client_id)


def test_damaged_headers_raise_nothing_else() -> None:
    rng = Random("headers")
    for _ in range(20_000):
        data = bytearray(encode_request_header(rng.randrange(80), rng.randrange(14), 7, "client"))
        data[rng.randrange(len(data))] = rng.randrange(256)
        cut = bytes(data[: rng.randint(0, len(data))])
        try:
            header = decode_request_header(cut)
        except DecodeError:
            continue
        assert 10 <= header.body <= len(cut)


def test_an_unknown_api_has_the_plain_header() -> None:
    assert decode_request_header(bytes.fromhex("7fff 0063 00000007 ffff")) == RequestHeader(32767, 99, 7, None, 10)


def test_response_heads() -> None:
    assert encode_response_head(False, 7, 3).hex(" ") == "00 00 00 07 00 00 00 07"
    assert encode_response_head(True, 7, 3).hex(" ") == "00 00 00 08 00 00 00 07 00"
    assert frame(b"abc") == b"\0\0\0\3abc"


def test_responses_are_tagged_where_requests_are_but_never_those_of_api_versions() -> None:
    for cls in MESSAGES:
        if cls.__name__.endswith("Response"):
            for version in versions(cls):
                spec = cls.__spec__  # type: ignore[attr-defined]
                expected = version in spec.flexible and spec.api_key != ApiKey.API_VERSIONS
                assert response_is_tagged(spec.api_key, version) == expected
