"""Kafka's own codec as a function: bytes go in, Java reads them and writes what it read."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.real_kafka import java_command

ACCEPTED, REFUSED, UNKNOWN, UNWRITABLE = range(4)


@dataclass(frozen=True)
class Outcome:
    """``status``: ACCEPTED, and ``data`` is what Java wrote; REFUSED or UNWRITABLE, and it is why; UNKNOWN version.

    ``position`` is where Java stopped reading.
    """

    status: int
    position: int
    data: bytes


def reserialize(kafka: str, messages: Sequence[tuple[str, int, bytes]]) -> list[Outcome]:
    """Return the outcome of reading and rewriting each (message name, version, bytes) with the codec of Kafka version ``kafka``."""
    source = Path(__file__).parent / "java" / "Reserialize.java"
    question = b"".join(
        struct.pack(f">H{len(name)}shi", len(name), name.encode(), version, len(data)) + data
        for name, version, data in messages
    )
    done = subprocess.run(
        java_command(kafka, str(source)), input=question, capture_output=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-2000:]
    outcomes, position, answer = [], 0, done.stdout
    while position < len(answer):
        status, stopped, size = struct.unpack_from(">bii", answer, position)
        position += 9
        outcomes.append(Outcome(status, stopped, answer[position : position + size]))
        position += size
    assert len(outcomes) == len(messages)
    return outcomes
