"""Scenarios' logs without their first batches, and compacted: pipeline and reproduce read them, and claim no more."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from broker_sim.pipeline import findings as making_findings
from broker_sim.pipeline.finding import CERTAINTIES, Finding
from broker_sim.pipeline.progress import Steps
from broker_sim.pipeline.run import RunOptions, RunResult, pipeline
from broker_sim.reproduce.evidence import Evidence
from broker_sim.reproduce.incident import seen
from broker_sim.scenario.commands import shipped
from broker_sim.scenario.model import read
from broker_sim.scenario.runner import ScenarioOptions
from broker_sim.scenario.virtual import play
from tests.incidents.run_pipeline import unpack
from tests.pipeline.certainty import hedges
from tests.pipeline.cut_logs import MARK, WHOLE, changes, combined_directory, original, separate_directory

ALL = sorted(path.stem for path in shipped().glob("*.yaml"))
ONE_OF_EACH_KIND = (
    "assign-mode-commit-on-a-live-group",
    "consumer-group-member-is-fenced",
    "share-group-poison-record",
    "streams-member-never-revokes-its-task",
    "transaction-timeout-in-a-rebalance",
    "upgrade-to-consumer-protocol-with-one-old-member",
)
CASES = [
    *((name, 1 if name.startswith("transaction") else 16) for name in ONE_OF_EACH_KIND),
    *(
        pytest.param(name, 1 if name.startswith("transaction") else 12, marks=pytest.mark.slow)
        for name in sorted({*ALL} - {*ONE_OF_EACH_KIND})
    ),
    *(pytest.param(name, 8 if name.startswith("transaction") else 48, marks=pytest.mark.long) for name in ALL),
]
"""A scenario, and how many cuts of its log. A log with transactions has a run for each: producer ids hold its topics together."""

RECORDED = Path(__file__).resolve().parents[1] / "incidents" / "recorded"

NAMES = {"revoked_by", "waited_for", "who_clients"}
"""Columns of a rebalance with client ids: the log may lack the record that has them."""
PLACES = {"group", "coordinator_partition"}
OF_A_RUN = {"nothing", "misplaced groups"}
"""Kinds of findings about a run, not about what happened."""


class Table:
    """The rows of a written table, as `Evidence` reads them."""

    def __init__(self, folder: Path) -> None:
        self._rows = [row for file in sorted(folder.rglob("*.parquet")) for row in parquet.read_table(file).to_pylist()]

    def collect(self) -> list[dict[str, Any]]:
        return self._rows


@pytest.fixture(autouse=True)
def each_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Findings of many variants are many of one kind."""
    monkeypatch.setattr(making_findings, "MOST_ALIKE", sys.maxsize)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("name", "most"), CASES)
def test_a_log_from_any_point(name: str, most: int, tmp_path: Path) -> None:
    play(read(shipped() / f"{name}.yaml"), ScenarioOptions(data=tmp_path / "data"))
    separate = name.startswith("transaction")
    found, stalls = (_separate if separate else _combined)(tmp_path, most)
    assert len(found) > 3
    assert list(untruths(found, stalls)) == []
    assert [one.text for findings in found.values() for one in findings if hedges(one)] == []


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["membership-3.4.0-2", "consumer-groups-4.4.0-3", "offsets-4.1.0-1"])
def test_a_real_cluster_s_log_from_any_point(name: str, tmp_path: Path) -> None:
    unpack(RECORDED / f"{name}.tar.xz", tmp_path)
    (tmp_path / name / "data").rename(tmp_path / "data")
    found, stalls = _combined(tmp_path, 6)
    assert list(untruths(found, stalls)) == []
    assert [one.text for findings in found.values() for one in findings if hedges(one)] == []


def _combined(folder: Path, most: int) -> tuple[dict[str, list[Finding]], list[dict[str, Any]]]:
    """Findings of each change, and rows of offset_stalls."""
    partitions = combined_directory(folder / "data", folder / "logs", most)
    outcome, tables = run(folder / "logs", folder / "out")
    assert list(claims(tables["rebalances"].collect())) == []
    result: dict[str, list[Finding]] = {change: [] for change in partitions.values()}
    for finding in outcome.findings:
        if finding.group is not None:
            result.setdefault(original(finding.group)[1], []).append(finding)
        elif finding.log_partition is not None:
            result[partitions[finding.log_partition]].append(finding)
        else:
            assert finding.severity in ("note", "good") or finding.kind in OF_A_RUN, finding
    return result, tables["offset_stalls"].collect()


def _separate(folder: Path, most: int) -> tuple[dict[str, list[Finding]], list[dict[str, Any]]]:
    logs = [
        log.read_bytes()
        for topic in ("__transaction_state", "__consumer_offsets")
        for log in (folder / "data").glob(f"{topic}-*/*")
    ]
    result = {}
    for change in changes(max(logs, key=len), most):
        separate_directory(folder / "data", folder / change.name, change)
        outcome, _ = run(folder / change.name, folder / f"{change.name}-out")
        result[change.name] = outcome.findings
    return result, []


def run(logs: Path, out: Path) -> tuple[RunResult, dict[str, Table]]:
    options = RunOptions(str(out), str(logs), look_for_journal=False, engine="duckdb")
    outcome = pipeline(options, Steps(sys.stderr, quiet=True))
    tables = {folder.name: Table(folder) for folder in (out / "tables").iterdir()}
    evidence = Evidence("cut", [], None, None, tables)
    for group in evidence.groups():
        seen(evidence, group)
    return outcome, tables


# ------------------------------------------------------------------------------------------------ findings


def untruths(found: Mapping[str, Sequence[Finding]], stalls: Sequence[dict[str, Any]] = ()) -> Iterator[str]:
    """Findings above a note about changed logs that the whole log does not have. A finding has its match in one of the same kind and
    group, with a common time, the same partitions and offsets, and at least its certainty. ``stalls``: rows of offset_stalls; of the
    whole log one may be part of another finding, about why its member did not commit."""
    stood = {(*original(row["group"]), f"{row['topic']}-{row['partition']}", row["offset"]) for row in stalls}
    whole = [_unmarked(finding) for finding in found[WHOLE.name]]
    for change, findings in found.items():
        for finding in map(_unmarked, findings):
            above = finding.severity in ("warn", "bad") and finding.kind not in OF_A_RUN
            at = _STOOD.match(finding.text)
            stall = at is not None and (finding.group, WHOLE.name, at[1], int(at[2].replace(",", ""))) in stood
            if stall and (
                finding.kind == "stalled" or any(other.kind == finding.kind for other in _of(whole, finding.group))
            ):
                continue
            if above and not any(_matches(finding, other) for other in whole):
                yield f"{change}: {finding.kind}, {finding.certainty}: {finding.text}"


_STOOD = re.compile(r"(\S+) of .+ stayed at ([\d,]+) ")


def _of(findings: Sequence[Finding], group: str | None) -> list[Finding]:
    return [finding for finding in findings if finding.group == group]


def _unmarked(finding: Finding) -> Finding:
    text = re.sub(rf"{MARK}[a-z]+\.\d+", "", finding.text)
    return replace(finding, text=text, group=finding.group and finding.group.partition(MARK)[0])


def _matches(finding: Finding, whole: Finding) -> bool:
    spans = [(one.at_ms or 0, one.to_ms if one.to_ms is not None else sys.maxsize) for one in (finding, whole)]
    return (
        finding.kind == whole.kind
        and finding.group
        in (whole.group, None)  # a log without the records of offsets does not have the group of a transaction
        and max(from_ms for from_ms, _ in spans) <= min(to_ms for _, to_ms in spans)
        and (finding.kind in _OF_MEMBERS or set(_PLACES.findall(finding.text)) <= set(_PLACES.findall(whole.text)))
        and CERTAINTIES.index(finding.certainty) >= CERTAINTIES.index(whole.certainty)
    )


_OF_MEMBERS = ("session expired", "poll timeout", "storm", "departed", "slow rebalance")
"""Kinds whose sentences name members, of long lists the first ones only."""
_PLACES = re.compile(r"[\w.]+-\d+(?=[ ,:;])|(?:at|from) [\d,]+ to [\d,]+\b|stayed at [\d,]+|at [\d,]+\b(?![:-])")
"""Partitions, members with a number, and offsets in a finding's text."""


def test_a_finding_that_the_whole_log_does_not_have_is_an_untruth() -> None:
    def reset(change: str, **fields: Any) -> Finding:
        text = f"Offsets of billing{MARK}{change} were set from outside: orders-0 from 10 to 3."
        return replace(Finding("reset", "warn", 1, text, group=f"billing{MARK}{change}", at_ms=5), **fields)

    whole = reset(WHOLE.name)
    others = {
        "the same": reset("cut.1"),
        "a note": reset("cut.1", severity="note", group="mail"),
        "less certain": reset("cut.1", certainty="likely"),
    }
    for finding in others.values():
        assert list(untruths({WHOLE.name: [whole], "cut.1": [finding]})) == []
    untrue = {
        "another group": reset("cut.1", group="mail"),
        "another offset": reset("cut.1", text="Offsets of billing were set from outside: orders-0 from 10 to 4."),
        "another kind": reset("cut.1", kind="regression"),
        "another time": reset("cut.1", at_ms=4, to_ms=4),
        "more certain": reset("cut.1"),
    }
    for name, finding in untrue.items():
        known = replace(whole, certainty="likely") if name == "more certain" else whole
        assert len(list(untruths({WHOLE.name: [known], "cut.1": [finding]}))) == 1, name


# ------------------------------------------------------------------------------------------------ rebalances


def nameless(waits: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
    """Without the clients: a log that begins behind their members' records has the member ids instead, as in NAMES."""
    return waits and [{name: value for name, value in wait.items() if name != "clients"} for wait in waits]


def claims(rebalances: list[dict[str, Any]]) -> Iterator[str]:
    """Yield differences of changed logs' rows from the whole log's rows; of rows that are not `whole`, only causes that they claim."""
    whole: dict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
    for row in rebalances:
        group, change = original(row["group"])
        if change == WHOLE.name:
            whole[group][row["log_offset"]] = row
    for row in rebalances:
        group, change = original(row["group"])
        known = whole[group].get(row["log_offset"])
        if row["cause_certainty"] == "likely":
            continue
        if not row["whole"]:
            if row["cause"] not in (None, "unknown"):
                yield f"{group}, {change}, {row['generation']}: the cause is {row['cause']}"
            continue
        for name, value in row.items():
            expected = None if known is None else known[name]
            both = [nameless(one) if name == "waits" else one for one in (value, expected)]
            both = [
                sorted(one) if isinstance(one, list) and name not in NAMES | {"waits", "bounces"} else one
                for one in both
            ]
            if name not in NAMES | PLACES and value is not None and both[0] != both[1]:
                yield f"{group}, {change}, {row['generation']}: {name} is {value}, not {expected}"
