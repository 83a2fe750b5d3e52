"""Ports for tests that must choose them beforehand."""

from __future__ import annotations

import os
import random
import socket
from contextlib import ExitStack

_RANGE = range(20_000, 32_000)  # below those that the kernel gives out by itself


def free_ports(count: int) -> int:
    """The first of ``count`` ports in a row that nobody listens on."""
    rng = random.Random(os.urandom(8))
    for _ in range(100):
        first = rng.choice(_RANGE)
        try:
            with ExitStack() as stack:
                for port in range(first, first + count):
                    stack.enter_context(socket.create_server(("127.0.0.1", port)))
            return first
        except OSError:
            continue
    raise RuntimeError(f"no {count} free ports in a row between {_RANGE.start} and {_RANGE.stop}")
