"""The options `schemaRegistry.*`: the settings of the client that asks a schema registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from aktor.errors import ConfigurationError

__all__ = ["PREFIX", "SETTINGS", "client_settings", "shown_secrets"]

#: Before the names of confluent-kafka's settings for its client of a registry.
PREFIX: Final = "schemaregistry."


def _number(text: str) -> Any:
    return float(text) if "." in text else int(text)


def _addresses(text: str) -> str:
    """One or several with commas between. Those that a reference gave may have a password, so no
    text is in the error that has one."""
    for one in text.split(","):
        try:
            parts = urlsplit(one.strip())
            sound = parts.scheme in ("http", "https") and bool(parts.hostname)
            _ = parts.port  # raises ValueError
        except ValueError:
            sound = False
        if not sound:
            said = "" if "@" in one else f", not {one.strip()!r}"
            raise ConfigurationError(
                "schemaRegistry.url must be the address of a schema registry, as"
                f" http://registry:8081 (several: with commas between){said}"
            )
    return text


#: Those settings, and what makes a value of them of a text.
SETTINGS: Final[Mapping[str, Callable[[str], Any]]] = {
    **dict.fromkeys(("timeout", "max.retries", "retries.wait.ms", "retries.max.wait.ms"), _number),
    **dict.fromkeys(
        (
            *("proxy", "basic.auth.user.info"),
            *("ssl.ca.location", "ssl.certificate.location", "ssl.key.location"),
            "ssl.key.password",
            *("bearer.auth.credentials.source", "bearer.auth.token", "bearer.auth.client.id"),
            *("bearer.auth.client.secret", "bearer.auth.scope", "bearer.auth.issuer.endpoint.url"),
            *("bearer.auth.logical.cluster", "bearer.auth.identity.pool.id"),
        ),
        str,
    ),
    "url": _addresses,
}


def shown_secrets(options: Mapping[str, str]) -> list[str]:
    """The settings with a secret that Spark would print. It hides those options only whose names
    have words such as password and token in them (spark.redaction.regex)."""
    found = []
    for name in ("url", "proxy", "basic.auth.user.info"):
        text = options.get(name, "")
        has_secret = bool(text) if name == "basic.auth.user.info" else "@" in text
        if has_secret and "${" not in text:
            found.append(name)
    return found


def client_settings(options: Mapping[str, str]) -> dict[str, Any]:
    """The settings of the client. Raises ConfigurationError for what is no number or no address."""
    found = {}
    for name, text in options.items():
        try:
            found[name] = SETTINGS[name](text)
        except ValueError:
            raise ConfigurationError(
                f"schemaRegistry.{name} must be a number, not {text!r}"
            ) from None
    return found
