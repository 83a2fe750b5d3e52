"""The table transactions, its findings and its section of the page: one story with the explanation of the journal, on our logs and on
those of real brokers, with a journal and without."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from broker_sim.cli.main import main
from broker_sim.explain.transactions import JournalTransactions, transactions
from broker_sim.journal import read as read_journal
from broker_sim.pipeline.account_findings import ABOUT_ACCOUNTS
from broker_sim.pipeline.facts import ReportFacts
from broker_sim.pipeline.tables.transactions import SEEN, TRANSACTIONS, seen_rows
from broker_sim.pipeline.transaction_logs import LATE_MS, rows_of_data, rows_of_journal, rows_of_state
from broker_sim.scenario.apps.common import AppSettings, ScenarioPipe
from broker_sim.scenario.apps.transactional_app import Fenced, Producer
from broker_sim.scenario.commands import shipped
from kafka_wire.record_batch import ControlType, Record, control_batch, encode_batch
from tests.support.real_kafka import RealKafka

T0 = 1_700_000_000_000
INCIDENTS = (
    "coordinator-dies-in-a-commit",
    "hanging-3.4",
    "lost-abort-3.4",
    "lost-abort-4.1",
    "marker-without-a-leader",
    "state-stuck",
    "timeout-in-a-rebalance",
    "zombie-is-fenced",
)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    @cache
    def play(name: str) -> Path:
        """A folder with the ``data`` and the ``journal`` of an incident."""
        folder = tmp_path_factory.mktemp(name)
        words = ["run", str(shipped() / f"transaction-{name}.yaml"), "--virtual", "--quiet"]
        assert main([*words, "--data", str(folder / "data"), "--journal", str(folder / "journal")]) == 0
        return folder

    return play


def lines(folder: Path) -> list[bytes]:
    return [line for path in sorted((folder / "journal").iterdir()) for line in path.read_bytes().splitlines()]


def story(folder: Path) -> JournalTransactions:
    return transactions(read_journal(folder / "journal"))


def logs(folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows of the coordinator's logs, and those of the data logs."""
    states = sorted(str(path) for path in (folder / "data").glob("__transaction_state-*"))
    places = [path for name in ("payments", "notes") for path in sorted((folder / "data").glob(f"{name}-*"))]
    data = [(path.name.rpartition("-")[0], int(path.name.rpartition("-")[2]), str(path)) for path in places]
    return list(rows_of_state(states)), list(rows_of_data(data))


@pytest.mark.parametrize("name", INCIDENTS)
def test_a_journal_s_rows_are_the_explanation_s(name: str, played: Callable[[str], Path]) -> None:
    folder = played(name)
    found, rows = story(folder), rows_of_journal(lines(folder))
    own = [row for row in rows if not row.get("hangs")]
    assert [(row["transactional_id"], row["from_ms"], row["to_ms"], row["result"]) for row in own] == [
        (one.transactional_id, one.begun_ms, one.completed_ms, one.result or None) for one in found.transactions
    ]
    assert [row["blocked"] for row in own] == [
        [f"{one.log} at {one.offset}" for one in each.blocked] for each in found.transactions
    ]
    assert [(row["partitions"], row["lost_abort"]) for row in rows if row.get("hangs")] == [
        ([one.log], one.lost_abort) for one in found.hanging
    ]


@pytest.mark.parametrize("name", INCIDENTS)
def test_the_logs_have_the_transactions_of_the_journal(name: str, played: Callable[[str], Path]) -> None:
    folder = played(name)
    found, (state, data) = story(folder), logs(folder)
    rows = seen_rows([*state, *data], "run")
    close = 50  # a record is stamped when it is written, an event when it is committed
    own = {row["transactional_id"]: [] for row in rows if row["transactional_id"]}
    for row in rows:
        if row["transactional_id"]:
            own[row["transactional_id"]].append(row)
    for transactional_id, told in own.items():
        expected = found.of(transactional_id)
        assert [row["result"] for row in told] == [one.result or None for one in expected]
        for row, one in zip(told, expected, strict=True):
            assert one.begun_ms is not None
            assert abs(row["from_ms"] - one.begun_ms) <= close
            assert one.completed_ms is not None
            assert abs(row["to_ms"] - one.completed_ms) <= close
            assert sorted(row["blocked"] or ()) == sorted(f"{held.log} at {held.offset}" for held in one.blocked)
    stray = [(row["partitions"], row["blocked"], bool(row["lost_abort"])) for row in rows if row["hangs"]]
    assert stray == [([one.log], [f"{one.log} at {one.offset}"], one.lost_abort) for one in found.hanging]


def findings(folder: Path, out: Path, *how: str) -> list[dict[str, Any]]:
    command = [
        "pipeline",
        "run",
        "--input",
        str(folder / "data"),
        "--out",
        str(out),
        "--engine",
        "duckdb",
        "--overwrite",
    ]
    assert main([*command, *how]) == 0
    told = json.loads((out / "findings.json").read_text())["findings"]
    return [one for one in told if one["kind"] == "transaction"]


TOLD = {
    "hanging-3.4": ("warn", "it hung from"),
    "lost-abort-3.4": (
        "bad",
        "the record arrived after its own transaction was aborted, and was committed with the next one",
    ),
    "marker-without-a-leader": ("warn", "its last marker was written 10.1 s after its end was decided"),
    "timeout-in-a-rebalance": (
        "warn",
        "was aborted after 7 s, as its timeout had expired (6 s); pending offsets of ledger were discarded with it",
    ),
    "zombie-is-fenced": ("note", "as another producer initialized the same transactional.id"),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name in INCIDENTS if name not in ("coordinator-dies-in-a-commit", "state-stuck")]
)
def test_the_findings_with_a_journal_and_without(name: str, played: Callable[[str], Path], tmp_path: Path) -> None:
    folder = played(name)
    for how in (("--journal", str(folder / "journal")), ("--no-journal",)):
        found = findings(folder, tmp_path / "out", *how)
        assert (
            [one["severity"] for one in found] == [severity for severity, _ in (TOLD[name],)]
            if name in TOLD
            else found == []
        )
        for one in found:
            assert TOLD[name][1] in one["text"]
            assert ("reader waited" in one["text"]) is ("--journal" in how and name in TOLD)
        page = (tmp_path / "out" / "report.html").read_text()
        assert ("Transactions that were open for long, hang" in page) is bool(found)


# --- what no scenario has ------------------------------------------------------------------------------------------------


def partition(folder: Path, *batches: bytes) -> list[dict[str, Any]]:
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(b"".join(batches))
    return list(rows_of_data([("orders", 0, str(folder))]))


def data(at: int, ts_ms: int, epoch: int = 0) -> bytes:
    return encode_batch(
        [Record(at, ts_ms, b"k", b"v")],
        producer_id=7, producer_epoch=epoch, base_sequence=at, attributes=0x10, base_offset=at,
    )  # fmt: skip


def marker(at: int, ts_ms: int, kind: ControlType, epoch: int = 0) -> bytes:
    return control_batch(kind, ts_ms, producer_id=7, producer_epoch=epoch, base_offset=at)


def test_only_records_after_their_own_abort_are_late(tmp_path: Path) -> None:
    abort, commit = ControlType.ABORT, ControlType.COMMIT
    first = data(0, T0), marker(1, T0 + 5000, abort)
    late = partition(tmp_path / "late", *first, data(2, T0 + 5000 - LATE_MS))
    assert [row["late"] for row in late] == [False, True]
    next_one = partition(tmp_path / "next", *first, data(2, T0 + 5000 - LATE_MS + 1))
    assert [row["late"] for row in next_one] == [False, False], "clocks differ by less"
    committed = partition(tmp_path / "commit", data(0, T0), marker(1, T0 + 5000, commit), data(2, T0))
    assert [row["late"] for row in committed] == [False, False], "of what is committed nothing was missing"
    (row,) = [row for row in seen_rows(late, "run", states=False) if row["hangs"]]
    assert (row["end"], row["lost_abort"], row["blocked"]) == (None, False, ["orders-0 at 2"])


def test_an_unknown_producer_hangs_if_the_coordinators_log_is_read(tmp_path: Path) -> None:
    rows = partition(tmp_path / "open", data(0, T0))
    assert [row["hangs"] for row in seen_rows(rows, "run")] == [True]
    assert [row["hangs"] for row in seen_rows(rows, "run", states=False)] == [None]
    known = {
        "transactional_id": "tx",
        "producer_id": 7,
        "from_ms": T0,
        "to_ms": None,
        "end": None,
        "partitions": ["orders-0"],
    }
    (row,) = seen_rows([{**known, "source": "state"}, *rows], "run")
    assert (row["hangs"], row["blocked"], row["blocked_ms"]) == (None, ["orders-0 at 0"], 0)


def test_each_end_has_its_sentence() -> None:
    row = dict.fromkeys(TRANSACTIONS.names)
    row |= {
        "producer_id": 7,
        "from_ms": T0,
        "open_ms": 5000,
        "partitions": ["orders-0"],
        "source": "state",
        "blocked": [],
    }
    told = {}
    for what, more in {
        "hangs": {"hangs": True},
        "hung": {"hangs": True, "to_ms": T0 + 5000, "end": "aborted", "ended_by": "admin"},
        "lost": {"hangs": True, "to_ms": T0 + 5000, "end": "committed", "lost_abort": True},
        "fenced": {"result": "fenced", "end": "aborted", "to_ms": T0 + 5000, "ended_by": "b", "began_by": "a"},
        "timed out": {"result": "timed out", "end": "aborted", "to_ms": T0 + 5000, "timeout_ms": 4000},
        "by hand": {"result": "fenced", "end": "aborted", "to_ms": T0 + 5000, "ended_by": "broker-sim"},
        "a fault": {"result": "timed out", "end": "aborted", "to_ms": T0 + 5000, "cause": "the fault x held it back"},
        "open": {"cause": "the fault x held it back"},
        "decided": {"result": "commit", "decided_ms": T0 + 1000},
    }.items():
        facts = ReportFacts("run", None, None, transactions=[row | more])
        (told[what],) = [one for report in ABOUT_ACCOUNTS for one in report(facts)]
    assert {what: one.severity for what, one in told.items()} == {
        "hangs": "bad", "hung": "warn", "lost": "bad", "fenced": "note", "timed out": "warn", "decided": "bad",
        "by hand": "note", "a fault": "warn", "open": "bad",
    }  # fmt: skip
    assert "until admin sent a marker" in told["hung"].text
    assert told["fenced"].text.startswith("The transaction of a of producer 7 in orders-0")
    assert "was aborted after 5 s by b, as another producer initialized" in told["fenced"].text
    assert "as its timeout had expired (4 s)" in told["timed out"].text
    assert "may have hung or died" in told["timed out"].advice
    assert told["a fault"].text.endswith(", as its timeout had expired. The fault x held it back.")
    assert told["open"].text.endswith(". The fault x held it back.")
    assert [
        word for name in ("a fault", "open") for word in ("hung", "hang,", "died") if word in told[name].advice
    ] == []
    assert "by an abort from the test, the command line or HTTP: its producer is fenced" in told["by hand"].text
    assert "another producer" not in told["by hand"].text
    assert "not all of its markers are written" in told["decided"].text
    assert set(SEEN.names) - set(TRANSACTIONS.names) == {"until_ms"}


# --- real brokers --------------------------------------------------------------------------------------------------------


class Quiet(ScenarioPipe):
    def report(self, says: str, **details: Any) -> None:
        """Nobody listens."""


def producer(bootstrap: str, name: str, transactional_id: str, timeout_s: float = 60) -> Producer:
    settings = {"bootstrap": bootstrap, "client_id": name, "topics": ["payments"]}
    settings |= {"transactional_id": transactional_id, "transaction_timeout": timeout_s}
    return Producer(AppSettings(json.dumps(settings)), Quiet())


async def lives(bootstrap: str) -> None:
    """A commit, an abort, a fence and a timeout."""
    one, two = producer(bootstrap, "one", "orders-app"), producer(bootstrap, "two", "orders-app")
    slow = producer(bootstrap, "slow", "slow-app", timeout_s=3)
    try:
        await one.begin_anew((-1, -1))
        await one.transaction(1)
        await one.write(2)
        await one.end(committed=False)
        await one.write(3)
        await two.begin_anew((-1, -1))  # aborts what is open
        with pytest.raises(Fenced):
            await one.end(committed=True)
        await two.transaction(4)
        await slow.begin_anew((-1, -1))
        await slow.write(1)
        with pytest.raises(Fenced):
            await asyncio.wait_for(until_fenced(slow, two), 60)
    finally:
        for each in (one, two, slow):
            for wire in (each.coordinator, *each.wires.values()):
                wire.close()


async def until_fenced(slow: Producer, other: Producer) -> None:
    """Write until `Fenced` is raised: the coordinator checks timeouts every second, and then refuses the producer's writes."""
    while True:
        await slow.write(2)
        await other.transaction(5)


def ended_rows(folder: Path) -> list[dict[str, Any]]:
    """Return the logs' rows once the last transaction is complete: a producer gets its response before the markers are written."""
    give_up = time.monotonic() + 60
    while True:
        state = rows_of_state([str(folder / "__transaction_state-0")])
        data = rows_of_data([("payments", 0, str(folder / "payments-0"))])
        rows = list(seen_rows([*state, *data], "run"))
        if all(row["result"] for row in rows):
            return rows
        assert time.monotonic() < give_up, f"waited 60 s for all transactions to end: {rows}"
        time.sleep(0.1)


@pytest.mark.real_kafka
@pytest.mark.parametrize("version", ["3.4.0", "4.1.0"])
def test_a_real_brokers_logs_have_the_end_of_each_transaction(version: str, tmp_path: Path) -> None:
    config = {
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
        "transaction.state.log.num.partitions": 1,
    }
    with RealKafka(version, config=config) as kafka:
        asyncio.run(lives(kafka.bootstrap))
        rows = ended_rows(kafka.nodes[1].data_dir)
    young = [row["transactional_id"] for row in rows].index("orders-app")
    while rows[young]["result"] == "abort":  # it aborts what the young broker did not take in time
        del rows[young]
        young = [row["transactional_id"] for row in rows].index("orders-app")
    ends = {
        name: [row["result"] for row in rows if row["transactional_id"] == name] for name in ("orders-app", "slow-app")
    }
    assert ends["orders-app"][:4] == ["commit", "abort", "fenced", "commit"]
    assert set(ends["orders-app"][4:]) <= {"commit"}
    assert ends["slow-app"] == ["timed out"]
    assert [row for row in rows if row["hangs"]] == []
    first = [row for row in rows if row["transactional_id"] == "orders-app"][:4]
    held = [bool(row["blocked"]) for row in (*first, *(row for row in rows if row["transactional_id"] == "slow-app"))]
    assert held == [True] * 5, "the others are within the slow one, which holds the last stable offset alone"
