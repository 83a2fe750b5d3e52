"""`make differential`: random sequences of requests to the simulator and to a real Kafka; exit 1 on a new difference.

python -m tests.differential --version 4.1 --minutes 5 --seed 1
python -m tests.differential --version 3.4 --brokers 2
python -m tests.differential --version 3.4 --replay FILE
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from kafka_wire.errors import Err
from tests.differential import generators, peers
from tests.differential.catalogue import apis
from tests.differential.play import Peer
from tests.differential.runner import Runner, Tally
from tests.differential.sequence import Sequence

PROGRESS_S = 30.0


def main(argv: list[str] | None = None) -> int:
    """Runs the tester; the exit code: 0 equal, 1 a difference that is not known, 2 wrong arguments."""
    given = _arguments(argv)
    code = 0
    for version in given.version:
        code |= asyncio.run(_run(version, given))
    return code


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make differential", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--version", action="append", choices=list(peers.REFERENCES), help="which Kafka (default: 3.4 and 4.1)"
    )
    parser.add_argument("--brokers", type=int, choices=[1, 2, 3], default=1, help="of each cluster (default: 1)")
    parser.add_argument("--minutes", type=float, default=2.0, help="how long, for each version (default: 2)")
    parser.add_argument("--sequences", type=int, default=10**9, help="how many at most")
    parser.add_argument(
        "--seed", type=int, default=None, help="of the first sequence, the next ones count on (default: by the clock)"
    )
    parser.add_argument("--side-by-side", type=int, default=24, help="sequences at a time (default: 24)")
    parser.add_argument(
        "--only", choices=[*generators.KINDS, *generators.CLUSTER_KINDS], default="", help="one kind of sequences alone"
    )
    parser.add_argument(
        "--without", action="append", choices=list(apis()), default=[], help="an API that is not played; repeatable"
    )
    parser.add_argument("--replay", type=Path, action="append", default=[], help="play this file instead; repeatable")
    parser.add_argument(
        "--self", action="store_true", help="the simulator against itself: what is no function of the requests shows"
    )
    parser.add_argument(
        "--out", type=Path, default=Path(tempfile.gettempdir()) / "broker-sim-differential", help="where findings go"
    )
    given = parser.parse_args(argv)
    given.version = given.version or ["3.4", "4.1"]
    given.seed = random.SystemRandom().randrange(10**8) if given.seed is None else given.seed
    return given


async def _run(version: str, given: argparse.Namespace) -> int:
    began = time.monotonic()
    say(f"== {version}, {given.brokers} brokers, seed {given.seed}")
    needs = {"sweeping": given.only == "expiring", "sharing": peers.with_sharing(version, given.only)}
    reference = peers.simulated if given.self else peers.real
    with (
        reference(version, given.brokers, **needs) as real,
        peers.simulated(version, given.brokers, **needs) as simulated,
    ):
        runner = await _prepared(version, real, simulated, given)
        progress = asyncio.create_task(_progress(runner.tally))
        try:
            await runner.run(
                _sequences(runner, given),
                side_by_side=given.side_by_side,
                seconds=given.minutes * 60,
                number=given.sequences,
            )
        finally:
            progress.cancel()
        report(runner, time.monotonic() - began)
    return 1 if runner.tally.unknown else 0


async def _prepared(version: str, real: Peer, simulated: Peer, given: argparse.Namespace) -> Runner:
    runner = Runner(version, real, simulated, say, given.out, given.without)
    await runner.prepare()
    return runner


def _sequences(runner: Runner, given: argparse.Namespace) -> Iterator[Sequence]:
    if given.replay:
        return (Sequence.load(path) for path in given.replay)
    seeds = itertools.count(given.seed)
    return (generators.sequence(seed, runner.versions, given.only, runner.brokers) for seed in seeds)


async def _progress(tally: Tally) -> None:
    began = time.monotonic()
    while True:
        await asyncio.sleep(PROGRESS_S)
        rate = tally.answers / (time.monotonic() - began)
        say(
            f"   {tally.sequences} sequences, {tally.answers} answers equal ({rate:.0f}/s), {len(tally.findings)} kinds of differences"
        )


def report(runner: Runner, seconds: float) -> None:
    """The summary: coverage, tolerances, differences."""
    tally = runner.tally
    say(f"-- {runner.version}: answers that were equal, by API and version, and the error codes among them")
    for (api, version), count in sorted(tally.counts.items()):
        codes = ", ".join(_code(code) for code in sorted(tally.coverage[api, version]))
        say(f"   {api} v{version}: {count}  {codes}")
    for name, (low, high) in runner.versions.items():
        missed = [v for v in range(low, high + 1) if not tally.counts[name, v]]
        if missed:
            say(f"   never: {name} {', '.join(f'v{v}' for v in missed)}")
    fields = ", ".join(f"{field} {count}" for field, count in sorted(tally.bent.items()))
    say(f"-- boundary values: {tally.bent.total()} in requests of equal answers: {fields or 'none'}")
    say(f"-- tolerated: {', '.join(f'{name} {count}' for name, count in sorted(tally.tolerated.items())) or 'nothing'}")
    for finding in tally.findings.values():
        title = "known" if finding.known else "DIFFERENCE"
        where, real, ours = finding.difference.rows[0]
        say(
            f"-- {title}, {finding.times} times: {where}: Kafka {str(real)[:150]}, the simulator {str(ours)[:150]}; {finding.file}"
        )
    say(
        f"== {runner.version}: {tally.answers} answers and {tally.log_records} log records equal in {tally.sequences} sequences,"
        f" {seconds:.0f} s; {len(tally.unknown)} kinds of new differences, {len(tally.findings) - len(tally.unknown)} known,"
        f" {tally.once} that did not come back, {tally.broken} not played, {tally.untimely} sequences too slow for their timers"
    )


def _code(code: int) -> str:
    try:
        return f"{code} {Err(code).name}"
    except ValueError:
        return str(code)


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
