"""Inputs on Spark's file systems: S3 as moto plays it, HDFS as Hadoop's own mini cluster is it; the same rows as from a disk."""

from __future__ import annotations

import getpass
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_sim.common.text import UsageError
from broker_sim.pipeline import files, inputs
from broker_sim.pipeline.hadoop_files import HadoopFiles, check, offset_rows
from broker_sim.pipeline.log_ends import log_ends_rows
from broker_sim.pipeline.offset_logs import find_logs
from broker_sim.pipeline.progress import Steps
from broker_sim.pipeline.run import RunOptions, pipeline
from broker_sim.pipeline.segments import read_offsets
from tests.incidents.run_pipeline import recorded, unpack
from tests.support.hadoop_jars import aws_jars, mini_jars
from tests.support.real_kafka import need_tool

START_S = 120.0
BUCKET = "logs"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real broker's directory, with a segment that is damaged in the middle, and a topic's partition beside."""
    (packed,) = (one for one in recorded() if "offsets-4.1.0" in one.name)
    folder = unpack(packed, tmp_path_factory.mktemp("recorded")) / "data"
    largest = max(folder.glob("__consumer_offsets-*/*.log"), key=lambda path: path.stat().st_size)
    bytes_ = bytearray(largest.read_bytes())
    bytes_[len(bytes_) // 2] ^= 0xFF
    largest.write_bytes(bytes_)
    (folder / "orders-0").mkdir()
    (folder / "orders-0" / largest.name).write_bytes(next(folder.glob("__consumer_offsets-*/*.log")).read_bytes())
    return folder


@pytest.fixture(scope="module")
def s3(spark: Any, data: Path) -> Iterator[str]:
    """The directory in a bucket."""
    import boto3  # type: ignore[import-untyped]
    from moto.server import ThreadedMotoServer

    aws_jars()  # the session has them, or here is why not
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    client = boto3.client(
        "s3", endpoint_url=address, aws_access_key_id="k", aws_secret_access_key="s", region_name="us-east-1"
    )
    client.create_bucket(Bucket=BUCKET)
    for file in (path for path in data.rglob("*") if path.is_file()):
        client.upload_file(str(file), BUCKET, f"broker-3/{file.relative_to(data)}")
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    for name, value in {
        "endpoint": address,
        "endpoint.region": "us-east-1",
        "access.key": "k",
        "secret.key": "s",
        "path.style.access": "true",
        "attempts.maximum": "1",
        "retry.limit": "1",
        "connection.establish.timeout": "5s",
    }.items():
        conf.set(f"fs.s3a.{name}", value)
    yield f"s3a://{BUCKET}/broker-3"
    server.stop()


@pytest.fixture(scope="module")
def hdfs(spark: Any, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The directory in a cluster of one name node and one data node."""
    import pyspark

    java, home = need_tool("java"), tmp_path_factory.mktemp("hdfs")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    jars = [*map(str, mini_jars()), f"{Path(pyspark.__file__).parent}/jars/*"]
    given = [*("-nomr", "-format", "-nnport", str(port), "-datanodes", "1"), *("-writeConfig", str(home / "ready.xml"))]
    command = [java, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", ":".join(jars)]
    with (home / "log").open("w") as log:
        server = subprocess.Popen(
            [*command, "org.apache.hadoop.mapreduce.MiniHadoopClusterManager", *given],
            cwd=home, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            deadline = time.monotonic() + START_S
            while not (home / "ready.xml").exists():
                said = (home / "log").read_text(errors="replace")[-2000:]
                assert server.poll() is None, f"the mini cluster has ended:\n{said}"
                assert time.monotonic() < deadline, f"waited {START_S:g} s for the mini cluster:\n{said}"
                time.sleep(0.2)
            address = f"hdfs://127.0.0.1:{port}"
            path_of = spark.sparkContext._jvm.org.apache.hadoop.fs.Path
            conf = spark.sparkContext._jsc.hadoopConfiguration()
            conf.set("ipc.client.connect.max.retries", "1")
            system = path_of(f"{address}/").getFileSystem(conf)
            system.copyFromLocalFile(path_of(data.as_uri()), path_of(f"{address}/broker-3"))
            yield f"{address}/broker-3"
        finally:
            server.kill()
            server.wait(30)


@pytest.fixture(params=["s3", "hdfs"])
def remote(request: pytest.FixtureRequest) -> str:
    where: str = request.getfixturevalue(request.param)
    return where


def key(row: dict[str, Any]) -> tuple[int, int]:
    return row["log_partition"], row["log_offset"]


@pytest.mark.spark
def test_the_same_rows_as_from_a_disk(spark: Any, data: Path, remote: str) -> None:
    here = inputs.find(str(data), None, "friday", look=False)
    with files.through(HadoopFiles(spark)):
        there = inputs.find(remote, None, "friday", look=False)
        logs = find_logs([remote], "friday").logs
        ends = log_ends_rows(remote, "friday")
    assert (there.run_id, there.size, sorted(there.sizes)) == ("friday", here.size, sorted(here.sizes))
    assert [one.rpartition("/")[2] for one in there.folders] == [one.rpartition("/")[2] for one in here.folders]
    assert ends == log_ends_rows(str(data), "friday")
    assert ends
    rows, gone = offset_rows(spark, logs, "friday")
    lost: list[Any] = []
    parts = [read_offsets(folder, run_id="friday", skipped=lost.append) for folder in here.folders]
    expected = [row for part in parts for batch in part for row in batch.to_pylist()]
    names = [name for name in expected[0] if not name.endswith("_ts")]
    found = sorted((row.asDict(recursive=True) for row in rows.select(*names).collect()), key=key)
    for row in sorted(expected, key=key):
        mine = found.pop(0)
        assert {name: mine[name] for name in names} == {name: row[name] for name in names}
    assert not found
    told = sorted(tuple(row) for row in gone.collect())
    assert told == sorted(("friday", one.file.replace(str(data), remote), *one[1:]) for one in lost)
    assert told


@pytest.mark.spark
def test_failures_of_hadoop_are_reported_in_a_line(spark: Any, s3: str, hdfs: str) -> None:
    reader = HadoopFiles(spark)
    path_of = spark.sparkContext._jvm.org.apache.hadoop.fs.Path
    with files.through(reader):
        for name, why in (
            (f"{s3}x", "no such directory"),
            (f"{hdfs}x", "no such directory"),
            (f"s3a://other-{BUCKET}/broker-3", "there is no such bucket"),
            ("hdfs://127.0.0.1:1/broker-3", "no server answers there"),
            ("gs://bucket/broker-3", "Spark"),
        ):
            with pytest.raises(UsageError) as told:
                inputs.find(name, None, None, look=False)
            assert name in str(told.value)
            assert why in str(told.value), told.value
            assert "\n" not in str(told.value)
    # HDFS believes who says who he is, and root may all: somebody else looks
    ugi = spark.sparkContext._jvm.org.apache.hadoop.security.UserGroupInformation
    nobody = ugi.createRemoteUser("nobody")
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    system = path_of(hdfs).getFileSystem(conf)
    permission = spark.sparkContext._jvm.org.apache.hadoop.fs.permission.FsPermission
    shut = f"{hdfs}-shut"
    system.mkdirs(path_of(f"{shut}/__consumer_offsets-49"))
    system.setPermission(path_of(shut), permission("700"))
    assert nobody.getUserName() != getpass.getuser()
    ugi.setLoginUser(nobody)
    try:
        with files.through(HadoopFiles(spark)), pytest.raises(UsageError, match="no rights") as told:
            inputs.find(shut, None, None, look=False)
        assert "\n" not in str(told.value)
    finally:
        ugi.setLoginUser(None)


# ------------------------------------------------------------------------------------------------ before Spark starts


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"input": "s3a://logs/broker-3"},
            "s3a:// is hadoop-aws's, which Spark does not have: --conf spark.jars.packages=org.apache.",
        ),
        ({"input": "s3://logs/broker-3"}, "--input s3://logs/broker-3: Hadoop's name for that is s3a://logs/broker-3"),
        ({"input": "s3a:///broker-3"}, "the bucket is missing (expected s3a://BUCKET/DIR)"),
        ({"input": "hdfs:/logs"}, "not an address (expected hdfs://HOST:PORT/DIR or s3a://BUCKET/DIR)"),
        ({"input": "hdfs://name/logs", "engine": "duckdb"}, "--input hdfs://name/logs is for Spark"),
        ({"input": "hdfs://name/logs", "journal": "hdfs://name/journal"}, "that is read from this machine's disks"),
        (
            {"input": "hdfs://name/logs", "client_logs": ("s3a://x/y.log",)},
            "--broker-log, --client-log s3a://x/y.log: ",
        ),
    ],
)
def test_invalid_addresses_are_reported_before_spark_starts(
    given: dict[str, Any], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker_sim.pipeline.session.is_running", lambda: False)
    monkeypatch.setattr("broker_sim.pipeline.session.spark_session", lambda *args: pytest.fail("Spark was started"))
    with pytest.raises(UsageError) as told:
        pipeline(RunOptions(str(tmp_path / "out"), **given), Steps(sys.stderr, quiet=True))
    assert words in str(told.value)
    assert "\n" not in str(told.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("conf", "own"),
    [
        ({"spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.5.0"}, []),
        ({"spark.jars": "/jars/hadoop-aws-3.5.0.jar"}, []),
        ({"spark.driver.extraClassPath": "/opt/jars/*"}, []),
        ({}, ["hadoop-aws-3.5.0.jar"]),
    ],
)
def test_a_given_library_is_accepted(conf: dict[str, str], own: list[str]) -> None:
    check("s3a://logs/broker-3", conf, lambda: own)
