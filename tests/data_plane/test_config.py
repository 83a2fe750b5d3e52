"""Settings: parsing, ranges, releases, sources."""

from __future__ import annotations

import pytest

from broker_sim.config.settings import (
    BrokerConfig,
    ConfigEntry,
    ConfigError,
    ConfigSource,
    ConfigType,
    parse_release,
    to_text,
)

TOPIC, BROKER, CLUSTER, STATIC, DEFAULT, *_ = ConfigSource


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("num.partitions", " 12 ", 12),
        ("auto.create.topics.enable", "FALSE", False),
        ("log.cleaner.min.cleanable.ratio", "0.25", 0.25),
        ("log.cleanup.policy", "compact, delete", ["compact", "delete"]),
        ("log.retention.ms", "-1", -1),
        ("compression.gzip.level", "-1", -1),
        ("broker.rack", "r1", "r1"),
    ],
)
def test_a_value_is_read_by_its_type(name: str, text: str, value: object) -> None:
    assert BrokerConfig({name: text})[name] == value


def test_python_values_are_taken_as_well() -> None:
    config = BrokerConfig({"num.partitions": 7, "auto.create.topics.enable": False, "log.cleanup.policy": ["compact"]})
    assert config.int("num.partitions") == 7
    assert not config.bool("auto.create.topics.enable")
    assert config.list("log.cleanup.policy") == ["compact"]


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("num.partitions", "many", "Invalid value many for configuration num.partitions: Not a number of type INT"),
        ("num.partitions", "0", "Invalid value 0 for configuration num.partitions: Value must be at least 1"),
        (
            "num.partitions",
            str(2**31),
            f"Invalid value {2**31} for configuration num.partitions: Not a number of type INT",
        ),
        ("offsets.topic.replication.factor", "40000", "Not a number of type SHORT"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "Value must be no more than 1"),
        ("auto.create.topics.enable", "yes", "Expected value to be either true or false"),
        ("log.cleanup.policy", "burn", "String must be one of: compact, delete"),
        ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
        ("log.message.timestamp.type", "Now", "String must be one of: CreateTime, LogAppendTime"),
    ],
)
def test_a_wrong_value_is_refused_in_kafkas_words(name: str, text: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig({name: text})
    assert str(refused.value).endswith(complaint)


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match=r"'num\.partition'.*did you mean 'num\.partitions'"):
        BrokerConfig({"num.partition": "3"})


def test_settings_come_and_go_with_releases() -> None:
    assert "offsets.commit.required.acks" in BrokerConfig(as_version="3.9").settings
    assert "offsets.commit.required.acks" not in BrokerConfig(as_version="4.0").settings
    assert "group.coordinator.append.linger.ms" in BrokerConfig(as_version="4.1").settings
    assert "group.coordinator.append.linger.ms" not in BrokerConfig(as_version="3.4").settings
    assert BrokerConfig(as_version="3.9").int("num.recovery.threads.per.data.dir") == 1
    assert BrokerConfig(as_version="4.1").int("num.recovery.threads.per.data.dir") == 2
    assert BrokerConfig({"log.segment.bytes": 100}, as_version="3.9").int("log.segment.bytes") == 100
    with pytest.raises(ConfigError, match="at least 1048576"):
        BrokerConfig({"log.segment.bytes": 100}, as_version="4.1")


@pytest.mark.parametrize(("text", "release"), [("3.4", (3, 4)), ("4.1.0", (4, 1)), ("3.9", (3, 9))])
def test_releases_are_read(text: str, release: tuple[int, int]) -> None:
    assert parse_release(text) == release


@pytest.mark.parametrize("text", ["", "3.3", "3.10", "5.0", "four"])
def test_an_unknown_release_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="no Kafka release"):
        parse_release(text)


def test_each_release_has_its_coordinator() -> None:
    assert [BrokerConfig(as_version=one).coordinator for one in ("3.4", "3.9", "4.0")] == ["scala", "scala", "java"]


def test_the_effective_value_comes_from_the_nearest_source() -> None:
    config = BrokerConfig({"log.cleaner.threads": "2"})
    assert config.entries("log.cleaner.threads", 1) == [
        ConfigEntry("log.cleaner.threads", "2", STATIC),
        ConfigEntry("log.cleaner.threads", "1", DEFAULT),
    ]
    config.alter(None, {"log.cleaner.threads": "3", "min.insync.replicas": "1"})
    config.alter(1, {"log.cleaner.threads": "4"})
    assert config.int("log.cleaner.threads") == 3
    assert config.value("log.cleaner.threads", 1) == 4
    assert config.value("log.cleaner.threads", 2) == 3
    assert [entry.source for entry in config.entries("log.cleaner.threads", 1)] == [BROKER, CLUSTER, STATIC, DEFAULT]


def test_hours_stand_in_for_milliseconds() -> None:
    assert BrokerConfig().topic_value("retention.ms", {}) == 168 * 3_600_000
    assert BrokerConfig({"log.retention.hours": 1}).topic_value("retention.ms", {}) == 3_600_000
    minutes = BrokerConfig({"log.retention.hours": 1, "log.retention.minutes": 2})
    assert minutes.topic_value("retention.ms", {}) == 120_000
    assert BrokerConfig({"log.retention.ms": 5, "log.retention.minutes": 2}).topic_value("retention.ms", {}) == 5
    assert BrokerConfig({"log.roll.hours": 2}).topic_value("segment.ms", {}) == 7_200_000


def test_a_topics_value_comes_before_the_brokers() -> None:
    config = BrokerConfig({"log.retention.ms": "5"})
    assert config.topic_value("retention.ms", {"retention.ms": "9"}) == 9
    assert config.topic_entries("retention.ms", {"retention.ms": "9"}) == [
        ConfigEntry("retention.ms", "9", TOPIC),
        ConfigEntry("log.retention.ms", "5", STATIC),
        ConfigEntry("log.retention.hours", "168", DEFAULT),
    ]
    assert config.topic_entries("segment.ms", {}) == []


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"retention": "5"}, "Unknown topic config name: retention"),
        ({"retention.ms": "x"}, "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        ({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}, "conflict topic config setting"),
        ({"remote.storage.enable": "true"}, "Tiered Storage functionality is disabled"),
        ({"leader.replication.throttled.replicas": "x"}, r"Invalid value \[x\] for configuration leader"),
    ],
)
def test_topic_settings_are_checked_alone_and_together(settings: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        BrokerConfig().check_topic(settings)


def test_throttled_replicas_may_be_a_star_or_pairs() -> None:
    name = "follower.replication.throttled.replicas"
    assert BrokerConfig().check_topic({name: "*"}) == {name: "*"}
    assert BrokerConfig().check_topic({name: "0:1,1:2"}) == {name: "0:1,1:2"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (0.5, "0.5"),
        (1e7, "1.0E7"),
        (0.0001, "1.0E-4"),
        (-12345678.0, "-1.2345678E7"),
        (True, "true"),
        (["a", "b"], "a,b"),
        (None, None),
    ],
)
def test_values_are_shown_as_java_shows_them(value: object, text: str | None) -> None:
    assert to_text(value) == text  # type: ignore[arg-type]


def test_every_default_passes_its_own_check() -> None:
    for release in ("3.4", "3.6", "3.9", "4.0", "4.1", "4.4"):
        config = BrokerConfig(as_version=release)
        for setting in (*config.settings.values(), *config.topic_settings.values()):
            if setting.default is not None:
                setting.parse(setting.default)
            assert setting.doc


def test_settings_are_of_the_type_that_the_release_gives_them() -> None:
    types = {release: BrokerConfig({}, release).settings["listeners"].type for release in ("4.1", "4.2")}
    assert types == {"4.1": ConfigType.STRING, "4.2": ConfigType.LIST}
    linger = "group.coordinator.append.linger.ms"
    assert [BrokerConfig({}, release).int(linger) for release in ("4.1", "4.2")] == [5, -1]
