"""Rules of options that log in by OAUTHBEARER with client credentials."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from aktor.errors import ConfigurationError
from aktor.spark.options import client_settings, producer_settings
from tests.token_endpoint import TokenEndpoint

SECRET = "canary/7f3"

_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
_HANDLER = "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"

#: The same login as users of several clients and versions write it.
WAYS: Mapping[str, Mapping[str, str]] = {
    "Java's, in the JAAS line": {
        "sasl.login.callback.handler.class": _HANDLER,
        "sasl.jaas.config": f'{_MODULE} clientId="billing" clientSecret="{SECRET}" scope="kafka"'
        ' extension_logicalCluster="lkc-1";',
    },
    "Java's of Kafka 4.1, by options": {
        "sasl.jaas.config": f"{_MODULE};",
        "sasl.oauthbearer.jwt.retriever.class": "a.b.ClientCredentialsJwtRetriever",
        "sasl.oauthbearer.client.credentials.client.id": "billing",
        "sasl.oauthbearer.client.credentials.client.secret": SECRET,
        "sasl.oauthbearer.scope": "kafka",
    },
    "librdkafka's": {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "billing",
        "sasl.oauthbearer.client.secret": SECRET,
        "sasl.oauthbearer.scope": "kafka",
    },
}


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    found = TokenEndpoint()
    yield found
    found.close()


def options(endpoint: TokenEndpoint, way: str) -> dict[str, str]:
    return {
        "bootstrap.servers": "a:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": endpoint.url,
        **WAYS[way],
    }


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_write_it_logs_in_with_the_same_request(
    endpoint: TokenEndpoint, way: str
) -> None:
    given = options(endpoint, way)
    client_settings.check(given)
    found = client_settings.consumer_settings(given)

    tokens = found.pop("sasl_oauth_token_provider")
    assert found == {
        "bootstrap_servers": "a:1",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
    }
    assert tokens.token() == "token-1"
    [(_, headers, body)] = endpoint.asked
    login = base64.b64decode(headers["Authorization"].removeprefix("Basic ")).decode()
    assert (login, body["scope"]) == (f"billing:{SECRET}", ["kafka"])
    assert tokens.extensions() == ({"logicalCluster": "lkc-1"} if "JAAS" in way else {})


@pytest.mark.parametrize("way", WAYS)
def test_the_sink_logs_in_with_either_library(endpoint: TokenEndpoint, way: str) -> None:
    given = options(endpoint, way)
    producer_settings.check(given, transactional=False)
    settings = producer_settings.read(given, transactional=False)

    theirs = settings.for_kafka_python()
    assert theirs["sasl_oauth_token_provider"].token() == "token-1"
    found: dict[str, Any] = settings.for_confluent()
    assert {name: text for name, text in found.items() if name.startswith("sasl.")} == {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": endpoint.url,
        "sasl.oauthbearer.client.id": "billing",
        "sasl.oauthbearer.client.secret": SECRET,
        "sasl.oauthbearer.scope": "kafka",
    } | ({"sasl.oauthbearer.extensions": "logicalCluster=lkc-1"} if "JAAS" in way else {})
    assert SECRET not in repr(settings) + settings.without_secrets(f"what {SECRET} says")


def test_what_librdkafka_cannot_do_is_refused_before_the_job(endpoint: TokenEndpoint) -> None:
    given = options(endpoint, "librdkafka's") | {"sasl.oauthbearer.header.urlencode": "true"}

    settings = producer_settings.read(given, transactional=False)

    assert "sasl_oauth_token_provider" in settings.for_kafka_python()
    with pytest.raises(ConfigurationError, match="producer=kafka-python"):
        settings.for_confluent()


def test_a_secret_may_be_a_reference(
    endpoint: TokenEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = options(endpoint, "librdkafka's") | {
        "sasl.oauthbearer.client.secret": "${env:OAUTH_SECRET}"
    }
    client_settings.check(given)
    monkeypatch.setenv("OAUTH_SECRET", SECRET)

    client_settings.consumer_settings(given)["sasl_oauth_token_provider"].token()

    [(_, headers, _)] = endpoint.asked
    assert base64.b64decode(headers["Authorization"][6:]).decode() == f"billing:{SECRET}"


@pytest.mark.parametrize(
    "given",
    [
        {"sasl.oauthbearer.token.endpoint.url": f"file:///{SECRET}"},
        {"sasl.oauthbearer.header.urlencode": SECRET},
        {"sasl.jaas.config": f"{_MODULE} sub='{SECRET}';"},
    ],
)
def test_a_refusal_repeats_no_value(endpoint: TokenEndpoint, given: Mapping[str, str]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        client_settings.check(options(endpoint, "librdkafka's") | dict(given))
    assert SECRET not in str(refused.value)
