"""What may be said to the constructor, what comes of it, and what is refused with which remedy."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import json
import logging
import pickle
import pprint
import re
import selectors
import socket
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from uuid import UUID

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from kafka import KafkaConsumer as KafkaPythonConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import KafkaConfigurationError
from kafka.net import KafkaConnection, KafkaConnectionManager, NetworkSelector
from kafka.net.sasl import get_sasl_mechanism
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.net.sasl.scram import ScramClient
from kafka.protocol.consumer import IsolationLevel

from aktor.broker.embedded import EmbeddedKafka
from aktor.consumer.configuration.configuration import DEFAULT_CONFIG, parse
from aktor.consumer.configuration.secrets import Masked, Secret
from aktor.consumer.configuration.table import SETTINGS
from aktor.errors import ConfigurationError
from aktor.settings import Settings
from aktor.trace import recording
from tests.kafka.real.certificates import Certificates, make_certificates
from tests.kafka.real.topics import produce

OURS = {
    "auto_offset_reset_new_partitions",
    "auto_offset_reset_out_of_range",
    "default_api_timeout_ms",
    "group_protocol",
    "group_remote_assignor",
    "max_buffered_bytes",
    "max_decompressed_batch_bytes",
    "retry_backoff_max_ms",
    "socket_connection_setup_timeout_ms",
}
PASSWORD = "hunter2-and-more"


def config(**configs: Any) -> dict[str, Any]:
    return parse(configs, trace=recording()[0])[0]


def settings(**configs: Any) -> Settings:
    return parse(configs, trace=recording()[0])[1]


def events(**configs: Any) -> list[dict[str, Any]]:
    trace, heard = recording()
    parse(configs, trace=trace)
    return heard


def refusal(**configs: Any) -> str:
    with pytest.raises(ConfigurationError) as raised:
        parse(configs, trace=recording()[0])
    return str(raised.value).removeprefix("ConfigurationError: ")


def with_password(**configs: Any) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "alice",
        "sasl_plain_password": PASSWORD,
        **configs,
    }


# -- defaults


def test_the_names_are_kafka_pythons_and_our_own() -> None:
    assert set(DEFAULT_CONFIG) == set(KafkaPythonConsumer.DEFAULT_CONFIG) | OURS


@pytest.mark.parametrize(
    "name",
    sorted({*KafkaPythonConsumer.DEFAULT_CONFIG} - {"client_id", "default_offset_commit_callback"}),
)
def test_the_defaults_are_kafka_pythons(name: str) -> None:
    assert DEFAULT_CONFIG[name] == KafkaPythonConsumer.DEFAULT_CONFIG[name]


def test_we_do_not_call_ourselves_kafka_python() -> None:
    assert re.fullmatch(r"aktor-[\w.]+", settings().client_id)
    assert settings(client_id=None).client_id == settings().client_id


def test_the_defaults_pass_and_are_what_settings_says() -> None:
    ours = settings()
    declared = {
        name: field.default
        for name, field in Settings.FIELDS.items()
        if field.default is not dataclasses.MISSING
    }
    different = {name for name, value in declared.items() if getattr(ours, name) != value}

    # without a group nothing is committed; who makes Settings has said how long a Fetch may wait
    assert different == {"enable_auto_commit", "fetch_idle_wait", "partition_assignment_strategy"}
    assignors = declared["partition_assignment_strategy"]  # classes, and one instance of each
    assert tuple(map(type, ours.partition_assignment_strategy)) == assignors


def test_every_default_may_also_be_given() -> None:
    assert config(**DEFAULT_CONFIG).keys() == DEFAULT_CONFIG.keys()


def test_one_consumers_lists_are_not_the_next_ones() -> None:
    config()["socket_options"].append("mine")

    assert config()["socket_options"] == [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]


def test_every_field_of_the_settings_is_made_of_a_row_or_of_several() -> None:
    rows = [one.read_as for one in SETTINGS.values() if one.read_as is not None]

    assert len(rows) == len(set(rows))
    assert Settings.FIELDS.keys() - rows == {"connection", "fetch_idle_wait"}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_default_is_of_the_type_that_may_be_given(name: str) -> None:
    default, kind = DEFAULT_CONFIG[name], SETTINGS[name].kind
    if isinstance(default, bool):
        assert kind == "bool"
    elif isinstance(default, int | float):
        assert kind.split(" | ")[0] in ({"int"} if isinstance(default, int) else set()) | {"float"}
    elif default is None:
        assert "None" in kind
    elif isinstance(default, str):
        assert "str" in kind.split(" | ")


# -- names


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("grop_id", "group_id"),
        ("bootstrap_server", "bootstrap_servers"),
        ("auto_ofset_reset", "auto_offset_reset"),
        ("group.id", "group_id"),
        ("enable.auto.commit", "enable_auto_commit"),
        ("bootstrap.servers", "bootstrap_servers"),
        ("max-poll-records", "max_poll_records"),
        ("SESSION_TIMEOUT_MS", "session_timeout_ms"),
        ("sasl.password", "sasl_plain_password"),
        ("sasl.username", "sasl_plain_username"),
        ("ssl.ca.location", "ssl_cafile"),
        ("fetch.wait.max.ms", "fetch_max_wait_ms"),
        ("api_version_auto_timeout_ms", "bootstrap_timeout_ms"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_known_one(wrong: str, right: str) -> None:
    assert refusal(**{wrong: "x"}) == f"unknown setting {wrong!r} (did you mean {right!r}?)"


def test_all_unknown_names_are_told_at_once_and_never_their_values() -> None:
    text = refusal(grop_id="g", sasl_plain_pasword=PASSWORD, xyzzy=1)

    assert text == (
        "unknown setting 'grop_id' (did you mean 'group_id'?);"
        " 'sasl_plain_pasword' (did you mean 'sasl_plain_password'?); 'xyzzy'"
    )


def test_topics_are_not_a_setting() -> None:
    assert "topics are given by position" in refusal(topics=["orders"])


def test_a_refusal_is_what_a_caller_of_kafka_python_catches() -> None:
    with pytest.raises(KafkaConfigurationError):
        parse({"grop_id": "g"})


# -- values

MILLISECONDS = sorted(
    name for name in DEFAULT_CONFIG if name.endswith("_ms") and name != "consumer_timeout_ms"
)
LATER = {
    "kafka_client": object,
}


class Reporter:
    """Makes a reporter of metrics."""


NO_TIMES = [-1, "5 s", True, None, float("nan"), float("inf"), datetime.timedelta(seconds=1)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (name, value)
        for name in sorted(set(MILLISECONDS) - LATER.keys())
        for value in NO_TIMES
        if not (
            SETTINGS[name].is_unset(value) or (name == "bootstrap_timeout_ms" and value is None)
        )
    ],
)
def test_a_time_must_be_a_number_of_milliseconds(name: str, value: Any) -> None:
    assert refusal(**{name: value}).startswith(f"{name} is {value!r}, but must be a number of mil")


@pytest.mark.parametrize(
    "name",
    [
        "fetch_max_bytes",
        "max_partition_fetch_bytes",
        "max_poll_records",
        "max_in_flight_requests_per_connection",
        "receive_message_max_bytes",
        "max_buffered_bytes",
        "max_decompressed_batch_bytes",
        "receive_buffer_bytes",
        "send_buffer_bytes",
    ],
)
@pytest.mark.parametrize("value", [0, -2, 1.5, "1 MB", True, 10**30])
def test_a_size_must_be_a_positive_whole_number(name: str, value: Any) -> None:
    assert refusal(**{name: value}).startswith(f"{name} is {value!r}, but must be a whole number")


@pytest.mark.parametrize("name", ["client_id", "client_rack", "group_id", "group_instance_id"])
@pytest.mark.parametrize(
    ("text", "remedy"),
    [("\udcff", "a str that can be encoded in UTF-8"), ("é" * 20_000, "at most 32767 bytes")],
)
def test_a_string_that_no_request_can_carry_is_refused(name: str, text: str, remedy: str) -> None:
    assert remedy in refusal(**{name: text})


@pytest.mark.parametrize(
    "name",
    ["session_timeout_ms", "max_poll_interval_ms", "fetch_max_wait_ms", "fetch_max_bytes"],
)
def test_what_the_protocol_cannot_carry_is_refused_before_it_is_sent(name: str) -> None:
    assert "2147483647" in refusal(**{name: 2**31})


@pytest.mark.parametrize(
    "name", sorted(name for name, default in DEFAULT_CONFIG.items() if isinstance(default, bool))
)
@pytest.mark.parametrize("value", ["not", "", None, 2])
def test_a_switch_must_be_true_or_false(name: str, value: Any) -> None:
    assert name in refusal(**{name: value})


def test_one_and_zero_are_switches_too() -> None:
    assert config(check_crcs=0)["check_crcs"] is False


def test_calls_are_as_patient_as_by_default_after_a_constructor_that_does_not_wait() -> None:
    assert settings(bootstrap_timeout_ms=0).bootstrap_timeout == settings().bootstrap_timeout
    assert settings(bootstrap_timeout_ms=700).bootstrap_timeout == 0.7


def test_times_become_seconds() -> None:
    ours = settings(request_timeout_ms=1500, fetch_max_wait_ms=0.5)

    assert (ours.request_timeout, ours.fetch_max_wait) == (1.5, 0.0005)


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ({}, 2.0),
        ({"fetch_min_bytes": 0}, 2.0),
        ({"fetch_min_bytes": 2}, 0.0),
        ({"fetch_max_wait_ms": 500}, 0.0),
    ],
)
def test_an_idle_consumer_waits_longer_unless_the_user_has_said_how_long(
    given: dict[str, Any], seconds: float
) -> None:
    assert settings(**given).fetch_idle_wait == seconds


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("earliest", "earliest"),
        ("LATEST", "latest"),
        ("none", "none"),
        (None, "none"),
        ("smallest", "earliest"),
        ("largest", "latest"),
        ("by_duration:PT1H", "by_duration:PT1H"),
        ("By_Duration:p1dt2h3m4.5s", "by_duration:P1DT2H3M4.5S"),
    ],
)
def test_auto_offset_reset_has_four_kinds_of_values_and_two_old_names(
    given: Any, kept: str
) -> None:
    view, ours = parse({"auto_offset_reset": given}, trace=recording()[0])

    assert view["auto_offset_reset"] == ours.auto_offset_reset == kept


@pytest.mark.parametrize("given", ["", "1h", "P", "PT", "P1DT", "PT-1H", "-PT1H", "PT1.5H", "P1Y"])
def test_a_duration_that_java_would_not_read_is_refused(given: str) -> None:
    assert "a duration in ISO 8601" in refusal(auto_offset_reset=f"by_duration:{given}")


def test_the_policy_for_offsets_out_of_range_is_that_of_the_start_unless_it_is_given() -> None:
    assert settings().auto_offset_reset_out_of_range is None
    assert settings(auto_offset_reset_out_of_range="NONE").auto_offset_reset_out_of_range == "none"


def test_any_other_offset_reset_is_refused_and_not_taken_for_none() -> None:
    assert refusal(auto_offset_reset="earlist") == (
        "auto_offset_reset is 'earlist', but must be 'latest', 'earliest', 'none' or a duration"
        " as in 'by_duration:PT1H'"
        " (did you mean 'earliest'?)"
    )


@pytest.mark.parametrize(
    "given", ["read_committed", "READ_COMMITTED", "read-committed", 1, IsolationLevel(1)]
)
def test_isolation_level_is_taken_in_all_of_kafka_pythons_forms(given: Any) -> None:
    assert settings(isolation_level=given).isolation_level == "read_committed"


def test_an_unknown_isolation_level_is_refused() -> None:
    assert "did you mean 'read_committed'?" in refusal(isolation_level="read_comitted")


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("security_protocol", "tls", "one of 'PLAINTEXT', 'SSL'"),
        ("security_protocol", "SASL-SSL", "did you mean 'SASL_SSL'?"),
        ("sasl_mechanism", "SCRAM-SHA256", "did you mean 'SCRAM-SHA-256'?"),
        ("client_dns_lookup", "default", "use_all_dns_ips"),
        ("group_id", "", "None to read without one"),
        ("group_id", b"g", "a str"),
        ("client_rack", 7, "a str"),
        ("socket_options", "TCP_NODELAY", "setsockopt"),
        ("socket_options", [(1, 2)], "setsockopt"),
        ("socket_options", [("a", "b", "c")], "setsockopt"),
        ("socket_options", [(6, 1, 2**31)], "setsockopt"),
        ("socket_options", [(6, 1, None)], "setsockopt"),
        ("socket_options", [(6, 1, "x", 3)], "setsockopt"),
        ("default_offset_commit_callback", "log", "a function"),
        ("consumer_timeout_ms", "1 s", "float('inf')"),
        ("consumer_timeout_ms", float("nan"), "float('inf')"),
        ("ssl_context", "default", "an ssl.SSLContext"),
        ("ssl_cafile", 7, "the name of a file"),
        ("sasl_oauth_token_provider", "token", "has no token()"),
        ("selector", int, "a class with the methods of selectors.BaseSelector"),
        (
            "selector",
            selectors.SelectSelector(),
            "a class with the methods of selectors.BaseSelector",
        ),
    ],
)
def test_a_wrong_value_is_refused_with_the_remedy(name: str, value: Any, remedy: str) -> None:
    text = refusal(**{name: value})

    assert name in text
    assert remedy in text


@pytest.mark.parametrize(("given", "kept"), [(-1, float("inf")), (0, 0), (1500.5, 1500.5)])
def test_a_negative_consumer_timeout_iterates_for_ever(given: float, kept: float) -> None:
    assert config(consumer_timeout_ms=given)["consumer_timeout_ms"] == kept


# -- settings from an environment that may lack them


@pytest.mark.parametrize(
    "name",
    sorted(
        {name for name in SETTINGS if name.startswith(("ssl_", "sasl_"))}
        - {"ssl_check_hostname", "ssl_context", "sasl_kerberos_name"}
        | {"proxy_url", "socks5_proxy", "api_version", "group_instance_id"}
    ),
)
def test_an_empty_text_means_that_a_setting_is_not_set(name: str) -> None:
    assert config(group_id="g", **{name: ""})[name] == DEFAULT_CONFIG[name]


@pytest.mark.parametrize(
    "name",
    [
        "bootstrap_servers",
        "security_protocol",
        "ssl_check_hostname",
        "enable_auto_commit",
        "check_crcs",
        "auto_offset_reset",
        "isolation_level",
        "group_id",
        "group_protocol",
        "max_poll_records",
        "request_timeout_ms",
        "bootstrap_timeout_ms",
    ],
)
def test_an_empty_text_is_refused_where_it_might_mean_less_safety_or_another_thing(
    name: str,
) -> None:
    """kafka-python takes `security_protocol=""` for PLAINTEXT and `ssl_check_hostname=""` for
    False, and says nothing."""
    assert name in refusal(**{name: ""})


@pytest.mark.parametrize("name", ["security_protocol", "ssl_check_hostname", "enable_auto_commit"])
def test_none_is_refused_where_kafka_python_takes_it_for_less(name: str) -> None:
    assert name in refusal(**{name: None})


@pytest.mark.parametrize(
    "name",
    [
        "client_rack",
        "client_id",
        "consumer_timeout_ms",
        "group_instance_id",
        "heartbeat_interval_ms",
        "max_poll_interval_ms",
        "partition_assignment_strategy",
        "session_timeout_ms",
        "api_version",
        "ssl_context",
    ],
)
def test_none_is_the_default_where_it_can_mean_nothing_else(name: str) -> None:
    assert config(group_id="g", **{name: None})[name] == DEFAULT_CONFIG[name]


@pytest.mark.parametrize("name", [name for name, one in SETTINGS.items() if one.kind == "bool"])
@pytest.mark.parametrize(
    ("given", "kept"),
    [
        *[("true", True), ("False", False), ("1", True), (" 0 ", False)],
        *[("yes", True), ("NO", False), ("on", True), ("off", False)],
    ],
)
def test_a_truth_may_be_written_as_an_environment_variable_has_it(
    name: str, given: str, kept: bool
) -> None:
    assert config(group_id="g", **{name: given})[name] is kept


@pytest.mark.parametrize("given", ["y", "2", "-1", "t", "yes!"])
def test_another_text_is_no_truth(given: str) -> None:
    assert "True or False" in refusal(enable_auto_commit=given)


@pytest.mark.parametrize(
    ("name", "given", "kept"),
    [
        ("security_protocol", "plaintext", "PLAINTEXT"),
        ("security_protocol", " PLAINTEXT\n", "PLAINTEXT"),
        ("client_dns_lookup", "USE_ALL_DNS_IPS", "use_all_dns_ips"),
        ("partition_assignment_strategy", "", DEFAULT_CONFIG["partition_assignment_strategy"]),
    ],
)
def test_a_name_may_be_written_in_small_or_capital_letters(
    name: str, given: Any, kept: Any
) -> None:
    assert config(**{name: given})[name] == kept


@pytest.mark.parametrize("given", ["ssl", "Ssl", "SSL "])
def test_a_security_protocol_in_small_letters_is_no_plain_text(given: str) -> None:
    assert parse({"security_protocol": given})[1].security_protocol == "SSL"


@pytest.mark.parametrize("name", ["client_id", "group_id", "group_instance_id"])
@pytest.mark.parametrize("given", [7, UUID(int=7)], ids=lambda given: type(given).__name__)
def test_a_process_id_or_a_uuid_may_be_a_name_as_kafka_python_takes_it(
    name: str, given: Any
) -> None:
    assert config(**{name: given})[name] == str(given)


@pytest.mark.parametrize("name", ["client_id", "group_id", "group_instance_id"])
@pytest.mark.parametrize("given", [True, b"billing", 1.5, ["billing"]])
def test_what_would_be_sent_as_another_name_than_meant_is_none(name: str, given: Any) -> None:
    assert name in refusal(**{name: given})


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("metric_reporters", ""),
        ("metrics_num_samples", None),
        ("receive_buffer_bytes", ""),
        ("reconnect_backoff_max_ms", None),
        ("send_buffer_bytes", ""),
    ],
)
def test_what_is_left_of_a_missing_variable_is_the_default(name: str, given: Any) -> None:
    assert config(**{name: given})[name] == DEFAULT_CONFIG[name]


def test_a_constructor_with_none_for_its_time_waits_for_ever() -> None:
    assert (
        settings(bootstrap_timeout_ms=None).bootstrap_timeout
        > datetime.timedelta(days=20).total_seconds()
    )


@pytest.mark.parametrize("given", [" earliest", "EARLIEST\n", " smallest "])
def test_an_offset_reset_may_have_spaces_around_it(given: str) -> None:
    assert config(auto_offset_reset=given)["auto_offset_reset"] == "earliest"


WRITTEN = {"ms", "bytes", "records", "requests"}


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, one in SETTINGS.items()
        if one.unit in WRITTEN
        and name not in LATER
        and DEFAULT_CONFIG[name] not in (None, float("inf"))
    ],
)
def test_a_number_may_be_written_as_an_environment_variable_has_it(name: str) -> None:
    default = DEFAULT_CONFIG[name]
    view = config(**{name: f" {default} "})

    assert view[name] == default
    assert type(view[name]) is type(default)


@pytest.mark.parametrize("given", ["1e3", "0x10", "1_000", "nan", "inf", "ten", "1,5", "1 000"])
def test_another_text_is_no_number(given: str) -> None:
    assert "max_poll_records" in refusal(max_poll_records=given)
    assert "request_timeout_ms" in refusal(request_timeout_ms=given)


def test_a_broken_number_counts_as_milliseconds_and_not_as_a_count() -> None:
    assert config(auto_commit_interval_ms="2.5")["auto_commit_interval_ms"] == 2.5
    assert "max_poll_records" in refusal(max_poll_records="2.5")


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (["range"], ["range"]),
        ("roundrobin", ["roundrobin"]),
        (["cooperative-sticky"], ["cooperative-sticky"]),
        ("range, sticky", ["range", "sticky"]),
        (["org.apache.kafka.clients.consumer.RangeAssignor"], ["range"]),
        (
            "org.apache.kafka.clients.consumer.RoundRobinAssignor,"
            "org.apache.kafka.clients.consumer.StickyAssignor",
            ["roundrobin", "sticky"],
        ),
        (["CooperativeStickyAssignor"], ["cooperative-sticky"]),
        (["range", RoundRobinPartitionAssignor], ["range", "roundrobin"]),
    ],
)
def test_an_assignor_may_be_named_as_its_group_or_java_names_it(given: Any, names: Any) -> None:
    made = settings(group_id="g", partition_assignment_strategy=given).partition_assignment_strategy

    assert [one.name for one in made] == names


def test_an_unknown_assignor_is_refused_with_those_there_are() -> None:
    text = refusal(group_id="g", partition_assignment_strategy=["cooperative_sticky"])

    assert "did you mean 'cooperative-sticky'?" in text
    assert "'range', 'roundrobin', 'sticky'" in text


@pytest.mark.parametrize(
    ("given", "kept"),
    [(None, []), ([Reporter], [Reporter]), ((Reporter,), [Reporter]), ([], [])],
)
def test_reporters_of_metrics_are_classes(given: Any, kept: list[Any]) -> None:
    assert config(metric_reporters=given)["metric_reporters"] == kept


@pytest.mark.parametrize("given", [Reporter, "reporters.Mine", [Reporter()], [None]])
def test_what_makes_no_reporters_is_refused(given: Any) -> None:
    assert "must be a list of classes" in refusal(metric_reporters=given)


def test_the_windows_of_metrics_are_settings() -> None:
    made = settings(metrics_num_samples=3, metrics_sample_window_ms=1500)

    assert (made.metrics_num_samples, made.metrics_sample_window) == (3, 1.5)


@pytest.mark.parametrize(("name", "value"), LATER.items())
def test_what_is_not_there_yet_is_refused_and_says_so(name: str, value: Any) -> None:
    assert refusal(**{name: value}).startswith(f"{name} is not supported yet")


# -- groups


@pytest.mark.parametrize("protocol", ["classic", "consumer", "auto"])
def test_a_group_protocol_is_taken_in_any_case(protocol: str) -> None:
    assert config(group_protocol=protocol.upper())["group_protocol"] == protocol
    assert settings(group_protocol=protocol, group_id="g").group_protocol == protocol


def test_another_group_protocol_is_refused_with_those_there_are() -> None:
    assert "one of 'classic', 'consumer', 'auto'" in refusal(group_protocol="share")


BROKERS_DECIDE = {
    "session_timeout_ms": (30_000, "group.consumer.session.timeout.ms"),
    "heartbeat_interval_ms": (2_000, "group.consumer.heartbeat.interval.ms"),
    "partition_assignment_strategy": ((RangePartitionAssignor,), "group_remote_assignor"),
}


@pytest.mark.parametrize("name", BROKERS_DECIDE)
def test_what_the_brokers_decide_is_refused_with_the_consumer_protocol(name: str) -> None:
    """As the Java client does."""
    value, instead = BROKERS_DECIDE[name]
    text = refusal(group_id="g", group_protocol="consumer", **{name: value})

    assert text.startswith(f"{name} cannot be set with group_protocol 'consumer'")
    assert instead in text


@pytest.mark.parametrize("name", BROKERS_DECIDE)
def test_it_is_refused_also_if_it_is_the_default(name: str) -> None:
    """Whoever writes it down means it to have an effect."""
    text = refusal(group_id="g", group_protocol="consumer", **{name: DEFAULT_CONFIG[name]})

    assert text.startswith(f"{name} cannot be set with group_protocol 'consumer'")


@pytest.mark.parametrize("name", BROKERS_DECIDE)
def test_what_the_brokers_decide_is_none_in_the_config(name: str) -> None:
    assert config(group_id="g", group_protocol="Consumer", **{name: None})[name] is None
    assert config(group_id="g", group_protocol="auto", **{name: None})[name] == DEFAULT_CONFIG[name]


@pytest.mark.parametrize("protocol", ["classic", "auto"])
@pytest.mark.parametrize("name", BROKERS_DECIDE)
def test_it_is_taken_where_the_classic_protocol_may_be_spoken(name: str, protocol: str) -> None:
    value, _ = BROKERS_DECIDE[name]

    assert config(group_id="g", group_protocol=protocol, **{name: value})[name] == value


def test_what_took_effect_may_be_given_again_with_any_protocol() -> None:
    """What the brokers decide is None in `consumer.config`, which may be given, too."""
    for protocol in ("classic", "consumer", "auto"):
        first = config(group_id="g", group_protocol=protocol)
        assert config(**first) == first


def test_intervals_that_nobody_set_are_not_checked_where_the_brokers_decide_them() -> None:
    assert settings(group_id="g", group_protocol="consumer", api_version=(4, 0)).group_id == "g"


@pytest.mark.parametrize("protocol", ["consumer", "auto"])
def test_a_remote_assignor_is_for_the_brokers(protocol: str) -> None:
    ours = settings(group_id="g", group_protocol=protocol, group_remote_assignor="uniform")

    assert ours.group_remote_assignor == "uniform"


def test_a_remote_assignor_is_refused_with_the_classic_protocol() -> None:
    text = refusal(group_id="g", group_remote_assignor="uniform")

    assert "set partition_assignment_strategy" in text


def test_a_protocol_without_a_group_is_a_warning() -> None:
    (event,) = events(group_protocol="consumer")

    assert (event["event"], event["setting"]) == ("setting.ignored", "group_protocol")
    assert not events(group_protocol="classic")


@pytest.mark.parametrize("name", ["group_instance_id", "group_remote_assignor"])
@pytest.mark.parametrize("value", ["  ", b"me"])
def test_a_name_in_a_group_is_no_blank(name: str, value: Any) -> None:
    assert name in refusal(group_id="g", group_protocol="consumer", **{name: value})


def test_a_static_member_has_its_name_in_either_protocol() -> None:
    for protocol in ("classic", "consumer", "auto"):
        ours = settings(group_id="g", group_instance_id="me", group_protocol=protocol)
        assert ours.group_instance_id == "me"


@pytest.mark.parametrize("value", [True, False])
def test_kafkas_own_topics_may_be_wanted(value: bool) -> None:
    assert config(exclude_internal_topics=value)["exclude_internal_topics"] is value


# -- bootstrap servers


@pytest.mark.parametrize(
    ("given", "addresses"),
    [
        ("broker", [("broker", 9092)]),
        ("broker:19092", [("broker", 19092)]),
        ("a:1, b:2 ,c", [("a", 1), ("b", 2), ("c", 9092)]),
        ("a:1,", [("a", 1)]),
        (["", "a:1", " "], [("a", 1)]),
        (["a:1", "b"], [("a", 1), ("b", 9092)]),
        (["a:1,b:2, "], [("a", 1), ("b", 2)]),
        (("a:1",), [("a", 1)]),
        (iter(["a:1"]), [("a", 1)]),
        ("SASL_SSL://broker:9093", [("broker", 9093)]),
        ("10.0.0.1:9092", [("10.0.0.1", 9092)]),
        ("[::1]:9092", [("::1", 9092)]),
        ("[fe80::1%eth0]", [("fe80::1%eth0", 9092)]),
        ("SSL://[::1]:9093", [("::1", 9093)]),
        ("::1", [("::1", 9092)]),
        ("my_broker.kafka.svc.cluster.local.:9092", [("my_broker.kafka.svc.cluster.local.", 9092)]),
    ],
)
def test_bootstrap_servers_are_read_in_every_form(given: Any, addresses: Any) -> None:
    assert settings(bootstrap_servers=given).bootstrap_servers == tuple(addresses)


@pytest.mark.parametrize(
    ("given", "item"),
    [
        ("broker:port", "'broker:port'"),
        ("broker:", "'broker:'"),
        ("broker:0", "'broker:0'"),
        (["a:1", "b:70000"], "'b:70000'"),
        ("http://broker:9092/path", "'http://broker:9092/path'"),
        ("two words", "'two words'"),
        ([9092], "9092"),
        (["a", None], "None"),
    ],
)
def test_a_bootstrap_server_that_cannot_be_read_is_named(given: Any, item: str) -> None:
    assert f"an item of bootstrap_servers is {item}, but must be" in refusal(
        bootstrap_servers=given
    )


@pytest.mark.parametrize("given", [[], "", " , ", [""], None, 9092, b"broker:9092"])
def test_without_any_bootstrap_server_there_is_no_consumer(given: Any) -> None:
    assert "bootstrap_servers" in refusal(bootstrap_servers=given)


def test_a_password_in_a_bootstrap_address_is_not_repeated() -> None:
    assert PASSWORD not in refusal(bootstrap_servers=f"SASL_SSL://alice:{PASSWORD}@b:9092")


@hypothesis_settings(deadline=None)
@given(st.one_of(st.text(), st.lists(st.text())))
def test_bootstrap_servers_give_addresses_or_a_configuration_error(servers: Any) -> None:
    try:
        addresses = settings(bootstrap_servers=servers).bootstrap_servers
    except ConfigurationError:
        return
    assert addresses
    assert all(host and 0 < port < 65536 for host, port in addresses)


# -- settings that depend on each other


@pytest.mark.parametrize(
    "configs",
    [
        {"fetch_max_wait_ms": 30_000},
        {"fetch_max_wait_ms": 500, "request_timeout_ms": 400},
        {"request_timeout_ms": 540_000},
        {"connections_max_idle_ms": 1_000},
    ],
)
def test_fetch_wait_request_timeout_and_idle_time_must_grow(configs: dict[str, int]) -> None:
    assert "must be larger than request_timeout_ms" in refusal(**configs)


def test_a_heartbeat_as_long_as_the_session_is_refused_in_a_group() -> None:
    times = {"heartbeat_interval_ms": 10_000, "session_timeout_ms": 10_000}

    assert "must be lower than session_timeout_ms (10000)" in refusal(group_id="g", **times)
    assert settings(**times).heartbeat_interval == 10.0


def test_a_heartbeat_above_a_third_of_the_session_is_traced() -> None:
    (event,) = events(group_id="g", heartbeat_interval_ms=4_000, session_timeout_ms=10_000)

    assert (event["event"], event["setting"]) == ("setting.unwise", "heartbeat_interval_ms")


def test_without_a_group_nothing_is_committed_automatically() -> None:
    view, ours = parse({}, trace=recording()[0])

    assert view["enable_auto_commit"] is ours.enable_auto_commit is False
    assert settings(group_id="g").enable_auto_commit is True


def test_auto_commit_asked_for_without_a_group_is_traced() -> None:
    (event,) = events(enable_auto_commit=True)

    assert (event["event"], event["setting"]) == ("setting.ignored", "enable_auto_commit")
    assert events() == []


def test_the_frame_limit_grows_with_the_fetch_size() -> None:
    view = config(fetch_max_bytes=200_000_000, max_partition_fetch_bytes=10_000_000)

    assert view["receive_message_max_bytes"] == 210_000_000
    assert config()["receive_message_max_bytes"] == 100_000_000


def test_the_buffer_has_32_mib_or_the_size_of_a_fetch_if_that_is_less_unless_said() -> None:
    assert settings().max_buffered_bytes == 32 * 1024 * 1024
    assert settings(fetch_max_bytes=200_000_000).max_buffered_bytes == 32 * 1024 * 1024
    assert settings(fetch_max_bytes=1_000).max_buffered_bytes == 1_000
    assert settings(fetch_max_bytes=1_000, max_buffered_bytes=9).max_buffered_bytes == 9


@pytest.mark.parametrize("prefix", ["retry_backoff", "reconnect_backoff"])
def test_a_backoff_and_its_limit_follow_each_other_unless_both_are_given(prefix: str) -> None:
    low, high = f"{prefix}_ms", f"{prefix}_max_ms"

    raised, lowered = config(**{low: 90_000}), config(**{high: 10})

    assert raised[low] == raised[high] == 90_000
    assert lowered[low] == lowered[high] == 10
    assert f"{low} (20) must not be larger than {high} (10)" in refusal(**{low: 20, high: 10})


def test_assignors_may_be_classes_or_instances() -> None:
    mine = RoundRobinPartitionAssignor()

    first, second = settings(
        partition_assignment_strategy=[RangePartitionAssignor, mine]
    ).partition_assignment_strategy

    assert isinstance(first, RangePartitionAssignor)
    assert second is mine


def test_each_consumer_has_assignors_of_its_own() -> None:
    one, other = settings().partition_assignment_strategy, settings().partition_assignment_strategy

    assert [a.name for a in one] == [a.name for a in other] == ["range", "roundrobin"]
    assert all(a is not b for a, b in zip(one, other, strict=True))


class EagerOnly(RangePartitionAssignor):
    name = "eager-only"


class CooperativeOnly(CooperativeStickyAssignor):
    name = "cooperative-only"

    def supported_protocols(self) -> list[Any]:
        return [max(super().supported_protocols())]


def test_assignors_without_a_common_way_to_rebalance_are_refused() -> None:
    strategy = [EagerOnly, CooperativeOnly]

    assert "EAGER and COOPERATIVE cannot be mixed" in refusal(
        partition_assignment_strategy=strategy
    )


@pytest.mark.parametrize("strategy", [[""], ["ranges"], RangePartitionAssignor, [int], [None]])
def test_what_is_no_assignor_is_refused_with_an_example(strategy: Any) -> None:
    text = refusal(partition_assignment_strategy=strategy)

    assert "partition_assignment_strategy is " in text
    assert "[RangePartitionAssignor]" in text or "or one of 'range', 'roundrobin'" in text


def test_the_same_assignor_twice_is_refused() -> None:
    strategy = [RangePartitionAssignor, RangePartitionAssignor()]

    assert "names one twice: ['range', 'range']" in refusal(partition_assignment_strategy=strategy)


def test_a_group_needs_an_assignor_and_a_lone_consumer_does_not() -> None:
    assert "a group needs an assignor" in refusal(group_id="g", partition_assignment_strategy=[])
    assert settings(partition_assignment_strategy=[]).partition_assignment_strategy == ()


# -- the broker's version


@pytest.mark.parametrize(
    ("given", "kept"),
    [((3, 9), (3, 9)), ((0, 10), (0, 10, 0)), ("2.8", (2, 8)), ("auto", None), (None, None)],
)
def test_the_brokers_version_is_a_tuple(given: Any, kept: Any) -> None:
    view, ours = parse({"api_version": given}, trace=recording()[0])

    assert view["api_version"] == ours.connection["api_version"] == kept


@pytest.mark.parametrize("given", ["latest", "2", [3, 9], 3.9, (0, 7), (3, "9"), ()])
def test_a_version_that_is_none_is_refused(given: Any) -> None:
    assert "must be a tuple such as (3, 9), or None" in refusal(api_version=given)


@pytest.mark.parametrize(
    ("configs", "session", "poll_interval"),
    [
        ({"api_version": (4, 0)}, 45_000, 300_000),
        ({"api_version": (2, 8)}, 30_000, 300_000),
        ({"api_version": (2, 8), "session_timeout_ms": 45_000}, 45_000, 300_000),
        ({"api_version": (0, 9)}, 30_000, 30_000),
        ({"api_version": (0, 9), "max_poll_interval_ms": 20_000}, 20_000, 20_000),
        ({"api_version": (0, 9), "session_timeout_ms": 20_000}, 20_000, 20_000),
    ],
)
def test_defaults_follow_a_broker_of_old_as_in_kafka_python(
    configs: dict[str, Any], session: int, poll_interval: int
) -> None:
    view = config(**configs)

    assert (view["session_timeout_ms"], view["max_poll_interval_ms"]) == (session, poll_interval)


def test_a_broker_before_kip_62_cannot_have_two_intervals() -> None:
    intervals = {"max_poll_interval_ms": 20_000, "session_timeout_ms": 10_000}

    assert "must be equal" in refusal(api_version=(0, 9), **intervals)


@pytest.mark.parametrize(
    ("configs", "setting", "use"),
    [
        ({"auto_offset_reset": "smallest"}, "auto_offset_reset", "earliest"),
        ({"api_version": "2.8"}, "api_version", "(2, 8)"),
        ({"socks5_proxy": "socks5://proxy:1080"}, "socks5_proxy", "proxy_url"),
    ],
)
def test_what_is_deprecated_is_traced_with_its_successor(
    configs: dict[str, Any], setting: str, use: str
) -> None:
    (event,) = events(**configs)

    assert event["event"] == "setting.deprecated"
    assert (event["setting"], event["use"]) == (setting, use)


def test_without_a_trace_the_logger_aktor_hears_it(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="aktor"):
        parse({"auto_offset_reset": "smallest"})

    assert "setting.deprecated setting=auto_offset_reset" in caplog.text


# -- security


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_sasl_needs_a_mechanism(protocol: str) -> None:
    assert f"{protocol} needs a sasl_mechanism" in refusal(security_protocol=protocol)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("missing", ["sasl_plain_username", "sasl_plain_password"])
@pytest.mark.parametrize("nothing", [None, ""])
def test_a_password_mechanism_needs_both_name_and_password(
    mechanism: str, missing: str, nothing: Any
) -> None:
    configs = with_password(sasl_mechanism=mechanism)

    assert refusal(**{**configs, missing: nothing}) == f"sasl_mechanism {mechanism} needs {missing}"


def test_oauthbearer_needs_a_token_provider() -> None:
    class Provider(AbstractTokenProvider):
        def token(self) -> str:
            return "t"

    configs: dict[str, Any] = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
    }
    provider = Provider()

    assert "needs sasl_oauth_token_provider" in refusal(**configs)
    ours = settings(**configs, sasl_oauth_token_provider=provider)
    assert ours.connection["sasl_oauth_token_provider"] is provider


def test_msk_iam_needs_tls() -> None:
    configs = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "AWS_MSK_IAM"}

    assert "needs security_protocol SASL_SSL" in refusal(**configs)


@pytest.mark.parametrize(
    ("mechanism", "package"), [("AWS_MSK_IAM", "botocore"), ("GSSAPI", "gssapi")]
)
def test_a_mechanism_whose_package_is_missing_is_refused_by_its_name(
    mechanism: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    assert f"needs the package {package!r}" in refusal(
        security_protocol="SASL_SSL", sasl_mechanism=mechanism
    )


@pytest.mark.parametrize(
    ("name", "value", "needed"),
    [
        ("sasl_mechanism", "PLAIN", "SASL_SSL or SASL_PLAINTEXT"),
        ("ssl_cafile", "ca.pem", "SSL or SASL_SSL"),
        ("ssl_context", ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), "SSL or SASL_SSL"),
    ],
)
def test_security_without_a_security_protocol_is_refused(
    name: str, value: Any, needed: str
) -> None:
    assert f"{name} is set, but security_protocol is not: set it to {needed}" in refusal(
        **{name: value}
    )


@pytest.mark.parametrize(("name", "value"), [("sasl_mechanism", "PLAIN"), ("ssl_cafile", "ca")])
def test_security_that_the_chosen_protocol_ignores_is_traced(name: str, value: str) -> None:
    (event,) = events(**{name: value}, security_protocol="PLAINTEXT")

    assert (event["event"], event["setting"]) == ("setting.ignored", name)
    assert event["because"] == "security_protocol is PLAINTEXT"


# -- TLS files


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("tls") / "certificates")


def encrypted_key(certificates: Certificates, folder: Path) -> Path:
    key = serialization.load_pem_private_key(certificates.alice_key_file.read_bytes(), None)
    file = folder / "encrypted.key"
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(PASSWORD.encode()),
        )
    )
    return file


def revocation_list(folder: Path) -> Path:
    now = datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "aktor test authority")])
    crl = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(name)
        .last_update(now)
        .next_update(now + datetime.timedelta(days=1))
        .sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    )
    file = folder / "crl.pem"
    file.write_bytes(crl.public_bytes(serialization.Encoding.PEM))
    return file


def test_sound_files_pass_and_each_connection_reads_them_again(certificates: Certificates) -> None:
    connection = settings(
        security_protocol="SSL",
        ssl_cafile=certificates.ca_file,
        ssl_certfile=str(certificates.alice_cert_file),
        ssl_keyfile=str(certificates.alice_key_file),
    ).connection

    assert connection["ssl_cafile"] == str(certificates.ca_file)
    assert connection["ssl_context"] is None


def test_one_file_may_hold_certificate_and_key(certificates: Certificates) -> None:
    assert settings(security_protocol="SSL", ssl_certfile=certificates.broker_file)


@pytest.mark.parametrize("name", ["ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile"])
def test_a_file_that_is_not_there_is_named(name: str) -> None:
    text = refusal(security_protocol="SSL", **{name: "/no/such/file.pem"})

    assert text == f"{name} '/no/such/file.pem' cannot be read: No such file or directory"


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    text = refusal(security_protocol="SSL", ssl_cafile=tmp_path)

    assert "cannot be read: Is a directory" in text


@pytest.mark.parametrize("name", ["ssl_cafile", "ssl_certfile", "ssl_crlfile"])
def test_a_file_that_holds_something_else_is_named(name: str, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("no certificate\n")

    assert f"{name} {str(file)!r}" in refusal(security_protocol="SSL", **{name: file})


def test_certificates_are_no_revocation_list(certificates: Certificates) -> None:
    assert "holds no CRL" in refusal(security_protocol="SSL", ssl_crlfile=certificates.ca_file)


def test_a_revocation_list_is_no_authority(tmp_path: Path) -> None:
    text = refusal(security_protocol="SSL", ssl_cafile=revocation_list(tmp_path))

    assert "holds no certificate" in text


def test_a_certificate_without_its_key_is_refused(certificates: Certificates) -> None:
    text = refusal(security_protocol="SSL", ssl_certfile=certificates.alice_cert_file)

    assert "without ssl_keyfile the file must hold the key as well" in text


def test_a_key_without_its_certificate_is_refused(certificates: Certificates) -> None:
    text = refusal(security_protocol="SSL", ssl_keyfile=certificates.alice_key_file)

    assert text == "ssl_keyfile is set, but ssl_certfile is not: a key needs both"


def test_a_key_of_another_certificate_is_refused(certificates: Certificates) -> None:
    text = refusal(
        security_protocol="SSL",
        ssl_certfile=certificates.broker_file,
        ssl_keyfile=certificates.alice_key_file,
    )

    assert "cannot be used (KEY_VALUES_MISMATCH)" in text


def test_an_encrypted_key_without_a_password_is_refused_and_nobody_is_asked_for_it(
    certificates: Certificates, tmp_path: Path
) -> None:
    key = encrypted_key(certificates, tmp_path)
    text = refusal(
        security_protocol="SSL", ssl_certfile=certificates.alice_cert_file, ssl_keyfile=key
    )

    assert text == f"the key in {str(key)!r} is encrypted: set ssl_password"


@pytest.mark.parametrize("password", [PASSWORD, PASSWORD.encode(), lambda: PASSWORD])
def test_an_encrypted_key_opens_with_its_password(
    password: Any, certificates: Certificates, tmp_path: Path
) -> None:
    configs = {
        "security_protocol": "SSL",
        "ssl_certfile": certificates.alice_cert_file,
        "ssl_keyfile": encrypted_key(certificates, tmp_path),
    }

    assert settings(**configs, ssl_password=password)
    text = refusal(**configs, ssl_password="wrong")
    assert "cannot be used" in text
    assert "wrong" not in text.replace("wrong format or wrong ssl_password", "")


def test_a_revocation_list_and_ciphers_pass_on_to_the_connections(tmp_path: Path) -> None:
    crl = revocation_list(tmp_path)

    connection = settings(
        security_protocol="SSL", ssl_crlfile=crl, ssl_ciphers="ECDHE-ECDSA-AES256-GCM-SHA384"
    ).connection

    assert connection["ssl_crlfile"] == str(crl)
    assert connection["ssl_ciphers"] == "ECDHE-ECDSA-AES256-GCM-SHA384"


def test_unknown_ciphers_are_refused() -> None:
    assert "a list of ciphers that OpenSSL knows" in refusal(
        security_protocol="SSL", ssl_ciphers="ROT13"
    )


def test_a_context_given_by_the_user_makes_the_files_irrelevant() -> None:
    mine = ssl.create_default_context()

    ours = settings(security_protocol="SSL", ssl_context=mine, ssl_cafile="/no/such/file.pem")

    assert ours.connection["ssl_context"] is mine


# -- proxies


@pytest.mark.parametrize("name", ["proxy_url", "socks5_proxy"])
def test_a_proxy_reaches_the_connections(name: str) -> None:
    assert settings(**{name: "socks5h://proxy:1080"}).connection["proxy_url"] == (
        "socks5h://proxy:1080"
    )


@pytest.mark.parametrize(
    "address", ["proxy:1080", "ftp://proxy:21", "socks5://proxy", "socks5://:1080", "http://p:x"]
)
def test_a_proxy_that_cannot_be_used_is_refused_without_repeating_it(address: str) -> None:
    text = refusal(proxy_url=address)

    assert "must look like socks5://host:1080" in text
    assert address not in text


# -- what the connections get


def test_kafka_net_finds_everything_it_reads_in_the_connection_settings() -> None:
    connection = settings().connection
    known = {*KafkaConnection.DEFAULT_CONFIG, *KafkaConnectionManager.DEFAULT_CONFIG}
    known_to_our_own_network = {
        "bootstrap_servers",
        "client_software_name",
        "client_software_version",
        "metrics",
        "metric_group_prefix",
        "socket_connection_setup_timeout_max_ms",
    }

    assert known - connection.keys() == known_to_our_own_network
    net = NetworkSelector()
    manager = KafkaConnectionManager(net, bootstrap_servers="b:9092", **connection)
    net.close()
    assert manager.config["client_id"] == settings().client_id


@pytest.mark.parametrize(
    ("name", "given", "passed"),
    [
        ("receive_buffer_bytes", 65536, 65536),
        ("receive_buffer_bytes", -1, None),
        ("send_buffer_bytes", 1024, 1024),
        ("send_buffer_bytes", -1, None),
        ("socket_options", (), []),
        ("socket_options", [(1, 9, True)], [(1, 9, True)]),
        ("socket_options", [[1, 25, b"lo"]], [[1, 25, b"lo"]]),
        ("socket_options", [(1, 25, None, 4)], [(1, 25, None, 4)]),
        ("selector", selectors.SelectSelector, selectors.SelectSelector),
        ("ssl_check_hostname", False, False),
    ],
)
def test_what_kafka_python_leaves_aside_reaches_the_connections_too(
    name: str, given: Any, passed: Any
) -> None:
    assert settings(**{name: given}).connection[name] == passed


# -- secrets


def with_str(view: dict[str, Any]) -> list[tuple[str, str]]:
    return [(key, value) for key, value in view.items() if isinstance(value, str)]


def secretive(**more: Any) -> dict[str, Any]:
    return config(
        **with_password(proxy_url=f"http://alice:{PASSWORD}@proxy:8080", ssl_password=PASSWORD),
        **more,
    )


@pytest.mark.parametrize(
    "show",
    [
        repr,
        str,
        "{}".format,
        "%s".__mod__,
        pprint.pformat,
        lambda view: repr(pickle.loads(pickle.dumps(view))),
        lambda view: f"{view!r} {view}",
        lambda view: json.dumps(view, default=repr),
        lambda view: " ".join(f"{key}={value:>40}" for key, value in with_str(view)),
        lambda view: " ".join([value for _key, value in with_str(view)]),
        lambda view: repr([vars(v) if hasattr(v, "__dict__") else v for v in view.values()]),
        lambda view: repr(copy.deepcopy({k: v for k, v in view.items() if isinstance(v, str)})),
    ],
)
def test_a_secret_is_in_nothing_that_shows_the_configuration(show: Any) -> None:
    shown = show(secretive())

    assert PASSWORD not in shown
    assert "***" in shown


def test_a_secret_is_not_in_a_pickle() -> None:
    assert PASSWORD.encode() not in pickle.dumps(secretive())


@pytest.mark.parametrize("name", ["sasl_plain_password", "ssl_password", "proxy_url"])
@pytest.mark.parametrize("show", [repr, str, "{}".format, "{:>9}".format, "%s".__mod__])
def test_a_secret_for_the_connections_does_not_show_itself_either(name: str, show: Any) -> None:
    ours = settings(
        **with_password(proxy_url=f"http://alice:{PASSWORD}@proxy:8080", ssl_password=PASSWORD)
    )

    assert PASSWORD not in show(ours.connection[name])
    assert PASSWORD not in repr([ours, ours.connection, ours.__getstate__()])
    assert PASSWORD.encode() not in pickle.dumps(ours.connection[name])


def test_a_secret_works_as_itself_for_kafka_net() -> None:
    connection = settings(**with_password()).connection

    plain = get_sasl_mechanism("PLAIN")(**connection)
    scram = ScramClient("alice", connection["sasl_plain_password"], "SCRAM-SHA-256")

    assert plain.auth_bytes() == "\0".join(["alice", "alice", PASSWORD]).encode()
    assert scram.password == PASSWORD.encode()


def test_a_proxys_password_works_for_kafka_net() -> None:
    connection = settings(proxy_url=f"socks5://alice:{PASSWORD}@proxy:1080").connection

    assert urlparse(connection["proxy_url"]).password == PASSWORD


def test_a_copied_secret_still_works() -> None:
    secret = Secret(PASSWORD)

    assert copy.copy(secret) == copy.deepcopy([secret])[0] == Secret(secret) == PASSWORD


def test_another_consumer_can_be_made_from_the_configuration_of_one() -> None:
    first, ours = parse(with_password(group_id="g"), trace=recording()[0])
    again, theirs = parse(copy.deepcopy(first), trace=recording()[0])

    assert theirs.connection == ours.connection
    assert again == first


@pytest.mark.parametrize("where", ["sasl_plain_password", "ssl_password", "proxy_url"])
def test_a_configuration_that_lost_its_secrets_in_a_pickle_is_refused(where: str) -> None:
    pickled = pickle.loads(pickle.dumps(secretive()[where]))

    assert isinstance(pickled, Masked)
    assert refusal(**{**with_password(), where: pickled}).startswith(f"{where} was masked")


@pytest.mark.parametrize("password", [[PASSWORD], PASSWORD.encode("utf-16"), {PASSWORD: 1}])
def test_a_password_of_the_wrong_type_is_refused_without_showing_it(password: Any) -> None:
    text = refusal(**with_password(sasl_plain_password=password))

    assert text.startswith("sasl_plain_password is ")
    assert PASSWORD not in text


def test_no_trace_of_a_configuration_holds_a_secret() -> None:
    heard = events(
        **with_password(security_protocol="PLAINTEXT", ssl_cafile="ca.pem", ssl_password=PASSWORD),
        socks5_proxy=f"socks5://alice:{PASSWORD}@proxy:1080",
    )

    assert len(heard) == 3
    assert PASSWORD not in repr(heard)


class _EventletSelector:
    """What `selectors.DefaultSelector` is under eventlet: no `BaseSelector` of ours."""

    def register(self, fileobj: Any, events: int, data: Any = None) -> Any: ...

    def unregister(self, fileobj: Any) -> Any: ...

    def select(self, timeout: float | None = None) -> Any: ...

    def get_map(self) -> Any: ...


def test_a_selector_of_other_descent_is_taken_for_what_it_can_do() -> None:
    config, _ = parse({"selector": _EventletSelector})

    assert config["selector"] is _EventletSelector


@pytest.mark.parametrize("library", ["eventlet", "gevent"])
def test_a_consumer_reads_under_a_library_of_green_threads(library: str) -> None:
    """With the default settings, in a process in which everything was patched first."""
    patch = {
        "eventlet": "import eventlet; eventlet.monkey_patch()",
        "gevent": "from gevent import monkey; monkey.patch_all()",
    }
    program = (
        f"{patch[library]}\n"
        "import sys\n"
        "from aktor import KafkaConsumer\n"
        "settings = {'bootstrap_servers': sys.argv[1], 'auto_offset_reset': 'earliest'}\n"
        "with KafkaConsumer('orders', group_id='g', **settings) as consumer:\n"
        "    print(next(consumer).value.decode())\n"
    )
    with EmbeddedKafka(topics={"orders": 1}) as kafka:
        produce([kafka.bootstrap_servers], "orders", ["first"])
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program, kafka.bootstrap_servers],
            capture_output=True,
            text=True,
            timeout=60,
        )

    assert done.stdout == "first\n", done.stderr
