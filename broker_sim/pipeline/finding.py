"""A finding: one sentence that the tables support, with its severity and its weight. `findings` makes them from the tables."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from broker_sim.pipeline.facts import Row

__all__ = [
    "CERTAINTIES",
    "KINDS",
    "LAGS",
    "LINES_ALONE",
    "LONG_MS",
    "NOTED_MS",
    "NO_LOG",
    "OFTEN",
    "OFTEN_MS",
    "SEVERITIES",
    "Finding",
    "by_group",
    "certainty_of",
    "matching",
]

LONG_MS = 10_000
"""A rebalance that takes longer is a finding."""
NOTED_MS = 5000
"""A classic group's rebalance of this length is a note: longer than group.initial.rebalance.delay.ms (3 s) and a heartbeat interval."""
OFTEN = 5
"""So many rebalances of a group within OFTEN_MS are a finding."""
OFTEN_MS = 300_000
LAGS = 100
"""A group that is so many records behind has a lag."""
NO_LOG = "There is no log of offsets: committed offsets are those of the journal."
LINES_ALONE = (
    "Only logs of brokers and clients were read: committed offsets, lag and records that were delivered twice are not in them, and"
    " members and rebalances as far as lines name them."
)

SEVERITIES = ("note", "warn", "bad")
"""Severities of findings that are not good, the least severe first."""

KINDS = {
    "nothing": "nothing unusual",
    "stuck": "appends to an offsets partition were not committed",
    "no records": "an offsets partition had no records while others had",
    "frequent rebalances": "a group rebalanced often (journal)",
    "storm": "a group had many generations in a short time (log)",
    "slow rebalance": "a rebalance took more than 10 s, or as a note more than 5 s",
    "session expired": "the session of a member expired",
    "poll timeout": "a member left after max.poll.interval.ms",
    "departed": "a member left, or its session expired, while others stayed (log)",
    "grown topic": "a topic got more partitions while a group was reading it (log)",
    "static bounce": "static members came back under other member ids (log)",
    "churn": "many sessions of a group expired (journal)",
    "protocol change": "a group went from one rebalance protocol to another (log)",
    "regression": "a committed offset decreased",
    "reset": "offsets were reset by a tool or a program",
    "stalled": "a committed offset did not advance although there were records",
    "poison": "the sessions of a group expire again and again at the same committed offset",
    "coordinator moved": "an offsets partition got another leader",
    "leader epoch": "an offsets partition got a new leader epoch with the same leader",
    "unclean election": "a leader outside of the ISR was elected",
    "transaction": "a transaction stayed open for long, hangs, or was aborted without its producer",
    "aborts": "a producer aborted transactions (log)",
    "skipped records": "a member skipped records (journal)",
    "started at latest": "a group began at the end of a log, as with auto.offset.reset=latest (journal)",
    "beyond log end": "a committed offset is beyond the end of its log",
    "below log start": "a committed offset is before the start of its log",
    "data loss": "a log lost committed records (journal)",
    "refused commits": "commits of a topic were refused (journal)",
    "deleted offsets": "committed offsets expired or were deleted",
    "duplicates": "records were delivered twice",
    "archived": "records of a share group were archived undelivered, or rejected",
    "redelivered": "records of a share group were delivered again",
    "not ready": "a streams group's topology lacked topics (log)",
    "lag": "the lag of a group grew",
    "authentication": "clients could not authenticate, or their TLS handshakes failed (log lines, journal)",
    "crashed": "a consumer stopped with an error (log lines of kafkajs)",
    "instance id in use": "a static member was refused, as another one has its group.instance.id (journal)",
    "producer fenced": "a transactional producer was fenced, or its producer id was unknown (log lines, journal)",
    "refused transaction": "requests of a transactional producer were refused (journal)",
    "invalid request": "connections were closed for what was received on them (log lines, journal)",
    "hotspot": "one offsets partition has most of the records",
    "misplaced groups": "groups are not in the offsets partition of their hash",
    "unreadable input": "a part of the input was unreadable",
}
"""Each kind of finding, and what it reports."""

WITNESSES = 3
"""So many groups must agree on the number of partitions of `__consumer_offsets`: fewer do not show it."""

CERTAINTIES = ("certain", "likely", "possible")
"""Degrees of certainty of a finding's sentence, by the rule in docs/pipeline.md (Certainty): records, events or lines state it; it is
the only usual cause that fits them within a bound; others fit as well."""


@dataclass(frozen=True, slots=True)
class Finding:
    """``severity``: bad, warn, note or good; ``advice``: what the reader may do; ``at_ms``, ``to_ms``: when it began and ended, if
    known; ``certainty``: one of CERTAINTIES; ``records``: (partition of `__consumer_offsets`, offset) and ``lines``: FILE:LINE, or
    FILE:LINE (GROUP), of the evidence, the first few."""

    kind: str
    severity: str
    weight: float
    text: str
    advice: str = ""
    group: str | None = None
    log_partition: int | None = None
    at_ms: int | None = None
    to_ms: int | None = None
    certainty: str = "certain"
    records: tuple[tuple[int, int], ...] = ()
    lines: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.certainty not in CERTAINTIES or (self.certainty == "possible" and self.severity in ("warn", "bad")):
            raise ValueError(f"{self.kind}: no finding is {self.severity} and {self.certainty}")

    def to_dict(self) -> dict[str, Any]:
        """For JSON: ``evidence`` has both kinds of links."""
        result = asdict(self)
        records, lines = result.pop("records"), result.pop("lines")
        found = [match for text in lines if (match := _LINE.match(text)) is not None]
        return result | {
            "evidence": [
                *({"log": f"__consumer_offsets-{log}", "offset": offset} for log, offset in records),
                *(
                    {"file": match["file"], "line": int(match["line"])}
                    | ({"group": match["group"]} if match["group"] else {})
                    for match in found
                ),
            ],
        }

    def evidence(self, most: int = 4) -> str:
        """In a line: ``__consumer_offsets-7 at 120 and 133, server.log:88``."""
        records = [f"{offset:,} of __consumer_offsets-{log}" for log, offset in self.records[:most]]
        parts = [*records, *map(_short_line, self.lines[:most])]
        more = max(len(self.records) - most, 0) + max(len(self.lines) - most, 0)
        return ", ".join(parts) + (f" and {more} more" if more else "")


_LINE = re.compile(r"(?s)^(?P<file>.*?):(?P<line>\d+)(?: \((?P<group>.*)\))?$")


def _short_line(text: str) -> str:
    """A line of evidence without its folders."""
    match = _LINE.match(text)
    if match is None:
        return text.rpartition("/")[2]
    group = f" ({match['group']})" if match["group"] else ""
    return f"{match['file'].rpartition('/')[2]}:{match['line']}{group}"


def certainty_of(rows: Iterable[Row]) -> str:
    """Certainty of a sentence about rebalances: `likely` if the cause of one of them is derived, else `certain`."""
    return "likely" if any(row.get("cause_certainty") == "likely" for row in rows) else "certain"


def by_group(rows: Iterable[Row]) -> list[tuple[str, list[Row]]]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["group"]].append(row)
    for of_group in groups.values():
        of_group.sort(key=lambda row: row.get("started_ms") or row.get("at_ms") or 0)
    return list(groups.items())


def matching(findings: Iterable[Finding], wanted: Iterable[str]) -> list[Finding]:
    """The findings of a kind in ``wanted``, or of a severity in ``wanted`` or a worse one."""
    names = set(wanted)
    least = min((SEVERITIES.index(name) for name in names if name in SEVERITIES), default=len(SEVERITIES))
    severe = SEVERITIES[least:]
    return [finding for finding in findings if finding.kind in names or finding.severity in severe]
