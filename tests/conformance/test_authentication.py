"""A SASL listener: the order of requests, and the tokens of each mechanism (SaslServerAuthenticator, KIP-43, KIP-152, KIP-255)."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable

import pytest

from kafka_wire.errors import Err
from kafka_wire.frame import encode_request_header
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from kafka_wire.messages.k17_sasl_handshake import SaslHandshakeRequest
from kafka_wire.messages.k36_sasl_authenticate import SaslAuthenticateRequest
from tests.conformance.authenticating import ALICE, HASHES, REQUESTS, Client, Scram, exchange, jwt
from tests.conformance.driver import Kafka
from tests.support.bearer_tokens import bearer, encoded

pytestmark = [pytest.mark.generations("3.4", "4.1", "4.4"), pytest.mark.profile("sasl")]
MODERN = pytest.mark.generations("4.1", "4.4")
"""A broker of 3.4 keeps SCRAM users in ZooKeeper alone."""


# ---- the order of requests


@pytest.mark.parametrize("name", REQUESTS)
async def test_first_request(kafka: Kafka, name: str) -> None:
    client = await Client.connect(kafka)
    await exchange(client, name)
    await exchange(client, "ApiVersions")
    await client.plain()
    await client.is_served()


@pytest.mark.parametrize("name", REQUESTS)
async def test_request_behind_api_versions(kafka: Kafka, name: str) -> None:
    client = await Client.connect(kafka)
    await exchange(client, "ApiVersions")
    await exchange(client, name)
    await client.plain()
    await client.is_served()


@pytest.mark.parametrize("name", REQUESTS)
async def test_request_between_handshake_and_authenticate(kafka: Kafka, name: str) -> None:
    client = await Client.connect(kafka)
    await client.handshake("PLAIN")
    await exchange(client, name)
    await client.token(ALICE)
    await client.is_served()


@pytest.mark.parametrize("name", REQUESTS)
async def test_request_of_an_authenticated_client(kafka: Kafka, name: str) -> None:
    client = await Client.connect(kafka)
    await client.plain()
    await exchange(client, name)
    assert await client.is_served()


@pytest.mark.parametrize("key", [3, 12, 17, 18, 36, 999, -1])
@pytest.mark.parametrize("before", ["nothing", "ApiVersions", "SaslHandshake", "authenticated"])
async def test_unknown_version_or_api(kafka: Kafka, key: int, before: str) -> None:
    client = await Client.connect(kafka)
    if before == "authenticated":
        await client.plain()
    elif before != "nothing":
        await exchange(client, before)
    request = encode_request_header(key, 99, 7, "test") + bytes(20)
    client.wire.write_raw(len(request).to_bytes(4, "big") + request)
    answer = await client.wire.next_frame_or_end()
    kafka.recording.note("error code", "closed" if answer is None else answer[4:6])
    await exchange(client, "ApiVersions")
    await client.plain()
    await client.is_served()


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_versions_of_authenticate(kafka: Kafka, version: int) -> None:
    client = await Client.connect(kafka)
    assert (await client.plain(version=version)).error_code == Err.NONE
    assert await client.is_served()


RAW = {
    "nothing": b"",
    "one_byte": b"\0",
    "nine_bytes": bytes(9),
    "zeros": bytes(30),
    "text": b"GET / HTTP/1.1\r\n\r\n",
    "kerberos": bytes.fromhex("60820111060b2a864886f712010202"),
    "plain_token": ALICE,
    "handshake_cut": encode_request_header(17, 1, 7, "test") + b"\0\x05PLA",
    "handshake_longer": encode_request_header(17, 1, 7, "test") + b"\0\x05PLAINmore",
    "handshake_null": encode_request_header(17, 1, 7, "test") + b"\xff\xff",
    "api_versions_cut": encode_request_header(18, 3, 7, "test") + b"\x05te",
    "no_client_id": encode_request_header(17, 1, 7, None) + b"\0\x05PLAIN",
}


@pytest.mark.parametrize("before", ["nothing", "ApiVersions", "SaslHandshake"])
@pytest.mark.parametrize("name", RAW)
async def test_bytes_that_are_no_request(kafka: Kafka, name: str, before: str) -> None:
    client = await Client.connect(kafka)
    if before != "nothing":
        await exchange(client, before)
    await client.raw(RAW[name])
    await client.is_served()


LIMIT = 524_288
"""sasl.server.max.receive.size."""


@pytest.mark.parametrize("size", [LIMIT, LIMIT + 1, 600_000])
async def test_size_of_a_token(kafka: Kafka, size: int) -> None:
    """The size is that of the whole frame; the token in it is one of PLAIN whose password is too long to be right."""
    client = await Client.connect(kafka)
    await client.handshake("PLAIN")
    header = len(encode_request_header(36, 1, 2, "wire")) + 4
    await client.token(b"\0alice\0".ljust(size - header, b"x"), 1)
    await client.is_served()


@pytest.mark.parametrize("size", [LIMIT, LIMIT + 1, -1, 2**31 - 1])
async def test_size_of_the_first_frame(kafka: Kafka, size: int) -> None:
    client = await Client.connect(kafka)
    client.wire.write_raw(size.to_bytes(4, "big", signed=True) + encode_request_header(17, 1, 7, "test"))
    if size == LIMIT:  # is read to its end
        client.wire.write_raw(b"\x7f\xff".ljust(size, b"x"))
    await client.wire.closed()


# ---- PLAIN

PLAIN: dict[str, tuple[bytes, bool]] = {
    "right": (ALICE, True),
    "wrong_password": (b"\0alice\0wrong", False),
    "unknown_user": (b"\0nobody\0alice-secret", False),
    "password_of_another": (b"\0alice\0bob-secret", False),
    "upper_case": (b"\0ALICE\0alice-secret", False),
    "empty_user": (b"\0\0alice-secret", False),
    "empty_password": (b"\0alice\0", False),
    "all_empty": (b"\0\0", False),
    "two_fields": (b"alice\0alice-secret", False),
    "one_field": (b"alice", False),
    "nothing": (b"", False),
    "four_fields": (b"\0alice\0alice-secret\0more", False),
    "nul_at_the_end": (b"\0alice\0alice-secret\0", False),
    "authzid_equal": (b"alice\0alice\0alice-secret", True),
    "authzid_different": (b"bob\0alice\0alice-secret", False),
    "authzid_different_and_wrong_password": (b"bob\0alice\0wrong", False),
    "authzid_unknown": (b"nobody\0alice\0alice-secret", False),
    "user_no_utf8": (b"\0al\xffice\0alice-secret", False),
    "password_no_utf8": (b"\0alice\0alice-\xffsecret", False),
    "authzid_no_utf8": (b"\xff\0alice\0alice-secret", False),
    "spaces": (b"\0 alice \0alice-secret", False),
}


@pytest.mark.parametrize("name", PLAIN)
async def test_plain(kafka: Kafka, name: str) -> None:
    token, right = PLAIN[name]
    client = await Client.connect(kafka)
    answer = await client.plain(token)
    assert (answer.error_code == Err.NONE) is right
    assert await client.is_served() is right


async def test_a_second_token_of_plain(kafka: Kafka) -> None:
    client = await Client.connect(kafka)
    await client.plain()
    assert (await client.token(ALICE)).error_code == Err.ILLEGAL_SASL_STATE
    assert await client.is_served()


# ---- SCRAM

FIRST: dict[str, dict[str, str]] = {
    "right": {},
    "unknown_user": {"name": "nobody"},
    "empty_user": {"name": ""},
    "escaped_user": {"name": "x=2Cy=3Dz"},
    "escaped_in_lower_case": {"name": "x=2cy=3dz"},
    "comma_unescaped": {"name": "x,y"},
    "equals_unescaped": {"name": "x=2Cy=z"},
    "channel_binding_supported": {"gs2": "y,,"},
    "channel_binding_used": {"gs2": "p=tls-unique,,"},
    "authzid_equal": {"gs2": "n,a=alice,"},
    "authzid_different": {"gs2": "n,a=bob,"},
    "authzid_empty": {"gs2": "n,a=,"},
    "authzid_escaped": {"gs2": "n,a=x=2Cy=3Dz,", "name": "x=2Cy=3Dz"},
    "authzid_different_of_unknown": {"gs2": "n,a=bob,", "name": "nobody"},
    "no_gs2": {"gs2": ""},
    "reserved": {"reserved": "m=must,"},
    "extension": {"more": ",ext=1"},
    "extension_twice": {"more": ",ext=1,ext=2"},
    "extension_without_name": {"more": ",=1"},
    "extension_empty": {"more": ",ext="},
    "extension_with_equals": {"more": ",ext=a=b"},
    "token_authentication": {"more": ",tokenauth=true"},
    "no_token_authentication": {"more": ",tokenauth=false"},
    "comma_at_the_end": {"more": ","},
    "nonce_not_printable": {"more": "\x7f"},
    "user_not_ascii": {"name": "älice"},
    "nonce_not_ascii": {"more": "ä"},
}


@MODERN
@pytest.mark.parametrize("name", FIRST)
@pytest.mark.parametrize("mechanism", HASHES)
async def test_scram_first_message(kafka: Kafka, mechanism: str, name: str) -> None:
    """And, where it is taken, the rest of the exchange."""
    given = dict(FIRST[name])
    more, reserved = given.pop("more", ""), given.pop("reserved", "")
    scram = Scram(kafka, mechanism, **given, password="comma" if "2C" in given.get("name", "") else "alice-secret")
    client = await Client.connect(kafka)
    await client.handshake(mechanism)
    answer = await client.token(scram.first(more, reserved=reserved))
    if answer is not None and answer.error_code == Err.NONE:
        scram.answered(answer.auth_bytes)
        answer = await client.token(scram.final())
        if answer is not None and answer.error_code == Err.NONE:
            assert answer.auth_bytes == b"v=" + base64.b64encode(scram.signature())
    await client.is_served()


@pytest.mark.parametrize("mechanism", HASHES)
@pytest.mark.parametrize(
    "first", ["n,,n=nobody,r=abc", "n,a=bob,n=nobody,r=abc", "n,,n=,r=abc", "y,,n=nobody,r=abc", ""]
)
async def test_scram_unknown_user(kafka: Kafka, mechanism: str, first: str) -> None:
    client = await Client.connect(kafka)
    await client.handshake(mechanism)
    assert (await client.token(first.encode())).error_code == Err.SASL_AUTHENTICATION_FAILED
    assert not await client.is_served()


FINAL: dict[str, Callable[[Scram], bytes]] = {
    "wrong_proof": lambda scram: scram.final(proof=base64.b64encode(bytes(32)).decode()),
    "wrong_length": lambda scram: scram.final(proof="AAAA"),
    "empty_proof": lambda scram: scram.final(proof=""),
    "bad_base64": lambda scram: scram.final(proof="AA"),
    "no_base64": lambda scram: scram.final(proof="!!!!"),
    "changed_nonce": lambda scram: scram.final(nonce=scram.nonce + "x"),
    "longer_nonce": lambda scram: scram.final(nonce="x" + scram.nonce),
    "client_nonce_alone": lambda scram: scram.final(nonce="client-nonce"),
    "other_channel": lambda scram: scram.final(channel=base64.b64encode(b"y,,").decode()),
    "no_channel": lambda scram: scram.final(channel=""),
    "channel_bad_base64": lambda scram: scram.final(channel="biw"),
    "extension": lambda scram: scram.final(more=",ext=1"),
    "extension_without_name": lambda scram: scram.final(more=",=1"),
    "first_again": lambda scram: scram.first(),
    "empty": lambda _: b"",
    "no_utf8": lambda scram: scram.final().replace(b",p=", b",\xff,p="),
    "more_behind": lambda scram: scram.final() + b",x=1",
    "without_proof": lambda scram: scram.final().split(b",p=")[0],
}


@MODERN
@pytest.mark.parametrize("name", FINAL)
@pytest.mark.parametrize("mechanism", HASHES)
async def test_scram_final_message(kafka: Kafka, mechanism: str, name: str) -> None:
    scram, client = Scram(kafka, mechanism), await Client.connect(kafka)
    await client.handshake(mechanism)
    scram.answered((await client.token(scram.first())).auth_bytes)
    await client.token(FINAL[name](scram))
    await client.is_served()


@MODERN
@pytest.mark.parametrize("mechanism", HASHES)
async def test_scram_wrong_password(kafka: Kafka, mechanism: str) -> None:
    scram, client = Scram(kafka, mechanism, password="wrong"), await Client.connect(kafka)
    await client.handshake(mechanism)
    scram.answered((await client.token(scram.first())).auth_bytes)
    assert (await client.token(scram.final())).error_code == Err.SASL_AUTHENTICATION_FAILED
    assert not await client.is_served()


@MODERN
@pytest.mark.parametrize("mechanism", HASHES)
async def test_scram_final_message_first(kafka: Kafka, mechanism: str) -> None:
    client = await Client.connect(kafka)
    await client.handshake(mechanism)
    await client.token(b"c=biws,r=client-nonce,p=AAAA")
    assert not await client.is_served()


@MODERN
async def test_scram_one_more_token(kafka: Kafka) -> None:
    scram, client = Scram(kafka, "SCRAM-SHA-256"), await Client.connect(kafka)
    await client.handshake("SCRAM-SHA-256")
    scram.answered((await client.token(scram.first())).auth_bytes)
    await client.token(scram.final())
    await client.token(b"")
    assert await client.is_served()


@MODERN
async def test_scram_request_between_tokens(kafka: Kafka) -> None:
    scram, client = Scram(kafka, "SCRAM-SHA-256"), await Client.connect(kafka)
    await client.handshake("SCRAM-SHA-256")
    scram.answered((await client.token(scram.first())).auth_bytes)
    await exchange(client, "Metadata")
    assert not await client.is_served()


# ---- OAUTHBEARER


def _tokens() -> dict[str, str]:
    """Made when they are sent: they contain the time."""
    now_s = int(time.time())
    whole = json.dumps({"sub": "alice", "exp": now_s + 3600}).encode()
    claims, none = encoded(whole), encoded(b'{"alg":"none"}')
    twice = whole.replace(b"{", b'{"sub":"bob",')
    return {
        "right": jwt(),
        "no_iat": jwt(left_out="iat"),
        "expired": jwt(exp=now_s - 10),
        "exp_0": jwt(exp=0),
        "exp_negative": jwt(exp=-5),
        "exp_fraction": jwt(exp=now_s + 3600.5),
        "exp_text": jwt(exp=str(now_s + 3600)),
        "exp_null": jwt(exp=None),
        "exp_bool": jwt(exp=True),
        "exp_far": jwt(exp=10**15),
        "exp_beyond_long": jwt(exp=10**30),
        "no_exp": jwt(left_out="exp"),
        "no_sub": jwt(left_out="sub"),
        "sub_empty": jwt(sub=""),
        "sub_blank": jwt(sub="  "),
        "sub_number": jwt(sub=7),
        "sub_null": jwt(sub=None),
        "sub_list": jwt(sub=["alice"]),
        "sub_not_ascii": jwt(sub="älice"),
        "iat_future": jwt(iat=now_s + 600),
        "iat_behind_exp": jwt(iat=now_s + 600, exp=now_s + 300),
        "iat_text": jwt(iat="yesterday"),
        "iat_null": jwt(iat=None),
        "iat_negative": jwt(iat=-1),
        "scope": jwt(scope="read write"),
        "scope_list": jwt(scope=["read", "write"]),
        "scope_number": jwt(scope=7),
        "scope_mixed": jwt(scope=["read", 7]),
        "signed": jwt({"alg": "HS256", "typ": "JWT"}, "c2lnbmF0dXJl"),
        "signed_none": jwt(signature="c2lnbmF0dXJl"),
        "alg_hs256_unsigned": jwt({"alg": "HS256"}),
        "alg_upper_case": jwt({"alg": "NONE"}),
        "no_alg": jwt({"typ": "JWT"}),
        "alg_null": jwt({"alg": None}),
        "header_list": jwt(["none"]),
        "two_parts": f"{none}.{claims}",
        "one_part": none,
        "four_parts": f"{none}.{claims}..",
        "dot": ".",
        "two_dots": "..",
        "no_claims": f"{none}..",
        "claims_malformed": f"{none}.{encoded(b'{')}.",
        "claims_no_json": f"{none}.{encoded(b'alice')}.",
        "claims_list": f"{none}.{encoded(b'[1]')}.",
        "claims_number": f"{none}.{encoded(b'7')}.",
        "claims_empty": f"{none}.{encoded(b'{}')}.",
        "claims_no_base64": f"{none}.A.",
        "header_malformed": f"{encoded(b'{')}.{claims}.",
        "header_no_json": f"abc.{claims}.",
        "claim_twice": f"{none}.{encoded(twice)}.",
        "more_behind_the_claims": f"{none}.{encoded(whole + b'x')}.",
        "url_characters": jwt(x="ÿ?ÿ>" * 3),
        "nested": jwt(x={"a": [1, {"b": None}]}),
        "not_a_token": "token",
    }


TOKENS = list(_tokens())


@pytest.mark.parametrize("name", TOKENS)
async def test_oauthbearer_token(kafka: Kafka, name: str) -> None:
    """An error is confirmed by the client with one byte."""
    kafka.ignore("session_lifetime_ms", because="it is what is left until the token's exp")
    client = await Client.connect(kafka)
    await client.handshake("OAUTHBEARER")
    answer = await client.token(bearer(_tokens()[name]))
    if answer is not None and answer.error_code == Err.NONE:
        kafka.recording.note("has a session that ends", answer.session_lifetime_ms > 0)
        if answer.auth_bytes:
            await client.token(b"\x01")
    await client.is_served()


BEARERS: dict[str, Callable[[], bytes]] = {
    "authzid_equal": lambda: bearer(jwt(), gs2="n,a=alice,"),
    "authzid_different": lambda: bearer(jwt(), gs2="n,a=bob,"),
    "authzid_different_of_expired": lambda: bearer(jwt(exp=1), gs2="n,a=bob,"),
    "authzid_empty": lambda: bearer(jwt(), gs2="n,a=,"),
    "authzid_escaped": lambda: bearer(jwt(sub="x,y"), gs2="n,a=x=2Cy,"),
    "channel_binding": lambda: bearer(jwt(), gs2="y,,"),
    "no_gs2": lambda: bearer(jwt(), gs2=""),
    "scheme_lower_case": lambda: bearer(jwt(), scheme="bearer"),
    "scheme_other": lambda: bearer(jwt(), scheme="Basic"),
    "scheme_two_spaces": lambda: bearer(jwt(), scheme="Bearer "),
    "no_scheme": lambda: bearer(jwt(), scheme=""),
    "extension": lambda: bearer(jwt(), pairs="traceId=123\x01"),
    "extensions": lambda: bearer(jwt(), pairs="traceId=123\x01host=a b\x01port=9\x01"),
    "extension_before": lambda: bearer(jwt()).replace(b"\x01auth", b"\x01traceId=123\x01auth"),
    "extension_named_auth": lambda: bearer(jwt(), pairs="auth=x\x01"),
    "auth_twice": lambda: bearer("token", pairs=f"auth=Bearer {jwt()}\x01"),
    "extension_with_digit": lambda: bearer(jwt(), pairs="trace1=123\x01"),
    "extension_with_dash": lambda: bearer(jwt(), pairs="trace-id=123\x01"),
    "extension_empty": lambda: bearer(jwt(), pairs="traceId=\x01"),
    "extension_without_equals": lambda: bearer(jwt(), pairs="traceId\x01"),
    "extension_with_equals": lambda: bearer(jwt(), pairs="traceId=a=b\x01"),
    "extension_not_ascii": lambda: bearer(jwt(), pairs="traceId=ä\x01"),
    "no_auth": lambda: b"n,,\x01host=a\x01\x01",
    "no_pairs": lambda: b"n,,\x01\x01",
    "one_separator": lambda: b"n,,\x01",
    "empty": lambda: b"",
    "one_byte": lambda: b"\x01",
    "end_missing": lambda: bearer(jwt())[:-1],
    "more_behind": lambda: bearer(jwt()) + b"x",
    "token_alone": lambda: jwt().encode(),
    "no_utf8": lambda: bearer(jwt()).replace(b"n,,", b"n,a=\xff,"),
    "token_with_padding": lambda: bearer(jwt() + "="),
    "token_with_slash": lambda: bearer("a/b.c.d"),
}


@pytest.mark.parametrize("name", BEARERS)
async def test_oauthbearer_message(kafka: Kafka, name: str) -> None:
    kafka.ignore("session_lifetime_ms", because="it is what is left until the token's exp")
    client = await Client.connect(kafka)
    await client.handshake("OAUTHBEARER")
    await client.token(BEARERS[name]())
    await client.is_served()


BEHIND_AN_ERROR: dict[str, Callable[[], bytes]] = {
    "one_byte": lambda: b"\x01",
    "two_bytes": lambda: b"\x01\x01",
    "nothing": lambda: b"",
    "a_right_token": lambda: bearer(jwt()),
    "a_wrong_token": lambda: bearer(jwt(exp=1)),
}


@pytest.mark.parametrize("name", BEHIND_AN_ERROR)
async def test_oauthbearer_behind_an_error(kafka: Kafka, name: str) -> None:
    kafka.ignore("session_lifetime_ms", because="it is what is left until the token's exp")
    client = await Client.connect(kafka)
    await client.handshake("OAUTHBEARER")
    assert (await client.token(bearer(jwt(exp=1)))).auth_bytes == b'{"status":"invalid_token"}'
    await client.token(BEHIND_AN_ERROR[name]())
    await client.token(b"\x01")
    await client.is_served()


# ---- SaslHandshake v0: tokens without headers


@pytest.mark.parametrize("name", PLAIN)
async def test_raw_plain(kafka: Kafka, name: str) -> None:
    token, right = PLAIN[name]
    client = await Client.connect(kafka)
    await client.handshake("PLAIN", 0)
    assert (await client.raw(token) == b"") is right
    assert await client.is_served() is right


@MODERN
@pytest.mark.parametrize("password", ["alice-secret", "wrong"])
@pytest.mark.parametrize("mechanism", HASHES)
async def test_raw_scram(kafka: Kafka, mechanism: str, password: str) -> None:
    scram, client = Scram(kafka, mechanism, password=password), await Client.connect(kafka)
    await client.handshake(mechanism, 0)
    first = await client.raw(scram.first())
    assert first is not None
    scram.answered(first)
    final = await client.raw(scram.final())
    assert (final is not None) is (password == "alice-secret")
    await client.is_served()


@pytest.mark.parametrize("mechanism", HASHES)
async def test_raw_scram_unknown_user(kafka: Kafka, mechanism: str) -> None:
    client = await Client.connect(kafka)
    await client.handshake(mechanism, 0)
    assert await client.raw(b"n,,n=nobody,r=abc") is None


@pytest.mark.parametrize("expired", [False, True])
async def test_raw_oauthbearer(kafka: Kafka, expired: bool) -> None:
    client = await Client.connect(kafka)
    await client.handshake("OAUTHBEARER", 0)
    if await client.raw(bearer(jwt(exp=1) if expired else jwt())):
        await client.raw(b"\x01")
    await client.is_served()


async def test_a_token_with_header_behind_handshake_v0(kafka: Kafka) -> None:
    client = await Client.connect(kafka)
    await client.handshake("PLAIN", 0)
    await client.token(ALICE)
    assert not await client.is_served()


@pytest.mark.parametrize("size", [LIMIT, LIMIT + 1, -1])
async def test_size_of_a_raw_token(kafka: Kafka, size: int) -> None:
    client = await Client.connect(kafka)
    await client.handshake("PLAIN", 0)
    client.wire.write_raw(size.to_bytes(4, "big", signed=True) + b"\0alice\0".ljust(max(size, 7), b"x"))
    await client.wire.closed()


async def test_requests_sent_at_once(kafka: Kafka) -> None:
    """A client that does not wait for the answers."""
    client = await Client.connect(kafka)
    answers = [
        client.wire.start(SaslHandshakeRequest("PLAIN"), 1),
        client.wire.start(SaslAuthenticateRequest(ALICE), 2),
        client.wire.start(HeartbeatRequest("", 1, "m"), 4),
    ]
    assert [(await answer).error_code for answer in answers[:2]] == [Err.NONE, Err.NONE]
    await answers[2]
