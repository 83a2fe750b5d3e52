"""Data directories that came from somewhere: what their cluster.json says is checked before any of it is used, links are not followed,
and nothing is written outside."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker_sim.api.cluster import Cluster, ClusterError
from broker_sim.metadata.cluster_state import KafkaError
from broker_sim.metadata.meta_files import StoreError
from broker_sim.storage.files import Files
from kafka_wire.record_batch import build_batch
from tests.data_plane.helpers import fill
from tests.storage.batches import NOW_MS
from tests.support.ctx import Sim


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory with two topics, inside another one in which nothing may change."""
    home = tmp_path / "ticket" / "data"
    sim = Sim(topics={"orders": 2, "audit": 1}, data_dir=home)
    fill(sim, "orders", 3)
    sim.state.alter_topic("orders", {"retention.ms": "5"})
    sim.state.close()
    (tmp_path / "evil-0").mkdir()
    (tmp_path / "evil-0" / "precious.tmp").write_text("mine")
    return home


def everything(tmp_path: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(tmp_path)): path.read_bytes() if path.is_file() else None
        for path in sorted(tmp_path.rglob("*"))
        if path.name != ".lock"
    }


def refusal(home: Path) -> str:
    before = everything(home.parents[1])
    with pytest.raises(StoreError) as refused:
        Sim(data_dir=home)
    assert everything(home.parents[1]) == before
    text = str(refused.value)
    assert "\n" not in text
    assert text.isprintable()
    assert len(text) < 500
    return text


Change = Callable[[dict[str, Any]], object]


def renamed(name: str) -> Change:
    return lambda state: state["topics"].update({name: state["topics"].pop("orders")})


def set_to(value: object, *path: str | int) -> Change:
    def change(state: dict[str, Any]) -> None:
        at: Any = state
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value

    return change


ORDERS = ("topics", "orders")
FIRST = (*ORDERS, "partitions", 0)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (renamed("../../../evil"), "topics['../../../evil'] is not a topic name"),
        (renamed("/evil"), "is not a topic name"),
        (renamed(".."), "is not a topic name"),
        (renamed(""), "is not a topic name"),
        (renamed("x" * 250), "is not a topic name"),
        (renamed("a\x1b[2Jb\r\n"), r"topics['a\x1b[2Jb\r\n']"),
        (renamed("__cluster_metadata"), "reserved for the controller"),
        (set_to(None, *ORDERS), "topics['orders'] is None, which is not an object"),
        (set_to("AAAA", *ORDERS, "id"), "not a topic id"),
        (set_to("A" * 22, *ORDERS, "id"), "is not a topic's id"),
        (lambda state: set_to(state["topics"]["audit"]["id"], *ORDERS, "id")(state), "topics['audit'].id is that of"),
        (set_to([], *ORDERS, "partitions"), "are 0"),
        (set_to([{}], *ORDERS, "partitions"), "partitions[0].replicas is None"),
        (set_to({"a": 1}, *ORDERS, "partitions"), "not a list"),
        (set_to([1, 1], *FIRST, "replicas"), "each once"),
        (set_to([], *FIRST, "replicas"), "each once"),
        (set_to([2**40], *FIRST, "isr"), "not a whole number from 0"),
        (set_to(True, *FIRST, "leader"), "leader is True"),
        (set_to(1.0, *FIRST, "leader"), "leader is 1.0"),
        (set_to(2**31 - 1, *FIRST, "leader_epoch"), "leader_epoch is 2147483647"),
        (set_to(-1, *FIRST, "leader_epoch"), "leader_epoch is -1"),
        (set_to(10**300, *FIRST, "leader_epoch"), "more digits"),
        (set_to({"retention.ms": 5}, *ORDERS, "configs"), "not a string"),
        (
            set_to({"retention.ms": "soon"}, *ORDERS, "configs"),
            "topics['orders'].configs is invalid: Invalid value soon",
        ),
        (set_to({"retention.ms": "\ud800"}, *ORDERS, "configs"), "not text"),
        (set_to([], *ORDERS, "configs"), "not an object"),
        (set_to("x y\nnode.id=9", "cluster_id"), "not a cluster id"),
        (set_to(2**63, "next_producer_id"), "next_producer_id is 9223372036854775808"),
        (set_to("no", "adopted"), "adopted is 'no'"),
        (set_to("../..", "deleted_topic_ids"), "deleted_topic_ids is '../..', which is not a list"),
        (
            lambda state: state.update(gone={}, deleted=state.pop("deleted_topic_ids")),
            "gone is {}, which is not a list",
        ),
        (set_to({"-1": {}}, "broker_configs"), "not a broker id"),
        (set_to({"1": {"log.cleaner.threads": "x"}}, "broker_configs"), "broker_configs['1'] is invalid"),
        (set_to({"log.cleaner.threads": 1}, "dynamic_configs"), "not a string"),
        (set_to({"g": {"share.session.timeout.ms": "x"}}, "group_configs"), "group_configs['g'] is invalid"),
        (set_to({"m": []}, "client_metrics_configs"), "not an object"),
        (set_to(True, "format"), "its format is True"),
        (set_to(2, "format"), "its format is 2 (expected 1)"),
    ],
)
def test_a_field_that_can_not_be_is_named_and_nothing_is_touched(home: Path, change: Change, told: str) -> None:
    path = home / "cluster.json"
    state = json.loads(path.read_text())
    change(state)
    path.write_text(json.dumps(state))
    text = refusal(home)
    assert text.startswith(f"{path}: ")
    assert told in text


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "it is empty; restore a copy of it; if it is removed"),
        ("{", "it is not JSON: Expecting property name"),
        ("\ufeff{}", "it is not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"format": NaN}', "NaN is not a number"),
        ('{"format": 1, "next_producer_id": -Infinity}', "-Infinity is not a number"),
        ('{"format": 1, "next_producer_id": ' + "9" * 5000 + "}", "it is not JSON"),
        ('{"format": 1, "topics": {"t": {}, "t": {}}}', "an object has the key 't' twice"),
        ('{"format": 1, "format": 1}', "an object has the key 'format' twice"),
    ],
)
def test_json_that_is_none_is_told_with_what_its_removal_would_do(home: Path, content: str, told: str) -> None:
    (home / "cluster.json").write_text(content)
    assert told in refusal(home)


def test_bytes_that_are_no_text_are_told(home: Path) -> None:
    (home / "cluster.json").write_bytes(b'{"format": 1, "cluster_id": "\xff"}')
    assert "it is not JSON" in refusal(home)


@pytest.mark.parametrize(
    "name",
    ["cluster.json", "cluster.json.tmp", "orders-0", "new-0", "orders-0/00000000000000000000.log", "audit-0/x.tmp",
     "orders-1/leader-epoch-checkpoint.tmp", "log-start-offset-checkpoint"],
)  # fmt: skip
def test_a_link_out_of_the_directory_is_not_followed(home: Path, name: str) -> None:
    there = home / name
    outside = home.parents[1] / "evil-0"
    there.exists() and there.rename(there.with_name("was"))  # type: ignore[func-returns-value]
    there.symlink_to(outside if name.endswith("-0") else outside / "precious.tmp")
    assert "is a link" in refusal(home)


@pytest.mark.parametrize("name", ["cluster.json", "orders-0/00000000000000000000.timeindex"])
def test_a_pipe_in_a_files_place_does_not_stop_the_start_for_ever(home: Path, name: str) -> None:
    (home / name).unlink()
    os.mkfifo(home / name)
    assert "or not a regular file" in refusal(home)


async def test_a_lock_that_is_a_link_is_one_line(home: Path) -> None:
    (home / ".lock").unlink(missing_ok=True)
    (home / ".lock").symlink_to(home.parents[1] / "made-by-following")
    with pytest.raises(ClusterError, match=r"^data directory .*\.lock is a link, or not a regular file$"):
        await Cluster(data_dir=home).start()
    assert not (home.parents[1] / "made-by-following").exists()


@pytest.mark.usefixtures("killed_logs")
def test_an_epoch_that_no_log_has_is_read_from_the_batches(home: Path) -> None:
    (home / "orders-0" / "leader-epoch-checkpoint").write_text(f"0\n1\n{2**31 - 1} 0\n")
    assert Sim(data_dir=home).state.topics["orders"].partitions[0].leader_epoch == 1


def test_whatever_a_cluster_json_says_is_understood_or_refused(home: Path) -> None:
    path, outside = home / "cluster.json", home.parents[1]
    good = path.read_bytes()
    pieces = [b"../", b"-1", b"null", b"{}", b"[", b'"', b"1e999", b"\x00", b"9" * 30, b"true", b"\\ud800", b"}", b","]
    refused = 0
    before = {name: data for name, data in everything(outside).items() if "ticket/data" not in name}
    for seed in range(80):
        chance = random.Random(seed)
        data = bytearray(good)
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(data))
            data[at : at + chance.choice((0, 1, 1, 4, 40))] = chance.choice(
                (*pieces, b"", bytes([chance.randrange(256)]))
            )
        path.write_bytes(data)
        try:
            Sim(data_dir=home).state.close()
        except StoreError as error:
            refused += str(error).startswith(str(path))
    assert {name: data for name, data in everything(outside).items() if "ticket/data" not in name} == before
    assert 40 < refused < 80


SMALL = ("index", "timeindex", "snapshot", "metadata", "properties")
WORDS = (b"-1", b"9" * 20, b"0", b" ", b"\n", b"\x00", b"\xff", b"2147483647", b"9223372036854775807", b"x")


def harmed(chance: random.Random, data: bytes) -> bytes:
    """Garbage, a part of it, or it with something wrong in it."""
    kind = chance.randrange(4)
    if kind == 0:
        return chance.randbytes(chance.randrange(200))
    if kind == 1:
        return data[: chance.randrange(len(data) + 1)]
    at = chance.randrange(len(data) + 1)
    return data[:at] + chance.choice(WORDS) * chance.randint(1, 5) + data[at + chance.choice((0, 1, 4)) :]


def test_whatever_stands_in_the_small_files_beside_a_log_its_records_are_there(tmp_path: Path) -> None:
    origin, home = tmp_path / "origin", tmp_path / "data"
    sim = Sim(data_dir=origin, as_version="3.9")
    topic = sim.state.create_topic("t", 1, configs={"segment.bytes": "500", "index.interval.bytes": "0"})
    for number in range(20):
        data = build_batch([(b"k", b"v" * 50)], NOW_MS, producer_id=5, producer_epoch=0, base_sequence=number)
        topic.partitions[0].append(data, now_ms=NOW_MS)
    sim.state.set_leader(topic.partitions[0], 1)
    sim.state.close()
    small = [path.relative_to(origin) for path in sorted(origin.rglob("*")) if path.suffix[1:] in SMALL]
    small.append(Path("t-0/leader-epoch-checkpoint"))
    for seed in range(15):
        chance = random.Random(seed)
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(origin, home)
        for path in chance.sample(small, 2):
            (home / path).write_bytes(harmed(chance, (home / path).read_bytes()))
        state = Sim(data_dir=home, as_version="3.9").state
        log = state.topics["t"].partitions[0].log
        assert [record.offset for one in log.batches() for record in one.records()] == list(range(20)), seed
        state.close()


@pytest.mark.usefixtures("killed_logs")
def test_what_another_release_knows_is_passed_over(home: Path) -> None:
    path = home / "cluster.json"
    state = json.loads(path.read_text())
    state["topics"]["orders"]["configs"]["of.tomorrow"] = "x"
    state["of_tomorrow"] = state["dynamic_configs"]["of.tomorrow"] = "x"
    path.write_text(json.dumps(state))
    sim = Sim(data_dir=home)
    assert list(sim.state.topics) == ["orders", "audit"]
    with pytest.raises(KafkaError):
        sim.state.create_topic("../x", 1)


async def test_a_directory_that_can_not_be_written_is_one_line(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(self: Files, path: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    monkeypatch.setattr(Files, "lock", refuses)
    with pytest.raises(ClusterError, match=r"^data directory .*/data can't be used: Read-only file system$"):
        await Cluster(data_dir=home).start()
