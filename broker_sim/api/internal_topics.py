"""When a cluster creates its internal topics: as Kafka at the first FindCoordinator that needs one, or at the start.

Kafka answers that first request COORDINATOR_NOT_AVAILABLE and clients ask again: librdkafka after a second, aiokafka with an error in
its log. A real cluster does so once in its life; a cluster of a test would do so in each test.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from broker_sim.metadata.topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_TOPIC

if TYPE_CHECKING:
    from broker_sim.metadata.cluster_state import ClusterState

__all__ = ["AT_START", "INTERNAL_TOPICS", "ON_DEMAND", "open_internal_topics"]

ON_DEMAND, AT_START = INTERNAL_TOPICS = ("on-demand", "at-start")

log = logging.getLogger("broker_sim")


def open_internal_topics(state: ClusterState, when: str) -> str | None:
    """Create the internal topics if ``when`` is AT_START. Why the offsets topic could never be created, without which no group works;
    None if it can be. Raises KafkaError where the disk takes none."""
    wanted = [OFFSETS_TOPIC, TRANSACTION_TOPIC, *([SHARE_STATE_TOPIC] if state.config.has_share_groups else [])]
    if (never := state.why_never(OFFSETS_TOPIC)) is not None:
        return never
    if (never := state.why_never(TRANSACTION_TOPIC)) is not None:
        log.warning("%s", never)
    for name in wanted if when == AT_START else ():
        if state.why_never(name) is None:
            state.ensure_internal_topic(name)
    return None
