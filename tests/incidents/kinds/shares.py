"""Share groups (KIP-932): records that come back, are given up, or are not given back in time; and traps beside it.

Locks are the broker's, here 4 s; a record is delivered five times at most.
"""

from __future__ import annotations

from typing import Any

from tests.incidents.kinds import healthy, membership
from tests.incidents.stage import Group, Stage

__all__ = ["CONFIG", "KINDS"]

LOCK_MS = 4000
CONFIG = {
    "group.coordinator.rebalance.protocols": "classic,consumer,share",
    "group.share.record.lock.duration.ms": LOCK_MS,
    "group.share.min.record.lock.duration.ms": 1000,
    "group.share.session.timeout.ms": 8000,
    "group.share.min.session.timeout.ms": 5000,
    "group.share.heartbeat.interval.ms": 1500,
    "group.share.min.heartbeat.interval.ms": 1000,
    "share.coordinator.state.topic.num.partitions": 3,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
}


def _write(stage: Stage, group: Group, value: bytes, detail: dict[str, Any]) -> None:
    """A record among the others; its place is put into ``detail``."""
    detail["partition"] = stage.rng.randrange(group.partitions)
    stage.traffic(group.topic).extra.append((detail["partition"], value, detail))


async def lock_expiry(stage: Stage) -> None:
    """A member works on one record for longer than its locks last: what it holds is given to others, and it is refused."""
    group = await stage.group(members=2, rate=20)
    await stage.any_time(15, 35)
    busy_s = stage.rng.uniform(9, 16)
    slow = stage.rng.choice(group.members)
    with group.event("lock expiry", "a member worked on one record for longer than its locks last",
                     client=slow.options.client_id, busy_s=round(busy_s, 1), lock_ms=LOCK_MS):  # fmt: skip
        slow.tell("block", seconds=busy_s)
        await slow.did("block")
    await stage.any_time(10, 20)


async def given_up(stage: Stage) -> None:
    """An application releases a record whenever it gets it: after five deliveries the group is rid of it."""
    group = await stage.group(members=2, rate=15)
    await stage.any_time(15, 30)
    with group.event("given up", "a record was released at each delivery", topic=group.topic) as event:
        _write(stage, group, b"broken", event.detail)
        await stage.any_time(15, 20)
    await stage.any_time(5, 15)


async def retried(stage: Stage) -> None:
    """An application releases a record once, and takes it the second time."""
    group = await stage.group(members=2, rate=15)
    await stage.any_time(10, 25)
    with group.event("retried once", "some records were released at their first delivery", healthy=True):
        for _ in range(stage.rng.randint(2, 5)):
            _write(stage, group, b"retry", {})
            await stage.any_time(2, 6)
    await stage.any_time(10, 15)


async def rejected(stage: Stage) -> None:
    """An application rejects a record: it is none of its business, and gone."""
    group = await stage.group(members=2, rate=15)
    await stage.any_time(10, 25)
    with group.event("rejected", "some records were rejected by the application", healthy=True):
        for _ in range(stage.rng.randint(1, 3)):
            _write(stage, group, b"bad", {})
            await stage.any_time(2, 6)
    await stage.any_time(10, 15)


async def quiet(stage: Stage) -> None:
    """A record now and then."""
    group = await stage.group(members=1, rate=stage.rng.uniform(0.3, 0.8))
    with group.event("quiet", "few records", healthy=True):
        await stage.any_time(50, 70)


async def crash_holding(stage: Stage) -> None:
    """kill -9 of a member that holds locks: its session runs out, and its records go to the other one."""
    group = await stage.group(members=2, rate=20)
    await stage.any_time(15, 35)
    victim = stage.rng.choice(group.members)
    with group.event("crash", "SIGKILL of a member that held locks", client=victim.options.client_id, session_ms=8000):
        victim.tell("block", seconds=60)
        await stage.any_time(1, 2)
        victim.kill()
        await stage.pass_time(10)
    await stage.any_time(15, 20)


KINDS = (
    *(lock_expiry, given_up, crash_holding, membership.crash_restarted, retried, rejected),
    *(quiet, healthy.busy, healthy.rolling_restart, healthy.redeployed, healthy.orderly_end),
)
