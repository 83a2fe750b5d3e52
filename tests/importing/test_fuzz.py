"""Damaged files and logs: groups or one clear error, never anything else."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from broker_sim.api.cluster import Cluster
from broker_sim.common.text import UsageError
from broker_sim.metadata.foreign_directory import OffsetsContent, read_offsets_log
from broker_sim.metadata.kraft_metadata import read_topics
from broker_sim.metadata.meta_files import StoreError
from broker_sim.migration.group_import import apply, read_describe
from kafka_wire.record_batch import Codec, Record, encode_batch
from tests.importing.logs import NOW_MS, batch_of, commit, group_of, write_log
from tests.importing.test_read_describe import GROUP, TABLES

SEEDS = range(60)


def damaged(chance: random.Random, text: str) -> str:
    """A text with a few characters changed, cut out, doubled or moved."""
    for _ in range(chance.randrange(1, 6)):
        at = chance.randrange(len(text))
        end = min(len(text), at + chance.randrange(1, 30))
        piece = chance.choice(
            ["", " ", "-", "\n", "\t", "9" * 25, "(", ",", "{", '"', "null", text[at:end] * 2, "\u2028", "🙂"]
        )
        text = text[:at] + piece + text[end:]
    return text


@pytest.mark.parametrize("seed", SEEDS)
async def test_damaged_descriptions(seed: int) -> None:
    chance = random.Random(seed)
    sources = [path.read_text() for path in sorted(TABLES.iterdir())] + [
        json.dumps(GROUP),
        json.dumps({"groups": [GROUP]}),
    ]
    async with Cluster() as cluster:
        for source in chance.sample(sources, 5):
            why = ""
            try:
                imported = read_describe(damaged(chance, source))
                apply(cluster.state, cluster.runtime, imported)
            except UsageError as error:
                why = str(error)
            assert "\n" not in why


@pytest.mark.parametrize("seed", SEEDS)
def test_damaged_records(seed: int, tmp_path: Path) -> None:
    """Sound batches whose records lie: keys and values of any bytes."""
    chance = random.Random(seed)
    good = [
        group_of("g", 3, "a", "b"),
        commit("g", "orders", 0, 5),
        commit("g", "orders", 0, 5, version=4),
        commit("h", "o", 1, None),
    ]
    rows = []
    for offset in range(60):
        pair = [bytearray(part) if part is not None else None for part in chance.choice(good)]
        for part in pair:
            for _ in range(chance.randrange(4) if part else 0):
                assert part is not None
                part[chance.randrange(len(part))] = chance.randrange(256)
                if chance.random() < 0.2 and len(part) > 1:
                    del part[chance.randrange(1, len(part)) :]
        key, value = (None if part is None else bytes(part) for part in pair)
        rows.append(Record(offset, NOW_MS, key, value))
    path = write_log(tmp_path, "__consumer_offsets", 0, (0, encode_batch(rows, codec=Codec.GZIP)))
    content = OffsetsContent()
    read_offsets_log(path, 0, content)
    assert content.records == 60
    content.topics()
    write_log(tmp_path, "__cluster_metadata", 0, (0, encode_batch(rows)))
    assert read_topics(tmp_path) == {}


@pytest.mark.parametrize("seed", SEEDS)
def test_damaged_bytes(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    batches = [batch_of([commit("g", "orders", 0, n)], n, codec=chance.choice(list(Codec))) for n in range(8)]
    data = bytearray(b"".join(batches))
    for _ in range(chance.randrange(1, 4)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    path = write_log(tmp_path, "__consumer_offsets", 0, (0, bytes(data[: chance.randrange(len(data))])))
    content = OffsetsContent()
    why = ""
    try:
        read_offsets_log(path, 0, content)
    except StoreError as error:
        why = str(error)
    assert not why or "message format" in why  # a magic byte of 0 or 1
    assert content.records <= 8
