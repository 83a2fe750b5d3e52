"""Log lines about connections that are closed because of invalid data: one line each, and in a flood a line from time to time with a
count. And warnings that are logged once per client: a client whose requests are always refused retries at every heartbeat.

Otherwise a client could fill the log with 40,000 lines a second, and with text of its choice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker_sim.common.text import duration_text, short

__all__ = ["Once", "Refusals", "host_of", "named", "size_in_words", "warn_of_group"]

AT_ONCE = 20
"""Lines in a period."""

PERIOD_MS = 10_000

COUNTED = 100
"""Reasons that are counted by themselves; in a flood each may have text of a client's choice."""

SHOWN = 3
"""The most frequent reasons, named with their counts."""

REMEMBERED = 4096
"""The number of remembered lines; with more lines each may be logged once more."""


_LONGEST = 512
"""Characters of a line's key; of a longer one its hash is remembered."""


class Once:
    """The warnings about clients that a cluster has logged, so that each is logged once."""

    def __init__(self) -> None:
        self._logged: set[tuple[str | None, ...]] = set()

    def first(self, *what: str | None) -> bool:
        """Whether this warning is new; ``what``: its key, for example the client id, the group and the kind of warning."""
        if sum(map(len, filter(None, what))) > _LONGEST:  # a client id and a group id may have 32 KB each
            what = (str(hash(what)),)
        if what in self._logged:
            return False
        if len(self._logged) >= REMEMBERED:
            self._logged.clear()
        self._logged.add(what)
        return True


def named(client_id: str | None) -> str:
    """A client id in a line of the log; ``none`` where the client has none."""
    return "none" if client_id is None else short(client_id)


def host_of(peer: tuple[str, int] | None) -> str:
    """A client's address, by its socket's, as Kafka shows it: ``/127.0.0.1``, as Java prints one without a name."""
    return f"/{peer[0]}" if peer else "/"


def warn_of_group(once: Once, log: logging.Logger, client_id: str | None, group_id: str | None, words: str) -> None:
    """Log why a client's group is refused for good, the first time."""
    if once.first(client_id, group_id, words):
        log.warning("client id %s, group %s: %s", named(client_id), short(group_id or ""), words)


class Refusals:
    """Log of the connections that one broker closes. ``now_ms``: the time of the sockets."""

    def __init__(self, log: logging.Logger, now_ms: Callable[[], int]) -> None:
        self._log, self._now_ms = log, now_ms
        self._since_ms = -PERIOD_MS
        self._logged = 0
        self._unlogged: dict[str, int] = {}
        self._once = Once()

    def log(self, client_host: str, client_id: str | None, reason: str) -> None:
        """One more connection is closed."""
        now_ms = self._now_ms()
        if now_ms - self._since_ms >= PERIOD_MS:
            self.end()
            self._since_ms, self._logged = now_ms, 0
        client, why = named(client_id), short(reason, 500)
        # a client whose security.protocol is wrong connects again and again: its line is there once, and counted from then on
        if not self._once.first(client_host, client, why) or self._logged >= AT_ONCE:
            counted = why if why in self._unlogged or len(self._unlogged) < COUNTED else ""
            self._unlogged[counted] = self._unlogged.get(counted, 0) + 1
            return
        self._logged += 1
        more = f"; more within {duration_text(PERIOD_MS)} are counted, not logged" if self._logged == AT_ONCE else ""
        self._log.warning("closing the connection of %s (client id %s): %s%s", client_host, client, why, more)

    def end(self) -> None:
        """Log the number of closed connections that got no line of their own, and why most of them were closed."""
        counts, self._unlogged = self._unlogged, {}
        if not counts:
            return
        others = counts.pop("", 0)
        first = sorted(counts, key=lambda why: -counts[why])[:SHOWN]
        parts = [f"{counts[why]} x {why}" for why in first]
        total = sum(counts.values()) + others
        rest = total - sum(counts[why] for why in first)
        self._log.warning(
            "%d more connections were closed: %s",
            total,
            "; ".join([*parts, *([f"{rest} x other reasons"] if rest else [])]),
        )


def size_in_words(size: int) -> str:
    """The protocol of a client whose first four bytes are this number, in words; "" if it can't be guessed."""
    first = (size & 0xFFFFFFFF).to_bytes(4, "big")
    if first[:2] == b"\x16\x03":
        return (
            ": it begins as TLS does, which the listener doesn't have (security.protocol PLAINTEXT or SASL_PLAINTEXT)"
        )
    if first in (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI"):
        return ": it begins as HTTP does; the control server has a port of its own (serve --control)"
    return ""
