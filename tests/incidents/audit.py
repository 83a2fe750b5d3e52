"""Incidents that the ledger does not have: on a machine that is busy with other work, sessions of untouched members expire."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from tests.incidents.ledger import Ledger

__all__ = ["surprises"]

_LOST = re.compile(r"has failed, removing it|heartbeat expiration|session expired|rebalance timeout")
"""As GroupCoordinator (to 3.9) and GroupMetadataManager (from 4.0) tell of members that are gone without a word."""
_STAMP = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\] ")
SLACK_MS = 15_000
_KNOWN_ENDS = (0, -9, 137)
"""Exit codes of processes that closed, or were killed, by a record, too."""


def surprises(folder: Path, ledger: Ledger) -> Iterator[str]:
    """Processes that failed by themselves, and members that a broker removed although nothing was done to their group then. Lines
    are UTC, as the brokers' JVMs were told."""
    for group, facts in ledger.groups.items():
        for act in facts.acts:
            if act.did == "ended" and act.detail["code"] not in _KNOWN_ENDS and act.at_ms < ledger.to_ms:
                yield f"{act.client} of {group} failed by itself at {act.at_ms}, with code {act.detail['code']}"
    for log in sorted((folder / "logs" / "brokers").glob("*/server.log")):
        for line in log.read_text(errors="replace").splitlines():
            stamp = _STAMP.match(line)
            if stamp is None or not _LOST.search(line):
                continue
            at_ms = datetime.strptime(stamp[1], "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC).timestamp() * 1000
            words = set(re.findall(r"[\w.-]*\w", line))
            for group in words & set(ledger.groups):
                if at_ms < ledger.to_ms and not _is_known(ledger, group, at_ms):
                    yield f"{group} lost a member to nobody's doing: {line}"


def _is_known(ledger: Ledger, group: str, at_ms: float) -> bool:
    return any(
        not event.healthy
        and group in ledger.concerned(event)
        and event.start_ms - 1000 <= at_ms <= event.end_ms + SLACK_MS
        for event in ledger.events
    )
