"""An answer as plain data that can be compared: what must differ between two brokers gets a name of its own.

Member ids, producer ids, fetch sessions and topic ids are named by the order in which a play first meets them, ports by
the node that has them, the play's prefix is {p}. Records are taken apart. What other plays made is left out. Which
lists are sorted first stands in tolerances.py.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

from broker_sim.config.settings import BrokerConfig
from broker_sim.metadata import entity_configs
from kafka_wire.record_batch import HEADER_BYTES, Record, RecordBatchError, batches, records
from kafka_wire.schema import ZERO_UUID, FieldSpec
from tests.differential.catalogue import by_key
from tests.differential.symbols import UNKNOWN_TOPIC_ID, Scope
from tests.differential.tolerances import unordered

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_ID = re.compile(rf"([A-Za-z0-9_.{{}}]*-)?{_UUID}")
_SHORT = re.compile(r"[A-Za-z0-9_-]{22}")
_ANY_UUID = re.compile(_UUID)
SHARED_TOPICS = ("t0", "t1")
PREFIX = r"d[0-9a-f]+x\d+-"
"""Pattern of the prefix that all names of one play have."""
NAMED_NUMBERS = {"producer_id": "producer", "session_id": "session"}
EVERYTHING = ("ListGroups", "ListTransactions", "Metadata", "DescribeLogDirs")
OF_A_MACHINE = (
    *("listeners", "advertised.listeners", "log.dirs", "log.dir", "node.id", "broker.id", "process.roles"),
    *("share.coordinator.state.topic.replication.factor", "share.coordinator.state.topic.min.isr"),
    *("consumer.assignor.offload.enable", "share.assignor.offload.enable", "streams.assignor.offload.enable"),
)
"""Settings whose values are each side's own."""
OTHERS = {"groups": "group_id", "topics": "name", "transaction_states": "transactional_id"}
"""Lists in which other plays' things show up: ListGroups, ListTransactions, Metadata and DescribeLogDirs of everything."""


@cache
def known_settings(version: str) -> frozenset[str]:
    """Names of the settings that the simulator knows as that version."""
    config = BrokerConfig({}, version)
    names = {*config.topic_settings, *config.settings, *entity_configs.names(config.release)}
    return frozenset(names.difference(OF_A_MACHINE))


class Reader:
    """Reads one side's answers in one play."""

    def __init__(self, scope: Scope, ports: dict[int, int], version: str) -> None:
        self._version = version
        self._scope = scope
        self._ports = ports
        self._names: dict[Any, str] = {}
        self._counts: dict[str, int] = {}
        self._short: list[str] = []
        """Member ids in 22 letters that the broker has drawn, as it does for classic members of consumer groups."""
        self.divides = False
        """Whether several members divide the partitions of a share group: who gets which hangs on the hashes of random topic ids."""

    def message(self, api: str, message: Any, version: int) -> dict[str, Any]:
        """`message` as nested dicts and lists: its fields that `version` has."""
        return self._struct(api, message, version, api)

    def _struct(self, api: str, value: Any, version: int, path: str) -> dict[str, Any]:
        return {
            name: self._field(api, getattr(value, name), version, name, spec, f"{path}.{name}")
            for name, spec in type(value).__fields__
            if version in spec.versions
        }

    def _field(self, api: str, value: Any, version: int, name: str, spec: FieldSpec, path: str) -> Any:
        if value is None:
            return "its share" if self.divides and _DIVIDED.fullmatch(path) else None
        if self.divides and _DIVIDED.fullmatch(path):
            return "its share"
        if spec.kind == "array":
            return self._array(api, value, version, name, spec, path)
        if spec.kind == "struct":
            return self._struct(api, value, version, path)
        if spec.kind == "records":
            return self.batches(value)
        if spec.kind == "uuid":
            return self.topic_id(value)
        if name == "documentation" and value:
            return "in words of one's own"
        if name == "log_dir" and value:
            return "a directory"
        if isinstance(value, bytes):
            return self.text(value.decode("latin-1"))
        if isinstance(value, str):
            return self.text(value)
        if name == "port" and value in self._ports:
            return f"port of node {self._ports[value]}"
        if name in NAMED_NUMBERS and value > 0:
            return self._named((name, value), NAMED_NUMBERS[name])
        return value

    def _array(self, api: str, value: list[Any], version: int, name: str, spec: FieldSpec, path: str) -> list[Any]:
        key = OTHERS.get(name)
        if key is not None and api in EVERYTHING and value and hasattr(value[0], key):
            value = [item for item in value if self._own(getattr(item, key))]
        if api == "OffsetFetch" and name == "topics":  # the group without a name is everybody's
            value = [item for item in value if not self._of_another(item.name)]
        if name == "api_keys":  # what the simulator does not do is no difference: docs/coverage.md lists it
            value = [item for item in value if item.api_key in by_key()]
        if name == "configs" and (api == "DescribeConfigs" or self._version in ("3.9", "4.2", "4.4")):
            # what a release has beside what the simulator knows
            value = [item for item in value if item.name in known_settings(self._version)]
        if name in ("supported_features", "finalized_features"):
            value = [item for item in value if item.name == "metadata.version"]
        if name == "members":  # in the order of their ids at Kafka: first by what they are without them
            value = sorted(value, key=_without_ids)
        element = spec.element()
        made = [self._field(api, item, version, name, element, path) for item in value]
        return sorted(made, key=_text) if unordered(self._version, path) else made

    def _own(self, name: str | None) -> bool:
        return name is None or name.startswith(self._scope.prefix) or name in SHARED_TOPICS

    def _of_another(self, name: str) -> bool:
        return re.match(PREFIX, name) is not None and not name.startswith(self._scope.prefix)

    def met(self, member_id: str) -> None:
        """Names a member id by the order in which it is met."""
        if _SHORT.fullmatch(member_id) and member_id not in self._short:
            self._short.append(member_id)
        self.text(member_id)

    def text(self, text: str) -> str:
        """Text, or bytes as latin-1, without what hangs on the side and the play."""
        if "-" in text and _ANY_UUID.search(
            text
        ):  # looked for first, as what may stand before one takes long in a long text
            text = _ID.sub(lambda found: self._named(found[0], found[1] or ""), text)
        for short in self._short:
            if short in text:
                text = text.replace(short, self._named(short, "short member id"))
        return text.replace(self._scope.prefix, "{p}")

    def topic_id(self, value: bytes) -> str:
        if value == ZERO_UUID:
            return "no topic id"
        if value == UNKNOWN_TOPIC_ID:
            return "unknown topic id"
        for name, known in self._scope.topic_ids.items():
            if known == value:
                return f"id of {self.text(name)}"
        return self._named(value, "topic")

    def batches(self, data: bytes) -> Any:
        """Fetched records: each batch's header and records. What is behind the last whole batch counts as bytes."""
        out: list[Any] = []
        end = 0
        try:
            for position, header in batches(data):
                fields = header._asdict()
                for unwanted in ("crc", "length"):
                    del fields[unwanted]
                fields["size"] = header.size
                if header.producer_id >= 0:
                    fields["producer_id"] = self._named(("producer_id", header.producer_id), "producer")
                raw = data[position + HEADER_BYTES : position + header.size]
                fields["records"] = self._records(data, position, header, raw)
                out.append(fields)
                end = position + header.size
        except RecordBatchError:
            pass
        # Kafka fills up a limit with the head of the next batch, the simulator sends whole ones
        return [*out, {"cut": len(data) - end}] if end < len(data) and not out else out

    def _records(self, data: bytes, position: int, header: Any, raw: bytes) -> Any:
        try:
            return [self._record(record) for record in records(data, position, header)]
        except RecordBatchError:
            return raw.hex()

    def _record(self, record: Record) -> list[Any]:
        key, value = (None if one is None else self.text(one.decode("latin-1")) for one in (record.key, record.value))
        headers = [[name, None if one is None else one.decode("latin-1")] for name, one in record.headers]
        return [record.offset, record.timestamp, key, value, headers]

    def _named(self, whole: Any, prefix: str) -> str:
        known = self._names.get(whole)
        if known is None:
            self._counts[prefix] = self._counts.get(prefix, 0) + 1
            known = self._names[whole] = f"{prefix}#{self._counts[prefix]}"
        return known


_DIVIDED = re.compile(
    r"ShareGroupHeartbeat\.assignment|ShareGroupDescribe\.groups\.members\.assignment\.topic_partitions"
)


def _without_ids(member: Any) -> str:
    return re.sub(_UUID, "", repr(member))


_KEYS = (
    "name",
    "group_id",
    "resource_type",
    "resource_name",
    "topic",
    "topic_id",
    "partition_index",
    "index",
    "partition",
)


def _text(value: Any) -> str:
    """Sort key of an item of a list: the fields that tell the items apart come first."""
    keys = [value[key] for key in _KEYS if key in value] if isinstance(value, dict) else []
    return json.dumps([keys, value], sort_keys=True, default=repr)


def differences(expected: Any, actual: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """(path, expected, actual) of each place where two trees differ."""
    if isinstance(expected, dict) and isinstance(actual, dict) and expected.keys() == actual.keys():
        return [found for key in expected for found in differences(expected[key], actual[key], f"{path}.{key}")]
    if isinstance(expected, list) and isinstance(actual, list):
        out = [
            found
            for index, (one, other) in enumerate(zip(expected, actual, strict=False))
            for found in differences(one, other, f"{path}[{index}]")
        ]
        if len(expected) != len(actual):
            out.insert(0, (f"{path}.length", _brief(expected), _brief(actual)))
        return out
    if expected == actual and type(expected) is type(actual):
        return []
    return [(path, expected, actual)]


def _brief(items: list[Any]) -> str:
    return f"{len(items)}: {json.dumps(items, default=repr)[:300]}"
