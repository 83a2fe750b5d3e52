"""The demo: it plays to its end, its checks hold, and they fail where a broker loses what it has acknowledged."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from broker_sim.demo.acts import run
from broker_sim.demo.ledger import TopicProgress
from broker_sim.demo.processes import DemoBroker
from tests.support.processes import run as run_process


@pytest.mark.real_time
@pytest.mark.parametrize("as_version", [pytest.param("3.9", marks=pytest.mark.slow), "4.1"])
def test_the_demo_plays_to_its_end_and_its_checks_hold(tmp_path: Path, as_version: str) -> None:
    command = [sys.executable, "-m", "broker_sim", "demo", "--data", str(tmp_path), "--as-version", as_version]
    done = run_process(command)
    assert done.returncode == 0, done.stdout + done.stderr
    for line in (
        "c2 is out: its session timed out",
        "generation 2, ",
        "killed with SIGKILL; nothing was flushed",
        ": the members reconnected",
        "c4 is out: it sent LeaveGroup",
        "2400 records written, all of them read",
        "__consumer_offsets-9: stuck, set",
        "without becoming Stable",
        "__consumer_offsets-9: stuck, healed",
    ):
        assert line in done.stdout
    # "now generation 4" on a machine that took longer to start a broker than the members' sessions of two seconds last
    assert re.search(r"(still generation 2|now generation \d): the members reconnected", done.stdout)
    assert re.search(r"^  broker +=", done.stdout, re.MULTILINE), "the picture"
    assert "\x1b" not in done.stdout, "colours only on a terminal"
    assert "stuck" in (tmp_path / "billing-timeline.html").read_text()


@pytest.mark.real_time
def test_the_demo_fails_where_the_restarted_broker_has_lost_its_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    start = DemoBroker.start

    async def forgetful(self: DemoBroker) -> None:
        if self.port:
            (self.directory / "data").rename(self.directory / "lost")
        await start(self)

    monkeypatch.setattr(DemoBroker, "start", forgetful)
    assert run(str(tmp_path), "4.1") == 1
    assert "PROBLEM" in capsys.readouterr().out


def test_pictures_are_written_where_nobody_else_can_have_been(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "broker-sim-demo").symlink_to(tmp_path / "theirs")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    given: list[Path] = []

    async def played(directory: Path, as_version: str, pictures: Path) -> int:
        given.append(pictures)
        return 0

    monkeypatch.setattr("broker_sim.demo.acts._run", played)
    assert [run(None, "4.1"), run(None, "4.1")] == [0, 0]
    assert len({*given}) == 2
    for pictures in given:
        assert pictures.stat().st_mode & 0o077 == 0
        assert not pictures.is_symlink()
    assert list((tmp_path / "theirs").iterdir()) == []


def test_going_on_before_an_acknowledged_commit_is_a_problem() -> None:
    ledger = TopicProgress(1, 100)
    for offset in range(20):
        ledger.read("c1", 0, offset)
    ledger.commit({0: 10})
    ledger.assigned("c2", {0: 10})
    assert ledger.problems == []
    ledger.assigned("c2", {0: 9})
    assert ledger.problems == ["c2 continues at 9 in partition 0, but 10 was committed"]


def test_a_gap_is_a_problem_and_what_was_not_committed_may_be_read_twice() -> None:
    ledger = TopicProgress(1, 3)
    ledger.read("c1", 0, 0)
    ledger.read("c2", 0, 0)
    assert (ledger.problems, ledger.twice) == ([], 1)
    ledger.read("c1", 0, 2)
    assert ledger.problems == ["c1 read 2 in partition 0; 1 was never read"]


def test_a_restart_that_forgets_a_commit_is_a_problem() -> None:
    ledger = TopicProgress(2, 10)
    ledger.restarted({0: 5}, {0: 5, 1: 0})
    assert ledger.problems == []
    ledger.restarted({0: 4}, {0: 5, 1: 3})
    assert len(ledger.problems) == 2


def test_a_broker_that_cannot_start_is_exit_code_2(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(str(tmp_path), "9.9") == 2
    assert "broker-sim demo: the broker did not start: " in capfd.readouterr().err
