"""Virtual surroundings of simulated code beside the loop: clocks, randomness, threads, sockets, the garbage collector.

Rules:
1. Everything here is in force from the beginning of a simulation to its end, in its thread alone: other threads see the real world.
   Those of synchronous programs have patch points of their own (``blocking``).
2. Randomness is drawn per process: what one host draws leaves the others as they are.
3. Where a library has to be met inside, the place is looked at first: `LibraryMoved` where it is no longer what it was. A test of the
   suite asks every one of ``PINS`` whether it has an effect.
4. A replaced function is virtual under every name that it was imported as (``in_place``), except in the test runner (``around``).
5. The hash seed of Python can't be pinned inside a process: see ``hashseed``.
6. Not reached: clocks and generators that C code has for itself, hashes of objects by their address. Code that iterates a set of plain
   objects is not repeatable.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from broker_sim.simulation.virtual import (
    aiokafka_pins,
    around,
    chance,
    clocks,
    native,
    native_sockets,
    open_resources,
    patches,
    real_world,
)

if TYPE_CHECKING:
    from broker_sim.simulation.virtual.loop import SimLoop
    from broker_sim.simulation.virtual.patches import Patches

__all__ = ["PINS", "ambient"]


def _garbage(p: Patches) -> None:
    """No finaliser runs during a run; older objects are not examined at its end."""
    if gc.isenabled():
        gc.disable()
        p.then(gc.enable)
    if not clocks.is_frozen():
        gc.freeze()
        p.then(gc.unfreeze)


PINS: dict[str, Callable[[Patches], None]] = {
    **clocks.PINS,
    **chance.PINS,
    **real_world.PINS,
    **open_resources.PINS,
    **native.PINS,
    **native_sockets.PINS,
    **around.PINS,
    **aiokafka_pins.PINS,
    "garbage": _garbage,
}
"""Functions that pin the surroundings, by name, in the order of their calls. Those of aiokafka only where it is installed."""


def _import_clients() -> bool:
    """Whether aiokafka is installed. It is imported before anything is pinned, so that it takes no pinned function for good."""
    if importlib.util.find_spec("aiokafka") is None:
        return False
    importlib.import_module("aiokafka.admin")
    return True


@contextmanager
def ambient(
    loop: SimLoop,
    seed: object,
    *,
    without: tuple[str, ...] = (),
    reasons: list[str] | None = None,
    also: Callable[[], object] = lambda: None,
) -> Iterator[None]:
    """Pin everything but what is named ``without`` while the block runs; what can't be is added to ``reasons``. ``also`` makes doors of
    its own, before what runs the test is given back what it has taken. Raises LibraryMoved."""
    kafka = _import_clients()
    p = patches.Patches(loop, seed, reasons)
    patches.begin(p)
    try:
        for name, pin in PINS.items():
            if name in around.PINS:
                also()
            if name not in without and (kafka or not name.startswith("aiokafka")):
                pin(p)
        yield
    finally:
        patches.end()
        p.restore()
