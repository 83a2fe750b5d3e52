"""The mutation score of the general sweep: see the package.

python -m tests.mutation --count 60 --budget 20 --seed 1 --rows mutants.jsonl
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import sys
from pathlib import Path

from tests.mutation.mutants import OUTSIDE, ROOMS, Mutant, all_mutants
from tests.mutation.score import Scored, baseline, report, score, told

_SEED = "0"
"""Python's hash seed, which runs need pinned."""


def drawn(count: int, seed: str, rooms: tuple[str, ...]) -> list[Mutant]:
    """So many mutants, of each room as many, mixed."""
    shares = []
    for room in rooms:
        every = all_mutants((room,))
        shares.append(random.Random(f"{seed}/{room}").sample(every, min(len(every), -(-count // len(rooms)))))
    return [mutant for row in zip(*shares, strict=False) for mutant in row][:count]


def _line(one: Scored) -> str:
    told_of = {name: getattr(one, name) for name in ("verdict", "after_s", "runs", "by")}
    return json.dumps({"mutant": dataclasses.asdict(one.mutant), **told_of})


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=60, help="mutants, of each room as many (60)")
    parser.add_argument(
        "--budget", type=float, default=60.0, metavar="S", help="CPU seconds of the sweep for each (60)"
    )
    parser.add_argument("--seed", default="1", help="which mutants are drawn")
    parser.add_argument("--room", action="append", choices=ROOMS, help="only of this room; may be given again")
    parser.add_argument(
        "--only", metavar="TEXT", help="all mutants whose name or function has this text, in place of a sample"
    )
    parser.add_argument("--rows", type=Path, help="a line of JSON for each mutant, as it is done")
    parser.add_argument("--list", action="store_true", help="tell how many there are, and end")
    options = parser.parse_args()
    rooms = tuple(options.room or ROOMS)
    if options.list:
        for room in rooms:
            print(f"{room:14} {len(all_mutants((room,)))}")
        print(*(f"left out: {file}: {why}" for file, why in OUTSIDE.items()), sep="\n")
        return 0
    if os.environ.get("PYTHONHASHSEED") != _SEED:
        os.environ["PYTHONHASHSEED"] = _SEED
        os.execv(sys.executable, [sys.executable, "-m", "tests.mutation", *sys.argv[1:]])
    if options.only:
        mutants = [one for one in all_mutants(rooms) if options.only in f"{one.name} {one.where}"]
    else:
        mutants = drawn(options.count, options.seed, rooms)
    import aiokafka  # noqa: F401  what every child needs, but nothing of broker_sim

    base = baseline(options.budget, (one.file for one in mutants))
    if base.failures:
        print("the sweep fails without a mutant:", *(f"  run {run}: {what}" for run, what in base.failures), sep="\n")
        return 1

    def note(one: Scored) -> None:
        print(told(one), flush=True)
        if options.rows is not None:
            with options.rows.open("a") as out:
                out.write(_line(one) + "\n")

    print(report(score(mutants, base, note), base))
    return 0


if __name__ == "__main__":
    sys.exit(main())
