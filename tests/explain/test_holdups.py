"""Members that hold a rebalance up: one function for explanations and the pipeline's findings."""

from __future__ import annotations

import pytest

from broker_sim.explain.history import history
from broker_sim.explain.holdups import advice, chief, holdups
from broker_sim.pipeline.duck.session import DuckSession
from broker_sim.pipeline.findings import findings
from broker_sim.pipeline.tables.rebalances import rebalances
from tests.explain.journals import LOG, Script
from tests.explain.test_words import A, B, C, expires, hung, last_joins, request, said, timer
from tests.pipeline.facts import facts
from tests.pipeline.support_journal import arrow, rows


def killed() -> Script:
    """B's process ends without a LeaveGroup; its successor C joins, and waits for B's session."""
    script = Script().formed([A, B])
    script.at(20).call("Heartbeat", B)
    script.at(21).event("connection", broker=1, connection=sum(map(ord, "app-2")), peer="127.0.0.1:5", action="closed")
    first = script.at(25).joins(C, state="PreparingRebalance")
    script.at(27).call("Heartbeat", A, "REBALANCE_IN_PROGRESS")
    second = script.joins(A)
    script.at(65).event("timer", log=LOG, timer="session", group="billing", member=B, due_ms=script.ts_ms)
    script.closes(timer("session", B), 2, A, [first, second], gone=[B])
    script.at(65.1)
    script.stable(script.syncs(A, [C], 2))
    return script


def late() -> Script:
    """B rejoins after 40 s: nobody's session runs out."""
    script = Script().formed([A, B])
    first = script.at(25).joins(C, state="PreparingRebalance")
    script.at(27).call("Heartbeat", A, "REBALANCE_IN_PROGRESS")
    second = script.joins(A)
    script.at(65)
    last_joins(script, B, 2, A, [first, second])
    script.at(65.1)
    script.stable(script.syncs(A, [B, C], 2))
    return script


def leader_gone() -> Script:
    """The leader's process ends between JoinGroup and SyncGroup."""
    script = Script().at(0)
    joins = [script.joins(A, state="PreparingRebalance", leader=A), script.joins(B)]
    script.at(3)
    script.closes(timer("rebalance"), 1, A, joins)
    number = script.ask("SyncGroup", B, member_id=B, generation_id=1)
    script.step(request(number, "SyncGroup", B), deferred={B: "SyncGroup"})
    script.at(48)
    expires(script, A, state="PreparingRebalance", leader=B, deferred={B: None})
    script.answer(number, "REBALANCE_IN_PROGRESS")
    last_joins(script, B, 2, B, [])
    script.stable(script.syncs(B, [], 2))
    return script


def slow_leader(*, log: bool) -> Script:
    """The assignment comes 30 s late, or is stored 30 s late."""
    script = Script().at(0)
    joins = [script.joins(A, state="PreparingRebalance", leader=A)]
    script.at(3)
    script.closes(timer("rebalance"), 1, A, joins)
    script.at(3 if log else 33)
    syncs = script.syncs(A, [], 1)
    script.at(33).stable(syncs)
    return script


EAST, WEST = "east!~1111", "west!~2222"
"""Static members."""


def pair() -> Script:
    """A group of two: B's process ends, A joins again on its own account and waits alone."""
    script = Script().formed([A, B])
    script.at(20).call("Heartbeat", B)
    script.at(21).event("connection", broker=1, connection=sum(map(ord, "app-2")), peer="127.0.0.1:5", action="closed")
    first = script.at(25).joins(A, state="PreparingRebalance")
    script.at(65).event("timer", log=LOG, timer="session", group="billing", member=B, due_ms=script.ts_ms)
    script.closes(timer("session", B), 2, A, [first], gone=[B])
    script.at(65.1)
    script.stable(script.syncs(A, [], 2))
    return script


def static() -> Script:
    """A static member ends, and its group.instance.id is not taken by another process."""
    script = Script().formed([EAST, WEST])
    script.at(20).call("Heartbeat", WEST)
    script.at(21).event("connection", broker=1, connection=sum(map(ord, "west!")), peer="127.0.0.1:5", action="closed")
    first = script.at(25).joins(C, state="PreparingRebalance")
    second = script.at(26).joins(EAST)
    script.at(65).event("timer", log=LOG, timer="session", group="billing", member=WEST, due_ms=script.ts_ms)
    script.closes(timer("session", WEST), 2, EAST, [first, second], gone=[WEST])
    script.at(65.1)
    script.stable(script.syncs(EAST, [C], 2))
    return script


def removed_by_an_administrator() -> Script:
    """A static member that does not rejoin is removed by a LeaveGroup of another client."""
    script = Script().formed([EAST, WEST])
    first = script.at(25).joins(C, state="PreparingRebalance")
    second = script.at(26).joins(EAST)
    number = script.at(50).ask("LeaveGroup", "admin", members=[{"group_instance_id": "west"}])
    script.closes(request(number, "LeaveGroup", "admin"), 2, EAST, [first, second], gone=[WEST])
    script.answer(number)
    script.at(50.1)
    script.stable(script.syncs(EAST, [C], 2))
    return script


CASES = {
    "a pair": (pair, 1, "session", [B], 40_000),
    "static": (static, 1, "session", [WEST], 40_000),
    "removed": (removed_by_an_administrator, 1, "leave", [WEST], 25_000),
    "killed": (killed, 1, "session", [B], 40_000),
    "late": (late, 1, "rejoin", [B], 40_000),
    "hung": (lambda: hung(told=True), 1, "rebalance timeout", [B], 60_000),
    "leader gone": (leader_gone, 0, "session", [A], 45_000),
    "leader slow": (lambda: slow_leader(log=False), 0, "leader", [A], 30_000),
    "log slow": (lambda: slow_leader(log=True), 0, "log", [], 30_000),
}


@pytest.mark.parametrize("case", CASES)
def test_explanations_and_tables_have_one_cause(case: str) -> None:
    made, number, what, who, ms = CASES[case]
    script = made()
    held = chief(holdups(history(script.events, "billing").rebalances[number]))
    assert held is not None
    assert (held.what, held.members, held.ms) == (what, who, ms)
    table = rows(rebalances(DuckSession().of_arrow(arrow(script.events))), "started_ms")
    row = table[number]
    assert (row["held_by"], row["held_who"], row["held_ms"]) == (what, who, ms)
    told = [one for one in findings(facts(rebalances=table)) if one.kind == "slow rebalance"]
    if row["end"] == "failed" or row["ended_ms"] is None:
        return
    assert told[0].advice == advice(what, what == "session" and bool(held.closed))


def test_a_killed_process_is_described_by_its_session_and_not_by_polls() -> None:
    script = killed()
    words = said(script, 2)
    assert (
        "For 40 s it waited until the session of app-2 expired, whose connection had been closed without a LeaveGroup."
        in words
    )
    table = rows(rebalances(DuckSession().of_arrow(arrow(script.events))), "started_ms")
    (found,) = (one for one in findings(facts(rebalances=table)) if one.kind == "slow rebalance")
    assert (
        "40 s of it until the session of app-2 expired, whose connection had been closed without a LeaveGroup"
        in found.text
    )
    for word in ("poll", "longer", "offsets partition"):
        assert word not in found.advice


def test_a_session_that_expired_over_an_open_connection_is_no_ended_process() -> None:
    script = killed()
    script.events = [event for event in script.events if event["event"] != "connection"]
    assert "expired, whose" not in said(script, 2)
    table = rows(rebalances(DuckSession().of_arrow(arrow(script.events))), "started_ms")
    (found,) = (one for one in findings(facts(rebalances=table)) if one.kind == "slow rebalance")
    assert "if the process was alive" in found.advice.lower()


def test_a_member_that_an_administrator_removed_did_not_leave() -> None:
    script = removed_by_an_administrator()
    assert "was removed by " in said(script, 2)
    table = rows(rebalances(DuckSession().of_arrow(arrow(script.events))), "started_ms")
    (found,) = (one for one in findings(facts(rebalances=table)) if one.kind == "slow rebalance")
    assert "left, or was removed" in found.text
    assert "left instead of" not in found.advice
