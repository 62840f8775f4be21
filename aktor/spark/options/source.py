"""The options of the source, read and checked before a job starts.

Names, defaults and meanings are those of Spark's own Kafka source; see docs/spark.md for what is
ours. Spark hands option names over in lower case.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from kafka.structs import TopicPartition

from aktor.consumer.configuration.configuration import DEFAULT_CONFIG
from aktor.errors import ConfigurationError
from aktor.spark.offsets import bounds
from aktor.spark.offsets.bounds import EARLIEST, LATEST, Bounds
from aktor.spark.offsets.ranges import RangeLimits, name_of
from aktor.spark.options import client_settings
from aktor.spark.options import registry as registry_settings
from aktor.spark.options.avro import AvroOptions
from aktor.spark.options.hints import did_you_mean
from aktor.spark.options.protobuf import ProtobufOptions

__all__ = [
    "KNOWN",
    "OF_BATCHES",
    "GivenOptions",
    "SourceOptions",
    "Subscription",
    "beginning_with",
    "check_topic",
    "read_options",
    "unknown_option",
]

R = TypeVar("R")

#: Where a batch query ends, in this order if several are set.
_ENDS: Final = (
    *("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets", "endingOffsetsDefault"),
)
#: The options that only a batch query may have.
OF_BATCHES: Final = (*_ENDS, "pushFilters")
#: Every option but `kafka.*`.
KNOWN: Final = (
    *("assign", "subscribe", "subscribePattern"),
    *("startingOffsets", "startingOffsetsDefault", "startingTimestamp"),
    *("startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy"),
    *OF_BATCHES,
    *("failOnDataLoss", "includeHeaders", "columns", "decode", "avroSchema", "where"),
    *("descFilePath", "binaryDescriptorSet", "messageName", "emit.default.values"),
    *("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "maxBytesPerTrigger"),
    *("minPartitions", "maxRecordsPerPartition", "maxPartitions"),
    *("kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs"),
    *("groupIdPrefix", "commitOffsets", "idleWaitMs"),
)
#: What `decode` may be.
DECODERS: Final = ("string", "json", "avro", "protobuf")
#: The options that only one of them has.
_OF_DECODER: Final = {
    "avro": ("avroSchema",),
    "protobuf": ("descFilePath", "binaryDescriptorSet", "messageName", "emit.default.values"),
}
#: What only the sink has.
_OF_SINK: Final = {
    name.lower(): name for name in ("topic", "producer", "transactional", "transactionalIdPrefix")
}
_BY_LOWER: Final = {name.lower(): name for name in KNOWN}
_STRATEGIES: Final = ("assign", "subscribe", "subscribepattern")
#: A whole number. Those above the greatest one of 64 bits are refused, by their digits: Python
#: reads no number of thousands of digits.
_NUMBER: Final = re.compile(r"[0-9]+")
_GREATEST: Final = 2**63 - 1
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_DURATION: Final = re.compile(r"([0-9]{1,18})\s*(ms|s|m|h|d|min|seconds?|minutes?|hours?)?")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """The topics or partitions of a query: exactly one of the three fields is set."""

    partitions: tuple[TopicPartition, ...] = ()
    topics: tuple[str, ...] = ()
    pattern: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options of one query. `client` (the options `kafka.*`) is kept out of `repr` for its
    secrets. Times are seconds."""

    client: Mapping[str, str] = field(repr=False)
    subscription: Subscription
    starting: Bounds
    ending: Bounds
    fail_on_data_loss: bool = True
    include_headers: bool = False
    columns: tuple[str, ...] | None = None
    decode: str | None = None
    values: AvroOptions | ProtobufOptions | None = None
    where: str | None = None
    push_filters: bool = False
    max_offsets: int | None = None
    min_offsets: int | None = None
    max_bytes: int | None = None
    max_trigger_delay: float = 900.0
    range_limits: RangeLimits = field(default_factory=RangeLimits)
    poll_timeout: float = 120.0
    look_up_retries: int = 3
    look_up_wait: float = 1.0
    commit_offsets: bool = False
    idle_wait: float = 0.25


def unknown_option(
    name: str, known: tuple[str, ...], client: Iterable[str] = ()
) -> ConfigurationError:
    """The error for an unknown option; it names the nearest known one. `client`: settings that need
    `kafka.` before them."""
    hint = did_you_mean(
        name, (*client, *known), lambda near: near if near in known else f"kafka.{near}"
    )
    if name.lower() == "path":  # what is given to load, start or save
        hint = ": topics are named by options, not by a path"
    return ConfigurationError(f"unknown option {name}{hint}")


def check_topic(option: str, topic: str) -> None:
    """Refuse what brokers do not take for a topic's name (Topic.java)."""
    if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise ConfigurationError(
            f"{option}: {topic!r} cannot be a topic's name. A name has letters from a to z, digits,"
            " '.', '_' and '-', and at most 249 characters"
        )


def beginning_with(prefix: str, options: Mapping[str, str]) -> dict[str, str]:
    """Those of the options that begin so, by the rests of their names."""
    return {
        name.removeprefix(prefix): text for name, text in options.items() if name.startswith(prefix)
    }


def read_options(given: Mapping[str, str], *, stream: bool) -> SourceOptions:
    """The options of a batch query or a stream.

    Raises ConfigurationError: an unknown option, a value that cannot be, options that contradict
    each other, or one that the other kind of query has.
    """
    options = {name.lower(): text for name, text in given.items()}
    client = beginning_with(client_settings.PREFIX, options)
    if "provider" in options:
        raise ConfigurationError(
            "a table of Spark's catalog cannot have options for a source in Python: Spark does not"
            " hand them over when it reads. Use CREATE TEMPORARY VIEW ... USING aktor OPTIONS"
            " (...), or spark.read; or name the columns, CREATE TABLE t (value binary, ...) USING"
            " aktor, and the options in each query: SELECT ... FROM t WITH (...)"
        )
    for name in options:
        if name in _OF_SINK:
            raise ConfigurationError(
                f"{_OF_SINK[name]} is an option for writing; the source reads what subscribe,"
                " subscribePattern or assign says"
            )
        if name.startswith(registry_settings.PREFIX):
            _check_setting(name.removeprefix(registry_settings.PREFIX))
        elif not name.startswith(client_settings.PREFIX) and name not in _BY_LOWER:
            raise unknown_option(name, KNOWN, client_settings.names(DEFAULT_CONFIG))
    client_settings.check(client)
    read = GivenOptions(options)
    timeout_ms = read.text("kafkaConsumer.pollTimeoutMs", "120000")
    found = SourceOptions(
        client=client,
        subscription=_subscription(read),
        starting=_starting(read, stream=stream),
        ending=_ending(read, stream=stream),
        fail_on_data_loss=read.boolean("failOnDataLoss", True),
        include_headers=read.boolean("includeHeaders", False),
        columns=read.optional("columns", _names),
        decode=read.optional("decode", _decode),
        values=_values(read),
        where=read.given("where"),
        push_filters=read.boolean("pushFilters", False),
        max_offsets=read.optional("maxOffsetsPerTrigger", _positive),
        min_offsets=read.optional("minOffsetsPerTrigger", _positive),
        max_bytes=read.optional("maxBytesPerTrigger", _positive),
        max_trigger_delay=_duration("maxTriggerDelay", read.text("maxTriggerDelay", "15m")),
        range_limits=RangeLimits(
            min_partitions=read.optional("minPartitions", _positive),
            max_records=read.optional("maxRecordsPerPartition", _positive),
            max_partitions=read.optional("maxPartitions", _positive),
        ),
        poll_timeout=_positive("kafkaConsumer.pollTimeoutMs", timeout_ms) / 1000,
        look_up_retries=read.number("fetchOffset.numRetries", 3),
        look_up_wait=read.number("fetchOffset.retryIntervalMs", 1_000) / 1000,
        commit_offsets=read.boolean("commitOffsets", False),
        idle_wait=read.number("idleWaitMs", 250) / 1000,
    )
    _check_together(found, stream=stream)
    return found


def _check_together(options: SourceOptions, *, stream: bool) -> None:
    group = options.client.get("group.id")
    for name, needs in (
        ("commitOffsets", options.commit_offsets),
        ("startingOffsets=group", options.starting.of_group),
        ("endingOffsets=group", options.ending.of_group),
    ):
        if needs and not group:
            raise ConfigurationError(f"{name} needs the group: set kafka.group.id")
    if stream and options.push_filters:
        raise ConfigurationError(
            "pushFilters is for batch queries: Spark hands no filters to a stream's source; use"
            " where"
        )
    if not stream and options.commit_offsets:
        raise ConfigurationError("commitOffsets is for streams: a batch query has no progress")
    most, least = options.max_offsets, options.min_offsets
    if most is not None and least is not None and least > most:
        raise ConfigurationError(
            f"minOffsetsPerTrigger ({least}) is more than maxOffsetsPerTrigger ({most})"
        )
    limits = options.range_limits
    if (
        limits.min_partitions is not None
        and limits.max_partitions is not None
        and limits.min_partitions > limits.max_partitions
    ):
        raise ConfigurationError(
            f"minPartitions ({limits.min_partitions}) is more than maxPartitions"
            f" ({limits.max_partitions})"
        )


@dataclass(frozen=True, slots=True)
class GivenOptions:
    """The options as they were given, by lower-case names."""

    options: Mapping[str, str]

    def given(self, name: str) -> str | None:
        return self.options.get(name.lower())

    def text(self, name: str, default: str) -> str:
        return self.options.get(name.lower(), default)

    def optional(self, name: str, read: Callable[[str, str], R]) -> R | None:
        text = self.given(name)
        return None if text is None else read(name, text)

    def boolean(self, name: str, default: bool) -> bool:
        text = self.given(name)
        if text is None:
            return default
        if text.strip().lower() not in ("true", "false"):
            raise ConfigurationError(f"{name} must be true or false, not {text!r}")
        return text.strip().lower() == "true"

    def number(self, name: str, default: int) -> int:
        text = self.given(name)
        if text is None:
            return default
        return _whole(name, text, 0)


def _positive(name: str, text: str) -> int:
    return _whole(name, text, 1)


def _whole(name: str, text: str, least: int) -> int:
    digits = text.strip()
    if _NUMBER.fullmatch(digits):
        digits = digits.lstrip("0") or "0"
        if len(digits) > len(str(_GREATEST)) or int(digits) > _GREATEST:
            said = digits if len(digits) < 60 else f"one of {len(digits)} digits"
            raise ConfigurationError(f"{name} must be at most {_GREATEST}, not {said}")
        if int(digits) >= least:
            return int(digits)
    said = " above 0," if least else ", 0 or more,"
    raise ConfigurationError(f"{name} must be a whole number{said} not {text!r}")


def _duration(name: str, text: str) -> float:
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None:
        raise ConfigurationError(f"{name} must be a duration as 15m or 30s, not {text!r}")
    unit = match[2] or "ms"
    return int(match[1]) * _SECONDS[unit if unit == "ms" else unit[0]]


def _names(name: str, text: str) -> tuple[str, ...]:
    found = tuple(column.strip() for column in text.split(",") if column.strip())
    if not found:
        raise ConfigurationError(
            f"{name} must be names of columns with commas between, not {text!r}"
        )
    return found


def _decode(name: str, text: str) -> str:
    if text.strip().lower() not in DECODERS:
        raise ConfigurationError(f"{name} must be {' or '.join(DECODERS)}, not {text!r}")
    return text.strip().lower()


def _check_setting(name: str) -> None:
    if name not in registry_settings.SETTINGS:
        hint = did_you_mean(name, registry_settings.SETTINGS, "schemaRegistry.{}".format)
        raise ConfigurationError(f"unknown option schemaRegistry.{name}{hint}")


def _values(read: GivenOptions) -> AvroOptions | ProtobufOptions | None:
    """What decode=avro and decode=protobuf have to know."""
    decode = read.text("decode", "").strip().lower()
    for decoder, names in _OF_DECODER.items():
        for name in names:
            if decode != decoder and read.given(name) is not None:
                raise ConfigurationError(f"{name} is for decode={decoder}")
    registry = beginning_with(registry_settings.PREFIX, read.options)
    if decode not in _OF_DECODER:
        if registry:
            raise ConfigurationError(
                f"schemaRegistry.{min(registry)} is for decode=avro and decode=protobuf"
            )
        return None
    made = _avro(read, registry) if decode == "avro" else _protobuf(read, registry)
    if registry and "url" not in registry:
        raise ConfigurationError("schemaRegistry.url is missing: set it to http://host:port")
    for name in registry_settings.shown_secrets(registry):
        raise ConfigurationError(
            f"schemaRegistry.{name} has a secret, and Spark shows this option in its plans and its"
            " log of events: write a reference in place of the secret, as ${env:NAME} or"
            " ${file:PATH:KEY}"
        )
    registry_settings.client_settings(
        {name: text for name, text in registry.items() if "${" not in text}
    )
    return made


def _avro(read: GivenOptions, registry: Mapping[str, str]) -> AvroOptions:
    schema = read.given("avroSchema")
    if schema is None:
        raise ConfigurationError(
            "decode=avro needs avroSchema, the JSON of the schema as which values are read;"
            " aktor.spark.avro_schema(url, subject) gives the newest one of a registry"
        )
    return AvroOptions(schema=schema, registry=registry)


def _protobuf(read: GivenOptions, registry: Mapping[str, str]) -> ProtobufOptions:
    message = read.text("messageName", "").strip()
    path, text = read.given("descFilePath"), read.given("binaryDescriptorSet")
    if not message or (path is None) == (text is None):
        raise ConfigurationError(
            "decode=protobuf needs messageName, and one of descFilePath (a file that protoc makes"
            " with --include_imports --descriptor_set_out) and binaryDescriptorSet (its bytes in"
            " base64, as aktor.spark.descriptor_set makes them of a generated class or of a"
            " registry's subject)"
        )
    try:
        descriptors = (
            Path(path).read_bytes()
            if path is not None
            else base64.b64decode(text or "", validate=True)
        )
    except OSError as error:
        raise ConfigurationError(f"descFilePath: {error}") from None
    except binascii.Error as error:
        raise ConfigurationError(f"binaryDescriptorSet is no base64: {error}") from None
    return ProtobufOptions(
        descriptors=descriptors,
        origin="binaryDescriptorSet" if path is None else f"descFilePath={path}",
        message=message,
        registry=registry,
        emits_defaults=read.boolean("emit.default.values", False),
    )


# -- what is read


def _subscription(read: GivenOptions) -> Subscription:
    given = [name for name in _STRATEGIES if name in read.options]
    if len(given) != 1:
        said = ", ".join(_BY_LOWER[name] for name in given) or "none of them"
        raise ConfigurationError(
            f"set exactly one of assign, subscribe and subscribePattern; there is {said}"
        )
    text = read.options[given[0]]
    if given[0] == "subscribe":
        topics = tuple(dict.fromkeys(topic.strip() for topic in text.split(",") if topic.strip()))
        if not topics:
            raise ConfigurationError(f"subscribe must be topics with commas between, not {text!r}")
        for topic in topics:
            check_topic("subscribe", topic)
        return Subscription(topics=topics)
    if given[0] == "assign":
        return Subscription(partitions=_assigned(text))
    try:
        re.compile(text)
    except re.error as error:
        raise ConfigurationError(
            f"subscribePattern {text!r} is not a regular expression of Python's re: {error}"
        ) from None
    if not text.strip():
        raise ConfigurationError("subscribePattern is empty")
    return Subscription(pattern=text)


def _assigned(text: str) -> tuple[TopicPartition, ...]:
    try:
        found = [
            TopicPartition(topic, partition)
            for topic, partitions in bounds.read_json("assign", text).items()
            for partition in partitions
        ]
        sound = all(
            type(partition.partition) is int and 0 <= partition.partition < 2**31
            for partition in found
        )
    except (AttributeError, TypeError):
        found, sound = [], False
    if not found or not sound:
        raise ConfigurationError(f'assign must be JSON as {{"orders": [0, 1]}}, not {text!r}')
    named: set[TopicPartition] = set()
    for partition in found:
        check_topic("assign", partition.topic)
        if partition in named:
            raise ConfigurationError(f"assign names {name_of(partition)} twice")
        named.add(partition)
    return tuple(sorted(named))


# -- where it begins and ends: a timestamp for all comes before timestamps of partitions, and these
#    before offsets


def _starting(read: GivenOptions, *, stream: bool) -> Bounds:
    strategy = read.text("startingOffsetsByTimestampStrategy", "error").strip().lower()
    if strategy not in ("error", "latest"):
        raise ConfigurationError(
            f"startingOffsetsByTimestampStrategy must be error or latest, not {strategy!r}"
        )
    default = read.optional("startingOffsetsDefault", bounds.read_default)
    word = "latest" if stream else "earliest"
    is_said = read.given("startingOffsetsByTimestampStrategy") is not None
    rest = {"no_match": strategy if is_said else None}
    _check_default(read, "starting", word)
    if (text := read.given("startingTimestamp")) is not None:
        return bounds.read_time("startingTimestamp", text, **rest)
    if (text := read.given("startingOffsetsByTimestamp")) is not None:
        return bounds.read_times("startingOffsetsByTimestamp", text, default=default, **rest)
    text = read.text("startingOffsets", word)
    found = bounds.read_bounds("startingOffsets", text, default=default, **rest)
    if not stream and LATEST in (found.default, *found.given.values()):
        raise ConfigurationError("startingOffsets cannot be latest (-1) for a batch query")
    return found


def _check_default(read: GivenOptions, end: str, word: str) -> None:
    """A default for partitions that are not named, where none are named, would change nothing."""
    default = read.given(f"{end}OffsetsDefault")
    if default is None or read.given(f"{end}OffsetsByTimestamp") is not None:
        return
    if read.given(f"{end}Timestamp") is not None:
        raise ConfigurationError(
            f"{end}Timestamp is for all partitions: leave {end}OffsetsDefault out"
        )
    text = read.text(f"{end}Offsets", word)
    if not text.lstrip().startswith("{"):
        raise ConfigurationError(
            f"{end}OffsetsDefault is for partitions that JSON does not name, and {end}Offsets is"
            f" {text.strip()}, without JSON: set {end}Offsets={default}, and no default"
        )


def _ending(read: GivenOptions, *, stream: bool) -> Bounds:
    given = [name for name in _ENDS if read.given(name) is not None]
    if stream and given:
        raise ConfigurationError(f"{given[0]} is for batch queries: a stream has no end")
    default = read.optional("endingOffsetsDefault", bounds.read_default)
    rest: dict[str, Any] = {"no_match": "latest", "no_commit": LATEST}
    _check_default(read, "ending", "latest")
    if (text := read.given("endingTimestamp")) is not None:
        return bounds.read_time("endingTimestamp", text, **rest)
    if (text := read.given("endingOffsetsByTimestamp")) is not None:
        return bounds.read_times("endingOffsetsByTimestamp", text, default=default, **rest)
    text = read.text("endingOffsets", "latest")
    found = bounds.read_bounds("endingOffsets", text, default=default, **rest)
    if EARLIEST in (found.default, *found.given.values()):
        raise ConfigurationError("endingOffsets cannot be earliest (-2)")
    return found
