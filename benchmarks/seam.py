"""Cost that the seams for journal, rules and states add to a commit while they are not used.

Brokers without sockets: one is the code as it is, the others the same code with every look at a seam taken out of its syntax tree
(``tap is None`` is decided before it runs). Their instructions are counted (valgrind), or, where that is not installed, they commit
in turns and their CPU time is compared; that two of them are equal tells how much of it is noise.

    python -m benchmarks.seam
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import gc
import importlib
import importlib.util
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

from benchmarks.compare import BROKER_CORE
from benchmarks.scale import Figure

LIMIT_PERCENT = 2.0
CREWS = 12
ROUNDS = 50
COMMITS = 200
"""Commits of one broker in one round."""
WARM = 10
"""Rounds before the first that counts."""
COUNTED = (2, 12)
"""Rounds of the runs whose instructions are counted: their difference is that of the commits alone."""

VERSION = 8
_COMMIT_CODE = (8 << 16) + VERSION

NONE = {"tap", "observer", "append_interceptor", "keepalive", "buggify"}
"""Names and attributes that are None where nobody looks at requests and nothing is broken."""

FALSE = {"isr_too_small", "high_watermark_frozen"}
"""Attributes that are False then."""

_SEAMED = (
    "broker_sim.network.connection",
    "broker_sim.runtime.coordinator_runtime",
    "broker_sim.runtime.group_coordinator",
    "broker_sim.handlers.k08_offset_commit",
    "broker_sim.metadata.topics",
)


class _Decided(ast.NodeTransformer):
    """Takes the looks at the seams out; ``taken`` counts them."""

    def __init__(self) -> None:
        self.taken = 0

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if _name_of(node.left) in NONE and isinstance(node.ops[0], ast.Is | ast.IsNot):
            self.taken += 1
            return ast.Constant(isinstance(node.ops[0], ast.Is))
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        if node.attr in FALSE and isinstance(node.ctx, ast.Load):
            self.taken += 1
            return ast.Constant(False)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        known = _known(node.operand)
        return ast.Constant(not known) if isinstance(node.op, ast.Not) and known is not None else node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        neutral = isinstance(node.op, ast.And)
        left = [value for value in node.values if _known(value) is not neutral]
        if any(_known(value) is (not neutral) for value in left):
            return ast.Constant(not neutral)
        if not left:
            return ast.Constant(neutral)
        return left[0] if len(left) == 1 else ast.BoolOp(node.op, left)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        known = _known(node.test)
        return node if known is None else node.body if known else node.orelse

    def visit_If(self, node: ast.If) -> ast.stmt | list[ast.stmt]:
        self.generic_visit(node)
        known = _known(node.test)
        return node if known is None else node.body if known else node.orelse or [ast.Pass()]


def _name_of(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _known(node: ast.expr) -> bool | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, bool) else None


def copy_of(name: str) -> ModuleType:
    """Return a second copy of a module as it is."""
    return _compiled(name, *_parsed(name))


def without_seams(name: str) -> ModuleType:
    """Return a second copy of a module, its looks at the seams taken out. Raises RuntimeError if it has none."""
    tree, origin = _parsed(name)
    decided = _Decided()
    tree = decided.visit(tree)
    if not decided.taken:
        raise RuntimeError(f"{name} has no seam any more: benchmarks/seam.py compares nothing")
    return _compiled(name, tree, origin)


def _parsed(name: str) -> tuple[ast.Module, str]:
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    with open(spec.origin, encoding="utf-8") as file:
        return ast.parse(file.read()), spec.origin


def _compiled(name: str, tree: ast.Module, origin: str) -> ModuleType:
    module = ModuleType(name)
    module.__file__ = origin
    exec(compile(ast.fix_missing_locations(tree), f"<copy of {name}>", "exec"), module.__dict__)
    return module


class _Transport:
    """A transport that discards what is written to it."""

    def __init__(self) -> None:
        self.written = 0

    def write(self, data: bytes) -> None:
        self.written += 1

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return "127.0.0.1", 1

    def close(self) -> None: ...

    abort = pause_reading = resume_reading = close


class _Broker:
    """One connection to one broker, commits of one group."""

    def __init__(self, *, seams: bool) -> None:
        from broker_sim.common.chance import Chance
        from broker_sim.common.clock import RealClock
        from broker_sim.config.settings import BrokerConfig
        from broker_sim.metadata.cluster_state import ClusterState
        from broker_sim.metadata.topics import Partition
        from broker_sim.network.server import BrokerServer
        from broker_sim.requests.routes import Routes

        load = copy_of if seams else without_seams
        connections, runtimes, coordinators, commits, topics = (load(name) for name in _SEAMED)
        clock = RealClock()
        config = BrokerConfig({"offsets.topic.num.partitions": 1, "offsets.topic.replication.factor": 1})
        state = ClusterState(config, clock, rng=random.Random(1))
        coordinator: Any = coordinators.GroupCoordinator
        coordinator.__bases__ = (runtimes.CoordinatorRuntime,)  # the copy's, too
        broker = state.add_broker(1, "127.0.0.1", 9092)
        state.load()
        state.create_topic("orders", 1)
        offsets = state.ensure_offsets_topic().partitions[0]
        own: dict[str, Any] = {"__slots__": ()}
        own.update({name: getattr(topics.Partition, name) for name in ("append", "append_records")})
        offsets.__class__ = type("Partition", (Partition,), own)
        coordinators: Any = SimpleNamespace(groups=coordinator(state, chance=Chance.seeded(1)))
        coordinators.groups.start()
        routes = Routes(state.as_version)
        routes[_COMMIT_CODE].fast = commits.FAST[VERSION]
        self._server: Any = BrokerServer(broker, coordinators, clock, routes)
        self._server.call_soon = lambda *_: None  # the turn is ended by hand
        self._transport = _Transport()
        self._connection = connections.Connection(self._server, self._server.listeners[0])
        self._connection.connection_made(self._transport)

    def cpu_us(self, frames: Sequence[bytes]) -> float:
        """CPU time of one commit of these."""
        receive, end_iteration = self._connection.data_received, self._server.end_iteration
        before = self._transport.written
        began = time.process_time_ns()
        for frame in frames:
            receive(frame)
            end_iteration()
        took_ns = time.process_time_ns() - began
        if self._transport.written - before != len(frames):
            raise RuntimeError(f"{self._transport.written - before} of {len(frames)} commits were answered at once")
        return took_ns / 1000 / len(frames)


def _frames(number: int) -> list[bytes]:
    from kafka_wire.codec import encode
    from kafka_wire.frame import encode_request_header, frame
    from kafka_wire.messages.k08_offset_commit import (
        OffsetCommitRequest,
        OffsetCommitRequestPartition,
        OffsetCommitRequestTopic,
    )

    out = []
    for offset in range(number):
        partitions = [OffsetCommitRequestPartition(0, offset)]
        request = OffsetCommitRequest("billing", topics=[OffsetCommitRequestTopic("orders", partitions=partitions)])
        out.append(frame(encode_request_header(8, VERSION, offset, "bench") + encode(request, VERSION)))
    return out


async def _work(seams: bool) -> None:
    """One process: a round for each line of stdin, the CPU us of its commits to stdout."""
    broker, frames = _Broker(seams=seams), _frames(COMMITS)
    for _ in range(WARM):
        broker.cpu_us(frames)
    gc.collect()
    gc.disable()
    for _ in sys.stdin:
        print(broker.cpu_us(frames), flush=True)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONHASHSEED": "0"}


@contextlib.contextmanager
def _worker(kind: str) -> Iterator[Callable[[], float]]:
    """A process that measures one round each time it is asked."""
    command = ["taskset", "-c", str(BROKER_CORE), sys.executable, "-m", "benchmarks.seam", kind]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=_environment()) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked, answers = process.stdin, process.stdout

        def one_round() -> float:
            asked.write("\n")
            asked.flush()
            return float(answers.readline())

        try:
            yield one_round
        finally:
            asked.close()
            process.wait(10)


def _low(costs: list[float]) -> float:
    """Cost while nothing else disturbs: the tenth percentile."""
    return statistics.quantiles(costs, n=10)[0]


def measure(crews: int = CREWS, rounds: int = ROUNDS) -> tuple[float, float, float]:
    """CPU us of a commit without seams; what the seams add, and what another process without them adds, in percent.

    Each broker has a process of its own: the interpreter adapts shared code to the classes that it sees. Where its memory lies makes a
    per cent or two of difference, so there are several crews of them, which measure round about.
    """
    costs: list[tuple[float, float, float]] = []
    order = random.Random(1)
    for _ in range(crews):
        costs_of: list[list[float]] = [[], [], []]
        with contextlib.ExitStack() as stack:
            crew = [stack.enter_context(_worker(kind)) for kind in ("seams", "bare", "bare")]
            for _ in range(rounds):
                for number in order.sample(range(3), 3):
                    costs_of[number].append(crew[number]())
        costs.append((_low(costs_of[0]), _low(costs_of[1]), _low(costs_of[2])))
    bare_us = statistics.median(cost for _, *both in costs for cost in both)
    added = statistics.median(with_us / ((first + other) / 2) for with_us, first, other in costs)
    noise = statistics.median(max(first, other) / min(first, other) for _, first, other in costs)
    return bare_us, (added - 1) * 100, (noise - 1) * 100


def count() -> tuple[float, float]:
    """Instructions of a commit without seams, and what the seams add in percent. Needs valgrind; takes a minute."""
    per_kind = {}
    for kind in ("seams", "bare"):
        few, many = (_instructions(kind, rounds) for rounds in COUNTED)
        per_kind[kind] = (many - few) / ((COUNTED[1] - COUNTED[0]) * COMMITS)
    return per_kind["bare"], (per_kind["seams"] / per_kind["bare"] - 1) * 100


def _instructions(kind: str, rounds: int) -> int:
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={os.devnull}"]
    command += [sys.executable, "-m", "benchmarks.seam", kind]
    done = subprocess.run(
        command, input="\n" * rounds, capture_output=True, text=True, env=_environment(), timeout=300, check=True
    )
    match = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
    assert match is not None, done.stderr
    return int(match[1].replace(",", ""))


def seam() -> Figure:
    """The figure of the table: in instructions, which do not depend on what else the machine does; in CPU time without valgrind."""
    title = "OffsetCommit: what unused seams add to its"
    if shutil.which("valgrind"):
        instructions, added = count()
        note = f"a commit takes {instructions:,.0f} instructions without, from bytes in to bytes out"
        return Figure(f"{title} instructions", added, "%", LIMIT_PERCENT, note)
    bare_us, added, noise = measure()
    note = f"a commit takes {bare_us:.2f} us without; two processes of that differ by {noise:.1f} %"
    return Figure(f"{title} CPU time", added, "%", LIMIT_PERCENT, note)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(_work(sys.argv[1] == "seams"))
    else:
        from benchmarks.report import figure_text

        print(figure_text(seam()))
