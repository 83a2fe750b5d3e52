"""The benchmarks' own arithmetic: medians, ratios, verdicts. Nothing is measured here."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks import steps
from benchmarks.compare import Measured, verdicts
from benchmarks.load import LoadFailed, cpu_us, kload, measured
from benchmarks.report import figure_json, figure_markdown, row_json, row_markdown, row_text
from benchmarks.rows import BenchmarkRow, Goal, rows
from benchmarks.scale import Figure
from benchmarks.systems import Running, kfake, simulator

OURS = simulator(uvloop=False)


def row(measure: str, goal: float) -> BenchmarkRow:
    return BenchmarkRow("r", "a row", ("heartbeat",), (kfake(),), (Goal(("kfake",), goal),), measure)


def test_a_ratio_is_made_of_medians() -> None:
    results = {OURS.name: Measured([10, 400, 30], [2, 4, 3]), "kfake": Measured([10, 10, 90], [6, 6, 6])}
    (verdict,) = verdicts(row("req_s", 3), results, [OURS])
    assert (verdict.ratio, verdict.by_cpu, verdict.passed) == (3, 2, True)


@pytest.mark.parametrize(("ours_ms", "passed"), [(5.0, True), (20.0, True), (21.0, False)])
def test_of_times_the_smaller_one_is_better(ours_ms: float, passed: bool) -> None:
    results = {OURS.name: Measured([ours_ms], [1]), "kfake": Measured([20.0], [1])}
    (verdict,) = verdicts(row("wall_ms", 1), results, [OURS])
    assert verdict.passed is passed


def test_a_system_that_is_not_there_gives_no_verdict_but_a_line() -> None:
    results = {OURS.name: Measured([1], [1]), "kfake": Measured(missing="go is not installed")}
    found = verdicts(row("req_s", 1), results, [OURS])
    assert found == []
    assert "go is not installed" in row_text(row("req_s", 1), results, found)


def test_the_best_peer_counts() -> None:
    both = BenchmarkRow("r", "a row", (), (), (Goal(("slow", "quick"), 2),))
    results = {OURS.name: Measured([10], [1]), "slow": Measured([1], [1]), "quick": Measured([8], [1])}
    (verdict,) = verdicts(both, results, [OURS])
    assert verdict.peer == "quick"
    assert not verdict.passed


def test_a_row_of_the_document_has_a_line_for_each_peer_and_a_column_for_each_event_loop() -> None:
    both = BenchmarkRow("r", "a row", ("heartbeat",), (), (Goal(("kfake",), 1.2), Goal(("mock",), 1)))
    ours = [OURS, simulator(uvloop=True)]
    results = {
        ours[0].name: Measured([1000, 3000, 2000], [2, 2, 2]),
        ours[1].name: Measured([4000], [1.25]),
        "kfake": Measured([2000], [1500]),
        "mock": Measured(missing="it is not installed"),
    }
    assert list(row_markdown(row_json(both, results, verdicts(both, results, ours)))) == [
        "| a row | >= 1.2x kfake | 1.00 MISS | 2.00 PASS | 2,000 req/s (2.0 us) | 4,000 req/s (1.2 us) | 2,000 req/s (1.50 ms) |"
    ]
    results["mock"] = Measured([8000], [0.5])
    lines = list(row_markdown(row_json(both, results, verdicts(both, results, ours))))
    assert lines[1:] == ["|  | >= 1x mock | 0.25 MISS | 0.50 MISS |  |  | 8,000 req/s (0.5 us) |"]


def test_a_figure_of_the_document_has_its_limit() -> None:
    assert (
        figure_markdown(figure_json(Figure("start", 1.9, "x", 1.8, "of 2")))
        == "| start | 1.90 x | at most 1.8 MISS | of 2 |"
    )
    assert figure_markdown(figure_json(Figure("  shown", 3, "s", 0))) == "| shown | 3.00 s |  |  |"


def test_every_row_has_goals_against_its_own_peers() -> None:
    assert len({one.name for one in rows()}) == len(rows()) >= 15
    for one in rows():
        names = {peer.name for peer in one.peers}
        assert one.goals
        assert all(peer in names for goal in one.goals for peer in goal.peers), one.name


def test_figures_come_from_the_load_generators_line() -> None:
    line = {"req_s": 5, "broker_cpu_us_per_req": 2.5, "extra": {"mb_s": 7, "wall_ms_median": 3, "cpu_ms_median": 4}}
    assert [measured(line, name) for name in ("req_s", "mb_s", "wall_ms")] == [5, 7, 3]
    assert [cpu_us(line, name) for name in ("req_s", "wall_ms")] == [2.5, 4000]


def test_errors_that_the_broker_answered_spoil_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    class Done:
        stdout, stderr = '{"errors": {"25": 3}}\n', ""

    monkeypatch.setattr("benchmarks.load.built", lambda name: name)
    monkeypatch.setattr("benchmarks.load.subprocess.run", lambda *args, **options: Done)
    with pytest.raises(LoadFailed, match="25"):
        kload(Running("127.0.0.1:1", 1), 1, ["heartbeat"])


@pytest.mark.slow
@pytest.mark.parametrize("flow", [0, 1, 2])
def test_the_requests_whose_steps_are_told_are_all_answered_and_leave_what_they_should(flow: int) -> None:
    bench = asyncio.run(steps.transactions(flow, 8))  # which raises where the log is not as it should be
    assert set(bench.asked.values()) == {6}  # the first quarter warms up
    assert len(bench.asked) == {0: 2, 1: 5, 2: 3}[flow]
    assert set(bench.cost_ns) == set(bench.asked)


@pytest.mark.slow
def test_every_member_takes_part_in_a_rebalance_whose_steps_are_told() -> None:
    bench = asyncio.run(steps.rebalances(3, 4))
    assert bench.asked == {"JoinGroup": 9, "SyncGroup": 9, "Heartbeat": 9}


@pytest.mark.slow
def test_the_longest_request_of_a_large_consumer_group_is_found() -> None:
    assert asyncio.run(steps.large_consumer_group(3)) > 0
