"""Requests of the other generators, on connections that are used otherwise: requests in a row without a wait, frames in
pieces, odd client ids, tagged fields that nobody knows, headers that lie, Produce without an answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.differential.generators import admin, data, groups
from tests.differential.generators.draw import Draw
from tests.differential.sequence import Step

CLIENTS = (None, "", " ", "a b", "ü", "a-b-c", "\u0000", "x" * 300, "a\U0001f600")
CLIENT_BYTES = ("ff", "c3", "61ed a080 62", "f4908080", "c080", "2d2d")
TAGS: tuple[list[list[Any]], ...] = (
    [[9, ""]],
    [[77, "00ff"]],
    [[1000, "00" * 200], [2**20, "01"]],
    [[60, "02"], [70, "01"]],
)
BODY_TAGS = (*TAGS, [[2**31 - 1, "ab"]], [[70, "01"], [60, "02"]], [[70, "01"], [70, "02"]])
"""Out of order, too: where Kafka writes a header anew for its controller (AlterConfigs), it falls over such tags in it."""
PARKING = ("JoinGroup", "SyncGroup")
"""Behind one of these a row of requests would wait, and with it the play."""
CHANGING = ("CreateTopics", "CreatePartitions", "DeleteTopics", "AlterConfigs", "IncrementalAlterConfigs")
"""APIs whose changes are there a moment later than their answer: a request right after it may see them or not."""
READ_ONLY = (
    "ApiVersions",
    "Metadata",
    "ListOffsets",
    "DescribeGroups",
    "ListGroups",
    "Heartbeat",
    "DescribeCluster",
    "FindCoordinator",
)
"""Frames that say something else than was meant do no harm with these."""


def of_groups(draw: Draw) -> None:
    """Groups and their offsets."""
    _otherwise(draw, draw.one([groups.sequence, groups.sequence, groups.offsets]))


def of_data(draw: Draw) -> None:
    """Records, topics and settings."""
    _otherwise(draw, draw.one([data.sequence, data.sequence, admin.sequence]))


def _otherwise(draw: Draw, usual: Callable[[Draw], None]) -> None:
    usual(draw)
    in_rows, in_pieces, odd = draw.often(0.5), draw.often(0.4), draw.often(0.5)
    silent = 0.2 if draw.often(0.5) else 0.0
    for step in draw.steps:
        if step.until is not None:
            continue
        if step.api == "Produce" and draw.often(silent):
            step.body["acks"] = 0
        if in_rows and step.api not in (*PARKING, *CHANGING) and draw.often(0.5):
            step.held = True
        elif in_pieces and draw.often(0.3):
            step.wire["split"] = [draw.one([1, 1, 2, 3, 4, 5, 8, 13, 14, 20]) for _ in range(draw.rng.randint(1, 3))]
        if odd and draw.often(0.3):
            _odd(draw, step)


def _odd(draw: Draw, step: Step) -> None:
    kind = draw.rng.choices(["client", "client_hex", "head_tags", "tags", "lie"], [5, 1, 4, 4, 0.7])[0]
    if kind == "client":
        step.wire["client"] = draw.one(CLIENTS)
    elif kind == "client_hex":
        step.wire["client_hex"] = draw.one(CLIENT_BYTES).replace(" ", "")
    elif kind in ("head_tags", "tags"):
        step.wire[kind] = draw.one(TAGS if kind == "head_tags" else BODY_TAGS)
    elif step.api in READ_ONLY:
        if draw.often(0.5):
            step.wire["head"] = "short"
        else:
            step.wire["client_size"] = draw.one([0, 2, 5, 1000, -2, 32767, -32768])
