"""Analysis of what happened to consumer groups, on Spark: from the logs of a simulated or a real cluster, and from the journal.

    from broker_sim.pipeline import register

    register(spark)                                              # in any Spark program
    spark.read.format("consumer_offsets").load("DIR")
    spark.readStream.format("sim_journal").load("DIR")

It knows the protocol's bytes and the journal's words, no broker: so it runs where the logs are.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker_sim.pipeline.session import register

__all__ = ["register"]

if not os.path.exists(__file__):  # an archive, on a machine without its dependencies
    from broker_sim.pipeline.packaging import check_this_machine

    check_this_machine()


def __getattr__(name: str) -> object:
    if name != "register":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from broker_sim.pipeline.session import register

    return register
