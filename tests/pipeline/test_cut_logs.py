"""Scenarios' logs without their first batches: pipeline and reproduce read them, and claim no more than of the whole log."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from broker_sim.pipeline.progress import Steps
from broker_sim.pipeline.run import RunOptions, pipeline
from broker_sim.reproduce.evidence import Evidence
from broker_sim.reproduce.incident import seen
from broker_sim.scenario.commands import shipped
from broker_sim.scenario.model import read
from broker_sim.scenario.runner import ScenarioOptions
from broker_sim.scenario.virtual import play
from tests.pipeline.cut_logs import cut_directory, original
from tests.support.sampling import sampled

ONE_OF_EACH_KIND = (
    "commit-with-an-old-generation",
    "consumer-group-member-is-fenced",
    "share-group-poison-record",
    "streams-member-never-revokes-its-task",
    "transaction-zombie-is-fenced",
    "upgrade-to-consumer-protocol-with-one-old-member",
)
SLOW_TO_CUT = ("join-storm", "max-poll-interval-expiry", "hanging-consumer-holds-the-rebalance")
"""Hundreds of batches, of which each is like the others."""
OTHERS = sorted({path.stem for path in shipped().glob("*.yaml")} - {*ONE_OF_EACH_KIND, *SLOW_TO_CUT})

NAMES = {"revoked_by", "waited_for", "who_clients"}
"""Columns of a rebalance with client ids: the log may lack the record that has them."""
PLACES = {"group", "coordinator_partition"}


class Table:
    """The rows of a written table, as `Evidence` reads them."""

    def __init__(self, folder: Path) -> None:
        self._rows = [row for file in sorted(folder.rglob("*.parquet")) for row in parquet.read_table(file).to_pylist()]

    def collect(self) -> list[dict[str, Any]]:
        return self._rows


PARTS = [ONE_OF_EACH_KIND, *(tuple(OTHERS[at::6]) for at in range(6))]


@pytest.mark.parametrize("names", sampled([(names,) for names in PARTS], len(PARTS)), ids=lambda names: names[0])
def test_a_log_without_its_beginning(names: tuple[str, ...], tmp_path: Path) -> None:
    for name in names:
        play(read(shipped() / f"{name}.yaml"), ScenarioOptions(data=tmp_path / name))
    cut_directory({name: tmp_path / name for name in names}, tmp_path / "cut")
    options = RunOptions(str(tmp_path / "out"), str(tmp_path / "cut"), look_for_journal=False, engine="duckdb")
    outcome = pipeline(options, Steps(sys.stderr, quiet=True))
    tables = {folder.name: Table(folder) for folder in (tmp_path / "out" / "tables").iterdir()}
    assert list(claims(tables["rebalances"].collect())) == []
    assert list(inventions([(one.kind, one.group) for one in outcome.findings if one.group])) == []
    evidence = Evidence("cut", [], None, None, tables)
    for group in evidence.groups():
        seen(evidence, group)


def nameless(waits: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
    """Without the clients: a log that begins behind their members' records has the member ids instead, as in NAMES."""
    return waits and [{name: value for name, value in wait.items() if name != "clients"} for wait in waits]


def claims(rebalances: list[dict[str, Any]]) -> Iterator[str]:
    """What rows of cut logs have that is not in the whole log's. A row that is not `whole` says by this what it can't know."""
    whole = {}
    for row in rebalances:
        group, lacks = original(row["group"])
        if not lacks:
            whole[group, row["log_offset"]] = row
    for row in rebalances:
        group, lacks = original(row["group"])
        known = whole.get((group, row["log_offset"]))
        if not row["whole"]:
            if row["cause"] not in (None, "unknown"):
                yield f"{group}, {lacks} batches cut, {row['generation']}: the cause is {row['cause']}"
            continue
        for name, value in row.items():
            expected = None if known is None else known[name]
            both = [nameless(one) if name == "waits" else one for one in (value, expected)]
            both = [sorted(one) if isinstance(one, list) and name not in NAMES | {"waits"} else one for one in both]
            if name not in NAMES | PLACES and value is not None and both[0] != both[1]:
                yield f"{group}, {lacks} batches cut, {row['generation']}: {name} is {value}, not {expected}"


def inventions(findings: list[tuple[str, str]]) -> Iterator[str]:
    """Kinds of findings about groups with cut logs that are not among those about the group with the whole log. Of decreased offsets
    only the greatest are reported; a member that leaves is part of a storm."""
    kinds: dict[str, set[str]] = {}
    for kind, name in findings:
        group, lacks = original(name)
        if not lacks:
            kinds.setdefault(group, {"regression"}).update({kind, "departed"} if kind == "storm" else {kind})
    for kind, name in findings:
        group, lacks = original(name)
        if kind not in kinds.get(group, {"regression"}):
            yield f"{group}, {lacks} batches cut: {kind}"
