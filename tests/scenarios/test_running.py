"""A scenario on brokers that run already, with the clients of a test: what it does, what is refused with its line, how it ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from broker_sim import Cluster, ClusterThread
from broker_sim.common.text import UsageError
from broker_sim.control.clusters import Clusters
from broker_sim.control.on_scenarios import ScenarioFailed
from broker_sim.control.operations import perform
from broker_sim.journal import WaitTimeout
from broker_sim.scenario.files import WrongFile
from broker_sim.scenario.on_cluster import on_cluster
from broker_sim.scenario.running import ScenarioRun, parsed, runs, start
from tests.support.processes import DEADLINE_S

GROUP, LOG = "billing", "offsets(billing)"
CLIENTS = """\
topics: [{name: orders, partitions: 2, records: 20}]
clients: [{name: app, group: billing, topics: [orders]}]
"""
INCIDENT = f"""\
name: a stuck offsets partition
{CLIENTS}steps:
  - {{name: it reads, when: {{group: billing, reading: true}}, within: {DEADLINE_S}}}
  - {{name: stuck, do: {{log: {LOG}, state: stuck, for: 40s}}}}
  - {{name: a commit fails, when: {{api: OffsetCommit, error: COORDINATOR_NOT_AVAILABLE}}, within: {DEADLINE_S}}}
  - {{name: half a minute, after: 30s}}
  - {{name: a commit succeeds, when: {{api: OffsetCommit, error: NONE}}, within: {DEADLINE_S}}}
expect:
  - {{within: {DEADLINE_S}, group: billing, committed: {{orders-0: 1}}}}
  - {{never: {{api: LeaveGroup}}}}
"""
FAULTS = f"""\
name: everything at once
cluster: {{brokers: 2}}
{CLIENTS}external: {{client_ids: [nobody]}}
steps:
  - name: broken
    do:
      - {{log: {LOG}, state: stuck, must_hit: false}}
      - {{fault: {{api: Fetch, client_id: nobody, hang: true, must_hit: false}}, as: lost}}
      - {{op: fault.add, api: Fetch, client_id: nobody, drop: true, must_hit: false}}
      - {{op: order.hold, api: Produce, must_hit: false}}
      - {{broker: 2, action: down}}
  - {{name: waits, when: {{api: LeaveGroup}}, within: 10m}}
expect: [{{never: {{event: mark, text: waits}}}}]
"""


@contextlib.asynccontextmanager
async def cluster(**options: Any) -> AsyncIterator[Cluster]:
    async with Cluster(**{"config": {"group.initial.rebalance.delay.ms": "0"}, "brokers": 2, **options}) as kafka:
        yield kafka


@contextlib.asynccontextmanager
async def consumer(kafka: Cluster) -> AsyncIterator[AIOKafkaConsumer]:
    """The application under test, here a bare consumer."""
    async with AIOKafkaConsumer(
        "orders",
        bootstrap_servers=kafka.bootstrap,
        group_id=GROUP,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=200,
    ) as app:
        yield app


async def begun(kafka: Cluster, text: str, **options: Any) -> ScenarioRun:
    return await start(kafka, parsed(text, "incident.yaml"), **options)


async def test_an_incident_meets_the_clients_of_a_test_on_a_clock_that_the_test_advances() -> None:
    async with cluster(clock="manual") as kafka:
        run = await begun(kafka, INCIDENT)
        async with consumer(kafka) as app:
            await app.getmany(timeout_ms=1000 * DEADLINE_S, max_records=1)
            await run.wait("stuck", DEADLINE_S)
            commit = asyncio.ensure_future(app.commit({TopicPartition("orders", 0): 1}))
            await kafka.group(GROUP).offsets_log.pending(1, timeout=DEADLINE_S)
            await kafka.time.advance("5s")  # offsets.commit.timeout.ms
            await run.wait("a commit fails", DEADLINE_S)
            await kafka.time.advance("29s")
            assert run.to_dict()["waiting"] == "incident.yaml:8: half a minute waits 30 s of the brokers' clock"
            assert (run.verdict, run.to_dict()["done"]) == (None, ["it reads", "stuck", "a commit fails"])
            await kafka.time.advance("6s")
            await commit
            await run.wait(timeout=DEADLINE_S)
            assert run.verdict == "held"
            assert [one["where"] for one in run.to_dict()["results"]] == ["incident.yaml:11", "incident.yaml:12"]
            assert any("stuck, set" in line for line in run.to_dict()["progress"])
            await run.end()
            assert runs(kafka) == []


async def test_what_its_steps_set_is_cleared_at_its_end() -> None:
    async with cluster() as kafka:
        own = kafka.fault("Fetch", client_id="other", hang=True, must_hit=False)
        run = await begun(kafka, FAULTS)
        await run.wait("broken", DEADLINE_S)
        assert kafka.broker(2).alive is False
        assert (len(kafka.conditions.of()), len(kafka.faults.list()), len(kafka.order.holds)) == (1, 3, 1)
        await run.end()
        run.check()  # cancelled, and nothing was wrong up to then
        assert run.verdict == "cancelled"
        assert kafka.broker(2).alive is True
        assert (kafka.conditions.of(), kafka.faults.list(), kafka.order.holds) == ([], [own], [])


async def test_what_must_never_be_is_reported_of_a_cancelled_scenario_too() -> None:
    async with cluster() as kafka:
        given = await perform(kafka, "scenario.start", {"file": FAULTS})
        kafka.journal.write("mark", text="waits")
        with pytest.raises(ScenarioFailed, match=r"BROKEN  never: it occurred 1 time at .* \(mark \d+\)"):
            await perform(kafka, "scenario.end", {"scenario": given["id"]})


async def test_a_broken_expectation_is_raised_by_waits_and_not_again_at_the_end() -> None:
    text = CLIENTS + "steps: [{do: {mark: now}}]\nexpect: [{within: 0s, group: billing, state: Stable}]\n"
    async with cluster() as kafka:
        run = await begun(kafka, text)
        with pytest.raises(
            ScenarioFailed,
            match=r"(?s)BROKEN  within 0 ms: group billing: state Stable - it is Dead.*"
            r"BROKEN  the client app never asked to join 'billing', .*; it is a client of another program\n",
        ) as broken:
            await run.wait(timeout=DEADLINE_S)
        assert "--attach" not in str(broken.value)
        with pytest.raises(ScenarioFailed, match="BROKEN"):
            await run.wait(timeout=DEADLINE_S)
        await run.end()
        run.check()


async def test_members_that_joined_before_it_count() -> None:
    text = CLIENTS + "steps: [{do: {mark: now}}]\nexpect: [{group: billing, state: Stable}]\n"
    async with cluster(topics={"orders": 2}) as kafka:
        kafka.observe()  # as a control server does from the start
        kafka.topic("orders").fill(5)
        async with consumer(kafka) as app:
            assert (await asyncio.wait_for(app.getone(), DEADLINE_S)).topic == "orders"
            run = await begun(kafka, text)
            await run.wait(timeout=DEADLINE_S)
        assert len(kafka.topic("orders").records()) == 20, "filled up to what the file wants"


async def test_a_wait_that_times_out_says_what_the_scenario_waits_for() -> None:
    async with cluster() as kafka:
        run = await begun(kafka, INCIDENT)
        with pytest.raises(
            WaitTimeout, match=r"incident\.yaml:5: it reads waits for group billing: reading True"
        ) as late:
            await run.wait("stuck", "1ms")
        assert "== scenario a stuck offsets partition" in late.value.history
        with pytest.raises(UsageError, match="no step 'stuk'; did you mean 'stuck'"):
            await run.wait("stuk")


async def test_a_step_that_can_not_be_done_ends_it_with_its_line() -> None:
    text = (
        CLIENTS
        + f"steps: [{{do: {{log: {LOG}, state: stuck}}}},"
        + f"\n  {{after: 1ms, do: {{log: {LOG}, state: slow, latency: 1s}}}}]\n"
        + ("expect: [{group: billing, state: Stable}]\n")
    )
    async with cluster() as kafka:
        run = await begun(kafka, text)
        with pytest.raises(
            ScenarioFailed, match=r"could not go on: incident\.yaml:4: __consumer_offsets-\d+ is stuck already"
        ):
            await run.wait(timeout=DEADLINE_S)
        assert run.verdict == "error"


async def test_it_ends_with_the_cluster() -> None:
    async with cluster() as kafka:
        run = await begun(kafka, INCIDENT)
        end = asyncio.ensure_future(run.wait(timeout=DEADLINE_S))
    assert run.verdict == "cancelled"
    with pytest.raises(ScenarioFailed, match="the scenario a stuck offsets partition was cancelled"):
        await end


EXPECT = "expect: [{group: billing, state: Stable}]\n"
STEP = "steps: [{do: {mark: now}}]\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            CLIENTS + "steps: [{do: {client: app, action: crash}}]\n" + EXPECT,
            "incident.yaml:3: the client app is one that the test starts; a scenario can't crash it",
        ),
        (
            CLIENTS + STEP + "expect:\n  - {happened: {client: app, reports: committed}}\n",
            "incident.yaml:5: the client app is one that the test starts, and reports nothing; expect its requests (api), or",
        ),
        (
            CLIENTS + STEP + "expect:\n  - {never: {event: client, reports: error}}\n",
            "incident.yaml:5: a client is one that the test starts, and reports nothing",
        ),
        (
            CLIENTS + "steps: [{do: {advance: 5s}}]\n" + EXPECT,
            "incident.yaml:3: advance needs a manual clock; this cluster's clock is real",
        ),
        ("cluster: {brokers: 3}\n" + CLIENTS + STEP + EXPECT, "incident.yaml:1: brokers: 3, and this cluster has 2"),
        (
            'cluster: {as_version: "3.9",\n  commit_timeout: 1s,\n  config: {num.partitions: 1}}\n'
            + CLIENTS
            + STEP
            + EXPECT,
            "incident.yaml:1: as_version: 3.9, and this cluster has 4.1 (any_settings allows that)\n"
            "incident.yaml:2: offsets.commit.timeout.ms: 1000, and this cluster has 5000 (any_settings allows that)",
        ),
        (
            "import: {data: /etc}\n" + CLIENTS + STEP + EXPECT,
            "incident.yaml:1: import: a cluster that runs already can't load",
        ),
        (
            CLIENTS.replace("partitions: 2", "partitions: 3") + STEP + EXPECT,
            "incident.yaml:1: partitions: 3, and the topic orders has 2",
        ),
        (
            CLIENTS + "steps: [{do: {op: scenario.list}}]\n" + EXPECT,
            "incident.yaml:3: scenario.list: not available in scenarios",
        ),
        (
            CLIENTS + "steps: [{do: {log: offsets(biling), state: stuck}}]\n" + EXPECT,
            "incident.yaml:3: log: offsets(biling)",
        ),
        ("steps: [", "incident.yaml:1: invalid YAML"),
    ],
)
async def test_what_can_not_be_here_is_refused_with_its_line(text: str, reason: str) -> None:
    async with cluster(topics={"orders": 2}) as kafka:
        with pytest.raises(UsageError) as refused:
            await perform(kafka, "scenario.start", {"file": text, "name": "incident.yaml"})
        assert reason in str(refused.value)
        assert runs(kafka) == []
        assert len(kafka.topic("orders").records()) == 0


async def test_settings_of_the_file_that_the_cluster_does_not_have_can_be_allowed() -> None:
    text = 'cluster: {as_version: "3.9"}\n' + CLIENTS + STEP + EXPECT
    async with cluster() as kafka:
        run = await begun(kafka, text, any_settings=True)
        await run.end()


OWN = "{name: zombie, kind: classic, members: 1, group: billing, topics: [orders], heartbeat_interval: 200ms}"


async def test_clients_that_no_library_provides_are_part_of_the_incident() -> None:
    text = f"""\
topics: [{{name: orders}}]
clients: [{OWN}]
steps:
  - {{name: joined, when: {{group: billing, state: Stable}}, within: {DEADLINE_S}}}
  - {{name: crashed, do: {{client: zombie, action: crash}}}}
expect: [{{happened: {{client: zombie, reports: exited}}}}]
"""
    async with cluster() as kafka:
        run = await begun(kafka, text)
        await run.wait(timeout=DEADLINE_S)
        await run.end()


async def test_the_clients_of_the_file_are_started_where_that_is_wanted() -> None:
    text = f"{CLIENTS}steps: [{{when: {{client: app, reports: read}}, within: {DEADLINE_S}}}]\n{EXPECT}"
    async with cluster() as kafka:
        run = await begun(kafka, text, start_clients=True)
        await run.wait(timeout=DEADLINE_S)
        await run.end()
        await kafka.group(GROUP).empty(timeout=DEADLINE_S)


async def test_a_block_of_python_leads_a_test_through_a_file(tmp_path: Path) -> None:
    file = tmp_path / "incident.yaml"
    file.write_text(INCIDENT)
    async with (
        cluster(clock="manual") as kafka,
        on_cluster(kafka, file) as incident,
        consumer(kafka) as app,
    ):
        await app.getone()
        await incident.wait(step="stuck", timeout=DEADLINE_S)
        assert runs(kafka) == [incident]
        await incident.end()  # its log is healed: the consumer leaves at once
    assert (incident.running, runs(kafka)) == (False, [])


def test_a_block_on_a_thread_of_its_own() -> None:
    with (
        ClusterThread(brokers=2) as kafka,
        on_cluster(kafka, "delayed-join-window", start_clients=True, any_settings=True) as incident,
    ):
        assert (incident.name, incident.running) == (kafka.run(lambda one: runs(one)[0].name), True)


def test_the_end_of_a_block_raises_what_no_wait_has_raised(tmp_path: Path) -> None:
    file = tmp_path / "incident.yaml"
    file.write_text(f"{CLIENTS}steps: [{{do: {{mark: now}}}}]\nexpect: [{{never: {{event: mark, text: now}}}}]\n")
    with ClusterThread() as kafka:
        block = on_cluster(kafka, file)
        with pytest.raises(ScenarioFailed, match="never"), block as incident, pytest.raises(WaitTimeout):
            incident.wait(timeout=0.001)
        with pytest.raises(KeyError), on_cluster(kafka, file):  # the test's own error comes first
            raise KeyError
        with pytest.raises(WrongFile, match="No such file"), on_cluster(kafka, tmp_path / "none.yaml"):
            pass


async def test_an_included_scenario_by_its_name() -> None:
    async with cluster(brokers=3) as kafka:
        given = await perform(kafka, "scenario.start", {"name": "partition-count-grows"})
        assert (given["running"], given["name"]) == (True, "a topic grows")
        assert [one["id"] for one in (await perform(kafka, "scenario.list"))["scenarios"]] == [given["id"]]
        for name, reason in (
            ("leader-chnges", "did you mean 'leader-changes'"),
            ("/etc/passwd", "no such included scenario"),
        ):
            with pytest.raises(UsageError, match=reason):
                await perform(kafka, "scenario.start", {"name": name})
        with pytest.raises(UsageError, match="file is missing"):
            await perform(kafka, "scenario.start", {})


async def test_a_cluster_for_a_file_has_its_settings_and_topics() -> None:
    file = (
        'cluster: {brokers: 3, as_version: "3.9", commit_timeout: 1s, clock: manual, seed: 7}\n'
        + CLIENTS
        + STEP
        + EXPECT
    )
    async with cluster() as default:
        clusters = Clusters(default)
        made = await perform(clusters, "cluster.create", {"scenario_file": file, "scenario": "incident.yaml"})
        assert (made["brokers"], made["as_version"], made["clock"], made["topics"]) == (3, "3.9", "manual", ["orders"])
        kafka = clusters.get(made["id"])
        assert len(kafka.topic("orders").records()) == 20
        assert (kafka.config["offsets.commit.timeout.ms"], kafka.seed) == (1000, 7)
        assert (await perform(kafka, "scenario.start", {"file": file}))["running"] is True
        own = {
            "brokers": 4,
            "as_version": "4.0",
            "config": {"offsets.commit.timeout.ms": "2000"},
            "users": {},
            "topics": [],
        }
        made = await perform(clusters, "cluster.create", {"scenario_file": file, **own})
        assert (made["brokers"], made["as_version"]) == (4, "4.0")
        assert clusters.get(made["id"]).config["offsets.commit.timeout.ms"] == 2000
        with pytest.raises(UsageError, match=r"incident\.yaml:1: the file has no key 'x'"):
            await perform(clusters, "cluster.create", {"scenario_file": "x: 1\n" + file, "scenario": "incident.yaml"})
        bad = file.replace("partitions: 2", "partitions: 2, replication: 9")
        with pytest.raises(UsageError, match=r"scenario:2: topic orders: .*replication factor"):
            await perform(clusters, "cluster.create", {"scenario_file": bad})
        assert len(clusters.items()) == 3, "a cluster whose topics can't be made is stopped"
        await clusters.stop()
