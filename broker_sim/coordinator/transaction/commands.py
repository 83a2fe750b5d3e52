"""The requests of a transaction coordinator, and what they are answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from broker_sim.coordinator.transaction.transaction import Partition
from kafka_wire.errors import Err


class Granted(NamedTuple):
    """Answer to `InitProducerId` and `EndTransaction`: the error, or the producer id and epoch to continue with; -1 without these."""

    error: Err
    producer_id: int = -1
    epoch: int = -1


@dataclass(slots=True)
class InitProducerId:
    """Answer: `Granted`. ``expected``: the producer id and epoch that its sender has, None for one that begins (KIP-360)."""

    transactional_id: str
    timeout_ms: int
    expected: tuple[int, int] | None = None


@dataclass(slots=True)
class AddPartitions:
    """Answer: {(topic, index): Err}; a producer of another epoch gets PRODUCER_FENCED, which the handler maps for the request's
    version.

    ``verify_only``: nothing is added; the answer is whether they are in the transaction. ``client_version``: the client's transaction
    version (KIP-890); with 2 its Produce requests add their partitions.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: list[Partition]
    verify_only: bool = False
    client_version: int = 0


@dataclass(slots=True)
class EndTransaction:
    """Answer: `Granted`. ``client_version``: 2 where a transaction ends with a new epoch (EndTxn v5)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    client_version: int = 0
