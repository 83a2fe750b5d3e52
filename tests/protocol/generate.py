"""Every message class there is, and random messages of them.

``random_message(rng, cls, version)`` fills the fields that the version has with values that like to be at the edges: extreme
integers, empty and null and just-too-long-for-one-byte strings, characters of one to four bytes, empty arrays. It takes
any ``random.Random``: a seeded one, or the one hypothesis makes (and then shrinks).
"""

from __future__ import annotations

import importlib
import pkgutil
from random import Random
from typing import Any

import kafka_wire.messages
from kafka_wire.errors import Err
from kafka_wire.schema import FieldSpec

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_TEXTS = ["", "a", "orders", "grün-日本", "\U0001f600", "\0", "x" * 126, "x" * 127, "ä" * 64, "consumer-1-" + "0" * 36]
_KNOWN_ERRORS = [int(error) for error in Err if error <= 119]  # those of Kafka 3.4


def _all_messages() -> list[type]:
    path = kafka_wire.messages.__path__
    modules = [importlib.import_module(f"kafka_wire.messages.{m.name}") for m in pkgutil.iter_modules(path)]
    return [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and hasattr(value, "__spec__") and value.__module__ == module.__name__
    ]


MESSAGES: list[type] = _all_messages()
"""Every top-level message class of kafka_wire.messages."""


def versions(cls: Any) -> range:
    """The versions of a message class."""
    return range(cls.__spec__.versions.low, cls.__spec__.versions.high + 1)


EVERY: list[tuple[type, int]] = [(cls, version) for cls in MESSAGES for version in versions(cls)]
"""Every (class, version)."""


def random_message(rng: Random, cls: Any, version: int, *, plausible: bool = False) -> Any:
    """A message whose other fields keep their defaults. ``plausible``: known error codes, times between 1970 and 2100."""
    return cls(
        **{
            name: _value(rng, name, spec, version, plausible)
            for name, spec in cls.__fields__
            if version in spec.versions
        }
    )


def _value(rng: Random, name: str, spec: FieldSpec, version: int, plausible: bool) -> Any:
    if version in spec.nullable and rng.random() < 0.25:
        return None
    match spec.kind:
        case "array":
            element = spec.element()
            biggest = 3 if element.kind in ("struct", "string") else rng.choice([3, 3, 3, 140])
            return [_value(rng, name, element, version, plausible) for _ in range(rng.randint(0, biggest))]
        case "struct":
            return random_message(rng, spec.item, version, plausible=plausible)
        case "bool":
            return rng.random() < 0.5
        case "string":
            return rng.choice(_TEXTS)
        case "bytes" | "records":
            return rng.randbytes(rng.choice([0, 1, 5, 126, 127, 128, 300]))
        case "uuid":
            return rng.choice([bytes(16), rng.randbytes(16), b"\xff" * 16])
        case "float64":
            return rng.choice([0.0, -1.5, 1e300, float("inf")])
        case "uint16" | "uint32":
            return rng.choice([0, 1, 2 ** int(spec.kind[4:]) - 1])
    return _integer(rng, name, spec, plausible)


def _integer(rng: Random, name: str, spec: FieldSpec, plausible: bool) -> int:
    if plausible and name.endswith("error_code"):
        return rng.choice(_KNOWN_ERRORS)
    if plausible and (name.endswith(("_ms", "timestamp"))):
        return rng.randint(0, 2**31 - 1 if spec.kind == "int32" else 4_102_444_800_000)
    half = 2 ** (_BITS[spec.kind] - 1)
    return rng.choice([0, 1, -1, half - 1, -half, rng.randint(-half, half - 1)])
