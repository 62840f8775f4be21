"""Rules of a login with client credentials, at a token endpoint of this process."""

from __future__ import annotations

import base64
import pickle
import threading
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

from aktor.actors.sockets.sasl import without_tokens
from aktor.errors import ConfigurationError
from aktor.net.sasl.oauth import ClientCredentials, TokenError
from tests.token_endpoint import TokenEndpoint

SECRET = "canary-7f3:%/secret"


class Clock:
    """The seconds that pass are those that were waited for, or that a test adds."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waited: list[float] = []

    def wait(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.now += seconds


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    found = TokenEndpoint()
    yield found
    found.close()


def credentials(
    endpoint: TokenEndpoint, clock: Clock | None = None, **given: Any
) -> tuple[ClientCredentials, Clock]:
    clock = clock or Clock()
    found = ClientCredentials(
        given.pop("url", endpoint.url),
        given.pop("client_id", "billing"),
        SECRET,
        clock=lambda: clock.now,
        wait=clock.wait,
        **given,
    )
    return found, clock


def test_a_token_is_asked_for_with_id_secret_and_scope(endpoint: TokenEndpoint) -> None:
    tokens, _ = credentials(endpoint, scope="kafka read", extensions={"logicalCluster": "lkc-1"})

    assert tokens.token() == "token-1"
    [(path, headers, body)] = endpoint.asked
    assert path == "/realm/token"
    kind, _, login = headers["Authorization"].partition(" ")
    assert (kind, base64.b64decode(login).decode()) == ("Basic", f"billing:{SECRET}")
    assert body == {"grant_type": ["client_credentials"], "scope": ["kafka read"]}
    assert headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert tokens.extensions() == {"logicalCluster": "lkc-1"}


def test_id_and_secret_are_encoded_if_the_provider_wants_it(endpoint: TokenEndpoint) -> None:
    tokens, _ = credentials(endpoint, client_id="a b", header_urlencode=True)

    tokens.token()

    login = base64.b64decode(endpoint.asked[0][1]["Authorization"].partition(" ")[2]).decode()
    assert login == "a+b:canary-7f3%3A%25%2Fsecret"


def test_a_token_is_used_again_for_four_fifths_of_its_life(endpoint: TokenEndpoint) -> None:
    tokens, clock = credentials(endpoint)

    assert [tokens.token(), tokens.token()] == ["token-1"] * 2
    clock.now += 79
    assert tokens.token() == "token-1"
    clock.now += 2
    assert tokens.token() == "token-2"


def test_a_token_that_does_not_say_how_long_it_lives_is_used_once(endpoint: TokenEndpoint) -> None:
    tokens, _ = credentials(endpoint)
    for token in ("a", "b"):
        endpoint.will(200, {"access_token": token})

    assert [tokens.token(), tokens.token()] == ["a", "b"]


def test_as_long_as_a_token_is_good_an_endpoint_that_fails_is_no_trouble(
    endpoint: TokenEndpoint,
) -> None:
    tokens, clock = credentials(endpoint)
    tokens.token()
    clock.now += 85
    endpoint.will(500)
    endpoint.will(401)

    assert [tokens.token(), tokens.token()] == ["token-1"] * 2
    assert len(endpoint.asked) == 2  # not again at once
    clock.now += 11
    assert tokens.token() == "token-1"
    clock.now += 5
    assert tokens.token() == "token-4"  # the old one has ended
    assert clock.waited == []


def test_what_may_pass_is_tried_again_for_ten_seconds(endpoint: TokenEndpoint) -> None:
    tokens, clock = credentials(endpoint)
    for status in (503, 429, 500):
        endpoint.will(status)

    assert tokens.token() == "token-4"
    assert clock.waited == [0.1, 0.2, 0.4]


def test_an_endpoint_that_cannot_be_reached_is_an_error_after_ten_seconds(
    endpoint: TokenEndpoint,
) -> None:
    tokens, clock = credentials(endpoint, url="http://127.0.0.1:1/token")

    with pytest.raises(TokenError, match=r"127.0.0.1:1/token cannot be reached: .*refused"):
        tokens.token()
    assert 5 < sum(clock.waited) <= 10


def test_a_refusal_is_an_error_at_once_with_its_reason(endpoint: TokenEndpoint) -> None:
    tokens, clock = credentials(endpoint, url=endpoint.url + "?key=canary-in-query")
    endpoint.will(401, {"error": "invalid_client", "error_description": "no such client"})

    with pytest.raises(TokenError) as refused:
        tokens.token()
    assert str(refused.value) == (
        f"the token endpoint {endpoint.url} answered 401 Unauthorized, invalid_client, no such"
        " client"
    )
    assert "invalid_client" in without_tokens(str(refused.value))  # as a login tells it
    assert clock.waited == []


@pytest.mark.parametrize("said", [b"", b"<html>", b"[]", {"access_token": ""}, {"expires_in": 3}])
def test_an_answer_without_a_token_is_an_error(endpoint: TokenEndpoint, said: Any) -> None:
    tokens, _ = credentials(endpoint)
    endpoint.will(200, said)

    with pytest.raises(TokenError, match="has no access_token"):
        tokens.token()


def test_the_secret_is_not_sent_where_an_answer_points_to(endpoint: TokenEndpoint) -> None:
    tokens, _ = credentials(endpoint)
    elsewhere = TokenEndpoint()
    endpoint.will(302, Location=elsewhere.url)

    with pytest.raises(TokenError, match="answered 302"):
        tokens.token()
    assert elsewhere.asked == []
    elsewhere.close()


def test_the_secret_is_nowhere_to_be_seen(endpoint: TokenEndpoint) -> None:
    tokens, _ = credentials(endpoint)
    endpoint.will(400, SECRET.encode())

    with pytest.raises(TokenError) as refused:
        tokens.token()
    shown = [repr(tokens), str(tokens), "".join(traceback.format_exception(refused.value))]
    hidden = [SECRET, base64.b64encode(f"billing:{SECRET}".encode()).decode()]
    assert not [text for text in shown for secret in hidden if secret in text]
    with pytest.raises(TypeError, match="secret"):
        pickle.dumps(tokens)


@pytest.mark.parametrize(
    "given",
    [
        ("file:///etc/passwd", "a", "b"),
        ("https:///token", "a", "b"),
        ("https://user:canary@host/token", "a", "b"),
        ("https://host/token", "", "b"),
        ("https://host/token", "a", ""),
    ],
)
def test_what_cannot_be_an_endpoint_or_a_login_is_refused(given: tuple[str, str, str]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        ClientCredentials(*given)
    assert "canary" not in str(refused.value)


def test_threads_that_log_in_together_ask_once(endpoint: TokenEndpoint) -> None:
    tokens, _ = credentials(endpoint)
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(tokens.token())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == ["token-1"] * 8
