"""Definition of a rebalance: from steps made by hand, and from the records of a log alone."""

from __future__ import annotations

from typing import get_args

import pytest

from broker_sim.explain.events import GroupSnapshot
from broker_sim.explain.generations import Generation, Generations, GroupMetadataRecord, StoredMember
from broker_sim.explain.history import history
from broker_sim.explain.rebalances import (
    COMPLETING,
    EMPTY,
    PREPARING,
    STABLE,
    Cause,
    GroupStep,
    Kind,
    Phases,
    Rebalances,
)
from broker_sim.pipeline.log_causes import CAUSES
from tests.explain.journals import Script


def group(state: str, generation: int, *members: str) -> GroupSnapshot:
    return GroupSnapshot(state, generation, None, None, {name: {} for name in members}, [], len(members))


def read(*steps: tuple[int, GroupSnapshot | None, GroupSnapshot | None, Kind]) -> tuple[list[list[str]], list[Phases]]:
    """Return the turns that each step made, and the rebalances."""
    reader = Rebalances(Phases)
    turns = [
        [turn for turn, _ in reader.take(GroupStep(at, old, new, Cause(kind, at)))] for at, old, new, kind in steps
    ]
    return turns, reader.rebalances


OPEN, CLOSED, STILL = group(PREPARING, 1, "a"), group(COMPLETING, 2, "a"), group(STABLE, 2, "a")


def test_the_phases_in_their_order() -> None:
    turns, (one, two) = read(
        (10, group(STABLE, 1, "a"), OPEN, "joined"),
        (20, OPEN, OPEN, "rejoined"),
        (30, OPEN, CLOSED, "rejoined"),
        (40, CLOSED, STILL, "unknown"),
        (50, STILL, STILL, "rejoined"),
        (60, STILL, group(EMPTY, 3), "left"),
    )
    assert turns == [["began"], ["within"], ["within", "closed"], ["ended"], [], ["began", "closed", "ended"]]
    assert (one.began_ms, one.closed_ms, one.ended_ms, one.left_ms) == (10, 30, 40, 60)
    assert (one.generation_before, one.generation, one.end, one.from_empty, one.whole) == (1, 2, "stable", False, True)
    assert (two.began_ms, two.generation, two.end, two.left_ms) == (60, 3, "empty", None)


def test_a_generation_that_increases_in_one_step_is_a_rebalance() -> None:
    turns, (one, two) = read(
        (10, None, OPEN, "first_member"), (20, OPEN, STILL, "joined"), (30, STILL, group(STABLE, 3, "a"), "rejoined")
    )
    assert turns == [["began"], ["within", "closed", "ended"], ["began", "closed", "ended"]]
    assert (one.from_empty, one.left_ms, two.generation_before, two.ended_ms) == (True, 30, 2, 30)


def test_one_that_begins_before_the_last_is_over_makes_that_one_fail() -> None:
    turns, (one, two) = read(
        (10, None, OPEN, "first_member"), (20, OPEN, CLOSED, "rebalance_timer"), (30, CLOSED, OPEN, "append_failed")
    )
    assert turns[-1] == ["ended", "began"]
    assert (one.end, one.ended_ms, two.end, two.closed_ms) == ("failed", 30, "", None)


@pytest.mark.parametrize(
    ("kind", "after", "end"),
    [("unloaded", None, "moved"), ("deleted", None, "dead"), ("loaded", group(STABLE, 1, "a"), "moved")],
)
def test_a_group_that_is_deleted_or_unloaded(kind: Kind, after: GroupSnapshot | None, end: str) -> None:
    """A broker that was killed tells nothing: what its coordinator had open is over when the next one has loaded the "
    "group."""
    _, (one,) = read((10, group(STABLE, 1, "a"), OPEN, "joined"), (20, None if kind == "loaded" else OPEN, after, kind))
    assert (one.end, one.ended_ms, one.generation) == (end, 20, None)


@pytest.mark.parametrize("state", [PREPARING, COMPLETING])
def test_a_rebalance_found_in_progress_began_before_the_journal(state: str) -> None:
    turns, (one,) = read((10, group(state, 7, "a"), group(STABLE, 7 + (state == PREPARING), "a"), "unknown"))
    assert turns[0][0] == "found"
    assert (one.whole, one.found_in, one.cause.kind, one.end) == (False, state, "unknown", "stable")
    assert one.generation == one.generation_before + 1


def test_explain_reads_with_it() -> None:
    script = Script().formed(["app-1~1"])
    past = history(script.events, "billing")
    assert all(isinstance(one, Phases) for one in past.rebalances)


def test_every_cause_has_a_word_in_the_table_or_is_no_beginning() -> None:
    never = {"pending_expired", "appended", "rebalance_timer", "unloaded", "deleted", "unknown"}
    assert set(get_args(Kind)) - CAUSES.keys() == never


# --- from a log alone -----------------------------------------------------------------------------------------------------


def stored(*records: tuple[int, int | None, str], lasted: int = 5) -> list[Generation]:
    reader = Generations()
    for at, generation, members in records:
        reader.take(GroupMetadataRecord(at, at - lasted, generation, tuple(StoredMember(name) for name in members)))
    return reader.generations


def test_generations_of_a_log() -> None:
    found = stored(
        (10, 0, ""), (100, 1, "a"), (200, 2, "ab"), (300, 5, "ab"), (350, 5, "ab"), (400, 6, "b"), (500, 7, "")
    )
    assert [(one.generation, one.before, one.change, one.who, one.missing) for one in found] == [
        (1, 0, "joined", ["a"], 0),
        (2, 1, "joined", ["b"], 0),
        (5, 2, "rejoined", [], 2),
        (6, 5, "departed", ["a"], 0),
        (7, 6, "departed", ["b"], 0),
    ]
    assert [(one.closed_ms, one.stored_ms, one.left_ms) for one in found[:4]] == [
        (95, 100, 195),
        (195, 200, 295),
        (295, 300, 395),
        (395, 400, 495),
    ]


def test_after_a_tombstone_a_group_begins_anew() -> None:
    one, two = stored((10, 4, "a"), (20, None, ""), (30, 1, "b"))
    assert (one.whole, one.old, one.change, one.who, one.missing, one.left_ms) == (
        False,
        None,
        "unknown",
        None,
        None,
        15,
    )
    assert (two.whole, two.old, two.change, two.who) == (True, (), "joined", ["b"])


def test_a_log_without_state_timestamps_has_no_end_of_the_join_phase() -> None:
    reader = Generations()
    reader.take(GroupMetadataRecord(10, None, 1, (StoredMember("a"),)))
    reader.take(GroupMetadataRecord(20, None, 2, ()))
    one, two = reader.generations
    assert (one.closed_ms, one.stored_ms, one.left_ms, two.closed_ms) == (None, 10, 20, 20)
