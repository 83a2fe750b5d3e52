"""Expressions over a frame's columns, as PySpark's `Column` and `Window` have them: each is a text in DuckDB's SQL.

Rules:
1. What a text means is what Spark means: nulls come first in ascending order and last in descending, `==` with a null is null, a cast
   that can't be is an error.
2. Names are quoted always: `group`, `partition`, `offset` and `end` are words of SQL.
3. `a.b` is the field b of the column a.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

__all__ = ["Column", "Window", "WindowSpec", "col", "expression", "lit", "quoted", "sql_type", "text_literal"]


def quoted(name: str) -> str:
    """A name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def text_literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


# ------------------------------------------------------------------------------------------------ types

_SCALARS = {
    "string": "VARCHAR",
    "boolean": "BOOLEAN",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "double": "DOUBLE",
    "binary": "BLOB",
    "timestamp": "TIMESTAMPTZ",
}
_TOKEN = re.compile(r"\w+|[<>:,]")


def sql_type(spark: str) -> str:
    """DuckDB's name of a type that Spark's DDL names: ``array<struct<a:int>>`` is ``STRUCT("a" INTEGER)[]``. Raises ValueError."""
    tokens = _TOKEN.findall(spark)
    result = _sql_type(tokens)
    if tokens:
        raise ValueError(f"no type: {spark}")
    return result


def _sql_type(tokens: list[str]) -> str:
    """Takes a type's tokens away from the front."""
    word = tokens.pop(0)
    if word == "array":
        tokens.pop(0)
        element = _sql_type(tokens)
        tokens.pop(0)
        return f"{element}[]"
    if word == "struct":
        fields = []
        while tokens.pop(0) in ("<", ","):
            name = tokens.pop(0)
            tokens.pop(0)
            fields.append(f"{quoted(name)} {_sql_type(tokens)}")
        return f"STRUCT({', '.join(fields)})"
    return _SCALARS[word]


# ------------------------------------------------------------------------------------------------ expressions


@dataclass(frozen=True, eq=False, slots=True)
class Column:
    """``sql``: the expression; ``name``: what it is called in a select; ``call`` and ``wrap``: of an aggregate the call that OVER goes
    with, and what is around it; ``order``: how it sorts; ``names``: of one that makes several columns, theirs, ``parts`` being their
    expressions."""

    sql: str
    name: str | None = None
    call: str | None = None
    wrap: str = "{}"
    order: str = "ASC NULLS FIRST"
    parts: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def alias(self, *names: str) -> Column:
        return replace(self, names=names) if self.parts else replace(self, name=names[0])

    def cast(self, to: str) -> Column:
        return Column(f"CAST({self.sql} AS {sql_type(to)})", self.name)

    def try_cast(self, to: str) -> Column:
        return Column(f"TRY_CAST({self.sql} AS {sql_type(to)})", self.name)

    def over(self, window: WindowSpec) -> Column:
        if self.call is None:
            raise TypeError(f"{self.sql} is no function of a window")
        return Column(self.wrap.format(f"{self.call} OVER ({window.sql})"))

    def when(self, condition: Column, value: Any) -> Column:
        """One more branch; `functions.when` has begun it."""
        return Column(f"{self.sql.removesuffix(' END')} WHEN {condition.sql} THEN {lit(value).sql} END")

    def otherwise(self, value: Any) -> Column:
        return Column(f"{self.sql.removesuffix(' END')} ELSE {lit(value).sql} END")

    def isNull(self) -> Column:
        return Column(f"({self.sql} IS NULL)")

    def isNotNull(self) -> Column:
        return Column(f"({self.sql} IS NOT NULL)")

    def eqNullSafe(self, other: Any) -> Column:
        return Column(f"({self.sql} IS NOT DISTINCT FROM {lit(other).sql})")

    def isin(self, *values: Any) -> Column:
        given = values[0] if len(values) == 1 and isinstance(values[0], list | tuple | set) else values
        return Column(f"({self.sql} IN ({', '.join(lit(value).sql for value in given)}))" if given else "FALSE")

    def startswith(self, text: str) -> Column:
        return Column(f"starts_with({self.sql}, {lit(text).sql})")

    def rlike(self, pattern: str) -> Column:
        return Column(f"regexp_matches({self.sql}, {lit(pattern).sql})")

    def bitwiseAND(self, other: Any) -> Column:
        return Column(f"({self.sql} & {lit(other).sql})")

    def __getitem__(self, name: str) -> Column:
        return Column(f"struct_extract({self.sql}, {text_literal(name)})", name)

    def _binary(self, operator: str, other: Any) -> Column:
        return Column(f"({self.sql} {operator} {lit(other).sql})")

    def __eq__(self, other: object) -> Column:  # type: ignore[override]
        return self._binary("=", other)

    def __ne__(self, other: object) -> Column:  # type: ignore[override]
        return self._binary("<>", other)

    def __lt__(self, other: Any) -> Column:
        return self._binary("<", other)

    def __le__(self, other: Any) -> Column:
        return self._binary("<=", other)

    def __gt__(self, other: Any) -> Column:
        return self._binary(">", other)

    def __ge__(self, other: Any) -> Column:
        return self._binary(">=", other)

    def __and__(self, other: Any) -> Column:
        return self._binary("AND", other)

    def __or__(self, other: Any) -> Column:
        return self._binary("OR", other)

    def __invert__(self) -> Column:
        return Column(f"(NOT {self.sql})")

    def __add__(self, other: Any) -> Column:
        return self._binary("+", other)

    def __radd__(self, other: Any) -> Column:
        return lit(other)._binary("+", self)

    def __sub__(self, other: Any) -> Column:
        return self._binary("-", other)

    def __rsub__(self, other: Any) -> Column:
        return lit(other)._binary("-", self)

    def __mul__(self, other: Any) -> Column:
        return self._binary("*", other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Column:
        return self._binary("/", other)

    def __mod__(self, other: Any) -> Column:
        return self._binary("%", other)

    def __bool__(self) -> bool:
        raise TypeError("an expression is neither true nor false: use &, | and ~")


def col(name: str) -> Column:
    """A column, or with dots a field of one; between backticks the name is taken as it is."""
    if name.startswith("`"):
        return Column(quoted(name.strip("`")), name.strip("`"))
    first, *fields = name.split(".")
    result = Column(quoted(first), first)
    for field in fields:
        result = result[field]
    return result


def lit(value: Any) -> Column:
    """A value as an expression; an expression stays what it is."""
    if isinstance(value, Column):
        return value
    if value is None:
        return Column("NULL")
    if isinstance(value, bool):
        return Column(str(value).upper())
    if isinstance(value, int | float):
        return Column(repr(value) if value >= 0 else f"({value!r})")
    return Column(text_literal(str(value)))


def expression(argument: str | Column) -> Column:
    """The expression of a function's argument: a column's name, or an expression already."""
    return col(argument) if isinstance(argument, str) else argument


# ------------------------------------------------------------------------------------------------ windows


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """The window of an expression: what follows OVER in SQL."""

    by: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    frame: str = ""

    def partitionBy(self, *columns: str | Column) -> WindowSpec:
        return replace(self, by=tuple(expression(column).sql for column in columns))

    def orderBy(self, *columns: str | Column) -> WindowSpec:
        return replace(self, order=tuple(sorting(columns)))

    def rowsBetween(self, start: int, end: int) -> WindowSpec:
        return replace(self, frame=f"ROWS BETWEEN {_edge(start)} AND {_edge(end)}")

    def rangeBetween(self, start: int, end: int) -> WindowSpec:
        return replace(self, frame=f"RANGE BETWEEN {_edge(start)} AND {_edge(end)}")

    @property
    def sql(self) -> str:
        by = f"PARTITION BY {', '.join(self.by)}" if self.by else ""
        order = f"ORDER BY {', '.join(self.order)}" if self.order else ""
        return " ".join(part for part in (by, order, self.frame) if part)


class Window:
    """The part of `pyspark.sql.Window` that the tables use, for DuckDB."""

    unboundedPreceding = -(1 << 63)
    unboundedFollowing = (1 << 63) - 1
    currentRow = 0

    @staticmethod
    def partitionBy(*columns: str | Column) -> WindowSpec:
        return WindowSpec().partitionBy(*columns)

    @staticmethod
    def orderBy(*columns: str | Column) -> WindowSpec:
        return WindowSpec().orderBy(*columns)


def sorting(columns: Iterable[str | Column]) -> list[str]:
    """The columns as ORDER BY takes them in SQL, with their directions."""
    return [f"{column.sql} {column.order}" for column in map(expression, columns)]


def _edge(rows: int) -> str:
    if rows == Window.unboundedPreceding:
        return "UNBOUNDED PRECEDING"
    if rows == Window.unboundedFollowing:
        return "UNBOUNDED FOLLOWING"
    return "CURRENT ROW" if rows == 0 else f"{abs(rows)} {'PRECEDING' if rows < 0 else 'FOLLOWING'}"
