"""Boundary values: every integer of every request has its own, a sequence is a function of its seed with them, and comes back."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_wire.api_keys import advertised
from tests.differential import generators
from tests.differential.catalogue import apis
from tests.differential.generators import edges
from tests.differential.generators.edges import Place
from tests.differential.sequence import Step
from tests.differential.symbols import Scope
from tests.differential.test_tool import VERSIONS

SHOWN: dict[int, set[tuple[int, int]]] = {}
for release in ("3.4", "4.1", "4.4"):
    for key, versions in advertised(release).items():
        SHOWN.setdefault(key, set()).add(versions)


def _full(cls: type[Any], version: int) -> dict[str, Any]:
    """A body that reaches every field: one item in each list."""
    body: dict[str, Any] = {}
    for name, spec in cls.__fields__:
        if version not in spec.versions:
            continue
        element = spec.element() if spec.kind == "array" else spec
        value: Any = _full(element.item, version) if element.kind == "struct" else 7
        body[name] = [value] if spec.kind == "array" else value
    return body


def _given(place: Place) -> set[Any]:
    return {value for group in edges.values_at(place) for value in group}


def _withheld(place: Place) -> Any:
    name = place.path.rpartition(".")[2]
    return [edges.WITHHELD[key][0] for key in (place.path, name) if key in edges.WITHHELD]


def _places() -> list[Place]:
    return [
        place
        for name, api in apis().items()
        for version in sorted({v for low, high in SHOWN.get(api.key, ()) for v in range(low, high + 1)})
        for place in edges.places(name, version, _full(api.request, version))
    ]


def test_every_integer_of_every_request_in_every_version_is_given_its_boundary_values() -> None:
    numbers = [place for place in _places() if place.kind in edges.BITS]
    assert {place.path for place in numbers} >= {"Fetch.session_id", "ListOffsets.topics.partitions.timestamp"}
    for place in numbers:
        missing = [
            value
            for value in (*edges.ends(place.kind), 6, 8)
            if value not in _given(place) and not any(value in values for values in _withheld(place))
        ]
        assert missing == [], place


def test_a_constant_is_given_with_its_neighbours_where_the_type_has_them() -> None:
    [session] = [place for place in edges.places("Fetch", 12, {}) if place.path == "Fetch.session_id"]
    assert _given(session) >= {-268_435_456, -268_435_455, -268_435_454, 2_147_483_639, 2_147_483_640, 2_147_483_641}
    [sent] = edges.values_at(Place(("acks",), "Produce.acks", "int16", False, None))[1:]
    assert sorted(set(sent)) == [-2, -1, 0, 1, 2]


def test_a_symbol_is_given_its_neighbours() -> None:
    [near] = edges.values_at(Place(("x",), "Heartbeat.x", "int32", False, "$generation:a"))[1:]
    assert near == ["$generation:a:-1", "$generation:a:1"]


def test_a_text_is_given_nothing_null_and_the_longest() -> None:
    scope = Scope("p1-", 0)
    place = Place(("group_id",), "Heartbeat.group_id", "string", False, "{p}g")
    assert _given(place) == {"", "~null~", "{p}{to 32767}"}
    assert len(scope.text("{p}{to 32767}")) == 32767
    assert scope.text("{p}{to 249}").startswith("p1-x")


def test_every_entry_of_the_tables_is_of_a_field_that_there_is() -> None:
    paths = {place.path for place in _places()}
    paths |= {f"{kind}.{name}" for kind, numbers in edges.PAYLOADS.items() for name in numbers}
    known = paths | {path.rpartition(".")[2] for path in paths}
    assert [key for key in (*edges.CONSTANTS, *edges.WITHHELD, *edges.LENGTHS) if key not in known] == []


@pytest.mark.parametrize("value", [-1, -268_435_456, 2_147_483_641])
def test_sequences_reach_the_boundary_values_of_a_fetch_session(value: int) -> None:
    """With -1 no real broker was asked for long, and the simulator's answer was wrong."""
    sequences = (generators.sequence(seed, VERSIONS, "data") for seed in range(4000))
    assert any(step.body.get("session_id") == value for one in sequences for step in one.steps)


def test_bending_changes_what_it_names_and_no_other_step() -> None:
    shared = [{"name": "range"}]
    steps = [
        Step(api="JoinGroup", version=5, body={"protocols": shared, "session_timeout_ms": 30_000}) for _ in range(300)
    ]
    before = [step.plain() for step in steps]
    edges.bend(1, steps)
    changed = [step.plain() for step in steps if step.bent]
    assert changed
    assert all(step.plain() == old for step, old in zip(steps, before, strict=True) if not step.bent)
    assert shared == [{"name": "range"}]
    again = [Step(**old) for old in before]
    edges.bend(1, again)
    assert again == steps
