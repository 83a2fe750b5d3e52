"""The APIs by key and by name, and which versions of them each Kafka release advertises.

All of it follows from what the message modules declare (``schema.Api``), as ``api_table`` has it, so that no module of messages is
imported to tell what a broker speaks. ``advertised`` caps what a release promises by what our classes cover. A test compares it with
Kafka's jars.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any, Literal, get_args

from kafka_wire.api_table import APIS, ApiKey
from kafka_wire.schema import Release, Versions

__all__ = [
    "API_NAMES",
    "DEFAULT_VERSION",
    "KAFKA_VERSIONS",
    "OTHERS",
    "ApiKey",
    "advertised",
    "is_flexible",
    "message_class",
    "release",
]

KAFKA_VERSIONS: tuple[Release, ...] = get_args(Release)
"""Releases that can be emulated, oldest first."""

DEFAULT_VERSION: Release = "4.1"

API_NAMES: dict[str, ApiKey] = {key.kafka_name: key for key in ApiKey}
"""Kafka's name of an API -> its key."""


def message_class(api_key: int, kind: Literal["Request", "Response"]) -> Any:
    """The class of an API's "Request" or "Response". Its module is imported. Raises ValueError for a key that we have not got."""
    key = ApiKey(api_key)
    module = importlib.import_module(f"kafka_wire.messages.k{key:02}_{key.name.lower()}")
    return getattr(module, key.kafka_name + kind)


OTHERS: dict[int, tuple[str, str]] = {
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
    88: ("StreamsGroupHeartbeat", "4.2"),
    89: ("StreamsGroupDescribe", "4.2"),
    90: ("DescribeShareGroupOffsets", "4.1"),
    91: ("AlterShareGroupOffsets", "4.1"),
    92: ("DeleteShareGroupOffsets", "4.1"),
}
"""APIs of Kafka's brokers that were not here at first: the name, and the first release whose clients' jar has it for brokers. Only what
has no handler is looked up: one that gets its own may stay."""


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
    for api in APIS:
        promised = [text for since, text in api.advertised.items() if release(since) <= wanted]
        if promised:
            theirs, ours = Versions.parse(promised[-1]), Versions.parse(api.versions)
            low, high = max(theirs.low, ours.low), min(theirs.high, ours.high)
            if low <= high:
                out[api.key] = (low, high)
    return out


_FLEXIBLE = {api.key: Versions.parse(api.flexible).low for api in APIS if api.flexible != "none"}


def is_flexible(api_key: int, version: int) -> bool:
    """Whether this request is flexible (KIP-482): its header is v2, its response's v1 (but ApiVersions' v0)."""
    return version >= _FLEXIBLE.get(api_key, 32767)
