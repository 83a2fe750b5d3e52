"""The journal's files: which there are, whose run they are, how they are cut into ranges, and the lines of a range.

    files = number_journals(find(["JOURNAL"]))     # files, directories with all that is below them, wildcards, URIs
    for task in tasks(ranges, 4): ...              # ranges of bytes, about as many bytes in each task
    for position, line in lines(range): ...

Rules:
1. A line belongs to the range in which it begins: ranges may be cut anywhere, and no line is read twice or lost.
2. A file is known by its name without `.part`, which it loses when it is whole.
3. A line without its end is the last one of a file that grows, or of a killed process. A batch takes it where it is a whole event and
   reports it as skipped if it isn't; a stream waits for its end.
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
"""Bytes within which the first line must end."""

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
    files: list[JournalFile] = []
    for name in names:
        roots = [path for path in expand(name) if entry(path)]
        if not roots and entry(name.removesuffix(".part")):  # it has become whole meanwhile
            roots = [name.removesuffix(".part")]
        if not roots:
            raise JournalUnreadable(f"{name}: there is no such file or directory")
        for root in roots:
            files += _below(root, run_id)
    return _ordered(files)


def _below(root: str, run_id: str | None) -> Iterator[JournalFile]:
    there = entry(root)
    if there is not None and there.is_dir:
        yield from _in_folder(root, base_name(root), "", run_id)
    elif there is not None:
        yield _file(root, there.size, base_name(parent(root)), "", run_id)


def _in_folder(folder: str, own: str, below: str, run_id: str | None) -> Iterator[JournalFile]:
    """``own``: the name of the directory that was asked for; ``below``: the path from there."""
    for child in listing(folder):
        path, deeper = inside(folder, child.name), f"{below}/{child.name}" if below else child.name
        if child.is_dir:
            yield from _in_folder(path, own, deeper, run_id)
        elif _LINES.fullmatch(child.name):
            yield _file(path, child.size, below or own, below, run_id)


def _file(path: str, size: int, own: str, below: str, run_id: str | None) -> JournalFile:
    name = base_name(path)
    match = _JOURNAL.fullmatch(name)
    if match is None:
        stem = re.sub(r"(\.ndjson|\.jsonl)?(\.part)?$", "", name) or name
        own = f"{below}/{stem}" if below else stem
    return JournalFile(path, run_id or own, int(match[1]) if match else 1, size)


def _ordered(files: Iterable[JournalFile]) -> list[JournalFile]:
    """By run and number, each once; the whole one where a `.part` of it is there, too."""
    by_name: dict[str, JournalFile] = {}
    for file in sorted(files, key=lambda file: file.path, reverse=True):  # x.ndjson.part before x.ndjson
        by_name[file.name] = file
    return sorted(by_name.values(), key=lambda file: (file.run_id, file.number, file.name))


def number_journals(files: Iterable[JournalFile], known: dict[str, int] | None = None) -> list[JournalFile]:
    """The files with the journals that they belong to: a file that begins with seq 1 begins one. ``known``: what was found out
    before, by name."""
    numbered: list[JournalFile] = []
    run, journal = "", 0
    for file in files:
        if file.run_id != run:
            run, journal = file.run_id, file.number
        known_journal = (known or {}).get(file.name)
        if known_journal is not None:
            journal = known_journal
        elif _first_seq(file) == 1:
            journal = file.number
        numbered.append(replace(file, journal=journal))
    return numbered


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
    """The first bytes of a file, at least one whole line of them if there is one. Raises OSError."""
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
    """Reason why a file is not read: it is unreadable, or none of its first lines is an event; "" if it may be a journal."""
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
    """Ranges that cover every journal file below these names. Raises JournalUnreadable without one, or if all are refused."""
    names = list(names)
    files = number_journals(find(names, run_id))
    if not files:
        raise JournalUnreadable(f"{', '.join(names)}: no journal files (journal-000001.ndjson, or *.ndjson, *.jsonl)")
    ranges = [Range(file, 0, file.size, refused=refusal(file)) for file in files]
    if all(piece.refused for piece in ranges):
        more = f", and {len(ranges) - 1} more files like it" if len(ranges) > 1 else ""
        raise JournalUnreadable(f"{ranges[0].file.path} is {ranges[0].refused}{more}")
    return ranges


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
    total = sum(piece.end - piece.start for piece in ranges)
    share = max(least, -(-total // max(number, 1)))
    shares: list[list[Range]] = [[]]
    room = share
    for range_ in ranges:
        start = range_.start
        while not range_.refused and range_.end - start > room and len(shares) < number:
            if room > share // 8:  # no crumbs
                shares[-1].append(replace(range_, start=start, end=start + room))
                start += room
            shares.append([])
            room = share
        shares[-1].append(replace(range_, start=start))
        room = max(0, room - (range_.end - start))
    return shares


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
