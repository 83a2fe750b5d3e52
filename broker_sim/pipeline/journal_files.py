"""The journal's files: which there are, whose run they are, how they are cut into ranges, and the lines of a range.

    files = number_journals(find(["JOURNAL"]))     # files, directories with all that is below them, wildcards, URIs
    for task in tasks(ranges, 4): ...              # ranges of bytes, about as many bytes in each task
    for position, line in lines(range): ...

Rules:
1. A line belongs to the range in which it begins: ranges may be cut anywhere, and no line is read twice or lost.
2. A file is known by its name without `.part`, which it loses when it is whole.
3. A line without its end is the last one of a file that grows, or of a killed process. A batch takes it where it is a whole event and
   tells it as skipped where it isn't; a stream waits for its end.
4. What can't be a journal is refused by its first bytes, before Spark begins.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from broker_sim.common.text import UsageError
from broker_sim.pipeline.files import Source, base_name, entry, expand, inside, listing, parent

__all__ = [
    "JournalFile",
    "JournalUnreadable",
    "Range",
    "complete_to",
    "find",
    "lines",
    "lines_of",
    "number_journals",
    "refusal",
    "tasks",
    "whole",
]


class JournalUnreadable(UsageError):
    """There is no journal where one was looked for; the text names it."""


_JOURNAL = re.compile(r"journal-(\d{6,})\.ndjson(?:\.part)?")
_LINES = re.compile(r".+\.(?:ndjson|jsonl)(?:\.part)?")
_BLOCK = 1 << 20
_HEAD = 4 << 20
"""How far the first line is looked for."""

_HEAD_LINES = 20
LEAST_TASK = 4 << 20
"""Bytes below which a task of its own costs more than it saves."""


@dataclass(frozen=True, slots=True)
class JournalFile:
    """``path``: as it is called now; ``name``: without ``.part``; ``number``: 4 of journal-000004; ``journal``: the number of the
    first file of its journal."""

    path: str
    run_id: str
    number: int
    size: int
    journal: int = 0

    @property
    def name(self) -> str:
        return self.path.removesuffix(".part")


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes of a file. ``refused``: why nothing of it is read."""

    file: JournalFile
    start: int
    end: int
    refused: str = ""


# ------------------------------------------------------------------------------------------------ files


def find(names: Iterable[str], run_id: str | None = None) -> list[JournalFile]:
    """The journal files below these names, in order; [] where there are directories without any. Raises JournalUnreadable where there
    is nothing of such a name, UsageError.

    The run of a file is ``run_id``, else its directory: its path below the one that was asked for, or that one's own name; a file that
    is not called journal-N is a run by itself.
    """
    found: list[JournalFile] = []
    for name in names:
        roots = [one for one in expand(name) if entry(one)]
        if not roots and entry(name.removesuffix(".part")):  # it has become whole meanwhile
            roots = [name.removesuffix(".part")]
        if not roots:
            raise JournalUnreadable(f"{name}: there is no such file or directory")
        for root in roots:
            found += _below(root, run_id)
    return _ordered(found)


def _below(root: str, run_id: str | None) -> Iterator[JournalFile]:
    there = entry(root)
    if there is not None and there.is_dir:
        yield from _in_folder(root, base_name(root), "", run_id)
    elif there is not None:
        yield _file(root, there.size, base_name(parent(root)), "", run_id)


def _in_folder(folder: str, own: str, below: str, run_id: str | None) -> Iterator[JournalFile]:
    """``own``: the name of the directory that was asked for; ``below``: the path from there."""
    for one in listing(folder):
        path, deeper = inside(folder, one.name), f"{below}/{one.name}" if below else one.name
        if one.is_dir:
            yield from _in_folder(path, own, deeper, run_id)
        elif _LINES.fullmatch(one.name):
            yield _file(path, one.size, below or own, below, run_id)


def _file(path: str, size: int, own: str, below: str, run_id: str | None) -> JournalFile:
    name = base_name(path)
    match = _JOURNAL.fullmatch(name)
    if match is None:
        stem = re.sub(r"(\.ndjson|\.jsonl)?(\.part)?$", "", name) or name
        own = f"{below}/{stem}" if below else stem
    return JournalFile(path, run_id or own, int(match[1]) if match else 1, size)


def _ordered(files: Iterable[JournalFile]) -> list[JournalFile]:
    """By run and number, each once; the whole one where a `.part` of it is there, too."""
    found: dict[str, JournalFile] = {}
    for one in sorted(files, key=lambda one: one.path, reverse=True):  # x.ndjson.part before x.ndjson
        found[one.name] = one
    return sorted(found.values(), key=lambda one: (one.run_id, one.number, one.name))


def number_journals(files: Iterable[JournalFile], known: dict[str, int] | None = None) -> list[JournalFile]:
    """The files with the journals that they belong to: a file that begins with seq 1 begins one. ``known``: what was found out
    before, by name."""
    found: list[JournalFile] = []
    run, journal = "", 0
    for one in files:
        if one.run_id != run:
            run, journal = one.run_id, one.number
        told = (known or {}).get(one.name)
        if told is not None:
            journal = told
        elif _first_seq(one) == 1:
            journal = one.number
        found.append(replace(one, journal=journal))
    return found


def _first_seq(file: JournalFile) -> int | None:
    """seq of its first event; None where none can be read: such a file is empty yet, or begins in a line that was cut."""
    try:
        head = _head(file)
    except OSError:
        return None
    for event in _head_events(head):
        seq = event.get("seq")
        if isinstance(seq, int):
            return seq
    return None


# ------------------------------------------------------------------------------------------------ bytes


def _open(path: str) -> Source:
    """The file, by the name that it has by now. Raises OSError."""
    try:
        return Source(path)
    except FileNotFoundError:
        return Source(path.removesuffix(".part"))


def _head(file: JournalFile) -> bytes:
    """Its first bytes, at least one line of them where there is one. Raises OSError."""
    head = b""
    with _open(file.path) as source:
        while len(head) < _HEAD and (block := source.read(len(head), _BLOCK if head else 65536)):
            head += block
            if b"\n" in head:
                break
    return head


def _head_events(head: bytes) -> Iterator[dict[str, Any]]:
    for line in head.split(b"\n")[:_HEAD_LINES]:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and "event" in event:
            yield event


def refusal(file: JournalFile) -> str:
    """Why a file is not read: it can't be, or none of its first lines is an event; "" where it may be a journal."""
    if not file.size:
        return ""
    try:
        head = _head(file)
    except OSError as error:
        return f"not readable: {error.strerror or error}"
    if not head.strip() or next(_head_events(head), None) is not None:
        return ""
    if b"\n" not in head:
        return "" if len(head) < _HEAD else f"no journal: no line ends within {_HEAD >> 20} MiB"
    return "no journal: none of its first lines is an event, a JSON object with seq, ts_ms and event"


def whole(names: Iterable[str], run_id: str | None = None) -> list[Range]:
    """All of every journal file below these names. Raises JournalUnreadable where none is one."""
    names = list(names)
    files = number_journals(find(names, run_id))
    if not files:
        raise JournalUnreadable(f"{', '.join(names)}: no journal files (journal-000001.ndjson, or *.ndjson, *.jsonl)")
    found = [Range(file, 0, file.size, refused=refusal(file)) for file in files]
    if all(one.refused for one in found):
        more = f", and {len(found) - 1} more files like it" if len(found) > 1 else ""
        raise JournalUnreadable(f"{found[0].file.path} is {found[0].refused}{more}")
    return found


def lines_of(name: str) -> Iterator[bytes]:
    """Every line of the journal there, without its end. Raises JournalUnreadable, OSError."""
    for piece in whole([name]):
        if not piece.refused:
            for _, line, _ in lines(piece):
                yield line


def complete_to(file: JournalFile, start: int, most: int | None = None) -> int:
    """The byte behind the last whole line, of those that begin within ``most`` bytes from ``start``, at least one; ``start`` where no
    line has ended since. Raises OSError."""
    with _open(file.path) as source:
        if most is not None and file.size - start > most:
            return next((end for _, end in _pieces(source, start) if end >= start + most), start)
        end = max(file.size, start)
        while end > start:
            begin = max(start, end - _BLOCK)
            at = source.read(begin, end - begin).rfind(b"\n")
            if at >= 0:
                return begin + at + 1
            end = begin
    return start


def tasks(files: Iterable[Range], number: int, least: int = LEAST_TASK) -> list[list[Range]]:
    """The ranges in up to ``number`` tasks of about as many bytes each, at least ``least``; at least one task, which may be empty."""
    ranges = list(files)
    total = sum(one.end - one.start for one in ranges)
    share = max(least, -(-total // max(number, 1)))
    found: list[list[Range]] = [[]]
    room = share
    for one in ranges:
        start = one.start
        while not one.refused and one.end - start > room and len(found) < number:
            if room > share // 8:  # no crumbs
                found[-1].append(replace(one, start=start, end=start + room))
                start += room
            found.append([])
            room = share
        found[-1].append(replace(one, start=start))
        room = max(0, room - (one.end - start))
    return found


def lines(piece: Range) -> Iterator[tuple[int, bytes, bool]]:
    """The lines that begin in a range: the byte at which each does, it without its end, whether it has one. Raises OSError."""
    with _open(piece.file.path) as source:
        position = piece.start
        if position:  # a line that began before is another range's
            position = next((end for _, end in _pieces(source, position - 1)), piece.end)
        if position >= piece.end:
            return
        for line, end in _pieces(source, position):
            yield position, line, end > position + len(line)
            position = end
            if position >= piece.end:
                return


def _pieces(source: Source, position: int) -> Iterator[tuple[bytes, int]]:
    """(line without its end, the byte behind it) from here to the end of the file."""
    rest, ahead = b"", position
    while block := source.read(ahead, _BLOCK):
        ahead += len(block)
        parts = (rest + block).split(b"\n")
        rest = parts.pop()
        for part in parts:
            position += len(part) + 1
            yield part, position
    if rest:
        yield rest, position + len(rest)
