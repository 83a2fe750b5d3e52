"""Bugs to be found: each a patch of the production code."""

from __future__ import annotations

import pytest

from broker_sim.coordinator.outcome import Outcome
from broker_sim.coordinator.shard import Shard
from broker_sim.coordinator.store import GroupStore


def commits_are_not_loaded(patch: pytest.MonkeyPatch) -> None:
    """A coordinator that starts from its log forgets all offsets."""
    start = Shard.start

    def forgetful(shard: Shard, store: GroupStore, now_ms: int) -> Outcome:
        for group in store.groups.values():
            group.offsets.clear()
        return start(shard, store, now_ms)

    patch.setattr(Shard, "start", forgetful)


LOST = (
    "invariant: a loaded coordinator matches its log",
    "invariant: acknowledged commits are never lost or regressed",
    "invariant: the log matches the coordinator's state",
    "not alive: lag",
    "unsafe: lost commit",
)
"""Failures by which the planted bug is found."""
