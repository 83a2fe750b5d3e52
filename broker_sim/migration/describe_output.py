"""The tables that `kafka-consumer-groups --describe` prints, read as rows: those of 3.4 and of 4.x, in any number and order; also those
of `rpk group describe`, `kcl group describe`, and the offsets of `kafka-streams-groups --describe --verbose`.

    for row in read_rows(text):
        row.kind, row.number, row["GROUP"], row.get("CURRENT-OFFSET")

Rules:
1. A column begins at the position of its name in the header; a value wider than its column shifts the rest of the line to the right,
   as Java's formatter does. If a ticket or a chat has collapsed the blanks, the words are counted instead.
2. What a terminal has wrapped is joined again. All lines of a table were cut at one width, so the pieces of a header and of a
   row, each filled up to the longest line, have their columns at the same places again.
3. `-` and nothing stand for a missing value: None.
4. What precedes the first table is passed over, and so is a shell's or a logger's line behind it. Any other line that is
   neither a row nor a header is a UsageError with its number: a damaged row must not be lost in silence.
5. A table of another tool that lacks what an import needs is a UsageError that names the tool (`other_tools`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TypeGuard

from broker_sim.common.text import UsageError, unknown
from broker_sim.migration.other_tools import NAMES, PER_TOPIC, is_of_streams, refused_message, refused_table, summary
from broker_sim.migration.pasted_text import PastedLine, read_lines

OFFSETS = "offsets"
MEMBERS = "members"
STATE = "state"
SAYS = "says"
"""Kind of rows with messages of the tool about a group beside the tables: columns GROUP and SAYS."""

_COORDINATOR = "COORDINATOR (ID)"

COLUMNS: dict[str, tuple[str, ...]] = {
    OFFSETS: (
        "GROUP",
        "TOPIC",
        "PARTITION",
        "LEADER-EPOCH",
        "CURRENT-OFFSET",
        "LOG-END-OFFSET",
        "LAG",
        "CONSUMER-ID",
        "HOST",
        "CLIENT-ID",
        "LOG-START-OFFSET",
        "GROUP-INSTANCE-ID",
        "ERROR",
    ),
    MEMBERS: (
        "GROUP",
        "CONSUMER-ID",
        "GROUP-INSTANCE-ID",
        "HOST",
        "CLIENT-ID",
        "#PARTITIONS",
        "ASSIGNMENT",
        "CURRENT-EPOCH",
        "CURRENT-ASSIGNMENT",
        "TARGET-EPOCH",
        "TARGET-ASSIGNMENT",
        "UPGRADED",
        "MEMBER-EPOCH",
        "SUBSCRIBED-TOPICS",
    ),
    STATE: (
        "GROUP",
        _COORDINATOR,
        "ASSIGNMENT-STRATEGY",
        "STATE",
        "GROUP-EPOCH",
        "TARGET-ASSIGNMENT-EPOCH",
        "#MEMBERS",
    ),
}
"""Kind of table -> the columns that it may have; the one that identifies it is in `_TELLING`."""

_NAMES = frozenset(name for columns in COLUMNS.values() for name in columns) | NAMES.keys()
_TELLING = {"CURRENT-OFFSET": OFFSETS, "#PARTITIONS": MEMBERS, "#MEMBERS": STATE}
_SECOND = ("TOPIC", "PARTITION", "CONSUMER-ID", "STATE", "COORDINATOR", "MEMBER", "ASSIGNMENT")
_NAME = re.compile(r"COORDINATOR \(ID\)|\S+")
_GROUP_MESSAGE = re.compile(
    r"(?:Error: |Warning: )?Consumer group '(?P<group>.*)' (?P<says>has no active members|is rebalancing|does not exist)\."
)
_NUMBER = re.compile(r"-?[0-9]*")
_ASSIGNED = re.compile(r"-?|([^\s(:]+[(:][0-9,]*\)?[,;]?\s*)+")
_SHAPES = {
    **dict.fromkeys(("PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "#PARTITIONS", "#MEMBERS"), _NUMBER),
    "LOG-START-OFFSET": _NUMBER,
    "MEMBER-EPOCH": _NUMBER,
    **dict.fromkeys(
        ("LEADER-EPOCH", "GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH", "CURRENT-EPOCH", "TARGET-EPOCH"), _NUMBER
    ),
    **dict.fromkeys(("ASSIGNMENT", "CURRENT-ASSIGNMENT", "TARGET-ASSIGNMENT"), _ASSIGNED),
}
_MOST_LINES = 6
"""Lines of one row, at most: 150 characters in a window of 30."""


@dataclass
class DescribedRow:
    """One line of a table: its values by column."""

    kind: str
    number: int
    """Number of the line, from 1 on."""
    values: dict[str, str | None] = field(default_factory=dict)
    of_streams: bool = False
    """Whether the table is one of kafka-streams-groups."""

    def get(self, column: str) -> str | None:
        """The value; None for ``-``, for nothing and where the table has no such column."""
        return self.values.get(column)

    def need(self, column: str) -> str:
        """The value of a column. Raises UsageError, with the line, if it is missing or ``-``."""
        value = self.values.get(column)
        if value is None:
            raise self.error(f"no {column}")
        return value

    def integer(self, column: str, least: int, most: int) -> int | None:
        """The value of a column as a number, None if it is missing or ``-``. Raises UsageError unless it is from ``least`` to
        ``most``."""
        value = self.values.get(column)
        if value is None:
            return None
        if not re.fullmatch(r"-?[0-9]{1,19}", value) or not least <= int(value) <= most:
            raise self.error(f"{column} is {value!r}, which is not a number from {least} to {most}")
        return int(value)

    def error(self, why: str) -> UsageError:
        """An error that names the line."""
        return UsageError(f"line {self.number}: {why}")


@dataclass
class _Table:
    kind: str
    names: list[str]
    starts: list[int]
    squeezed: bool
    width: int
    """Width of the table's longest line: the column at which a terminal has cut it, if one has."""
    is_wrapped: bool
    """Whether the header was cut, so that every row was."""
    group: str | None = None
    """Group of a table without the column GROUP: that of the command that printed it, or of the lines above it."""
    of_streams: bool = False

    def cells(self, line: PastedLine) -> list[str] | None:
        """The line's cells, a column each; None where it can't be a row of this table."""
        if line.cells is not None:
            return list(line.cells) if len(line.cells) == len(self.names) else None
        cells = _counted(self, line.text) if self.squeezed else _cut(self, line.text)
        if cells is not None and any("  " in cell for cell in cells[:-1]):  # the places are not those of the names
            cells = _counted(self, line.text)
        return cells

    def fits(self, cells: list[str] | None) -> TypeGuard[list[str]]:
        """Whether they begin with a name and have numbers, or nothing, where numbers belong."""
        return (
            cells is not None
            and bool(cells[0])
            and all(_SHAPES[name].fullmatch(cells[at]) for at, name in enumerate(self.names) if name in _SHAPES)
        )

    def filled(self, cells: list[str]) -> tuple[int, int]:
        """Number of cells that have a value, and number of those whose column has a shape of its own."""
        return sum(map(bool, cells)), sum(bool(cells[at]) for at, name in enumerate(self.names) if name in _SHAPES)

    @property
    def ends_free(self) -> bool:
        """Whether the last column has values of any length, which wrap where the header does not."""
        return _SHAPES.get(self.names[-1]) is _ASSIGNED

    def is_row(self, line: PastedLine) -> bool:
        """Whether a line that reads like a command is a row all the same: it has numbers where numbers belong."""
        cells = self.cells(line)
        return self.fits(cells) and self.filled(cells)[1] > 0

    def is_whole(self, line: PastedLine) -> bool:
        """Whether the line is a row by itself, with a value for each column."""
        cells = self.cells(line)
        return self.fits(cells) and all(cells)

    def row(self, number: int, cells: list[str]) -> DescribedRow:
        """The row that these cells are."""
        values = {name: None if cell in ("", "-") else cell for name, cell in zip(self.names, cells, strict=True)}
        values = values if self.group is None else {"GROUP": self.group, **values}
        return DescribedRow(self.kind, number, values, self.of_streams)


def read_rows(text: str) -> Iterator[DescribedRow]:
    """Every row of every table, and what is said of groups. Raises UsageError."""
    lines = list(read_lines(text))
    table: _Table | None = None
    group: str | None = None
    before: PastedLine | None = None  # what stands where a table was expected
    at = 0
    while at < len(lines):
        line, taken = lines[at], 1
        said, said_lines = _group_message(lines, at)
        if said is not None:
            taken = said_lines
            yield DescribedRow(SAYS, line.number, {"GROUP": said["group"], "SAYS": said["says"]})
        elif not line.words:
            pass
        elif line.words[0] == "GROUP" and (described := summary(lines[at:])) is not None:
            table, group, taken = None, described.group, described.lines
            kind, values = described.says or (STATE, described.values)
            yield DescribedRow(kind, line.number, values)
        elif _is_header(line.words):
            table, taken = _header(lines, at, group)
        elif table is not None and (not line.is_command or table.is_row(line)):
            row, taken = _row(table, lines, at)
            yield row
        elif line.is_command:
            group = line.group or group
        elif before is None or line.words[0] == "Error:":
            before = line
        at += taken
    if table is None and before is not None:
        raise _without_table(before)


def _without_table(line: PastedLine) -> UsageError:
    refused = refused_message(line.text)
    if refused is not None:
        return UsageError(f"line {line.number}: {refused}")
    if line.words[0] == "Error:":
        return UsageError(f"line {line.number}: it is an error of the tool: {_shown(line.text)}")
    return UsageError(
        f"line {line.number}: {_shown(line.text)} without a table after it; expected what kafka-consumer-groups --describe "
        "prints, from the line GROUP TOPIC PARTITION ... on"
    )


def has_table(text: str) -> bool:
    """Whether a line of it is a table's header: what decides between a table and JSON, both may begin with a bracket."""
    return any(_is_header(line.words) for line in read_lines(text) if line.words)


def _shown(line: str) -> str:
    line = line.strip()
    return repr(line if len(line) <= 60 else line[:57] + "...")


def _is_header(words: list[str]) -> bool:
    return words == PER_TOPIC or (
        words[0] in ("GROUP", "TOPIC", "CONSUMER-ID", "MEMBER-ID")
        and any(word in words[1:] for word in (*_SECOND, *_TELLING))
    )


def _group_message(lines: list[PastedLine], at: int) -> tuple[re.Match[str] | None, int]:
    """Message of the tool about a group in this line, None without one, and the number of its lines."""
    text = lines[at].text.strip()
    match = _GROUP_MESSAGE.fullmatch(text)
    if match is None and "Consumer group '" in text and at + 1 < len(lines):
        following = lines[at + 1].text
        return _GROUP_MESSAGE.fullmatch(text + following) or _GROUP_MESSAGE.fullmatch(f"{text} {following}"), 2
    return match, 1


def _header(lines: list[PastedLine], at: int, group: str | None) -> tuple[_Table, int]:
    """The table whose header begins there, and the number of the header's lines. Raises UsageError."""
    line, number = lines[at], lines[at].number
    text, taken, width = _whole_header(lines, at, _width(lines, at))
    columns = [(match[0], match.start()) for match in _NAME.finditer(text)]
    if line.cells is not None:
        columns = [(cell, 0) for cell in line.cells]
    printed = [name for name, _ in columns]
    refused = refused_table(printed, [line.text for line in lines[at + 1 : at + 3]])
    if refused is not None:
        raise UsageError(f"line {number}: {refused}")
    names = [NAMES.get(name, name) for name in printed]
    kind = next((kind for name, kind in _TELLING.items() if name in names), None)
    if kind is None and printed[0] == "MEMBER-ID":
        kind = MEMBERS
    if kind is None:
        expected = " or ".join(_TELLING)
        raise UsageError(f"line {number}: a table without {expected}: the columns of --offsets, --members or --state")
    if names[0] != "GROUP" and group is None:
        raise UsageError(
            f"line {number}: a table without the column GROUP (Kafka before 2.4 printed none; rpk and kcl name the group above "
            "the table), and no command with --group before it; put such a command, or a line `GROUP NAME`, before the table"
        )
    for name in names:
        if name not in COLUMNS[kind]:
            raise UsageError(f"line {number}: {unknown(f'column of --{kind}', name, COLUMNS[kind])}")
    starts = [start for _, start in columns]
    ends = [start + len(name) for name, start in columns]
    own = None if names[0] == "GROUP" else group
    squeezed = line.had_tabs or all(start == end + 1 for start, end in zip(starts[1:], ends, strict=False))
    return _Table(kind, names, starts, squeezed, width, taken > 1, own, is_of_streams(printed)), taken


def _width(lines: list[PastedLine], at: int) -> int:
    """Width of the longest line of the table whose header begins in this line."""
    width = len(lines[at].text)
    for line in lines[at + 1 :]:
        if line.is_command or (line.words and line.words[0] == "GROUP"):
            break
        width = max(width, len(line.text))
    return width


def _whole_header(lines: list[PastedLine], at: int, width: int) -> tuple[str, int, int]:
    """The header that begins there with what a terminal has wrapped of it, the number of its lines, and the lines' width.

    Where the longest line ends with a name, the window was one wider: the blank behind the name was its last column.
    """
    pieces = [lines[at].text]
    for following in lines[at + 1 : at + _MOST_LINES]:
        if not following.words or following.words[0] == "GROUP":
            break
        pieces.append(following.text)
    for taken in range(len(pieces), 1, -1):
        for wide in (width, width + 1):
            text = _refilled(pieces[:taken], wide)
            if _all_named(text):
                return text, taken, wide
        text = " ".join(piece.strip() for piece in pieces[:taken])  # a chat has squeezed the blanks
        if _all_named(text):
            return " ".join(text.split()), taken, width
    return pieces[0], 1, width


def _all_named(header: str) -> bool:
    """Whether every word is a column's name."""
    return all(name in _NAMES for name in _NAME.findall(header))


def _row(table: _Table, lines: list[PastedLine], at: int) -> tuple[DescribedRow, int]:
    """The row that begins there, and the number of its lines. Raises UsageError."""
    line = lines[at]
    pieces = _pieces(table, lines, at)
    if table.is_wrapped or table.ends_free or not table.is_whole(line):
        for taken in range(len(pieces), 1, -1):
            cells = _joined(table, pieces[:taken])
            if cells is not None:
                return table.row(line.number, cells), taken
    cells = table.cells(line)
    if cells is None:
        raise UsageError(
            f"line {line.number}: {_shown(line.text)} has {len(line.words)} values where {len(table.names)} columns are "
            "expected: " + " ".join(table.names)
        )
    return table.row(line.number, cells), 1


def _pieces(table: _Table, lines: list[PastedLine], at: int) -> list[PastedLine]:
    """The line with those behind it that may be the rest of its row: no row by itself, and nothing else either."""
    pieces = [lines[at]]
    for place in range(at + 1, min(at + _MOST_LINES, len(lines))):
        line = lines[place]
        if not line.words or line.is_command or line.cells is not None or _is_header(line.words):
            break
        if table.is_whole(line) or _group_message(lines, place)[0] is not None:
            break
        pieces.append(line)
    return pieces


def _joined(table: _Table, pieces: list[PastedLine]) -> list[str] | None:
    """The cells of the row that was cut into these pieces; None where they are no row, or more than one.

    A piece of the next row would stand behind a gap in the last cell. Where the longest line ends with a value, the window may
    have been one wider than it: of both widths the one is right that leaves fewer cells empty.
    """
    texts = [piece.text for piece in pieces]
    cuts = []
    for width in () if table.squeezed else (table.width, table.width + 1):
        starts = [start + start // table.width * (width - table.width) for start in table.starts]
        cuts.append(_cut(replace(table, starts=starts), _refilled(texts, width)))
    spaced = " ".join(text.strip() for text in texts)
    for ways in (cuts, [_counted(table, _refilled(texts, table.width)), _counted(table, spaced)]):
        rows: list[list[str]] = [
            cells for cells in ways if table.fits(cells) and not any("  " in cell for cell in cells)
        ]
        rows = [cells for cells in rows if table.is_wrapped or table.ends_free or all(cells)]
        if rows:
            return max(rows, key=table.filled)
    return None


def _refilled(pieces: list[str], width: int) -> str:
    """The line that a window of that width has cut into these pieces, without the blanks at their ends."""
    return "".join(piece.ljust(width) for piece in pieces[:-1]) + pieces[-1]


def _cut(table: _Table, line: str) -> list[str] | None:
    """The cells by the places of their names (rule 1); None where the line ends before its third column."""
    cells: list[str] = []
    at = table.starts[0]
    if line[:at].strip():
        return None
    for start, following in zip(table.starts, [*table.starts[1:], None], strict=True):
        if following is None:
            cells.append(line[at:].strip())
            break
        end = at + following - start
        if end <= len(line) and line[end - 1] != " ":  # too wide: it ends at the next blank
            blank = line.find(" ", end)
            end = len(line) if blank < 0 else blank + 1
        cells.append(line[at:end].strip())
        at = end
    return cells if sum(map(bool, cells)) >= 3 else None


def _counted(table: _Table, line: str) -> list[str] | None:
    """The cells by counting words, for a table without its blanks; None where the number of words is wrong."""
    words = line.split()
    if _COORDINATOR in table.names:
        at = table.names.index(_COORDINATOR)
        if len(words) > at + 1 and words[at + 1].startswith("("):
            words[at : at + 2] = [" ".join(words[at : at + 2])]
    if table.names[-1] == "ASSIGNMENT" and len(words) > len(table.names):
        last = len(table.names) - 1
        words[last:] = [" ".join(words[last:])]
    return words if len(words) == len(table.names) else None
