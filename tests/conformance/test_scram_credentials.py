"""Users' SCRAM credentials: DescribeUserScramCredentials and AlterUserScramCredentials (KIP-554, KIP-900), and what a client that
authenticates sees of them."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from kafka_wire.errors import Err
from kafka_wire.messages.k50_describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from kafka_wire.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tests.conformance.authenticating import HASHES, USERS, Client, Scram
from tests.conformance.driver import GIVE_UP_S, POLL_S, Kafka, clock_s
from tests.support.scram import NUMBERS, SALT
from tests.support.scram import upsertion as salted

pytestmark = [pytest.mark.generations("4.1", "4.4"), pytest.mark.profile("sasl")]

PASSWORD = "new-secret"


def upsertion(
    name: str, mechanism: str = "SCRAM-SHA-256", iterations: int = 4096, *, password: str = PASSWORD, salt: bytes = SALT
) -> ScramCredentialUpsertion:
    return salted(name, password, mechanism, iterations, salt)


def deletion(name: str, mechanism: str = "SCRAM-SHA-256") -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name, NUMBERS[mechanism])


class Admin:
    """Administrator that alters the credentials of users that are the test's alone."""

    def __init__(self, kafka: Kafka, client: Client, watcher: Client) -> None:
        self.kafka, self._client, self._watcher = kafka, client, watcher

    @classmethod
    @contextlib.asynccontextmanager
    async def of(cls, kafka: Kafka) -> AsyncIterator[Admin]:
        """At the end no user is left but those of the profile, with their passwords: brokers serve many tests."""
        client, watcher = await Client.connect(kafka), Client(kafka, await kafka.wire(record=False))
        await client.plain()
        await watcher.plain()
        admin = cls(kafka, client, watcher)
        yield admin
        left = [
            ScramCredentialDeletion(row.user, info.mechanism)
            for row in await admin._listed()
            for info in row.credential_infos
            if row.user not in USERS
        ]
        for one in left:
            await watcher.ask(AlterUserScramCredentialsRequest([one], []), 0)
        await admin._until(lambda published: all(user in USERS for user, _ in published), "users are deleted")

    async def _listed(self) -> list[Any]:
        rows: list[Any] = (await self._watcher.ask(DescribeUserScramCredentialsRequest(None), 0)).results
        return rows

    async def alter(
        self,
        upsertions: Sequence[ScramCredentialUpsertion] = (),
        deletions: Sequence[ScramCredentialDeletion] = (),
    ) -> dict[str, int]:
        """The error of each user; all brokers have published what was changed."""
        before = await self._published()
        request = AlterUserScramCredentialsRequest(list(deletions), list(upsertions))
        answer = await self._client.ask(request, 0)
        errors = {row.user: row.error_code for row in answer.results}
        wanted = dict(before)
        for one in deletions:
            if errors[one.name] == Err.NONE:
                wanted.pop((one.name, one.mechanism), None)
        for new in upsertions:
            if errors[new.name] == Err.NONE:
                wanted[new.name, new.mechanism] = new.iterations
        await self._until(lambda published: published == wanted, f"published: {wanted}")
        return errors

    async def _until(self, holds: Callable[[dict[tuple[str, int], int]], bool], what: str) -> None:
        given_up_s = clock_s() + GIVE_UP_S
        while not holds(await self._published()):
            assert clock_s() < given_up_s, f"waited until {what}"
            await asyncio.sleep(POLL_S)

    async def _published(self) -> dict[tuple[str, int], int]:
        return {
            (row.user, info.mechanism): info.iterations for row in await self._listed() for info in row.credential_infos
        }

    async def describe(self, *names: str, everyone: bool = False) -> Any:
        users = None if everyone else [UserName(name) for name in names]
        answer = await self._client.ask(DescribeUserScramCredentialsRequest(users), 0)
        for row in answer.results:  # Kafka lists a map of enums: another order in every JVM
            row.credential_infos.sort(key=lambda info: int(info.mechanism))
        return answer


async def logs_in(kafka: Kafka, name: str, mechanism: str = "SCRAM-SHA-256", password: str = PASSWORD) -> bool:
    """Whether a client authenticates; what it was told is recorded. (A broker's credentials are published after its metadata, and
    altered ones are polled for.)"""
    escaped = name.replace("=", "=3D").replace(",", "=2C")
    scram, client = Scram(kafka, mechanism, escaped, password), await Client.connect(kafka)
    await client.handshake(mechanism)
    answer = await client.token(scram.first())
    if answer is None or answer.error_code:
        return False
    scram.answered(answer.auth_bytes)
    kafka.recording.note("iterations", scram.iterations)
    answer = await client.token(scram.final())
    return answer is not None and answer.error_code == Err.NONE and await client.is_served()


async def settled(kafka: Kafka, name: str, salt: bytes | None, mechanism: str = "SCRAM-SHA-256") -> None:
    """Until clients that authenticate get this salt; None: until there is no such user."""
    given_up_s = clock_s() + GIVE_UP_S
    while clock_s() < given_up_s:
        wire = await kafka.wire(record=False)
        client = Client(kafka, wire)
        await client.handshake(mechanism)
        answer = await client.token(f"n,,n={name},r=watcher".encode())
        await wire.close()
        if answer is None or answer.error_code:
            if salt is None:
                return
        elif salt is not None and f",s={base64.b64encode(salt).decode()},".encode() in answer.auth_bytes:
            return
        await asyncio.sleep(POLL_S)
    raise AssertionError(f"{name}: not published to authenticating clients")


# ---- one credential


@pytest.mark.parametrize("mechanism", HASHES)
async def test_credential_is_created_and_deleted(kafka: Kafka, mechanism: str) -> None:
    user = kafka.name("user")
    async with Admin.of(kafka) as admin:
        assert await admin.alter([upsertion(user, mechanism)]) == {user: Err.NONE}
        await settled(kafka, user, SALT, mechanism)
        await admin.describe(user)
        assert await logs_in(kafka, user, mechanism)
        assert not await logs_in(kafka, user, mechanism, "wrong")
        other = next(name for name in HASHES if name != mechanism)
        assert not await logs_in(kafka, user, other)
        assert await admin.alter(deletions=[deletion(user, mechanism)]) == {user: Err.NONE}
        await settled(kafka, user, None, mechanism)
        await admin.describe(user)
        assert not await logs_in(kafka, user, mechanism)


@pytest.mark.parametrize("mechanism", HASHES)
@pytest.mark.parametrize("iterations", [-1, 0, 1, 4095, 4096, 8192, 16384, 16385, 2**31 - 1])
async def test_iterations_of_a_credential(kafka: Kafka, mechanism: str, iterations: int) -> None:
    user, salt = kafka.name("user"), SALT
    given = ScramCredentialUpsertion(user, NUMBERS[mechanism], iterations, salt, bytes(32))
    if 4096 <= iterations <= 16384:
        given = upsertion(user, mechanism, iterations)
    async with Admin.of(kafka) as admin:
        errors = await admin.alter([given])
        await admin.describe(user)
        if errors[user] == Err.NONE:
            await settled(kafka, user, salt, mechanism)
            assert await logs_in(kafka, user, mechanism)


PARTS = {
    "no_salt": {"salt": b""},
    "salt_of_one_byte": {"salt": b"\0"},
    "long_salt": {"salt": bytes(range(256)) * 4},
    "no_password": {"salted_password": b""},
    "password_of_one_byte": {"salted_password": b"\1"},
    "password_of_another_length": {"salted_password": bytes(range(200))},
    "both_empty": {"salt": b"", "salted_password": b""},
}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("mechanism", HASHES)
async def test_salt_and_salted_password(kafka: Kafka, mechanism: str, name: str) -> None:
    user = kafka.name("user")
    given = upsertion(user, mechanism)
    for field, value in PARTS[name].items():
        setattr(given, field, value)
    async with Admin.of(kafka) as admin:
        errors = await admin.alter([given])
        await admin.describe(user)
        if errors[user] == Err.NONE:
            await settled(kafka, user, given.salt, mechanism)
            scram, client = Scram(kafka, mechanism, user, salted=given.salted_password), await Client.connect(kafka)
            await client.handshake(mechanism)
            scram.answered((await client.token(scram.first())).auth_bytes)
            await client.token(scram.final())
            await client.is_served()


@pytest.mark.parametrize("number", [-128, -1, 0, 3, 127])
async def test_unknown_mechanism_of_a_credential(kafka: Kafka, number: int) -> None:
    users = [kafka.name("created"), kafka.name("deleted")]
    given = upsertion(users[0])
    given.mechanism = number
    async with Admin.of(kafka) as admin:
        errors = await admin.alter([given], [ScramCredentialDeletion(users[1], number)])
        assert set(errors.values()) == {Err.UNSUPPORTED_SASL_MECHANISM}
        await admin.describe(*users)


NAMES = {"empty": "", "blank": " ", "umlaut": "jürgen", "comma": "scram,one", "equals": "scram=one", "long": "n" * 300}


@pytest.mark.parametrize("kind", NAMES)
async def test_names_of_users(kafka: Kafka, kind: str) -> None:
    user = NAMES[kind]
    async with Admin.of(kafka) as admin:
        if (await admin.alter([upsertion(user)]))[user] == Err.NONE:
            escaped = user.replace("=", "=3D").replace(",", "=2C")
            if kind != "umlaut":  # no name of SASL, so that nothing says when it is published
                await settled(kafka, escaped, SALT)
            await logs_in(kafka, user)
        await admin.describe(user)
        await admin.alter(deletions=[deletion(user)])


async def test_credential_that_does_not_exist_is_deleted(kafka: Kafka) -> None:
    user = kafka.name("user")
    async with Admin.of(kafka) as admin:
        assert await admin.alter(deletions=[deletion(user)]) == {user: Err.RESOURCE_NOT_FOUND}
        await admin.alter([upsertion(user)])
        assert await admin.alter(deletions=[deletion(user, "SCRAM-SHA-512")]) == {user: Err.RESOURCE_NOT_FOUND}
        await admin.describe(user)


# ---- several in one request


def _combinations(user: str) -> dict[str, tuple[list[ScramCredentialUpsertion], list[ScramCredentialDeletion]]]:
    one, two, many = upsertion(user), upsertion(user, "SCRAM-SHA-512"), upsertion(user, iterations=5000)
    few = upsertion(user, iterations=1)
    return {
        "the_same_upsertion_twice": ([one, one], []),
        "two_mechanisms": ([one, two], []),
        "two_iterations": ([one, many], []),
        "the_same_upsertion_three_times": ([one, one, one], []),
        "upsertion_and_deletion": ([one], [deletion(user, "SCRAM-SHA-512")]),
        "upsertion_and_invalid_deletion": ([two], [deletion(user)]),
        "the_same_deletion_twice": ([], [deletion(user, "SCRAM-SHA-512")] * 2),
        "deletions_of_two_mechanisms": ([], [deletion(user, "SCRAM-SHA-512"), deletion(user)]),
        "deletions_and_upsertion": ([one], [deletion(user, "SCRAM-SHA-512")] * 2),
        "invalid_and_valid": ([few, one], []),
        "valid_and_invalid": ([one, few], []),
    }


@pytest.mark.parametrize("name", _combinations(""))
async def test_user_that_is_altered_twice(kafka: Kafka, name: str) -> None:
    """Nothing is changed for such a user, whatever else the request changes."""
    user, other = kafka.name("user"), kafka.name("other")
    upsertions, deletions = _combinations(user)[name]
    async with Admin.of(kafka) as admin:
        await admin.alter([upsertion(user, "SCRAM-SHA-512", 6000)])
        errors = await admin.alter([*upsertions, upsertion(other)], deletions)
        assert errors[other] == Err.NONE
        await admin.describe(user, other)


async def test_order_of_many_users(kafka: Kafka) -> None:
    """Deletions, upsertions, errors; each in the order of a java.util.HashMap."""
    names = [f"{kafka.group}-{number}" for number in range(40)]
    async with Admin.of(kafka) as admin:
        await admin.alter([upsertion(name) for name in names[:10]])
        await admin.alter(
            [upsertion(name, iterations=1 if number % 3 == 0 else 4096) for number, name in enumerate(names[10:])],
            [
                deletion(name, "SCRAM-SHA-512" if number % 4 == 0 else "SCRAM-SHA-256")
                for number, name in enumerate(names[:10])
            ],
        )
        await admin.describe(*names)
        await admin.describe(*reversed(names))
        await admin.describe(everyone=True)


async def test_no_credential_is_altered(kafka: Kafka) -> None:
    async with Admin.of(kafka) as admin:
        assert await admin.alter() == {}


# ---- descriptions


async def test_descriptions_of_credentials(kafka: Kafka) -> None:
    user, other = kafka.name("user"), kafka.name("other")
    async with Admin.of(kafka) as admin:
        await admin.alter([upsertion(user), upsertion(other, iterations=5000)])
        await admin.alter([upsertion(user, "SCRAM-SHA-512", 7000)])
        await admin.describe(everyone=True)
        assert (await admin.describe()).results, "an empty list asks for all, too"
        await admin.describe(user, other)
        await admin.describe(other, kafka.name("unknown"), user)
        await admin.describe(user, user)
        await admin.describe(user, other, user, kafka.name("unknown"), kafka.name("unknown"))
        await admin.describe("")
        await admin.describe(*USERS)


# ---- users that have a password, too


@pytest.mark.parametrize("mechanism", HASHES)
async def test_password_of_scram_is_replaced(kafka: Kafka, mechanism: str) -> None:
    """Bob's; PLAIN and the other mechanism keep the old one."""
    other = next(name for name in HASHES if name != mechanism)
    old = upsertion("bob", mechanism, password=USERS["bob"], salt=b"salt of the tests")
    client = await Client.connect(kafka)
    await client.plain(b"\0bob\0bob-secret")
    async with Admin.of(kafka) as admin:
        await admin.alter([upsertion("bob", mechanism, 4097)])
        await settled(kafka, "bob", SALT, mechanism)
        assert await client.is_served()
        assert await logs_in(kafka, "bob", mechanism)
        assert not await logs_in(kafka, "bob", mechanism, USERS["bob"])
        assert await logs_in(kafka, "bob", other, USERS["bob"])
        assert (await (await Client.connect(kafka)).plain(b"\0bob\0bob-secret")).error_code == Err.NONE
        await admin.describe("bob")
        await admin.alter(deletions=[deletion("bob", mechanism)])
        await settled(kafka, "bob", None, mechanism)
        assert not await logs_in(kafka, "bob", mechanism)
        assert await logs_in(kafka, "bob", other, USERS["bob"])
        await admin.describe("bob")
        await admin.alter([old])
        await settled(kafka, "bob", b"salt of the tests", mechanism)


async def test_salt_of_a_user_stays(kafka: Kafka) -> None:
    """Each client that authenticates gets the credential's salt."""
    salts = set()
    for _ in range(2):
        client = await Client.connect(kafka)
        await client.handshake("SCRAM-SHA-256")
        kafka.ignore("auth_bytes", because="a nonce")
        salts.add((await client.token(b"n,,n=alice,r=client-nonce")).auth_bytes.split(b",")[1])
    kafka.recording.note("salts", len(salts))


# ---- where there are none


@pytest.mark.generations("3.4")
@pytest.mark.parametrize("key", [50, 51])
async def test_before_kip_900(kafka: Kafka, key: int) -> None:
    """A KRaft broker of 3.4 closes the connection."""
    client = await Client.connect(kafka)
    await client.plain()
    request: Any = DescribeUserScramCredentialsRequest(None) if key == 50 else AlterUserScramCredentialsRequest()
    assert await client.ask(request, 0) is None
