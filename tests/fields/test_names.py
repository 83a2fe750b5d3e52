"""The names that editors complete are those that the broker knows."""

from __future__ import annotations

from typing import get_args

import pytest

from broker_sim.api.cluster_options import Options, Release
from broker_sim.common.text import UsageError
from broker_sim.config.settings import parse_release
from broker_sim.faults.rules import RuleKeys
from broker_sim.fields.kafka import ApiName, ErrorCode
from broker_sim.fields.names import ApiLiteral, ErrorLiteral, ReleaseLiteral
from kafka_wire.api_keys import API_NAMES
from kafka_wire.errors import Err


def test_every_api_and_error_is_there() -> None:
    assert list(get_args(ApiLiteral)) == list(API_NAMES)
    assert list(get_args(ErrorLiteral)) == list(Err.__members__)
    assert [ApiName(pattern=False).read(name) for name in get_args(ApiLiteral)] == list(API_NAMES)
    assert [ErrorCode(none=True).read(name) for name in get_args(ErrorLiteral)] == list(Err)


def test_every_release_is_there() -> None:
    releases = get_args(ReleaseLiteral)
    assert [Release().read(name) for name in releases] == list(releases)
    assert sorted(releases, key=parse_release) == list(releases)
    for beside in ("3.3", "3.10", "4.5"):
        with pytest.raises(UsageError):
            Release().read(beside)


def test_arguments_have_them() -> None:
    assert "ReleaseLiteral" in str(Options.__annotations__["as_version"])
    assert all("ErrorLiteral" in str(RuleKeys.__annotations__[name]) for name in ("error", "error_after"))
