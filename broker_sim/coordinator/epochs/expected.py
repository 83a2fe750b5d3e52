"""A long record of a member, encoded in pieces before the step that writes it: `Expected`.

A heartbeat may name a megabyte of topics, and a group handles it in one step. Work that does not depend on the step is done before it,
while other clients are served: the record that the heartbeat leads to, unless the member has sent something else meanwhile, and its
bytes.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from kafka_wire.offsets_log import encoding_value


class _Heartbeat(Protocol):
    group_id: str
    member_id: str


M = TypeVar("M")
Q = TypeVar("Q", bound=_Heartbeat)


@dataclass(slots=True)
class Expected(Generic[M]):
    """The value of a member's record that a heartbeat is expected to write, and its bytes as the log has them."""

    value: M
    encoded: bytes

    def bytes_of(self, value: M) -> bytes | None:
        """The bytes of the value that is written, where it is the expected one."""
        return self.encoded if value == self.value else None


def encoded_in_pieces(value: M) -> Generator[None, None, Expected[M]]:
    """Encode ``value`` in pieces; other requests are served between them."""
    return Expected(value, (yield from encoding_value(0, value)))


@dataclass(slots=True)
class LongHeartbeat(Generic[Q]):
    """A heartbeat whose form was looked at, and the member's record that it leads to."""

    request: Q
    expected: Expected[Any]

    @property
    def group_id(self) -> str:
        return self.request.group_id

    @property
    def member_id(self) -> str:
        return self.request.member_id
