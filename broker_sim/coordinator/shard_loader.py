"""Rebuilds a shard of any coordinator from its log: `ShardLoader`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Generator
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from broker_sim.coordinator.outcome import Outcome

S = TypeVar("S")


class OtherRecord(Exception):
    """A record of a kind that is not read; the argument is its kind by Kafka's name."""


class ShardLoader(ABC, Generic[S]):
    """Feed it every record of a log in order, then let it ``start`` the shard. ``records`` counts them, ``skipped_kinds`` those of
    kinds that are passed over.

    A record whose key is in ``latest`` and whose value begins with one of ``versions`` (int16) need not be added: its value may be put
    there instead, in the place of the one before. Only plain records may, of no transaction.
    """

    latest: dict[bytes, bytes | None] | None = None
    versions: Container[int] = ()

    def __init__(self) -> None:
        self.skipped_kinds: dict[str, int] = {}
        self.records = 0

    def add(self, log_offset: int, key: bytes | None, value: bytes | None, producer_id: int = -1) -> None:
        """One record; ``producer_id`` is that of a transactional batch, else -1. Raises DecodeError for what that Kafka can't read."""
        self.records += 1
        try:
            self.read(log_offset, key, value, producer_id)
        except OtherRecord as other:
            kind = str(other)
            self.skipped_kinds[kind] = self.skipped_kinds.get(kind, 0) + 1

    @abstractmethod
    def read(self, log_offset: int, key: bytes | None, value: bytes | None, producer_id: int) -> None:
        """Apply a record. Raises OtherRecord for one that is passed over, DecodeError."""

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """A control record; nothing to a log that is in no transaction."""

    def settling(self) -> Generator[None, None, None]:
        """Apply the commits that are left in ``latest``; yields after each. `start` does it without pieces."""
        yield from ()

    @abstractmethod
    def start(self, shard: S, now_ms: int) -> Outcome:
        """The log has been read to its end: start ``shard`` from it."""

    @abstractmethod
    def found(self) -> str:
        """The loaded state in words: ``3 groups``."""
