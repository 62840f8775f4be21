"""The configuration: kafka-python's keyword arguments, checked, and made into `Settings`.

`docs/configuration.md` lists every setting, and where we deviate from kafka-python and why.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor

from aktor.consumer.configuration import bootstrap, checks, foreign_names, security
from aktor.consumer.configuration.checks import INT32_MAX
from aktor.consumer.configuration.secrets import Masked, Secret
from aktor.consumer.configuration.table import (
    ASSIGNORS_MUST,
    DEFAULT_CONFIG,
    FIELDS,
    FOR_CONNECTIONS,
    SETTINGS,
)
from aktor.errors import ConfigurationError
from aktor.settings import Settings
from aktor.trace import Trace, open_trace

__all__ = ["DEFAULT_CONFIG", "parse"]

#: How long brokers may keep a Fetch while nothing arrives, in seconds, if the user has not said.
IDLE_WAIT: Final = 2.0
#: What kafka-python takes for brokers before 3.0 (DEFAULT_SESSION_TIMEOUT_MS_PRE_KIP_735).
SESSION_TIMEOUT_BEFORE_3_0: Final = 30_000


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
    configs = {name: value for name, value in configs.items() if not SETTINGS[name].is_unset(value)}
    configs = _leave_to_brokers(configs)
    config = {
        name: setting.check(name, configs.get(name, DEFAULT_CONFIG[name]))
        for name, setting in SETTINGS.items()
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
    unknown = [name for name in configs if name not in SETTINGS]
    if unknown:
        texts = (f"{name!r}{_hint(name)}" for name in unknown)
        raise ConfigurationError(f"unknown setting {'; '.join(texts)}")


def _hint(name: str) -> str:
    """What the user may have meant, to append to an unknown name."""
    plain = re.sub(r"[^a-z0-9]+", "_", str(name).lower())
    if plain in ("topic", "topics"):
        return " (topics are given by position, as in KafkaConsumer('orders'))"
    if (same := foreign_names.SAME.get(plain)) is not None:
        return checks.did_you_mean(same)
    if (advice := foreign_names.advice(plain)) is not None:
        return f" ({advice})"
    return checks.did_you_mean(checks.nearest(plain, SETTINGS))


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
        config["max_buffered_bytes"] = min(
            Settings.FIELDS["max_buffered_bytes"].default, config["fetch_max_bytes"]
        )


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
    given = configs.get("group_protocol", DEFAULT_CONFIG["group_protocol"])
    protocol = checks.group_protocol("group_protocol", given)
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


def _idle_wait(config: dict[str, Any], supplied: frozenset[str]) -> float:
    """How long brokers may keep a Fetch of an idle consumer, in seconds; 0: as any other Fetch."""
    if "fetch_max_wait_ms" in supplied or config["fetch_min_bytes"] > 1:
        return 0.0
    return IDLE_WAIT


def _settings(config: dict[str, Any], supplied: frozenset[str]) -> Settings:
    values = {field: setting.in_settings(config[setting.name]) for field, setting in FIELDS.items()}
    # What is more than the value of one setting.
    values["bootstrap_servers"] = bootstrap.addresses(config["bootstrap_servers"])
    values["partition_assignment_strategy"] = _assignor_instances(
        config["partition_assignment_strategy"]
    )
    values["fetch_idle_wait"] = _idle_wait(config, supplied)
    # 0: the constructor does not wait. The calls after it are as patient as by default.
    patience = Settings.FIELDS["bootstrap_timeout"].default
    values["bootstrap_timeout"] = values["bootstrap_timeout"] or patience
    values["connection"] = {name: config[name] for name in FOR_CONNECTIONS}
    return Settings(**values)


def _shown(config: dict[str, Any]) -> dict[str, Any]:
    hidden = _BROKERS_DECIDE if config["group_protocol"] == "consumer" else ()
    return {
        name: Masked(value) if isinstance(value, Secret) else None if name in hidden else value
        for name, value in config.items()
    }
