"""Received requests over HTTP and on the command line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kafka_wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from tests.control.outside import Brokers, Outside
from tests.support.wire import Wire


async def test_requests_are_listed_and_waited_for(cluster: Brokers) -> None:
    bootstrap = cluster.bootstrap
    assert await cluster.do("request.list", api="LeaveGroup") == {"requests": [], "received": 0}
    wire = await Wire.connect(bootstrap, client_id="app-1")
    for member in ("a", "b"):
        await wire.send(LeaveGroupRequest(group_id="billing", members=[MemberIdentity(member, None)]), 4)
    await wire.close()
    answer = await cluster.do("request.wait", api="LeaveGroup", client_id="app-1", count=2, answered=True, limit=1)
    assert answer["received"] == 2
    [last] = answer["requests"]
    assert (last["api"], last["version"], last["client_id"], last["group"]) == ("LeaveGroup", 4, "app-1", "billing")
    assert (last["answered"], last["body"]["members"][0]["member_id"]) == (True, "b")
    assert "members" in last["answer"]
    refused = await cluster.refused("request.wait", api="LeaveGroup", client_id="other", timeout="10ms")
    assert refused.status == 408
    assert (await cluster.refused("request.list", api="LeavGroup")).status == 400
    assert (await cluster.refused("request.list", client="app-1")).status == 400


def test_the_command_prints_a_line_for_each_request(outside: Callable[..., Outside]) -> None:
    kafka = outside("--topic", "orders:2", "--clock", "manual")
    assert kafka.run("request", "list", "LeaveGroup").stdout == "no such request was received\n"

    async def leave_twice() -> None:
        wire = await Wire.connect(kafka.bootstrap, client_id="app-1")
        for _ in range(2):
            await wire.send(LeaveGroupRequest(group_id="billing", members=[MemberIdentity("a", None)]), 4)
        await wire.close()

    asyncio.run(leave_twice())
    lines = kafka.run("request", "wait", "LeaveGroup", "--client-id", "app-*", "--count", "2").stdout.splitlines()
    assert len(lines) == 2
    assert lines[0].endswith(" LeaveGroup v4 of app-1, group billing, member a: NOT_COORDINATOR after 0 ms")
    assert kafka.run("request", "list", "LeaveGroup", "--limit", "1").stdout.startswith(
        "... 1 earlier ones: --limit N\n"
    )
