"""The object that fetches tokens for a login by OAUTHBEARER, made of options."""

from __future__ import annotations

from typing import Any

from aktor.errors import ConfigurationError
from aktor.net.sasl.client_credentials import ClientCredentials

__all__ = ["SparkCredentials"]


class SparkCredentials(ClientCredentials):
    """Knows what it was made of: librdkafka, which the sink may write with, fetches tokens
    itself."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self._parts = parts

    def without_secrets(self, text: str) -> str:
        """The text, in which the secret is not left."""
        return text.replace(self._parts["client_secret"], "***")

    def for_librdkafka(self) -> dict[str, str]:
        """librdkafka's settings. Raises ConfigurationError for what it does not have."""
        parts = self._parts
        if parts["header_urlencode"]:
            raise ConfigurationError(
                "kafka.sasl.oauthbearer.header.urlencode=true needs producer=kafka-python"
            )
        found = {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": parts["url"],
            "sasl.oauthbearer.client.id": parts["client_id"],
            "sasl.oauthbearer.client.secret": parts["client_secret"],
        }
        if parts.get("scope"):
            found["sasl.oauthbearer.scope"] = parts["scope"]
        if extensions := parts.get("extensions"):
            pairs = (f"{name}={text}" for name, text in extensions.items())
            found["sasl.oauthbearer.extensions"] = ",".join(pairs)
        return found
