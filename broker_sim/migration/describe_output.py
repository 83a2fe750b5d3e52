"""The tables that `kafka-consumer-groups --describe` prints, read as rows: those of 3.4 and of 4.x, in any number and order.

    for row in read_rows(text):
        row.kind, row.number, row["GROUP"], row.get("CURRENT-OFFSET")

Rules:
1. A column begins where its name stands in the header, a value that is too wide for its column pushes the rest to the right
   by what it is too wide, as Java's formatter does. Where a ticket or a chat has squeezed the blanks, words are counted.
2. `-` and nothing stand for what isn't there: None.
3. A line that is neither a row, a header, nor something that the tool or a shell says beside them is a UsageError with its number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from broker_sim.common.text import UsageError, unknown

OFFSETS = "offsets"
MEMBERS = "members"
STATE = "state"
SAYS = "says"
"""What the tool says of a group beside the tables: columns GROUP and SAYS."""

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
"""Kind of table -> the columns that it may have; the one that tells it is in `_TELLING`."""

_TELLING = {"CURRENT-OFFSET": OFFSETS, "#PARTITIONS": MEMBERS, "#MEMBERS": STATE}
_NAME = re.compile(r"COORDINATOR \(ID\)|\S+")
_SAYS = re.compile(
    r"(?:Error: |Warning: )?Consumer group '(?P<group>.*)' (?P<says>has no active members|is rebalancing|does not exist)\."
)
_BESIDE = re.compile(
    r"\$ |> |# |SLF4J|log4j|OpenJDK |Java HotSpot|WARNING: |Picked up |\[\d{4}-|\d{4}-\d\d-|\S*kafka-consumer-groups(\.sh|\.bat)? |```"
)
"""How lines begin that a shell, a JVM or a logger adds."""


@dataclass
class Row:
    """One line of a table: its values by column."""

    kind: str
    number: int
    """Of the line, from 1 on."""
    values: dict[str, str | None] = field(default_factory=dict)

    def get(self, column: str) -> str | None:
        """The value; None for ``-``, for nothing and where the table has no such column."""
        return self.values.get(column)

    def need(self, column: str) -> str:
        """The value. Raises UsageError where there is none."""
        value = self.values.get(column)
        if value is None:
            raise self.error(f"no {column}")
        return value

    def integer(self, column: str, least: int, most: int) -> int | None:
        """The value as a number, None where there is none. Raises UsageError."""
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


def read_rows(text: str) -> Iterator[Row]:
    """Every row of every table, and what is said of groups. Raises UsageError."""
    table: _Table | None = None
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.replace("\t", " ").rstrip()
        words = line.split()
        said = _SAYS.fullmatch(line.strip())
        if not words or _BESIDE.match(line.lstrip()):
            continue
        if said is not None:
            yield Row(SAYS, number, {"GROUP": said["group"], "SAYS": said["says"]})
        elif words[0] == "Error:":
            raise UsageError(f"line {number}: the tool has failed there: {_shown(line)}")
        elif _is_header(words):
            table = _header(line, number)
            table.squeezed = table.squeezed or "\t" in raw
        elif table is None:
            raise UsageError(
                f"line {number}: {_shown(line)} stands before any table; expected what kafka-consumer-groups --describe "
                "prints, from the line GROUP TOPIC PARTITION ... on"
            )
        else:
            yield _row(table, line, number)


def _shown(line: str) -> str:
    line = line.strip()
    return repr(line if len(line) <= 60 else line[:57] + "...")


def _is_header(words: list[str]) -> bool:
    return words[0] in ("GROUP", "TOPIC", "CONSUMER-ID") and any(
        word in words for word in ("PARTITION", "CONSUMER-ID", "STATE", *_TELLING)
    )


def _header(line: str, number: int) -> _Table:
    found = [(match[0], match.start()) for match in _NAME.finditer(line)]
    names = [name for name, _ in found]
    kind = next((kind for name, kind in _TELLING.items() if name in names), None)
    if kind is None:
        expected = " or ".join(_TELLING)
        raise UsageError(f"line {number}: a table without {expected}: the columns of --offsets, --members or --state")
    if names[0] != "GROUP":
        raise UsageError(
            f"line {number}: a table without the column GROUP (Kafka before 2.4 printed none); put it in front"
        )
    for name in names:
        if name not in COLUMNS[kind]:
            raise UsageError(f"line {number}: {unknown(f'column of --{kind}', name, COLUMNS[kind])}")
    starts = [start for _, start in found]
    ends = [start + len(name) for name, start in found]
    squeezed = all(start == end + 1 for start, end in zip(starts[1:], ends, strict=False))
    return _Table(kind, names, starts, squeezed)


def _row(table: _Table, line: str, number: int) -> Row:
    cells = _counted(table, line) if table.squeezed else _cut(table, line)
    if cells is not None and any("  " in cell for cell in cells[:-1]):  # the places are not those of the names
        cells = _counted(table, line)
    if cells is None:
        raise UsageError(
            f"line {number}: {_shown(line)} has {len(line.split())} values where {len(table.names)} columns are expected: "
            + " ".join(table.names)
        )
    values = {name: None if cell in ("", "-") else cell for name, cell in zip(table.names, cells, strict=True)}
    return Row(table.kind, number, values)


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
    """The cells by counting words, for a table whose blanks are gone; None where the number of words is wrong."""
    words = line.split()
    if _COORDINATOR in table.names:
        at = table.names.index(_COORDINATOR)
        if len(words) > at + 1 and words[at + 1].startswith("("):
            words[at : at + 2] = [" ".join(words[at : at + 2])]
    if table.names[-1] == "ASSIGNMENT" and len(words) > len(table.names):
        last = len(table.names) - 1
        words[last:] = [" ".join(words[last:])]
    return words if len(words) == len(table.names) else None
