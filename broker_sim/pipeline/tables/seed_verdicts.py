"""`seed_verdicts`: what came of each seed of a sweep (``broker-sim simulate --engine spark --out DIR``).

A row is what the local engine writes as a line with ``--rows``, with three columns more: both come from one function of the simulation.
"""

from __future__ import annotations

from broker_sim.pipeline.schemas import BOOLEAN, DOUBLE, INT, LONG, RUN_ID, STRING, ColumnSpec, TableSchema

__all__ = ["SEED_VERDICTS"]

_CASE, _RUN = "the seed", "the run"

SEED_VERDICTS = TableSchema(
    "seed_verdicts",
    (
        RUN_ID,
        ColumnSpec("seed", LONG, "the seed of all random numbers of the run; never null", _CASE),
        ColumnSpec("workload", STRING, "name of the workload: `group`, `hostile` ..; never null", _CASE),
        ColumnSpec("verdict", STRING, "`clean` or `failed`; never null", _RUN),
        ColumnSpec(
            "failure", STRING, "what went wrong, in a line that runs with the same cause share; null if clean", _RUN
        ),
        ColumnSpec("invariant", STRING, "name of the invariant that is broken, if that is it", _RUN),
        ColumnSpec("as_version", STRING, "the Kafka that the brokers behaved as", _CASE),
        ColumnSpec("duration_s", DOUBLE, "virtual seconds with faults", _CASE),
        ColumnSpec("journal", BOOLEAN, "whether the brokers were observed; if not they use their fast paths", _CASE),
        ColumnSpec("faults", LONG, "faults that took effect", _RUN),
        ColumnSpec("schedule", STRING, "the fault schedule, JSON", _CASE),
        ColumnSpec("steps", LONG, "callbacks that the event loop ran", _RUN),
        ColumnSpec("journal_hash", STRING, "hash of the whole journal", _RUN),
        ColumnSpec("schedule_hash", STRING, "hash of the order in which callbacks ran", _RUN),
        ColumnSpec("virtual_s", DOUBLE, "virtual seconds of the run", _RUN),
        ColumnSpec(
            "healed_s", DOUBLE, "virtual seconds from the end of the faults until all groups had recovered", _RUN
        ),
        ColumnSpec("cpu_s", DOUBLE, "processor seconds of the run", _RUN),
        ColumnSpec("hits", STRING, "faults and sites that took effect, JSON: name -> count", _RUN),
        ColumnSpec("reached", STRING, "what the run reached, JSON: name -> count", _RUN),
        ColumnSpec("waived", STRING, "violations that the plan explains, JSON: name -> count", _RUN),
        ColumnSpec("text", STRING, "the full report of a failure; null if clean", _RUN),
        ColumnSpec("case", STRING, "a failure's case, JSON as `--replay` takes it; null if clean", _CASE),
        ColumnSpec("version", STRING, "version of broker-sim: a seed means nothing under another one", ""),
        ColumnSpec("worker", STRING, "host and process that it ran in", ""),
        ColumnSpec("pass", INT, "1; 2 for the share that was run again elsewhere", ""),
    ),
    "One row for each seed of a sweep, and one more for each that was run again as a check of determinism.",
)
