"""Small pieces of Spark SQL that several tables need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from broker_sim.pipeline.engine import functions as F
from broker_sim.pipeline.schemas import TableSchema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["ids", "moments", "none_of", "or_none", "place", "records", "seq_of", "word"]


def moments(name: str, ms: Column) -> list[Column]:
    """The two columns of `schemas.moment`, of ms since 1970."""
    return [F.timestamp_millis(ms).alias(name), ms.alias(f"{name}_ms")]


def place(seq: str = "seq") -> Column:
    """The position of an event in its run, as one number: aggregates of numbers need no sorting, those of structs do. ``seq``: the
    column with its number."""
    return F.col("journal").cast("bigint") * _EVENTS_OF_A_JOURNAL + F.col(seq)


_EVENTS_OF_A_JOURNAL = 1 << 40


def seq_of(place_: int | None) -> int | None:
    """The number of the event at a `place`."""
    return None if place_ is None else place_ % _EVENTS_OF_A_JOURNAL


def word(words: Mapping[Any, str], key: Column) -> Column:
    """The word for ``key`` in ``words``, null if it has none."""
    first, *others = words.items()
    result = F.when(key == first[0], first[1])
    for value, called in others:
        result = result.when(key == value, called)
    return result


def none_of(table: TableSchema, name: str) -> Column:
    """The empty array of the type of a table's column."""
    return F.array().cast(str(table[name].type))


def or_none(table: TableSchema, name: str) -> Column:
    """A table's column that is an array, empty where it is null."""
    return F.coalesce(F.col(name), none_of(table, name))


def ids(members: str, name: str) -> Column:
    """The field ``name`` of each element of an array."""
    return F.transform(F.col(members), lambda element: element[name])


def records(log: DataFrame) -> Column:
    """Number of records of the log that a row of an offset_log or a CONDENSED represents."""
    return F.col("records") if "records" in log.columns else F.lit(1)
