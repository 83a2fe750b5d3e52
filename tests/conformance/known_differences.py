"""Where the simulator answers otherwise than the real broker: what, and why. docs/fidelity.md lists them."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Known:
    """In `case` (a regular expression over case names), on `generations`, lines that match `line` may differ."""

    case: str
    line: str
    reason: str
    generations: tuple[str, ...] = ("3.4", "4.1")


KNOWN: tuple[Known, ...] = ()


def explained(case: str, generation: str, line: str) -> Known | None:
    """The entry that explains this difference, if there is one."""
    for known in KNOWN:
        if generation in known.generations and re.fullmatch(known.case, case) and re.search(known.line, line):
            return known
    return None
