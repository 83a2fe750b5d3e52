"""Kinds of values: what may be given for one, and what it is then.

    Count(1, 100).read("3")         # 3; UsageError for what it can't be

One rule for Python, JSON, YAML, queries and words of a command line:

1. A value of the kind's own type is taken. JSON has one kind of number, so a whole number may be written 3.0; a text may be a bare
   number, since YAML makes one of a group called 7.
2. Where text is all there is - queries, words - a value is spelled: true, yes, on, 1 and false, no, off, 0; digits; 40s; a list with
   commas; a map as ``a=1,b=2`` or as JSON. Since words travel through JSON and templates through YAML, a spelled value is taken
   everywhere, so that nothing depends on the door that it came in by.
3. Nothing else is guessed: no truth in a 3, no number in a flag, no text in a null.
4. What was read reads as itself: a value may be checked at several doors on its way.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sized
from typing import Any, Generic, TypeVar

from broker_sim.common.text import LONGEST_MS, UsageError, duration_ms, duration_text, unknown
from broker_sim.fields.problems import Problems

__all__ = [
    "DURATION",
    "MAX_ITEMS",
    "MAX_OBJECTS",
    "MAX_TEXT",
    "Choice",
    "Count",
    "Duration",
    "FieldKind",
    "Flag",
    "ListOf",
    "MapOf",
    "NameOrNumber",
    "Number",
    "Objects",
    "OneOrMore",
    "Password",
    "SettingValue",
    "Text",
    "error_about",
    "is_utf8",
    "number_of",
    "refusal",
]

T = TypeVar("T")

MAX_TEXT = 32_767
"""Characters of a text: the longest string that the protocol can carry."""
MAX_ITEMS = 1000
"""Entries of a list or map."""
MAX_OBJECTS = 100_000
"""Objects in a list of them; a body of HTTP holds fewer."""
INT64 = 2**63

_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_FLAGS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def error_about(what: str, message: str) -> UsageError:
    """``times: 3 is too many``; without ``what`` the rest alone."""
    return UsageError(f"{what}: {message}" if what else message)


def refusal(what: str, value: object, meant: str) -> UsageError:
    """``times: 'x' is not a whole number``; without ``what`` the rest alone. A long value is cut."""
    shown = repr(value)
    return error_about(what, f"{shown if len(shown) <= 80 else shown[:77] + '...'} is not {meant}")


class FieldKind(Generic[T]):
    """A kind of values. ``meant`` is what one is called in errors, ``metavar`` in a command's help. Kinds with the same arguments are
    equal. (Not dataclasses: every start loads a dozen kinds, and a frozen dataclass takes half a millisecond to make.)"""

    meant: str
    metavar: str = ""

    def read(self, value: object, what: str = "") -> T:
        """The value that is meant. Raises UsageError, which begins with ``what``."""
        raise NotImplementedError

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the values; spelled values are taken besides."""
        raise NotImplementedError

    def __call__(self, value: object) -> T:
        return self.read(value)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


def number_of(value: object) -> int | float | None:
    """A number, or one that is spelled; None for anything else, and for what a float can't hold."""
    if isinstance(value, str) and len(value) <= 40 and _NUMBER.fullmatch(spelled := value.strip()):
        value = int(spelled) if spelled.lstrip("+-").isdigit() else float(spelled)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if isinstance(value, int) or math.isfinite(value) else None


def _bounds(least: object, most: object) -> str:
    """``from 1``, ``from 1 to 100``, ``up to 100``."""
    if most is None:
        return "" if least is None else f" from {least}"
    return f" up to {most}" if least is None else f" from {least} to {most}"


def _limits(least: float | None, most: float | None) -> dict[str, float]:
    return {name: bound for name, bound in (("minimum", least), ("maximum", most)) if bound is not None}


class Flag(FieldKind[bool]):
    """A boolean: true, yes, on, 1 or false, no, off, 0 in any case."""

    meant = "true or false"

    def read(self, value: object, what: str = "") -> bool:
        flag = _FLAGS.get(str(value).strip().lower()) if isinstance(value, str | int) else None
        if flag is None:
            raise refusal(what, value, self.meant)
        return flag

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


class Count(FieldKind[int]):
    """A whole number, from ``least`` to ``most``."""

    metavar = "N"

    def __init__(self, least: int | None = None, most: int | None = None) -> None:
        self.least, self.most = least, most

    @property
    def meant(self) -> str:  # type: ignore[override]
        return f"a whole number{_bounds(self.least, self.most)}"

    def read(self, value: object, what: str = "") -> int:
        number = number_of(value)
        if number is None or number != int(number) or not -INT64 <= number < INT64:
            raise refusal(what, value, self.meant)
        low, high = self.least, self.most
        if (low is not None and number < low) or (high is not None and number > high):
            raise refusal(what, value, self.meant)
        return int(number)

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", **_limits(self.least, self.most)}


class Number(FieldKind[float]):
    """Any number, from ``least`` to ``most``."""

    metavar = "X"

    def __init__(self, least: float | None = None, most: float | None = None) -> None:
        self.least, self.most = least, most

    @property
    def meant(self) -> str:  # type: ignore[override]
        return f"a number{_bounds(self.least, self.most)}"

    def read(self, value: object, what: str = "") -> float:
        number = number_of(value)
        low, high = (-1e300 if self.least is None else self.least), (1e300 if self.most is None else self.most)
        if number is None or not low <= number <= high:
            raise refusal(what, value, self.meant)
        return float(number)

    def schema(self) -> dict[str, Any]:
        return {"type": "number", **_limits(self.least, self.most)}


DURATION = {
    "anyOf": [
        {"type": "string", "pattern": r"^\s*(\d+(\.\d+)?\s*(ms|min|s|m|h|d)?\s*)+$"},
        {"type": "number", "minimum": 0, "description": "seconds"},
    ]
}
"""JSON Schema to which the schema of a `Duration` refers."""


class Duration(FieldKind[float]):
    """A time in seconds, in whole ms: ``"40s"``, ``"500ms"``, ``"1m30s"``, or a number of seconds. ``least``, ``most``: seconds."""

    metavar = "TIME"

    def __init__(self, least: float = 0.0, most: float | None = None) -> None:
        self.least, self.most = least, most

    @property
    def meant(self) -> str:  # type: ignore[override]
        low, high = (
            None if seconds is None else duration_text(seconds * 1000) for seconds in (self.least or None, self.most)
        )
        return f"a duration{_bounds(low, high)}, as in 40s, 500ms, 1m30s or a number of seconds"

    def read(self, value: object, what: str = "") -> float:
        try:
            seconds = duration_ms(value) / 1000
        except UsageError:
            raise refusal(what, value, self.meant) from None
        if not self.least <= seconds <= (LONGEST_MS if self.most is None else self.most):
            raise refusal(what, value, self.meant)
        return seconds

    def schema(self) -> dict[str, Any]:
        return {"$ref": "#/components/schemas/Duration"}


class Text(FieldKind[str]):
    """A text of ``least`` to ``most`` characters."""

    meant = "a text"

    def __init__(self, least: int = 1, most: int = MAX_TEXT) -> None:
        self.least, self.most = least, most

    def read(self, value: object, what: str = "") -> str:
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str) or len(value) < self.least:
            raise refusal(what, value, self.meant)
        if len(value) > self.most:
            raise error_about(what, f"{len(value)} characters are too many, at most {self.most}")
        if "\0" in value:
            raise refusal(what, value, "a text without NUL characters")
        if not is_utf8(value):
            raise refusal(what, value, "a text in UTF-8, without halves of surrogate pairs")
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "maxLength": self.most}


def is_utf8(text: str) -> bool:
    """Whether a text can be encoded: what JSON spells as ``\\ud800`` can't, and what a command line has of bytes that are no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Password(Text):
    """A text that no error shows."""

    meant = f"a password, a text in UTF-8 of 1 to {MAX_TEXT} characters without NUL"

    def read(self, value: object, what: str = "") -> str:
        try:
            return super().read(value, what)
        except UsageError:
            raise error_about(what, f"the value is not {self.meant}") from None


class Choice(FieldKind[str]):
    """A choice of the names that ``known`` gives, in any case. ``label``: its name in errors, in place of the field's."""

    def __init__(self, known: Callable[[], Iterable[str]] | Iterable[str], label: str = "") -> None:
        self.known, self.label = known, label

    def names(self) -> list[str]:
        """The names that may be chosen; ``known`` may be a function, so that what it needs is imported late."""
        return list(self.known() if callable(self.known) else self.known)

    def read(self, value: object, what: str = "") -> str:
        names = self.names()
        named = {name.lower(): name for name in names}
        known = named.get(str(value).strip().lower())
        if known is None:
            raise unknown(self.label or what or "choice", value, names)
        return known

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "maxLength": MAX_TEXT, "enum": self.names()}


class NameOrNumber(FieldKind[int | str]):
    """A text; where it spells a whole number it is that number."""

    meant = "a whole number or a text"

    def read(self, value: object, what: str = "") -> int | str:
        number = number_of(value)
        if number is not None and number == int(number) and -INT64 <= number < INT64:
            return int(number)
        if not isinstance(value, str):
            raise refusal(what, value, self.meant)
        return Text().read(value, what)

    def schema(self) -> dict[str, Any]:
        return {"type": ["string", "integer"]}


class SettingValue(FieldKind[str]):
    """The value of one of Kafka's settings as Kafka writes it: true is "true", a list has commas."""

    meant = "the value of a setting"

    def read(self, value: object, what: str = "") -> str:
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, list | tuple):
            return ",".join(self.read(item, what) for item in value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        return Text(0).read(value, what)

    def schema(self) -> dict[str, Any]:
        return {"type": ["string", "number", "boolean"]}


class ListOf(FieldKind[list[T]]):
    """A list; of a text its parts between commas."""

    meant = "a list"
    metavar = "A,B"

    def __init__(self, item: FieldKind[T]) -> None:
        self.item = item

    def read(self, value: object, what: str = "") -> list[T]:
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        if isinstance(value, bytes | Mapping) or not isinstance(value, Iterable):
            raise refusal(what, value, self.meant)
        items = list(value)
        _few(items, what)
        result: list[T] = []
        problems = Problems()
        for place, item in enumerate(items):
            with problems.at(place):
                result.append(self.item.read(item, what))
        problems.check()
        return result

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": self.item.schema(), "maxItems": MAX_ITEMS}


class MapOf(FieldKind[dict[str, T]]):
    """A map of names to values; of a text what JSON makes of it, or ``a=1,b=2``, ``a:1,b:2``."""

    meant = "a map of names to values"
    metavar = "K:V,..."

    def __init__(self, value: FieldKind[T]) -> None:
        self.value = value

    def read(self, value: object, what: str = "") -> dict[str, T]:
        given = _map_of(value) if isinstance(value, str) else value
        if not isinstance(given, Mapping) or not all(isinstance(name, str) and name for name in given):
            if isinstance(self.value, Password):
                raise error_about(what, f"the value is not {self.meant}")
            raise refusal(what, value, self.meant)
        _few(given, what)
        result: dict[str, T] = {}
        problems = Problems()
        for name, item in given.items():
            with problems.at(name):
                Text().read(name, what)
                result[name] = self.value.read(item, f"{what}: {name}" if what else name)
        problems.check()
        return result

    def schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": self.value.schema(), "maxProperties": MAX_ITEMS}


class OneOrMore(FieldKind["str | list[str]"]):
    """A text, or a list of texts."""

    meant = "a text, or a list of them"

    def read(self, value: object, what: str = "") -> str | list[str]:
        if isinstance(value, str):
            return Text().read(value, what)
        if isinstance(value, list | tuple):
            return ListOf(Text()).read(value, what)
        raise refusal(what, value, self.meant)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [Text().schema(), ListOf(Text()).schema()]}


def _map_of(text: str) -> object:
    """The map that a text spells, None where it spells none."""
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return None
    pairs = [part.partition("=" if "=" in part else ":") for part in text.split(",") if part.strip()]
    return {name.strip(): rest.strip() for name, _, rest in pairs}


def _few(entries: Sized, what: str) -> None:
    if len(entries) > MAX_ITEMS:
        raise error_about(what, f"{len(entries)} entries are too many, at most {MAX_ITEMS}")


class Objects(FieldKind[list[dict[str, Any]]]):
    """A list of objects, whose fields the caller reads."""

    meant = "a list of objects"

    def read(self, value: object, what: str = "") -> list[dict[str, Any]]:
        if not isinstance(value, list | tuple) or not all(isinstance(item, Mapping) for item in value):
            raise refusal(what, value, self.meant)
        if len(value) > MAX_OBJECTS:
            raise error_about(what, f"{len(value)} objects are too many, at most {MAX_OBJECTS}")
        return [dict(item) for item in value]

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": {"type": "object"}, "maxItems": MAX_OBJECTS}
