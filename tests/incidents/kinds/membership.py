"""Members that crash, are slow, fall out, or come and go without end."""

from __future__ import annotations

from tests.incidents.stage import Group, Stage, now_ms

__all__ = ["KINDS", "busy_while_one_joins"]

SESSION_MS = (6000, 8000, 10_000)


async def crash(stage: Stage) -> None:
    """kill -9 of one of several members; nobody starts it again."""
    session_ms = stage.rng.choice(SESSION_MS)
    group = await stage.group(members=stage.rng.choice((2, 3)), session_ms=session_ms)
    await stage.any_time(15, 50)
    victim = stage.rng.choice(group.members)
    with group.event(
        "crash", "SIGKILL of a member, not started again", client=victim.options.client_id, session_ms=session_ms
    ):
        victim.kill()
        await group.settled()
    await stage.any_time(15, 25)


async def crash_alone(stage: Stage) -> None:
    """kill -9 of the only member."""
    session_ms = stage.rng.choice(SESSION_MS)
    group = await stage.group(members=1, session_ms=session_ms)
    await stage.any_time(15, 50)
    victim = group.members[0]
    with group.event("crash", "SIGKILL of the only member", client=victim.options.client_id, session_ms=session_ms):
        victim.kill()
        await stage.empty(group)
    await stage.any_time(10, 25)


async def crash_restarted(stage: Stage) -> None:
    """kill -9 of a member, and a new process in its place a moment later, as a supervisor does."""
    session_ms = stage.rng.choice(SESSION_MS)
    group = await stage.group(members=stage.rng.choice((2, 3)), session_ms=session_ms)
    await stage.any_time(15, 50)
    victim = stage.rng.choice(group.members)
    with group.event(
        "crash", "SIGKILL of a member, started again soon", client=victim.options.client_id, session_ms=session_ms
    ):
        victim.kill()
        await stage.any_time(0.5, 3)
        await group.again(victim)
        await group.settled()
        await stage.pass_time(session_ms / 1000)  # so long the dead one is a member at most
    await stage.any_time(10, 20)


async def static_crash(stage: Stage) -> None:
    """A static member dies and is not back before its session ends."""
    group = await stage.group(members=0, session_ms=6000)
    for number in (1, 2):
        await group.add(instance_id=f"{group.name}-i{number}")
    await group.settled()
    await stage.any_time(15, 40)
    victim = group.members[0]
    with group.event("crash", "SIGKILL of a static member, back after its session's end", client=victim.options.client_id,
                     session_ms=6000, static=True):  # fmt: skip
        victim.kill()
        await group.settled()  # by the other one alone
        await stage.any_time(3, 8)
        await group.again(victim)
        await group.settled()
    await stage.any_time(10, 20)


async def slow_member(stage: Stage) -> None:
    """A member works on one record for long while another joins: the rebalance waits for it, and everybody with it."""
    await busy_while_one_joins(stage, await stage.group(members=2, max_poll_ms=90_000))


async def busy_while_one_joins(stage: Stage, group: Group) -> None:
    """aiokafka joins again behind its application's back: then nobody waits, and only what the busy member has stands still."""
    await stage.any_time(10, 30)
    busy_s = stage.rng.uniform(22, 40)
    slow = group.members[0]
    did = "a member was busy with one record while another one joined"
    with group.event("slow member", did, client=slow.options.client_id, busy_s=round(busy_s, 1)) as event:
        slow.tell("block", seconds=busy_s)
        await stage.pass_time(2)
        newcomer = await group.add()
        await slow.did("block")
        free_ms = now_ms()
        await group.settled()
        if newcomer.assigned_ms is not None and newcomer.assigned_ms < free_ms - 2000:
            event.kind, event.did = "stalled member", f"{did}, and the rebalance did not wait for it"
    await stage.any_time(10, 20)


async def poll_expiry(stage: Stage) -> None:
    """A member works longer than max.poll.interval.ms: its library leaves the group, and joins again when it polls."""
    group = await stage.group(members=2, max_poll_ms=10_000)
    await stage.any_time(15, 35)
    busy_s = stage.rng.uniform(18, 28)
    slow = stage.rng.choice(group.members)
    with group.event("poll expiry", "a member did not poll for longer than max.poll.interval.ms", client=slow.options.client_id,
                     busy_s=round(busy_s, 1), max_poll_ms=10_000):  # fmt: skip
        slow.tell("block", seconds=busy_s)
        await slow.did("block")
        await group.settled()
    await stage.any_time(10, 20)


async def storm(stage: Stage) -> None:
    """Members fall over and come back without end, so that the group goes from generation to generation."""
    rng = stage.rng
    group = await stage.group(members=3, session_ms=6000, max_poll_ms=20_000)
    await stage.any_time(10, 25)
    how = rng.choice(("restarts", "kills"))
    with group.event("storm", f"members came and went again and again ({how})", how=how):
        for _ in range(rng.randint(9, 13)):
            victim = rng.choice(group.living)
            if how == "kills":
                victim.kill()
            else:
                await victim.close()
            await stage.any_time(0.2, 2)
            await group.again(victim)
            await stage.any_time(2, 5)
        await group.settled()
    await stage.any_time(10, 15)


async def poison(stage: Stage) -> None:
    """One record kills each process that gets it; a supervisor starts them again, until somebody skips it."""
    rng = stage.rng
    group = await stage.group(members=2, session_ms=6000, dies_on="poison")
    await stage.any_time(15, 25)
    with group.event("poison", "a record killed every consumer that got it") as event:
        at = rng.randrange(group.partitions)
        event.detail |= {"topic": group.topic, "partition": at}
        stage.traffic(group.topic).extra.append((at, b"poison", event.detail))
        deaths = 0
        wanted = rng.randint(6, 8)
        while deaths < wanted:
            await stage.until(f"{group.name} to lose a member to the record", lambda: len(group.living) < 2, 60)
            dead = next(one for one in reversed(group.members) if not one.lives and not getattr(one, "buried", False))
            dead.buried = True  # type: ignore[attr-defined]
            deaths += 1
            await stage.any_time(0.5, 2)
            await group.again(dead)
        event.detail["deaths"] = deaths
        for member in group.living:  # a release that skips it
            member.kill()
        for member in [one for one in group.members if not one.lives][-2:]:
            await group.again(member, dies_on=None)
        await group.settled()
    await stage.any_time(10, 15)


KINDS = (crash, crash_alone, crash_restarted, static_crash, slow_member, poll_expiry, storm, poison)
