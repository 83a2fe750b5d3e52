"""Small sequences that once were differences, with what real brokers answered: held in every test run, without a JVM.

python -m tests.differential.cases --record        # plays cases/*.json on the real brokers, writes truth/*.json
python -m tests.differential.cases --record 2      # those for two brokers alone
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
import zlib
from pathlib import Path
from typing import Any

from tests.conformance.driver import clock_s
from tests.differential import barriers, peers, settling
from tests.differential.normal import SHARED_TOPICS, differences
from tests.differential.play import Peer, Play
from tests.differential.runner import Runner
from tests.differential.sequence import Sequence
from tests.differential.symbols import OFFSETS
from tests.differential.tolerances import tolerated
from tests.differential.worlds import perform

HERE = Path(__file__).parent
CASES = sorted((HERE / "cases").glob("*.json"))
VERSIONS = ("3.4", "3.9", "4.1", "4.4")
DEADLINE_S = 20.0
NEAR_MS = 600_000


def cases(brokers: int) -> list[Path]:
    """Return the cases for clusters of that size."""
    return [case for case in CASES if Sequence.load(case).brokers == brokers]


SIZES = (1, 2, 3)


def _prefix(case: Path) -> str:
    """Return the prefix of the names in a case: always as long, and the same whatever cases come and go, as a damaged name shows it."""
    return f"c{zlib.crc32(case.stem.encode()) % 10**6:06}-"


async def answers(peer: Peer, case: Path) -> list[Any]:
    """The answers of one broker alone to the case's steps, as plain data; a step that its version lacks has none."""
    sequence = Sequence.load(case)
    play = Play(sequence, peer, peer, _prefix(case))
    [side, _] = play.sides
    shown = await side.ask_versions()
    out: list[Any] = []
    told: set[int] = set()
    try:
        if sequence.brokers > 1:
            await settling.settled(side, [OFFSETS, *SHARED_TOPICS])
        for number, step in enumerate(sequence.steps):
            if step.world:
                await perform([side], step.world)
                out.append("done")
                continue
            low, high = shown.get(step.api, (1, 0))
            if not low <= step.version <= high:
                out.append("no such version")
                continue
            await side.send(number, step)
            if step.held or step.silent:
                out.append("no answer")
                continue
            give_up = clock_s() + DEADLINE_S
            while number not in side.answers:
                if clock_s() > give_up:
                    raise TimeoutError(f"waited {DEADLINE_S:g} s for the answer to {step}")
                await asyncio.sleep(0.002)
            out.append(None)
            now_ms = int(time.time() * 1000)
            for earlier in sorted(side.answers.keys() - told):
                out[earlier] = _without_times(play.plain(side, earlier, sequence.steps[earlier]), now_ms)
                told.add(earlier)
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
    """Return the differences between the answers and the recorded ones, tolerances taken off."""
    rows = []
    for step, real, ours in zip(Sequence.load(case).steps, truth, json.loads(json.dumps(seen)), strict=True):
        where = f"{step.api} v{step.version}"
        rows += [
            (where + path, *pair) for path, *pair in differences(real, ours) if tolerated(where + path, *pair) is None
        ]
    return rows


def recorded(version: str, brokers: int = 1) -> dict[str, list[Any]]:
    """Case name -> answers of the real brokers."""
    found: dict[str, list[Any]] = json.loads(_truth(version, brokers).read_text())
    return found


def _truth(version: str, brokers: int) -> Path:
    return HERE / "truth" / f"{version}{'' if brokers == 1 else f'-{brokers}-brokers'}.json"


async def _record(version: str, brokers: int) -> None:
    with peers.real(version, brokers) as real:
        await Runner(version, real, real, print, HERE).prepare()
        found = {case.stem: await answers(real, case) for case in cases(brokers)}
    lines = [f" {json.dumps(name)}: {json.dumps(rows)}" for name, rows in found.items()]
    _truth(version, brokers).write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__" and sys.argv[1:2] == ["--record"]:
    for one in VERSIONS:
        for size in [int(given) for given in sys.argv[2:]] or SIZES:
            asyncio.run(_record(one, size))
