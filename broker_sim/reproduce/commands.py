"""The verb ``broker-sim reproduce``.

Exit codes: 0 the same finding happens again, with the same cause; 1 it can't be reproduced, with the reason, and nothing was
written; 2 an invalid argument, no input; 3 something else happened in the simulation; 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from broker_sim.common.commandline import add_command, complain
from broker_sim.common.text import UsageError, visible
from broker_sim.config.settings import ConfigError, parse_release
from broker_sim.pipeline.commands import add_log_options, moment

__all__ = ["register", "run"]

SOMETHING_ELSE = 3
_EXAMPLES = """\
examples:
  broker-sim reproduce --input ./copied-from-broker-3 --out incident/
      the most severe reproducible finding of a copy of a broker's log directory
  broker-sim reproduce --input ./copied-from-broker-3 --group billing --at 2026-11-24T09:20:36 --out incident/
      what happened to that group, nearest to that time (UTC)
  broker-sim reproduce --input ./copied-from-broker-3 --broker-log ./logs/brokers --client-log ./logs/clients --out incident/
      the same with broker and client logs; only they show a stuck offsets partition
  broker-sim reproduce --input ./copied-from-broker-3 --until 2026-11-24T09:00:00 --out incident/
      without later records

OUT gets incident.yaml (broker-sim run incident/incident.yaml --virtual), before.json (the offsets it begins with), test_incident.py
(put your own consumer into it), verdict.txt, page.html (real and simulated, side by side) and data (the simulated logs).

exit codes: 0 the same finding occurs again, with the same cause and a similarity of 50 % or more; 1 it can't be reproduced: nothing was
written; 2 invalid argument or no input; 3 something else occurs in the simulation
"""


def register(commands: Any, name: str) -> None:
    """Add the parser of ``broker-sim reproduce`` to the commands."""
    verb = add_command(
        commands,
        name,
        run,
        description="Write a scenario and a test from an incident in a copy of a broker's log directory, run it in virtual time, and"
        " compare both histories. Needs pip install 'broker-sim[pipeline,demo]'.",
        epilog=_EXAMPLES,
    )
    add = verb.add_argument
    add(
        "--input",
        metavar="DIR",
        required=True,
        help="a log directory: copies of __consumer_offsets-*, and of other topics for their lag",
    )
    add(
        "--out",
        metavar="DIR",
        required=True,
        help="output directory; created if missing; the output of an earlier reproduction is replaced",
    )
    add_log_options(add)
    add("--group", metavar="GROUP", help="the group (default: that of the most severe finding)")
    add(
        "--at",
        type=moment,
        metavar="TIME",
        help="the finding nearest to this time, UTC: 2026-11-24T09:20:36.434, or ms since 1970",
    )
    add("--until", type=moment, metavar="TIME", help="ignore all later records")
    add(
        "--as-version",
        metavar="X.Y",
        help="the Kafka release to behave as (default: derived from broker logs or records)",
    )
    add("--json", action="store_true", help="print the result as one JSON object")
    add("--quiet", action="store_true", help="no progress")


def known_release(text: str) -> str:
    """A release as an argument. Raises UsageError."""
    try:
        parse_release(text)
    except ConfigError as error:
        raise UsageError(f"--as-version: {error}") from None
    return text


def run(arguments: argparse.Namespace) -> int:
    """Run ``broker-sim reproduce``. Returns the exit status."""
    if sys.argv[1:2] == ["reproduce"]:
        from broker_sim.simulation.virtual.hashseed import pin

        pin()
    from broker_sim.pipeline.progress import Steps
    from broker_sim.reproduce.reproduction import ReproduceOptions, StepFailed, reproduce
    from broker_sim.reproduce.timelines import NotReproducible

    try:
        options = ReproduceOptions(
            arguments.input,
            arguments.out,
            arguments.group,
            arguments.at,
            arguments.until,
            arguments.as_version if arguments.as_version is None else known_release(arguments.as_version),
            tuple(arguments.broker_log),
            tuple(arguments.client_log),
        )
        made = reproduce(options, Steps(sys.stderr, quiet=arguments.quiet))
    except NotReproducible as error:
        sys.stderr.write(f"broker-sim reproduce: not reproduced: {visible(str(error))}\n")
        return 1
    except StepFailed as error:
        sys.stderr.write(f"broker-sim reproduce: {visible(str(error))}\n")
        return SOMETHING_ELSE
    except UsageError as error:
        complain("broker-sim reproduce", error)
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("broker-sim reproduce: interrupted\n")
        return 130
    if arguments.json:
        table = {
            "group": made.incident.group,
            "kind": made.incident.finding.kind,
            "finding": made.incident.finding.to_dict(),
            "again": None if made.again is None else made.again.to_dict(),
            "alike": round(made.similarity.share, 3),
            "apart_ms": made.similarity.apart_ms,
            "cause": None if made.recurrence.cause is None else made.recurrence.cause.text(),
            "happened": made.happened,
            "verdict_code": made.outcome.code,
            "unknown": made.unknown,
        }
        sys.stdout.write(json.dumps(table) + "\n")
    else:
        sys.stdout.write("\n".join([*made.verdict(), made.similarity.text(), f"{arguments.out}/page.html"]) + "\n")
    return 0 if made.happened else SOMETHING_ELSE
