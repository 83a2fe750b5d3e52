"""Files of log lines, and the rows of one.

    for row in rows_of(LineFile("server.log", "broker")): ...

Rules:
1. A file that was named and can't be read, is not text, or has no line of a log's layout is reported. In a folder those
   with names of logs are taken (`server.log`, `server.log.2026-03-29-10`, `x.log.gz`, `kafka.out`), and such as say nothing of groups
   are no matter; Kafka's segments, called `.log` too, are passed over. An empty file has been read.
2. A line that says nothing known is no row. One that says something and has no moment has none in its row.
3. A line that is a JSON object is read as the moment, level and message in it; of kafkajs also whose line it is.
4. Bytes that are no UTF-8 are replaced; a line is cut at 64 KiB.
"""

from __future__ import annotations

import gzip
import io
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from broker_sim.common.text import UsageError, first_words
from broker_sim.pipeline.files import Source, entry, expand, inside, listing
from broker_sim.pipeline.lines import broker_lines, client_lines
from broker_sim.pipeline.lines.line_patterns import LinePatterns
from broker_sim.pipeline.lines.stamps import Stamp, stamp

__all__ = ["LineFile", "find", "rows_of"]

_NAMED = re.compile(r".*\.(?:log|out|err|txt)(?:[.-][\w.:-]*)?(?:\.gz)?$")
_LONGEST = 1 << 16
_TEXT = 400
_BLOCK = 1 << 20
_ASIDE = ("instance",)
_ISR_MIN = re.compile(r"insufficient to satisfy the min\.isr requirement of (\d+) for partition (\S+?),? ?")
_TRACE = re.compile(r"^\s*(?:Caused by: )?([\w.$]+(?:Exception|Error)): ?(.*)")
_MEMBER_ID = re.compile(r".+-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NODE = re.compile(broker_lines.NODE)
_PLACE = re.compile(broker_lines.PLACE)
_CLIENTS = tuple(re.compile(pattern) for pattern in (client_lines.JAVA, client_lines.RDKAFKA, client_lines.KAFKAJS))


@dataclass(frozen=True, slots=True)
class LineFile:
    """``source``: ``broker`` or ``client``; ``named``: by its own name, and not as one of a folder."""

    path: str
    source: str
    size: int = 0
    named: bool = False


def find(names: Iterable[str], source: str) -> list[LineFile]:
    """The files of these names: files, folders with all that is below them, wildcards. Raises UsageError if none exists."""
    files: dict[str, LineFile] = {}
    for name in names:
        roots = [(file, there) for file in expand(name) if (there := entry(file)) is not None]
        if not roots:
            raise UsageError(f"--{source}-log {name}: there is no such file or folder")
        before = len(files)
        for path, there in roots:
            below = _below(path) if there.is_dir else [(path, there.size)]
            files |= {path: LineFile(path, source, size, not there.is_dir) for path, size in below}
        if len(files) == before:
            raise UsageError(
                f"--{source}-log {name}: no file of a log is in it (*.log, *.out, *.txt, also .gz or rolled)"
            )
    return list(files.values())


def _below(folder: str) -> Iterator[tuple[str, int]]:
    for child in listing(folder):
        path = inside(folder, child.name)
        if child.is_dir:
            yield from _below(path)
        elif _NAMED.fullmatch(child.name) and not _is_segment(child.name):
            yield path, child.size


def _is_segment(name: str) -> bool:
    return re.fullmatch(r"\d{20}\.(?:log|index|timeindex)", name) is not None


# ------------------------------------------------------------------------------------------------ lines


def rows_of(file: LineFile) -> Iterator[dict[str, Any]]:
    """Rows of `tables.log_lines` without run and moment for people; what can't be read is one of `what` ``unread``."""
    rows_read = 0
    try:
        rows = _broker_rows(file) if file.source == "broker" else _client_rows(file)
        for row in rows:
            rows_read += 1
            yield {"source": file.source, "file": file.path, **row}
    except (OSError, EOFError, UsageError, _NotText) as error:
        yield _unread(file, str(error) if isinstance(error, UsageError | _NotText) else f"it can't be read: {error}")
        return
    if not rows_read and file.named and file.size and not _is_log(file):
        yield _unread(file, "no line of it is a log line of a known layout")


_LAYOUT = re.compile(
    r"\[?(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL|SEVERE)(?:\] |:\s?\S)"
    r"|\[[^\]]+\] (?:TRACE|DEBUG|INFO|WARN|ERROR) [\w.$]+ - "
)
"""Layouts without a moment: Python's logging by default, franz-go's basic logger, slf4j-simple's."""
_LOOKED_AT = 1000
"""So many lines of a file show its layout."""


def _is_log(file: LineFile) -> bool:
    """Whether any line is one of a log, whatever it says."""
    lines = (line for _, line in islice(_lines(file), _LOOKED_AT))
    return any(stamp(line) is not None or _LAYOUT.match(line) is not None for line in lines)


def _unread(file: LineFile, why: str) -> dict[str, Any]:
    return {"source": file.source, "file": file.path, "line": 0, "what": "unread", "detail": why}


class _NotText(Exception):
    """The file is something else."""


class _Raw(io.RawIOBase):
    """A `Source` as a stream."""

    def __init__(self, source: Source) -> None:
        self.source, self.at = source, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.source.read(self.at, len(buffer))
        buffer[: len(data)] = data
        self.at += len(data)
        return len(data)


def _lines(file: LineFile) -> Iterator[tuple[int, str]]:
    """(number, line). Raises OSError, UsageError, _NotText."""
    with Source(file.path) as source:
        raw: Any = io.BufferedReader(_Raw(source), _BLOCK)
        if raw.peek(2)[:2] == b"\x1f\x8b":
            raw = gzip.GzipFile(fileobj=raw)
        number = 0
        while line := raw.readline(_LONGEST):
            number += 1
            if number == 1 and b"\0" in line[:512]:
                raise _NotText("it is no text")
            whole = line
            while len(whole) == _LONGEST and not whole.endswith(b"\n"):  # the rest of a line that is too long
                whole = raw.readline(_LONGEST)
            words = line.decode("utf-8", "replace").rstrip("\r\n")
            yield number, _plain(words) if words.startswith("{") else words


_TIMES = ("@timestamp", "timestamp", "ts", "time", "asctime")
_MESSAGES = ("message", "msg")
_BESIDE = ("addr", "err", "error", "exception", "stack_trace", "stacktrace")
"""Keys of JSON layouts (logstash, zap, slog, python-json-logger) that may say what the message does not."""


def _plain(line: str) -> str:
    """A line of a JSON layout as other layouts have it: moment, level, message; itself if it is none."""
    try:
        fields = json.loads(line)
    except ValueError:
        return line
    message = next((fields[name] for name in _MESSAGES if isinstance(fields.get(name), str)), None)
    if message is None:
        return line
    moment = next((fields[name] for name in _TIMES if isinstance(fields.get(name), str | int | float)), "")
    if isinstance(moment, int | float):  # seconds, as zap writes them, or ms
        moment = f"{moment / 1000 if moment >= 1e11 else moment:.3f}"
    level = str(fields.get("level") or fields.get("levelname") or "").upper()
    beside = [f"{name}={fields[name]}" for name in _BESIDE if isinstance(fields.get(name), str)]
    whose = _of_kafkajs(fields) if fields.get("logger") == "kafkajs" else ""
    return " ".join(word for word in (moment, level, whose, message.strip(), *beside) if word).replace("\n", " ")


_KAFKAJS = ("clientId", "groupId", "memberId", "broker", "topic", "partition")
"""Keys of kafkajs' lines, in the order of `client_lines.KAFKAJS`."""


def _of_kafkajs(fields: dict[str, Any]) -> str:
    """``[kafkajs clientId=app-1, groupId=billing]``. A member id is the client id, a hyphen and a UUID."""
    member = fields.get("memberId")
    if "clientId" not in fields and isinstance(member, str) and _MEMBER_ID.fullmatch(member):
        fields = {**fields, "clientId": member[:-37]}
    known = [f"{name}={fields[name]}" for name in _KAFKAJS if isinstance(fields.get(name), str | int)]
    return f"[kafkajs {', '.join(known)}]"


def _row(number: int, line: str, at: Stamp | None, what: str, columns: dict[str, Any]) -> dict[str, Any]:
    row = {
        "line": number,
        "ts_ms": None if at is None else at.ts_ms,
        "level": None if at is None else at.level,
        "what": what,
        "text": line[:_TEXT],
    }
    return row | {name: value for name, value in columns.items() if value is not None and name in _COLUMNS}


_COLUMNS = frozenset(
    [
        "node",
        "group",
        "generation",
        "member",
        "instance",
        "client_id",
        "address",
        "topic",
        "partition",
        "epoch",
        "offset",
        "number",
        "detail",
    ]
)


def _said(patterns: LinePatterns, line: str, at: Stamp | None) -> tuple[str, dict[str, Any]] | None:
    match = patterns.match(line[at.rest :] if at is not None else line)
    return None if match is None else (match[0], dict(match[1]))


def _broker_rows(file: LineFile) -> Iterator[dict[str, Any]]:
    """The reason of a refused append, or of a connection that was closed, is the next line, the exception: that row waits for it."""
    waiting: dict[str, Any] | None = None
    for number, line in _lines(file):
        known = broker_lines.BROKER.may_match(line)
        if waiting is not None:
            trace = _TRACE.match(line)
            if trace is not None:
                waiting["detail"] = first_words(f"{trace[1].rpartition('.')[2]}: {trace[2]}", _TEXT)
                least = _ISR_MIN.search(line)
                if least is not None:
                    waiting["number"] = int(least[1])
            yield waiting
            waiting = None
        if not known:
            continue
        at = stamp(line)
        match = _said(broker_lines.BROKER, line, at)
        if match is None:
            continue
        what, columns = match
        place, node = _PLACE.search(line), _NODE.search(line)
        if place is not None and columns.get("partition") is None:
            columns["topic"], columns["partition"] = place["topic"], int(place["partition"])
        if node is not None and columns.get("node") is None:
            columns["node"] = int(node["node"] or node["node2"])
        if columns.get("partition") is not None and columns.get("topic") is None:
            columns["topic"] = "__consumer_offsets"
        row = _row(number, line, at, what, columns)
        if what in ("refused", "invalid receive") and "detail" not in row:
            waiting = row
        else:
            yield row
    if waiting is not None:
        yield waiting


def _client_rows(file: LineFile) -> Iterator[dict[str, Any]]:
    """Rows of a client's file, yielded once the whole file is read: lines that show its group may come late (rule 3 of the table)."""
    rows = []
    groups: dict[str | None, dict[str, None]] = {}
    last: Stamp | None = None
    for number, line in _lines(file):
        if not client_lines.CLIENT.may_match(line):
            if "groupId=" in line or "group" in line:
                _noticed(line, groups)
            last = stamp(line) or last
            continue
        at = stamp(line) or last
        match = _said(client_lines.CLIENT, line, stamp(line))
        who = _noticed(line, groups)
        last = at
        if match is None:
            continue
        what, columns = match
        named = columns.get("group")
        if named is not None:
            groups.setdefault(who.get("client_id"), {})[named] = None
        rows.append(_row(number, line, at, what, {**who, **{k: v for k, v in columns.items() if v is not None}}))
    every = list(dict.fromkeys(group for known in groups.values() for group in known))
    clients = {row["client_id"] for row in rows if "client_id" in row}
    for row in rows:
        if "client_id" not in row and len(clients) == 1 and "[kafkajs " in row["text"]:
            row["client_id"] = next(iter(clients))
        if "group" not in row and row["what"] not in client_lines.OF_NO_GROUP:
            mine = list(groups.get(row.get("client_id"), ())) or every
            if len(mine) == 1:
                row["group"] = mine[0]
        yield row


_GROUP = re.compile(
    r"[Gg]roup \"(?P<group>[^\"]+)\"|[Jj]oined group '(?P<group2>[^']+)'|group\.id['\"]?[:=]\s*['\"]?(?P<group3>[^\s'\",]+)"
)


def _noticed(line: str, groups: dict[str | None, dict[str, None]]) -> dict[str, Any]:
    """Client, group and other names of the line's writer; its group is added to ``groups``."""
    who: dict[str, Any] = {}
    for pattern in _CLIENTS:
        match = pattern.search(line)
        if match is not None:
            who = {name: text for name, text in match.groupdict().items() if text}
            break
    if "group" not in who:
        group = _GROUP.search(line)
        if group is not None:
            who["group"] = group["group"] or group["group2"] or group["group3"]
    if "group" in who:
        groups.setdefault(who.get("client_id"), {})[who["group"]] = None
    return who
