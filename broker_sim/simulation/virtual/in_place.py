"""Functions that are replaced in themselves: not at the names under which they are known, but in the object that all names lead to.

A name can be taken - ``from time import time``, a default argument, a field of a namedtuple, an iterator's callable - and no search for
those who did ever ends. So what is replaced is what a function does:

- a function of a C module becomes, for as long as it is replaced, a call of a Python function: three fields of its object lead to
  ``PyObject_Vectorcall`` and that function. What it raises is raised;
- a Python function of a module has another ``__code__``;
- a method of C has one definition for its class, which all methods share that have been bound to objects: ``generator.random()``
  becomes an operator that generators have not got, ``~generator``: that, Python code can define;
- a final class of C, as ``threading.Lock`` is from Python 3.13 on, gets another ``__new__``.

A callback of ctypes in the place of C code would be simpler, and reach class methods too. But no exception leaves one, and a signal may
raise anywhere: the caller would be given whatever there is in a register.

Rules:
1. The original and its replacement are kept for the life of the process: another thread may be executing them.
2. ``real`` of each replacement is the original function.
3. This is CPython's own memory (3.11 to 3.13, with the GIL). It is looked at before anything is written: LibraryMoved where it is laid
   out in another way.
4. While a function is replaced its hash is another one, and so are its ``__self__`` and what pickle says of it: who has a function of
   ``time`` for the key of a dict does not find it there.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import sysconfig
import types
from collections.abc import Callable
from typing import Any

from broker_sim.simulation.errors import LibraryMoved

__all__ = ["Builtin", "FinalClass", "Operator", "PythonFunction", "put_in_class", "replaceable", "unbound", "untouched"]

_WORD = ctypes.sizeof(ctypes.c_void_p)
_HEAD = object.__basicsize__
"""``PyObject_HEAD``: the number of references, and the type."""
_NO_ARGUMENTS, _ONE_ARGUMENT, _FAST_WITH_KEYWORDS = 0x04, 0x08, 0x80 | 0x02
"""``METH_NOARGS``, ``METH_O``, ``METH_FASTCALL | METH_KEYWORDS``: methodobject.h."""


class _Definition(ctypes.Structure):
    """CPython's ``PyMethodDef``, through which a built-in method is replaced in place."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Function(ctypes.Structure):
    """``PyCFunctionObject`` behind its head (cpython/methodobject.h)."""

    _fields_ = tuple(
        (name, ctypes.c_void_p) for name in ("definition", "self", "module", "weak_references", "vectorcall")
    )


_IMMUTABLE, _BASE = 1 << 8, 1 << 10
"""``Py_TPFLAGS_IMMUTABLETYPE``, ``Py_TPFLAGS_BASETYPE`` (object.h)."""
_FLAGS_AT = _HEAD + 19 * _WORD
_NEW_AT = _HEAD + 37 * _WORD
"""Offsets of a type's flags, ``tp_flags``, and of the function that makes its objects, ``tp_new`` (cpython/object.h)."""

_METHOD_AT = _HEAD + 3 * _WORD
"""Offset of a method descriptor's definition: ``PyMethodDescrObject.d_method``, behind type, name and qualified name."""

_new_function = ctypes.pythonapi.PyCFunction_NewEx
_new_function.restype, _new_function.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_new_method = ctypes.pythonapi.PyDescr_NewMethod
_new_method.restype, _new_method.argtypes = ctypes.py_object, (ctypes.py_object, ctypes.c_void_p)
_keep = ctypes.pythonapi.Py_IncRef
_keep.restype, _keep.argtypes = None, (ctypes.py_object,)


def _address(name: str) -> int:
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


def replaceable(function: object) -> bool:
    """Whether `Builtin`, `PythonFunction` or `FinalClass` can replace it: a function of a C module, a Python function that closes over
    nothing, or a class of C without derived ones."""
    if isinstance(function, type):
        return function.__flags__ & (_IMMUTABLE | _BASE) == _IMMUTABLE and "__new__" in vars(function)
    if type(function) is types.BuiltinFunctionType:
        return isinstance(function.__self__, types.ModuleType)
    return type(function) is types.FunctionType and not function.__code__.co_freevars


def untouched(function: Any) -> Any:
    """A function of a C module as it is now, which nothing replaces."""
    fields = _Function.from_address(id(function) + _HEAD)
    return _new_function(fields.definition, fields.self, fields.module)


class Builtin:
    """A function of a C module, or a method of C that is bound. ``entrance``: what it becomes a call of. Raises LibraryMoved."""

    def __init__(self, function: Any, entrance: Any) -> None:
        _check()
        self.function = function
        self._fields = _Function.from_address(id(function) + _HEAD)
        definition = _Definition.from_address(self._fields.definition)
        self._definition = _Definition(
            definition.name, _address("PyObject_Vectorcall"), _FAST_WITH_KEYWORDS, definition.doc
        )
        self._stands_in = _new_function(ctypes.addressof(self._definition), id(entrance), None)
        _keep(entrance)  # by the function, while it is replaced
        self.real = untouched(function)

    def replace(self) -> None:
        """From now on it is the entrance."""
        self._write(self._stands_in)

    def restore(self) -> None:
        """Restore the original definition."""
        self._write(self.real)

    def _write(self, other: Any) -> None:
        fields = _Function.from_address(id(other) + _HEAD)
        self._fields.definition, self._fields.self = fields.definition, fields.self
        self._fields.vectorcall = fields.vectorcall


def _template(*args: Any, **kwargs: Any) -> Any:
    entrance: Any = "entrance"
    return entrance(*args, **kwargs)


class PythonFunction:
    """A Python function of a module. ``entrance``: what is called instead."""

    def __init__(self, function: types.FunctionType, entrance: Callable[..., Any]) -> None:
        self.function, self._code = function, function.__code__
        code = _template.__code__
        constants = tuple(entrance if constant == "entrance" else constant for constant in code.co_consts)
        self._stands_in = code.replace(
            co_consts=constants, co_name=self._code.co_name, co_qualname=self._code.co_qualname
        )
        self.real = types.FunctionType(
            self._code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        self.real.__kwdefaults__, self.real.__dict__ = function.__kwdefaults__, function.__dict__

    def replace(self) -> None:
        """From now on it is the entrance."""
        self.function.__code__ = self._stands_in

    def restore(self) -> None:
        """Restore the original code."""
        self.function.__code__ = self._code


class FinalClass:
    """A final class of C, one without derived classes. ``entrance``: what is called instead of it; what that returns need not be one
    of its objects. Raises LibraryMoved."""

    def __init__(self, kind: Any, entrance: Callable[..., Any]) -> None:
        _check()
        self.kind = kind
        self._flags = ctypes.c_ulong.from_address(id(kind) + _FLAGS_AT)
        self._new = ctypes.c_void_p.from_address(id(kind) + _NEW_AT)
        if self._flags.value != kind.__flags__ or not self._new.value:
            raise LibraryMoved(f"{kind.__name__} has other fields")
        self._own = vars(kind)["__new__"], self._new.value
        call = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.py_object, ctypes.c_void_p)(self._new.value)
        self._stands_in = staticmethod(lambda cls, /, *args, **kwargs: entrance(*args, **kwargs))

        def real(*args: Any, **kwargs: Any) -> Any:
            return call(kind, args, id(kwargs) if kwargs else None)

        self.real = real

    def replace(self) -> None:
        """From now on it is the entrance."""
        self._flags.value &= ~_IMMUTABLE
        try:
            self.kind.__new__ = self._stands_in
        finally:
            self._flags.value |= _IMMUTABLE

    def restore(self) -> None:
        """Restore the original ``__new__``."""
        put_in_class(self.kind, {"__new__": self._own[0]})
        self._new.value = self._own[1]


def unbound(kind: type, name: str) -> Any:
    """A method of C that no `Operator` replaces."""
    method = vars(kind)[name]
    definition = _definition_of(method)
    copied = _Definition(definition.name, definition.function, definition.flags, definition.doc)
    _KEPT.append(copied)
    return _new_method(kind, ctypes.addressof(copied))


_KEPT: list[Any] = []
"""Objects to which C code refers for the life of the process."""


def _definition_of(method: Any) -> Any:
    return _Definition.from_address(ctypes.c_void_p.from_address(id(method) + _METHOD_AT).value or 0)


_OPERATORS = {
    _NO_ARGUMENTS: ("PyNumber_Invert", "__invert__"),
    _ONE_ARGUMENT: ("PyNumber_MatrixMultiply", "__matmul__"),
}
"""Flags of a method -> a function of C with its arguments, and the special method to which that leads."""


class Operator:
    """A method of C of a class that takes attributes, with one argument or none; also where it is bound to an object already.
    ``entrance(self[, argument])``: what is called instead, by way of an operator that the class hasn't got. Raises LibraryMoved."""

    def __init__(self, kind: Any, name: str, entrance: Callable[..., Any]) -> None:
        _check()
        self.kind, self._entrance = kind, entrance
        self._definition = _definition_of(vars(kind)[name])
        if self._definition.name != name.encode() or self._definition.flags not in _OPERATORS:
            raise LibraryMoved(f"{kind.__name__}.{name} takes other arguments than it did")
        function, self._special = _OPERATORS[self._definition.flags]
        if hasattr(kind, self._special):
            raise LibraryMoved(f"{kind.__name__} has {self._special}")
        self._functions = self._definition.function, _address(function)

    def replace(self) -> None:
        """From now on it is the entrance."""
        setattr(self.kind, self._special, self._entrance)
        self._definition.function = self._functions[1]

    def restore(self) -> None:
        """Restore the original operator."""
        self._definition.function = self._functions[0]
        delattr(self.kind, self._special)


def put_in_class(kind: type, members: dict[str, Any]) -> dict[str, Any]:
    """Set attributes of a class that takes none, as C's do: the way to its dict is behind the proxy. Returns what they were."""
    own = gc.get_referents(vars(kind))[0]
    before = {name: own[name] for name in members}
    own.update(members)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))
    return before


# --- whether all this is where it is thought to be ---------------------------------------------------------------------


def _check() -> None:
    """Look at this Python, once. Raises LibraryMoved."""
    if not _checked:
        why = _why_not()
        if why:
            raise LibraryMoved(
                f"functions of {sys.implementation.name} {sys.version.split()[0]} can't be replaced in place: {why}"
            )
        _checked.append(True)


_checked: list[bool] = []


def _why_not() -> str:
    if sys.implementation.name != "cpython":
        return "it is not CPython"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "it has no GIL"
    if ctypes.sizeof(_Function) + _HEAD != type(print).__basicsize__:
        return "its functions have other fields"
    functions: list[Any] = [print, sys.getrefcount, len]
    for function in functions:
        fields = _Function.from_address(id(function) + _HEAD)
        definition = _Definition.from_address(fields.definition)
        if fields.self != id(function.__self__) or definition.name != function.__name__.encode():
            return "the fields of its functions are others"
    method = vars(str)["upper"]
    if type(method).__basicsize__ != _METHOD_AT + 2 * _WORD or _definition_of(method).name != b"upper":
        return "its methods have other fields"
    return ""
