"""Facts from which a report and its findings are made: small lists of rows, taken from the tables by `collect.py`.

Rules:
1. Rows are those of the tables, with the tables' columns as keys. `collect` limits their number; `left_out` has what it left out.
2. Nothing in here knows Spark: findings and pictures are tested with rows made by hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Key", "ReportFacts", "Row"]

Row = Mapping[str, Any]
Key = tuple[str, str, int]
"""group, topic, partition."""


@dataclass(slots=True)
class ReportFacts:
    """``counts``: rows of each table; ``groups``: how many there are; times in ms since 1970, None where nothing has a time."""

    run_id: str
    input: str | None
    journal: str | None
    scope: str = ""
    """time and groups to which the report is restricted, in words; "" for all."""
    whole: bool = True
    """whether all records are there that the log holds up to its end; else what is missing was not asked for."""
    logged: bool = True
    """whether there is an offsets log; else committed offsets are those of the journal, and their places its numbers."""
    from_ms: int | None = None
    to_ms: int | None = None
    counts: dict[str, int] = field(default_factory=dict)
    groups: int = 0
    commits: int = 0
    """records of committed offsets: a commit of ten partitions is ten of them, and the log does not show which were one request."""
    rebalances: list[Row] = field(default_factory=list)
    stuck: list[Row] = field(default_factory=list)
    """rows of stuck_partitions that attempts prove; never a silence."""
    silences: list[Row] = field(default_factory=list)
    """rows of stuck_partitions of evidence `silence`: hints, which no picture and no total may show as more."""
    regressions: list[Row] = field(default_factory=list)
    deletions: list[Row] = field(default_factory=list)
    """by group and moment: group, at_ms, offsets, example (topic, partition), idle_ms, group_ended, how, returned, log_partition."""
    duplicates: list[Row] = field(default_factory=list)
    refusals: list[Row] = field(default_factory=list)
    """rows of commit_refusals, those of the most commits first."""
    skips: list[Row] = field(default_factory=list)
    """rows of offset_skips, the widest first, those of a first start last."""
    beyond: list[Row] = field(default_factory=list)
    """partitions that are committed beyond their log's end: group, topic, partition, lag, window_start_ms, committed, end."""
    below: list[Row] = field(default_factory=list)
    """partitions that are committed before their log's start: group, topic, partition, window_start_ms, committed, start,
    below_start."""
    losses: list[Row] = field(default_factory=list)
    """rows of data_losses, the widest first."""
    states: dict[str, Row] = field(default_factory=dict)
    """group -> its row of the table groups."""
    marks: list[Row] = field(default_factory=list)
    """rows of log_lines about offsets: deleted, expired, sought, reset."""
    failed_commits: list[Row] = field(default_factory=list)
    """clients' lines about commits that failed: group, ts_ms."""
    resets: list[Row] = field(default_factory=list)
    stalls: list[Row] = field(default_factory=list)
    moves: list[Row] = field(default_factory=list)
    transactions: list[Row] = field(default_factory=list)
    deliveries: list[Row] = field(default_factory=list)
    """rows of share_deliveries, those that were archived and those with the most deliveries first."""
    returned: list[Row] = field(default_factory=list)
    """records of share groups that became available again, from the journal's events `delivery`: group, topic, partition, base_offset,
    last_offset, action (one of `share_findings.RETURNS`), member, client_id, ts_ms, seq; in the order of time."""
    assignments: list[Row] = field(default_factory=list)
    """assignments of members of consumer, share and streams groups over time: rows of `assignments.assignments`."""
    churn: list[Row] = field(default_factory=list)
    hotspots: list[Row] = field(default_factory=list)
    lag: dict[str, list[Row]] = field(default_factory=dict)
    """group -> its windows, all its partitions together: window_start_ms, window_ms, lag, deleted, commits."""
    committed: dict[Key, list[Row]] = field(default_factory=dict)
    """a partition of a group -> its rows of the table lag."""
    partitions: list[Row] = field(default_factory=list)
    """log partitions, which show compaction: log_partition, records, first_offset, last_offset, groups."""
    neighbours: dict[int, list[str]] = field(default_factory=dict)
    """log partition -> the groups that live in it."""
    disconnected: list[Row] = field(default_factory=list)
    """memberships (`tables.member_churn`) that had not ended, of members whose connection was closed (closed_ms)."""
    refused_instances: list[Row] = field(default_factory=list)
    """clients that were refused a group.instance.id which another one had, equal ones together: group, instance, client_id,
    client_host, times, from_ms, to_ms, holder (the membership of that one, or null)."""
    crashes: list[Row] = field(default_factory=list)
    """rows of log_lines: `crashed` and `restarts`, of a group, with a time."""
    aborts: list[Row] = field(default_factory=list)
    """transactions that their producers aborted, see `aborted_transactions`: transactional_id, producer_id, groups, aborts, ended (how
    many of how many), first_ms, last_ms (when), longest_ms; from the coordinator's log also where they were frequent: often_from_ms,
    often_to_ms, often_aborts, often_ended, past_aborts."""
    refused_clients: list[Row] = field(default_factory=list)
    """clients that could not authenticate, were fenced, or sent what is no request, and refused requests of transactions, equal ones
    together: source (`broker` or `client` for log lines, or `journal`), what (a kind of line, or `transaction refused`), client_id,
    address, member, detail, times, from_ms, to_ms, line (FILE:LINE, or null); a transactional request of the journal also has process
    (the producer's epoch) and apis, and its detail is the error."""
    skipped: list[Row] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    """files of brokers' and clients' logs that were read."""
    left_out: dict[str, int] = field(default_factory=dict)
    """a table's name -> number of its rows, groups or partitions that were not collected."""

    @property
    def lines_alone(self) -> bool:
        """Whether neither an offsets log nor a journal was read, but logs of brokers and clients."""
        return not self.logged and self.journal is None

    def of_group(self, rows: list[Row], group: str) -> list[Row]:
        return [row for row in rows if row["group"] == group]
