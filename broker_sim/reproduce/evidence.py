"""A directory's tables and findings, as ``broker-sim pipeline run`` makes them, in memory: up to a moment, and of one group alone.

Rules:
1. The log "as it was at a moment" is its records, log ends and lines up to there: later records are ignored.
2. Of a group's log the tables are those of a run in which the others had never been; that is how the simulated log is, too.
3. Instead of the lines of brokers and clients, a simulated log has its journal: it is read if a finding needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from broker_sim.config.settings import ConfigError, parse_release
from broker_sim.pipeline import inputs
from broker_sim.pipeline.collect import collect
from broker_sim.pipeline.duck.session import DuckSession
from broker_sim.pipeline.engine import on_its_engine
from broker_sim.pipeline.finding import Finding
from broker_sim.pipeline.findings import findings
from broker_sim.pipeline.log_ends import data_folders
from broker_sim.pipeline.output import Folder
from broker_sim.pipeline.progress import Steps
from broker_sim.pipeline.run import PipelineRun, RunOptions
from broker_sim.pipeline.schemas import TableSchema
from broker_sim.pipeline.scope import Scope, literally
from broker_sim.pipeline.segments import OFFSETS_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Evidence", "Row", "read"]

Row = dict[str, Any]


@dataclass
class Evidence:
    """``tables``: name -> a function that gives its rows, in the order of their moments."""

    run_id: str
    findings: list[Finding]
    from_ms: int | None
    to_ms: int | None
    _tables: dict[str, Any]
    partitions: dict[str, int] = field(default_factory=dict)
    """Topic -> partitions of it that the directory has, of data topics."""

    def rows(self, table: str) -> list[Row]:
        """A table's rows; [] of a table that such a directory has not."""
        return [] if table not in self._tables else [dict(row) for row in self._tables[table].collect()]

    def of_group(self, table: str, group: str) -> list[Row]:
        """Rows of a table about one group."""
        return [row for row in self.rows(table) if row["group"] == group]

    def groups(self) -> list[str]:
        """Every group that has a record."""
        return sorted({row["group"] for row in self.rows("offset_log") if row["group"] is not None})

    def partition_of(self, group: str) -> int | None:
        """The group's partition of `__consumer_offsets`."""
        return next((row["log_partition"] for row in self.of_group("offset_log", group)), None)

    def lines_of(self, log_partition: int) -> list[Row]:
        """Lines of brokers about an offsets partition, in order."""
        mine = [row for row in self.rows("log_lines") if row["source"] == "broker" and row["ts_ms"] is not None]
        of_it = [row for row in mine if row["topic"] == OFFSETS_TOPIC and row["partition"] == log_partition]
        return sorted(of_it, key=lambda row: row["ts_ms"])

    def release(self) -> tuple[str, str]:
        """The Kafka release that wrote the log, as far as its records show, and the evidence for it, as text."""
        logged = self.release_of_lines()
        if logged is not None:
            return logged
        rows = self.rows("offset_log")
        if any((row["key_version"] or 0) in COMMIT_KEYS and (row["value_version"] or 0) >= 4 for row in rows):
            return NEWER, "commits are written as 4.1 and later do"
        if any((row["key_version"] or 0) > GROUP_KEY for row in rows):
            return NEWER, "it has records of groups of KIP-848 or later"
        if any(row["value_version"] is not None for row in rows):
            return OLDER, "commits and groups are written as 3.x does"
        return NEWER, "nothing in the log shows it"

    def release_of_lines(self) -> tuple[str, str] | None:
        """The release that a broker logged, and where; None if no line has it."""
        said = [row for row in self.rows("log_lines") if row["what"] == "release" and row["detail"]]
        for row in reversed(said):
            known = _known_release(row["detail"])
            if known is not None:
                return known, f"{row['file']}:{row['line']} logs Kafka {row['detail']}"
        return None


COMMIT_KEYS, GROUP_KEY = (0, 1), 2
NEWER, OLDER = "4.1", "3.9"
"""Releases that are assumed if a log shows only that its broker was of 4.x, or of 3.x."""


def _known_release(version: str) -> str | None:
    """`4.1` of 4.1.0, where the simulator knows that release."""
    try:
        return "{}.{}".format(*parse_release(".".join(version.split(".")[:2])))
    except ConfigError:
        return None


def read(
    directory: str,
    steps: Steps,
    *,
    until_ms: int | None = None,
    group: str | None = None,
    broker_logs: Sequence[str] = (),
    client_logs: Sequence[str] = (),
    journal: bool = False,
) -> Evidence:
    """``group``: of that one alone. ``journal``: with the one that lies in the directory. Raises UsageError where there is nothing to
    read."""
    groups = () if group is None else (literally(group),)
    options = RunOptions(out="", input=directory, look_for_journal=journal, scope=Scope(None, until_ms, groups))
    run_inputs = inputs.find(directory, None, None, look=journal, broker_logs=broker_logs, client_logs=client_logs)
    return _InMemory(run_inputs, options, steps).evidence()


class _InMemory(PipelineRun):
    """A run whose tables stay in the database, and whose log is where that keeps what it has no room for."""

    def __init__(self, run_inputs: inputs.Inputs, options: RunOptions, steps: Steps) -> None:
        session = DuckSession()
        super().__init__(session, run_inputs, Folder.local(str(session.place)), options, steps)  # type: ignore[arg-type]

    def evidence(self) -> Evidence:
        self._read()
        self._make()
        facts = collect(self.tables, self.facts)
        partitions: dict[str, int] = {}
        for topic, index, _ in data_folders(self.options.input or "."):
            partitions[topic] = max(partitions.get(topic, 0), index + 1)
        return Evidence(self.inputs.run_id, findings(facts), facts.from_ms, facts.to_ms, self.tables, partitions)

    @on_its_engine
    def _keep(self, table: TableSchema, frame: DataFrame, files: int | None = None) -> DataFrame:
        rows: Any = table.conform(frame)
        self.tables[table.name] = self.spark.kept(rows)  # type: ignore[attr-defined]
        return self.tables[table.name]

    def _ends(self, events: DataFrame, window_ms: int) -> DataFrame:
        ends = self.options.scope.ends(super()._ends(events, window_ms))
        self.tables["log_ends"] = ends
        return ends
