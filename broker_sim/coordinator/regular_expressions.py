r"""Regular expressions in RE2's syntax, matched against whole names, in time linear to the name.

    pattern("orders-(eu|us)\\.[0-9]+").matcher().matches("orders-eu.7")        # raises PatternError with RE2J's message

Kafka's brokers use RE2J: no pattern of a client can block the broker, as with Python's ``re``. A character class is the set of its
characters within an alphabet: that of topics has letters, digits and ``._-``, that of transactional ids the characters of the present
ids. A name with any other character matches nothing.

A pattern is compiled and matched in pieces, as one of 32 KB takes a tenth of a second. Compiled patterns are cached; what a matcher
remembers of names isn't, so that a simulation takes the same pieces whatever ran before it in the same process.

Source: the answers of RE2J (com.google.re2j, in Kafka's jars), whose class names these are. Captures are not distinguished.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator, Iterable
from itertools import islice

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
    Node,
    Parser,
    PatternError,
)

__all__ = ["ALPHABET", "LONG", "Matcher", "Pattern", "PatternError", "compiling", "pattern"]

LONG = 2000
"""Characters of an expression that is compiled in pieces before the request that contains it is handled."""

_LARGEST = 50_000  # states; RE2J has a limit of its own for what repetitions of repetitions make
_COMPILED_AT_ONCE = 4000  # states that are made in one piece: some milliseconds
_PIECE = 10_000  # states and characters that are examined in one piece: as long
_KEPT = 1_000_000  # states in the steps that a matcher remembers: 64 MB
_CACHED = 64  # patterns

_CHARS, _SPLIT, _DONE = -1, -2, -3
"""What the states of a machine wait for: a character, nothing, the end of the name; or an assertion of `Node`."""


class Pattern:
    """A compiled expression, for names of the alphabet's characters: a machine whose states are numbers, 0 the last one."""

    __slots__ = ("chars", "first", "kinds", "to")

    def __init__(self) -> None:
        self.kinds = [_DONE]
        """What each state waits for."""
        self.chars: list[frozenset[str]] = [frozenset()]
        """The characters of each state that waits for one."""
        self.to: list[tuple[int, ...]] = [()]
        """The next states of each."""
        self.first = 0

    def matcher(self) -> Matcher:
        """A matcher of names, which remembers nothing yet."""
        return Matcher(self)

    def add(self, kind: int, to: tuple[int, ...], chars: frozenset[str] = frozenset()) -> int:
        """Add a state; returns its number."""
        if len(self.kinds) >= _LARGEST:
            raise PatternError("expression nests too deeply")
        self.kinds.append(kind)
        self.chars.append(chars)
        self.to.append(to)
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
            return add(_CHARS, (then,), node.chars)
        if node.kind == "assert":
            return add(node.assertion, (then,))
        if node.kind == "then":
            for part in reversed(node.parts):
                then = yield from self.compiling(part, then)
            return then
        if node.kind == "split":
            firsts: list[int] = []
            for part in node.parts:
                first = yield from self.compiling(part, then)
                firsts.append(first)
            return add(_SPLIT, tuple(firsts))
        return (yield from self._repetition(node, then))

    def _repetition(self, node: Node, then: int) -> Generator[None, None, int]:
        add = self.pattern.add
        (part,) = node.parts
        if node.high is None:
            loop = add(_SPLIT, (then,))
            self.pattern.to[loop] = (then, (yield from self.compiling(part, loop)))
            then = loop
        else:
            end = then
            for _ in range(node.high - node.low):
                then = add(_SPLIT, (end, (yield from self.compiling(part, then))))
        for _ in range(node.low):
            then = yield from self.compiling(part, then)
        return then


class Matcher:
    """Matches names against a pattern, and remembers the steps that it took."""

    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern
        self._steps: dict[tuple[frozenset[int], str, str], frozenset[int]] = {}
        self._sets: dict[frozenset[int], frozenset[int]] = {}
        """One object for each set in the steps: equal ones would be compared element by element at each character."""
        self._ends: dict[tuple[frozenset[int], str], bool] = {}
        self._kept = self._done = 0

    def matching(self, name: str) -> Generator[bool | None, None, None]:
        """Whether the whole of ``name`` matches; before that None where others may be served."""
        self._done += len(name)
        states, before = frozenset([self._pattern.first]), ""
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
            states, before = after, char
        if self._done >= _PIECE:
            self._done = 0
            yield None
        ends = self._ends.get((states, before))
        if ends is None:
            ends = self._ends[states, before] = 0 in (yield from self._reached(states, before, ""))
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

    def _after(self, states: frozenset[int], before: str, char: str) -> Generator[None, None, frozenset[int]]:
        kinds, chars, to = self._pattern.kinds, self._pattern.chars, self._pattern.to
        reached = iter((yield from self._reached(states, before, char)))
        result: set[int] = set()
        while piece := list(islice(reached, _PIECE)):
            result.update(to[number][0] for number in piece if kinds[number] == _CHARS and char in chars[number])
            if len(piece) == _PIECE:
                yield
        return frozenset(result)

    def _reached(self, states: Iterable[int], before: str, after: str) -> Generator[None, None, set[int]]:
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
        kinds, to = self._pattern.kinds, self._pattern.to
        reached: set[int] = set()
        waiting = list(states)
        examined, piece_ends = 0, max(_PIECE - self._done, 1)
        while waiting:
            number = waiting.pop()
            examined += 1
            if examined == piece_ends:
                piece_ends += _PIECE
                yield
            if number not in reached:
                reached.add(number)
                if holds.get(kinds[number], False):
                    waiting += to[number]
        self._done = _PIECE - (piece_ends - examined)
        return reached


_cache: OrderedDict[tuple[str, frozenset[str]], Pattern | PatternError] = OrderedDict()


def compiling(text: str, alphabet: frozenset[str] = ALPHABET) -> Generator[None, None, Pattern]:
    """Compile an expression in pieces, and keep the result for `pattern`. Raises PatternError.

    A cached pattern is compiled again: how many pieces a request takes must not depend on earlier simulations of the process.
    """
    result: Pattern | PatternError
    try:
        node = yield from Parser(text, alphabet).parsing()
        if len(text) >= LONG:
            yield
        result = Pattern()
        result.first = yield from _Compiler(result).compiling(node, 0)
        if len(text) >= LONG:
            yield  # what the caller does with it is not in the same piece as the last states
    except PatternError as error:
        result = error
    _cache[text, alphabet] = result
    _cache.move_to_end((text, alphabet))
    if len(_cache) > _CACHED:
        _cache.popitem(last=False)
    if isinstance(result, PatternError):
        raise PatternError(str(result))
    return result


def pattern(text: str, alphabet: frozenset[str] = ALPHABET) -> Pattern:
    """Compile an expression, with a cache. Raises PatternError."""
    known = _cache.get((text, alphabet))
    if known is None:
        return at_once(compiling(text, alphabet))
    _cache.move_to_end((text, alphabet))
    if isinstance(known, PatternError):
        raise PatternError(str(known))
    return known
