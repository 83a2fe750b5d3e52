"""Beginning of a line of a log: the time at which it was written, its level, and the place where its text begins.

    stamp("[2026-03-29 10:03:11,120] INFO [GroupCoordinator 1]: Preparing ...")   ->  Stamp(1774778591120, "INFO", 31, zoned=False)

Rules:
1. Known are Kafka's own layouts (log4j and log4j2: ``[%d] %p %m (%c)``), ISO 8601 with ``T`` or a blank and ``,`` or ``.`` before the
   ms (logback, slf4j-simple, Python's logging), and librdkafka's ``%LEVEL|SECONDS|``. Any words may stand before the moment, as a
   container runtime or journald writes them, but not many.
2. A line without a zone is read as UTC, and says so (``zoned`` is False): who knows better moves it (`tables.log_lines`).
3. A line that begins with no moment goes on with the one before it: a trace.
"""

from __future__ import annotations

import re
from calendar import timegm
from typing import NamedTuple

__all__ = ["Stamp", "stamp"]

_MOMENT = re.compile(
    r"(\d{4})[-/](\d\d)[-/](\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,:](\d{1,9}))?(?: ?(Z|UTC|GMT|[+-]\d\d:?\d\d))?"
)
_RDKAFKA = re.compile(r"%(\d)\|(\d{9,11})\.(\d{3})\|")
_SECONDS = re.compile(r"\s*\[?(\d{10})\.(\d{3,9})\]?[\s:]")
_LEVEL = re.compile(r"\b(TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL)\b")
_SYSLOG = ("FATAL", "FATAL", "FATAL", "ERROR", "WARN", "INFO", "INFO", "DEBUG")
"""librdkafka's levels are syslog's."""
_BEFORE = 80
"""Characters that may stand before the moment."""
_PLAIN = {"WARNING": "WARN", "CRITICAL": "FATAL", "NOTICE": "INFO"}


class Stamp(NamedTuple):
    """``ts_ms`` since 1970; ``rest``: where what the line says begins; ``zoned``: whether it says of which zone it is."""

    ts_ms: int
    level: str | None
    rest: int
    zoned: bool


def stamp(line: str) -> Stamp | None:
    """The timestamp at a line's beginning, None if there is no timestamp."""
    native = _RDKAFKA.search(line, 0, _BEFORE + 24)
    if native is not None:
        return Stamp(int(native[2]) * 1000 + int(native[3]), _SYSLOG[int(native[1]) % 8], native.end(), True)
    match = _MOMENT.search(line, 0, _BEFORE + 40)
    if match is None:
        seconds = _SECONDS.match(line)
        return None if seconds is None else Stamp(int(seconds[1] + seconds[2][:3]), None, seconds.end(), True)
    if match.start() > _BEFORE:
        return None
    year, month, day, hour, minute, second = (int(match[number]) for number in range(1, 7))
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second <= 60):
        return None
    ms = int((match[7] or "0").ljust(3, "0")[:3])
    ts_ms = timegm((year, month, day, hour, minute, second)) * 1000 + ms - _zone_ms(match[8])
    level = _LEVEL.search(line, 0, match.end() + 60)
    name = None if level is None else _PLAIN.get(level[1], level[1])
    return Stamp(ts_ms, name, match.end(), match[8] is not None)


def _zone_ms(zone: str | None) -> int:
    if zone is None or zone in ("Z", "UTC", "GMT"):
        return 0
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    return minutes * 60_000 * (-1 if zone[0] == "-" else 1)
