"""Lasting states of a log partition: what incidents are made of.

A state is set and later healed; in between everything that the partition's leader and its group coordinator do follows from it. The
states of one aspect exclude each other; states of different aspects go together.

``KINDS`` is the whole list. An ``append_error`` is what the log answers an append while the state lasts (2.11 of the coordinator's
tables says what a client hears then); a ``read_error`` what Fetch and ListOffsets are answered.
"""

from __future__ import annotations

from dataclasses import dataclass

from protocol.errors import Err

__all__ = ["KINDS", "Kind"]

COMMIT, WRITE, LEAD = "commit", "write", "lead"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of state. ``arguments`` are the names that it takes besides ``for``, all of them durations but ``free_bytes``."""

    name: str
    aspect: str
    story: str
    arguments: tuple[str, ...] = ()
    append_error: Err = Err.NONE
    read_error: Err = Err.NONE
    offsets_only: bool = False


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            "stuck",
            COMMIT,
            "followers stop fetching but stay in the ISR: records are appended, the high watermark stands still",
            ("isr_shrinks_after",),
        ),
        Kind(
            "under_min_isr",
            COMMIT,
            "the ISR is smaller than min.insync.replicas: acks=all is refused, the high watermark of 4.x stands still",
        ),
        Kind(
            "slow",
            COMMIT,
            "every append is committed late, as with a slow disk or a slow follower",
            ("latency", "jitter"),
        ),
        Kind(
            "storage_error",
            WRITE,
            "the log directory is offline: neither append nor read",
            append_error=Err.KAFKA_STORAGE_ERROR,
            read_error=Err.KAFKA_STORAGE_ERROR,
        ),
        Kind(
            "full",
            WRITE,
            "the disk is full after that many more bytes; reading goes on",
            ("free_bytes",),
            Err.KAFKA_STORAGE_ERROR,
        ),
        Kind(
            "readonly",
            WRITE,
            "the file system is read-only: no append, no deletion; reading goes on",
            (),
            Err.KAFKA_STORAGE_ERROR,
        ),
        Kind(
            "too_large",
            WRITE,
            "whatever is appended is larger than max.message.bytes allows",
            append_error=Err.MESSAGE_TOO_LARGE,
        ),
        Kind(
            "not_leader",
            WRITE,
            "the broker that metadata names has lost the leadership and nobody knows yet",
            append_error=Err.NOT_LEADER_OR_FOLLOWER,
            read_error=Err.NOT_LEADER_OR_FOLLOWER,
        ),
        Kind(
            "fenced",
            WRITE,
            "the leader's epoch is fenced: who names an epoch hears FENCED_LEADER_EPOCH, appends fail",
            append_error=Err.FENCED_LEADER_EPOCH,
            read_error=Err.FENCED_LEADER_EPOCH,
        ),
        Kind("no_leader", LEAD, "no replica is alive: metadata names no leader, groups have no coordinator"),
        Kind(
            "loading",
            LEAD,
            "the coordinator reads its log: COORDINATOR_LOAD_IN_PROGRESS until the state ends, then it is really loaded",
            offsets_only=True,
        ),
    )
}
