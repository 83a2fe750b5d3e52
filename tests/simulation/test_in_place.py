"""Functions that are replaced in themselves."""

from __future__ import annotations

import _random
import functools
import gc
import os
import random
import sys
import threading
import time
from operator import attrgetter, methodcaller
from pathlib import Path
from typing import Any

import pytest

from broker_sim.simulation import LibraryMoved, simulate
from broker_sim.simulation.virtual import in_place, patches
from broker_sim.simulation.virtual.in_place import (
    Builtin,
    FinalClass,
    Operator,
    PythonFunction,
    replaceable,
    unbound,
)


def _instead(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
    if args == ("raise",):
        raise ZeroDivisionError
    return args, kwargs


@pytest.mark.slow
@pytest.mark.parametrize("function", [time.time, time.asctime, time.sleep, time.strftime, open, sys.getrefcount])
def test_a_function_of_c_becomes_a_call_of_another_whatever_arguments_it_took(function: Any) -> None:
    """One function for each calling convention of C: no argument, any, one, a tuple, with keywords."""
    description = hash(function), repr(function)
    held, partial = iter(function, None), functools.partial(function, 1)
    place = Builtin(function, _instead)
    for _ in range(3):
        place.replace()
        try:
            for _ in range(200):  # so often that the interpreter has its own short ways
                assert function() == function.__call__() == next(held) == ((), {})
                assert function(1, x=2) == partial(x=2) == ((1,), {"x": 2})
            with pytest.raises(ZeroDivisionError):
                function("raise")
            gc.collect()
        finally:
            place.restore()
        assert (hash(function), repr(function)) == description
    if function is time.time:
        assert abs(function() - place.real()) < 60


_CACHED = 1 << 19
"""``Py_TPFLAGS_VALID_VERSION_TAG``, which any look at an attribute may set."""


def _described(kind: type) -> tuple[object, ...]:
    return kind.__flags__ & ~_CACHED, vars(kind)["__new__"], hash(kind), repr(kind)


FINAL = [methodcaller, attrgetter]
"""Classes of C without derived ones, as threading.Lock is one from Python 3.13 on."""


@pytest.mark.parametrize("kind", FINAL)
def test_a_final_class_of_c_becomes_a_call_of_another(kind: Any) -> None:
    description = _described(kind)
    partial = functools.partial(kind, 1)
    place = FinalClass(kind, _instead)
    for _ in range(3):
        place.replace()
        try:
            for _ in range(200):
                assert kind() == kind.__new__(kind) == ((), {})
                assert kind(1, x=2) == partial(x=2) == ((1,), {"x": 2})
            with pytest.raises(ZeroDivisionError):
                kind("raise")
            assert isinstance(place.real("real"), kind)
            with pytest.raises(TypeError, match="immutable"):
                kind.other = 1
            gc.collect()
        finally:
            place.restore()
        assert _described(kind) == description
        assert kind("real")(_Real) == kind.__new__(kind, "real")(_Real) == place.real("real")(_Real)
        with pytest.raises(TypeError):
            kind()


class _Real:
    @staticmethod
    def real(*args: int, **kwargs: int) -> tuple[tuple[int, ...], dict[str, int]]:
        return args, kwargs


def test_a_final_class_is_made_by_its_own_code_with_keywords_and_errors() -> None:
    place = FinalClass(methodcaller, _instead)
    place.replace()
    try:
        assert place.real("real", 1, x=2)(_Real) == ((1,), {"x": 2})
        with pytest.raises(TypeError):
            place.real()
    finally:
        place.restore()


def test_what_a_final_class_returns_is_counted_as_it_is_of_any_other() -> None:
    result = object()
    place = FinalClass(attrgetter, lambda: result)
    place.replace()
    try:
        before = sys.getrefcount(result), sys.getrefcount(attrgetter)
        for _ in range(1000):
            attrgetter()
        assert (sys.getrefcount(result), sys.getrefcount(attrgetter)) == before
    finally:
        place.restore()


@pytest.mark.parametrize("kind", [int, str, type, object, dict, random.Random, range])
def test_classes_that_others_derive_from_are_not_replaced_in_themselves(kind: type) -> None:
    assert replaceable(kind) is (kind is range)


def test_what_a_function_returns_is_counted_as_it_is_of_any_other() -> None:
    result = object()
    place = Builtin(time.time, lambda: result)
    place.replace()
    try:
        before = sys.getrefcount(result)
        for _ in range(1000):
            time.time()
        assert sys.getrefcount(result) == before
    finally:
        place.restore()


def test_a_python_function_has_other_code_and_then_its_own_again() -> None:
    def of_a_module(a: int = 1, *, b: int = 2) -> tuple[int, int]:
        return a, b

    function: Any = of_a_module
    place = PythonFunction(function, _instead)
    place.replace()
    assert function(5, b=6) == ((5,), {"b": 6})
    assert place.real(7) == (7, 2)
    with pytest.raises(ZeroDivisionError):
        function("raise")
    place.restore()
    assert function() == (1, 2)


def test_a_method_of_c_is_another_one_where_it_is_bound_already_and_may_raise() -> None:
    generator, real = random.Random(5), unbound(_random.Random, "getrandbits")
    taken, expected = generator.getrandbits, random.Random(5).getrandbits(64)

    def instead(self: random.Random, bits: int) -> int:
        if bits == 1:
            raise ZeroDivisionError
        return -1 if bits == 2 else real(self, bits)

    place = Operator(_random.Random, "getrandbits", instead)
    place.replace()
    try:
        assert taken(2) == generator.getrandbits(2) == -1
        with pytest.raises(ZeroDivisionError):
            taken(1)
        assert taken(64) == expected
    finally:
        place.restore()
    assert 0 <= taken(2) < 4
    assert not hasattr(generator, "__matmul__")


def test_what_closes_over_something_is_replaced_at_its_name_alone() -> None:
    held = 1
    assert not replaceable(lambda: held)
    assert not replaceable(random.random)
    assert replaceable(lambda: 1)
    assert replaceable(time.time)


def test_a_python_that_is_laid_out_otherwise_is_told_before_anything_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(in_place, "_checked", [])
    monkeypatch.setattr(in_place, "_METHOD_AT", in_place._METHOD_AT + 8)
    with pytest.raises(LibraryMoved, match="can't be replaced in place: its methods have other fields"):
        Builtin(time.time, _instead)
    assert time.time() > 1_700_000_000


def test_another_thread_that_is_in_the_midst_of_a_function_when_it_is_put_back_comes_out_of_it(tmp_path: Path) -> None:
    """The other thread waits in ``os.open`` from one run to the next for somebody to write."""
    fifo, opened, began = tmp_path / "fifo", list[int](), threading.Event()
    os.mkfifo(fifo)

    def waits() -> None:
        began.set()
        opened.append(os.open(fifo, os.O_RDONLY))

    thread = threading.Thread(target=waits)
    with simulate(1):
        running = patches.current()
        assert running is not None
        with running.lifted():  # a test's own doings with real threads
            thread.start()
            began.wait()
    with simulate(2):
        writer = os.open(fifo, os.O_WRONLY)
    thread.join()
    for number in (writer, *opened):
        os.close(number)
    assert len(opened) == 1
