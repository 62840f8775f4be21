"""What may be said to the constructor, and what comes of it."""

from __future__ import annotations

import dataclasses
import logging
import re
import selectors
import socket
import subprocess
import sys
from typing import Any

import pytest
from kafka import KafkaConsumer as KafkaPythonConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import KafkaConfigurationError
from kafka.net import KafkaConnection, KafkaConnectionManager, NetworkSelector

from aktor.broker.embedded import EmbeddedKafka
from aktor.consumer.configuration.configuration import DEFAULT_CONFIG, parse
from aktor.consumer.configuration.table import SETTINGS
from aktor.settings import Settings
from aktor.trace import recording
from tests.gate import all_but_the_first
from tests.kafka.real.topics import produce
from tests.unit.consumer.configuration.builders import (
    PASSWORD,
    config,
    events,
    refusal,
    settings,
)

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


class _EventletSelector:
    """What `selectors.DefaultSelector` is under eventlet: no `BaseSelector` of ours."""

    def register(self, fileobj: Any, events: int, data: Any = None) -> Any: ...

    def unregister(self, fileobj: Any) -> Any: ...

    def select(self, timeout: float | None = None) -> Any: ...

    def get_map(self) -> Any: ...


def test_a_selector_of_other_descent_is_taken_for_what_it_can_do() -> None:
    config, _ = parse({"selector": _EventletSelector})

    assert config["selector"] is _EventletSelector


@pytest.mark.parametrize("library", all_but_the_first(1, ["eventlet", "gevent"]))
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
