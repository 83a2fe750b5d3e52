"""The table `rebalances`: of steps made by hand, of every shipped scenario beside `explain`, of scripts with exact times, of logs."""

from __future__ import annotations

from typing import Any

import pyarrow
import pytest

from broker_sim.explain import history
from broker_sim.pipeline.schemas import OFFSET_LOG
from broker_sim.pipeline.tables.events import EVENTS
from broker_sim.pipeline.tables.rebalances import REBALANCES, rebalances
from tests.pipeline.journal_runs import VERSIONS, Truth, lives_told
from tests.pipeline.offsets import Log
from tests.pipeline.support_journal import (
    SCENARIOS,
    Book,
    all_played,
    arrow,
    by_run,
    frame,
    large,
    mark_ms,
    member,
    picked,
    played,
    rows,
    snapshot,
)

pytestmark = [pytest.mark.spark]

ONE, TWO, THREE = member("one"), member("two"), member("three")
LOG = "__consumer_offsets-9"
BOOKS: dict[str, Book] = {}
"""Journals made by hand, each a run: all of them go through Spark at once."""


def book(name: str, ts_ms: int = 1_000_000) -> Book:
    BOOKS[name] = Book(ts_ms)
    return BOOKS[name]


@pytest.fixture(scope="module")
def hand(spark: Any) -> dict[str, list[dict[str, Any]]]:
    """The table of each of them."""
    events = frame(spark, **{name: one.events for name, one in BOOKS.items()})
    return by_run(rebalances(events), "started_ms")


def joins(one: Book) -> Book:
    """Member two joins member one: the window is open for 300 ms, the assignment takes 20 ms."""
    one.step(snapshot("Stable", 1, ONE), snapshot("PreparingRebalance", 1, ONE, TWO), api="JoinGroup", member="two")
    one.later(300)
    one.step(
        snapshot("PreparingRebalance", 1, ONE, TWO),
        snapshot("CompletingRebalance", 2, ONE, TWO),
        api="JoinGroup",
        member="one",
    )
    one.later(20)
    one.step(snapshot("CompletingRebalance", 2, ONE, TWO), snapshot("Stable", 2, ONE, TWO))
    return one


# ------------------------------------------------------------------------------------------------ by hand

leaves = joins(book("leaves"))
leaves.later(4000)
leaves.step(snapshot("Stable", 2, ONE, TWO), snapshot("PreparingRebalance", 2, ONE), api="LeaveGroup", member="two")


def test_phases_of_a_join(hand: Any) -> None:
    first, second = hand["leaves"]
    known = {
        "run_id": "leaves",
        "group": "billing",
        "coordinator_partition": 9,
        "generation": 2,
        "generation_before": 1,
        "started_ms": 1_000_000,
        "closed_ms": 1_000_300,
        "ended_ms": 1_000_320,
        "end": "stable",
        "preparing_ms": 300,
        "completing_ms": 20,
        "stable_ms": 4000,
        "cause": "join",
        "cause_detail": "joined",
        "who": ["two"],
        "who_clients": ["two"],
        "error": None,
        "size_before": 1,
        "size_after": 2,
        "members_before": ["one"],
        "members_after": ["one", "two"],
        "timed_out": [],
        "held_by": "rejoin",
        "held_ms": 300,
        "held_who": ["one"],
        "held_clients": ["one"],
        "held_closed": [],
        "waits": [
            {"what": "rejoin", "ms": 300, "who": ["one"], "clients": ["one"], "closed": []},
            {"what": "leader", "ms": 20, "who": ["one"], "clients": ["one"], "closed": []},
        ],
        "from_empty": False,
        "whole": True,
        "missing_before": None,
        "source": "journal",
        "kind": "classic",
    }
    assert {name: value for name, value in first.items() if value is not None or name in known} == known
    names = ("cause", "who", "who_clients", "end", "ended_ms", "generation", "preparing_ms", "stable_ms")
    assert picked([second], *names) == [("leave", ["two"], ["two"], None, None, None, None, None)]


_STABLE, _OPEN, _ALONE = (
    snapshot("Stable", 3, ONE, TWO),
    snapshot("PreparingRebalance", 3, ONE, TWO),
    snapshot("PreparingRebalance", 3, ONE),
)
STEPS: dict[str, tuple[str, list[str], Any, Any, dict[str, str]]] = {
    "first": ("join", ["one"], None, snapshot("PreparingRebalance", 0, ONE), {"api": "JoinGroup"}),
    "joined": ("join", ["two"], snapshot("Stable", 3, ONE), _OPEN, {"api": "JoinGroup"}),
    "left": ("leave", ["two"], _STABLE, _ALONE, {"api": "LeaveGroup", "member": "two"}),
    "expired": ("session timeout", ["two"], _STABLE, _ALONE, {"timer": "session", "member": "two", "group": "billing"}),
    "subscribed": (
        "metadata change",
        ["two"],
        _STABLE,
        snapshot("PreparingRebalance", 3, ONE, member("two", topics=["orders", "returns"])),
        {"api": "JoinGroup", "member": "two"},
    ),
    "leader": ("metadata change", ["one"], _STABLE, _OPEN, {"api": "JoinGroup", "member": "one"}),
    "no sync": ("sync failed", ["two"], _STABLE, _ALONE, {"timer": "sync", "group": "billing"}),
    "static": (
        "join",
        ["again"],
        snapshot("Stable", 3, member("old", instance="web-1")),
        snapshot("PreparingRebalance", 3, member("again", instance="web-1")),
        {"api": "JoinGroup"},
    ),
}
"""Step -> name of its cause, members that caused it, the group before and after, and the cause in the journal."""

for _name, (_, _, _before, _after, _cause) in STEPS.items():
    book(_name).step(_before, _after, **_cause)


@pytest.mark.parametrize("name", STEPS)
def test_each_cause_has_its_word(hand: Any, name: str) -> None:
    assert picked(hand[name], "cause", "who") == [STEPS[name][:2]]


refused = joins(book("refused"))
refused.events.pop()
refused.later(5000)
refused.step(snapshot("CompletingRebalance", 2, ONE, TWO), snapshot("PreparingRebalance", 2, ONE, TWO), timer="append")
refused.later(100)
refused.step(
    snapshot("PreparingRebalance", 2, ONE, TWO),
    snapshot("CompletingRebalance", 3, ONE, TWO),
    api="JoinGroup",
    member="one",
)
refused.later(10)
refused.step(
    snapshot("CompletingRebalance", 3, ONE, TWO),
    snapshot("PreparingRebalance", 3, ONE, TWO),
    error="NOT_ENOUGH_REPLICAS",
)


def test_a_log_that_takes_no_assignment(hand: Any) -> None:
    assert picked(hand["refused"], "generation", "end", "cause", "error", "preparing_ms", "completing_ms") == [
        (2, "failed", "join", None, 300, 5020),
        (3, "failed", "sync failed", "REQUEST_TIMED_OUT", 100, 10),
        (None, None, "sync failed", "NOT_ENOUGH_REPLICAS", None, None),
    ]


slow = book("slow")
slow.step(
    snapshot("Stable", 1, ONE, TWO), snapshot("PreparingRebalance", 1, ONE, TWO, THREE), api="JoinGroup", member="three"
)
slow.later(60_000)
slow.step(
    snapshot("PreparingRebalance", 1, ONE, TWO, THREE),
    snapshot("CompletingRebalance", 2, ONE, THREE),
    timer="rebalance",
    group="billing",
)


def test_members_that_did_not_rejoin_in_time(hand: Any) -> None:
    assert picked(hand["slow"], "timed_out", "preparing_ms", "members_before", "members_after") == [
        (["two"], 60_000, ["one", "two"], ["one", "three"])
    ]


book("last").step(snapshot("Stable", 4, ONE), snapshot("Empty", 5), api="LeaveGroup", member="one")


def test_the_last_member_leaves(hand: Any) -> None:
    names = ("generation", "generation_before", "end", "cause", "preparing_ms", "completing_ms", "size_after")
    assert picked(hand["last"], *names) == [(5, 4, "empty", "leave", 0, None, 0)]


moved = joins(book("moved"))
moved.events.pop()
moved.later(50)
moved.write(
    "group",
    log=LOG,
    group="billing",
    cause={"kind": "unload"},
    before=snapshot("CompletingRebalance", 2, ONE),
    after=None,
)
moved.later(100)
moved.write("group", log=LOG, group="billing", cause={"kind": "load"}, before=None, after=snapshot("Stable", 1, ONE))


def test_a_coordinator_that_moves_ends_a_rebalance(hand: Any) -> None:
    assert picked(hand["moved"], "end", "ended_ms", "stable_ms", "completing_ms") == [("moved", 1_000_370, None, 70)]


book("completing").step(snapshot("CompletingRebalance", 7, ONE, TWO), snapshot("Stable", 7, ONE, TWO))
shown = book("preparing")
shown.write(
    "group", log=LOG, group="billing", cause={"kind": "load"}, before=None, after=snapshot("PreparingRebalance", 7, ONE)
)
shown.later(30)
shown.step(
    snapshot("PreparingRebalance", 7, ONE), snapshot("CompletingRebalance", 8, ONE), api="JoinGroup", member="one"
)


def test_a_journal_that_begins_in_the_middle(hand: Any) -> None:
    names = ("generation_before", "generation", "started_ms", "closed_ms", "cause", "end", "whole")
    assert picked(hand["completing"], *names) == [(6, 7, None, None, None, "stable", False)]
    assert picked(hand["preparing"], *names) == [(7, 8, None, 1_000_030, None, None, False)]


def test_a_second_process_continues_in_the_same_directory(spark: Any) -> None:
    """A second process' journal counts from 1 again; groups that it loads end no rebalance of the first."""
    first, second = joins(Book()), Book(2_000_000)
    stable = snapshot("Stable", 2, ONE, TWO)
    second.write("load", log=LOG, action="finished", groups=1, records=2, skipped=0)
    second.write("group", log=LOG, group="billing", cause={"kind": "load"}, before=None, after=stable)
    second.later(500)
    second.step(stable, snapshot("PreparingRebalance", 2, ONE), timer="session", member="two", group="billing")
    both = pyarrow.concat_tables([arrow(second.events, "run", 3), arrow(first.events, "run", 1)])
    found = rows(rebalances(spark.createDataFrame(both)), "started_ms")
    assert picked(found, "generation_before", "cause", "started_ms", "stable_ms") == [
        (1, "join", 1_000_000, 2_000_500 - 1_000_320),
        (2, "session timeout", 2_000_500, None),
    ]


def test_no_events_no_rebalances(spark: Any) -> None:
    empty = rebalances(frame(spark, run=[]), OFFSET_LOG.frame(spark))
    assert [field.simpleString() for field in empty.schema] == [field.simpleString() for field in REBALANCES.spark()]


# ------------------------------------------------------------------------------------------------ real runs


@pytest.fixture(scope="module")
def real(spark: Any) -> dict[str, list[dict[str, Any]]]:
    """The table of every scenario."""
    events = frame(spark, **all_played(), large=large().events)
    return by_run(rebalances(events), "group", "started_ms", "generation_before")


def billing(table: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in table if row["group"] == "billing"]


NAMES = (
    "started_ms",
    "generation_before",
    "generation",
    "closed_ms",
    "ended_ms",
    "end",
    "cause_detail",
    "who",
    "members_after",
)


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_has_the_rebalances_of_explain(real: Any, name: str) -> None:
    """The rebalances of classic groups; those of groups by epochs are in test_epochs_of_a_journal."""
    outcome = played(name)
    for group in outcome.groups:
        expected = [
            (
                one.began_ms,
                one.generation_before,
                one.generation,
                one.closed_ms,
                one.ended_ms,
                one.end or None,
                one.cause.kind,
                one.cause.members,
                one.members if one.closed_ms is not None else None,
            )
            for one in history(outcome.events, group).rebalances
        ]
        table = [row for row in real[name] if row["group"] == group and row["kind"] == "classic"]
        assert picked(table, *NAMES) == expected


INCIDENTS: dict[str, list[tuple[str, list[str]]]] = {
    "crash-without-leave": [("session timeout", ["app-2"])],
    "max-poll-interval-expiry": [("leave", ["app-1"]), ("join", ["app-1"])],
    "partition-count-grows": [("metadata change", ["app-2"])],
    "stuck-offsets-partition-3.4": [("sync failed", []), ("sync failed", [])],
    "stuck-offsets-partition-4.1": [("sync failed", []), ("sync failed", [])],
    "rolling-restart-of-static-members": [],
    "leader-changes": [],
}
"""Scenario -> cause and clients of each rebalance after its members have joined."""


@pytest.mark.parametrize("name", INCIDENTS)
def test_rebalances_of_the_scripts(real: Any, name: str) -> None:
    later = [row for row in billing(real[name]) if row["generation_before"] > 1]
    assert picked(later, "cause", "who_clients") == INCIDENTS[name]


@pytest.mark.parametrize("version", ["3.4", "4.1"])
def test_the_stuck_partition_s_loop(real: Any, version: str) -> None:
    """Every SyncGroup takes offsets.commit.timeout.ms, 1 s here, until the partition is healed."""
    name = f"stuck-offsets-partition-{version}"
    table, events = billing(real[name]), played(name).events
    jammed, healed = mark_ms(events, "jam"), mark_ms(events, "heal")
    failed = [row for row in table if row["end"] == "failed"]
    assert [row["error"] for row in table] == [None, None, "REQUEST_TIMED_OUT", "REQUEST_TIMED_OUT"]
    assert all(jammed < row["started_ms"] < healed for row in failed)
    assert all(1000 <= row["completing_ms"] <= 1010 for row in failed)
    assert table[-1]["end"] == "stable"
    assert table[-1]["ended_ms"] > healed


def test_a_group_of_more_members_than_snapshots_show(real: Any) -> None:
    (row,) = [row for row in real["large"] if row["generation"] == 1]
    assert (row["cause"], row["size_after"], row["end"], row["from_empty"]) == ("join", 80, "stable", True)


# ------------------------------------------------------------------------------------------------ a script, its journal and its log


@pytest.fixture(scope="module")
def lives(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Truth, list[Any], list[Any]]]:
    """version -> what the script did, the table of its journal, the table of its log alone."""
    return lives_told(spark, lambda: tmp_path_factory.mktemp("life"), rebalances, "ended_ms")


@pytest.mark.parametrize("version", VERSIONS)
def test_when_why_and_how_long(lives: Any, version: str) -> None:
    truth, told, _ = lives[version]
    at = truth.at
    names = (
        "generation",
        "started_ms",
        "preparing_ms",
        "completing_ms",
        "stable_ms",
        "cause",
        "who_clients",
        "end",
        "source",
    )
    journal = "journal"
    assert picked(told, *names) == [
        (1, at["first"], 0, 0, at["joined"] - at["first"], "join", ["web-1"], "stable", journal),
        (2, at["joined"], 3000, 1500, at["left"] - at["shared"], "join", ["web-2"], "stable", journal),
        (3, at["left"], 2000, 0, at["came"] - at["left"] - 2000, "leave", ["web-2"], "stable", journal),
        (4, at["came"], 0, 0, at["silent"] - at["came"], "join", ["web-3"], "stable", journal),
        (5, at["silent"], 2000, 0, None, "session timeout", ["web-3"], "stable", journal),
    ]
    assert {row["coordinator_partition"] for row in told} == {truth.log_partition}
    assert picked(told[1:2], "members_before", "members_after", "who") == [
        ([truth.ids["web-1"]], [truth.ids["web-1"], truth.ids["web-2"]], [truth.ids["web-2"]])
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_log_alone(lives: Any, version: str) -> None:
    """The group's records have the times at which windows closed and assignments were stored, not those at which windows opened. The
    cause of a member's removal is likely if it committed until then."""
    truth, told, logged = lives[version]
    ids = truth.ids
    names = (
        "generation",
        "generation_before",
        "cause",
        "who",
        "who_clients",
        "end",
        "started_ms",
        "missing_before",
        "source",
    )
    assert picked(logged, *names) == [
        (1, 0, "join", [ids["web-1"]], ["web-1"], "stable", None, 0, "log"),
        (2, 1, "join", [ids["web-2"]], ["web-2"], "stable", None, 0, "log"),
        (3, 2, "leave", [ids["web-2"]], ["web-2"], "stable", None, 0, "log"),
        (4, 3, "join", [ids["web-3"]], ["web-3"], "stable", None, 0, "log"),
        (5, 4, "departed", [ids["web-3"]], ["web-3"], "stable", None, 0, "log"),
    ]
    same = (
        "generation",
        "closed_ms",
        "ended_ms",
        "completing_ms",
        "size_before",
        "size_after",
        "coordinator_partition",
        "from_empty",
    )
    for mine, theirs in zip(logged, told, strict=True):
        assert picked([{**mine, "completing_ms": mine["completing_ms"] or 0}], *same) == picked([theirs], *same)
        assert sorted(mine["members_after"]) == sorted(theirs["members_after"])


class GroupLog:
    """Group records made by hand."""

    def __init__(self, run_id: str) -> None:
        self.log = Log(run_id=run_id)

    def __call__(self, at: int, generation: int, *members: str, lasted: int = 50, **columns: Any) -> None:
        row = self.log.generation(at, generation)
        row["state_ts_ms"] = row["record_ts_ms"] - lasted
        row["members"] = [{"client_id": one, **columns.get(one, {}), "member_id": one} for one in members]


def hand_made_log() -> list[dict[str, Any]]:
    rows = []
    life = GroupLog("life")
    life(0, 0)
    life(100, 1, "a")
    life(200, 2, "a", "b", lasted=20)
    life(300, 5, "a", "b")  # two in between were never stored
    life(400, 6, "b")
    life(500, 6, "b")  # written again, no new generation
    life(600, 7)
    life.log.add("group_tombstone", 700, group="billing")
    life(800, 1, "c")
    rows += life.log.rows
    ended = GroupLog("ended")
    ended(0, 1, "a")
    ended.log.add("group_tombstone", 90, group="billing")
    rows += ended.log.rows
    compacted = GroupLog("compacted")
    compacted(900, 17, "a", "b")
    compacted(950, 18, "b", b={"topics": ["orders", "returns"]})
    rows += compacted.log.rows
    changed = GroupLog("changed")
    parts = {"topics": ["orders"], "assigned": [{"topic": "orders", "partitions": [0, 1]}]}
    changed(0, 1, "a", a=parts)
    changed(10, 2, "a", a={**parts, "topics": ["orders", "returns"]})
    changed(
        20,
        3,
        "a",
        a={**parts, "topics": ["orders", "returns"], "assigned": [{"topic": "orders", "partitions": [0, 1, 2]}]},
    )
    changed(
        30,
        4,
        "a",
        a={**parts, "topics": ["orders", "returns"], "assigned": [{"topic": "orders", "partitions": [0, 1, 2]}]},
    )
    rows += changed.log.rows
    static = GroupLog("static")
    static(0, 1, "old", old={"group_instance_id": "web-1"})
    static(10, 2, "new", new={"group_instance_id": "web-1"})
    rows += static.log.rows
    return rows


def test_rebalances_known_from_records(spark: Any) -> None:
    table = by_run(rebalances(EVENTS.frame(spark), OFFSET_LOG.frame(spark, hand_made_log())), "ended_ms")
    names = (
        "generation",
        "generation_before",
        "cause",
        "who",
        "end",
        "missing_before",
        "whole",
        "size_before",
        "completing_ms",
    )
    assert picked(table["life"], *names) == [
        (1, 0, "join", ["a"], "stable", 0, True, 0, 50),
        (2, 1, "join", ["b"], "stable", 0, True, 1, 20),
        (5, 2, "rejoin", [], "stable", 2, False, 2, 50),
        (6, 5, "departed", ["a"], "stable", 0, True, 2, 50),
        (7, 6, "departed", ["b"], "empty", 0, True, 1, None),
        (1, 0, "join", ["c"], "stable", 0, True, 0, 50),
    ]
    # Stable until the group's next record of another kind at the latest, never to the end of the log
    assert picked(table["life"], "generation", "stable_ms") == [
        (1, 80),
        (2, 50),
        (5, 50),
        (6, 150),
        (7, None),
        (1, None),
    ]
    assert picked(table["ended"], "generation", "stable_ms") == [(1, 90)]
    assert picked(table["compacted"], *names) == [
        (17, None, "unknown", None, "stable", None, False, None, 50),
        (18, 17, "departed", ["a"], "stable", 0, True, 2, 50),
    ]
    assert picked(table["changed"][1:], "cause") == [("metadata change",), ("metadata change",), ("rejoin",)]
    assert picked(table["static"], "cause", "who") == [("join", ["old"]), ("join", ["new"])]
