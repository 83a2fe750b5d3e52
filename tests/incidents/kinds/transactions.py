"""Offsets that are committed in transactions."""

from __future__ import annotations

import uuid

from tests.incidents.stage import Stage

__all__ = ["KINDS"]

LONG_MS = 900_000
"""transaction.max.timeout.ms by default: so long a transaction may stay open."""


def _name() -> str:
    return f"tx-{uuid.uuid4().hex[:8]}"


async def hanging(stage: Stage) -> None:
    """A process dies in its transaction, and its successor has another transactional.id: nobody ends the transaction for long."""
    group = await stage.group(
        members=1, client="confluent", session_ms=6000, transaction={"id": _name(), "timeout_ms": LONG_MS}
    )
    await stage.any_time(15, 30)
    victim = group.members[0]
    with group.event("hanging transaction", "SIGKILL of a process in its transaction; its transactional.id does not come back",
                     transactional_id=victim.options.transaction["id"]):  # fmt: skip
        victim.tell("hang")
        await victim.did("hang")
        victim.kill()
        await stage.empty(group)
        if stage.rng.random() < 0.5:
            await group.again(victim, transaction={"id": _name(), "timeout_ms": LONG_MS})
        await stage.any_time(40, 50)


async def timed_out(stage: Stage) -> None:
    """The same, but the coordinator aborts it after transaction.timeout.ms; meanwhile its offsets can't be read as stable."""
    group = await stage.group(
        members=1, client="confluent", session_ms=6000, transaction={"id": _name(), "timeout_ms": 30_000}
    )
    await stage.any_time(15, 30)
    victim = group.members[0]
    with group.event("hanging transaction", "SIGKILL of a process in its transaction; aborted by the coordinator",
                     transactional_id=victim.options.transaction["id"], timeout_ms=30_000):  # fmt: skip
        victim.tell("hang")
        await victim.did("hang")
        victim.kill()
        await group.again(victim, transaction={"id": _name(), "timeout_ms": 30_000})
        await group.settled()
        await stage.pass_time(45)
    await stage.any_time(5, 10)


async def orderly(stage: Stage) -> None:
    """Transactions all the time; some are aborted, as it happens."""
    abort_every = stage.rng.choice((0, 3, 5))
    group = await stage.group(members=1, client="confluent", rate=15,
                              transaction={"id": _name(), "timeout_ms": 60_000, "abort_every": abort_every})  # fmt: skip
    with group.event(
        "transactions", f"transactions, each {abort_every}th aborted" if abort_every else "transactions", healthy=True
    ):
        await stage.any_time(60, 75)


async def fenced(stage: Stage) -> None:
    """A process dies in its transaction, and its successor has the same transactional.id: it aborts what was left open."""
    transaction = {"id": _name(), "timeout_ms": 60_000}
    group = await stage.group(members=0, client="confluent", session_ms=45_000, transaction=transaction)
    await group.add(instance_id=f"{group.name}-i1")
    await group.settled()
    await stage.any_time(15, 30)
    victim = group.members[0]
    with group.event("restart in transaction", "SIGKILL in a transaction; its successor ends it", healthy=True):
        victim.tell("hang")
        await victim.did("hang")
        victim.kill()
        await group.again(victim)
        await group.settled()
    await stage.any_time(15, 20)


KINDS = (hanging, timed_out, orderly, orderly, fenced)
