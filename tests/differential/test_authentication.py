"""Some fixed seeds of random SASL requests beside real brokers; `python -m tests.differential.authentication` is the long run."""

from __future__ import annotations

import pytest

from tests.differential import authentication

SEEDS = range(60)


@pytest.mark.real_kafka
@pytest.mark.parametrize("version", authentication.RELEASES)
def test_sasl_requests_are_answered_as_by_the_real_broker(version: str) -> None:
    authentication.COUNTED.clear()
    assert authentication.differences(version, SEEDS) == {}
    assert authentication.COUNTED["closed"] > 10
    assert authentication.COUNTED.total() > 100
