"""Small worlds, exhaustively: what `broker-sim explore` sees, what it would find, and what it tells of it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import pytest

from broker_sim.cli.main import main
from broker_sim.coordinator.classic import group as classic_group
from broker_sim.coordinator.classic.group import State
from broker_sim.coordinator.epochs.state import EpochState
from broker_sim.coordinator.transaction import ending
from broker_sim.coordinator.transaction.transaction import Stored, Transaction
from broker_sim.simulation.exhaustive.catalogue import WORLDS, drawn
from broker_sim.simulation.exhaustive.explorer import Action, Broken, explore, replay
from kafka_wire.errors import Err


@pytest.mark.parametrize("name", WORLDS)
def test_nothing_breaks_a_rule_in_any_order_of_three_actions(name: str) -> None:
    found = explore(WORLDS[name], depth=3)
    assert found.broken is None
    assert found.depth == 3
    assert found.states > 120


@pytest.mark.slow
def test_what_is_drawn_is_the_same_again_and_breaks_nothing() -> None:
    first, again = (drawn(seed, steps=60) for seed in (7, 7))
    assert (first.states, first.steps, first.by_depth) == (again.states, again.steps, again.by_depth)
    for seed in range(2 * len(WORLDS)):
        assert drawn(seed, steps=60).broken is None


# --- what it found in the coordinator


def test_the_leaders_sync_is_answered_where_the_log_never_took_the_group() -> None:
    """A new group whose first record is uncommitted goes through its join phase; then the coordinator moves. The SyncGroup stood in a
    group that the failed record undid, and nobody answered it."""
    way = ["stick", "S join", "time", "S sync", "move cut"]
    world = replay(WORLDS["static 4.1"], [tuple(step.split(" ", 1)) for step in way])
    assert "S is answered NOT_COORDINATOR" in world.trace
    world.settle()


def test_what_the_log_takes_of_a_group_before_it_goes_over_is_not_the_new_ones() -> None:
    """The first record of a classic group is uncommitted when a member of the new protocol turns it into a consumer group. Committed,
    it put an empty classic group into that one's place, and its members were unknown."""
    way = ["stick", "C join", "C join", "time", "A join", "heal", "A own"]
    world = replay(WORLDS["mixed 4.1"], [tuple(step.split(" ", 1)) for step in way])
    assert "A: its own is answered NONE" in world.trace
    world.settle()


# --- what it would find


def _broken(name: str, depth: int) -> Broken:
    found = explore(WORLDS[name], depth=depth)
    assert found.broken is not None
    return found.broken


def test_a_member_that_is_not_told_of_a_rebalance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(classic_group.HEARTBEAT_ANSWER, State.PREPARING_REBALANCE, Err.NONE)
    broken = _broken("classic 3.4", 4)
    assert broken.rule == "responses follow the coordinator's rules"
    assert broken.what == "Heartbeat is answered NONE, the rules say REBALANCE_IN_PROGRESS"


def test_a_partition_with_two_holders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EpochState, "is_taken", lambda state, key, number: False)
    assert _broken("consumer 4.1", 3).rule == "a partition has one owner"


def test_a_transaction_that_is_complete_before_its_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    def hasty(shard: Any, transaction: Transaction) -> Stored:
        after = transaction.pending = ending._completed(transaction.stored, shard.now_ms)
        ending._complete(shard, transaction)
        return after

    monkeypatch.setattr(ending, "send_markers", hasty)
    broken = _broken("transaction 4.1", 4)
    assert broken.rule == "a transaction completes after its markers are written"
    assert broken.path == (("P", "init"),)  # the rest is what whoever begins does anyway
    assert broken.then[-1] == "P: commit with (101, 1)"


def test_a_session_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    from broker_sim.coordinator.classic import membership
    from broker_sim.coordinator.shard import _KINDS

    kind = _KINDS[classic_group.ClassicGroup]
    immortal = kind._replace(
        session_expired=lambda shard, group, member_id: membership.restart_session(
            shard, group, group.members[member_id]
        )
    )
    monkeypatch.setitem(_KINDS, classic_group.ClassicGroup, immortal)
    broken = _broken("calm 4.1", 1)
    assert broken.rule in ("expired members leave no state or timers", "well-behaved clients reach a Stable group")
    assert "from here on all goes well" in broken.then


# --- the explorer itself


class _Clock:
    """Counts to five, and begins again; it is broken where it shows ``bad``."""

    def __init__(self, bad: int | None = None) -> None:
        self.at, self.bad = 0, bad
        self.trace: list[str] = []

    def actions(self) -> Sequence[Action]:
        return [("on",), ("stay",)]

    def take(self, action: Action, *, watched: bool = True) -> None:
        self.at = (self.at + (action == ("on",))) % 5
        self.trace.append(f"it is {self.at}")
        if watched and self.at == self.bad:
            raise Broken("it never shows that", f"{self.at}")

    def key(self) -> Hashable:
        return self.at

    def settle(self) -> None:
        if self.bad == -self.at and self.at:
            self.trace.append("it falls down")
            raise Broken("it never falls down", f"from {self.at}")


def test_a_world_that_comes_back_to_where_it_was_is_seen_whole() -> None:
    found = explore(_Clock, depth=99)
    assert found.is_whole
    assert (found.states, found.by_depth) == (5, [1, 1, 1, 1, 0])


def test_the_way_to_a_broken_rule_is_the_shortest() -> None:
    found = explore(lambda: _Clock(3), depth=99)
    assert found.broken is not None
    assert found.broken.path == (("on",),) * 3


def test_what_comes_of_a_state_is_looked_at_too() -> None:
    found = explore(lambda: _Clock(-2), depth=99)
    assert found.broken is not None
    assert (found.broken.path, found.broken.then) == ((("on",),) * 2, ("it falls down",))


def test_it_ends_where_it_is_told_to() -> None:
    assert explore(_Clock, depth=2).depth == 2
    assert explore(WORLDS["classic 4.1"], depth=99, steps=50).steps < 80


def test_states_that_differ_by_their_way_alone_are_one() -> None:
    make = WORLDS["classic 4.1"]
    came, came_twice = ("A", "join"), [("A", "join"), ("A", "restart")]
    assert replay(make, [came]).key() != replay(make, []).key()
    one = replay(make, [*came_twice, ("time",), came])  # the id that nobody came back with has run out
    other = replay(make, [*came_twice, ("time",), *came_twice, ("time",), came])
    assert one.key() == other.key()


# --- what a user sees


def test_worlds_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "--list"]) == 0
    assert capsys.readouterr().out.count("\n") == len(WORLDS)


def test_a_world_is_explored(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "transaction 4.1", "--depth", "2", "--quiet"]) == 0
    assert "all orders of 2 actions: " in capsys.readouterr().out


def test_a_way_is_walked_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "consumer 4.1", "--replay", "A join; B join; A own"]) == 0
    told = capsys.readouterr().out
    assert "A: its own is answered NONE, to have [0] in epoch 1" in told
    assert "from here on all are silent" in told


def test_what_breaks_is_told_with_the_way_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(EpochState, "is_taken", lambda state, key, number: False)
    assert main(["explore", "consumer 4.1", "--depth", "3", "--quiet"]) == 1
    told = capsys.readouterr().out
    assert "BROKEN" in told
    last = told.strip().splitlines()[-1].strip()
    assert last.startswith("broker-sim explore 'consumer 4.1' --replay 'A join'")
    assert main(["explore", "consumer 4.1", "--replay", last.split("'")[3]]) == 1
    assert "a partition has one owner" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["clasic 4.1"], "no world 'clasic 4.1'; did you mean 'classic 4.1'?"),
        (["classic", "--replay", "A join"], "--replay needs one world"),
        (["classic 4.1", "--replay", "A dance"], "'A dance' is not possible there; expected one of A join"),
        (["--for", "soon"], "--for"),
    ],
)
def test_what_is_wrong_is_told_in_a_line(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", *words]) == 2
    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1
