"""New releases, more members, more partitions: in order, and with members that are killed where they should be closed."""

from __future__ import annotations

import uuid

from tests.incidents.kinds import healthy
from tests.incidents.stage import Stage

__all__ = ["KINDS"]

BETWEEN_S = (2, 5)


async def killed_rollout(stage: Stage) -> None:
    """Pods of a Deployment that end by SIGKILL, one after the other, each replaced by one with another name: sessions expire."""
    group = await stage.group(members=3, session_ms=6000, partitions=6)
    await stage.any_time(10, 25)
    old = list(group.members)
    with group.event("killed rollout", "each member killed (SIGKILL) and replaced by one with another client id, in turn",
                     clients=[one.options.client_id for one in old], session_ms=6000):  # fmt: skip
        for member in old:
            member.kill()
            await stage.any_time(0.2, 1)
            await group.add()
            await group.settled()
            await stage.any_time(*BETWEEN_S)
        await stage.pass_time(4)
    await stage.any_time(10, 15)


async def static_rollout(stage: Stage) -> None:
    """Pods of a StatefulSet that end by SIGKILL, one after the other, each back under its group.instance.id within its session."""
    group = await stage.group(members=0, session_ms=45_000, rate=20)
    for number in (1, 2, 3):
        await group.add(instance_id=f"{group.name}-i{number}")
    await group.settled()
    await stage.any_time(10, 25)
    with group.event("static rollout", "each static member killed (SIGKILL) and back within its session, in turn", healthy=True,
                     clients=[one.options.client_id for one in group.members]):  # fmt: skip
        for member in list(group.members):
            member.kill()
            await stage.any_time(0.3, 1)
            await group.again(member)
            await group.settled()
            await stage.any_time(*BETWEEN_S)
    await stage.any_time(10, 15)


async def scaled_at_once(stage: Stage) -> None:
    """As many members again, all at once."""
    group = await stage.group(members=2, partitions=6)
    await stage.any_time(10, 25)
    with group.event("scale out", "three members added at once", healthy=True):
        for _ in range(3):
            await group.add()
        await group.settled()
        await stage.any_time(5, 10)
    await stage.any_time(10, 20)


async def grown(stage: Stage) -> None:
    """A topic gets more partitions under a running group, whose members look for them every 3 s."""
    group = await stage.group(
        members=2, partitions=3, rate=15, metadata_ms=3000, clients=("aiokafka", "confluent")
    )  # a member of kafka-python may not answer to that rebalance
    await stage.any_time(15, 30)
    with group.event("topic grown", "its topic got more partitions", healthy=True, topic=group.topic) as event:
        event.detail["partitions"] = [group.partitions, 6]
        await group.grow(6)
    await stage.any_time(15, 25)


async def assignor_change(stage: Stage) -> None:
    """From the range assignor to the cooperative one in two rolling bounces: in the first one members offer both."""
    group = await stage.group(
        members=2, clients=("java",), rate=15
    )  # the other libraries refuse a client that offers both
    await stage.any_time(10, 15)
    with group.event(
        "assignor change", "two rolling bounces, from the range assignor to the cooperative one", healthy=True
    ):
        for assignor in ("both", "cooperative"):
            for member in group.living:
                await member.close()
                await group.again(member, assignor=assignor)
                await group.settled()
                await stage.any_time(2, 4)
    await stage.any_time(10, 15)


async def taken_over(stage: Stage) -> None:
    """Kill one of two members in its transaction: the other one gets its partitions, whose offsets are pending until it times out."""
    group = await stage.group(members=0, client="confluent", session_ms=6000)
    for number in (1, 2):
        await group.add(
            transaction={"id": f"tx-{uuid.uuid4().hex[:8]}", "timeout_ms": 30_000}, client_id=f"{group.name}-{number}"
        )
    await group.settled()
    await stage.any_time(15, 25)
    victim = stage.rng.choice(group.members)
    with group.event("hanging transaction", "SIGKILL of one of two members in its transaction; aborted by the coordinator",
                     client=victim.options.client_id, session_ms=6000, transactional_id=victim.options.transaction["id"],
                     timeout_ms=30_000):  # fmt: skip
        victim.tell("hang")
        await victim.did("hang")
        victim.kill()
        await group.settled()
        await stage.pass_time(40)
    await stage.any_time(5, 10)


KINDS = (killed_rollout, static_rollout, scaled_at_once, grown, assignor_change, taken_over, healthy.scale_out)
