"""Server-side assignors: pure functions from who subscribes to what, and has what, to who should have what."""

from __future__ import annotations

from collections.abc import Callable

from broker_sim.coordinator.assignors import range_assignor, uniform
from broker_sim.coordinator.assignors.model import Assigned, Subscribed

__all__ = ["ASSIGNORS", "Assigned", "Subscribed"]

ASSIGNORS: dict[str, Callable[[Subscribed], Assigned]] = {"uniform": uniform.assign, "range": range_assignor.assign}
"""Kafka's assignors of consumer groups by the names that ``group.consumer.assignors`` knows."""
