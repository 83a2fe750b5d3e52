"""Offsets logs made by hand: rows of OFFSET_LOG with offsets and times that count up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

from broker_sim.pipeline.schemas import OFFSET_LOG

T0 = 1_700_000_000_000
"""A round moment: 2023-11-14 22:13:20 UTC, the start of a window of any usual length up to 10 s."""

Row = dict[str, Any]


class Log:
    """One partition of ``__consumer_offsets``; each call adds a record."""

    def __init__(self, partition: int = 12, run_id: str = "r1") -> None:
        self.partition, self.run_id = partition, run_id
        self.rows: list[Row] = []
        self._offsets = count()

    def add(self, kind: str, at: int, **columns: Any) -> Row:
        """A record of ``kind``, ``at`` ms after T0."""
        row: Row = {
            "run_id": self.run_id,
            "log_partition": self.partition,
            "log_offset": next(self._offsets),
            "record_ts_ms": T0 + at,
            "producer_id": -1,
            "is_txn": False,
            "kind": kind,
            **columns,
        }
        self.rows.append(row)
        return row

    def commit(self, at: int, offset: int, group: str = "billing", partition: int = 0, **columns: Any) -> Row:
        """A commit of orders-``partition``."""
        known = {"group": group, "topic": "orders", "partition": partition, "committed_offset": offset}
        return self.add("commit", at, **{**known, **columns})

    def delete(self, at: int, group: str = "billing", partition: int = 0) -> Row:
        """A tombstone."""
        return self.add("commit_tombstone", at, group=group, topic="orders", partition=partition)

    def generation(self, at: int, generation: int, members: Sequence[str] = ("m-1",), group: str = "billing") -> Row:
        """A group's record."""
        return self.add(
            "group", at, group=group, generation=generation, members=[{"member_id": one} for one in members]
        )

    def in_transaction(self, producer: int, at: int, offset: int, **columns: Any) -> Row:
        return self.commit(at, offset, producer_id=producer, is_txn=True, **columns)

    def end_transaction(self, producer: int, at: int, *, committed: bool) -> Row:
        return self.add("txn_commit" if committed else "txn_abort", at, producer_id=producer, is_txn=True)

    def frame(self, spark: Any) -> Any:
        return frame(spark, self.rows)


def frame(spark: Any, rows: Iterable[Row]) -> Any:
    """An offset_log of these rows."""
    return OFFSET_LOG.frame(spark, rows)


def collected(table: Any, *names: str, by: str | Sequence[str]) -> list[tuple[Any, ...]]:
    """The columns ``names`` of all rows, ordered ``by``."""
    return [tuple(row) for row in table.orderBy(by).select(*names).collect()]
