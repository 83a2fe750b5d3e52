"""The APIs that kafka_wire speaks, by name: key, request and response class; and messages from plain data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from kafka_wire.api_keys import ApiKey, message_class
from kafka_wire.schema import FieldSpec

NULL = "~null~"
"""A string that is sent as null even where the schema allows none (frames.py)."""


@dataclass(frozen=True)
class Api:
    name: str
    key: int
    request: type[Any]
    response: type[Any]


@cache
def apis() -> dict[str, Api]:
    """Name -> Api, in the order of the keys."""
    return {
        key.kafka_name: Api(key.kafka_name, int(key), message_class(key, "Request"), message_class(key, "Response"))
        for key in ApiKey
    }


@cache
def by_key() -> dict[int, Api]:
    return {api.key: api for api in apis().values()}


Fill = Callable[[Any, FieldSpec], Any]


def build(cls: type[Any], tree: dict[str, Any], fill: Fill) -> Any:
    """An instance of `cls`; every primitive goes through `fill(value, spec)`, a whole array given as text too."""
    specs = dict(cls.__fields__)
    return cls(**{name: _value(value, specs[name], fill) for name, value in tree.items()})


def _value(value: Any, spec: FieldSpec, fill: Fill) -> Any:
    if value is None:
        return None
    if spec.kind == "array":
        if isinstance(value, str):
            value = fill(value, spec)
        element = spec.element()
        return [_value(item, element, fill) for item in value]
    if spec.kind == "struct":
        return build(spec.item, value, fill)
    return fill(value, spec)
