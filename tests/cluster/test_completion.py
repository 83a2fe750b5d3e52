"""The commands as a newcomer finds them: in groups, completed by the shell, and guessed where they are nearly right."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from broker_sim.cli import main as cli
from broker_sim.cli.completion import SHELLS
from tests.support import processes


def test_every_command_stands_in_one_group_of_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    grouped = [name for names in cli._GROUPS.values() for name in names]
    assert sorted(grouped) == sorted([*cli._HERE, *cli.ELSEWHERE])
    assert cli.main([]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n    {name} " in shown for name in grouped)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["gr"], ["group"]),
        (["group", "wai"], ["wait"]),
        (["group", "wait", "billing", "--mem"], ["--member-gone", "--members"]),
        (["serve", "--log-level", ""], ["debug", "error", "info", "warning"]),
        (["serve", "--data", ""], []),
        (["run", "crash"], ["crash-without-leave"]),
        (["scenario", "c"], ["check", "commit-fails-in-a-rebalance", "commit-with-an-old-generation"]),
        (["completion", ""], ["bash", "fish", "zsh"]),
        (["nonsense", "x"], []),
    ],
)
def test_words_are_completed(words: list[str], wanted: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", "--words", *words]) == 0
    found = capsys.readouterr().out.split()
    assert [one for one in found if one in wanted] == wanted
    assert wanted or not found


def test_bash_completes_by_the_script(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash here")
    (tmp_path / "broker-sim").write_text(f'#!/bin/sh\nexec {sys.executable} -m broker_sim "$@"\n')
    (tmp_path / "broker-sim").chmod(0o755)
    script = 'eval "$(broker-sim completion bash)"; COMP_WORDS=(x group wai); COMP_CWORD=2; _broker_sim; echo "${COMPREPLY[@]}"'
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = processes.run([bash, "-c", script], env=environment, check=True)
    assert (done.stdout, done.stderr) == ("wait\n", "")
    assert set(SHELLS) == {"bash", "zsh", "fish"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["grup"], "invalid choice: 'grup'; did you mean 'group'?"),
        (["broker", "dwn", "1"], "invalid choice: 'dwn'; did you mean 'down'?"),
        (["serve", "--log-level", "debgu"], "invalid choice: 'debgu'; did you mean 'debug'?"),
        (["scenario", "xyz"], "invalid choice: 'xyz'; expected one of list, check, show"),
    ],
)
def test_a_word_that_is_nearly_right_is_told_the_one_that_was_meant(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(words)
    assert left.value.code == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1
