"""Clusters that tests share, and fixtures of their own: the report, the marks and the checks of each test; in projects played by
pytester."""

from __future__ import annotations

import pytest

from broker_sim.explain import recent
from broker_sim.explain.parts import events_after

JOIN = """
import asyncio, pytest
from broker_sim import Cluster, ClusterThread
from kafka_wire.errors import Err
from kafka_wire.messages.k08_offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_wire.codec import decode, encode
from kafka_wire.frame import encode_request_header, frame

async def commit_to(bootstrap, group):
    host, port = bootstrap.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    body = OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name="orders", partitions=[partition])])
    writer.write(frame(encode_request_header(8, 8, 1, "app") + encode(body, 8)))
    await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
    writer.close()
    await writer.wait_closed()

def commit(kafka, group):
    asyncio.run(commit_to(kafka.bootstrap, group))
"""

OPTIONS = ("-W", "error", "-p", "no:randomly", "-o", "asyncio_mode=auto")
SCOPE = ("-o", "asyncio_default_fixture_loop_scope=function")


def run(pytester: pytest.Pytester, code: str, *arguments: str) -> pytest.RunResult:
    pytester.makepyfile(JOIN + code)
    return pytester.runpytest_subprocess(*OPTIONS, *SCOPE, *arguments, timeout=300)


def section(result: pytest.RunResult, test: str) -> str:
    """The part of the output that is about a test that failed."""
    text = result.stdout.str()
    return text[text.index(f"__ {test} __") :].split("\n__")[1 if text.startswith("\n__") else 0].partition("\n____")[0]


SHARED = """
@pytest.fixture(scope="session")
def orders_kafka(kafka_factory):
    with kafka_factory(topics={"orders": 1}) as kafka:
        yield kafka

def test_first(orders_kafka):
    commit(orders_kafka, "billing")
    orders_kafka.group("billing").offsets_log.stuck()
    assert orders_kafka.group("billing").state == "first"

def test_second(orders_kafka):
    assert not orders_kafka.conditions.of()
    commit(orders_kafka, "shipping")
    assert orders_kafka.group("shipping").state == "second"

def test_third(orders_kafka):
    assert orders_kafka.bootstrap == "third"
"""


def test_each_failed_test_of_a_shared_cluster_reports_its_own_events(pytester: pytest.Pytester) -> None:
    result = run(pytester, SHARED)
    result.assert_outcomes(failed=3)
    first, second, third = (section(result, f"test_{name}") for name in ("first", "second", "third"))
    assert "group billing" in first
    assert "stuck: on" in first
    assert "group shipping" in second
    assert "billing" not in second
    assert "Kafka groups" not in third


@pytest.mark.slow
def test_workers_have_a_shared_cluster_each(pytester: pytest.Pytester) -> None:
    result = run(pytester, SHARED, "-n", "2")
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines_random(["group billing: *", "group shipping: *"])


def test_what_a_test_sets_ends_with_it_and_what_the_fixture_sets_stays(pytester: pytest.Pytester) -> None:
    code = """
@pytest.fixture(scope="module")
def mine(kafka_factory):
    kafka = kafka_factory(brokers=2, topics={"orders": 1})
    kafka.fault("Heartbeat", throttle_ms=1, must_hit=False)
    return kafka

def test_sets_much(mine):
    mine.fault("OffsetCommit", error="NOT_COORDINATOR", must_hit=False)
    mine.order.hold("JoinGroup")
    mine.log("orders", 0).slow("200ms")
    mine.broker_down(2)

def test_finds_what_the_fixture_set(mine):
    assert [fault.rule.text() for fault in mine.run(lambda kafka: kafka.faults.list())] == ["Heartbeat: throttle for 1 ms"]
    assert not mine.run(lambda kafka: [*kafka.order.holds, *kafka.conditions.of()])
    assert mine.broker(2).alive

@pytest.fixture
def own(mine):
    mine.fault("Fetch", error="NOT_LEADER_OR_FOLLOWER", must_hit=False)

def test_with_a_fixture_of_its_own(mine, own):
    assert len(mine.run(lambda kafka: kafka.faults.list())) == 2

def test_after_it(mine):
    assert len(mine.run(lambda kafka: kafka.faults.list())) == 1
"""
    run(pytester, code).assert_outcomes(passed=4)


KEPT = """
@pytest.fixture(scope="module")
def slow(kafka_factory):
    with kafka_factory(topics={"orders": 1}) as kafka:
        kafka.fault("OffsetCommit", group="billing", error="REQUEST_TIMED_OUT", times=1)
        kafka.fault("JoinGroup", group="misspelt", error="REQUEST_TIMED_OUT")
        yield kafka

@pytest.fixture(scope="module")
def tidy(kafka_factory):
    kafka = kafka_factory(topics={"orders": 1})
    rule = kafka.fault("JoinGroup", error="REQUEST_TIMED_OUT")
    yield kafka
    rule.remove()

def test_one(slow):
    commit(slow, "billing")

def test_two(slow):
    pass

def test_three(tidy):
    pass
"""


def test_a_rule_of_a_wider_fixture_that_never_matched_is_an_error_at_its_end(pytester: pytest.Pytester) -> None:
    result = run(pytester, KEPT)
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["*NeverHit: fault 2 never hit: JoinGroup group=misspelt: answer REQUEST_TIMED_OUT*"])


WAITS = """
def test_first(kafka_session):
    commit(kafka_session, "billing")

def test_second(kafka_session):
    kafka_session.group("billing").wait(members=1, timeout="50ms")
"""


def test_a_wait_describes_the_events_of_its_test(pytester: pytest.Pytester) -> None:
    result = run(pytester, WAITS)
    text = result.stdout.str()
    told = text[text.index("not within 50 ms") :].partition("\n\n")[0]
    assert "OffsetCommit" not in told
    assert "no events in the journal" in told


def test_a_rule_of_a_test_that_never_matched_fails_that_test_alone(pytester: pytest.Pytester) -> None:
    code = """
def test_left_over(kafka_session):
    kafka_session.fault("Heartbeat", error="NOT_COORDINATOR")

def test_after_it(kafka_session):
    assert kafka_session.bootstrap

def test_the_same_cluster(kafka_session, kafka_module):
    kafka_module.fault("Heartbeat", error="NOT_COORDINATOR")
    assert kafka_session.bootstrap != kafka_module.bootstrap
"""
    result = run(pytester, code)
    result.assert_outcomes(failed=2, passed=1)
    result.stdout.fnmatch_lines(
        ["NeverHit: fault 1 never hit: *Heartbeat*", "NeverHit: fault 1 never hit: *Heartbeat*"]
    )


def test_a_fixture_of_ones_own_has_marks_report_and_checks(pytester: pytest.Pytester) -> None:
    code = """
@pytest.fixture
async def mirrored(kafka_factory):
    async with kafka_factory.cluster(as_version="3.9") as one, kafka_factory.cluster(topics=["orders"]) as other:
        yield one, other

async def test_fails(mirrored):
    await commit_to(mirrored[1].bootstrap, "billing")
    assert mirrored is None

@pytest.mark.kafka(as_version="4.0")
async def test_marked(mirrored):
    assert [kafka.state.as_version for kafka in mirrored] == ["4.0", "4.0"]
    assert all(kafka.config.int("group.initial.rebalance.delay.ms") == 0 for kafka in mirrored)

async def test_never_hit(mirrored):
    mirrored[1].fault("Heartbeat", error="NOT_COORDINATOR")

def test_in_the_test_itself(kafka_factory):
    commit(kafka_factory(topics={"orders": 1}), "basket")
    assert False
"""
    result = run(pytester, code)
    result.assert_outcomes(passed=1, failed=3)
    result.stdout.fnmatch_lines(["group billing: *", "NeverHit: fault 1 *Heartbeat*", "group basket: *"])


def test_a_mark_that_comes_too_late_is_an_error(pytester: pytest.Pytester) -> None:
    code = """
pytestmark = pytest.mark.kafka(topics={"orders": 3})

def test_module(kafka_module):
    assert kafka_module.topic("orders").partitions

@pytest.mark.kafka(as_version="3.9")
def test_late(kafka_module):
    pass

@pytest.mark.kafka(as_version="3.9")
def test_both(kafka_module, kafka_server):
    assert kafka_server.run(lambda kafka: kafka.state.as_version) == "3.9"

def test_session(kafka_session):
    pass
"""
    result = run(pytester, code)
    result.assert_outcomes(passed=2, errors=2)
    late = "@pytest.mark.kafka(as_version='3.9') has no effect on the cluster of the fixture kafka_module, which is shared by the tests"
    result.stdout.fnmatch_lines_random(
        [f"{late} of the module *", "*fixture kafka_session, which is shared by the tests of the session*"]
    )


def test_defaults_of_all_clusters_are_in_the_ini_file(pytester: pytest.Pytester) -> None:
    pytester.makeini("""
[pytest]
kafka_as_version = 3.9
kafka_brokers = 2
kafka_topics = orders:6 payments
kafka_config =
    num.partitions=4
    log.retention.ms = 1000
""")
    code = """
def seen(kafka):
    return kafka.state.as_version, len(kafka.brokers), len(kafka.state.topics["orders"].partitions), kafka.config.int("num.partitions")

async def test_own(kafka):
    assert seen(kafka) == ("3.9", 2, 6, 4)
    assert kafka.config.int("group.initial.rebalance.delay.ms") == 0

def test_shared(kafka_session):
    assert kafka_session.run(seen) == ("3.9", 2, 6, 4)

@pytest.mark.kafka(as_version="4.2", config={"num.partitions": 5}, topics={"orders": 1})
def test_marked(kafka_server):
    assert kafka_server.run(seen) == ("4.2", 2, 1, 5)
"""
    run(pytester, code).assert_outcomes(passed=3)
    for option, message in (
        ("kafka_as_version=9.9", "ini option kafka_as_version: *9.9*"),
        ("kafka_brokers=many", "ini option kafka_brokers: brokers: 'many' is not a whole number from 1"),
        (
            "kafka_config=num.partitions",
            "ini option kafka_config: 'num.partitions' is no setting (expected name=value)",
        ),
    ):
        result = run(pytester, code, "-o", option, "-k", "shared")
        result.assert_outcomes(errors=1)
        result.stdout.fnmatch_lines([message])


def test_a_wrong_argument_of_the_factory_is_one_line(pytester: pytest.Pytester) -> None:
    code = """
def test_it(kafka_factory):
    kafka_factory(broker=3)
"""
    result = run(pytester, code)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["kafka_factory: no argument 'broker'; did you mean 'brokers'? *"])


def test_a_part_of_a_journal_begins_with_how_its_groups_were() -> None:
    def snapshot(state: str) -> dict[str, object]:
        return {"state": state, "generation": 4, "size": 0, "members": {}, "protocol": None, "leader": None}

    log = "__consumer_offsets-1"
    events: list[dict[str, object]] = [
        {"seq": 1, "ts_ms": 1, "event": "group", "group": "a", "log": log, "cause": {"kind": "request"}, "before": None,
         "after": snapshot("Empty")},
        {"seq": 2, "ts_ms": 2, "event": "state", "log": log, "state": "stuck", "args": {}, "action": "set"},
        {"seq": 3, "ts_ms": 3, "event": "mark", "text": "before"},
        {"seq": 4, "ts_ms": 4, "event": "mark", "text": "behind"},
    ]  # fmt: skip
    assert events_after(events, 0) == events
    assert events_after(events, 4) == []
    part = events_after(events, 3)
    assert [event["event"] for event in part] == ["state", "group", "mark"]
    text = recent(part, "a")
    assert text.startswith("group a: Empty in generation 4, 0 members")
    assert "before" not in text
