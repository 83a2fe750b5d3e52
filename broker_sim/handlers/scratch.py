"""What fast paths remember of a connection, and of the member whose connection it is."""

from __future__ import annotations

import struct
from typing import Any

from broker_sim.handlers.context import ConnectionLike
from broker_sim.runtime.repeated_requests import Place

LARGEST = 4096
"""Bytes of a request that may be remembered."""

_LEARNED = 64
"""Requests that a connection remembers in its life: a client has one member on it."""

_INT32 = struct.Struct(">i")


class Scratch:
    """``ConnectionLike.scratch``: one thing for each API that remembers any."""

    __slots__ = ("beat", "commits", "learned", "rejoin", "seen", "sync")

    def __init__(self) -> None:
        self.beat: Known | None = None
        self.sync: Known | None = None
        self.rejoin: Any = None
        self.commits: Any = None
        self.seen = b""  # the last JoinGroup
        self.learned = 0

    def may_learn(self, size: int) -> bool:
        """Whether a request of ``size`` bytes may be remembered, which counts as one."""
        if size > LARGEST or self.learned >= _LEARNED:
            return False
        self.learned += 1
        return True


class Known:
    """A member's request in its bytes, but for the generation that stands between ``head`` and ``tail``."""

    __slots__ = ("head", "head_size", "place", "protocol", "tail")

    def __init__(self, body: bytes, at: int, place: Place, protocol: tuple[str | None, str | None]) -> None:
        self.head, self.head_size, self.tail = body[:at], at, body[at + 4 :]
        self.place, self.protocol = place, protocol

    def generation(self, frame: bytes, body: int) -> int | None:
        """That of the request at ``frame[body:]``, None where this is another one."""
        at = body + self.head_size
        if frame[body:at] != self.head or frame[at + 4 :] != self.tail:
            return None
        generation: int = _INT32.unpack_from(frame, at)[0]
        return generation


def scratch_of(connection: ConnectionLike) -> Scratch:
    """The connection's; made where there is none."""
    scratch = connection.scratch
    if scratch is None:
        scratch = connection.scratch = Scratch()
    out: Scratch = scratch
    return out


def learn(
    scratch: Scratch,
    connection: ConnectionLike,
    body: bytes,
    request: Any,
    *,
    flexible: bool,
    protocol: tuple[str | None, str | None] = (None, None),
) -> Known | None:
    """A Heartbeat or SyncGroup of a dynamic member to remember; both have the generation behind the group id."""
    if request.group_instance_id is not None or not request.member_id or not scratch.may_learn(len(body)):
        return None
    at = body[0] if flexible else 2 + int.from_bytes(body[:2], "big")
    if body[at : at + 4] != _INT32.pack(request.generation_id) or (flexible and body[0] > 127):
        return None
    return Known(body, at, Place(connection.broker, request.group_id, request.member_id), protocol)
