"""Writes the operations and the shapes of answers of packages/go, from `clients`."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from clients import NOTE, PACKAGES, Operation, Parameter, Shape, Type, Vocabulary

FILE = PACKAGES / "go" / "operations.go"
INITIALISMS = {"id": "ID", "api": "API", "ca": "CA", "isr": "ISR", "svg": "SVG", "html": "HTML"}
SCALARS = {"string": "string", "integer": "int64", "number": "float64", "boolean": "bool", "duration": "time.Duration"}
EMPTY_IS_NOT_NULL = {("Record", "key"), ("Record", "value"), ("RecordHeaders", "value")}
"""Fields of text for which null and "" are two things."""
KEYWORDS = {"type", "for"}
RENAMED = {name: f"{name}Info" for name in ("Clock", "Cluster", "Fault", "Group", "Scenario", "State", "Topic")}
"""Shapes beside which the package has a type of that name; kfake's are called so, too."""


def render(vocabulary: Vocabulary) -> dict[Path, str]:
    """The file with its text."""
    shapes = "\n\n".join("\n".join(_struct(shape)) for shape in vocabulary.shapes.values())
    operations = "\n\n".join("\n".join(_operation(one)) for one in vocabulary.operations)
    text = f"""\
// {NOTE} DO NOT EDIT.

package brokersim

import "time"

{shapes}

{operations}
"""
    return {FILE: text}


def exported(name: str) -> str:
    """client_id -> ClientID, groupWait -> GroupWait."""
    words = name.split("_")
    return "".join(INITIALISMS.get(word, word[:1].upper() + word[1:]) for word in words)


def _local(name: str) -> str:
    found = exported(name)
    found = found.lower() if found.isupper() else found[:1].lower() + found[1:]
    return f"{found}_" if found in KEYWORDS else found


def _doc(text: str, indent: str) -> Iterator[str]:
    for line in textwrap.wrap(f"{text.rstrip('.')}.", 110):
        yield f"{indent}// {line}"


def _type(of: Type) -> str:
    match of.kind:
        case "list":
            assert of.of is not None
            return f"[]{_type(of.of)}"
        case "map":
            assert of.of is not None
            return f"map[string]{_type(of.of)}"
        case "object":
            return "map[string]any"
        case "any":
            return "any"
        case "shape":
            return RENAMED.get(of.name, of.name)
    return SCALARS[of.kind]


def _aligned(rows: list[tuple[str, str, str]]) -> Iterator[str]:
    """Fields of a struct without comments between them, as gofmt aligns them."""
    names = max((len(row[0]) for row in rows), default=0)
    types = max((len(row[1]) for row in rows), default=0)
    for name, kind, tag in rows:
        yield f"\t{name:<{names}} {kind:<{types}} {tag}".rstrip()


def _struct(shape: Shape) -> Iterator[str]:
    called = RENAMED.get(shape.name, shape.name)
    yield from _doc(f"{called}: {shape.doc or 'an entry'}", "")
    yield f"type {called} struct {{"
    rows = []
    for name, of in shape.fields.items():
        null = of.nullable and (of.kind in ("integer", "boolean") or (shape.name, name) in EMPTY_IS_NOT_NULL)
        rows.append((exported(name), "*" * null + _type(of), f'`json:"{name}"`'))
    yield from _aligned(rows)
    yield "}"


def _parameter_type(one: Parameter) -> str:
    kind = _type(one.type).replace("int64", "int")
    return f"*{kind}" if one.type.zero and not one.required else kind


def _operation(operation: Operation) -> Iterator[str]:
    name = exported(operation.id)
    if operation.optional:
        yield f"// {name}Params are the optional parameters of [API.{name}]; those that are pointers may be zero, as in Ptr(0)."
        yield f"type {name}Params struct {{"
        for one in operation.optional:
            yield from _doc(one.doc_with_values, "\t")
            yield f"\t{exported(one.name)} {_parameter_type(one)}"
        yield "}"
        yield ""
    yield from _doc(f"{name}: {operation.doc[:1].lower()}{operation.doc[1:]}", "")
    given = [f"{_local(one.name)} {_parameter_type(one)}" for one in operation.needed]
    given += [f"params {name}Params"] if operation.optional else []
    answer = "string" if operation.answer is None else _type(operation.answer)
    answer = f"[]{answer}" if operation.lines else answer
    yield f"func (a *API) {name}({', '.join(given)}) (answer {answer}, err error) {{"
    yield "\tp := parameters{}"
    for one in operation.needed:
        if not one.in_path:
            yield f'\tp["{one.name}"] = {_value(one, _local(one.name))}'
    for one in operation.optional:
        yield f'\tp.set("{one.name}", params.{exported(one.name)})'
    path = re.sub(r"\{(\w+)\}", lambda found: f'"+escaped({_local(found[1])})+"', f'"{operation.path}"')
    path = path.removesuffix('+""')
    where = path if operation.on_clusters else f"a.cluster+{path}"
    read = "lines(&answer)" if operation.lines else "&answer"
    yield f'\terr = a.call("{operation.method}", {where}, p, {read})'
    yield "\treturn answer, err"
    yield "}"


def _value(one: Parameter, value: str) -> str:
    return f"milliseconds({value})" if one.type.kind == "duration" else value
