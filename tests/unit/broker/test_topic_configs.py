"""Topic configs are taken and refused as Kafka 4.3.1 does it; all texts here are its own."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.admin import DescribeConfigsResponse

from aktor.broker.codes import Code, Refused
from aktor.broker.topic_configs import (
    BROKER_CONFIGS,
    TOPIC_CONFIGS,
    check_topic_configs,
    describe_broker,
    describe_topic,
    topic_value,
)

THROTTLED = "leader.replication.throttled.replicas"
THROTTLED_FORM = (
    f"{THROTTLED} must be the literal '*' or a list of replicas in the following format: "
    "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
)


def refusal(*configs: tuple[str, str | None]) -> str | None:
    with pytest.raises(Refused) as refused:
        check_topic_configs(configs)
    assert refused.value.code is Code.INVALID_CONFIG
    return refused.value.message


def by_name(entries: list[Any]) -> dict[str, Any]:
    return {entry.name: entry for entry in entries}


def synonyms(entry: Any) -> list[tuple[str, str | None, int]]:
    return [(one.name, one.value, one.source) for one in entry.synonyms]


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("retention.ms", "abc", "Not a number of type LONG"),
        ("retention.ms", "", "Not a number of type LONG"),
        ("retention.ms", "1.5", "Not a number of type LONG"),
        ("retention.ms", "-2", "Value must be at least -1"),
        ("retention.ms", "9223372036854775808", "Not a number of type LONG"),
        ("retention.ms", "9" * 5000, "Not a number of type LONG"),
        ("segment.bytes", "1048575", "Value must be at least 1048576"),
        ("segment.bytes", "3000000000", "Not a number of type INT"),
        ("max.message.bytes", "0x10", "Not a number of type INT"),
        ("max.message.bytes", "1_000", "Not a number of type INT"),
        ("min.insync.replicas", "0", "Value must be at least 1"),
        ("min.cleanable.dirty.ratio", "x", "Not a number of type DOUBLE"),
        ("min.cleanable.dirty.ratio", "", "Not a number of type DOUBLE"),
        ("min.cleanable.dirty.ratio", "Infinity", "Value must be no more than 1"),
        ("preallocate", "yes", "Expected value to be either true or false"),
        ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
        ("compression.lz4.level", "0", "Value must be at least 1"),
        ("compression.zstd.level", "23", "Value must be no more than 22"),
        ("cleanup.policy", "none", "String must be one of: compact, delete"),
        ("message.timestamp.type", "x", "String must be one of: CreateTime, LogAppendTime"),
        (
            "compression.type",
            "LZ4",
            "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer",
        ),
    ],
)
def test_a_bad_value_is_refused_in_kafkas_words(name: str, text: str, why: str) -> None:
    assert refusal((name, text)) == f"Invalid value {text} for configuration {name}: {why}"


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ([("x", "1")], "Unknown topic config name: x"),
        ([("message.format.version", "2.0")], "Unknown topic config name: message.format.version"),
        ([("retention.ms", "q"), ("b", "1"), ("a", "1")], "Unknown topic config name: b"),
        ([("x", None)], "Null value not supported for topic configs: x"),
        (
            [("retention.ms", None), ("x", "1"), ("segment.ms", None)],
            "Null value not supported for topic configs: retention.ms,segment.ms",
        ),
        (
            [("retention.ms", "q"), ("segment.bytes", "q")],
            "Invalid value q for configuration segment.bytes: Not a number of type INT",
        ),
        (
            [("min.cleanable.dirty.ratio", "2")],
            "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: "
            "Value must be no more than 1",
        ),
        (
            [("cleanup.policy", "compact, foo")],
            "Invalid value foo for configuration cleanup.policy: "
            "String must be one of: compact, delete",
        ),
        ([("cleanup.policy", ",")], "Configuration 'cleanup.policy' values must not be empty."),
        (
            [(THROTTLED, "0:1,a")],
            f"Invalid value [0:1, a] for configuration {THROTTLED}: {THROTTLED_FORM}",
        ),
        (
            [(THROTTLED, "*,0:1")],
            f"Invalid value [*, 0:1] for configuration {THROTTLED}: {THROTTLED_FORM}",
        ),
        (
            [("min.compaction.lag.ms", "10"), ("max.compaction.lag.ms", "5")],
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
        ),
        (
            [("remote.storage.enable", "true")],
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        ),
    ],
)
def test_what_is_wrong_first_is_said_first(
    configs: list[tuple[str, str | None]], message: str
) -> None:
    assert refusal(*configs) == message


@pytest.mark.parametrize(
    ("name", "text", "kept"),
    [
        ("retention.ms", " 5 ", "5"),
        ("retention.bytes", "-5", "-5"),
        ("segment.ms", "007", "7"),
        ("max.message.bytes", "+5", "5"),
        ("max.message.bytes", "٣", "3"),
        ("preallocate", "TRUE", "true"),
        ("cleanup.policy", " compact , delete ", "compact,delete"),
        ("cleanup.policy", "delete,delete", "delete"),
        ("cleanup.policy", "", ""),
        ("min.cleanable.dirty.ratio", "1e-1", "0.1"),
        ("min.cleanable.dirty.ratio", "1", "1.0"),
        ("min.cleanable.dirty.ratio", ".5f", "0.5"),
        ("min.cleanable.dirty.ratio", "NaN", "NaN"),
        ("message.timestamp.type", " CreateTime ", "CreateTime"),
        ("internal.segment.bytes", "100", "100"),
        (THROTTLED, "*", "*"),
        (THROTTLED, "0:1, 1:1", "0:1,1:1"),
        ("local.retention.ms", "-2", "-2"),
        ("compression.gzip.level", "-1", "-1"),
    ],
)
def test_a_good_value_is_kept_in_kafkas_spelling(name: str, text: str, kept: str) -> None:
    assert check_topic_configs({name: text}) == {name: kept}


def test_of_a_name_given_twice_the_last_counts() -> None:
    asked = [("retention.ms", "1"), ("retention.ms", "2")]

    assert check_topic_configs(asked) == {"retention.ms": "2"}


def test_values_are_held_against_what_the_cluster_gives_all_topics() -> None:
    asked = {"max.compaction.lag.ms": "5"}

    assert check_topic_configs(asked) == asked
    with pytest.raises(Refused, match=r"min.compaction.lag.ms \(10\) > .* \(5\)"):
        check_topic_configs(asked, defaults={"min.compaction.lag.ms": "10"})


@pytest.mark.parametrize("name", sorted(set(TOPIC_CONFIGS) - {"internal.segment.bytes"}))
def test_every_default_is_itself_a_good_value(name: str) -> None:
    default = TOPIC_CONFIGS[name].default

    assert check_topic_configs({name: default}) == {name: default}


def test_a_value_has_the_type_of_its_config() -> None:
    configs = {"cleanup.policy": "compact,delete", "preallocate": "true"}

    assert topic_value(configs, "cleanup.policy") == ("compact", "delete")
    assert topic_value(configs, "preallocate") is True
    assert topic_value(configs, "retention.ms") == 604_800_000
    assert topic_value(configs, "min.cleanable.dirty.ratio") == 0.5
    assert topic_value(configs, "internal.segment.bytes") is None


def test_a_topic_is_described_with_what_was_set_and_what_it_would_have_been() -> None:
    entries = by_name(
        describe_topic({"cleanup.policy": "compact", "retention.ms": "1"}, include_synonyms=True)
    )

    assert len(entries) == 33
    assert list(entries) == sorted(entries)
    assert entries["cleanup.policy"].value == "compact"
    assert entries["cleanup.policy"].config_source == 1
    assert entries["cleanup.policy"].config_type == 7
    assert synonyms(entries["cleanup.policy"]) == [
        ("cleanup.policy", "compact", 1),
        ("log.cleanup.policy", "delete", 5),
    ]
    assert synonyms(entries["retention.ms"]) == [("retention.ms", "1", 1)]
    assert (entries["segment.ms"].config_source, synonyms(entries["segment.ms"])) == (5, [])


def test_what_the_cluster_gives_all_topics_is_shown_as_set_in_the_brokers_file() -> None:
    (entry,) = describe_topic(
        {}, ["max.message.bytes"], defaults={"max.message.bytes": "99"}, include_synonyms=True
    )

    assert (entry.value, entry.config_source) == ("99", 4)
    assert synonyms(entry) == [
        ("message.max.bytes", "99", 4),
        ("message.max.bytes", "1048588", 5),
    ]


def test_min_insync_replicas_is_shown_as_set_by_the_controller() -> None:
    (entry,) = describe_topic({}, ["min.insync.replicas"], include_synonyms=True)
    (for_all,) = describe_broker({}, for_all_brokers=True, include_synonyms=True)

    assert (entry.value, entry.config_source) == ("1", 3)
    assert synonyms(entry) == [("min.insync.replicas", "1", 3), ("min.insync.replicas", "1", 5)]
    assert synonyms(for_all) == [("min.insync.replicas", "1", 3)]


def test_only_the_wanted_keys_are_described_and_unknown_ones_left_out() -> None:
    names = [entry.name for entry in describe_topic({}, ["retention.ms", "nope", "cleanup.policy"])]

    assert names == ["cleanup.policy", "retention.ms"]
    assert len(describe_topic({}, [])) == 33
    assert describe_broker({}, ["nope"]) == []


def test_an_internal_config_is_described_only_if_it_is_set() -> None:
    assert describe_topic({}, ["internal.segment.bytes"]) == []

    (entry,) = describe_topic({"internal.segment.bytes": "100"}, ["internal.segment.bytes"])
    assert (entry.value, entry.config_source) == ("100", 1)


def test_synonyms_and_documentation_are_given_to_those_who_ask() -> None:
    (bare,) = describe_topic({}, ["max.message.bytes"])
    (documented,) = describe_topic({}, ["max.message.bytes"], include_documentation=True)

    assert (bare.synonyms, bare.documentation) == ([], None)
    assert "largest record batch" in documented.documentation


def test_a_brokers_default_for_topics_is_documented_as_the_topics_config() -> None:
    (entry,) = describe_broker({}, ["message.max.bytes"], include_documentation=True)

    assert "largest record batch" in entry.documentation


def test_a_broker_is_described_with_what_it_was_started_with() -> None:
    entries = by_name(
        describe_broker(
            {"num.partitions": "4", "node.id": "1"},
            topic_defaults={"retention.ms": "60000"},
            include_synonyms=True,
        )
    )

    assert (entries["num.partitions"].value, entries["num.partitions"].config_source) == ("4", 4)
    assert synonyms(entries["num.partitions"]) == [
        ("num.partitions", "4", 4),
        ("num.partitions", "1", 5),
    ]
    assert entries["num.partitions"].read_only
    assert synonyms(entries["node.id"]) == [("node.id", "1", 4)]
    assert not entries["log.retention.ms"].read_only
    assert synonyms(entries["log.retention.ms"]) == [("log.retention.ms", "60000", 4)]
    assert (entries["log.retention.hours"].value, entries["broker.rack"].value) == ("168", None)


def test_a_password_is_never_shown() -> None:
    (entry,) = describe_broker(
        {"ssl.keystore.password": "hunter2"}, ["ssl.keystore.password"], include_synonyms=True
    )

    assert (entry.value, entry.is_sensitive, entry.config_source) == (None, True, 4)
    assert "hunter2" not in repr(entry)


@pytest.mark.parametrize("version", range(1, 5))
def test_descriptions_go_over_the_wire_in_every_version(version: int) -> None:
    configs = [
        *describe_topic({}, include_synonyms=True, include_documentation=True),
        *describe_broker({}, include_synonyms=True),
    ]
    response = DescribeConfigsResponse(
        results=[
            DescribeConfigsResponse.DescribeConfigsResult(
                error_code=0, error_message="", resource_type=2, resource_name="t", configs=configs
            )
        ]
    )

    read = DescribeConfigsResponse.decode(response.encode(version=version), version=version)

    assert len(read.results[0].configs) == 33 + len(BROKER_CONFIGS)
