"""The options of the sink, read and checked before a job starts; see docs/spark_sink.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from aktor.errors import ConfigurationError
from aktor.spark.options import client_settings, producer_settings
from aktor.spark.options.source import KNOWN as options_of_source
from aktor.spark.options.source import (
    GivenOptions,
    beginning_with,
    check_topic,
    unknown_option,
)

__all__ = ["SinkOptions", "read_sink_options"]

#: Every option of the sink but `kafka.*`.
KNOWN: Final = ("topic", "includeHeaders", "transactional", "transactionalIdPrefix", "producer")

#: What Spark itself reads from the options of a query, and hands over with ours.
_OF_SPARK: Final = (
    *("checkpointlocation", "queryname", "path"),
    *("asyncprogresstrackingenabled", "asyncprogresstrackingcheckpointintervalms"),
)
_PRODUCERS: Final = ("auto", "confluent", "kafka-python")


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """The options of one query. `client` (the options `kafka.*`) is kept out of `repr` for its
    secrets. `transactional_prefix` is None for a producer without transactions."""

    client: Mapping[str, str] = field(repr=False)
    topic: str | None = None
    producer: str = "auto"
    transactional_prefix: str | None = None


def read_sink_options(given: Mapping[str, str]) -> SinkOptions:
    """The options of a query that writes.

    Raises ConfigurationError: an unknown option, a value that cannot be, or options that contradict
    each other.
    """
    options = {name.lower(): text for name, text in given.items()}
    client = beginning_with(client_settings.PREFIX, options)
    known = {name.lower() for name in KNOWN} | set(_OF_SPARK)
    of_source = {name.lower(): name for name in options_of_source}
    for name in options:
        if name in of_source and name not in known:
            raise ConfigurationError(
                f"{of_source[name]} is an option for reading; the sink writes to what the option or"
                " column topic says"
            )
        if not name.startswith(client_settings.PREFIX) and name not in known:
            raise unknown_option(name, KNOWN, producer_settings.names())
    read = GivenOptions(options)
    # Headers are written where the column is there, as Spark's own sink does.
    read.boolean("includeHeaders", False)
    transactional = read.boolean("transactional", False)
    producer_settings.check(client, transactional=transactional)
    return SinkOptions(
        client=client,
        topic=read.optional("topic", _topic),
        producer=read.optional("producer", _producer) or "auto",
        transactional_prefix=_prefix(read, transactional),
    )


def _prefix(read: GivenOptions, transactional: bool) -> str | None:
    prefix = read.optional("transactionalIdPrefix", _not_blank)
    if not transactional and prefix is not None:
        raise ConfigurationError("transactionalIdPrefix is for transactional=true")
    return (prefix or "aktor-spark") if transactional else None


def _not_blank(name: str, text: str) -> str:
    if not text.strip():
        raise ConfigurationError(f"{name} is empty")
    return text.strip()


def _topic(name: str, text: str) -> str:
    topic = _not_blank(name, text)
    check_topic(name, topic)
    return topic


def _producer(name: str, text: str) -> str:
    if text.strip().lower() not in _PRODUCERS:
        raise ConfigurationError(f"{name} must be one of {', '.join(_PRODUCERS)}, not {text!r}")
    return text.strip().lower()
