"""DescribeClientQuotas (KIP-546) where there are no quotas: which filters are valid."""

from __future__ import annotations

import pytest

from kafka_wire.messages.k48_describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from tests.conformance.driver import Kafka

pytestmark = pytest.mark.generations("3.4", "4.1", "4.4")

EXACT, DEFAULT, SPECIFIED = range(3)
USER = ComponentData("user", EXACT, "alice")
CLIENT = ComponentData("client-id", EXACT, "app")
ADDRESS = ComponentData("ip", EXACT, "127.0.0.1")
FILTERS: dict[str, list[ComponentData]] = {
    "none": [],
    "user": [USER],
    "empty_user": [ComponentData("user", EXACT, "")],
    "default_user": [ComponentData("user", DEFAULT, None)],
    "any_user": [ComponentData("user", SPECIFIED, None)],
    "user_and_client": [USER, CLIENT],
    "address": [ADDRESS],
    "address_that_is_none": [ComponentData("ip", EXACT, "not an address")],
    "default_address": [ComponentData("ip", DEFAULT, None)],
    "address_and_user": [ADDRESS, USER],
    "client_and_address": [CLIENT, ADDRESS],
    "any_address_and_any_user": [ComponentData("ip", SPECIFIED, None), ComponentData("user", SPECIFIED, None)],
    "empty_type": [ComponentData("", EXACT, "alice")],
    "unknown_type": [ComponentData("group", EXACT, "alice")],
    "type_in_capitals": [ComponentData("USER", EXACT, "alice")],
    "user_twice": [USER, ComponentData("user", SPECIFIED, None)],
    "unknown_type_twice": [ComponentData("group", EXACT, "a"), ComponentData("group", EXACT, "a")],
    "exact_without_match": [ComponentData("user", EXACT, None)],
    "default_with_match": [ComponentData("user", DEFAULT, "alice")],
    "any_with_match": [ComponentData("client-id", SPECIFIED, "app")],
    "any_with_empty_match": [ComponentData("client-id", SPECIFIED, "")],
    "unknown_match": [ComponentData("user", 3, None)],
    "negative_match": [ComponentData("user", -1, "alice")],
    "invalid_before_unknown": [ComponentData("user", EXACT, None), ComponentData("group", EXACT, "a")],
    "address_and_user_and_unknown": [ADDRESS, USER, ComponentData("group", EXACT, "a")],
}


@pytest.mark.parametrize("strict", [False, True], ids=["loose", "strict"])
@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("name", FILTERS)
async def test_filter_of_client_quotas(kafka: Kafka, name: str, version: int, strict: bool) -> None:
    await kafka.ask(DescribeClientQuotasRequest(FILTERS[name], strict), version)
