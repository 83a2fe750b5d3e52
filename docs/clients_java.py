"""Writes the operations and the shapes of answers of packages/junit, from `clients`."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

from clients import NOTE, PACKAGES, Operation, Parameter, Shape, Type, Vocabulary, camel, capital

SOURCES = PACKAGES / "junit" / "src" / "main" / "java" / "brokersim"
KEYWORDS = {"for"}
SCALARS = {"string": "String", "integer": "long", "number": "double", "boolean": "boolean"}
BOXED = {"integer": "Long", "number": "Double", "boolean": "Boolean"}


def render(vocabulary: Vocabulary) -> dict[Path, str]:
    """Both files with their text."""
    return {
        SOURCES / "Operations.java": _operations(vocabulary),
        SOURCES / "Answers.java": _answers(vocabulary),
    }


def _doc(text: str, indent: str) -> str:
    """A comment of Javadoc, which is HTML."""
    escaped = html.escape(text, quote=False).replace("{", "&#123;").replace("}", "&#125;").replace("@", "&#64;")
    return f"{indent}/** {escaped[:1].upper()}{escaped[1:].rstrip('.')}. */"


def _name(name: str) -> str:
    return camel(name) + ("_" if name in KEYWORDS else "")


def _type(of: Type, *, boxed: bool = False) -> str:
    match of.kind:
        case "list":
            assert of.of is not None
            return f"List<{_type(of.of, boxed=True)}>"
        case "map":
            assert of.of is not None
            return f"Map<String, {_type(of.of, boxed=True)}>"
        case "object":
            return "Map<String, Object>"
        case "any":
            return "Object"
        case "shape":
            return of.name
        case "duration":
            return "Duration"
    return BOXED.get(of.kind, "String") if boxed or of.nullable else SCALARS[of.kind]


def _read(of: Type, value: str) -> str:
    """The expression that makes a typed value of a parsed one."""
    match of.kind:
        case "shape":
            return f"{of.name}.of(Json.object({value}))"
        case "object":
            return f"Json.object({value})"
        case "list" | "map":
            assert of.of is not None
            inner = "one" if value.startswith("read") else f"{value}s"  # a lambda in a lambda needs another name
            return f"Json.{of.kind}({value}, {inner} -> {_read(of.of, inner)})"
        case "number":
            return f"((Number) {value}).doubleValue()"
        case "any":
            return value
    return f"({BOXED.get(of.kind, 'String')}) {value}"


def _answers(vocabulary: Vocabulary) -> str:
    shapes = "\n\n".join("\n".join(_record(shape)) for shape in vocabulary.shapes.values())
    return f"""\
package brokersim;

import java.util.List;
import java.util.Map;

/** The answers of the control server; a value that is absent or null there is null. {NOTE} */
public final class Answers {{
    private Answers() {{}}

{shapes}
}}
"""


def _record(shape: Shape) -> Iterator[str]:
    fields = {
        name: Type(of.kind, of.of, of.name, nullable=of.nullable or name in shape.optional)
        for name, of in shape.fields.items()
    }
    yield _doc(shape.doc or shape.name, "    ")
    yield f"    public record {shape.name}("
    yield ",\n".join(f"        {_type(of)} {_name(name)}" for name, of in fields.items()) + ") {"
    yield f"        static {shape.name} of(Map<String, Object> read) {{"
    yield "            return read == null ? null : new " + shape.name + "("
    values = (_read(of, f'read.get("{name}")') for name, of in fields.items())
    yield ",\n".join(f"                {value}" for value in values) + ");"
    yield "        }"
    yield "    }"


def _operations(vocabulary: Vocabulary) -> str:
    methods = "\n\n".join("\n".join(_method(one)) for one in vocabulary.operations)
    calls = "\n\n".join("\n".join(_call(one)) for one in vocabulary.operations)
    return f"""\
package brokersim;

import static brokersim.Control.encoded;

import java.time.Duration;
import java.util.List;
import java.util.Map;

/**
 * Every operation of the control server on a cluster, as in {{@code groupWait("billing").state("Stable").members(3).call()}}: required
 * parameters are arguments, optional ones are set before {{@code call()}}, which throws {{@link SimCluster.SimError}}. {NOTE}
 */
public final class Operations {{
    private final Control control;
    private final String cluster;

    Operations(Control control, String id) {{
        this.control = control;
        this.cluster = "/clusters/" + encoded(id);
    }}

{methods}

{calls}
}}
"""


def _arguments(operation: Operation) -> str:
    return ", ".join(f"{_type(one.type)} {_name(one.name)}" for one in operation.needed)


def _method(operation: Operation) -> Iterator[str]:
    names = ["control", *([] if operation.on_clusters else ["cluster"]), *(_name(one.name) for one in operation.needed)]
    yield _doc(operation.doc, "    ")
    yield f"    public {capital(operation.id)} {operation.id}({_arguments(operation)}) {{"
    yield f"        return new {capital(operation.id)}({', '.join(names)});"
    yield "    }"


def _call(operation: Operation) -> Iterator[str]:
    name = capital(operation.id)
    of = operation.answer
    answer, read = ("String", "answer -> answer") if of is None else (_answer_type(operation), _answer(operation))
    path = re.sub(r"\{(\w+)\}", lambda found: f'" + encoded({_name(found[1])}) + "', f'"{operation.path}"')
    where = path.removesuffix(' + ""') if operation.on_clusters else "cluster + " + path.removesuffix(' + ""')
    given = ", ".join(
        filter(None, ("Control control", "" if operation.on_clusters else "String cluster", _arguments(operation)))
    )
    yield _doc(f"{operation.name}: {operation.doc}", "    ")
    yield f"    public static final class {name} extends Call<{answer}> {{"
    yield f"        private {name}({given}) {{"
    yield f'            super(control, "{operation.method}", {where}, {read});'
    for one in operation.needed:
        if not one.in_path:
            yield f'            set("{one.name}", {_name(one.name)});'
    yield "        }"
    for one in operation.optional:
        yield ""
        yield from _setter(name, one)
    yield "    }"


def _answer_type(operation: Operation) -> str:
    assert operation.answer is not None
    of = operation.answer
    name = f"Answers.{of.name}" if of.kind == "shape" else _type(of)
    return f"List<{name}>" if operation.lines else name


def _answer(operation: Operation) -> str:
    assert operation.answer is not None
    of = operation.answer
    one = (
        f"Answers.{of.name}.of(Json.object(Json.parse(answer)))"
        if of.kind == "shape"
        else "Json.object(Json.parse(answer))"
    )
    return (
        f"answer -> answer.lines().map(line -> {one.replace('answer', 'line')}).toList()"
        if operation.lines
        else f"answer -> {one}"
    )


def _setter(call: str, one: Parameter) -> Iterator[str]:
    kind = "String..." if one.type.is_texts else _type(one.type).replace("Object>", "?>")
    value = f"List.of({_name(one.name)})" if one.type.is_texts else _name(one.name)
    yield _doc(one.doc_with_values, "        ")
    yield f"        public {call} {_name(one.name)}({kind} {_name(one.name)}) {{"
    yield f'            set("{one.name}", {value});'
    yield "            return this;"
    yield "        }"
