"""Scenarios behind SASL and TLS: their own clients of every kind authenticate; in virtual time, too."""

from __future__ import annotations

import pytest

from broker_sim.common.text import UsageError
from broker_sim.scenario.files import loads
from broker_sim.scenario.model import parse
from broker_sim.scenario.runner import ScenarioOptions, run
from broker_sim.scenario.virtual import play

SECURED = """
name: members behind SASL
cluster: {security_protocol: PROTOCOL, users: {alice: secret}, config: {sasl.enabled.mechanisms: MECHANISM}}
topics:
  - {name: orders, partitions: 4, records: 20, rate: 20/s}
clients:
  - {name: app-1, group: billing, topics: [orders], commit: each}
KINDS
  - {name: old, group: old, topics: [orders], kind: classic, members: 3}
  - {name: new, group: new, topics: [orders], kind: consumer}
  - {name: writer, topics: [orders], kind: transactional, transactional_id: tx}
steps:
  - name: all are there
    when: {group: billing, state: Stable, members: NUMBER}
    within: 60s
  - name: the classic members
    when: {group: old, state: Stable, members: 3}
    within: 60s
  - name: an old commit
    do: {send: OffsetCommit, group: old, member: old, generation: 1, offsets: {orders-0: 5}, answer: UNKNOWN_MEMBER_ID}
expect:
  - within: 60s
    group: {new: {state: Stable, members: 1}, billing: {lag_below: 100}}
  - happened: {api: SaslAuthenticate}
  - never: {api: SaslAuthenticate, error: SASL_AUTHENTICATION_FAILED}
"""
OTHERS = """\
  - {name: app-2, group: billing, topics: [orders], kind: confluent}
  - {name: app-3, group: billing, topics: [orders], kind: kafka-python}"""


def secured(protocol: str, mechanism: str, kinds: str = "", number: int = 1) -> str:
    values = {"PROTOCOL": protocol, "MECHANISM": mechanism, "KINDS": kinds, "NUMBER": str(number)}
    text = SECURED
    for name, value in values.items():
        text = text.replace(name, value)
    return text


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_in_virtual_time_by_sasl_reproducible_from_the_seed(mechanism: str) -> None:
    scenario = parse(loads(secured("SASL_PLAINTEXT", mechanism)))
    outcomes = [play(scenario, ScenarioOptions(seed=seed)) for seed in (3, 3, 4)]
    assert [outcome.code for outcome in outcomes] == [0, 0, 0], outcomes[0].report()
    assert outcomes[0].journal_hash == outcomes[1].journal_hash != outcomes[2].journal_hash


def test_virtual_time_has_no_tls() -> None:
    with pytest.raises(UsageError, match="security_protocol: virtual time has no TLS"):
        play(parse(loads(secured("SASL_SSL", "PLAIN"))), ScenarioOptions())


@pytest.mark.real_time
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
async def test_clients_of_every_library_behind_sasl_and_tls(mechanism: str) -> None:
    outcome = await run(parse(loads(secured("SASL_SSL", mechanism, OTHERS, 3))), ScenarioOptions())
    assert outcome.code == 0, outcome.report()


@pytest.mark.parametrize(
    ("cluster", "reason"),
    [
        ("{security_protocol: SASL_SSL}", "users: a SASL_SSL listener needs users"),
        ("{users: {alice: secret}}", "users: a PLAINTEXT listener has none"),
        ("{security_protocol: SASL}", "security_protocol: no choice 'SASL'"),
        (
            "{security_protocol: SASL_SSL, config: {sasl.enabled.mechanisms: OAUTHBEARER}}",
            "users: a scenario's clients need one",
        ),
        ("{security_protocol: SASL_SSL, users: [alice]}", "users: the value is not a map of names to values"),
    ],
)
def test_files_whose_security_is_wrong(cluster: str, reason: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse(loads(f"name: wrong\ncluster: {cluster}\nexpect: [{{never: {{api: LeaveGroup}}}}]\n"))
    assert reason in str(raised.value)
