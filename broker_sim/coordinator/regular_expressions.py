r"""Regular expressions in RE2's syntax, matched against whole names, in time linear to the name.

    Pattern("orders-(eu|us)\\.[0-9]+").matches("orders-eu.7")        # raises PatternError with RE2J's message

Kafka's brokers use RE2J: what it refuses (lookaround, backreferences, possessive quantifiers) is refused here, and no pattern of a
client can block the broker, as with Python's ``re``. A character class is the set of its characters within an alphabet: that of topics
has letters, digits and ``._-``, that of transactional ids the characters of the present ids. A name with any other character matches
nothing.

Source: the syntax page of RE2, and the answers of RE2J (com.google.re2j, in Kafka's jars). Captures are not distinguished.
"""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from functools import lru_cache

ALPHABET = frozenset(string.ascii_letters + string.digits + "._-")
"""All that a topic's name can be made of."""

_MOST = 1000  # the largest count of a repetition
_LARGEST = 50_000  # states; RE2J has a limit of its own for what repetitions of repetitions make
_DEEPEST = 100  # groups in groups: each takes some calls within calls
_COUNT_SIZE = 20  # characters of the longest ``{n,m}``
_PIECE = 20_000  # states and characters of one piece: some milliseconds
_KEPT = 1_000_000  # states in the steps that an expression remembers: 64 MB


class PatternError(ValueError):
    """It is no regular expression of RE2's; the words are RE2J's."""


_DIGITS, _WORD = frozenset(string.digits), frozenset(string.ascii_letters + string.digits + "_")
_PERL = {"d": _DIGITS, "w": _WORD, "s": frozenset("\t\n\f\r ")}
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
    "word": _WORD,
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
_ESCAPED = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}

# the states of a machine: what each waits for, and its next states
_CHARS, _SPLIT, _START, _END, _LINE_START, _LINE_END, _BOUNDARY, _INSIDE, _DONE = range(9)


@dataclass(slots=True)
class _State:
    kind: int
    chars: frozenset[str] = frozenset()
    to: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Node:
    """A piece of an expression: ``kind`` is chars, split (one of the parts), then (all of them), repeat, or an assertion's."""

    kind: str
    chars: frozenset[str] = frozenset()
    parts: list[_Node] = field(default_factory=list)
    low: int = 0
    high: int | None = None
    assertion: int = 0


class _Parser:
    """A recursive-descent parser, which looks for errors in RE2's order and raises the first one."""

    def __init__(self, text: str, alphabet: frozenset[str]) -> None:
        self.text, self.at = text, 0
        self.alphabet = alphabet
        self.flags = ""
        self.depth = 0
        self.names: set[str] = set()

    def whole(self) -> _Node:
        node = self.either()
        if self.at < len(self.text):
            raise PatternError("regexp/syntax: internal error")  # so RE2J calls a bracket that closes nothing
        return node

    def either(self) -> _Node:
        flags = self.flags
        parts = [self.sequence()]
        while self.text.startswith("|", self.at):
            self.at += 1
            parts.append(self.sequence())
        self.flags = flags
        return parts[0] if len(parts) == 1 else _Node("split", parts=parts)

    def sequence(self) -> _Node:
        parts: list[_Node] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            piece = self.piece()
            if piece is not None:
                parts.append(self.repeated(piece))
            elif parts:
                parts.append(self.repeated(parts.pop()))  # after flags: of the expression before them, as in RE2J
        return _Node("then", parts=parts)

    def piece(self) -> _Node | None:
        char = self.text[self.at]
        if char == "(":
            return self.group()
        if char == "[":
            return _Node("chars", self.character_class())
        if char == "\\":
            return self.escape()
        if char in "*+?":
            raise PatternError(f"missing argument to repetition operator: `{self._operator()}`")
        if char == "{" and self._counts() is not None:
            raise PatternError(f"missing argument to repetition operator: `{self._operator()}`")
        self.at += 1
        if char == ".":
            return _Node("chars", self.alphabet if "s" in self.flags else self.alphabet - {"\n"})
        if char in "^$":
            ends = (_LINE_START, _LINE_END) if "m" in self.flags else (_START, _END)
            return _Node("assert", assertion=ends[char == "$"])
        return _Node("chars", self._literal(char))

    def _operator(self) -> str:
        end = self.text.find("}", self.at) if self.text[self.at] == "{" else self.at
        return self.text[self.at : end + 1]

    def _literal(self, char: str) -> frozenset[str]:
        return frozenset((char.lower(), char.upper()) if "i" in self.flags else (char,)) & self.alphabet

    def repeated(self, node: _Node) -> _Node:
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
            node = _Node("repeat", parts=[node], low=low, high=high)
        return node

    def _counts(self) -> tuple[int, int | None, int] | None:
        """The counts of ``{n}``, ``{n,}`` or ``{n,m}`` here and where they end; None where the brace is itself."""
        end = self.text.find("}", self.at, self.at + _COUNT_SIZE)
        first, comma, second = self.text[self.at + 1 : end].partition(",") if end >= 0 else ("", "", "")
        if not _is_number(first) or (second and not _is_number(second)):
            return None
        high = int(first) if not comma else int(second) if second else None
        return int(first), high, end + 1

    def group(self) -> _Node | None:
        self.at += 1
        flags = self.flags
        if self.text.startswith("?", self.at) and not self._group_head():
            return None  # flags alone: they hold for what comes behind
        self.depth += 1
        if self.depth > _DEEPEST:
            raise PatternError("expression nests too deeply")
        inside = self.either()
        self.depth -= 1
        if not self.text.startswith(")", self.at):
            raise PatternError("missing closing )")
        self.at += 1
        self.flags = flags
        return inside

    def _group_head(self) -> bool:
        """Parse the part after ``(?``. Returns whether it begins a group."""
        rest = self.text[self.at :]
        if rest.startswith(("?P<", "?<")):
            begin = 3 if rest.startswith("?P") else 2
            end = rest.find(">")
            if end < 0:
                raise PatternError("invalid named capture")
            name = rest[begin:end]
            if not name or not all(char in _WORD for char in name):
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

    def escape(self) -> _Node | None:
        if self.at + 1 >= len(self.text):
            raise PatternError("trailing backslash at end of expression")
        char = self.text[self.at + 1]
        if char == "Q":
            end = self.text.find("\\E", self.at + 2)
            literal = self.text[self.at + 2 : end if end >= 0 else None]
            self.at = end + 2 if end >= 0 else len(self.text)
            return _Node("then", parts=[_Node("chars", self._literal(char)) for char in literal])
        assertion = {"A": _START, "z": _END, "b": _BOUNDARY, "B": _INSIDE}.get(char)
        if assertion is not None:
            self.at += 2
            return _Node("assert", assertion=assertion)
        chars = self._class_escape()
        return _Node("chars", self._literal(self._character()) if chars is None else chars)

    def _class_escape(self) -> frozenset[str] | None:
        r"""``\d`` and the like, ``\pL`` and the like."""
        char = self.text[self.at + 1] if self.at + 1 < len(self.text) else ""
        if char.lower() in _PERL and char:
            self.at += 2
            perl = _PERL[char.lower()]
            return self.alphabet - perl if char.isupper() else perl
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
        chars = _unicode(name, self.alphabet, folded="i" in self.flags)
        if chars is None:
            raise PatternError(f"invalid character class range: `{self.text[begin : self.at]}`")
        return self.alphabet - chars if negated else chars

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

    def character_class(self) -> frozenset[str]:
        begin = self.at
        self.at += 1
        negated = self.text.startswith("^", self.at)
        self.at += negated
        chars: set[str] = set()
        first = True
        while first or not self.text.startswith("]", self.at):
            if self.at >= len(self.text):
                raise PatternError("missing closing ]")
            first = False
            named = self._posix()
            if named is None and self.text[self.at] == "\\":
                named = self._class_escape()
            chars |= self._range(begin) if named is None else named
        self.at += 1
        return self.alphabet - chars if negated else self.alphabet & chars

    def _posix(self) -> frozenset[str] | None:
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
        chars = _POSIX[name.removeprefix("^")]
        return self.alphabet - chars if negated else chars

    def _range(self, begin: int) -> set[str]:
        at, low = self.at, self._one(begin)
        high = low
        if self.text.startswith("-", self.at) and self.text[self.at + 1 : self.at + 2] not in ("", "]"):
            self.at += 1
            high = self._one(begin)
            if high < low:
                raise PatternError(f"invalid character class range: `{self.text[at : self.at]}`")
        return set(_between(low, high, self.alphabet, folded="i" in self.flags))

    def _one(self, begin: int) -> str:
        if self.at >= len(self.text):
            raise PatternError("missing closing ]")
        if self.text[self.at] == "\\":
            return self._character()
        self.at += 1
        return self.text[self.at - 1]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and (text == "0" or text[0] != "0") and len(text) < 9


@lru_cache(maxsize=1024)
def _between(low: str, high: str, alphabet: frozenset[str], *, folded: bool) -> frozenset[str]:
    """The characters of a range, and those in the other case where that is all one."""
    return frozenset(
        char
        for char in alphabet
        if any(
            low <= variant <= high
            for variant in ((char, char.lower(), char.upper()) if folded else char)
            if len(variant) == 1
        )
    )


@lru_cache(maxsize=1024)
def _unicode(name: str, alphabet: frozenset[str], *, folded: bool) -> frozenset[str] | None:
    """The characters of a category or of a script, with ``folded`` also those of the other case; None for an unknown name."""
    if name != "Any" and name != "Common" and name not in _CATEGORIES and name not in _SCRIPTS:
        return None

    def is_in(char: str) -> bool:
        if name in _CATEGORIES:
            return unicodedata.category(char).startswith(name)
        return name == "Any" or _script(char) == name.replace("Common", "")

    return frozenset(
        char
        for char in alphabet
        if any(
            is_in(variant)
            for variant in ((char, char.lower(), char.upper()) if folded else (char,))
            if len(variant) == 1
        )
    )


def _script(char: str) -> str:
    """The script of a letter; "" for letters of all scripts or of others."""
    if unicodedata.category(char)[0] not in "LM":
        return ""
    named = unicodedata.name(char, "")
    return next(
        (script for script in _SCRIPTS if named.startswith(_NAMED.get(script.upper(), script.upper()) + " ")), ""
    )


class Pattern:
    """One expression, for names of these characters. Raises PatternError."""

    def __init__(self, text: str, alphabet: frozenset[str] = ALPHABET) -> None:
        node = _Parser(text, alphabet).whole()
        self._states: list[_State] = [_State(_DONE)]
        self._first = self._compiled(node, 0)
        self._steps: dict[tuple[frozenset[int], str, str], frozenset[int]] = {}
        self._sets: dict[frozenset[int], frozenset[int]] = {}
        """One object for each set in the steps: equal ones would be compared element by element at each character."""
        self._ends: dict[tuple[frozenset[int], str], bool] = {}
        self._kept = self._done = 0

    def matching(self, name: str) -> Generator[bool | None, None, None]:
        """Whether the whole of ``name`` matches; before that None where others may be served."""
        self._done += len(name)
        states, before = frozenset([self._first]), ""
        for char in name:
            step = (states, before, char)
            after = self._steps.get(step)
            if after is None:
                after = self._keep(step, self._after(*step))
                if self._done >= _PIECE:
                    self._done = 0
                    yield None
            if not after:
                yield False
                return
            states, before = after, char
        if self._done >= _PIECE:
            self._done = 0
            yield None
        ends = self._ends.get((states, before))
        if ends is None:
            ends = self._ends[states, before] = 0 in self._reached(states, before, "")
        yield ends

    def matches(self, name: str) -> bool:
        """As `matching`, without pieces: whether the name matches."""
        return next(is_match for is_match in self.matching(name) if is_match is not None)

    def _keep(self, step: tuple[frozenset[int], str, str], after: frozenset[int]) -> frozenset[int]:
        """As RE2 does: where it would be too much all is forgotten."""
        self._kept += len(after) + 1
        if self._kept > _KEPT:
            for kept in (self._steps, self._sets, self._ends):
                kept.clear()
            self._kept = 0
        after = self._steps[step] = self._sets.setdefault(after, after)
        return after

    def _after(self, states: frozenset[int], before: str, char: str) -> frozenset[int]:
        reached = (self._states[number] for number in self._reached(states, before, char))
        return frozenset(state.to[0] for state in reached if state.kind == _CHARS and char in state.chars)

    def _reached(self, states: Iterable[int], before: str, after: str) -> set[int]:
        """The states that are reached without a character between ``before`` and ``after`` ("" at the ends of the name)."""
        boundary = (before in _WORD) != (after in _WORD)
        holds = {
            _SPLIT: True,
            _START: not before,
            _END: not after,
            _LINE_START: before in ("", "\n"),
            _LINE_END: after in ("", "\n"),
            _BOUNDARY: boundary,
            _INSIDE: not boundary,
        }
        reached: set[int] = set()
        waiting = list(states)
        while waiting:
            number = waiting.pop()
            if number not in reached:
                reached.add(number)
                state = self._states[number]
                if holds.get(state.kind, False):
                    waiting += state.to
        self._done += len(reached)
        return reached

    def _add(self, kind: int, to: list[int], chars: frozenset[str] = frozenset()) -> int:
        if len(self._states) >= _LARGEST:
            raise PatternError("expression nests too deeply")
        self._states.append(_State(kind, chars, to))
        return len(self._states) - 1

    def _compiled(self, node: _Node, then: int) -> int:
        """The state that begins ``node`` and continues with ``then``."""
        if node.kind == "chars":
            return self._add(_CHARS, [then], node.chars)
        if node.kind == "assert":
            return self._add(node.assertion, [then])
        if node.kind == "split":
            return self._add(_SPLIT, [self._compiled(part, then) for part in node.parts])
        if node.kind == "then":
            for part in reversed(node.parts):
                then = self._compiled(part, then)
            return then
        (part,) = node.parts
        if node.high is None:
            loop = self._add(_SPLIT, [then])
            self._states[loop].to.append(self._compiled(part, loop))
            then = loop
        else:
            end = then
            for _ in range(node.high - node.low):
                then = self._add(_SPLIT, [end, self._compiled(part, then)])
        for _ in range(node.low):
            then = self._compiled(part, then)
        return then


@lru_cache(maxsize=64)
def pattern(text: str, alphabet: frozenset[str] = ALPHABET) -> Pattern:
    """Compile an expression, with a cache; raises PatternError."""
    return Pattern(text, alphabet)
