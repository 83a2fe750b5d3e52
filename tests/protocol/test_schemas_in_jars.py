"""Our classes against the schemas inside Kafka's jars: every message, field by field and version by version.

For each version the newest jar that has it is the judge. The jars are those of 3.4.0, 4.1.0 and 4.4.0.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from kafka_wire.api_keys import ApiKey, advertised
from tests.protocol import kafka_json
from tests.protocol.generate import EVERY, MESSAGES, versions
from tests.protocol.kafka_json import FieldView, Schema
from tests.support.real_kafka import kafka_libs

pytestmark = pytest.mark.real_kafka

UNCHANGED = {("ListOffsetsRequest", 11): 10, ("ListOffsetsResponse", 11): 10}
"""Versions that only a later Kafka (4.2) has and whose bytes are those of the version before: KIP-1023 only adds a
special timestamp."""

SINCE_3_4: dict[tuple[str, str], dict[str, Any]] = {
    ("OffsetCommitRequest", "generation_id"): {"name": "generation_id_or_member_epoch"},
    ("CreatableTopic", "configs"): {"kind": "[]CreatableTopicConfig"},  # a spelling mistake, corrected
}
"""Names that a later Kafka changed for all versions: (struct, field) -> what it became."""


@pytest.fixture(scope="module")
def jars() -> list[dict[str, Schema]]:
    """The schemas of each release, the newest first."""
    parts = (
        "kafka-clients-",
        "kafka-group-coordinator-4",
        "kafka-transaction-coordinator-4",
        "kafka-share-coordinator-4",
    )
    return [kafka_json.load(kafka_libs(release), parts) for release in ("4.4.0", "4.1.0")] + [
        kafka_json.load(kafka_libs("3.4.0"))
    ]


def _judge(jars: list[dict[str, Schema]], name: str, version: int) -> Schema | None:
    version = UNCHANGED.get((name, version), version)
    return next((jar[name] for jar in jars if name in jar and version in jar[name].versions), None)


def _renewed(struct: str, fields: tuple[FieldView, ...]) -> tuple[FieldView, ...]:
    """``fields`` with the names that they have in later schemas."""
    renewed = []
    for field in fields:
        inner = None if field.struct is None else _renewed(field.kind.removeprefix("[]"), field.struct)
        renewed.append(dataclasses.replace(field, struct=inner, **SINCE_3_4.get((struct, field.name), {})))
    return tuple(renewed)


def _without_prefix(ours: tuple[FieldView, ...], theirs: tuple[FieldView, ...]) -> tuple[FieldView, ...]:
    """``ours`` with the kinds of structs that carry their message's name as a prefix renamed to Kafka's."""
    renamed = []
    for mine, other in zip(ours, theirs, strict=False):
        kind, struct = mine.kind, mine.struct
        if struct is not None and other.struct is not None:
            element = other.kind.removeprefix("[]")
            if kind != other.kind and kind.endswith(element):
                kind = other.kind
            struct = _without_prefix(struct, other.struct)
        renamed.append(dataclasses.replace(mine, kind=kind, struct=struct))
    return (*renamed, *ours[len(theirs) :])


@pytest.mark.parametrize(("cls", "version"), EVERY, ids=[f"{c.__name__}-v{v}" for c, v in EVERY])
def test_a_class_is_kafkas_schema_in_every_version(jars: list[dict[str, Schema]], cls: Any, version: int) -> None:
    schema = _judge(jars, cls.__name__, version)
    assert schema is not None, "no jar knows this version"
    theirs = _renewed(cls.__name__, kafka_json.view(schema, version))
    assert _without_prefix(kafka_json.our_view(cls, version), theirs) == theirs
    assert (version in cls.__spec__.flexible) == (version in schema.flexible)
    assert cls.__spec__.api_key == schema.api_key


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_every_field_is_in_some_version(cls: Any) -> None:
    def check(struct: Any, within: list[int]) -> None:
        for name, spec in struct.__fields__:
            present = [version for version in within if version in spec.versions]
            assert present, f"{struct.__name__}.{name} is in none of the versions {within}"
            if isinstance(spec.item, type):
                check(spec.item, present)

    check(cls, list(versions(cls)))


@pytest.mark.parametrize("kafka", ["3.4.0", "4.1.0"])
def test_we_advertise_what_that_kafka_does(kafka: str) -> None:
    """Capped by what we speak, and leaving out the APIs that we don't have."""
    expected = {}
    for schema in kafka_json.load(kafka_libs(kafka)).values():
        if schema.raw["type"] == "request" and "broker" in schema.listeners and schema.api_key in set(ApiKey):
            assert schema.api_key is not None
            low, high = schema.versions.low, schema.versions.high - schema.unstable
            if low <= high:  # an API all of whose versions are unstable is not advertised
                expected[schema.api_key] = (low, high)
    assert advertised(kafka).keys() == expected.keys()
    for key, (low, high) in advertised(kafka).items():
        ours = _spoken(key)
        assert (low, high) == (max(expected[key][0], ours[0]), min(expected[key][1], ours[-1])), ApiKey(key).name


def _spoken(key: int) -> range:
    return next(versions(cls) for cls in MESSAGES if cls.__spec__.api_key == key and cls.__name__.endswith("Request"))
