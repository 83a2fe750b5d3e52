"""Limits of what one request may create, by release, as KRaft's controllers answer. A record is one of the controller's log: for a
topic, a setting or a partition.

| release | CreateTopics | CreatePartitions |
|---|---|---|
| 3.4 | more than 10,000 records: UNKNOWN_SERVER_ERROR; a request that only validates has no limit | the same |
| 3.5 to 3.9 | more than 10,000 records: POLICY_VIOLATION, also if it only validates | see below |
| 4.0 to 4.3 | besides, more than 10,000 partitions are refused before anything else is checked (KAFKA-17870) | see below |
| 4.4 | the same | more than 10,000 new partitions: POLICY_VIOLATION (KAFKA-19673) |

The error is that of all topics of the request. But from 3.5 to 4.3 topics grow while there are fewer than 10,000 new partitions: the
topic with more of them gets those that are left and UNKNOWN_SERVER_ERROR, and so do the topics behind it.

Source: ReplicationControlManager.validateTotalNumberOfPartitions, QuorumController.MAX_RECORDS_PER_USER_OP, and what brokers of 3.4.0,
3.9.0, 4.0.0, 4.1.0 and 4.4.0 answered.
"""

from __future__ import annotations

from broker_sim.metadata.topics import KafkaError
from kafka_wire.errors import Err

__all__ = ["MAX_AT_ONCE", "MOST_VALIDATED", "check_growth", "check_records", "check_total", "grows_in_part"]

MAX_AT_ONCE = 10_000
"""Partitions, or records of the controller's log, that one request may make."""
MOST_VALIDATED = 100_000
"""Partitions that one request may have validated where Kafka has no limit: what is computed for them is freed with the response."""

_TOO_MANY = "Excessively large number of partitions per request."
_TOO_MANY_MORE = "Excessively large number of additional partitions per request."
_TOO_MANY_RECORDS = "Unable to perform excessively large batch operation."

Release = tuple[int, int]


def check_total(release: Release, partitions: int) -> None:
    """Raises KafkaError for a CreateTopics with as many partitions, those of all its topics."""
    if release >= (4, 0) and partitions > MAX_AT_ONCE:
        raise KafkaError(Err.POLICY_VIOLATION, _TOO_MANY)
    _check_validated(release, partitions)


def check_records(release: Release, records: int, *, validate_only: bool) -> None:
    """Raises KafkaError where a CreateTopics would make as many records."""
    if records > MAX_AT_ONCE and release >= (3, 5):
        raise KafkaError(Err.POLICY_VIOLATION, _TOO_MANY_RECORDS)
    if records > MAX_AT_ONCE and not validate_only:
        raise KafkaError(Err.UNKNOWN_SERVER_ERROR)


def check_growth(release: Release, partitions: int, *, validate_only: bool) -> None:
    """Raises KafkaError for a CreatePartitions with as many new partitions, those of all its topics."""
    if release >= (4, 4) and partitions > MAX_AT_ONCE:
        raise KafkaError(Err.POLICY_VIOLATION, _TOO_MANY_MORE)
    if release < (3, 5):
        check_records(release, partitions, validate_only=validate_only)
        _check_validated(release, partitions)


def grows_in_part(release: Release) -> bool:
    """Whether topics grow as far as the limit allows."""
    return (3, 5) <= release < (4, 4)


def _check_validated(release: Release, partitions: int) -> None:
    if release < (3, 5) and partitions > MOST_VALIDATED:
        words = f"{partitions} partitions in one request are too many for broker-sim, which allows {MOST_VALIDATED}"
        raise KafkaError(Err.POLICY_VIOLATION, words)
