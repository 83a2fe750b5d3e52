"""numpy's generators that were there before a run: ``_rng = default_rng()`` of a module.

They draw in C, where nothing can be asked whose draw it is. So those that are found are seeded for the run, by its seed and the name of
their place, and have their state back afterwards: what a module holds, its classes, functions' defaults, small containers and objects.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from zlib import crc32

if TYPE_CHECKING:
    from broker_sim.simulation.virtual.patches import Patches

__all__ = ["seed"]

_CONTAINERS = {list, tuple, set, frozenset, dict}
_SMALL = 64
_HEAP_TYPE = 1 << 9
"""Type flag of a class that Python code has made."""
_NOT_OF = {"broker_sim", "random", "numpy", "secrets", "hypothesis", "_pytest", "pytest"}


class _KnownGenerators:
    """Cache of the generators that were found, valid while the modules are the same."""

    modules: tuple[int, str] = (0, "")
    generators: dict[int, tuple[str, Any]] = {}  # noqa: RUF012
    """Id -> (the name of its place, generator)."""


def seed(p: Patches) -> None:
    """Seed the numpy generators that modules have as attributes or as defaults of their functions."""
    numpy: Any = sys.modules.get("numpy.random")
    if numpy is None:
        return
    modules = len(sys.modules), next(reversed(sys.modules), "")
    if _KnownGenerators.modules != modules:
        finder = _Found((numpy.Generator, numpy.RandomState, numpy.BitGenerator))
        finder.look()
        _KnownGenerators.modules, _KnownGenerators.generators = modules, finder.by_id
    for name, generator in list(_KnownGenerators.generators.values()):
        try:
            p.then(_seeded(generator, f"{p.seed}/{name}"))
        except Exception as error:
            p.not_pinned(f"{name}, a {type(generator).__name__}, can't be seeded: {error!r}")


def _seeded(generator: Any, text: str) -> Callable[[], object]:
    """Seed it; the function gives it back its state."""
    number = crc32(text.encode())
    if hasattr(generator, "get_state"):  # RandomState
        legacy = generator.get_state()
        generator.seed(number)
        return lambda: generator.set_state(legacy)
    bits = getattr(generator, "bit_generator", generator)
    before = bits.state
    bits.state = type(bits)(number).state
    return lambda: setattr(bits, "state", before)


class _Found:
    """Generators of ``kinds``, by the names of their places."""

    def __init__(self, kinds: tuple[type, ...]) -> None:
        self.kinds = kinds
        self.by_id: dict[int, tuple[str, Any]] = {}

    def look(self) -> None:
        """Search all imported modules for numpy generators."""
        for name, module in sys.modules.copy().items():
            if name.partition(".")[0] not in _NOT_OF:
                for key, value in _own(module):
                    self._look(name, key, value)

    def _look(self, module: str, key: str, value: Any) -> None:
        kind = type(value)
        if kind is types.FunctionType:
            self._defaults(value, module, key)
        elif issubclass(kind, type):
            if value.__module__ == module:
                for inner, held in list(vars(value).items()):
                    self._is_it(held, module, key, inner)
                    if type(held) is types.FunctionType:
                        self._defaults(held, module, key, inner)
        elif kind in _CONTAINERS:
            if 0 < len(value) <= _SMALL:
                for number, item in enumerate(list(value.values() if kind is dict else value)):
                    self._is_it(item, module, key, number)
        else:
            self._is_it(value, module, key)
            if kind.__flags__ & _HEAP_TYPE:
                for inner, held in _own(value):
                    self._is_it(held, module, key, inner)

    def _defaults(self, function: Any, *path: object) -> None:
        for number, default in enumerate(function.__defaults__ or ()):
            self._is_it(default, *path, number)
        for name, default in (function.__kwdefaults__ or {}).items():
            self._is_it(default, *path, name)

    def _is_it(self, value: Any, *path: object) -> None:
        if issubclass(type(value), self.kinds):  # by what it is: a proxy without a context raises whatever it is asked
            self.by_id.setdefault(id(value), (".".join(map(str, path)), value))


def _own(thing: Any) -> Iterator[tuple[str, Any]]:
    """Attributes of an object; none where it does not give access to them."""
    try:
        own = thing.__dict__
    except Exception:  # a proxy's own: not ours to say
        return iter(())
    return iter(list(own.items())) if type(own) is dict else iter(())
