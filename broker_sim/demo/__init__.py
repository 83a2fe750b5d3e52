"""The demo: real aiokafka consumers share a topic, one crashes, the broker is killed and comes back.

    python -m broker_sim.demo                # everything in a temporary directory; exit code 1 if a check fails

Rules:
1. Whatever is printed has happened: the broker is `broker-sim serve` in a process of its own, each consumer is a process of its own
   (consumer.py), and what they do is learnt from them and from the broker's answers, never assumed.
2. What is asserted holds at any speed of the machine (ledger.py); times are shown, not asserted.
3. Nothing waits for a time: every wait is for an event, with a deadline that says what was missing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo. Returns 0 if all checks held, 1 if not, 2 if it could not be started."""
    parser = argparse.ArgumentParser(prog="python -m broker_sim.demo", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", metavar="DIR", help="keep the broker's data directory here (default: a temporary one)"
    )
    parser.add_argument("--as-version", default="4.1", metavar="X.Y", help="the Kafka to behave as (default: 4.1)")
    arguments = parser.parse_args(argv)
    try:
        import aiokafka  # noqa: F401
    except ImportError:
        print("the demo needs aiokafka: python -m pip install 'broker-sim[demo]'", file=sys.stderr)
        return 2
    from broker_sim.demo.story import run

    return run(arguments.data, arguments.as_version)
