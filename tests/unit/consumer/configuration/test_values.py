"""Which values a setting may have, and what is said of others."""

from __future__ import annotations

import datetime
import selectors
from typing import Any
from uuid import UUID

import pytest
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.protocol.consumer import IsolationLevel

from aktor.consumer.configuration.configuration import DEFAULT_CONFIG, parse
from aktor.consumer.configuration.table import SETTINGS
from aktor.trace import recording
from tests.unit.consumer.configuration.builders import (
    config,
    refusal,
    settings,
)

# -- values


MILLISECONDS = sorted(
    name for name in DEFAULT_CONFIG if name.endswith("_ms") and name != "consumer_timeout_ms"
)


LATER = {
    "kafka_client": object,
}


class Reporter:
    """Makes a reporter of metrics."""


async def stored(_offsets: Any, _error: Any) -> None:
    """A callback of commits that nobody would await."""


NO_TIMES = [-1, "5 s", True, None, float("nan"), float("inf"), datetime.timedelta(seconds=1)]


@pytest.mark.few_cases
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


@pytest.mark.few_cases
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
        ("default_offset_commit_callback", stored, "a coroutine would not be awaited"),
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


@pytest.mark.few_cases
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
