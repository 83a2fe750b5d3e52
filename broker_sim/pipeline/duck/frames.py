"""DataFrames as PySpark has them: each a SELECT over others, computed when its rows are asked for.

Rules:
1. A frame never changes. Its query names the frames that it is made of; each of them is one CTE of the whole, however often it is
   used, so that DuckDB computes it once.
2. Columns are known without asking the database, types are not: `fall.*` asks it.
3. Of Spark's ways to share out work (`repartition`, `coalesce`, `broadcast`) nothing is left. A column that would be there twice after
   a join is an error here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

from broker_sim.pipeline.duck.columns import Column, col, expression, quoted, sorting

if TYPE_CHECKING:
    from broker_sim.pipeline.duck.session import DuckSession

__all__ = ["DuckRow", "Frame"]

_numbers = count(1)
_JOINS = {"inner": "JOIN", "left": "LEFT JOIN", "full": "FULL JOIN", "left_semi": "SEMI JOIN", "left_anti": "ANTI JOIN"}
Given = str | Column


class DuckRow(dict[str, Any]):
    """A row as Spark's `Row`: `row["group"]` and `row.group` are the same value."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def asDict(self, recursive: bool = False) -> dict[str, Any]:
        return dict(self)


class Frame:
    """``body``: its SELECT, in which other frames stand by their names; ``over``: those."""

    def __init__(self, session: DuckSession, body: str, columns: Iterable[str], over: Iterable[Frame] = ()) -> None:
        self.session, self.body, self.over = session, body, tuple(over)
        self.columns = list(columns)
        self.name = f"f{next(_numbers)}"
        twice = {name for name in self.columns if self.columns.count(name) > 1}
        if twice:
            raise ValueError(f"columns that are there twice: {', '.join(sorted(twice))}")

    def __getitem__(self, name: str) -> Column:
        return col(name if name.startswith("`") else f"`{name}`")

    # --- columns --------------------------------------------------------------------------------------------------------

    def select(self, *given: Given | list[Given]) -> Frame:
        shown = list(self._shown(given))
        return self._new(f"SELECT {_listed(shown)} FROM {self.name}", [name for name, _ in shown])

    def withColumn(self, name: str, column: Column) -> Frame:
        kept: list[Given] = [column.alias(name) if present == name else self[present] for present in self.columns]
        return self.select(*kept, *([] if name in self.columns else [column.alias(name)]))

    def withColumnRenamed(self, old: str, new: str) -> Frame:
        return self.select(*(self[name].alias(new if name == old else name) for name in self.columns))

    def drop(self, *names: str) -> Frame:
        return self.select(*(self[name] for name in self.columns if name not in names))

    def _shown(self, given: Iterable[Given | list[Given]]) -> Iterator[tuple[str, str]]:
        """(name, expression) of what a select has."""
        for argument in given:
            if isinstance(argument, list | tuple):
                yield from self._shown(argument)
            elif isinstance(argument, str) and argument.endswith("*"):
                inner = argument.removesuffix("*").removesuffix(".")
                names = self._fields(inner) if inner else self.columns
                yield from ((name, (col(inner)[name] if inner else self[name]).sql) for name in names)
            else:
                column = expression(argument)
                yield from (
                    zip(column.names, column.parts, strict=True)
                    if column.parts
                    else [(column.name or column.sql, column.sql)]
                )

    def _fields(self, name: str) -> list[str]:
        """The names of a struct's fields."""
        kind = self.select(name).relation().types[0]
        return [field for field, _ in kind.children]

    # --- rows -----------------------------------------------------------------------------------------------------------

    def where(self, condition: Given) -> Frame:
        return self._new(f"SELECT * FROM {self.name} WHERE {expression(condition).sql}")

    filter = where

    def distinct(self) -> Frame:
        return self._new(f"SELECT DISTINCT * FROM {self.name}")

    def dropDuplicates(self, names: list[str]) -> Frame:
        return self._new(f"SELECT DISTINCT ON ({', '.join(map(quoted, names))}) * FROM {self.name}")

    def orderBy(self, *given: Given) -> Frame:
        return self._new(f"SELECT * FROM {self.name} ORDER BY {', '.join(sorting(given))}")

    sort = sortWithinPartitions = orderBy

    def limit(self, number: int) -> Frame:
        # together with the order: a CTE of its own need not keep it
        if " ORDER BY " in self.body:
            return Frame(self.session, f"{self.body} LIMIT {number}", self.columns, self.over)
        return self._new(f"SELECT * FROM {self.name} LIMIT {number}")

    def groupBy(self, *given: Given) -> Grouped:
        return Grouped(self, [expression(argument) for argument in given])

    def agg(self, *columns: Column) -> Frame:
        return self.groupBy().agg(*columns)

    # --- two frames -----------------------------------------------------------------------------------------------------

    def union(self, other: Frame) -> Frame:
        return self._new(f"SELECT * FROM {self.name} UNION ALL SELECT * FROM {other.name}", None, other)

    def unionByName(self, other: Frame, allowMissingColumns: bool = False) -> Frame:
        more = [name for name in other.columns if name not in self.columns]
        if not allowMissingColumns and (more or len(self.columns) != len(other.columns)):
            raise ValueError(f"other columns: {', '.join(sorted(set(self.columns) ^ set(other.columns)))}")
        both = f"SELECT * FROM {self.name} UNION ALL BY NAME SELECT * FROM {other.name}"
        return self._new(both, [*self.columns, *more], other)

    def join(self, other: Frame, on: str | list[str] | Column, how: str = "inner") -> Frame:
        keys = [on] if isinstance(on, str) else [] if isinstance(on, Column) else list(on)
        if isinstance(on, Column):
            condition = on.sql
        else:
            condition = " AND ".join(f"l.{quoted(key)} = r.{quoted(key)}" for key in keys)

        def key_of(key: str) -> str:
            return f"coalesce(l.{quoted(key)}, r.{quoted(key)})" if how == "full" else f"l.{quoted(key)}"

        shown = [(key, key_of(key)) for key in keys]
        shown += [(name, f"l.{quoted(name)}") for name in self.columns if name not in keys]
        if how not in ("left_semi", "left_anti"):
            shown += [(name, f"r.{quoted(name)}") for name in other.columns if name not in keys]
        tables = f"{self.name} AS l {_JOINS[how]} {other.name} AS r ON {condition}"
        return self._new(f"SELECT {_listed(shown)} FROM {tables}", [name for name, _ in shown], other)

    # --- what Spark shares out ------------------------------------------------------------------------------------------

    def repartition(self, *given: object) -> Frame:
        return self

    coalesce = repartition

    def mapInArrow(self, made: Callable[[Iterable[Any]], Iterator[Any]], schema: Any) -> Frame:
        """Computed at once. ``schema``: pyarrow's."""
        return self.session.of_batches(made(self.session.read_through(self)), schema)

    def persist(self) -> Frame:
        """Compute the frame and keep its rows in the database; unlike Spark's, not lazily."""
        return self.session.kept(self)

    def unpersist(self) -> Frame:
        """The database goes with its session."""
        return self

    # --- out ------------------------------------------------------------------------------------------------------------

    def sql(self) -> str:
        """The query of this frame and of all frames that it uses, as one SQL statement."""
        needed: dict[str, Frame] = {}

        def take(frame: Frame) -> None:
            if frame.name not in needed:
                for source in frame.over:
                    take(source)
                needed[frame.name] = frame

        for used in self.over:
            take(used)
        ctes = ", ".join(f"{frame.name} AS ({frame.body})" for frame in needed.values())
        return f"WITH {ctes} {self.body}" if ctes else self.body

    def relation(self) -> Any:
        """The frame as a relation of DuckDB's Python API."""
        return self.session.connection.sql(self.sql())

    def toArrow(self) -> Any:
        return self.relation().to_arrow_table()

    def collect(self) -> list[DuckRow]:
        return [DuckRow(row) for row in self.toArrow().to_pylist()]

    def first(self) -> DuckRow | None:
        return next(iter(self.limit(1).collect()), None)

    def count(self) -> int:
        [(number,)] = self._new(f"SELECT count(*) AS n FROM {self.name}", ["n"]).relation().fetchall()
        return int(number)

    def _new(self, body: str, columns: Iterable[str] | None = None, *others: Frame) -> Frame:
        return Frame(self.session, body, self.columns if columns is None else columns, (self, *others))


class Grouped:
    """A frame grouped by keys, as Spark's `GroupedData`."""

    def __init__(self, frame: Frame, keys: list[Column]) -> None:
        self.frame, self.keys = frame, keys

    def agg(self, *columns: Column) -> Frame:
        keys = list(self.frame._shown(self.keys))
        shown = [*keys, *self.frame._shown(columns)]
        # by the expressions: a key may be called as another column is
        by = f" GROUP BY {', '.join(sql for _, sql in keys)}" if keys else ""
        return self.frame._new(f"SELECT {_listed(shown)} FROM {self.frame.name}{by}", [name for name, _ in shown])


def _listed(shown: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{sql} AS {quoted(name)}" for name, sql in shown)
