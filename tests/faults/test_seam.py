"""The benchmark of the unused seams compares what it says: code with and code without looks at them."""

from __future__ import annotations

import ast
import inspect

import pytest

from benchmarks.seam import _Broker, _Decided, _frames, without_seams


@pytest.mark.parametrize(
    ("source", "left"),
    [
        ("fast = a if tap is None else None", "fast = a"),
        ("if self.observer is not None:\n    look()\ngo()", "pass\ngo()"),
        ("if x and tap is None:\n    go()", "if x:\n    go()"),
        (
            "if not context.partition.high_watermark_frozen and context.partition.append_interceptor is None:\n    go()",
            "go()",
        ),
        ("if a or tap is not None:\n    go()\nelse:\n    stay()", "if a:\n    go()\nelse:\n    stay()"),
        ("self.held = True", "self.held = True"),
    ],
)
def test_looks_at_seams_are_decided_before_they_run(source: str, left: str) -> None:
    assert ast.unparse(ast.fix_missing_locations(_Decided().visit(ast.parse(source)))) == left


def test_a_module_without_seams_is_refused() -> None:
    with pytest.raises(RuntimeError, match="compares nothing"):
        without_seams("broker_sim.common.text")


@pytest.mark.parametrize("seams", [True, False])
async def test_both_brokers_answer_commits_at_once(seams: bool) -> None:
    assert _Broker(seams=seams).cpu_us(_frames(20)) > 0


def test_the_commit_path_has_seams_to_take_out() -> None:
    from broker_sim.network.connection import Connection

    bare = without_seams("broker_sim.network.connection").Connection
    assert "tap" in inspect.getsource(Connection._handle_frames)
    assert bare._handle_frames.__code__.co_code != Connection._handle_frames.__code__.co_code
