"""The winner of a tie in the vote for a protocol: the first in the iteration order of the hash map in which Kafka counts the votes.

Kafka asks the map for its greatest entry, which of equal entries is the first in the map's order. That order depends on the names
alone: 4.x counts in a java.util.HashMap, 3.x groups the votes into Scala's immutable HashMap. So a tie has the same winner in all
groups of a cluster, whatever the order of joins, and may have another one after an upgrade. (Names with the same bucket or hash stay in
the order in which the votes were read, which is that of a map of member ids in Kafka and that of joining here.)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Hashable, Iterable, Mapping
from typing import TypeVar

from broker_sim.common.slices import Pace, at_once
from kafka_wire.remembered import remembered

K = TypeVar("K", bound=Hashable)

_INT = 0xFFFF_FFFF
_PIECE = 2000  # names that are looked at before others are served
_BUCKETS = 16  # of a new java.util.HashMap; doubled when three quarters of them are taken


def winner(votes: Mapping[str, int], order: Iterable[str]) -> str:
    """The protocol with most votes; the first one in ``order`` where several have as many."""
    return max(order, key=lambda name: votes[name])


def java_order(names: Iterable[str], size: int | None = None) -> list[str]:
    """``names`` as a java.util.HashMap with these keys gives them; `size`: of the map, where it has more keys than those."""
    keys = list(names)
    return sorted(keys, key=_java_bucket(len(keys) if size is None else size))


def java_ordering(names: Collection[str]) -> Generator[None, None, list[str]]:
    """`java_order` in pieces. A name's hash takes as long as the name is."""
    bucket, pace = _java_bucket(len(names)), Pace(_PIECE)
    buckets: dict[int, list[str]] = {}
    for name in names:
        if pace.full(1 + len(name) // 8):
            yield
        buckets.setdefault(bucket(name), []).append(name)
    order: list[str] = []
    for number in sorted(buckets):
        if pace.full():
            yield
        order += buckets[number]
    return order


def _java_bucket(size: int) -> Callable[[str], int]:
    """Return a function that gives the bucket of a name in a ``java.util.HashMap`` with ``size`` keys."""
    buckets = _BUCKETS
    while size > buckets * 3 // 4:
        buckets *= 2

    def bucket(name: str) -> int:
        code = string_hash(name)
        return (code ^ code >> 16) & (buckets - 1)

    return bucket


def scala_order(names: Iterable[str]) -> list[str]:
    """``names`` as a scala.collection.immutable.HashMap (2.13) with these keys gives them."""
    return at_once(scala_ordering(names, string_hash))


def scala_ordering(keys: Iterable[K], hash_of: Callable[[K], int]) -> Generator[None, None, list[K]]:
    """``keys`` as a scala.collection.immutable.HashMap (2.13) gives them, in pieces. ``hash_of``: their hashCode, unsigned."""
    pace = Pace(_PIECE)
    hashed = []
    for key in keys:
        if pace.full():
            yield
        hashed.append((_improved(hash_of(key)), key))
    return (yield from _trie_ordering(hashed, pace))


def scala_mutable_order(keys: Iterable[K], hash_of: Callable[[K], int]) -> list[K]:
    """``keys`` as a scala.collection.mutable.HashMap (2.13) gives them. ``hash_of``: their hashCode, unsigned."""
    listed = list(keys)
    buckets = _BUCKETS
    while len(listed) >= buckets * 3 // 4:
        buckets *= 2

    def place(key: K) -> tuple[int, int]:
        code = hash_of(key)
        code ^= code >> 16
        return code & (buckets - 1), code ^ 0x8000_0000  # a bucket's in the order of their hashes, which are signed

    return sorted(listed, key=place)


def _trie_ordering(keys: list[tuple[int, K]], pace: Pace) -> Generator[None, None, list[K]]:
    """A node of the trie: 32 branches by the lowest five bits; keys that are alone on theirs come before the nodes below."""
    if len({code for code, _ in keys}) == 1:
        return [key for _, key in keys]
    branches: dict[int, list[tuple[int, K]]] = {}
    for code, key in keys:
        if pace.full():
            yield
        branches.setdefault(code & 31, []).append((code >> 5, key))
    in_order = [branches[bits] for bits in sorted(branches)]
    order = [branch[0][1] for branch in in_order if len(branch) == 1]
    for branch in in_order:
        if len(branch) > 1:
            order += yield from _trie_ordering(branch, pace)
    return order


@remembered(entries=4096)
def string_hash(text: str) -> int:
    """``String.hashCode`` of Java, as an unsigned number."""
    code = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        code = (31 * code + (units[at] << 8 | units[at + 1])) & _INT
    return code


def _improved(code: int) -> int:
    """The hash as Scala's hash maps use it (scala.collection.Hashing.improve)."""
    code = (code + (~(code << 9) & _INT)) & _INT
    code ^= code >> 14
    code = (code + (code << 4)) & _INT
    return code ^ code >> 10


ORDERS: dict[str, Callable[[Iterable[str]], list[str]]] = {
    "Scala's immutable HashMap": scala_order,
    "java.util.HashMap": java_order,
}
"""By ``Policy.votes_are_counted_in``."""
