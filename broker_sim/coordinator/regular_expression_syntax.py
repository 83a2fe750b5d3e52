"""The syntax of regular expressions as RE2 has it: a parser, whose errors are RE2J's.

What RE2J refuses (lookaround, backreferences, possessive quantifiers) is refused. Source: the syntax page of RE2, and the answers of
RE2J (com.google.re2j, in Kafka's jars).
"""

from __future__ import annotations

import string
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field

ALPHABET = frozenset(string.ascii_letters + string.digits + "._-")
"""The characters that a topic's name may contain."""

_MOST = 1000  # the largest count of a repetition
_DEEPEST = 100  # groups in groups: compiling takes some calls within calls for each
_PIECE = 2500  # characters that are parsed at once: some milliseconds
_LOOKED_AT = 16  # characters of an alphabet that are looked at in the time in which one of an expression is parsed
_COUNT_SIZE = 20  # characters of the longest ``{n,m}``


class PatternError(ValueError):
    """Syntax error: a text is no regular expression of RE2's; the message is RE2J's."""


_DIGITS, WORD = frozenset(string.digits), frozenset(string.ascii_letters + string.digits + "_")
_PERL = {"d": _DIGITS, "w": WORD, "s": frozenset("\t\n\f\r ")}
_POSIX = {
    "alnum": frozenset(string.ascii_letters + string.digits),
    "alpha": frozenset(string.ascii_letters),
    "ascii": frozenset(map(chr, range(128))),
    "blank": frozenset("\t "),
    "cntrl": frozenset(map(chr, (*range(32), 127))),
    "digit": _DIGITS,
    "graph": frozenset(map(chr, range(33, 127))),
    "lower": frozenset(string.ascii_lowercase),
    "print": frozenset(map(chr, range(32, 127))),
    "punct": frozenset(string.punctuation),
    "space": frozenset(string.whitespace),
    "upper": frozenset(string.ascii_uppercase),
    "word": WORD,
    "xdigit": frozenset(string.hexdigits),
}
_CATEGORIES = frozenset(
    """
    C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs
    """.split()  # noqa: SIM905
)
_SCRIPTS = frozenset(
    "Arabic Armenian Cyrillic Devanagari Georgian Greek Han Hangul Hebrew Hiragana Katakana Latin Thai".split()  # noqa: SIM905
)
"""The known scripts; a character's script follows from its name in Unicode, as Python's tables have no scripts."""
_NAMED = {"HAN": "CJK"}
_SPECIAL = frozenset("\\*+?{.^$")
_ESCAPED = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}

TEXT_START, TEXT_END, LINE_START, LINE_END, BOUNDARY, NO_BOUNDARY = range(6)
"""The assertions."""


class Alphabet:
    """All characters that a name can have. A set of them is an int, whose bit ``n`` is the ``n``-th character: a client's expression of
    32 KB may have ten thousand different sets, which as sets would take as many KB each."""

    def __init__(self, chars: Iterable[str]) -> None:
        self.chars = "".join(sorted(chars))
        self.places = {char: place for place, char in enumerate(self.chars)}
        """The bit of each character."""
        self.all = (1 << len(self.chars)) - 1

    def of(self, chars: Iterable[str]) -> int:
        """The set of those among ``chars`` that are in the alphabet."""
        result = 0
        for char in chars:
            place = self.places.get(char)
            if place is not None:
                result |= 1 << place
        return result

    def between(self, low: str, high: str) -> int:
        """The set of a range."""
        return (1 << bisect_right(self.chars, high)) - (1 << bisect_left(self.chars, low))

    def where(self, is_in: Callable[[str], bool], *, folded: bool) -> int:
        """The set of the characters for which ``is_in`` is true; ``folded``: or is true in their other case."""
        bits = (
            "01"[
                any(
                    is_in(variant)
                    for variant in ((char, char.lower(), char.upper()) if folded else (char,))
                    if len(variant) == 1
                )
            ]
            for char in reversed(self.chars)
        )
        return int("".join(bits) or "0", 2)


@dataclass(slots=True)
class Node:
    """A part of an expression. ``kind`` is chars, split (one of the parts matches), then (all of them), repeat, or assert. ``chars`` is
    a set of an `Alphabet`."""

    kind: str
    chars: int = 0
    parts: list[Node] = field(default_factory=list)
    low: int = 0
    high: int | None = None
    assertion: int = 0


@dataclass(slots=True)
class _Frame:
    """An open group: the flags that hold again behind it, its complete alternatives, and the parts of the present one."""

    flags: str
    alternatives: list[Node] = field(default_factory=list)
    parts: list[Node] = field(default_factory=list)

    def alternative(self) -> None:
        """End the present alternative, and begin the next one."""
        self.alternatives.append(Node("then", parts=self.parts))
        self.parts = []

    def node(self) -> Node:
        """The group as a whole."""
        self.alternative()
        return self.alternatives[0] if len(self.alternatives) == 1 else Node("split", parts=self.alternatives)


class Parser:
    """A parser with a stack of open groups, which looks for errors in RE2's order and raises the first one. (To be interrupted,
    recursive descent would need a generator for each group.)"""

    def __init__(self, text: str, alphabet: Alphabet) -> None:
        self.text, self.at = text, 0
        self.alphabet = alphabet
        self.flags = ""
        self.names: set[str] = set()
        self._looked_at = 0
        """Work on sets, counted as that many characters of the expression."""
        self._nodes: dict[tuple[int, int, int | None], Node] = {}
        self._sets: dict[tuple[str, ...], int] = {}

    def parsing(self) -> Generator[None, None, Node]:
        """The whole expression; yields where other requests may be served."""
        text, frame = self.text, _Frame("")
        outer: list[_Frame] = []
        piece_ends = _PIECE
        while self.at < len(text):
            if self.at + self._looked_at >= piece_ends:
                piece_ends = self.at + self._looked_at + _PIECE
                yield
            char = text[self.at]
            if char == "(":
                flags = self.flags
                self.at += 1
                if text.startswith("?", self.at) and not self._group_head():
                    if frame.parts:  # flags alone: a repetition behind them is that of the part before, as in RE2J
                        frame.parts.append(self.repeated(frame.parts.pop()))
                    continue
                outer.append(frame)
                frame = _Frame(flags)
                if len(outer) > _DEEPEST:
                    raise PatternError("expression nests too deeply")
            elif char == "|":
                self.at += 1
                frame.alternative()
            elif char == ")":
                if not outer:
                    raise PatternError("regexp/syntax: internal error")  # so RE2J calls a bracket that closes nothing
                self.at += 1
                self.flags, node = frame.flags, frame.node()
                frame = outer.pop()
                frame.parts.append(self.repeated(node))
            elif char == "[":
                node = self._chars((yield from self.character_class()))
                frame.parts.append(self.repeated(node))
            else:
                frame.parts.append(self.repeated(self.piece()))
        if outer:
            raise PatternError("missing closing )")
        return frame.node()

    def piece(self) -> Node:
        """A character, an escape or an assertion."""
        char = self.text[self.at]
        if char not in _SPECIAL:
            self.at += 1
            return self._literal_node(char)
        if char == "\\":
            return self.escape()
        if char in "*+?":
            raise PatternError(f"missing argument to repetition operator: `{self._operator()}`")
        if char == "{" and self._counts() is not None:
            raise PatternError(f"missing argument to repetition operator: `{self._operator()}`")
        self.at += 1
        if char == ".":
            return self._chars(self.alphabet.all if "s" in self.flags else self._without(self.alphabet.of("\n")))
        if char in "^$":
            ends = (LINE_START, LINE_END) if "m" in self.flags else (TEXT_START, TEXT_END)
            return Node("assert", assertion=ends[char == "$"])
        return self._literal_node(char)

    def _operator(self) -> str:
        end = self.text.find("}", self.at) if self.text[self.at] == "{" else self.at
        return self.text[self.at : end + 1]

    def _without(self, chars: int) -> int:
        return self.alphabet.all & ~chars

    def _chars(self, chars: int, low: int = 1, high: int | None = 1) -> Node:
        """A node of one of the characters, or of its repetition: one object for all that are equal, since there may be 16,000."""
        key = chars, low, high
        node = self._nodes.get(key)
        if node is None:
            if (low, high) == (1, 1):
                node = Node("chars", chars)
            else:
                node = Node("repeat", parts=[self._chars(chars)], low=low, high=high)
            self._nodes[key] = node
        return node

    def _literal_node(self, char: str) -> Node:
        return self._chars(self.alphabet.of((char.lower(), char.upper()) if "i" in self.flags else (char,)))

    def repeated(self, node: Node) -> Node:
        """``node`` with the repetitions that follow it."""
        after = -1
        while self.at < len(self.text):
            begin, char = self.at, self.text[self.at]
            if char in "*+?":
                low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}[char]
                self.at += 1
            elif char == "{" and (counts := self._counts()) is not None:
                low, high, self.at = counts
                if low > _MOST or (high is not None and (high > _MOST or high < low)):
                    raise PatternError(f"invalid repeat count: `{self.text[begin : self.at]}`")
            else:
                return node
            if self.text.startswith("?", self.at):
                self.at += 1  # as few as can be: for the whole name it is the same
            if after >= 0:
                raise PatternError(f"invalid nested repetition operator: `{self.text[after : self.at]}`")
            after = begin
            if node.kind == "chars":
                node = self._chars(node.chars, low, high)
            else:
                node = Node("repeat", parts=[node], low=low, high=high)
        return node

    def _counts(self) -> tuple[int, int | None, int] | None:
        """The counts of ``{n}``, ``{n,}`` or ``{n,m}`` here and where they end; None where the brace is itself."""
        if self.text[self.at + 1 : self.at + 2] not in _DIGITS:
            return None
        end = self.text.find("}", self.at, self.at + _COUNT_SIZE)
        first, comma, second = self.text[self.at + 1 : end].partition(",") if end >= 0 else ("", "", "")
        if not _is_number(first) or (second and not _is_number(second)):
            return None
        high = int(first) if not comma else int(second) if second else None
        return int(first), high, end + 1

    def _group_head(self) -> bool:
        """Parse the part after ``(?``. Returns whether it begins a group."""
        rest = self.text[self.at :]
        if rest.startswith(("?P<", "?<")):
            begin = 3 if rest.startswith("?P") else 2
            end = rest.find(">")
            if end < 0:
                raise PatternError("invalid named capture")
            name = rest[begin:end]
            if not name or not all(char in WORD for char in name):
                raise PatternError("invalid named capture")
            if name in self.names:
                raise PatternError("duplicate capture group name")
            self.names.add(name)
            self.at += end + 1
            return True
        on, at = True, 1
        flags = set(self.flags)
        has_flag = False
        while at < len(rest):
            char = rest[at]
            at += 1
            if char in "imsU":
                has_flag = True
                (flags.add if on else flags.discard)(char)
            elif char == "-" and on:
                on, has_flag = False, False
            elif char in ":)" and (on or has_flag):
                self.at += at
                self.flags = "".join(flags)
                return char == ":"
            else:
                break
        raise PatternError("invalid or unsupported Perl syntax")

    def escape(self) -> Node:
        if self.at + 1 >= len(self.text):
            raise PatternError("trailing backslash at end of expression")
        char = self.text[self.at + 1]
        if char == "Q":
            end = self.text.find("\\E", self.at + 2)
            literal = self.text[self.at + 2 : end if end >= 0 else None]
            self.at = end + 2 if end >= 0 else len(self.text)
            nodes = {char: self._literal_node(char) for char in set(literal)}
            return Node("then", parts=[nodes[char] for char in literal])
        assertion = {"A": TEXT_START, "z": TEXT_END, "b": BOUNDARY, "B": NO_BOUNDARY}.get(char)
        if assertion is not None:
            self.at += 2
            return Node("assert", assertion=assertion)
        chars = self._class_escape()
        return self._literal_node(self._character()) if chars is None else self._chars(chars)

    def _class_escape(self) -> int | None:
        r"""``\d`` and the like, ``\pL`` and the like."""
        char = self.text[self.at + 1] if self.at + 1 < len(self.text) else ""
        if char.lower() in _PERL and char:
            self.at += 2
            perl = self.alphabet.of(_PERL[char.lower()])
            return self._without(perl) if char.isupper() else perl
        if char not in ("p", "P"):
            return None
        begin = self.at
        self.at += 2
        name = self.text[self.at : self.at + 1]
        self.at += 1
        if name == "{":
            end = self.text.find("}", self.at)
            if end < 0:
                raise PatternError("invalid character class range")
            name, self.at = self.text[self.at : end], end + 1
        negated = char == "P"
        if name.startswith("^"):
            negated, name = not negated, name[1:]
        chars = self._unicode(name)
        if chars is None:
            raise PatternError(f"invalid character class range: `{self.text[begin : self.at]}`")
        return self._without(chars) if negated else chars

    def _unicode(self, name: str) -> int | None:
        """The characters of a category or of a script, with the flag i also those of the other case; None for an unknown name."""
        if name in _CATEGORIES:
            return self._where(("category", name), lambda char: unicodedata.category(char).startswith(name))
        if name == "Any":
            return self.alphabet.all
        if name == "Common" or name in _SCRIPTS:
            return self._where(("script", name), lambda char: _script(char) == name.replace("Common", ""))
        return None

    def _where(self, key: tuple[str, ...], is_in: Callable[[str], bool]) -> int:
        folded = "i" in self.flags
        key = (*key, "i" if folded else "")
        chars = self._sets.get(key)
        if chars is None:
            self._looked_at += len(self.alphabet.chars) // _LOOKED_AT
            chars = self._sets[key] = self.alphabet.where(is_in, folded=folded)
        return chars

    def _character(self) -> str:
        """The character that an escape denotes."""
        if self.at + 1 >= len(self.text):
            raise PatternError("trailing backslash at end of expression")
        begin, char = self.at, self.text[self.at + 1]
        self.at += 2
        if char in _ESCAPED:
            return _ESCAPED[char]
        if char == "x":
            digits = self.text[self.at : self.at + 2]
            if digits.startswith("{"):
                end = self.text.find("}", self.at)
                digits, self.at = self.text[self.at + 1 : end], end + 1
            else:
                self.at += 2
            is_hex = bool(digits) and all(digit in string.hexdigits for digit in digits)
            if is_hex and int(digits, 16) < 0x110000 and self.at <= len(self.text):
                return chr(int(digits, 16))
        elif char in "01234567" and (char == "0" or self.text[self.at : self.at + 1] in tuple("01234567")):
            while self.at - begin < 4 and self.text[self.at : self.at + 1] in tuple("01234567"):
                self.at += 1
            return chr(int(self.text[begin + 1 : self.at], 8))
        elif not char.isalnum() and char.isascii():
            return char
        raise PatternError(f"invalid escape sequence: `{self.text[begin : self.at]}`")

    def character_class(self) -> Generator[None, None, int]:
        """The characters of a class in brackets; yields where other requests may be served."""
        begin = self.at
        piece_ends = begin + self._looked_at + _PIECE
        self.at += 1
        negated = self.text.startswith("^", self.at)
        self.at += negated
        chars = 0
        first = True
        while first or not self.text.startswith("]", self.at):
            if self.at >= len(self.text):
                raise PatternError("missing closing ]")
            if self.at + self._looked_at >= piece_ends:
                piece_ends = self.at + self._looked_at + _PIECE
                yield
            first = False
            named = self._posix()
            if named is None and self.text[self.at] == "\\":
                named = self._class_escape()
            chars |= self._range(begin) if named is None else named
        self.at += 1
        return self._without(chars) if negated else chars

    def _posix(self) -> int | None:
        if not self.text.startswith("[:", self.at):
            return None
        end = self.text.find(":]", self.at + 2)
        if end < 0:
            return None
        whole = self.text[self.at : end + 2]
        name = whole[2:-2]
        negated = name.startswith("^")
        if name.removeprefix("^") not in _POSIX:
            raise PatternError(f"invalid character class range: `{whole}`")
        self.at = end + 2
        chars = self.alphabet.of(_POSIX[name.removeprefix("^")])
        return self._without(chars) if negated else chars

    def _range(self, begin: int) -> int:
        at, low = self.at, self._one(begin)
        high = low
        if self.text.startswith("-", self.at) and self.text[self.at + 1 : self.at + 2] not in ("", "]"):
            self.at += 1
            high = self._one(begin)
            if high < low:
                raise PatternError(f"invalid character class range: `{self.text[at : self.at]}`")
        if "i" in self.flags:
            return self._where(("range", low, high), lambda char: low <= char <= high)
        return self.alphabet.between(low, high)

    def _one(self, begin: int) -> str:
        if self.at >= len(self.text):
            raise PatternError("missing closing ]")
        if self.text[self.at] == "\\":
            return self._character()
        self.at += 1
        return self.text[self.at - 1]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and (text == "0" or text[0] != "0") and len(text) < 9


def _script(char: str) -> str:
    """The script of a letter; "" for letters of all scripts or of others."""
    if unicodedata.category(char)[0] not in "LM":
        return ""
    named = unicodedata.name(char, "")
    return next(
        (script for script in _SCRIPTS if named.startswith(_NAMED.get(script.upper(), script.upper()) + " ")), ""
    )
