"""A user's test under ``mypy --strict``, asyncio and synchronous: what is right passes, what is misspelt or not awaited is found."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from pathlib import Path

import broker_sim
from broker_sim import ClusterThread
from broker_sim.api import blocking
from tests.support import processes

ROOT = Path(broker_sim.__file__).parent.parent
PLAYED = """
from broker_sim import Cluster, ClusterThread, Err, GroupHandle, Lag
from broker_sim import sync

async def right(kafka: Cluster) -> None:
    kafka.create_topic("orders", 6)
    billing = await kafka.group("billing").stable(members=3)
    async with billing.offsets_log.stuck() as jam:
        (blocked,) = await jam.pending(1)
        assert (await blocked.answer()).error is Err.NONE
    async with kafka.fault("OffsetCommit", group="billing", error="NOT_COORDINATOR", times=3) as fault:
        await fault.wait(3, timeout="5s")
    async with kafka.order.hold("JoinGroup", group="billing") as hold:
        await hold.arrived(2)
    async with kafka.broker(2).down():
        fired: list[str] = await kafka.time.advance("46s", expire=["app-2"])
    lag: Lag = billing.lag()

def right_sync(kafka_server: ClusterThread) -> None:
    kafka_server.create_topic("orders", 6)
    billing: sync.GroupHandle = kafka_server.group("billing").stable(members=3)
    with billing.offsets_log.stuck() as jam:
        (blocked,) = jam.pending(1)
        assert blocked.answer().error is Err.NONE
    with kafka_server.fault("OffsetCommit", group="billing", error="NOT_COORDINATOR", times=3) as fault:
        fault.wait(3, timeout="5s")
    with kafka_server.order.hold("JoinGroup", group="billing") as hold:
        hold.arrived(2)
    with kafka_server.broker(2).down():
        fired: list[str] = kafka_server.time.advance("46s", expire=["app-2"])
    ClusterThread(3, ["orders"], as_version="3.9", clock="manual")
    lag: int = billing.lag().total

from broker_sim.simulation import Simulation, simulate

def right_sim(sim: Simulation) -> None:
    sim.cluster(3, {"orders": 6}, name="mirror", disk=True, sync=True, journal=False, config={"offsets.topic.num.partitions": 5})
    with simulate(7) as sim:
        sim.cluster(topics=["orders"], as_version="3.9").group("billing").generation

from broker_sim import Clustr  # ERROR

async def wrong(kafka: Cluster, billing: GroupHandle) -> None:
    await billing.stabel()  # ERROR
    await billing.stable(member=3)  # ERROR
    billing.stable()  # ERROR
    kafka.time.advance("5s")  # ERROR
    kafka.fault("OffsetCommit", grup="x", drop=True)  # ERROR
    kafka.order.hold("JoinGroup", grup="x")  # ERROR
    billing.offsets_log.stuk()  # ERROR
    kafka.grup("billing")  # ERROR
    Cluster(broker=3)  # ERROR
    Cluster(brokers="three")  # ERROR
    Cluster(topics={"orders": "6"})  # ERROR

def wrong_sync(kafka_server: ClusterThread) -> None:
    billing = kafka_server.group("billing")
    billing.stabel()  # ERROR
    billing.stable(member=3)  # ERROR
    number: str = billing.generation  # ERROR
    kafka_server.fault("OffsetCommit", grup="x", drop=True)  # ERROR
    kafka_server.order.hold("JoinGroup", grup="x")  # ERROR
    billing.offsets_log.stuk()  # ERROR
    with billing:  # ERROR
        pass
    kafka_server.grup("billing")  # ERROR
    kafka_server.time.advanse("5s")  # ERROR
    ClusterThread(broker=3)  # ERROR

def wrong_sim(sim: Simulation) -> None:
    sim.cluster(brokerz=2)  # ERROR
    sim.cluster(as_version=3.9)  # ERROR

def wrong_thread() -> None:
    ClusterThread(as_version=3.9)  # ERROR
"""


def examples() -> str:
    """Return the examples of docs/api.md, each in a function of its own."""
    path = ROOT / "docs" / "api_reference.py"
    code = next(each for each in ast.parse(path.read_text()).body if ast.unparse(each).startswith("EXAMPLES = "))
    assert isinstance(code, ast.Assign)
    found: dict[str, str] = ast.literal_eval(code.value)
    return "".join(
        f"\nasync def example_{name}(kafka: Cluster) -> None:\n{textwrap.indent(text, '    ')}\n"
        for name, text in found.items()
    )


def test_mypy_finds_what_is_wrong_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "played.py").write_text(PLAYED + examples())
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--follow-imports=silent",
        f"--cache-dir={ROOT / '.mypy_cache'}",
    ]
    done = processes.run(
        [*command, "--config-file=", "--ignore-missing-imports", "played.py"],
        cwd=tmp_path,
        env={"MYPYPATH": f"{ROOT}:{ROOT / 'protocol'}", "PATH": ""},
        deadline_s=300,  # without a cache it reads all of the program
    )
    found = {int(line) for line in re.findall(r"^played\.py:(\d+): error", done.stdout, re.MULTILINE)}
    wanted = {number for number, line in enumerate(PLAYED.splitlines(), 1) if "# ERROR" in line}
    assert found == wanted, done.stdout + done.stderr


def test_what_a_checker_is_told_of_synchronous_handles_is_what_they_have() -> None:
    stub = (Path(broker_sim.__file__).parent / "sync.pyi").read_text()
    told = {part.split(":")[0]: part for part in stub.split("\nclass ")[1:]}
    assert set(told) == set(blocking.FACES)
    with ClusterThread(topics=["orders"], brokers=2) as kafka:
        fault = kafka.fault("Produce", drop=True, must_hit=False)
        billing, order = kafka.group("billing"), kafka.order
        log = kafka.log("orders")
        with (
            kafka.broker(2).down() as down,
            log.stuck() as jam,
            order.hold("JoinGroup") as hold,
            order.record() as recording,
            order.replay([]) as replay,
        ):
            handles = [
                billing.cluster,
                billing,
                kafka.share_group("shippers"),
                kafka.transaction("app"),
                log,
                jam,
                kafka.topic("orders"),
                kafka.broker(1),
                down,
                kafka.requests("Heartbeat"),
            ]
            for each in [*handles, fault, kafka.faults, order, hold, recording, replay, kafka.time, kafka.journal]:
                kind = type(each).__name__
                assert type(each) is blocking.FACES[kind]
                names = re.findall(r"^    (?:def )?([a-z]\w*)(?: =|:|\()", told.pop(kind), re.MULTILINE)
                assert len(names) > 1
                missing = [name for name in names if inspect.getattr_static(each._target, name, None) is None]
                assert [name for name in missing if not hasattr(each, name)] == []
    assert set(told) == {"Pending"}  # a request that waits: test_on_a_thread.py has one
