"""Offsets partition of a group: Java's hash, Kafka's abs."""

from __future__ import annotations

import pytest

from broker_sim.storage import java_hash, partition_for


@pytest.mark.parametrize(
    ("group", "hash_code", "partition"),
    [
        ("", 0, 0),
        ("g", 103, 3),
        ("foo", 101574, 24),
        ("test-group", 627841412, 12),
        ("my-group", -1906497762, 12),
        ("polygenelubricants", -(2**31), 0),
    ],
)
def test_hash_and_partition_are_those_of_java(group: str, hash_code: int, partition: int) -> None:
    assert java_hash(group) == hash_code
    assert partition_for(group, 50) == partition


def test_a_character_outside_the_basic_plane_counts_as_two_code_units() -> None:
    high, low = 0xD83D, 0xDE00
    assert java_hash("\U0001f600") == 31 * high + low


def test_one_partition_takes_every_group() -> None:
    assert {partition_for(f"group-{number}", 1) for number in range(100)} == {0}
