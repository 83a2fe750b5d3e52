"""Kinds of values that Kafka names: errors, APIs and their versions, log partitions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from broker_sim.common.text import unknown
from broker_sim.fields.kinds import Choice, FieldKind, Text, error_about, number_of, refusal
from kafka_wire.api_keys import API_NAMES
from kafka_wire.errors import Err
from kafka_wire.group_states import EPOCH_GROUP_STATES, GROUP_STATES

__all__ = [
    "ERROR_CODE",
    "GROUP_STATE",
    "ISOLATION",
    "READ_COMMITTED",
    "TRANSACTION_STATE",
    "ApiName",
    "ApiNames",
    "ErrorCode",
    "LogName",
    "TransactionalIdLog",
    "VersionRange",
    "log_named",
]

_BY_WORD = {name.lower(): name for name in API_NAMES}
_OFFSETS_OF = re.compile(r"offsets\((.+)\)")
_TRANSACTIONS_OF = re.compile(r"transactions\((.+)\)")
_PARTITION = re.compile(r"(.+)[-/](\d{1,9})")
_VERSIONS = re.compile(r"\s*v?(\d{1,5})(?:\s*-\s*(\d{1,5}))?\s*")


ERROR_CODE = {
    "anyOf": [
        {"type": "string", "enum": list(Err.__members__), "description": "Kafka's name of the error"},
        {"type": "integer", "description": "its code"},
    ]
}
"""JSON Schema to which the schema of an `ErrorCode` refers."""


READ_COMMITTED = "read_committed"
ISOLATION = Choice((READ_COMMITTED, "read_uncommitted"))
"""A consumer's isolation.level: without or with the records of transactions that are open or were aborted."""


class ErrorCode(FieldKind[Err]):
    """An error by Kafka's name in any case, by its code, or as `Err`. ``none``: whether NONE may be meant."""

    def __init__(self, none: bool = False) -> None:
        self.none = none

    def read(self, value: object, what: str = "") -> Err:
        code = number_of(value)
        if code is not None:
            if code not in Err._value2member_map_:
                raise error_about(what, f"Kafka has no error with the code {value}")
            error = Err(int(code))
        elif isinstance(value, str):
            named = Err.__members__.get(value.strip().upper().replace("-", "_"))
            if named is None:
                raise unknown("error", value, Err.__members__)
            error = named
        else:
            raise error_about(what, f"{value!r} is not an error (expected a name such as NOT_COORDINATOR, or a code)")
        if error is Err.NONE and not self.none:
            raise error_about(what, "NONE is not an error")
        return error

    def schema(self) -> dict[str, Any]:
        return {"$ref": "#/components/schemas/ErrorCode"}


GROUP_STATE = Choice(tuple(dict.fromkeys([*GROUP_STATES, *EPOCH_GROUP_STATES])), "group state")
"""The state of a group, classic or not."""

TRANSACTION_STATE = Choice(
    ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead"),
    "transaction state",
)
"""The state of a transactional id, by the names of DescribeTransactions; Dead for an unknown id."""


class ApiName(FieldKind[str]):
    """One API by Kafka's name in any case, with or without underscores, as Kafka writes it. A pattern, in which ``*`` matches any
    characters, is returned unchanged."""

    def __init__(self, pattern: bool = True) -> None:
        self.pattern = pattern

    def read(self, value: object, what: str = "") -> str:
        word = Text().read(value, what).strip()
        if self.pattern and "*" in word:
            return word
        name = _BY_WORD.get(word.replace("_", "").lower())
        if name is None:
            raise unknown("API", value, API_NAMES)
        return name

    def schema(self) -> dict[str, Any]:
        return Text().schema()


class ApiNames(FieldKind["str | list[str]"]):
    """An API, or several: a list, or a text with commas."""

    def read(self, value: object, what: str = "") -> str | list[str]:
        if isinstance(value, str):
            names = value.split(",")
        elif isinstance(value, Iterable) and not isinstance(value, bytes | Mapping):
            names = list(value)
        else:
            raise refusal(what, value, "the name of an API, or a list of them")
        if not names:
            raise error_about(what, "an empty list selects nothing")
        apis = list(dict.fromkeys(ApiName().read(name, what) for name in names))
        return apis[0] if len(apis) == 1 else apis

    def schema(self) -> dict[str, Any]:
        name_schema = ApiName().schema()
        return {"anyOf": [name_schema, {"type": "array", "items": name_schema, "minItems": 1}]}


class VersionRange(FieldKind["int | str"]):
    """A version of an API, or a range of them: ``8``, ``"2-4"``."""

    meant = "a version or a range of them, as in 8 or 2-4"

    def read(self, value: object, what: str = "") -> int | str:
        low, high = self.bounds(value, what)
        return low if low == high else f"{low}-{high}"

    def bounds(self, value: object, what: str = "") -> tuple[int, int]:
        """The first and the last version. Raises UsageError."""
        number = number_of(value)
        spelled = str(int(number)) if number is not None and number == int(number) else value
        match = _VERSIONS.fullmatch(spelled) if isinstance(spelled, str) else None
        if match is None:
            raise error_about(what, f"{value!r} is not a version or a range of versions (expected e.g. 8 or 2-4)")
        low, high = int(match[1]), int(match[2] or match[1])
        if low > high:
            raise error_about(what, f"{low}-{high} is an empty range of versions")
        return low, high

    def schema(self) -> dict[str, Any]:
        return {"type": ["string", "integer"]}


class LogName(FieldKind[str]):
    """A log partition: ``orders-0``, ``__consumer_offsets-12``, or ``offsets(GROUP)`` for the one that a group lives in, and
    ``transactions(ID)`` for that of a transactional id."""

    meant = "a log; name it as in orders-0, __consumer_offsets-12, offsets(billing) or transactions(orders-app)"

    def read(self, value: object, what: str = "") -> str:
        text = Text().read(value, what)
        if log_named(text) is None:
            raise refusal(what, text, self.meant)
        return text

    def schema(self) -> dict[str, Any]:
        return Text().schema()


@dataclass(frozen=True, slots=True)
class TransactionalIdLog:
    """The log that a transactional id lives in."""

    transactional_id: str


def log_named(text: str) -> tuple[str, int] | str | TransactionalIdLog | None:
    """Parse a log's name into topic and partition, the group id of ``offsets(GROUP)``, or the id of ``transactions(ID)``; None for a
    text that names no log."""
    if match := _OFFSETS_OF.fullmatch(text):
        return match[1]
    if match := _TRANSACTIONS_OF.fullmatch(text):
        return TransactionalIdLog(match[1])
    if match := _PARTITION.fullmatch(text):
        return match[1], int(match[2])
    return None
