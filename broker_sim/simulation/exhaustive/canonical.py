"""Equality of states of a small world: `canonical`, their values without those that only depend on the way to them.

Everything that an object holds counts, so a field that is added later counts, too. What is taken out is named here: absolute
times become distances from now, offsets in the log distances from its end, assigned ids, tokens and tickets become their order of
occurrence; counters of changes and caches are left out.
"""

from __future__ import annotations

import enum
import functools
import types
from collections.abc import Hashable, Iterable
from typing import Any

__all__ = ["CanonicalNames", "canonical"]

_LEFT_OUT = frozenset(
    {"settings", "policy", "new_id", "leader_epoch", "out", "now_ms", "began_ms", "next_ticket", "version", "group_configs"}
)  # fmt: skip
"""Fields that are the same in all states of a world, or only count."""

_IN_LOG = frozenset({"last_offset", "high_watermark", "last_written", "committed_at"})
_TOKENS = frozenset({"token", "join_token", "sync_token", "tokens", "waiter"})
_STAMPS = frozenset(
    {"state_ts_ms", "commit_ts_ms", "commit_timestamp", "current_state_timestamp", "assignment_timestamp", "target_ts_ms",
     "transaction_last_update_timestamp_ms", "updated_ms"}
)  # fmt: skip
"""Fields that are left out, as only timers of days depend on them."""

_ANCIENT_MS = 10**9
"""Numbers above it are instants, those below durations."""


class CanonicalNames:
    """Names in a state that do not depend on the way to it. ``issued``: random parts of ids that the shard has made; ``now_ms`` and
    ``end``, the log's, are what times and offsets are measured from."""

    __slots__ = ("_ids", "_tokens", "end", "issued", "now_ms", "open")

    def __init__(self, issued: Iterable[str], now_ms: int, end: int) -> None:
        self.issued, self.now_ms, self.end = frozenset(issued), now_ms, end
        self._ids: dict[str, int] = {}
        self._tokens: dict[int, int] = {}
        self.open: dict[int, int] = {}  # objects that are being looked at, so that circles end

    def text(self, text: str) -> Hashable:
        """A text, or the number of the id that it is."""
        head, _, tail = text.rpartition("-")
        if tail in self.issued:
            return (head, self._ids.setdefault(tail, len(self._ids)))
        return text

    def token(self, token: object) -> Hashable:
        """A request's token; below zero it says something of its own."""
        if not isinstance(token, int) or token < 0:
            return None if token is None else canonical(token, self)
        return ("token", self._tokens.setdefault(token, len(self._tokens)))


@functools.cache
def _fields(kind: Any) -> tuple[str, ...]:
    slots: list[str] = []
    for base in reversed(kind.__mro__):
        own = base.__dict__.get("__slots__", ())
        slots += [own] if isinstance(own, str) else own
    return tuple(name for name in slots if not name.startswith("__") and name not in _LEFT_OUT)


def canonical(value: Any, names: CanonicalNames) -> Hashable:
    """``value`` as something that can be compared and hashed."""
    kind = type(value)
    if value is None or kind is bool or kind is bytes or kind is float:
        return value  # type: ignore[no-any-return]
    if kind is int:
        return value if value < _ANCIENT_MS else ("in ms", value - names.now_ms)
    if kind is str:
        return names.text(value)
    if isinstance(value, enum.Enum):
        return value.name
    if kind in (tuple, list):
        return tuple([canonical(item, names) for item in value])
    if isinstance(value, dict):
        return tuple([(canonical(key, names), canonical(item, names)) for key, item in value.items()])
    if isinstance(value, (set, frozenset)):
        return tuple(sorted(repr(canonical(item, names)) for item in value))
    return _object(value, names)


def _object(value: Any, names: CanonicalNames) -> Hashable:
    known = names.open.get(id(value))
    if known is not None:
        return ("again", known)
    names.open[id(value)] = len(names.open)
    opened = _opened(value, names)
    del names.open[id(value)]
    return opened


def _opened(value: Any, names: CanonicalNames) -> Hashable:
    if isinstance(value, types.FunctionType):
        held = [cell.cell_contents for cell in value.__closure__ or ()]
        return (value.__qualname__, tuple([canonical(item, names) for item in held]))
    if isinstance(value, functools.partial):
        return (canonical(value.func, names), canonical(value.args, names), canonical(value.keywords, names))
    if isinstance(value, types.MethodType):
        return (value.__func__.__qualname__, canonical(value.__self__, names))
    if isinstance(value, (type, types.BuiltinFunctionType, types.ModuleType)):
        return repr(value)
    kind: Any = type(value)
    fields = [_field(name, getattr(value, name), names) for name in _fields(kind) if hasattr(value, name)]
    own = getattr(value, "__dict__", None)
    if own:
        fields += [_field(name, item, names) for name, item in own.items() if name not in _LEFT_OUT]
    return (type(value).__name__, *fields)


def _field(name: str, value: Any, names: CanonicalNames) -> Hashable:
    if name in _TOKENS:
        return tuple([names.token(item) for item in value]) if isinstance(value, (list, tuple)) else names.token(value)
    if name in _IN_LOG:
        return value if value is None or value < 0 else ("from the end", value - names.end)
    if name in _STAMPS:
        return 0
    if name in ("writes", "markers") and isinstance(value, dict):  # by tickets, in the order of their appends
        return tuple([canonical(item, names) for item in value.values()])
    if name == "unplaced":
        return len(value)
    return canonical(value, names)
