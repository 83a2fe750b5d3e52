"""Scenarios in virtual time, for what is said of them: their journals and the pipeline's findings."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from broker_sim.cli.main import main
from broker_sim.explain import explain

__all__ = ["Events", "findings_of", "paragraphs", "replayed"]

Events = list[dict[str, Any]]


def replayed(scenario: str, folder: Path) -> Events:
    """The journal of a scenario that held; it is kept in ``folder``, with the logs of the brokers."""
    file, journal = folder / "replay.yaml", folder / "journal"
    file.write_text(scenario, encoding="utf-8")
    assert (
        main(["run", str(file), "--virtual", "--quiet", "--data", str(folder / "data"), "--journal", str(journal)]) == 0
    )
    lines = [line for part in sorted(journal.iterdir()) for line in part.read_text(encoding="utf-8").splitlines()]
    return [json.loads(line) for line in lines]


def findings_of(folder: Path) -> list[dict[str, Any]]:
    """The pipeline's findings about a scenario that was replayed in ``folder``, without the notes."""
    given = ["--input", str(folder / "data"), "--journal", str(folder / "journal"), "--out", str(folder / "out")]
    assert main(["pipeline", "run", *given, "--engine", "duckdb", "--quiet"]) == 0
    found = json.loads((folder / "out" / "findings.json").read_text(encoding="utf-8"))["findings"]
    return [one for one in found if one["severity"] in ("warn", "bad")]


def paragraphs(events: Events, group: str = "billing") -> list[str]:
    """Return the text of explain as paragraphs, without the times in front."""
    words = re.split(r"\n(?=\S)", explain(events, group))
    return [re.sub(r"^[\d:.]+ +", "", " ".join(one.split())) for one in words]
