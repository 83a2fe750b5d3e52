"""Paths and errors of the control server, without a server."""

from __future__ import annotations

import re

import pytest

from broker_sim.api.cluster import ClusterError
from broker_sim.api.wait import WaitTimeout
from broker_sim.common.text import UsageError, unknown
from broker_sim.control.operations import OPERATIONS, NotThere
from broker_sim.control.routes import FORMS, MethodNotAllowed, NoSuchPath, problem, route
from broker_sim.faults.registry import NeverHit
from broker_sim.metadata.cluster_state import KafkaError
from kafka_wire.errors import Err


def filled(path: str) -> str:
    return re.sub(r"\{(\w+)\}", r"a-\1", path)


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_has_its_path(name: str) -> None:
    one = OPERATIONS[name]
    paths = [f"/v1{filled(one.path)}"]
    if one.on == "cluster":
        paths.append(f"/v1/clusters/other{filled(one.path)}")
    for path, cluster in zip(paths, ("default", "other"), strict=False):
        found = route(one.method, path)
        assert (found.operation, found.cluster) == (one, cluster)
        assert found.given == {key: f"a-{key}" for key in re.findall(r"\{(\w+)\}", one.path)}


def test_pictures_have_paths_of_their_own() -> None:
    for name, forms in FORMS.items():
        for form in forms:
            found = route("GET", f"/v1{filled(OPERATIONS[name].path)}.{form}")
            assert (found.operation.name, found.form) == (name, form)


@pytest.mark.parametrize(
    ("path", "group"),
    [
        ("/v1/groups/billing", "billing"),
        ("/v1/groups/a%2Fb", "a/b"),
        ("/v1/groups/..%2F..%2Fetc", "../../etc"),
        ("/v1/groups/%E2%98%83", "\N{SNOWMAN}"),
        ("/v1/groups/a%20b", "a b"),
        ("/v1/groups/billing/", "billing"),
    ],
)
def test_a_segment_is_decoded_by_itself(path: str, group: str) -> None:
    assert route("GET", path).given == {"group": group}


def test_a_log_of_a_group_stands_in_a_path() -> None:
    assert route("PUT", "/v1/logs/offsets(billing)/state").given == {"log": "offsets(billing)"}
    assert route("PUT", "/v1/logs/offsets%28a%2Fb%29/state").given == {"log": "offsets(a/b)"}


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/v2/groups",
        "/v1",
        "/v1/",
        "/v1/grups",
        "/v1/groups/",
        "/v1/../v1/nothing",
        "/v1/groups/%FF",
        "/v1/" + "a" * 5000,
    ],
)
def test_nothing_is_elsewhere(path: str) -> None:
    if path == "/v1/groups/":
        assert route("GET", path).operation.name == "group.list"
        return
    with pytest.raises(NoSuchPath):
        route("GET", path)


def test_another_method_is_told_which_there_are() -> None:
    with pytest.raises(MethodNotAllowed, match="takes DELETE, GET, POST, not PATCH") as raised:
        route("PATCH", "/v1/faults")
    assert raised.value.allowed == ["DELETE", "GET", "POST"]


def test_errors_have_their_status() -> None:
    told = {
        UsageError("no"): 400,
        unknown("state", "stuk", ["stuck"]): 400,
        NotThere("not there"): 404,
        NoSuchPath("no path"): 404,
        MethodNotAllowed("no", ["GET"]): 405,
        WaitTimeout("a thing", 1000, "now", "history"): 408,
        NeverHit("never"): 409,
        KafkaError(Err.TOPIC_ALREADY_EXISTS, "Topic 'a' already exists."): 409,
        ClusterError("port in use"): 409,
    }
    for error, status in told.items():
        found = problem(error)
        assert found is not None
        assert found[0] == status, error
        assert found[1]["error"]
        assert found[1]["kind"] == type(error).__name__
    assert problem(ZeroDivisionError()) is None


def test_errors_carry_what_helps() -> None:
    assert problem(WaitTimeout("a thing", 1000, "now", "what happened"))[1]["history"] == "what happened"  # type: ignore[index]
    refused = problem(KafkaError(Err.TOPIC_ALREADY_EXISTS, "Topic 'a' already exists."))
    assert refused is not None
    assert refused[1]["kafka_error"] == "TOPIC_ALREADY_EXISTS"
    assert problem(unknown("state", "stuk", ["stuck"]))[1]["nearest"] == "stuck"  # type: ignore[index]
