"""JoinGroup metadata and SyncGroup assignments of Kafka Connect's workers (embedded protocol "connect"), decoded for people.

Source: ConnectProtocol.java (version 0, eager) and IncrementalCooperativeConnectProtocol.java (1, and 2 with sessions). A broker reads
none of it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from kafka_wire.codec import DecodeError, decode
from kafka_wire.schema import array, bytestring, int16, int32, int64, message, string
from kafka_wire.schema import struct as of_struct

__all__ = ["PROTOCOL_TYPE", "Work", "WorkerState", "runs_on", "work_of", "worker_state"]

PROTOCOL_TYPE = "connect"

_INT16 = struct.Struct(">h")
_NEWEST = 2
_CONNECTOR = -1
"""The task that is the connector itself (ConnectProtocol.CONNECTOR_TASK)."""


@message("0-2")
class ConnectWorkerState:
    url: str = string(default="")
    config_offset: int = int64(default=-1)
    allocation: bytes | None = bytestring("1+", nullable="1+", default=None)


@of_struct
class ConnectorAssignment:
    connector: str = string(default="")
    tasks: list[int] = array("int32", default_factory=list)


@message("0-2")
class ConnectAssignment:
    error: int = int16(default=0)
    leader: str = string(default="")
    leader_url: str = string(default="")
    config_offset: int = int64(default=-1)
    assignment: list[ConnectorAssignment] | None = array(ConnectorAssignment, nullable="1+", default_factory=list)
    revoked: list[ConnectorAssignment] | None = array(ConnectorAssignment, "1+", nullable="1+", default_factory=list)
    delay: int = int32("1+", default=0)


@dataclass(frozen=True, slots=True)
class WorkerState:
    """Metadata of a worker: its REST ``url``, the offset up to which it has read the topic of connectors' configurations, and
    (version 1 and 2) the ``connectors`` and ``tasks`` that run on it when it joins."""

    url: str
    config_offset: int
    connectors: list[str] = field(default_factory=list)
    tasks: dict[str, list[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Work:
    """The assignment of a Connect worker: ``connectors``, and ``tasks`` (numbers) by connector, that it starts beside those that it has
    (version 1 and 2; in version 0 they are all that it has); ``revoked``: those that it must stop; ``error``: 0, or 1 if its
    configuration is ahead of the leader's; ``delay_ms``: until the leader reassigns lost connectors and tasks."""

    leader_url: str
    config_offset: int
    connectors: list[str]
    tasks: dict[str, list[int]]
    revoked: dict[str, list[int]]
    error: int = 0
    delay_ms: int = 0


def worker_state(metadata: bytes) -> WorkerState | None:
    """A worker's metadata; None when the bytes are none, or of a version that is not known."""
    try:
        said = decode(ConnectWorkerState, _version(metadata), metadata, 2)
    except (struct.error, DecodeError):
        return None
    has = None if said.allocation is None else work_of(said.allocation)
    if has is None:
        return WorkerState(said.url, said.config_offset)
    return WorkerState(said.url, said.config_offset, has.connectors, has.tasks)


def runs_on(state: WorkerState, given: Work) -> tuple[list[str], dict[str, list[int]]]:
    """The connectors and tasks of a worker that joined with ``state`` and then got an assignment: what it had, without what is revoked,
    and what is given (WorkerCoordinator.onJoinComplete)."""
    connectors = [name for name in state.connectors if _CONNECTOR not in given.revoked.get(name, ())]
    tasks = {
        name: [task for task in numbers if task not in given.revoked.get(name, ())]
        for name, numbers in state.tasks.items()
    }
    for name, numbers in given.tasks.items():
        tasks[name] = sorted({*tasks.get(name, ()), *numbers})
    return sorted({*connectors, *given.connectors}), {name: tasks[name] for name in sorted(tasks) if tasks[name]}


def work_of(assignment: bytes) -> Work | None:
    """A worker's assignment; None when the bytes are none, or of a version that is not known."""
    try:
        said = decode(ConnectAssignment, _version(assignment), assignment, 2)
    except (struct.error, DecodeError):
        return None
    given = said.assignment or []
    return Work(
        said.leader_url,
        said.config_offset,
        [assignment.connector for assignment in given if _CONNECTOR in assignment.tasks],
        {
            assignment.connector: tasks
            for assignment in given
            if (tasks := [task for task in assignment.tasks if task != _CONNECTOR])
        },
        {assignment.connector: list(assignment.tasks) for assignment in said.revoked or []},
        said.error,
        said.delay,
    )


def _version(data: bytes) -> int:
    (version,) = _INT16.unpack_from(data)
    if not 0 <= version <= _NEWEST:
        raise DecodeError(f"version {version} of the Connect protocol is not known")
    return int(version)
