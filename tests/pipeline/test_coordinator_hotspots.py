"""The table coordinator_hotspots: what lies where, and whether it belongs there."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest

from broker_sim.pipeline.tables.coordinator_hotspots import coordinator_hotspots, java_hash
from broker_sim.storage import partition_for
from tests.pipeline.offsets import Log, collected, frame

pytestmark = pytest.mark.spark


def logs(groups: Iterable[str], partitions: int) -> list[dict[str, Any]]:
    """One commit of each group where it belongs if there are so many partitions."""
    by_partition: dict[int, Log] = {}
    for group in groups:
        place = partition_for(group, partitions)
        by_partition.setdefault(place, Log(place)).commit(0, 1, group=group)
    return [row for log in by_partition.values() for row in log.rows]


def test_the_hash_is_java_s(spark: Any) -> None:
    chance = random.Random(6)
    names = ["", "a", "billing", "Größe", "注文", "😀-group", "polygenelubricants", "a b\tc", "-" * 300]
    names += ["".join(chance.choices("abcXYZ09._-é語😀", k=chance.randrange(1, 40))) for _ in range(300)]
    rows = (
        spark.createDataFrame([(name,) for name in names], "name string").select("name", java_hash_of("name")).collect()
    )
    for modulus in (50, 7, 1000):
        assert {row.name: row.hash % modulus for row in rows} == {name: partition_for(name, modulus) for name in names}


def java_hash_of(column: str) -> Any:
    from pyspark.sql import functions as f

    return java_hash(f.col(column)).alias("hash")


def test_groups_records_and_shares_of_each_partition(spark: Any) -> None:
    twelve, seven = Log(12), Log(7)
    for at in range(6):
        twelve.commit(at, at, group="a")
    twelve.commit(9, 0, group="b")
    twelve.end_transaction(4, 10, committed=True)
    seven.commit(0, 1, group="c")
    seven.generation(1, 1, group="c")
    names = ("log_partition", "groups", "records", "share", "busiest_group", "busiest_records")
    table = coordinator_hotspots(frame(spark, [*twelve.rows, *seven.rows]))
    assert collected(table, *names, by="log_partition") == [(7, 1, 2, 0.2, "c", 2), (12, 2, 8, 0.8, "a", 6)]


def test_with_the_default_of_50_no_group_is_misplaced(spark: Any) -> None:
    rows = coordinator_hotspots(frame(spark, logs((f"group-{n}" for n in range(40)), 50))).collect()
    assert {row.partitions for row in rows} == {50}
    assert sum(row.misplaced for row in rows) == 0
    assert sum(row.groups for row in rows) == 40


@pytest.mark.long
@pytest.mark.parametrize("partitions", [1, 12, 100])
def test_another_number_of_partitions_is_found(spark: Any, partitions: int) -> None:
    rows = coordinator_hotspots(frame(spark, logs((f"group-{n}" for n in range(40)), partitions))).collect()
    assert {row.partitions for row in rows} == {partitions}
    assert sum(row.misplaced for row in rows) == 0


def test_a_group_that_no_number_explains_is_counted_where_it_lies(spark: Any) -> None:
    rows = logs((f"group-{n}" for n in range(40)), 50)
    place = (partition_for("stranger", 50) + 1) % 50
    stranger = Log(place)
    stranger.commit(0, 1, group="stranger")
    for row in stranger.rows:
        row["log_offset"] += 1000
    table = coordinator_hotspots(frame(spark, [*rows, *stranger.rows])).collect()
    assert {row.partitions for row in table} == {None}
    assert {row.log_partition for row in table if row.misplaced} == {place}


def test_two_strangers_prove_no_number(spark: Any) -> None:
    groups = [name for name in (f"g{n}" for n in range(99)) if partition_for(name, 50) != partition_for(name, 8)][:2]
    rows = coordinator_hotspots(frame(spark, logs(groups, 8))).collect()
    assert {row.partitions for row in rows} == {None}
