"""Text in Python sources: docstrings, those of attributes among them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_STATEMENTS_IN = ("body", "orelse", "finalbody", "handlers", "cases")


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Every statement, without the expressions, which are most of a tree."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for field in _STATEMENTS_IN:
            waiting += getattr(node, field, ())


def docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The docstrings of a module with its classes, functions and attributes: line and text."""
    for node in statements(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
