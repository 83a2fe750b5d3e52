"""PySpark's functions as DuckDB's SQL: those that the tables use, under PySpark's names, meaning what they mean there.

Where the two differ, the text says so: Spark's `concat` of a null is null, its `collect_list` and `collect_set` leave nulls out,
`max_by` does not, its sums are whole numbers of 64 bits, `get` counts from 0.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from itertools import count as counting
from typing import Any

from broker_sim.pipeline.duck.columns import Column, col, expression, lit, quoted

__all__ = [
    "abs",
    "aggregate",
    "array",
    "array_contains",
    "array_distinct",
    "array_intersect",
    "array_join",
    "array_max",
    "array_min",
    "array_repeat",
    "array_sort",
    "array_union",
    "asc",
    "avg",
    "bool_and",
    "bool_or",
    "broadcast",
    "coalesce",
    "col",
    "collect_list",
    "collect_set",
    "concat",
    "concat_ws",
    "conv",
    "count",
    "count_distinct",
    "desc",
    "encode",
    "exists",
    "explode",
    "filter",
    "first",
    "flatten",
    "floor",
    "forall",
    "get",
    "get_json_object",
    "greatest",
    "hex",
    "lag",
    "last",
    "lead",
    "least",
    "length",
    "lit",
    "lower",
    "max",
    "max_by",
    "min",
    "min_by",
    "percentile_approx",
    "pmod",
    "posexplode",
    "regexp_extract",
    "round",
    "row_number",
    "sequence",
    "size",
    "struct",
    "substr",
    "sum",
    "timestamp_millis",
    "to_json",
    "transform",
    "when",
]

Given = str | Column
_numbers = counting(1)


def _call(name: str, *given: Given) -> Column:
    return Column(f"{name}({', '.join(expression(argument).sql for argument in given)})")


def _aggregate(call: str, wrap: str = "{}") -> Column:
    return Column(wrap.format(call), None, call, wrap)


# ------------------------------------------------------------------------------------------------ plain ones


def broadcast(frame: Any) -> Any:
    """There is one process: nothing to send."""
    return frame


def when(condition: Column, value: Any) -> Column:
    return Column(f"CASE WHEN {condition.sql} THEN {lit(value).sql} END")


def coalesce(*given: Given) -> Column:
    return _call("coalesce", *given)


def greatest(*given: Given) -> Column:
    return _call("greatest", *given)


def least(*given: Given) -> Column:
    return _call("least", *given)


def abs(column: Given) -> Column:
    return _call("abs", column)


def round(column: Given) -> Column:
    return _call("round", column)


def pmod(column: Given, by: Given) -> Column:
    value, modulus = expression(column).sql, expression(by).sql
    return Column(f"((({value} % {modulus}) + {modulus}) % {modulus})")


def floor(column: Given) -> Column:
    return Column(f"CAST(floor({expression(column).sql}) AS BIGINT)")


def timestamp_millis(ms: Given) -> Column:
    return Column(f"CAST(epoch_ms(CAST({expression(ms).sql} AS BIGINT)) AS TIMESTAMPTZ)")


def struct(*given: Given) -> Column:
    parts = []
    for argument in given:
        column = expression(argument)
        if column.name is None:
            raise TypeError(f"a field of a struct has no name: {column.sql}")
        parts.append(f"{quoted(column.name)} := {column.sql}")
    return Column(f"struct_pack({', '.join(parts)})")


def to_json(column: Given) -> Column:
    """A value as JSON text. Fields that are null are written, unlike in Spark's."""
    return Column(f"CAST(to_json({expression(column).sql}) AS VARCHAR)")


def get_json_object(column: Given, path: str) -> Column:
    return Column(f"json_extract_string({expression(column).sql}, {lit(path).sql})")


# ------------------------------------------------------------------------------------------------ texts


def concat(*given: Given) -> Column:
    return Column(f"({' || '.join(expression(argument).sql for argument in given)})")


def concat_ws(between: str, *given: Given) -> Column:
    return Column(f"concat_ws({lit(between).sql}, {', '.join(expression(argument).sql for argument in given)})")


def length(column: Given) -> Column:
    return _call("length", column)


def lower(column: Given) -> Column:
    return _call("lower", column)


def substr(column: Given, start: Given, many: Given) -> Column:
    return _call("substr", column, start, many)


def regexp_extract(column: Given, pattern: str, group: int) -> Column:
    return Column(f"regexp_extract({expression(column).sql}, {lit(pattern).sql}, {group})")


def encode(column: Given, charset: str) -> Column:
    """UTF-16BE alone, which DuckDB has no bytes for: code unit by code unit."""
    if charset != "UTF-16BE":
        raise ValueError(f"no charset of this engine: {charset}")
    return Column(
        f"list_transform(regexp_extract_all({expression(column).sql}, '(?s).'), lambda c: CASE WHEN unicode(c) < 65536"
        " THEN printf('%04X', unicode(c))"
        " ELSE printf('%04X%04X', 55296 + ((unicode(c) - 65536) >> 10), 56320 + ((unicode(c) - 65536) & 1023)) END)"
    )


def hex(encoded: Column) -> Column:
    """Hexadecimal digits of the bytes that `encode` returns."""
    return Column(f"array_to_string({encoded.sql}, '')")


def conv(column: Given, from_base: int, to_base: int) -> Column:
    if (from_base, to_base) != (16, 10):
        raise ValueError(f"no conversion of this engine: {from_base} to {to_base}")
    return Column(f"CAST(CAST('0x' || {expression(column).sql} AS BIGINT) AS VARCHAR)")


# ------------------------------------------------------------------------------------------------ arrays


def array(*given: Given) -> Column:
    return Column(f"[{', '.join(expression(argument).sql for argument in given)}]")


def size(column: Given) -> Column:
    return Column(f"CAST(len({expression(column).sql}) AS INTEGER)")


def get(column: Given, index: Given) -> Column:
    """The element at an index from 0 on, null behind the end."""
    return Column(f"list_extract({expression(column).sql}, {expression(index).sql} + 1)")


def sequence(start: Given, end: Given, step: Given | None = None) -> Column:
    return _call("generate_series", start, end, *([] if step is None else [step]))


def array_contains(column: Given, value: Any) -> Column:
    return Column(f"list_contains({expression(column).sql}, {lit(value).sql})")


def array_distinct(column: Given) -> Column:
    return _call("list_distinct", column)


def array_union(column: Given, other: Given) -> Column:
    return Column(f"list_distinct({expression(column).sql} || {expression(other).sql})")


def array_intersect(column: Given, other: Given) -> Column:
    return _call("list_intersect", column, other)


def array_sort(column: Given) -> Column:
    return Column(f"list_sort({expression(column).sql}, 'ASC', 'NULLS LAST')")


def array_max(column: Given) -> Column:
    return _call("list_max", column)


def array_min(column: Given) -> Column:
    return _call("list_min", column)


def array_join(column: Given, between: str) -> Column:
    return Column(f"array_to_string({expression(column).sql}, {lit(between).sql})")


def array_repeat(column: Given, many: Given) -> Column:
    value, times = expression(column).sql, expression(many).sql
    return Column(f"list_transform(range({times}), lambda ignored: {value})")


def flatten(column: Given) -> Column:
    return _call("flatten", column)


def explode(column: Given) -> Column:
    return Column(f"unnest({expression(column).sql})", "col")


def posexplode(column: Given) -> Column:
    value = expression(column).sql
    places = f"unnest(list_transform(range(len({value})), lambda place: CAST(place AS INTEGER)))"
    return Column(value, parts=(places, f"unnest({value})"), names=("pos", "col"))


def _lambda(made: Callable[..., Column]) -> str:
    """`lambda a1, b2: text`; names are new ones, for one may stand within another."""
    names = [f"{name}{next(_numbers)}" for name in inspect.signature(made).parameters]
    return f"lambda {', '.join(names)}: {made(*(Column(name) for name in names)).sql}"


def transform(column: Given, change: Callable[..., Column]) -> Column:
    return Column(f"list_transform({expression(column).sql}, {_lambda(change)})")


def filter(column: Given, keep: Callable[..., Column]) -> Column:
    return Column(f"list_filter({expression(column).sql}, {_lambda(keep)})")


def exists(column: Given, holds: Callable[..., Column]) -> Column:
    return Column(f"(len({filter(column, holds).sql}) > 0)")


def forall(column: Given, holds: Callable[..., Column]) -> Column:
    return Column(f"(len({filter(column, holds).sql}) = len({expression(column).sql}))")


def aggregate(column: Given, start: Column, merge: Callable[..., Column]) -> Column:
    return Column(f"list_reduce({expression(column).sql}, {_lambda(merge)}, {start.sql})")


# ------------------------------------------------------------------------------------------------ aggregates


def count(column: Given) -> Column:
    return _aggregate("count(*)" if isinstance(column, str) and column == "*" else f"count({expression(column).sql})")


def count_distinct(column: Given) -> Column:
    return _aggregate(f"count(DISTINCT {expression(column).sql})")


def sum(column: Given) -> Column:
    """The sum of whole numbers, as a BIGINT."""
    return _aggregate(f"sum({expression(column).sql})", "CAST({} AS BIGINT)")


def avg(column: Given) -> Column:
    return _aggregate(f"avg({expression(column).sql})")


def min(column: Given) -> Column:
    return _aggregate(f"min({expression(column).sql})")


def max(column: Given) -> Column:
    return _aggregate(f"max({expression(column).sql})")


def bool_or(column: Given) -> Column:
    return _aggregate(f"bool_or({expression(column).sql})")


def bool_and(column: Given) -> Column:
    return _aggregate(f"bool_and({expression(column).sql})")


def max_by(column: Given, by: Given) -> Column:
    return _aggregate(f"arg_max_null({expression(column).sql}, {expression(by).sql})")


def min_by(column: Given, by: Given) -> Column:
    return _aggregate(f"arg_min_null({expression(column).sql}, {expression(by).sql})")


def percentile_approx(column: Given, share: float) -> Column:
    return _aggregate(f"quantile_disc({expression(column).sql}, {share})")


def collect_list(column: Given) -> Column:
    value = expression(column).sql
    return Column(f"coalesce(list({value}) FILTER (WHERE {value} IS NOT NULL), [])")


def collect_set(column: Given) -> Column:
    value = expression(column).sql
    return Column(f"coalesce(list(DISTINCT {value}) FILTER (WHERE {value} IS NOT NULL), [])")


def first(column: Given, ignorenulls: bool = False) -> Column:
    value = expression(column).sql
    if ignorenulls:
        return replace(_aggregate(f"first_value({value} IGNORE NULLS)"), sql=f"any_value({value})")
    return replace(_aggregate(f"first_value({value})"), sql=f"first({value})")


def last(column: Given, ignorenulls: bool = False) -> Column:
    return _aggregate(f"last_value({expression(column).sql}{' IGNORE NULLS' if ignorenulls else ''})")


def lag(column: Given, back: int = 1) -> Column:
    return _aggregate(f"lag({expression(column).sql}, {back})")


def lead(column: Given, ahead: int = 1) -> Column:
    return _aggregate(f"lead({expression(column).sql}, {ahead})")


def row_number() -> Column:
    return _aggregate("row_number()", "CAST({} AS INTEGER)")


# ------------------------------------------------------------------------------------------------ orders


def asc(column: Given) -> Column:
    return expression(column)


def desc(column: Given) -> Column:
    return replace(expression(column), order="DESC NULLS LAST")


desc_nulls_last = desc
