"""From a method and a path to an operation, and from what is raised to a status: what HTTP is for the vocabulary, without any HTTP.

Rules:
1. A path is its segments, each decoded by itself: a group id may hold a slash, as ``%2F``.
2. ``/v1/clusters/ID/...`` names a cluster, ``/v1/...`` means the default one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from broker_sim.api.time_control import Livelock
from broker_sim.common.text import UsageError
from broker_sim.control.clusters import DEFAULT
from broker_sim.control.on_scenarios import ScenarioFailed
from broker_sim.control.operations import OPERATIONS, NotThere, Operation
from broker_sim.fields.problems import Problem, WrongInput
from broker_sim.storage.errors import StorageError

__all__ = ["PREFIX", "MethodNotAllowed", "NoSuchPath", "OperationRoute", "problem", "route"]

PREFIX = "v1"
MAX_PATH = 4000


FORMS = {"group.timeline": {"svg": "image/svg+xml", "html": "text/html"}}
"""Operations that answer in other forms, too, at their path with the form's ending."""


CREATES = frozenset(
    {"cluster.create", "fault.add", "order.hold", "order.record", "order.replay", "scenario.start", "topic.create"}
)
"""Operations whose success is 201: something is there that wasn't."""


class NoSuchPath(UsageError):
    """Nothing is at this path."""


class MethodNotAllowed(UsageError):
    """Something is at this path, but not for this method; ``allowed`` are those that are."""

    def __init__(self, text: str, allowed: list[str]) -> None:
        super().__init__(text)
        self.allowed = allowed


@dataclass(frozen=True, slots=True)
class OperationRoute:
    """The operation on a cluster that a request is for, with the parameters of its path. ``form``: "" or "svg" or "html"."""

    operation: Operation
    cluster: str
    given: dict[str, str]
    form: str = ""


def route(method: str, raw_path: str) -> OperationRoute:
    """The operation behind a request. Raises NoSuchPath, MethodNotAllowed."""
    if len(raw_path) > MAX_PATH:
        raise NoSuchPath(f"a path has at most {MAX_PATH} characters")
    try:
        segments = [unquote(part, errors="strict") for part in raw_path.strip("/").split("/")]
    except UnicodeDecodeError:
        raise NoSuchPath("the path is not UTF-8") from None
    if segments[:1] != [PREFIX]:
        raise NoSuchPath(f"nothing is at {raw_path!r}; everything is below /{PREFIX}, see /openapi.json")
    cluster, rest = DEFAULT, segments[1:]
    on = "cluster"
    if rest[:1] == ["clusters"]:
        if len(rest) <= 2:
            on = "clusters"
        else:
            cluster, rest = rest[1], rest[2:]
    matches = _matches(on, rest)
    if not matches:
        raise NoSuchPath(f"nothing is at {raw_path!r}; see /openapi.json")
    for operation, given, form in matches:
        if operation.method == method:
            return OperationRoute(operation, cluster, given, form)
    allowed = sorted({operation.method for operation, _, _ in matches})
    raise MethodNotAllowed(f"{raw_path} takes {', '.join(allowed)}, not {method}", allowed)


def _templates() -> list[tuple[list[str], Operation, str]]:
    made = [(operation.path, operation, "") for operation in OPERATIONS.values()]
    made += [
        (f"{OPERATIONS[name].path}.{form}", OPERATIONS[name], form) for name, forms in FORMS.items() for form in forms
    ]
    return [(path.strip("/").split("/"), operation, form) for path, operation, form in made]


_TEMPLATES = _templates()


def _matches(on: str, segments: list[str]) -> list[tuple[Operation, dict[str, str], str]]:
    """Every operation whose path fits, the most literal first."""
    matches = []
    for template, operation, form in _TEMPLATES:
        if operation.on == on and len(template) == len(segments):
            given = _fit(template, segments)
            if given is not None:
                matches.append((operation, given, form))
    return sorted(matches, key=lambda match: len(match[1]))


def _fit(template: list[str], segments: list[str]) -> dict[str, str] | None:
    given: dict[str, str] = {}
    for part, segment in zip(template, segments, strict=True):
        if part.startswith("{"):
            if not segment:
                return None
            given[part[1:-1]] = segment
        elif part != segment:
            return None
    return given


# --- errors -----------------------------------------------------------------------------------------------------------


def problem(error: BaseException) -> tuple[int, dict[str, Any]] | None:
    """The HTTP status and the JSON object for an exception of an operation; None for an internal error.

    ``{"error": text, "kind": name, ...}``: with ``nearest`` for an unknown name, ``errors`` for invalid parameters, each with
    its place, ``history`` for a wait that timed out, ``kafka_error`` for an error of the broker.
    """
    from broker_sim.api.cluster import ClusterError
    from broker_sim.api.wait import WaitTimeout
    from broker_sim.faults.recorded import Diverged
    from broker_sim.faults.registry import NeverHit
    from broker_sim.metadata.cluster_state import KafkaError

    body: dict[str, Any] = {"error": str(error), "kind": type(error).__name__}
    nearest = getattr(error, "nearest", None)
    if nearest:
        body["nearest"] = nearest
    if isinstance(error, NotThere | NoSuchPath):
        return 404, body
    if isinstance(error, MethodNotAllowed):
        return 405, body
    if isinstance(error, WrongInput):
        return 400, {
            **body,
            "kind": UsageError.__name__,
            "errors": [_problem_body(problem) for problem in error.problems],
        }
    if isinstance(error, UsageError):
        return 400, body
    if isinstance(error, WaitTimeout):
        return 408, {**body, "history": error.history}
    if isinstance(error, NeverHit | Diverged | ScenarioFailed):
        return 409, body
    if isinstance(error, KafkaError):
        return 409, {"error": error.message or error.error.name, "kind": "KafkaError", "kafka_error": error.error.name}
    if isinstance(error, StorageError):
        return 409, {**body, "kafka_error": error.error.name}
    return (409, body) if isinstance(error, ClusterError | Livelock) else None


def _problem_body(problem: Problem) -> dict[str, str]:
    return {
        "place": problem.pointer,
        "error": problem.text,
        **({"nearest": problem.nearest} if problem.nearest else {}),
    }
