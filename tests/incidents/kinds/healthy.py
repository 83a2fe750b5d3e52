"""Events that look like trouble and are none: no finding about them may be more than a note."""

from __future__ import annotations

from tests.incidents.stage import Stage

__all__ = ["KINDS"]


async def quiet(stage: Stage) -> None:
    """A record now and then, for as long as the play lasts."""
    group = await stage.group(members=stage.rng.choice((1, 2)), rate=stage.rng.uniform(0.05, 0.4))
    with group.event("quiet", "few records", healthy=True):
        await stage.any_time(70, 90)


async def busy(stage: Stage) -> None:
    """Records all the time, and nothing else."""
    group = await stage.group(members=2, rate=25)
    with group.event("busy", "records all the time", healthy=True):
        await stage.any_time(70, 90)


async def same_offset(stage: Stage) -> None:
    """Commits the same offset each second, as Java's auto-commit does at night."""
    group = await stage.group(members=1, rate=10)
    await stage.any_time(8, 12)
    with group.event("same offset", "no more records, but the same commits again and again", healthy=True):
        stage.traffic(group.topic).rate = 0
        group.members[0].tell("again", on=True)
        await stage.any_time(50, 75)
    stage.traffic(group.topic).rate = 10
    await stage.any_time(8, 12)


async def nothing_to_commit(stage: Stage) -> None:
    """Nothing is written for a minute or more, so nothing is committed; then it goes on."""
    group = await stage.group(members=2, rate=10)
    await stage.any_time(8, 12)
    with group.event("nothing to commit", "no records, so no commits", healthy=True):
        stage.traffic(group.topic).rate = 0
        await stage.any_time(50, 75)
    stage.traffic(group.topic).rate = 10
    await stage.any_time(8, 12)


async def orderly_end(stage: Stage) -> None:
    """Consumers close in order, one after the other, while their producers go on."""
    group = await stage.group(members=2)
    await stage.any_time(20, 40)
    with group.event("orderly end", "all members closed; records are still written", healthy=True):
        for member in group.members:
            await member.close()
            await stage.any_time(0, 3)
        await stage.any_time(25, 35)


async def rolling_restart(stage: Stage) -> None:
    """Each member is closed and started again, one after the other."""
    group = await stage.group(members=3)
    await stage.any_time(10, 25)
    with group.event("rolling restart", "each member closed and started again, in turn", healthy=True):
        for member in list(group.members):
            await member.close()
            await group.again(member)
            await group.settled()
            await stage.any_time(2, 5)
    await stage.any_time(10, 15)


async def cooperative_restart(stage: Stage) -> None:
    """The same with cooperative assignment: commits may fail in passing, nothing is lost."""
    group = await stage.group(
        members=3, clients=("confluent", "kafka-python"), assignor="cooperative", rate=20, commit_ms=200
    )
    await stage.any_time(10, 25)
    with group.event(
        "cooperative restart", "each member closed and started again, in turn, cooperatively", healthy=True
    ):
        for member in list(group.members):
            await member.close()
            await stage.any_time(0, 1)
            await group.again(member)
            await group.settled()
            await stage.any_time(2, 5)
    await stage.any_time(10, 15)


async def scale_out(stage: Stage) -> None:
    """Members are added one by one."""
    group = await stage.group(members=1, partitions=6)
    await stage.any_time(10, 25)
    with group.event("scale out", "members added one by one", healthy=True):
        for _ in range(3):
            await group.add()
            await group.settled()
            await stage.any_time(1, 4)
    await stage.any_time(15, 25)


async def static_bounce(stage: Stage) -> None:
    """A static member is killed and back long before its session ends."""
    group = await stage.group(members=0, session_ms=45_000, rate=20)
    for number in (1, 2):
        await group.add(instance_id=f"{group.name}-i{number}")
    await group.settled()
    await stage.any_time(15, 35)
    victim = stage.rng.choice(group.members)
    with group.event("static bounce", "a static member was killed and started again within its session", healthy=True,
                     client=victim.options.client_id):  # fmt: skip
        victim.kill()
        await stage.any_time(0.5, 2)
        await group.again(victim)
        await group.settled()
    await stage.any_time(15, 25)


async def redeployed(stage: Stage) -> None:
    """All members are closed at once, and a new release starts a moment later."""
    group = await stage.group(members=2)
    await stage.any_time(15, 35)
    with group.event("redeployed", "all members closed, and started again", healthy=True):
        await group.close()
        await stage.any_time(1, 6)
        for member in list(group.members):
            await group.again(member)
        await group.settled()
    await stage.any_time(15, 20)


KINDS = (
    *(quiet, busy, same_offset, nothing_to_commit, orderly_end, rolling_restart, cooperative_restart, scale_out),
    *(static_bounce, redeployed),
)
