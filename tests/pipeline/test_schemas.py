"""A table's columns are told once: Spark's schema, Arrow's, frames and documents follow."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from broker_sim.pipeline import schemas, tables
from broker_sim.pipeline.schemas import (
    INT,
    LONG,
    OFFSET_LOG,
    RUN_ID,
    STRING,
    ArrayOf,
    ColumnSpec,
    StructOf,
    TableSchema,
    moment,
)


def all_tables() -> dict[str, TableSchema]:
    """Return the tables of schemas.py and of every module below tables/."""
    modules = [schemas]
    modules += [
        importlib.import_module(f"{tables.__name__}.{module.name}") for module in pkgutil.iter_modules(tables.__path__)
    ]
    found = [value for module in modules for value in vars(module).values() if isinstance(value, TableSchema)]
    return {table.name: table for table in found}


TABLES = all_tables()
SMALL = TableSchema(
    "small",
    (
        RUN_ID,
        *moment("began", "when it began", "log"),
        ColumnSpec(
            "parts",
            ArrayOf(
                StructOf((ColumnSpec("topic", STRING, "a topic"), ColumnSpec("at", ArrayOf(INT), "its | partitions")))
            ),
            "parts",
        ),
        ColumnSpec("number", LONG, "a number"),
    ),
    "Rows.",
)


@pytest.mark.parametrize("name", TABLES)
def test_arrow_columns_are_those_that_spark_takes(name: str) -> None:
    """Else a data source that yields them is refused."""
    table = TABLES[name]
    assert table.arrow().equals(to_arrow_schema(table.spark(), timezone="UTC"))
    assert table.names[0] == "run_id"
    assert all(column.meaning for column in table.columns)
    assert len(set(table.names)) == len(table.names)


def test_there_are_tables() -> None:
    assert {"offset_log", "skipped"} <= set(TABLES)


def test_columns_by_name() -> None:
    assert SMALL.only(["number", "run_id"]).names == ("number", "run_id")
    assert SMALL["number"].type == LONG
    for wrong in (lambda: SMALL["numbr"], lambda: SMALL.only(["numbr"])):
        with pytest.raises(KeyError, match="table small has no column 'numbr'"):
            wrong()  # type: ignore[no-untyped-call]
    with pytest.raises(ValueError, match="table twice has columns twice: a"):
        TableSchema("twice", (ColumnSpec("a", INT, "one"), ColumnSpec("a", INT, "two")))


def test_documentation_and_sql_of_the_tables() -> None:
    assert SMALL.ddl() == (
        "`run_id` string, `began` timestamp, `began_ms` bigint, `parts` array<struct<topic:string,at:array<int>>>, `number` bigint"
    )
    lines = SMALL.markdown().splitlines()
    assert lines[0] == "| column | type | meaning | source |"
    assert "| `began_ms` | bigint | `began` in ms since 1970 | log |" in lines
    assert "| `parts` | array<struct> | parts |  |" in lines
    assert r"| `parts.at` | array<int> | its \| partitions |  |" in lines


@pytest.mark.spark
def test_frames_by_name(spark: Any) -> None:
    (row,) = SMALL.frame(spark, [{"number": 4, "parts": [{"topic": "t", "at": [1]}]}]).collect()
    assert (row.run_id, row.began, row.number, row.parts[0].at) == (None, None, 4, [1])
    assert SMALL.frame(spark).schema == SMALL.spark()
    with pytest.raises(KeyError, match="table small has no column 'numbr'"):
        SMALL.frame(spark, [{"numbr": 4}])


@pytest.mark.spark
def test_any_frame_gets_the_columns_of_a_table(spark: Any) -> None:
    frame = SMALL.conform(spark.sql("select 7 as number, 'x' as run_id, 1 as other"))
    assert frame.schema.simpleString() == SMALL.spark().simpleString()
    (row,) = frame.collect()
    assert (row.run_id, row.number, row.parts) == ("x", 7, None)
    assert OFFSET_LOG.conform(spark.range(0)).columns == list(OFFSET_LOG.names)
