"""Each client reaches three brokers through port forwardings, whose addresses are advertised after the start, and by no other way."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from broker_sim import ClusterThread
from tests.clients.clients import CLIENTS, Client, marks
from tests.clients.relay import CuttingRelay
from tests.clients.rig import BROKER_CONFIG, Garage
from tests.clients.scenarios import Lab, of


@pytest.mark.parametrize("client", [pytest.param(c, id=c.name, marks=marks(c)) for c in CLIENTS])
def test_a_client_works_through_forwarded_ports(client: Client, garage: Garage) -> None:
    with ExitStack() as stack:
        kafka = stack.enter_context(ClusterThread(brokers=3, config=BROKER_CONFIG, journal=True))
        bound = {broker.node_id: broker.endpoint("PLAINTEXT")[1:3] for broker in kafka.brokers}
        relays = {
            node: stack.enter_context(CuttingRelay(f"{host}:{port}", cut=0)) for node, (host, port) in bound.items()
        }
        for node, relay in relays.items():
            kafka.broker(node).advertise(relay.address)
        driver = garage.new(client, relays[1].address)
        lab = Lab(client, driver, lambda: driver)
        try:
            topic, group = lab.topic(3), lab.group()
            member = lab.member(group=group, topics=[topic])
            member.owns(of(topic, 0, 1, 2))
            member.reads(lab.fill(topic, 3, 2, "forwarded"))
            member.commit("sync")
            assert lab.committed(group, topic, 3) == {0: 2, 1: 2, 2: 2}
            member.leave()
        finally:
            driver.close()
        opened = [event for event in kafka.journal.events if event["event"] == "connection"]
        assert all(relay.relayed for relay in relays.values())
        assert len([event for event in opened if event["action"] == "opened"]) <= sum(
            relay.relayed for relay in relays.values()
        )
