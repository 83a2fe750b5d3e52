"""A load that reads only the last commit of a partition makes the shard that every record would have made, in the same order."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker_sim.common.slices import at_once
from broker_sim.coordinator.loader import Loader
from broker_sim.coordinator.policy import JAVA, SCALA, Policy, Settings
from broker_sim.coordinator.records import GroupRecord, encode
from broker_sim.coordinator.store import GroupStore
from broker_sim.metadata.topics import Partition
from broker_sim.runtime.log_reading import feeding
from broker_sim.storage.results import LogBatch
from kafka_wire.codec import DecodeError
from kafka_wire.messages.offsets_log import GroupMetadataValue
from kafka_wire.offsets_log import offset_commit_key, offset_commit_value
from kafka_wire.record_batch import TRANSACTIONAL_BIT, Codec, ControlType, Record, batches, control_batch, encode_batch
from tests.coordinator.harness import Core
from tests.coordinator.test_histories import History
from tests.coordinator.test_store import Deleting, DeletingInTransactions, InTransactions

Pair = tuple[bytes, bytes | None]


class Batches:
    """A log of these batches."""

    def __init__(self, parts: Sequence[bytes]) -> None:
        self.data = b"".join(parts)

    def batches(self) -> Iterator[LogBatch]:
        for position, header in batches(self.data):
            yield LogBatch(header, self.data, position)


def log_of(parts: Sequence[bytes]) -> Partition:
    """A partition with a log of these batches."""
    return cast(Partition, SimpleNamespace(log=Batches(parts)))


def batch(
    at: int,
    pairs: Sequence[Pair],
    producer_id: int = -1,
    headers: Sequence[tuple[str, bytes]] = (),
    codec: Codec = Codec.NONE,
) -> bytes:
    """Records from offset ``at`` on; of an open transaction where they have a producer."""
    rows = [Record(at + number, 1000 + number, *pair, headers) for number, pair in enumerate(pairs)]
    attributes = 0 if producer_id < 0 else TRANSACTIONAL_BIT
    return encode_batch(
        rows, base_offset=at, producer_id=producer_id, producer_epoch=0, codec=codec, attributes=attributes
    )


def batches_of(core: Core, rng: random.Random) -> list[bytes]:
    """Return a coordinator's log, in batches of up to five records."""
    parts, at = [], 0
    while at < len(core.log):
        if at in core.markers:
            producer_id, commits = core.markers[at]
            kind = ControlType.COMMIT if commits else ControlType.ABORT
            parts.append(control_batch(kind, 1000, producer_id=producer_id, producer_epoch=0, base_offset=at))
            at += 1
            continue
        producer_id, end = core.producers.get(at, -1), at + 1
        most = at + rng.randint(1, 5)
        while end < min(most, len(core.log)) and end not in core.markers:
            if core.producers.get(end, -1) != producer_id:
                break
            end += 1
        parts.append(batch(at, core.log[at:end], producer_id))
        at = end
    return parts


def state(store: GroupStore) -> list[Any]:
    """All hard state, in its order. Of the last commit beside one that is staged it tells which of them counts."""
    rows: list[Any] = [store.transactions]
    for group in store.groups.values():
        staged = {
            at: {
                producer_id: (position, offset, position > one.committed_at)
                for producer_id, (position, offset) in one.by_producer.items()
            }
            for at, one in group.pending_txn_offsets.items()
        }
        offsets = [(topic, list(partitions.items())) for topic, partitions in group.offsets.items()]
        rows.append((group.group_id, type(group), getattr(group, "stored", None), offsets, staged))
    return rows


class Every(Loader):
    """Replays all that there is."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.versions = ()

    def read(self, log_offset: int, key: bytes | None, value: bytes | None, producer_id: int) -> None:
        self.store.replay(self._decoded(key, value), log_offset, producer_id)


def both(parts: Sequence[bytes], settings: Settings) -> tuple[Loader, Loader]:
    """Loaded so, and from every record of the same batches."""
    every = Every(settings)
    loader = Loader(settings)
    for each in (every, loader):
        at_once(feeding(each, log_of(parts)))
    return loader, every


@pytest.mark.parametrize("kind", [History, Deleting, InTransactions, DeletingInTransactions])
@pytest.mark.parametrize("policy", [SCALA, JAVA])
def test_commits_that_are_skipped_change_nothing(policy: Policy, kind: type[History]) -> None:
    histories = 0
    for seed in range(24):
        history, rng = kind(seed), random.Random(seed)
        if history.core.settings.policy is not policy:
            continue
        histories += 1
        for _ in range(6):
            history.run(10)
            loader, every = both(batches_of(history.core, rng), history.core.settings)
            assert loader.records == every.records
            assert state(loader.finish()) == state(every.finish()), f"seed {seed}"
    assert histories > 5


def commit(
    offset: int, *, version: int = 3, group: str = "g", partition: int = 0, metadata: str = "", kind: int = 1
) -> Pair:
    key = offset_commit_key(group, "t", partition)
    return bytes((0, kind)) + key[2:], offset_commit_value(version, offset, 0, metadata, 5)


def gone(**names: Any) -> Pair:
    return commit(0, **names)[0], None


def classic(group: str, generation: int) -> Pair:
    value = GroupMetadataValue("consumer", generation, None, None, 5, [])
    return encode(GroupRecord(group, value if generation else None), 3)


def odd_log(rng: random.Random) -> list[bytes]:
    """Return a log of three groups with all that a log may have, in batches of all kinds."""
    parts, at = [], 0
    for _ in range(rng.randint(1, 40)):
        group, metadata = rng.choice("abc"), rng.choice(("", "", "x", "member-" * 9, "long" * 2000, "é"))
        pairs: list[Pair] = []
        for _ in range(rng.choice((1, 1, 2, 3, 12, 70))):
            names: dict[str, Any] = {"group": group, "partition": rng.randrange(4)}
            chance = rng.random()
            if chance < 0.04:
                pairs.append(gone(**names))
            elif chance < 0.07:
                pairs.append(classic(group, rng.randrange(3)))
            elif chance < 0.1:
                pairs.append((b"\0\x63of a kind to come", b"\0\0"))
            elif chance < 0.14:
                pairs.append(commit(rng.randrange(100), kind=0, **names))
            elif chance < 0.16:
                key, value = commit(rng.randrange(100), **names)
                pairs.append((key + b"behind", value))
            else:
                pairs.append(commit(rng.randrange(100), version=rng.randrange(5), metadata=metadata, **names))
            if rng.random() < 0.2:
                group = rng.choice("abc")
        chance = rng.random()
        if chance < 0.15:
            parts.append(batch(at, pairs, rng.choice((7, 8))))
        elif chance < 0.25:
            pairs = pairs[:1]
            kind = rng.choice((ControlType.COMMIT, ControlType.ABORT))
            parts.append(control_batch(kind, 1000, producer_id=rng.choice((7, 8)), producer_epoch=0, base_offset=at))
        elif chance < 0.3:
            parts.append(batch(at, pairs, headers=[("trace", b"1"), ("by", b"")]))
        else:
            parts.append(batch(at, pairs, codec=Codec.GZIP if chance < 0.35 else Codec.NONE))
        at += len(pairs)
    return parts


@pytest.mark.parametrize("policy", [SCALA, JAVA])
def test_so_it_is_of_logs_that_nobody_writes(policy: Policy) -> None:
    for seed in range(80):
        settings = Settings(policy=policy, reads_later_records=True)
        loader, every = both(odd_log(random.Random(seed)), settings)
        assert (loader.records, loader.skipped_kinds) == (every.records, every.skipped_kinds)
        assert state(loader.finish()) == state(every.finish()), f"seed {seed}"


def test_a_commit_is_read_when_it_is_the_first_or_the_last() -> None:
    read = []

    class Counting(Loader):
        def read(self, log_offset: int, key: bytes | None, value: bytes | None, producer_id: int) -> None:
            read.append(log_offset)
            super().read(log_offset, key, value, producer_id)

    loader = Counting(Settings())
    parts = [batch(at, [commit(at), commit(at + 1, partition=1)]) for at in range(0, 2000, 2)]
    pieces = sum(1 for _ in feeding(loader, log_of(parts)))
    assert read == [0, 1]
    assert loader.records == 2000
    assert pieces >= 1000  # one for each batch: the loop gets its turn
    group = loader.finish().groups["g"]
    assert [group.offset("t", number).offset for number in (0, 1)] == [1998, 1999]  # type: ignore[union-attr]


def test_others_are_served_within_a_large_batch() -> None:
    many = batch(0, [commit(number) for number in range(1000)])
    assert sum(1 for _ in feeding(Loader(Settings()), log_of([many]))) >= 100


def test_what_waits_is_applied_in_pieces() -> None:
    parts = [batch(at, [commit(at, partition=number) for number in range(100)]) for at in (0, 100)]
    loader = Loader(Settings())
    work = feeding(loader, log_of(parts))
    assert sum(1 for _ in work) >= 100 + 10 + 100


@pytest.mark.parametrize(
    "bad",
    [
        (commit(0)[0], b"\0\x09" + bytes(22)),  # a version to come
        (commit(0)[0], b"\0"),  # none
        (commit(0)[0], b""),
    ],
)
def test_a_superseded_commit_that_cannot_be_read_ends_the_load_all_the_same(bad: Pair) -> None:
    parts = [batch(0, [commit(1)]), batch(1, [commit(2), bad, commit(3)])]
    for loader in (Every(Settings()), Loader(Settings())):
        with pytest.raises(DecodeError):
            at_once(feeding(loader, log_of(parts)))


def test_before_kip_915_a_flexible_value_does_too() -> None:
    parts = [batch(0, [commit(1), commit(2, version=4), commit(3)])]
    with pytest.raises(DecodeError):
        at_once(feeding(Loader(Settings(policy=SCALA, reads_later_records=False)), log_of(parts)))
