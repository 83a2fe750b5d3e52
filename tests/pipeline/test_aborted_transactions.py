"""Transactions that their producers aborted, from the coordinator's log and from the markers in the offsets log."""

from __future__ import annotations

from typing import Any

import pytest

from broker_sim.pipeline.aborted_transactions import aborts_of
from broker_sim.pipeline.collect import _aborts
from broker_sim.pipeline.duck.session import DuckSession
from broker_sim.pipeline.engine import engine_of
from broker_sim.pipeline.finding import Finding
from broker_sim.pipeline.findings import findings
from broker_sim.pipeline.schemas import OFFSET_LOG
from tests.pipeline.facts import facts
from tests.pipeline.offsets import T0


def seen(results: str, **columns: Any) -> list[dict[str, Any]]:
    """Transactions of tx, one each second for 0.4 s, by the first letters of their results; `t`: timed out, `o`: open."""
    words = {"c": "commit", "a": "abort", "f": "fenced", "t": "timed out", "o": None}
    return [
        {
            "source": "state",
            "transactional_id": "tx",
            "producer_id": 7,
            "result": words[one],
            "from_ms": T0 + at * 1000,
            "to_ms": None if one == "o" else T0 + at * 1000 + 400,
            "end": {"c": "committed", "o": None}.get(one, "aborted"),
            **columns,
        }
        for at, one in enumerate(results)
    ]


def told(results: str) -> Finding | None:
    found = findings(facts(journal=None, aborts=aborts_of(seen(results))))
    return next((one for one in found if one.kind == "aborts"), None)


def test_ordinary_aborts_are_a_note_with_their_number_and_the_longest() -> None:
    found = told("ccaccacc")
    assert found is not None
    assert (found.severity, found.certainty) == ("note", "certain")
    assert (
        found.text
        == "2 of 8 transactions of tx were aborted between 22:13:22.400 and 22:13:25.400, the longest after 400 ms."
    )


@pytest.mark.parametrize("results", ["cccc", "cftc", "cco"])
def test_commits_fenced_and_timed_out_transactions_and_open_ones_are_none(results: str) -> None:
    assert told(results) is None
    assert aborts_of(seen("aa", source="journal")) == []


def test_aborts_far_above_the_ids_own_past_are_a_likely_warning() -> None:
    found = told("c" * 40 + "a" + "c" * 20 + "aaaaacaaaaaa" + "c" * 9)
    assert found is not None
    assert (found.severity, found.certainty) == ("warn", "likely")
    assert found.text.startswith(
        "11 of 12 transactions of tx between 22:14:21.400 and 22:14:32.400 were aborted; of the 50 before 1."
    )


@pytest.mark.parametrize(
    "results",
    [
        pytest.param("c" * 30 + "a" * 12, id="no past"),
        pytest.param("ccccacccca" * 6 + "aaaaaaaaaa" * 2, id="it has often aborted"),
        pytest.param("c" * 60 + "aacaacaacaac", id="fewer than eight of ten"),
    ],
)
def test_aborts_that_are_not_far_above_the_past_are_a_note(results: str) -> None:
    found = told(results)
    assert found is not None
    assert found.severity == "note"


def test_a_log_that_begins_later_does_not_make_a_warning() -> None:
    results = "ca" * 20 + "c" * 30 + "a" * 10
    found = [told(results[at:]) for at in range(len(results))]
    assert {one.severity for one in found if one is not None} == {"note"}


def test_without_the_coordinators_log_the_markers_of_committed_offsets_count() -> None:
    def row(offset: int, kind: str, **columns: Any) -> dict[str, Any]:
        known = {
            "run_id": "r1",
            "log_partition": 3,
            "log_offset": offset,
            "record_ts_ms": T0 + offset * 1000,
            "producer_id": 7,
        }
        return {**dict.fromkeys(OFFSET_LOG.names), **known, "kind": kind, "is_txn": True, **columns}

    rows = [
        *(row(0, "commit", group="billing"), row(1, "txn_abort")),
        *(row(2, "commit", group="billing"), row(3, "txn_commit")),
        *(row(4, "commit", group="mail", producer_id=8), row(5, "txn_commit", producer_id=8)),
        row(6, "txn_abort", producer_id=9),
    ]
    log = OFFSET_LOG.frame(DuckSession(), rows)
    with engine_of(log):
        counted = _aborts(log)
    (found,) = [one for one in findings(facts(journal=None, aborts=counted)) if one.kind == "aborts"]
    assert (found.severity, found.group) == ("note", "billing")
    assert found.text == "1 of 2 transactions with offsets of billing of producer 7 was aborted at 22:13:21."
