"""A write: records on their way into the log, and what happens when it answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker_sim.coordinator.records import Record, replay
from protocol.errors import Err

if TYPE_CHECKING:
    from broker_sim.coordinator.shard import Shard


class Write:
    """The common part: ``done`` replays the records, ``failed`` answers the mapped error. Subclasses add what their request needs.

    ``token`` is the request that waits, None for nobody's; ``answer`` what it is told when all went well. A write whose timeout was
    answered may still be taken by the log: ``token`` is None then, and ``done`` only replays.
    """

    __slots__ = ("answer", "last_offset", "records", "token")
    mergeable = False

    def __init__(self, token: int | None, records: list[Record], answer: Any = Err.NONE) -> None:
        self.token, self.records, self.answer = token, records, answer
        self.last_offset = -1

    def done(self, shard: Shard) -> None:
        """The records are committed."""
        for record in self.records:
            replay(shard, record)
        shard.reply(self.token, self.answer)

    def failed(self, shard: Shard, error: Err) -> None:
        """The records were not written, or not in time; ``error`` is the log's own."""
        shard.reply(self.token, self.failure(shard.settings.policy.commit_errors.get(error, error)))

    def failure(self, error: Err) -> Any:
        """The answer that carries ``error``."""
        return error
