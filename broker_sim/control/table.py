"""What an operation is: its name, its typed parameters, its way in over HTTP, the shape of its answer.

Rules:
1. An operation is declared once, by the decorator `operation` above the function that performs it; HTTP, the OpenAPI
   document, the command line and scenario files are all drawn from that declaration.
2. What comes from outside is checked before anything is done: unknown names, missing ones, wrong types, sizes. The error is
   a UsageError of one line that names the parameter, and the nearest that exists.
3. Checking twice is checking once: a checked value is a valid value with the same meaning. A duration is therefore a number of seconds.
"""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from broker_sim.words import UsageError, duration_ms, unknown

__all__ = ["OPERATIONS", "TIMEOUT", "Handler", "NotThere", "Operation", "Parameter", "operation"]

Kind = Literal["str", "int", "float", "bool", "duration", "list", "map", "objects", "name_or_number"]
Handler = Callable[[Any, dict[str, Any]], Awaitable[Any]]
"""``await handler(cluster, checked parameters)``; the answer is what ``json.dumps`` takes."""

MAX_TEXT = 1000
"""Characters of a text; Kafka's longest names have 249."""
MAX_ITEMS = 1000
"""Entries of a list or map."""
MAX_OBJECTS = 100_000
"""Objects in a list of them; a body of HTTP holds fewer."""
LONGEST_WAIT_S = 600.0
"""What an operation that waits may be asked to wait."""


class NotThere(UsageError):
    """A thing that was named - a group, a log, a fault - is not there; over HTTP that is 404."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an operation.

    ``choices`` tells the only values of a text, in any case. ``least`` and ``most`` bound a number, a
    duration in seconds. ``items`` is the kind of a list's entries, or of a map's values.
    """

    name: str
    kind: Kind
    doc: str
    required: bool = False
    default: Any = None
    choices: Callable[[], Iterable[str]] | None = None
    least: float | None = None
    most: float | None = None
    items: Kind = "str"
    example: Any = None

    def checked(self, value: Any) -> Any:
        """The value in its own type. Raises UsageError."""
        result = _READERS[self.kind](self, value)
        if self.choices is not None:
            known = {name.lower(): name for name in self.choices()}
            if str(result).lower() not in known:
                raise unknown(self.name, result, known.values())
            result = known[str(result).lower()]
        if isinstance(result, int | float) and not isinstance(result, bool):
            low, high = self.least, self.most
            if (low is not None and result < low) or (high is not None and result > high):
                raise UsageError(f"{self.name}: {value!r} is out of range, {_range(low, high)}")
        return result


def _range(low: float | None, high: float | None) -> str:
    if high is None:
        return f"at least {low:g}"
    return f"at most {high:g}" if low is None else f"from {low:g} to {high:g}"


def _wrong(parameter: Parameter, value: Any, wanted: str) -> UsageError:
    shown = repr(value)
    return UsageError(f"{parameter.name}: {shown if len(shown) <= 80 else shown[:77] + '...'} is not {wanted}")


def _read_str(parameter: Parameter, value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value:
        raise _wrong(parameter, value, "a text")
    if len(value) > MAX_TEXT:
        raise UsageError(f"{parameter.name}: {len(value)} characters are too many, at most {MAX_TEXT}")
    if "\0" in value:
        raise _wrong(parameter, value, "a text without NUL characters")
    return value


def _read_int(parameter: Parameter, value: Any) -> int:
    if isinstance(value, str) and len(value) <= 20 and value.strip().lstrip("-").isascii():
        try:
            value = int(value)
        except ValueError:
            raise _wrong(parameter, value, "a whole number") from None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**63) <= value < 2**63:
        raise _wrong(parameter, value, "a whole number")
    return value


def _read_float(parameter: Parameter, value: Any) -> float:
    if isinstance(value, str) and len(value) <= 40:
        try:
            value = float(value)
        except ValueError:
            raise _wrong(parameter, value, "a number") from None
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise _wrong(parameter, value, "a number")
    return float(value)


def _read_bool(parameter: Parameter, value: Any) -> bool:
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    if not isinstance(value, bool):
        raise _wrong(parameter, value, "true or false")
    return value


def _read_duration(parameter: Parameter, value: Any) -> float:
    return duration_ms(value, parameter.name) / 1000


def _read_name_or_number(parameter: Parameter, value: Any) -> str | int:
    if isinstance(value, int) and not isinstance(value, bool):
        return _read_int(parameter, value)
    text = _read_str(parameter, value)
    return int(text) if text.isascii() and text.lstrip("-").isdigit() and len(text) < 12 else text


def _entries(parameter: Parameter, value: Any) -> Parameter:
    if len(value) > MAX_ITEMS:
        raise UsageError(f"{parameter.name}: {len(value)} entries are too many, at most {MAX_ITEMS}")
    return Parameter(parameter.name, parameter.items, parameter.doc)


def _read_list(parameter: Parameter, value: Any) -> list[Any]:
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, list | tuple):
        raise _wrong(parameter, value, "a list")
    entry = _entries(parameter, value)
    return [entry.checked(one) for one in value]


def _read_map(parameter: Parameter, value: Any) -> dict[str, Any]:
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise _wrong(parameter, value, "a map of names to values") from None
    elif isinstance(value, str):
        pairs = [part.partition("=" if "=" in part else ":") for part in value.split(",") if part.strip()]
        value = {name.strip(): rest.strip() for name, _, rest in pairs}
    if not isinstance(value, Mapping) or not all(isinstance(name, str) and name for name in value):
        raise _wrong(parameter, value, "a map of names to values")
    entry = _entries(parameter, value)
    return {name: entry.checked(one) for name, one in value.items()}


def _read_objects(parameter: Parameter, value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list | tuple) or not all(isinstance(one, Mapping) for one in value):
        raise _wrong(parameter, value, "a list of objects")
    if len(value) > MAX_OBJECTS:
        raise UsageError(f"{parameter.name}: {len(value)} objects are too many, at most {MAX_OBJECTS}")
    return [dict(one) for one in value]


_READERS: dict[Kind, Callable[[Parameter, Any], Any]] = {
    "str": _read_str,
    "int": _read_int,
    "float": _read_float,
    "bool": _read_bool,
    "duration": _read_duration,
    "list": _read_list,
    "map": _read_map,
    "objects": _read_objects,
    "name_or_number": _read_name_or_number,
}


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that can be done to a running cluster.

    ``on`` "clusters": the handler gets the `Clusters` of the process and not one of them. ``method`` and ``path``: its way in below
    /v1/clusters/ID (or below /v1, for "clusters"); names in braces are parameters. ``answer`` is the shape of what it returns
    (see openapi.py). ``examine`` looks at several parameters together, before anything is done.
    """

    name: str
    doc: str
    method: str
    path: str
    parameters: dict[str, Parameter]
    handler: Handler
    answer: Any
    on: Literal["cluster", "clusters"] = "cluster"
    waits: bool = False
    examine: Callable[[dict[str, Any]], None] | None = None
    errors: tuple[int, ...] = field(default=())

    def checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters in their types, with defaults, in the order of their declaration. Raises UsageError."""
        if not isinstance(given, Mapping):
            raise UsageError(f"{self.name}: its parameters are a map of names to values, not {type(given).__name__}")
        for name in given:
            if name not in self.parameters:
                raise unknown(f"parameter of {self.name}", name, self.parameters)
        result: dict[str, Any] = {}
        for name, parameter in self.parameters.items():
            value = given.get(name)
            if value is None:
                if parameter.required:
                    raise UsageError(f"{self.name}: {name} is missing ({parameter.doc})")
                value = parameter.default
            if value is not None:
                result[name] = parameter.checked(value)
        if self.examine is not None:
            self.examine(result)
        return result


TIMEOUT = Parameter(
    "timeout", "duration", "how long to wait, in real time", default=10.0, least=0, most=LONGEST_WAIT_S, example="10s"
)
"""Of every operation that waits."""

OPERATIONS: dict[str, Operation] = {}
"""Every operation by its name; filled by importing operations.py."""


def operation(
    name: str, http: str, *parameters: Parameter, answer: Any, **options: Any
) -> Callable[[Handler], Handler]:
    """Declare the decorated function as an operation; its docstring is the operation's. ``http``: ``"POST /faults"``."""
    method, _, path = http.partition(" ")

    def declare(handler: Handler) -> Handler:
        if name in OPERATIONS:
            raise ValueError(f"operation {name} is declared twice")
        doc = (handler.__doc__ or "").strip()
        by_name = {parameter.name: parameter for parameter in parameters}
        OPERATIONS[name] = Operation(name, doc, method, path, by_name, handler, answer, **options)
        return handler

    return declare
