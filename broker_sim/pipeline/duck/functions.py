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
    return Column(f"{name}({', '.join(expression(one).sql for one in given)})")


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


def abs(one: Given) -> Column:
    return _call("abs", one)


def round(one: Given) -> Column:
    return _call("round", one)


def pmod(one: Given, by: Given) -> Column:
    value, modulus = expression(one).sql, expression(by).sql
    return Column(f"((({value} % {modulus}) + {modulus}) % {modulus})")


def floor(one: Given) -> Column:
    return Column(f"CAST(floor({expression(one).sql}) AS BIGINT)")


def timestamp_millis(ms: Given) -> Column:
    return Column(f"CAST(epoch_ms(CAST({expression(ms).sql} AS BIGINT)) AS TIMESTAMPTZ)")


def struct(*given: Given) -> Column:
    parts = []
    for one in given:
        column = expression(one)
        if column.name is None:
            raise TypeError(f"a field of a struct has no name: {column.sql}")
        parts.append(f"{quoted(column.name)} := {column.sql}")
    return Column(f"struct_pack({', '.join(parts)})")


def to_json(one: Given) -> Column:
    """As text. What is null in an object stands in it, unlike in Spark's."""
    return Column(f"CAST(to_json({expression(one).sql}) AS VARCHAR)")


def get_json_object(one: Given, path: str) -> Column:
    return Column(f"json_extract_string({expression(one).sql}, {lit(path).sql})")


# ------------------------------------------------------------------------------------------------ texts


def concat(*given: Given) -> Column:
    return Column(f"({' || '.join(expression(one).sql for one in given)})")


def concat_ws(between: str, *given: Given) -> Column:
    return Column(f"concat_ws({lit(between).sql}, {', '.join(expression(one).sql for one in given)})")


def length(one: Given) -> Column:
    return _call("length", one)


def lower(one: Given) -> Column:
    return _call("lower", one)


def substr(one: Given, start: Given, many: Given) -> Column:
    return _call("substr", one, start, many)


def regexp_extract(one: Given, pattern: str, group: int) -> Column:
    return Column(f"regexp_extract({expression(one).sql}, {lit(pattern).sql}, {group})")


def encode(one: Given, charset: str) -> Column:
    """UTF-16BE alone, which DuckDB has no bytes for: code unit by code unit."""
    if charset != "UTF-16BE":
        raise ValueError(f"no charset of this engine: {charset}")
    return Column(
        f"list_transform(regexp_extract_all({expression(one).sql}, '(?s).'), lambda c: CASE WHEN unicode(c) < 65536"
        " THEN printf('%04X', unicode(c))"
        " ELSE printf('%04X%04X', 55296 + ((unicode(c) - 65536) >> 10), 56320 + ((unicode(c) - 65536) & 1023)) END)"
    )


def hex(encoded: Column) -> Column:
    """Of what `encode` gives."""
    return Column(f"array_to_string({encoded.sql}, '')")


def conv(one: Given, from_base: int, to_base: int) -> Column:
    if (from_base, to_base) != (16, 10):
        raise ValueError(f"no conversion of this engine: {from_base} to {to_base}")
    return Column(f"CAST(CAST('0x' || {expression(one).sql} AS BIGINT) AS VARCHAR)")


# ------------------------------------------------------------------------------------------------ arrays


def array(*given: Given) -> Column:
    return Column(f"[{', '.join(expression(one).sql for one in given)}]")


def size(one: Given) -> Column:
    return Column(f"CAST(len({expression(one).sql}) AS INTEGER)")


def get(one: Given, index: Given) -> Column:
    """The element at an index from 0 on, null behind the end."""
    return Column(f"list_extract({expression(one).sql}, {expression(index).sql} + 1)")


def sequence(start: Given, end: Given, step: Given | None = None) -> Column:
    return _call("generate_series", start, end, *([] if step is None else [step]))


def array_contains(one: Given, value: Any) -> Column:
    return Column(f"list_contains({expression(one).sql}, {lit(value).sql})")


def array_distinct(one: Given) -> Column:
    return _call("list_distinct", one)


def array_union(one: Given, other: Given) -> Column:
    return Column(f"list_distinct({expression(one).sql} || {expression(other).sql})")


def array_intersect(one: Given, other: Given) -> Column:
    return _call("list_intersect", one, other)


def array_sort(one: Given) -> Column:
    return Column(f"list_sort({expression(one).sql}, 'ASC', 'NULLS LAST')")


def array_max(one: Given) -> Column:
    return _call("list_max", one)


def array_min(one: Given) -> Column:
    return _call("list_min", one)


def array_join(one: Given, between: str) -> Column:
    return Column(f"array_to_string({expression(one).sql}, {lit(between).sql})")


def array_repeat(one: Given, many: Given) -> Column:
    value, times = expression(one).sql, expression(many).sql
    return Column(f"list_transform(range({times}), lambda ignored: {value})")


def flatten(one: Given) -> Column:
    return _call("flatten", one)


def explode(one: Given) -> Column:
    return Column(f"unnest({expression(one).sql})", "col")


def posexplode(one: Given) -> Column:
    value = expression(one).sql
    places = f"unnest(list_transform(range(len({value})), lambda place: CAST(place AS INTEGER)))"
    return Column(value, parts=(places, f"unnest({value})"), names=("pos", "col"))


def _lambda(made: Callable[..., Column]) -> str:
    """`lambda a1, b2: text`; names are new ones, for one may stand within another."""
    names = [f"{name}{next(_numbers)}" for name in inspect.signature(made).parameters]
    return f"lambda {', '.join(names)}: {made(*(Column(name) for name in names)).sql}"


def transform(one: Given, each: Callable[..., Column]) -> Column:
    return Column(f"list_transform({expression(one).sql}, {_lambda(each)})")


def filter(one: Given, keep: Callable[..., Column]) -> Column:
    return Column(f"list_filter({expression(one).sql}, {_lambda(keep)})")


def exists(one: Given, holds: Callable[..., Column]) -> Column:
    return Column(f"(len({filter(one, holds).sql}) > 0)")


def forall(one: Given, holds: Callable[..., Column]) -> Column:
    return Column(f"(len({filter(one, holds).sql}) = len({expression(one).sql}))")


def aggregate(one: Given, start: Column, merge: Callable[..., Column]) -> Column:
    return Column(f"list_reduce({expression(one).sql}, {_lambda(merge)}, {start.sql})")


# ------------------------------------------------------------------------------------------------ aggregates


def count(one: Given) -> Column:
    return _aggregate("count(*)" if isinstance(one, str) and one == "*" else f"count({expression(one).sql})")


def count_distinct(one: Given) -> Column:
    return _aggregate(f"count(DISTINCT {expression(one).sql})")


def sum(one: Given) -> Column:
    """Of whole numbers."""
    return _aggregate(f"sum({expression(one).sql})", "CAST({} AS BIGINT)")


def avg(one: Given) -> Column:
    return _aggregate(f"avg({expression(one).sql})")


def min(one: Given) -> Column:
    return _aggregate(f"min({expression(one).sql})")


def max(one: Given) -> Column:
    return _aggregate(f"max({expression(one).sql})")


def bool_or(one: Given) -> Column:
    return _aggregate(f"bool_or({expression(one).sql})")


def bool_and(one: Given) -> Column:
    return _aggregate(f"bool_and({expression(one).sql})")


def max_by(one: Given, by: Given) -> Column:
    return _aggregate(f"arg_max_null({expression(one).sql}, {expression(by).sql})")


def min_by(one: Given, by: Given) -> Column:
    return _aggregate(f"arg_min_null({expression(one).sql}, {expression(by).sql})")


def percentile_approx(one: Given, share: float) -> Column:
    return _aggregate(f"quantile_disc({expression(one).sql}, {share})")


def collect_list(one: Given) -> Column:
    value = expression(one).sql
    return Column(f"coalesce(list({value}) FILTER (WHERE {value} IS NOT NULL), [])")


def collect_set(one: Given) -> Column:
    value = expression(one).sql
    return Column(f"coalesce(list(DISTINCT {value}) FILTER (WHERE {value} IS NOT NULL), [])")


def first(one: Given, ignorenulls: bool = False) -> Column:
    value = expression(one).sql
    if ignorenulls:
        return replace(_aggregate(f"first_value({value} IGNORE NULLS)"), sql=f"any_value({value})")
    return replace(_aggregate(f"first_value({value})"), sql=f"first({value})")


def last(one: Given, ignorenulls: bool = False) -> Column:
    return _aggregate(f"last_value({expression(one).sql}{' IGNORE NULLS' if ignorenulls else ''})")


def lag(one: Given, back: int = 1) -> Column:
    return _aggregate(f"lag({expression(one).sql}, {back})")


def lead(one: Given, ahead: int = 1) -> Column:
    return _aggregate(f"lead({expression(one).sql}, {ahead})")


def row_number() -> Column:
    return _aggregate("row_number()", "CAST({} AS INTEGER)")


# ------------------------------------------------------------------------------------------------ orders


def asc(one: Given) -> Column:
    return expression(one)


def desc(one: Given) -> Column:
    return replace(expression(one), order="DESC NULLS LAST")


desc_nulls_last = desc
