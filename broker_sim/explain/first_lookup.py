"""The FindCoordinator that creates ``__consumer_offsets``: Kafka answers it COORDINATOR_NOT_AVAILABLE, and clients ask again.

Rules:
1. It is the first one for a group in a journal that begins with its cluster, if the broker refused it by itself: a rule of a fault
   answers in its place.
2. A journal that has shown a partition of ``__consumer_offsets``, or a coordinator that was found, shows that the topic exists.
3. A second one that is refused is no such step.
"""

from __future__ import annotations

from broker_sim.explain.events import Event, number, text
from broker_sim.explain.model import History

__all__ = ["FirstLookup"]

_OFFSETS = "__consumer_offsets-"
_REFUSED = "COORDINATOR_NOT_AVAILABLE"


class FirstLookup:
    """Reads the journal, event by event, until the topic exists; then the call is marked ``creates_topic``."""

    def __init__(self) -> None:
        self._over = False
        self._asked: set[int] = set()
        self._by_rule: set[int] = set()

    def take(self, event: Event, past: History) -> None:
        """An event of any kind, after ``past`` has taken it."""
        if self._over:
            return
        kind, request = event.get("event"), number(event, "request") or 0
        if past.begins_in_the_middle or (text(event, "log") or "").startswith(_OFFSETS):
            self._over = True
        elif kind == "request" and event.get("api") == "FindCoordinator" and text(event, "group") is not None:
            self._asked.add(request)
        elif kind == "fault":
            self._by_rule.add(request)
        elif kind == "response" and request in self._asked - self._by_rule and "action" not in event:
            self._over = True
            if text(event, "error") == _REFUSED:
                for call in past.calls:
                    call.creates_topic = call.creates_topic or call.request == request
