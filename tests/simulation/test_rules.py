"""The tables beside the coordinator: what they say of requests and of steps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker_sim.simulation.checks.rules import answer_of, at_once, step_error, waits_in_vain
from kafka_wire.errors import Err


def shown(state: str, generation: int = 3, members: dict[str, str | None] | None = None) -> dict[str, Any]:
    told = [{"member": name, "instance": instance} for name, instance in (members or {}).items()]
    return {"state": state, "generation": generation, "size": len(told), "members": told, "pending": ["late"]}


TWO: dict[str, str | None] = {"a": None, "b": "fixed"}


def ask(api: str, member: str = "a", generation: int = 3, instance: str | None = None, version: int = 5) -> Any:
    return SimpleNamespace(api=api, member=member, generation=generation, instance=instance, version=version)


@pytest.mark.parametrize(
    ("request_", "state", "answer"),
    [
        (ask("Heartbeat"), "Stable", Err.NONE),
        (ask("Heartbeat"), "CompletingRebalance", Err.NONE),
        (ask("Heartbeat"), "PreparingRebalance", Err.REBALANCE_IN_PROGRESS),
        (ask("Heartbeat", generation=2), "PreparingRebalance", Err.ILLEGAL_GENERATION),
        (ask("Heartbeat", "c"), "Stable", Err.UNKNOWN_MEMBER_ID),
        (ask("Heartbeat", "a", instance="fixed"), "Stable", Err.FENCED_INSTANCE_ID),
        (ask("Heartbeat", "b", instance="fixed"), "Stable", Err.NONE),
        (ask("Heartbeat", "b", instance="other"), "Stable", Err.UNKNOWN_MEMBER_ID),
        (ask("SyncGroup"), "Stable", Err.NONE),
        (ask("SyncGroup"), "PreparingRebalance", Err.REBALANCE_IN_PROGRESS),
        (ask("SyncGroup"), "CompletingRebalance", None),
        (ask("OffsetCommit"), "PreparingRebalance", Err.NONE),
        (ask("OffsetCommit"), "CompletingRebalance", Err.REBALANCE_IN_PROGRESS),
        (ask("OffsetCommit", generation=4), "CompletingRebalance", Err.ILLEGAL_GENERATION),
        (ask("OffsetCommit", "", -1), "Stable", Err.UNKNOWN_MEMBER_ID),
        (ask("JoinGroup", ""), "Stable", Err.MEMBER_ID_REQUIRED),
        (ask("JoinGroup", "", version=3), "Stable", None),
        (ask("JoinGroup", "late"), "Stable", None),
        (ask("JoinGroup", "c"), "Stable", Err.UNKNOWN_MEMBER_ID),
        (ask("LeaveGroup"), "Stable", None),
    ],
)
def test_what_a_request_is_answered(request_: Any, state: str, answer: Err | None) -> None:
    assert answer_of(request_, shown(state, members=TWO)) == (None if answer is None else {answer})


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (ask("Heartbeat"), Err.UNKNOWN_MEMBER_ID),
        (ask("SyncGroup"), Err.UNKNOWN_MEMBER_ID),
        (ask("JoinGroup"), Err.UNKNOWN_MEMBER_ID),
        (ask("OffsetCommit"), Err.ILLEGAL_GENERATION),
        (ask("OffsetCommit", "", -1), Err.NONE),
    ],
)
def test_what_it_is_answered_where_there_is_no_such_group(request_: Any, answer: Err) -> None:
    assert answer_of(request_, None) == {answer}


def test_an_empty_group_takes_commits_without_a_generation_from_anybody() -> None:
    assert answer_of(ask("OffsetCommit", "whoever", -1), shown("Empty")) == {Err.NONE}
    assert answer_of(ask("OffsetCommit", "whoever", 3), shown("Empty")) == {Err.UNKNOWN_MEMBER_ID}


def test_a_group_that_is_shown_in_part_is_not_judged() -> None:
    assert answer_of(ask("Heartbeat", "c"), {**shown("Stable", members=TWO), "size": 9}) is None


@pytest.mark.parametrize(
    ("before", "after", "wrong"),
    [
        (shown("Stable", 3, TWO), shown("PreparingRebalance", 3, TWO), None),
        (shown("Stable", 3, TWO), shown("CompletingRebalance", 4, TWO), None),
        (shown("Stable", 3, TWO), shown("CompletingRebalance", 3, TWO), "grew by 0"),
        (shown("PreparingRebalance", 3, TWO), shown("CompletingRebalance", 5, TWO), "grew by 2"),
        (shown("PreparingRebalance", 3, TWO), shown("Stable", 4, TWO), "from PreparingRebalance to Stable"),
        (shown("Empty"), shown("CompletingRebalance", 4, TWO), "from Empty to"),
        (shown("Stable", 3, TWO), shown("Stable", 3, {"a": None}), "continues with"),
        (shown("Stable", 3, TWO), shown("Stable", 3, {"a": None, "new": "fixed"}), None),
        (shown("Stable", 3, TWO), shown("Dead", 3), None),
    ],
)
def test_the_steps_of_a_group(before: dict[str, Any], after: dict[str, Any], wrong: str | None) -> None:
    found = step_error(before, after)
    assert (found is None) if wrong is None else (wrong in (found or ""))


@pytest.mark.parametrize(
    ("state", "leader", "generation", "wrong"),
    [
        ("Stable", "b", 3, None),
        ("Stable", "a", 3, "in the generation that it was in"),
        ("CompletingRebalance", "a", 3, None),
        ("PreparingRebalance", "a", 4, None),
        ("PreparingRebalance", "a", 3, "ended in generation 3"),
    ],
)
def test_what_a_good_join_says(state: str, leader: str, generation: int, wrong: str | None) -> None:
    found = at_once(ask("JoinGroup"), {**shown(state, members=TWO), "leader": leader}, {"generation_id": generation})
    assert (found is None) if wrong is None else (wrong in (found or ""))


@pytest.mark.parametrize(("told", "wrong"), [({"orders": [0]}, False), ({"orders": [1]}, True), (None, False)])
def test_what_a_good_sync_says(told: dict[str, list[int]] | None, wrong: bool) -> None:
    group = shown("Stable", members=TWO)
    group["members"][0]["assignment"] = {"orders": [0]}
    body = {"assignment": None if told is None else {"version": 0, "assigned_partitions": told}}
    assert (at_once(ask("SyncGroup"), group, body) is not None) == wrong


@pytest.mark.parametrize(
    ("waits", "pending", "vain"),
    [(["JoinGroup", "JoinGroup"], [], True), (["JoinGroup", None], [], False), (["JoinGroup"] * 2, ["x"], False)],
)
def test_a_rebalance_that_waits_for_nobody(waits: list[str | None], pending: list[str], vain: bool) -> None:
    group = {**shown("PreparingRebalance", members=TWO), "pending": pending}
    for member, wait in zip(group["members"], waits, strict=True):
        member["deferred"] = wait
    assert waits_in_vain(group) == vain
    assert not waits_in_vain({**group, "state": "Stable"})
    assert not waits_in_vain({**group, "members": [], "size": 0})
