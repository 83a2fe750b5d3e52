"""The archive for spark-submit: what is in it, and that it is all that a cluster needs."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from broker_sim import Cluster
from broker_sim.common.text import UsageError
from broker_sim.pipeline import packaging
from broker_sim.pipeline.__main__ import main
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from tests.pipeline.cluster import bare_python, environment, standalone, submit, without_this_project
from tests.support.real_kafka import need_tool
from tests.support.wire import Wire

PROGRAM = """\
import json, sys
from pyspark.sql import SparkSession
from broker_sim.pipeline import register

spark = SparkSession.builder.getOrCreate()
register(spark)
data, journal = sys.argv[1:3]

def where(rows):
    import broker_sim
    yield broker_sim.__file__

commits = spark.read.format("consumer_offsets").load(data).where("kind = 'commit'")
events = spark.read.format("sim_journal").load(journal)
print("told: " + json.dumps({
    "master": spark.sparkContext.master,
    "workers": spark.sparkContext.parallelize(range(2), 2).mapPartitions(where).collect(),
    "offsets": sorted(list(row) for row in commits.select("group", "partition", "committed_offset").collect()),
    "commits": events.where("type = 'request' and api = 'OffsetCommit'").count(),
}))
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return packaging.package(tmp_path_factory.mktemp("archive") / "pipelines.zip").path


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter that knows nothing of this project."""
    need_tool("java")
    found = bare_python(tmp_path_factory.mktemp("bare") / "venv")
    assert without_this_project(found)
    return found


@pytest.fixture
async def past(tmp_path: Path) -> tuple[Path, Path]:
    """A data directory and its journal: a group has committed 4 on each of two partitions, with one request."""
    data, journal = tmp_path / "data", tmp_path / "journal"
    async with Cluster(topics={"orders": 2}, data_dir=data, journal=journal) as kafka:
        wire = await Wire.connect(kafka.bootstrap)
        committed = [OffsetCommitRequestPartition(index, committed_offset=4) for index in range(2)]
        topic = OffsetCommitRequestTopic("orders", partitions=committed)
        await wire.send(FindCoordinatorRequest("billing"), 2)
        answer = await wire.send(OffsetCommitRequest("billing", topics=[topic]), 8)
        assert {one.error_code for one in answer.topics[0].partitions} == {0}
        await wire.close()
    return data, journal


def told(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    lines = [line for line in done.stdout.splitlines() if line.startswith("told: ")]
    assert len(lines) == 1, done.stdout + done.stderr[-4000:]
    found: dict[str, object] = json.loads(lines[0].removeprefix("told: "))
    return found


# ------------------------------------------------------------------------------------------------ the archive


def test_the_same_files_make_the_same_archive(tmp_path: Path) -> None:
    once, again = (packaging.package(tmp_path / name) for name in ("once.zip", "again.zip"))
    assert again.path.read_bytes() == once.path.read_bytes()
    with zipfile.ZipFile(once.path) as held:
        names = held.namelist()
    assert names == sorted(names)
    assert {"broker_sim/pipeline/session.py", "broker_sim/__init__.py", "kafka_wire/codec.py"} <= set(names)
    templates = [name for name in names if not name.endswith(".py")]
    assert {"broker_sim/explain/timeline.html", "broker_sim/pipeline/report/report.html"} <= set(templates)
    assert all(name.endswith(".html") for name in templates)
    assert again.modules == len(names) - len(templates)


def test_an_archive_is_replaced_and_a_stranger_s_file_is_not(tmp_path: Path) -> None:
    path = tmp_path / "out.zip"
    packaging.package(path)
    packaging.package(path)

    path.write_bytes(b"a thesis")
    with pytest.raises(UsageError, match=r"out\.zip exists and is not an archive of broker-sim"):
        packaging.package(path)
    assert path.read_bytes() == b"a thesis"
    other, program = tmp_path / "other.zip", tmp_path / "other.py"
    program.write_text("print('mine')\n")
    with pytest.raises(UsageError, match=r"other\.py exists and is not a program of broker-sim"):
        packaging.package(other)
    assert (other.exists(), program.read_text()) == (False, "print('mine')\n")


@pytest.mark.parametrize(
    ("name", "told"), [("out.tar", "names end in .zip"), ("nowhere/out.zip", "can't be written: No such file")]
)
def test_unwritable_output_is_reported_in_a_line(
    tmp_path: Path, name: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["package", str(tmp_path / name)])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


def test_the_command_prints_how_to_submit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["package", str(tmp_path / "out.zip")])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert f"--py-files {tmp_path / 'out.zip'} {tmp_path / 'out.py'} run" in said
    assert "google-crc32c" in said


def test_missing_dependencies_are_reported_in_one_line(tmp_path: Path, archive: Path) -> None:
    poor = bare_python(tmp_path / "poor", without=("google_crc32c", "pyarrow"))
    done = subprocess.run(
        [str(poor), "-c", f"import sys; sys.path.insert(0, {str(archive)!r}); import broker_sim.pipeline"],
        capture_output=True,
        text=True,
        check=False,
    )
    last = done.stderr.splitlines()[-1]
    assert "need google-crc32c and pyarrow>=18 on every machine of the cluster" in last
    assert str(poor) in last
    assert "pip install 'google-crc32c' 'pyarrow>=18'" in last


# ------------------------------------------------------------------------------------------------ on Spark


@pytest.mark.long
@pytest.mark.spark
def test_it_is_all_that_spark_submit_needs_for_a_whole_run(
    past: tuple[Path, Path], archive: Path, python: Path, tmp_path: Path
) -> None:
    data, journal = map(str, past)
    out = tmp_path / "out"
    words = ["run", "--input", data, "--journal", journal, "--out", str(out), "--json"]

    done = submit(python, archive.with_suffix(".py"), *words, py_files=archive, cwd=tmp_path, timeout_s=200)

    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(next(text for text in done.stdout.splitlines() if text.startswith("{")))
    assert (told["commits"], told["groups"]) == (2, 1)
    assert told["rows"]["offset_log"] == 2
    assert (out / "report.html").stat().st_size > 1000


@pytest.mark.spark
@pytest.mark.long
def test_it_is_all_that_a_cluster_s_workers_need(
    past: tuple[Path, Path], archive: Path, python: Path, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    command = [
        sys.executable,
        "-m",
        "broker_sim",
        "simulate",
        "alone",
        "--seeds",
        "0..6",
        "--seconds",
        "3",
        "--quiet",
        "--json",
    ]
    with standalone(python, tmp_path / "spark") as master:
        found = told(
            submit(python, program, *map(str, past), master=master, py_files=archive, cwd=tmp_path, timeout_s=90)
        )
        swept = subprocess.run(
            [*command, "--engine", "spark", "--master", master],
            cwd=tmp_path,
            env=environment(python),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    assert swept.returncode == 0, swept.stderr[-4000:]
    assert json.loads(swept.stdout)["runs"] == 6, "what a program runs on a cluster it sends there"

    assert found["master"] == master
    assert found["commits"] == 1
    assert found["offsets"] == [["billing", 0, 4], ["billing", 1, 4]]
    assert all("pipelines.zip" in str(where) for where in found["workers"])  # type: ignore[attr-defined]
