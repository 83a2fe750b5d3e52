"""One run twice, compared event by event.

    check_repeatable(lambda sim: program(sim), seed=7)        # raises NotRepeatable at the first event that is another one

``recording`` finds what makes runs differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker_sim.simulation.virtual.recording import CAUSES, NotRepeatable, RunRecording
from broker_sim.simulation.world import Simulation, simulate

__all__ = ["check_repeatable"]


def check_repeatable(run: Callable[[Simulation], object], seed: object = 0, **options: Any) -> None:
    """Run ``run(sim)`` twice with one seed (``options``: `simulate`'s), in this process. Raises NotRepeatable, and what ``run`` raises.
    That another process runs the same takes a pinned hash seed as well: ``sim.pinned``."""
    first = RunRecording()
    with simulate(seed, recording=first, **options) as sim:
        run(sim)
        schedule = sim.schedule_hash
    second = RunRecording(first)
    with simulate(seed, recording=second, **options) as sim:

        def stop_at_the_first_difference() -> None:
            if second.difference is not None:
                at_s = sim.elapsed_s
                raise NotRepeatable(f"seed {seed!r}, {at_s:.6f} s from the beginning: {second.difference}\n{CAUSES}")

        sim.loop.after_turn = stop_at_the_first_difference
        run(sim)
        second.end()
        stop_at_the_first_difference()
        if sim.schedule_hash != schedule:
            raise NotRepeatable(
                f"seed {seed!r}: the same events, but not the same schedule of the loop (trace=True also hashes the callbacks' names)"
            )
