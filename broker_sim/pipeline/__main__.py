"""``python -m broker_sim.pipeline VERB ...``: as ``broker-sim pipeline``, and what spark-submit runs out of the archive."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from broker_sim.common.commandline import Parser
from broker_sim.pipeline.commands import add_verbs

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> None:
    """Run a verb and exit with its code."""
    parser = Parser(prog="broker-sim pipeline", description="The data pipelines of broker-sim.")
    add_verbs(parser)
    arguments = parser.parse_args(argv)
    if arguments.verb is None:
        parser.error("which verb?")
    sys.exit(arguments.run(arguments))


if __name__ == "__main__":
    main()
