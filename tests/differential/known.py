"""Differences that stay: where the simulator answers otherwise on purpose, and why. docs/differential.md tells them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.differential.difference import Difference


@dataclass(frozen=True)
class Known:
    """Differences whose first row is at `path` (a regular expression over `Api v5.field`), of values that match."""

    path: str
    real: str
    simulated: str
    reason: str
    versions: tuple[str, ...] = ("3.4", "3.9", "4.1", "4.2", "4.4")


KNOWN: tuple[Known, ...] = (
    Known(
        r"Produce v\d+",
        "not answered|closed",
        ".*'error_code': (21|87|-1).*|closed",
        "Kafka never answers a Produce whose records are null, or closes the connection; the simulator refuses it.",
    ),
    Known(
        r"AlterConfigs v\d+",
        "not answered",
        ".*'error_code': 42.*",
        "Kafka never answers an AlterConfigs that names the same resource twice, types that it does not know being one; the"
        " simulator refuses it as IncrementalAlterConfigs does.",
    ),
    Known(
        r"(Incremental)?AlterConfigs v\d+\.responses\[\d+\]\.error_(code|message)",
        "42|Unknown resource type .*",
        "-1|None",
        "Kafka's broker refuses unknown resource types itself, and asks the controller for the rest: where the controller's answer"
        " has a text too long for the wire, the rest alone fails; at the simulator all of it.",
    ),
    Known(
        r"AddPartitionsToTxn v[45]",
        "not answered",
        r".*'results_by_transaction': \[\].*",
        "Kafka never answers an AddPartitionsToTxn of a broker that names no transaction, as it answers with the last one's result.",
    ),
    Known(
        r"WriteTxnMarkers v\d+( \(damaged\))?",
        "not answered",
        r".*'error_code': 3.*",
        "Kafka never answers a WriteTxnMarkers of several markers whose last names no partition that is there, behind one that does:"
        " it counts those that it passes over, and looks whether all are done where it has appended one. The simulator answers.",
    ),
    Known(
        r"Fetch v1[2-6] \(damaged\)|Fetch v1[2-6]",
        r"\{.*",
        "closed",
        "A tag that a later release gave to a field of Fetch (replica state, replica directory) is unknown to 3.4, which passes over"
        " it; the simulator's decoder knows the field and refuses it in a version that does not have it, as later releases do.",
        ("3.4",),
    ),
)


def explained(version: str, difference: Difference) -> Known | None:
    """The entry that explains every row of this difference."""
    found = None
    for where, real, simulated in difference.rows:
        found = next(
            (
                one
                for one in KNOWN
                if version in one.versions
                and re.fullmatch(one.path, where)
                and re.fullmatch(one.real, str(real), re.DOTALL)
                and re.fullmatch(one.simulated, str(simulated), re.DOTALL)
            ),
            None,
        )
        if found is None:
            return None
    return found
