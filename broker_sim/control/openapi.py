"""The OpenAPI 3.1 document of the control server, drawn from the table of operations: a client in any language is generated from it.

It is served at /openapi.json and kept in docs/openapi.json.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from broker_sim.control.clusters import DEFAULT
from broker_sim.control.operations import OPERATIONS, Operation
from broker_sim.control.routes import CREATES, FORMS, PREFIX
from broker_sim.control.shapes import Map, Maybe, Shape
from broker_sim.fields.field import Field
from broker_sim.fields.kafka import ERROR_CODE
from broker_sim.fields.kinds import DURATION, ListOf, MapOf, Text

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster

__all__ = ["document", "page", "schema_of"]

_DESCRIPTION = f"""\
Operations on the virtual clusters of a broker-sim process. /{PREFIX}/clusters/ID/... names one of them; without clusters/ID
the cluster that the process was started for is meant: /{PREFIX}/groups/billing is
/{PREFIX}/clusters/{DEFAULT}/groups/billing. A duration is a text as
in 40s, 500ms or 1m30s, or a number of seconds. A log partition is named orders-0, __consumer_offsets-12, or offsets(GROUP) for the one
that a group lives in. GET and DELETE take their parameters in the query, POST and PUT as a JSON object."""

_ERRORS: dict[int, tuple[str, str]] = {
    400: ("BadRequest", "What was asked for is wrong; error names it, nearest what was probably meant."),
    401: ("Unauthorized", "The token is missing or wrong."),
    403: ("Forbidden", "Asked under a foreign name, or by a web page."),
    404: ("NotFound", "The thing named in the path is not there."),
    408: ("Timeout", "The condition did not hold in time; history has what happened instead."),
    409: (
        "Conflict",
        "Not possible in the present state: a broker would refuse it (kafka_error); or a rule that had to hit never did, "
        "a replay diverged, a scenario failed.",
    ),
    413: ("TooLarge", "The body is larger than 1 MiB."),
    415: ("UnsupportedMediaType", "The body is not application/json."),
}

_ERROR_SCHEMA = {
    "type": "object",
    "required": ["error", "kind"],
    "properties": {
        "error": {"type": "string", "description": "what is wrong, for people; a line for each thing"},
        "kind": {"type": "string", "examples": ["UsageError", "NotThere", "WaitTimeout", "NeverHit", "KafkaError"]},
        "nearest": {"type": "string", "description": "the name that was probably meant"},
        "errors": {
            "type": "array",
            "description": "of parameters: each thing that is wrong",
            "items": {
                "type": "object",
                "required": ["place", "error"],
                "properties": {
                    "place": {"type": "string", "description": "a JSON pointer into the parameters"},
                    "error": {"type": "string"},
                    "nearest": {"type": "string"},
                },
            },
        },
        "history": {"type": "string", "description": "what happened while it was waited"},
        "kafka_error": {"type": "string", "description": "Kafka's name of the error"},
    },
}


def document(url: str | None = None) -> dict[str, Any]:
    """The whole document; ``url`` is where the server that serves it is."""
    from broker_sim import __version__

    shapes: dict[str, Any] = {"Duration": DURATION, "ErrorCode": ERROR_CODE, "Error": _ERROR_SCHEMA}
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS.values():
        for path, form in _paths(operation):
            entry = paths.setdefault(path, {})
            entry[operation.method.lower()] = _entry(operation, path, form, shapes)
    tags = dict.fromkeys(operation.name.partition(".")[0] for operation in OPERATIONS.values())
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "broker-sim control",
            "version": __version__,
            "summary": "Incidents on demand for a simulated Kafka cluster",
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": url or "http://127.0.0.1:9099"}],
        "security": [{}, {"token": []}],
        "tags": [{"name": name} for name in tags],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(shapes.items())),
            "responses": {
                name: {
                    "description": text,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
                }
                for name, text in _ERRORS.values()
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _paths(operation: Operation) -> Iterable[tuple[str, str]]:
    """Yield the paths of an operation, each with the form of its answers there."""
    prefix = f"/{PREFIX}" if operation.on == "clusters" else f"/{PREFIX}/clusters/{{cluster}}"
    yield prefix + operation.path, ""
    for form in FORMS.get(operation.name, {}):
        yield f"{prefix}{operation.path}.{form}", form


def _entry(operation: Operation, path: str, form: str, shapes: dict[str, Any]) -> dict[str, Any]:
    summary, _, rest = operation.doc.partition("\n\n")
    words = operation.name.replace("_", ".").split(".")
    entry: dict[str, Any] = {
        "operationId": "".join([words[0], *(word.capitalize() for word in [*words[1:], form])]),
        "tags": [words[0]],
        "summary": " ".join(summary.split()),
        "x-operation": operation.name,
    }
    if rest:
        entry["description"] = " ".join(rest.split())
    in_path = {part[1:-1] for part in path.split("/") if part.startswith("{")}
    in_query = operation.method in ("GET", "DELETE")
    parameters = [_parameter(name, operation.parameters.get(name), "path") for name in sorted(in_path)]
    others = {name: parameter for name, parameter in operation.parameters.items() if name not in in_path}
    if in_query:
        parameters += [_parameter(name, parameter, "query") for name, parameter in others.items()]
    elif others:
        entry["requestBody"] = _body(others)
    if parameters:
        entry["parameters"] = parameters
    entry["responses"] = {
        "201" if operation.name in CREATES else "200": _answer(operation, form, shapes),
        **{str(code): {"$ref": f"#/components/responses/{_ERRORS[code][0]}"} for code in _codes(operation)},
    }
    return entry


def _codes(operation: Operation) -> list[int]:
    named = operation.on == "cluster" or "{" in operation.path
    codes = {400, 401, 403, *([404] if named else []), *([408] if operation.waits else []), *operation.errors}
    if operation.method != "GET":
        codes |= {409, 413, 415}
    return sorted(codes)


_CLUSTER = Field("cluster", Text(), "the id of a virtual cluster", required=True, example=DEFAULT)


def _parameter(name: str, parameter: Field | None, where: str) -> dict[str, Any]:
    parameter = parameter or _CLUSTER
    entry: dict[str, Any] = {"name": name, "in": where, "required": where == "path" or parameter.required}
    entry["description"] = parameter.doc
    if isinstance(parameter.kind, MapOf):
        entry["content"] = {"application/json": {"schema": parameter.schema()}}
    else:
        entry["schema"] = parameter.schema()
    if isinstance(parameter.kind, ListOf):
        entry["explode"] = True
    if parameter.example is not None:
        entry["example"] = parameter.example
    return entry


def _body(parameters: Mapping[str, Field]) -> dict[str, Any]:
    required = [parameter.name for parameter in parameters.values() if parameter.required]
    examples = {
        parameter.name: parameter.example
        for parameter in parameters.values()
        if parameter.example is not None and (parameter.required or not required)
    }
    properties = {name: {**parameter.schema(), "description": parameter.doc} for name, parameter in parameters.items()}
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = required
    content: dict[str, Any] = {"schema": schema}
    if examples:
        content["example"] = examples
    return {"required": bool(required), "content": {"application/json": content}}


def _answer(operation: Operation, form: str, shapes: dict[str, Any]) -> dict[str, Any]:
    kinds = FORMS.get(operation.name, {})
    if form:
        return {
            "description": "the picture, a file that needs no other",
            "content": {kinds[form]: {"schema": {"type": "string"}}},
        }
    schema = schema_of(operation.answer, shapes)
    if operation.name == "journal.read":
        return {"description": "one event a line", "content": {"application/x-ndjson": {"schema": schema}}}
    return {"description": "done", "content": {"application/json": {"schema": schema}}}


def schema_of(shape: Any, shapes: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema of a shape (shapes.py); named ones are put into ``shapes`` and referred to."""
    if isinstance(shape, Shape):
        if shape.name not in shapes:
            shapes[shape.name] = {}
            shapes[shape.name] = {**_object(shape.fields, shapes, shape.more), "description": shape.doc}
        return {"$ref": f"#/components/schemas/{shape.name}"}
    if isinstance(shape, Maybe):
        schema = schema_of(shape.values, shapes)
        return {**schema, "type": [schema["type"], "null"]}
    if isinstance(shape, Map):
        return {"type": "object", "additionalProperties": schema_of(shape.values, shapes)}
    if isinstance(shape, list):
        return {"type": "array", "items": schema_of(shape[0], shapes)}
    if isinstance(shape, Mapping):
        return _object(shape, shapes, False)
    if shape == "any":
        return {}
    kind = shape.rstrip("?")
    return {"type": [kind, "null"] if shape.endswith("?") else kind}


def _object(fields: Mapping[str, Any], shapes: dict[str, Any], more: bool) -> dict[str, Any]:
    properties = {name.rstrip("?"): schema_of(shape, shapes) for name, shape in fields.items()}
    required = [name for name in fields if not name.endswith("?")]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": more}


# --- the page ---------------------------------------------------------------------------------------------------------


def page(clusters: Iterable[tuple[str, Cluster]]) -> str:
    """The page at ``/``: the clusters, and what can be done to them."""
    from broker_sim.drawing import pages

    return pages.page(
        "control/index.html",
        prefix=PREFIX,
        clusters=[{"name": name, "bootstrap": cluster.bootstrap} for name, cluster in clusters],
        operations=[
            {"method": operation.method, "path": _short(operation), "doc": " ".join(operation.doc.split())}
            for operation in OPERATIONS.values()
        ],
    )


def _short(operation: Operation) -> str:
    return f"/{PREFIX}{operation.path}"
