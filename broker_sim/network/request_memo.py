"""Memo of a connection's requests that come again and again with the same bytes, as heartbeats do, and of their replies.

A reply is remembered with a question, ``again()``: whether it is still the answer. Nothing in here depends on the meaning of a request.
Requests that come again with another generation, or are answered otherwise, are ``repeated_requests``'.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from broker_sim.network.repeated_requests import RepeatedRequests
from broker_sim.requests.context import RequestContext

__all__ = ["NoMemo", "RequestMemo"]

_MOST = 4
"""Requests that are remembered, of at most _LONGEST bytes each, with replies of at most four times as many."""
_LONGEST = 1024

Known = tuple[int, Callable[[], bool], bytes, bytes, bytes]
"""Api key and version as in the frame; whether the reply is the same; the reply before and behind the correlation id; how the frame
begins, up to there."""


class RequestMemo:
    """``replies``: by a frame's bytes behind the correlation id; ``longest``: the size field of the longest, -1 without; ``repeated``:
    None until the first request came that may be one."""

    __slots__ = ("_last", "longest", "repeated", "replies")

    def __init__(self) -> None:
        self.repeated: RepeatedRequests | None = None
        self.replies: dict[bytes, Known] = {}
        self.longest = -1
        self._last = b""

    def answered(self, frame: bytes, reply: Sequence[bytes], repeats: Callable[[], Callable[[], bool] | None]) -> None:
        """A frame has its reply, in pieces. What comes twice in a row, but for the correlation id, is remembered, if ``repeats`` can
        show when the reply is the same."""
        size = len(frame) - 4
        if size > _LONGEST:
            return
        last, self._last = self._last, frame[4:8] + frame[12:]
        if last != self._last:
            return
        again = repeats()
        if again is None:
            return
        whole = b"".join(reply)
        if len(whole) > 4 * _LONGEST:
            return
        if len(self.replies) >= _MOST:
            self.replies.clear()
        code = int.from_bytes(frame[4:8], "big")
        self.replies[frame[12:]] = (code, again, whole[:4], whole[8:], frame[:8])
        self.longest = max(self.longest, size)

    def handled(self, context: RequestContext, frame: bytes, body: int, request: Any) -> None:
        """A frame whose route may be repeated was decoded and handled."""
        if self.repeated is None:
            self.repeated = RepeatedRequests()
        self.repeated.handled(context, frame, body, request)


class NoMemo(RequestMemo):
    """Remembers nothing: for a connection whose every request may be refused."""

    __slots__ = ()

    def answered(self, frame: bytes, reply: Sequence[bytes], repeats: Callable[[], Callable[[], bool] | None]) -> None:
        """Without effect."""

    def handled(self, context: RequestContext, frame: bytes, body: int, request: Any) -> None:
        """Without effect."""
