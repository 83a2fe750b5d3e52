"""Access to the control server, and its answers to bad input: over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import ssl
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from broker_sim.api.cluster import Cluster
from broker_sim.common.text import UsageError
from broker_sim.control import on_journal, token
from broker_sim.control.http import MAX_BODY, ControlServer
from tests.authentication.exchange import authenticate
from tests.support.processes import DEADLINE_S
from tests.support.wire import Wire


class Control:
    """A control server and a client of it."""

    def __init__(self, kafka: Cluster, server: ControlServer, session: aiohttp.ClientSession) -> None:
        self.kafka, self.server, self.session = kafka, server, session

    async def ask(self, method: str, path: str, **options: Any) -> tuple[int, Any]:
        """Status and the JSON that came."""
        async with (
            asyncio.timeout(DEADLINE_S),
            self.session.request(method, self.server.url + path, **options) as reply,
        ):
            assert reply.content_type == "application/json", await reply.text()
            return reply.status, await reply.json()

    async def raw(self, sent: bytes) -> bytes:
        """Send these bytes on a connection of their own and return the first line of the answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        writer.write(sent)
        try:
            async with asyncio.timeout(DEADLINE_S):
                return await reader.readuntil(b"\r\n")
        finally:
            writer.close()


@contextlib.asynccontextmanager
async def controlled(**options: Any) -> AsyncIterator[Control]:
    async with Cluster(topics={"orders": 2}) as kafka, aiohttp.ClientSession() as session:
        server = ControlServer(kafka, **options)
        await server.start()
        try:
            yield Control(kafka, server, session)
        finally:
            await server.stop()


@pytest.fixture
async def control() -> AsyncIterator[Control]:
    async with controlled() as one:
        yield one


# --- who may ask ------------------------------------------------------------------------------------------------------


async def test_only_this_machine_is_served_without_a_token() -> None:
    async with Cluster() as kafka:
        with pytest.raises(UsageError, match="needs a token"):
            ControlServer(kafka, "0.0.0.0")


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_server_takes_its_token_from_the_environment(
    host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(token.VARIABLE, "fixed")
    assert token.for_address(host, None) == "fixed"
    (tmp_path / "token").write_text("of-the-file\n")
    assert token.for_address(host, str(tmp_path / "token")) == "of-the-file"
    monkeypatch.setenv(token.VARIABLE, "two words")
    with pytest.raises(UsageError, match="BROKER_SIM_CONTROL_TOKEN holds no token") as refused:
        token.for_address(host, None)
    assert "two words" not in str(refused.value)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Bearer ", "Basic c2VjcmV0", "secret", "Bearer s\u00e9cret"])
async def test_a_wrong_token_is_refused(header: str | None) -> None:
    async with controlled(host="0.0.0.0", token="secret") as control:
        control.server.host = "127.0.0.1"
        headers = {} if header is None else {"Authorization": header}
        status, told = await control.ask("GET", "/v1/topics", headers=headers)
        assert (status, told["kind"]) == (401, "Refused")
        status, _ = await control.ask("GET", "/", headers=headers)
        assert status == 401


async def test_the_right_token_is_served_under_any_name() -> None:
    async with controlled(token="secret") as control:
        headers = {"Authorization": "Bearer secret", "Host": "kafka-sim:9099"}
        status, told = await control.ask("GET", "/v1/topics", headers=headers)
        assert status == 200
        assert [one["topic"] for one in told["topics"]] == ["orders"]


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.0.0.1", "[::2]:80", ""]
)
async def test_a_foreign_host_is_refused(control: Control, host: str) -> None:
    status, told = await control.ask("GET", "/v1/topics", headers={"Host": host})
    assert status == 403, told


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "127.0.0.1", "[::1]:9099", "LOCALHOST"])
async def test_this_machines_names_are_served(control: Control, host: str) -> None:
    status, _ = await control.ask("GET", "/v1/topics", headers={"Host": host})
    assert status == 200


async def test_a_foreign_page_is_refused(control: Control) -> None:
    status, _ = await control.ask("POST", "/v1/faults", json={"hang": True}, headers={"Origin": "http://evil.example"})
    assert status == 403
    status, _ = await control.ask("GET", "/v1/topics", headers={"Origin": control.server.url})
    assert status == 200


# --- bad input --------------------------------------------------------------------------------------------------------


async def test_unknown_paths_and_methods_are_told(control: Control) -> None:
    status, told = await control.ask("GET", "/v1/topcs")
    assert (status, told["kind"]) == (404, "NoSuchPath")
    status, told = await control.ask("PATCH", "/v1/topics")
    assert (status, told["error"]) == (405, "/v1/topics takes GET, POST, not PATCH")
    status, _ = await control.ask("POST", "/openapi.json")
    assert status == 405
    status, told = await control.ask("GET", "/v1/clusters/nope/topics")
    assert (status, told["error"]) == (404, "no cluster 'nope'; expected default")


async def test_bodies_are_bounded(control: Control) -> None:
    status, told = await control.ask("POST", "/v1/topics", data=io.BytesIO(b"x" * (MAX_BODY + 1)), headers=JSON)
    assert status == 413
    assert "1048576" in told["error"]

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b"y" * (MAX_BODY // 20)

    with contextlib.suppress(aiohttp.ClientError):  # the server may hang up before it has read it all
        status, _ = await control.ask("POST", "/v1/topics", data=chunks(), headers=JSON)
        assert status == 413
    assert (await control.ask("GET", "/v1/topics"))[0] == 200


JSON = {"Content-Type": "application/json"}

WRONG_BODIES = {
    "no JSON": b"{",
    "not UTF-8": b'{"topic": "\xff"}',
    "a list": b"[]",
    "a text": b'"orders"',
    "NaN": b'{"topic": NaN}',
    "very deep": b"[" * 200_000,
    "very deep in a parameter": b'{"topic": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "a long number": b'{"topic": "a", "partitions": ' + b"9" * 10_000 + b"}",
}


@pytest.mark.parametrize("case", WRONG_BODIES)
async def test_a_body_that_is_no_object_is_refused(control: Control, case: str) -> None:
    status, told = await control.ask("POST", "/v1/topics", data=WRONG_BODIES[case], headers=JSON)
    assert (status, told["kind"]) == (400, "UsageError")
    assert len(told["error"]) < 500


async def test_a_form_is_refused(control: Control) -> None:
    status, told = await control.ask("POST", "/v1/topics", data={"topic": "a"})
    assert (status, told["kind"]) == (415, "Refused")


async def test_wrong_parameters_name_the_nearest(control: Control) -> None:
    status, told = await control.ask("PUT", "/v1/logs/orders-0/state", json={"state": "stuk"})
    assert status == 400
    wrong = {"error": told["error"], "nearest": "stuck"}
    assert told["error"].startswith("no state 'stuk'; did you mean 'stuck'? expected one of stuck, ")
    assert told == {**wrong, "kind": "UsageError", "errors": [{**wrong, "place": "/state"}]}
    status, told = await control.ask("POST", "/v1/topics", json={"topik": "a"})
    assert (status, told["nearest"]) == (400, "topic")
    status, told = await control.ask("GET", "/v1/topics?x=1")
    assert status == 400
    status, told = await control.ask("POST", "/v1/topics?topic=a", json={})
    assert (status, told["error"]) == (400, "POST takes its parameters in the body, as JSON, not in the query")
    status, told = await control.ask("GET", "/v1/groups/a?members=1&members=2")
    assert (status, told["error"]) == (400, "members is given twice")
    status, told = await control.ask("PUT", "/v1/logs/orders-0/state", json={"log": "orders-1", "state": "stuck"})
    assert (status, told["error"]) == (400, "log: 'orders-1' in the parameters, 'orders-0' in the path")
    status, told = await control.ask("GET", "/v1/topics", json={"a": 1})
    assert status == 400


async def test_things_that_are_not_there(control: Control) -> None:
    for method, path, told in (
        ("GET", "/v1/logs/ordrs-0", "did you mean 'orders'?"),
        ("GET", "/v1/logs/orders-7", "no partition 7"),
        ("DELETE", "/v1/topics/ordrs", "did you mean 'orders'?"),
        ("POST", "/v1/brokers/7/down", "no broker 7; expected 1"),
        ("GET", "/v1/faults/3", "no fault 3"),
        ("DELETE", "/v1/order/3", "no hold 3"),
        ("GET", "/v1/groups/nobody", "no group 'nobody'"),
        ("GET", "/v1/clusters/nope", "no cluster 'nope'"),
    ):
        status, answer = await control.ask(method, path)
        assert status == 404, (path, answer)
        assert told in answer["error"]


async def test_what_kafka_refuses_is_a_conflict_with_kafkas_name(control: Control) -> None:
    status, told = await control.ask("POST", "/v1/topics", json={"topic": "orders"})
    assert (status, told["kafka_error"]) == (409, "TOPIC_ALREADY_EXISTS")
    status, told = await control.ask("POST", "/v1/topics", json={"topic": "../etc/passwd"})
    assert (status, told["kafka_error"]) == (409, "INVALID_TOPIC_EXCEPTION")


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /v1/topics HTTP/1.1\r\n\r\n",
        b"garbage\r\n\r\n",
        b"GET /v1/topics HTTP/1.1\r\nHost: localhost\r\n" + b"X: " + b"a" * 20_000 + b"\r\n\r\n",
        b"POST /v1/topics HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"GET /v1/../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /v1/topics\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET http://evil.example/v1/topics HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    ],
)
async def test_what_is_no_decent_http_is_refused(control: Control, sent: bytes) -> None:
    line = await control.raw(sent)
    assert line.split()[1] in (b"400", b"403", b"404"), line
    assert (await control.ask("GET", "/v1/topics"))[0] == 200


UNREADABLE = {
    b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n": "invalid HTTP: Duplicate 'Host' header found.",
    b"GET / HTTP/1.1\r\n\r\n": "invalid HTTP: Missing 'Host' header in request.",
    b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n": "invalid HTTP: Bad status line: Invalid HTTP version",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n": "invalid HTTP: "
    "Transfer-Encoding can't be present with Content-Length",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n": "invalid HTTP: Invalid character in",
}


async def test_a_request_that_is_no_http_is_a_line_of_the_log_and_a_flood_of_them_few(
    control: Control, caplog: pytest.LogCaptureFixture
) -> None:
    for sent, reason in UNREADABLE.items():
        assert (await control.raw(sent)).split()[1] == b"400"
        [record] = caplog.records
        assert record.getMessage().startswith(f"closing the connection of /127.0.0.1 (client id none): {reason}")
        assert (record.name, record.levelname, record.exc_info) == ("broker_sim.control", "WARNING", None)
        assert "\n" not in record.getMessage()
        caplog.clear()
    for number in range(50):
        await control.raw(f"GET / HTTP/1.1\r\nHost: localhost\r\nX{number} y\r\n\r\n".encode())
    assert len(caplog.records) < 25


@pytest.mark.parametrize("header", ["Authorization: Bearer \xff", "Host: \xff", "Origin: \xff", "Content-Type: \xff"])
async def test_a_header_that_is_not_utf_8_is_no_error_of_the_server(
    caplog: pytest.LogCaptureFixture, header: str
) -> None:
    host = "" if header.startswith("Host") else "Host: localhost\r\n"
    for secret, status in ((None, (b"403", b"415", b"200")), ("secret", (b"401",))):
        async with controlled(token=secret) as control:
            sent = f"POST /v1/topics HTTP/1.1\r\n{host}{header}\r\nContent-Length: 2\r\n\r\n{{}}".encode("latin-1")
            assert (await control.raw(sent)).split()[1] in status
    assert caplog.records == []


async def test_what_a_client_sends_is_no_error_of_the_server(
    control: Control, caplog: pytest.LogCaptureFixture
) -> None:
    status, answer = await control.ask("GET", "/v1/topics?" + "&".join(f"a{number}=1" for number in range(200)))
    assert (status, answer["error"]) == (400, "a query has at most 100 parameters")
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    status, answer = await control.ask("POST", "/v1/topics", data=b"no gzip", headers=headers)
    assert (status, answer["error"]) == (400, "the body can't be read: Can not decode content-encoding: gzip")
    assert [message.partition(": ")[2] for message in caplog.messages] == [
        "invalid HTTP: Can not decode content-encoding: gzip"
    ]


async def test_halves_of_surrogate_pairs_are_refused_at_the_door(control: Control) -> None:
    half = "\ud800"
    for path, body in (
        ("/v1/clusters", {"security_protocol": "SASL_SSL", "users": {"alice": f"secret{half}"}}),
        ("/v1/clusters", {"security_protocol": "SASL_SSL", "users": {half: "secret"}}),
        ("/v1/topics", {"topic": half}),
        ("/v1/topics", {"topic": "new", "configs": {"cleanup.policy": half}}),
        ("/v1/faults", {"api": "OffsetCommit", "group": half}),
    ):
        status, answer = await control.ask(
            "POST", path, data=json.dumps(body), headers={"Content-Type": "application/json"}
        )
        assert (status, "UTF-8" in answer["error"], "secret" in answer["error"]) == (400, True, False), (path, answer)


async def test_names_that_climb_stay_names(tmp_path: Path) -> None:
    async with controlled(data_root=tmp_path / "root") as control:
        for data in ("../up", "/etc", "..", ".hidden", "a/b", "a\0b", "x" * 100):
            status, told = await control.ask("POST", "/v1/clusters", json={"data": data})
            assert status == 400, (data, told)
        for name in ("../up", "a/b", "", "."):
            status, told = await control.ask("POST", "/v1/clusters", json={"id": name})
            assert status == 400, (name, told)
        status, _ = await control.ask("GET", "/v1/clusters/..%2F..")
        assert status == 404
        assert list(tmp_path.iterdir()) == []
    async with controlled() as control:
        status, told = await control.ask("POST", "/v1/clusters", json={"data": "mine"})
        assert status == 400
        assert "--data" in told["error"]


async def test_a_secured_cluster_says_whom_its_clients_trust() -> None:
    async with controlled() as control:
        given = {"id": "secured", "security_protocol": "SASL_SSL", "users": {"alice": "secret"}}
        status, made = await control.ask("POST", "/v1/clusters", json=given)
        assert (status, made["security_protocol"]) == (201, "SASL_SSL")
        host, _, port = made["bootstrap"].rpartition(":")
        context = ssl.create_default_context(cadata=made["ca"])
        wire = Wire(*await asyncio.open_connection(host, int(port), ssl=context), "app")
        assert (await authenticate(wire)).error_code == 0
        await wire.close()
        status, default = await control.ask("GET", "/v1/clusters/default")
        assert (default["security_protocol"], default["ca"]) == ("PLAINTEXT", None)
        status, refused = await control.ask("POST", "/v1/clusters", json={"security_protocol": "SASL_SSL"})
        assert (status, "users: a SASL_SSL listener needs users" in refused["error"]) == (400, True)


FILLED = {"log": "orders-0", "topic": "orders", "group": "g", "member": "m", "cluster": "default"}


async def test_every_documented_path_is_served(control: Control) -> None:
    _, api = await control.ask("GET", "/openapi.json")
    for path, methods in api["paths"].items():
        for method, entry in methods.items():
            if path.endswith((".svg", ".html")) or entry["x-operation"] == "journal.read":
                continue  # not JSON; tried elsewhere
            patient = any(one["name"] == "timeout" for one in entry.get("parameters", ()))
            options = {"params": {"timeout": "0"}} if patient else {"json": {}} if method in ("post", "put") else {}
            filled = path.format_map(defaultdict(lambda: "1", FILLED))
            status, told = await control.ask(method.upper(), filled, **options)
            assert str(status) in entry["responses"], (method, path, status, told)
            assert told.get("kind") != "NoSuchPath", (method, path)


async def test_a_port_that_is_taken_is_told(control: Control) -> None:
    async with Cluster() as kafka:
        with pytest.raises(UsageError, match=f"control server: port {control.server.port} of 127.0.0.1 is in use"):
            await ControlServer(kafka, port=control.server.port).start()


async def test_what_the_log_refuses_is_a_conflict(control: Control) -> None:
    await control.ask("PUT", "/v1/logs/orders-0/state", json={"state": "readonly"})
    status, told = await control.ask("POST", "/v1/topics/orders/records", json={"records": 10})
    assert (status, told["kafka_error"]) == (409, "KAFKA_STORAGE_ERROR")


async def test_a_client_that_leaves_leaves_nothing_behind(control: Control) -> None:
    journal = control.kafka.observe()
    before = len(journal._listeners)
    reply = await control.session.get(control.server.url + "/v1/journal?follow=true")
    waiting = asyncio.ensure_future(control.ask("GET", "/v1/groups/nobody?members=3&timeout=10m"))
    async with asyncio.timeout(DEADLINE_S):
        while len(journal._listeners) < before + 2:
            await asyncio.sleep(0)
        reply.close()
        waiting.cancel()
        while len(journal._listeners) > before:
            await asyncio.sleep(0)


async def test_a_change_is_finished_for_a_client_that_leaves(control: Control) -> None:
    gate = asyncio.Event()
    down = control.kafka.broker_down

    async def slowly(node_id: int, **options: Any) -> None:
        await gate.wait()
        await down(node_id, **options)

    control.kafka.broker_down = slowly  # type: ignore[method-assign]
    asked = asyncio.ensure_future(control.ask("POST", "/v1/brokers/1/down"))
    async with asyncio.timeout(DEADLINE_S):
        while not control.server._changes:
            await asyncio.sleep(0)
        asked.cancel()
        await asyncio.wait([asked])
        gate.set()
        while control.kafka.state.brokers[1].alive:
            await asyncio.sleep(0)


async def test_a_follower_that_falls_behind_is_given_up(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_journal, "MAX_BEHIND", 3)
    kafka = control.kafka
    journal = kafka.observe()
    lines = on_journal.lines(kafka, {"follow": True, "event": "mark"}, asyncio.Event())
    assert await anext(lines) == b""
    for number in range(6):
        journal.write("mark", text=f"{number}")
    [told] = [json.loads(line) async for line in lines]
    assert told["kind"] == "TooSlow"


# --- forms ------------------------------------------------------------------------------------------------------------


async def test_the_page_shows_clusters_and_operations(control: Control) -> None:
    async with control.session.get(control.server.url + "/") as reply:
        text = await reply.text()
    assert reply.content_type == "text/html"
    assert control.kafka.bootstrap in text
    assert "/v1/faults/{fault}" in text
    assert "script" not in text.lower()
    assert "default-src 'none'" in reply.headers["Content-Security-Policy"]


async def test_the_document_names_this_server(control: Control) -> None:
    status, api = await control.ask("GET", "/openapi.json")
    assert status == 200
    assert api["servers"] == [{"url": control.server.url}]


async def test_default_is_meant_where_no_cluster_is_named(control: Control) -> None:
    assert await control.ask("GET", "/v1/topics") == await control.ask("GET", "/v1/clusters/default/topics")


async def test_answers_are_ascii_whatever_the_names(control: Control) -> None:
    async with control.session.get(control.server.url + "/v1/groups/%E2%98%83") as reply:
        body = await reply.read()
    assert reply.status == 404
    assert body.isascii()
    assert "\N{SNOWMAN}" in json.loads(body)["error"]


async def test_stop_ends_requests_that_wait() -> None:
    async with Cluster() as kafka, aiohttp.ClientSession() as session:
        server = ControlServer(kafka)
        await server.start()
        control = Control(kafka, server, session)
        await control.ask("POST", "/v1/topics", json={"topic": "orders"})
        waiting = asyncio.ensure_future(control.ask("GET", "/v1/groups/nobody?members=3&timeout=10m"))
        following = asyncio.ensure_future(session.get(server.url + "/v1/journal?follow=true"))
        assert (await following).status == 200
        async with asyncio.timeout(DEADLINE_S):
            await server.stop()
            await asyncio.wait([waiting])
        waiting.exception()
        following.result().close()


async def test_a_group_id_with_a_newline_is_a_group_id(control: Control) -> None:
    status, told = await control.ask("GET", "/v1/groups/a%0Ab")
    assert (status, told["kind"]) == (404, "NotThere")
    assert "no group 'a\\nb'" in told["error"]
    status, told = await control.ask("GET", "/v1/nothing%0Ahere")
    assert (status, told["kind"]) == (404, "NoSuchPath")
