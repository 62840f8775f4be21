"""The schemas of a schema registry, by the client of confluent-kafka (as `AvroDeserializer`).

A process has one client for each registry, and keeps what it has heard: an id has one schema for
ever.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from aktor.errors import ConfigurationError
from aktor.spark.decode.avro.schema import Kind, SchemaError, parse
from aktor.spark.options.avro import client_settings
from aktor.spark.options.client_settings import resolved

__all__ = ["Registry", "RegistryUnavailable", "avro_schema", "registry_with"]

#: How long a schema is waited for, with all attempts, in seconds.
DEADLINE: Final = 30.0

#: How long it is believed that the registry does not know an id, in seconds.
_UNKNOWN: Final = 30.0

#: Of the client, unless the user sets others. (Its own: no limit of time for an attempt.)
_DEFAULTS: Final[Mapping[str, Any]] = {"timeout": 5, "max.retries": 3, "retries.max.wait.ms": 2000}


class RegistryUnavailable(Exception):
    """The registry did not say whether it has the schema. Nothing in the text is secret."""


#: The registries of this process: its pid, and each by its settings.
_known: tuple[int, dict[tuple[tuple[str, str], ...], Registry]] = (0, {})


def registry_with(options: Mapping[str, str]) -> Registry:
    """The registry of this process with these settings. A client that was made before a fork
    belongs to the parent process: its connections would be used by both."""
    global _known
    if _known[0] != os.getpid():
        _known = os.getpid(), {}
    registries = _known[1]
    key = tuple(sorted(options.items()))
    if key not in registries:
        registries[key] = Registry(options)
    return registries[key]


class Registry:
    """Owns the client and the schemas that were looked up."""

    def __init__(self, options: Mapping[str, str]) -> None:
        try:
            from confluent_kafka.schema_registry import SchemaRegistryClient
        except ImportError as error:
            raise ConfigurationError(
                "schemaRegistry.url needs confluent-kafka on the executors, too: pip install"
                f" 'confluent-kafka[avro,schemaregistry]' ({error})"
            ) from None
        given = {
            name: resolved(name, text, prefix="schemaRegistry.") for name, text in options.items()
        }
        self.name = _without_secrets(given["url"])
        settings = dict(_DEFAULTS) | client_settings(given)
        try:
            self._client: Any = SchemaRegistryClient.new_client(settings)
        except (ValueError, TypeError, OSError) as error:
            raise ConfigurationError(
                f"the settings of the schema registry {self.name}: {_said(error)}"
            ) from None
        self._schemas: dict[int, Kind | str] = {}
        self._unknown: dict[int, tuple[str, float]] = {}

    def schema(self, schema_id: int) -> Kind | str:
        """The schema of this id; or why there is none. Raises RegistryUnavailable."""
        there = self._schemas.get(schema_id)
        if there is not None:
            return there
        text, until = self._unknown.get(schema_id, ("", 0.0))
        if time.monotonic() < until:
            return text
        outcome: list[Any] = []
        asking = threading.Thread(
            target=lambda: outcome.append(self._looked_up(schema_id)), daemon=True
        )
        asking.start()
        asking.join(DEADLINE)
        if not outcome:
            raise RegistryUnavailable(f"no answer within {DEADLINE:.0f} s")
        if isinstance(outcome[0], Exception):
            raise outcome[0]
        return self._kept(schema_id, outcome[0])

    def newest(self, subject: str) -> str:
        """The text of the newest schema of a subject. Raises ConfigurationError."""
        try:
            schema = self._client.get_latest_version(subject).schema
        except Exception as error:  # of any kind: the client's libraries have many
            raise ConfigurationError(
                f"the schema of {subject} in the registry {self.name}: {_said(error)}"
            ) from None
        if schema.references:
            raise ConfigurationError(
                f"the schema of {subject} names types of other schemas: write one for avroSchema"
                " that has them in it"
            )
        return str(schema.schema_str)

    def _kept(self, schema_id: int, found: Kind | str | None) -> Kind | str:
        if found is None:
            text = f"the registry {self.name} does not have it"
            self._unknown[schema_id] = text, time.monotonic() + _UNKNOWN
            return text
        self._schemas[schema_id] = found
        return found

    def _looked_up(self, schema_id: int) -> Kind | str | Exception | None:
        """The schema, or why it is none; None: the registry does not have it; or an error."""
        try:
            schema = self._client.get_schema(schema_id)
            if schema.schema_type not in (None, "AVRO"):
                return f"it is of type {schema.schema_type}, not AVRO"
            named: dict[str, Kind] = {}
            self._parse_references(schema, named)
            return parse(schema.schema_str, named)
        except SchemaError as error:
            return f"it is no schema of Avro: {error}"
        except Exception as error:  # of any kind: the client's libraries have many
            if getattr(error, "http_status_code", None) == 404:
                return None
            return RegistryUnavailable(_said(error))

    def _parse_references(self, schema: Any, named: dict[str, Kind]) -> None:
        """The types of other schemas that it names."""
        for reference in schema.references or ():
            other = self._client.get_version(reference.subject, reference.version).schema
            self._parse_references(other, named)
            if reference.name not in named:
                parse(other.schema_str, named)


def _said(error: Exception) -> str:
    """What the error says, without the addresses in it, which may have a password."""
    text = re.sub(r"\S*://\S+", "its address", str(error))
    return f"{type(error).__name__}: {text}"


def _without_secrets(urls: str) -> str:
    return ",".join(map(_host, urls.split(",")))


def _host(url: str) -> str:
    try:
        parts = urlsplit(url.strip())
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "(its address is no URL)"
    return f"{parts.scheme}://{parts.hostname}{port}"


def avro_schema(registry: str | Mapping[str, str], subject: str) -> str:
    """The newest schema of a subject, for the option `avroSchema`."""
    settings = {"url": registry} if isinstance(registry, str) else dict(registry)
    return Registry(settings).newest(subject)
