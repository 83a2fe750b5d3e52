"""Incidents of real brokers that are kept in tests/incidents/recorded: what can be played happens again, and the rest is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from broker_sim.cli.main import main
from broker_sim.pipeline.progress import Steps
from broker_sim.reproduce.again import findings_of
from broker_sim.reproduce.evidence import read
from tests.incidents.run_pipeline import recorded, unpack


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("recorded")
    return {path.name: path for path in (unpack(packed, folder) for packed in recorded())}


def reproduced(
    kept: dict[str, Path], name: str, out: Path, capsys: pytest.CaptureFixture[str], *more: str
) -> tuple[int, dict[str, Any]]:
    """Exit code and what --json tells ({} where it tells nothing)."""
    given = ["--input", str(kept[name] / "data"), "--out", str(out), "--json", "--quiet"]
    code = main(["reproduce", *given, *more])
    said = capsys.readouterr()
    return code, json.loads(said.out) if said.out else {"err": said.err}


PLAYED = [
    ("membership-3.4.0-2", "returns-index"),  # a member that does not come back
    pytest.param("membership-3.4.0-2", "feeds-batch", marks=pytest.mark.slow),  # max.poll.interval.ms
    pytest.param("offsets-4.1.0-1", "search-v2", marks=pytest.mark.slow),  # kafka-consumer-groups --reset-offsets
]
MORE = [
    ("consumer-groups-4.4.0-3", "alerts-export"),  # a consumer group's seek, committed
    ("consumer-groups-4.4.0-3", "scores-eu"),  # a member that does not revoke for long
    ("share-groups-4.4.0-621", "maps-export"),  # expired locks, without the topic's log
    ("transactions-4.1.0-1", "prices-export"),  # offsets in a transaction that timed out
    ("transactions-4.1.0-1", "orders-export"),  # the same, open at the end
    ("membership-3.4.0-2", "carts-export"),  # a static member's crash
    ("offsets-4.1.0-1", "routes-sync"),  # --delete
    ("healthy-4.1.0-1", "stock-eu"),  # a static member's bounce
    ("membership-3.4.0-2", "invoices-export"),  # a storm
    ("membership-3.4.0-2", "notes-v2"),  # the only member crashes
    ("membership-3.4.0-2", "users-export"),  # a slow member
    ("offsets-4.1.0-1", "returns-sync"),  # --delete-offsets
    ("offsets-4.1.0-1", "ledger-etl"),  # a seek, committed
    ("offsets-4.1.0-1", "clicks-sync"),  # expiry
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "group"), [*PLAYED, *(pytest.param(*one, marks=pytest.mark.long) for one in MORE)])
def test_it_happens_again(
    kept: dict[str, Path], name: str, group: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told = reproduced(kept, name, tmp_path / "out", capsys, "--group", group)
    assert code == 0, told
    assert group in (told["group"], told["finding"]["group"])
    assert told["again"] is not None
    assert told["alike"] > 0.5
    page = (tmp_path / "out" / "page.html").read_text(encoding="utf-8")
    assert told["group"] in page
    assert "<td></td><td></td>" not in page


def logs_of(folder: Path) -> list[str]:
    return ["--broker-log", str(folder / "logs" / "brokers"), "--client-log", str(folder / "logs" / "clients")]


PARTITIONS = [
    ("stuck-4.1.0-1", "seats-us", "stuck", "4.1"),  # a follower that is frozen, in the ISR
    pytest.param("moves-4.1.0-1", "stock", "coordinator moved", "4.1", marks=pytest.mark.slow),  # a reassignment
    # a follower that is frozen and leaves the ISR: appends are refused; the leader is elected again meanwhile
    pytest.param("stuck-shrunk-3.4.0-2", "scores-batch", "stuck", "3.4", marks=pytest.mark.slow),
    pytest.param("stuck-shrunk-3.4.0-2", "plans-v2", "stuck", "3.4", marks=pytest.mark.long),
    pytest.param("moves-4.1.0-1", "claims-sync", "coordinator moved", "4.1", marks=pytest.mark.long),  # there and back
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "group", "kind", "version"), PARTITIONS)
def test_what_happened_to_a_partition_happens_again_at_its_time(
    kept: dict[str, Path],
    name: str,
    group: str,
    kind: str,
    version: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ledger = json.loads((kept[name] / "ledger.json").read_text(encoding="utf-8"))
    partition = ledger["groups"][group]["log_partition"]
    event = next(one for one in ledger["events"] if not one["healthy"] and partition in one["log_partitions"])
    more = ["--group", group, "--at", str(event["start_ms"] + 3000), *logs_of(kept[name])]
    code, told = reproduced(kept, name, tmp_path / "out", capsys, *more)
    assert code == 0, told
    assert (told["kind"], told["again"]["kind"]) == (kind, kind)
    assert event["start_ms"] - 5000 <= told["finding"]["at_ms"] <= event["end_ms"]
    assert any(f"behave as Kafka {version}: " in line and "server.log:" in line for line in told["unknown"])
    if kind == "stuck":
        lasted = told["finding"]["to_ms"] - told["finding"]["at_ms"]
        again = told["again"]["to_ms"] - told["again"]["at_ms"]
        assert abs(again - lasted) < 5000
    test = (tmp_path / "out" / "test_incident.py").read_text(encoding="utf-8")
    assert f'assert "{kind}" in findings_of(data, "{group}")' in test
    assert kind in findings_of(tmp_path / "out" / "data", group)


@pytest.mark.slow
def test_a_stuck_partition_that_its_log_alone_shows_happens_again(
    kept: dict[str, Path], tmp_path: Path, capsys: Any
) -> None:
    """The only group of its partition repeated a commit, and its offsets jumped (`repeated`)."""
    ledger = json.loads((kept["stuck-4.1.0-1"] / "ledger.json").read_text(encoding="utf-8"))
    partition = ledger["groups"]["alerts-batch"]["log_partition"]
    event = next(one for one in ledger["events"] if not one["healthy"] and partition in one["log_partitions"])
    code, told = reproduced(kept, "stuck-4.1.0-1", tmp_path / "out", capsys, "--group", "alerts-batch")
    assert (code, told["kind"], told["again"]["kind"]) == (0, "stuck", "stuck"), told
    assert event["start_ms"] - 5000 <= told["finding"]["at_ms"] <= event["end_ms"]
    assert "stuck" in findings_of(tmp_path / "out" / "data", "alerts-batch")


@pytest.mark.slow
def test_a_leader_that_is_elected_again_moves_nobody(kept: dict[str, Path], tmp_path: Path, capsys: Any) -> None:
    """3.4: each change of the ISR by the controller begins an epoch. Groups that are told of nothing else have nothing to play."""
    folder = kept["stuck-shrunk-3.4.0-2"]
    code, told = reproduced(kept, folder.name, tmp_path / "out", capsys, "--group", "quotes-batch", *logs_of(folder))
    assert code == 1, told
    assert "the re-election of a leader does not change a group" in told["err"]


def test_a_release_that_is_none_is_said_in_a_line(kept: dict[str, Path], tmp_path: Path, capsys: Any) -> None:
    code, told = reproduced(kept, "moves-4.1.0-1", tmp_path / "out", capsys, "--as-version", "2.8")
    assert code == 2
    assert told["err"] == (
        "broker-sim reproduce: --as-version: no Kafka release '2.8' (expected 3.4 to 3.9, or 4.0 to 4.4)\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "group", "release", "why"),
    [
        ("stuck-4.1.0-1", "seats-us", "4.1", "commits are written as 4.1 and later do"),
        ("stuck-shrunk-3.4.0-2", "plans-v2", "3.9", "commits and groups are written as 3.x does"),
    ],
)
def test_records_alone_show_which_line_of_releases_wrote_them(
    kept: dict[str, Path], name: str, group: str, release: str, why: str
) -> None:
    assert read(str(kept[name] / "data"), Steps(sys.stderr, quiet=True), group=group).release() == (release, why)


@pytest.mark.slow
def test_a_quiet_group_is_nothing_to_play(kept: dict[str, Path], tmp_path: Path, capsys: Any) -> None:
    code, told = reproduced(kept, "healthy-4.1.0-1", tmp_path / "out", capsys, "--group", "orders-sync")
    assert code == 1
    assert told["err"].startswith("broker-sim reproduce: not reproduced: orders-sync: ")
    assert told["err"].count("\n") == 1


@pytest.mark.slow
def test_before_it_happened_there_is_nothing(kept: dict[str, Path], tmp_path: Path, capsys: Any) -> None:
    """--until: the crash of returns-index-2 is at +45 s of the ledger's time."""
    ledger = json.loads((kept["membership-3.4.0-2"] / "ledger.json").read_text(encoding="utf-8"))
    before = str(ledger["from_ms"] + 40_000)
    more = ["--group", "returns-index", "--until", before]
    code, told = reproduced(kept, "membership-3.4.0-2", tmp_path / "out", capsys, *more)
    assert code == 1
    assert "not reproduced" in told["err"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--group", "returns-indx"], "returns-index"),
        (["--at", "yesterday"], "is not a time"),
        (["--input", "nowhere"], "no such directory"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    kept: dict[str, Path], more: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = ["--input", str(kept["membership-3.4.0-2"] / "data"), "--out", str(tmp_path / "out"), "--quiet"]
    try:
        code = main(["reproduce", *data, *more])
    except SystemExit as ended:
        code = int(ended.code or 0)
    assert code == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_of_somebody_s_is_left_alone(kept: dict[str, Path], tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    given = ["--input", str(kept["membership-3.4.0-2"] / "data"), "--out", str(out), "--quiet"]
    assert main(["reproduce", *given]) == 2
    assert "contains thesis.txt, which is not the output of a reproduction; nothing was" in capsys.readouterr().err
    assert [path.name for path in out.iterdir()] == ["thesis.txt"]


def test_the_output_of_an_earlier_reproduction_whose_test_ran_is_not_refused(tmp_path: Path, capsys: Any) -> None:
    out, empty = tmp_path / "out", tmp_path / "empty"
    empty.mkdir()
    (out / "__pycache__").mkdir(parents=True)
    (out / "test_incident.py").touch()
    assert main(["reproduce", "--input", str(empty), "--out", str(out), "--quiet"]) == 2
    assert "no directory __consumer_offsets-N" in capsys.readouterr().err
