"""The demo: real aiokafka consumers share a topic, one crashes, the broker is killed and comes back; an offsets partition is stuck.

    broker-sim demo                          # everything in a temporary directory; exit code 1 if a check fails

Rules:
1. Whatever is printed has happened: the broker is `broker-sim serve` in a process of its own, each consumer is a process of its own
   (consumer.py), and what they do is learnt from them and from the broker's answers, never assumed.
2. What is asserted holds at any speed of the machine (ledger.py); times are shown, not asserted.
3. Nothing waits for a time: every wait is for an event, with a deadline that says what was missing.
"""

from __future__ import annotations


def play(data: str | None, as_version: str) -> int:
    """Run the demo in the directory ``data`` (None: a temporary one). Returns 0 if all checks held, 1 if not.

    Raises ModuleNotFoundError without aiokafka."""
    from broker_sim.demo.acts import run

    return run(data, as_version)
