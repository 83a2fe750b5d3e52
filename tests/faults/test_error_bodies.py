"""The bytes of requests that fail as a whole, and what each release advertises: what a client sees stays what it was.

`error_bodies.json` beside this file was written by the tables that stood in one place, before each API declared itself. New APIs and
versions need not be in it. The judge is Kafka (`test_error_response.py`, `test_schemas_in_jars.py`); this file needs no JVM.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from broker_sim.requests.error_response import error_response
from kafka_wire.api_keys import API_NAMES, KAFKA_VERSIONS, advertised
from kafka_wire.codec import encode
from kafka_wire.errors import Err
from kafka_wire.schema import FieldSpec
from tests.protocol.generate import MESSAGES

BEFORE: dict[str, Any] = json.loads(Path(__file__).with_name("error_bodies.json").read_text())
REQUESTS = {cls.__name__.removesuffix("Request"): cls for cls in MESSAGES if cls.__name__.endswith("Request")}
ERRORS = (Err.NOT_COORDINATOR, Err.NOT_LEADER_OR_FOLLOWER, Err.INVALID_REQUEST)


def request_of(cls: Any, version: int, numbers: Iterator[int], *, nulls: bool) -> Any:
    """Two elements in each array, another value in each field; null where that may be, if ``nulls``."""

    def value(name: str, spec: FieldSpec) -> Any:
        if nulls and version in spec.nullable:
            return None
        number = next(numbers)
        match spec.kind:
            case "array":
                return [value(name, spec.element()) for _ in range(2)]
            case "struct":
                return request_of(spec.item, version, numbers, nulls=nulls)
            case "string":
                return f"{name}-{number}"
            case "bytes" | "records":
                return b"bytes"
            case "uuid":
                return number.to_bytes(16, "big")
            case "bool":
                return True
        return number

    return cls(**{name: value(name, spec) for name, spec in cls.__fields__ if version in spec.versions})


def sum_of(name: str, version: int) -> str:
    """A checksum of the answers."""
    total = 0
    for nulls in (False, True):
        request = request_of(REQUESTS[name], version, count(1), nulls=nulls)
        for err in ERRORS:
            response = error_response(request, API_NAMES[name], version, err)
            total = zlib.crc32(encode(response, version), total)
    return f"{total:08x}"


@pytest.mark.parametrize("name", BEFORE["errors"])
def test_failed_requests_are_answered_with_the_same_bytes(name: str) -> None:
    before = BEFORE["errors"][name]
    assert {version: sum_of(name, int(version)) for version in before} == before


@pytest.mark.parametrize("release", KAFKA_VERSIONS)
def test_a_release_advertises_no_less_than_it_did(release: str) -> None:
    """Newer versions, which our classes didn't cover then, may have come."""
    now = advertised(release)
    for name, (low, high) in BEFORE["advertised"][release].items():
        assert now[API_NAMES[name]][0] == low, name
        assert now[API_NAMES[name]][1] >= high, name
