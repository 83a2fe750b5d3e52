"""The table `member_churn` and the memberships that it counts: by hand, of scripts with exact times, of scenarios, of logs alone."""

from __future__ import annotations

from typing import Any

import pytest

from broker_sim.pipeline.schemas import OFFSET_LOG
from broker_sim.pipeline.tables.events import EVENTS
from broker_sim.pipeline.tables.member_churn import MEMBER_CHURN, member_churn, memberships
from tests.pipeline.journal_runs import VERSIONS, Truth, lives_told
from tests.pipeline.support_journal import Book, all_played, by_run, frame, large, member, picked, snapshot

pytestmark = [pytest.mark.spark]

ONE, TWO, STATIC, AGAIN = member("one"), member("two"), member("old", instance="web"), member("new", instance="web")


def by_hand() -> dict[str, Book]:
    life = Book()
    stable, preparing = snapshot("Stable", 1, ONE, TWO), snapshot("PreparingRebalance", 1, ONE)
    life.step(None, snapshot("PreparingRebalance", 0, ONE), api="JoinGroup")
    life.later(1000)
    life.step(snapshot("Stable", 1, ONE), snapshot("PreparingRebalance", 1, ONE, TWO), api="JoinGroup", member="two")
    life.later(500)
    life.step(stable, preparing, timer="session", member="two", group="billing")
    life.later(500)
    life.step(snapshot("Stable", 2, ONE), snapshot("Empty", 3), api="LeaveGroup", member="one")

    there = Book()  # one was a member before the journal began, and still is; two did not rejoin in time
    there.step(
        snapshot("PreparingRebalance", 4, ONE, TWO),
        snapshot("CompletingRebalance", 5, ONE),
        timer="rebalance",
        group="billing",
    )

    moved = Book()  # a coordinator that moves takes its members along
    moved.step(None, snapshot("PreparingRebalance", 0, ONE), api="JoinGroup")
    moved.later(100)
    log = "__consumer_offsets-9"
    moved.write(
        "group", log=log, group="billing", cause={"kind": "unload"}, before=snapshot("Stable", 1, ONE), after=None
    )
    moved.later(100)
    moved.write(
        "group", log=log, group="billing", cause={"kind": "load"}, before=None, after=snapshot("Stable", 1, ONE)
    )

    static = Book()
    static.step(None, snapshot("PreparingRebalance", 0, STATIC), api="JoinGroup")
    static.later(4000)
    static.step(snapshot("Stable", 1, STATIC), snapshot("Stable", 1, AGAIN), api="JoinGroup", member="web")

    silent = Book()
    silent.step(
        snapshot("CompletingRebalance", 4, ONE, TWO),
        snapshot("PreparingRebalance", 4, ONE),
        timer="sync",
        group="billing",
    )
    return {"life": life, "there": there, "moved": moved, "static": static, "silent": silent}


@pytest.fixture(scope="module")
def hand(spark: Any) -> dict[str, list[dict[str, Any]]]:
    """The memberships of the journals made by hand."""
    events = frame(spark, **{name: book.events for name, book in by_hand().items()})
    return by_run(memberships(events), "member")


WHEN = ("member", "joined_ms", "left_ms", "why", "tenure_ms", "replaces")


def test_members_that_joined_and_left_and_why(hand: Any) -> None:
    assert picked(hand["life"], *WHEN) == [
        ("one", 1_000_000, 1_002_000, "leave", 2000, False),
        ("two", 1_001_000, 1_001_500, "session timeout", 500, False),
    ]
    assert picked(hand["there"], *WHEN) == [
        ("one", None, None, None, None, False),
        ("two", None, 1_000_000, "rebalance timeout", None, False),
    ]
    assert picked(hand["silent"], "member", "why") == [("one", None), ("two", "sync timeout")]


def test_a_coordinator_that_moves_is_no_churn(hand: Any) -> None:
    assert picked(hand["moved"], *WHEN) == [("one", 1_000_000, None, None, None, False)]


def test_a_static_member_that_comes_back(hand: Any) -> None:
    assert picked(hand["static"], *WHEN, "instance") == [
        ("new", 1_004_000, None, None, None, True, "web"),
        ("old", 1_000_000, 1_004_000, "replaced", 4000, False, "web"),
    ]


def test_counts_of_members(spark: Any) -> None:
    events = frame(spark, **{name: book.events for name, book in by_hand().items() if name in ("life", "static")})
    churn = by_run(member_churn(events))
    assert list(churn["life"][0]) == list(MEMBER_CHURN.names)
    assert churn["life"] == [
        {
            "run_id": "life",
            "group": "billing",
            "members": 2,
            "static_members": 0,
            "joins": 2,
            "replacements": 0,
            "leaves": 1,
            "expirations": 1,
            "static_expirations": 0,
            "timeouts": 0,
            "departures": 2,
            "present": 0,
            "mean_tenure_ms": 1250.0,
            "shortest_tenure_ms": 500,
            "tenures": 2,
            "source": "journal",
        }
    ]
    counted = ("members", "static_members", "joins", "replacements", "departures", "present", "mean_tenure_ms")
    assert picked(churn["static"], *counted) == [(2, 1, 1, 1, 0, 1, 4000.0)]


# ------------------------------------------------------------------------------------------------ real runs


def test_memberships_of_scenarios(spark: Any) -> None:
    churn = by_run(member_churn(frame(spark, **all_played(), large=large().events)).where("`group` != 'audit'"))
    counted = ("joins", "leaves", "expirations", "timeouts", "replacements", "static_members", "present")
    expected = {
        "crash-without-leave": (2, 0, 1, 0, 0, 0, 1),
        "max-poll-interval-expiry": (3, 1, 0, 0, 0, 0, 2),
        "rolling-restart-of-static-members": (2, 0, 0, 0, 2, 2, 2),
        "leader-changes": (1, 0, 0, 0, 0, 0, 1),
        "large": (80, 0, 0, 0, 0, 0, 80),
    }
    assert {name: picked(churn[name], *counted)[0] for name in expected} == expected


@pytest.fixture(scope="module")
def lives(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Truth, list[Any], list[Any]]]:
    """version -> what the script did, the memberships of its journal, those of its log alone."""
    return lives_told(spark, lambda: tmp_path_factory.mktemp("life"), memberships, "client_id")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_script_s_members(lives: Any, version: str) -> None:
    truth, told, logged = lives[version]
    at, ids = truth.at, truth.ids
    names = ("client_id", "member", "joined_ms", "left_ms", "why", "source")
    assert picked(told, *names) == [
        ("web-1", ids["web-1"], at["first"], None, None, "journal"),
        ("web-2", ids["web-2"], at["joined"], at["left"], "leave", "journal"),
        ("web-3", ids["web-3"], at["came"], at["silent"], "session timeout", "journal"),
    ]
    assert picked(logged, *names) == [  # of the log it is known when the generations without them were stored
        ("web-1", ids["web-1"], at["first"], None, None, "log"),
        ("web-2", ids["web-2"], at["shared"], at["left"] + 2000, "departed", "log"),
        ("web-3", ids["web-3"], at["came"], at["alone"], "departed", "log"),
    ]


def test_the_log_alone_counts_no_reasons(spark: Any) -> None:
    def record(offset: int, generation: int, *members: str) -> dict[str, Any]:
        about = {
            "run_id": "r",
            "log_partition": 9,
            "log_offset": offset,
            "record_ts_ms": offset * 1000,
            "group": "billing",
        }
        return {**about, "kind": "group", "generation": generation, "members": [{"member_id": one} for one in members]}

    rows = [record(1, 5, "a", "b"), record(2, 6, "b"), record(3, 7, "b", "c"), record(4, 8)]
    (churn,) = by_run(member_churn(EVENTS.frame(spark), OFFSET_LOG.frame(spark, rows)))["r"]
    names = (
        "members",
        "joins",
        "leaves",
        "expirations",
        "timeouts",
        "departures",
        "present",
        "mean_tenure_ms",
        "tenures",
        "source",
    )
    assert picked([churn], *names) == [(3, 1, None, None, None, 3, 0, 1000.0, 1, "log")]
