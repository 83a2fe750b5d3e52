"""Arguments of a secured cluster that must fit together, and the ways to one: command line, HTTP, scenario files, simulations."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from broker_sim.api.cluster import Cluster, ClusterError
from broker_sim.cli.security import summary_of
from broker_sim.common.text import UsageError
from broker_sim.scenario.attached import Attached
from broker_sim.scenario.clients import Access
from broker_sim.simulation.world import simulate
from tests.authentication.exchange import ALICE, ALL_MECHANISMS, authenticate
from tests.support.wire import Wire

GSSAPI = {"sasl.enabled.mechanisms": "GSSAPI"}
OAUTH = {"sasl.enabled.mechanisms": "OAUTHBEARER"}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (
            {"security_protocol": "SASL_SSL"},
            "users: a SASL_SSL listener needs users, as in {'alice': 'secret'}, or sasl.enabled.mechanisms=OAUTHBEARER",
        ),
        (
            {"users": ALICE},
            "users: a PLAINTEXT listener has none (expected security_protocol SASL_PLAINTEXT or SASL_SSL)",
        ),
        ({"security_protocol": "SSL", "users": ALICE}, "users: a SSL listener has none"),
        ({"tls_dir": "tls"}, "tls_dir: a PLAINTEXT listener has no TLS (expected security_protocol SSL or SASL_SSL)"),
        ({"security_protocol": "TLS"}, "no security_protocol 'TLS'"),
        ({"security_protocol": "SASL_SSL", "users": ALICE, "config": GSSAPI}, "no sasl.enabled.mechanisms 'GSSAPI'"),
        (
            {"security_protocol": "SSL", "config": {"ssl.client.auth": "must"}},
            "Invalid value must for configuration ssl.cl",
        ),
    ],
)
def test_arguments_that_do_not_fit_together(arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(ClusterError, match=re.escape(reason)):
        Cluster(**arguments)


def test_arguments_that_do() -> None:
    assert Cluster(security_protocol="sasl_ssl", users=ALICE).security.protocol == "SASL_SSL"
    assert Cluster(security_protocol="SASL_PLAINTEXT", config=OAUTH).security.users == {}
    assert Cluster().security.users == {}


@pytest.mark.parametrize(
    ("arguments", "summary"),
    [
        (
            {"security_protocol": "SASL_SSL", "users": ALICE},
            "security.protocol SASL_SSL; SASL mechanisms PLAIN, SCRAM-SHA-512, SCRAM-SHA-256",
        ),
        (
            {"security_protocol": "SASL_PLAINTEXT", "users": ALICE, "config": ALL_MECHANISMS},
            "security.protocol SASL_PLAINTEXT; SASL mechanisms PLAIN, SCRAM-SHA-512, SCRAM-SHA-256, OAUTHBEARER; not verified: "
            "OAuth tokens, which have no signature: a client of OAUTHBEARER may be any user",
        ),
        (
            {"security_protocol": "SSL"},
            "security.protocol SSL; not verified: who clients are (ssl.client.auth is none)",
        ),
        ({"security_protocol": "SSL", "config": {"ssl.client.auth": "required"}}, "security.protocol SSL"),
        (
            {
                "security_protocol": "SASL_SSL",
                "users": ALICE,
                "listeners": ["PLAINTEXT://localhost:0", "OUTSIDE://:0"],
            },
            "security.protocol SASL_SSL; SASL mechanisms PLAIN, SCRAM-SHA-512, SCRAM-SHA-256; not verified: clients of the "
            "listener PLAINTEXT",
        ),
    ],
)
async def test_the_summary_says_what_is_enabled_and_what_is_not_verified(
    arguments: dict[str, Any], summary: str
) -> None:
    async with Cluster(**arguments) as kafka:
        assert summary_of(kafka) == summary


async def test_it_starts_again_with_what_was_changed() -> None:
    kafka = Cluster(security_protocol="SASL_PLAINTEXT", users=ALICE)
    for password in ("secret", "rotated"):
        kafka.security.users["alice"] = password
        async with kafka:
            wire = await Wire.connect(kafka.bootstrap)
            assert (await authenticate(wire, password=password)).error_code == 0
            await wire.close()


async def test_a_program_beside_a_scenario_finds_what_it_needs_in_its_environment(tmp_path: Path) -> None:
    async with Cluster(security_protocol="SASL_SSL", users=ALICE) as kafka:
        names = "SECURITY_PROTOCOL SASL_MECHANISM SASL_USERNAME SASL_PASSWORD SSL_CA_LOCATION"
        script = f"for name in {names}; do eval echo \\$$name; done > {tmp_path}/seen"
        program = Attached(["sh", "-c", script])
        ended = asyncio.Event()
        await program.start(Access.to(kafka), ended.set)
        await ended.wait()
        expected = ["SASL_SSL", "PLAIN", "alice", "secret", kafka.security.ca_file]
        assert (tmp_path / "seen").read_text().splitlines() == expected
        await program.stop()


def test_virtual_time_has_no_tls() -> None:
    with simulate(1) as sim, pytest.raises(UsageError, match="security_protocol: virtual time has no TLS"):
        sim.cluster(security_protocol="SASL_SSL", users=ALICE)
