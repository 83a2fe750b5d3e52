"""The scenario's own clients: small consumer programs of real client libraries, each a process of its own.

A program is started as ``PROGRAM SETTINGS``; SETTINGS is one JSON object: ``bootstrap``, ``client_id`` and what the file says (the
names of SETTINGS below, durations in seconds, an own ``config`` in the client's names). ``pattern`` replaces ``topics`` with a
regular expression that whole names of topics match; ``security`` has what the listeners require, by librdkafka's names, where they are
not PLAINTEXT. It reads as an application does, and tells on stdout, one JSON object a line:

    {"reports": "assigned", "partitions": ["orders-0"]}    {"reports": "revoked", "partitions": [...]}    {"reports": "lost", ...}
    {"reports": "read", "log": "orders-0", "offset": 5}    {"reports": "committed", "offsets": {"orders-0": 6}}
    {"reports": "commit_failed", "text": "..."}    {"reports": "error", "text": "..."}    {"reports": "left"}

A program with a ``transactional_id`` works in transactions (aiokafka's reads, writes what it has read to the topic ``to``, and commits
both; ``transactional`` writes to its topics), and tells ``begun``, ``committed``, ``aborted``, ``fenced`` of them, too.

stdin takes one command a line: ``leave`` (close as an application does), ``commit``, ``hang SECONDS`` (stop polling; the library's own
threads go on). The end of stdin ends the process. Any program that does the same is a client: ``--client NAME=COMMAND``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker_sim.fields.kinds import Choice
from broker_sim.scenario.files import duration, flag, number, pattern, plain, table_of, text, texts

__all__ = ["COMMITS", "SETTINGS"]

COMMITS = ("each", "auto", "batch", "poll", "never")
"""Ways in which an app commits: after each record, by the client's auto commit, after each poll's records, at a poll when
auto_commit_interval has passed (as Java's auto commit does: an app that hangs commits nothing), or only on command."""


SETTINGS: dict[str, Callable[[Any], Any]] = {
    "group": text,
    "topics": texts,
    "pattern": pattern,
    "assign": flag,
    "commit": Choice(COMMITS, "way to commit"),
    "auto_commit_interval": duration,
    "assignor": text,
    "instance_id": text,
    "session_timeout": duration,
    "heartbeat_interval": duration,
    "max_poll_interval": duration,
    "request_timeout": duration,
    "reset": text,
    "work": duration,
    "max_poll_records": number,
    "metadata_max_age": duration,
    "members": number,
    "transactional_id": text,
    "transaction_timeout": duration,
    "transaction_version": Choice(("1", "2"), "transaction version"),
    "to": text,
    "interval": duration,
    "config": lambda value: plain(table_of(value, "config")),
}
"""Settings of a client in a scenario file, each with the function that reads its value."""
