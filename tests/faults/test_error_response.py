"""Whole requests that fail: the answer has the error where the API has a place for it, as Kafka's own classes have it."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from broker_sim.handlers.k01_fetch import AT_PARTITIONS
from broker_sim.requests.error_response import error_response, first_error
from kafka_wire.api_keys import ApiKey, advertised
from kafka_wire.codec import decode, encode
from kafka_wire.errors import Err
from kafka_wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.messages.k08_offset_commit import OffsetCommitResponse
from kafka_wire.messages.k19_create_topics import CreatableTopicResult, CreateTopicsResponse
from kafka_wire.schema import FieldSpec
from tests.protocol.generate import MESSAGES, random_message, versions
from tests.support.real_kafka import java_command

REQUESTS = {cls.__spec__.api_key: cls for cls in MESSAGES if cls.__name__.endswith("Request")}
RESPONSES = {cls.__spec__.api_key: cls for cls in MESSAGES if cls.__name__.endswith("Response")}
EVERY = [(key, version) for key in sorted(REQUESTS) for version in versions(REQUESTS[key])]
SILENT = {(ApiKey.DESCRIBE_LOG_DIRS, 0), (ApiKey.DESCRIBE_LOG_DIRS, 1), (ApiKey.DESCRIBE_LOG_DIRS, 2)}
"""Versions that have no place for an error without a log directory."""

ANSWERED, NO_VERSION, NO_ANSWER, FAILED = range(4)


def test_every_api_is_here() -> None:
    assert set(REQUESTS) == set(RESPONSES) == set(ApiKey)


@pytest.mark.parametrize(("key", "version"), EVERY, ids=lambda value: str(value))
def test_the_answer_can_be_encoded_and_holds_the_error(key: int, version: int) -> None:
    rng = Random(f"{key} {version}")
    found = 0
    for _ in range(20):
        request = random_message(rng, REQUESTS[key], version, plausible=True)
        err = rng.choice([error for error in Err if error is not Err.NONE])
        response = error_response(request, key, version, err)
        if response is None:
            assert key == ApiKey.PRODUCE
            assert request.acks == 0
            continue
        again = decode(RESPONSES[key], version, encode(response, version))
        assert encode(again, version) == encode(response, version)
        assert first_error(again) in (err, None)
        found += first_error(again) is err
    assert found or (key, version) in SILENT


def test_a_fetch_that_fails_at_a_partition_says_so_at_each_and_ends_its_session() -> None:
    request = FetchRequest(
        session_id=9, session_epoch=3, topics=[FetchTopic(topic_id=b"1" * 16, partitions=[FetchPartition(4)])]
    )
    session = [("", b"2" * 16, 0), ("", b"1" * 16, 4), ("", b"2" * 16, 1)]
    response = error_response(request, ApiKey.FETCH, 13, Err.NOT_LEADER_OR_FOLLOWER, session_partitions=session)
    assert response is not None
    assert (response.error_code, response.session_id) == (0, 0)
    rows = [(t.topic_id[:1], p.partition_index, p.error_code) for t in response.responses for p in t.partitions]
    assert rows == [(b"1", 4, 6), (b"2", 0, 6), (b"2", 1, 6)]


def test_a_fetch_that_fails_as_a_whole_says_so_at_the_top_and_keeps_its_session() -> None:
    request = FetchRequest(
        session_id=9, session_epoch=3, topics=[FetchTopic(topic_id=b"1" * 16, partitions=[FetchPartition(4)])]
    )
    response = error_response(request, ApiKey.FETCH, 13, Err.FETCH_SESSION_ID_NOT_FOUND)
    assert response is not None
    assert (response.error_code, response.session_id, response.responses) == (Err.FETCH_SESSION_ID_NOT_FOUND, 9, [])


def test_the_first_error_is_found_among_rows_that_are_well() -> None:
    well = CreatableTopicResult("a")
    assert first_error(CreateTopicsResponse(topics=[well])) is None
    assert (
        first_error(CreateTopicsResponse(topics=[well, CreatableTopicResult("b", error_code=36)]))
        is Err.TOPIC_ALREADY_EXISTS
    )
    assert first_error(OffsetCommitResponse()) is None
    assert first_error(None) is None


def kafkas_answers(kafka: str, questions: list[tuple[int, int, Err, bytes]]) -> list[tuple[int, bytes]]:
    """Status and bytes of what Kafka's request classes make of (api key, version, error, request)."""
    source = Path(__file__).parent / "java" / "ErrorAnswers.java"
    asked = b"".join(struct.pack(">hhhi", key, v, err, len(body)) + body for key, v, err, body in questions)
    done = subprocess.run(java_command(kafka, str(source)), input=asked, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-2000:]
    answers, position = [], 0
    while position < len(done.stdout):
        status, size = struct.unpack_from(">bi", done.stdout, position)
        position += 5
        answers.append((status, done.stdout[position : position + size]))
        position += size
    assert len(answers) == len(questions)
    return answers


def sane(rng: Random, cls: Any, version: int, numbers: Iterator[int]) -> Any:
    """A request as a client would send it: nothing empty that may not be, nothing twice."""

    def value(name: str, spec: FieldSpec) -> Any:
        if version in spec.nullable and spec.kind != "records" and rng.random() < 0.3:
            return [] if name == "users" else None  # where DescribeUserScramCredentialsRequest falls over null
        if spec.kind == "array":
            return [value(name, spec.element()) for _ in range(rng.randint(1, 3))]
        number = next(numbers)
        match spec.kind:
            case "struct":
                return sane(rng, spec.item, version, numbers)
            case "bool":
                return rng.random() < 0.5
            case "string":
                return f"{name}-{number}"
            case "bytes" | "records":
                return b""
            case "uuid":
                return number.to_bytes(16, "big")
        return {"acks": rng.choice([-1, 1]), "key_type": 0, "resource_type": 2}.get(name, number % 127)

    return cls(**{name: value(name, spec) for name, spec in cls.__fields__ if version in spec.versions})


def comparable(value: Any) -> Any:
    """Kafka answers in the order of its hash maps, and writes sentences where we write the error's name."""
    if isinstance(value, list):
        return sorted(map(comparable, value), key=str)
    if not hasattr(value, "__fields__"):
        return value
    out = {name: comparable(getattr(value, name)) for name, _ in value.__fields__}
    if out.get("error_message"):
        out["error_message"] = "text"
    if out.get("records", b"") is None:  # 3.4 writes null where later ones write no bytes
        out["records"] = b""
    return out


@pytest.mark.real_kafka
@pytest.mark.parametrize(("kafka", "at_least"), [("3.4.0", 120), ("4.1.0", 140)])
def test_kafkas_request_classes_answer_the_same(kafka: str, at_least: int) -> None:
    rng = Random(f"errors {kafka}")
    errors = [Err.NOT_COORDINATOR, Err.REQUEST_TIMED_OUT, Err.COORDINATOR_LOAD_IN_PROGRESS, Err.INVALID_REQUEST]
    assert not AT_PARTITIONS.intersection(errors)
    known = [(key, v) for key, v in EVERY if key in advertised(kafka)]
    cases = [
        (key, version, rng.choice(errors), sane(rng, REQUESTS[key], version, count(1)))
        for key, version in known
        for _ in range(12)
    ]
    answers = kafkas_answers(kafka, [(key, v, err, encode(request, v)) for key, v, err, request in cases])
    compared = set()
    for (key, version, err, request), (status, theirs) in zip(cases, answers, strict=True):
        if status == NO_VERSION:
            continue
        ours = error_response(request, key, version, err)
        where = f"{ApiKey(key).kafka_name} v{version}: {request}"
        assert status != FAILED, f"{where}: {theirs.decode()}"
        assert (ours is None) == (status == NO_ANSWER), where
        if ours is not None:
            again = decode(RESPONSES[key], version, encode(ours, version))
            assert comparable(again) == comparable(decode(RESPONSES[key], version, theirs)), where
            compared.add((key, version))
    assert len(compared) >= at_least, sorted(set(known) - compared)
