r"""Regular expressions in RE2's syntax, matched against whole names, in time linear to the name.

    pattern("orders-(eu|us)\\.[0-9]+").matcher().matches("orders-eu.7")        # raises PatternError with RE2J's message

Kafka's brokers use RE2J: no pattern of a client can block the broker, as with Python's ``re``. A character class is the set of its
characters within an alphabet: that of topics has letters, digits and ``._-``, that of transactional ids the characters of the present
ids. A name with any other character matches nothing.

A pattern is compiled and matched in pieces, as one of 32 KB takes a tenth of a second. It belongs to the request or the group that uses
it, and is freed with it: a client chooses how large it is, up to a megabyte. What is kept beyond that is whether the last expressions
were valid. So a simulation takes the same pieces whatever ran before it in the same process.

Source: the answers of RE2J (com.google.re2j, in Kafka's jars), whose class names these are. Captures are not distinguished.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Generator, Iterable

from broker_sim.common.slices import at_once
from broker_sim.coordinator.regular_expression_syntax import (
    ALPHABET,
    BOUNDARY,
    LINE_END,
    LINE_START,
    NO_BOUNDARY,
    TEXT_END,
    TEXT_START,
    WORD,
    Alphabet,
    Node,
    Parser,
    PatternError,
)

__all__ = ["ALPHABET", "LONG", "Matcher", "Pattern", "PatternError", "check", "compiling", "pattern"]

LONG = 2000
"""Characters of an expression that is compiled in pieces before the request that contains it is handled."""

_LARGEST = 50_000  # states; RE2J has a limit of its own for what repetitions of repetitions make
_COMPILED_AT_ONCE = 4000  # states that are made in one piece: some milliseconds
_PIECE = 10_000  # states and characters that are examined in one piece: as long
_KEPT = 500_000  # states in the steps that a matcher remembers: 2 MB
_STEP = 50  # states that take as much memory as a step without its states
_CHECKED = 1_000_000  # characters of the expressions that are known to be valid or invalid
_CHECKED_ENTRY = 200  # characters that take as much memory as an entry without its text

_CHARS, _SPLIT, _DONE = -1, -2, -3
"""Kinds of a machine's states by what they wait for: a character, nothing, the end of the name. Further kinds are the assertions of
`Node`."""


class Pattern:
    """A compiled expression for names of an alphabet: a machine whose states are numbers, 0 the last one, of 17 bytes each."""

    __slots__ = ("alphabet", "chars", "first", "kinds", "others", "to")

    def __init__(self, alphabet: Alphabet) -> None:
        self.alphabet = alphabet
        self.kinds = array("b", [_DONE])
        """Kind of character that each state waits for."""
        self.chars: list[int] = [0]
        """The characters of each state that waits for one, as a set of the alphabet."""
        self.to = array("i", [-1])
        """The next state of each."""
        self.others = array("i", [-1])
        """A state that may be the next one as well; -1 without one."""
        self.first = 0

    def matcher(self) -> Matcher:
        """A matcher of names, which remembers nothing yet."""
        return Matcher(self)

    def add(self, kind: int, to: int, *, chars: int = 0, other: int = -1) -> int:
        """Add a state; returns its number."""
        if len(self.kinds) >= _LARGEST:
            raise PatternError("expression nests too deeply")
        self.kinds.append(kind)
        self.chars.append(chars)
        self.to.append(to)
        self.others.append(other)
        return len(self.kinds) - 1


class _Compiler:
    """Adds the states of an expression to a pattern, from the expression's end to its beginning."""

    __slots__ = ("pattern", "piece_ends")

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self.piece_ends = _COMPILED_AT_ONCE

    def compiling(self, node: Node, then: int) -> Generator[None, None, int]:
        """The state that begins ``node`` and continues with ``then``; yields where other requests may be served."""
        add = self.pattern.add
        if len(self.pattern.kinds) >= self.piece_ends:
            self.piece_ends += _COMPILED_AT_ONCE
            yield
        if node.kind == "chars":
            return add(_CHARS, then, chars=node.chars)
        if node.kind == "assert":
            return add(node.assertion, then)
        if node.kind == "then":
            for part in reversed(node.parts):
                then = yield from self.compiling(part, then)
            return then
        if node.kind == "split":
            first = -1
            for part in reversed(node.parts):
                begin = yield from self.compiling(part, then)
                first = begin if first < 0 else add(_SPLIT, begin, other=first)
            return first
        return (yield from self._repetition(node, then))

    def _repetition(self, node: Node, then: int) -> Generator[None, None, int]:
        add = self.pattern.add
        (part,) = node.parts
        if node.high is None:
            loop = add(_SPLIT, then)
            self.pattern.others[loop] = yield from self.compiling(part, loop)
            then = loop
        else:
            end = then
            for _ in range(node.high - node.low):
                begin = yield from self.compiling(part, then)
                then = add(_SPLIT, end, other=begin)
        for _ in range(node.low):
            then = yield from self.compiling(part, then)
        return then


States = bytes
"""A set of states: their numbers in order, four bytes each, a sixteenth of what a frozenset takes."""


class Matcher:
    """Matches names against a pattern, and remembers the steps that it took. ``kept`` is what they take, in states."""

    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern
        self._steps: dict[tuple[States, str, str], States] = {}
        self._sets: dict[States, States] = {}
        """One object for each set in the steps: equal ones would be compared element by element at each character."""
        self._ends: dict[tuple[States, str], bool] = {}
        self._done = 0
        self.kept = 0

    def matching(self, name: str) -> Generator[bool | None, None, None]:
        """Whether the whole of ``name`` matches; before that None where others may be served."""
        self._done += len(name)
        states, before = _packed([self._pattern.first]), ""
        for char in name:
            step = (states, before, char)
            after = self._steps.get(step)
            if after is None:
                after = self._keep(step, (yield from self._after(*step)))
                if self._done >= _PIECE:
                    self._done = 0
                    yield None
            if not after:
                yield False
                return
            states, before = after, _class_of(char)
        if self._done >= _PIECE:
            self._done = 0
            yield None
        ends = self._ends.get((states, before))
        if ends is None:
            ends = 0 in (yield from self._reached(states, before, ""))
            self._make_room(_STEP)
            self._ends[states, before] = ends
        yield ends

    def matches(self, name: str) -> bool:
        """As `matching`, without pieces: whether the name matches."""
        return next(is_match for is_match in self.matching(name) if is_match is not None)

    def _keep(self, step: tuple[States, str, str], after: States) -> States:
        self._make_room(_STEP if after in self._sets else _STEP + len(after) // _SIZE)
        after = self._steps[step] = self._sets.setdefault(after, after)
        return after

    def _make_room(self, states: int) -> None:
        """As RE2 does: where it would be too much all is forgotten."""
        self.kept += states
        if self.kept > _KEPT:
            for kept in (self._steps, self._sets, self._ends):
                kept.clear()
            self.kept = states

    def _after(self, states: States, before: str, char: str) -> Generator[None, None, States]:
        kinds, chars, to = self._pattern.kinds, self._pattern.chars, self._pattern.to
        place = self._pattern.alphabet.places.get(char)
        if place is None:
            return b""
        reached = yield from self._reached(states, before, char)
        result = array("i")
        for begin in range(0, len(reached), _PIECE):
            if begin:
                yield
            piece = reached[begin : begin + _PIECE]
            result.extend(to[number] for number in piece if kinds[number] == _CHARS and chars[number] >> place & 1)
        return _packed(set(result))

    def _reached(self, states: States, before: str, after: str) -> Generator[None, None, array[int]]:
        """The states that are reached without a character between ``before`` and ``after`` ("" at the ends of the name). One step of an
        expression of 32 KB can reach all of its states, so it yields within the step."""
        boundary = (before in WORD) != (after in WORD)
        holds = {
            _SPLIT: True,
            TEXT_START: not before,
            TEXT_END: not after,
            LINE_START: before in ("", "\n"),
            LINE_END: after in ("", "\n"),
            BOUNDARY: boundary,
            NO_BOUNDARY: not boundary,
        }
        kinds, to, others = self._pattern.kinds, self._pattern.to, self._pattern.others
        is_reached = bytearray(len(kinds))
        reached = array("i")
        waiting = array("i", states)
        examined, piece_ends = 0, max(_PIECE - self._done, 1)
        while waiting:
            number = waiting.pop()
            examined += 1
            if examined == piece_ends:
                piece_ends += _PIECE
                yield
            if not is_reached[number]:
                is_reached[number] = 1
                reached.append(number)
                if holds.get(kinds[number], False):
                    waiting.append(to[number])
                    if others[number] >= 0:
                        waiting.append(others[number])
        self._done = _PIECE - (piece_ends - examined)
        return reached


_SIZE = array("i").itemsize


def _packed(states: Iterable[int]) -> States:
    return array("i", sorted(states)).tobytes()


def _class_of(char: str) -> str:
    """One character for all that are alike to the assertions that look back."""
    return char if char == "\n" else "w" if char in WORD else "-"


class Checked:
    """The last expressions, each with the words of its error; None for a valid one. ``chars`` is what they take, in characters."""

    def __init__(self) -> None:
        self._errors: OrderedDict[str, str | None] = OrderedDict()
        self.chars = 0

    def remember(self, text: str, error: str | None) -> None:
        """Keep the result for an expression, and forget the oldest ones where there are too many."""
        if text not in self._errors:
            self.chars += self._size(text, error)
        self._errors[text] = error
        self._errors.move_to_end(text)
        while self.chars > _CHECKED:
            self.chars -= self._size(*self._errors.popitem(last=False))

    def check(self, text: str) -> None:
        """Raises PatternError for an invalid expression. One that is not remembered is compiled."""
        if text not in self._errors:
            at_once(compiling(text))
            return
        self._errors.move_to_end(text)
        error = self._errors[text]
        if error is not None:
            raise PatternError(error)

    def _size(self, text: str, error: str | None) -> int:
        return len(text) + len(error or "") + _CHECKED_ENTRY


_checked = Checked()
check = _checked.check


def compiling(text: str, alphabet: Iterable[str] = ALPHABET) -> Generator[None, None, Pattern]:
    """Compile an expression in pieces, and remember for `check` whether it is valid. Raises PatternError."""
    try:
        chars = Alphabet(alphabet)
        node = yield from Parser(text, chars).parsing()
        if len(text) >= LONG:
            yield
        result = Pattern(chars)
        result.first = yield from _Compiler(result).compiling(node, 0)
        if len(text) >= LONG:
            yield  # what the caller does with it is not in the same piece as the last states
    except PatternError as error:
        _checked.remember(text, str(error))
        raise
    _checked.remember(text, None)
    return result


def pattern(text: str, alphabet: Iterable[str] = ALPHABET) -> Pattern:
    """Compile an expression at once. Raises PatternError."""
    return at_once(compiling(text, alphabet))
