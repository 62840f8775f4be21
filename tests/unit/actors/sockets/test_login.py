"""Logging in: SASL, refused or again before a session ends."""

from __future__ import annotations

import struct
import threading
import time
from typing import Any

import pytest
from kafka.errors import (
    SaslAuthenticationFailedError,
)
from kafka.net.sasl.oauth import AbstractTokenProvider

from aktor.actors.sockets.threads import PATIENCE
from aktor.errors import AuthenticationError
from aktor.events.sockets import (
    ConnectionClosed,
    ConnectionFailed,
    ConnectionOpened,
    RequestAnswered,
)
from tests.unit.actors.sockets.builders import (
    SECRET,
    text_of,
)
from tests.unit.actors.sockets.net_client import LIMIT, Client, opened
from tests.unit.actors.sockets.sasl_broker import give_token, plain, read_token, scram, shake_hands
from tests.unit.actors.sockets.scripted_broker import (
    SPOKEN,
    Peer,
    ScriptedBroker,
)


def sasl(mechanism: str = "PLAIN", **connection: Any) -> dict[str, Any]:
    connection.setdefault("sasl_plain_username", "alice")
    connection.setdefault("sasl_plain_password", SECRET)
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "connection": connection,
    }


LOGINS = {"PLAIN": plain, "SCRAM-SHA-256": scram}


@pytest.mark.parametrize("mechanism", LOGINS)
def test_the_right_password_opens(mechanism: str) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        LOGINS[mechanism](peer, SECRET)
        peer.serve()

    with ScriptedBroker(script) as broker, Client(**sasl(mechanism)) as client:
        assert client.connect(broker.port) == opened("a")
        assert isinstance(client.ask(), RequestAnswered)
        assert broker.errors == []


@pytest.mark.parametrize("mechanism", LOGINS)
def test_the_wrong_password_is_an_authentication_error(mechanism: str) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        LOGINS[mechanism](peer, "another")

    with ScriptedBroker(script) as broker, Client(**sasl(mechanism)) as client:
        report = client.connect(broker.port)

    assert isinstance(report, ConnectionFailed)
    assert isinstance(report.error, AuthenticationError)
    assert isinstance(report.error, SaslAuthenticationFailedError)
    assert report.error.mechanism == mechanism
    assert report.error.broker == f"127.0.0.1:{broker.port}"


@pytest.mark.parametrize("mechanism", LOGINS)
@pytest.mark.parametrize("password", [SECRET, "another"])
def test_the_password_is_in_no_log_and_no_error(
    mechanism: str, password: str, caplog: pytest.LogCaptureFixture
) -> None:
    """kafka-python logs it at DEBUG: the request's repr, and the bytes sent."""

    def script(peer: Peer) -> None:
        peer.greet()
        LOGINS[mechanism](peer, password)
        peer.read()
        peer.write(b"\0\0\0\4junk")

    caplog.set_level(1)
    with ScriptedBroker(script) as broker, Client(**sasl(mechanism)) as client:
        reports = [client.connect(broker.port)]
        if isinstance(reports[0], ConnectionOpened):
            reports.append(client.ask())

    assert reports[-1].error is not None
    shown = caplog.text + repr(reports) + text_of(reports[-1].error)
    assert "canary" not in shown
    assert repr(SECRET.encode())[2:-1] not in shown


def test_a_mechanism_that_the_broker_does_not_offer_is_refused_with_what_it_offers() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        shake_hands(peer, "SCRAM-SHA-512", "GSSAPI", error_code=33)

    with ScriptedBroker(script) as broker, Client(**sasl()) as client:
        report = client.connect(broker.port)

    assert isinstance(report.error, AuthenticationError)
    assert "it offers SCRAM-SHA-512, GSSAPI" in str(report.error)


def test_a_listener_without_logins_is_called_so() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        shake_hands(peer, error_code=34)

    with ScriptedBroker(script) as broker, Client(**sasl()) as client:
        report = client.connect(broker.port)

    assert isinstance(report.error, AuthenticationError)
    assert "not to use SASL" in str(report.error)


def test_a_broker_before_1_0_gets_bare_tokens_and_says_no_by_hanging_up() -> None:
    def script(peer: Peer) -> None:
        peer.greet({**SPOKEN, 17: 0})
        shake_hands(peer, "PLAIN")
        if peer.read_token().endswith(SECRET.encode()):
            peer.write(struct.pack(">i", 0))
            peer.serve()

    wrong = sasl(sasl_plain_password="x")
    with ScriptedBroker(script) as broker, Client(**sasl()) as alice, Client(**wrong) as eve:
        assert alice.connect(broker.port) == opened("a")
        assert isinstance(alice.ask(), RequestAnswered)
        report = eve.connect(broker.port)

    assert isinstance(report.error, AuthenticationError)


class Token(AbstractTokenProvider):
    """Gives out what it was made with, or raises it, once its gate is open."""

    def __init__(self, given: str | BaseException) -> None:
        self.given = given
        self.calls = 0
        self.asked = threading.Event()
        self.answered = False
        self.gate = threading.Event()
        self.gate.set()

    def token(self) -> str:
        self.calls += 1
        self.asked.set()
        self.gate.wait(LIMIT)
        self.answered = True
        if isinstance(self.given, BaseException):
            raise self.given
        return self.given


def test_a_token_that_takes_its_time_does_not_block_the_others() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        shake_hands(peer, "OAUTHBEARER")
        request, token = read_token(peer)
        assert b"auth=Bearer t0ken" in token
        give_token(peer, request)
        peer.serve()

    provider = Token("t0ken")
    provider.gate.clear()
    settings = sasl("OAUTHBEARER", sasl_oauth_token_provider=provider)
    with ScriptedBroker(script) as broker, Client(**settings) as client:
        client.net.connect("a", "127.0.0.1", broker.port, LIMIT)
        while not provider.asked.is_set():
            client.net.wait(0.1)
        client.idle(0.1)
        assert not provider.answered, "who waits for a token turns the loop meanwhile"
        provider.gate.set()

        assert client.next() == opened("a")
        assert broker.errors == []


def test_a_token_provider_that_raises_is_an_authentication_error_with_its_cause() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        shake_hands(peer, "OAUTHBEARER")
        peer.read()

    failure = LookupError("no token today")
    settings = sasl("OAUTHBEARER", sasl_oauth_token_provider=Token(failure))
    with ScriptedBroker(script) as broker, Client(**settings) as client:
        report = client.connect(broker.port)

    assert isinstance(report.error, AuthenticationError)
    assert "no token today" in str(report.error)
    assert report.error.__cause__ is failure


def test_what_a_token_provider_quotes_of_its_tokens_is_in_no_error_text() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        shake_hands(peer, "OAUTHBEARER")
        peer.read()

    failure = RuntimeError(f"the token was {SECRET}: https://idp/token?client_secret={SECRET}")
    settings = sasl("OAUTHBEARER", sasl_oauth_token_provider=Token(failure))
    with ScriptedBroker(script) as broker, Client(**settings) as client:
        report = client.connect(broker.port)

    assert isinstance(report.error, AuthenticationError)
    assert "RuntimeError: the token was ***" in str(report.error)
    assert "canary" not in str(report.error) + repr(report)
    assert report.error.__cause__ is failure


def test_a_token_provider_that_exits_fails_the_attempt_at_once() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        shake_hands(peer, "OAUTHBEARER")
        peer.read()

    settings = sasl("OAUTHBEARER", sasl_oauth_token_provider=Token(SystemExit("no token")))
    with ScriptedBroker(script) as broker, Client(**settings) as client:
        report = client.connect(broker.port)

    assert isinstance(report.error, AuthenticationError)
    assert "SystemExit: no token" in str(report.error)


def logs_in(peer: Peer) -> None:
    peer.greet()
    shake_hands(peer, "OAUTHBEARER")
    request, _ = read_token(peer)
    give_token(peer, request)
    peer.serve()


def test_attempts_leave_one_thread_behind_while_a_token_provider_hangs() -> None:
    provider = Token("t0ken")
    provider.gate.clear()
    settings = sasl("OAUTHBEARER", sasl_oauth_token_provider=provider)
    with ScriptedBroker(logs_in) as broker, Client(**settings) as client:
        while not provider.calls:  # on a busy machine an attempt may end before that
            assert isinstance(client.connect(broker.port, timeout=0.3), ConnectionFailed)
        for _ in range(2):
            assert isinstance(client.connect(broker.port, timeout=0.3), ConnectionFailed)
        assert provider.calls == 1

        provider.gate.set()
        assert isinstance(client.connect(broker.port), ConnectionOpened)
    assert provider.calls == 2


def test_several_connections_ask_for_their_tokens_side_by_side() -> None:
    provider = Token("t0ken")
    provider.gate.clear()
    settings = sasl("OAUTHBEARER", sasl_oauth_token_provider=provider)
    with ScriptedBroker(logs_in) as broker, Client(**settings) as client:
        for key in "ab":
            client.net.connect(key, "127.0.0.1", broker.port, LIMIT)
        while provider.calls < 2:
            client.net.wait(0.1)
        provider.gate.set()

        assert {client.next().key, client.next().key} == {"a", "b"}


def test_a_call_that_never_ends_does_not_stop_all_logins() -> None:
    """Another one is begun after a while."""
    provider = Token("t0ken")
    provider.gate.clear()
    settings = sasl("OAUTHBEARER", sasl_oauth_token_provider=provider)
    calls = []
    with ScriptedBroker(logs_in) as broker, Client(**settings) as client:
        for now, expected in (
            *((0.0, 1), (1.0, 1), (PATIENCE, 1)),
            *((PATIENCE + 1.0, 2), (PATIENCE + 2.0, 2), (2 * PATIENCE + 1.0, 2)),
        ):
            client.clock = lambda now=now: now  # type: ignore[misc]
            # On a busy machine the first attempts may end before they come to the token.
            for _ in range(100):
                assert isinstance(client.connect(broker.port, timeout=0.3), ConnectionFailed)
                if provider.calls >= expected:
                    break
            calls.append(provider.calls)
        provider.gate.set()
        assert isinstance(client.connect(broker.port), ConnectionOpened)

    assert calls == [1, 1, 1, 2, 2, 2]


def test_a_token_provider_that_never_answers_is_named_when_the_time_is_over() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        shake_hands(peer, "OAUTHBEARER")
        peer.read()

    provider = Token("t0ken")
    provider.gate.clear()
    settings = sasl("OAUTHBEARER", sasl_oauth_token_provider=provider)
    with ScriptedBroker(script) as broker, Client(**settings) as client:
        for seconds in (0.5, 2.0, 8.0):  # on a busy machine it takes longer to come to the token
            report = client.connect(broker.port, timeout=seconds)
            assert isinstance(report, ConnectionFailed)
            if provider.calls:
                break
        provider.gate.set()

    assert "no answer from the token provider" in str(report.error)
    assert f"within {seconds:g} s" in str(report.error)


def test_a_login_is_renewed_before_it_ends_and_requests_wait_for_it() -> None:
    """KIP-368."""
    logins = []

    def script(peer: Peer) -> None:
        peer.greet()
        logins.append(time.monotonic())  # before it is told: this thread may be held up
        plain(peer, SECRET, lifetime_ms=1000)
        plain(peer, SECRET)
        logins.append(time.monotonic())
        peer.serve()

    with ScriptedBroker(script) as broker, Client(**sasl()) as client:
        assert client.connect(broker.port, jitter=0.0) == opened("a")
        while len(logins) < 2:
            client.net.wait(0.05)
        assert isinstance(client.ask(), RequestAnswered)
        assert broker.errors == []

    assert logins[1] - logins[0] > 0.5, "not before it is time"


def test_a_login_that_cannot_be_renewed_ends_the_connection() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        plain(peer, SECRET, lifetime_ms=1000)
        plain(peer, "changed meanwhile")

    with ScriptedBroker(script) as broker, Client(**sasl()) as client:
        assert client.connect(broker.port) == opened("a")
        report = client.next()

    assert isinstance(report, ConnectionClosed)
    assert "could not be renewed" in str(report.error)
