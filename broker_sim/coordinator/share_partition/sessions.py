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
    """``partitions``: the fetched partitions, with whether a response may leave them out if they have no records; ``nameless``: those
    whose topic was unknown when they were added; ``connection``: where it was opened."""

    key: SessionKey
    connection: object
    partitions: dict[TopicPartition, bool] = field(default_factory=dict)
    nameless: set[TopicPartition] = field(default_factory=set)
    epoch: int = 1

    def move_on(self) -> None:
        """Increment the session epoch for the next request."""
        self.epoch = self.epoch + 1 if self.epoch < _LAST_EPOCH else 1

    def update(
        self, fetched: Iterable[TopicPartition], forgotten: Iterable[TopicPartition], nameless: Iterable[TopicPartition]
    ) -> None:
        """Apply a request's added and forgotten partitions; ``nameless``: the fetched ones of unknown topics."""
        self.nameless.update(at for at in nameless if at not in self.partitions)
        for at in fetched:
            self.partitions.setdefault(at, False)
        for at in forgotten:
            self.partitions.pop(at, None)
            self.nameless.discard(at)

    def responded(self, at: TopicPartition, *, failed: bool, has_records: bool) -> bool:
        """Whether the response contains a partition that was looked at (CachedSharePartition.maybeUpdateResponseData): with records or
        an error, or after an error, or for the first time. With records it becomes the last one."""
        may_be_left_out = self.partitions.get(at)
        if may_be_left_out is not None:
            self.partitions[at] = not failed
            if has_records:
                self.partitions[at] = self.partitions.pop(at)
        return failed or has_records or not may_be_left_out


class ShareSessions:
    """Share sessions of one broker, at most ``most`` of them at once."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._groups: dict[object, dict[str, None]] = {}  # by connection: those of the sessions that were opened on it

    def __iter__(self) -> Iterator[ShareSession]:
        return iter(list(self._sessions.values()))

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, key: SessionKey) -> ShareSession | None:
        """The session of a member."""
        return self._sessions.get(key)

    def open(self, key: SessionKey, connection: object) -> ShareSession | Err:
        """A new one, in the place of one that there is: what its member has of records it keeps."""
        self.drop(key)
        if len(self._sessions) >= self.most:
            return Err.SHARE_SESSION_LIMIT_REACHED
        session = self._sessions[key] = ShareSession(key, connection)
        self._groups.setdefault(connection, {})[key.group_id] = None
        return session

    def drop(self, key: SessionKey) -> None:
        """Remove a member's session, if it has one; what it has of records it keeps."""
        self._sessions.pop(key, None)

    def resume(self, key: SessionKey, epoch: int) -> ShareSession | Err:
        """The session that a request with this epoch continues, or the error. A final epoch continues any session."""
        session = self._sessions.get(key)
        if session is None:
            return Err.SHARE_SESSION_NOT_FOUND
        if epoch != FINAL_EPOCH:
            if session.epoch != epoch:
                return Err.INVALID_SHARE_SESSION_EPOCH
            session.move_on()
        return session

    def end(self, session: ShareSession) -> None:
        """Remove the session."""
        if self._sessions.get(session.key) is session:
            del self._sessions[session.key]

    def close(self, connection: object) -> tuple[list[ShareSession], list[str]]:
        """Remove the sessions of a connection that is closed; returns them, and the groups that had one on it and have none now."""
        closed = [session for session in self._sessions.values() if session.connection is connection]
        for session in closed:
            self.end(session)
        groups = self._groups.pop(connection, {})
        reading = {key.group_id for key in self._sessions} if groups else set()
        return closed, [group_id for group_id in groups if group_id not in reading]

    def has_any(self, group_id: str) -> bool:
        """Whether a member of a group has a session."""
        return any(key.group_id == group_id for key in self._sessions)
