"""The recorded answers of the real brokers: truth/<generation>.json, {case: [[label, response], ...]}."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DIRECTORY = Path(__file__).parent / "truth"


class Truth:
    """The answers of both generations, read on first use; `store` and `save` renew them case by case."""

    def __init__(self, *, recording: bool = False, directory: Path = DIRECTORY) -> None:
        self.recording = recording
        self._directory = directory
        self._cases: dict[str, dict[str, list[Any]]] = {}
        self._changed: set[str] = set()

    def cases(self, generation: str) -> dict[str, list[Any]]:
        """Every recorded case of a generation."""
        if generation not in self._cases:
            path = self._directory / f"{generation}.json"
            self._cases[generation] = json.loads(path.read_text()) if path.exists() else {}
        return self._cases[generation]

    def get(self, generation: str, case: str) -> list[Any] | None:
        return self.cases(generation).get(case)

    def store(self, generation: str, case: str, rendered: list[Any]) -> None:
        self.cases(generation)[case] = rendered
        self._changed.add(generation)

    def save(self) -> None:
        """One line per exchange, cases in order: differences between two runs read well."""
        self._directory.mkdir(exist_ok=True)
        for generation in self._changed:
            cases = self._cases[generation]
            blocks = []
            for name in sorted(cases):
                lines = ",\n".join("  " + json.dumps(exchange, sort_keys=True) for exchange in cases[name])
                blocks.append(f"{json.dumps(name)}: [\n{lines}\n]" if lines else f"{json.dumps(name)}: []")
            (self._directory / f"{generation}.json").write_text("{\n" + ",\n".join(blocks) + "\n}\n")
        self._changed.clear()
