"""Sizes of shrunk failures: mutants that a general sweep finds, each with the first run that fails, made small.

    PYTHONHASHSEED=0 python -m tests.mutation.shrinking --count 50 --rows shrunk.jsonl

For each: faults and callbacks (`trial.Outcome.steps`) of the run as it was found and of the smallest one, and the runs and CPU seconds
that it took. Mutants are drawn and looked for as in `score`, but for `--look` CPU seconds each: who is not found soon is passed by.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.mutation.loading import load_with
from tests.mutation.mutants import ROOMS, Mutant
from tests.mutation.score import SECONDS, child_rows

__all__ = ["report"]

_WALL_S = 600.0


def _found_and_shrunk(
    mutant: Mutant, look_s: float, budget: int, seconds: float, tell: Callable[[dict[str, Any]], None]
) -> None:
    load_with(mutant)
    from broker_sim.simulation.sweeps.shrink import shrink
    from broker_sim.simulation.sweeps.trial import WORKLOADS, Case, run

    names, spent_s, number = tuple(WORKLOADS), 0.0, 0
    while spent_s < look_s:
        outcome = run(Case(names[number % len(names)], number, seconds))
        spent_s += outcome.cpu_s
        if outcome.failure is not None:
            break
        number += 1
    else:
        return
    began_s = os.times()[0]
    small = shrink(outcome.case, outcome.failure, budget=budget)
    tell(
        {
            "mutant": mutant.name, "seed": number, "workload": outcome.case.workload, "failure": outcome.failure,
            "faults": len(outcome.case.plan or ()), "steps": outcome.steps, "virtual_s": outcome.virtual_s,
            "faults_after": len(small.case.plan or ()), "steps_after": small.outcome.steps, "virtual_s_after": small.outcome.virtual_s,
            "same": small.outcome.failure == outcome.failure, "runs": small.runs, "done": small.done,
            "cpu_s": os.times()[0] - began_s, "case": small.case.to_dict(),
        }
    )  # fmt: skip


def report(rows: list[dict[str, Any]]) -> str:
    """The medians, and what is left of the faults and of the steps."""
    shares = [row["steps_after"] / row["steps"] for row in rows]
    after = [row["faults_after"] for row in rows]
    middle = statistics.median
    return "\n".join(
        [
            f"{len(rows)} failures: faults {middle([row['faults'] for row in rows]):g} -> {middle(after):g} (median), "
            f"at most two in {sum(count <= 2 for count in after)}, at most {max(after)}",
            f"steps {middle([row['steps'] for row in rows]):g} -> {middle([row['steps_after'] for row in rows]):g}, "
            f"{middle(shares):.0%} of what they were (median), a third or less in {sum(share <= 1 / 3 for share in shares)}",
            f"{middle([row['runs'] for row in rows]):g} runs, {middle([row['cpu_s'] for row in rows]):.1f} CPU s each (median)",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=50, help="failures (50)")
    parser.add_argument("--look", type=float, default=6.0, metavar="S", help="CPU seconds for finding each (6)")
    parser.add_argument("--budget", type=int, default=150, help="runs for making one small (150)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="virtual seconds of a run with faults (10)")
    parser.add_argument("--seed", default="small", help="which mutants are drawn")
    parser.add_argument("--rows", type=Path, help="a line of JSON for each, as it is done")
    parser.add_argument("--again", type=Path, metavar="FILE", help="the mutants of this file of rows, and no others")
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        sys.stderr.write("PYTHONHASHSEED=0 is needed\n")
        return 2
    from tests.mutation.__main__ import drawn

    mutants = drawn(20 * options.count, options.seed, ROOMS)
    if options.again is not None:
        wanted = {json.loads(line)["mutant"] for line in options.again.read_text().splitlines()}
        mutants = [mutant for mutant in mutants if mutant.name in wanted]
    import aiokafka  # noqa: F401  what every child needs, but nothing of broker_sim

    rows: list[dict[str, Any]] = []
    for mutant in mutants:
        if len(rows) >= options.count:
            break

        def child(tell: Callable[[dict[str, Any]], None], mutant: Mutant = mutant) -> None:
            _found_and_shrunk(mutant, options.look, options.budget, options.seconds, tell)

        for row in child_rows(child, _WALL_S):
            if "died" in row:  # nobody could start it, or it hangs: there is no run to make small
                continue
            rows.append(row)
            print(*(f"{name} {row[name]}" for name in row if name != "case"), flush=True)
            if options.rows is not None:
                with options.rows.open("a") as out:
                    out.write(json.dumps(row) + "\n")
    print(report(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
