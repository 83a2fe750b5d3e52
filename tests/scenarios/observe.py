"""Plays every fault with every client and writes what they did: tests/scenarios/observed.json, out of which docs/faults.md is made.

    python -m tests.scenarios.observe                     # all of them, two minutes
    python -m tests.scenarios.observe stuck loading       # these faults

Then `make docs`. Needs a JDK, as the Java client is one of them.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.scenarios.cases import CASES, Case, observe, scenario
from tests.scenarios.stage import Stage

TARGET = Path(__file__).with_name("observed.json")
CLIENTS = ("aiokafka", "confluent", "java-4.1")


def main(names: list[str]) -> int:
    """Play the faults of these names, all without one."""
    for name in names:
        if name not in CASES:
            print(f"no fault {name!r}; expected one of {', '.join(CASES)}", file=sys.stderr)
            return 2
    chosen = names or list(CASES)
    cases: dict[str, Case] = {f"{name}/{case.title}": case for name in chosen for case in CASES[name]}
    written: dict[str, Any] = json.loads(TARGET.read_text()) if TARGET.exists() and names else {}
    with Stage(lambda key: scenario(cases[key])) as stage:
        stage.book_all((key, client) for key in cases for client in CLIENTS)
        for key in cases:
            for client in CLIENTS:
                outcome = stage.outcome(key, client)
                found = asdict(observe(outcome.events))
                print(f"{key} {client}: {json.dumps(found)}", flush=True)
                if outcome.ended:
                    print(outcome.report(), file=sys.stderr)
                    return 1
                written.setdefault(key, {})[client] = found
    known = [f"{name}/{case.title}" for name, all_ in CASES.items() for case in all_]
    TARGET.write_text(json.dumps({key: written[key] for key in known if key in written}, indent=1) + "\n")
    print(f"{TARGET.name}: {len(cases)} faults, {len(CLIENTS)} clients")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
