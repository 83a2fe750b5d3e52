"""Which APIs there are, and which versions of them each Kafka release advertises.

Measured: the ``validVersions`` of the broker listener's request schemas in each release's kafka-clients jar, less
versions marked unstable. ``advertised`` caps them by the versions that ``kafka_wire.messages`` speaks. A test compares
the table with the jars.
"""

from __future__ import annotations

import enum
from functools import cache


class ApiKey(enum.IntEnum):
    """API keys by Kafka's names (ApiKeys.java); only those that ``kafka_wire.messages`` has a module for."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    INCREMENTAL_ALTER_CONFIGS = 44
    OFFSET_DELETE = 47
    DESCRIBE_CLUSTER = 60
    DESCRIBE_TOPIC_PARTITIONS = 75


KAFKA_VERSIONS = ("3.4", "3.5", "3.6", "3.7", "3.8", "3.9", "4.0", "4.1", "4.2", "4.3", "4.4")
"""Releases that can be emulated, oldest first."""

DEFAULT_VERSION = "4.1"

_SPOKEN: dict[int, tuple[int, int]] = {
    0: (3, 13),
    1: (4, 18),
    2: (0, 11),
    3: (0, 13),
    8: (0, 9),
    9: (0, 9),
    10: (0, 6),
    11: (0, 9),
    12: (0, 4),
    13: (0, 5),
    14: (0, 5),
    15: (0, 6),
    16: (0, 5),
    18: (0, 4),
    19: (0, 7),
    20: (0, 6),
    21: (0, 2),
    22: (0, 5),
    23: (0, 4),
    29: (0, 3),
    30: (0, 3),
    31: (0, 3),
    32: (0, 4),
    33: (0, 2),
    35: (0, 4),
    37: (0, 3),
    42: (0, 2),
    44: (0, 1),
    47: (0, 0),
    60: (0, 2),
    75: (0, 0),
}
"""The versions that our message classes cover."""

# key: release from which on the range holds -> the range
_ADVERTISED: dict[int, dict[str, tuple[int, int]]] = {
    0: {"3.4": (0, 9), "3.7": (0, 10), "3.8": (0, 11), "4.0": (3, 12), "4.1": (3, 13)},
    1: {"3.4": (0, 13), "3.5": (0, 15), "3.7": (0, 16), "3.9": (0, 17), "4.0": (4, 17), "4.1": (4, 18)},
    2: {"3.4": (0, 7), "3.5": (0, 8), "3.9": (0, 9), "4.0": (1, 10), "4.2": (1, 11)},
    3: {"3.4": (0, 12), "4.0": (0, 13)},
    8: {"3.4": (0, 8), "3.7": (0, 9), "4.0": (2, 9), "4.2": (2, 10)},
    9: {"3.4": (0, 8), "3.7": (0, 9), "4.0": (1, 9), "4.2": (1, 10)},
    10: {"3.4": (0, 4), "3.8": (0, 5), "3.9": (0, 6)},
    11: {"3.4": (0, 9), "4.0": (2, 9), "4.1": (0, 9)},
    12: {"3.4": (0, 4)},
    13: {"3.4": (0, 5)},
    14: {"3.4": (0, 5)},
    15: {"3.4": (0, 5), "4.0": (0, 6)},
    16: {"3.4": (0, 4), "3.8": (0, 5)},
    18: {"3.4": (0, 3), "3.9": (0, 4), "4.4": (0, 5)},
    19: {"3.4": (0, 7), "4.0": (2, 7)},
    20: {"3.4": (0, 6), "4.0": (1, 6)},
    21: {"3.4": (0, 2)},
    22: {"3.4": (0, 4), "3.8": (0, 5)},
    23: {"3.4": (0, 4), "4.0": (2, 4)},
    29: {"3.4": (0, 3), "4.0": (1, 3)},
    30: {"3.4": (0, 3), "4.0": (1, 3)},
    31: {"3.4": (0, 3), "4.0": (1, 3)},
    32: {"3.4": (0, 4), "4.0": (1, 4)},
    33: {"3.4": (0, 2)},
    35: {"3.4": (0, 4), "4.0": (1, 4), "4.3": (1, 5)},
    37: {"3.4": (0, 3)},
    42: {"3.4": (0, 2), "4.4": (0, 3)},
    44: {"3.4": (0, 1)},
    47: {"3.4": (0, 0)},
    60: {"3.4": (0, 0), "3.7": (0, 1), "4.0": (0, 2)},
    75: {"3.8": (0, 0)},
}


ELSEWHERE: dict[int, tuple[str, str]] = {
    17: ("SaslHandshake", "3.4"),
    24: ("AddPartitionsToTxn", "3.4"),
    25: ("AddOffsetsToTxn", "3.4"),
    26: ("EndTxn", "3.4"),
    27: ("WriteTxnMarkers", "3.4"),
    28: ("TxnOffsetCommit", "3.4"),
    34: ("AlterReplicaLogDirs", "3.4"),
    36: ("SaslAuthenticate", "3.4"),
    38: ("CreateDelegationToken", "3.6"),
    39: ("RenewDelegationToken", "3.6"),
    40: ("ExpireDelegationToken", "3.6"),
    41: ("DescribeDelegationToken", "3.6"),
    43: ("ElectLeaders", "3.4"),
    45: ("AlterPartitionReassignments", "3.4"),
    46: ("ListPartitionReassignments", "3.4"),
    48: ("DescribeClientQuotas", "3.4"),
    49: ("AlterClientQuotas", "3.4"),
    50: ("DescribeUserScramCredentials", "3.5"),
    51: ("AlterUserScramCredentials", "3.5"),
    55: ("DescribeQuorum", "3.4"),
    57: ("UpdateFeatures", "3.4"),
    61: ("DescribeProducers", "3.4"),
    64: ("UnregisterBroker", "3.4"),
    65: ("DescribeTransactions", "3.4"),
    66: ("ListTransactions", "3.4"),
    68: ("ConsumerGroupHeartbeat", "3.7"),
    69: ("ConsumerGroupDescribe", "3.8"),
    71: ("GetTelemetrySubscriptions", "3.7"),
    72: ("PushTelemetry", "3.7"),
    74: ("ListConfigResources", "3.7"),
    76: ("ShareGroupHeartbeat", "4.1"),
    77: ("ShareGroupDescribe", "4.1"),
    78: ("ShareFetch", "4.1"),
    79: ("ShareAcknowledge", "4.1"),
    80: ("AddRaftVoter", "3.9"),
    81: ("RemoveRaftVoter", "3.9"),
    83: ("InitializeShareGroupState", "4.1"),
    84: ("ReadShareGroupState", "4.1"),
    85: ("WriteShareGroupState", "4.1"),
    86: ("DeleteShareGroupState", "4.1"),
    87: ("ReadShareGroupStateSummary", "4.1"),
    90: ("DescribeShareGroupOffsets", "4.1"),
    91: ("AlterShareGroupOffsets", "4.1"),
    92: ("DeleteShareGroupOffsets", "4.1"),
}
"""APIs that Kafka's brokers answer and we don't: the name, and the first release whose clients' jar has it for brokers."""


def release(as_version: str) -> tuple[int, int]:
    """``"3.4"`` or ``"3.4.0"`` -> ``(3, 4)``. Raises ValueError for a release that can't be emulated."""
    text = ".".join(as_version.split(".")[:2])
    if text not in KAFKA_VERSIONS:
        raise ValueError(f"Kafka {as_version!r} can't be emulated; there are {', '.join(KAFKA_VERSIONS)}")
    major, minor = text.split(".")
    return int(major), int(minor)


def advertised(as_version: str) -> dict[int, tuple[int, int]]:
    """API key -> lowest and highest version that both that Kafka accepts and we speak. Raises ValueError as release().

    A real broker shows Produce from version 0 on, even 4.x, which accepts 3 and more (KAFKA-18659).
    """
    return dict(_advertised(as_version))


@cache
def _advertised(as_version: str) -> dict[int, tuple[int, int]]:
    wanted = release(as_version)
    out: dict[int, tuple[int, int]] = {}
    for key, ranges in _ADVERTISED.items():
        low, high = 1, 0
        for since, versions in ranges.items():
            if release(since) <= wanted:
                low, high = versions
        low, high = max(low, _SPOKEN[key][0]), min(high, _SPOKEN[key][1])
        if low <= high:
            out[key] = (low, high)
    return out


_FLEXIBLE_SINCE: dict[int, int] = {
    0: 9,
    1: 12,
    2: 6,
    3: 9,
    8: 8,
    9: 6,
    10: 3,
    11: 6,
    12: 4,
    13: 4,
    14: 4,
    15: 5,
    16: 3,
    18: 3,
    19: 5,
    20: 4,
    21: 2,
    22: 2,
    23: 4,
    29: 2,
    30: 2,
    31: 2,
    32: 4,
    33: 2,
    35: 2,
    37: 2,
    42: 2,
    44: 1,
    60: 0,
    75: 0,
}


def is_flexible(api_key: int, version: int) -> bool:
    """Whether this request is flexible (KIP-482): its header is v2, its response's v1 (but ApiVersions' v0)."""
    return version >= _FLEXIBLE_SINCE.get(api_key, 32767)
