"""Clients that could not authenticate and producers that were fenced: lines of Kafka 4.1 and of the clients as they were when that was
done to them, franz-go's as its source and public reports have them. Logs alone are read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from broker_sim import Cluster
from broker_sim.cli.main import main
from broker_sim.pipeline.findings import findings
from broker_sim.pipeline.refused_clients import sent_instead
from kafka_wire.messages.k22_init_producer_id import InitProducerIdRequest
from kafka_wire.messages.k25_add_offsets_to_txn import AddOffsetsToTxnRequest
from kafka_wire.messages.k26_end_txn import EndTxnRequest
from kafka_wire.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.pipeline.facts import facts
from tests.pipeline.offsets import T0
from tests.pipeline.test_log_lines import rows
from tests.support.wire import Wire

SERVER = "[SocketServer listenerType=BROKER, nodeId=1]"
BAD = "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
JAVA = "[Producer clientId=web-1, transactionalId=tx]"
RD = "%3|1795992158.135|FAIL|rd-1#producer-1| [thrd:{0}/bootstrap]: {0}/bootstrap: "


@pytest.mark.parametrize(
    ("line", "what", "columns"),
    [
        (
            f"[2026-11-29 22:42:38,135] INFO {SERVER} Failed authentication with /10.0.0.7 (channelId=10.0.0.1:9093-10.0.0.7:5-0-1)"
            f" ({BAD}) (org.apache.kafka.common.network.Selector)",
            "authentication failed",
            {"address": "10.0.0.7", "detail": BAD},
        ),
        (
            "[2020-11-24 10:33:55,065] INFO [SocketServer brokerId=0] Failed authentication with web.example/10.0.0.7"
            " (SSL handshake failed) (org.apache.kafka.common.network.Selector)",
            "handshake failed",
            {"address": "10.0.0.7", "detail": "SSL handshake failed"},
        ),
        (
            "2020-10-15 09:52:33,845 INFO [SocketServer brokerId=0] Failed authentication with /10.0.0.7 (SSL handshake failed)"
            " (org.apache.kafka.common.network.Selector) [data-plane-kafka-network-thread-0-ListenerName(TLS-9093)-SSL-8]",
            "handshake failed",
            {"address": "10.0.0.7", "detail": "SSL handshake failed"},
        ),
        (
            "[2020-11-24 10:33:55,065] INFO (data-plane-kafka-network-thread-0-ListenerName(EXTERNAL)-SASL_SSL-7:Selector)"
            " [SocketServer brokerId=0] Failed authentication with web.example/10.0.0.7 (Unexpected Kafka request of type METADATA"
            " during SASL handshake.)",
            "authentication failed",
            {"address": "10.0.0.7", "detail": "Unexpected Kafka request of type METADATA during SASL handshake."},
        ),
        (
            f"[2026-11-29 22:42:57,119] WARN {SERVER} Unexpected error from /10.0.0.7 (channelId=10.0.0.1:9092-10.0.0.7:5-2-13);"
            " closing connection (org.apache.kafka.common.network.Selector)\n"
            "org.apache.kafka.common.network.InvalidReceiveException: Invalid receive (size = 369295621 larger than 104857600)",
            "invalid receive",
            {
                "address": "10.0.0.7",
                "detail": "InvalidReceiveException: Invalid receive (size = 369295621 larger than 104857600)",
            },
        ),
    ],
)
def test_lines_of_brokers(tmp_path: Path, line: str, what: str, columns: dict[str, Any]) -> None:
    (row,) = rows(tmp_path, "broker", line)
    assert {"what": row["what"], **{name: row.get(name) for name in columns}} == {"what": what, **columns}
    assert row["ts_ms"] is not None


@pytest.mark.parametrize(
    ("line", "what", "columns"),
    [
        (
            "2026-11-29 22:41:44,048 [kafka-producer-network-thread | web-1] ERROR org.apache.kafka.clients.NetworkClient - "
            f"[Producer clientId=web-1] Connection to node -1 (localhost/10.0.0.1:9093) failed authentication due to: {BAD}",
            "authentication failed",
            {"client_id": "web-1", "address": "10.0.0.1:9093", "detail": BAD, "node": -1},
        ),
        (
            "2026-11-29 22:41:44,048 ERROR [Consumer clientId=c, groupId=billing] Connection to node 2 (b/10.0.0.1:9093) failed"
            " authentication due to: SSL handshake failed (org.apache.kafka.clients.NetworkClient)",
            "handshake failed",
            {"client_id": "c", "group": "billing", "node": 2, "detail": "SSL handshake failed"},
        ),
        (
            "2026-11-29 22:41:53,693 WARN [Producer clientId=web-1] Connection to node -1 (/10.0.0.1:9092) terminated during"
            " authentication. This may happen due to any of the following reasons: (1) Firewall",
            "handshake failed",
            {"address": "10.0.0.1:9092", "detail": "terminated during authentication"},
        ),
        (
            RD.format("sasl_plaintext://10.0.0.1:9093")
            + f"SASL authentication error: {BAD} (after 313ms in state AUTH_REQ)",
            "authentication failed",
            {"client_id": "rd-1", "address": "sasl_plaintext://10.0.0.1:9093", "detail": BAD},
        ),
        (
            RD.format("sasl_plaintext://10.0.0.1:9093")
            + "Failed to initialize SASL authentication: generic failure (after 0ms in state AUTH_REQ)",
            "authentication failed",
            {"detail": "generic failure"},
        ),
        (
            RD.format("ssl://10.0.0.1:9092")
            + "SSL handshake failed: Disconnected: SSL connection closed by peer: connecting to a PLAINTEXT broker listener? (after"
            " 7ms in state SSL_HANDSHAKE)",
            "handshake failed",
            {"client_id": "rd-1", "address": "ssl://10.0.0.1:9092"},
        ),
        (
            '2026-11-29 22:42:00,441 ERROR aiokafka Unable connect to "10.0.0.1:9093": [Error 58] SaslAuthenticationFailed:'
            " Authentication failed: Invalid username or password",
            "authentication failed",
            {
                "address": "10.0.0.1:9093",
                "detail": "SaslAuthenticationFailed: Authentication failed: Invalid username or password",
            },
        ),
        (
            '{"level":"warn","ts":"2026-11-29T22:42:00.441Z","msg":"read from broker errored, killing connection after 0 successful'
            ' responses (is SASL missing?)","req":"ApiVersions","addr":"10.0.0.1:9093","broker":"seed_0","err":"EOF"}',
            "authentication failed",
            {"address": "10.0.0.1:9093", "detail": "is SASL missing?"},
        ),
        (
            '2026-11-29T22:42:00.441Z WARN unable to open connection to broker addr=10.0.0.1:9093 broker=1 err="tls: first record'
            ' does not look like a TLS handshake"',
            "handshake failed",
            {"detail": "tls: first record does not look like a TLS handshake"},
        ),
        (
            f"2026-11-29 22:42:00,441 INFO {JAVA} Transiting to fatal error state due to"
            " org.apache.kafka.common.errors.ProducerFencedException: There is a newer producer with the same transactionalId",
            "producer fenced",
            {"client_id": "web-1", "member": "tx"},
        ),
        (
            f"2026-11-29 22:42:00,441 INFO {JAVA} Transiting to abortable error state due to"
            " org.apache.kafka.common.errors.InvalidPidMappingException: The producer attempted to use a producer id which is not"
            " currently assigned to its transactional id.",
            "producer fenced",
            {"member": "tx"},
        ),
        (
            "%1|1795992175.004|TXNERR|rd-a#producer-5| [thrd:10.0.0.1:9092/1]: Fatal transaction error: Produce"
            "Request for t [0] with"
            " 1 message(s) failed: Broker: Producer attempted an operation with an old epoch (broker 1 PID{Id:2,Epoch:0}, base seq"
            " 1): transactional producer fenced by newer producer instance (_FENCED)",
            "producer fenced",
            {"client_id": "rd-a"},
        ),
        (
            "%1|1657854002.147|TXNERR|rdkafka#producer-3| [thrd:main]: Fatal transaction error: Producer fenced by newer instance:"
            " Failed to acquire transactional PID from broker TxnCoordinator/3: Broker: There is a newer producer with the same"
            " transactionalId which fences the current one (_FENCED)",
            "producer fenced",
            {"client_id": "rdkafka"},
        ),
        (
            '{"@timestamp":"2024-12-10T21:07:26.562Z","@version":"1","message":"[Producer clientId=web-1, transactionalId=tx]'
            " Transiting to fatal error state due to org.apache.kafka.common.errors.InvalidPidMappingException: The producer attempted"
            ' to use a producer id which is not currently assigned to its transactional id.","logger_name":"x","level":"INFO"}',
            "producer fenced",
            {"client_id": "web-1", "member": "tx", "level": "INFO", "ts_ms": 1733864846562},
        ),
        (
            "2018-04-23 15:17:37.025 ERROR 2239 --- [nio-8010-exec-5] o.a.c.c.C.[.[.[/] : Servlet.service() threw exception\n"
            " Caused by: org.apache.kafka.common.errors.InvalidPidMappingException: The producer attempted to use a producer id which"
            " is not currently assigned to its transactional id",
            "producer fenced",
            {"ts_ms": 1524496657025},
        ),
        (
            "2026-11-29 22:42:02,032 ERROR app could not commit\naiokafka.errors.ProducerFenced: ProducerFenced: There is a newer"
            " producer using the same transactional_id",
            "producer fenced",
            {"ts_ms": 1795992122032},
        ),
        (
            '2026-11-29T22:42:00Z ERROR txn err="INVALID_PRODUCER_EPOCH: Producer attempted to produce with an old epoch."',
            "producer fenced",
            {"detail": "INVALID_PRODUCER_EPOCH: Producer attempted to produce with an old epoch."},
        ),
    ],
)
def test_lines_of_clients(tmp_path: Path, line: str, what: str, columns: dict[str, Any]) -> None:
    (row,) = rows(tmp_path, "client", line)
    assert {"what": row["what"], **{name: row.get(name) for name in columns}} == {"what": what, **columns}


def test_a_json_layout_has_the_message_alone(tmp_path: Path) -> None:
    line = (
        '{"@timestamp":"2024-12-10T21:07:26.562Z","message":"[Consumer clientId=c, groupId=billing] Request joining group due to:'
        ' group is already rebalancing","logger_name":"o.a.k.ConsumerCoordinator","level":"INFO","level_value":20000}'
    )
    zap = '{"level":"info","ts":1733864846.562,"msg":"[Consumer clientId=c, groupId=billing] Request joining group due to: x"}'
    first, second = rows(tmp_path, "client", line, zap, '{"no": "message"}', "{ no JSON")
    assert (first["what"], first["group"], first["detail"]) == ("rejoins", "billing", "group is already rebalancing")
    assert first["ts_ms"] == second["ts_ms"] == 1733864846562


def test_a_producer_s_line_belongs_to_no_group(tmp_path: Path) -> None:
    group = "2026-11-29 22:41:44,048 INFO [Consumer clientId=c, groupId=billing] Request joining group due to: x"
    fenced = f"2026-11-29 22:42:00,441 INFO {JAVA} Transiting to fatal error state due to org.apache.ProducerFencedException: x"
    assert [row.get("group") for row in rows(tmp_path, "client", group, fenced)] == ["billing", None]


@pytest.mark.parametrize(
    "line",
    ["2026-11-29 22:42:00,441 INFO app settings: tls: enabled", "2026-11-29 22:42:00,441 INFO InvalidProducerEpochs"],
)
def test_other_words_are_no_such_line(tmp_path: Path, line: str) -> None:
    assert rows(tmp_path, "client", line) == []


@pytest.mark.parametrize(
    ("size", "sent"),
    [
        ("1195725856 larger than 104857600", "an HTTP request"),
        ("369295616 larger than 104857600", "a TLS handshake at a port without TLS"),
        ("2147483647 larger than 104857600", None),
        ("-1", None),
        ("150000000 larger than 104857600", None),
    ],
)
def test_what_a_size_was(size: str, sent: str | None) -> None:
    assert sent_instead(f"Invalid receive (size = {size})") == sent


def refusal(**columns: Any) -> dict[str, Any]:
    known = dict.fromkeys(("client_id", "address", "member", "line", "detail"))
    return {
        **known,
        "source": "broker",
        "what": "authentication failed",
        "times": 1,
        "from_ms": T0,
        "to_ms": T0,
        **columns,
    }


def test_the_last_byte_of_a_tls_message_makes_no_finding_of_its_own() -> None:
    size = "InvalidReceiveException: Invalid receive (size = {} larger than 104857600)"
    both = [
        refusal(what="invalid receive", address="10.0.0.7", detail=size.format(number), times=3, to_ms=T0 + 9000)
        for number in (369295616, 369295621)
    ]
    (found,) = findings(facts(refused_clients=both))
    assert found.text.startswith("6 connections of 10.0.0.7 were closed from ")
    assert found.text.endswith("they sent a TLS handshake at a port without TLS.")


def test_one_connection_that_ended_early_is_a_note_and_ten_are_not() -> None:
    ended = refusal(
        source="client", what="handshake failed", client_id="web-1", detail="terminated during authentication"
    )
    severities = [
        [
            found.severity
            for found in findings(facts(refused_clients=[{**ended, "times": times}]))
            if found.kind != "nothing"
        ]
        for times in (1, 10)
    ]
    assert severities == [["note"], ["warn"]]


def test_the_journal_s_refusals_are_findings(tmp_path: Path) -> None:
    rows = [
        refusal(
            source="journal",
            what=None,
            address="10.0.0.7",
            client_id="web",
            detail="authentication failed: wrong password",
        ),
        refusal(source="journal", what=None, address="10.0.0.8", detail="TLS handshake: no shared cipher"),
        refusal(source="journal", what=None, address="10.0.0.9", detail="a frame of 9 bytes"),
    ]
    assert sorted((found.kind, found.severity) for found in findings(facts(refused_clients=rows))) == [
        ("authentication", "warn"),
        ("authentication", "warn"),
        ("invalid request", "note"),
    ]


def run(tmp_path: Path, **options: str) -> dict[str, Any]:
    out = tmp_path / "out"
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
    assert main(["pipeline", "run", *words, "--out", str(out), "--engine", "duckdb", "--quiet"]) == 0
    return dict(json.loads((out / "findings.json").read_text()))


REFUSED: dict[str, Any] = {"source": "journal", "times": 1, "from_ms": T0, "to_ms": T0, "line": None}


async def _refused_producers(directory: Path) -> None:
    """Two processes of one client are fenced by a third, which then commits what had not begun, and asks for too long a timeout."""
    async with Cluster(topics={"orders": 2}, clock="manual", journal=directory, internal_topics="at-start") as kafka:
        wire = await Wire.connect(kafka.bootstrap, client_id="web-1")
        answers = [await wire.send(InitProducerIdRequest("tx", 60_000), 4) for _ in range(3)]
        first, second, last = [(answer.producer_id, answer.producer_epoch) for answer in answers]
        for producer in (first, first, second):
            topics = [TxnOffsetCommitRequestTopic("orders", [TxnOffsetCommitRequestPartition(0, 7)])]
            await wire.send(AddOffsetsToTxnRequest("tx", *producer, "billing"), 3)
            await wire.send(TxnOffsetCommitRequest("tx", "billing", *producer, topics=topics), 3)
            await wire.send(EndTxnRequest("tx", *producer, True), 3)
        await wire.send(EndTxnRequest("tx", *last, True), 3)
        await kafka.time.advance("5s")
        await wire.send(EndTxnRequest("tx", *last, True), 3)
        await wire.send(InitProducerIdRequest("other", 10**9), 4)
        await wire.close()


def _plain(text: str) -> str:
    """Without moments and numbers of events."""
    return re.sub(r"event \d+", "event N", re.sub(r"\d\d:\d\d:\d\d\.\d\d\d", "10:00", text))


async def test_refused_requests_of_transactions_are_findings_of_a_journal(tmp_path: Path) -> None:
    await _refused_producers(tmp_path / "journal")
    found = run(tmp_path, journal=str(tmp_path / "journal"))["findings"]
    told = [(one["kind"], one["severity"], _plain(one["text"])) for one in found]
    fenced = "The producer web-1 (transactional.id tx, epoch {}) was fenced at 10:00: AddOffsetsToTxn and EndTxn"
    assert sorted(told) == [
        *(
            (
                "producer fenced",
                "warn",
                f"{fenced.format(epoch)} were answered PRODUCER_FENCED (first in event N of the journal).",
            )
            for epoch in (0, 1)
        ),
        (
            "refused transaction",
            "warn",
            "EndTxn of web-1 (transactional.id tx) was refused 2 times from 10:00 on, for 5 s: INVALID_TXN_STATE"
            " (first in event N of the journal).",
        ),
        (
            "refused transaction",
            "warn",
            "InitProducerId of web-1 (transactional.id other) was refused at 10:00: INVALID_TRANSACTION_TIMEOUT (event N of"
            " the journal).",
        ),
    ]


def test_answers_of_one_fenced_process_are_one_finding_and_the_others_keep_their_cause() -> None:
    refused = {**REFUSED, "client_id": "web-1", "address": "10.0.0.7", "member": "tx", "process": 3}
    rows = [
        {**refused, "what": "producer fenced", "detail": "PRODUCER_FENCED", "apis": ["EndTxn"], "times": 2},
        {**refused, "what": "producer fenced", "detail": "INVALID_PRODUCER_EPOCH", "apis": ["InitProducerId"]},
        {**refused, "what": "transaction refused", "detail": "UNKNOWN_MEMBER_ID", "apis": ["TxnOffsetCommit"]},
        {
            **refused,
            "what": "transaction refused",
            "detail": "UNKNOWN_MEMBER_ID",
            "apis": ["TxnOffsetCommit"],
            "address": "b",
        },
    ]
    found = findings(facts(refused_clients=rows))
    assert sorted((one.kind, one.severity) for one in found) == [
        ("producer fenced", "warn"),
        *(("refused transaction", "note"),) * 2,
    ]
    assert "EndTxn was answered PRODUCER_FENCED; InitProducerId was answered INVALID_PRODUCER_EPOCH." in found[0].text
    assert all("the group had rebalanced" in one.advice for one in found[1:])


def test_logs_alone_are_an_input(tmp_path: Path) -> None:
    member = "app-1-5f0c2f7e-8d3b-4f4e-9d2a-1c2b3d4e5f60"
    other, coordinator = member.replace("app-1", "app-2"), "INFO [GroupCoordinator 1]:"
    (tmp_path / "server.log").write_text(
        f"[2026-03-29 10:00:00,000] {coordinator} Preparing to rebalance group billing in state PreparingRebalance with old"
        f" generation 3 (__consumer_offsets-7) (reason: Adding new member {other} with group instance id None; client reason: not"
        " provided) (kafka.coordinator.group.GroupCoordinator)\n"
        f"[2026-03-29 10:00:45,000] {coordinator} Member {member} in group billing has failed, removing it from the group (k.X)\n"
        f"[2026-03-29 10:00:45,001] {coordinator} Stabilized group billing generation 4 (__consumer_offsets-7) with 1 members (k.X)\n"
        f"[2026-03-29 10:00:45,010] {coordinator} Assignment received from leader {other} for group billing for generation 4. The"
        " group has 1 members, 0 of which are static. (k.X)\n"
        f"[2026-03-29 10:00:46,000] INFO {SERVER} Failed authentication with /10.0.0.7 ({BAD}) (k.Selector)\n"
    )
    fenced = f"2026-03-29 10:00:50,441 INFO {JAVA} Transiting to fatal error state due to org.apache.ProducerFencedException: x"
    (tmp_path / "web.log").write_text(f"{fenced}\n2026-03-29 10:00:50,450 ERROR app x.ProducerFencedException: x\n")
    result = run(tmp_path, broker_log=str(tmp_path / "server.log"), client_log=str(tmp_path / "web.log"))
    found = {one["kind"]: one for one in result["findings"]}
    assert found.keys() == {"slow rebalance", "session expired", "authentication", "producer fenced"}
    assert "The session of app-1 in billing expired by 10:00:45, and" in found["session expired"]["text"]
    assert "billing took 45 s to rebalance" in found["slow rebalance"]["text"]
    assert found["authentication"]["evidence"] == [{"file": str(tmp_path / "server.log"), "line": 5}]
    assert "producer web-1 (transactional.id tx) was fenced" in found["producer fenced"]["text"]
    assert (result["run_id"], result["groups"], result["to_ms"] - result["from_ms"]) == ("server.log", 1, 50_450)


def test_logs_that_say_nothing_unusual_name_what_they_cannot_show(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text("[2026-03-29 10:00:00,000] INFO [KafkaServer id=1] Kafka version: 4.1.0 (x)\n")
    (found,) = run(tmp_path, broker_log=str(tmp_path / "server.log"))["findings"]
    assert found["kind"] == "nothing"
    assert (
        "found in 0 groups and 0 rebalances. Only logs of brokers and clients were read: committed off" in found["text"]
    )


def test_nothing_to_read_names_all_inputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "run", "--out", str(tmp_path / "out")]) == 2
    assert "give --input DIR, --journal PATH, --broker-log PATH or --client-log PATH" in capsys.readouterr().err
