"""Access rules: there is no authorizer, and the answers are those of a broker that has none."""

from __future__ import annotations

from typing import Any

import pytest

from broker_sim import Cluster
from kafka_wire.errors import Err
from kafka_wire.messages.k29_describe_acls import DescribeAclsRequest
from kafka_wire.messages.k30_create_acls import AclCreation, CreateAclsRequest
from kafka_wire.messages.k31_delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tests.support.ctx import Sim
from tests.support.wire import Wire

RULE = AclCreation(2, "t", 3, "User:a", "*", 3, 3)
FILTER = DeleteAclsFilter(2, "t", 3, None, None, 1, 1)
VERSIONS = (0, 1, 2, 3)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_question_is_answered_with_security_disabled(version: int) -> None:
    sim = Sim(as_version="3.4")
    answer = sim.call(DescribeAclsRequest(1, None, 3, None, None, 1, 1), version)
    told = (answer.error_code, answer.error_message, answer.resources)
    assert told == (Err.SECURITY_DISABLED, "No Authorizer is configured on the broker", [])
    created = sim.call(CreateAclsRequest([RULE, RULE]), version).results
    deleted = sim.call(DeleteAclsRequest([FILTER]), version).filter_results
    for one in (*created, *deleted):
        assert (one.error_code, one.error_message) == (Err.SECURITY_DISABLED, "No Authorizer is configured.")
    assert (len(created), len(deleted)) == (2, 1)


@pytest.mark.parametrize(
    "request_",
    [
        DescribeAclsRequest(0, None, 3, None, None, 1, 1),
        CreateAclsRequest([RULE, AclCreation(2, "t", 3, "User:a", "*", 0, 3)]),
        DeleteAclsRequest([DeleteAclsFilter(2, "t", 3, None, None, 1, 0)]),
    ],
    ids=["describe", "create", "delete"],
)
async def test_a_number_that_the_client_did_not_know_costs_the_connection(request_: Any) -> None:
    async with Cluster() as cluster:
        wire = await Wire.connect(cluster.bootstrap)
        with pytest.raises(ConnectionError):
            await wire.send(request_, 3)
        await wire.close()
