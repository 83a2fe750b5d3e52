"""The table, as text for people and as JSON for programs; ``python -m benchmarks.report FILE`` makes of that JSON the lines of the
tables in docs/performance.md."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.compare import Measured, Verdict
from benchmarks.rows import BenchmarkRow
from benchmarks.scale import Figure

_UNITS = {"req_s": "req/s", "mb_s": "MB/s", "wall_ms": "ms"}


def row_text(row: BenchmarkRow, results: dict[str, Measured], verdicts: Iterable[Verdict]) -> str:
    """A row with every system's figure, then its goals."""
    lines = [f"{row.title}"]
    for name, measured in results.items():
        if measured.missing:
            lines.append(f"    {name:<22} -  ({measured.missing.splitlines()[0]})")
            continue
        unit = _UNITS[row.measure]
        value = f"{measured.value:,.1f}" if row.measure == "wall_ms" else f"{measured.value:,.0f}"
        spread = " ".join(f"{value:,.1f}" if row.measure == "wall_ms" else f"{value:,.0f}" for value in measured.values)
        cpu = (
            f"{measured.cpu_us / 1000:.1f} ms CPU" if row.measure == "wall_ms" else f"{measured.cpu_us:.2f} us CPU each"
        )
        lines.append(f"    {name:<22} {value:>10} {unit:<6} {cpu:>20}   [{spread}]")
    lines += [f"    {_verdict_text(verdict)}" for verdict in verdicts]
    return "\n".join(lines)


def _verdict_text(verdict: Verdict) -> str:
    word = _word(verdict.passed)
    return f"{word}  {verdict.system} is {verdict.ratio:.2f}x {verdict.peer} (by CPU {verdict.by_cpu:.2f}x), goal {verdict.goal:g}x"


def _word(passed: bool) -> str:
    return "PASS" if passed else "MISS"


def figure_text(figure: Figure) -> str:
    """A figure with its limit."""
    limit = "" if figure.limit == 0 else f"limit {figure.limit:g}  {_word(figure.passed)}"
    note = f"  ({figure.note})" if figure.note else ""
    return f"{figure.title:<66} {figure.value:>7.2f} {figure.unit:<16} {limit}{note}"


def row_json(row: BenchmarkRow, results: dict[str, Measured], verdicts: Iterable[Verdict]) -> dict[str, Any]:
    """The same, every run kept."""
    return {
        "row": row.name,
        "title": row.title,
        "unit": _UNITS[row.measure],
        "systems": {
            name: {"values": measured.values, "cpu_us": measured.cpus_us, "missing": measured.missing}
            for name, measured in results.items()
        },
        "goals": [
            {
                "system": verdict.system,
                "peer": verdict.peer,
                "ratio": round(verdict.ratio, 3),
                "ratio_by_cpu": round(verdict.by_cpu, 3),
                "goal": verdict.goal,
                "passed": verdict.passed,
            }
            for verdict in verdicts
        ],
    }


def figure_json(figure: Figure) -> dict[str, Any]:
    """A figure as JSON data, with the fields of its text."""
    return {
        "title": figure.title,
        "value": round(figure.value, 3),
        "unit": figure.unit,
        "limit": figure.limit,
        "passed": figure.passed,
        "note": figure.note,
    }


_SIMULATOR = ("broker-sim asyncio", "broker-sim uvloop")


def row_markdown(row: dict[str, Any]) -> Iterator[str]:
    """The lines of a row of the first table, one for each peer that it has a goal against, from the row's JSON."""
    verdicts: dict[tuple[str, float], dict[str, str]] = {}
    for goal in row["goals"]:
        ratios = verdicts.setdefault((goal["peer"], goal["goal"]), {})
        ratios[goal["system"]] = f"{goal['ratio']:.2f} {_word(goal['passed'])}"
    for number, ((peer, least), ratios) in enumerate(verdicts.items()):
        first = number == 0
        cells = [row["title"] if first else "", f">= {least:g}x {peer}", *(ratios.get(name, "") for name in _SIMULATOR)]
        cells += [_rate(row, name) if first else "" for name in _SIMULATOR]
        yield f"| {' | '.join([*cells, _rate(row, peer)])} |"


def _rate(row: dict[str, Any], system: str) -> str:
    """A system's medians: ``96,976 req/s (10.3 us)``."""
    runs = row["systems"].get(system, {"values": [], "cpu_us": []})
    measured = Measured(runs["values"], runs["cpu_us"])
    cpu_us = measured.cpu_us
    if not measured.values:
        return ""
    if row["unit"] == "ms":
        return f"{measured.value:,.1f} ms ({cpu_us / 1000:,.1f} ms)"
    return f"{measured.value:,.0f} {row['unit']} ({f'{cpu_us:.1f} us' if cpu_us < 1000 else f'{cpu_us / 1000:.2f} ms'})"


def figure_markdown(figure: dict[str, Any]) -> str:
    """A line of a table of figures, from the figure's JSON."""
    limit = f"at most {figure['limit']:g} {_word(figure['passed'])}" if figure["limit"] else ""
    return f"| {figure['title'].strip()} | {figure['value']:.2f} {figure['unit']} | {limit} | {figure['note']} |"


def main() -> None:
    """Print the lines of the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.report", description="Print the lines of the document's tables."
    )
    parser.add_argument("file", type=Path, help="what `python -m benchmarks --json FILE` has written")
    measured = json.loads(parser.parse_args().file.read_text())
    for row in measured["rows"]:
        print("\n".join(row_markdown(row)))
    print()
    for figure in measured["figures"]:
        print(figure_markdown(figure))


if __name__ == "__main__":
    main()
