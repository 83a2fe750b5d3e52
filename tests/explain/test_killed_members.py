"""Rollouts of epoch-based groups whose old members are killed one after the other: who held what up, until when."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from broker_sim.explain import recent
from broker_sim.explain.terminal import timeline
from tests.explain.replays import Events, paragraphs, replayed

HEAD = "name: a rollout\ndescription: New members replace old ones.\ncluster: {{as_version: '{version}'}}\n"
TOPICS = "topics:\n  - {name: orders, partitions: 6, records: 60}\nclients:\n"
CLIENT = "  - {{name: {name}, group: billing, topics: [orders], kind: {kind}{more}}}\n"
STABLE = "  - when: {group: billing, state: Stable, members: 3}\n    within: 180s\n"
STEP = (
    "  - after: 15s\n    do:\n      - {{client: old-{n}, action: {how}}}\n      - {{client: new-{n}, action: start}}\n"
)
END = "    after: 20s\n    do: {mark: end}\nexpect:\n  - group: {billing: {state: Stable, members: 3}}\n"


def rollout(kind: str, how: str, folder: Path) -> Events:
    """The journal of a rollout in virtual time; ``how``: the action that ends an old member."""
    version = "4.4" if kind == "streams" else "4.1"
    clients = [CLIENT.format(name=f"old-{n}", kind=kind, more="") for n in (1, 2, 3)]
    clients += [CLIENT.format(name=f"new-{n}", kind=kind, more=", start: false") for n in (1, 2, 3)]
    steps = "".join(
        [STABLE, *(STEP.format(n=n, how=how) for n in (1, 2, 3)), "  - after: 2s\n    do: {mark: over}\n", STABLE]
    )
    return replayed(HEAD.format(version=version) + TOPICS + "".join(clients) + "steps:\n" + steps + END, folder)


@pytest.mark.parametrize("kind", ["consumer", "streams"])
def test_killed_members_are_named_with_what_they_held_up(kind: str, tmp_path: Path) -> None:
    events = rollout(kind, "crash", tmp_path)
    said = paragraphs(events)
    (stretch,) = [one for one in said if one.startswith("the group was not Stable")]
    assert re.fullmatch(
        r"the group was not Stable from \S+ to \S+ \(1 min 15 s, epochs \d+ to \d+\): old-1, old-2 and old-3 were dead: their "
        r"sessions ran until \S+ \(old-1\), \S+ \(old-2\) and \S+ \(old-3\)",
        stretch,
    )
    removed = [one for one in said if "was removed: its session expired" in one]
    assert [one.split()[2] for one in removed] == ["old-1", "old-2", "old-3"]
    for one in removed:
        assert re.search(
            r"; its connection was closed at \S+; \S+( \S+)* had no living owner for (40|44\.\d|45|45\.\d) s\)$", one
        )
    waited = [one for one in said if " waited " in one and "until the session of old-2 expired" in one]
    assert waited
    assert all(one.endswith(", whose connection had been closed without a leaving heartbeat") for one in waited)
    assert any("the group was not Stable from" in line for line in timeline(events, "billing", 300).splitlines())


@pytest.mark.parametrize("kind", ["consumer", "streams"])
def test_a_wait_meanwhile_says_until_when_dead_members_hold_it_up(kind: str, tmp_path: Path) -> None:
    events = rollout(kind, "crash", tmp_path)
    over_ms = next(event["ts_ms"] for event in events if event["event"] == "mark" and event.get("text") == "over")
    ends = [event["ts_ms"] for event in events if event["event"] == "timer" and event.get("timer") == "session"]
    said = recent([event for event in events if event["ts_ms"] <= over_ms], "billing")
    lines = [re.sub(r"^ +[\d:.]+ +", "", line) for line in said.splitlines()]
    assert len(ends) == 3
    (open_,) = [line for line in lines if line.startswith("the group has not been Stable since ")]
    assert ": old-1, old-2 and old-3 are dead: their sessions run until " in open_
    (kept,) = [line for line in lines if line.startswith("the connection of old-2 was closed at ")]
    at = f"{ends[1] // 3_600_000 % 24:02}:{ends[1] // 60_000 % 60:02}:{ends[1] % 60_000 / 1000:06.3f}"
    assert re.search(rf" without a leaving heartbeat: .+ stays? assigned to it until its session ends at {at}$", kept)


@pytest.mark.parametrize("kind", ["consumer", "streams"])
def test_members_that_leave_are_not_dead(kind: str, tmp_path: Path) -> None:
    said = " ".join(paragraphs(rollout(kind, "leave", tmp_path)))
    assert not re.search("dead|living|not Stable|closed without", said)


def test_frozen_members_are_not_called_dead(tmp_path: Path) -> None:
    said = paragraphs(rollout("consumer", "freeze", tmp_path))
    (stretch,) = [one for one in said if one.startswith("the group was not Stable")]
    assert ": old-1, old-2 and old-3 sent no heartbeat: their sessions ran until " in stretch
    assert not re.search("dead|living|had been closed", " ".join(said))
