"""Counts of the wire format that no schema tells of at their greatest, one at a time: the table for whatever asks how long a broker is
held up by them (``tests/server/test_greatest_counts.py`` counts lines). The arrays of requests are in ``benchmarks/fillings.py``.

Rules:
1. A case says what it sends; all of it counts, also what prepares the rest. ``size``: bytes of its greatest request.
2. What the case needs of the broker is in `TOPICS`, and in names of its own (groups, transactional ids), so that cases share a broker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from kafka_wire.codec import encode
from kafka_wire.frame import encode_request_header, frame
from kafka_wire.messages.k01_fetch import FetchRequest
from kafka_wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from kafka_wire.messages.k18_api_versions import ApiVersionsRequest
from kafka_wire.wire import uvarint

__all__ = ["CASES", "TOPICS", "Speaker"]

TOPICS = {"wide": 10_000}


class Speaker(Protocol):
    """A connection of a client, and what else a case needs of its broker."""

    def ask(self, request: Any, version: int) -> Any:
        """The answer."""

    def send(self, data: bytes) -> None:
        """A frame, whole; waits for its answer, or until the broker hangs up."""


Case = Callable[[Speaker, int], None]
CASES: dict[str, Case] = {}


def case(name: str, *arguments: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def put(function: Callable[..., None]) -> Callable[..., None]:
        CASES[name] = lambda speaker, size: function(speaker, size, *arguments)
        return function

    return put


# ------------------------------------------------------------------------------------------------ tagged fields


def _tags(size: int, tag: int = 100) -> bytes:
    """As many empty tagged fields as fit."""
    return uvarint(size // 2) + bytes((tag, 0)) * (size // 2)


@case("tagged fields of a header")
def header_tags(speaker: Speaker, size: int) -> None:
    head = encode_request_header(12, 4, 1, "c")[:-1]
    speaker.send(frame(head + _tags(size) + encode(HeartbeatRequest("g", 1, "m"), 4)))


@case("tagged fields of a body", HeartbeatRequest("g", 1, "m"), 4)
@case("tagged fields of a body that knows some", FetchRequest(), 17)
@case("tagged fields of a body, ApiVersions", ApiVersionsRequest("a", "1"), 4)
def body_tags(speaker: Speaker, size: int, request: Any, version: int) -> None:
    head = encode_request_header(type(request).__spec__.api_key, version, 1, "c")
    speaker.send(frame(head + encode(request, version)[:-1] + _tags(size)))


@case("tagged fields of an element")
def element_tags(speaker: Speaker, size: int) -> None:
    body = encode(MetadataRequest([MetadataRequestTopic(name="t")], allow_auto_topic_creation=False), 12)
    at = body.index(b"\x02t\0") + 2
    speaker.send(frame(encode_request_header(3, 12, 1, "c") + body[:at] + _tags(size) + body[at + 1 :]))


@case("tagged fields of many elements")
def many_tags(speaker: Speaker, size: int) -> None:
    body = encode(MetadataRequest([MetadataRequestTopic(name="t")], allow_auto_topic_creation=False), 12)
    element = body[1 : body.index(b"\x02t\0") + 2] + b"\x7f" + b"\x64\0" * 127
    many = size // len(element)
    speaker.send(
        frame(
            encode_request_header(3, 12, 1, "c") + uvarint(many + 1) + element * many + body[1 + len(element) - 254 :]
        )
    )
