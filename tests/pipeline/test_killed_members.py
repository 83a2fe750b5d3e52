"""Rollouts in virtual time: members that are killed hold one rebalance, and what follows from it is no finding of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from broker_sim.cli.main import main

HEAD = (
    'name: a rollout\ndescription: Three new consumers replace three old ones.\ncluster: {{as_version: "{version}"}}\n'
)
TOPICS = "topics:\n  - {name: orders, partitions: 6, records: 60, rate: 20/s}\nclients:\n"
CLIENT = "  - {{name: {name}, group: billing, topics: [orders], session_timeout: 45s, heartbeat_interval: 3s{more}}}\n"
STEP = (
    "  - after: 15s\n    do:\n      - {{client: old-{n}, action: {how}}}\n      - {{client: new-{n}, action: start}}\n"
)
STABLE = "  - when: {group: billing, state: Stable, members: 3}\n    within: 180s\n"


def rollout(version: str, how: str, *, static: bool = False, numbers: tuple[int, ...] = (1, 2, 3)) -> str:
    """Return a scenario of a rollout. ``how``: the action that ends an old consumer; ``numbers``: consumers that are replaced."""

    def client(age: str, n: int, more: str) -> str:
        return CLIENT.format(name=f"{age}-{n}", more=(f", instance_id: {age}-pod-{n}" if static else "") + more)

    clients = [client("old", n, "") for n in (1, 2, 3)] + [client("new", n, ", start: false") for n in numbers]
    steps = [STABLE, *(STEP.format(n=n, how=how) for n in numbers), "  - after: 2s\n    do: {mark: over}\n", STABLE]
    end = "    after: 20s\n    do: {mark: end}\nexpect:\n  - group: {billing: {state: Stable, members: 3, lag_below: 20}}\n"
    return HEAD.format(version=version) + TOPICS + "".join(clients) + "steps:\n" + "".join(steps) + end


def run(scenario: str, folder: Path, *, journal: bool = True) -> list[dict[str, Any]]:
    """The findings of a scenario's run, from its log and, with ``journal``, its journal."""
    file, data, kept, out = (folder / name for name in ("rollout.yaml", "data", "journal", "out"))
    file.write_text(scenario, encoding="utf-8")
    assert main(["run", str(file), "--virtual", "--quiet", "--data", str(data), "--journal", str(kept)]) == 0
    given = ["--input", str(data), *(["--journal", str(kept)] if journal else ["--no-journal"])]
    assert main(["pipeline", "run", *given, "--out", str(out), "--engine", "duckdb", "--quiet"]) == 0
    return list(json.loads((out / "findings.json").read_text(encoding="utf-8"))["findings"])


@pytest.mark.parametrize("version", ["3.4", "4.1"])
@pytest.mark.parametrize("how", ["crash", "leave"])
def test_killed_members_of_a_rollout_are_one_finding(version: str, how: str, tmp_path: Path) -> None:
    found = run(rollout(version, how), tmp_path)
    serious = [one for one in found if one["severity"] in ("warn", "bad")]
    if how == "leave":
        assert serious == []
        return
    (one,) = serious
    assert one["kind"] == "slow rebalance"
    for words in (
        "until the session of old-1 expired",
        "without a SyncGroup of ",
        "the lag grew to ",
        "6 partitions did not",
    ):
        assert words in one["text"]
    assert "No LeaveGroup arrived" in one["advice"]
    assert not {"lag", "stalled", "session expired"} & {each["kind"] for each in found}


def test_from_the_log_alone_no_owner_is_blamed_for_a_rebalance(tmp_path: Path) -> None:
    found = run(rollout("4.1", "crash"), tmp_path, journal=False)
    (one,) = [one for one in found if one["severity"] in ("warn", "bad")]
    assert one["kind"] == "stalled"
    assert "; then generation " in one["text"]
    assert " without a record, which never became Stable" in one["text"]
    assert "did not rebalance" not in one["text"]
    assert "look at that member" not in one["advice"]
    assert "for members that did not rejoin, or that ended without a LeaveGroup" in one["advice"]


def test_static_members_are_not_advised_to_become_static(tmp_path: Path) -> None:
    found = run(rollout("4.1", "crash", static=True), tmp_path)
    (one,) = [one for one in found if one["kind"] == "slow rebalance"]
    assert "until the session of old-1 expired" in one["text"]
    assert "Static members send no LeaveGroup" in one["advice"]
    assert "or group.instance.id, with which" not in one["advice"]


MODERN = "  - {{name: {name}, group: billing, topics: [orders], kind: consumer{more}}}\n"


def modern(how: str, numbers: tuple[int, ...] = (1, 2, 3)) -> str:
    """The rollout in a consumer group of KIP-848: its session timeout is 45 s by default."""
    clients = [MODERN.format(name=f"old-{n}", more="") for n in (1, 2, 3)]
    clients += [MODERN.format(name=f"new-{n}", more=", start: false") for n in numbers]
    steps = [STABLE, *(STEP.format(n=n, how=how) for n in numbers), "  - after: 2s\n    do: {mark: over}\n", STABLE]
    end = "    after: 20s\n    do: {mark: end}\nexpect:\n  - group: {billing: {state: Stable, members: 3}}\n"
    return HEAD.format(version="4.1") + TOPICS + "".join(clients) + "steps:\n" + "".join(steps) + end


@pytest.mark.parametrize("journal", [True, False], ids=["journal", "log alone"])
def test_dead_members_of_a_consumer_group_are_not_the_last_to_reach_their_assignments(
    journal: bool, tmp_path: Path
) -> None:
    found = run(modern("crash"), tmp_path, journal=journal)
    (one,) = [one for one in found if one["severity"] in ("warn", "bad")]
    assert one["kind"] == "slow rebalance"
    assert "as new-1 joined: the time until all members had reached its epoch. old-1, old-2 and old-3 " in one["text"]
    assert "was the last to reach" not in one["text"]
    assert "is slow to do so" not in one["advice"]
    if journal:
        assert (
            " were dead: their sessions ran until 22:14:25.358 (old-1), 22:14:45.313 (old-2) and 22:15:0" in one["text"]
        )
        assert "No leaving heartbeat arrived" in one["advice"]
    else:
        assert " had not reached it when they left, or their sessions expired, at 22:14:25.358 (old-1)" in one["text"]
        assert one["advice"].startswith("The log does not show which")


@pytest.mark.parametrize("journal", [True, False], ids=["journal", "log alone"])
def test_members_of_a_consumer_group_that_leave_hold_nothing(journal: bool, tmp_path: Path) -> None:
    found = run(modern("leave"), tmp_path, journal=journal)
    assert [one for one in found if one["severity"] in ("warn", "bad")] == []


def test_one_dead_member_of_a_consumer_group(tmp_path: Path) -> None:
    found = run(modern("crash", (1,)), tmp_path)
    (one,) = [one for one in found if one["kind"] == "slow rebalance"]
    assert "old-1 was dead: its session ran until 22:14:25.358" in one["text"]
