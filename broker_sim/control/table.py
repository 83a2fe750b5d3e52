"""Declarations of operations: the name, the typed parameters, the method and path of HTTP, the shape of the answer.

Rules:
1. An operation is declared once, by the decorator `operation` above the function that performs it; HTTP, the OpenAPI
   document, the command line and scenario files are all drawn from that declaration.
2. What comes from outside is checked before anything is done: unknown names, missing ones, wrong types, sizes. The error has all
   that is wrong, a line for each parameter, with the nearest that exists (`fields`).
3. Checking twice is checking once: a checked value is a valid value with the same meaning. A duration is therefore a number of seconds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from broker_sim.common.text import UsageError
from broker_sim.fields.field import Field, read
from broker_sim.fields.kinds import Duration

__all__ = ["OPERATIONS", "TIMEOUT", "Handler", "NotThere", "Operation", "operation"]

Handler = Callable[[Any, dict[str, Any]], Awaitable[Any]]
"""``await handler(cluster, checked parameters)``; the answer is what ``json.dumps`` takes."""

LONGEST_WAIT_S = 600.0
"""Maximum timeout of an operation that waits."""


class NotThere(UsageError):
    """A thing that was named - a group, a log, a fault - is not there; over HTTP that is 404."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that can be done to a running cluster.

    ``on`` "clusters": the handler gets the `Clusters` of the process and not one of them. ``method`` and ``path``: its way in below
    /v1/clusters/ID (or below /v1, for "clusters"); names in braces are parameters. ``answer`` is the shape of what it returns
    (see openapi.py), ``errors``: HTTP statuses beside the usual ones. ``examine`` looks at several parameters together, before anything
    is done.
    """

    name: str
    doc: str
    method: str
    path: str
    parameters: dict[str, Field]
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
        result = read(self.parameters, given, self.name, f"parameter of {self.name}")
        if self.examine is not None:
            self.examine(result)
        return result


TIMEOUT = Field("timeout", Duration(most=LONGEST_WAIT_S), "timeout, in real time", default=10.0, example="10s")
"""Parameter of every operation that waits."""

OPERATIONS: dict[str, Operation] = {}
"""Every operation by its name; filled by importing operations.py."""


def operation(name: str, http: str, *parameters: Field, answer: object, **options: Any) -> Callable[[Handler], Handler]:
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
