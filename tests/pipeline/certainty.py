"""Whether the words of a finding's sentence agree with its certainty."""

from __future__ import annotations

import re

from broker_sim.pipeline.finding import Finding

__all__ = ["hedges"]

_HEDGES = re.compile(
    r"\b(?:probably|likely|possibly|perhaps|maybe|apparently|presumably|seems?|may|might|could have)\b", re.IGNORECASE
)


def hedges(finding: Finding) -> bool:
    """Whether a certain sentence has a word of doubt."""
    return finding.certainty == "certain" and _HEDGES.search(finding.text) is not None
