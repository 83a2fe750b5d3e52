"""Time that the whole report takes: a million commits in 50 log partitions and the journal of a million lines that tells of them.

    python -m benchmarks.pipeline_report                      # on two cores; about ten minutes where other work disturbs
    python -m benchmarks.pipeline_report --commits 100000 --keep DIR

The history is made up, but of one piece: groups commit and rebalance, one offsets partition is stuck for a while, some offsets go back.
The goal: two minutes on two cores, from the command to the written page.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from broker_sim.storage import partition_for
from kafka_wire.messages.offsets_log import GroupMetadataValue, MemberMetadata
from kafka_wire.offsets_log import group_key, group_value, offset_commit_key, offset_commit_value
from kafka_wire.record_batch import build_batch

GOAL_S = 120.0
PARTITIONS, GROUPS, TOPIC_PARTITIONS, AT_ONCE = 50, 200, 8, 4
"""Log partitions, groups, partitions of the topic, partitions in one OffsetCommit."""
SPAN_MS = 30 * 60_000
BEGAN_MS = 1_760_000_000_000
STUCK = (600_000, 640_000)
"""Interval in which the first group's log partition is stuck, ms from the beginning."""
REBALANCES = 10


@dataclass(slots=True)
class Group:
    """A group's place, and how far it is."""

    name: str
    log: int
    member: str
    generation: int = 1
    offsets: list[int] = field(default_factory=lambda: [0] * TOPIC_PARTITIONS)


class JournalWriter:
    """Writes both sides of one history."""

    def __init__(self, directory: Path, commits: int) -> None:
        self.chance = random.Random(17)
        self.commits, self.requests, self.seq = commits, 0, 0
        self.groups = [self._group(number) for number in range(GROUPS)]
        self.logs = [open_log(directory, index) for index in range(PARTITIONS)]
        self.ends = [0] * PARTITIONS
        journal = directory / "journal"
        journal.mkdir()
        self.journal = (journal / "journal-000001.ndjson").open("w", encoding="utf-8")

    def _group(self, number: int) -> Group:
        name = f"group-{number:04}"
        return Group(name, partition_for(name, PARTITIONS), f"{name}-1-5f0c2f7e-8d3b-4f4e-9d2a-1c2b3d4e{number:04x}")

    def write(self) -> None:
        calls = self.commits // AT_ONCE
        again = {calls * (turn + 1) // (REBALANCES + 1): turn for turn in range(REBALANCES)}
        for group in self.groups:
            self._rebalance(group, BEGAN_MS)
        for call in range(calls):
            now_ms = BEGAN_MS + 1000 + (SPAN_MS - 1000) * call // calls
            group = self.groups[self.chance.randrange(GROUPS)]
            self._commit(group, now_ms)
            if call in again:
                for other in self.groups:
                    self._rebalance(other, now_ms)
        self.journal.close()
        for log in self.logs:
            log.close()

    def _tell(self, now_ms: int, event: str, **fields: Any) -> None:
        self.seq += 1
        line = {"seq": self.seq, "ts_ms": now_ms, "event": event, **fields}
        self.journal.write(json.dumps(line, separators=(",", ":")) + "\n")

    def _ask(self, now_ms: int, group: Group, api: str, version: int, body: dict[str, Any]) -> int:
        self.requests += 1
        whose = {
            "client_id": f"{group.name}-1",
            "client_host": "/10.0.0.6",
            "group": group.name,
            "member": group.member,
        }
        self._tell(
            now_ms, "request", request=self.requests, broker=1, connection=1, api=api, version=version,
            correlation_id=self.requests, **whose, body={"group_id": group.name, "member_id": group.member, **body},
        )  # fmt: skip
        return self.requests

    def _commit(self, group: Group, now_ms: int) -> None:
        chosen = sorted(self.chance.sample(range(TOPIC_PARTITIONS), AT_ONCE))
        for index in chosen:
            step = self.chance.randrange(1, 60)
            back = self.chance.random() < 0.0002
            group.offsets[index] = max(group.offsets[index] + (-step if back else step), 0)
        parts = [{"partition_index": i, "committed_offset": group.offsets[i], "committed_metadata": ""} for i in chosen]
        request = self._ask(
            now_ms, group, "OffsetCommit", 8,
            {"generation_id_or_member_epoch": group.generation, "topics": [{"name": "orders", "partitions": parts}]},
        )  # fmt: skip
        stuck = group.log == self.groups[0].log and STUCK[0] <= now_ms - BEGAN_MS < STUCK[1]
        log, base = f"__consumer_offsets-{group.log}", self.ends[group.log]
        error = {"error": "REQUEST_TIMED_OUT"} if stuck else {}
        if not stuck:
            rows = [
                (offset_commit_key(group.name, "orders", i), offset_commit_value(4, group.offsets[i], -1, "", now_ms))
                for i in chosen
            ]
            self._append(group.log, rows, now_ms)
        last = -1 if stuck else base + AT_ONCE - 1
        self._tell(
            now_ms, "append", log=log, requests=[request], kinds=["offsets"], groups=[group.name], records=AT_ONCE,
            base_offset=-1 if stuck else base, last_offset=last, **error, high_watermark=self.ends[group.log],
        )  # fmt: skip
        if not stuck:
            committed = {f"orders-{i}": group.offsets[i] for i in chosen}
            self._tell(now_ms, "offsets", log=log, group=group.name, offsets=committed, request=request)
        answer = [{"partition_index": i, "error_code": 7 if stuck else 0} for i in chosen]
        body = {"throttle_time_ms": 0, "topics": [{"name": "orders", "partitions": answer}]}
        self._tell(now_ms, "response", request=request, api="OffsetCommit", took_ms=0, **error, body=body)

    def _append(self, index: int, rows: list[tuple[bytes, bytes]], now_ms: int) -> None:
        batch = build_batch(rows, now_ms, base_offset=self.ends[index], leader_epoch=0)
        self.logs[index].write(batch)
        self.ends[index] += len(rows)

    def _rebalance(self, group: Group, now_ms: int) -> None:
        member = {"member": group.member, "client_id": f"{group.name}-1", "client_host": "/10.0.0.6", "instance": None,
                  "deferred": None, "session_timeout_ms": 45000, "rebalance_timeout_ms": 300000, "topics": ["orders"],
                  "assignment": None}  # fmt: skip
        before = {"state": "Stable", "generation": group.generation, "protocol": "range", "leader": group.member, "size": 1,
                  "members": [member], "pending": []}  # fmt: skip
        group.generation += 1
        log = f"__consumer_offsets-{group.log}"
        joining = {**before, "state": "PreparingRebalance"}
        closing = {**before, "state": "CompletingRebalance", "generation": group.generation}
        stable = {**before, "generation": group.generation}
        steps = (("JoinGroup", before, joining), ("JoinGroup", joining, closing), ("SyncGroup", closing, stable))
        for at, (api, old, new) in enumerate(steps):
            cause = {"kind": "request", "request": self.requests, "api": api, "member": group.member}
            self._tell(now_ms + at, "group", log=log, group=group.name, cause=cause, before=old, after=new)
        value = GroupMetadataValue(
            protocol_type="consumer", generation=group.generation, protocol="range", leader=group.member,
            current_state_timestamp=now_ms, members=[MemberMetadata(member_id=group.member, client_id=f"{group.name}-1")],
        )  # fmt: skip
        self._append(group.log, [(group_key(group.name), group_value(3, value))], now_ms)


def open_log(directory: Path, index: int) -> Any:
    folder = directory / f"__consumer_offsets-{index}"
    folder.mkdir(parents=True)
    return (folder / f"{0:020}.log").open("wb")


def topic(directory: Path) -> None:
    """The data topic: its partitions grow a little faster than is committed."""
    for index in range(TOPIC_PARTITIONS):
        folder = directory / f"orders-{index}"
        folder.mkdir()
        with (folder / f"{0:020}.log").open("wb") as log:
            for number in range(SPAN_MS // 500):
                rows: list[tuple[bytes | None, bytes | None]] = [(None, b"x")] * 10
                log.write(build_batch(rows, BEGAN_MS + number * 500, base_offset=number * 10, leader_epoch=0))


def made(directory: Path, commits: int) -> None:
    """Write the whole history below ``directory``."""
    JournalWriter(directory, commits).write()
    topic(directory)


def measure(directory: Path, cores: int, extra: list[str]) -> Iterator[str]:
    """Lines of the result; the last one says whether the goal was reached."""
    out = directory / "report"
    command = [sys.executable, "-m", "broker_sim", "pipeline", "run", "--input", str(directory), "--out", str(out)]
    command += ["--overwrite", "--master", f"local[{cores}]", *extra]
    taskset = shutil.which("taskset")
    if taskset is not None:
        mine = sorted(os.sched_getaffinity(0))[:cores]
        command = [taskset, "-c", ",".join(map(str, mine)), *command]
    began = time.perf_counter()
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    took = time.perf_counter() - began
    yield f"exit code {done.returncode}, {took:.1f} s on {cores} cores (load {os.getloadavg()[0]:.1f})"
    page = out / "report.html"
    yield f"report.html: {page.stat().st_size / 1e6:.2f} MB" if page.exists() else "no report"
    yield f"goal {GOAL_S:.0f} s: {'reached' if done.returncode == 0 and took <= GOAL_S else 'MISSED'}"


def main(out: TextIO = sys.stdout) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pipeline_report", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--commits", type=int, default=1_000_000, help="(default: %(default)s); as many lines of journal"
    )
    parser.add_argument("--cores", type=int, default=2, help="(default: %(default)s)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="make the input here, and use what is there already")
    parser.add_argument("--conf", action="append", default=[], help="settings of Spark")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="broker-sim-bench-") as scratch:
        directory = arguments.keep or Path(scratch) / "data"
        if not (directory / "journal").exists():
            began = time.perf_counter()
            made(directory, arguments.commits)
            print(f"made the input in {time.perf_counter() - began:.0f} s", file=sys.stderr)
        lines = list(
            measure(directory, arguments.cores, [word for setting in arguments.conf for word in ("--conf", setting)])
        )
        print("\n".join(lines), file=out)
    return 1 if "MISSED" in lines[-1] else 0


if __name__ == "__main__":
    sys.exit(main())
