"""Records in __consumer_offsets when the brokers of the profiles "load" and "aged" start: the past of their groups.

The cluster starts, these records are written, it is killed and started again on its data: now it has to load them.
`Past.records` are (key, value) pairs in the order in which they were written, one batch a group. Partitions 0-3 are
sound; a group that must not share its partition with others names one of 4-7.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kafka_wire.messages.offsets_log import GroupMetadataValue, MemberMetadata, OffsetCommitValue
from kafka_wire.offsets_log import encode_value, group_key, group_value, offset_commit_key
from tests.conformance.driver import subscription
from tests.conformance.logs import OFFSETS, offsets_partition

PARTITIONS = 8
SOUND = range(4)
UNKNOWN_KEY, UNKNOWN_VALUE, CUT_TAIL, VERSION_4 = 4, 5, 6, 7
DAY_MS = 86_400_000
LONG_MS = 3_600_000


@dataclass
class Past:
    """The records of one group, known to tests as `base`; `partition` of __consumer_offsets is where its id falls."""

    base: str
    group: str
    partition: int
    records: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    log = OFFSETS

    def commit(
        self, topic: str, partition: int, offset: int, *, version: int = 3, age_ms: int = 0, expires_in_ms: int = -1
    ) -> Past:
        stamp = now_ms() - age_ms
        expire = -1 if expires_in_ms == -1 else stamp + expires_in_ms
        value = OffsetCommitValue(offset, 7 if version >= 3 else -1, f"v{version}", stamp, expire)
        return self.raw(offset_commit_key(self.group, topic, partition), encode_value(version, value))

    def forget(self, topic: str, partition: int) -> Past:
        return self.raw(offset_commit_key(self.group, topic, partition), None)

    def members(self, *members: MemberMetadata, version: int = 3, age_ms: int = 0, **fields: Any) -> Past:
        """The group's record; without members it is an empty group."""
        given: dict[str, Any] = {
            "protocol_type": "consumer",
            "generation": 5,
            "protocol": "range" if members else None,
            "leader": members[0].member_id if members else None,
            "current_state_timestamp": now_ms() - age_ms if version >= 2 else -1,
            "members": list(members),
        }
        return self.raw(group_key(self.group), group_value(version, GroupMetadataValue(**{**given, **fields})))

    def end(self) -> Past:
        return self.raw(group_key(self.group), None)

    def raw(self, key: bytes, value: bytes | None) -> Past:
        self.records.append((key, value))
        return self


def now_ms() -> int:
    return int(time.time() * 1000)


def member(
    name: str,
    *,
    version: int = 3,
    instance: str | None = None,
    metadata: bytes | None = None,
    session_ms: int = LONG_MS,
) -> MemberMetadata:
    """A member as the log keeps it; its id is "<name>-id"."""
    return MemberMetadata(
        f"{name}-id",
        instance if version >= 3 else None,
        name,
        "/127.0.0.1",
        LONG_MS if version >= 1 else -1,
        session_ms,
        subscription("t0") if metadata is None else metadata,
        f"to-{name}".encode(),
    )


def named(base: str, partition: int | None = None) -> Past:
    """A group whose name begins with `base` and falls into `partition` (None: one of the sound ones)."""
    for number in range(1000):
        group = base if number == 0 else f"{base}-{number}"
        found = offsets_partition(group, PARTITIONS)
        if found == partition or (partition is None and found in SOUND):
            return Past(base, group, found)
    raise AssertionError("no name falls into the partition")


def load_history() -> Iterator[Past]:
    """The past of the profile "load"."""
    yield named("offsets-only").commit("t0", 0, 5).commit("t1", 1, 6)
    yield named("group-only").members(member("a"), member("b"))
    yield named("both").commit("t0", 0, 5).members(member("a")).commit("t0", 1, 6)
    yield named("going-on").members(member("a"))
    yield named("later-wins").commit("t0", 0, 5).commit("t0", 0, 4)
    yield named("forgotten-offset").commit("t0", 0, 5).commit("t0", 1, 6).forget("t0", 0)
    yield named("forgotten-then-again").commit("t0", 0, 5).forget("t0", 0).commit("t0", 0, 9)
    yield named("ended").members(member("a")).commit("t0", 0, 5).forget("t0", 0).end()
    yield named("ended-with-offsets").members(member("a")).commit("t0", 0, 5).end()
    yield named("emptied").members(member("a")).commit("t0", 0, 5).members()
    yield named("later-generation").members(member("a"), generation=3).members(member("b"), generation=4)
    for version in range(5):
        partition = VERSION_4 if version == 4 else None  # 3.4 can't read them, and that costs it the whole partition
        yield named(f"commit-v{version}", partition).commit("t0", 0, 10 + version, version=version)
        yield named(f"group-v{version}", partition).members(member("a", version=version), version=version)
    yield named("static").members(member("a", instance="i1"), member("b"))
    yield named("faulty-metadata").members(member("a", metadata=b"?"))
    yield named("other-type").members(member("a", metadata=b"any"), protocol_type="connect")
    yield named("no-type").members(protocol_type="", generation=0).commit("t0", 0, 5)
    yield named("no-type-joined").members(protocol_type="", generation=0).commit("t0", 0, 5)
    yield named("over-size-rejoined").members(member("a"), member("b"), member("c"))
    yield named("over-size").members(member("a"), member("b"), member("c"))
    yield named("long-kept").members().commit("t0", 0, 5, age_ms=DAY_MS)
    yield named("short-session").commit("t0", 0, 5).members(member("a", session_ms=400), member("b", session_ms=400))
    yield named("large").members(member("a", metadata=b"\0\0\0\0\0\1\0\2t0" + bytes(60_000)))
    tagged = encode_value(4, OffsetCommitValue(5, 7, "tag", now_ms()))[:-1] + b"\x01\x63\x02hi"
    past = named("commit-v4-tagged", VERSION_4)
    yield past.raw(offset_commit_key(past.group, "t0", 0), tagged)
    yield named("before-unknown-key", UNKNOWN_KEY).commit("t0", 0, 5)
    yield named("unknown-key", UNKNOWN_KEY).raw(b"\x7f\x00whatever", b"\0\0value")
    yield named("after-unknown-key", UNKNOWN_KEY).commit("t0", 0, 5)
    past = named("unknown-value", UNKNOWN_VALUE)
    yield past.raw(offset_commit_key(past.group, "t0", 0), b"\x00\x63" + bytes(30))
    yield named("cut-tail", CUT_TAIL).commit("t0", 0, 5)


def aged_history() -> Iterator[Past]:
    """The past of the profile "aged": offsets are kept for one minute."""
    old, young = {"age_ms": DAY_MS}, {"age_ms": -DAY_MS}
    yield named("simple").commit("t0", 0, 5, **old).commit("t0", 1, 6, **young)
    yield named("simple-all").commit("t0", 0, 5, **old)
    yield named("empty-long-ago").members(**old).commit("t0", 0, 5, **young)
    yield named("empty-just-now").members(**young).commit("t0", 0, 5, **old)
    yield named("empty-v1").members(version=1).commit("t0", 0, 5, **old).commit("t0", 1, 6, **young)
    yield named("subscribed").members(member("a")).commit("t0", 0, 5, **old)
    yield named("unsubscribed").members(member("a")).commit("t0", 0, 5, **old).commit("t1", 0, 6, **old)
    yield named("unsubscribed-young").members(member("a")).commit("t1", 0, 6, **young)
    yield named("faulty").members(member("a", metadata=b"?")).commit("t1", 0, 6, **old)
    yield named("connect").members(member("a"), protocol_type="connect").commit("t1", 0, 6, **old)
    yield named("explicit-over").commit("t0", 0, 5, version=1, age_ms=DAY_MS, expires_in_ms=1000)
    yield named("explicit-later").commit("t0", 0, 5, version=1, age_ms=DAY_MS, expires_in_ms=2 * DAY_MS)
    yield (
        named("explicit-but-alive")
        .members(member("a"))
        .commit("t0", 0, 5, version=1, age_ms=DAY_MS, expires_in_ms=1000)
    )
    yield named("empty-no-offsets").members(generation=5, **young)
    yield named("empty-no-offsets-0").members(generation=0, protocol_type="", **young)


HISTORIES = {"load": load_history, "aged": aged_history}


def past_group(profile: str, base: str) -> str:
    """The group id under which a past is kept."""
    for past in HISTORIES[profile]():
        if past.base == base:
            return past.group
    raise KeyError(base)
