"""A connection's memory of requests that differ from the last one in the generation or the member epoch alone: a member's JoinGroup,
SyncGroup, Heartbeat and ConsumerGroupHeartbeat. Such a request is handled without the decoder and the coordinator check; the
coordinator's rules are the same.

The answer may differ each time; requests with equal answers are handled by `request_memo`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from broker_sim.coordinator.client import Client
    from broker_sim.requests.context import RequestContext
    from broker_sim.requests.repeated import Again
    from broker_sim.requests.routes import Route

__all__ = ["RepeatedRequests", "Template"]

_LONGEST = 1024
"""Bytes of a frame that is remembered."""
_MOST = 4
"""Frames that are remembered: a classic member's of three APIs in one version each, and one to spare."""


class Template:
    """A frame with known bytes, except for the correlation id and the generation. ``at``: the position of the generation, the frame's
    end if it has none; ``again``: None until the frame has come twice; ``state_version``: of the cluster, while ``again`` is valid;
    ``client``: its sender."""

    __slots__ = ("after", "again", "at", "before", "client", "route", "size", "state_version")

    def __init__(self, route: Route, client: Client, frame: bytes, at: int) -> None:
        self.route, self.client = route, client
        self.size, self.at = len(frame), at
        self.before, self.after = frame[12:at], frame[at + 4 :]
        self.again: Again | None = None
        self.state_version = -1

    def fits(self, frame: bytes) -> bool:
        """Whether ``frame``, which begins as this one does, is the same but for the correlation id and the generation."""
        return self.size == len(frame) and frame.startswith(self.before, 12) and frame.endswith(self.after)


class RepeatedRequests(dict[bytes, Template]):
    """The frames that may come again, by their first eight bytes: size, API key and version."""

    __slots__ = ()

    def handled(self, context: RequestContext, frame: bytes, body: int, request: Any) -> None:
        """A frame has been decoded and handled. What comes twice in a row, but for the generation, is remembered."""
        route, repeated = context.route, context.route.repeated
        assert repeated is not None
        if len(frame) > _LONGEST:
            return
        at = repeated.generation_at(route.flexible, frame, body)
        last = self.get(frame[:8])
        if last is not None and last.at == at and last.fits(frame):
            last.again, last.state_version = repeated.prepare(context, request), context.broker.state.version
            return
        if len(self) >= _MOST:
            self.clear()
        self[frame[:8]] = Template(route, context.client, frame, at)
