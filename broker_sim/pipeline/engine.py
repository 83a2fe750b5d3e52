"""The engine that a table is computed on: Spark, or DuckDB in this process, found by the DataFrames that a table's function is given.

    from broker_sim.pipeline.engine import Window, functions as f, on_its_engine

    @on_its_engine
    def busiest(log: DataFrame) -> DataFrame:
        return log.groupBy("group").agg(f.count("*").alias("records"))

Rules:
1. A table is one function for both engines: it says `f.count` and `Window.partitionBy`, and gets those that belong to its DataFrames.
   `pipeline.duck` has as much of PySpark's interface as the tables need; tests/pipeline/test_engines.py runs every table on both and
   finds the same rows.
2. Which engine it is holds within a call of a decorated function, in that thread. Outside of any, it is Spark.
3. SQL texts (`where("a > 1")`, `selectExpr`) belong to one engine, so tables don't use them.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from broker_sim.pipeline.duck.frames import Frame

if TYPE_CHECKING:
    from pyspark.sql import Window, functions
    from pyspark.sql.window import WindowSpec

__all__ = ["Window", "backwards", "engine_of", "functions", "is_in_process", "on_its_engine"]

SPARK, DUCK = "pyspark.sql", "broker_sim.pipeline.duck"
_active: ContextVar[str] = ContextVar("engine of tables", default=SPARK)

P = ParamSpec("P")
R = TypeVar("R")


class _EngineModule:
    """Module or class of the active engine by name, looked up at each use."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(getattr(importlib.import_module(_active.get()), self._name), name)


if not TYPE_CHECKING:
    functions, Window = _EngineModule("functions"), _EngineModule("Window")


@contextmanager
def engine_of(frame: object) -> Iterator[None]:
    """Within it, `functions` and `Window` are those of the engine that the DataFrame belongs to."""
    token = _active.set(DUCK if isinstance(frame, Frame) else SPARK)
    try:
        yield
    finally:
        _active.reset(token)


def is_in_process(session: object) -> bool:
    """Whether a session computes in this process, on DuckDB; else it is Spark's."""
    return hasattr(session, "of_arrow")


def backwards(*by: str, order: str) -> WindowSpec:
    """The rows of a partition behind each row, from the last one on: ``f.last`` over it is the next row's. Spark computes a frame that
    ends at the partition's end anew for each row, in time quadratic in its rows, and one that begins at its beginning once."""
    return Window.partitionBy(*by).orderBy(functions.desc(order)).rowsBetween(Window.unboundedPreceding, -1)


def on_its_engine(make: Callable[P, R]) -> Callable[P, R]:
    """A function of DataFrames, that it is called with as arguments or in a mapping."""

    @functools.wraps(make)
    def made(*args: P.args, **kwargs: P.kwargs) -> R:
        with engine_of(_first_frame([*args, *kwargs.values()])):
            return make(*args, **kwargs)

    return made


def _first_frame(given: list[object]) -> object:
    for argument in given:
        if isinstance(argument, Mapping):
            argument = next(iter(argument.values()), None)
        if hasattr(argument, "unionByName"):
            return argument
    return None
