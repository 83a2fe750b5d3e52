"""`make incidents`: makes labelled incidents on real brokers, and scores the pipeline on them.

python -m tests.incidents make --out DIR --version 4.1.0 --play membership --seed 7
python -m tests.incidents score DIR/*
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from tests.incidents.plays import PLAYS, perform
from tests.incidents.score import sentence_table, table, told, with_section


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="make incidents", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    verbs = parser.add_subparsers(required=True)
    make = verbs.add_parser("make", help="plays on real brokers; needs java and mvn")
    make.add_argument("--out", type=Path, required=True, help="each play leaves a folder here")
    make.add_argument("--version", action="append", help="of Kafka; repeatable (default: 4.1.0)")
    make.add_argument("--play", action="append", choices=PLAYS, help="repeatable (default: all)")
    make.add_argument("--seed", type=int, default=1)
    make.add_argument(
        "--client", action="append", help="consumers of these libraries alone; repeatable (default: the play's)"
    )
    make.set_defaults(run=_make)
    keep = verbs.add_parser("pack", help="keeps folders as recorded/NAME.tar.xz, for tests without brokers")
    keep.add_argument("folders", type=Path, nargs="+")
    keep.set_defaults(run=_pack)
    score = verbs.add_parser(
        "score", help="runs the pipeline on folders, and compares what it tells with their ledgers"
    )
    score.add_argument("folders", type=Path, nargs="+")
    score.add_argument(
        "--without-logs", action="store_true", help="the offsets log alone, without brokers' and clients' logs"
    )
    score.add_argument("--quiet", action="store_true", help="the table alone")
    score.add_argument("--write", type=Path, metavar="FILE", help="puts the table into this page, too")
    score.add_argument(
        "--section", default="all logs", help="the section of the page: <!-- scored: NAME --> .. <!-- end of NAME -->"
    )
    score.set_defaults(run=_score)
    given = parser.parse_args(argv)
    code: int = given.run(given)
    return code


def _make(given: argparse.Namespace) -> int:
    code = 0
    for version in given.version or ["4.1.0"]:
        for play in given.play or list(PLAYS):
            if int(version.split(".")[0]) < PLAYS[play].since:
                print(f"{play}: Kafka {version} can't do that", flush=True)
                continue
            folder = given.out / f"{play}-{version}-{given.seed}"
            print(f"{folder} ..", flush=True)
            for line in asyncio.run(perform(play, version, given.seed, folder, clients=tuple(given.client or ()))):
                code = 1
                print(f"  {line}", flush=True)
    return code


def _pack(given: argparse.Namespace) -> int:
    from tests.incidents.run_pipeline import pack

    for folder in given.folders:
        to = Path(__file__).parent / "recorded" / f"{folder.name}.tar.xz"
        to.parent.mkdir(exist_ok=True)
        pack(folder, to)
        print(f"{to.name}: {to.stat().st_size // 1024} KiB")
    return 0


def _score(given: argparse.Namespace) -> int:
    """0 where each event is told, and nothing else above a note, and nothing false."""
    from tests.incidents.run_pipeline import scores

    done = []
    for one in scores(given.folders, logs=not given.without_logs):
        done.append(one)
        if not given.quiet:
            print("\n".join(told(one)), flush=True)
    text = f"{table(done)}\n{sentence_table(done)}"
    print(text)
    if given.write:
        given.write.write_text(with_section(given.write.read_text(), given.section, text))
    return int(any(one.missed or one.alarms or one.false for one in done))


if __name__ == "__main__":
    sys.exit(main())
