"""Rollouts in virtual time: members that are killed hold one rebalance, and what follows from it is no finding of its own."""

from __future__ import annotations

import json
from pathlib import Path

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


def rollout(version: str, how: str) -> str:
    """``how``: the action that ends an old consumer."""
    clients = [CLIENT.format(name=f"old-{n}", more="") for n in (1, 2, 3)]
    clients += [CLIENT.format(name=f"new-{n}", more=", start: false") for n in (1, 2, 3)]
    steps = [STABLE, *(STEP.format(n=n, how=how) for n in (1, 2, 3)), "  - after: 2s\n    do: {mark: over}\n", STABLE]
    end = "    after: 20s\n    do: {mark: end}\nexpect:\n  - group: {billing: {state: Stable, members: 3, lag_below: 20}}\n"
    return HEAD.format(version=version) + TOPICS + "".join(clients) + "steps:\n" + "".join(steps) + end


@pytest.mark.parametrize("version", ["3.4", "4.1"])
@pytest.mark.parametrize("how", ["crash", "leave"])
def test_killed_members_of_a_rollout_are_one_finding(version: str, how: str, tmp_path: Path) -> None:
    file, data, journal, out = (tmp_path / name for name in ("rollout.yaml", "data", "journal", "out"))
    file.write_text(rollout(version, how), encoding="utf-8")
    assert main(["run", str(file), "--virtual", "--quiet", "--data", str(data), "--journal", str(journal)]) == 0
    given = ["--input", str(data), "--journal", str(journal), "--out", str(out), "--engine", "duckdb"]
    assert main(["pipeline", "run", *given, "--quiet"]) == 0
    found = json.loads((out / "findings.json").read_text(encoding="utf-8"))
    found = found["findings"] if isinstance(found, dict) else found
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
