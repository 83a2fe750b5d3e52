"""Descriptions as people paste them into tickets and public issues: prompts, containers, Markdown, wrapped rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_sim.common.text import UsageError
from broker_sim.migration.group_import import Imported, read_describe

TABLES = Path(__file__).parent / "tables"
NAMES = ("3.4-offsets", "4.1-offsets", "4.1-offsets-verbose", "3.4-members", "4.1-state", "3.4-state-verbose")
COMMAND = "kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --all-groups"
ONE = "GROUP  TOPIC  PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG  CONSUMER-ID  HOST  CLIENT-ID\n"


def printed(name: str) -> str:
    return (TABLES / f"{name}.txt").read_text()


def offsets(imported: Imported, group: str) -> dict[tuple[str, int], tuple[int | None, int | None]]:
    return {key: (entry.offset, entry.end) for key, entry in imported.groups[group].offsets.items()}


@pytest.mark.parametrize(
    "before",
    [
        f"root@kafka-0:/# {COMMAND}",
        f"[app@broker ~]$ bin/{COMMAND}",
        f"I have no name!@kafka-0:/opt/bitnami$ {COMMAND}",
        f"PS C:\\kafka> .\\bin\\windows\\{COMMAND.replace('.sh', '.bat')}",
        f"% ./bin/{COMMAND}\nOpenJDK 64-Bit Server VM warning: something",
        f"$ kubectl run kafka-client -it --rm --image=kafka -- bin/{COMMAND}\n"
        "If you don't see a command prompt, try pressing enter.",
        f"docker exec -it broker {COMMAND}",
        f"$ docker compose exec broker \\\n    {COMMAND} \\\n    --timeout 10000",
        "Hello all,\nsince yesterday our lag grows and I can't see why. This is 3.6 on Kubernetes:",
        "[2026-11-02 10:00:00,123] WARN Couldn't resolve server\n[app@broker ~]$",
        "Error: Executing consumer group command failed due to a timeout\n$ # once more",
    ],
    ids=lambda text: " ".join(text.split()[:3]),
)
@pytest.mark.parametrize("name", NAMES)
def test_what_precedes_the_first_table_is_passed_over(name: str, before: str) -> None:
    text = printed(name)
    assert read_describe(f"{before}\n{text}") == read_describe(text)


@pytest.mark.parametrize(
    "between",
    [
        f"root@kafka-0:/# {COMMAND}",
        f"[app@broker ~]$ {COMMAND}",
        'pod "kafka-client" deleted',
        "user@host kafka % exit",
    ],
)
def test_a_command_between_two_tables_is_passed_over(between: str) -> None:
    text = f"{printed('4.1-offsets')}{between}\n{printed('4.1-state')}\n{between}\n"
    assert read_describe(text) == read_describe(printed("4.1-offsets") + printed("4.1-state"))


def test_a_group_that_is_called_like_a_command_is_a_row() -> None:
    text = ONE + "docker  orders  0  5  9  4  -  -  -\nsh  orders  1  5  9  4  -  -  -\n"
    assert sorted(read_describe(text).groups) == ["docker", "sh"]


def test_a_remark_behind_a_table_is_an_error_for_it_may_be_a_damaged_row() -> None:
    with pytest.raises(UsageError, match="line 3: 'as you can see"):
        read_describe(ONE + "billing  orders  0  5  9  4  -  -  -\nas you can see\n")


READ = sorted(
    path.stem
    for path in TABLES.glob("*.txt")
    if not path.stem.startswith(("share-", "streams-")) or path.stem == "streams-4.1-offsets-verbose"
)
"""Tables that are read; those of other kinds of groups are refused by name (test_other_tools)."""


@pytest.mark.parametrize("stripped", [True, False], ids=["stripped", "padded"])
@pytest.mark.parametrize("name", READ)
def test_what_a_window_of_any_width_has_wrapped_is_joined(name: str, stripped: bool) -> None:
    text = printed(name).replace("worker b", "worker-b")  # whether a blank or a cut stood there can't be known
    expected = read_describe(text)
    for width in (*range(44, 170, 9), 100, 120):
        wrapped: list[str] = []
        for line in text.splitlines():
            pieces = [line[at : at + width] for at in range(0, max(len(line), 1), width)]
            wrapped += [piece.rstrip() if stripped else piece for piece in pieces if piece.strip() or len(pieces) == 1]
        assert read_describe("\n".join(wrapped)) == expected, width


def test_long_rows_below_a_header_that_was_not_wrapped() -> None:
    member = "consumer-billing-1-6f2c7a14-5f0f-4b52-9a8e-0f5b8f3b2a11"
    rows = [f"billing  orders  {p}  5  9  4  {member} \n  /10.0.0.1  consumer-billing-1" for p in range(3)]
    imported = read_describe(ONE + "\n".join(rows))
    assert offsets(imported, "billing") == {("orders", p): (5, 9) for p in range(3)}
    assert imported.groups["billing"].members[member].client_id == "consumer-billing-1"


@pytest.mark.parametrize("rule", ["|---|---|---|---|---|---|---|---|---|", "| :-- | --: | - | - | - | - | - | - | - |"])
def test_a_markdown_table(rule: str) -> None:
    rows = ["|billing|`orders`|0|5|9|4|c-1|/10.0.0.1|worker b|", "| billing | audit | 1 | - | 9 | - | | - | - |"]
    imported = read_describe("\n".join(["Seen today:", "", "| " + " | ".join(ONE.split()) + " |", rule, *rows]))
    assert offsets(imported, "billing") == {("orders", 0): (5, 9), ("audit", 1): (None, 9)}
    assert imported.groups["billing"].members["c-1"].client_id == "worker b"


def test_a_markdown_row_with_a_cell_too_many_names_its_line() -> None:
    header = "| " + " | ".join(ONE.split()) + " |"
    with pytest.raises(UsageError, match=r"line 2: .* has 10 values where 9 columns are expected"):
        read_describe(header + "\n|billing|orders|0|5|9|4|c-1|/h|x|y|")


@pytest.mark.parametrize("name", NAMES)
def test_a_quotation(name: str) -> None:
    text = printed(name)
    assert read_describe("".join(f"> {line}\n" for line in text.splitlines())) == read_describe(text)


@pytest.mark.parametrize("option", ["--group billing", "--group=billing", '--group "billing"'])
def test_tables_before_2_4_take_the_group_from_the_command(option: str) -> None:
    header = ONE.replace("GROUP  ", "")
    text = f"$ bin/kafka-consumer-groups --bootstrap-server b:9092 --describe {option}\n{header}orders  0  5  9  4  -  -  -\n"
    assert offsets(read_describe(text), "billing") == {("orders", 0): (5, 9)}


def test_a_bracket_at_the_beginning_does_not_make_it_json() -> None:
    text = printed("3.4-offsets")
    assert read_describe(f"[app@broker ~]$ {COMMAND}\n{text}") == read_describe(text)
    with pytest.raises(UsageError, match="not JSON"):
        read_describe("[app@broker ~]$ ls")
