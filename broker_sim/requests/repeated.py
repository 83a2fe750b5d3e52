"""Requests that a member repeats with the same bytes, except for the generation or the member epoch (here a generation, too):
``REPEATED`` in a handler's file.

The connection remembers the bytes. For the next frame with them it calls the result of ``prepare`` in place of the handler, without
decoding: the handler's other inputs, such as the group's coordinator, are valid while ``state.version`` is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from broker_sim.requests.context import RequestContext

__all__ = ["Again", "Repeated"]


class Again(NamedTuple):
    """The remaining part of a handler for a repeated request. ``handle(ctx, generation)`` answers ``ctx`` now or later."""

    handle: Callable[[RequestContext, int], object]
    at_once: Callable[[int], bytes | None] | None = None
    """The body of the answer, where it can be given without a step of the coordinator; None, and nothing done, where it can't."""
    repeats: Callable[[], Callable[[], bool] | None] | None = None
    """For an answer of ``at_once``: as ``ctx.repeats``."""


class Repeated(NamedTuple):
    """``prepare(ctx, request)``: for a request that was just handled, what handles it when it comes again; None where it has to be
    decoded each time. ``ids``: how many ids the request begins with, before its generation; 0: it has none."""

    prepare: Callable[[RequestContext, Any], Again | None]
    ids: int

    def generation_at(self, flexible: bool, frame: bytes, body: int) -> int:
        """The position of the generation in a request that begins at ``frame[body]`` and was decoded; the frame's end if it has none,
        or an id of so many bytes that its length takes two."""
        if not self.ids:
            return len(frame)
        for _ in range(self.ids):
            if not flexible:
                body += 2 + int.from_bytes(frame[body : body + 2], "big")
                continue
            size = frame[body]
            if size >= 0x80:
                return len(frame)
            body += size
        return body
