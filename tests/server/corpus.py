"""One plausible frame of every request that a broker takes, in every version: what a real client could have sent."""

from __future__ import annotations

from typing import Any

from broker_sim.requests.routes import supported
from kafka_wire.api_keys import message_class
from kafka_wire.codec import encode
from kafka_wire.frame import encode_request_header, frame
from kafka_wire.record_batch import build_batch
from kafka_wire.schema import FieldSpec

RECORDS = build_batch([(b"key", b"value"), (None, b"another value")], 1_700_000_000_000)

_BY_NAME: dict[str, Any] = {
    "acks": -1,
    "generation_id": 1,
    "generation_id_or_member_epoch": -1,
    "group_id": "g",
    "group_instance_id": None,
    "isolation_level": 0,
    "max_bytes": 1_000_000,
    "max_wait_ms": 10,
    "min_bytes": 1,
    "name": "orders",
    "num_partitions": 2,
    "partition_max_bytes": 100_000,
    "protocol_type": "consumer",
    "rebalance_timeout_ms": 10_000,
    "replica_id": -1,
    "replication_factor": 1,
    "resource_name": "orders",
    "resource_type": 2,
    "session_timeout_ms": 10_000,
    "timeout_ms": 1000,
    "timestamp": -1,
    "topic": "orders",
    "transactional_id": None,
}
_BY_KIND: dict[str, Any] = {
    "bool": False,
    "bytes": b"\0\1\0\0\0\1\0\6orders\0\0\0\0",
    "float64": 0.0,
    "records": RECORDS,
    "string": "text",
    "uuid": bytes(16),
}


def plausible(cls: Any, version: int) -> Any:
    """A message of ``cls`` with one element in each array."""
    return cls(**{name: _value(name, spec, version) for name, spec in cls.__fields__ if version in spec.versions})


def _value(name: str, spec: FieldSpec, version: int) -> Any:
    if spec.kind == "struct":
        return plausible(spec.item, version)
    if spec.kind == "array":
        return [_value(name, spec.element(), version)]
    value, plain = _BY_NAME.get(name, _BY_KIND.get(spec.kind, 0)), _BY_KIND.get(spec.kind, 0)
    return value if isinstance(value, type(plain)) or (value is None and version in spec.nullable) else plain


def frames(as_version: str) -> list[bytes]:
    """Whole frames, by API and version; the same for the same handlers."""
    found = []
    for key, (low, high) in sorted(supported(as_version).items()):
        cls = message_class(key, "Request")
        for version in range(low, high + 1):
            body = encode(plausible(cls, version), version)
            found.append(frame(encode_request_header(key, version, 7, "fuzz") + body))
    return found
