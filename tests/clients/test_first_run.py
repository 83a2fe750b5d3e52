"""The first run of each client on a fresh broker, which goes well: the pipeline makes no incident of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker_sim import ClusterThread
from broker_sim.cli.main import main
from tests.clients.clients import CLIENTS, Client, marks
from tests.clients.rig import Garage
from tests.clients.scenarios import Lab, share_out

CONFIG = {"group.initial.rebalance.delay.ms": 50, "group.min.session.timeout.ms": 1000}
RUNS = [
    pytest.param(client, release, id=f"{client.name}-{release}", marks=marks(client))
    for client in CLIENTS
    for release in ("3.4", "4.1")
]


@pytest.mark.parametrize(("client", "release"), RUNS)
def test_a_first_run_that_goes_well_is_no_incident(
    client: Client, release: str, garage: Garage, tmp_path: Path
) -> None:
    data, journal = tmp_path / "data", tmp_path / "journal"
    with ClusterThread(data_dir=data, journal=journal, as_version=release, config=CONFIG) as kafka:
        driver = garage.new(client, kafka.bootstrap)
        try:
            _work(Lab(client, driver, lambda: garage.new(client, kafka.bootstrap)))
        finally:
            driver.close()
    out = tmp_path / "out"
    inputs = ["--input", str(data), "--journal", str(journal)]
    assert main(["pipeline", "run", *inputs, "--out", str(out), "--engine", "duckdb", "--quiet"]) == 0
    found = json.loads((out / "findings.json").read_text(encoding="utf-8"))["findings"]
    assert [one["text"] for one in found if one["severity"] in ("warn", "bad")] == []


def _work(lab: Lab) -> None:
    """Two members read what was produced, commit, and leave in turn."""
    try:
        topic, group = lab.topic(2), lab.group()
        everything = {(topic, 0), (topic, 1)}
        first = lab.member(group=group, topics=[topic])
        first.reads(lab.fill(topic, 2, 5))
        first.commit()
        second = lab.member(group=group, topics=[topic])
        both = (first, second)
        for member, (mine,) in zip(both, share_out([*both], everything), strict=True):
            lab.produce(topic, [{"partition": mine[1], "value": member.name}])
            member.reads([member.name])
        for member in both:
            member.commit()
        for member in both:  # not before both have committed: the rebalance after the first leave refuses commits
            member.leave()
    finally:
        lab.close()
