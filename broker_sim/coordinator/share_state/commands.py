"""Commands to the share coordinator, each for one share group in one partition; the answers are `Result`, `Found`, `Summary`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from broker_sim.coordinator.share_state.batches import StateBatch
from broker_sim.coordinator.share_state.state import NOWHERE, UNCOUNTED, ShareKey
from kafka_wire.errors import Err


@dataclass(frozen=True, slots=True)
class Initialize:
    """Initialize a state, or reset it; answered with a `Result`. ``state_epoch``: the group's epoch; ``start_offset`` NOWHERE: the
    partition's leader determines it from the group's settings."""

    key: ShareKey
    state_epoch: int
    start_offset: int = NOWHERE


@dataclass(frozen=True, slots=True)
class Read:
    """Read a state for the partition's leader of this epoch; answered with a `Found`. Leaders of earlier epochs can't write
    afterwards."""

    key: ShareKey
    leader_epoch: int


class Write(NamedTuple):
    """Store changes of records; answered with a `Result`."""

    key: ShareKey
    state_epoch: int
    leader_epoch: int
    start_offset: int
    batches: Sequence[StateBatch]
    complete_count: int = UNCOUNTED


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a state; answered with a `Result`."""

    key: ShareKey


@dataclass(frozen=True, slots=True)
class Summarize:
    """Read the epochs, the start offset and the count of completed records of a state; answered with a `Summary`."""

    key: ShareKey
    leader_epoch: int = -1


Command = Initialize | Read | Write | Delete | Summarize


@dataclass(frozen=True, slots=True)
class Result:
    """The answer to a command: error and message."""

    error: Err = Err.NONE
    words: str | None = None


@dataclass(frozen=True, slots=True)
class Found(Result):
    """The answer to a Read: the stored state of a partition."""

    state_epoch: int = 0
    start_offset: int = 0
    batches: tuple[StateBatch, ...] = ()


@dataclass(frozen=True, slots=True)
class Summary(Result):
    """The answer to a Summarize: the share group's position in the partition; the start offset is NOWHERE if there is no state."""

    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = 0
    complete_count: int = UNCOUNTED


def failed(command: Command, error: Err, words: str | None = None) -> Result:
    """The answer to a command that was refused."""
    if isinstance(command, Read):
        return Found(error, words)
    return Summary(error, words) if isinstance(command, Summarize) else Result(error, words)
