"""Input from outside becomes an error of one line or checked parameters; nothing else."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from broker_sim.common.text import UsageError
from broker_sim.control.operations import OPERATIONS, check
from broker_sim.control.routes import problem, route

WORDS = [
    "offsets(g)",
    "orders-0",
    "stuck",
    "slow",
    "OffsetCommit",
    "NOT_COORDINATOR",
    "40s",
    "-1",
    "1e400",
    "",
    "\0",
    "[",
    "{",
]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.sampled_from(WORDS)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@st.composite
def asked(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """An operation with some of its parameters, and perhaps one that it has not got."""
    name = draw(st.sampled_from(sorted(OPERATIONS)))
    known = sorted(OPERATIONS[name].parameters)
    names = draw(st.lists(st.sampled_from(known), unique=True, max_size=6)) if known else []
    if draw(st.integers(0, 9)) == 0:
        names.append(draw(st.text(max_size=10)))
    return name, {each: draw(VALUES) for each in names}


@given(asked())
def test_parameters_are_checked_or_refused(one: tuple[str, dict[str, Any]]) -> None:
    name, given_ = one
    try:
        checked = check(name, given_)
    except UsageError as error:
        told = problem(error)
    else:
        assert check(name, checked) == checked
        json.dumps(checked)
        return
    assert told is not None
    assert told[0] in (400, 404)
    assert told[1]["error"]


@given(
    st.sampled_from(["GET", "POST", "PUT", "DELETE", "PATCH", ""]), st.text() | st.from_regex(r"/v1(/[a-z%2F{}().-]*)*")
)
def test_paths_lead_somewhere_or_nowhere(method: str, path: str) -> None:
    try:
        found = route(method, path)
    except UsageError as error:
        told = problem(error)
    else:
        assert found.operation.method == method
        assert set(found.given) <= set(found.operation.parameters)
        return
    assert told is not None
    assert told[0] in (404, 405)
