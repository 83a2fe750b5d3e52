"""The handles of a `ClusterThread`, for annotations and for type checkers: the asyncio ones' names and methods, without the awaits.

    from broker_sim.sync import GroupHandle

    def billed(group: GroupHandle) -> None:
        group.committed_at_least("orders", 0, 100)

sync.pyi, which is generated from the asyncio classes, declares them; ``blocking`` implements them.
"""

from __future__ import annotations

from broker_sim.api.blocking import FACES

__all__ = list(FACES)
globals().update(FACES)
