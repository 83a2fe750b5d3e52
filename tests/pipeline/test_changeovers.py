"""Groups that were converted to the consumer protocol and back, on real brokers: their records beside what the broker logged.

`changeovers/` has the offsets partitions of a broker and the lines of its group coordinator: of one group that its last consumer member
left (of 4.4.0 alone), one whose last consumer member's session ran out, and one whose last consumer member was replaced by a classic
one of the same group.instance.id.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from broker_sim.cli.main import main
from tests.incidents.run_pipeline import unpack
from tests.support.sampling import sampled

HERE = Path(__file__).parent / "changeovers"


def rebalances_of(release: str, tmp_path: Path, *, lines: bool) -> dict[str, list[dict[str, Any]]]:
    """By group, in the order of their generations."""
    from pyarrow import parquet

    folder = unpack(HERE / f"changeover-{release}.tar.xz", tmp_path)
    words = ["--input", str(folder / "data"), "--out", str(tmp_path / "out"), "--engine", "duckdb", "--quiet"]
    assert main(["pipeline", "run", *words, *(["--broker-log", str(folder / "logs")] if lines else [])]) == 0
    found: dict[str, list[dict[str, Any]]] = {}
    for row in parquet.read_table(tmp_path / "out" / "tables" / "rebalances").to_pylist():
        found.setdefault(row["group"], []).append(row)
    return {group: sorted(rows, key=lambda row: row["generation"]) for group, rows in found.items()}


@pytest.mark.parametrize("lines", sampled([True, False], 2), ids=["records and lines", "records"])
@pytest.mark.parametrize("release", sampled(["4.4.0", "4.1.0"], 2))
def test_a_downgrade_is_reported_with_the_last_consumer(release: str, lines: bool, tmp_path: Path) -> None:
    found = rebalances_of(release, tmp_path, lines=lines)
    names = ("kind", "generation_before", "generation", "cause", "cause_certainty", "who", "size_before", "size_after")
    ended = ["up-expire", "up-leave"] if release == "4.4.0" else ["up-expire"]
    for group in ended:
        _, upgraded, downgraded = found[group][:3]
        assert [upgraded[name] for name in names] == ["consumer", 1, 2, "join", "certain", ["N"], 1, 2]
        assert [downgraded[name] for name in names] == ["classic", 2, 3, "downgrade", "certain", ["N"], 2, 1]
        if not lines:
            continue
        log = (tmp_path / f"changeover-{release}" / "logs" / "server.log").read_text().splitlines()
        shown = {
            row["cause"]: [log[int(one.rpartition(":")[2]) - 1] for one in row["evidence_lines"]]
            for row in (upgraded, downgraded)
        }
        assert "Converted the classic group to a consumer group" in shown["join"][0]
        gone = (
            "left the consumer group"
            if group == "up-leave"
            else "fenced from the group because the member session expired"
        )
        for words, line in zip(
            (gone, "Preparing", "Converted the consumer group", "Stabilized"), shown["downgrade"], strict=True
        ):
            assert words in line


@pytest.mark.slow
@pytest.mark.parametrize("lines", sampled([True, False], 2), ids=["records and lines", "records"])
@pytest.mark.parametrize("release", sampled(["4.4.0", "4.1.0"], 2))
def test_where_a_static_member_comes_back_with_the_classic_protocol_there_is_no_rebalance(
    release: str, lines: bool, tmp_path: Path
) -> None:
    """The next one begins as the leader joins again."""
    rows = rebalances_of(release, tmp_path, lines=lines)["up-static"]
    told = [
        (row["kind"], row["generation_before"], row["generation"], row["size_before"], row["size_after"])
        for row in rows
    ]
    assert told == [("classic", 0, 1, 0, 1), ("consumer", 1, 2, 1, 2), ("classic", 2, 3, 2, 1)]
    assert rows[-1]["cause"] == ("rejoin" if lines else "departed")


def test_a_static_member_that_comes_back_is_a_bounce(tmp_path: Path) -> None:
    """The broker logged that it replaced N as it rejoined, and 20 s later that the session of the one that replaced it ran out."""
    rows = rebalances_of("4.4.0", tmp_path, lines=False)["up-static"]
    found = json.loads((tmp_path / "out" / "findings.json").read_text(encoding="utf-8"))["findings"]
    ((bounce,),) = [row["bounces"] for row in rows if row["bounces"]]
    assert [bounce[name] for name in ("instance", "client", "former", "removed")] == ["i1", "s", "N", False]
    (told,) = [one for one in found if one["kind"] == "static bounce"]
    assert (told["severity"], told["group"], told["evidence"]) == (
        "note",
        "up-static",
        [{"log": "__consumer_offsets-0", "offset": bounce["log_offset"]}],
    )
    gone = [one for one in found if one["kind"] == "departed"]
    assert [one["at_ms"] - told["at_ms"] for one in gone] == [20_000]


def test_a_change_of_the_protocol_is_a_note(tmp_path: Path) -> None:
    rebalances_of("4.4.0", tmp_path, lines=False)
    found = json.loads((tmp_path / "out" / "findings.json").read_text(encoding="utf-8"))["findings"]
    changes = [one for one in found if one["kind"] == "protocol change" and one["group"] == "up-leave"]
    assert [(one["severity"], one["certainty"], len(one["evidence"])) for one in changes] == [
        ("note", "certain", 2)
    ] * 2
    assert "from the classic protocol to the consumer (KIP-848) one: epoch 2 at" in changes[0]["text"]
    assert "from the consumer (KIP-848) protocol to the classic one: generation 3 at" in changes[1]["text"]
