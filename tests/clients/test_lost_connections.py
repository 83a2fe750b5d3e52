"""The matrix asserts that no client lost a connection; here each client is shown to say so when it does lose one."""

from __future__ import annotations

import re

import pytest

from tests.clients.clients import CLIENTS, Client, marks
from tests.clients.driver import eventually
from tests.clients.relay import CuttingRelay
from tests.clients.rig import Garage
from tests.clients.scenarios import Lab


@pytest.mark.parametrize("client", [pytest.param(c, id=c.name, marks=marks(c)) for c in CLIENTS])
def test_a_lost_connection_shows_in_the_clients_log(client: Client, garage: Garage) -> None:
    with CuttingRelay(garage.target.bootstrap.split(",")[0], cut=2) as relay:
        driver = garage.new(client, relay.address)
        lab = Lab(client, driver, lambda: driver)
        try:
            driver.send("create_topic", topic=lab.name("t"), partitions=1)
            eventually("a connection is cut", lambda: relay.cuts_done)
            eventually("the client says so", driver.log, re.compile(client.closed_log).search)
        finally:
            driver.close()
