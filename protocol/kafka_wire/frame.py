"""The envelope of a message on a connection: the frame's length, the request header, the response header.

A frame is an int32 size and that many bytes. A request begins with its header: api key, api version, correlation id,
client id (v1), and a tag section where the request is flexible (v2). A response begins with the correlation id (v0),
and a tag section where the request was flexible (v1). ApiVersions responses always have header v0: a client must be
able to read them before it knows what the broker speaks (KIP-511).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from kafka_wire.api_keys import ApiKey, is_flexible
from kafka_wire.wire import LENIENT, DecodeError, EncodeError, skip_tagged_fields, too_long

_HEADER = struct.Struct(">hhih")
_SIZE = struct.Struct(">i")
_SIZE_AND_ID = struct.Struct(">ii")
_SIZE_ID_TAGS = struct.Struct(">iiB")


@dataclass(slots=True)
class RequestHeader:
    """A request's header; ``body`` is the position of the request behind it."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body: int


def decode_request_header(frame: bytes, pos: int = 0) -> RequestHeader:
    """The header at ``frame[pos]`` (behind the frame's size). Raises DecodeError."""
    try:
        api_key, version, correlation_id, length = _HEADER.unpack_from(frame, pos)
        pos += 10
        client_id: str | None = None
        if length >= 0:
            end = pos + length
            if end > len(frame):
                raise too_long("client id", length, len(frame) - pos)
            client_id = frame[pos:end].decode("utf-8", LENIENT)
            pos = end
        if is_flexible(api_key, version):
            pos = skip_tagged_fields(frame, pos)
    except (struct.error, IndexError):
        raise DecodeError(f"a request header needs more than the frame's {len(frame)} bytes") from None
    return RequestHeader(api_key, version, correlation_id, client_id, pos)


def encode_request_header(api_key: int, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """A request header, without the frame's size. Raises EncodeError."""
    try:
        name = b"" if client_id is None else client_id.encode()
        head = _HEADER.pack(api_key, version, correlation_id, -1 if client_id is None else len(name)) + name
    except (struct.error, UnicodeEncodeError) as error:
        raise EncodeError(f"request header: {error}") from None
    return head + b"\0" if is_flexible(api_key, version) else head


def response_is_tagged(api_key: int, version: int) -> bool:
    """Whether the response has header v1, which ends with a tag section."""
    return api_key != ApiKey.API_VERSIONS and is_flexible(api_key, version)


def encode_response_head(tagged: bool, correlation_id: int, body_size: int) -> bytes:
    """Frame size and response header for a body of ``body_size`` bytes; ``tagged`` from :func:`response_is_tagged`."""
    if tagged:
        return _SIZE_ID_TAGS.pack(body_size + 5, correlation_id, 0)
    return _SIZE_AND_ID.pack(body_size + 4, correlation_id)


def frame(payload: bytes) -> bytes:
    """``payload`` with its size before it."""
    return _SIZE.pack(len(payload)) + payload
