"""Incremental fetch sessions (KIP-227): a broker remembers a consumer's fetched partitions, so that requests and responses contain only
changes.

A session is the ordered list of partitions that a consumer fetches, with the last response for each. The consumer counts its requests
(the epoch); a request then names only changed partitions, and the response only partitions with news.

Rules (FetchSession.java, FetchManager.java):
1. Epoch 0 asks for a new session, -1 ends the named session and asks for none; any other epoch must be the session's next.
2. There are at most `slots` sessions. If all are in use, the one unused for longest is evicted if that was over EVICTION_MS ago, else
   the smallest one, if it is smaller than the new one and older than EVICTION_MS; else the new fetch gets no session (id 0).
3. A partition that returned records moves to the end of its session: the next response begins with other partitions.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kafka_wire.errors import Err

if TYPE_CHECKING:
    from kafka_wire.messages.k01_fetch import FetchPartition, PartitionData

INVALID_SESSION_ID = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EVICTION_MS = 120_000

Key = tuple[str, bytes, int]
"""Topic name, topic id and partition: the name is "" in requests by id, the id zero in requests by name."""


@dataclasses.dataclass(slots=True)
class CachedPartition:
    """One partition of a session: its parameters of the Fetch, and the offsets of the last response for it."""

    requested: FetchPartition
    high_watermark: int = -1
    log_start_offset: int = -1

    def has_news(self, data: PartitionData) -> bool:
        """Whether an incremental response must contain `data`; stores its offsets for the next one."""
        has_changed = bool(data.records)
        if data.high_watermark != self.high_watermark:
            self.high_watermark, has_changed = data.high_watermark, True
        if data.log_start_offset != self.log_start_offset:
            self.log_start_offset, has_changed = data.log_start_offset, True
        if data.preferred_read_replica >= 0 or data.diverging_epoch.epoch >= 0:
            has_changed = True
        if data.error_code != Err.NONE:
            self.high_watermark, has_changed = -1, True  # returned again when the error has ended
        return has_changed


@dataclasses.dataclass(slots=True)
class Session:
    """A fetch session of a broker."""

    session_id: int
    uses_topic_ids: bool
    created_ms: int
    last_used_ms: int
    partitions: dict[Key, CachedPartition]
    epoch: int = 1
    """The epoch that the next request must carry."""

    def update(self, requested: Sequence[tuple[Key, FetchPartition]], forgotten: Sequence[Key]) -> None:
        """Apply a request's added and forgotten partitions."""
        for key, partition in requested:
            cached = self.partitions.get(key)
            if cached is None:
                self.partitions[key] = CachedPartition(partition)
            else:
                cached.requested = partition
        for key in forgotten:
            self.partitions.pop(key, None)

    def to_end(self, key: Key) -> None:
        """Serve this partition after all others next time."""
        cached = self.partitions.pop(key, None)
        if cached is not None:
            self.partitions[key] = cached


class FetchSessions:
    """The sessions of one broker, at most `slots`; ids come from `rng`."""

    def __init__(self, slots: int, rng: random.Random) -> None:
        self.slots = slots
        self._rng = rng
        self._sessions: dict[int, Session] = {}  # the one unused for longest comes first

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._sessions.values()))

    def remove(self, session_id: int) -> None:
        """End a session; unknown ids are ignored."""
        self._sessions.pop(session_id, None)

    def resume(self, session_id: int, epoch: int, by_id: bool, now_ms: int) -> Session | Err:
        """The session whose next request has this epoch, its epoch moved on; or why not."""
        session = self._sessions.get(session_id)
        if session is None:
            return Err.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return Err.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != by_id:
            return Err.FETCH_SESSION_TOPIC_ID_ERROR
        session.epoch = epoch + 1 if epoch < 2**31 - 1 else 1
        session.last_used_ms = now_ms
        del self._sessions[session_id]
        self._sessions[session_id] = session
        return session

    def create(self, requested: Sequence[tuple[Key, FetchPartition]], by_id: bool, now_ms: int) -> Session | None:
        """A new session with these partitions, or None if no session can be evicted for it."""
        if len(self._sessions) >= self.slots and not self._evict(len(requested), now_ms):
            return None
        session_id = INVALID_SESSION_ID
        while session_id == INVALID_SESSION_ID or session_id in self._sessions:
            session_id = self._rng.randrange(1, 2**31)
        partitions = {key: CachedPartition(partition) for key, partition in requested}
        session = self._sessions[session_id] = Session(session_id, by_id, now_ms, now_ms, partitions)
        return session

    def _evict(self, size: int, now_ms: int) -> bool:
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.last_used_ms > EVICTION_MS:
            self.remove(oldest.session_id)
            return True
        smallest = min(self._sessions.values(), key=lambda session: len(session.partitions))
        if len(smallest.partitions) < size and now_ms - smallest.created_ms > EVICTION_MS:
            self.remove(smallest.session_id)
            return True
        return False
