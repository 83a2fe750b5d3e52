"""Content of a simulated disk: files and directories in two images, and its faults. See ``disk`` for the rules."""

from __future__ import annotations

import fnmatch
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from broker_sim.simulation.virtual.disk import SimDisk

__all__ = ["CALLS", "DISK_FAULTS", "SECTOR", "Directory", "DiskFault", "DiskImage", "File", "torn"]

SECTOR = 512
_LIMIT = 4096
"""So many writes wait for a sync; the older half then is durable: kernels write back on their own."""

_Op = tuple[int, bytes | None]
"""Bytes at a position, or a new size."""


def _apply(image: bytearray, op: _Op) -> None:
    position, data = op
    size = len(image)
    if data is None:
        if position < size:
            del image[position:]
        else:
            image.extend(bytes(position - size))
    elif position == size:
        image += data
    else:
        if position > size:
            image.extend(bytes(position - size))
        image[position : position + len(data)] = data


class File:
    """``data``: as everybody reads it. ``durable``: what a loss of power leaves, with ``pending`` still to come."""

    __slots__ = ("data", "done", "durable", "path", "pending")

    def __init__(self, path: str) -> None:
        self.path = path
        self.data, self.durable = bytearray(), bytearray()
        self.pending: list[_Op] = []
        self.done = 0
        """Operations that are durable, or never will be."""

    def change(self, op: _Op) -> None:
        _apply(self.data, op)
        self.pending.append(op)
        if len(self.pending) > _LIMIT:
            self.persist(_LIMIT // 2)

    def persist(self, count: int | None = None) -> None:
        """The oldest waiting operations are durable."""
        settled = self.pending[:count]
        for op in settled:
            _apply(self.durable, op)
        del self.pending[:count]
        self.done += len(settled)

    def lose_power(self, chance: random.Random) -> None:
        """Lose some, all or none of the pending writes."""
        pending, image = self.pending, self.durable
        fate = chance.randrange(4) if pending else 0
        if fate == 1:
            self.persist()
        elif fate == 2:
            self.persist(chance.randrange(len(pending)))
            position, data = pending[0]
            if data is not None:
                _apply(image, (position, data[: torn(position, len(data), chance)]))
        elif fate == 3:
            self.persist(chance.randrange(len(pending)))
            self._scatter(chance)
        self.data = bytearray(self.durable)
        self.done += len(self.pending)
        self.pending.clear()

    def _scatter(self, chance: random.Random) -> None:
        """Make some sectors of the pending writes durable. The file may have its new size and zeros where nothing was written."""
        new = bytearray(self.durable)
        for op in self.pending:
            _apply(new, op)
        old = self.durable
        least, most = sorted((len(old), len(new)))
        size = chance.choice((least, most, chance.randint(least, most)))
        content = bytearray(size)
        share = chance.random()
        for start in range(0, size, SECTOR):
            source = new if chance.random() < share else old
            part = source[start : min(start + SECTOR, size)]
            content[start : start + len(part)] = part
        self.durable = content


def torn(position: int, size: int, chance: random.Random) -> int:
    """Number of bytes of a write of that size that are kept: up to any byte, or to a sector of the file."""
    cut = chance.randint(0, size)
    if chance.random() < 0.5:
        cut = max((position + cut) // SECTOR * SECTOR - position, 0)
    return cut


_Entry = tuple[tuple[tuple[str, "Node | None"], ...], "File | None", int]
"""Names and what they stand for from now on; a file whose bytes come first, up to that operation."""


class Directory:
    __slots__ = ("durable", "names", "path", "pending")

    def __init__(self, path: str) -> None:
        self.path = path
        self.names: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}
        self.pending: list[_Entry] = []

    def change(self, *names: tuple[str, Node | None], first: File | None = None) -> None:
        _name(self.names, names)
        self.pending.append((names, first, first.done + len(first.pending) if first is not None else 0))

    def persist(self, count: int | None = None) -> None:
        for names, first, operations in self.pending[:count]:
            _name(self.durable, names)
            if first is not None:
                first.persist(max(operations - first.done, 0))
        del self.pending[:count]

    def lose_power(self, chance: random.Random) -> None:
        """Make none, all, a part from the beginning or any part of the pending changes durable, and lose the rest."""
        count = chance.choice((0, len(self.pending), chance.randint(0, len(self.pending))))
        if chance.random() < 0.25:
            self._scatter(chance)
        else:
            self.persist(count)
        self.names = dict(self.durable)
        self.pending.clear()

    def _scatter(self, chance: random.Random) -> None:
        """Reorder the changes that were not synced; with probability 1/2 directory entries may also come before file contents."""
        share, bytes_first = chance.random(), chance.random() < 0.5
        for names, first, operations in self.pending:
            if chance.random() >= share:
                continue
            for _, node in names:  # it has had another name, of which nothing came
                for name in [name for name, known in self.durable.items() if node is not None and known is node]:
                    del self.durable[name]
            _name(self.durable, names)
            if first is not None and bytes_first:
                first.persist(max(operations - first.done, 0))


Node = File | Directory


def _name(table: dict[str, Node], names: Iterable[tuple[str, Node | None]]) -> None:
    for name, node in names:
        if node is None:
            table.pop(name, None)
        else:
            table[name] = node


class DiskImage:
    """The files and directories of a machine; they outlive the processes that write them."""

    def __init__(self, seed: object) -> None:
        self.seed = seed
        self.root = Directory("/")
        self.dirs: dict[str, Directory] = {"/": self.root, "": self.root}
        self.faults: list[DiskFault] = []
        self.crashes = 0
        self.counts: dict[tuple[str, str], int] = {}
        self.locked: dict[str, SimDisk] = {}

    def chance(self, what: str, path: str) -> random.Random:
        """For the next time that this happens to that path."""
        number = self.counts[what, path] = self.counts.get((what, path), 0) + 1
        return random.Random(f"{self.seed}/disk/{what}/{path}/{number}")

    def moved(self, node: Node, path: str) -> None:
        """A file or a directory has another name."""
        if isinstance(node, Directory):
            del self.dirs[node.path]
            self.dirs[path] = node
            for name, child in node.names.items():
                self.moved(child, f"{path}/{name}")
        node.path = path

    def lose_power(self) -> None:
        """Only what is durable, and what chance has kept, is there."""
        seen: dict[File, None] = {}
        self.crashes += 1
        self.dirs = {"/": self.root, "": self.root}

        def walk(node: Directory) -> None:
            node.lose_power(random.Random(f"{self.seed}/disk/power/{node.path}/{self.crashes}"))
            for name, child in node.names.items():
                child.path = f"{node.path.rstrip('/')}/{name}"
                if isinstance(child, Directory):
                    self.dirs[child.path] = child
                    walk(child)
                else:
                    seen[child] = None

        walk(self.root)
        for file in seen:
            file.lose_power(random.Random(f"{self.seed}/disk/power/{file.path}/{self.crashes}"))


# --- what goes wrong with it ----------------------------------------------------------------------------------------------

DISK_FAULTS = {
    "full": "``free_bytes`` more are taken, a write that reaches beyond them in part",
    "fails": "``calls`` of ``write``, ``read`` and ``sync`` fail with EIO",
    "readonly": "whatever would change it is refused",
    "stalls": "the first call waits for its end, and the process with it",
}
"""Kinds of disk faults, with their effects."""

CALLS = ("write", "read", "sync")
_CHANGES = ("write", "truncate", "create", "rename", "remove", "mkdir")


@dataclass(eq=False)
class DiskFault:
    """Something wrong with the paths that fit ``paths`` (as a shell's pattern), until ``heal()`` or the end of a ``with`` block."""

    disk: DiskImage = field(repr=False)
    kind: str
    paths: str = "*"
    free_bytes: int = 0
    calls: tuple[str, ...] = ("write", "sync")
    until_s: float | None = None
    """Time at which a stall will end, as far as that is known: in loop time."""
    ended: list[Callable[[], object]] = field(default_factory=list, repr=False)
    """Functions to call when the fault ends."""

    def heal(self) -> None:
        """End the fault; a second call does nothing."""
        if self in self.disk.faults:
            self.disk.faults.remove(self)
            waiting, self.ended = self.ended, []
            for future in waiting:
                future()

    def hits(self, call: str, path: str) -> bool:
        return (self.paths == "*" or fnmatch.fnmatchcase(path, self.paths)) and (
            call in (*_CHANGES, *CALLS)
            if self.kind == "stalls"
            else call in self.calls
            if self.kind == "fails"
            else call in _CHANGES
            if self.kind == "readonly"
            else call in ("write", "mkdir")
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.heal()
