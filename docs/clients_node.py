"""Writes the operations of packages/node and their types, from `clients`."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from clients import NOTE, PACKAGES, Operation, Type, Vocabulary, camel, capital

FOLDER = PACKAGES / "node"
SCALARS = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "duration": "Duration"}


def render(vocabulary: Vocabulary) -> dict[Path, str]:
    """Both files with their text."""
    return {
        FOLDER / "operations.js": _javascript(vocabulary),
        FOLDER / "operations.d.ts": _types(vocabulary),
    }


def _doc(text: str, indent: str) -> Iterator[str]:
    lines = textwrap.wrap(f"{text[:1].upper()}{text[1:].rstrip('.')}.", 116)
    if len(lines) == 1:
        yield f"{indent}/** {lines[0]} */"
        return
    yield f"{indent}/**"
    yield from (f"{indent} * {line}" for line in lines)
    yield f"{indent} */"


def _javascript(vocabulary: Vocabulary) -> str:
    methods = "\n\n".join("\n".join(_method(one)) for one in vocabulary.operations)
    return f"""\
'use strict'

// {NOTE}

const encode = encodeURIComponent

/** Every operation of the control server on a cluster. */
class Operations {{
  /**
   * @param {{(method: string, path: string, params: object, form: string) => Promise<any>}} call
   * @param {{string}} id of the cluster
   */
  constructor(call, id) {{
    this._call = call
    this._cluster = `/clusters/${{encode(id)}}`
  }}

{methods}
}}

module.exports = {{ Operations }}
"""


def _method(operation: Operation) -> Iterator[str]:
    given = [camel(one.name) for one in operation.needed]
    path = re.sub(r"\{(\w+)\}", lambda found: f"${{encode({camel(found[1])})}}", operation.path)
    where = path if operation.on_clusters else "${this._cluster}" + path
    named = [
        one.name if camel(one.name) == one.name else f"{one.name}: {camel(one.name)}"
        for one in operation.needed
        if not one.in_path
    ]
    params = f"{{ ...params, {', '.join(named)} }}" if named else "params"
    form = "text" if operation.answer is None else "lines" if operation.lines else "json"
    yield from _doc(operation.doc, "  ")
    yield f"  {operation.id}({', '.join([*given, 'params = {}'])}) {{"
    yield f"    return this._call('{operation.method}', `{where}`, {params}, '{form}')"
    yield "  }"


def _type(of: Type) -> str:
    match of.kind:
        case "list":
            assert of.of is not None
            found = f"{_type(of.of)}[]" if "|" not in _type(of.of) else f"({_type(of.of)})[]"
        case "map":
            assert of.of is not None
            found = f"Record<string, {_type(of.of)}>"
        case "object":
            found = "Record<string, any>"
        case "any":
            found = "any"
        case "shape":
            found = _shape_name(of.name)
        case _:
            found = " | ".join(f"'{value}'" for value in of.values) or SCALARS[of.kind]
    return f"{found} | null" if of.nullable else found


def _shape_name(name: str) -> str:
    """Record is a type of TypeScript."""
    return {"Record": "TopicRecord", "Request": "ReceivedRequest"}.get(name, name)


def _types(vocabulary: Vocabulary) -> str:
    lines = [
        f"// {NOTE}",
        "",
        "/** `40s`, `500ms`, `1m30s`, or a number of seconds. */",
        "export type Duration = string | number",
        "",
    ]
    for shape in vocabulary.shapes.values():
        lines += _doc(shape.doc or shape.name, "")
        lines += [f"export interface {_shape_name(shape.name)} {{"]
        lines += [f"  {name}{'?' * (name in shape.optional)}: {_type(of)}" for name, of in shape.fields.items()]
        lines += ["}", ""]
    for operation in vocabulary.operations:
        lines += _params(operation)
    lines += ["/** Every operation of the control server on a cluster. */", "export declare class Operations {"]
    for operation in vocabulary.operations:
        lines += _doc(operation.doc, "  ")
        given = [f"{camel(one.name)}: {_type(one.type)}" for one in operation.needed]
        given += [f"params?: {capital(operation.id)}Params"] if operation.optional else []
        answer = "string" if operation.answer is None else _type(operation.answer)
        lines += [f"  {operation.id}({', '.join(given)}): Promise<{answer}{'[]' * operation.lines}>"]
    return "\n".join([*lines, "}", ""])


def _params(operation: Operation) -> Iterator[str]:
    if not operation.optional:
        return
    yield f"export interface {capital(operation.id)}Params {{"
    for one in operation.optional:
        yield from _doc(one.doc, "  ")
        yield f"  {one.name}?: {'string | string[]' if one.type.is_texts else _type(one.type)}"
    yield "}"
    yield ""
