"""Faults that the steps of a scenario set and did not clear; on a cluster that outlives the scenario, they are cleared at its end.

Faults are cleared: states of logs, rules, holds, recordings, brokers that are down. What happened is not undone: leaders that moved,
records, topics, partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster
    from broker_sim.faults.conditions import PartitionFault
    from broker_sim.faults.order import Hold
    from broker_sim.faults.recorded import Recording, Replay
    from broker_sim.faults.registry import Fault

__all__ = ["Undo"]


class Undo:
    """The faults that a scenario has added to ``kafka``."""

    def __init__(self, kafka: Cluster) -> None:
        self._kafka = kafka
        self.rules: list[Fault] = []
        self._states: list[PartitionFault] = []
        self._order: list[Hold | Recording | Replay] = []
        self._down: set[int] = set()

    def note(self, name: str, params: Mapping[str, Any], answer: Any) -> None:
        """Remember what the operation ``name`` did, by its answer."""
        kafka = self._kafka
        if name == "fault.add":
            self.rules.append(kafka.faults.get(answer["id"]))
        elif name == "state.set" and params["state"] != "online":
            self._states.append(kafka.conditions.get(answer["states"][-1]["id"]))
        elif name == "order.hold":
            self._order.append(kafka.order.holds[-1])
        elif name == "order.record":
            self._order.append(kafka.order.recordings[-1])
        elif name == "order.replay" and kafka.order.replaying is not None:
            self._order.append(kafka.order.replaying)
        elif name == "broker.down":
            self._down.add(answer["broker"])

    async def clear(self) -> None:
        """Clear what is still in force. Raises OSError where a broker's port is taken."""
        for rule in self.rules:
            rule.remove()
        for held in self._order:
            held.end()
        for state in self._states:
            self._kafka.conditions.heal(state)
        for node_id in sorted(self._down):
            if not self._kafka.state.brokers[node_id].alive:
                await self._kafka.broker_up(node_id)
