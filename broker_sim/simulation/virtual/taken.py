"""What modules took of their surroundings before a run: ``from time import time``, default arguments, class attributes, partials,
``default_factory``; and generators that they have made, ``_rng = random.Random()``.

Rules:
1. The garbage collector knows who refers to a function. Every reference that can be written is replaced by the function's door for the
   run, and given back at its end, to the same object. What can't be is told (``Patches.reasons``).
2. A search goes over all objects of the process, so it is made once, and again only where somebody new may hold a function: there are
   other numbers of references than when the last run ended, or other modules. Until then a run replaces what the last search has found.
3. What runs a test around the simulation keeps real time, so do waits of Python's own for other threads: `_EXEMPT`.
4. A generator that a module, a class, a default argument or an object of a module holds is seeded for the run, by the name of its
   place, and has its state back afterwards; whether it had a seed of its own can't be told. numpy's likewise.
5. Local variables of functions that are running are not reached: they are the test's own.
"""

from __future__ import annotations

import datetime
import functools
import gc
import random
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from broker_sim.simulation.virtual.clocks import now, utcnow
from broker_sim.simulation.virtual.patches import DOORS, Behind, Door, Patches

__all__ = ["replace", "seed", "settle"]

_EXEMPT = (
    *("broker_sim.simulation", "threading", "queue", "subprocess", "multiprocessing", "concurrent", "selectors"),
    *("_pytest", "pytest", "pluggy", "pytest_timeout", "xdist", "execnet", "hypothesis", "coverage"),
    *("posix", "nt", "_signal", "_socket", "_ssl", "_random", "_io", "_sqlite3", "tokenize"),
    *("bdb", "pdb", "pydevd", "debugpy", "cProfile", "profile"),
)
"""Modules that keep what they have taken, with those below them."""

_PASSING = (types.FrameType, types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType, types.TracebackType)
"""Who holds something while it runs."""


def _exempt(name: object) -> bool:
    return isinstance(name, str) and any(name == one or name.startswith(one + ".") for one in _EXEMPT)


def _is(one: Any, kind: Any) -> bool:
    """As isinstance, by what it is and not by what it says: a proxy (Flask's, outside of its context) raises whatever it is asked."""
    return issubclass(type(one), kind)


def _own(one: Any) -> Any:
    """Its dict; None where it has none, or doesn't give it away."""
    try:
        return one.__dict__
    except Exception:  # a proxy's own: not ours to say
        return None


_DATES = {"now": now, "utcnow": utcnow}
"""Methods of ``datetime``: each access makes one anew, so that those which somebody has taken are found by their class."""


@dataclass(slots=True)
class _Place:
    """Where a reference is. ``write(holder, key, value)``."""

    read: Callable[[Any, Any], Any]
    write: Callable[[Any, Any, Any], object]
    holder: Any
    key: Any
    real: Any
    stands_in: Any

    def has(self, value: Any) -> bool:
        return self.read(self.holder, self.key) is value

    def swap(self, old: Any, new: Any) -> None:
        if self.has(old):
            self.write(self.holder, self.key, new)


# --- kinds of places -----------------------------------------------------------------------------------------------------


def _item(holder: Any, key: Any) -> Any:
    return dict.get(holder, key) if isinstance(holder, dict) else holder[key] if key < len(holder) else None


def _write_item(holder: Any, key: Any, value: Any) -> None:
    kind: Any = dict if isinstance(holder, dict) else list
    kind.__setitem__(holder, key, value)


@dataclass(slots=True)
class _Member(_Place):
    """Of a set."""

    def has(self, value: Any) -> bool:
        return value in self.holder

    def swap(self, old: Any, new: Any) -> None:
        if self.has(old):
            self.holder.remove(old)
            self.holder.add(new)


def _cell(holder: Any, key: Any) -> Any:
    try:
        return holder.cell_contents
    except ValueError:
        return None


def _write_cell(holder: Any, key: Any, value: Any) -> None:
    holder.cell_contents = value


def _class_attribute(holder: Any, key: Any) -> Any:
    return vars(holder).get(key)


def _write_class_attribute(holder: Any, key: Any, value: Any) -> None:
    type.__setattr__(holder, key, value)


def _default(holder: Any, key: Any) -> Any:
    held = holder.__defaults__
    return held[key] if held is not None and key < len(held) else None


def _write_default(holder: Any, key: Any, value: Any) -> None:
    holder.__defaults__ = _with(holder.__defaults__, key, value)


def _with(held: tuple[Any, ...], key: int, value: Any) -> tuple[Any, ...]:
    return (*held[:key], value, *held[key + 1 :])


def _partial(holder: Any, key: int) -> Any:
    parts = (holder.func, *holder.args)
    return parts[key] if key < len(parts) else None


def _write_partial(holder: Any, key: int, value: Any) -> None:
    func, *args = _with((holder.func, *holder.args), key, value)
    holder.__setstate__((func, tuple(args), holder.keywords, vars(holder)))


def _wrapped(holder: Any, key: Any) -> Any:
    return holder.__func__


def _write_wrapped(holder: Any, key: Any, value: Any) -> None:
    holder.__init__(value)


def _slot(holder: Any, key: Any) -> Any:
    try:
        return key.__get__(holder)
    except AttributeError:
        return None


def _write_slot(holder: Any, key: Any, value: Any) -> None:
    key.__set__(holder, value)


# --- the search ----------------------------------------------------------------------------------------------------------


class _Search:
    """One look at all objects. ``wanted``: id -> (what is looked for, what stands in for it)."""

    def __init__(self, wanted: dict[int, tuple[Any, Any]], ours: set[int]) -> None:
        self.wanted, self.ours = wanted, ours
        self.places: list[_Place] = []
        self.untouchable: list[tuple[Any, Any]] = []
        """(what is held, its holder) that nothing can be written to."""
        # a copy is made at once; a list of items is not, and another thread may import something
        self.modules = {id(_own(each)): name for name, each in sys.modules.copy().items() if _own(each) is not None}
        self.classes_of: dict[int, Any] = {}
        self._later: dict[int, Any] = {}  # parts of others: dicts of classes, tuples, static methods

    def run(self) -> None:
        """Fill ``places``."""
        sought = [one for one, _ in self.wanted.values()]
        for holder in gc.get_referrers(*sought):
            if holder is not sought and id(holder) not in self.ours:
                self._look(holder)
        if self._later:
            later = list(self._later.values())
            found = gc.get_referrers(*later)
            for holder in found:
                if holder is not later and holder is not self._later:
                    self._look_again(holder)
            for one in self._later.values():  # nobody's class: plain data
                if type(one) is dict:
                    self._items(one)

    def _look(self, holder: Any) -> None:
        if _is(holder, Behind):
            return
        if _is(holder, dict):
            if id(holder) in self.modules:
                if not _exempt(self.modules[id(holder)]):
                    self._items(holder)
            elif "__module__" in holder and "__doc__" in holder:
                self._later[id(holder)] = holder
            else:
                self._items(holder)
        elif _is(holder, tuple | staticmethod):
            self._later[id(holder)] = holder
        elif _is(holder, list):
            self._found(_item, _write_item, holder, enumerate(holder))
        elif _is(holder, set):
            entries = [self.wanted[id(one)] for one in holder if id(one) in self.wanted]
            self.places += [_Member(_item, _write_item, holder, None, *entry) for entry in entries]
        elif _is(holder, types.CellType):
            self._found(_cell, _write_cell, holder, [(None, _cell(holder, None))])
        elif _is(holder, functools.partial):
            self._found(_partial, _write_partial, holder, enumerate((holder.func, *holder.args)))
        elif not _is(holder, (*_PASSING, Door)) and not _exempt(type(holder).__module__):
            self._of_object(holder)

    def _items(self, holder: dict[Any, Any]) -> None:
        self._found(_item, _write_item, holder, list(holder.items()))

    def _of_object(self, holder: Any) -> None:
        """An object keeps its attributes in itself, in slots or until somebody asks for its dict."""
        count = len(self.places)
        own = _own(holder)
        if type(own) is dict:
            self._items(own)
        for kind in (each for each in type(holder).__mro__ if each.__flags__ & _HEAP_TYPE):
            slots = [one for one in vars(kind).values() if isinstance(one, types.MemberDescriptorType)]
            self._found(_slot, _write_slot, holder, [(one, _slot(holder, one)) for one in slots])
        if len(self.places) == count:
            self.untouchable += [(one, holder) for one in gc.get_referents(holder) if id(one) in self.wanted]

    def _look_again(self, holder: Any) -> None:
        """Who holds a tuple, or whose dict it is."""
        if _is(holder, type):
            if not _exempt(holder.__module__):
                self._found(_class_attribute, _write_class_attribute, holder, list(vars(holder).items()))
                for one in vars(holder).values():
                    if isinstance(one, staticmethod):
                        self._found(_wrapped, _write_wrapped, one, [(None, one.__func__)])
            for one in gc.get_referents(holder):
                self._later.pop(id(one), None)
        elif _is(holder, types.FunctionType) and holder.__defaults__ and not _exempt(holder.__module__):
            self._found(_default, _write_default, holder, enumerate(holder.__defaults__))
        elif _is(holder, functools.partial):
            self._found(_partial, _write_partial, holder, enumerate((holder.func, *holder.args)))
        elif _is(holder, dict | list) and holder is not self._later:
            module = self.modules.get(id(holder))
            held = holder.values() if _is(holder, dict) else holder
            if not _exempt(module):
                inside = [one for one in held if type(one) is tuple and id(one) in self._later]
                self.untouchable += [(one, holder) for each in inside for one in each if id(one) in self.wanted]

    def _found(self, read: Any, write: Any, holder: Any, items: Any) -> None:
        for key, value in items:
            entry = self.wanted.get(id(value))
            if entry is not None and entry[0] is value:
                self.places.append(_Place(read, write, holder, key, *entry))


class _Memory:
    """What the last search has found, in this process."""

    def __init__(self) -> None:
        self.places: list[_Place] = []
        self.untouchable: dict[str, None] = {}
        self.generators: dict[int, tuple[str, Any]] = {}
        """Id -> (the name of its place, generator)."""
        self.counts: dict[str, int] = {}
        self.searched: set[str] = set()
        """Doors whose functions have been looked for."""
        self.modules: tuple[int, str] = (0, "")


_memory = _Memory()


def _modules_now() -> tuple[int, str]:
    return len(sys.modules), next(reversed(sys.modules), "")


def _doors() -> Iterator[Door]:
    """Those of functions: a class is asked whether something is one of its objects, which no function in its place can answer."""
    return (door for door in list(DOORS.values()) if door.of_module and not isinstance(door.real, type))


def _is_new() -> bool:
    """Whether somebody may hold what nobody did at the last search."""
    counts, count = _memory.counts, sys.getrefcount
    if _memory.modules != _modules_now():
        return True
    for door in _doors():
        known, there = counts.get(door.key), count(door.real)
        # fewer: somebody may have let go, and somebody else taken; who sleeps holds on to sleep meanwhile
        if known is None or there > known or (there < known and door.key != ".time.sleep"):
            return True
    return not all(place.has(place.real) for place in _memory.places)


def replace(p: Patches) -> None:
    """Every reference to a function that has a door leads to the door, until the simulation ends."""
    if _is_new():
        with _thawed():
            _search(p)
    for reason in _memory.untouchable:
        p.not_pinned(reason)
    there = [place for place in _memory.places if not isinstance(place.real, type) or place.real in p.stand_ins]
    for place in there:
        place.swap(place.real, place.stands_in)

    def give_back() -> None:
        for place in reversed(there):
            place.swap(place.stands_in, place.real)

    p.then(give_back)


@contextmanager
def _thawed() -> Iterator[None]:
    """The collector tells who refers to an object of those alone that are not frozen: who has called ``gc.freeze()``, as a server does
    before it forks and mypy before it checks, would keep every name that it has taken."""
    frozen = gc.get_freeze_count() > 0
    if frozen:
        gc.unfreeze()
    try:
        yield
    finally:
        if frozen:
            gc.freeze()


def _search(p: Patches) -> None:
    doors = list(_doors())
    wanted: dict[int, tuple[Any, Any]] = {}
    for door in doors:  # of several doors to one function the first, which is not of threads alone
        wanted.setdefault(id(door.real), (door.real, door.function))
    generators = []
    for each in gc.get_referrers(*_classes(datetime.datetime), *_classes(random.Random)):
        if _is(each, types.BuiltinMethodType) and each.__name__ in _DATES and isinstance(each.__self__, type):
            wanted[id(each)] = each, types.MethodType(_DATES[each.__name__], each.__self__)
        elif _is(each, random.Random) and not _is(each, random.SystemRandom):
            generators.append(each)
    ours = {cell for door in doors for cell in door.cells}
    search = _Search(wanted, ours | {id(entry) for entry in wanted.values()})
    search.run()
    _memory.places = [*search.places, *_classes_taken(p, search.modules)]
    there = _Generators(generators)
    there.run()
    _memory.generators = there.found
    _memory.untouchable = dict.fromkeys(
        f"{_name_of(one)} is held by {_kind(holder)}, where no simulation can replace it"
        for one, holder in search.untouchable
    )
    _memory.searched = {door.key for door in doors}


def _classes_taken(p: Patches, modules: dict[int, str]) -> Iterator[_Place]:
    """Where modules have taken a class that has a stand-in. Only they are given it: others ask what is an object of the class."""
    if p.stand_ins:
        for holder in gc.get_referrers(*p.stand_ins):
            if _is(holder, dict) and id(holder) in modules:
                there = [(key, value) for key, value in holder.items() if _is(value, type) and value in p.stand_ins]
                yield from (_Place(_item, _write_item, holder, key, value, p.stand_ins[value]) for key, value in there)


def _classes(kind: type) -> list[type]:
    """A class and all that are made of it."""
    found = [kind]
    for each in found:
        found += each.__subclasses__()
    return found


def _name_of(function: Any) -> str:
    owner = getattr(function, "__module__", None) or getattr(getattr(function, "__self__", None), "__name__", "")
    return f"{owner}.{getattr(function, '__name__', function)}".lstrip(".")


def _kind(holder: Any) -> str:
    kind = type(holder)
    return f"a {kind.__name__}" if kind.__module__ == "builtins" else f"a {kind.__module__}.{kind.__name__}"


def settle() -> None:
    """All is given back: so many references there are, and whoever finds others at the next run searches again."""
    if _memory.searched:
        _memory.modules = _modules_now()
        _memory.counts = {door.key: sys.getrefcount(door.real) for door in _doors() if door.key in _memory.searched}


# --- generators ----------------------------------------------------------------------------------------------------------


def seed(p: Patches) -> None:
    """See rule 4."""
    for name, each in list(_memory.generators.values()):
        try:
            back = _seeded(each, f"{p.seed}/{name}")
        except Exception as error:
            p.not_pinned(f"{name}, a {type(each).__name__}, can't be seeded: {error!r}")
        else:
            p.then(back)


def _seeded(generator: Any, text: str) -> Callable[[], object]:
    """Seed it; the function gives it back its state."""
    if isinstance(generator, random.Random):
        state = generator.getstate()
        generator.seed(text)
        return lambda: generator.setstate(state)
    number = crc32(text.encode())
    if hasattr(generator, "get_state"):  # numpy's RandomState
        legacy = generator.get_state()
        generator.seed(number)
        return lambda: generator.set_state(legacy)
    bits = getattr(generator, "bit_generator", generator)
    before = bits.state
    bits.state = type(bits)(number).state
    return lambda: setattr(bits, "state", before)


class _Generators:
    """Those that somebody can come back to in the next run, by the names of their places. ``there``: all of ``random`` that exist."""

    def __init__(self, there: list[random.Random]) -> None:
        self.found: dict[int, tuple[str, Any]] = {}
        self._there = {id(each) for each in there}
        numpy: Any = sys.modules.get("numpy.random")
        self._of_numpy = () if numpy is None else (numpy.Generator, numpy.RandomState, numpy.BitGenerator)

    def run(self) -> None:
        """Look at what modules hold, and their classes, functions' defaults and objects."""
        for name, module in sys.modules.copy().items():
            own = _own(module)
            if own is not None and name.partition(".")[0] not in _OF_GENERATORS and not _exempt(name):
                for key, value in list(own.items()):
                    self._look(name, key, value)

    def _look(self, module: str, key: str, value: Any) -> None:
        kind = type(value)
        if kind is types.FunctionType:
            self._defaults(value, module, key)
        elif _is(value, type):
            if value.__module__ == module:
                for inner, held in list(vars(value).items()):
                    self._is_it(held, module, key, inner)
                    if type(held) is types.FunctionType:
                        self._defaults(held, module, key, inner)
        elif kind in _CONTAINERS:
            if 0 < len(value) <= _SMALL:
                held = value.values() if kind is dict else value
                for number, one in enumerate(list(held)):
                    self._is_it(one, module, key, number)
        elif kind.__flags__ & _HEAP_TYPE:
            self._is_it(value, module, key)
            own = _own(value)
            if type(own) is dict:
                for inner, held in list(own.items()):
                    self._is_it(held, module, key, inner)
        elif self._of_numpy:
            self._is_it(value, module, key)

    def _defaults(self, function: Any, *path: object) -> None:
        for number, one in enumerate(function.__defaults__ or ()):
            self._is_it(one, *path, number)
        for name, one in (function.__kwdefaults__ or {}).items():
            self._is_it(one, *path, name)

    def _is_it(self, value: Any, *path: object) -> None:
        if id(value) in self._there or (self._of_numpy and _is(value, self._of_numpy)):
            self.found.setdefault(id(value), (".".join(map(str, path)), value))


_CONTAINERS = {list, tuple, set, frozenset, dict}
_SMALL = 64
_HEAP_TYPE = 1 << 9
"""Of a class that Python code has made."""
_OF_GENERATORS = {"broker_sim", "random", "numpy", "secrets"}
"""Modules whose generators are pinned otherwise."""
