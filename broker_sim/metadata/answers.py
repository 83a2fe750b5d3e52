"""Worked-out answers to requests that come again, until the cluster's state changes: bounded in bytes.

A request of 1 KB may be answered with megabytes, and a client can ask the same thing in any number of ways.
"""

from __future__ import annotations

__all__ = ["Answers"]

MOST_BYTES = 16_000_000
"""Maximum size of all answers together, keys included."""
_ENTRY = 300
"""Bytes of an entry without its key's and its answer's bytes."""


class Answers(dict[tuple[object, ...], object]):
    """Answer by key. ``size`` is what they take, in bytes; an answer that is no bytes counts as an entry alone."""

    def __init__(self) -> None:
        super().__init__()
        self.size = 0

    def keep(self, key: tuple[object, ...], answer: object) -> None:
        """Remember ``answer``, and forget all others where it would be too much; one that takes most of it is not remembered."""
        parts = (*key, answer)
        size = _ENTRY + sum(len(part) for part in parts if isinstance(part, bytes | str))
        if size > MOST_BYTES // 4:
            return
        if self.size + size > MOST_BYTES:
            self.clear()
        self.size += size
        self[key] = answer

    def clear(self) -> None:
        """Forget all."""
        super().clear()
        self.size = 0
