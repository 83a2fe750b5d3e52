"""The names that editors complete are those that the broker knows."""

from __future__ import annotations

from typing import get_args

from broker_sim.faults.rules import RuleKeys
from broker_sim.fields.kafka import ApiName, ErrorCode
from broker_sim.fields.names import ApiLiteral, ErrorLiteral
from kafka_wire.api_keys import API_NAMES
from kafka_wire.errors import Err


def test_every_api_and_error_is_there() -> None:
    assert list(get_args(ApiLiteral)) == list(API_NAMES)
    assert list(get_args(ErrorLiteral)) == list(Err.__members__)
    assert [ApiName(pattern=False).read(name) for name in get_args(ApiLiteral)] == list(API_NAMES)
    assert [ErrorCode(none=True).read(name) for name in get_args(ErrorLiteral)] == list(Err)


def test_arguments_have_them() -> None:
    assert all("ErrorLiteral" in str(RuleKeys.__annotations__[name]) for name in ("error", "error_after"))
