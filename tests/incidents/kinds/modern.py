"""Groups of type consumer (KIP-848): what is done to them, and traps beside it. Sessions are the broker's, here 8 s."""

from __future__ import annotations

from tests.incidents.kinds import healthy, membership, offsets
from tests.incidents.stage import Stage

__all__ = ["KINDS"]


async def slow_member(stage: Stage) -> None:
    """A member that works on one record does not give back what another one is to have: the group reconciles for long."""
    await membership.busy_while_one_joins(stage, await stage.group(members=1, max_poll_ms=90_000, partitions=4))


async def static_bounce(stage: Stage) -> None:
    """A static member is closed and back within the session. Killed, it would be shut out until then (UNRELEASED_INSTANCE_ID)."""
    group = await stage.group(members=0, rate=20, clients=("confluent",))  # starts quickly
    for number in (1, 2):
        await group.add(instance_id=f"{group.name}-i{number}")
    await group.settled()
    await stage.any_time(15, 35)
    bounced = stage.rng.choice(group.members)
    with group.event(
        "static bounce",
        "a static member was closed and started again within the session",
        healthy=True,
        client=bounced.options.client_id,
    ):
        await bounced.close()
        await group.again(bounced)
        await group.settled()
    await stage.any_time(15, 25)


async def static_crash(stage: Stage) -> None:
    """A static member is killed: its successor is shut out until the session ends."""
    group = await stage.group(members=0, rate=20)
    for number in (1, 2):
        await group.add(instance_id=f"{group.name}-i{number}")
    await group.settled()
    await stage.any_time(15, 35)
    victim = stage.rng.choice(group.members)
    with group.event(
        "crash", "SIGKILL of a static member, started again at once", client=victim.options.client_id, static=True
    ):
        victim.kill()
        await group.again(victim)
        await group.settled()
        await stage.pass_time(2)
    await stage.any_time(15, 25)


KINDS = (
    *(
        membership.crash,
        membership.crash_restarted,
        slow_member,
        membership.poll_expiry,
        membership.storm,
        membership.poison,
    ),
    *(offsets.reset, offsets.rewind, offsets.group_deletion),
    *(healthy.rolling_restart, healthy.redeployed, healthy.quiet, healthy.orderly_end, static_bounce, static_crash),
)
