"""Sequence of Steps to play, as plain data that can be written to a file and played again.

A step's body is the request's fields by their names in kafka_wire. Three kinds of text in it are filled in when it is
played, on each side from that side's own answers, so that a step stays playable when those before it are left out:

    "{p}orders"            a name of this play alone
    "$member:a"            the last member id of client a ("" without one); see symbols.py for the others
    "hex:00ff"             bytes, where the field is bytes; {"batch": ...}, {"subscription": ...} are built (payloads.py)

A step that has `world` is no request: it is done to the cluster (worlds.py).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any


@dataclass
class Step:
    """One request by client `by`; or, with `until`, the passing of time up to that many units after the beginning; or,
    with `world`, what is done to the cluster: a deed's name and its arguments.
    """

    by: str = "a"
    api: str = ""
    version: int = 0
    body: dict[str, Any] = field(default_factory=dict)
    damage: list[list[Any]] = field(default_factory=list)
    """Changes made to the frame's bytes before they are sent (frames.py)."""
    pipelined: bool = False
    """Sent on the client's first connection though a request may be parked on it."""
    held: bool = False
    """Goes out together with the client's next step that is not held, in one write: requests in a row, none waited for."""
    wire: dict[str, Any] = field(default_factory=dict)
    """Unusual parts around the message (frames.py) and the way it is written: `split`, sizes of all writes but the last."""
    until: float | None = None
    broker: int | str = 1
    """Broker that the step is sent to; or "$leader:TOPIC/INDEX", "$coordinator:GROUP", whichever that is then."""
    world: list[Any] = field(default_factory=list)
    bent: list[str] = field(default_factory=list)
    """Paths of the fields that were given a boundary value (generators/edges.py)."""

    def plain(self) -> dict[str, Any]:
        """As JSON has it: only what is not the default."""
        fresh = Step()
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != getattr(fresh, f.name)}

    @property
    def silent(self) -> bool:
        """Whether it has no answer: Produce with acks=0."""
        return self.api == "Produce" and self.body.get("acks", 0) == 0

    def __str__(self) -> str:
        return json.dumps(self.plain())


@dataclass
class Sequence:
    """Steps, and what they need: `kind` is the generator that made them, `seed` the number that it made them from."""

    seed: int
    kind: str
    steps: list[Step]
    timed: bool = False
    """Whether timers are to run out in it: then its bursts of requests must be short."""
    brokers: int = 1
    """Number of brokers."""

    @property
    def alone(self) -> bool:
        """Whether it can't be played beside others: brokers go and come in it."""
        return any(step.world and step.world[0] in ("down", "up", "prefer") for step in self.steps)

    def with_steps(self, steps: list[Step]) -> Sequence:
        return replace(self, steps=steps)

    def dumps(self) -> str:
        """One line for the head, one for each step."""
        head = {"seed": self.seed, "kind": self.kind, "timed": self.timed, "brokers": self.brokers}
        return "\n".join([json.dumps(head), *(str(step) for step in self.steps)]) + "\n"

    @classmethod
    def loads(cls, text: str) -> Sequence:
        """The inverse of `dumps`; lines that begin with # are comments. Raises ValueError, TypeError."""
        rows = [json.loads(line) for line in text.splitlines() if line.strip() and not line.startswith("#")]
        head = rows[0]
        steps = [Step(**row) for row in rows[1:]]
        return cls(head["seed"], head["kind"], steps, head["timed"], head.get("brokers", 1))

    @classmethod
    def load(cls, path: Path) -> Sequence:
        return cls.loads(path.read_text())
