"""What the simulator does not have is refused in a way that the client can tell its user."""

from __future__ import annotations

import re

import pytest

from tests.clients.clients import CLIENTS
from tests.clients.rig import TARGET, Garage
from tests.clients.scenarios import Lab

(JAVA,) = (client for client in CLIENTS if client.name == "java-4.1")


@pytest.mark.skipif(not TARGET.startswith(("sim", "disk")), reason="a real broker may have the feature")
@pytest.mark.clients
def test_the_new_consumer_protocol_is_named_as_missing(garage: Garage) -> None:
    driver = garage.driver(JAVA)
    lab = Lab(JAVA, driver, lambda: driver)
    try:
        member = lab.member(group=lab.group(), topics=[lab.topic(1)], config={"group.protocol": "consumer"})
        member.fails(re.compile("does not support the new CONSUMER group protocol").search)
        assert member.assignment() == set()
    finally:
        lab.close()
