"""docs/pipeline.md: the walk through an incident goes as it says, word for word."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from broker_sim.cli.main import main

DOC = Path(__file__).resolve().parents[2] / "docs" / "pipeline.md"
_BLOCK = re.compile(r"^```(sh|python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def walk() -> list[tuple[str, str]]:
    """(language, text) of the blocks of the walk, in order."""
    text = DOC.read_text(encoding="utf-8").partition("## A walk through an incident")[2].partition("\n## ")[0]
    return _BLOCK.findall(text)


@pytest.mark.long
@pytest.mark.spark
def test_the_walk_follows_its_options(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = walk()
    assert [language for language, _ in blocks].count("python") >= 4
    notebook: dict[str, Any] = {}
    said = ""
    for language, text in blocks:
        if language == "text":
            assert said.strip().startswith(text.strip())
            continue
        if language == "python":
            here = text.replace("incident/", f"{tmp_path}/incident/")  # the session's processes began elsewhere
            exec(compile(here, str(DOC), "exec"), notebook)
        for line in text.splitlines() if language == "sh" else ():
            program, *words = shlex.split(line)
            assert program == "broker-sim"
            assert main(words) == 0, capsys.readouterr().err
        printed = capsys.readouterr().out
        said = printed.partition("virtual time\n")[2] if language == "sh" else printed
