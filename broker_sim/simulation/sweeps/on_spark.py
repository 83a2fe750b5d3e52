"""A sweep of seeds as a job of Spark's: the same runs as `sweep`, on as many machines as there are, their verdicts as a table.

    found = sweep_on_spark(SweepOptions(("group",), range(1_000_000)), out="DIR", master="spark://HOST:7077")
    found.summary           # as of the local engine
    DIR/seed_verdicts       # Parquet, `SEED_VERDICTS`; DIR/failures: those that failed, one row for each

Rules:
1. A run is `trial.run`, its row `trial.verdict_row`: the local engine's. Which process it is in makes no difference, as the hash seed
   of all of them is pinned; a worker whose isn't refuses.
2. A task costs Spark about 0.1 s, so it gets 5 s of work or more: a few seeds are run first, to know how long one takes.
3. Rows go from the workers to Parquet (or, without ``out``, to their disks); the driver sees sums, and of each kind of failure the one
   with the smallest seed.
4. Of all seeds a hundredth is run again, in another task and, where this module has started the session, in another process; where
   another trace comes of it, that is a failure.
5. Failures are shrunk in a stage of their own, one task for each kind.
"""

from __future__ import annotations

import json
import math
import os
import random
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from broker_sim.common.clock import stopwatch
from broker_sim.common.text import UsageError
from broker_sim.pipeline.packaging import check_this_machine
from broker_sim.pipeline.tables.seed_verdicts import SEED_VERDICTS
from broker_sim.simulation.sweeps.sweep import Failure, SweepOptions, SweepSummary, keep, kept_cases, note, shrunk
from broker_sim.simulation.sweeps.trial import Case, CaseOutcome, case_from, run, verdict_row
from broker_sim.simulation.virtual.hashseed import is_pinned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from broker_sim.pipeline.progress import Steps

__all__ = ["TASK_S", "SparkSweep", "sized", "sweep_on_spark"]

TASK_S = 5.0
"""Work of a task, in seconds, at least."""

PART_TASKS, MOST_PARTS = 24, 50
"""Tasks of a part for each core, and most parts. A part takes two minutes or more, is written in one go, and outlasts an interrupt."""

AGAIN = 0.01
"""The share that is run again."""

_NEEDS = {"google_crc32c": "google-crc32c", "sortedcontainers": "sortedcontainers", "aiokafka": "aiokafka==0.14.0"}
_ROWS = 50
"""Rows that a worker hands over at once."""

World = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True, slots=True)
class SparkSweep:
    """Result of a sweep. ``seeds_per_task`` is of the main stage; ``again``: (seeds run again, of these in another process)."""

    summary: SweepSummary
    seeds_per_task: int
    again: tuple[int, int] = (0, 0)
    out: str | None = None


# --- on the workers ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plan:
    """Parameters of a sweep for its workers. ``world``: context in which the runs are done (for tests: a planted bug)."""

    run_id: str
    workloads: tuple[str, ...]
    duration_s: float
    as_version: str | None
    passes: int = 1
    world: World = nullcontext

    def case(self, seed: int) -> Case:
        return Case(self.workloads[seed % len(self.workloads)], seed, self.duration_s, as_version=self.as_version)


def run_seeds(plan: Plan, batches: Iterable[Any]) -> Iterator[Any]:
    """Arrow batches of the column ``id`` (seeds) to batches of SEED_VERDICTS."""
    import pyarrow

    _fit()
    schema = SEED_VERDICTS.arrow()
    rows: list[dict[str, Any]] = []
    with plan.world():
        for batch in batches:
            for seed in batch.column(0).to_pylist():
                rows.append(row_of(run(plan.case(seed)), plan))
                if len(rows) == _ROWS:
                    yield pyarrow.RecordBatch.from_pylist(rows, schema)
                    rows = []
    if rows:
        yield pyarrow.RecordBatch.from_pylist(rows, schema)


def row_of(outcome: CaseOutcome, plan: Plan) -> dict[str, Any]:
    """The outcome of a run as a row of SEED_VERDICTS."""
    from broker_sim import __version__

    failed = outcome.failure is not None
    return {
        "run_id": plan.run_id,
        **verdict_row(outcome),
        "text": outcome.text if failed else None,
        "case": json.dumps(outcome.case.to_dict()) if failed else None,
        "version": __version__,
        "worker": f"{socket.gethostname()}:{os.getpid()}",
        "pass": plan.passes,
    }


def _fit() -> None:
    """Raises ImportError or UsageError for a worker that can't make the same runs as others."""
    check_this_machine(_NEEDS, "simulations")
    if not is_pinned():
        raise UsageError(
            "the hash seed of Spark's Python workers is not pinned: --conf spark.executorEnv.PYTHONHASHSEED=0"
        )


def _shrunk(world: World, case: Case, failure: str, budget: int) -> Failure:
    _fit()
    with world():
        return shrunk(case, failure, budget)


def _rerun(world: World, case: Case) -> CaseOutcome:
    _fit()
    with world():
        return run(case)


# --- on the driver -------------------------------------------------------------------------------------------------------


def sweep_on_spark(
    options: SweepOptions,
    steps: Steps,
    *,
    out: str | None = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    run_id: str = "sweep",
    world: World = nullcontext,
) -> SparkSweep:
    """Run the corpus and all seeds. Raises UsageError, JobFailed."""
    from broker_sim.pipeline.output import Folder, is_remote
    from broker_sim.pipeline.run import at_work
    from broker_sim.pipeline.session import is_running, need_pyspark, spark_session

    need_pyspark()
    if out is not None and not is_remote(out):
        Folder.local(out).check(overwrite=False)
    ours = not is_running()
    with steps.step("starting Spark") as step:
        spark = spark_session(master, "broker-sim simulate", {"spark.python.worker.reuse": False, **(conf or {})})
        step.done(f"{spark.version}, {spark.sparkContext.master}, {spark.sparkContext.defaultParallelism} at once")
    with at_work(spark, stop=ours):
        folder = None if out is None else Folder.remote(out, spark) if is_remote(out) else Folder.local(out)
        if folder is not None:
            folder.prepare(run_id, overwrite=False)
        plan = Plan(run_id, options.workloads, options.duration_s, options.as_version, world=world)
        return _Sweep(spark, options, plan, steps, None if folder is None else folder.where).all()


def sized(cost_s: float, seeds: int, cores: int) -> tuple[int, int]:
    """Seeds of a task, and how many tasks: each of them works for TASK_S or more, unless that left cores without any."""
    per_task = max(1, math.ceil(TASK_S / max(cost_s, 1e-6)))
    tasks = max(seeds // per_task, min(cores, seeds), 1)
    return max(1, -(-seeds // tasks)), tasks


@dataclass(slots=True)
class _Sweep:
    """A sweep in its session."""

    spark: SparkSession
    options: SweepOptions
    plan: Plan
    steps: Steps
    where: str | None
    summary: SweepSummary = field(default_factory=SweepSummary)
    parts: list[DataFrame] = field(default_factory=list)
    """The table, in the parts in which it came."""

    def all(self) -> SparkSweep:
        from broker_sim.pipeline.progress import tasks_of

        options, summary, watch = self.options, self.summary, stopwatch()
        self.steps.tasks = tasks_of(self.spark)
        kept = kept_cases(options.corpus)
        summary.wanted = len(kept) + len(options.seeds)
        self._corpus(kept)
        per_task = self._seeds()
        again = self._again()
        self._count()
        if options.shrink:
            self._shrink()
        for failure in summary.failures.values():
            if options.corpus is not None:
                keep(failure, options.corpus)
        summary.wall_s = watch()
        return SparkSweep(summary, per_task, again, self.where)

    def _corpus(self, kept: list[tuple[Any, Case]]) -> None:
        if not kept:
            return
        world = self.plan.world
        with self.steps.step(f"{len(kept)} failures of before"):
            cases = self.spark.sparkContext.parallelize([case for _, case in kept], len(kept))
            outcomes = cases.map(lambda case: _rerun(world, case)).collect()
        for (path, _), outcome in zip(kept, outcomes, strict=True):
            note(self.summary, outcome, file=path)

    # the stages

    def _seeds(self) -> int:
        """All seeds: a few to know what one costs, then the rest. Returns how many a task had."""
        seeds, cores = self.options.seeds, self.spark.sparkContext.defaultParallelism
        first = seeds[: min(len(seeds), 2 * cores * max(1, len(self.options.workloads) // 2))]
        with self.steps.step(f"{len(first)} seeds, to know what one costs") as step:
            [(mean_s,)] = self._stage(first, min(cores, len(first)), "0000").agg({"cpu_s": "avg"}).collect()
            cost_s = mean_s or TASK_S
            step.done(f"{cost_s * 1000:.0f} ms")
        rest = seeds[len(first) :]
        per_task, tasks = sized(cost_s, len(rest), cores)
        seconds = max(cores * PART_TASKS, -(-tasks // MOST_PARTS)) * per_task
        parts = [rest[begin : begin + seconds] for begin in range(0, len(rest), seconds)]
        for number, part in enumerate(parts, 1):
            tasks = -(-len(part) // per_task)
            with self.steps.step(f"{len(part)} seeds in {tasks} tasks, part {number} of {len(parts)}") as step:
                failed = self._stage(part, tasks, f"{number:04}").where("verdict = 'failed'").count()
                step.done(f"{failed} failed")
        return per_task

    def _stage(self, seeds: range, tasks: int, name: str) -> DataFrame:
        return self._made(self.spark.range(seeds.start, seeds.stop, seeds.step, tasks), self.plan, name)

    def _made(self, ids: DataFrame, plan: Plan, name: str) -> DataFrame:
        """The rows of these seeds: written, or kept on the workers' disks."""
        from pyspark import StorageLevel

        def run_them(batches: Iterator[Any]) -> Iterator[Any]:
            return run_seeds(plan, batches)

        rows: DataFrame = ids.mapInArrow(run_them, SEED_VERDICTS.spark())
        if self.where is None:
            rows = rows.persist(StorageLevel.DISK_ONLY)
            rows.count()
        else:
            path = f"{self.where}/tables/{SEED_VERDICTS.name}/run_id={plan.run_id}/part={name}"
            rows.write.mode("overwrite").parquet(path)
            rows = self.spark.read.schema(SEED_VERDICTS.spark()).parquet(path)
        self.parts.append(rows)
        return rows

    def _again(self) -> tuple[int, int]:
        """A share once more, in other tasks; what differs is a failure."""
        from pyspark.sql import functions as f

        seeds = [seed for seed in self.options.seeds if random.Random(f"{seed}/again").random() < AGAIN]
        seeds = seeds or [self.options.seeds[0]]
        once = self._all()
        cores = self.spark.sparkContext.defaultParallelism
        with self.steps.step(f"{len(seeds)} seeds again") as step:
            ids = self.spark.createDataFrame([(seed,) for seed in reversed(seeds)], "id bigint").repartition(
                min(cores, len(seeds))
            )
            twice = self._made(ids, replace(self.plan, passes=2), "again")
            same = ("workload", "verdict", "failure", "steps", "journal_hash", "schedule_hash")
            first, second = once.alias("one"), twice.alias("two")
            both = (
                first.join(f.broadcast(second), "seed")
                .select(
                    "seed",
                    (f.col("one.worker") != f.col("two.worker")).alias("elsewhere"),
                    *(f.col(f"{side}.{name}").alias(f"{side}_{name}") for name in same for side in ("one", "two")),
                )
                .collect()
            )
            differ = [row for row in both if any(row[f"one_{name}"] != row[f"two_{name}"] for name in same)]
            step.done(f"{len(differ)} differ" if differ else "the same")
        for row in sorted(differ, key=lambda row: row.seed):
            text = "\n".join(
                f"{name}: {row[f'one_{name}']}, then {row[f'two_{name}']}"
                for name in same
                if row[f"one_{name}"] != row[f"two_{name}"]
            )
            self._note(Failure("not deterministic", text, self.plan.case(row.seed)), 1)
        self.summary.repeated = len(both)
        return len(both), sum(row.elsewhere for row in both)

    def _all(self) -> DataFrame:
        rows = self.parts[0]
        for part in self.parts[1:]:
            rows = rows.unionByName(part)
        return rows

    # what came of them

    def _count(self) -> None:
        """Sums, and the kinds of failures."""
        from pyspark.sql import functions as f

        rows, summary = self._all(), self.summary
        sums = rows.agg(
            f.sum("virtual_s").alias("virtual_s"), f.sum("cpu_s").alias("cpu_s"), f.sum("faults").alias("faults")
        ).first()
        assert sums is not None
        summary.virtual_s += sums.virtual_s or 0.0
        summary.cpu_s += sums.cpu_s or 0.0
        summary.faults += sums.faults or 0
        rows = rows.where("pass = 1")
        for row in (
            rows.groupBy("workload")
            .agg(f.count("*").alias("runs"), f.count(f.when(f.col("verdict") == "failed", 1)).alias("failed"))
            .collect()
        ):
            counts = summary.by_workload.setdefault(row.workload, [0, 0])
            counts[0] += row.runs
            counts[1] += row.failed
            summary.runs += row.runs
        for name in ("hits", "reached", "waived"):
            exploded = rows.select(f.explode(f.from_json(name, "map<string,bigint>")).alias("what", "count"))
            totals: Counter[str] = getattr(summary, name)
            totals.update(
                {row.what: row.total for row in exploded.groupBy("what").agg(f.sum("count").alias("total")).collect()}
            )
        failed = rows.where("verdict = 'failed'")
        kinds = failed.groupBy("workload", "failure").agg(
            f.count("*").alias("count"),
            f.min_by(f.struct("case", "text"), "seed").alias("first"),
            f.min("seed").alias("seed"),
        )
        for row in kinds.orderBy("seed").collect():
            self._note(Failure(row.failure, row["first"].text, case_from(json.loads(row["first"].case))), row["count"])
        if self.where is not None:
            failed.orderBy("seed").coalesce(1).write.mode("overwrite").parquet(
                f"{self.where}/tables/failures/run_id={self.plan.run_id}"
            )

    def _note(self, failure: Failure, count: int) -> None:
        self.summary.failed += count
        known = self.summary.failures.setdefault(f"{failure.case.workload}: {failure.failure}", failure)
        known.count = count if known is failure else known.count + count

    def _shrink(self) -> None:
        """One task for each kind; what a corpus had is small already, and what is not deterministic can't be asked."""
        asked = [
            (name, failure)
            for name, failure in self.summary.failures.items()
            if not failure.old and failure.failure != "not deterministic"
        ]
        if not asked:
            return
        world, budget = self.plan.world, self.options.budget
        with self.steps.step(f"shrinking {len(asked)} failures"):
            cases = self.spark.sparkContext.parallelize(
                [(failure.case, failure.failure) for _, failure in asked], len(asked)
            )
            small = cases.map(lambda pair: _shrunk(world, pair[0], pair[1], budget)).collect()
        for (name, large), smallest in zip(asked, small, strict=True):
            smallest.count, smallest.file = large.count, large.file
            self.summary.failures[name] = smallest
