"""Lines of a tool's output as pasted into a ticket, without the text that a shell, a container or Markdown puts around them.

    for line in read_lines(text):
        line.number, line.text, line.cells, line.is_command

Rules:
1. A Markdown table's row becomes its cells; its rule (`|---|---|`), code fences and the `> ` of a quotation are left out.
2. A line that holds a shell command, with what a backslash continues, is marked. Whether such a line is one is the reader's
   last question, not its first: a group may be called `docker`, and its row is a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOOL = re.compile(r"kafka-(?:consumer|share|streams)-groups|\b(?:rpk|kcl)\s+group\s")

_FENCE = re.compile(r"\s*(```|~~~)")
_QUOTED = re.compile(r"^(\s*> ?)+")
_RULE = re.compile(r"\s*[|+][\s|+:=-]*")
_PROMPT = re.compile(
    r"""
    [\w.-]+@[\w.-]+[^\s$\#%>]*(\s[^\s$\#%>]+)?\s?[$\#%>](\s|$)   # root@kafka-0:/# and user@host kafka %
    | \[[^\]]*@[^\]]*\]\s?[$\#%>](\s|$)                     # [app@broker ~]$
    | (PS\s)?[A-Za-z]:\\[^>]*>                              # C:\kafka> and PowerShell's
    | (bash|sh|zsh|ash|I\shave\sno\sname!)?(-[\d.]+)?[$\#%❯➜](\s|$)
    """,
    re.VERBOSE,
)
_COMMAND = re.compile(
    r"(sudo\s+)?(\S*/)?(kubectl|docker|docker-compose|podman|oc|nerdctl|ssh|cd|export|source|time|watch|bash|sh)\s"
)
_BESIDE = re.compile(
    r"""
    SLF4J | log4j | OpenJDK\s | Java\sHotSpot | WARNING:\s | Picked\sup\s | \[\d{4}- | \d{4}-\d\d- | Note:\s
    | Defaulted\scontainer\s | Defaulting\scontainer\s | If\syou\sdon't\ssee\sa\scommand\sprompt | Unable\sto\suse\sa\sTTY
    | command\sterminated\swith\sexit\scode | (pod|service)\s.*\s(deleted|created)$ | All\scommands\sand\soutput\sfrom\sthis\ssession
    """,
    re.VERBOSE,
)
_GROUP = re.compile(r"--group[ =]+(?P<quote>['\"]?)(?P<group>[^\s'\"]+)(?P=quote)")
_NAMED = re.compile(r"\b(?:rpk|kcl) group (?:describe|d) (?:-\S+ )*(?P<group>[^\s'\"-][^\s'\"]*)(?: -\S+)*$")


@dataclass(frozen=True)
class PastedLine:
    """One line of the text: ``number`` from 1 on, ``text`` with tabs as blanks and nothing at its end."""

    number: int
    text: str
    cells: tuple[str, ...] | None = None
    """Cells of a Markdown table's row, else None; ``text`` has them with two blanks between."""
    is_command: bool = False
    """Whether it reads like a shell's, a container's or a logger's line."""
    had_tabs: bool = False

    @property
    def words(self) -> list[str]:
        """The parts of the line between blanks."""
        return self.text.split()

    @property
    def group(self) -> str | None:
        """The group that a command names with ``--group``, or rpk's and kcl's with its only argument; None for other lines."""
        match = _GROUP.search(self.text) or _NAMED.search(self.text) if self.is_command else None
        return None if match is None else match["group"]


def read_lines(text: str) -> Iterator[PastedLine]:
    """Every line that may say something, blank ones too (they end a wrapped row)."""
    continued = False
    for number, raw in enumerate(text.splitlines(), start=1):
        if _FENCE.match(raw) or (_RULE.fullmatch(raw) and "-" in raw):
            continue
        line = _line(number, raw, continued)
        continued = line.is_command and line.text.endswith("\\")
        yield line


def _line(number: int, raw: str, continued: bool) -> PastedLine:
    text = _QUOTED.sub("", raw.replace("\t", " ").rstrip())
    cells = _cells(text)
    if cells is not None:
        return PastedLine(number, "  ".join(cells), cells)
    bare = text.lstrip()
    is_command = (
        continued
        or _TOOL.search(text) is not None
        or any(pattern.match(bare) is not None for pattern in (_PROMPT, _COMMAND, _BESIDE))
    )
    return PastedLine(number, text, None, is_command, "\t" in raw)


def _cells(text: str) -> tuple[str, ...] | None:
    bare = text.strip()
    if not bare.startswith("|") or not bare.endswith("|") or bare.count("|") < 3:
        return None
    return tuple(cell.strip().strip("`*") for cell in bare[1:-1].split("|"))
