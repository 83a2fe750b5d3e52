"""Kafka's assignors ``simple`` of share groups: that of 4.1 and its successor.

Both share partitions out evenly: with more members than partitions each partition has several members. 4.1's assignor finds a partition
for each member by the hash of its id, and assigns the others in turn; the later one keeps former assignments, as far as they are even.
The choice depends on the order of Java's hash maps, which is reproduced here, as clients see the result.

Source: SimpleAssignor.java (4.1), SimpleHomogeneousAssignmentBuilder.java, SimpleHeterogeneousAssignmentBuilder.java (4.4), by their
results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import ceil

from broker_sim.coordinator.classic.vote import java_order, string_hash
from broker_sim.coordinator.epochs.holdings import Units, units_of

Assigned = dict[str, Units[bytes]]
Shared = Mapping[bytes, Sequence[int]]
"""Topic -> the partitions of it that may be assigned, in the order in which topics are shared out."""
Partition = tuple[bytes, int]

_INT = 0xFFFF_FFFF


def assign(
    shared: Shared,
    members: Mapping[str, frozenset[bytes]],
    targets: Mapping[str, Units[bytes]],
    *,
    is_homogeneous: bool,
) -> Assigned:
    """The later assignor. A topic that has lost all its partitions stays in a member's assignment, without any; one that no member
    reads stays as it was, if members read different topics. ``members``: member id -> the topics that it reads, in the order in which
    members are served; ``targets``: what they should have had until now; ``is_homogeneous``: whether all of them name the same topics,
    be these there or not."""
    if is_homogeneous:
        reads = next(iter(members.values()), frozenset())
        wanted = [(topic, number) for topic, numbers in shared.items() if topic in reads for number in numbers]
        had = {
            member: [
                (topic, number)
                for topic, numbers in targets.get(member, {}).items()
                for number in numbers
                if topic in reads
            ]
            for member in members
        }
        assigned = _named(_evened(wanted, had, _set_order, _hash_order))
        return {
            member: {**{topic: () for topic in targets.get(member, {}) if topic in reads}, **units}
            for member, units in assigned.items()
        }
    given: dict[str, list[Partition]] = {member: [] for member in members}
    for topic, numbers in shared.items():
        readers = [member for member, reads in members.items() if topic in reads]
        had = {member: [(topic, number) for number in targets.get(member, {}).get(topic, ())] for member in readers}
        for member, got in _evened([(topic, number) for number in numbers], had, sorted, sorted).items():
            given[member] += got
    read = frozenset[bytes]().union(*members.values())
    return {
        member: {
            **{topic: () if topic in read else numbers for topic, numbers in targets.get(member, {}).items()},
            **units,
        }
        for member, units in _named(given).items()
    }


def _evened(
    wanted: Sequence[Partition],
    had: Mapping[str, Sequence[Partition]],
    ordered: Callable[[Iterable[Partition]], list[Partition]],
    order: Callable[[Iterable[Partition]], list[Partition]],
) -> dict[str, list[Partition]]:
    members = list(had)
    if not members:
        return {}
    sharing = -(-len(members) // len(wanted)) if wanted else 0
    precise = len(wanted) * sharing / len(members)
    most = [ceil(precise * (at + 1)) - ceil(precise * at) for at in range(len(members))]
    holders: dict[Partition, dict[int, None]] = {}
    holds: list[dict[Partition, None]] = [{} for _ in members]
    for at, member in enumerate(members):
        for partition in had[member]:
            holders.setdefault(partition, {})[at] = None
            holds[at][partition] = None
    unfilled = {at: None for at in range(len(members)) if len(holds[at]) < most[at]}
    for at in range(len(members)):
        for partition in ordered(holds[at])[: max(0, len(holds[at]) - most[at])]:
            del holds[at][partition], holders[partition][at]
    for partition in holders:
        for at in sorted(holders[partition])[: max(0, len(holders[partition]) - sharing)]:
            del holders[partition][at], holds[at][partition]
            unfilled[at] = None
    for partition in wanted:
        holders.setdefault(partition, {})
    _fill(order(holders), holders, holds, most, sharing, unfilled)
    return {member: list(holds[at]) for at, member in enumerate(members)}


def _fill(
    order: Iterable[Partition],
    holders: Mapping[Partition, dict[int, None]],
    holds: Sequence[dict[Partition, None]],
    most: Sequence[int],
    sharing: int,
    unfilled: dict[int, None],
) -> None:
    """Each partition that lacks holders goes to those who lack partitions, in turn."""
    turn: Iterator[int] = iter(sorted(unfilled))
    for partition in order:
        shortage, began_anew = sharing - len(holders[partition]), False
        while shortage > 0:
            at = next(turn, None)
            if at is None:
                if began_anew or not unfilled:
                    break
                turn, began_anew = iter(sorted(unfilled)), True
                at = next(turn)
            if at not in holders[partition]:
                holders[partition][at] = holds[at][partition] = None
                shortage -= 1
                if len(holds[at]) >= most[at]:
                    del unfilled[at]
        if not unfilled:
            return


def _hash_order(partitions: Iterable[Partition]) -> list[Partition]:
    """As a java.util.HashMap that was made for so many keys gives them; computeIfAbsent puts a key before those of its bucket."""
    keys = list(partitions)
    return _by_buckets(reversed(keys), int(len(keys) / 0.75 + 1))


def _map_order(partitions: Iterable[Partition]) -> list[Partition]:
    """As one that has grown gives them."""
    keys = list(partitions)
    return _by_buckets(reversed(keys), max(16, int(len(keys) / 0.75 + 1)))


def _set_order(partitions: Iterable[Partition]) -> list[Partition]:
    """As a java.util.HashSet that has grown gives them: a key comes behind those of its bucket."""
    keys = list(partitions)
    return _by_buckets(keys, max(16, int(len(keys) / 0.75 + 1)))


def _by_buckets(keys: Iterable[Partition], least: int) -> list[Partition]:
    buckets = 1
    while buckets < least:
        buckets *= 2
    return sorted(keys, key=lambda key: _spread(_partition_hash(key)) & (buckets - 1))


def _partition_hash(partition: Partition) -> int:
    topic = partition[0]
    mixed = int.from_bytes(topic[:8], "big") ^ int.from_bytes(topic[8:], "big")
    return (31 * ((mixed >> 32) ^ (mixed & _INT)) + partition[1]) & _INT


def _spread(code: int) -> int:
    return code ^ code >> 16


def assign_by_hash(
    shared: Shared,
    members: Mapping[str, frozenset[bytes]],
    targets: Mapping[str, Units[bytes]],
    *,
    is_homogeneous: bool,
) -> Assigned:
    """4.1's assignment: each member gets the partition at the hash of its id, keeps its former partitions that no hash has assigned,
    and the other partitions are assigned in turn."""
    if not is_homogeneous:
        return _by_hash_each(shared, {member: members[member] for member in java_order(members)}, targets)
    reads = next(iter(members.values()), frozenset())
    wanted = [(topic, number) for topic, numbers in shared.items() if topic in reads for number in numbers]
    most = -(-len(wanted) // len(members)) if members else 0
    given: dict[str, dict[Partition, None]] = {}
    found_by_hash = _found(members, wanted, given)
    kept: dict[Partition, None] = {}
    had: dict[Partition, list[str]] = {}
    for member in members:
        for partition in _had(targets.get(member, {}), reads):
            had.setdefault(partition, []).append(member)
    for partition in _map_order(had):
        for member in had[partition]:
            if partition not in found_by_hash and len(given[member]) < most:
                given[member][partition] = kept[partition] = None
    turn = list(members)
    at = 0
    for partition in [candidate for candidate in wanted if candidate not in found_by_hash and candidate not in kept]:
        at %= len(turn)
        while len(given[turn[at]]) > most:
            del turn[at]
            at %= len(turn)
        given[turn[at]][partition] = None
        at += 1
    return _named(given)


def _by_hash_each(
    shared: Shared, members: Mapping[str, frozenset[bytes]], targets: Mapping[str, Units[bytes]]
) -> Assigned:
    """As ``assign_by_hash`` if members subscribe to different topics: topic by topic, and without Kafka's limit to the partitions that
    are kept (partitions that it would take away stay assigned here)."""
    given: dict[str, dict[Partition, None]] = {}
    found_by_hash: dict[Partition, None] = {}
    for member, reads in members.items():
        reads_of = [(topic, number) for topic, numbers in shared.items() if topic in reads for number in numbers]
        found_by_hash |= _found([member], reads_of, given)
    kept: dict[Partition, None] = {}
    for member, reads in members.items():
        for topic, number in _had(targets.get(member, {}), reads):
            if (topic, number) not in found_by_hash:
                given[member][topic, number] = kept[topic, number] = None
    for topic, numbers in shared.items():
        readers = [member for member, reads in members.items() if topic in reads]
        left = [number for number in numbers if (topic, number) not in found_by_hash and (topic, number) not in kept]
        for at, number in enumerate(left if readers else ()):
            given[readers[at % len(readers)]][topic, number] = None
    return _named(given)


def _found(
    members: Iterable[str], wanted: Sequence[Partition], given: dict[str, dict[Partition, None]]
) -> dict[Partition, None]:
    """The partition at the hash of each member's id; it is added to ``given``."""
    result: dict[Partition, None] = {}
    for member in members:
        code = string_hash(member)
        signed = code if code < 1 << 31 else code - (1 << 32)
        hashed = [wanted[abs(signed) % len(wanted)]] if wanted else []
        given[member] = dict.fromkeys(hashed)
        result |= given[member]
    return result


def _had(target: Units[bytes], reads: frozenset[bytes]) -> list[Partition]:
    return [(topic, number) for topic, numbers in target.items() if topic in reads for number in numbers]


def _named(given: Mapping[str, Iterable[Partition]]) -> Assigned:
    return {member: units_of((topic, [number]) for topic, number in got) for member, got in given.items()}


ASSIGNORS: dict[str, Callable[..., Assigned]] = {
    "simple": assign,
    "simple until 4.1": assign_by_hash,
}
"""By ``Policy.share_assignor``."""
