"""Model of the clients in packages/: the operations and shapes of openapi.json, without anything of one language.

`clients_java`, `clients_go` and `clients_node` write them down in theirs. A client of a cluster fills in ``{cluster}`` by itself; for
the operations on clusters it is a parameter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from broker_sim.control import openapi

PACKAGES = Path(__file__).resolve().parent.parent / "packages"
NOTE = "Written by docs/generate.py from docs/openapi.json."
OF_A_CLUSTER = "/v1/clusters/{cluster}"
NOT_IN_A_CLIENT = frozenset({"follow"})
"""Parameters without which every answer ends."""


@dataclass(frozen=True, slots=True)
class Type:
    """A type of a parameter or a field: string, integer, number, boolean, duration, object, any, list, map or shape.

    ``of`` is the type of a list's or a map's entries, ``name`` a shape's, ``nullable`` whether it may be null, ``zero`` whether the
    empty value differs from none at all.
    """

    kind: str
    of: Type | None = None
    name: str = ""
    nullable: bool = False
    zero: bool = False
    values: tuple[str, ...] = ()

    @property
    def is_texts(self) -> bool:
        """Whether it is a list of strings."""
        return self.kind == "list" and self.of is not None and self.of.kind == "string"


NAMED = {
    "Duration": Type("duration"),
    "ErrorCode": Type("string"),
    "Error": Type("object"),
    "Event": Type("object"),  # its fields depend on what it is: journal.md
}
"""Schemas that are no shapes here."""


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    type: Type
    doc: str
    required: bool
    in_path: bool

    @property
    def doc_with_values(self) -> str:
        """Description of the parameter, with its values where they are enumerated."""
        return self.doc + (f"; one of {', '.join(self.type.values)}" if self.type.values else "")


@dataclass(frozen=True, slots=True)
class Shape:
    """An object in an answer: its fields, and which of them may be absent."""

    name: str
    doc: str
    fields: dict[str, Type]
    optional: frozenset[str]


@dataclass(frozen=True, slots=True)
class Operation:
    """``id`` is groupWait, ``name`` group.wait; ``path`` begins behind the cluster's. ``answer``: None for a text; ``lines``:
    one of them on each line."""

    id: str
    name: str
    method: str
    path: str
    on_clusters: bool
    doc: str
    parameters: tuple[Parameter, ...]
    answer: Type | None
    lines: bool

    @property
    def needed(self) -> list[Parameter]:
        return [one for one in self.parameters if one.required]

    @property
    def optional(self) -> list[Parameter]:
        return [one for one in self.parameters if not one.required]


@dataclass(slots=True)
class Vocabulary:
    """Everything that a client has."""

    version: str
    operations: list[Operation] = field(default_factory=list)
    shapes: dict[str, Shape] = field(default_factory=dict)


def capital(name: str) -> str:
    """reply_delay -> ReplyDelay, groupWait -> GroupWait."""
    return "".join(word[:1].upper() + word[1:] for word in re.split(r"[_.]", name))


def camel(name: str) -> str:
    """reply_delay -> replyDelay."""
    return name[:1].lower() + capital(name)[1:]


def vocabulary() -> Vocabulary:
    """Read the document. Raises ValueError for a schema that no client could be written for."""
    document = openapi.document()
    found = Vocabulary(document["info"]["version"])
    for name, schema in document["components"]["schemas"].items():
        if name not in NAMED:
            _shape(found, name, schema, schema["description"])
    for path, entries in document["paths"].items():
        for method, entry in entries.items():
            found.operations.append(_operation(found, path, method.upper(), entry))
    return found


def _operation(found: Vocabulary, path: str, method: str, entry: Mapping[str, Any]) -> Operation:
    on_clusters = entry["tags"] == ["cluster"]
    [content] = next(answer for code, answer in entry["responses"].items() if code.startswith("2"))["content"].items()
    kind, schema = content[0], content[1]["schema"]
    operation = entry["operationId"]
    text = schema.get("type") == "string"
    answer = None if text else _type(found, schema, f"{capital(operation)}Answer")
    lines = kind == "application/x-ndjson"
    if lines and answer is not None:
        [answer] = [one.of for one in found.shapes.pop(answer.name).fields.values()]
    return Operation(
        operation,
        entry["x-operation"],
        method,
        path.removeprefix("/v1") if on_clusters else path.removeprefix(OF_A_CLUSTER),
        on_clusters,
        " ".join(filter(None, (entry["summary"], entry.get("description")))),
        tuple(_parameters(found, entry, on_clusters=on_clusters)),
        answer,
        lines,
    )


def _parameters(found: Vocabulary, entry: Mapping[str, Any], *, on_clusters: bool) -> Iterator[Parameter]:
    """In the order of the path, then what is needed, then the others."""
    read = []
    for one in entry.get("parameters", ()):
        if one["name"] in NOT_IN_A_CLIENT or (one["name"] == "cluster" and not on_clusters):
            continue
        schema = one["schema"] if "schema" in one else one["content"]["application/json"]["schema"]
        kind = _type(found, schema, capital(one["name"]), one["description"])
        read.append(Parameter(one["name"], kind, one["description"], one["required"], one["in"] == "path"))
    body = entry.get("requestBody", {"content": {"application/json": {"schema": {}}}})["content"]["application/json"][
        "schema"
    ]
    for name, schema in body.get("properties", {}).items():
        kind = _type(found, schema, capital(name), schema["description"])
        read.append(Parameter(name, kind, schema["description"], name in body.get("required", ()), in_path=False))
    yield from sorted(read, key=lambda one: (not one.in_path, not one.required))


def _shape(found: Vocabulary, name: str, schema: Mapping[str, Any], doc: str) -> Type:
    fields = {key: _type(found, one, f"{name}{capital(key)}") for key, one in schema["properties"].items()}
    found.shapes[name] = Shape(name, doc, fields, frozenset(fields) - set(schema.get("required", ())))
    return Type("shape", name=name)


def _type(found: Vocabulary, schema: Mapping[str, Any], name: str, doc: str = "") -> Type:
    """The type of a schema; ``name`` is for a shape without one."""
    if "$ref" in schema:
        named = schema["$ref"].rpartition("/")[2]
        return NAMED.get(named) or Type("shape", name=named)
    if "anyOf" in schema:
        kinds = [one["type"] for one in schema["anyOf"]]
        if kinds == ["string", "array"]:
            return Type("list", Type("string"))
        if kinds == ["object", "array"]:
            return Type("map", Type("any"))
        raise ValueError(f"no client has a type for {schema}")
    kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    nullable = "null" in kinds
    [kind, *more] = [one for one in kinds if one != "null"]
    if more:
        return Type("any" if "boolean" in kinds else "string")
    if kind == "array":
        return Type("list", _type(found, schema["items"], name), nullable=nullable)
    if kind == "object" and schema.get("properties"):
        return Type("shape", name=_shape(found, name, schema, schema.get("description", "")).name, nullable=nullable)
    if kind == "object":
        entries = schema.get("additionalProperties")
        return (
            Type("map", _type(found, entries, name), nullable=nullable)
            if entries
            else Type("object", nullable=nullable)
        )
    return Type(
        kind, nullable=nullable, zero=_zero_means_something(kind, schema, doc), values=tuple(schema.get("enum", ()))
    )


def _zero_means_something(kind: str, schema: Mapping[str, Any], doc: str) -> bool:
    """Whether 0 or false differs from no value."""
    if kind == "boolean":
        return schema.get("default") is True or "default: true" in doc or doc.startswith("false:")
    return kind in ("integer", "number") and schema.get("minimum", 0) <= 0 and schema.get("default") != 0
