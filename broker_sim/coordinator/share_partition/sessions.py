"""Share sessions: a broker's state of a member's requests, which only name changes of the fetched partitions.

A session belongs to a group's member and to the connection on which it was opened, with which it ends. Its epoch counts the member's
ShareFetch and ShareAcknowledge requests; 0 opens a session, -1 ends it. Source: ShareSession.java, ShareSessionCache.java,
SharePartitionManager.newContext and acknowledgeSessionUpdate (4.x).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka_wire.errors import Err

INITIAL_EPOCH, FINAL_EPOCH = 0, -1
_LAST_EPOCH = 2**31 - 1


class SessionKey(NamedTuple):
    """Identifies a share session: group and member."""

    group_id: str
    member_id: str


class TopicPartition(NamedTuple):
    """A partition by its topic's id."""

    topic_id: bytes
    partition: int


@dataclass(slots=True, eq=False)
class ShareSession:
    """``partitions``: the fetched partitions, with whether a response has contained them; ``connection``: where it was opened."""

    key: SessionKey
    connection: object
    partitions: dict[TopicPartition, bool] = field(default_factory=dict)
    epoch: int = 1

    def move_on(self) -> None:
        """Increment the session epoch for the next request."""
        self.epoch = self.epoch + 1 if self.epoch < _LAST_EPOCH else 1

    def update(self, fetched: Iterable[TopicPartition], forgotten: Iterable[TopicPartition]) -> None:
        """Apply a request's added and forgotten partitions."""
        if not self.partitions:
            self.partitions = dict.fromkeys(fetched, False)
        else:
            for partition in fetched:
                self.partitions.setdefault(partition, False)
        for partition in forgotten:
            self.partitions.pop(partition, None)


class ShareSessions:
    """Those of one broker, ``most`` of them at once."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._sessions: dict[SessionKey, ShareSession] = {}

    def __iter__(self) -> Iterator[ShareSession]:
        return iter(list(self._sessions.values()))

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, key: SessionKey) -> ShareSession | None:
        """The session of a member."""
        return self._sessions.get(key)

    def open(self, key: SessionKey, connection: object) -> ShareSession | Err:
        """A new one, in the place of one that there is: what its member has of records it keeps."""
        self._sessions.pop(key, None)
        if len(self._sessions) >= self.most:
            return Err.SHARE_SESSION_LIMIT_REACHED
        session = self._sessions[key] = ShareSession(key, connection)
        return session

    def resume(self, key: SessionKey, epoch: int) -> ShareSession | Err:
        """The session that a request with this epoch continues, or the error. A final epoch continues any session."""
        session = self._sessions.get(key)
        if session is None:
            return Err.SHARE_SESSION_NOT_FOUND
        if epoch != FINAL_EPOCH and session.epoch != epoch:
            return Err.INVALID_SHARE_SESSION_EPOCH
        session.move_on()
        return session

    def end(self, session: ShareSession) -> None:
        """Remove the session."""
        if self._sessions.get(session.key) is session:
            del self._sessions[session.key]

    def of(self, connection: object) -> list[ShareSession]:
        """Those that end with a connection."""
        return [session for session in self._sessions.values() if session.connection is connection]
