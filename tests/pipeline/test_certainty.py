"""The certainty of findings: one rule, the lowest of several events, and sentences that agree with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker_sim.pipeline.finding import CERTAINTIES, Finding
from broker_sim.pipeline.findings import findings, text
from tests.pipeline.certainty import hedges
from tests.pipeline.facts import facts, rebalance

DOCS = Path(__file__).resolve().parents[2] / "docs" / "pipeline.md"


def expired(at: int, certainty: str) -> dict[str, Any]:
    return rebalance(
        at, cause="session timeout", cause_certainty=certainty, source="log", members_before=[], members_after=[]
    )


@pytest.mark.parametrize(
    ("certainties", "of_all"),
    [(["certain", "certain"], "certain"), (["certain", "likely"], "likely"), (["likely"], "likely")],
)
@pytest.mark.parametrize(("cause", "kind"), [("session timeout", "session expired"), ("poll timeout", "poll timeout")])
def test_several_events_have_the_lowest_certainty(cause: str, kind: str, certainties: list[str], of_all: str) -> None:
    rows = [{**expired(60_000 * at, certainty), "cause": cause} for at, certainty in enumerate(certainties)]
    (found,) = (one for one in findings(facts(rebalances=rows, journal=None)) if one.kind == kind)
    assert found.certainty == of_all


def test_a_slow_rebalance_is_as_certain_as_its_cause() -> None:
    rows = [
        {
            **expired(60_000, "likely"),
            "started_ms": rebalance(60_000)["started_ms"],
            "ended_ms": rebalance(60_000, 20_000)["ended_ms"],
        }
    ]
    (found,) = (one for one in findings(facts(rebalances=rows)) if one.kind == "slow rebalance")
    assert "as the session of app-1 expired" in found.text
    assert found.certainty == "likely"


def test_a_storm_with_a_derived_cause_is_likely() -> None:
    def storm(certainty: str) -> Finding:
        rows = [{**expired(10_000 * at, certainty), "generation": at, "size_after": 1} for at in range(6)]
        (found,) = (one for one in findings(facts(rebalances=rows, journal=None)) if one.kind == "storm")
        assert "6 by expired sessions" in found.text
        return found

    assert (storm("certain").certainty, storm("likely").certainty) == ("certain", "likely")


def test_what_is_only_possible_is_a_note() -> None:
    with pytest.raises(ValueError, match="no finding is warn and possible"):
        Finding("reset", "warn", 1, "Offsets were set.", certainty="possible")
    with pytest.raises(ValueError, match="sure"):
        Finding("reset", "note", 1, "Offsets were set.", certainty="sure")


def test_each_finding_has_its_certainty_in_the_text() -> None:
    found = [Finding("lag", "note", 1, f"It is {one}.", certainty=one) for one in CERTAINTIES]
    assert text(found).splitlines() == [f"It is {one}. ({one})" for one in CERTAINTIES]
    assert text([Finding("nothing", "good", 0, "Nothing.")]) == "Nothing.\n"


def test_the_rule_is_written_once() -> None:
    rule = DOCS.read_text(encoding="utf-8")
    assert [rule.count(f"- `{one}`:") for one in CERTAINTIES] == [1, 1, 1]


def test_a_word_of_doubt_is_found() -> None:
    assert hedges(Finding("lag", "note", 1, "It probably hangs."))
    assert not hedges(Finding("lag", "note", 1, "It probably hangs.", certainty="likely"))
    assert not hedges(Finding("lag", "note", 1, "It hangs."))
