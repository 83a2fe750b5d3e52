"""Rebuilds a shard from its log: every record in order through ``store.replay``, as in the live shard.

Of consecutive plain commits of a partition only the last one is replayed, when another record of its group is read or the log ends;
``latest`` has it until then. Only such other records, of the group itself, its transactions or a tombstone, could make the skipped
commits visible. So a shard that skips commits equals one that replays them all (tests/coordinator/test_loader.py).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from broker_sim.common.slices import at_once
from broker_sim.coordinator.kinds import readable_types
from broker_sim.coordinator.outcome import Outcome
from broker_sim.coordinator.policy import Settings
from broker_sim.coordinator.records import OffsetRecord, Record, decode
from broker_sim.coordinator.shard_loader import ShardLoader
from broker_sim.coordinator.store import GroupStore
from kafka_wire.offsets_log import offset_commit_key

if TYPE_CHECKING:
    from broker_sim.coordinator.shard import Shard

_VALUE_VERSIONS = 5, 4
"""Number of versions of an offset commit's value that can be read, with KIP-915 and before it."""


class Loader(ShardLoader["Shard"]):
    """Loader of a partition of ``__consumer_offsets``. Records of epoch-based groups are read by 4.x alone; before KIP-915 kinds that
    are not read, and flexible values, end the load with a DecodeError."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._later = settings.reads_later_records
        self._epochs = readable_types(settings.policy)
        self.store = GroupStore(settings.policy)
        self.latest: dict[bytes, bytes | None] = {}
        self.versions = range(_VALUE_VERSIONS[0] if self._later else _VALUE_VERSIONS[1])
        self._keys: dict[str, list[bytes]] = {}  # group: its keys in ``latest``
        self._offset = -1  # of the last record that was read; all pending transactional offsets are at it or before

    def read(self, log_offset: int, key: bytes | None, value: bytes | None, producer_id: int) -> None:
        record = self._decoded(key, value)
        if key is not None and isinstance(record, OffsetRecord) and record.value is not None and producer_id < 0:
            self._read_now(key, record)
        else:
            self._settle(record.group_id)
        self.store.replay(record, log_offset, producer_id)
        self._offset = log_offset

    def _read_now(self, key: bytes, commit: OffsetRecord) -> None:
        """Let a commit supersede the one that waits under its key. Later commits may supersede it in turn if its key is the one that
        commits of its partition have now: under the older type 0, or with bytes behind it, a key is another one."""
        if key in self.latest:
            self.latest[key] = None
        elif key == offset_commit_key(commit.group_id, commit.topic, commit.partition):
            self.latest[key] = None
            self._keys.setdefault(commit.group_id, []).append(key)
        else:
            self._settle(commit.group_id)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        for group_id in {group_id: None for group_id, _, _ in self.store.transactions.get(producer_id, ())}:
            self._settle(group_id)
        self.store.end_transaction(producer_id, committed=committed)

    def settling(self) -> Generator[None, None, None]:
        while self._keys:
            yield from self._settling(next(iter(self._keys)))

    def finish(self) -> GroupStore:
        """The groups, after the last record."""
        at_once(self.settling())
        self.store.resume()
        return self.store

    def start(self, shard: Shard, now_ms: int) -> Outcome:
        return shard.start(self.finish(), now_ms)

    def found(self) -> str:
        return f"{len(self.store.groups)} groups"

    def _decoded(self, key: bytes | None, value: bytes | None) -> Record:
        return decode(key, value, later=self._later, epochs=self._epochs)

    def _settle(self, group_id: str) -> None:
        at_once(self._settling(group_id))

    def _settling(self, group_id: str) -> Generator[None, None, None]:
        """Replay the last commits of a group; yields after each. They come after all its pending transactional offsets, or these would
        have been read after them."""
        for key in self._keys.pop(group_id, ()):
            value = self.latest.pop(key)
            if value is not None:
                self.store.replay(self._decoded(key, value), self._offset)
                yield
