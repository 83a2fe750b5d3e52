"""Sweeps: what is found is counted, shrunk, kept and run again; what differs in a second run is told; the command's face."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker_sim import ClusterError
from broker_sim.cli.main import main
from broker_sim.common.text import UsageError
from broker_sim.simulation import Simulation, simulate
from broker_sim.simulation.checks.answers import CHECKS
from broker_sim.simulation.commands import text_of
from broker_sim.simulation.faults.kinds import Fault
from broker_sim.simulation.sweeps import sweep as sweeping
from broker_sim.simulation.sweeps import trial, workers
from broker_sim.simulation.sweeps.sweep import SweepOptions, SweepSummary, first_difference, read_case, sweep
from broker_sim.simulation.sweeps.trial import WORKLOADS, Case, CaseOutcome, case_from, run
from broker_sim.simulation.virtual.hashseed import is_pinned
from tests.simulation.planted import LOST, commits_are_not_loaded
from tests.simulation.workload import begin
from tests.support import processes


class _Here:
    """A pool without processes: what has been planted in this one counts."""

    def submit(self, work: Callable[..., Any], *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(work(*args))
        except BaseException as error:
            future.set_exception(error)
        return future


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def pool(jobs: int) -> Iterator[_Here]:
        yield _Here()

    monkeypatch.setattr(sweeping, "pool", pool)


def options(*workloads: str, seeds: range, **more: Any) -> SweepOptions:
    return SweepOptions(workloads or ("alone",), seeds, **{"duration_s": 12.0, **more})


@pytest.mark.parametrize(
    "name", [name if name in ("hostile",) else pytest.param(name, marks=pytest.mark.slow) for name in WORKLOADS]
)
def test_a_workload_does_its_work_and_comes_through_its_faults(name: str) -> None:
    outcome = run(Case(name, 11, 20.0))
    assert outcome.failure is None, outcome.text
    assert outcome.virtual_s > 20
    assert run(outcome.case).journal_hash == outcome.journal_hash


def test_a_case_survives_json() -> None:
    case = Case("group", 3, members=2, plan=(Fault(1.5, "pause", {"host": "c1", "for_s": 2}),))
    assert case_from(json.loads(json.dumps(case.to_dict()))) == case
    assert case_from({"workload": "group", "seed": 3, "note": "by hand"}) == Case("group", 3)


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_what_is_found_is_shrunk_kept_and_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[int] = []
    with monkeypatch.context() as planted:
        commits_are_not_loaded(planted)
        wanted = options(seeds=range(30), corpus=tmp_path / "found", shrink=True, budget=25, most=1)
        summary = sweep(wanted, lambda state: shown.append(state.runs))
        (found,) = summary.failures.values()
        assert found.failure in LOST
        assert found.shrunk
        assert len(found.case.plan or ()) < max(found.before, 3)
        assert found.file is not None
        assert shown == sorted(shown)
        assert shown[-1] == summary.runs
        assert sweeping.replay(found.file).failure == found.failure
        again = sweep(options(seeds=range(30, 31), corpus=tmp_path / "found"))
        assert [failure.file for failure in again.failures.values() if failure.file] == [found.file]
    mended = sweep(options(seeds=range(30, 31), corpus=tmp_path / "found"))
    assert not mended.failures
    assert mended.mended == [found.file]
    assert len(list((tmp_path / "found").iterdir())) == 1


@pytest.mark.usefixtures("here")
def test_equal_failures_are_counted_as_one_and_kinds_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_badly(case: Case, **kwargs: Any) -> CaseOutcome:
        return CaseOutcome(case, {0: "lost", 1: None, 2: "lost", 3: f"odd {case.seed // 4}"}[case.seed % 4])

    monkeypatch.setattr(sweeping, "run", run_badly)
    summary = sweep(options("alone", "auto", seeds=range(400), repeat=0.0, most=3))
    assert list(summary.failures) == ["alone: lost", "auto: odd 0", "auto: odd 1"]
    assert (
        summary.failed
        == sum(each.count for each in summary.failures.values())
        == summary.failures["alone: lost"].count + 2
    )
    assert summary.runs < 12


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_a_run_that_differs_the_second_time_is_told_by_its_first_event(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = 0
    real = sweeping.run

    def run_otherwise(case: Case, **kwargs: Any) -> CaseOutcome:
        nonlocal runs
        runs += 1
        return real(
            case if runs == 1 else Case(case.workload, case.seed + 1, case.duration_s, as_version="4.1"), **kwargs
        )

    monkeypatch.setattr(sweeping, "run", run_otherwise)
    summary = sweep(options(seeds=range(1), repeat=1.0))
    (found,) = summary.failures.values()
    assert found.failure == "not deterministic"
    assert "of the journal is" in found.text
    assert summary.repeated == 1


@pytest.mark.usefixtures("here")
def test_rows_are_written_as_runs_end_and_a_sweep_goes_on_where_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def quick(case: Case, **kwargs: Any) -> CaseOutcome:
        asked.append(case.seed)
        if case.seed == 5:
            raise KeyboardInterrupt
        return CaseOutcome(case, hits={"crash": 1}, reached={"load": 2}, virtual_s=1.0)

    rows = tmp_path / "some" / "runs.jsonl"
    with monkeypatch.context() as patch:
        patch.setattr(sweeping, "run", quick)
        first = sweep(options(seeds=range(9), repeat=0.0, rows=rows))
    assert first.interrupted
    lines = [json.loads(line) for line in rows.read_text().splitlines()]
    assert [line["seed"] for line in lines] == list(range(len(lines)))
    asked.clear()
    monkeypatch.setattr(sweeping, "run", lambda case, **kwargs: quick(replace(case, seed=case.seed + 100)))
    second = sweep(options(seeds=range(9), repeat=0.0, rows=rows))
    assert second.skipped == len(lines)
    assert [seed - 100 for seed in asked] == list(range(len(lines), 9))
    assert (second.hits["crash"], second.reached["load"]) == (second.runs, 2 * second.runs)
    assert second.by_workload == {"alone": [second.runs, 0]}
    assert "state Stable" in second.unreached
    assert "lingers" in second.unhit
    rows.write_text("{}\n")
    with pytest.raises(UsageError, match=r"runs\.jsonl, line 1: not a row"):
        sweep(options(seeds=range(9), rows=rows))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.slow
def test_who_ends_a_sweep_is_told_what_it_found(number: int) -> None:
    words = ["simulate", "hostile", "--seeds", "0..1000000", "--seconds", "1", "--jobs", "2"]
    process = processes.start(
        [sys.executable, "-m", "broker_sim", *words],
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.default_int_handler
        ),  # a shell's background job ignores it
    )
    assert process.stderr is not None
    while "runs, " not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(number)
    told, problems = processes.finish(process, "the sweep to end after a signal")
    assert "(interrupted)" in told
    assert (process.returncode, [line for line in problems.splitlines() if "runs, " not in line]) == (0, [])


def test_what_a_world_tells_when_it_ends_is_a_failure_of_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def lives(sim: Simulation, *others: object) -> None:
        sim.cluster()
        sim.fail(ClusterError("no such disk"))

    monkeypatch.setattr(trial, "_lives", lives)
    outcome = run(Case("alone", 3))
    assert outcome.failure is not None
    assert outcome.failure.startswith("ClusterError")
    assert "no such disk" in outcome.text


@pytest.mark.usefixtures("here")
def test_a_sweep_ends_when_its_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]

    def slow(case: Case, **kwargs: Any) -> CaseOutcome:
        now_s[0] += 10.0
        return CaseOutcome(case)

    monkeypatch.setattr(sweeping, "run", slow)
    monkeypatch.setattr(sweeping, "_wall_s", lambda: now_s[0])
    summary = sweep(options(seeds=range(1000), repeat=0.0, wall_s=60.0))
    assert 6 <= summary.runs <= 8
    assert not summary.interrupted
    assert 9000 < summary.left_s < 12000


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_a_failure_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commits_are_not_loaded(monkeypatch)
    plan = (Fault(9.0, "restart", {"host": "broker-1"}),)
    file = tmp_path / "case.json"
    file.write_text(json.dumps(Case("alone", 1, 12.0, plan=plan).to_dict()))
    summary = sweep(options(seeds=range(0), corpus=tmp_path, timeline=tmp_path / "drawn"))
    (found,) = summary.failures.values()
    assert "billing" in found.picture
    (drawn,) = found.drawn
    assert drawn.read_text().startswith("<!DOCTYPE html>")
    assert main(["simulate", "--replay", str(file), "--timeline", str(tmp_path / "again")]) == 1
    out = capsys.readouterr().out
    assert "timeline: " in out
    assert (tmp_path / "again" / drawn.name).exists()


def test_the_first_difference() -> None:
    def outcome(*events: str, steps: int = 1) -> CaseOutcome:
        return CaseOutcome(
            Case("alone", 1), journal_hash="".join(events), schedule_hash=str(steps), events=list(events), steps=steps
        )

    assert first_difference(outcome("a", "b"), outcome("a", "b")) is None
    assert "event 2 of the journal is\n  b\nand the second time\n  c" in (
        first_difference(outcome("a", "b"), outcome("a", "c")) or ""
    )
    assert "event 2" in (first_difference(outcome("a"), outcome("a", "c")) or "")
    assert "1 callbacks, then 2" in (first_difference(outcome("a"), outcome("a", steps=2)) or "")


def test_workers_have_their_hash_seed_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "random")
    with workers.pool(1) as some:
        assert some.submit(is_pinned).result()
    assert os.environ["PYTHONHASHSEED"] == "random"


@pytest.mark.slow
def test_workers_are_replaced_after_a_number_of_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_RUNS_A_WORKER", 2)
    with workers.pool(1) as some:
        pids = [future.result() for future in [some.submit(os.getpid) for _ in range(5)]]
    assert [len({*pids[:2]}), len({*pids[2:4]}), len({*pids})] == [1, 1, 3]


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT and SIGTERM raise KeyboardInterrupt, in a shell's background job, which ignores SIGINT, too."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, signal.default_int_handler) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_does_not_end_the_pools_code_halfway(number: int) -> None:
    submitted: list[str] = []

    class Interrupted(_Here):
        def submit(self, work: Callable[..., Any], *args: Any) -> Future[Any]:
            signal.raise_signal(number)
            submitted.append("to its end")
            return super().submit(work, *args)

    with workers.WorkQueue(Interrupted()) as work:
        work.submit(print)
        assert submitted
        with pytest.raises(KeyboardInterrupt):
            work.done()
        with pytest.raises(KeyboardInterrupt):
            work.check()
        with pytest.raises(KeyboardInterrupt):  # who insists
            work.submit(print)
    assert signal.getsignal(signal.SIGINT) is signal.getsignal(signal.SIGTERM) is signal.default_int_handler


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_a_wait_for_workers() -> None:
    late = threading.Timer(0.01, signal.pthread_kill, (threading.get_ident(), signal.SIGINT))
    with workers.WorkQueue(_Here()) as work:
        late.start()
        with pytest.raises(KeyboardInterrupt):
            work.done()
    late.join()


def test_what_other_work_brings_is_no_result() -> None:
    with workers.WorkQueue(_Here()) as work:
        work.submit(max, 1, 2)
        wanted = [work.submit(max, 3, 4), work.submit(max, 5, 6)]
        assert work.results(reversed(wanted)) == [6, 4]


@pytest.mark.slow
def test_workers_end_with_the_sweep_that_is_killed() -> None:
    code = (
        "from broker_sim.simulation.sweeps.workers import pool; import os, sys\n"
        "if __name__ == '__main__':\n"
        "    with pool(1) as workers:\n"
        "        print(workers.submit(os.getpid).result(), flush=True); sys.stdin.read()"
    )
    sweeper = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert sweeper.stdout is not None
    worker = int(sweeper.stdout.readline())
    sweeper.kill()
    sweeper.communicate()
    while _runs(worker):  # pytest's timeout is its deadline
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"


# --- the command ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_sweeps(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "alone", "--seeds", "3..5", "--jobs", "1", "--seconds", "10", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["wanted"], told["runs"], told["failed"]) == (2, 2, 0)
    assert told["virtual_s"] > 20


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_the_command_tells_what_it_found(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits_are_not_loaded(monkeypatch)
    case = Case("alone", 1, 12.0, plan=(Fault(9.0, "restart", {"host": "broker-1"}),))
    file = tmp_path / "case.json"
    file.write_text(json.dumps(case.to_dict()))
    assert main(["simulate", "--replay", str(file)]) == 1
    out = capsys.readouterr().out
    assert "9 s: restart host broker-1" in out
    assert any(failure in out for failure in LOST)
    assert main(["simulate", "alone", "--seeds", "0", "--corpus", str(tmp_path), "--quiet"]) == 1
    out = capsys.readouterr().out
    assert f"again: broker-sim simulate --replay {file}" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--seeds", "5..5"], "an empty range of seeds"),
        (["--seeds", "x"], "is not a seed or a range of seeds"),
        (["--jobs", "0"], "not a whole number"),
        (["--seconds", "nan"], "not a number of seconds"),
        (["--for", "soon"], "--for"),
        (["grop"], "did you mean 'group'"),
        (["--as-version", "2.0"], "no Kafka release"),
        (["--replay", "nowhere.json"], "No such file"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main(["simulate", *words])
    except SystemExit as exit_:
        code = int(exit_.code or 0)
    err = capsys.readouterr().err
    assert code == 2
    assert said in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[]", "a saved failure"),
        ("{}", "not a saved failure of a sweep"),
        ('{"workload": "x", "seed": 1}', "no workload 'x'"),
    ],
)
def test_a_file_that_holds_no_case_is_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(UsageError, match=said) as caught:
        read_case(tmp_path / "bad.json")
    assert "bad.json" in str(caught.value)


def test_a_summary_is_json() -> None:
    assert json.loads(json.dumps(SweepSummary(wanted=3).to_dict()))["wanted"] == 3


def test_what_came_about_is_told_by_kind_in_lines_that_fit() -> None:
    hits = Counter({"crash": 2, "state too_large": 30, **{f"site number {n} fired": 100 + n for n in range(20)}})
    lines = text_of(SweepSummary(runs=3, hits=hits)).splitlines()
    assert max(map(len, lines)) <= 116
    at = lines.index("came about")
    assert lines[at + 1].startswith("  site fired  number 19 fired 119, number 18 fired 118, ")
    assert lines[at + 2].startswith("              number")
    never = lines.index("never reached")
    assert lines[never - 2 : never] == ["  state       too_large 30", "  fault       crash 2"]
    assert any(line.startswith("  log was ") and " stuck, " in line for line in lines[never:])


def test_help_lists_every_workload(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["simulate", "--help"])
    shown = capsys.readouterr().out.partition("\nworkloads:")[2]
    assert [name for name in WORKLOADS if not re.search(rf"\b{name}\b", shown)] == []


@pytest.mark.slow
def test_workloads_on_the_wire_protocol_need_no_aiokafka(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "aiokafka" else found(name))
    for words in (["hostile", "group"], ["hostile", "--replay", str(kept(tmp_path, Case("alone", 3)))]):
        assert main(["simulate", *words, "--seeds", "0..2"]) == 2
        told = capsys.readouterr().err
        assert "aiokafka is not installed" in told
        assert (
            "all workloads except hostile, cooperative, consumer-groups, share-groups, streams-groups and tellers need"
            in told
        )
        assert told.count("\n") == 1
    assert main(["simulate", "hostile", "--seeds", "0..1", "--seconds", "1", "--jobs", "1", "--quiet"]) == 0


def kept(directory: Path, case: Case) -> Path:
    """A case as a file."""
    file = directory / "case.json"
    file.write_text(json.dumps(case.to_dict()))
    return file


def alike(case: Case) -> tuple[CaseOutcome, CaseOutcome]:
    """A case run quickly and with everything on; what was found, checked and done is the same."""
    quick, full = run(case, quick=True), run(case, events=True)
    told = ("failure", "invariant", "text", "begun", "hits", "reached", "waived", "deeds")
    for name in (*told, "virtual_s", "healed_s", "steps", "schedule_hash"):
        assert getattr(quick, name) == getattr(full, name), name
    assert (quick.journal_hash, quick.events) == ("", [])
    assert len(full.journal_hash) == 64
    return quick, full


@pytest.mark.parametrize(
    "name",
    [name if name in ("cooperative",) else pytest.param(name, marks=pytest.mark.slow) for name in WORKLOADS],
)
def test_the_quick_pass_is_the_same_run_with_the_same_checks(name: str) -> None:
    quick, _ = alike(Case(name, 2, 8.0, journal=True))
    assert quick.failure is None


@pytest.mark.slow
def test_the_quick_pass_finds_what_the_other_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    commits_are_not_loaded(monkeypatch)
    moves = Fault(4.0, "move", {"log": "offsets(billing)", "step": 1})
    found = {alike(Case(name, 5, 6.0, journal=True, plan=(moves,)))[0].failure for name in ("hostile", "cooperative")}
    assert None not in found
    assert found <= set(LOST)


def test_bodies_that_a_check_reads_are_there_in_the_quick_pass() -> None:
    with simulate(1) as sim:
        kafka = sim.cluster(topics={"orders": 1})
        kafka.record_bodies(frozenset(CHECKS))
        begin(sim, kafka=kafka, members=1)
        sim.run_for(10)
        told = {
            (e["api"], e["body"] is not None) for e in kafka.journal.events if e["event"] in ("request", "response")
        }
    assert {(api, api in CHECKS) for api, _ in told} == told
    assert {"Fetch", "JoinGroup", "OffsetCommit"} <= {api for api, _ in told}
