"""The vocabulary: what can be done to a running cluster from outside, the same over HTTP, on the command line and in scenario files.

    check("state.set", {"log": "offsets(billing)", "state": "stuck", "for": "40s"})     # before anything runs; raises UsageError
    await perform(kafka, "state.set", {"log": "offsets(billing)", "state": "stuck"})    # -> what json.dumps takes

Errors of ``perform``: UsageError for what is asked wrongly (its subclass NotThere for a thing that is not there), AssertionErrors for
what was waited for and didn't come (WaitTimeout) or a rule that never hit (NeverHit), KafkaError for what a broker would refuse.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker_sim.common.text import UsageError, unknown
from broker_sim.control import (
    on_brokers,
    on_groups,
    on_journal,
    on_logs,
    on_order,
    on_requests,
    on_scenarios,
    on_shares,
    on_topics,
    on_transactions,
)
from broker_sim.control.resolve import log_of
from broker_sim.control.table import OPERATIONS as DECLARED
from broker_sim.control.table import NotThere, Operation

__all__ = ["OPERATIONS", "NotThere", "Operation", "UsageError", "check", "log_of", "perform"]

FAMILIES = (
    on_brokers,
    on_groups,
    on_shares,
    on_transactions,
    on_journal,
    on_logs,
    on_requests,
    on_order,
    on_topics,
    on_scenarios,
)
"""The modules that declare the operations."""

_PLACES = {family.__name__: place for place, family in enumerate(FAMILIES)}
OPERATIONS: dict[str, Operation] = dict(
    sorted(DECLARED.items(), key=lambda item: _PLACES[item[1].handler.__module__])
)  # their order does not depend on that of imports


def find(name: str) -> Operation:
    """The operation of that name. Raises UsageError with the nearest there is."""
    operation = OPERATIONS.get(name)
    if operation is None:
        raise unknown("operation", name, OPERATIONS)
    return operation


def check(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of an operation in their types, with defaults; durations are seconds. Needs no cluster. Raises UsageError."""
    return find(name).checked(params)


async def perform(target: object, name: str, params: Mapping[str, Any] | None = None) -> Any:
    """Perform the operation ``name`` on a started `Cluster` (``cluster.*``: on the process's `Clusters`) and return its result,
    which can be written as JSON. Raises the errors of the operation, see the module."""
    operation = find(name)
    return await operation.handler(target, operation.checked(params or {}))
