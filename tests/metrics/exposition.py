"""Prometheus' text format, read back."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

__all__ = ["Sample", "samples"]

Sample = tuple[str, tuple[tuple[str, str], ...]]
"""A name with its labels, sorted."""


def samples(text: str) -> dict[Sample, float]:
    """The samples of a scrape."""
    families = text_string_to_metric_families(text)
    return {(one.name, tuple(sorted(one.labels.items()))): one.value for family in families for one in family.samples}
