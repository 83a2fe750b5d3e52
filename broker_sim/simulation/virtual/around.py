"""Real time for the test runner around a simulation, and for waits of Python's own for other threads.

What such a module has taken by name (``from time import perf_counter``) is what it was. What it asks its own names for, as in
``time.perf_counter()``, is virtual in the simulation's thread like everybody's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from broker_sim.simulation.virtual.patches import Patches

__all__ = ["PINS"]

_AROUND = (
    *(
        "broker_sim.simulation",
        "threading",
        "queue",
        "subprocess",
        "multiprocessing",
        "concurrent",
        "selectors",
        "tokenize",
    ),
    *("_pytest", "pytest", "pluggy", "pytest_timeout", "xdist", "execnet", "hypothesis", "coverage"),
    *("bdb", "pdb", "pydevd", "debugpy", "cProfile", "profile"),
)
"""Modules, with those below them."""
_AROUND_AND_BELOW = tuple(f"{name}." for name in _AROUND)


def _test_runners(p: Patches) -> None:
    """Tools that run the test around the simulation, and Python's waits for other threads, keep the real clocks that they imported."""
    real = {id(point.there): point for point in p.in_place}
    modules = len(sys.modules), next(reversed(sys.modules), "")
    if _KnownModules.modules != modules or _KnownModules.of != p.names:
        _KnownModules.modules, _KnownModules.of = modules, set(p.names)
        _KnownModules.names = [
            (module, name, value)
            for key, module in sys.modules.copy().items()
            if key in _AROUND or key.startswith(_AROUND_AND_BELOW)
            for name, value in list(vars(module).items())
            if id(value) in real and (key, name) not in p.names
        ]
    for module, name, function in _KnownModules.names:
        if vars(module).get(name) is function:
            p.put(module, name, real[id(function)].real)


class _KnownModules:
    """Cache of the names that were found in the modules, valid while the modules are the same."""

    modules: tuple[int, str] = (0, "")
    of: set[tuple[str, str]] = set()  # noqa: RUF012
    names: list[tuple[Any, str, Any]] = []  # noqa: RUF012


PINS: dict[str, Callable[[Patches], None]] = {"test runners": _test_runners}
