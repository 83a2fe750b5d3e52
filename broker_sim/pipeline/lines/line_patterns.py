"""Patterns of the lines of a log: the name of a kind, words that such a line must have, and the columns that are taken from it.

Rules:
1. A pattern is matched against a line without its timestamp. It takes its first match; the order of a list decides.
2. Groups of a pattern are columns of the table `log_lines`. What a column is in one kind of line it is in all.
3. Ids are anybody's: a group's id may have blanks. So a pattern names the words behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

__all__ = ["LinePattern", "LinePatterns", "form"]

NUMBERS = frozenset({"generation", "partition", "epoch", "number", "offset", "node"})


@dataclass(frozen=True, slots=True)
class LinePattern:
    """Pattern of a kind of line. ``what``: the kind; ``words``: all of them are in the line."""

    what: str
    words: tuple[str, ...]
    pattern: re.Pattern[str]


def form(what: str, pattern: str, *words: str) -> LinePattern:
    """``words``: as literal as they stand in the line."""
    return LinePattern(what, words, re.compile(pattern))


class LinePatterns:
    """Several, tried in order. One search for any of their words spares the rest for the lines that say nothing of interest."""

    def __init__(self, forms: Iterable[LinePattern]) -> None:
        self.forms = tuple(forms)
        self._any = re.compile("|".join(sorted({re.escape(form.words[0]) for form in self.forms}, reverse=True)))

    def may_match(self, line: str) -> bool:
        """Whether it is worth a closer look."""
        return self._any.search(line) is not None

    def match(self, words: str) -> tuple[str, Mapping[str, str | int | None]] | None:
        """(kind, columns), None for a line of no kind that is known."""
        for form in self.forms:
            if all(word in words for word in form.words):
                match = form.pattern.search(words)
                if match is not None:
                    # `detail2` is `detail` in another place of the same line
                    return form.what, {
                        name.rstrip("2"): _value(name, text)
                        for name, text in match.groupdict().items()
                        if text is not None
                    }
        return None


def _value(name: str, text: str | None) -> str | int | None:
    if text is None or name not in NUMBERS:
        return text
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
