"""The fixtures that users get; their projects are played by pytester, in processes of their own."""

from __future__ import annotations

import sys

import pytest

from broker_sim import Cluster
from broker_sim.api.cluster_thread import ClusterThread
from kafka_wire.errors import Err
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from tests.support import processes
from tests.support.wire import Wire

ASK = """
import asyncio, pytest, socket
from kafka_wire.codec import decode, encode
from kafka_wire.frame import encode_request_header, frame
from kafka_wire.messages.k03_metadata import MetadataRequest, MetadataResponse

def question():
    return frame(encode_request_header(3, 9, 1, "test") + encode(MetadataRequest(topics=None), 9))

def topics(payload):
    answer = decode(MetadataResponse, 9, payload, 5)
    return {topic.name: len(topic.partitions) for topic in answer.topics if not topic.is_internal}

async def ask(bootstrap):
    host, port = bootstrap.split(",")[0].split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(question())
    payload = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
    writer.close()
    await writer.wait_closed()
    return topics(payload)

def ask_sync(bootstrap):
    return asyncio.run(ask(bootstrap))
"""


def passes(pytester: pytest.Pytester, code: str, passed: int, *arguments: str) -> None:
    pytester.makepyfile(ASK + code)
    result = pytester.runpytest_subprocess("-W", "error", "-p", "no:randomly", *arguments, timeout=300)
    result.assert_outcomes(passed=passed)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "strict"])
def test_async_tests_get_a_cluster_each_on_their_loop(pytester: pytest.Pytester, mode: str) -> None:
    code = """
seen = set()

@pytest.fixture
def plain(kafka):
    return kafka.bootstrap

@pytest.mark.asyncio
@pytest.mark.parametrize("number", range(3))
async def test_fresh(kafka, plain, number):
    assert plain == kafka.bootstrap
    assert await ask(kafka.bootstrap) == {}
    kafka.create_topic("orders", 2)
    assert await ask(kafka.bootstrap) == {"orders": 2}
    assert kafka.config.int("group.initial.rebalance.delay.ms") == 0
"""
    passes(pytester, code, 3, "-o", f"asyncio_mode={mode}", "-o", "asyncio_default_fixture_loop_scope=function")


@pytest.mark.slow
def test_the_marker_has_the_clusters_arguments(pytester: pytest.Pytester) -> None:
    code = """
pytestmark = pytest.mark.kafka(brokers=3, config={"num.partitions": 5})

@pytest.mark.kafka(topics={"a": 2}, as_version="3.9", config={"group.initial.rebalance.delay.ms": 3000})
async def test_options(kafka):
    assert kafka.bootstrap.count(",") == 2
    assert await ask(kafka.bootstrap) == {"a": 2}
    assert kafka.config.int("group.initial.rebalance.delay.ms") == 3000
    assert kafka.config.int("num.partitions") == 5
    assert kafka.state.as_version == "3.9"
"""
    scope = "asyncio_default_fixture_loop_scope=function"
    passes(pytester, code, 1, "--strict-markers", "-o", "asyncio_mode=auto", "-o", scope)


@pytest.mark.slow
def test_synchronous_tests_get_one_on_a_thread(pytester: pytest.Pytester) -> None:
    code = """
@pytest.mark.kafka(topics={"a": 2})
def test_bootstrap(kafka_bootstrap, kafka_server):
    assert ask_sync(kafka_bootstrap) == {"a": 2}
    kafka_server.create_topic("b", 1)
    assert ask_sync(kafka_bootstrap) == {"a": 2, "b": 1}

def test_kafka_is_the_same_here(kafka):
    assert ask_sync(kafka.bootstrap) == {}
"""
    passes(pytester, code, 2, "-p", "no:asyncio")


def test_an_async_test_without_an_async_plugin_is_told(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("async def test_it(kafka): pass")
    result = pytester.runpytest_subprocess("-p", "no:asyncio", "-p", "no:randomly")
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*the fixture kafka needs pytest-asyncio or anyio in an async test*"])


def test_wrong_options_fail_the_test_with_the_reason(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
import pytest

@pytest.mark.kafka(config={"num.partition": 1})
def test_setting(kafka_server): pass

@pytest.mark.kafka(3)
def test_position(kafka_server): pass
""")
    result = pytester.runpytest_subprocess("-p", "no:randomly")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(
        [
            "@pytest.mark.kafka: unknown setting of a Kafka 4.1 broker: 'num.partition'; did you mean 'num.partitions'[?] *",
            "@pytest.mark.kafka: it takes keyword arguments only, as in brokers=3",
        ]
    )
    assert "Traceback" not in result.stdout.str()


@pytest.mark.slow
def test_settings_are_those_of_the_release_that_another_marker_names(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
import pytest

pytestmark = pytest.mark.kafka(as_version="3.4")

@pytest.mark.kafka(config={"log.message.format.version": "3.0"})
def test_older(kafka_server): pass
""")
    pytester.runpytest_subprocess("-p", "no:asyncio").assert_outcomes(passed=1)


def test_a_wrong_argument_of_the_marker_is_told_in_one_line(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
import pytest

@pytest.mark.kafka(broker=3)
def test_name(kafka_server): pass

@pytest.mark.kafka(configs={})
async def test_word(kafka): pass

@pytest.mark.kafka(brokers="three")
def test_kind(kafka): pass

@pytest.mark.kafka(clock="manuel")
def test_value(kafka_bootstrap): pass
""")
    result = pytester.runpytest_subprocess("-p", "no:randomly", "-o", "asyncio_mode=auto", timeout=300)
    result.assert_outcomes(errors=4)
    result.stdout.fnmatch_lines(
        [
            "@pytest.mark.kafka: no argument 'broker'; did you mean 'brokers'? *",
            "@pytest.mark.kafka: no argument 'configs'; did you mean 'config'? *",
            "@pytest.mark.kafka: brokers: 'three' is not a whole number from 1",
            "@pytest.mark.kafka: no clock 'manuel'; did you mean 'manual'? *",
        ]
    )


def test_topics_may_be_a_list_of_names(pytester: pytest.Pytester) -> None:
    code = """
@pytest.mark.kafka(topics=["orders", "payments:6"])
def test_list(kafka_server):
    assert ask_sync(kafka_server.bootstrap) == {"orders": 1, "payments": 6}
"""
    passes(pytester, code, 1, "-p", "no:asyncio")


def test_loading_it_loads_no_broker() -> None:
    code = "import sys, broker_sim.testing.pytest_plugin; print([m for m in sys.modules if m.split('.')[0] in"
    code += " ('asyncio', 'protocol') or m in ('broker_sim.api.cluster', 'broker_sim.network.server')])"
    done = processes.run([sys.executable, "-c", code], check=True)
    assert done.stdout == "[]\n"


async def test_here_too(kafka: Cluster) -> None:
    assert {name: len(topic.partitions) for name, topic in kafka.state.topics.items()} == {
        "__consumer_offsets": 50,
        "__transaction_state": 50,
    }


@pytest.mark.kafka(as_version="4.2", internal_topics="at-start")
async def test_share_groups_have_their_internal_topic_too(kafka: Cluster) -> None:
    assert list(kafka.state.topics) == ["__consumer_offsets", "__transaction_state", "__share_group_state"]


@pytest.mark.kafka(internal_topics="on-demand")
async def test_internal_topics_come_at_the_first_need_where_the_test_wants_kafkas_way(kafka: Cluster) -> None:
    assert kafka.state.topics == {}
    assert await _coordinator_error(kafka) is Err.COORDINATOR_NOT_AVAILABLE
    assert list(kafka.state.topics) == ["__consumer_offsets"]
    assert await _coordinator_error(kafka) is Err.NONE


async def test_the_first_look_for_a_coordinator_finds_one(kafka: Cluster) -> None:
    assert await _coordinator_error(kafka) is Err.NONE


async def _coordinator_error(kafka: Cluster) -> Err:
    wire = await Wire.connect(kafka.bootstrap)
    answer = await wire.send(FindCoordinatorRequest(key="billing"), 3)
    await wire.close()
    return Err(answer.error_code)


@pytest.mark.parametrize(
    ("settings", "topics"),
    [
        ({"offsets.topic.num.partitions": "3"}, ["__consumer_offsets", "__transaction_state"]),
        (
            {"transaction.state.log.replication.factor": "3"},
            ["__consumer_offsets"],
        ),  # which it can't have: it is logged
    ],
)
async def test_internal_topics_at_the_start_have_the_brokers_settings(
    settings: dict[str, str], topics: list[str]
) -> None:
    async with Cluster(config=settings, internal_topics="at-start") as cluster:
        assert list(cluster.state.topics) == topics
        assert len(cluster.state.topics["__consumer_offsets"].partitions) == int(
            settings.get("offsets.topic.num.partitions", "50")
        )


@pytest.mark.kafka(topics={"orders": 3})
def test_here_on_a_thread(kafka_server: ClusterThread, kafka_bootstrap: str) -> None:
    assert kafka_server.bootstrap == kafka_bootstrap
    assert kafka_server.run(lambda kafka: len(kafka.state.topics["orders"].partitions)) == 3
