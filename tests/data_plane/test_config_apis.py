"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs: topics, brokers, loggers, groups, client metrics."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_sim.config.settings import BrokerConfig
from kafka_wire.errors import Err
from kafka_wire.messages import k33_alter_configs as whole
from kafka_wire.messages import k44_incremental_alter_configs as steps
from kafka_wire.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)
from tests.support.ctx import Sim

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
OK = (0, None)

Step = tuple[str, int, str | None]


def describe(
    sim: Sim, kind: int, name: str, *keys: str, version: int = 4, broker: int = 1, **options: bool
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(kind, name, list(keys) or None)
    request = DescribeConfigsRequest([resource], **options)
    [result] = sim.call(request, version, broker=broker).results
    assert isinstance(result, DescribeConfigsResult)
    return result


def setting(sim: Sim, kind: int, name: str, key: str, **options: bool) -> DescribeConfigsResourceResult:
    [found] = describe(sim, kind, name, key, **options).configs
    return found


def alter(
    sim: Sim, kind: int, name: str, *settings: tuple[str, str | None], validate_only: bool = False
) -> tuple[int, str | None]:
    resource = whole.AlterConfigsResource(kind, name, [whole.AlterableConfig(*one) for one in settings])
    [answer] = sim.call(whole.AlterConfigsRequest([resource], validate_only), 2).responses
    return answer.error_code, answer.error_message


def step(sim: Sim, kind: int, name: str, *changes: Step, validate_only: bool = False) -> tuple[int, str | None]:
    resource = steps.AlterConfigsResource(kind, name, [steps.AlterableConfig(*one) for one in changes])
    [answer] = sim.call(steps.IncrementalAlterConfigsRequest([resource], validate_only), 1).responses
    return answer.error_code, answer.error_message


# ------------------------------------------------------------------------------------------------ describe


def test_a_topics_settings_with_their_sources() -> None:
    sim = Sim(config={"log.segment.bytes": 2_000_000})
    sim.state.create_topic("t", 1, configs={"retention.ms": "5"})
    result = describe(sim, TOPIC, "t", include_synonyms=True)
    assert (result.error_code, result.error_message) == (0, "")
    found = {one.name: one for one in result.configs}
    assert len(found) == len(sim.state.config.topic_settings)
    own, static, default = found["retention.ms"], found["segment.bytes"], found["cleanup.policy"]
    assert [(s.name, s.value, s.source) for s in own.synonyms] == [("retention.ms", "5", 1)]
    assert (own.value, own.config_source, own.config_type, own.read_only) == ("5", 1, 5, False)
    assert [(s.name, s.value, s.source) for s in static.synonyms] == [
        ("log.segment.bytes", "2000000", 4),
        ("log.segment.bytes", "1073741824", 5),
    ]
    assert (default.value, default.config_source, default.config_type) == ("delete", 5, 7)
    assert [(s.name, s.value, s.source) for s in default.synonyms] == [("log.cleanup.policy", "delete", 5)]


def test_a_brokers_settings() -> None:
    sim = Sim(brokers=2, config={"num.partitions": 4})
    found = {one.name: one for one in describe(sim, BROKER, "2", broker=2).configs}
    assert (found["num.partitions"].value, found["num.partitions"].config_source) == ("4", 4)
    assert found["num.partitions"].read_only
    assert not found["log.cleaner.threads"].read_only
    assert (found["node.id"].value, found["node.id"].config_source) == ("2", 4)
    assert found["advertised.listeners"].value == "PLAINTEXT://127.0.0.1:9093"
    assert found["log.cleaner.io.max.bytes.per.second"].value == "1.7976931348623157E308"
    assert found["log.retention.ms"].value is None
    assert found["process.roles"].value == "broker"


def test_only_the_keys_asked_for() -> None:
    sim = Sim(topics={"t": 1})
    assert [one.name for one in describe(sim, TOPIC, "t", "retention.ms", "nope").configs] == ["retention.ms"]
    request = DescribeConfigsRequest([DescribeConfigsResource(TOPIC, "t", [])])
    assert len(sim.call(request, 4).results[0].configs) > 20


def test_documentation_comes_where_asked_for() -> None:
    sim = Sim(topics={"t": 1})
    assert setting(sim, TOPIC, "t", "retention.ms").documentation is None
    assert "deleted" in (setting(sim, TOPIC, "t", "retention.ms", include_documentation=True).documentation or "")


def test_version_0_never_tells_that_a_value_is_a_default() -> None:
    sim = Sim()
    sim.state.create_topic("t", 1, configs={"retention.ms": "5"})
    found = describe(sim, TOPIC, "t", "retention.ms", "segment.ms", version=0).configs
    assert [(one.name, one.is_default) for one in found] == [("retention.ms", False), ("segment.ms", False)]


def test_the_cluster_wide_settings() -> None:
    sim = Sim()
    assert [(one.name, one.value) for one in describe(sim, BROKER, "").configs] == [("min.insync.replicas", "1")]
    assert describe(Sim(as_version="3.9"), BROKER, "").configs == []


@pytest.mark.parametrize(
    ("kind", "name", "error", "message"),
    [
        (TOPIC, "x", Err.UNKNOWN_TOPIC_OR_PARTITION, ""),
        (TOPIC, "", Err.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: the empty string is not allowed"),
        (BROKER, "9", Err.INVALID_REQUEST, "Unexpected broker id, expected 1 or empty string, but received 9"),
        (BROKER, "x", Err.INVALID_REQUEST, "Broker id must be an integer, but it is: x"),
        (LOGGER, "", Err.INVALID_REQUEST, "Broker id must not be empty"),
        (LOGGER, "2", Err.INVALID_REQUEST, "Unexpected broker id, expected 1 but received 2"),
    ],
)
def test_resources_that_are_not_there(kind: int, name: str, error: Err, message: str) -> None:
    result = describe(Sim(brokers=2), kind, name)
    assert (result.error_code, result.error_message, result.configs) == (error, message, [])


@pytest.mark.parametrize("kind", [0, 1, 64, 99])
def test_kinds_that_are_not_there(kind: int) -> None:
    assert describe(Sim(), kind, "x").error_code == Err.INVALID_REQUEST


# ------------------------------------------------------------------------------------------------ alter as a whole


def test_a_topics_settings_are_replaced() -> None:
    sim = Sim(topics={"t": 1})
    assert alter(sim, TOPIC, "t", ("retention.ms", "5"), ("cleanup.policy", "compact")) == OK
    assert sim.state.topics["t"].partitions[0].log.config.compacts
    assert alter(sim, TOPIC, "t", ("retention.ms", "6")) == OK
    assert sim.state.topics["t"].configs == {"retention.ms": "6"}
    assert alter(sim, TOPIC, "t", ("retention.ms", "7"), validate_only=True) == OK
    assert sim.state.topics["t"].configs == {"retention.ms": "6"}


@pytest.mark.parametrize(
    ("kind", "name", "settings", "error", "message"),
    [
        (TOPIC, "x", [("retention.ms", "7")], Err.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'x' does not exist."),
        (TOPIC, "", [], Err.INVALID_REQUEST, "Default topic resources are not allowed."),
        (TOPIC, "t", [("foo", "7")], Err.INVALID_CONFIG, "Unknown topic config name: foo"),
        (TOPIC, "t", [("retention.ms", None)], Err.INVALID_REQUEST, "Null value not supported for : retention.ms"),
        (TOPIC, "t", [("retention.ms", "1")] * 2, Err.INVALID_REQUEST, "Error due to duplicate config keys"),
        (
            TOPIC,
            "t",
            [("retention.ms", "x")],
            Err.INVALID_CONFIG,
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        (
            BROKER,
            "1",
            [("num.partitions", "2")],
            Err.INVALID_REQUEST,
            "Cannot update these configs dynamically: Set(num.partitions)",
        ),
        (
            BROKER,
            "1",
            [("log.cleaner.threads", "-1")],
            Err.INVALID_REQUEST,
            "Invalid value -1 for configuration log.cleaner.threads: Value must be at least 0",
        ),
        (BROKER, "9", [], Err.INVALID_REQUEST, "Unexpected broker id, expected 1, but received 9"),
        (BROKER, "x", [], Err.INVALID_REQUEST, "Node id must be an integer, but it is: x"),
        (
            BROKER,
            "",
            [("listeners", "x")],
            Err.INVALID_REQUEST,
            "Cannot update these configs at default cluster level, broker id must be specified: Set(listeners)",
        ),
        (
            BROKER,
            "",
            [],
            Err.INVALID_CONFIG,
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
        ),
        (LOGGER, "1", [("root", "INFO")], Err.INVALID_REQUEST, "Unknown resource type 8"),
        (64, "g", [], Err.INVALID_REQUEST, "Unknown resource type 64"),
    ],
)
def test_what_cannot_be_altered(
    kind: int, name: str, settings: list[tuple[str, str | None]], error: Err, message: str
) -> None:
    sim = Sim(topics={"t": 1})
    assert alter(sim, kind, name, *settings) == (error, message)
    assert sim.state.topics["t"].configs == {}
    assert sim.state.config.dynamic_broker == {}


def test_a_brokers_settings_are_replaced() -> None:
    sim = Sim(brokers=2)
    assert alter(sim, BROKER, "1", ("log.cleaner.threads", "2")) == OK
    threads = setting(sim, BROKER, "1", "log.cleaner.threads", include_synonyms=True)
    assert [(s.value, s.source) for s in threads.synonyms] == [("2", 2), ("1", 5)]
    assert alter(sim, BROKER, "1") == OK
    assert setting(sim, BROKER, "1", "log.cleaner.threads").value == "1"
    assert alter(sim, BROKER, "1", ("a.plugins.setting", "2")) == OK  # nobody here, but perhaps a plug-in, knows it


def test_listeners_stay_as_they_are() -> None:
    error, message = alter(Sim(), BROKER, "1", ("listeners", "PLAINTEXT://:1"))
    assert error == Err.INVALID_REQUEST
    assert message == "listeners stays as the simulator was started"


@pytest.mark.parametrize("broker", ["1", ""])
def test_the_value_of_a_setting_that_stays_is_checked_first(broker: str) -> None:
    words = "Invalid value x for configuration ssl.client.auth: String must be one of: required, requested, none"
    assert alter(Sim(), BROKER, broker, ("ssl.client.auth", "x")) == (Err.INVALID_REQUEST, words)


# ------------------------------------------------------------------------------------------------ alter step by step


def test_set_delete_append_subtract() -> None:
    sim = Sim(topics={"t": 1})
    own = lambda: sim.state.topics["t"].configs  # noqa: E731
    assert step(sim, TOPIC, "t", ("retention.ms", SET, "5"), ("cleanup.policy", APPEND, "compact")) == OK
    assert own() == {"retention.ms": "5", "cleanup.policy": "delete,compact"}
    assert step(sim, TOPIC, "t", ("cleanup.policy", APPEND, "compact")) == OK
    assert step(sim, TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete"), ("retention.ms", DELETE, None)) == OK
    assert own() == {"cleanup.policy": "compact"}
    assert step(sim, TOPIC, "t", ("nope", DELETE, None)) == OK
    assert step(sim, TOPIC, "t", ("retention.ms", SET, "9"), validate_only=True) == OK
    assert own() == {"cleanup.policy": "compact"}


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            [("retention.ms", APPEND, "7")],
            Err.INVALID_CONFIG,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        ([("foo", SUBTRACT, "7")], Err.INVALID_CONFIG, "Can't SUBTRACT to key foo because its type is not LIST."),
        ([("foo", SET, "7")], Err.INVALID_CONFIG, "Unknown topic config name: foo"),
        (
            [("cleanup.policy", APPEND, "burn")],
            Err.INVALID_CONFIG,
            "Invalid value burn for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        ([("retention.ms", SET, None)], Err.INVALID_REQUEST, "Null value not supported for : retention.ms"),
        (
            [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)],
            Err.INVALID_REQUEST,
            "Error due to duplicate config keys",
        ),
        ([("retention.ms", 9, "1")], Err.UNKNOWN_SERVER_ERROR, None),
    ],
)
def test_steps_that_cannot_be_taken(changes: list[Step], error: Err, message: str | None) -> None:
    sim = Sim(topics={"t": 1})
    assert step(sim, TOPIC, "t", *changes) == (error, message)
    assert sim.state.topics["t"].configs == {}


def test_a_resource_that_stands_twice_is_refused_twice() -> None:
    sim = Sim(topics={"t": 1})
    resource = steps.AlterConfigsResource(TOPIC, "t", [steps.AlterableConfig("retention.ms", SET, "5")])
    answers = sim.call(steps.IncrementalAlterConfigsRequest([resource, resource]), 1).responses
    assert [(one.error_code, one.error_message) for one in answers] == [
        (Err.INVALID_REQUEST, "Each resource must appear at most once.")
    ] * 2


def test_all_brokers_are_altered_through_any_of_them() -> None:
    sim = Sim(brokers=2, topics={"t": 2})
    resource = steps.AlterConfigsResource(BROKER, "", [steps.AlterableConfig("message.max.bytes", SET, "5000")])
    [answer] = sim.call(steps.IncrementalAlterConfigsRequest([resource]), 1, broker=2).responses
    assert answer.error_code == 0
    assert [p.log.config.max_message_bytes for p in sim.state.topics["t"].partitions] == [5000, 5000]
    assert setting(sim, TOPIC, "t", "max.message.bytes").config_source == 3


def test_the_cluster_wide_min_isr_stays() -> None:
    sim = Sim()
    refused = step(sim, BROKER, "", ("min.insync.replicas", DELETE, None))
    assert refused == (Err.INVALID_CONFIG, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.")
    assert step(sim, BROKER, "", ("min.insync.replicas", SET, "2")) == OK
    assert sim.state.config.int("min.insync.replicas") == 2


# ------------------------------------------------------------------------------------------------ loggers


@pytest.fixture
def kept_levels() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in ("broker_sim", "broker_sim.metadata")]
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


@pytest.mark.usefixtures("kept_levels")
def test_loggers_levels_are_told_and_changed() -> None:
    sim = Sim()
    assert step(sim, LOGGER, "1", ("root", SET, "ERROR")) == OK
    assert logging.getLogger("broker_sim").level == logging.ERROR
    shown = {one.name: (one.value, one.config_source) for one in describe(sim, LOGGER, "1").configs}
    assert shown["root"] == shown["broker_sim.metadata"] == ("ERROR", 6)
    assert step(sim, LOGGER, "1", ("broker_sim.metadata", SET, "DEBUG")) == OK
    found = setting(sim, LOGGER, "1", "broker_sim.metadata")
    assert (found.value, found.documentation) == ("DEBUG", "")
    assert step(sim, LOGGER, "1", ("broker_sim.metadata", DELETE, None)) == OK
    assert setting(sim, LOGGER, "1", "broker_sim.metadata").value == "ERROR"


@pytest.mark.usefixtures("kept_levels")
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            ("root", SET, "LOUD"),
            Err.INVALID_CONFIG,
            "Cannot set the log level of root to LOUD as it is not a supported log level. "
            "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
        ),
        (("nobody", SET, "INFO"), Err.INVALID_CONFIG, "Logger nobody does not exist!"),
        (("root", DELETE, None), Err.INVALID_REQUEST, "Removing the log level of the root logger is not allowed"),
        (
            ("root", APPEND, "INFO"),
            Err.INVALID_REQUEST,
            "APPEND operation is not allowed for the BROKER_LOGGER resource",
        ),
    ],
)
def test_levels_that_cannot_be_set(change: Step, error: Err, message: str) -> None:
    assert step(Sim(), LOGGER, "1", change) == (error, message)


def test_every_setting_that_is_dynamic_may_be_altered() -> None:
    sim = Sim()
    fixed = {"listeners", "listener.security.protocol.map", "principal.builder.class", "metric.reporters"}
    fixed |= {"sasl.enabled.mechanisms", "ssl.client.auth"}
    for name, known in BrokerConfig().settings.items():
        if known.dynamic and known.default is not None:
            error, _ = step(sim, BROKER, "1", (name, SET, known.default))
            assert (error == 0) == (name not in fixed)


# ------------------------------------------------------------------------------------------------ groups, client metrics


def test_settings_of_groups_and_client_metrics_outlive_a_restart(tmp_path: Path) -> None:
    first = Sim(data_dir=tmp_path)
    assert step(first, GROUP, "../é", ("consumer.session.timeout.ms", SET, "52000")) == OK
    assert step(first, METRICS, "m", ("metrics", SET, " a , b ")) == OK
    assert step(first, METRICS, "unset", ("interval.ms", SET, "500")) == OK
    assert step(first, METRICS, "unset", ("interval.ms", DELETE, "")) == OK
    first.state.close()
    again = Sim(config={"group.consumer.max.session.timeout.ms": 50000}, data_dir=tmp_path)
    assert setting(again, GROUP, "../é", "consumer.session.timeout.ms").value == "52000"
    assert setting(again, METRICS, "m", "metrics").value == "a,b"
    assert "unset" not in (tmp_path / "cluster.json").read_text()
    again.state.close()


def test_bounds_and_defaults_of_groups_are_the_brokers() -> None:
    names = ("group.consumer.session.timeout.ms", "group.consumer.min.session.timeout.ms")
    sim = Sim(config=dict(zip(names, (50000, 6000), strict=True)))
    found = setting(sim, GROUP, "g", "consumer.session.timeout.ms", include_synonyms=True)
    assert (found.value, found.config_source) == ("50000", 5)
    assert [(one.name, one.source) for one in found.synonyms] == [("consumer.session.timeout.ms", 5)]
    timeout = [("consumer.session.timeout.ms", SET, "7000"), ("consumer.heartbeat.interval.ms", SET, "8000")]
    words = "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms"
    assert step(sim, GROUP, "g", *timeout) == (Err.INVALID_CONFIG, words)
    assert step(sim, GROUP, "g", timeout[0]) == OK


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_internal_settings_of_groups_are_described_once_they_are_set(kind: str) -> None:
    """As 4.4.0 has it; earlier releases have none."""
    name = f"{kind}.assignor.offload.enable"
    sim = Sim(as_version="4.4")
    assert name not in {one.name for one in describe(sim, GROUP, "g").configs}
    words = f"Invalid value x for configuration {name}: Expected value to be either true or false"
    assert step(sim, GROUP, "g", (name, SET, "x")) == (Err.INVALID_CONFIG, words)
    assert step(sim, GROUP, "g", (name, SET, "false")) == OK
    found = setting(sim, GROUP, "g", name, include_synonyms=True)
    assert [(one.name, one.value, one.source) for one in found.synonyms] == [
        (name, "false", 8),
        (f"group.{name}", "true", 5),
    ]
    assert step(Sim(), GROUP, "g", (name, SET, "false")) == (Err.INVALID_CONFIG, f"Unknown group config name: {name}")


def test_client_metrics_of_3_9_tell_what_is_set() -> None:
    sim = Sim(as_version="3.9")
    assert describe(sim, METRICS, "m").configs == []
    assert step(sim, METRICS, "m", ("interval.ms", SET, "soon")) == (Err.UNKNOWN_SERVER_ERROR, None)
    assert step(sim, METRICS, "m", ("match", SET, "")) == (Err.INVALID_CONFIG, "Illegal client matching pattern: ")
    assert step(sim, METRICS, "m", ("match", SET, ","), ("interval.ms", SET, "500")) == OK
    assert [one.name for one in describe(sim, METRICS, "m").configs] == ["interval.ms", "match"]
    assert step(sim, GROUP, "g", ("nope", SET, "1")) == (Err.INVALID_REQUEST, "Unknown resource type 32")


def test_settings_that_the_disk_does_not_take_are_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sim = Sim(data_dir=tmp_path)
    assert step(sim, METRICS, "m", ("interval.ms", SET, "500")) == OK

    def refuses(*_: object, **__: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr("broker_sim.metadata.meta_files.write_state", refuses)
        assert step(sim, METRICS, "m", ("interval.ms", SET, "700"))[0] == Err.KAFKA_STORAGE_ERROR
        assert step(sim, METRICS, "n", ("interval.ms", SET, "700"))[0] == Err.KAFKA_STORAGE_ERROR
    assert setting(sim, METRICS, "m", "interval.ms").value == "500"
    assert setting(sim, METRICS, "n", "interval.ms").value == "300000"
