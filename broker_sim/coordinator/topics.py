"""A shard's view of the cluster's topics, from ``TopicsChanged`` events alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from operator import lt
from typing import NamedTuple


def in_order(names: Iterable[str]) -> list[str]:
    """Sorted, each name once. Names that are so already, as handlers bring many of them, take a tenth of the time."""
    known = list(names)
    if all(map(lt, known, islice(known, 1, None))):
        return known
    return list(dict.fromkeys(sorted(known)))


def differ(names: list[str], others: list[str]) -> bool:
    """Whether these aren't the same names."""
    return bool(names) if not others else names != others and in_order(names) != in_order(others)


def counted_names(lists: Iterable[list[str]]) -> Counter[str]:
    """Number of the lists that contain each name."""
    return Counter(chain.from_iterable(lists))


def no_longer_named(named: Counter[str], names: list[str], *, by_all: bool) -> None:
    """One member less names each of them; ``by_all``: it is the only one that names any. Written for a megabyte of names: Counter's own
    ``-=`` and ``del`` take three times as long."""
    if by_all:
        named.clear()
        return
    for name in names:
        if named[name] == 1:
            named.pop(name)
        else:
            named[name] -= 1


class TopicImage(NamedTuple):
    """A topic: its id, 16 bytes, and how many partitions it has. ``racks``: by partition those of its replicas' brokers, sorted; empty
    where no broker has one."""

    topic_id: bytes
    partitions: int
    racks: tuple[tuple[str, ...], ...] = ()


@dataclass(slots=True)
class Topics:
    """All topics. ``version`` counts the changes, ``created`` is the version with the newest topic; ``hashes`` are those of the topics
    that were asked for (`metadata_hash`)."""

    by_name: dict[str, TopicImage] = field(default_factory=dict)
    names: dict[bytes, str] = field(default_factory=dict)
    version: int = 0
    created: int = 0
    hashes: dict[str, int] = field(default_factory=dict)

    def change(self, topics: Mapping[str, TopicImage | None]) -> None:
        """Apply changes: name -> the topic now, None for a deleted one."""
        self.version += 1
        for name, image in topics.items():
            self.hashes.pop(name, None)
            before = self.by_name.pop(name, None)
            if before is not None:
                self.names.pop(before.topic_id, None)
            if image is not None:
                if before is None or before.topic_id != image.topic_id:
                    self.created = self.version
                self.by_name[name] = image
                self.names[image.topic_id] = name

    def id_of(self, name: str) -> bytes | None:
        """The id of a topic that is there."""
        image = self.by_name.get(name)
        return None if image is None else image.topic_id
