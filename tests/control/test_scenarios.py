"""Scenarios on brokers of another process: over HTTP, and as they are typed."""

from __future__ import annotations

from pathlib import Path

from tests.control.outside import Brokers, Outside
from tests.support.processes import DEADLINE_S

HELD = """\
name: a topic grows
topics: [{name: orders, partitions: 2}]
external: {groups: [billing]}
steps:
  - {name: grow, do: {topic: orders, grow_to: 6}}
  - {name: marked, when: {event: mark, text: grow}}
expect: [{never: {api: LeaveGroup}}]
"""
BROKEN = HELD.replace("{api: LeaveGroup}", "{event: mark, text: grow}")
WAITS = HELD.replace("text: grow}}", "text: marked}, within: 10m}").replace("grow_to: 6", "fill: 6")


async def test_a_scenario_over_http(cluster: Brokers) -> None:
    held = await cluster.do("scenario.start", file=HELD, name="incident.yaml")
    done = await cluster.do("scenario.wait", scenario=held["id"])
    assert (done["verdict"], done["done"], done["waiting"]) == ("held", ["grow", "marked"], None)
    broken = (await cluster.do("scenario.start", file=BROKEN.replace("grow_to: 6", "fill: 1")))["id"]
    failed = await cluster.refused("scenario.wait", scenario=broken)
    assert (failed.status, "BROKEN  never: mark: text grow - it occurred 1 time at" in str(failed)) == (409, True)
    assert [one["verdict"] for one in (await cluster.do("scenario.list"))["scenarios"]] == ["held", "broken"]
    for number in (held["id"], broken):
        assert (await cluster.do("scenario.end", scenario=number))["running"] is False
    assert (await cluster.refused("scenario.get", scenario=broken)).status == 404
    wrong = await cluster.refused(
        "scenario.start", file=HELD.replace("orders, grow", "ordres, grow"), name="incident.yaml"
    )
    assert wrong.status == 400
    assert str(wrong).startswith("incident.yaml:5: topic.grow: no topic 'ordres'; did you mean 'orders'?")


async def test_a_failure_that_was_not_waited_for_is_one_of_the_end(cluster: Brokers) -> None:
    for must_hold in (True, False):
        text = BROKEN.replace("grow_to: 6", "fill: 1")
        number = (await cluster.do("scenario.start", file=text))["id"]
        await cluster.do("scenario.wait", scenario=number, step="grow")
        if must_hold:
            assert (await cluster.refused("scenario.end", scenario=number)).status == 409
        else:
            await cluster.do("scenario.end", scenario=number, must_hold=False)
    assert (await cluster.do("scenario.list"))["scenarios"] == []


async def test_a_wait_for_a_scenario_times_out(cluster: Brokers) -> None:
    number = (await cluster.do("scenario.start", file=WAITS, name="incident.yaml"))["id"]
    late = await cluster.refused("scenario.wait", scenario=number, timeout="1ms")
    assert late.status == 408
    assert "incident.yaml:6: marked waits for mark: text marked" in str(late)
    ended = await cluster.do("scenario.end", scenario=number)
    assert (ended["verdict"], ended["done"]) == ("cancelled", ["grow"])


def test_a_scenario_as_it_is_typed(kafka: Outside, tmp_path: Path) -> None:
    path = tmp_path / "incident.yaml"
    path.write_text(HELD)
    started = kafka.run("scenario", "start", str(path))
    assert (started.returncode, started.stdout.partition(":")[0]) == (0, "scenario 1, a topic grows"), started.stderr
    ended = kafka.run("scenario", "wait", "1", "--timeout", f"{DEADLINE_S}s")
    assert ended.stdout.splitlines() == [
        "scenario 1, a topic grows: held; 2 of 2 steps done",
        "  held    never: request: api LeaveGroup",
    ]
    path.write_text(BROKEN.replace("grow_to: 6", "fill: 1"))
    assert kafka.run("scenario", "start", str(path)).returncode == 0
    broken = kafka.run("scenario", "wait", "2", "--timeout", f"{DEADLINE_S}s")
    assert (broken.returncode, "BROKEN  never: " in broken.stderr) == (1, True)
    path.write_text(WAITS)
    assert kafka.run("scenario", "start", str(path)).returncode == 0
    assert kafka.run("scenario", "wait", "3", "--timeout", "1ms").returncode == 3
    running = kafka.run("scenario", "running").stdout
    assert f"scenario 3, a topic grows: running; {path}:6: marked waits for" in running
    assert kafka.run("scenario", "end", "3").stdout.startswith(
        "scenario 3, a topic grows: cancelled; 1 of 2 steps done"
    )
    for words, reason in (
        (["nowhere.yaml"], "nowhere.yaml: No such file or directory"),
        (["leader-chnges"], "did you mean 'leader-changes'"),
        ([], "file is missing"),
    ):
        wrong = kafka.run("scenario", "start", *words)
        assert (wrong.returncode, reason in wrong.stderr) == (2, True), wrong.stderr
