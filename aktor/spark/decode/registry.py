"""The schemas of a schema registry, by the client of confluent-kafka (as `AvroDeserializer`).

A process has one client for each registry and kind of schemas, and keeps what it has heard: an id
has one schema for ever.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import pyarrow as pa

from aktor.errors import ConfigurationError, SchemaLookUpError
from aktor.spark.options.client_settings import resolved
from aktor.spark.options.registry import client_settings

__all__ = ["References", "Registry", "RegistryUnavailable", "SchemaKind", "registry_with"]

#: How long a schema is waited for, with all attempts, in seconds.
DEADLINE: Final = 30.0

#: How long it is believed that the registry does not know an id, in seconds.
_UNKNOWN: Final = 30.0

#: Of the client, unless the user sets others. (Its own: no limit of time for an attempt.)
_DEFAULTS: Final[Mapping[str, Any]] = {"timeout": 5, "max.retries": 3, "retries.max.wait.ms": 2000}


#: The names and texts of the schemas to which one refers, each after those to which it refers.
References: TypeAlias = Sequence[tuple[str, str]]


class RegistryUnavailable(Exception):
    """The registry did not say whether it has the schema. Nothing in the text is secret."""


@dataclass(frozen=True, slots=True)
class SchemaKind:
    """AVRO or PROTOBUF; the format in which the registry is asked for texts, None for its own; and
    what makes a schema of a text, which raises ValueError for what is none."""

    name: str
    format: str | None
    read: Callable[[str, References], Any]


#: The registries of this process: its pid, and each by its kind and settings.
_known: tuple[int, dict[tuple[SchemaKind, tuple[tuple[str, str], ...]], Registry]] = (0, {})


def registry_with(options: Mapping[str, str], kind: SchemaKind) -> Registry:
    """The registry of this process with these settings. A client that was made before a fork
    belongs to the parent process: its connections would be used by both."""
    global _known
    if _known[0] != os.getpid():
        _known = os.getpid(), {}
    registries = _known[1]
    key = kind, tuple(sorted(options.items()))
    if key not in registries:
        registries[key] = Registry(options, kind)
    return registries[key]


class Registry:
    """Owns the client and the schemas that were looked up."""

    def __init__(self, options: Mapping[str, str], kind: SchemaKind) -> None:
        self._kind = kind
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
        #: Each that was found, or a text that says why it is none.
        self._schemas: dict[int, Any] = {}
        self._unknown: dict[int, tuple[str, float]] = {}

    def schema(self, schema_id: int) -> Any:
        """The schema of this id; or a text: why there is none. Raises RegistryUnavailable."""
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

    def newest(self, subject: str) -> tuple[str, References]:
        """The newest schema of a subject, and those to which it refers.

        Raises ConfigurationError.
        """
        try:
            schema = self._client.get_latest_version(subject, fmt=self._kind.format).schema
            if not (other := self._other_kind(schema)):
                return str(schema.schema_str), self._references(schema)
        except Exception as error:  # of any kind: the client's libraries have many
            other = _said(error)
        raise ConfigurationError(f"the schema of {subject} in the registry {self.name}: {other}")

    def _other_kind(self, schema: Any) -> str:
        """That it is none of ours; "" if it is."""
        kind = schema.schema_type or "AVRO"
        return "" if kind == self._kind.name else f"it is of type {kind}, not {self._kind.name}"

    def not_looked_up(
        self, schema_id: int, rows: pa.RecordBatch, row: int, error: RegistryUnavailable
    ) -> SchemaLookUpError:
        """The error of a task that cannot read a record without this schema."""
        topic, partition, offset = (
            rows.column(name)[row].as_py() for name in ("topic", "partition", "offset")
        )
        return SchemaLookUpError(
            topic=topic,
            partition=partition,
            offset=offset,
            schema_id=schema_id,
            registry=self.name,
            reason=str(error),
        )

    def _kept(self, schema_id: int, found: Any) -> Any:
        if found is None:
            text = f"the registry {self.name} does not have it"
            self._unknown[schema_id] = text, time.monotonic() + _UNKNOWN
            return text
        self._schemas[schema_id] = found
        return found

    def _looked_up(self, schema_id: int) -> Any:
        """The schema, or why it is none; None: the registry does not have it; or an error."""
        kind = self._kind
        try:
            schema = self._client.get_schema(schema_id, fmt=kind.format)
            if other := self._other_kind(schema):
                return other
            text, references = schema.schema_str, self._references(schema)
        except Exception as error:  # of any kind: the client's libraries have many
            if getattr(error, "http_status_code", None) == 404:
                return None
            return RegistryUnavailable(_said(error))
        try:
            return kind.read(text, references)
        except ValueError as error:
            return f"it is no schema of {kind.name.capitalize()}: {error}"

    def _references(self, schema: Any) -> list[tuple[str, str]]:
        """The schemas to which this one refers."""
        found: dict[str, str] = {}
        for reference in schema.references or ():
            version = self._client.get_version(
                reference.subject, reference.version, fmt=self._kind.format
            )
            found |= dict(self._references(version.schema))
            found.setdefault(reference.name, version.schema.schema_str)
        return list(found.items())


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
