"""No setting of Kafka's is taken without a word: it acts, is refused with what to use, or is named in a warning."""

from __future__ import annotations

import ast
import logging
import re
import warnings
from pathlib import Path

import pytest

import broker_sim
from broker_sim import Cluster
from broker_sim.api.cluster import ClusterError
from broker_sim.common.commandline import warnings_as_lines
from broker_sim.config.definitions import BROKER_SETTINGS, DOCS, TOPIC_SETTINGS
from broker_sim.config.effects import OTHERS, REFUSED, SettingWarning, startup
from broker_sim.config.settings import broker_settings
from broker_sim.scenario.files import WrongFile, loads
from broker_sim.scenario.model import parse
from kafka_wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.ctx import Sim

BROKER = {line.split()[0] for line in BROKER_SETTINGS.strip().splitlines()}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_setting_that_an_option_does_is_refused_with_the_option(name: str) -> None:
    with pytest.raises(ClusterError) as refused:
        Cluster(config={name: "17"})
    assert str(refused.value) == f"{name} can't be set by a setting: {REFUSED[name]}"


def test_all_that_is_wrong_with_the_settings_is_told_at_once() -> None:
    with pytest.raises(ClusterError) as refused:
        Cluster(config={"authorizer.class.name": "A", "num.partitons": "3", "log.dirs": "/x", "num.io.threads": "x"})
    assert [line.split()[0] for line in str(refused.value).split("\n")] == [
        "authorizer.class.name",
        "log.dirs",
        "unknown",
        "Invalid",
    ]


@pytest.mark.parametrize("release", ["3.4", "4.1", "4.4"])
def test_every_setting_acts_or_is_refused_or_named(release: str) -> None:
    known = broker_settings((int(release[0]), int(release[2])))
    for name in BROKER | OTHERS:
        given = startup({name: "17"}, release)
        outcome = [name in given.idle, bool(given.refused), name in known and name in DOCS]
        if name in known or name in OTHERS:
            assert sum(outcome) == 1, (name, given)
        else:
            assert given.values == {name: "17"} or given.refused, name  # of another release: BrokerConfig refuses it


def test_a_default_is_what_the_broker_has() -> None:
    for name, setting in broker_settings((4, 1)).items():
        assert startup({name: setting.default}, "4.1") == ({name: setting.default}, [], []), name
    assert startup({"num.io.threads": 8}, "4.1").idle == []


def test_settings_without_effect_are_one_warning_of_the_users_line() -> None:
    with pytest.warns(SettingWarning) as warned:
        cluster = Cluster(
            config={
                "num.io.threads": "9",
                "num.partitions": "3",
                "zookeeper.connect": "z",
                "listener.name.x.ssl.protocol": "T",
            }
        )
    [warning] = warned
    assert str(warning.message).startswith(
        "config: no effect here: num.io.threads, zookeeper.connect, listener.name.x.ssl.protocol ("
    )
    assert warning.filename == __file__
    assert cluster.config.static == {"num.io.threads": "9", "num.partitions": "3"}


@pytest.mark.parametrize("name", ["ssl.keystore.location", "sasl.jaas.config"])
def test_a_setting_of_one_listener_is_refused_as_the_setting_is(name: str) -> None:
    assert startup({f"listener.name.external.{name}": "x"}, "4.1").refused == [
        f"listener.name.external.{name} can't be set by a setting: {REFUSED[name]}"
    ]


def test_the_command_line_prints_such_a_warning_as_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings(), warnings_as_lines("broker-sim serve"):
        warnings.simplefilter("always")
        Cluster(config={"num.io.threads": "9"})
    assert capsys.readouterr().err == (
        "broker-sim serve: warning: config: no effect here: num.io.threads (docs/settings.md lists what each setting does)\n"
    )


def test_a_scenario_is_refused_what_a_cluster_is() -> None:
    with pytest.raises(WrongFile, match=r"authorizer\.class\.name can't be set by a setting: there are no ACLs"):
        parse(loads("cluster: {config: {authorizer.class.name: x}}\n"))


def test_a_setting_without_effect_that_a_client_alters_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    sim = Sim()
    values = {"max.connection.creation.rate": "5", "log.retention.ms": "1000"}
    configs = [AlterableConfig(name, 0, value) for name, value in values.items()]
    with caplog.at_level(logging.WARNING):
        sim.call(IncrementalAlterConfigsRequest([AlterConfigsResource(4, "1", configs)]), 1)
    assert [record.message.split(" (")[0] for record in caplog.records] == [
        "altered by a client: no effect here: max.connection.creation.rate"
    ]


# --- what is said of the code -------------------------------------------------------------------------------------------

ROOMS = (
    "config/definitions.py",
    "config/effects.py",
    "cli/environment.py",
    "simulation/",
    "pipeline/",
    "demo/",
    "scenario/",
    "reproduce/",
)
COMPUTED = re.compile(
    r"group\.(consumer|share|streams)\.(min\.|max\.|num\.)?"
    r"(session\.timeout\.ms|heartbeat\.interval\.ms|assignment\.interval\.ms|size|delivery\.count\.limit|(standby|warmup)\.replicas|"
    r"task\.offset\.interval\.ms|record\.lock\.duration\.ms|partition\.max\.record\.locks)|group\.share\.partition\.max\.record\.locks|"
    r"(offsets\.topic|transaction\.state\.log|share\.coordinator\.state\.topic)\."
    r"(num\.partitions|replication\.factor|segment\.bytes|min\.isr)"
)
"""Names that the code puts together (entity_configs, share_partitions, create_internal_topic)."""

SHOWN_ALONE = {
    "inter.broker.protocol.version",
    "log.dirs",
    "process.roles",
    # a synonym in the table of units, a default of groups', names that are only refused
    "compression.type",
    "group.streams.assignors",
    "group.streams.num.warmup.replicas",
    "log.flush.interval.ms",
    "log.flush.scheduler.interval.ms",
    "log.local.retention.bytes",
    "log.local.retention.ms",
    "log.roll.jitter.hours",
    "log.roll.jitter.ms",
    "principal.builder.class",
}
"""Names in the code that DescribeConfigs shows, or a table has, without any effect of their value."""


def test_what_is_said_to_act_is_read_by_the_code_and_nothing_else_is() -> None:
    root = Path(broker_sim.__file__).parent
    literals: set[str] = set()
    for path in root.rglob("*.py"):
        if not str(path.relative_to(root)).startswith(ROOMS):
            tree = ast.parse(path.read_text())
            literals |= {
                node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
            }
    from broker_sim.metadata.topics import _LOG_SETTINGS

    literals |= set(_LOG_SETTINGS)
    synonyms: dict[str, set[str]] = {}
    for line in TOPIC_SETTINGS.strip().splitlines():
        topic, broker = line.split()[:2]
        synonyms.setdefault(broker, set()).add(topic)
    read = {
        name for name in BROKER if {name, *synonyms.get(name, ())} & literals or COMPUTED.fullmatch(name) is not None
    } - SHOWN_ALONE
    assert read == set(DOCS)


def test_unknown_names_are_refused_and_no_name_is_in_two_tables() -> None:
    with pytest.raises(ClusterError, match="unknown setting"):
        Cluster(config={"zookeper.connect": "x"})
    assert not BROKER & OTHERS
    assert set(DOCS) <= BROKER
    assert set(REFUSED) <= BROKER | OTHERS
