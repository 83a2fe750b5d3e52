"""A session that ran out by itself is found, one that was made to is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.incidents.audit import SLACK_MS, surprises
from tests.incidents.ledger import Act, Event, GroupFacts, Ledger

LOST_MS = 1_700_000_000_250
LINE = (
    "[2023-11-14 22:13:20,250] INFO [GroupCoordinator 1]: Member a-1 in group billing-eu has failed, removing it from the group"
    " (kafka.coordinator.group.GroupCoordinator)\n"
)


@pytest.mark.parametrize(
    ("group", "end_ms", "healthy", "found"),
    [
        ("billing-eu", LOST_MS, False, 0),
        ("billing-eu", LOST_MS - SLACK_MS, False, 0),
        ("billing-eu", LOST_MS - SLACK_MS - 1, False, 1),
        ("billing-eu", LOST_MS, True, 1),
        ("billing", LOST_MS, False, 1),
    ],
    ids=[
        "it was made to",
        "its end is not long ago",
        "its end is long ago",
        "what was done is healthy",
        "another group was",
    ],
)
def test_members_that_were_lost_to_nobodys_doing(
    tmp_path: Path, group: str, end_ms: int, healthy: bool, found: int
) -> None:
    log = tmp_path / "logs" / "brokers" / "node-1" / "server.log"
    log.parent.mkdir(parents=True)
    log.write_text("a line without a time\n" + LINE)
    groups = {name: GroupFacts(0, "classic", "t") for name in ("billing", "billing-eu")}
    events = [Event("crash", healthy, 0, end_ms, "something", group)]
    ledger = Ledger("3.4.0", "membership", 1, 1, "stopped", 0, LOST_MS + 1, {}, groups, events)
    assert len(list(surprises(tmp_path, ledger))) == found


@pytest.mark.parametrize(
    ("code", "at_ms", "found"),
    [(1, LOST_MS, 1), (0, LOST_MS, 0), (-9, LOST_MS, 0), (137, LOST_MS, 0), (1, LOST_MS + 1, 0)],
    ids=["it failed", "it closed", "it was killed", "Java's was killed by a record", "after the end"],
)
def test_processes_that_failed_by_themselves(tmp_path: Path, code: int, at_ms: int, found: int) -> None:
    groups = {"billing": GroupFacts(0, "share", "t", ["a-1"], [Act(at_ms, "a-1", "ended", {"code": code})])}
    ledger = Ledger("3.4.0", "membership", 1, 1, "stopped", 0, LOST_MS + 1, {}, groups, [])
    assert len(list(surprises(tmp_path, ledger))) == found
