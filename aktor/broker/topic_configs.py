"""What a topic may be told, with Kafka's defaults and refusals; and the answer to DescribeConfigs.

Names, types, defaults, sources, synonyms and the texts of refusals are those of Kafka 4.3.1, which
was asked. Only the order of a description differs: here it is by name, there by hash.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from kafka.protocol.admin import DescribeConfigsResponse

from aktor.broker.codes import Code, Refused

__all__ = [
    "BROKER_CONFIGS",
    "TOPIC_CONFIGS",
    "ConfigKey",
    "ConfigSource",
    "ConfigType",
    "check_topic_configs",
    "describe_broker",
    "describe_topic",
    "topic_value",
]

Value = bool | int | float | str | tuple[str, ...]
Check = Callable[[Any], str | None]

_Entry: Final[Any] = DescribeConfigsResponse.DescribeConfigsResult.DescribeConfigsResourceResult
_Synonym: Final[Any] = _Entry.DescribeConfigsSynonym


class ConfigType(IntEnum):
    """What kind of value; numbers of DescribeConfigsResponse.ConfigType."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSource(IntEnum):
    """Where a value comes from; the numbers of DescribeConfigsResponse.ConfigSource."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


T = ConfigType


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    """One config of a topic or a broker.

    default: as text; None: not set (a broker's only, or an internal topic config).
    check: says what is wrong with a value of the right type, None if nothing.
    broker_name: the broker config that is this topic config's default, None if there is none.
    broker_default: what that has in Kafka; None where another unit is the default (log.roll.hours).
    read_only: whether Kafka wants a restart for a new value.
    """

    name: str
    type: ConfigType
    default: str | None
    check: Check | None = None
    broker_name: str | None = None
    broker_default: str | None = None
    read_only: bool = False
    documentation: str | None = None


# -- what values are good


def _at_least(least: int) -> Check:
    return lambda value: f"Value must be at least {least}" if value < least else None


def _between(least: int, greatest: int) -> Check:
    def check(value: float) -> str | None:
        if value < least:
            return f"Value must be at least {least}"
        return f"Value must be no more than {greatest}" if value > greatest else None

    return check


def _one_of(*texts: str) -> Check:
    def check(value: str) -> str | None:
        return None if value in texts else f"String must be one of: {', '.join(texts)}"

    return check


def _gzip_level(level: int) -> str | None:
    good = level == -1 or 1 <= level <= 9
    return None if good else "Value must be between 1 and 9 or equal to -1"


_INTEGER: Final = re.compile(r"[+-]?\d+")
_DOUBLE: Final = re.compile(r"([+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?))[fFdD]?")
_REPLICA: Final = re.compile(r"([0-9]+:[0-9]+)?")
_BITS: Final = {T.SHORT: 16, T.INT: 32, T.LONG: 64}


def _parse(key: ConfigKey, text: str) -> Value:
    """The value of a text (Kafka's ConfigDef.parseType); raises Refused(INVALID_CONFIG)."""
    trimmed = text.strip()
    if key.type is T.BOOLEAN:
        if trimmed.lower() not in ("true", "false"):
            raise _invalid(key, text, "Expected value to be either true or false")
        return trimmed.lower() == "true"
    if key.type in _BITS:
        bound = 1 << (_BITS[key.type] - 1)
        if not _INTEGER.fullmatch(trimmed) or not -bound <= _integer(trimmed) < bound:
            raise _invalid(key, text, f"Not a number of type {key.type.name}")
        return int(trimmed)
    if key.type is T.DOUBLE:
        number = _DOUBLE.fullmatch(trimmed)
        if number is None:
            raise _invalid(key, text, "Not a number of type DOUBLE")
        return float(number[1])
    if key.type is T.LIST:
        items = re.split(r"\s*,\s*", trimmed) if trimmed else []
        return tuple(dict.fromkeys(items))
    return trimmed


def _integer(digits: str) -> int:
    """Python refuses thousands of digits, which no type of Kafka's has."""
    return int(digits) if len(digits) < 100 else 1 << 100


def _check(key: ConfigKey, value: Value) -> None:
    """Raises Refused(INVALID_CONFIG) in the words of Kafka's validators."""
    if key.name == "cleanup.policy":
        assert isinstance(value, tuple)
        if "" in value:
            text = f"Configuration '{key.name}' values must not be empty."
            raise Refused(Code.INVALID_CONFIG, text)
        for policy in value:
            if wrong := _POLICY(policy):
                raise _invalid(key, policy, wrong)
    elif key.type is T.LIST:
        assert isinstance(value, tuple)
        if value != ("*",) and not all(_REPLICA.fullmatch(item) for item in value):
            form = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
            wrong = f"{key.name} must be the literal '*' or a list of replicas in the following "
            raise _invalid(key, f"[{', '.join(value)}]", f"{wrong}format: {form}")
    elif key.check and (wrong := key.check(value)):
        raise _invalid(key, _text(value), wrong)


_POLICY: Final = _one_of("compact", "delete")


def _invalid(key: ConfigKey, text: str, wrong: str) -> Refused:
    message = f"Invalid value {text} for configuration {key.name}: {wrong}"
    return Refused(Code.INVALID_CONFIG, message)


def _text(value: Value) -> str:
    """As Kafka shows a value (ConfigDef.convertToString)."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    return str(value)


# -- the configs of topics

_NEVER: Final = str(2**63 - 1)
_SAME: Final = "the topic's"


def _topic(
    name: str,
    type_: ConfigType,
    default: str | None,
    check: Check | None,
    broker_name: str | None,
    documentation: str | None,
    *,
    broker_default: str | None = _SAME,
) -> ConfigKey:
    return ConfigKey(
        name=name,
        type=type_,
        default=default,
        check=check,
        broker_name=broker_name,
        broker_default=default if broker_default is _SAME else broker_default,
        documentation=documentation,
    )


_CODECS: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")

#: In the order in which Kafka looks for a bad value (LogConfig's).
_TOPIC_TABLE: Final = (
    _topic("segment.bytes", T.INT, "1073741824", _at_least(1048576), "log.segment.bytes",
           "Size of one segment file; retention and compaction work on whole segments."),
    _topic("segment.ms", T.LONG, "604800000", _at_least(1), "log.roll.ms",
           "Time after which a segment is closed even if it is not full.", broker_default=None),
    _topic("segment.jitter.ms", T.LONG, "0", _at_least(0), "log.roll.jitter.ms",
           "Greatest random time taken off segment.ms.", broker_default=None),
    _topic("segment.index.bytes", T.INT, "10485760", _at_least(4), "log.index.size.max.bytes",
           "Size of the index from offsets to positions."),
    _topic("flush.messages", T.LONG, _NEVER, _at_least(1), "log.flush.interval.messages",
           "Number of records after which the log is forced to disk."),
    _topic("flush.ms", T.LONG, _NEVER, _at_least(0), "log.flush.interval.ms",
           "Time after which the log is forced to disk.", broker_default=None),
    _topic("retention.bytes", T.LONG, "-1", None, "log.retention.bytes",
           "Size beyond which a partition's oldest segments are deleted; -1: no limit."),
    _topic("retention.ms", T.LONG, "604800000", _at_least(-1), "log.retention.ms",
           "Age beyond which segments are deleted; -1: no limit.", broker_default=None),
    _topic("max.message.bytes", T.INT, "1048588", _at_least(0), "message.max.bytes",
           "Size of the largest record batch, as compressed, that is taken."),
    _topic("index.interval.bytes", T.INT, "4096", _at_least(0), "log.index.interval.bytes",
           "How many bytes of log there are between two entries of an index."),
    _topic("delete.retention.ms", T.LONG, "86400000", _at_least(0),
           "log.cleaner.delete.retention.ms",
           "How long tombstones are kept in compacted topics."),
    _topic("min.compaction.lag.ms", T.LONG, "0", _at_least(0),
           "log.cleaner.min.compaction.lag.ms", "Age below which a record is not compacted."),
    _topic("max.compaction.lag.ms", T.LONG, _NEVER, _at_least(1),
           "log.cleaner.max.compaction.lag.ms", "Age beyond which a record must be compacted."),
    _topic("file.delete.delay.ms", T.LONG, "60000", _at_least(0), "log.segment.delete.delay.ms",
           "Time between giving up a file and deleting it."),
    _topic("min.cleanable.dirty.ratio", T.DOUBLE, "0.5", _between(0, 1),
           "log.cleaner.min.cleanable.ratio", "Share of dirty log that makes compaction begin."),
    _topic("cleanup.policy", T.LIST, "delete", None, "log.cleanup.policy",
           "What happens to old segments: delete, compact, both, or nothing."),
    _topic("unclean.leader.election.enable", T.BOOLEAN, "false", None,
           "unclean.leader.election.enable",
           "Whether a replica that lacks records may lead as the last resort."),
    _topic("min.insync.replicas", T.INT, "1", _at_least(1), "min.insync.replicas",
           "How many replicas must be in sync for a write with acks=all."),
    _topic("compression.type", T.STRING, "producer", _one_of(*_CODECS), "compression.type",
           "How batches are stored; producer: as they were sent."),
    _topic("compression.gzip.level", T.INT, "-1", _gzip_level, "compression.gzip.level",
           "The level if compression.type is gzip."),
    _topic("compression.lz4.level", T.INT, "9", _between(1, 17), "compression.lz4.level",
           "The level if compression.type is lz4."),
    _topic("compression.zstd.level", T.INT, "3", _between(-131072, 22), "compression.zstd.level",
           "The level if compression.type is zstd."),
    _topic("preallocate", T.BOOLEAN, "false", None, "log.preallocate",
           "Whether a new segment's file gets its full size at once."),
    _topic("message.timestamp.type", T.STRING, "CreateTime",
           _one_of("CreateTime", "LogAppendTime"), "log.message.timestamp.type",
           "Whether a record keeps its producer's time or gets the broker's."),
    _topic("message.timestamp.before.max.ms", T.LONG, _NEVER, _at_least(0),
           "log.message.timestamp.before.max.ms",
           "How far a record's time may be behind the broker's."),
    _topic("message.timestamp.after.max.ms", T.LONG, "3600000", _at_least(0),
           "log.message.timestamp.after.max.ms",
           "How far a record's time may be ahead of the broker's."),
    _topic("leader.replication.throttled.replicas", T.LIST, "", None, None,
           "Replicas, as partition:broker, that are throttled at their leader; *: all."),
    _topic("follower.replication.throttled.replicas", T.LIST, "", None, None,
           "Replicas, as partition:broker, that are throttled at the follower; *: all."),
    _topic("remote.storage.enable", T.BOOLEAN, "false", None, None,
           "Whether segments go to remote storage; this broker has none."),
    _topic("local.retention.ms", T.LONG, "-2", _at_least(-2), "log.local.retention.ms",
           "Age beyond which local segments are deleted; -2: retention.ms."),
    _topic("local.retention.bytes", T.LONG, "-2", _at_least(-2), "log.local.retention.bytes",
           "Size beyond which local segments are deleted; -2: retention.bytes."),
    _topic("remote.log.copy.disable", T.BOOLEAN, "false", None, None,
           "Whether nothing more goes to remote storage."),
    _topic("remote.log.delete.on.disable", T.BOOLEAN, "false", None, None,
           "Whether switching remote storage off deletes what is there."),
    # Kafka's own tests use it for segments below a mebibyte; it is shown only if it is set.
    _topic("internal.segment.bytes", T.INT, None, None, None,
           "Size of one segment file, without a lower bound."),
)  # fmt: skip

TOPIC_CONFIGS: Final[Mapping[str, ConfigKey]] = {key.name: key for key in _TOPIC_TABLE}


# -- the configs of brokers


def _broker(
    name: str,
    type_: ConfigType,
    default: str | None,
    *,
    dynamic: bool = False,
    documentation: str | None = None,
) -> ConfigKey:
    return ConfigKey(
        name=name,
        type=type_,
        default=default,
        read_only=not dynamic,
        documentation=documentation,
    )


#: A choice: what a client may look for, and what this broker has itself.
_BROKER_TABLE: Final = (
    _broker("advertised.listeners", T.LIST, None),
    _broker("authorizer.class.name", T.STRING, ""),
    _broker("auto.create.topics.enable", T.BOOLEAN, "true"),
    _broker("auto.leader.rebalance.enable", T.BOOLEAN, "true"),
    _broker("broker.id", T.INT, "-1"),
    _broker("broker.rack", T.STRING, None),
    _broker("connections.max.idle.ms", T.LONG, "600000"),
    _broker("controlled.shutdown.enable", T.BOOLEAN, "true"),
    _broker("default.replication.factor", T.INT, "1"),
    _broker("delete.topic.enable", T.BOOLEAN, "true"),
    _broker("fetch.max.bytes", T.INT, "57671680"),
    _broker("group.consumer.assignors", T.LIST, "uniform,range"),
    _broker("group.consumer.heartbeat.interval.ms", T.INT, "5000"),
    _broker("group.consumer.max.heartbeat.interval.ms", T.INT, "15000"),
    _broker("group.consumer.max.session.timeout.ms", T.INT, "60000"),
    _broker("group.consumer.max.size", T.INT, "2147483647"),
    _broker("group.consumer.migration.policy", T.STRING, "bidirectional"),
    _broker("group.consumer.min.heartbeat.interval.ms", T.INT, "5000"),
    _broker("group.consumer.min.session.timeout.ms", T.INT, "45000"),
    _broker("group.consumer.session.timeout.ms", T.INT, "45000"),
    _broker("group.coordinator.rebalance.protocols", T.LIST, "classic,consumer,streams"),
    _broker("group.initial.rebalance.delay.ms", T.INT, "3000"),
    _broker("group.max.session.timeout.ms", T.INT, "1800000"),
    _broker("group.max.size", T.INT, "2147483647"),
    _broker("group.min.session.timeout.ms", T.INT, "6000"),
    _broker("inter.broker.listener.name", T.STRING, None),
    _broker("listeners", T.LIST, "PLAINTEXT://:9092", dynamic=True),
    _broker("log.cleaner.backoff.ms", T.LONG, "15000", dynamic=True),
    _broker("log.cleaner.enable", T.BOOLEAN, "true"),
    _broker("log.dir", T.LIST, "/tmp/kafka-logs"),
    _broker("log.dirs", T.LIST, None),
    _broker("log.retention.check.interval.ms", T.LONG, "300000"),
    _broker("log.retention.hours", T.INT, "168"),
    _broker("log.retention.minutes", T.INT, None),
    _broker("log.roll.hours", T.INT, "168"),
    _broker("log.roll.jitter.hours", T.INT, "0"),
    _broker("max.connections", T.INT, "2147483647", dynamic=True),
    _broker("max.incremental.fetch.session.cache.slots", T.INT, "1000"),
    _broker("node.id", T.INT, None),
    _broker("num.io.threads", T.INT, "8", dynamic=True),
    _broker("num.network.threads", T.INT, "3", dynamic=True),
    _broker("num.partitions", T.INT, "1"),
    _broker("offset.metadata.max.bytes", T.INT, "4096"),
    _broker("offsets.retention.check.interval.ms", T.LONG, "600000"),
    _broker("offsets.retention.minutes", T.INT, "10080"),
    _broker("offsets.topic.num.partitions", T.INT, "50"),
    _broker("offsets.topic.replication.factor", T.SHORT, "3"),
    _broker("process.roles", T.LIST, None),
    _broker("producer.id.expiration.ms", T.INT, "86400000", dynamic=True),
    _broker("replica.lag.time.max.ms", T.LONG, "30000"),
    _broker("replica.selector.class", T.STRING, None),
    _broker("sasl.enabled.mechanisms", T.LIST, "GSSAPI", dynamic=True),
    _broker("security.inter.broker.protocol", T.STRING, "PLAINTEXT"),
    _broker("socket.request.max.bytes", T.INT, "104857600"),
    _broker("ssl.keystore.location", T.STRING, None, dynamic=True),
    _broker("ssl.keystore.password", T.PASSWORD, None, dynamic=True),
    _broker("transaction.max.timeout.ms", T.INT, "900000"),
    _broker("transaction.state.log.min.isr", T.INT, "2"),
    _broker("transaction.state.log.num.partitions", T.INT, "50"),
    _broker("transaction.state.log.replication.factor", T.SHORT, "3"),
    _broker("transactional.id.expiration.ms", T.INT, "604800000"),
)

#: By name; with those that are the defaults of topics, which Kafka lets all be changed at run time.
BROKER_CONFIGS: Final[Mapping[str, ConfigKey]] = {
    key.name: key
    for key in sorted(
        (
            *_BROKER_TABLE,
            *(
                _broker(
                    key.broker_name,
                    key.type,
                    key.broker_default,
                    dynamic=True,
                    documentation=key.documentation,
                )
                for key in _TOPIC_TABLE
                if key.broker_name
            ),
        ),
        key=lambda key: key.name,
    )
}

#: With eligible leader replicas (KIP-966), on by default since 4.1, the controller sets it for all.
_SET_BY_CONTROLLER: Final = "min.insync.replicas"


# -- what others ask


def check_topic_configs(
    configs: Mapping[str, str | None] | Iterable[tuple[str, str | None]],
    *,
    defaults: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """What a topic is to be told, each value in Kafka's spelling (" TRUE" is "true").

    configs: what was asked for; of a name given twice, the last counts.
    defaults: what the cluster gives all topics, by the names of topic configs.

    Raises Refused(INVALID_CONFIG) with Kafka's message, in Kafka's order: nulls, unknown names, bad
    values, values that contradict each other.
    """
    asked = dict(configs)
    nulls = [name for name, text in asked.items() if text is None]
    if nulls:
        message = f"Null value not supported for topic configs: {','.join(nulls)}"
        raise Refused(Code.INVALID_CONFIG, message)
    for name in asked:
        if name not in TOPIC_CONFIGS:
            raise Refused(Code.INVALID_CONFIG, f"Unknown topic config name: {name}")
    values = {}
    for key in _TOPIC_TABLE:
        if (text := asked.get(key.name)) is not None:
            values[key.name] = value = _parse(key, text)
            _check(key, value)
    checked = {name: _text(values[name]) for name in asked}
    _check_together({**(defaults or {}), **checked})
    return checked


def _check_together(configs: Mapping[str, str]) -> None:
    """What LogConfig.validateValues asks, and that there is no remote storage."""
    least, greatest = "min.compaction.lag.ms", "max.compaction.lag.ms"
    low, high = topic_value(configs, least), topic_value(configs, greatest)
    assert isinstance(low, int)
    assert isinstance(high, int)
    if low > high:
        text = f"conflict topic config setting {least} ({low}) > {greatest} ({high})"
        raise Refused(Code.INVALID_CONFIG, text)
    if topic_value(configs, "remote.storage.enable"):
        raise Refused(
            Code.INVALID_CONFIG,
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        )


def topic_value(configs: Mapping[str, str], name: str) -> Value | None:
    """The value of a config, Kafka's default if it is not set: bool, int, float, str, or a tuple
    of str for a list. None for an internal one that is not set.

    Raises KeyError for a name that is no topic config.
    """
    key = TOPIC_CONFIGS[name]
    text = configs.get(name, key.default)
    return None if text is None else _parse(key, text)


def describe_topic(
    configs: Mapping[str, str],
    keys: Iterable[str] | None = None,
    *,
    defaults: Mapping[str, str] | None = None,
    include_synonyms: bool = False,
    include_documentation: bool = False,
) -> list[Any]:
    """Configs of a topic, as DescribeConfigs answers them, by name.

    configs: what was set on this topic.
    keys: the names wanted; None or none at all: all. Unknown names are left out, as Kafka does.
    defaults: what the cluster gives all topics, by the names of topic configs; shown as set in the
        broker's file.
    """
    wanted = frozenset(keys or TOPIC_CONFIGS)
    entries = []
    for name in sorted(wanted & TOPIC_CONFIGS.keys()):
        key = TOPIC_CONFIGS[name]
        synonyms = _topic_synonyms(key, configs, defaults or {})
        text = {**(defaults or {}), **configs}.get(name, key.default)
        if text is not None:
            entries.append(_entry(key, text, synonyms, include_synonyms, include_documentation))
    return entries


def _topic_synonyms(
    key: ConfigKey, configs: Mapping[str, str], defaults: Mapping[str, str]
) -> list[Any]:
    synonyms = []
    if key.name in configs:
        synonyms.append(_synonym(key.name, configs[key.name], ConfigSource.TOPIC))
    if key.broker_name:
        broker = BROKER_CONFIGS[key.broker_name]
        synonyms += _broker_synonyms(broker, defaults.get(key.name))
    return synonyms


def describe_broker(
    values: Mapping[str, str],
    keys: Iterable[str] | None = None,
    *,
    topic_defaults: Mapping[str, str] | None = None,
    for_all_brokers: bool = False,
    include_synonyms: bool = False,
    include_documentation: bool = False,
) -> list[Any]:
    """Configs of a broker, as DescribeConfigs answers them, by name.

    values: what this broker was started with, by the names of broker configs (of BROKER_CONFIGS).
    keys: the names wanted; None or none at all: all. Unknown names are left out, as Kafka does.
    topic_defaults: what it gives all topics, by the names of topic configs.
    for_all_brokers: the resource has no name: only what was set for all brokers at run time.
    """
    started_with = dict(values)
    for name, default in (topic_defaults or {}).items():
        if broker_name := TOPIC_CONFIGS[name].broker_name:
            started_with[broker_name] = default
    wanted = frozenset(keys or BROKER_CONFIGS)
    entries = []
    for name, key in BROKER_CONFIGS.items():
        if name not in wanted or (for_all_brokers and name != _SET_BY_CONTROLLER):
            continue
        synonyms = _broker_synonyms(key, started_with.get(name))
        if for_all_brokers:
            synonyms = synonyms[:1]
        text = started_with.get(name, key.default)
        entries.append(_entry(key, text, synonyms, include_synonyms, include_documentation))
    return entries


def _broker_synonyms(key: ConfigKey, value: str | None) -> list[Any]:
    """What a broker knows under this name, the strongest first."""
    synonyms = []
    if key.name == _SET_BY_CONTROLLER:
        text = key.default if value is None else value
        synonyms.append(_synonym(key.name, text, ConfigSource.DYNAMIC_DEFAULT_BROKER))
    if value is not None:
        hidden = None if key.type is T.PASSWORD else value
        synonyms.append(_synonym(key.name, hidden, ConfigSource.STATIC_BROKER))
    if key.default is not None:
        synonyms.append(_synonym(key.name, key.default, ConfigSource.DEFAULT))
    return synonyms


def _synonym(name: str, value: str | None, source: ConfigSource) -> Any:
    return _Synonym(name=name, value=value, source=int(source))


def _entry(
    key: ConfigKey,
    text: str | None,
    synonyms: list[Any],
    include_synonyms: bool,
    include_documentation: bool,
) -> Any:
    sensitive = key.type is T.PASSWORD
    return _Entry(
        name=key.name,
        value=None if sensitive else text,
        read_only=key.read_only,
        config_source=synonyms[0].source if synonyms else int(ConfigSource.DEFAULT),
        is_sensitive=sensitive,
        synonyms=synonyms if include_synonyms else [],
        config_type=int(key.type),
        documentation=key.documentation if include_documentation else None,
    )
