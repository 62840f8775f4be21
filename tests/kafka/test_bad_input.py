"""Bad input: a typed error with cause and remedy, soon; then the consumer is usable or closed."""

from __future__ import annotations

import gc
import pickle
import re
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from kafka.errors import (
    CorruptRecordError,
    IllegalStateError,
    KafkaTimeoutError,
    UnknownTopicOrPartitionError,
)

from aktor import KafkaConsumer, TopicPartition
from aktor.broker import EmbeddedKafka
from aktor.errors import (
    BootstrapError,
    BrokersUnreachableError,
    ConfigurationError,
    ConsumerClosedError,
    CorruptBatchError,
    RecordDeserializationError,
)
from tests.gate import all_but_the_first
from tests.kafka.embedded import Cluster
from tests.kafka.real import KafkaCluster, topics
from tests.kafka.support import (
    PROMPT_S,
    SOON_S,
    Child,
    aktor_threads,
    batches,
    flip_a_byte,
    numbered,
    offsets,
    poll,
    quick,
    raised_within,
    read,
    read_for,
    read_through,
    values,
    wait_until,
)

pytestmark = pytest.mark.ours("most of it is refused or ended in this process")

#: What the client finds out by itself, after several attempts, and long before a poll of 20 s ends.
TOLD_S = 10.0


@pytest.fixture
def orders(kafka: Cluster, topic: str) -> TopicPartition:
    """The only partition of a topic with ten records."""
    topics.create_topic(kafka.bootstrap_servers, topic)
    topics.produce(kafka.bootstrap_servers, topic, numbered(10))
    return TopicPartition(topic, 0)


# -- addresses


@pytest.mark.parametrize(
    ("servers", "named"),
    [
        ("no-such-host.invalid:9092", "no-such-host.invalid"),
        ("127.0.0.1:1", "127.0.0.1:1"),
        (["127.0.0.1:1", "no-such-host.invalid:9092"], "127.0.0.1:1"),
    ],
    ids=["host", "port", "both"],
)
def test_a_wrong_address_is_told_soon_and_names_it(servers: Any, named: str) -> None:
    consumer = KafkaConsumer(
        "orders", group_id="g", bootstrap_servers=servers, bootstrap_timeout_ms=0
    )
    began = time.monotonic()
    with pytest.raises(BootstrapError, match=re.escape(named)) as caught:
        consumer.poll(30_000)
    assert time.monotonic() - began < TOLD_S
    assert "bootstrap_servers" in str(caught.value)
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), BootstrapError)

    began = time.monotonic()
    consumer.close()
    assert time.monotonic() - began < PROMPT_S


@pytest.mark.parametrize("call", ["topics", "end_offsets", "committed", "position"])
def test_a_wrong_address_is_told_by_every_call_that_needs_a_broker(call: str) -> None:
    one = TopicPartition("orders", 0)
    calls: dict[str, Callable[[KafkaConsumer], Any]] = {
        "topics": lambda consumer: consumer.topics(),
        "end_offsets": lambda consumer: consumer.end_offsets([one]),
        "committed": lambda consumer: consumer.committed(one),
        "position": lambda consumer: consumer.position(one),
    }
    settings = {"bootstrap_servers": "127.0.0.1:1", "bootstrap_timeout_ms": 0}
    with KafkaConsumer(group_id="g", **settings) as consumer:
        consumer.assign([one])
        began = time.monotonic()
        with pytest.raises(BootstrapError):
            calls[call](consumer)

        assert time.monotonic() - began < TOLD_S


@pytest.mark.both("an address leads to a broker")
def test_one_good_address_among_bad_ones_is_enough(kafka: Cluster, orders: TopicPartition) -> None:
    servers = ["no-such-host.invalid:9092", "127.0.0.1:1", *kafka.bootstrap_servers]

    with quick(kafka, orders.topic, bootstrap_servers=servers) as consumer:
        found, _ = read_through(consumer, 10, BootstrapError)

        assert offsets(found) == list(range(10))


@pytest.mark.parametrize("waits", [False, True], ids=["a poll", "the constructor"])
def test_a_port_that_speaks_something_else_is_told_soon(waits: bool) -> None:
    import socket

    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            client.recv(1024)
            client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    threading.Thread(target=serve, daemon=True).start()
    address = f"127.0.0.1:{server.getsockname()[1]}"

    def polls() -> None:
        timeout_ms = 1000 if waits else 0
        settings = {"bootstrap_servers": address, "bootstrap_timeout_ms": timeout_ms}
        with KafkaConsumer("orders", **settings) as consumer:
            assert not waits
            consumer.poll(30_000)

    began = time.monotonic()
    with pytest.raises(BootstrapError, match=f"{address}: it is an HTTP server, not a Kafka"):
        polls()

    assert time.monotonic() - began < TOLD_S
    server.close()


# -- advertised addresses


def _embedded_elsewhere() -> Any:
    return EmbeddedKafka(advertised_host="no-such-host.invalid")


def _real_elsewhere() -> Any:
    return KafkaCluster(settings={"advertised.listeners": "PLAINTEXT://127.0.0.1:1"})


@pytest.mark.parametrize(
    ("make", "named"),
    [
        pytest.param(_embedded_elsewhere, "no-such-host.invalid", id="embedded"),
        pytest.param(_real_elsewhere, "127.0.0.1:1", id="real", marks=pytest.mark.real("Java")),
    ],
)
def test_advertised_addresses_that_lead_nowhere_are_told_soon_and_again(
    make: Callable[[], Any], named: str
) -> None:
    with make() as cluster:
        servers = cluster.bootstrap_servers
        port = (servers if isinstance(servers, str) else servers[0]).rpartition(":")[2]
        address = f"127.0.0.1:{port}"
        with KafkaConsumer("orders", group_id="g", bootstrap_servers=address) as consumer:

            def told() -> Exception:
                """What is told besides that the topic is unknown, which is true, too."""
                while isinstance(
                    error := raised_within(SOON_S, lambda: consumer.poll(30_000)),
                    UnknownTopicOrPartitionError,
                ):
                    pass
                return error

            began = time.monotonic()
            errors = [told() for _ in range(2)]
            assert time.monotonic() - began < 2 * TOLD_S
            assert "running, but none of the cluster's brokers" in consumer.status().state

    for error in errors:
        assert isinstance(error, BrokersUnreachableError)
        assert named in str(error)
        assert error.advertised_by == address
        assert "advertised.listeners" in str(error)


# -- settings


@pytest.mark.filterwarnings("ignore:value_deserializer does not implement")
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"bootstrap_server": "a:1"}, "bootstrap_servers"),
        ({"auto_offset_rest": "latest"}, "auto_offset_reset"),
        ({"group": "g"}, "group"),
        ({"auto_offset_reset": "earlyest"}, "earliest"),
        (
            {"group_id": "g", "heartbeat_interval_ms": 9000, "session_timeout_ms": 6000},
            "heartbeat_interval_ms",
        ),
        ({"security_protocol": "SASL_PLAINTEXT"}, "sasl_mechanism"),
        ({"security_protocol": "TLS"}, "security_protocol"),
        ({"max_poll_records": 0}, "max_poll_records"),
        ({"fetch_max_wait_ms": 50_000, "request_timeout_ms": 40_000}, "request_timeout_ms"),
        ({"value_deserializer": 5}, "value_deserializer"),
        ({"partition_assignment_strategy": ["sideways"]}, "partition_assignment_strategy"),
        ({"ssl_cafile": "/no/such/file", "security_protocol": "SSL"}, "/no/such/file"),
    ],
    ids=lambda one: "-".join(one) if isinstance(one, dict) else "",
)
def test_a_setting_that_cannot_be_is_refused_by_name_and_leaves_nothing_behind(
    settings: dict[str, Any], said: str
) -> None:
    before = aktor_threads()

    with pytest.raises(ConfigurationError, match=re.escape(said)):
        KafkaConsumer("orders", **settings)

    assert aktor_threads() <= before


# -- topics


@pytest.mark.both("brokers say so")
def test_an_unknown_topic_is_told_soon_and_works_once_it_is_there(
    kafka: Cluster, topic: str, group: str
) -> None:
    with quick(kafka, topic, group_id=group) as consumer:
        began = time.monotonic()
        with pytest.raises(UnknownTopicOrPartitionError, match=topic):
            consumer.poll(20_000)
        assert time.monotonic() - began < TOLD_S

        topics.create_topic(kafka.bootstrap_servers, topic)
        topics.produce(kafka.bootstrap_servers, topic, numbered(2))
        found, _ = read_through(consumer, 2, UnknownTopicOrPartitionError)
        assert values(found) == numbered(2)


def test_an_unknown_topic_does_not_keep_others_from_being_read(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    missing = f"{orders.topic}-missing"

    with quick(kafka, orders.topic, missing, group_id=group) as consumer:
        found, told = read_through(consumer, 10, UnknownTopicOrPartitionError)

        assert offsets(found) == list(range(10))
        assert all(missing in str(error) for error in told)


@pytest.mark.both("brokers say so")
def test_a_partition_that_does_not_exist_gives_nothing_and_its_position_is_refused_in_time(
    kafka: Cluster, orders: TopicPartition
) -> None:
    nowhere = TopicPartition(orders.topic, 99)

    with quick(kafka, default_api_timeout_ms=1500) as consumer:
        consumer.assign([nowhere, orders])
        found, told = read_through(consumer, 10, UnknownTopicOrPartitionError)
        assert offsets(found) == list(range(10))
        assert all(orders.topic in str(error) for error in told)
        with pytest.raises((KafkaTimeoutError, UnknownTopicOrPartitionError), match="99"):
            consumer.position(nowhere)


@pytest.mark.parametrize("name", ["", "has space", "a/b", ".", "x" * 250])
def test_an_impossible_topic_name_is_refused_at_once(kafka: Cluster, name: str) -> None:
    with quick(kafka) as consumer, pytest.raises(ValueError):
        consumer.subscribe([name])


def test_arguments_of_the_wrong_kind_are_refused(kafka: Cluster, orders: TopicPartition) -> None:
    with quick(kafka) as consumer:
        wrong: list[Callable[[], Any]] = [
            lambda: consumer.subscribe("a string"),
            lambda: consumer.subscribe(["a"], listener=object()),
            lambda: consumer.assign(["orders-0"]),
            lambda: consumer.poll(-1),
            lambda: consumer.poll(0, max_records=0),
            lambda: consumer.poll(0, max_records="many"),  # type: ignore[arg-type]
        ]
        for call in wrong:
            with pytest.raises((TypeError, ValueError)):
                call()
        consumer.assign([orders])
        with pytest.raises(ValueError):
            consumer.seek(orders, -1)
        with pytest.raises(TypeError):
            consumer.seek("orders", 1)
        assert len(read(consumer, 10)) == 10


# -- a cluster that is not there


@pytest.mark.parametrize("silent", [False, True], ids=["nobody listens", "nobody answers"])
def test_a_cluster_that_is_not_there_is_no_empty_topic(silent: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        if not silent:
            server.close()
        servers = f"127.0.0.1:{port}"
        with pytest.raises(BootstrapError, match=servers):
            KafkaConsumer("orders", bootstrap_servers=servers, bootstrap_timeout_ms=500)
        with KafkaConsumer(
            "orders", bootstrap_servers=servers, bootstrap_timeout_ms=0, consumer_timeout_ms=1000
        ) as consumer:
            with pytest.raises(BootstrapError, match=f"127.0.0.1:{port}"):
                list(consumer)
            with pytest.raises(BootstrapError, match=f"127.0.0.1:{port}"):
                consumer.poll(1000)


# -- records


@pytest.mark.both("brokers send it")
def test_a_corrupt_batch_is_the_same_error_again_and_again_until_a_seek_past_it(
    kafka: Cluster, topic: str
) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic)
    batches(kafka, topic, [b"good-0", b"good-1"], [b"doomed-2", b"doomed-3"], [b"good-4"])
    flip_a_byte(kafka, topic, b"doomed-3")
    partition = TopicPartition(topic, 0)

    with quick(kafka, topic) as consumer:
        assert values(read(consumer, 2)) == [b"good-0", b"good-1"]
        for _ in range(3):
            error = raised_within(SOON_S, lambda: consumer.poll(500))
            assert isinstance(error, CorruptBatchError)
            assert isinstance(error, CorruptRecordError)
            assert (error.topic, error.partition, error.offset) == (topic, 0, 2)
            assert consumer.position(partition) == 2
        again = pickle.loads(pickle.dumps(error))
        assert str(again) == str(error)

        consumer.seek(partition, 4)
        assert values(read(consumer, 1)) == [b"good-4"]


def test_a_corrupt_batch_is_read_if_nobody_checks(kafka: Cluster, topic: str) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic)
    batches(kafka, topic, [b"doomed-0"])
    flip_a_byte(kafka, topic, b"doomed-0")

    with quick(kafka, topic, check_crcs=False) as consumer:
        assert values(read(consumer, 1)) == [b"eoomed-0"]


def test_a_corrupt_partition_does_not_keep_others_from_being_read(
    kafka: Cluster, topic: str
) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic, partitions=2)
    batches(kafka, topic, [b"doomed-0"])
    flip_a_byte(kafka, topic, b"doomed-0")
    topics.produce(kafka.bootstrap_servers, topic, numbered(5), partition=1)

    with quick(kafka, topic) as consumer:
        found: list[Any] = []
        errors: list[Exception] = []
        deadline = time.monotonic() + SOON_S
        while len(found) < 5 or not errors:
            assert time.monotonic() < deadline
            try:
                found += poll(consumer)
            except CorruptBatchError as error:
                errors.append(error)
        assert values(found) == numbered(5)


def test_a_corrupt_partition_is_told_while_another_one_is_busy(kafka: Cluster, topic: str) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic, partitions=2)
    batches(kafka, topic, [b"doomed-0"])
    flip_a_byte(kafka, topic, b"doomed-0")
    topics.produce(kafka.bootstrap_servers, topic, numbered(500), partition=1)

    with quick(kafka, topic, max_poll_records=10) as consumer:
        found: list[Any] = []
        errors: list[int] = []
        deadline = time.monotonic() + SOON_S
        while len(found) < 500:
            assert time.monotonic() < deadline
            try:
                found += poll(consumer)
            except CorruptBatchError:
                errors.append(len(found))
        assert values(found) == numbered(500)
        assert len([had for had in errors if had < 490]) >= 5


def refuse_five(data: bytes | None) -> Any:
    if data == b"v5":
        raise ZeroDivisionError("five")
    return data


@pytest.mark.filterwarnings("ignore:value_deserializer does not implement")
def test_a_record_that_the_deserializer_refuses_is_told_with_its_bytes_until_a_seek_past_it(
    kafka: Cluster, orders: TopicPartition
) -> None:
    with quick(kafka, orders.topic, value_deserializer=refuse_five) as consumer:
        assert offsets(read(consumer, 5)) == [0, 1, 2, 3, 4]
        for _ in range(3):
            error = raised_within(SOON_S, lambda: consumer.poll(500))
            assert isinstance(error, RecordDeserializationError)
            assert (error.partition, error.offset, error.value) == (0, 5, b"v5")
            assert isinstance(error.__cause__, ZeroDivisionError)
            assert consumer.position(orders) == 5

        consumer.seek(orders, 6)
        assert offsets(read(consumer, 4)) == [6, 7, 8, 9]


@pytest.mark.filterwarnings("ignore:value_deserializer does not implement")
def test_an_iteration_meets_the_refused_record_after_all_good_ones(
    kafka: Cluster, orders: TopicPartition
) -> None:
    with quick(kafka, orders.topic, value_deserializer=refuse_five) as consumer:
        found: list[int] = []
        with pytest.raises(RecordDeserializationError):
            found.extend(record.offset for record in consumer)
        assert found == [0, 1, 2, 3, 4]
        assert consumer.position(orders) == 5


def refuse_each_tenth(value: bytes) -> bytes:
    """A value_deserializer."""
    return b"%d" % (1 // (int(value[1:]) % 10))


def fetches(consumer: KafkaConsumer) -> float:
    return float(consumer.metrics()["consumer-fetch-manager-metrics"]["fetch-total"])


@pytest.mark.filterwarnings("ignore:value_deserializer does not implement")
@pytest.mark.parametrize("way", ["poll", "iterate", "process"])
def test_refused_records_that_are_passed_cost_no_fetch(
    kafka: Cluster, topic: str, way: str
) -> None:
    """Each seek dropped what was fetched: 200 of 2,000 records cost some 300 Fetches."""
    topics.create_topic(kafka.bootstrap_servers, topic)
    batches(kafka, topic, *[numbered(100, start) for start in range(0, 2000, 100)])
    partition = TopicPartition(topic, 0)
    good = refused = 0
    with quick(
        kafka, value_deserializer=refuse_each_tenth, consumer_timeout_ms=1000, group_id=None
    ) as consumer:
        consumer.assign([partition])
        if way == "process":
            done = consumer.process(lambda _record: None, on_error="skip")
            good, refused = done.finished, done.skipped
        while consumer.position(partition) < 2000:
            try:
                if way == "poll":
                    good += len(poll(consumer, 500, max_records=7))
                else:
                    for _ in consumer:
                        good += 1
            except RecordDeserializationError as error:
                refused += 1
                consumer.seek(partition, error.offset + 1)

        assert (good, refused) == (1800, 200)
        assert fetches(consumer) < 50


# -- threads, processes, interrupts


def test_another_thread_may_use_the_consumer_when_the_first_is_done(
    kafka: Cluster, orders: TopicPartition
) -> None:
    with quick(kafka, orders.topic) as consumer:
        first = read(consumer, 4, max_records=4)
        rest: list[Any] = []
        other = threading.Thread(target=lambda: rest.extend(read(consumer, 6)))
        other.start()
        other.join()

        assert offsets(first + rest) == list(range(10))


def test_a_closed_consumer_refuses_everything_and_closes_again_without_a_word(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    consumer = quick(kafka, orders.topic, group_id=group)
    read(consumer, 10)
    consumer.close()
    consumer.close()

    calls: list[Callable[[], Any]] = [
        consumer.poll,
        consumer.commit,
        consumer.commit_async,
        consumer.topics,
        lambda: consumer.position(orders),
        lambda: consumer.seek(orders, 0),
        lambda: consumer.subscribe(["a"]),
        lambda: consumer.end_offsets([orders]),
    ]
    for call in calls:
        began = time.monotonic()
        with pytest.raises(ConsumerClosedError):
            call()
        assert time.monotonic() - began < PROMPT_S
    assert list(consumer) == []
    assert (consumer.assignment(), consumer.paused()) == (set(), set())
    assert consumer.status().state == "closed"


def test_a_closed_consumer_leaves_no_thread(kafka: Cluster, orders: TopicPartition) -> None:
    before = aktor_threads()

    with quick(kafka, orders.topic) as consumer:
        read(consumer, 10)
        assert len(aktor_threads() - before) == 1

    assert aktor_threads() <= before


def test_a_consumer_that_is_dropped_without_close_leaves_no_thread(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    before = aktor_threads()
    consumer = quick(kafka, orders.topic, group_id=group)
    read(consumer, 10)

    del consumer
    gc.collect()

    wait_until(lambda: aktor_threads() <= before, "its thread ends")


def test_a_program_that_forgets_to_close_ends_all_the_same(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    program = (
        "consumer = KafkaConsumer(topic, bootstrap_servers=servers, group_id=group, **QUICK)\n"
        "while not poll(consumer): pass\n"
        "say('done')\n"
    )
    with Child(kafka, orders.topic, group, program) as child:
        assert child.hear() == "done"
        code, errors = child.end()

    assert (code, errors) == (0, "")


#: What closes the consumer `made[0]`, late in a program, and is set up before it is made; how often
#: the program polls in between, at least.
LATE = {
    "a function of atexit": ("atexit.register(close)", 1),
    "a thread that is no daemon": ("threading.Thread(target=close_at_the_end).start()", 1),
    "a function of atexit, and nothing was polled": ("atexit.register(close)", 0),
    "a stack of contexts": ("atexit.register(contextlib.ExitStack().push(close))", 1),
    "a function of atexit that polls first": ("atexit.register(read_more)", 1),
}


@pytest.mark.parametrize("how", all_but_the_first(2, LATE))
def test_a_consumer_is_closed_late_in_a_program_as_at_any_other_time(
    kafka: Cluster, orders: TopicPartition, group: str, how: str
) -> None:
    """Functions of `atexit` that were registered before the consumer was made run after those that
    were registered later."""
    begins, polls = LATE[how]
    program = (
        "import atexit, contextlib, threading\n"
        "made = []\n"
        "def close(*_):\n"
        "    began = time.monotonic()\n"
        "    made[0].close()\n"
        "    say(time.monotonic() - began)\n"
        "def read_more():\n"
        "    made[0].poll(100)\n"
        "    made[0].committed(TopicPartition(topic, 0))\n"
        "    close()\n"
        "def close_at_the_end():\n"
        "    threading.main_thread().join()\n"
        "    close()\n"
        f"{begins}\n"
        "settings = {**QUICK, 'enable_auto_commit': True}\n"
        "made.append(KafkaConsumer(topic, bootstrap_servers=servers, group_id=group, **settings))\n"
        f"while {polls} and not poll(made[0]): pass\n"
        "say('done')\n"
    )
    with Child(kafka, orders.topic, group, program) as child:
        assert child.hear() == "done"
        assert child.hear() < PROMPT_S
        code, errors = child.end()

    assert (code, errors) == (0, "")
    with quick(kafka, group_id=group) as reader:
        assert (reader.committed(orders) or 0) > 0 or not polls


def test_a_program_whose_last_call_comes_late_and_closes_nothing_ends_all_the_same(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    """The background thread rests again after the call, so that the interpreter does not take it
    away in the middle of a line: it aborts if that line writes to a log."""
    program = (
        "import atexit, logging\n"
        "logging.basicConfig(filename=os.devnull, level=logging.DEBUG)\n"
        "made = []\n"
        "def read_more():\n"
        "    made[0].poll(100)\n"
        "    say(made[0]._dispatcher._thread.rests)\n"
        "atexit.register(read_more)\n"
        "made.append(KafkaConsumer(topic, bootstrap_servers=servers, group_id=group, **QUICK))\n"
        "while not poll(made[0]): pass\n"
        "say('done')\n"
    )
    with Child(kafka, orders.topic, group, program) as child:
        assert child.hear() == "done"
        assert child.hear() is True
        code, errors = child.end()

    assert (code, errors) == (0, "")


@pytest.mark.parametrize("calls_first", [True, False])
def test_after_the_interpreter_has_taken_the_thread_away_a_consumer_can_only_be_closed(
    kafka: Cluster, orders: TopicPartition, group: str, calls_first: bool
) -> None:
    """In `__del__` of an object that a module keeps. Any other call says so at once."""
    program = (
        "class Owner:\n"
        "    def __del__(self):\n"
        "        calls = [lambda: consumer.poll(60_000), consumer.commit] if first else []\n"
        "        for call in (*calls, consumer.close, consumer.close):\n"
        "            began = time.monotonic()\n"
        "            try:\n"
        "                call()\n"
        "                what = ''\n"
        "            except Exception as error:\n"
        "                what = type(error).__name__ + ': ' + str(error)\n"
        "            say([what, time.monotonic() - began])\n"
        "        say(consumer.status().state)\n"
        f"first = {calls_first}\n"
        "owner = Owner()\n"
        "settings = {**QUICK, 'enable_auto_commit': True}\n"
        "consumer = KafkaConsumer(topic, bootstrap_servers=servers, group_id=group, **settings)\n"
        "while not poll(consumer): pass\n"
        "say('done')\n"
    )
    with Child(kafka, orders.topic, group, program) as child:
        assert child.hear() == "done"
        refused = [child.hear() for _ in range(2 * calls_first)]
        closed, again, state = child.hear(), child.hear(), child.hear()
        code, errors = child.end()

    assert (code, errors) == (0, "")
    for what, _ in refused:
        assert "BackgroundThreadError" in what
        assert "the interpreter shuts down" in what
    assert (closed[0], again[0], state) == ("", "", "closed")
    assert max(seconds for _, seconds in (*refused, closed, again)) < PROMPT_S
    with quick(kafka, orders.topic, group_id=group) as reader:
        began = time.monotonic()
        # Its member has left: nobody waits for its session.
        while not reader.assignment() and time.monotonic() < began + PROMPT_S:
            reader.poll(100)
        assert reader.assignment() == {orders}
        assert (reader.committed(orders) or 0) > 0


def test_a_forked_child_may_not_use_the_consumer_and_does_its_parent_no_harm(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    program = (
        "consumer = KafkaConsumer(topic, bootstrap_servers=servers, group_id=group, **QUICK)\n"
        "while not poll(consumer): pass\n"
        "before = consumer.group_metadata()\n"
        "def attempt(call):\n"
        "    began = time.monotonic()\n"
        "    try:\n"
        "        call()\n"
        "        what = 'returned'\n"
        "    except BaseException as error:\n"
        "        what = type(error).__name__\n"
        "    return [what, time.monotonic() - began]\n"
        "if os.fork() == 0:\n"
        "    say([attempt(call) for call in (lambda: consumer.poll(5000), consumer.commit,\n"
        "        consumer.assignment, lambda: next(consumer), consumer.close, consumer.status)])\n"
        "    del consumer\n"
        "    sys.exit(0)\n"
        "os.wait()\n"
        "for _ in range(20): consumer.poll(100)\n"
        "consumer.commit()\n"
        "after = consumer.group_metadata()\n"
        "say([before.generation_id, before.member_id] == [after.generation_id, after.member_id])\n"
        "consumer.close()\n"
        "say('closed')\n"
    )
    with Child(kafka, orders.topic, group, program) as child:
        attempts = child.hear()
        assert [what for what, _ in attempts[:4]] == ["ConsumerForkedError"] * 4
        assert [what for what, _ in attempts[4:]] == ["returned"] * 2
        assert max(seconds for _, seconds in attempts) < PROMPT_S
        assert child.hear() is True
        assert child.hear() == "closed"
        code, errors = child.end()

    assert (code, errors) == (0, "")


def test_a_forked_child_makes_a_consumer_of_its_own(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    program = (
        "consumer = KafkaConsumer(topic, bootstrap_servers=servers, **QUICK)\n"
        "while not poll(consumer): pass\n"
        "if os.fork() == 0:\n"
        "    own = KafkaConsumer(topic, bootstrap_servers=servers, **QUICK)\n"
        "    while not poll(own): pass\n"
        "    own.close()\n"
        "    say('read')\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "consumer.close()\n"
    )
    with Child(kafka, orders.topic, group, program) as child:
        assert child.hear() == "read"
        assert child.end() == (0, "")


def test_an_interrupt_ends_a_long_poll_at_once_and_the_consumer_closes_cleanly(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    program = (
        "consumer = KafkaConsumer(topic, bootstrap_servers=servers, group_id=group, **QUICK)\n"
        "found = []\n"
        "while len(found) < 10: found += poll(consumer)\n"
        "try:\n"
        "    say('waiting')\n"
        "    consumer.poll(60000)\n"
        "except KeyboardInterrupt:\n"
        "    say('interrupted')\n"
        "consumer.commit()\n"
        "consumer.close()\n"
        "say('closed')\n"
    )
    with Child(kafka, orders.topic, group, program) as child:
        assert child.hear() == "waiting"
        time.sleep(0.3)
        began = time.monotonic()
        child.process.send_signal(signal.SIGINT)
        assert child.hear() == "interrupted"
        assert time.monotonic() - began < PROMPT_S
        assert child.hear() == "closed"
        assert time.monotonic() - began < PROMPT_S
        assert child.end() == (0, "")

    with quick(kafka, orders.topic, group_id=group) as successor:
        assert successor.committed(orders) == 10
        began = time.monotonic()
        while not successor.assignment():
            successor.poll(20)
        assert time.monotonic() - began < PROMPT_S


def test_an_interrupt_of_an_iteration_in_a_with_block_ends_the_program_promptly(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    program = (
        "settings = {'bootstrap_servers': servers, 'group_id': group, **QUICK}\n"
        "with KafkaConsumer(topic, **settings) as consumer:\n"
        "    for record in consumer:\n"
        "        if record.offset == 9: say('waiting')\n"
    )
    with Child(kafka, orders.topic, group, program) as child:
        assert child.hear() == "waiting"
        time.sleep(0.2)
        began = time.monotonic()
        child.process.send_signal(signal.SIGINT)
        code, errors = child.end()

        assert time.monotonic() - began < PROMPT_S
        assert code in (-signal.SIGINT, 130, 1)
        assert "KeyboardInterrupt" in errors


def test_a_call_that_belongs_to_groups_is_refused_without_one(
    kafka: Cluster, orders: TopicPartition
) -> None:
    with quick(kafka) as consumer:
        consumer.assign([orders])
        calls: list[Callable[[], Any]] = [consumer.commit, lambda: consumer.committed(orders)]
        for call in calls:
            with pytest.raises(IllegalStateError, match="group_id"):
                call()
        assert len(read(consumer, 10)) == 10
        assert read_for(consumer, 0.1) == []
