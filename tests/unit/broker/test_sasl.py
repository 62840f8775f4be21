"""Logging in, by kafka-python's own clients and by clients that do it wrong."""

from __future__ import annotations

import base64
import random
from typing import Any

import pytest
from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from aktor.broker.call import CLOSE, Call
from aktor.broker.codes import Code
from aktor.broker.sasl import MECHANISMS, Authentication, Users
from aktor.broker.wire import APIS

USERS = {"alice": "wonderland", "bob": "p,a=s√ 2"}

EVERY_MECHANISM = pytest.mark.parametrize("mechanism", MECHANISMS)
SCRAM = pytest.mark.parametrize("mechanism", MECHANISMS[1:])


class Connection:
    """A client's side of one connection: what it sends comes back over the wire."""

    def __init__(self, *, seed: int = 1, users: Users | None = None, **offered: Any) -> None:
        self.server = Authentication(users or Users(USERS), rng=random.Random(seed), **offered)

    def handshake(self, mechanism: str, version: int = 1) -> Any:
        return self._ask(SaslHandshakeRequest(mechanism=mechanism), version, self.server.handshake)

    def send(self, token: bytes, version: int = 2) -> Any:
        request = SaslAuthenticateRequest(auth_bytes=token)
        return self._ask(request, version, self.server.authenticate)

    def log_in(self, mechanism: str, name: str, password: str) -> Any:
        """All that kafka-python's client does; the last answer."""
        client = get_sasl_mechanism(mechanism)(
            sasl_mechanism=mechanism, sasl_plain_username=name, sasl_plain_password=password
        )
        assert self.handshake(mechanism).error_code == Code.NONE
        answer = None
        while not client.is_done():
            answer = self.send(client.auth_bytes())
            if answer.error_code:
                return answer
            client.receive(answer.auth_bytes)
        assert client.is_authenticated()
        return answer

    def _ask(self, request: Any, version: int, handle: Any) -> Any:
        api = APIS[request.API_KEY]
        request = api.request.decode(request.encode(version=version), version=version)
        answers: list[Any] = []
        handle(Call(request, answer=answers.append, version=version, now=0.0))
        (answer,) = answers
        if answer is CLOSE:
            return CLOSE
        return api.response.decode(answer.encode(version=version), version=version)


# Who is let in.


@EVERY_MECHANISM
@pytest.mark.parametrize("name", USERS)
def test_a_user_with_the_right_password_is_let_in(mechanism: str, name: str) -> None:
    connection = Connection()

    answer = connection.log_in(mechanism, name, USERS[name])

    assert answer.error_code == Code.NONE
    assert not answer.error_message
    assert connection.server.principal == f"User:{name}"
    assert not connection.server.failed


@EVERY_MECHANISM
@pytest.mark.parametrize(
    ("name", "password"), [("alice", "p,a=s√ 2"), ("alice", "wonderlan"), ("carol", "wonderland")]
)
def test_nobody_else_is_and_a_wrong_password_looks_like_an_unknown_user(
    mechanism: str, name: str, password: str
) -> None:
    connection = Connection()

    answer = connection.log_in(mechanism, name, password)

    assert answer.error_code == Code.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == (
        "Authentication failed: Invalid username or password"
        if mechanism == "PLAIN"
        else "Authentication failed during authentication due to invalid credentials with SASL "
        f"mechanism {mechanism}"
    )
    assert connection.server.principal is None
    assert connection.server.failed


@EVERY_MECHANISM
def test_a_client_that_failed_gets_no_second_try_on_its_connection(mechanism: str) -> None:
    connection = Connection()
    connection.log_in(mechanism, "alice", "guess")

    assert connection.send(b"\0alice\0wonderland") is CLOSE
    assert connection.handshake(mechanism) is CLOSE
    assert connection.server.principal is None


# The mechanism.


def test_a_mechanism_that_is_not_offered_is_answered_with_those_that_are() -> None:
    connection = Connection(mechanisms=["SCRAM-SHA-512"])

    answer = connection.handshake("PLAIN")

    assert answer.error_code == Code.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == ["SCRAM-SHA-512"]
    assert connection.server.failed


def test_a_mechanism_that_does_not_exist_cannot_be_offered() -> None:
    with pytest.raises(ValueError, match=r"unknown SASL mechanisms \['GSSAPI'\]"):
        Connection(mechanisms=["PLAIN", "GSSAPI"])


def test_a_handshake_that_leads_to_tokens_outside_of_requests_is_refused() -> None:
    connection = Connection()

    assert connection.handshake("PLAIN", version=0).error_code == Code.UNSUPPORTED_VERSION
    assert connection.server.failed


# What may be asked when.


def test_before_anybody_is_known_only_the_way_in_is_open() -> None:
    connection = Connection()
    allowed = connection.server.may_ask
    assert allowed("ApiVersions")
    assert allowed("SaslHandshake")
    assert not allowed("SaslAuthenticate")
    assert not allowed("Metadata")

    connection.handshake("PLAIN")
    assert allowed("SaslAuthenticate")
    assert not allowed("ApiVersions")

    connection.send(b"\0alice\0wonderland")
    assert allowed("Metadata")


def test_after_a_failure_nothing_may_be_asked() -> None:
    connection = Connection()
    connection.log_in("PLAIN", "alice", "guess")

    assert not any(connection.server.may_ask(api.name) for api in APIS.values())


def test_a_token_before_the_handshake_closes_the_connection() -> None:
    connection = Connection()

    assert connection.send(b"\0alice\0wonderland") is CLOSE
    assert connection.server.failed


def test_a_second_handshake_in_the_middle_ends_the_try() -> None:
    connection = Connection()
    connection.handshake("PLAIN")

    assert connection.handshake("PLAIN").error_code == Code.ILLEGAL_SASL_STATE
    assert connection.server.failed


def test_who_is_known_is_told_that_it_was_enough_and_stays_known() -> None:
    connection = Connection()
    connection.log_in("PLAIN", "alice", "wonderland")

    assert connection.handshake("PLAIN").error_code == Code.ILLEGAL_SASL_STATE
    again = connection.send(b"\0bob\0guess")

    assert again.error_code == Code.ILLEGAL_SASL_STATE
    assert again.error_message == (
        "SaslAuthenticate request received after successful authentication"
    )
    assert connection.server.principal == "User:alice"


# PLAIN.


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"alice\0wonderland", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0a\0b\0c\0d\0e", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0wonderland", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0alice\0\xff\xfe", "Authentication failed: Invalid username or password"),
        (
            b"bob\0alice\0wonderland",
            "Authentication failed: Client requested an authorization id that is different from "
            "username",
        ),
    ],
)
def test_a_plain_token_that_is_wrong_is_refused_in_kafka_s_words(
    token: bytes, message: str, version: int
) -> None:
    connection = Connection()
    connection.handshake("PLAIN")

    answer = connection.send(token, version)

    assert answer.error_code == Code.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == message


def test_a_plain_client_may_name_itself_twice_or_not() -> None:
    for act_as in (b"", b"alice"):
        connection = Connection()
        connection.handshake("PLAIN")

        assert connection.send(act_as + b"\0alice\0wonderland").error_code == Code.NONE


# SCRAM.


@SCRAM
@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"n=alice,r=abc",
        b"y,,n=alice,r=abc",
        b"p=tls-unique,,n=alice,r=abc",
        b"n,,m=x,n=alice,r=abc",
        b"n,,n=,r=abc",
        b"n,,n=alice,r=",
        b"n,,n=al=ice,r=abc",
        b"n,,n=alice,r=abc,tokenauth=true",
        b"n,,n=alice\xff,r=abc",
        b"\xff\xfe",
    ],
)
def test_a_first_scram_message_that_is_none_is_refused(mechanism: str, token: bytes) -> None:
    connection = Connection()
    connection.handshake(mechanism)

    assert connection.send(token).error_code == Code.SASL_AUTHENTICATION_FAILED
    assert connection.server.failed


@SCRAM
def test_a_scram_client_may_not_act_as_another(mechanism: str) -> None:
    connection = Connection()
    connection.handshake(mechanism)

    answer = connection.send(b"n,a=bob,n=alice,r=abc")

    assert answer.error_message == (
        "Authentication failed: Client requested an authorization id that is different from "
        "username"
    )


@SCRAM
def test_the_challenge_holds_both_nonces_a_salt_and_the_iterations(mechanism: str) -> None:
    users = Users(USERS)
    challenges = []
    for seed in (1, 2):
        connection = Connection(seed=seed, users=users)
        connection.handshake(mechanism)
        challenges.append(connection.send(b"n,,n=alice,r=abc").auth_bytes.decode())

    parts = [dict(part.split("=", 1) for part in one.split(",")) for one in challenges]

    assert all(one["r"].startswith("abc") and len(one["r"]) == 35 for one in parts)
    assert parts[0]["r"] != parts[1]["r"]
    assert parts[0]["s"] == parts[1]["s"]
    assert parts[0]["i"] == "4096"


@SCRAM
@pytest.mark.parametrize(
    "final",
    [
        "",
        "c=biws,r={nonce}",
        "c=biws,r={nonce},p=",
        "c=biws,r={nonce},p=not base64",
        "c=biws,r={nonce},p=AAAA",
        "c=biws,r=abc,p={proof}",
        "c=eSws,r={nonce},p={proof}",
        "c=biws,r={nonce},p={proof}",
    ],
)
def test_a_final_scram_message_without_the_right_proof_is_refused(
    mechanism: str, final: str
) -> None:
    connection = Connection()
    connection.handshake(mechanism)
    challenge = connection.send(b"n,,n=alice,r=abc").auth_bytes.decode()
    nonce = challenge.split(",")[0].removeprefix("r=")
    proof = base64.b64encode(bytes(32 if "256" in mechanism else 64)).decode()

    answer = connection.send(final.format(nonce=nonce, proof=proof).encode())

    assert answer.error_code == Code.SASL_AUTHENTICATION_FAILED
    assert answer.auth_bytes == b""
    assert connection.server.principal is None


@SCRAM
def test_a_proof_can_not_be_used_again_on_another_connection(mechanism: str) -> None:
    users = Users(USERS)
    heard = Connection(seed=1, users=users)
    client = get_sasl_mechanism(mechanism)(
        sasl_mechanism=mechanism, sasl_plain_username="alice", sasl_plain_password="wonderland"
    )
    heard.handshake(mechanism)
    first = client.auth_bytes()
    client.receive(heard.send(first).auth_bytes)
    final = client.auth_bytes()

    replayed = Connection(seed=2, users=users)
    replayed.handshake(mechanism)
    replayed.send(first)

    assert replayed.send(final).error_code == Code.SASL_AUTHENTICATION_FAILED
    assert heard.send(final).error_code == Code.NONE


@SCRAM
def test_names_with_commas_and_equals_signs_are_written_as_rfc_5802_says(mechanism: str) -> None:
    users = Users({"a,b=c": "secret"})
    connection = Connection(users=users)
    connection.handshake(mechanism)

    assert connection.send(b"n,a=a=2Cb=3Dc,n=a=2Cb=3Dc,r=abc").error_code == Code.NONE


# Secrets.


@EVERY_MECHANISM
@pytest.mark.parametrize("guess", ["wonderland", "wonderment"])
def test_no_password_is_in_any_repr_or_answer(mechanism: str, guess: str) -> None:
    users = Users(USERS)
    connection = Connection(users=users)

    answer = connection.log_in(mechanism, "alice", guess)

    shown = f"{users!r} {connection.server!r} {answer!r}"
    assert "alice" in shown
    assert not any(secret in shown for secret in ("wonder", base64.b64encode(b"wonder").decode()))
