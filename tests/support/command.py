"""``broker-sim`` as it is typed, in this process.

What is printed, and the code it ends with, are those of a process; to start one costs a hundred times as much as most commands do.
Tests of what belongs to a process (signals, pipes, what is loaded, the end of ``serve``) start one.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
from collections.abc import Mapping
from unittest import mock

from broker_sim.cli.main import main


def command(*words: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """``broker-sim WORDS`` with these variables besides; stdout and stderr are no terminal, and 100 columns wide."""
    out, errors = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with (
        mock.patch.dict(os.environ, {"COLUMNS": "100", **(environment or {})}),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(errors),
    ):
        try:
            code: object = main(list(words))
        except SystemExit as left:
            code = left.code
    assert isinstance(code, int), code
    return subprocess.CompletedProcess(list(words), code, *(each.buffer.getvalue().decode() for each in (out, errors)))  # type: ignore[attr-defined]
