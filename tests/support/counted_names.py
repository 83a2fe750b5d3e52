"""Names that count what is done with them, for tests of work in pieces."""

from __future__ import annotations


class Name(str):
    """Counts how often names are hashed and compared, in ``Name.touched``."""

    __slots__ = ()
    touched = 0

    def __hash__(self) -> int:
        Name.touched += 1
        return str.__hash__(self)

    def __eq__(self, other: object) -> bool:
        Name.touched += 1
        return str.__eq__(self, other)

    def __lt__(self, other: str) -> bool:
        Name.touched += 1
        return str.__lt__(self, other)
