"""The configuration: kafka-python's keyword arguments, checked, and made into `Settings`.

`docs/configuration.md` lists every setting, and where we deviate from kafka-python and why.
"""

from __future__ import annotations

import re
import selectors
import socket
from collections.abc import Iterable, Mapping
from typing import Any, Final

import kafka.consumer.group as kafka_python
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from aktor.consumer.configuration import bootstrap, checks, security
from aktor.consumer.configuration.checks import INT32_MAX, INT64_MAX
from aktor.consumer.configuration.secrets import Masked, Secret
from aktor.errors import ConfigurationError
from aktor.settings import Settings
from aktor.trace import Trace, open_trace
from aktor.version import __version__

__all__ = ["DEFAULT_CONFIG", "parse"]

#: How long brokers may keep a Fetch while nothing arrives, in seconds, if the user has not said.
IDLE_WAIT: Final = 2.0
#: The default bound of the bytes fetched ahead: a larger one does not make reading faster
#: (measured with records of 100 bytes, 10,000 a poll).
BUFFERED_BYTES: Final = 32 * 1024 * 1024
#: What kafka-python takes for brokers before 3.0 (DEFAULT_SESSION_TIMEOUT_MS_PRE_KIP_735).
SESSION_TIMEOUT_BEFORE_3_0: Final = 30_000
ASSIGNORS_MUST: Final = "a list of assignors (classes or instances), as [RangePartitionAssignor]"
DNS_LOOKUPS: Final = ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")


# -- the settings


DEFAULT_CLIENT_ID: Final = f"aktor-{__version__}"


def ignore_commit(offsets: Any, response: Any) -> bool:
    """The default callback of automatic commits: does nothing."""
    return True


def _assignors(name: str, value: Any) -> tuple[Any, ...]:
    if isinstance(value, (str, type)) or not isinstance(value, Iterable):
        raise checks.refusal(name, value, ASSIGNORS_MUST)
    return tuple(value)


_KAFKA_CLIENT: Final = kafka_python.KafkaConsumer.DEFAULT_CONFIG["kafka_client"]
_ASSIGNORS: Final = (RangePartitionAssignor, RoundRobinPartitionAssignor)

#: Every setting: its default and what checks it. First kafka-python's, in its order, then ours.
_SETTINGS: Final[dict[str, tuple[Any, checks.Check]]] = {
    "bootstrap_servers": ("localhost", bootstrap.servers),
    "client_id": (DEFAULT_CLIENT_ID, checks.optional(checks.text, DEFAULT_CLIENT_ID)),
    "client_rack": ("", checks.text),
    "group_id": (None, checks.optional(checks.group_id)),
    "group_instance_id": (None, checks.optional(checks.not_blank)),
    "key_deserializer": (None, checks.anything),
    "value_deserializer": (None, checks.anything),
    "enable_incremental_fetch_sessions": (True, checks.boolean),
    "fetch_max_wait_ms": (500, checks.milliseconds()),
    "fetch_min_bytes": (1, checks.size(low=0)),
    "fetch_max_bytes": (52_428_800, checks.size()),
    "max_partition_fetch_bytes": (1_048_576, checks.size()),
    "request_timeout_ms": (30_000, checks.milliseconds(1)),
    "retry_backoff_ms": (100, checks.milliseconds()),
    "reconnect_backoff_ms": (50, checks.milliseconds()),
    "reconnect_backoff_max_ms": (30_000, checks.milliseconds()),
    "max_in_flight_requests_per_connection": (5, checks.integer(1, INT32_MAX, "requests")),
    "auto_offset_reset": ("latest", checks.offset_reset),
    "enable_auto_commit": (True, checks.boolean),
    "auto_commit_interval_ms": (5_000, checks.milliseconds()),
    "default_offset_commit_callback": (
        ignore_commit,
        checks.optional(checks.function, ignore_commit),
    ),
    "check_crcs": (True, checks.boolean),
    "isolation_level": ("read_uncommitted", checks.isolation_level),
    "allow_auto_create_topics": (True, checks.boolean),
    "metadata_max_age_ms": (300_000, checks.milliseconds(high=INT64_MAX)),
    "client_dns_lookup": ("use_all_dns_ips", checks.one_of(*DNS_LOOKUPS)),
    "partition_assignment_strategy": (_ASSIGNORS, _assignors),
    "max_poll_records": (500, checks.integer(1, INT32_MAX, "records")),
    "max_poll_interval_ms": (300_000, checks.milliseconds(1)),
    "session_timeout_ms": (45_000, checks.milliseconds(1)),
    "heartbeat_interval_ms": (3_000, checks.milliseconds(1)),
    "receive_buffer_bytes": (None, checks.optional(checks.buffer_size)),
    "send_buffer_bytes": (None, checks.optional(checks.buffer_size)),
    "receive_message_max_bytes": (100_000_000, checks.size()),
    "socket_options": ([(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)], checks.socket_options),
    "consumer_timeout_ms": (float("inf"), checks.consumer_timeout),
    "security_protocol": ("PLAINTEXT", checks.one_of(*security.SECURITY_PROTOCOLS)),
    "ssl_context": (None, checks.optional(security.ssl_context)),
    "ssl_check_hostname": (True, checks.boolean),
    "ssl_cafile": (None, checks.optional(checks.path)),
    "ssl_certfile": (None, checks.optional(checks.path)),
    "ssl_keyfile": (None, checks.optional(checks.path)),
    "ssl_crlfile": (None, checks.optional(checks.path)),
    "ssl_password": (None, checks.optional(security.password)),
    "ssl_ciphers": (None, checks.optional(checks.text)),
    "api_version": (None, checks.optional(checks.api_version)),
    "bootstrap_timeout_ms": (30_000, checks.milliseconds()),
    "connections_max_idle_ms": (540_000, checks.milliseconds(high=INT64_MAX)),
    "metric_reporters": ([], checks.not_yet([], "reporters of metrics")),
    "metrics_enabled": (True, checks.boolean),
    "metrics_num_samples": (2, checks.not_yet(2, "metrics over windows")),
    "metrics_sample_window_ms": (30_000, checks.not_yet(30_000, "metrics over windows")),
    "metric_group_prefix": ("consumer", checks.not_yet("consumer", "another name for metrics")),
    "selector": (selectors.DefaultSelector, checks.selector),
    "exclude_internal_topics": (True, checks.boolean),
    "sasl_mechanism": (None, checks.optional(checks.one_of(*security.SASL_MECHANISMS))),
    "sasl_plain_username": (None, checks.optional(checks.text)),
    "sasl_plain_password": (None, checks.optional(security.password)),
    "sasl_kerberos_name": (None, checks.anything),
    "sasl_kerberos_service_name": ("kafka", checks.text),
    "sasl_kerberos_domain_name": (None, checks.optional(checks.text)),
    "sasl_oauth_token_provider": (None, checks.optional(security.token_provider)),
    "proxy_url": (None, checks.optional(checks.proxy)),
    "socks5_proxy": (None, checks.optional(checks.proxy)),
    "kafka_client": (_KAFKA_CLIENT, checks.not_yet(_KAFKA_CLIENT, "a client of your own")),
    # ours
    "default_api_timeout_ms": (60_000, checks.milliseconds()),
    "group_protocol": ("classic", checks.group_protocol),
    "group_remote_assignor": (None, checks.optional(checks.not_blank)),
    "max_buffered_bytes": (None, checks.optional(checks.size(high=INT64_MAX))),
    "max_decompressed_batch_bytes": (50_331_648, checks.size(high=INT64_MAX)),
    "retry_backoff_max_ms": (1_000, checks.milliseconds()),
    "socket_connection_setup_timeout_ms": (10_000, checks.milliseconds(1)),
}

#: Every setting and its default: kafka-python's `KafkaConsumer.DEFAULT_CONFIG` and ours.
DEFAULT_CONFIG: Final[dict[str, Any]] = {
    name: default for name, (default, _check) in _SETTINGS.items()
}

#: Names from other clients that are spelt too differently for a guess.
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

#: The settings of the connections, by kafka-python's names.
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
    configs = _leave_to_brokers(configs)
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
    _check_protocol(config, supplied, log)
    security.check_together(config, supplied, log)
    return _shown(config), _settings(config, supplied)


# -- names


def _refuse_unknown(configs: Mapping[str, Any]) -> None:
    unknown = [name for name in configs if name not in _SETTINGS]
    if unknown:
        texts = (f"{name!r}{checks.did_you_mean(_nearest_setting(name))}" for name in unknown)
        raise ConfigurationError(f"unknown setting {'; '.join(texts)}")


def _nearest_setting(name: str) -> str | None:
    plain = re.sub(r"[^a-z0-9]+", "_", str(name).lower())
    if plain in ("topic", "topics"):
        raise ConfigurationError(
            f"unknown setting {name!r}: topics are given by position, as in KafkaConsumer('orders')"
        )
    return _FOREIGN_NAMES.get(plain) or checks.nearest(plain, _SETTINGS)


def _take_deprecated(configs: Mapping[str, Any], config: dict[str, Any], log: Trace) -> None:
    reset = configs.get("auto_offset_reset")
    if isinstance(reset, str) and reset in checks.OFFSET_RESETS_OF_OLD:
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
        config["max_buffered_bytes"] = min(BUFFERED_BYTES, config["fetch_max_bytes"])


def _follow_old_brokers(config: dict[str, Any], supplied: frozenset[str]) -> None:
    """The defaults of kafka-python if `api_version` is that of an old broker."""
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
    if config["group_id"] is None or config["group_protocol"] == "consumer":
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


#: Settings that the brokers decide in a KIP-848 group, and what to set instead.
_BROKERS_DECIDE: Final = {
    "session_timeout_ms": "the brokers' group.consumer.session.timeout.ms",
    "heartbeat_interval_ms": "the brokers' group.consumer.heartbeat.interval.ms",
    "partition_assignment_strategy": "group_remote_assignor",
}


def _leave_to_brokers(configs: Mapping[str, Any]) -> Mapping[str, Any]:
    """As the Java client: settings without effect in a KIP-848 group are refused if given.

    `consumer.config` shows these settings as None, so None is accepted here: then
    `KafkaConsumer(**consumer.config)` works.
    """
    protocol = checks.group_protocol("group_protocol", configs.get("group_protocol", "classic"))
    if protocol != "consumer":
        return configs
    for name, instead in _BROKERS_DECIDE.items():
        if configs.get(name) is not None:
            raise ConfigurationError(
                f"{name} cannot be set with group_protocol 'consumer', where the brokers decide it:"
                f" leave it out, and see {instead}"
            )
    return {name: value for name, value in configs.items() if name not in _BROKERS_DECIDE}


def _check_protocol(config: dict[str, Any], supplied: frozenset[str], log: Trace) -> None:
    protocol = config["group_protocol"]
    if protocol == "classic" and config["group_remote_assignor"] is not None:
        raise ConfigurationError(
            "group_remote_assignor is for group_protocol 'consumer' or 'auto'; with 'classic'"
            " set partition_assignment_strategy"
        )
    if protocol != "classic" and config["group_id"] is None and "group_protocol" in supplied:
        log.warning("setting.ignored", setting="group_protocol", because="there is no group_id")


def _assignor(given: Any) -> Any:
    instance = given
    if callable(given) and not isinstance(given, AbstractPartitionAssignor):
        instance = given()
    if not hasattr(instance, "supported_protocols"):
        raise checks.refusal("an item of partition_assignment_strategy", given, ASSIGNORS_MUST)
    return instance


def _assignor_instances(strategy: tuple[Any, ...]) -> tuple[Any, ...]:
    """One instance each; together they must agree on a way to rebalance (KIP-429)."""
    assignors = tuple(map(_assignor, strategy))
    names = [assignor.name for assignor in assignors]
    if len(set(names)) < len(names):
        raise ConfigurationError(f"partition_assignment_strategy names one twice: {names}")
    protocols = [set(assignor.supported_protocols()) for assignor in assignors]
    if protocols and not set.intersection(*protocols):
        raise ConfigurationError(
            f"partition_assignment_strategy {names} has no rebalance protocol in common: assignors"
            " that are EAGER and COOPERATIVE cannot be mixed in one consumer"
        )
    return assignors


# -- results


def _connection(config: dict[str, Any]) -> dict[str, Any]:
    return {name: config[name] for name in _CONNECTION}


def _idle_wait(config: dict[str, Any], supplied: frozenset[str]) -> float:
    """How long brokers may keep a Fetch of an idle consumer, in seconds; 0: as any other Fetch."""
    if "fetch_max_wait_ms" in supplied or config["fetch_min_bytes"] > 1:
        return 0.0
    return IDLE_WAIT


def _settings(config: dict[str, Any], supplied: frozenset[str]) -> Settings:
    def seconds(name: str) -> float:
        return float(config[name]) / 1000

    return Settings(
        client_id=config["client_id"],
        client_rack=config["client_rack"],
        bootstrap_servers=bootstrap.addresses(config["bootstrap_servers"]),
        bootstrap_timeout=seconds("bootstrap_timeout_ms"),
        connection=_connection(config),
        security_protocol=config["security_protocol"],
        sasl_mechanism=config["sasl_mechanism"],
        group_id=config["group_id"],
        group_instance_id=config["group_instance_id"],
        group_protocol=config["group_protocol"],
        group_remote_assignor=config["group_remote_assignor"],
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
        fetch_idle_wait=_idle_wait(config, supplied),
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
    hidden = _BROKERS_DECIDE if config["group_protocol"] == "consumer" else ()
    return {
        name: Masked(value) if isinstance(value, Secret) else None if name in hidden else value
        for name, value in config.items()
    }
