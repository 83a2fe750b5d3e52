"""One group whose members are different clients: they must understand each other's metadata through the coordinator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.clients.clients import CLIENTS, Client
from tests.clients.driver import Member, eventually
from tests.clients.rig import Garage
from tests.clients.scenarios import SHORT_SESSION_MS, Lab, of, share_out

pytestmark = [pytest.mark.clients, pytest.mark.timeout(600)]  # may have to build every driver first


@pytest.fixture
def labs(garage: Garage) -> Iterator[dict[str, Lab]]:
    """Client name -> its lab."""

    def lab_of(client: Client) -> Lab:
        return Lab(client, garage.driver(client), lambda: garage.new(client))

    labs = {client.name: lab_of(client) for client in CLIENTS}
    yield labs
    for lab in labs.values():
        lab.close()


def all_read_once(members: list[Member], values: list[str]) -> None:
    expected = Counter(values)
    eventually(
        "every record is read by exactly one member",
        lambda: Counter(value for member in members for value in member.values()),
        expected.__eq__,
    )


def test_clients_of_every_language_share_a_range_group(labs: dict[str, Lab]) -> None:
    first = labs["java-3.4"]
    count = 2 * len(labs)
    topic, group = first.topic(count), first.group()
    members = [lab.member(group=group, topics=[topic]) for lab in labs.values()]
    owned = share_out(members, of(topic, *range(count)))
    assert [len(mine) for mine in owned] == [2] * len(labs)
    all_read_once(members, first.fill(topic, count, 3))
    described = labs["java-4.1"].driver.call("describe_group", group=group)
    assert sorted(member["client_id"] for member in described["members"]) == sorted(member.name for member in members)


def test_a_crash_in_one_language_is_noticed_in_the_others(labs: dict[str, Lab]) -> None:
    first = labs["java-4.1"]
    topic, group = first.topic(6), first.group()
    options: dict[str, Any] = {"group": group, "topics": [topic], "session_timeout_ms": SHORT_SESSION_MS}
    victim = labs["aiokafka"].process()
    members = [labs[name].member(**options) for name in ("java-4.1", "franz-go")]
    crashed = labs["aiokafka"].member(victim, **options)
    share_out([*members, crashed], of(topic, *range(6)))
    victim.crash()
    share_out(members, of(topic, *range(6)))
    all_read_once(members, first.fill(topic, 6, 2))


def test_clients_share_a_cooperative_group(labs: dict[str, Lab]) -> None:
    able = {name: lab for name, lab in labs.items() if "cooperative-sticky" not in lab.client.cannot}
    count = 2 * len(able)
    first = able["java-4.1"]
    topic, group = first.topic(count), first.group()
    members = [lab.member(group=group, topics=[topic], strategy="cooperative-sticky") for lab in able.values()]
    share_out(members, of(topic, *range(count)))
    all_read_once(members, first.fill(topic, count, 3))
