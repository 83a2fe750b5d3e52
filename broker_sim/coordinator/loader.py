"""Rebuilding a shard from its log: every record in order through ``store.replay``, as the live shard takes them."""

from __future__ import annotations

from broker_sim.coordinator.policy import Settings
from broker_sim.coordinator.records import OtherRecord, decode
from broker_sim.coordinator.store import GroupStore


class Loader:
    """Feed it every record of a log in order, then take what ``finish`` returns.

    Records of the KIP-848 protocol and of unknown kinds are counted in ``skipped_kinds`` by Kafka's names; before KIP-915 they, and
    flexible values, end the load with a DecodeError.
    """

    def __init__(self, settings: Settings) -> None:
        self._later = settings.reads_later_records
        self.store = GroupStore(settings.policy)
        self.skipped_kinds: dict[str, int] = {}
        self.records = 0

    def add(self, log_offset: int, key: bytes | None, value: bytes | None, producer_id: int = -1) -> None:
        """One record; ``producer_id`` is that of a transactional batch, else -1. Raises DecodeError for what that Kafka can't read."""
        self.records += 1
        try:
            record = decode(key, value, later=self._later)
        except OtherRecord as other:
            kind = str(other)
            self.skipped_kinds[kind] = self.skipped_kinds.get(kind, 0) + 1
            return
        self.store.replay(record, log_offset, producer_id)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """A control record."""
        self.store.end_transaction(producer_id, committed=committed)

    def finish(self) -> GroupStore:
        """The log has been read to its end."""
        self.store.resume()
        return self.store

    def found(self) -> str:
        """What there is."""
        return f"{len(self.store.groups)} groups"
