"""Plays scenarios in virtual time and tells what they came to, for processes that are to come to the same.

python -m tests.scenarios.alike crash-without-leave ...             # a line of JSON for each
python -m tests.scenarios.alike --events crash-without-leave        # its events, a line each
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from itertools import zip_longest

from broker_sim.scenario.commands import shipped
from broker_sim.scenario.model import read
from broker_sim.scenario.runner import ScenarioOptions
from broker_sim.scenario.virtual import play
from broker_sim.simulation.virtual.recording import RunRecording


def first_difference(one: str, other: str, before: int = 3) -> str:
    """Two runs' events: the first that differs, and what came before it."""
    pairs = list(zip_longest(one.splitlines(), other.splitlines(), fillvalue="(nothing)"))
    at = next((number for number, (a, b) in enumerate(pairs) if a != b), len(pairs))
    same = [f"  both   {line}" for line, _ in pairs[max(0, at - before) : at]]
    return "\n".join([f"event {at + 1}", *same, *(f"  differs {line}" for pair in pairs[at : at + 1] for line in pair)])


def main(words: list[str]) -> None:
    """Play the scenarios of these names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", action="store_true")
    parser.add_argument("--client", default="aiokafka")
    parser.add_argument("names", nargs="+")
    asked = parser.parse_args(words)
    for name in asked.names:
        scenario, recording = read(shipped() / f"{name}.yaml"), RunRecording()
        started_s = time.process_time()
        outcome = play(
            scenario, ScenarioOptions(clients={"*": asked.client}), recording=recording if asked.events else None
        )
        if asked.events:
            print("\n".join(recording.lines))
            continue
        hashes = {"journal": outcome.journal_hash, "schedule": outcome.schedule_hash}
        times = {"virtual_s": round(outcome.seconds, 3), "cpu_s": round(time.process_time() - started_s, 3)}
        print(json.dumps({"scenario": name, "code": outcome.code, **hashes, **times}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
