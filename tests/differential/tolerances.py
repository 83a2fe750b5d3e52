"""Differences between answers of two brokers that are both right, with the reason: nothing else is let through in silence.

Two kinds of rules. `UNORDERED`: lists that Kafka keeps in a map or a set of hash order; both sides are sorted before they
are compared. `TOLERATED`: pairs of values that count as equal.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any


@dataclass(frozen=True)
class Unordered:
    """The list at `path` (a regular expression over `Api.field.field`) has no order."""

    path: str
    reason: str
    versions: tuple[str, ...] = ()
    """The references that it holds for; none: all of them."""


UNORDERED: tuple[Unordered, ...] = (
    Unordered(r"(DescribeGroups\.groups|JoinGroup|log)\.members", "a hash map by member id, and member ids are random"),
    Unordered(
        r"((Consumer|Share|Streams)Group)?Describe(Groups)?\.groups|DeleteGroups\.results",
        "4.1 asks each offsets partition for its groups, out of a map",
    ),
    Unordered(
        r"ListGroups\.groups", "a hash map by group id; 4.1 walks its offsets partitions, which answer as they can"
    ),
    Unordered(r"OffsetFetch\.(groups\.)?topics(\.partitions)?", "a group's offsets are a hash map of topics"),
    Unordered(r"(Metadata|DescribeCluster)\.brokers", "a persistent hash map by node id"),
    Unordered(r"Metadata\.topics(\.partitions)?", "persistent hash maps, and Scala's sets of names; errors apart"),
    Unordered(r"DescribeLogDirs\.results\.topics(\.partitions)?", "Scala's groupBy over the logs of a directory"),
    Unordered(r"DescribeConfigs\.results(\.configs)?", "settings are a hash map, resources Scala's"),
    Unordered(r"(Incremental)?AlterConfigs\.responses", "resources are gathered in identity and hash maps"),
    Unordered(
        r"(CreateTopics|DeleteTopics)\.(topics|responses)(\.configs)?",
        "results are gathered in a hash map and shuffled",
    ),
    Unordered(r"CreatePartitions\.results", "names are a hash set"),
    Unordered(r"(ListOffsets|DeleteRecords)\.topics(\.partitions)?", "Scala's maps and groupBy, by partition"),
    Unordered(r"Produce\.responses(\.partition_responses)?", "Scala's maps: insertion order up to four, then hashes"),
    Unordered(
        r"WriteTxnMarkers\.markers(\.topics(\.partitions)?)?",
        "errors are gathered in hash maps by producer id and partition",
    ),
    Unordered(
        r"AddPartitionsToTxn\.(results_by_transaction\.topic_results|results_by_topic_v3_and_below)(\.results_by_partition)?",
        "where a partition is not there, errors are a hash map by partition",
    ),
    Unordered(
        r"ListTransactions\.(transaction_states|unknown_state_filters)",
        "a map of partitions, a hash map by transactional id in each, and a set of names",
    ),
    Unordered(
        r"DescribeTransactions\.transaction_states\.topics(\.partitions)?", "a set of partitions, grouped in a map"
    ),
    Unordered(r"DescribeProducers\.topics\.partitions\.active_producers", "a map by producer id"),
    Unordered(
        r"(Write|Read|Delete|Initialize)ShareGroupState(Summary)?\.results(\.partitions)?",
        "hash maps by topic id and partition",
    ),
    Unordered(r"TxnOffsetCommit\.topics(\.partitions)?", "maps by partition"),
    Unordered(
        r"log\..*(topic_partitions|assigned_partitions|partitions_pending_revocation)(\.partitions)?",
        "the same in the records of consumer groups",
    ),
    Unordered(
        r"ConsumerGroup(Heartbeat|Describe)\..*topic_partitions(\.partitions)?", "maps by topic id, sets of partitions"
    ),
    Unordered(r"ConsumerGroupDescribe\.groups\.members\.subscribed_topic_names", "a set of names"),
    Unordered(
        r"StreamsGroupHeartbeat\.partitions_by_user_endpoint\.(active|standby)_partitions",
        "a map of subtopologies that can't be changed: each JVM draws the order of these at its start",
    ),
    Unordered(
        r"DescribeShareGroupOffsets\.groups\.topics",
        "those that exist are a hash map by topic id, and these are random",
    ),
    Unordered(
        r"(ShareFetch|ShareAcknowledge)\.responses(\.partitions)?",
        "maps by topic id and partition, and topic ids are random",
    ),
    Unordered(
        r"ShareGroup(Heartbeat|Describe)\..*(topic_partitions|subscribed_topic_names)(\.partitions)?",
        "maps by topic id, sets of partitions, a set of names",
    ),
    Unordered(
        r"log\.(initializing|initialized|deleting)_topics(\.partitions)?", "maps by topic id, sets of partitions"
    ),
    Unordered(r"Offset(Commit|Delete)\.topics(\.partitions)?", "Scala's maps by partition", ("3.4", "3.9")),
    Unordered(
        r"(Metadata|DescribeTopicPartitions)\.topics\.partitions\.isr_nodes",
        "a leader that takes a replica into the ISR names it as Java's HashSet has it; before that in the order of their coming",
        ("4.4",),
    ),
    Unordered(r"ApiVersions\.api_keys", "Kafka lists them by key since 3.x, a client looks them up"),
)


@cache
def unordered(version: str, path: str) -> bool:
    """Whether the list at `path` of an answer is sorted before it is compared, beside that version."""
    return any(re.fullmatch(rule.path, path) for rule in UNORDERED if not rule.versions or version in rule.versions)


@dataclass(frozen=True)
class Tolerated:
    """At `path` (a regular expression over `Api v5.field[0].field`), what `equal` accepts counts as equal."""

    name: str
    path: str
    reason: str
    equal: Callable[[Any, Any], bool]


def _near(real: Any, simulated: Any) -> bool:
    return isinstance(real, int) and isinstance(simulated, int) and abs(real - simulated) < 10_000


_LONG_NUMBER = re.compile(r"-?\d{12,}")


def _near_text(real: Any, simulated: Any) -> bool:
    """Equal but for points in time that are near each other."""
    if not (isinstance(real, str) and isinstance(simulated, str)):
        return False
    numbers = zip(_LONG_NUMBER.findall(real), _LONG_NUMBER.findall(simulated), strict=False)
    return _LONG_NUMBER.sub("#", real) == _LONG_NUMBER.sub("#", simulated) and all(
        _near(int(a), int(b)) for a, b in numbers
    )


def _both_set(real: Any, simulated: Any) -> bool:
    return bool(real) and bool(simulated)


def _both_nodes(real: Any, simulated: Any) -> bool:
    return isinstance(real, int) and isinstance(simulated, int) and min(real, simulated) > 0


_SETTING = re.compile(
    r"(Invalid value |Unknown (topic|group) config name: |Unknown client metrics configuration: |Can't (APPEND|SUBTRACT) to key )"
)


def _both_settings(real: Any, simulated: Any) -> bool:
    kinds = [_SETTING.match(text) if isinstance(text, str) else None for text in (real, simulated)]
    return all(kinds) and kinds[0][1][:6] == kinds[1][1][:6]


def _but_for_failed_creations(real: Any, simulated: Any) -> bool:
    return str(real).partition("; Creation failed: ")[0] == str(simulated).partition("; Creation failed: ")[0]


_ID = re.compile(r"[\w-]{22}")


def _but_for_ids(real: Any, simulated: Any) -> bool:
    return isinstance(real, str) and isinstance(simulated, str) and _ID.sub("#", real) == _ID.sub("#", simulated)


ID_BYTES = 18


def _id_or_its_size(real: Any, simulated: Any) -> bool:
    return simulated == "no topic id" or (isinstance(real, int) and real == simulated + ID_BYTES)


def _of_one_client(real: Any, simulated: Any) -> bool:
    return str(real).split("#")[0] == str(simulated).split("#")[0]


def _both_counted(real: Any, simulated: Any) -> bool:
    return isinstance(real, int) and isinstance(simulated, int) and min(real, simulated) >= 0


TOLERATED: tuple[Tolerated, ...] = (
    Tolerated(
        "clocks",
        r"(log\[\d+\]\.value\.(commit_timestamp|expire_timestamp|current_state_timestamp|assignment_timestamp|timestamp)|.*\.log_append_time_ms"
        r"|(Share)?Fetch .*\.max_timestamp|(Share)?Fetch .*\.records\[\d+\]\[1\]|ListOffsets .*\.timestamp"
        r"|DescribeTransactions .*\.transaction_start_time_ms|DescribeProducers .*\.last_timestamp|(Share)?Fetch .*\.base_timestamp)",
        "the two sides take the time one after the other; 10 s, as sequences are played side by side",
        _near,
    ),
    Tolerated(
        "clocks in texts",
        r"Produce .*_message",
        "the same, where a refusal of a timestamp tells the bounds of that moment",
        _near_text,
    ),
    Tolerated(
        "which of several wrong settings",
        r"(CreateTopics|AlterConfigs|IncrementalAlterConfigs) .*\.error_message",
        "Kafka names the first that it meets in a hash map, or in the order in which it defines its settings",
        _both_settings,
    ),
    Tolerated(
        "failed creations",
        r"StreamsGroupHeartbeat .*\.status_detail",
        "Kafka tries in the background to create an internal topic, and says that it failed for as long as it remembers that",
        _but_for_failed_creations,
    ),
    Tolerated(
        "topic ids in texts",
        r"AlterShareGroupOffsets .*error_message",
        "each side draws its own",
        _but_for_ids,
    ),
    Tolerated(
        "feature epochs",
        r"ApiVersions .*\.finalized_features_epoch",
        "an offset of the metadata log, which grows while it is asked for",
        _both_counted,
    ),
    Tolerated(
        "topic ids of offset records",
        r"log\[\d+\]\.value\.(topic_id|size)",
        "later releases than 4.1 write the topic's id into an offset's record; the simulator writes what 4.1 writes",
        _id_or_its_size,
    ),
    Tolerated(
        "metadata versions of resolved expressions",
        r"log\[\d+\]\.value\.version",
        "an offset of the metadata log, which grows while it is looked at",
        _both_counted,
    ),
    Tolerated(
        "hashes of subscribed topics",
        r"log\[\d+\]\.value\.metadata_hash",
        "topic ids are in them, and each side draws its own",
        _both_set,
    ),
    Tolerated(
        "members that look alike",
        r"log\[\d+\]\.value\.members\[\d+\]\.member_id",
        "two members of one client that differ in their random ids alone are named in the order of these",
        _of_one_client,
    ),
    Tolerated(
        "oldest versions that are not served",
        r"ApiVersions v\d+\.api_keys\[\d+\]\.min_version",
        "Produce v0-2 and Fetch v0-3 of 3.x, whose record formats the simulator does not keep (docs/coverage.md)",
        lambda real, simulated: real < simulated,
    ),
    Tolerated(
        "newest versions that are not served",
        r"ApiVersions v\d+\.api_keys\[\d+\]\.max_version",
        "those of some APIs of 4.2 and later (docs/coverage.md)",
        lambda real, simulated: real > simulated,
    ),
    Tolerated(
        "controllers",
        r"(Metadata|DescribeCluster) .*\.controller_id",
        "a KRaft broker names any broker that is up, another one each time",
        _both_nodes,
    ),
    Tolerated("cluster ids", r".*\.cluster_id", "each cluster has its own", _both_set),
    Tolerated("disks", r"DescribeLogDirs .*\.(total|usable)_bytes", "taken from the disk at two moments", _both_set),
)


def tolerated(where: str, real: Any, simulated: Any) -> str | None:
    """The name of the rule that lets this difference through."""
    for rule in TOLERATED:
        if re.fullmatch(rule.path, where) and rule.equal(real, simulated):
            return rule.name
    return None
