"""Options of a login by OAUTHBEARER with client credentials, as Java's client and librdkafka name
them.

Each option is a part of the login. When all options are read, the parts become one object that
fetches tokens, made in each process that connects.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from aktor.errors import ConfigurationError

__all__ = ["HOW", "of_jaas", "part", "together"]

#: What the error for another kind of login by OAUTHBEARER says.
HOW: Final = (
    "here OAUTHBEARER logs in with client credentials: set kafka.sasl.mechanism=OAUTHBEARER,"
    " kafka.sasl.oauthbearer.token.endpoint.url and kafka.sasl.jaas.config="
    "'org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    ' clientId="..." clientSecret="..." scope="...";\''
)

#: The parts, as arguments of `ClientCredentials`, have this before their names until they are put
#: together: no setting of kafka-python begins so.
_PART: Final = "oauth "

_PROVIDER: Final = "sasl_oauth_token_provider"
_EXTENSION: Final = "extension_"


def part(name: str) -> Callable[[str], dict[str, Any]]:
    """The rule for an option that is this argument."""
    return lambda text: {_PART + name: text.strip()}


def of_jaas(found: dict[str, str]) -> dict[str, Any]:
    """The parts that are in a JAAS line, by their names there."""
    names = {"clientId": "client_id", "clientSecret": "client_secret", "scope": "scope"}
    parts: dict[str, Any] = {}
    extensions = {}
    for name, text in found.items():
        if name in names:
            parts[_PART + names[name]] = text
        elif name.startswith(_EXTENSION):
            extensions[name.removeprefix(_EXTENSION)] = text
        else:
            raise ConfigurationError(f"kafka.sasl.jaas.config has {name}: {HOW}")
    return parts | ({_PART + "extensions": extensions} if extensions else {})


def together(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings, whose parts have become a provider of tokens. Raises ConfigurationError."""
    parts = {
        name.removeprefix(_PART): value
        for name, value in settings.items()
        if name.startswith(_PART)
    }
    rest = {name: value for name, value in settings.items() if not name.startswith(_PART)}
    if not parts and rest.get("sasl_mechanism") != "OAUTHBEARER":
        return rest
    if rest.get("sasl_mechanism") != "OAUTHBEARER":
        raise ConfigurationError(
            f"options of OAUTHBEARER are there, and kafka.sasl.mechanism is not OAUTHBEARER: {HOW}"
        )
    if {"url", "client_id", "client_secret"} - parts.keys():
        raise ConfigurationError(f"kafka.sasl.mechanism is OAUTHBEARER: {HOW}")
    encode = str(parts.pop("header_urlencode", "false")).lower()
    if encode not in ("true", "false"):
        raise ConfigurationError("kafka.sasl.oauthbearer.header.urlencode must be true or false")
    # Only here: it imports the parts of Python that speak HTTP.
    from aktor.spark.options.oauth_provider import SparkCredentials

    return rest | {_PROVIDER: SparkCredentials(**parts, header_urlencode=encode == "true")}
