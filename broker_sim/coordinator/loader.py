"""Rebuilding a shard from its log: every record in order through ``store.replay``, as the live shard takes them."""

from __future__ import annotations

from broker_sim.coordinator.policy import Settings
from broker_sim.coordinator.records import CONSUMER_RECORDS, SHARE_RECORDS, STREAMS_RECORDS, decode
from broker_sim.coordinator.shard_loader import ShardLoader
from broker_sim.coordinator.store import GroupStore


class Loader(ShardLoader):
    """Of ``__consumer_offsets``. Records of groups by epochs are read by 4.x alone; before KIP-915 kinds that are not read, and
    flexible values, end the load with a DecodeError."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        policy = settings.policy
        self._later = settings.reads_later_records
        kinds = {
            CONSUMER_RECORDS: policy.has_epoch_groups,
            SHARE_RECORDS: policy.has_share_records,
            STREAMS_RECORDS: policy.has_streams_records,
        }
        self._epochs = frozenset[int]().union(*(types for types, are_read in kinds.items() if are_read))
        self.store = GroupStore(settings.policy)

    def read(self, log_offset: int, key: bytes | None, value: bytes | None, producer_id: int) -> None:
        record = decode(key, value, later=self._later, epochs=self._epochs)
        self.store.replay(record, log_offset, producer_id)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        self.store.end_transaction(producer_id, committed=committed)

    def finish(self) -> GroupStore:
        self.store.resume()
        return self.store

    def found(self) -> str:
        return f"{len(self.store.groups)} groups"
