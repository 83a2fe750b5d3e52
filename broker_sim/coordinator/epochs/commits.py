"""Whether a member of an epoch-based group may commit. Source: validateOffsetCommit of ConsumerGroup and StreamsGroup (4.x)."""

from __future__ import annotations

from typing import Any

from broker_sim.coordinator.epochs.state import EpochState
from broker_sim.coordinator.outcome import NO_PRODUCER, CommitOffsets
from kafka_wire.errors import Err


def commit_error(
    latest: EpochState[Any, Any], request: CommitOffsets, *, older_epochs: bool, is_classic: bool = False
) -> Err:
    """Whether the member may commit. ``older_epochs``: an older epoch is accepted for partitions that are not in `stale_partitions`;
    ``is_classic``: the member uses the classic protocol."""
    if request.generation < 0 and not latest.members:
        return Err.NONE
    in_transaction = request.producer is not NO_PRODUCER
    if in_transaction and not request.names_member:
        return Err.NONE
    if request.member_id not in latest.members:
        return Err.UNKNOWN_MEMBER_ID
    if not is_classic and not request.epoch_errors and not in_transaction:
        return Err.UNSUPPORTED_VERSION
    epoch = latest.current(request.member_id).epoch
    if request.generation == epoch or (older_epochs and request.generation < epoch):
        return Err.NONE
    return stale_error(request, is_classic=is_classic)


def stale_error(request: CommitOffsets, *, is_classic: bool = False) -> Err:
    """The error of a commit with another epoch than the member's."""
    # TxnOffsetCommit has had it since v6 (4.4), OffsetCommit since there are such members (commit_error)
    knows_epochs = request.epoch_errors or request.producer is NO_PRODUCER
    return Err.STALE_MEMBER_EPOCH if knows_epochs and not is_classic else Err.ILLEGAL_GENERATION
