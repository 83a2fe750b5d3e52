"""Scenario files as plain values that know where they stand, so that an error can say so.

table = load(path)                       # a Table; raises WrongFile for what is no YAML map
table.take("within", duration, 30.0)     # -> seconds; what is wrong is noted with line, key and what was meant
table.done()                             # notes keys that were not taken, with the nearest valid one
table.check()                            # raises WrongFile with all that was noted

All errors of a file are reported together: a key with an invalid value gets its default, an invalid entry of a list is left out, and
only an error that prevents further checks is raised at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from broker_sim.common.text import UsageError, expected
from broker_sim.fields.kinds import Count, Duration, FieldKind, Flag, ListOf, Text
from broker_sim.fields.problems import WrongInput

__all__ = ["Table", "WrongFile", "count", "duration", "flag", "load", "number", "pattern", "table_of", "text", "texts"]

T = TypeVar("T")

MAX_BYTES = 1 << 20
MAX_VALUES = 100_000
"""With what aliases repeat."""
_REQUIRED: Any = object()


class WrongFile(UsageError):
    """A scenario file that can't be run; ``file:line: what``, a line for each thing that is wrong."""

    def __init__(self, where: str, what: str, *more: WrongFile) -> None:
        super().__init__("\n".join(dict.fromkeys([f"{where}: {what}", *map(str, more)])))
        self.place, self.what, self.more = where, what, more

    @classmethod
    def of(cls, errors: Iterable[WrongFile]) -> WrongFile:
        """Merge errors into one, in the order of their lines; there is at least one."""
        ordered = sorted(
            (error for group in errors for error in (group, *group.more)), key=lambda error: _line_of(error.place)
        )
        return cls(ordered[0].place, ordered[0].what, *(cls(error.place, error.what) for error in ordered[1:]))


def _line_of(place: str) -> int:
    line = place.rpartition(":")[2]
    return int(line) if line.isdigit() else 0


class Table:
    """A map of the file. ``where`` is ``file:line``; ``what`` names it in errors; ``errors`` are those of the whole file up to now."""

    def __init__(
        self,
        values: dict[str, Any],
        where: dict[str, str],
        place: str,
        what: str = "the file",
        errors: list[WrongFile] | None = None,
    ) -> None:
        self._values, self._where, self.place, self.what = values, where, place, what
        self._known: dict[str, None] = {}
        self.errors = [] if errors is None else errors

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __bool__(self) -> bool:
        return bool(self._values)

    def names(self) -> list[str]:
        """The keys, as they stand in the file."""
        return list(self._values)

    def plain(self) -> dict[str, Any]:
        """Return the whole map as a dict."""
        return {key: plain(value) for key, value in self._values.items()}

    def where(self, key: str | None = None) -> str:
        """``file:line`` of a key, or of the whole."""
        return self._where.get(key or "", self.place)

    def error(self, what: str, key: str | None = None) -> WrongFile:
        """An error at a key."""
        return WrongFile(self.where(key), what)

    def errors_of(self, error: WrongInput, what: str = "", key: str | None = None) -> WrongFile:
        """The errors of a value of this map, or of the one under ``key``, each with the line of its own key if the file has that."""
        errors = [
            self.error(what + problem.text, key or (str(problem.path[0]) if problem.path else None))
            for problem in error.problems
        ]
        return WrongFile.of(errors)

    def take(self, key: str, read: Callable[[Any], T], default: T = _REQUIRED) -> T:
        """The value of a key, read by ``read``, which raises UsageError for what it can't be: that is noted, and the key has its
        default. Raises WrongFile where it has none."""
        self._known[key] = None
        if key not in self._values or self._values[key] is None:
            if default is _REQUIRED:
                raise self.error(f"{self.what} needs the key {key!r}")
            return default
        value = self._values[key]
        try:
            return read(plain(value) if isinstance(read, FieldKind) else value)
        except WrongFile as error:
            wrong = error
        except WrongInput as error:
            wrong = self.errors_of(error, f"{key}: ", key)
        except UsageError as error:
            wrong = self.error(f"{key}: {error}", key)
        if default is _REQUIRED:
            raise wrong from None
        self.errors.append(wrong)
        return default

    def each(self, key: str, what: str, make: Callable[[Table], T]) -> list[T]:
        """Apply ``make`` to each map of the list under a key; where it raises UsageError, the error is noted and the map left out."""
        made: list[T] = []
        values: list[Any] = []
        for value in self.take(key, listed, values):
            try:
                made.append(make(table_of(value, what)))
            except UsageError as error:
                wrong = error if isinstance(error, WrongFile) else self.error(f"{key}: {error}", key)
                self.errors.append(wrong)
        return made

    def check(self) -> None:
        """Raise WrongFile with all that was noted in the file, if anything was."""
        if self.errors:
            raise WrongFile.of(self.errors) from None

    def peek(self, key: str) -> Any:
        """The raw value of a key, None if it is missing; ``done`` does not count it as taken."""
        return self._values.get(key)

    def table(self, key: str, what: str | None = None) -> Table:
        """The map under a key as a `Table`, an empty one if the key is missing. ``what``: its name in errors."""
        nothing = Table({}, {}, self.place, what or key, self.errors)
        return self.take(key, lambda value: table_of(value, what or key), nothing)

    def rest(self) -> dict[str, Any]:
        """Every key that was not taken, as plain values."""
        left = [key for key in self._values if key not in self._known]
        self._known.update(dict.fromkeys(left))
        return {key: plain(self._values[key]) for key in left}

    def only(self, *known: str) -> None:
        """Note the keys that are none of these."""
        for key in self._values:
            if key not in known:
                self.errors.append(self.error(f"{self.what} has no key {key!r}; {expected(key, known)}", key))

    def done(self) -> None:
        """Note an error for each key that was not taken."""
        self.only(*self._known)


def load(path: Path) -> Table:
    """The file's top-level map. Raises WrongFile: not there, too large, no YAML, no map."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise WrongFile(str(path), f"the file is larger than {MAX_BYTES} bytes, the maximum")
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
        value = _YamlReader(name).value(node) if node is not None else None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{name}:{mark.line + 1}" if mark is not None else name
        words = " ".join(str(getattr(error, "problem", None) or error).split())
        raise WrongFile(place, f"invalid YAML: {words}") from None
    except RecursionError:
        raise WrongFile(name, "nested too deeply") from None
    if not isinstance(value, Table):
        raise WrongFile(name, "a scenario is a map with the keys cluster, topics, clients, steps, expect")
    return value


class _YamlReader:
    """Makes values of YAML's nodes; aliases are what they stand for."""

    def __init__(self, name: str) -> None:
        import yaml

        self._yaml, self._name = yaml, name
        self._scalars = yaml.SafeLoader("")
        self._left = MAX_VALUES
        self._errors: list[WrongFile] = []

    def value(self, node: Any) -> Any:
        """A Table, a list or a scalar. Raises WrongFile, YAMLError."""
        place = self._place(node)
        self._left -= 1
        if self._left < 0:
            raise WrongFile(place, f"more than {MAX_VALUES} values, counting each use of an alias")
        if isinstance(node, self._yaml.MappingNode):
            return self._table(node, place)
        if isinstance(node, self._yaml.SequenceNode):
            return [self.value(item) for item in node.value]
        try:
            return self._scalars.construct_object(node)
        except ValueError as error:  # 2001-02-30 is read as a date, and is none
            raise WrongFile(place, f"invalid value {shown(node.value)}: {error}") from None

    def _table(self, node: Any, place: str) -> Table:
        values: dict[str, Any] = {}
        where: dict[str, str] = {}
        for key_node, value_node in node.value:
            at = self._place(key_node)
            if not isinstance(key_node, self._yaml.ScalarNode):
                raise WrongFile(at, "a key must be a word, not a list or a map")
            key = str(key_node.value)
            if key in values:
                self._errors.append(WrongFile(at, f"the key {key!r} occurs twice in one map; remove one"))
            values[key], where[key] = self.value(value_node), at
        return Table(values, where, place, errors=self._errors)

    def _place(self, node: Any) -> str:
        return f"{self._name}:{node.start_mark.line + 1}"


def plain(value: object) -> Any:
    """The value with tables as dicts."""
    if isinstance(value, Table):
        return value.plain()
    return [plain(item) for item in value] if isinstance(value, list) else value


# readers: value -> value in its type, or UsageError. Those that are kinds of fields read as everywhere.

text, texts, number, flag, duration = Text(0), ListOf(Text(0)), Count(), Flag(), Duration()


def pattern(value: object) -> str:
    """A regular expression of the names of topics. Raises UsageError."""
    spelled = text(value)
    try:
        re.compile(spelled)
    except re.error as error:
        raise UsageError(f"{spelled!r} is not a regular expression: {error}") from None
    return spelled


def count(value: object) -> Callable[[int], bool]:
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
    raise UsageError(f"{shown(value)} is not a count (expected e.g. 3, '>=3', '<3')")


def listed(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise UsageError(f"{shown(value)} is not a list")
    return value


def table_of(value: object, what: str) -> Table:
    if not isinstance(value, Table):
        raise UsageError(f"{shown(value)} is not a map of keys to values")
    value.what = what
    return value


def shown(value: object) -> str:
    words = repr(plain(value))
    return words if len(words) <= 60 else words[:57] + "..."
