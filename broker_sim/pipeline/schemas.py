"""Schemas of the tables: columns with their types, units and sources, from which everything else is derived.

    REBALANCES = TableSchema("rebalances", (
        RUN_ID,
        ColumnSpec("group", STRING, "group id", "journal"),
        *moment("started", "when the window opened", "journal"),      # started (timestamp) and started_ms (bigint)
        ColumnSpec("members", ArrayOf(STRING), "member ids, in the order in which they joined", "log"),
    ), "One row for each rebalance.")
    REBALANCES.spark()     StructType, for createDataFrame and DataSource.schema()
    REBALANCES.ddl()       the same as text
    REBALANCES.arrow()     pyarrow.Schema, equal to what Spark makes of spark()
    REBALANCES.frame(spark, [{"group": "billing", ...}])              columns that a row leaves out are null
    REBALANCES.markdown()  the table of docs/pipeline.md

Rules:
1. A table's columns are defined once, here or in its module below `tables/`. Code that builds rows names columns, never their places.
2. Every column may be null, unless its meaning says when it isn't: outer joins and older journals make nulls, and Spark then needs no
   second schema.
3. Moments are UTC. `x` is a timestamp for people, `x_ms` the same as exact ms since 1970 for arithmetic; durations end in `_ms`.
4. pyspark and pyarrow are imported when they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from broker_sim.pipeline.duck.frames import Frame
from broker_sim.pipeline.engine import engine_of, functions, is_in_process

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = [
    "BINARY",
    "BOOLEAN",
    "DOUBLE",
    "INT",
    "LONG",
    "OFFSET_LOG",
    "RUN_ID",
    "SKIPPED",
    "STRING",
    "TIMESTAMP",
    "ArrayOf",
    "ColumnSpec",
    "StructOf",
    "TableSchema",
    "Type",
    "moment",
]

# ------------------------------------------------------------------------------------------------ types


@dataclass(frozen=True)
class Scalar:
    """A type without parts, by Spark's name in SQL."""

    sql: str

    def __str__(self) -> str:
        return self.sql


@dataclass(frozen=True)
class ArrayOf:
    """An array whose elements have one type."""

    element: Type

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True)
class StructOf:
    """A record within a column."""

    columns: tuple[ColumnSpec, ...]

    def __str__(self) -> str:
        return f"struct<{','.join(f'{column.name}:{column.type}' for column in self.columns)}>"


Type = Scalar | ArrayOf | StructOf

STRING = Scalar("string")
BOOLEAN = Scalar("boolean")
INT = Scalar("int")
LONG = Scalar("bigint")
DOUBLE = Scalar("double")
BINARY = Scalar("binary")
TIMESTAMP = Scalar("timestamp")
"""UTC, in microseconds as Spark keeps it."""


@dataclass(frozen=True)
class ColumnSpec:
    """One column: what it means (with its unit, and when it is null), and what it is made from."""

    name: str
    type: Type
    meaning: str
    source: str = ""


@dataclass(frozen=True)
class TableSchema:
    """A named list of columns; ``description``: what a row is, in a sentence or two."""

    name: str
    columns: tuple[ColumnSpec, ...]
    description: str = ""

    def __post_init__(self) -> None:
        names = self.names
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(f"table {self.name} has columns twice: {', '.join(sorted(twice))}")

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(column.name for column in self.columns)

    def __getitem__(self, name: str) -> ColumnSpec:
        """The column of that name. Raises KeyError."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(f"table {self.name} has no column {name!r}")

    def only(self, names: Iterable[str]) -> TableSchema:
        """The table with these columns alone, in that order. Raises KeyError."""
        return TableSchema(self.name, tuple(self[name] for name in names), self.description)

    def element(self, name: str) -> str:
        """The type of the elements of a column that is an array, in Spark's words."""
        kind = self[name].type
        assert isinstance(kind, ArrayOf)
        return str(kind.element)

    def ddl(self) -> str:
        """The columns as Spark's SQL writes them: `` `group` string, committed_offset bigint``."""
        return ", ".join(f"`{column.name}` {column.type}" for column in self.columns)

    def spark(self) -> Any:
        """pyspark.sql.types.StructType of the columns; no session is needed."""
        return _spark_type(StructOf(self.columns))

    def arrow(self) -> Any:
        """pyarrow.Schema of the columns, the one that Spark takes for `spark()`."""
        return self._arrow

    @cached_property
    def _arrow(self) -> Any:
        import pyarrow

        return pyarrow.schema([_arrow_field(column) for column in self.columns])

    def frame(self, spark: Any, rows: Iterable[Mapping[str, Any]] = ()) -> Any:
        """A DataFrame of these rows, in a SparkSession or a `duck.session.Session`; what a row doesn't name is null. Raises KeyError
        for a name that is no column."""
        known = set(self.names)
        table = []
        for row in rows:
            extra = [name for name in row if name not in known]
            if extra:
                raise KeyError(f"table {self.name} has no column {extra[0]!r}")
            table.append({name: row.get(name) for name in self.names})
        if is_in_process(spark):
            import pyarrow

            return spark.of_arrow(pyarrow.Table.from_pylist(table, schema=self.arrow()))
        return spark.createDataFrame([tuple(row.values()) for row in table], self.spark())

    def none_like(self, frame: DataFrame) -> DataFrame:
        """No rows of these columns, in the session of a DataFrame."""
        with engine_of(frame):
            return self.conform(frame.limit(0)).where(functions.lit(False))

    def of_arrow(self, spark: Any, rows: Any) -> Any:
        """A DataFrame of a pyarrow.Table with these columns, in a session of either engine."""
        return spark.of_arrow(rows) if is_in_process(spark) else spark.createDataFrame(rows, schema=self.spark())

    def schema_for(self, frame: DataFrame) -> Any:
        """The columns in the form that the engine of a DataFrame takes."""
        return self.arrow() if isinstance(frame, Frame) else self.spark()

    def conform(self, frame: DataFrame) -> DataFrame:
        """The DataFrame with exactly these columns, in order and cast to their types; those it hasn't are null."""
        have = set(frame.columns)
        with engine_of(frame):
            return frame.select(
                *(
                    (frame[f"`{column.name}`"] if column.name in have else functions.lit(None))
                    .cast(str(column.type))
                    .alias(column.name)
                    for column in self.columns
                )
            )

    def rows(self) -> list[tuple[str, str, str, str]]:
        """(name, type, meaning, source) of every column, a struct's own columns below it: what documents print."""
        return list(_doc_rows(self.columns, ""))

    def markdown(self) -> str:
        """The columns as a Markdown table."""
        lines = [("column", "type", "meaning", "source"), ("---",) * 4]
        lines += [(f"`{name}`", kind, meaning, source) for name, kind, meaning, source in self.rows()]
        return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def moment(name: str, meaning: str, source: str = "") -> tuple[ColumnSpec, ColumnSpec]:
    """The two columns of a moment: ``name`` for people, ``name_ms`` for arithmetic."""
    return (
        ColumnSpec(name, TIMESTAMP, meaning, source),
        ColumnSpec(f"{name}_ms", LONG, f"`{name}` in ms since 1970", source),
    )


def _doc_rows(columns: Iterable[ColumnSpec], within: str) -> Iterable[tuple[str, str, str, str]]:
    for column in columns:
        inner = column.type.element if isinstance(column.type, ArrayOf) else column.type
        shown = "array<struct>" if inner is not column.type else "struct"
        kind = shown if isinstance(inner, StructOf) else str(column.type)
        yield within + column.name, kind, column.meaning, column.source
        if isinstance(inner, StructOf):
            yield from _doc_rows(inner.columns, f"{within}{column.name}.")


def _spark_type(kind: Type) -> Any:
    from pyspark.sql import types

    if isinstance(kind, StructOf):
        return types.StructType([types.StructField(c.name, _spark_type(c.type), True) for c in kind.columns])
    if isinstance(kind, ArrayOf):
        return types.ArrayType(_spark_type(kind.element), True)
    return {
        STRING: types.StringType(),
        BOOLEAN: types.BooleanType(),
        INT: types.IntegerType(),
        LONG: types.LongType(),
        DOUBLE: types.DoubleType(),
        BINARY: types.BinaryType(),
        TIMESTAMP: types.TimestampType(),
    }[kind]


def _arrow_field(column: ColumnSpec) -> Any:
    import pyarrow

    return pyarrow.field(column.name, _arrow_type(column.type), nullable=True)


def _arrow_type(kind: Type) -> Any:
    import pyarrow

    if isinstance(kind, StructOf):
        return pyarrow.struct([_arrow_field(column) for column in kind.columns])
    if isinstance(kind, ArrayOf):
        return pyarrow.list_(pyarrow.field("element", _arrow_type(kind.element), nullable=True))
    return {
        STRING: pyarrow.string(),
        BOOLEAN: pyarrow.bool_(),
        INT: pyarrow.int32(),
        LONG: pyarrow.int64(),
        DOUBLE: pyarrow.float64(),
        BINARY: pyarrow.binary(),
        TIMESTAMP: pyarrow.timestamp("us", tz="UTC"),
    }[kind]


# ------------------------------------------------------------------------------------------------ the offsets log

RUN_ID = ColumnSpec("run_id", STRING, "id of the run; never null. Default: the input directory's name", "option runId")

_VALUE, _KEY, _BATCH, _RECORD = "value", "key", "batch header", "record"

_MEMBER = StructOf(
    (
        ColumnSpec("member_id", STRING, "as assigned by the coordinator", _VALUE),
        ColumnSpec("group_instance_id", STRING, "of a static member (KIP-345), else null; value v3+", _VALUE),
        ColumnSpec("client_id", STRING, "as the client sent it", _VALUE),
        ColumnSpec("client_host", STRING, "as Kafka shows it: `/10.0.0.1`", _VALUE),
        ColumnSpec("rebalance_timeout_ms", INT, "ms; null before value v1", _VALUE),
        ColumnSpec("session_timeout_ms", INT, "ms", _VALUE),
        ColumnSpec("subscription", BINARY, "the member's metadata for the selected protocol, undecoded", _VALUE),
        ColumnSpec("assignment", BINARY, "the member's assignment, undecoded", _VALUE),
        ColumnSpec("topics", ArrayOf(STRING), "topics of the subscription; null unless a consumer's", _VALUE),
        ColumnSpec(
            "assigned",
            ArrayOf(
                StructOf(
                    (
                        ColumnSpec("topic", STRING, "topic", _VALUE),
                        ColumnSpec("partitions", ArrayOf(INT), "partitions of it, in the assignment's order", _VALUE),
                    )
                )
            ),
            "partitions of the assignment; null unless a consumer's",
            _VALUE,
        ),
    )
)

KINDS = ("commit", "commit_tombstone", "group", "group_tombstone", "txn_commit", "txn_abort", "other")

OFFSET_LOG = TableSchema(
    "offset_log",
    (
        RUN_ID,
        ColumnSpec("log_partition", INT, "partition of `__consumer_offsets`; never null", "folder name"),
        ColumnSpec("log_offset", LONG, "the record's own offset in it; never null", _RECORD),
        *moment("record_ts", "when it was written (or created); null where the record has none", _RECORD),
        ColumnSpec("leader_epoch", INT, "epoch of the partition's leader that wrote it", _BATCH),
        ColumnSpec("producer_id", LONG, "-1 outside of transactions", _BATCH),
        ColumnSpec("producer_epoch", INT, "-1 outside of transactions", _BATCH),
        ColumnSpec(
            "is_txn", BOOLEAN, "whether it belongs to a transaction: it counts once its txn_commit is there", _BATCH
        ),
        ColumnSpec("kind", STRING, f"{', '.join(f'`{kind}`' for kind in KINDS)}; never null", _KEY),
        ColumnSpec(
            "record_type",
            STRING,
            "of kind `other`: Kafka's name, `ConsumerGroupMetadata` (KIP-848), ..; `type 99` where it is unknown; else null",
            _KEY,
        ),
        ColumnSpec(
            "key_version", INT, "the number that the key begins with (its record type); null if it has none", _KEY
        ),
        ColumnSpec("value_version", INT, "the number that the value begins with; null for tombstones", _VALUE),
        ColumnSpec("group", STRING, "group id; null for control records and unknown types", _KEY),
        ColumnSpec("topic", STRING, "topic of a commit", _KEY),
        ColumnSpec("partition", INT, "partition of a commit", _KEY),
        ColumnSpec("committed_offset", LONG, "offset of a commit; null for a tombstone", _VALUE),
        ColumnSpec(
            "committed_leader_epoch",
            INT,
            "leader epoch that the client knew, -1 for none; null before value v3",
            _VALUE,
        ),
        ColumnSpec("metadata", STRING, "the client's note on a commit", _VALUE),
        *moment("commit_ts", "when the coordinator received the commit", _VALUE),
        ColumnSpec(
            "expire_ts_ms", LONG, "own expiry of a commit, ms since 1970, -1 for none; value v1 alone has it", _VALUE
        ),
        ColumnSpec("topic_id", STRING, "topic id of a commit, as Kafka prints it; value v4 may have it", _VALUE),
        ColumnSpec("generation", INT, "of a group; of KIP-848 records the epoch", _VALUE),
        ColumnSpec("protocol_type", STRING, "of a group: `consumer`, `connect`, ..", _VALUE),
        ColumnSpec("protocol", STRING, "the selected assignor; null for a group without members", _VALUE),
        ColumnSpec("leader", STRING, "member id of the group's leader; null for a group without members", _VALUE),
        *moment("state_ts", "when the group entered its state; null before value v2", _VALUE),
        ColumnSpec(
            "members", ArrayOf(_MEMBER), "of a group, in the record's order; null unless kind is `group`", _VALUE
        ),
        ColumnSpec("member", STRING, "member id in the key of a KIP-848 record", _KEY),
        ColumnSpec(
            "detail",
            STRING,
            "JSON of the value of a KIP-848 record, names as in Kafka; null if it is a tombstone or unknown",
            _VALUE,
        ),
        ColumnSpec("raw_key", BINARY, "the undecoded key; only of kind `other`", _KEY),
        ColumnSpec("raw_value", BINARY, "the undecoded value; only of kind `other`", _VALUE),
        ColumnSpec("segment", LONG, "base offset of its file: `00000000000000000123.log` is 123", "file name"),
        ColumnSpec("position", LONG, "byte offset of its batch in the file", "file"),
    ),
    "One row for each record that is left in `__consumer_offsets`, control records included. Order by log_partition and log_offset;"
    " `kind` says which columns are filled.",
)

SKIPPED = TableSchema(
    "skipped",
    (
        RUN_ID,
        ColumnSpec("file", STRING, "file or folder", "path"),
        ColumnSpec(
            "position", LONG, "first byte that was skipped, or line for text files; null where it is all of it", "file"
        ),
        ColumnSpec("bytes", LONG, "how many bytes were skipped; null where it is not a file", "file"),
        ColumnSpec("reason", STRING, "why, in words", ""),
    ),
    "One row for each piece of input that could not be read. What is good around it has been read.",
)
