"""Scenario files as plain values that know where they stand, so that an error can say so.

table = load(path)                       # a Table; raises WrongFile for what is no YAML map
table.take("within", duration, 30.0)     # -> seconds; raises WrongFile with line, key and what was meant
table.done()                             # raises for keys that nobody took, with the nearest that exists
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from broker_sim.words import UsageError, duration_ms, nearest

__all__ = ["Table", "WrongFile", "count", "duration", "flag", "load", "number", "table_of", "text", "texts", "within"]

T = TypeVar("T")

MAX_BYTES = 1 << 20
MAX_VALUES = 100_000
"""With what aliases repeat."""
_REQUIRED: Any = object()


class WrongFile(UsageError):
    """A scenario file that can't be run; ``file:line: what``."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"{where}: {what}")


class Table:
    """A map of the file. ``where`` is ``file:line``; ``what`` names it in errors."""

    def __init__(self, values: dict[str, Any], where: dict[str, str], place: str, what: str = "the file") -> None:
        self._values, self._where, self.place, self.what = values, where, place, what
        self._known: dict[str, None] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __bool__(self) -> bool:
        return bool(self._values)

    def names(self) -> list[str]:
        """The keys, as they stand in the file."""
        return list(self._values)

    def plain(self) -> dict[str, Any]:
        """All of it as a dict."""
        return {key: plain(value) for key, value in self._values.items()}

    def where(self, key: str | None = None) -> str:
        """``file:line`` of a key, or of the whole."""
        return self._where.get(key or "", self.place)

    def error(self, what: str, key: str | None = None) -> WrongFile:
        """An error at a key."""
        return WrongFile(self.where(key), what)

    def take(self, key: str, read: Callable[[Any], T], default: T = _REQUIRED) -> T:
        """The value of a key, read by ``read``, which raises UsageError for what it can't be."""
        self._known[key] = None
        if key not in self._values or self._values[key] is None:
            if default is _REQUIRED:
                raise self.error(f"{self.what} needs the key {key!r}")
            return default
        try:
            return read(self._values[key])
        except WrongFile:
            raise
        except UsageError as error:
            raise self.error(f"{key}: {error}", key) from None

    def peek(self, key: str) -> Any:
        """The value of a key as it is, None where there is none; ``done`` doesn't count it as taken."""
        return self._values.get(key)

    def table(self, key: str, what: str | None = None) -> Table:
        """The map under a key, empty where there is none."""
        return self.take(key, lambda value: table_of(value, what or key), Table({}, {}, self.place, what or key))

    def tables(self, key: str, what: str) -> list[Table]:
        """The maps of the list under a key, empty where there is none."""
        return self.take(key, lambda value: [table_of(one, what) for one in listed(value)], [])

    def rest(self) -> dict[str, Any]:
        """Every key that was not taken, as plain values."""
        left = [key for key in self._values if key not in self._known]
        self._known.update(dict.fromkeys(left))
        return {key: plain(self._values[key]) for key in left}

    def only(self, *known: str) -> None:
        """Raise WrongFile for the first key that is none of these."""
        for key in self._values:
            if key not in known:
                meant = nearest(key, known)
                hint = f"did you mean {meant!r}?" if meant else f"it takes {', '.join(known)}"
                raise self.error(f"{self.what} has no key {key!r}; {hint}", key)

    def done(self) -> None:
        """Raise WrongFile for the first key that nobody asked for."""
        self.only(*self._known)


def load(path: Path) -> Table:
    """The file's top-level map. Raises WrongFile: not there, too large, no YAML, no map."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise WrongFile(str(path), f"larger than {MAX_BYTES} bytes")
        return loads(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise WrongFile(str(path), error.strerror or str(error)) from None
    except UnicodeDecodeError as error:
        raise WrongFile(str(path), f"not UTF-8: {error}") from None


def loads(source: str, name: str = "scenario") -> Table:
    """As ``load``, of a text."""
    import yaml

    try:
        node = yaml.compose(source, yaml.SafeLoader)
        value = _Reader(name).value(node) if node is not None else None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{name}:{mark.line + 1}" if mark is not None else name
        words = " ".join(str(getattr(error, "problem", None) or error).split())
        raise WrongFile(place, f"no YAML: {words}") from None
    except RecursionError:
        raise WrongFile(name, "nested too deeply") from None
    if not isinstance(value, Table):
        raise WrongFile(name, "a scenario is a map with the keys cluster, topics, clients, steps, expect")
    return value


class _Reader:
    """Makes values of YAML's nodes; aliases are what they stand for."""

    def __init__(self, name: str) -> None:
        import yaml

        self._yaml, self._name = yaml, name
        self._scalars = yaml.SafeLoader("")
        self._left = MAX_VALUES

    def value(self, node: Any) -> Any:
        """A Table, a list or a scalar. Raises WrongFile, YAMLError."""
        place = self._place(node)
        self._left -= 1
        if self._left < 0:
            raise WrongFile(place, f"more than {MAX_VALUES} values, with what its aliases repeat")
        if isinstance(node, self._yaml.MappingNode):
            return self._table(node, place)
        if isinstance(node, self._yaml.SequenceNode):
            return [self.value(one) for one in node.value]
        try:
            return self._scalars.construct_object(node)
        except ValueError as error:  # 2001-02-30 is read as a date, and is none
            raise WrongFile(place, f"{shown(node.value)} can't be read: {error}") from None

    def _table(self, node: Any, place: str) -> Table:
        values: dict[str, Any] = {}
        where: dict[str, str] = {}
        for key_node, value_node in node.value:
            at = self._place(key_node)
            if not isinstance(key_node, self._yaml.ScalarNode):
                raise WrongFile(at, "a key is a word, not a list or a map")
            key = str(key_node.value)
            if key in values:
                raise WrongFile(at, f"the key {key!r} stands here twice")
            values[key], where[key] = self.value(value_node), at
        return Table(values, where, place)

    def _place(self, node: Any) -> str:
        return f"{self._name}:{node.start_mark.line + 1}"


def plain(value: Any) -> Any:
    """Tables as dicts."""
    if isinstance(value, Table):
        return value.plain()
    return [plain(one) for one in value] if isinstance(value, list) else value


# readers: value -> value in its type, or UsageError


def text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UsageError(f"{shown(value)} is not a text")
    return str(value)


def texts(value: Any) -> list[str]:
    return [text(one) for one in (value if isinstance(value, list) else [value])]


def number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageError(f"{shown(value)} is not a whole number")
    return value


def within(least: int, most: int) -> Callable[[Any], int]:
    """A whole number from ``least`` to ``most``."""

    def read(value: Any) -> int:
        if not least <= number(value) <= most:
            raise UsageError(f"{value} is not from {least} to {most}")
        return number(value)

    return read


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{shown(value)} is not true or false")
    return value


def duration(value: Any) -> float:
    """Seconds."""
    try:
        return duration_ms(value) / 1000
    except UsageError as error:
        raise UsageError(str(error).removeprefix("a duration: ")) from None


def count(value: Any) -> Callable[[int], bool]:
    """``3``, ``">=3"``, ``"<=3"``, ``">3"``, ``"<3"``: a test of a number."""
    spelled = text(value).replace(" ", "")
    for sign, holds in (
        (">=", int.__ge__),
        ("<=", int.__le__),
        (">", int.__gt__),
        ("<", int.__lt__),
        ("=", int.__eq__),
        ("", int.__eq__),
    ):
        digits = spelled[len(sign) :]
        if spelled.startswith(sign) and digits.lstrip("-").isdigit():
            bound = int(digits)
            return lambda seen: bool(holds(seen, bound))
    raise UsageError(f"{shown(value)} is not a number with a comparison, as in 3 or '>=3'")


def listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise UsageError(f"{shown(value)} is not a list")
    return value


def table_of(value: Any, what: str) -> Table:
    if not isinstance(value, Table):
        raise UsageError(f"{shown(value)} is not a map of keys to values")
    value.what = what
    return value


def shown(value: Any) -> str:
    words = repr(plain(value))
    return words if len(words) <= 60 else words[:57] + "..."
