"""Options are checked before a job starts, and refused with the nearest name."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.structs import TopicPartition

from aktor.errors import ConfigurationError
from aktor.spark.offsets.bounds import EARLIEST, LATEST, Ago, Time
from aktor.spark.options.source import SourceOptions, read_options

SECRET = "canary-8812"


def options(*, stream: bool = True, **given: Any) -> SourceOptions:
    """Options with what is required; `__` stands for a dot."""
    plain = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}
    named = {name.replace("__", "."): str(value) for name, value in given.items()}
    if {"assign", "subscribePattern"} & named.keys():
        del plain["subscribe"]
    return read_options(plain | named, stream=stream)


def refusal(**given: Any) -> str:
    """The text of the error that these options lead to."""
    with pytest.raises(ConfigurationError) as error:
        options(**given)
    return str(error.value)


def test_names_are_read_in_any_case_as_spark_hands_them_over() -> None:
    assert options(MAXOFFSETSPERTRIGGER=7).max_offsets == 7
    assert options(maxoffsetspertrigger=7).max_offsets == 7


def test_the_defaults_are_those_of_sparks_own_source() -> None:
    found = options()

    assert found.fail_on_data_loss
    assert not found.include_headers
    assert found.poll_timeout == 120.0
    assert (found.look_up_retries, found.look_up_wait) == (3, 1.0)
    assert found.max_trigger_delay == 900.0
    assert found.starting.default == LATEST
    assert options(stream=False).starting.default == EARLIEST
    assert options(stream=False).ending.default == LATEST


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"maxOffsetPerTrigger": 1}, "did you mean maxOffsetsPerTrigger?"),
        ({"startingOffset": "earliest"}, "did you mean startingOffsets?"),
        ({"bootstrap.servers": "a:1"}, "did you mean kafka.bootstrap.servers?"),
        ({"kafka__sasl__mechanismus": "PLAIN"}, "did you mean kafka.sasl.mechanism?"),
        ({"security.protocol": "SSL"}, "did you mean kafka.security.protocol?"),
        ({"sasl.password": "x"}, "did you mean kafka.sasl.password?"),
        ({"group.id": "g"}, "did you mean kafka.group.id?"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_name(given: Any, hint: str) -> None:
    assert hint in refusal(**given)


def test_a_table_of_sparks_catalog_is_refused_with_what_works() -> None:
    """CREATE TABLE ... USING aktor: when Spark reads it, the options of the table are not there."""
    assert "CREATE TEMPORARY VIEW" in refusal(provider="aktor", owner="me")


@pytest.mark.parametrize("stream", [False, True])
def test_a_table_with_columns_is_read_without_its_options_and_the_error_says_so(
    stream: bool,
) -> None:
    """CREATE TABLE t (value binary) USING aktor OPTIONS (...): Spark gives its readers none."""
    with pytest.raises(ConfigurationError) as error:
        read_options({}, stream=stream)

    said = str(error.value)
    assert "kafka.bootstrap.servers is missing" in said
    assert "SELECT ... FROM t WITH ('kafka.bootstrap.servers'='...', ...)" in said


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"kafka__auto__offset__reset": "latest"}, "use startingOffsets"),
        ({"kafka__enable__auto__commit": "true"}, "commitOffsets"),
        ({"kafka__key__deserializer": "x"}, "binary"),
        ({"kafka__security__providers": "x"}, "here is no Java"),
        ({"kafka__interceptor__classes": "x"}, "an interceptor may change records"),
        ({"kafka__sasl__oauthbearer__scope": "x"}, "set kafka.sasl.mechanism=OAUTHBEARER"),
        ({"kafka__sasl__login__class": "x"}, "use kafka.sasl.jaas.config"),
        ({"kafka__config__providers": "vault"}, "are replaced without it"),
        ({"kafka__config__providers__vault__class": "x"}, "are replaced without it"),
        ({"kafka__ssl__truststore__certificates": "x"}, "kafka.ssl.truststore.location"),
        ({"kafka__ssl__enabled__protocols": "TLSv1.3"}, "TLSv1.2 is possible beside TLSv1.3"),
        ({"kafka__metric__reporter": "x"}, "unknown option kafka.metric.reporter"),
        ({"path": "orders"}, "unknown option path: topics are named by options, not by a path"),
        ({"topic": "orders"}, "topic is an option for writing; the source reads what subscribe"),
        ({"transactionalIdPrefix": "a"}, "transactionalIdPrefix is an option for writing"),
        (
            {"kafka__ssl__truststore__location": "/no.jks", "kafka__security__protocol": "SSL"},
            "kafka.ssl.truststore.location (kafka.ssl.cafile) '/no.jks' cannot be read",
        ),
        (
            {"kafka__ssl__truststore__location": __file__, "kafka__security__protocol": "SSL"},
            "It must be a PEM file",
        ),
        ({"maxOffsetsPerTrigger": "many"}, "whole number above 0"),
        ({"maxOffsetsPerTrigger": 0}, "whole number above 0"),
        ({"failOnDataLoss": "maybe"}, "true or false"),
        ({"maxTriggerDelay": "soon"}, "15m"),
        ({"maxTriggerDelay": "9" * 400}, "15m"),
        ({"maxOffsetsPerTrigger": "9" * 5000}, "at most 9223372036854775807, not one of 5000"),
        ({"fetchOffset.numRetries": "9" * 5000}, "at most 9223372036854775807, not one of 5000"),
        ({"fetchOffset.numRetries": -1}, "must be a whole number, 0 or more, not '-1'"),
        ({"idleWaitMs": -1}, "must be a whole number, 0 or more, not '-1'"),
        ({"maxPartitions": 2**63}, "at most 9223372036854775807, not 9223372036854775808"),
        ({"kafkaConsumer.pollTimeoutMs": 0}, "whole number above 0"),
        ({"decode": "proto"}, "avro"),
        ({"columns": " , "}, "names of columns"),
        ({"subscribePattern": "("}, "not a regular expression"),
        (
            {"subscribePattern": r"\p{Alpha}+"},
            "not a regular expression of Python's re: bad escape",
        ),
        ({"assign": "orders"}, '{"orders": [0, 1]}'),
        ({"assign": '{"orders": [true]}'}, '{"orders": [0, 1]}'),
        ({"assign": '{"orders": [0], "orders": [1]}'}, "names orders twice"),
        ({"assign": '{"orders": [0, 1, 0]}'}, "assign names orders-0 twice"),
        ({"assign": '{"orders": [2147483648]}'}, '{"orders": [0, 1]}'),
        ({"subscribe": "a b/ü"}, "subscribe: 'a b/ü' cannot be a topic's name"),
        ({"subscribe": "a,b;c"}, "subscribe: 'b;c' cannot be a topic's name"),
        ({"subscribe": ".."}, "subscribe: '..' cannot be a topic's name"),
        ({"subscribe": "a" * 250}, "at most 249 characters"),
        ({"assign": '{"a\\n": [0]}'}, "assign: 'a\\n' cannot be a topic's name"),
        ({"startingOffsets": "newest"}, "earliest, latest, group"),
        ({"startingOffsets": '{"orders": {"0": -3}}'}, "offsets begin with 0"),
        ({"startingOffsets": '{"orders": {"zero": 3}}'}, "'zero'"),
        ({"startingOffsets": '{"orders": {"0": false}}'}, "'0': False"),
        ({"startingOffsets": '{"orders": {"0": 9223372036854775808}}'}, "9223372036854775808"),
        ({"startingOffsets": '{"orders": {"0": 1}, "orders": {"1": 2}}'}, "names orders twice"),
        ({"startingOffsets": '{"orders": {"0": 1, "00": 2}}'}, "names orders-0 twice"),
        ({"startingOffsets": ""}, "earliest, latest, group"),
        ({"startingTimestamp": "yesterday"}, "milliseconds"),
        ({"startingTimestamp": "9" * 19}, "milliseconds"),
        ({"startingTimestamp": "9" * 5000}, "milliseconds"),
        ({"startingOffsetsByTimestamp": '{"orders": {"0": -1}}'}, "since 1970"),
        ({"startingOffsetsByTimestampStrategy": "earliest"}, "error or latest"),
        ({"startingOffsetsByTimestamp": "5"}, 'must be JSON as {"orders": {"0": 1790000000000}}'),
        (
            {"startingOffsetsByTimestamp": '{"orders": {"0": "5"}}'},
            'must be JSON as {"orders": {"0": 1790000000000}}',
        ),
        ({"endingOffsets": "latest"}, "a stream has no end"),
        ({"commitOffsets": "true"}, "set kafka.group.id"),
        ({"startingOffsets": "group"}, "set kafka.group.id"),
        ({"minOffsetsPerTrigger": 9, "maxOffsetsPerTrigger": 8}, "is more than"),
        ({"minPartitions": 9, "maxPartitions": 8}, "is more than"),
        ({"startingOffsetsDefault": "earliest"}, "without JSON: set startingOffsets=earliest"),
        (
            {"startingTimestamp": "5", "startingOffsetsDefault": "latest"},
            "startingTimestamp is for all partitions",
        ),
        ({"pushFilters": "true"}, "is for batch queries"),
        ({"kafka__fetch__max__wait__ms": "soon"}, "must be a number"),
        ({"kafka__fetch__max__wait__ms": "9" * 5000}, "must be a number"),
    ],
)
def test_a_value_that_cannot_be_is_refused(given: Any, text: str) -> None:
    assert text in refusal(**given)


def test_topics_are_named_with_commas_between() -> None:
    assert options(subscribe=" a.b-c_1, " + "x" * 249).subscription.topics == ("a.b-c_1", "x" * 249)


def test_a_setting_that_text_cannot_have_is_no_hint() -> None:
    assert "did you mean" not in refusal(kafka__socket__options="x")


def test_a_trigger_delay_of_zero_is_no_delay() -> None:
    assert options(maxTriggerDelay="0s").max_trigger_delay == 0.0


def test_the_default_is_also_for_partitions_without_a_timestamp() -> None:
    by_partition = {"startingOffsetsByTimestamp": '{"orders": {"0": 5}}'}

    assert options(**by_partition, startingOffsetsDefault="earliest").starting.default == EARLIEST


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"startingOffsets": "latest"}, "cannot be latest"),
        ({"startingOffsets": '{"orders": {"0": -1}}'}, "cannot be latest"),
        ({"endingOffsets": "earliest"}, "cannot be earliest"),
        ({"endingOffsets": "soon"}, "endingOffsets must be latest, group, a relative time"),
        ({"endingOffsetsByTimestamp": "latest"}, "endingOffsetsByTimestamp must be JSON as"),
        ({"endingOffsets": "latest", "endingOffsetsDefault": "latest"}, "set endingOffsets=latest"),
        ({"commitOffsets": "true", "kafka__group__id": "g"}, "is for streams"),
    ],
)
def test_what_a_batch_query_cannot_have_is_refused(given: Any, text: str) -> None:
    assert text in refusal(stream=False, **given)


def test_exactly_one_option_says_what_to_read() -> None:
    with pytest.raises(ConfigurationError, match="there is none of them"):
        read_options({"kafka.bootstrap.servers": "a:1"}, stream=True)
    with pytest.raises(ConfigurationError, match="there is assign, subscribe"):
        options(assign='{"orders": [0]}', subscribe="orders")


def test_what_to_read_is_topics_partitions_or_a_pattern() -> None:
    assert options(subscribe=" a, b ,a").subscription.topics == ("a", "b")
    assert options(subscribePattern="ord.*").subscription.pattern == "ord.*"
    assert options(assign='{"a": [1, 0]}').subscription.partitions == (
        TopicPartition("a", 0),
        TopicPartition("a", 1),
    )


def test_a_timestamp_comes_before_timestamps_of_partitions_and_these_before_offsets() -> None:
    by_partition = {"startingOffsetsByTimestamp": '{"orders": {"0": 5}}'}

    all_three = options(startingTimestamp=9, startingOffsets="earliest", **by_partition)
    two = options(startingOffsets="earliest", **by_partition)

    assert all_three.starting.default == Time(9)
    assert two.starting.given == {TopicPartition("orders", 0): Time(5)}


def test_a_relative_time_is_reckoned_from_the_beginning_of_the_query() -> None:
    assert options(startingOffsets="-15m").starting.default == Ago(900_000)
    assert options(startingTimestamp="-2h").starting.default == Ago(7_200_000)


def test_bootstrap_servers_are_required() -> None:
    with pytest.raises(ConfigurationError, match=r"kafka\.bootstrap\.servers is missing"):
        read_options({"subscribe": "orders"}, stream=True)


def test_no_secret_is_in_the_text_of_the_options() -> None:
    found = options(
        kafka__sasl__mechanism="PLAIN",
        kafka__security__protocol="SASL_PLAINTEXT",
        kafka__sasl__jaas__config=f'X required username="u" password="{SECRET}";',
    )

    assert SECRET not in repr(found)
    assert SECRET in found.client["sasl.jaas.config"]
