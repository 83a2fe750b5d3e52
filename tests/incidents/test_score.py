"""The scorer can fail: it misses what is not told, and calls false what nothing explains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.incidents.kinds import brokers, healthy, membership, modern, offsets, rollouts, transactions
from tests.incidents.ledger import Event, GroupFacts, Ledger
from tests.incidents.score import EARLY_MS, FITS, LATE_MS, STRETCH_MS, Score, judge, table, told, with_section
from tests.incidents.stage import offsets_partition

START_MS, END_MS = 1_700_000_100_000, 1_700_000_110_000


def ledger(*events: Event) -> Ledger:
    """Three groups: billing and audit share partition 3, orders is alone in 5."""
    groups = {
        name: GroupFacts(at, "classic", f"{name}.1") for name, at in (("billing", 3), ("audit", 3), ("orders", 5))
    }
    settings = {"offsets.retention.minutes": "1"}
    return Ledger(
        "4.1.0", "membership", 7, 1, "stopped", START_MS - 60_000, END_MS + 60_000, settings, groups, list(events)
    )


def event(
    kind: str = "crash", group: str | None = "billing", *, healthy: bool = False, partitions: tuple[int, ...] = (3,)
) -> Event:
    return Event(kind, healthy, START_MS, END_MS, "something", group, list(partitions))


def finding(
    kind: str = "session expired", group: str | None = "billing", at_ms: int | None = START_MS, **more: Any
) -> dict[str, Any]:
    return {"kind": kind, "severity": "warn", "text": f"{group} lost a member", "group": group, "log_partition": None,
            "at_ms": at_ms, **more}  # fmt: skip


def recall(score: Score) -> tuple[int, int]:
    return len(score.verdicts) - len(score.missed), len(score.verdicts)


def test_an_event_is_told_by_a_finding_that_fits() -> None:
    score = judge("x", ledger(event()), [finding()])
    assert (recall(score), score.alarms) == ((1, 1), [])


def test_a_note_tells_too() -> None:
    assert recall(judge("x", ledger(event()), [finding(severity="note")])) == (1, 1)


@pytest.mark.parametrize(
    "found",
    [
        finding("slow rebalance"),
        finding(group="audit"),
        finding(group="orders"),
        finding(at_ms=START_MS - EARLY_MS - 1),
        finding(at_ms=END_MS + LATE_MS + 1),
        finding(severity="good"),
        finding(group="audit", text="audit lost a member. To a lesser extent also: billing."),
    ],
    ids=[
        "another kind",
        "another group",
        "another partition",
        "too early",
        "too late",
        "nothing unusual",
        "mentioned beside",
    ],
)
def test_an_event_is_missed_where_nothing_fits(found: dict[str, Any]) -> None:
    assert recall(judge("x", ledger(event()), [found])) == (0, 1)
    assert recall(judge("x", ledger(event()), [])) == (0, 1)


def test_a_storm_may_be_told_from_the_groups_start_on() -> None:
    early = finding("storm", at_ms=START_MS - STRETCH_MS)
    score = judge("x", ledger(event("storm")), [early])
    assert (recall(score), score.alarms) == ((1, 1), [])
    assert recall(judge("x", ledger(event("storm")), [finding("storm", at_ms=START_MS - STRETCH_MS - 1)])) == (0, 1)


def test_a_partitions_event_counts_once_for_each_partition_with_groups() -> None:
    truth = ledger(event("stuck", None, partitions=(3, 4, 5)))
    assert recall(judge("x", truth, [])) == (0, 2)
    assert recall(judge("x", truth, [finding("stuck", None, log_partition=3, text="stuck")])) == (1, 2)
    assert recall(judge("x", truth, [finding("stuck", "orders", text="orders could not commit")])) == (1, 2)
    assert recall(judge("x", truth, [finding("stuck", None, log_partition=4, text="stuck")])) == (0, 2)


@pytest.mark.parametrize(
    "found",
    [
        finding(group="orders"),
        finding(at_ms=START_MS - EARLY_MS - 1),
        finding(at_ms=END_MS + LATE_MS + 1, severity="bad"),
        finding("stuck", None, log_partition=5, text="nothing was appended"),
        finding("hotspot", None, text="one partition has most of the work"),
    ],
    ids=["a healthy group", "before anything happened", "long after", "a healthy partition", "of nobody"],
)
def test_what_no_event_explains_is_a_false_alarm(found: dict[str, Any]) -> None:
    assert judge("x", ledger(event()), [found]).alarms == [found]
    assert judge("x", ledger(event()), [{**found, "severity": "note"}]).alarms == []


def test_what_is_healthy_explains_no_alarm() -> None:
    score = judge("x", ledger(event("static bounce", healthy=True)), [finding()])
    assert (len(score.alarms), [alarmed for _, alarmed in score.healthy]) == (1, [True])
    score = judge("x", ledger(event("static bounce", healthy=True)), [])
    assert (score.alarms, [alarmed for _, alarmed in score.healthy]) == ([], [False])


def test_a_partitions_event_explains_what_its_groups_suffer() -> None:
    truth = ledger(event("stuck", None, partitions=(3,)))
    late = finding("lag", "audit", END_MS + 10 * LATE_MS)
    assert judge("x", truth, [finding(group="audit"), late]).alarms == []
    assert judge("x", truth, [finding(group="orders")]).alarms == [finding(group="orders")]


def test_the_table_counts_by_kind_and_version() -> None:
    one = judge("one", ledger(event(), event("storm", "orders"), event("quiet", "audit", healthy=True)), [finding()])
    other = judge("other", ledger(event()), [finding(group="audit")])
    other.ledger.kafka = "3.4.0"
    written = table([one, other])
    assert "| crash | 0 of 1 | 1 of 1 | 1 of 2 |" in written
    assert "| **detected** | 0 of 1 | 1 of 2 | **1 of 3 = 0.33** |" in written
    assert "| quiet |  | 1 of 1 | 1 of 1 |" in written
    assert "False alarms: 1, in 2 clusters with 6 groups." in written
    assert "  storm, orders: MISSED" in told(one)


def test_a_section_of_a_page_is_replaced_and_nothing_else() -> None:
    page = "before\n<!-- scored: a -->\nold\n<!-- end of a -->\n<!-- scored: b -->\n<!-- end of b -->\nafter\n"
    written = with_section(page, "a", "new\n")
    assert written == page.replace("\nold\n", "\n\nnew\n\n")
    with pytest.raises(SystemExit, match="no section"):
        with_section(page, "c", "new\n")


def test_a_ledger_comes_back_as_it_was_written(tmp_path: Path) -> None:
    truth = ledger(event(), event("stuck", None, partitions=(3, 5)))
    truth.write(tmp_path)
    assert Ledger.read(tmp_path) == truth
    assert truth.healthy_groups() == set()
    assert ledger(event()).healthy_groups() == {"audit", "orders"}


def test_groups_lie_where_kafka_puts_them() -> None:
    """As a 4.1.0 broker with 12 partitions had them; the first two have negative hashes."""
    assert [offsets_partition(name, 12) for name in ("trips-worker", "maps-worker", "geo", "users")] == [11, 4, 9, 4]


def test_each_kind_that_is_played_has_findings_that_fit() -> None:
    """By the first argument of each `event(..)` in the kinds' sources."""
    import inspect
    import re

    for module in (brokers, membership, modern, offsets, rollouts, transactions, healthy):
        source = inspect.getsource(module)
        for kind, rest in re.findall(r'\.event\(\s*"([^"]+)"((?:[^()]|\([^()]*\))*)\)', source):
            assert ("healthy=True" in rest) != (kind in FITS), f"{module.__name__}: {kind}"
