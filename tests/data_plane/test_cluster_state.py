"""The cluster's metadata: topics, leaders, ids, and what of it survives a restart."""

from __future__ import annotations

import json
import shutil
from collections.abc import Generator
from pathlib import Path

import pytest

from broker_sim.common.slices import at_once
from broker_sim.metadata import leader_election
from broker_sim.metadata.cluster_state import KafkaError
from broker_sim.metadata.meta_files import PRODUCER_ID_BLOCK, StoreError
from broker_sim.storage import KafkaStorageError
from broker_sim.storage.files import Files
from kafka_wire.errors import Err
from kafka_wire.uuids import uuid_bytes, uuid_text
from tests.data_plane.helpers import fill
from tests.support.ctx import Sim

pytestmark = pytest.mark.usefixtures("killed_logs")


def error_of(refused: pytest.ExceptionInfo[KafkaError]) -> Err:
    return refused.value.error


def test_leaders_are_spread_round_robin_over_all_topics() -> None:
    sim = Sim(brokers=3, topics={"a": 4, "b": 2})
    assert [p.leader for p in sim.state.topics["a"].partitions] == [1, 2, 3, 1]
    assert [p.leader for p in sim.state.topics["b"].partitions] == [2, 3]


def test_replicas_follow_their_leader() -> None:
    sim = Sim(brokers=3)
    topic = sim.state.create_topic("r", 3, replication_factor=2)
    assert [p.replicas for p in topic.partitions] == [[1, 2], [2, 3], [3, 1]]
    assert [p.isr for p in topic.partitions] == [[1, 2], [2, 3], [3, 1]]


def test_only_live_brokers_get_replicas() -> None:
    sim = Sim(brokers=3)
    sim.state.brokers[2].alive = False
    assert {p.leader for p in sim.state.create_topic("t", 6).partitions} == {1, 3}
    with pytest.raises(KafkaError) as refused:
        sim.state.create_topic("u", 1, replication_factor=3)
    assert error_of(refused) is Err.INVALID_REPLICATION_FACTOR


def test_the_controller_is_the_first_broker_alive() -> None:
    sim = Sim(brokers=2)
    assert sim.state.controller_id == 1
    sim.state.brokers[1].alive = False
    assert sim.state.controller_id == 2


def test_the_offsets_topic_has_settings_of_its_own() -> None:
    sim = Sim(brokers=2, config={"offsets.topic.num.partitions": 4})
    topic = sim.state.ensure_offsets_topic()
    assert topic is sim.state.ensure_offsets_topic()
    assert topic.internal
    assert len(topic.partitions) == 4
    assert len(topic.partitions[0].replicas) == 2  # the default of 3, as far as there are brokers
    assert topic.configs == {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"}


def test_a_replication_factor_that_was_set_is_kept_to() -> None:
    sim = Sim(config={"offsets.topic.replication.factor": 3})
    with pytest.raises(KafkaError) as refused:
        sim.state.ensure_offsets_topic()
    assert error_of(refused) is Err.INVALID_REPLICATION_FACTOR


def test_a_new_leader_has_a_new_epoch_and_wakes_those_who_wait() -> None:
    sim = Sim(brokers=2, topics={"t": 1})
    partition = sim.state.topics["t"].partitions[0]
    woken: list[int] = []
    partition.add_waiter(lambda: woken.append(partition.leader))
    sim.state.set_leader(partition, 2)
    assert (partition.leader, partition.leader_epoch) == (2, 1)
    assert woken == [2]
    assert partition.log.end_offset_for_epoch(1) == (1, 0)


def test_a_held_partition_appends_without_committing() -> None:
    sim = Sim(topics={"t": 1})
    partition = sim.state.topics["t"].partitions[0]
    woken: list[int] = []
    partition.high_watermark_frozen = True
    fill(sim, "t", 3)
    assert (partition.log_end_offset, partition.high_watermark) == (3, 0)
    partition.advance_high_watermark(2)
    partition.add_waiter(lambda: woken.append(partition.high_watermark))
    partition.advance_high_watermark(1)
    assert partition.high_watermark == 2
    partition.unfreeze_high_watermark()
    assert partition.high_watermark == 3
    assert woken == [3]


def test_a_waiter_may_remove_itself_and_others() -> None:
    sim = Sim(topics={"t": 1})
    partition = sim.state.topics["t"].partitions[0]
    called: list[str] = []

    def first() -> None:
        called.append("first")
        partition.remove_waiter(first)
        partition.remove_waiter(second)

    def second() -> None:
        called.append("second")

    partition.add_waiter(first)
    partition.add_waiter(second)
    partition.wake()
    partition.wake()
    assert called == ["first"]


def test_the_same_seed_gives_the_same_ids() -> None:
    def ids(seed: int) -> list[str]:
        state = Sim(topics={"a": 1, "b": 1}, seed=seed).state
        return [state.cluster_id, *(uuid_text(topic.topic_id) for topic in state.topics.values())]

    assert ids(1) == ids(1)
    assert len({*ids(1), *ids(2)}) == 6
    assert not any(one.startswith("-") for one in ids(1))


def test_uuids_are_written_as_kafka_writes_them() -> None:
    assert uuid_text(bytes(16)) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuid_bytes(uuid_text(bytes(range(16)))) == bytes(range(16))
    with pytest.raises(ValueError, match="is no uuid"):
        uuid_bytes("AAAA")


# ------------------------------------------------------------------------------------------------ restart


def test_a_restart_brings_everything_back(tmp_path: Path) -> None:
    first = Sim(brokers=3, topics={"t": 3}, data_dir=tmp_path)
    first.state.create_topic("c", 1, configs={"cleanup.policy": "compact"})
    fill(first, "t", 3, partition=1)
    first.state.close()

    again = Sim(brokers=3, data_dir=tmp_path, seed=8)
    assert again.state.cluster_id == first.state.cluster_id
    assert list(again.state.topics) == ["t", "c"]
    for name, topic in first.state.topics.items():
        assert again.state.topics[name].topic_id == topic.topic_id
        assert again.state.topics[name].configs == topic.configs
        assert [p.replicas for p in again.state.topics[name].partitions] == [p.replicas for p in topic.partitions]
    partition = again.state.topics["t"].partitions[1]
    assert (partition.log_end_offset, partition.high_watermark) == (3, 3)
    assert partition.leader_epoch == 1  # a restarted broker leads anew


def test_producer_ids_never_repeat_over_restarts(tmp_path: Path) -> None:
    first = Sim(data_dir=tmp_path)
    given = [first.state.next_producer_id() for _ in range(3)]
    again = Sim(data_dir=tmp_path)
    assert given == [0, 1, 2]
    assert again.state.next_producer_id() == PRODUCER_ID_BLOCK


def test_settings_that_were_altered_survive(tmp_path: Path) -> None:
    first = Sim(topics={"t": 1}, data_dir=tmp_path)
    first.state.alter_topic("t", {"retention.ms": "9"})
    first.state.config.alter(None, {"message.max.bytes": "5000", "min.insync.replicas": "1"})
    first.state.config.alter(1, {"log.cleaner.threads": "2"})
    again = Sim(data_dir=tmp_path)
    assert again.state.topics["t"].configs == {"retention.ms": "9"}
    assert again.state.topics["t"].partitions[0].log.config.max_message_bytes == 5000
    assert again.state.config.value("log.cleaner.threads", 1) == 2


def test_fewer_brokers_take_over_what_the_others_had(tmp_path: Path) -> None:
    first = Sim(brokers=3, topics={"t": 3}, data_dir=tmp_path)
    fill(first, "t", 1, partition=2)
    first.state.close()
    again = Sim(brokers=1, data_dir=tmp_path)
    assert [(p.leader, p.replicas) for p in again.state.topics["t"].partitions] == [(1, [1])] * 3
    assert again.state.topics["t"].partitions[2].log_end_offset == 1


def test_log_directories_of_a_real_broker_are_adopted(tmp_path: Path) -> None:
    source = Sim(topics={"real": 2}, data_dir=tmp_path)
    topic_id = source.state.topics["real"].topic_id
    fill(source, "real", 2, partition=1)
    source.state.close()
    (tmp_path / "cluster.json").unlink()
    (tmp_path / "__cluster_metadata-0").mkdir()
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=RealKafkaClusterId0001\nnode.id=1\n")

    adopted = Sim(data_dir=tmp_path, seed=9)
    assert list(adopted.state.topics) == ["real"]
    assert adopted.state.topics["real"].topic_id == topic_id
    assert [p.log_end_offset for p in adopted.state.topics["real"].partitions] == [0, 2]
    assert adopted.state.cluster_id == "RealKafkaClusterId0001"


def test_files_beside_the_logs_are_kafkas(tmp_path: Path) -> None:
    sim = Sim(topics={"t": 1}, data_dir=tmp_path)
    text = (tmp_path / "t-0" / "partition.metadata").read_text()
    assert text.split() == ["version:", "0", "topic_id:", uuid_text(sim.state.topics["t"].topic_id)]
    assert f"cluster.id={sim.state.cluster_id}\n" in (tmp_path / "meta.properties").read_text()
    assert json.loads((tmp_path / "cluster.json").read_text())["cluster_id"] == sim.state.cluster_id


@pytest.mark.parametrize("content", ["", "not json", "[]", '{"format": 99}', '{"format": 1, "topics": {"t": {}}}'])
def test_a_state_that_is_not_understood_is_left_alone(tmp_path: Path, content: str) -> None:
    (tmp_path / "cluster.json").write_text(content)
    with pytest.raises(StoreError, match=r"cluster\.json"):
        Sim(data_dir=tmp_path)
    assert (tmp_path / "cluster.json").read_text() == content


def test_a_deleted_topic_leaves_no_file_and_wakes_those_who_wait(tmp_path: Path) -> None:
    sim = Sim(topics={"t": 2, "u": 1}, data_dir=tmp_path)
    topic = sim.state.topics["t"]
    woken: list[bool] = []
    changed: list[object] = []
    topic.partitions[0].add_waiter(lambda: woken.append(topic.partitions[0].deleted))
    sim.state.on_topics_changed.append(changed.append)
    sim.state.delete_topic("t")
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["u-0"]
    assert (woken, changed) == ([True], [{"t": None}])
    assert sim.state.partition("t", 0) is None
    assert topic.topic_id not in sim.state.topics_by_id


def test_a_partition_whose_log_is_gone_is_told_with_what_consumers_will_see(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sim = Sim(topics={"t": 3}, data_dir=tmp_path, config={"offsets.topic.num.partitions": 2})
    sim.state.ensure_offsets_topic()
    sim.state.close()
    shutil.rmtree(tmp_path / "t-1")
    shutil.rmtree(tmp_path / "__consumer_offsets-0")
    (tmp_path / "t-2" / f"{0:020d}.log").unlink()
    again = Sim(data_dir=tmp_path)
    assert [p.log_end_offset for p in again.state.topics["t"].partitions] == [0, 0, 0]
    told = dict(line.split(": ", 1) for line in caplog.messages)
    assert told.keys() == {"t-1", "t-2", "__consumer_offsets-0"}
    assert told["t-1"].startswith("its directory is missing")
    assert "(auto.offset.reset)" in told["t-1"]
    assert told["t-2"].startswith("its directory has no segment")
    assert "its groups lose their members" in told["__consumer_offsets-0"]
    caplog.clear()
    again.state.close()
    Sim(data_dir=tmp_path).state.close()
    assert caplog.messages == []


def test_of_many_logs_that_are_gone_the_first_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Sim(topics={"t": 30}, data_dir=tmp_path).state.close()
    for path in tmp_path.glob("t-*"):
        shutil.rmtree(path)
    Sim(data_dir=tmp_path)
    assert len(caplog.messages) == 11
    assert caplog.messages[-1] == f"the same for 20 more partitions in {tmp_path}"


def test_a_topic_is_made_wholly_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sim = Sim(data_dir=tmp_path)
    real = sim.state.disk._open_log

    def fails(topic: object, index: int, settings: object) -> object:
        if index == 1:
            raise KafkaStorageError("disk full")
        return real(topic, index, settings)  # type: ignore[arg-type]

    monkeypatch.setattr(sim.state.disk, "_open_log", fails)
    with pytest.raises(KafkaError) as refused:
        sim.state.create_topic("t", 3)
    assert error_of(refused) is Err.KAFKA_STORAGE_ERROR
    assert "t" not in sim.state.topics
    assert not (tmp_path / "t-0").exists()
    assert "t" not in Sim(data_dir=tmp_path).state.topics


def test_of_a_creation_cut_short_by_a_crash_nothing_is_there_after_the_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sim = Sim(brokers=2, topics={"old": 2}, data_dir=tmp_path)

    class CrashError(BaseException):
        pass

    def crashes(*_: object) -> object:
        raise CrashError

    monkeypatch.setattr(sim.state.disk, "_save", crashes)
    for change in (lambda: sim.state.create_topic("new", 3), lambda: sim.state.create_partitions("old", 5)):
        with pytest.raises(CrashError):
            change()
    again = Sim(brokers=2, data_dir=tmp_path)
    assert {name: len(topic.partitions) for name, topic in again.state.topics.items()} == {"old": 2}
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["old-0", "old-1"]


def test_a_deletion_cut_short_by_a_crash_is_finished_after_the_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sim = Sim(topics={"t": 2, "u": 1}, data_dir=tmp_path)
    monkeypatch.setattr(sim.state.disk, "drop_log", lambda log: None)
    sim.state.delete_topic("t")
    assert (tmp_path / "t-1").exists()
    assert list(Sim(data_dir=tmp_path).state.topics) == ["u"]
    assert not (tmp_path / "t-1").exists()


def test_a_large_topic_is_made_and_deleted_a_piece_at_a_time(tmp_path: Path) -> None:
    sim = Sim(data_dir=tmp_path)
    state = sim.state
    making = state.creating_topic("large.topic", 50)
    next(making)
    assert "large.topic" not in state.topics
    for name, error in (("large.topic", Err.TOPIC_ALREADY_EXISTS), ("large_topic", Err.INVALID_TOPIC_EXCEPTION)):
        with pytest.raises(KafkaError) as refused:
            state.create_topic(name, 1)
        assert error_of(refused) is error
    for _ in making:
        assert "large.topic" not in state.topics
    assert len(state.topics["large.topic"].partitions) == 50

    growing = state.creating_partitions("large.topic", 100)
    next(growing)
    with pytest.raises(KafkaError) as refused:
        state.delete_topic("large.topic")
    assert error_of(refused) is Err.REQUEST_TIMED_OUT
    at_once(growing)
    assert [p.index for p in state.topics["large.topic"].partitions] == list(range(100))

    deleting = state.deleting_topic("large.topic")
    next(deleting)
    assert "large.topic" not in state.topics
    with pytest.raises(KafkaError, match="marked for deletion") as refused:
        state.create_topic("large.topic", 1)
    at_once(deleting)
    assert list(tmp_path.glob("large*")) == []
    assert len(state.create_topic("large.topic", 1).partitions) == 1


@pytest.mark.parametrize("started", ["creating", "deleting"])
def test_where_the_cluster_ends_in_the_middle_of_a_large_topic_no_directory_stays(tmp_path: Path, started: str) -> None:
    state = Sim(data_dir=tmp_path).state
    if started == "creating":
        job: Generator[None, None, object] = state.creating_topic("large", 50)
    else:
        state.create_topic("large", 50)
        job = state.deleting_topic("large")
    next(job)
    assert list(tmp_path.glob("large*")) != []
    job.close()
    assert list(tmp_path.glob("large*")) == []
    assert state.topics == {}


def test_a_leader_that_goes_while_its_topic_is_made_is_replaced() -> None:
    state = Sim(brokers=2).state
    making = state.creating_topic("large", 50, replication_factor=2)
    next(making)
    state.brokers[1].alive = False
    assert {p.leader for p in at_once(making).partitions} == {2}


def test_what_many_elections_change_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sim = Sim(brokers=3, topics={"t": 30}, data_dir=tmp_path)
    written: list[Path] = []
    real = Files.replace_file

    def counts(self: Files, path: Path, data: bytes, **how: bool) -> None:
        written.append(path)
        real(self, path, data, **how)

    monkeypatch.setattr(Files, "replace_file", counts)
    leader_election.fence(sim.state, 2)
    assert written.count(tmp_path / "cluster.json") == 1
    leader_election.revive(sim.state, 2)
    assert written.count(tmp_path / "cluster.json") == 2
    topics = json.loads((tmp_path / "cluster.json").read_text())["topics"]
    epochs = [partition["leader_epoch"] for partition in topics["t"]["partitions"]]
    assert epochs == [partition.leader_epoch for partition in sim.state.topics["t"].partitions]
    assert set(epochs) != {0}


def test_a_disk_that_takes_no_state_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sim = Sim(topics={"t": 1}, data_dir=tmp_path)
    given = sim.state.next_producer_id()

    def full(*_: object, **__: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(Files, "replace_file", full)
        for change in (
            lambda: sim.state.create_topic("new", 1),
            lambda: sim.state.create_partitions("t", 2),
            lambda: sim.state.delete_topic("t"),
            lambda: sim.state.alter_topic("t", {"retention.ms": "5"}),
        ):
            with pytest.raises(KafkaError) as refused:
                change()
            assert error_of(refused) is Err.KAFKA_STORAGE_ERROR
        sim.state.disk._next_producer_id = PRODUCER_ID_BLOCK
        with pytest.raises(KafkaError):
            sim.state.next_producer_id()
    topic = sim.state.topics["t"]
    assert list(sim.state.topics) == ["t"]
    assert (len(topic.partitions), topic.configs, topic.partitions[0].deleted) == (1, {}, False)
    assert (given, sim.state.next_producer_id()) == (0, PRODUCER_ID_BLOCK)
    sim.state.create_topic("new", 1)
    assert list(Sim(data_dir=tmp_path).state.topics) == ["t", "new"]


# ------------------------------------------------------------------------------------------------ maintenance


def test_maintenance_deletes_old_segments_and_wakes_those_who_wait() -> None:
    sim = Sim(as_version="3.9")
    sim.state.create_topic("t", 1, configs={"retention.ms": "1000", "segment.bytes": "100"})
    fill(sim, "t", 1, 1, 1)
    partition = sim.state.topics["t"].partitions[0]
    starts: list[int] = []
    partition.add_waiter(lambda: starts.append(partition.log_start_offset))
    sim.state.run_log_maintenance(sim.clock.now_ms() + 500)
    assert starts == []
    sim.state.run_log_maintenance(sim.clock.now_ms() + 5000)
    assert starts == [3]


def test_maintenance_keeps_the_last_record_of_each_key() -> None:
    sim = Sim(as_version="3.9")
    settings = {"cleanup.policy": "compact", "segment.bytes": "100", "min.cleanable.dirty.ratio": "0"}
    sim.state.create_topic("t", 1, configs=settings)
    fill(sim, "t", 1, 1, 1, 1)
    sim.state.run_log_maintenance(sim.clock.now_ms())
    log = sim.state.topics["t"].partitions[0].log
    assert [record.offset for one in log.batches() for record in one.records()] == [2, 3]  # the active segment is left


def test_what_is_not_committed_is_not_deleted() -> None:
    sim = Sim(as_version="3.9")
    sim.state.create_topic("t", 1, configs={"retention.ms": "0", "segment.bytes": "100"})
    partition = sim.state.topics["t"].partitions[0]
    fill(sim, "t", 1)
    partition.high_watermark_frozen = True
    fill(sim, "t", 1, 1)
    sim.state.run_log_maintenance(sim.clock.now_ms() + 10)
    assert partition.log_start_offset == 1


def test_a_failing_log_does_not_keep_the_others_from_maintenance(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sim = Sim(topics={"bad": 1, "good": 1})
    done: list[int] = []

    def fails(*_: object, **__: object) -> int:
        raise KafkaStorageError("disk full")

    monkeypatch.setattr(sim.state.topics["bad"].partitions[0].log, "apply_retention", fails)
    monkeypatch.setattr(
        sim.state.topics["good"].partitions[0].log, "apply_retention", lambda now, **_: done.append(now)
    )
    sim.state.run_log_maintenance(5)
    assert done == [5]
    assert "bad-0" in caplog.text


def test_altered_settings_reach_the_logs() -> None:
    sim = Sim(topics={"t": 1})
    log = sim.state.topics["t"].partitions[0].log
    sim.state.alter_topic("t", {"max.message.bytes": "100"})
    assert log.config.max_message_bytes == 100
    sim.state.alter_topic("t", {})
    sim.state.config.alter(None, {"message.max.bytes": "200", "min.insync.replicas": "1"})
    assert log.config.max_message_bytes == 200
    sim.state.config.alter(1, {"message.max.bytes": "300"})
    assert log.config.max_message_bytes == 300  # its leader's own value
