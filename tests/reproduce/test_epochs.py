"""Topics that are read from the records of groups with epochs."""

from __future__ import annotations

import pytest

from broker_sim.reproduce.epoch_timeline import _matching


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("orders-(eu|us)", {"orders-eu"}),
        (r"\Qorders\E.*", {"orders", "orders-eu"}),  # RE2's, not Python's
        ("(o|o)*(o|o)*x", set()),
        ("[", set()),
    ],
)
def test_a_members_expression_is_read_as_the_brokers_read_it(expression: str, expected: set[str]) -> None:
    assert _matching(expression, ["orders", "orders-eu", "o" * 60]) == expected
