"""The APIs that kafka_wire speaks, by name: key, request and response class; and messages from plain data."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from kafka_wire import messages
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
    found = []
    for module in pkgutil.iter_modules(messages.__path__):
        if not module.name.startswith("k"):
            continue
        members = vars(importlib.import_module(f"{messages.__name__}.{module.name}"))
        for name, request in members.items():
            key = getattr(getattr(request, "__spec__", None), "api_key", None) if name.endswith("Request") else None
            response = members.get(name.removesuffix("Request") + "Response")
            if key is not None and response is not None:
                found.append(Api(name.removesuffix("Request"), key, request, response))
    return {api.name: api for api in sorted(found, key=lambda api: api.key)}


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
