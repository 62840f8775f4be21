"""Coroutines that give tokens run in the event loop, while a thread logs in."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping

import pytest

from aktor.actors.sockets.sasl import OAuthBearer
from aktor.aio import KafkaConsumer
from aktor.aio.tokens import LoopTokens


class Provider:
    """As a subclass of aiokafka's AbstractTokenProvider."""

    def __init__(self, token: str | None = "abc") -> None:
        self._token = token
        self.ran_on: int | None = None

    async def token(self) -> str:
        await asyncio.sleep(0)
        self.ran_on = threading.get_ident()
        if self._token is None:
            raise TimeoutError("the token server is away")
        return self._token

    def extensions(self) -> Mapping[str, str]:
        return {"tenant": "a"}


async def log_in(provider: Provider) -> bytes:
    """What is sent to the broker."""
    tokens = LoopTokens.of(provider)
    assert tokens is not None
    tokens.loop = asyncio.get_running_loop()
    mechanism = OAuthBearer({"sasl_oauth_token_provider": tokens})
    return await asyncio.to_thread(mechanism.auth_bytes)


def test_a_login_gets_the_token_of_a_coroutine_that_ran_in_the_event_loop() -> None:
    provider = Provider()
    said = asyncio.run(log_in(provider))
    assert said == b"n,,\x01auth=Bearer abc\x01tenant=a\x01\x01"
    assert provider.ran_on == threading.get_ident()


def test_what_the_coroutine_raises_is_what_the_login_is_told() -> None:
    with pytest.raises(TimeoutError, match="the token server is away"):
        asyncio.run(log_in(Provider(None)))


def test_a_consumer_takes_such_a_provider_and_shows_it_as_it_was_given() -> None:
    provider = Provider()
    consumer = KafkaConsumer(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=provider,
    )
    assert consumer.config["sasl_oauth_token_provider"] is provider
    told = consumer._settings.connection["sasl_oauth_token_provider"]
    assert isinstance(told, LoopTokens)


def test_a_loop_that_is_closed_ends_the_login_and_no_coroutine_is_left_unawaited() -> None:
    tokens = LoopTokens.of(Provider())
    assert tokens is not None
    tokens.loop = asyncio.new_event_loop()
    tokens.loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        tokens.token()


def test_a_provider_whose_token_is_a_function_is_called_on_the_thread_that_logs_in() -> None:
    class Plain:
        def token(self) -> str:
            return "abc"

    assert LoopTokens.of(Plain()) is None
    assert LoopTokens.of(None) is None
