"""docs/reproduce.md: the example runs as shown."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.support import processes

DOC = Path(__file__).resolve().parents[2] / "docs" / "reproduce.md"
_BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_example_runs_as_shown(tmp_path: Path) -> None:
    """Each line in a process of its own, as a reader would."""
    text = DOC.read_text(encoding="utf-8").partition("## Example")[2].partition("\n## ")[0]
    said = ""
    for language, block in _BLOCK.findall(text):
        if language == "text":
            assert said.startswith(block)
            continue
        for line in block.splitlines():
            program, *words = shlex.split(line)
            command = words if program == "python" else ["-m", "broker_sim", *words]
            done = processes.run([sys.executable, *command], cwd=tmp_path)
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
            said = done.stdout
    made = {path.name for path in (tmp_path / "incident").iterdir()} - {"__pycache__"}
    told = set(re.findall(r"^\| `([\w.]+)/?` \|", DOC.read_text(encoding="utf-8"), re.MULTILINE))
    assert made == told

    (tmp_path / "mine.py").write_text(
        re.findall(r"^```python\n(.*?)^```$", DOC.read_text("utf-8"), re.MULTILINE | re.DOTALL)[0]
    )
    test = tmp_path / "incident" / "test_incident.py"
    changed = re.sub(
        r"^from .* import live as consumer$", "from mine import consumer", test.read_text(), flags=re.MULTILINE
    )
    assert "from mine import consumer" in changed
    test.write_text(changed)
    command = [sys.executable, "-m", "pytest", "-q", str(test)]
    done = processes.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.returncode == 0, done.stdout + done.stderr
