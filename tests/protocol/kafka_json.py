"""Kafka's message schemas as they lie in its jars, seen version by version.

``view(schema, version)`` is a message in one version as a nested tuple; ``our_view(cls, version)`` is the same of one of our
classes. Equal views mean equal wire formats, defaults, names and struct names.
"""

from __future__ import annotations

import dataclasses
import json
import re
import zipfile
from pathlib import Path
from typing import Any

from kafka_wire.schema import FieldSpec, Versions

_PRIMITIVES = {"bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "float64", "uuid", "string", "bytes"}
_TYPE_DEFAULTS = {"bool": False, "float64": 0.0, "uuid": bytes(16), "string": "", "bytes": b"", "records": b""}


@dataclasses.dataclass(frozen=True)
class FieldView:
    """One field in one version. ``kind`` names a primitive, or is ``[]`` + the element's kind, or a struct's name."""

    name: str
    kind: str
    nullable: bool
    tag: int | None
    default: object
    flexible: bool | None
    struct: tuple[FieldView, ...] | None


@dataclasses.dataclass(frozen=True)
class Schema:
    """One ``*.json`` of a jar."""

    name: str
    versions: Versions
    flexible: Versions
    api_key: int | None
    listeners: tuple[str, ...]
    unstable: bool
    raw: dict[str, Any]


def load(libs: Path, jar_prefixes: tuple[str, ...] = ("kafka-clients-",)) -> dict[str, Schema]:
    """Message name -> schema, from the jars in ``libs`` whose names begin with one of the prefixes."""
    found = {}
    for jar in sorted(libs.glob("*.jar")):
        if jar.name.startswith(jar_prefixes):
            with zipfile.ZipFile(jar) as archive:
                for entry in archive.namelist():
                    if re.search(r"(^|/)common/message/\w+\.json$", entry):
                        schema = _parse(archive.read(entry).decode())
                        found[schema.name] = schema
    return found


def _parse(text: str) -> Schema:
    raw = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
    key = raw.get("apiKey")
    return Schema(
        raw["name"],
        Versions.parse(raw["validVersions"]),
        Versions.parse(raw.get("flexibleVersions", "none")),
        None if key is None else int(key),
        tuple(raw.get("listeners", ())),
        bool(raw.get("latestVersionUnstable", False)),
        raw,
    )


def snake_case(name: str) -> str:
    """``ThrottleTimeMs`` -> ``throttle_time_ms``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


# --- Kafka's side ----------------------------------------------------------------------------------------------------


def view(schema: Schema, version: int) -> tuple[FieldView, ...]:
    """The fields that ``version`` has, in their order."""
    common = {item["name"]: item for item in schema.raw.get("commonStructs", ())}
    return _fields(schema.raw["fields"], version, common)


def _fields(fields: list[dict[str, Any]], version: int, common: dict[str, Any]) -> tuple[FieldView, ...]:
    return tuple(
        _field(field, version, common)
        for field in fields
        if version in Versions.parse(field.get("versions") or field["taggedVersions"])
    )


def _field(field: dict[str, Any], version: int, common: dict[str, Any]) -> FieldView:
    kind = field["type"]
    element = kind.removeprefix("[]")
    struct = None
    if element not in _PRIMITIVES and element != "records":
        struct = _fields(field.get("fields") or common[element]["fields"], version, common)
    own_flexible = field.get("flexibleVersions")
    tagged = "tag" in field and version in Versions.parse(field["taggedVersions"])
    return FieldView(
        snake_case(field["name"]),
        kind,
        version in Versions.parse(field.get("nullableVersions", "none")),
        field["tag"] if tagged else None,
        _default(field),
        None if own_flexible is None else version in Versions.parse(own_flexible),
        struct,
    )


def _default(field: dict[str, Any]) -> object:
    kind, text = field["type"], str(field.get("default") or "")  # a null instead of "null" is no default for Kafka
    if text == "null":
        return None
    if kind.startswith("[]"):
        return []
    if kind not in _PRIMITIVES and kind != "records":
        return "the struct's own"
    if kind in _TYPE_DEFAULTS and text == "":
        return _TYPE_DEFAULTS[kind]
    if kind == "bool":
        return text.lower() == "true"
    if kind.startswith(("int", "uint")):
        return int(text or "0", 0)
    return text


# --- our side --------------------------------------------------------------------------------------------------------


def our_view(cls: Any, version: int) -> tuple[FieldView, ...]:
    """As view(), of a class of ours."""
    defaults = {field.name: field for field in dataclasses.fields(cls)}
    return tuple(
        FieldView(
            name,
            _kind(spec),
            version in spec.nullable,
            spec.tag if version in spec.tagged else None,
            _our_default(spec, defaults[name]),
            None if spec.flexible is None else version in spec.flexible,
            our_view(spec.item, version) if isinstance(spec.item, type) else None,
        )
        for name, spec in cls.__fields__
        if version in spec.versions
    )


def _kind(spec: FieldSpec) -> str:
    item = spec.item if isinstance(spec.item, str) else getattr(spec.item, "__name__", "")
    return {"array": f"[]{item}", "struct": item}.get(spec.kind, spec.kind)


def _our_default(spec: FieldSpec, field: dataclasses.Field[Any]) -> object:
    if field.default_factory is dataclasses.MISSING:
        return field.default
    return [] if field.default_factory is list else "the struct's own"
