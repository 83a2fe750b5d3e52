"""Answers of real brokers, and when they were recorded: truth/<generation>.json, read on first use and renewed case by case.

    {"broker": "4.1.0", "recorded": "2026-11-26", "later": {case: date}, "cases": {case: [[label, response], ...]}}

`recorded` is the day on which all cases were recorded; those in `later` were recorded, or recorded again, by themselves.
"""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DIRECTORY = Path(__file__).parent / "truth"


@dataclass
class Recorded:
    """A broker's answers."""

    broker: str = ""
    recorded: str = ""
    later: dict[str, str] = field(default_factory=dict)
    cases: dict[str, list[Any]] = field(default_factory=dict)

    def text(self) -> str:
        """One line for each exchange, cases in order: differences between two files read well."""
        head = {"broker": self.broker, "recorded": self.recorded, "later": dict(sorted(self.later.items()))}
        blocks = []
        for name in sorted(self.cases):
            lines = ",\n".join("  " + json.dumps(exchange, sort_keys=True) for exchange in self.cases[name])
            blocks.append(f"{json.dumps(name)}: [\n{lines}\n]" if lines else f"{json.dumps(name)}: []")
        shown = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
        return "{\n" + ",\n".join(shown) + ',\n"cases": {\n' + ",\n".join(blocks) + "\n}}\n"


class Truth:
    """The answers of all generations; `store` and `save` renew them."""

    def __init__(self, *, recording: bool = False, directory: Path = DIRECTORY) -> None:
        self.recording = recording
        self.changed: list[str] = []
        self._directory = directory
        self._files: dict[str, Recorded] = {}
        self._stored: dict[str, set[str]] = {}

    def file(self, generation: str) -> Recorded:
        """Recorded answers of a generation; empty ones if it has no file."""
        if generation not in self._files:
            path = self._directory / f"{generation}.json"
            self._files[generation] = Recorded(**json.loads(path.read_text())) if path.exists() else Recorded()
        return self._files[generation]

    def cases(self, generation: str) -> dict[str, list[Any]]:
        """Every recorded case of a generation."""
        return self.file(generation).cases

    def get(self, generation: str, case: str) -> list[Any] | None:
        return self.cases(generation).get(case)

    def store(self, generation: str, case: str, rendered: list[Any]) -> bool:
        """Whether the case is told otherwise than before."""
        cases = self.cases(generation)
        before = cases.get(case)
        cases[case] = rendered
        self._stored.setdefault(generation, set()).add(case)
        return before is not None and before != json.loads(json.dumps(rendered))

    def save(self, brokers: dict[str, str], today: datetime.date) -> None:
        """Writes what was stored; `brokers`: the release of each generation."""
        self._directory.mkdir(exist_ok=True)
        for generation, stored in self._stored.items():
            known = self.file(generation)
            known.broker = brokers[generation]
            if stored == known.cases.keys():
                known.recorded, known.later = today.isoformat(), {}
            else:
                known.later |= dict.fromkeys(stored, today.isoformat())
            (self._directory / f"{generation}.json").write_text(known.text())
        self._stored.clear()
