"""Rejection of a heartbeat of an epoch-based group."""

from __future__ import annotations

from kafka_wire.errors import Err


class Refused(Exception):
    """A heartbeat that is answered with an error, and words."""

    def __init__(self, error: Err, words: str | None) -> None:
        super().__init__(words)
        self.error, self.words = error, words


def need(fine: bool, words: str | None) -> None:
    """Raises Refused unless the condition holds; for requirements that don't depend on the group."""
    if not fine:
        raise Refused(Err.INVALID_REQUEST, words)


def is_not_blank(text: str | None) -> bool:
    """Whether there is more in it than what Java's trim() removes. None is not blank. Source: Utils.throwIfEmptyString."""
    return text is None or any(char > " " for char in text)
