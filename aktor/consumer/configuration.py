"""The configuration: kafka-python's keyword arguments, checked, and made into `Settings`.

`docs/configuration.md` lists every setting, and where we deviate from kafka-python and why.
"""

from __future__ import annotations

import difflib
import importlib.metadata
import importlib.util
import numbers
import operator
import os
import platform
import re
import reprlib
import selectors
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import kafka.consumer.group as kafka_python
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import UnrecognizedBrokerVersion
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.consumer import IsolationLevel

from aktor.errors import ConfigurationError
from aktor.settings import Settings
from aktor.trace import Trace, open_trace

__all__ = ["DEFAULT_CONFIG", "Masked", "Secret", "parse"]

#: Checks one value and returns it as it will be kept; raises ConfigurationError.
Check = Callable[[str, Any], Any]

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
DEFAULT_PORT: Final = 9092
#: What kafka-python takes for brokers before 3.0, whose default limit was lower (KIP-735).
SESSION_TIMEOUT_BEFORE_3_0: Final = 30_000

OFFSET_RESETS: Final = ("latest", "earliest", "none")
#: The names of Kafka 0.8, which kafka-python still takes.
OFFSET_RESETS_OF_OLD: Final = {"smallest": "earliest", "largest": "latest"}
SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
PASSWORD_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SASL_MECHANISMS: Final = (*PASSWORD_MECHANISMS, "OAUTHBEARER", "GSSAPI", "AWS_MSK_IAM")
ASSIGNORS_MUST: Final = "a list of assignors (classes or instances), as [RangePartitionAssignor]"
DNS_LOOKUPS: Final = ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")
PROXY_SCHEMES: Final = ("socks5", "socks5h", "http")

MASK: Final = "***"


# -- secrets


class Secret(str):
    """A password for the connections: works as itself, and shows as *** wherever it is printed."""

    __slots__ = ()

    def __new__(cls, text: str) -> Secret:
        # str(text) of another Secret would be the mask
        return super().__new__(cls, str.__str__(text))

    def __repr__(self) -> str:
        return repr(MASK)

    def __str__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def __reduce__(self) -> Any:
        return Masked, ()

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: Any) -> Secret:
        return self


class Masked(str):
    """What `consumer.config` shows of a secret: the text *** also to JSON and to joins.

    Made for people and logs; another consumer made from `consumer.config` gets the secret itself.
    """

    __slots__ = ("secret",)
    secret: Secret | None

    def __new__(cls, secret: Secret | None = None) -> Masked:
        masked = super().__new__(cls, MASK)
        masked.secret = secret
        return masked

    def __reduce__(self) -> Any:
        return Masked, ()

    def __copy__(self) -> Masked:
        return self

    def __deepcopy__(self, memo: Any) -> Masked:
        return self


def _unmasked(name: str, value: Any) -> Any:
    if not isinstance(value, Masked):
        return value
    if value.secret is None:
        raise ConfigurationError(f"{name} was masked when its configuration was pickled; set it")
    return value.secret


# -- checks of one value


def _refusal(name: str, value: Any, must: str) -> ConfigurationError:
    return ConfigurationError(f"{name} is {reprlib.repr(value)}, but must be {must}")


def _anything(name: str, value: Any) -> Any:
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _milliseconds(low: int = 0, high: int = INT32_MAX) -> Check:
    must = f"a number of milliseconds from {low} to {high}"

    def check(name: str, value: Any) -> Any:
        if not _is_number(value) or not low <= value <= high:
            raise _refusal(name, value, must)
        return value

    return check


def _integer(low: int, high: int, what: str) -> Check:
    must = f"a whole number of {what} from {low} to {high}"

    def check(name: str, value: Any) -> int:
        if isinstance(value, bool):
            raise _refusal(name, value, must)
        try:
            number = operator.index(value)
        except TypeError:
            raise _refusal(name, value, must) from None
        if not low <= number <= high:
            raise _refusal(name, value, must)
        return number

    return check


def _bytes(low: int = 1, high: int = INT32_MAX) -> Check:
    return _integer(low, high, "bytes")


def _optional(check: Check) -> Check:
    return lambda name, value: None if value is None else check(name, value)


def _boolean(name: str, value: Any) -> bool:
    # kafka-python takes anything; "false" from an environment variable would mean True there
    if not isinstance(value, int) or value not in (0, 1):
        raise _refusal(name, value, "True or False")
    return bool(value)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _refusal(name, value, "a str")
    return value


def _servers(name: str, value: Any) -> str | list[Any]:
    if isinstance(value, str):
        return value
    if isinstance(value, (bytes, Mapping)) or not isinstance(value, Iterable):
        raise _refusal(name, value, "'host:port', several with commas between, or a list of such")
    return list(value)


def _client_id(name: str, value: Any) -> str:
    return DEFAULT_CLIENT_ID if value is None else _text(name, value)


def _group_id(name: str, value: Any) -> str:
    text = _text(name, value)
    if text == "":
        raise _refusal(name, value, "the name of a group, or None to read without one")
    return text


def _one_of(*choices: str) -> Check:
    def check(name: str, value: Any) -> str:
        for choice in choices:
            if value == choice:
                return choice
        must = f"one of {', '.join(map(repr, choices))}"
        raise _refusal(name, value, must + _did_you_mean(_nearest(value, choices)))

    return check


def _offset_reset(name: str, value: Any) -> Any:
    if value is None:
        return "none"
    if isinstance(value, str):
        value = OFFSET_RESETS_OF_OLD.get(value, value.lower())
    return _one_of(*OFFSET_RESETS)(name, value)


def _isolation_level(name: str, value: Any) -> Any:
    try:
        return IsolationLevel.build_from(value).name.lower()
    except ValueError:
        return _one_of("read_uncommitted", "read_committed")(name, value)


def _group_protocol(name: str, value: Any) -> Any:
    value = value.lower() if isinstance(value, str) else value
    if value == "consumer":
        raise ConfigurationError(
            "group_protocol 'consumer' (KIP-848) is not supported yet; use 'classic'"
        )
    return _one_of("classic")(name, value)


def _password(name: str, value: Any) -> Any:
    """A Secret, or a function that returns one (`ssl_password` only). Never shows the value."""
    value = _unmasked(name, value)
    if callable(value) and name == "ssl_password":
        return value
    if isinstance(value, (bytes, bytearray)):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise ConfigurationError(f"{name} is bytes that are not UTF-8; pass a str") from None
    if not isinstance(value, str):
        raise ConfigurationError(f"{name} is of type {type(value).__name__}, but must be a str")
    return Secret(value)


def _path(name: str, value: Any) -> str:
    try:
        return os.fsdecode(value)
    except TypeError:
        raise _refusal(name, value, "the name of a file") from None


def _callable(name: str, value: Any) -> Any:
    if not callable(value):
        raise _refusal(name, value, "a function")
    return value


def _selector(name: str, value: Any) -> Any:
    if not isinstance(value, type) or not issubclass(value, selectors.BaseSelector):
        raise _refusal(name, value, "a class of selectors.BaseSelector")
    return value


def _callback(name: str, value: Any) -> Any:
    return ignore_commit if value is None else _callable(name, value)


def _ssl_context(name: str, value: Any) -> Any:
    if not isinstance(value, ssl.SSLContext):
        raise _refusal(name, value, "an ssl.SSLContext")
    return value


def _token_provider(name: str, value: Any) -> Any:
    if not callable(getattr(value, "token", None)):
        raise ConfigurationError(
            f"{name} is of type {type(value).__name__}, which has no token(): pass an instance of a"
            " class that implements kafka.net.sasl.oauth.AbstractTokenProvider"
        )
    return value


def _socket_options(name: str, value: Any) -> list[Any]:
    must = "a list of arguments to setsockopt, e.g. [(SOL_SOCKET, SO_KEEPALIVE, 1)]"
    if not isinstance(value, (list, tuple)):
        raise _refusal(name, value, must)
    for option in value:
        if not isinstance(option, (list, tuple)) or len(option) not in (3, 4):
            raise _refusal(name, value, must)
    return list(value)


def _buffer_size(name: str, value: Any) -> int | None:
    # -1 is the Java client's way to leave it to the system
    return None if value == -1 else _bytes()(name, value)


def _consumer_timeout(name: str, value: Any) -> Any:
    if not _is_number(value) or value != value:
        raise _refusal(name, value, "a number of milliseconds; float('inf') iterates for ever")
    return float("inf") if value < 0 else value


def _api_version(name: str, value: Any) -> Any:
    """A broker version that kafka-python knows, as a tuple; None has the broker asked."""
    must = "a tuple such as (3, 9), or None to ask the broker"
    if value == "auto":
        return None
    if isinstance(value, str):
        if not re.fullmatch(r"\d+(\.\d+)+", value):
            raise _refusal(name, value, must)
        value = tuple(map(int, value.split(".")))
    if not isinstance(value, tuple) or not all(type(one) is int for one in value):
        raise _refusal(name, value, must)
    try:
        return BrokerVersionData(value).broker_version
    except UnrecognizedBrokerVersion:
        raise _refusal(name, value, f"{must}; no broker of this version is known") from None


def _proxy(name: str, value: Any) -> str:
    value = _text(name, _unmasked(name, value))
    try:
        parts = urlsplit(value)
        whole = parts.scheme in PROXY_SCHEMES and parts.hostname and parts.port
    except ValueError:
        whole = None
    if not whole:
        # the address may hold a password: it is not repeated here
        raise ConfigurationError(
            f"{name} cannot be used: it must look like socks5://host:1080, with one of the schemes"
            f" {', '.join(PROXY_SCHEMES)} and with a port"
        )
    return Secret(value) if parts.username or parts.password else value


def _assignors(name: str, value: Any) -> tuple[Any, ...]:
    if isinstance(value, (str, type)) or not isinstance(value, Iterable):
        raise _refusal(name, value, ASSIGNORS_MUST)
    return tuple(value)


def _not_yet(default: Any, what: str) -> Check:
    """Accept a setting of kafka-python only with the value that means "without it"."""

    def check(name: str, value: Any) -> Any:
        value = list(value) if isinstance(value, tuple) else value
        if value == default:
            return default
        raise ConfigurationError(f"{name} is not supported yet ({what}); leave it out")

    return check


# -- the settings


def _version() -> str:
    try:
        return importlib.metadata.version("aktor")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


VERSION: Final = _version()
DEFAULT_CLIENT_ID: Final = f"aktor-{VERSION}"


def ignore_commit(offsets: Any, response: Any) -> bool:
    """The default callback of automatic commits: does nothing."""
    return True


_KAFKA_CLIENT: Final = kafka_python.KafkaConsumer.DEFAULT_CONFIG["kafka_client"]
_ASSIGNORS: Final = (RangePartitionAssignor, RoundRobinPartitionAssignor)

#: Every setting: its default and what checks it. First kafka-python's, in its order, then ours.
_SETTINGS: Final[dict[str, tuple[Any, Check]]] = {
    "bootstrap_servers": ("localhost", _servers),
    "client_id": (DEFAULT_CLIENT_ID, _client_id),
    "client_rack": ("", _text),
    "group_id": (None, _optional(_group_id)),
    "group_instance_id": (None, _not_yet(None, "static membership, KIP-345")),
    "key_deserializer": (None, _anything),
    "value_deserializer": (None, _anything),
    "enable_incremental_fetch_sessions": (True, _boolean),
    "fetch_max_wait_ms": (500, _milliseconds()),
    "fetch_min_bytes": (1, _bytes(low=0)),
    "fetch_max_bytes": (52_428_800, _bytes()),
    "max_partition_fetch_bytes": (1_048_576, _bytes()),
    "request_timeout_ms": (30_000, _milliseconds(1)),
    "retry_backoff_ms": (100, _milliseconds()),
    "reconnect_backoff_ms": (50, _milliseconds()),
    "reconnect_backoff_max_ms": (30_000, _milliseconds()),
    "max_in_flight_requests_per_connection": (5, _integer(1, INT32_MAX, "requests")),
    "auto_offset_reset": ("latest", _offset_reset),
    "enable_auto_commit": (True, _boolean),
    "auto_commit_interval_ms": (5_000, _milliseconds()),
    "default_offset_commit_callback": (ignore_commit, _callback),
    "check_crcs": (True, _boolean),
    "isolation_level": ("read_uncommitted", _isolation_level),
    "allow_auto_create_topics": (True, _boolean),
    "metadata_max_age_ms": (300_000, _milliseconds(high=INT64_MAX)),
    "client_dns_lookup": ("use_all_dns_ips", _one_of(*DNS_LOOKUPS)),
    "partition_assignment_strategy": (_ASSIGNORS, _assignors),
    "max_poll_records": (500, _integer(1, INT32_MAX, "records")),
    "max_poll_interval_ms": (300_000, _milliseconds(1)),
    "session_timeout_ms": (45_000, _milliseconds(1)),
    "heartbeat_interval_ms": (3_000, _milliseconds(1)),
    "receive_buffer_bytes": (None, _optional(_buffer_size)),
    "send_buffer_bytes": (None, _optional(_buffer_size)),
    "receive_message_max_bytes": (100_000_000, _bytes()),
    "socket_options": ([(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)], _socket_options),
    "consumer_timeout_ms": (float("inf"), _consumer_timeout),
    "security_protocol": ("PLAINTEXT", _one_of(*SECURITY_PROTOCOLS)),
    "ssl_context": (None, _optional(_ssl_context)),
    "ssl_check_hostname": (True, _boolean),
    "ssl_cafile": (None, _optional(_path)),
    "ssl_certfile": (None, _optional(_path)),
    "ssl_keyfile": (None, _optional(_path)),
    "ssl_crlfile": (None, _optional(_path)),
    "ssl_password": (None, _optional(_password)),
    "ssl_ciphers": (None, _optional(_text)),
    "api_version": (None, _optional(_api_version)),
    "bootstrap_timeout_ms": (30_000, _milliseconds()),
    "connections_max_idle_ms": (540_000, _milliseconds(high=INT64_MAX)),
    "metric_reporters": ([], _not_yet([], "reporters of metrics")),
    "metrics_enabled": (True, _boolean),
    "metrics_num_samples": (2, _not_yet(2, "metrics over windows")),
    "metrics_sample_window_ms": (30_000, _not_yet(30_000, "metrics over windows")),
    "metric_group_prefix": ("consumer", _not_yet("consumer", "another name for metrics")),
    "selector": (selectors.DefaultSelector, _selector),
    "exclude_internal_topics": (True, _not_yet(True, "subscribing to a pattern")),
    "sasl_mechanism": (None, _optional(_one_of(*SASL_MECHANISMS))),
    "sasl_plain_username": (None, _optional(_text)),
    "sasl_plain_password": (None, _optional(_password)),
    "sasl_kerberos_name": (None, _anything),
    "sasl_kerberos_service_name": ("kafka", _text),
    "sasl_kerberos_domain_name": (None, _optional(_text)),
    "sasl_oauth_token_provider": (None, _optional(_token_provider)),
    "proxy_url": (None, _optional(_proxy)),
    "socks5_proxy": (None, _optional(_proxy)),
    "kafka_client": (_KAFKA_CLIENT, _not_yet(_KAFKA_CLIENT, "a client of your own")),
    # ours
    "default_api_timeout_ms": (60_000, _milliseconds()),
    "group_protocol": ("classic", _group_protocol),
    "max_buffered_bytes": (None, _optional(_bytes(high=INT64_MAX))),
    "max_decompressed_batch_bytes": (268_435_456, _bytes(high=INT64_MAX)),
    "retry_backoff_max_ms": (1_000, _milliseconds()),
    "socket_connection_setup_timeout_ms": (10_000, _milliseconds(1)),
}

#: Every setting and its default: kafka-python's `KafkaConsumer.DEFAULT_CONFIG` and ours.
DEFAULT_CONFIG: Final[dict[str, Any]] = {
    name: default for name, (default, _check) in _SETTINGS.items()
}

#: Names from other clients that no rule of spelling leads to ours.
_FOREIGN_NAMES: Final = {
    "api_version_auto_timeout_ms": "bootstrap_timeout_ms",
    "default_topic_offset_reset": "auto_offset_reset",
    "fetch_message_max_bytes": "max_partition_fetch_bytes",
    "fetch_wait_max_ms": "fetch_max_wait_ms",
    "metadata_broker_list": "bootstrap_servers",
    "queued_max_messages_kbytes": "max_buffered_bytes",
    "sasl_password": "sasl_plain_password",
    "sasl_username": "sasl_plain_username",
    "ssl_ca_location": "ssl_cafile",
    "ssl_certificate_location": "ssl_certfile",
    "ssl_cipher_suites": "ssl_ciphers",
    "ssl_crl_location": "ssl_crlfile",
    "ssl_key_location": "ssl_keyfile",
    "ssl_key_password": "ssl_password",
    "ssl_truststore_location": "ssl_cafile",
}

#: What the connections take under kafka-python's names.
_CONNECTION: Final = (
    "api_version",
    "client_dns_lookup",
    "client_id",
    "connections_max_idle_ms",
    "max_in_flight_requests_per_connection",
    "metadata_max_age_ms",
    "proxy_url",
    "receive_buffer_bytes",
    "receive_message_max_bytes",
    "reconnect_backoff_max_ms",
    "reconnect_backoff_ms",
    "request_timeout_ms",
    "sasl_kerberos_domain_name",
    "sasl_kerberos_name",
    "sasl_kerberos_service_name",
    "sasl_mechanism",
    "sasl_oauth_token_provider",
    "sasl_plain_password",
    "sasl_plain_username",
    "security_protocol",
    "selector",
    "send_buffer_bytes",
    "socket_connection_setup_timeout_ms",
    "socket_options",
    "ssl_cafile",
    "ssl_certfile",
    "ssl_check_hostname",
    "ssl_ciphers",
    "ssl_context",
    "ssl_crlfile",
    "ssl_keyfile",
    "ssl_password",
)


def parse(
    configs: Mapping[str, Any], *, trace: Trace | None = None
) -> tuple[dict[str, Any], Settings]:
    """Check the user's keyword arguments and complete them.

    Returns `consumer.config`, which has every name of DEFAULT_CONFIG as kafka-python would (with
    passwords masked), and the Settings that our parts read. `trace` hears of what is deprecated,
    ignored or unwise; without one, the logger `aktor` does.

    Raises ConfigurationError, which names the setting, what is wrong and what to do.
    """
    log = open_trace() if trace is None else trace
    _refuse_unknown(configs)
    config = {
        name: check(name, configs.get(name, DEFAULT_CONFIG[name]))
        for name, (_default, check) in _SETTINGS.items()
    }
    _take_deprecated(configs, config, log)
    supplied = frozenset(configs)
    _follow_each_other(config, supplied)
    _follow_old_brokers(config, supplied)
    _check_times(config, log)
    _check_group(config, supplied, log)
    _check_security(config, supplied, log)
    settings = _settings(config)
    return _shown(config), settings


# -- names


def _refuse_unknown(configs: Mapping[str, Any]) -> None:
    unknown = [name for name in configs if name not in _SETTINGS]
    if unknown:
        texts = (f"{name!r}{_did_you_mean(_nearest_setting(name))}" for name in unknown)
        raise ConfigurationError(f"unknown setting {'; '.join(texts)}")


def _nearest_setting(name: str) -> str | None:
    plain = re.sub(r"[^a-z0-9]+", "_", str(name).lower())
    if plain in ("topic", "topics"):
        raise ConfigurationError(
            f"unknown setting {name!r}: topics are given by position, as in KafkaConsumer('orders')"
        )
    return _FOREIGN_NAMES.get(plain) or _nearest(plain, _SETTINGS)


def _nearest(value: Any, known: Iterable[str]) -> str | None:
    by_lower = {one.lower(): one for one in known}
    near = difflib.get_close_matches(str(value).lower(), by_lower, n=1)
    return by_lower[near[0]] if near else None


def _did_you_mean(name: str | None) -> str:
    return f" (did you mean {name!r}?)" if name else ""


def _take_deprecated(configs: Mapping[str, Any], config: dict[str, Any], log: Trace) -> None:
    reset = configs.get("auto_offset_reset")
    if isinstance(reset, str) and reset in OFFSET_RESETS_OF_OLD:
        log.warning(
            "setting.deprecated",
            setting="auto_offset_reset",
            value=reset,
            use=config["auto_offset_reset"],
        )
    if isinstance(configs.get("api_version"), str):
        log.warning(
            "setting.deprecated",
            setting="api_version",
            value=configs["api_version"],
            use=repr(config["api_version"]),
        )
    if config["socks5_proxy"] is not None:
        log.warning("setting.deprecated", setting="socks5_proxy", use="proxy_url")
        if config["proxy_url"] is None:
            config["proxy_url"] = config["socks5_proxy"]


# -- settings that depend on each other


def _follow_each_other(config: dict[str, Any], supplied: frozenset[str]) -> None:
    for low, high in (
        ("retry_backoff_ms", "retry_backoff_max_ms"),
        ("reconnect_backoff_ms", "reconnect_backoff_max_ms"),
    ):
        if config[low] <= config[high]:
            continue
        if low in supplied and high in supplied:
            raise ConfigurationError(
                f"{low} ({config[low]}) must not be larger than {high} ({config[high]})"
            )
        kept = low if low in supplied else high
        config[low] = config[high] = config[kept]

    # A frame holds at least one batch, however large, and more than the records (KIP-74).
    config["receive_message_max_bytes"] = max(
        config["receive_message_max_bytes"],
        min(INT32_MAX, config["fetch_max_bytes"] + config["max_partition_fetch_bytes"]),
    )
    if config["max_buffered_bytes"] is None:
        config["max_buffered_bytes"] = config["fetch_max_bytes"]


def _follow_old_brokers(config: dict[str, Any], supplied: frozenset[str]) -> None:
    """What kafka-python takes as defaults once it is told a broker of old."""
    version = config["api_version"]
    if version is None:
        return
    before_kip_62 = version < (0, 10, 1)  # no poll interval apart from the session
    if "session_timeout_ms" not in supplied:
        if before_kip_62 and "max_poll_interval_ms" in supplied:
            config["session_timeout_ms"] = config["max_poll_interval_ms"]
        elif version < (3, 0):
            config["session_timeout_ms"] = SESSION_TIMEOUT_BEFORE_3_0
    if before_kip_62:
        if "max_poll_interval_ms" not in supplied:
            config["max_poll_interval_ms"] = config["session_timeout_ms"]
        if config["max_poll_interval_ms"] != config["session_timeout_ms"]:
            raise ConfigurationError(
                f"max_poll_interval_ms ({config['max_poll_interval_ms']}) and session_timeout_ms"
                f" ({config['session_timeout_ms']}) must be equal for brokers before 0.10.1"
                f" (api_version is {version})"
            )


def _check_times(config: dict[str, Any], log: Trace) -> None:
    wait, request = config["fetch_max_wait_ms"], config["request_timeout_ms"]
    idle = config["connections_max_idle_ms"]
    if not wait < request < idle:
        raise ConfigurationError(
            f"connections_max_idle_ms ({idle}) must be larger than request_timeout_ms ({request}),"
            f" which must be larger than fetch_max_wait_ms ({wait})"
        )
    if config["group_id"] is None:
        return
    heartbeat, session = config["heartbeat_interval_ms"], config["session_timeout_ms"]
    if heartbeat >= session:
        raise ConfigurationError(
            f"heartbeat_interval_ms ({heartbeat}) must be lower than session_timeout_ms"
            f" ({session}); a third of it or less is usual"
        )
    if heartbeat > session / 3:
        log.warning(
            "setting.unwise",
            setting="heartbeat_interval_ms",
            value=heartbeat,
            because=f"one lost heartbeat may end the session ({session} ms); take a third or less",
        )


def _check_group(config: dict[str, Any], supplied: frozenset[str], log: Trace) -> None:
    if config["group_id"] is None and config["enable_auto_commit"]:
        config["enable_auto_commit"] = False
        if "enable_auto_commit" in supplied:
            log.warning(
                "setting.ignored", setting="enable_auto_commit", because="there is no group_id"
            )
    if config["group_id"] is not None and not config["partition_assignment_strategy"]:
        raise ConfigurationError(
            "partition_assignment_strategy is empty, but a group needs an assignor: leave it out"
        )


def _assignor(given: Any) -> Any:
    instance = given
    if callable(given) and not isinstance(given, AbstractPartitionAssignor):
        instance = given()
    if not hasattr(instance, "supported_protocols"):
        raise _refusal("an item of partition_assignment_strategy", given, ASSIGNORS_MUST)
    return instance


def _assignor_instances(strategy: tuple[Any, ...]) -> tuple[Any, ...]:
    """One instance each; together they must agree on a way to rebalance (KIP-429)."""
    assignors = tuple(map(_assignor, strategy))
    names = [one.name for one in assignors]
    if len(set(names)) < len(names):
        raise ConfigurationError(f"partition_assignment_strategy names one twice: {names}")
    protocols = [set(one.supported_protocols()) for one in assignors]
    if protocols and not set.intersection(*protocols):
        raise ConfigurationError(
            f"partition_assignment_strategy {names} has no rebalance protocol in common: assignors"
            " that are EAGER and COOPERATIVE cannot be mixed in one consumer"
        )
    return assignors


# -- security


def _check_security(config: dict[str, Any], supplied: frozenset[str], log: Trace) -> None:
    protocol = config["security_protocol"]
    tls, sasl = protocol.endswith("SSL"), protocol.startswith("SASL_")
    if not sasl and config["sasl_mechanism"] is not None:
        _ignore("sasl_mechanism", "SASL_SSL or SASL_PLAINTEXT", config, supplied, log)
    if not tls:
        for name in ("ssl_context", "ssl_cafile", "ssl_certfile"):
            if config[name] is not None:
                _ignore(name, "SSL or SASL_SSL", config, supplied, log)
    if sasl:
        _check_sasl(config)
    if tls and config["ssl_context"] is None:
        _check_tls_files(config)
        _try_tls_files(config)


def _ignore(
    name: str, needs: str, config: dict[str, Any], supplied: frozenset[str], log: Trace
) -> None:
    """Ignored where the protocol was chosen, as in kafka-python; refused where it was forgotten."""
    if "security_protocol" not in supplied:
        raise ConfigurationError(
            f"{name} is set, but security_protocol is not: set it to {needs}; the default PLAINTEXT"
            " would neither authenticate nor encrypt"
        )
    log.warning(
        "setting.ignored",
        setting=name,
        because=f"security_protocol is {config['security_protocol']}",
    )


def _check_sasl(config: dict[str, Any]) -> None:
    protocol, mechanism = config["security_protocol"], config["sasl_mechanism"]
    if mechanism is None:
        raise ConfigurationError(
            f"security_protocol {protocol} needs a sasl_mechanism: one of"
            f" {', '.join(SASL_MECHANISMS)}"
        )
    needed: tuple[str, ...] = ()
    if mechanism in PASSWORD_MECHANISMS:
        needed = ("sasl_plain_username", "sasl_plain_password")
    elif mechanism == "OAUTHBEARER":
        needed = ("sasl_oauth_token_provider",)
    missing = [name for name in needed if not config[name]]
    if missing:
        raise ConfigurationError(f"sasl_mechanism {mechanism} needs {' and '.join(missing)}")

    if mechanism == "AWS_MSK_IAM":
        if protocol != "SASL_SSL":
            raise ConfigurationError("sasl_mechanism AWS_MSK_IAM needs security_protocol SASL_SSL")
        _need_package("botocore", mechanism)
    if mechanism == "GSSAPI" and platform.system() != "Windows":
        _need_package("gssapi", mechanism)


def _need_package(name: str, mechanism: str) -> None:
    if importlib.util.find_spec(name) is None:
        raise ConfigurationError(
            f"sasl_mechanism {mechanism} needs the package {name!r}, which is not installed"
        )


def _check_tls_files(config: dict[str, Any]) -> None:
    for name in ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile"):
        if config[name] is not None:
            try:
                with open(config[name], "rb"):
                    pass
            except OSError as error:
                raise ConfigurationError(
                    f"{name} {config[name]!r} cannot be read: {error.strerror}"
                ) from None
    if config["ssl_keyfile"] is not None and config["ssl_certfile"] is None:
        raise ConfigurationError("ssl_keyfile is set, but ssl_certfile is not: a key needs both")


def _try_tls_files(config: dict[str, Any]) -> None:
    """Load the files as each connection will, so that a mistake shows here, with its name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if config["ssl_cafile"] is not None:
        _load_certificates(context, "ssl_cafile", config["ssl_cafile"])
        if not context.cert_store_stats()["x509"]:
            raise ConfigurationError(f"ssl_cafile {config['ssl_cafile']!r} holds no certificate")
    if config["ssl_certfile"] is not None:
        _load_key(context, config)
    if config["ssl_crlfile"] is not None:
        _load_certificates(context, "ssl_crlfile", config["ssl_crlfile"])
        if not context.cert_store_stats()["crl"]:
            raise ConfigurationError(f"ssl_crlfile {config['ssl_crlfile']!r} holds no CRL")
    if config["ssl_ciphers"] is not None:
        try:
            context.set_ciphers(config["ssl_ciphers"])
        except ssl.SSLError:
            raise _refusal(
                "ssl_ciphers", config["ssl_ciphers"], "a list of ciphers that OpenSSL knows"
            ) from None


def _load_certificates(context: ssl.SSLContext, name: str, path: str) -> None:
    try:
        context.load_verify_locations(cafile=path)
    except ssl.SSLError as error:
        raise ConfigurationError(f"{name} {path!r} cannot be used: {error.reason}") from None


def _load_key(context: ssl.SSLContext, config: dict[str, Any]) -> None:
    asked = False

    def no_password() -> str:  # without a function, OpenSSL would ask at the terminal and wait
        nonlocal asked
        asked = True
        return ""

    certificate, key = config["ssl_certfile"], config["ssl_keyfile"]
    try:
        context.load_cert_chain(certificate, key, config["ssl_password"] or no_password)
    except ssl.SSLError as error:
        if asked:
            raise ConfigurationError(
                f"the key in {key or certificate!r} is encrypted: set ssl_password"
            ) from None
        hint = "" if key else ": without ssl_keyfile the file must hold the key as well"
        raise ConfigurationError(
            f"ssl_certfile {certificate!r} and ssl_keyfile {key!r} cannot be used"
            f" ({error.reason or 'wrong format or wrong ssl_password'}){hint}"
        ) from None


# -- results


def _bootstrap_addresses(servers: str | list[Any]) -> tuple[tuple[str, int], ...]:
    items = servers.split(",") if isinstance(servers, str) else servers
    if not items:
        raise ConfigurationError("bootstrap_servers is empty: name at least one broker, host:port")
    return tuple(_address(item) for item in items)


def _address(item: Any) -> tuple[str, int]:
    """'host', 'host:9092', '[::1]:9092', '::1', each also after 'PROTOCOL://'."""
    if not isinstance(item, str):
        raise _refusal("an item of bootstrap_servers", item, "a str such as 'host:9092'")
    text = re.sub(r"^.*://", "", item.strip())
    bracketed = re.fullmatch(r"\[([\w:.%-]+)\](?::(\d{1,5}))?", text)
    named = re.fullmatch(r"([\w.-]+)(?::(\d{1,5}))?", text)
    match = bracketed or named
    if match is None and not _is_ipv6(text):
        shown = re.sub(r"//[^/@]*@", f"//{MASK}@", item)
        raise _refusal("an item of bootstrap_servers", shown, "'host', 'host:9092' or '[::1]:9092'")
    if match is None:
        return text, DEFAULT_PORT
    port = int(match[2]) if match[2] else DEFAULT_PORT
    if not 0 < port < 65_536:
        raise _refusal("an item of bootstrap_servers", item, "given a port from 1 to 65535")
    return match[1], port


def _is_ipv6(text: str) -> bool:
    try:
        socket.inet_pton(socket.AF_INET6, text)
    except (OSError, ValueError):
        return False
    return True


def _connection(config: dict[str, Any]) -> dict[str, Any]:
    return {
        **{name: config[name] for name in _CONNECTION},
        "client_software_name": "aktor",
        "client_software_version": VERSION,
    }


def _settings(config: dict[str, Any]) -> Settings:
    def seconds(name: str) -> float:
        return float(config[name]) / 1000

    return Settings(
        client_id=config["client_id"],
        client_rack=config["client_rack"],
        bootstrap_servers=_bootstrap_addresses(config["bootstrap_servers"]),
        bootstrap_timeout=seconds("bootstrap_timeout_ms"),
        connection=_connection(config),
        security_protocol=config["security_protocol"],
        sasl_mechanism=config["sasl_mechanism"],
        group_id=config["group_id"],
        session_timeout=seconds("session_timeout_ms"),
        heartbeat_interval=seconds("heartbeat_interval_ms"),
        max_poll_interval=seconds("max_poll_interval_ms"),
        partition_assignment_strategy=_assignor_instances(config["partition_assignment_strategy"]),
        enable_auto_commit=config["enable_auto_commit"],
        auto_commit_interval=seconds("auto_commit_interval_ms"),
        auto_offset_reset=config["auto_offset_reset"],
        isolation_level=config["isolation_level"],
        fetch_min_bytes=config["fetch_min_bytes"],
        fetch_max_wait=seconds("fetch_max_wait_ms"),
        fetch_max_bytes=config["fetch_max_bytes"],
        max_partition_fetch_bytes=config["max_partition_fetch_bytes"],
        max_buffered_bytes=config["max_buffered_bytes"],
        max_decompressed_batch_bytes=config["max_decompressed_batch_bytes"],
        enable_incremental_fetch_sessions=config["enable_incremental_fetch_sessions"],
        check_crcs=config["check_crcs"],
        request_timeout=seconds("request_timeout_ms"),
        default_api_timeout=seconds("default_api_timeout_ms"),
        retry_backoff=seconds("retry_backoff_ms"),
        retry_backoff_max=seconds("retry_backoff_max_ms"),
        reconnect_backoff=seconds("reconnect_backoff_ms"),
        reconnect_backoff_max=seconds("reconnect_backoff_max_ms"),
        connection_setup_timeout=seconds("socket_connection_setup_timeout_ms"),
        connections_max_idle=seconds("connections_max_idle_ms"),
        max_in_flight=config["max_in_flight_requests_per_connection"],
        metadata_max_age=seconds("metadata_max_age_ms"),
        allow_auto_create_topics=config["allow_auto_create_topics"],
    )


def _shown(config: dict[str, Any]) -> dict[str, Any]:
    return {
        name: Masked(value) if isinstance(value, Secret) else value
        for name, value in config.items()
    }
