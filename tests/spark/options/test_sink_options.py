"""Options, settings and columns of the sink are refused before a job starts, with a remedy."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from aktor.errors import ConfigurationError
from aktor.spark.options import client_settings, producer_settings
from aktor.spark.options.sink import SinkOptions, read_sink_options
from aktor.spark.options.source import read_options
from tests.spark.harness import a_source
from tests.spark.writing import a_schema, a_writer

CANARY = "c4nary-s3cret"
JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required"
    f' username="alice" password="{CANARY}";'
)


def options(**more: str) -> dict[str, str]:
    """Options of a sink."""
    return {
        "kafka.bootstrap.servers": "localhost:9092",
        "topic": "orders",
        **{name.replace("__", "."): text for name, text in more.items()},
    }


def settings(**more: str) -> producer_settings.ProducerSettings:
    """Settings of a producer: acks="1" for kafka.acks, ssl_truststore_location for dots."""
    given = {"bootstrap.servers": "localhost:9092"}
    given |= {name.replace("_", "."): text for name, text in more.items()}
    transactional = False
    producer_settings.check(given, transactional=transactional)
    return producer_settings.read(given, transactional=transactional)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"topik": "a"}, "unknown option topik; did you mean topic?"),
        ({"acks": "all"}, "unknown option acks; did you mean kafka.acks?"),
        ({"kafka__group__id": "g"}, "unknown option kafka.group.id"),
        ({"kafka__ack": "all"}, "did you mean kafka.acks?"),
        ({"kafka__acks": "2"}, "kafka.acks must be one of all, -1, 0, 1"),
        ({"kafka__linger__ms": "soon"}, "kafka.linger.ms must be a number"),
        ({"kafka__transactional__id": "t"}, "use transactional=true"),
        ({"kafka__key__serializer": "x"}, "keys are binary or strings"),
        ({"kafka__partitioner__ignore__keys": "true"}, "write null keys"),
        ({"kafka__interceptor__classes": "x"}, "an interceptor may change records"),
        ({"kafka__security__protocol": "SSLL"}, "kafka.security.protocol is 'SSLL'"),
        ({"topic": " "}, "topic is empty"),
        ({"topic": "a\0b"}, "topic: 'a\\x00b' cannot be a topic's name"),
        ({"topic": "a,b"}, "topic: 'a,b' cannot be a topic's name"),
        ({"producer": "librdkafka"}, "producer must be one of auto, confluent, kafka-python"),
        ({"transactional": "yes"}, "transactional must be true or false"),
        ({"transactionalIdPrefix": "a"}, "transactionalIdPrefix is for transactional=true"),
        (
            {"kafka__acks": "1", "kafka__enable__idempotence": "true"},
            "kafka.enable.idempotence=true excludes kafka.acks=1",
        ),
        ({"transactional": "true", "kafka__retries": "0"}, "transactional=true excludes"),
        (
            {"kafka__linger__ms": "200", "kafka__delivery__timeout__ms": "200"},
            "kafka.linger.ms (200) must be less than kafka.delivery.timeout.ms (200)",
        ),
        (
            {"kafka__linger__ms": "70000", "transactional": "true"},
            "kafka.linger.ms (70000) must be less than kafka.transaction.timeout.ms (60000)",
        ),
        ({"kafka__linger__ms": "-1"}, "kafka.linger.ms must not be negative: -1"),
        ({"kafka__retries": "-1"}, "kafka.retries must not be negative: -1"),
        (
            {"kafka__max__in__flight__requests__per__connection": "0"},
            "kafka.max.in.flight.requests.per.connection must be from 1 to 1000000, not 0",
        ),
        (
            {"kafka__linger__ms": "900001", "kafka__delivery__timeout__ms": "2000000"},
            "kafka.linger.ms must be from 0 to 900000, not 900001",
        ),
        (
            {"kafka__transaction__timeout__ms": "500", "transactional": "true"},
            "kafka.transaction.timeout.ms must be from 1000 to 2147483647, not 500",
        ),
        ({"kafka__max__request__size": "999"}, "kafka.max.request.size must be from 1000 to"),
        ({"kafka__reconnect__backoff__ms": "3600001"}, "must be from 0 to 3600000, not 3600001"),
        (
            {"transactional": "true", "kafka__enable__idempotence": "false"},
            "transactional=true needs",
        ),
    ],
)
def test_options_are_refused_with_a_remedy(more: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        a_writer(options(**more), "value string")

    assert said in str(refused.value)


@pytest.mark.parametrize("stream", [False, True])
def test_settings_that_only_javas_producer_has_are_named_in_a_warning(
    stream: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_settings, "_WARNED", set())
    more = {"kafka__metrics__num__samples": "3", "kafka__partitioner__ignore__keys": "false"}

    a_writer(options(**more), "value string", stream=stream)

    assert [one.message for one in caplog.records] == [
        "kafka.metrics.num.samples: of Java's client, without effect here"
    ]


def test_bootstrap_servers_must_be_there() -> None:
    with pytest.raises(ConfigurationError, match=r"kafka\.bootstrap\.servers is missing") as error:
        a_writer({"topic": "orders"}, "value string")

    # INSERT INTO a table of Spark's catalog: Spark does not hand over the table's options.
    assert "INSERT INTO t WITH (...)" in str(error.value)


def test_an_option_of_the_source_is_told_as_one() -> None:
    with pytest.raises(ConfigurationError) as error:
        a_writer(options(subscribe="orders"), "value string")

    assert "subscribe is an option for reading; the sink writes to" in str(error.value)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("key string", "the column value is missing"),
        ("value bigint", "the column value is bigint, and must be string or binary: CAST(value AS"),
        ("value string, key int", "the column key is int"),
        ("value string, topic binary", "the column topic is binary, and must be string"),
        ("value string, partition bigint", "CAST(partition AS INT)"),
        ("value string, headers map", "array<struct<key:string,value:binary>>"),
        (
            "value string, headers swapped",
            "the column headers is array<struct<value:binary,key:string>>",
        ),
        ("value string, Key string", "unknown column Key; did you mean key?"),
        ("value string, amount int", "unknown column amount: drop it, or put it into value."),
    ],
)
def test_columns_are_refused_with_a_remedy(schema: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        a_writer(options(), schema)

    assert said in str(refused.value)


@pytest.mark.parametrize("stream", [False, True])
def test_what_the_source_gives_can_be_written_as_it_is(stream: bool) -> None:
    schema = (
        "key binary, value binary, topic string, partition int, offset bigint,"
        " timestamp timestamp, timestampType int, headers headers"
    )

    a_writer(options(checkpointLocation="/tmp/c", includeHeaders="true"), schema, stream=stream)


def test_a_topic_comes_from_the_option_or_the_column() -> None:
    without = {"kafka.bootstrap.servers": "localhost:9092"}

    a_writer(without, "value string, topic string")
    with pytest.raises(ConfigurationError, match="set the option topic, or have a column topic"):
        a_writer(without, "value string")


def test_a_topic_is_not_overwritten() -> None:
    with pytest.raises(ConfigurationError, match='use mode\\("append"\\)'):
        a_source(options()).writer(schema=a_schema("value string"), overwrite=True)


def test_the_producer_is_idempotent_unless_the_user_says_otherwise() -> None:
    assert settings().for_confluent()["enable.idempotence"] is True
    assert settings().for_confluent()["acks"] == "all"
    for more in ({"acks": "1"}, {"retries": "0"}, {"enable_idempotence": "false"}):
        assert settings(**more).for_confluent()["enable.idempotence"] is False
        assert settings(**more).for_kafka_python()["enable_idempotence"] is False


@pytest.mark.parametrize(
    ("name", "text", "confluent", "kafka_python"),
    [
        ("acks", "-1", {"acks": "all"}, {"acks": "all"}),
        ("acks", "1", {"acks": "1"}, {"acks": 1}),
        ("compression.type", "lz4", {"compression.type": "lz4"}, {"compression_type": "lz4"}),
        ("compression.type", "none", {"compression.type": "none"}, {"compression_type": None}),
        ("linger.ms", "7", {"linger.ms": 7}, {"linger_ms": 7}),
        ("batch.size", "100", {"batch.size": 100}, {"batch_size": 100}),
        ("batch.size", "0", {"batch.size": 1}, {"batch_size": 0}),
        (
            "max.in.flight.requests.per.connection",
            "1",
            {"max.in.flight.requests.per.connection": 1},
            {"max_in_flight_requests_per_connection": 1},
        ),
        (
            "delivery.timeout.ms",
            "9000",
            {"delivery.timeout.ms": 9000},
            {"delivery_timeout_ms": 9000},
        ),
        (
            "request.timeout.ms",
            "9000",
            {"request.timeout.ms": 9000},
            {"request_timeout_ms": 9000},
        ),
        (
            "buffer.memory",
            "67108864",
            {"queue.buffering.max.kbytes": 65536},
            {},
        ),
        (
            "max.request.size",
            "50000000",
            {"message.max.bytes": 50000000, "queue.buffering.max.kbytes": 48829},
            {"max_request_size": 50000000},
        ),
        (
            "ssl.truststore.location",
            "/ca.pem",
            {"ssl.ca.location": "/ca.pem"},
            {"ssl_cafile": "/ca.pem"},
        ),
        (
            "ssl.keystore.location",
            "/both.pem",
            {"ssl.certificate.location": "/both.pem", "ssl.key.location": "/both.pem"},
            {"ssl_certfile": "/both.pem", "ssl_keyfile": "/both.pem"},
        ),
        (
            "ssl.endpoint.identification.algorithm",
            "",
            {"ssl.endpoint.identification.algorithm": "none"},
            {"ssl_check_hostname": False},
        ),
        (
            "sasl.jaas.config",
            JAAS,
            {"sasl.username": "alice", "sasl.password": CANARY},
            {"sasl_plain_username": "alice", "sasl_plain_password": CANARY},
        ),
    ],
)
def test_javas_settings_are_those_of_each_library(
    name: str, text: str, confluent: dict[str, Any], kafka_python: dict[str, Any]
) -> None:
    given = {"bootstrap.servers": "localhost:9092", name: text}
    found = producer_settings.read(given, transactional=False)

    assert confluent.items() <= found.for_confluent().items()
    assert kafka_python.items() <= found.for_kafka_python().items()


def test_every_setting_is_one_that_the_library_knows() -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    from kafka import KafkaProducer

    known = producer_settings._KNOWN
    values = {"bootstrap.servers": "localhost:1", "security.protocol": "PLAINTEXT"}
    for name, default in known.items():
        if isinstance(default, (bool, int)):
            values[name.replace("_", ".")] = str(default).lower()
    found = producer_settings.read(values, transactional=True)

    confluent_kafka.Producer(found.for_confluent("an-id") | {"log_level": 0})
    assert found.for_kafka_python().keys() <= KafkaProducer.DEFAULT_CONFIG.keys()


@pytest.mark.parametrize(
    ("more", "timeout"),
    [
        ({}, 120_000),
        ({"linger_ms": "100000"}, 130_000),
        ({"linger_ms": "200000", "request_timeout_ms": "5000"}, 205_000),
        ({"linger_ms": "5", "delivery_timeout_ms": "6"}, 6),
    ],
)
def test_a_delivery_has_time_for_one_request_unless_the_user_says_how_long(
    more: dict[str, str], timeout: int
) -> None:
    """As in Java's producer."""
    assert settings(**more).for_confluent()["delivery.timeout.ms"] == timeout
    assert settings(**more).for_kafka_python()["delivery_timeout_ms"] == timeout


def test_a_delivery_takes_no_longer_than_its_transaction() -> None:
    found = producer_settings.read({"bootstrap.servers": "localhost:9092"}, transactional=True)

    assert found.for_confluent("id")["delivery.timeout.ms"] == 60_000


def test_a_reference_is_resolved_where_the_task_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    given = options(
        kafka__sasl__password="${env:SINK_PASSWORD}",
        kafka__sasl__username="alice",
        kafka__security__protocol="SASL_PLAINTEXT",
        kafka__sasl__mechanism="PLAIN",
    )
    found = read_sink_options(given)
    monkeypatch.setenv("SINK_PASSWORD", CANARY)

    assert CANARY not in repr(dict(found.client))
    read = producer_settings.read(found.client, transactional=False)
    assert read.for_confluent()["sasl.password"] == CANARY
    assert read.without_secrets(f"bad value {CANARY}!") == "bad value ***!"
    assert CANARY not in repr(read)


def test_a_secret_of_the_source_may_be_a_reference_too() -> None:
    given = options(
        kafka__sasl__password="${env:SINK_PASSWORD}",
        kafka__sasl__username="alice",
        kafka__security__protocol="SASL_PLAINTEXT",
        kafka__sasl__mechanism="PLAIN",
        subscribe="orders",
    )
    del given["topic"]

    assert read_options(given, stream=False).client["sasl.password"] == "${env:SINK_PASSWORD}"


def test_a_secret_is_in_no_repr() -> None:
    given = options(
        kafka__sasl__jaas__config=JAAS,
        kafka__security__protocol="SASL_PLAINTEXT",
        kafka__sasl__mechanism="PLAIN",
    )
    writers = [a_writer(given, "value string", stream=stream) for stream in (False, True)]

    assert CANARY in pickle.dumps(writers).decode("latin-1"), "the canary is there to be seen"
    assert CANARY not in repr((writers, a_source(given), read_sink_options(given)))
    assert "orders" in repr(SinkOptions(client={}, topic="orders"))
