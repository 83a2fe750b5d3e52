"""The OpenAPI document: valid, whole, and current in docs/."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from openapi_spec_validator import validate

from broker_sim.control.openapi import document, schema_of
from broker_sim.control.operations import OPERATIONS
from broker_sim.control.routes import FORMS
from broker_sim.control.shapes import GROUP, Map, Maybe

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def api() -> dict[str, Any]:
    return document()


@pytest.mark.slow
def test_it_is_valid_openapi(api: dict[str, Any]) -> None:
    assert api["openapi"].startswith("3.1.")
    validate(api)


def test_every_operation_is_there_once(api: dict[str, Any]) -> None:
    entries = [entry for path in api["paths"].values() for entry in path.values()]
    named = [entry["x-operation"] for entry in entries]
    assert set(named) == set(OPERATIONS)
    assert len(named) == len(OPERATIONS) + sum(map(len, FORMS.values()))
    ids = [entry["operationId"] for entry in entries]
    assert len(ids) == len(set(ids))


def test_every_parameter_of_an_operation_is_there(api: dict[str, Any]) -> None:
    for path, methods in api["paths"].items():
        for method, entry in methods.items():
            operation = OPERATIONS[entry["x-operation"]]
            named = {one["name"] for one in entry.get("parameters", [])}
            if "requestBody" in entry:
                assert method in ("post", "put")
                named |= set(entry["requestBody"]["content"]["application/json"]["schema"]["properties"])
            extra = {"cluster"} if operation.on == "cluster" else set()
            assert named == set(operation.parameters) | extra, (path, method)
            assert entry["summary"]
            assert {"400", "401", "403"} <= set(entry["responses"])
            assert sum(status.startswith("2") for status in entry["responses"]) == 1


def test_examples_are_what_their_schemas_say(api: dict[str, Any]) -> None:
    for methods in api["paths"].values():
        for entry in methods.values():
            media = entry.get("requestBody", {}).get("content", {}).get("application/json", {})
            if "example" in media:
                schema = {**media["schema"], "components": api["components"]}
                jsonschema.validate(media["example"], schema)


def test_shapes_become_schemas() -> None:
    named: dict[str, Any] = {}
    assert schema_of({"a": "integer?", "b?": ["string"]}, named) == {
        "type": "object",
        "properties": {"a": {"type": ["integer", "null"]}, "b": {"type": "array", "items": {"type": "string"}}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert schema_of(Map("integer"), named) == {"type": "object", "additionalProperties": {"type": "integer"}}
    assert schema_of(Maybe(["string"]), named) == {"type": ["array", "null"], "items": {"type": "string"}}
    assert schema_of(GROUP, named) == {"$ref": "#/components/schemas/Group"}
    assert set(named) == {"Group", "Member"}


def test_the_document_in_docs_is_current(api: dict[str, Any]) -> None:
    assert json.loads((DOCS / "openapi.json").read_text()) == api, "run `make docs`"
