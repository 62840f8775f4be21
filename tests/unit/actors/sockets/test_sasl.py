"""Rules of the client's side of a SASL login: its tokens, and what of the broker is refused."""

from __future__ import annotations

import base64
import random
import re
from typing import Any

import pytest
from kafka.net.sasl import SASL_MECHANISMS
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from aktor.actors.sockets.sasl import Mechanism, OAuthBearer, Scram, make_mechanism, without_tokens
from aktor.broker.call import Call
from aktor.broker.sasl import MECHANISMS, Authentication, Users
from aktor.consumer.configuration.secrets import Secret

#: User names and passwords that must be escaped, or must not be changed.
ODD = {
    "alice": "wonderland",
    "a=b,c": "p=2C,q",
    "=2C=3D": "=3D",
    "with space;@/:%": "100 %",
    "unicode": "\ufb01\u2168\u00aa\u00a0-\u00ad\U0001f511",
    "long": "\u20ac" * 300,
}

NONCE = re.compile(r"r=([^,]+)")


def client(mechanism: str, name: str = "alice", password: str = "wonderland") -> Mechanism:
    config = {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": name,
        "sasl_plain_password": Secret(password),
        "security_protocol": "SASL_PLAINTEXT",
    }
    return make_mechanism(mechanism, "broker.example", config)


def log_in(mechanism: str, name: str, password: str) -> bool:
    """Whether the server of the embedded Kafka, which reads names as strictly as Kafka does, lets
    this user in."""
    server = Authentication(Users(ODD), rng=random.Random(1))
    answers: list[Any] = []

    def ask(handle: Any, request: Any) -> Any:
        handle(Call(request, answer=answers.append, version=1, now=0.0))
        return answers.pop()

    assert ask(server.handshake, SaslHandshakeRequest(mechanism=mechanism)).error_code == 0
    own = client(mechanism, name, password)
    while not own.is_done():
        answer = ask(server.authenticate, SaslAuthenticateRequest(auth_bytes=own.auth_bytes()))
        if answer.error_code:
            return False
        own.receive(answer.auth_bytes)
    return own.is_authenticated() and server.principal == f"User:{name}"


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("name", ODD)
def test_odd_names_and_passwords_are_let_in_and_no_others(mechanism: str, name: str) -> None:
    assert log_in(mechanism, name, ODD[name])
    assert not log_in(mechanism, name, ODD[name] + "x")


def test_plain_refuses_the_character_that_separates_its_parts() -> None:
    with pytest.raises(ValueError, match="NUL") as refused:
        client("PLAIN", password="secret-1\0x").auth_bytes()

    assert "secret-1" not in str(refused.value)


# -- SCRAM: what the broker says


def challenged(challenge: str) -> Mechanism:
    """A client that has got this challenge; "R" stands for the client's nonce."""
    own = client("SCRAM-SHA-256")
    nonce = NONCE.search(own.auth_bytes().decode())
    assert nonce is not None
    own.receive(challenge.replace("R", nonce[1]).encode())
    return own


@pytest.mark.parametrize(
    ("challenge", "said"),
    [
        ("r=R1,s=c2FsdA==,i=4095", "4095 iterations, where 4096 to 1000000"),
        ("r=R1,s=c2FsdA==,i=1000001", "1000001 iterations"),
        ("r=R1,s=c2FsdA==,i=0", "0 iterations"),
        ("r=R1,s=c2FsdA==,i=-4096", "-4096 iterations"),
        ("r=R1,s=c2FsdA==,i=4_096", "4_096 iterations"),
        ("r=R1,s=c2FsdA==,i=", "iterations"),
        ("r=R1,s=c2FsdA==", "has no 'i'"),
        ("r=R1,i=4096", "has no 's'"),
        ("s=c2FsdA==,i=4096", "has no 'r'"),
        ("r=another,s=c2FsdA==,i=4096", "nonce does not begin with ours"),
        ("r=R1,s=%%%,i=4096", "not Base64"),
        ("m=x,r=R1,s=c2FsdA==,i=4096", "an extension that is not known"),
        ("e=unknown-user", "the broker refused the login: unknown-user"),
        ("", "malformed"),
        ("nonsense", "malformed"),
    ],
)
def test_scram_refuses_a_challenge_that_is_not_sound(challenge: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        challenged(challenge)


def test_scram_takes_the_least_iterations_of_kafka() -> None:
    assert challenged("r=R1,s=c2FsdA==,i=4096").auth_bytes().startswith(b"c=biws,r=")


@pytest.mark.parametrize(
    ("proof", "said"),
    [
        (f"v={base64.b64encode(bytes(32)).decode()}", "wrong signature"),
        ("v=", "wrong signature"),
        ("v=%", "not Base64"),
        ("x=1", "has no 'v'"),
        ("e=other-error", "the broker refused the login: other-error"),
    ],
)
def test_a_broker_that_cannot_prove_to_know_the_password_is_refused(proof: str, said: str) -> None:
    own = challenged("r=R1,s=c2FsdA==,i=4096")

    with pytest.raises(ValueError, match=said):
        own.receive(proof.encode())
    assert not own.is_authenticated()


def test_scram_begins_each_login_with_another_nonce() -> None:
    assert client("SCRAM-SHA-512").auth_bytes() != client("SCRAM-SHA-512").auth_bytes()


# -- OAUTHBEARER


class Provider(AbstractTokenProvider):
    """Gives out what it was made with."""

    def __init__(self, token: Any, extensions: Any = None) -> None:
        self._given = token, extensions

    def token(self) -> Any:
        return self._given[0]

    def extensions(self) -> Any:
        return self._given[1]


class TokenOnly:
    """A provider that is no subclass of kafka-python's class, and has no extensions."""

    def token(self) -> str:
        return "t0ken"


def bearer(provider: Any) -> OAuthBearer:
    made = make_mechanism("OAUTHBEARER", "b", {"sasl_oauth_token_provider": provider})
    assert isinstance(made, OAuthBearer)
    return made


@pytest.mark.parametrize(
    ("provider", "sent"),
    [
        (Provider("t0k.en-_~+/=="), b"n,,\x01auth=Bearer t0k.en-_~+/==\x01\x01"),
        (
            Provider("t", {"a": "b c", "d": "1,2=3"}),
            b"n,,\x01auth=Bearer t\x01a=b c\x01d=1,2=3\x01\x01",
        ),
        (Provider("t", {}), b"n,,\x01auth=Bearer t\x01\x01"),
        (TokenOnly(), b"n,,\x01auth=Bearer t0ken\x01\x01"),
    ],
)
def test_a_token_is_framed_as_rfc_7628_says(provider: Any, sent: bytes) -> None:
    assert bearer(provider).auth_bytes() == sent


@pytest.mark.parametrize(
    "token", ["", "t0ken\n", "to ken", "t\x01auth=Bearer other", "t\u00f6ken", b"t0ken", None]
)
def test_what_is_no_token_is_refused_and_not_shown(token: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"token\(\) of the provider") as refused:
        bearer(Provider(token)).auth_bytes()

    assert "ken" not in str(refused.value).replace("token", "")


@pytest.mark.parametrize(
    "extensions",
    [{"auth": "x"}, {"a-b": "x"}, {"": "x"}, {"a": ""}, {"a": "x\x01b=c"}, {"a": "\u00e4"}],
)
def test_extensions_that_would_break_the_message_are_refused(extensions: Any) -> None:
    with pytest.raises(ValueError, match="SASL extension"):
        bearer(Provider("t", extensions)).auth_bytes()


def test_a_token_that_the_broker_refuses_is_followed_by_the_answer_that_ends_the_login() -> None:
    own = bearer(TokenOnly())
    own.auth_bytes()
    own.receive(b'{"status":"invalid_token"}')

    assert not own.is_done()
    assert own.auth_bytes() == b"\x01"


# -- the others


def test_a_mechanism_that_the_application_has_registered_is_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Own:
        def __init__(self, **config: Any) -> None:
            self.config = config

    monkeypatch.setitem(SASL_MECHANISMS, "PLAIN", Own)

    made: Any = make_mechanism("PLAIN", "broker.example", {"sasl_plain_username": "u"})

    assert isinstance(made, Own)
    assert made.config == {"host": "broker.example", "sasl_plain_username": "u"}


def test_scram_is_ours() -> None:
    assert isinstance(client("SCRAM-SHA-256"), Scram)


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ("LookupError: no token today", "LookupError: no token today"),
        ("the old token was canary-1; renew it", "the old token was ***; renew it"),
        ("{'access_token': 'canary'}", "{'access_token': '***'}"),
        ("Authorization: Bearer canary.x", "Authorization: Bearer ***"),
        ("401 for https://idp1.com:8443/token?a=canary", "401 for https://idp1.com:8443/token?***"),
        ("https://joe:canary@idp/token refused", "https://***@idp/token refused"),
        ("cannot parse eyJcanary.eyJcanary.canary", "cannot parse ***"),
        ("400: c4nary-of-mine is over", "400: *** is over"),
        ("[Errno 111] Connection refused", "[Errno 111] Connection refused"),
    ],
)
def test_what_may_be_a_token_is_left_out_of_a_providers_text(told: str, shown: str) -> None:
    assert without_tokens(told) == shown
