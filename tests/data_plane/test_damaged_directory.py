"""Damage to a data directory that its files alone would not show: each kind is logged once, with what is lost by it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from broker_sim.metadata.topics import OFFSETS_TOPIC, TRANSACTION_TOPIC
from tests.data_plane.helpers import fill
from tests.support.ctx import Sim

pytestmark = pytest.mark.usefixtures("killed_logs")

ENDS = "replication-offset-checkpoint"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory that a clean shutdown left: three partitions of orders with 3 records each, both internal topics with 2."""
    sim = Sim(topics={"orders": 3}, data_dir=tmp_path)
    for topic in (OFFSETS_TOPIC, TRANSACTION_TOPIC):
        sim.state.ensure_internal_topic(topic)
        fill(sim, topic, 2)
    for index in range(3):
        fill(sim, "orders", 1, 1, 1, partition=index)
    sim.state.close()
    return tmp_path


def empty(home: Path, partition: str) -> None:
    [segment] = (home / partition).glob("*.log")
    assert segment.stat().st_size
    os.truncate(segment, 0)


def test_a_clean_shutdown_leaves_the_ends_of_all_logs_and_a_start_takes_them(home: Path) -> None:
    assert (home / ENDS).read_text().splitlines()[2:5] == ["orders 0 3", "orders 1 3", "orders 2 3"]
    sim = Sim(data_dir=home)
    assert not (home / ENDS).exists()  # after a crash it would tell of an earlier shutdown
    sim.state.close()
    assert (home / ENDS).exists()


@pytest.mark.parametrize(
    ("partition", "end", "loss"),
    [
        ("orders-1", 3, "offsets committed beyond its end are out of range"),
        ("__consumer_offsets-0", 2, "its groups lose their members and the offsets that were committed there"),
        ("__transaction_state-0", 2, "its transactional ids lose their producers and open transactions"),
    ],
)
def test_an_emptied_log_is_one_warning(
    home: Path, caplog: pytest.LogCaptureFixture, partition: str, end: int, loss: str
) -> None:
    empty(home, partition)
    Sim(data_dir=home).state.close()
    [record] = caplog.records
    assert f"{partition} ends at offset 0, and at {end} in {ENDS}: its last records are lost; {loss}" in record.message
    caplog.clear()
    Sim(data_dir=home).state.close()
    assert not caplog.records  # the directory is as it is now


def test_a_log_that_has_lost_its_end_is_one_warning(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    [segment] = (home / "orders-2").glob("*.log")
    os.truncate(segment, segment.stat().st_size - 1)
    Sim(data_dir=home)
    assert [record.message.split(":")[0] for record in caplog.records if "orders-2 ends" in record.message] == [
        f"orders-2 ends at offset 2, and at 3 in {ENDS}"
    ]


def test_many_shorter_logs_are_ten_warnings_and_a_number(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = "".join(f"{OFFSETS_TOPIC} {index} 9\n" for index in range(50))
    (home / ENDS).write_text(f"0\n50\n{rows}")
    Sim(data_dir=home)
    assert len(caplog.records) == 11
    assert "the same for 40 more partitions" in caplog.text


def test_a_partition_without_its_directory_is_told_once(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    for path in sorted((home / "orders-1").iterdir()):
        path.unlink()
    (home / "orders-1").rmdir()
    Sim(data_dir=home)
    assert [record.message.split(",")[0] for record in caplog.records] == ["orders-1: its directory is missing"]


@pytest.mark.parametrize("name", ["cleaner-offset-checkpoint", "log-start-offset-checkpoint", ENDS])
def test_a_damaged_checkpoint_of_all_logs_is_one_warning_and_is_kept(
    home: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    (home / name).write_text("0\n7\nx")
    Sim(data_dir=home)
    [record] = caplog.records
    assert f"{name} is not used and was renamed to {name}.damaged" in record.message
    assert (home / f"{name}.damaged").read_text() == "0\n7\nx"


@pytest.mark.parametrize("content", [bytes(92), b"", b"#\nversion=1\nnode.id=1\n"])
def test_meta_properties_without_a_cluster_is_written_again(
    home: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    path = home / "meta.properties"
    cluster_id = json.loads((home / "cluster.json").read_text())["cluster_id"]
    path.write_bytes(content)
    Sim(data_dir=home)
    [record] = caplog.records
    assert "meta.properties has no cluster.id" in record.message
    assert f"cluster.id={cluster_id}" in path.read_text()
    assert (home / "meta.properties.damaged").read_bytes() == content


@pytest.mark.parametrize("wrong", ["x", "A" * 21 + "!", "../..", 7, None])
def test_an_invalid_id_of_a_deleted_topic_does_not_stop_the_start(
    home: Path, caplog: pytest.LogCaptureFixture, wrong: object
) -> None:
    path = home / "cluster.json"
    state = json.loads(path.read_text())
    state["deleted_topic_ids"] = ["A" * 22, wrong]
    path.write_text(json.dumps(state))
    assert Sim(data_dir=home).state.disk.deleted_topic_ids == ["A" * 22]
    assert "1 invalid id(s) of deleted topics" in caplog.text
