"""The exchanges by themselves: what is accepted, what is refused with which words, and RFC 7677's own example."""

from __future__ import annotations

import base64
import hashlib
import hmac
import random
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_sim.authentication import AuthenticationFailed
from broker_sim.authentication.client import client_tokens
from broker_sim.authentication.credentials import ScramCredentials
from broker_sim.authentication.mechanisms import Exchange, begin
from broker_sim.authentication.security import MECHANISMS
from tests.authentication.exchange import ALICE, jwt
from tests.support.bearer_tokens import bearer

NOW_MS = 1_700_000_000_000
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
INVALID = b'{"status":"invalid_token"}'


def exchange(mechanism: str, users: dict[str, str] | None = None, seed: int = 1) -> Exchange:
    """A new one."""
    return begun(mechanism, ALICE if users is None else users, random.Random(seed))


def begun(mechanism: str, users: dict[str, str], rng: random.Random) -> Exchange:
    return begin(mechanism, users, ScramCredentials(users, {}, SCRAM, rng), rng, lambda: NOW_MS)


def failure(of: Exchange, token: bytes) -> AuthenticationFailed:
    """Return the error with which the exchange refuses a token."""
    with pytest.raises(AuthenticationFailed) as raised:
        of.evaluate(token)
    assert not of.complete
    return raised.value


def carried_out(mechanism: str, users: dict[str, str], user: str, password: str, seed: int = 1) -> Exchange:
    """The whole exchange with a client that verifies the broker's signature. Raises AuthenticationFailed."""
    broker, client = exchange(mechanism, users, seed), client_tokens(mechanism, user, password)
    token = next(client)
    try:
        while True:
            token = client.send(broker.evaluate(token))
    except StopIteration:
        return broker


@pytest.mark.parametrize("mechanism", [name for name in MECHANISMS if name != "OAUTHBEARER"])
@given(
    user=st.text(st.characters(min_codepoint=1, max_codepoint=0x7F), min_size=1),  # as Kafka's, SCRAM takes ASCII alone
    password=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1),
    seed=st.integers(0, 2**32),
)
def test_any_name_and_password_are_accepted_and_another_password_is_not(
    mechanism: str, user: str, password: str, seed: int
) -> None:
    done = carried_out(mechanism, {user: password}, user, password, seed)
    assert (done.complete, done.user, done.expires_ms) == (True, user, None)
    with pytest.raises(AuthenticationFailed):
        carried_out(mechanism, {user: password + "x"}, user, password, seed)


def test_the_example_of_rfc_7677() -> None:
    class ServersNonce(bytes):
        def hex(self, *_: Any) -> str:
            return "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"

    class Chance(random.Random):
        def randbytes(self, n: int) -> bytes:
            return base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==") if n == 16 else ServersNonce()

    broker = begun("SCRAM-SHA-256", {"user": "pencil"}, Chance())
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    first = broker.evaluate(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first == f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
    final = broker.evaluate(f"c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode())
    assert final == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize(
    ("token", "reason", "shown"),
    [
        (b"\0alice\0wrong", "wrong password of user 'alice'", "Authentication failed: Invalid username or password"),
        (b"\0bob\0secret", "user 'bob' does not exist", "Authentication failed: Invalid username or password"),
        (
            b"\0\0secret",
            "Authentication failed: username not specified",
            "Authentication failed: username not specified",
        ),
        (
            b"\0alice\0",
            "Authentication failed: password not specified",
            "Authentication failed: password not specified",
        ),
        (
            b"bob\0alice\0secret",
            "user 'alice' asks to act as 'bob'",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
    ],
)
def test_plain_tokens_that_are_refused(token: bytes, reason: str, shown: str | None) -> None:
    error = failure(exchange("PLAIN"), token)
    assert (str(error), error.shown) == (reason, shown)


def test_plain_with_the_own_name_as_the_one_to_act_as() -> None:
    broker = exchange("PLAIN")
    assert broker.evaluate(b"alice\0alice\0secret") == b""
    assert broker.user == "alice"


@pytest.mark.parametrize("mechanism", SCRAM)
@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (b"n,,n=bob,r=abc", "user 'bob' does not exist"),
        (b"", "invalid SCRAM client first message"),
        (b"y,,n=alice,r=", "invalid SCRAM client first message"),
        (b"\xff\xfe", "invalid SCRAM client first message"),
        (b"n,a=bob,n=alice,r=abc", "user 'alice' asks to act as 'bob'"),
    ],
)
def test_scram_first_messages_that_are_refused(mechanism: str, first: bytes, reason: str) -> None:
    assert str(failure(exchange(mechanism), first)) == reason


@pytest.mark.parametrize("mechanism", SCRAM)
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda final: final.replace(b"p=", b"p=AAAA"), "a proof of "),
        (lambda final: re.sub(b"p=....", b"p=AAAA", final), "wrong password of user 'alice'"),
        (lambda final: final[:-8] + b"p=!", "invalid SCRAM client final message"),
        (lambda final: final.replace(b"r=", b"r=x"), "another nonce in the SCRAM client final message"),
        (lambda final: b"", "invalid SCRAM client final message"),
    ],
)
def test_scram_final_messages_that_are_refused(mechanism: str, change: Any, reason: str) -> None:
    broker, client = exchange(mechanism), client_tokens(mechanism, "alice", "secret")
    final = client.send(broker.evaluate(next(client)))
    assert str(failure(broker, change(final))).startswith(reason)


def final_of(broker: Exchange, nonce: str) -> bytes:
    """alice's final message with the right proof for that nonce; ``{client}`` and ``{broker}`` stand for those of the exchange."""
    bare = "n=alice,r=abc"
    first = broker.evaluate(f"n,,{bare}".encode()).decode()
    fields = dict(part.split("=", 1) for part in first.split(","))
    salted = hashlib.pbkdf2_hmac("sha256", b"secret", base64.b64decode(fields["s"]), int(fields["i"]))
    unproven = f"c=biws,r={nonce.format(client='abc', broker=fields['r'])}"
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    messages = f"{bare},{first},{unproven}".encode()
    signature = hmac.digest(hashlib.sha256(client_key).digest(), messages, "sha256")
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return f"{unproven},p={base64.b64encode(proof).decode()}".encode()


@pytest.mark.parametrize(
    ("nonce", "reason"),
    [
        ("{broker}", None),
        ("{client}{broker}", "has the client's nonce twice, as librdkafka before 2.6.1 sends it"),
        ("{client}", "another nonce in the SCRAM client final message"),
        ("x", "another nonce in the SCRAM client final message"),
    ],
)
@pytest.mark.parametrize("release", [(3, 4), (3, 6), (3, 7), (3, 8), (4, 4)])
def test_another_nonce_than_the_broker_s_is_accepted_before_3_7(
    release: tuple[int, int], nonce: str, reason: str | None
) -> None:
    rng = random.Random(1)
    credentials = ScramCredentials(ALICE, {}, SCRAM, rng)
    broker = begin("SCRAM-SHA-256", ALICE, credentials, rng, lambda: NOW_MS, release)
    final = final_of(broker, nonce)
    if reason is None or release < (3, 7):
        assert broker.evaluate(final).startswith(b"v=")
        assert broker.complete
    else:
        assert reason in str(failure(broker, final))


@pytest.mark.parametrize("mechanism", SCRAM)
def test_a_client_knows_a_broker_that_does_not_know_the_password(mechanism: str) -> None:
    broker, client = exchange(mechanism), client_tokens(mechanism, "alice", "secret")
    answer = broker.evaluate(client.send(broker.evaluate(next(client))))
    with pytest.raises(AuthenticationFailed, match="it does not know the password"):
        client.send(answer[:-4] + b"AAAA")
    assert broker.complete


@pytest.mark.parametrize("mechanism", SCRAM)
def test_salt_and_nonce_follow_from_the_seed(mechanism: str) -> None:
    answers = [exchange(mechanism, seed=seed).evaluate(b"n,,n=alice,r=abc") for seed in (1, 1, 2)]
    assert answers[0] == answers[1] != answers[2]


def test_an_unsecured_token_is_its_subject_until_it_expires() -> None:
    broker = exchange("OAUTHBEARER", {})
    assert broker.evaluate(bearer(jwt({"sub": "carol", "exp": NOW_MS / 1000 + 60, "iat": NOW_MS / 1000}))) == b""
    assert (broker.complete, broker.user, broker.expires_ms) == (True, "carol", NOW_MS + 60_000)


LATER = NOW_MS // 1000 + 60


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (jwt({"sub": "carol", "exp": NOW_MS // 1000}), "it has expired"),
        (jwt({"sub": "carol", "exp": LATER + 1, "iat": LATER}), "its 'iat' is later than the broker's clock"),
        (jwt({"sub": "carol", "exp": LATER, "iat": LATER}), "its 'iat' is no time before its 'exp'"),
        (jwt({"exp": LATER}), "it has no 'sub'"),
        (jwt({"sub": 5, "exp": LATER}), "it has no 'sub'"),
        (jwt({"sub": "carol"}), "it has no 'exp', seconds since the epoch"),
        (jwt({"sub": "carol", "exp": True}), "it has no 'exp', seconds since the epoch"),
        (jwt({"sub": "carol", "exp": LATER}, "RS256", "abc"), "it is signed (alg 'RS256')"),
        (jwt({"sub": "carol", "exp": LATER}, signature="abc"), "it is signed (alg 'none')"),
        ("abc", "it is no JWT of three parts"),
        ("abc.def.", "a part of it is not JSON in base64url"),
    ],
)
def test_tokens_that_are_refused_once_the_client_has_seen_why(token: str, reason: str) -> None:
    broker = exchange("OAUTHBEARER", {})
    assert broker.evaluate(bearer(token)) == INVALID
    error = failure(broker, b"\x01")
    assert str(error).startswith(f"invalid OAuth token: {reason}")
    assert error.shown == INVALID.decode()


def test_a_token_acts_as_nobody_else_and_a_message_has_its_form() -> None:
    token = jwt({"sub": "carol", "exp": LATER})
    assert exchange("OAUTHBEARER").evaluate(bearer(token, gs2="n,a=carol,")) == b""
    shown = failure(exchange("OAUTHBEARER"), bearer(token, gs2="n,a=bob,")).shown
    assert shown is not None
    assert "(bob) that is different from the token's principal name (carol)" in shown
    for message in (b"", b"\x01", bearer(token)[:-1]):
        assert str(failure(exchange("OAUTHBEARER"), message)) == "invalid OAUTHBEARER client first message"


@pytest.mark.parametrize(("mechanism", "longest"), [("OAUTHBEARER", 65_536), (SCRAM[0], 8192)])
def test_a_token_is_looked_at_if_it_is_not_too_long(
    mechanism: str, longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka takes half a megabyte: the 126,000 extensions of a client that nobody knows yet would take all others' time."""
    looked_at: list[int] = []
    broker = exchange(mechanism)
    answer = broker._answer
    monkeypatch.setattr(broker, "_answer", lambda token: looked_at.append(len(token)) or answer(token))
    for size in (longest + 1, 524_288):
        assert str(failure(broker, b"x" * size)) == f"a SASL token of {size} bytes; expected at most {longest}"
    assert looked_at == []
    failure(broker, b"x" * longest)
    assert looked_at == [longest]


def test_scram_takes_as_many_extensions_as_fit() -> None:
    head = b"n,,n=alice,r=nonce"
    many = head + b",a=b" * ((8192 - len(head)) // 4)
    assert exchange(SCRAM[0]).evaluate(many).startswith(b"r=nonce")
    assert "at most" in str(failure(exchange(SCRAM[0]), many + b",a=b"))


def test_what_needs_more_than_usual_is_taken() -> None:
    """A password of some KB, as cloud services have it, and a token of a user with 1,000 groups."""
    long = {"alice": "p" * 60_000}
    assert carried_out("PLAIN", long, "alice", long["alice"]).user == "alice"
    groups = [f"11111111-2222-3333-4444-{n:012}" for n in range(1000)]
    token = bearer(jwt({"sub": "alice", "exp": NOW_MS / 1000 + 60, "groups": groups}))
    assert len(token) > 50_000
    broker = exchange("OAUTHBEARER")
    assert broker.evaluate(token) == b""
    assert broker.user == "alice"


def test_a_long_name_is_logged_in_part() -> None:
    name = "n" * 60_000
    for token in (f"\0{name}\0secret", f"{name}\0alice\0secret"):
        assert len(str(failure(exchange("PLAIN"), token.encode()))) < 500
    assert len(str(failure(exchange(SCRAM[0]), f"n,,n={name[:8000]},r=x".encode()))) < 500
