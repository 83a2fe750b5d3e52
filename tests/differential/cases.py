"""Small sequences that once were differences, with what real brokers answered: held in every test run, without a JVM.

python -m tests.differential.cases --record        # plays cases/*.json on the real brokers, writes truth/*.json
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from tests.differential import barriers, peers
from tests.differential.normal import differences
from tests.differential.play import Peer, Play
from tests.differential.runner import Runner
from tests.differential.sequence import Sequence
from tests.differential.tolerances import tolerated

HERE = Path(__file__).parent
CASES = sorted((HERE / "cases").glob("*.json"))
VERSIONS = ("3.4", "4.1")
DEADLINE_S = 20.0
NEAR_MS = 600_000


async def answers(peer: Peer, case: Path) -> list[Any]:
    """The answers of one broker alone to the case's steps, as plain data; a step that its version lacks has none."""
    sequence = Sequence.load(case)
    play = Play(sequence, peer, peer, f"c{CASES.index(case)}-")
    [side, _] = play.sides
    shown = await side.ask_versions()
    out: list[Any] = []
    try:
        for number, step in enumerate(sequence.steps):
            low, high = shown.get(step.api, (1, 0))
            if not low <= step.version <= high:
                out.append("no such version")
                continue
            await side.send(number, step)
            give_up = time.monotonic() + DEADLINE_S
            while number not in side.answers:
                if time.monotonic() > give_up:
                    raise TimeoutError(f"waited {DEADLINE_S:g} s for the answer to {step}")
                await asyncio.sleep(0.002)
            out.append(_without_times(play.plain(side, number, step), int(time.time() * 1000)))
            await barriers.after([side], step, play.message(0, number))
    finally:
        play.close()
    return out


def _without_times(plain: Any, now_ms: int) -> Any:
    if isinstance(plain, dict):
        return {name: _without_times(value, now_ms) for name, value in plain.items()}
    if isinstance(plain, list):
        return [_without_times(value, now_ms) for value in plain]
    return "now" if isinstance(plain, int) and abs(plain - now_ms) < NEAR_MS else plain


def against(truth: list[Any], seen: list[Any], case: Path) -> list[tuple[str, Any, Any]]:
    """Where the answers differ from the recorded ones, tolerances taken off."""
    rows = []
    for step, real, ours in zip(Sequence.load(case).steps, truth, json.loads(json.dumps(seen)), strict=True):
        where = f"{step.api} v{step.version}"
        rows += [
            (where + path, *pair) for path, *pair in differences(real, ours) if tolerated(where + path, *pair) is None
        ]
    return rows


def recorded(version: str) -> dict[str, list[Any]]:
    """Case name -> answers of the real broker."""
    found: dict[str, list[Any]] = json.loads((HERE / "truth" / f"{version}.json").read_text())
    return found


async def _record(version: str) -> None:
    with peers.real(version) as real:
        await Runner(version, real, real, print, HERE).prepare()
        found = {case.stem: await answers(real, case) for case in CASES}
    lines = [f" {json.dumps(name)}: {json.dumps(rows)}" for name, rows in found.items()]
    (HERE / "truth" / f"{version}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__" and sys.argv[1:] == ["--record"]:
    for one in VERSIONS:
        asyncio.run(_record(one))
