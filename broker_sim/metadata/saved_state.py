"""Content of `cluster.json`, checked field by field before any of it is used: a data directory may come out of a ticket.

    saved = parse_state(data, path, config)     # SavedState; StoreError names the file, the place in it and what is wrong there

Rules:
1. A name that becomes a directory's is checked as CreateTopics checks it, settings as AlterConfigs does; numbers are within what the
   protocol can carry, with room to count on.
2. What is not understood is refused, not repaired: a key that is there twice, a number that is none, an entry of another type.
   Keys, and settings, that this release doesn't know are passed over.
"""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from broker_sim.common.text import UsageError, keys_once
from broker_sim.config.settings import BrokerConfig, ConfigError
from broker_sim.metadata.entity_configs import Entity, readable
from broker_sim.metadata.meta_files import FORMAT, StoreError
from broker_sim.metadata.topics import METADATA_TOPIC, KafkaError, check_topic_name
from broker_sim.storage.recovery import MAX_EPOCH
from kafka_wire.uuids import uuid_bytes

MAX_PRODUCER_ID = 2**63 - 2**32
MAX_NODE = 2**31 - 1
MAX_PARTITIONS = 100_000
"""Largest number of partitions of one topic."""

log = logging.getLogger("broker_sim.metadata")

CLUSTER_ID = re.compile(r"[!-~]{1,200}")
"""Form of a cluster id, which is written to meta.properties and sent to clients."""

_UUID = re.compile(r"[A-Za-z0-9_-]{22}")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,9}")
_BASE64 = r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
_CREDENTIAL = re.compile(rf"(?:salt={_BASE64},stored_key={_BASE64},server_key={_BASE64},iterations=[1-9][0-9]{{0,9}})?")
_SHOWN = 80

_REMOVING = (
    "restore a copy of it; if it is removed, the next start treats the directory as another broker's: topics keep their ids and "
    "records and lose their settings; nothing is deleted or expires"
)


@dataclass(frozen=True)
class SavedPartition:
    """A partition as it was."""

    replicas: list[int]
    leader: int
    leader_epoch: int


@dataclass(frozen=True)
class SavedTopic:
    """A topic as it was."""

    name: str
    topic_id: bytes
    configs: dict[str, str]
    partitions: list[SavedPartition]


@dataclass(frozen=True)
class SavedState:
    """Content of `cluster.json`; without arguments that of a directory without this file."""

    cluster_id: str | None = None
    next_producer_id: int = 0
    dynamic_configs: dict[str, str | None] = field(default_factory=dict)
    broker_configs: dict[int, dict[str, str | None]] = field(default_factory=dict)
    entity_configs: dict[Entity, dict[str, dict[str, str]]] = field(default_factory=dict)
    scram_credentials: dict[str, dict[str, str]] = field(default_factory=dict)
    """User -> mechanism -> text."""
    deleted_topic_ids: list[str] = field(default_factory=list)
    """Ids of deleted topics."""
    adopted: bool = False
    topics: list[SavedTopic] = field(default_factory=list)


def parse_state(data: bytes, path: Path, config: BrokerConfig) -> SavedState:
    """Read the state that `meta_files.write_state` wrote. Raises StoreError."""
    try:
        return _state(_json(data), config)
    except _WrongError as wrong:
        raise StoreError(f"{path}: {wrong}") from None


class _WrongError(ValueError):
    """An invalid value, and its place."""


def _wrong(at: str, why: str) -> NoReturn:
    raise _WrongError(f"{at} {why}" if at else why)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


# --- JSON ---------------------------------------------------------------------------------------------------------------


def _json(data: bytes) -> Any:
    if not data:
        _wrong("", f"it is empty; {_REMOVING}")
    try:
        return json.loads(data.decode(), object_pairs_hook=keys_once, parse_constant=_constant)
    except _WrongError:
        raise
    except UsageError as error:
        _wrong("", str(error))
    except RecursionError:
        _wrong("", "it is nested too deeply")
    except ValueError as error:
        _wrong("", f"it is not JSON: {error}; {_REMOVING}")


def _constant(name: str) -> NoReturn:
    _wrong("", f"{name} is not a number of JSON")


# --- kinds of values ----------------------------------------------------------------------------------------------------


def _object(value: object, at: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        _wrong(at, f"is {_shown(value)}, which is not an object")
    return value


def _list(value: object, at: str) -> list[Any]:
    if not isinstance(value, list):
        _wrong(at, f"is {_shown(value)}, which is not a list")
    return value


def _text(value: object, at: str) -> str:
    if not isinstance(value, str):
        _wrong(at, f"is {_shown(value)}, which is not a string")
    try:
        value.encode()
    except UnicodeEncodeError:
        _wrong(at, f"is {_shown(value)}, which is not text")
    return value


def _whole(value: object, at: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        shown = "a number with more digits than that" if isinstance(value, int) and abs(value) >> 64 else _shown(value)
        _wrong(at, f"is {shown}, which is not a whole number from {least} to {most}")
    return value


def _id(value: object, at: str) -> bytes:
    text = _text(value, at)
    if _UUID.fullmatch(text) is None:
        _wrong(at, f"is {_shown(value)}, which is not a topic id")
    return uuid_bytes(text)


# --- its parts ----------------------------------------------------------------------------------------------------------


def _state(state: object, config: BrokerConfig) -> SavedState:
    state = _object(state, "it")
    version = state.get("format")
    if isinstance(version, bool) or version != FORMAT:
        _wrong("", f"its format is {_shown(version)} (expected {FORMAT})")
    cluster_id = state.get("cluster_id")
    if cluster_id is not None and CLUSTER_ID.fullmatch(_text(cluster_id, "cluster_id")) is None:
        _wrong("cluster_id", f"is {_shown(cluster_id)}, which is not a cluster id")
    adopted = state.get("adopted", False)
    if not isinstance(adopted, bool):
        _wrong("adopted", f"is {_shown(adopted)}, which is not true or false")
    key = (
        "deleted_topic_ids" if "deleted_topic_ids" in state else "gone"
    )  # a directory of an earlier version has the latter
    deleted_topic_ids = _deleted_ids(_list(state.get(key, []), key), key)
    brokers: dict[int, dict[str, str | None]] = {}
    for node, values in _object(state.get("broker_configs", {}), "broker_configs").items():
        at = f"broker_configs[{_shown(node)}]"
        if _NUMBER.fullmatch(node) is None or int(node) > MAX_NODE:
            _wrong(at, "is not a broker id")
        brokers[int(node)] = _settings(values, at, config)
    return SavedState(
        cluster_id,
        _whole(state.get("next_producer_id", 0), "next_producer_id", 0, MAX_PRODUCER_ID),
        _settings(state.get("dynamic_configs", {}), "dynamic_configs", config),
        brokers,
        {
            Entity.GROUP: _entities(state, "group_configs", Entity.GROUP),
            Entity.CLIENT_METRICS: _entities(state, "client_metrics_configs", Entity.CLIENT_METRICS),
        },
        _credentials(state.get("scram_credentials", {}), "scram_credentials"),
        deleted_topic_ids,
        adopted,
        _topics(state.get("topics", {}), config),
    )


def _deleted_ids(entries: list[Any], key: str) -> list[str]:
    """The ids of deleted topics; one that is none is logged and left out: it names nothing that is still served, and the directory
    that it may have stood for is kept, as that of an unknown topic.
    """
    valid = [entry for entry in entries if isinstance(entry, str) and _UUID.fullmatch(entry) is not None]
    if len(valid) < len(entries):
        wrong = next(entry for entry in entries if entry not in valid)
        log.warning(
            "%s has %d invalid id(s) of deleted topics, which are ignored: %s",
            key,
            len(entries) - len(valid),
            _shown(wrong),
        )
    return valid


def _settings(values: object, at: str, config: BrokerConfig) -> dict[str, str | None]:
    result: dict[str, str | None] = {}
    for name, value in _object(values, at).items():
        result[name] = None if value is None else _text(value, f"{at}[{_shown(name)}]")
        if value is not None and name in config.settings:
            try:
                config.setting(name).parse(value)
            except ConfigError as error:
                _wrong(at, f"is invalid: {error}")
    return result


def _credentials(users: object, at: str) -> dict[str, dict[str, str]]:
    result: dict[str, dict[str, str]] = {}
    for name, stored in _object(users, at).items():
        result[name] = {}
        for mechanism, value in _object(stored, f"{at}[{_shown(name)}]").items():
            text = result[name][mechanism] = _text(value, f"{at}[{_shown(name)}][{_shown(mechanism)}]")
            if _CREDENTIAL.fullmatch(text) is None:
                _wrong(f"{at}[{_shown(name)}][{_shown(mechanism)}]", "is not a SCRAM credential")
    return result


def _entities(state: dict[str, Any], key: str, entity: Entity) -> dict[str, dict[str, str]]:
    result: dict[str, dict[str, str]] = {}
    for name, values in _object(state.get(key, {}), key).items():
        at = f"{key}[{_shown(name)}]"
        own = {key: _text(value, f"{at}[{_shown(key)}]") for key, value in _object(values, at).items()}
        try:
            result[_text(name, at)] = readable(entity, own)
        except KafkaError as error:
            _wrong(at, f"is invalid: {error.message}")
    return result


def _topics(topics: object, config: BrokerConfig) -> list[SavedTopic]:
    result: list[SavedTopic] = []
    ids: dict[bytes, str] = {}
    for name, entry in _object(topics, "topics").items():
        at = f"topics[{_shown(name)}]"
        try:
            check_topic_name(name)
        except KafkaError:
            _wrong(at, "is not a topic name (expected 1 to 249 of the characters a-z A-Z 0-9 . _ -, and not . or ..)")
        if name == METADATA_TOPIC:
            _wrong(at, "is reserved for the controller")
        entry = _object(entry, at)
        topic_id = _id(entry.get("id"), f"{at}.id")
        if topic_id in ids or not any(topic_id):
            _wrong(f"{at}.id", f"is that of {_shown(ids[topic_id])}" if topic_id in ids else "is not a topic's id")
        ids[topic_id] = name
        configs = _topic_settings(entry.get("configs"), f"{at}.configs", config)
        rows = _list(entry.get("partitions"), f"{at}.partitions")
        if not 1 <= len(rows) <= MAX_PARTITIONS:
            _wrong(f"{at}.partitions", f"are {len(rows)}; a topic has 1 to {MAX_PARTITIONS}")
        result.append(
            SavedTopic(
                name, topic_id, configs, [_partition(row, f"{at}.partitions[{n}]") for n, row in enumerate(rows)]
            )
        )
    return result


def _topic_settings(values: object, at: str, config: BrokerConfig) -> dict[str, str]:
    result = {name: _text(value, f"{at}[{_shown(name)}]") for name, value in _object(values, at).items()}
    try:
        config.check_topic({name: value for name, value in result.items() if name in config.topic_settings})
    except ConfigError as error:
        _wrong(at, f"is invalid: {error}")
    return result


def _partition(row: object, at: str) -> SavedPartition:
    row = _object(row, at)
    for name in ("replicas", "isr"):
        nodes = [
            _whole(node, f"{at}.{name}[{n}]", 0, MAX_NODE)
            for n, node in enumerate(_list(row.get(name), f"{at}.{name}"))
        ]
        if len(set(nodes)) != len(nodes) or not (nodes or name == "isr"):
            _wrong(f"{at}.{name}", f"is {_shown(nodes)}, which is not a list of brokers, each once")
    leader = _whole(row.get("leader"), f"{at}.leader", -1, MAX_NODE)
    return SavedPartition(row["replicas"], leader, _whole(row.get("leader_epoch"), f"{at}.leader_epoch", 0, MAX_EPOCH))
