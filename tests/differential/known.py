"""Differences that stay: where the simulator answers otherwise on purpose, and why. docs/differential.md tells them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.differential.play import Difference


@dataclass(frozen=True)
class Known:
    """Differences whose first row is at `path` (a regular expression over `Api v5.field`), of values that match."""

    path: str
    real: str
    simulated: str
    reason: str
    versions: tuple[str, ...] = ("3.4", "3.9", "4.1", "4.4")


KNOWN: tuple[Known, ...] = (
    Known(
        r"ApiVersions v\d+\.api_keys\[\d+\]\.(min|max)_version",
        r"\d+",
        r"\d+",
        "The simulator shows the versions that it serves: not Produce v0-2 and Fetch v0-3 of 3.x, whose record formats it does"
        " not keep, nor the newest versions of some APIs of 4.2 and later (docs/coverage.md).",
    ),
    Known(
        r"Produce v\d+",
        "not answered",
        ".*'error_code': 87.*|closed",
        "Kafka never answers a Produce whose records are null; the simulator refuses it with INVALID_RECORD.",
    ),
    Known(
        r"AlterConfigs v\d+",
        "not answered",
        ".*Each resource must appear at most once.*",
        "Kafka never answers an AlterConfigs that names nothing but the same resource twice; the simulator refuses it as"
        " IncrementalAlterConfigs does.",
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
