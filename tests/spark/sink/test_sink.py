"""The sink against an embedded Kafka, with each library, without a JVM."""

from __future__ import annotations

import gc
import os
import socket
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest
from kafka.errors import KafkaError, KafkaTimeoutError

from aktor.actors.runtime.dispatcher import VirtualTime
from aktor.broker import ClusterSettings, EmbeddedKafka
from aktor.broker.codes import Code
from aktor.broker.faults import FailPartly, Fault
from aktor.consumer.core import waiting
from aktor.errors import ConfigurationError, DeliveryError, InvalidRowError
from aktor.spark.options.producer_settings import ProducerSettings
from aktor.spark.sink import producers
from aktor.spark.sink.confluent_producer import ConfluentProducer
from aktor.spark.sink.kafka_python_producer import KafkaPythonProducer
from aktor.spark.sink.rows import Rows
from tests.kafka.spark_support import read
from tests.spark.writing import a_writer, batches_of, run_task, write

CANARY = "c4nary-s3cret"
LIBRARIES = ("confluent", "kafka-python")


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(partitions=3) as one:
        yield one


@pytest.fixture
def topic(kafka: EmbeddedKafka, request: pytest.FixtureRequest) -> Iterator[str]:
    name = f"topic-{abs(hash(request.node.name))}"
    kafka.create_topic(name)
    yield name
    kafka.clear_faults()


@pytest.fixture(scope="module", autouse=True)
def no_garbage() -> Iterator[None]:
    """Producers that are held by the errors which tests have expected end, too. The worker has
    exempted some of these from garbage collection."""
    yield
    gc.unfreeze()
    gc.collect()


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def options(kafka: EmbeddedKafka, library: str, **more: str) -> dict[str, str]:
    """Options of a sink: kafka__acks for kafka.acks."""
    return {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "producer": library,
        **{name.replace("__", "."): text for name, text in more.items()},
    }


def values(kafka: EmbeddedKafka, topic: str, isolation: str = "read_committed") -> list[bytes]:
    """The values that such a reader sees, sorted."""
    return sorted(one.value for one in read(kafka, topic, isolation))


def test_every_column_gets_into_its_place(kafka: EmbeddedKafka, topic: str, library: str) -> None:
    headers = [{"key": "trace", "value": b"1"}, {"key": "empty", "value": b""}]
    rows = [
        ("Zoë", "größer", topic, 2, headers),
        (None, "", topic, 1, None),
        ("tombstone", None, topic, 0, []),
    ]

    schema = "key string, value string, topic string, partition int, headers headers"
    assert write(options(kafka, library), schema, rows) == 3

    tombstone, empty, full = read(kafka, topic)
    assert (full.partition, full.key, full.value) == (2, "Zoë".encode(), "größer".encode())
    assert full.headers == [("trace", b"1"), ("empty", b"")]
    assert (empty.partition, empty.key, empty.value, empty.headers) == (1, None, b"", [])
    assert (tombstone.partition, tombstone.key, tombstone.value) == (0, b"tombstone", None)


def test_headers_of_a_slice_are_its_own(kafka: EmbeddedKafka, topic: str, library: str) -> None:
    rows = [(b"%d" % n, [{"key": f"h{n}", "value": b"x"}] * (n % 3)) for n in range(10)]
    schema = "value binary, headers headers"
    (batch,) = batches_of(schema, rows)
    writer = a_writer(options(kafka, library, topic=topic), schema)

    run_task(writer, [batch.slice(3, 4), batch.slice(7)])

    found = {int(one.value): one.headers for one in read(kafka, topic)}
    assert found == {n: [(f"h{n}", b"x")] * (n % 3) for n in range(3, 10)}


def test_keys_go_where_javas_producer_sends_them(
    kafka: EmbeddedKafka, topic: str, library: str
) -> None:
    rows = [("alice", b"1"), ("bob", b"2"), ("carol", b"3"), ("dave", b"4"), ("", b"5")]
    write(options(kafka, library, topic=topic), "key string, value binary", rows)

    # Murmur2 of the key, positive, modulo 3, by org.apache.kafka.common.utils.Utils.
    from kafka.partitioner.default import murmur2

    for one in read(kafka, topic):
        assert one.partition == (murmur2(one.key) & 0x7FFFFFFF) % 3


def test_the_option_topic_overrides_the_column(
    kafka: EmbeddedKafka, topic: str, library: str
) -> None:
    rows = [(b"1", None), (b"2", "nowhere")]
    write(options(kafka, library, topic=topic), "value binary, topic string", rows)

    assert values(kafka, topic) == [b"1", b"2"]


def test_a_null_topic_names_the_row_and_not_its_data(
    kafka: EmbeddedKafka, topic: str, library: str
) -> None:
    rows = [(CANARY, topic), (CANARY, topic), (CANARY, None)]
    writer = a_writer(options(kafka, library), "value string, topic string")

    with pytest.raises(InvalidRowError, match="row 2 of the task") as refused:
        run_task(writer, batches_of("value string, topic string", rows, size=2))

    assert CANARY not in str(refused.value)
    assert "set the option topic" in str(refused.value)


@pytest.mark.parametrize(
    ("schema", "row", "said"),
    [
        ("value string, partition int", ("a", -1), "its partition is below 0"),
        (
            "value string, headers headers",
            ("a", [{"key": None, "value": b"x"}]),
            "it has a header whose key is null",
        ),
        (
            "value string, headers headers",
            ("a", [{"key": "a\0b", "value": b"x"}]),
            "it has a header whose key has a character with the code 0",
        ),
    ],
)
def test_a_row_that_cannot_be_is_named(
    kafka: EmbeddedKafka, topic: str, library: str, schema: str, row: Any, said: str
) -> None:
    with pytest.raises(InvalidRowError, match=f"row 1 of the task.*{said}"):
        write(options(kafka, library, topic=topic), schema, [("a", None), row])


@pytest.mark.parametrize("whole", [True, False])
def test_the_first_of_several_bad_headers_is_told(
    kafka: EmbeddedKafka, topic: str, library: str, whole: bool
) -> None:
    """A slice of a batch has the headers of all of it in its memory."""
    schema = "value string, headers headers"
    rows = [("a", [{"key": "a\0b", "value": b"x"}]), ("b", [{"key": None, "value": b"x"}])]
    (batch,) = batches_of(schema, rows)
    writer = a_writer(options(kafka, library, topic=topic), schema)

    with pytest.raises(InvalidRowError, match=r"row 0 of the task.*the code 0"):
        run_task(writer, [batch] if whole else [batch.slice(0, 1), batch.slice(1)])

    assert values(kafka, topic) == []


def test_nulls_that_kafka_python_cannot_write_name_the_row(
    kafka: EmbeddedKafka, topic: str
) -> None:
    rows = [(None, b"1"), (None, None)]
    schema = "key binary, value binary"

    with pytest.raises(InvalidRowError, match=r"row 1 .*kafka-python: Need at least one"):
        write(options(kafka, "kafka-python", topic=topic), schema, rows)
    write(options(kafka, "confluent", topic=topic), schema, rows)

    assert [one.value for one in read(kafka, topic)].count(None) == 1


def test_big_records_get_through_if_they_are_allowed(
    kafka: EmbeddedKafka, library: str, request: pytest.FixtureRequest
) -> None:
    topic = f"big-{library}"
    kafka.create_topic(topic, 1, configs={"max.message.bytes": "20000000"})
    rows = [(bytes([n]) * 3_000_000,) for n in range(5)]
    allowed = options(kafka, library, topic=topic, kafka__max__request__size="10000000")

    write(allowed, "value binary", rows)
    assert values(kafka, topic) == sorted(value for (value,) in rows)

    with pytest.raises(DeliveryError, match=topic) as refused:
        write(options(kafka, library, topic=topic), "value binary", rows)
    assert "max.request.size" in str(refused.value).replace("_", ".")


def test_the_error_says_that_the_topic_may_not_exist(library: str) -> None:
    with EmbeddedKafka(settings=ClusterSettings(auto_create_topics=False)) as kafka:
        short = {"kafka__max__block__ms": "1000", "kafka__delivery__timeout__ms": "1500"}
        given = options(kafka, library, topic="orders", kafka__request__timeout__ms="1000", **short)

        with pytest.raises(DeliveryError, match=r"for orders: .* create the topic") as failed:
            write(given, "value string", [("a",)])

    assert failed.value.partition is None
    assert str(failed.value).count("KafkaTimeoutError") < 2
    producers._drop()


def test_a_record_that_is_too_big_for_the_topic_says_which_setting_is_the_topics(
    kafka: EmbeddedKafka, library: str
) -> None:
    topic = f"small-{library}"
    kafka.create_topic(topic, 1, configs={"max.message.bytes": "1000"})

    with pytest.raises(DeliveryError, match=r"max\.message\.bytes"):
        write(options(kafka, library, topic=topic), "value binary", [(b"v" * 10_000,)])


def test_a_transaction_without_a_broker_says_why_and_for_how_long(
    no_broker: dict[str, str],
) -> None:
    with pytest.raises(KafkaError) as failed:
        write(no_broker | {"transactional": "true"}, "value string", [("a",)])

    assert "1.5 s (kafka.max.block.ms)" in str(failed.value)
    assert "refused" in str(failed.value)


def test_a_broker_that_cannot_be_reached_does_not_flood_the_log(
    no_broker: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """librdkafka tells of each attempt to connect, which is several times a second."""
    with pytest.raises(DeliveryError):
        write(no_broker, "value string", [("a",)])
    producers._drop()

    told = [one.getMessage() for one in caplog.records if one.name == "aktor.spark"]
    address = no_broker["kafka.bootstrap.servers"]
    assert len([text for text in told if "refused" in text and address in text]) == 1


@pytest.fixture
def no_broker() -> Iterator[dict[str, str]]:
    """Options of a sink whose broker refuses connections."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen: no other test gets the port
        yield {
            "kafka.bootstrap.servers": f"127.0.0.1:{nobody.getsockname()[1]}",
            "topic": "orders",
            "producer": "confluent",
            "kafka.max.block.ms": "1500",
            "kafka.request.timeout.ms": "1000",
            "kafka.delivery.timeout.ms": "2500",
        }


def test_what_the_broker_refuses_fails_the_task_and_names_the_partition(
    kafka: EmbeddedKafka, topic: str, library: str
) -> None:
    kafka.inject(Fault(api="Produce", action=FailPartly(Code.TOPIC_AUTHORIZATION_FAILED)))

    with pytest.raises(DeliveryError) as refused:
        write(
            options(kafka, library, topic=topic),
            "value binary, partition int",
            [(b"%d" % n, 1) for n in range(100)],
        )

    assert (refused.value.topic, refused.value.partition) == (topic, 1)
    assert refused.value.not_acknowledged == 100
    assert "uthoriz" in refused.value.reason


def test_nothing_is_sent_after_a_task_has_failed(
    kafka: EmbeddedKafka, topic: str, library: str
) -> None:
    given = options(
        kafka, library, topic=topic, kafka__linger__ms="60000", kafka__request__timeout__ms="1000"
    )

    schema = "value binary, partition int"
    batches = [*batches_of(schema, [(b"2", 0)]), *batches_of(schema, [(b"3", -1)])]
    write(given, schema, [(b"1", 0)])
    with pytest.raises(InvalidRowError):
        run_task(a_writer(given, schema), batches)
    write(given, schema, [(b"4", 0)])

    assert values(kafka, topic) == [b"1", b"4"]


def test_a_refused_produce_that_may_be_tried_again_is(
    kafka: EmbeddedKafka, topic: str, library: str
) -> None:
    for _ in range(3):
        kafka.inject(Fault(api="Produce", action=FailPartly(Code.NOT_LEADER_OR_FOLLOWER)))

    rows = [(b"%04d" % n,) for n in range(1000)]
    write(options(kafka, library, topic=topic), "value binary", rows)

    assert values(kafka, topic) == [value for (value,) in rows], "each is there once"


def test_a_queue_that_is_full_is_waited_for(kafka: EmbeddedKafka, topic: str, library: str) -> None:
    small = {"kafka__buffer__memory": "100000", "kafka__max__request__size": "50000"}
    rows = [(b"%05d" % n + b"x" * 1000,) for n in range(2000)]

    write(options(kafka, library, topic=topic, **small), "value binary", rows)

    assert values(kafka, topic) == [value for (value,) in rows]


def test_a_worker_keeps_its_producer_and_drops_it_after_an_error(
    kafka: EmbeddedKafka, topic: str, library: str
) -> None:
    given = options(kafka, library, topic=topic)
    write(given, "value binary", [(b"1",)])
    first = producers._kept
    write(given, "value binary", [(b"2",)])
    assert producers._kept is first

    def broken() -> Iterator[Any]:
        yield from batches_of("value binary", [(b"3",)])
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_task(a_writer(given, "value binary"), broken())
    assert producers._kept is None

    write(given, "value binary", [(b"4",)])
    assert {b"1", b"2", b"4"} <= set(values(kafka, topic))


def test_other_settings_make_another_producer(
    kafka: EmbeddedKafka, topic: str, library: str
) -> None:
    write(options(kafka, library, topic=topic), "value binary", [(b"1",)])
    first = producers._kept
    write(options(kafka, library, topic=topic, kafka__acks="1"), "value binary", [(b"2",)])

    assert producers._kept is not first
    assert values(kafka, topic) == [b"1", b"2"]


def test_a_producer_of_before_a_fork_is_left_alone(
    kafka: EmbeddedKafka, topic: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = options(kafka, library, topic=topic)
    write(given, "value binary", [(b"1",)])
    before = producers._kept
    assert before is not None
    monkeypatch.setattr(producers, "_kept", (os.getpid() + 1, *before[1:]))

    write(given, "value binary", [(b"2",)])

    assert producers._kept is not None
    assert producers._kept[2] is not before[2]
    before[2].flush()  # it was not closed
    producers._drop()
    monkeypatch.undo()


def test_confluent_kafka_is_taken_where_it_is_installed(
    kafka: EmbeddedKafka, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = options(kafka, "auto", topic=topic)
    write(given, "value binary", [(b"1",)])
    assert producers._kept is not None
    assert isinstance(producers._kept[2], producers.ConfluentProducer)
    producers._drop()

    monkeypatch.setattr(producers.importlib.util, "find_spec", lambda name: None)
    write(given, "value binary", [(b"2",)])
    assert isinstance(producers._kept[2], producers.KafkaPythonProducer)


def test_confluent_kafka_that_is_missing_is_named(
    kafka: EmbeddedKafka, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "confluent_kafka", None)

    with pytest.raises(ConfigurationError, match="pip install confluent-kafka"):
        write(options(kafka, "confluent", topic=topic), "value binary", [(b"1",)])


# -- transactions


def test_a_failed_attempt_is_never_seen_by_read_committed(
    kafka: EmbeddedKafka, topic: str, library: str
) -> None:
    rows = [(b"%03d" % n, n % 3) for n in range(300)]
    schema = "value binary, partition int"
    writer = a_writer(options(kafka, library, topic=topic, transactional="true"), schema)

    def broken() -> Iterator[Any]:
        batches = batches_of(schema, rows, size=100)
        yield next(batches)
        _wait_for_the_first_batch(kafka, topic)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_task(writer, broken())
    assert values(kafka, topic) == []
    assert run_task(writer, batches_of(schema, rows, size=100)) == 300

    assert values(kafka, topic) == [value for value, _ in rows]
    seen = values(kafka, topic, "read_uncommitted")
    assert seen == sorted([*(value for value, _ in rows), *(value for value, _ in rows[:100])])


def _wait_for_the_first_batch(kafka: EmbeddedKafka, topic: str) -> None:
    """Until its 100 records are in the log, of which the transaction is open."""
    import time

    until = time.monotonic() + 30
    while time.monotonic() < until:
        offsets = [
            kafka.server.ask(lambda p=p: kafka._partition(topic, p).log.end_offset)
            for p in range(3)
        ]
        if sum(offsets) == 100:
            return
        time.sleep(0.01)
    raise AssertionError(f"the records did not arrive: {offsets}")


def test_a_new_attempt_fences_the_one_before_it(
    kafka: EmbeddedKafka, topic: str, library: str
) -> None:
    writer = a_writer(options(kafka, library, topic=topic, transactional="true"), "value binary")

    def overtaken() -> Iterator[Any]:
        yield from batches_of("value binary", [(b"first",)])
        run_task(writer, batches_of("value binary", [(b"second",)]))

    with pytest.raises(KafkaError):
        run_task(writer, overtaken())

    assert values(kafka, topic) == [b"second"]


@pytest.mark.parametrize("_", range(5))
def test_who_is_fenced_while_records_wait_hears_so(
    kafka: EmbeddedKafka, topic: str, library: str, _: int
) -> None:
    """confluent-kafka then raised SystemError, or an error of its own."""
    given = options(kafka, library, topic=topic, transactional="true", **{"kafka.linger.ms": "200"})
    writer = a_writer(given, "value binary")

    def overtaken() -> Iterator[Any]:
        yield from batches_of("value binary", [(b"%d" % number,) for number in range(9)])
        run_task(writer, batches_of("value binary", [(b"second",)]))

    with pytest.raises(KafkaError, match=r"(?i)fenced|newer"):
        run_task(writer, overtaken())

    assert values(kafka, topic) == [b"second"]


def test_who_is_fenced_amid_its_records_hears_so_and_asks_for_no_epoch(
    kafka: EmbeddedKafka, topic: str, library: str, caplog: pytest.LogCaptureFixture
) -> None:
    """kafka-python then asked for a new epoch: an error of its own, and the transaction was
    forgotten."""
    writer = a_writer(options(kafka, library, topic=topic, transactional="true"), "value binary")

    def overtaken() -> Iterator[Any]:
        yield from batches_of("value binary", [(b"%d" % number,) for number in range(100)])
        _wait_for_the_first_batch(kafka, topic)
        run_task(writer, batches_of("value binary", [(b"second",)]))
        yield from batches_of("value binary", [(b"%d" % number,) for number in range(9)])

    with pytest.raises(KafkaError, match=r"a newer attempt of the task has begun"):
        run_task(writer, overtaken())

    assert values(kafka, topic) == [b"second"]
    assert "Bumping producer epoch" not in caplog.text


@pytest.mark.parametrize("goes_on", [False, True], ids=["at the commit", "while it sends"])
def test_a_producer_that_was_fenced_is_not_kept(
    kafka: EmbeddedKafka, topic: str, goes_on: bool
) -> None:
    """confluent-kafka keeps the exception, which kept the producer, and its four threads."""
    given = options(
        kafka, "confluent", topic=topic, transactional="true", **{"kafka.linger.ms": "100"}
    )
    writer = a_writer(given, "value binary")
    meanwhile = 0

    def overtaken() -> Iterator[Any]:
        nonlocal meanwhile
        yield from batches_of("value binary", [(b"%d" % number,) for number in range(9)])
        run_task(writer, batches_of("value binary", [(b"second",)]))
        meanwhile = count_producers()
        while goes_on:  # until it hears that it is fenced
            yield from batches_of("value binary", [(b"more",)])

    before = count_producers()
    with pytest.raises(KafkaError, match=r"(?i)fenced|newer"):
        run_task(writer, overtaken())

    assert meanwhile == before + 1
    assert count_producers() == before


def count_producers() -> int:
    """How many producers of confluent-kafka there are in this process."""
    gc.collect()
    return sum(type(one) is confluent_kafka.Producer for one in gc.get_objects())


def test_the_transactional_id_is_that_of_the_task(kafka: EmbeddedKafka, topic: str) -> None:
    given = options(
        kafka, "confluent", topic=topic, transactional="true", transactionalIdPrefix="bills"
    )
    stream = a_writer(given, "value binary", stream=True)
    run_task(stream, batches_of("value binary", [(b"1",)]), partition=4, stream=True)
    batch = a_writer(given, "value binary")
    run_task(batch, batches_of("value binary", [(b"2",)]), partition=5)

    from kafka import KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    try:
        found = [one for one in _transactional_ids(admin) if one.startswith("bills")]
    finally:
        admin.close()
    assert "bills-3f0f2a6e-stream-4" in found
    assert f"bills-{batch._job}-5" in found


def _transactional_ids(admin: Any) -> list[str]:
    listed = admin.list_transactions()
    return [one.transactional_id for of_broker in listed.values() for one in of_broker]


# -- secrets


@pytest.fixture(scope="module")
def locked() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(partitions=1, users={"alice": CANARY}, topics=["orders"]) as one:
        yield one


def test_a_login_by_a_jaas_line(locked: EmbeddedKafka, library: str) -> None:
    write(_logged_in(locked, library, CANARY), "value binary", [(b"1",)])

    assert locked.end_offset("orders") >= 1
    producers._drop()


def test_a_wrong_password_is_said_soon_and_is_nowhere_shown(
    locked: EmbeddedKafka,
    library: str,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    # Not at DEBUG: there kafka-python logs each request, and so the login.
    caplog.set_level("INFO")
    wrong = _logged_in(locked, library, f"wrong-{CANARY}")
    wrong["kafka.bootstrap.timeout.ms"] = "1500"

    with pytest.raises(KafkaError) as refused:
        write(wrong, "value binary", [(b"1",)])

    assert "uthenticat" in str(refused.value) or "the login" in str(refused.value)
    out, err = capfd.readouterr()
    for text in (str(refused.value), repr(refused.value), caplog.text, out, err):
        assert CANARY not in text


def test_a_setting_that_librdkafka_refuses_shows_no_secret(
    locked: EmbeddedKafka, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pem = tmp_path / "key.pem"
    pem.write_text("no key at all")
    given = {
        "kafka.bootstrap.servers": locked.bootstrap_servers,
        "topic": "orders",
        "producer": "confluent",
        "kafka.security.protocol": "${env:SINK_PROTOCOL}",
        "kafka.ssl.keystore.location": str(pem),
        "kafka.ssl.key.password": CANARY,
    }
    monkeypatch.setenv("SINK_PROTOCOL", "SSL")

    with pytest.raises(ConfigurationError, match="confluent refuses") as refused:
        write(given, "value binary", [(b"1",)])

    assert CANARY not in str(refused.value)
    assert refused.value.__cause__ is None


def _logged_in(kafka: EmbeddedKafka, library: str, password: str) -> dict[str, str]:
    return options(
        kafka,
        library,
        topic="orders",
        kafka__security__protocol="SASL_PLAINTEXT",
        kafka__sasl__mechanism="PLAIN",
        kafka__sasl__jaas__config=(
            "org.apache.kafka.common.security.plain.PlainLoginModule required"
            f' username="alice" password="{password}";'
        ),
    )


class StoppedProducer:
    """kafka-python's producer in a process that is stopped (SIGSTOP) after 0.05 s: what it waits
    for is there when the process goes on."""

    def __init__(self, **_: Any) -> None:
        self.began = time.monotonic()
        self.goes_on = threading.Event()
        self._transaction_manager = SimpleNamespace()

    def clock(self) -> float:
        if time.monotonic() < self.began + 0.05:
            return self.began
        self.goes_on.set()
        return self.began + 60.0

    def commit_transaction(self) -> None:
        assert self.goes_on.wait(20.0)

    def flush(self, timeout: float) -> None:
        if not self.goes_on.wait(timeout):
            raise KafkaTimeoutError

    def send(self, topic: str, *_: Any) -> StoppedProducer:
        self._produce_future = SimpleNamespace(topic_partition=(topic, 0))
        return self

    @property
    def is_done(self) -> bool:
        return self.goes_on.is_set()

    exception = None


@pytest.mark.parametrize("what", ["flush", "commit"])
def test_a_task_whose_process_was_stopped_hears_what_came_of_its_records(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr("kafka.KafkaProducer", StoppedProducer)
    producer = KafkaPythonProducer(ProducerSettings({"delivery_timeout_ms": 60}), "one")
    monkeypatch.setattr(waiting, "time", SimpleNamespace(monotonic=producer._producer.clock))
    producer.send(Rows(0, ["orders"], [None], [b"x"], [-1], [None]))

    getattr(producer, what)()


class StoppedTransaction:
    """confluent-kafka's producer in a process that is stopped (SIGSTOP) in the first attempt: the
    library says that its time is over before it reads the answer."""

    def __init__(self, clock: VirtualTime) -> None:
        self._clock = clock
        self.waits: list[float] = []

    def commit_transaction(self, timeout: float) -> None:
        self.waits.append(timeout)
        if len(self.waits) == 1:
            self._clock.now += 600.0
            error = confluent_kafka.KafkaError(confluent_kafka.KafkaError._TIMED_OUT)
            raise confluent_kafka.KafkaException(error)

    def poll(self, timeout: float) -> None:
        pass


def test_a_transaction_that_was_committed_while_the_process_was_stopped_is_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = VirtualTime(100.0)
    monkeypatch.setattr(waiting, "time", SimpleNamespace(monotonic=clock))
    settings = ProducerSettings({"bootstrap_servers": "localhost:1", "max_block_ms": 3000})
    producer = ConfluentProducer(settings, "one")
    producer._producer = theirs = StoppedTransaction(clock)

    producer.commit()

    assert theirs.waits == [3.0, waiting.CATCH_UP]
