"""What is told of connections that are closed because of what they sent: a line each, and of a flood a line now and then with a count.
And what is told once, however often it happens: a client that is refused for good asks again at every heartbeat.

Whoever sends nonsense would else write the log: with 40,000 lines a second, in words of his own choosing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker_sim.common.text import duration_text, short

__all__ = ["Once", "Refusals", "named", "spoken", "warn_of_group"]

AT_ONCE = 20
"""Lines in a period."""

PERIOD_MS = 10_000

REMEMBERED = 4096
"""Lines that are known to have been told; with more of them all may be told once more."""


class Once:
    """What a cluster has told of its clients."""

    def __init__(self) -> None:
        self._told: set[tuple[str | None, ...]] = set()

    def first(self, *what: str | None) -> bool:
        """Whether this is told for the first time: who, and what of him."""
        if what in self._told:
            return False
        if len(self._told) >= REMEMBERED:
            self._told.clear()
        self._told.add(what)
        return True


def named(client_id: str | None) -> str:
    """A client id in a line of the log; ``none`` where the client has none."""
    return "none" if client_id is None else short(client_id)


def warn_of_group(once: Once, log: logging.Logger, client_id: str | None, group_id: str | None, words: str) -> None:
    """Log why a client's group is refused for good, the first time."""
    if once.first(client_id, group_id, words):
        log.warning("client id %s, group %s: %s", named(client_id), short(group_id or ""), words)


class Refusals:
    """Those of one broker. ``now_ms``: the time of the sockets."""

    def __init__(self, log: logging.Logger, now_ms: Callable[[], int]) -> None:
        self._log, self._now_ms = log, now_ms
        self._since_ms = -PERIOD_MS
        self._told = self._untold = 0
        self._once = Once()

    def tell(self, client_host: str, client_id: str | None, reason: str) -> None:
        """One more connection is closed."""
        now_ms = self._now_ms()
        if now_ms - self._since_ms >= PERIOD_MS:
            self.end()
            self._since_ms, self._told = now_ms, 0
        who, why = named(client_id), short(reason, 500)
        # a client whose security.protocol is wrong connects again and again: its line is there once, and counted from then on
        if not self._once.first(client_host, who, why) or self._told >= AT_ONCE:
            self._untold += 1
            return
        self._told += 1
        more = f"; more within {duration_text(PERIOD_MS)} are counted, not told" if self._told == AT_ONCE else ""
        self._log.warning("closing the connection of %s (client id %s): %s%s", client_host, who, why, more)

    def end(self) -> None:
        """Tell how many were not told."""
        if self._untold:
            self._log.warning("%d more connections were closed like those before", self._untold)
            self._untold = 0


def spoken(size: int) -> str:
    """What somebody speaks whose first four bytes are this number, and no frame's size; "" where that can't be guessed."""
    first = (size & 0xFFFFFFFF).to_bytes(4, "big")
    if first[:2] == b"\x16\x03":
        return ": it begins as TLS does, which broker-sim doesn't have (security.protocol=PLAINTEXT)"
    if first in (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI"):
        return ": it begins as HTTP does; the control server has a port of its own (serve --control)"
    return ""
