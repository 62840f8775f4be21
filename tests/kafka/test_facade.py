"""Drop-in: programs written for kafka-python's consumer do the same with ours.

Each program below is run twice, once with either class, on a topic and a group of its own, and what
it observed must be equal.
"""

from __future__ import annotations

import collections
import inspect
import itertools
import json
import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import kafka as kafka_python
import pytest
from kafka.errors import KafkaError, KafkaTimeoutError
from kafka.structs import OffsetAndMetadata, TopicPartition

import aktor
from tests.kafka.embedded import Cluster
from tests.kafka.real import topics
from tests.kafka.support import SOON_S, numbered

Program = Callable[[Any, dict[str, Any], str], Any]

START_MS = 1_700_000_000_000

#: kafka-python 3.0.12 never takes up an assignment that comes while one poll ends and the next one
#: begins: so no poll ends but with records.
PATIENT_MS = 10_000


def iterating_until_the_timeout(make: Any, common: dict[str, Any], topic: str) -> Any:
    """The first example of every tutorial."""
    consumer = make(topic, consumer_timeout_ms=5000, **common)  # also until the first record
    seen = collections.defaultdict(list)
    for message in consumer:
        seen[message.partition].append((message.offset, message.key, message.value))
    consumer.close()
    return dict(seen)


def iterating_and_committing_every_tenth(make: Any, common: dict[str, Any], topic: str) -> Any:
    """Commits inside a for loop, then a second consumer that goes on there."""
    seen: list[list[tuple[int, int]]] = []
    for limit in (20, 40):
        consumer = make(topic, **common)
        seen.append([])
        for count, message in enumerate(consumer, 1):
            seen[-1].append((message.partition, message.offset))
            if count % 10 == 0:
                consumer.commit()
            if count == limit:
                break
        consumer.close()
    return len(seen[0]), len(seen[1]), sorted(seen[0] + seen[1])


def polling_with_offsets_of_its_own(make: Any, common: dict[str, Any], topic: str) -> Any:
    """A poll loop that commits each partition by hand, with metadata."""
    consumer = make(**common)
    consumer.subscribe([topic])
    seen: dict[int, list[Any]] = {}
    while sum(map(len, seen.values())) < 60:
        for partition, messages in consumer.poll(timeout_ms=PATIENT_MS, max_records=7).items():
            seen.setdefault(partition.partition, []).extend(m.value for m in messages)
            last = messages[-1]
            consumer.commit({partition: OffsetAndMetadata(last.offset + 1, "mine", -1)})
    result = {
        p: (
            consumer.committed(TopicPartition(topic, p)),
            consumer.position(TopicPartition(topic, p)),
        )
        for p in range(3)
    }
    metadata = consumer.committed(TopicPartition(topic, 0), metadata=True)
    consumer.close()
    return seen, result, metadata.offset, metadata.metadata


def seeking_by_time(make: Any, common: dict[str, Any], topic: str) -> Any:
    """Reads what came since a moment, on partitions assigned by hand."""
    consumer = make(**common)
    partitions = [TopicPartition(topic, p) for p in sorted(consumer.partitions_for_topic(topic))]
    consumer.assign(partitions)
    found = consumer.offsets_for_times(dict.fromkeys(partitions, START_MS + 15))
    ends = consumer.end_offsets(partitions)
    for partition in partitions:
        where = found[partition]
        consumer.seek(partition, where.offset if where else ends[partition])
    seen = []
    while any(consumer.position(one) < ends[one] for one in partitions):
        for messages in consumer.poll(PATIENT_MS).values():
            seen += [(m.partition, m.offset, m.timestamp) for m in messages]
    highwater = [consumer.highwater(one) for one in partitions]
    consumer.close()
    return found, ends, sorted(seen), highwater


def listening(make: Any, common: dict[str, Any], topic: str) -> Any:
    """A listener that keeps offsets in its own store, as exactly-once programs do."""
    store = dict.fromkeys(range(3), 5)
    told: list[tuple[str, list[int]]] = []

    class Listener(kafka_python.ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: Any) -> None:
            told.append(("revoked", sorted(p.partition for p in revoked)))

        def on_partitions_assigned(self, assigned: Any) -> None:
            told.append(("assigned", sorted(p.partition for p in assigned)))
            for partition in assigned:
                consumer.seek(partition, store[partition.partition])

    consumer = make(**common)
    consumer.subscribe([topic], listener=Listener())
    seen: list[tuple[int, int]] = []
    while len(seen) < 45:
        for messages in consumer.poll(PATIENT_MS).values():
            for message in messages:
                seen.append((message.partition, message.offset))
                store[message.partition] = message.offset + 1
    consumer.close()
    return [step for step in told if step[1]], sorted(seen), store


def pausing_one_partition(make: Any, common: dict[str, Any], topic: str) -> Any:
    """Back-pressure by hand."""
    consumer = make(**common)
    partitions = [TopicPartition(topic, p) for p in range(3)]
    consumer.assign(partitions)
    consumer.pause(partitions[1])
    seen: collections.Counter[int] = collections.Counter()
    while seen.total() < 40:
        for partition, messages in consumer.poll(PATIENT_MS).items():
            seen[partition.partition] += len(messages)
    first, paused = dict(sorted(seen.items())), consumer.paused()
    consumer.resume(partitions[1])
    while seen.total() < 60:
        for partition, messages in consumer.poll(PATIENT_MS).items():
            seen[partition.partition] += len(messages)
    consumer.close()
    return first, paused, dict(sorted(seen.items()))


def deserializing(make: Any, common: dict[str, Any], topic: str) -> Any:
    """A function as deserializer, as most programs still have it."""
    consumer = make(
        topic,
        value_deserializer=lambda data: json.dumps(data.decode()),
        key_deserializer=lambda data: data and data.decode().upper(),
        **common,
    )
    seen = sorted((m.partition, m.offset, m.key, m.value) for m in itertools.islice(consumer, 60))
    consumer.close()
    return seen


def committing_asynchronously(make: Any, common: dict[str, Any], topic: str) -> Any:
    """Asynchronous commits with a callback, and a last one that is waited for."""
    calls: list[Any] = []
    consumer = make(topic, **common)
    count = 0
    while count < 60:
        for messages in consumer.poll(PATIENT_MS).values():
            count += len(messages)
        if count:
            consumer.commit_async(callback=lambda offsets, answer: calls.append((offsets, answer)))
    consumer.commit()
    deadline = time.monotonic() + SOON_S
    while not calls and time.monotonic() < deadline:
        consumer.poll(50)
    kinds = {
        (type(partition).__name__, type(offset).__name__)
        for offsets, _ in calls
        for partition, offset in offsets.items()
    }
    committed = [consumer.committed(TopicPartition(topic, p)) for p in range(3)]
    consumer.close()
    return kinds, any(isinstance(answer, Exception) for _, answer in calls), committed


def asking_about_the_cluster(make: Any, common: dict[str, Any], topic: str) -> Any:
    """Everything one can ask without reading."""
    consumer = make(**common)
    partitions = [TopicPartition(topic, p) for p in range(3)]
    before = (consumer.subscription(), consumer.assignment(), consumer.paused())
    answers = (
        topic in consumer.topics(),
        consumer.partitions_for_topic(topic),
        consumer.beginning_offsets(partitions),
        consumer.end_offsets(partitions),
        consumer.committed(partitions[0]),
    )
    consumer.subscribe([topic])
    after = consumer.subscription()
    consumer.unsubscribe()
    end = (consumer.subscription(), consumer.assignment())
    consumer.close()
    return before, answers, after, end


def making_mistakes(make: Any, common: dict[str, Any], topic: str) -> Any:
    """Which family of exceptions each mistake ends in."""
    consumer = make(**{**common, "group_id": None})
    partition = TopicPartition(topic, 0)
    mistakes: dict[str, Callable[[], Any]] = {
        "seek unassigned": lambda: consumer.seek(partition, 1),
        "position unassigned": lambda: consumer.position(partition),
        "subscribe to text": lambda: consumer.subscribe(topic),
        "subscribe to nothing": lambda: consumer.subscribe([]),
        "poll negative": lambda: consumer.poll(-1),
        "max_records 0": lambda: consumer.poll(0, max_records=0),
        "negative time": lambda: consumer.offsets_for_times({partition: -1}),
        "seek to end of nothing": consumer.seek_to_end,
        "not a partition": lambda: consumer.seek("x", 1),
        "unknown setting": lambda: make(no_such_setting=1),
    }
    outcomes = {}
    for name, act in mistakes.items():
        try:
            act()
            outcomes[name] = "nothing"
        except KafkaError:
            outcomes[name] = "KafkaError"
        except (ValueError, TypeError, AssertionError, KeyError) as error:
            outcomes[name] = type(error).__name__
    consumer.close()
    return outcomes


def waiting_for_kafka(make: Any, common: dict[str, Any], topic: str) -> Any:
    """As in a container that is started beside its Kafka: the loop stands round the constructor."""
    servers = ["127.0.0.1:1", "127.0.0.1:1", common["bootstrap_servers"]]
    met = []
    for server in servers:
        try:
            consumer = make(
                topic, **common | {"bootstrap_servers": server}, bootstrap_timeout_ms=3000
            )
        except KafkaTimeoutError as error:
            met.append(error.retriable)
            continue
        met.append(bool(consumer.poll(PATIENT_MS)))
        consumer.close()
    return met


def reading_values_that_are_no_json(make: Any, common: dict[str, Any], topic: str) -> Any:
    """What a deserializer raises is caught as it was raised, and it says what it said."""
    kinds: list[tuple[type[Exception], Callable[[bytes], Any]]] = [
        (json.JSONDecodeError, lambda data: json.loads(data[:1] + b"{")),
        (ValueError, lambda data: int(data + b"?")),
        (UnicodeDecodeError, lambda data: (b"\xff" + data).decode()),
        (KeyError, lambda data: {}[data]),
    ]
    met = []
    for kind, deserialize in kinds:
        consumer = make(value_deserializer=deserialize, **common)
        consumer.assign([TopicPartition(topic, 0)])
        try:
            while not consumer.poll(PATIENT_MS):
                pass
        except kind as error:
            met.append(
                [getattr(error, name, None) for name in ("pos", "lineno", "start", "object")]
            )
        consumer.close()
    return met


def taking_settings_from_an_environment(make: Any, common: dict[str, Any], topic: str) -> Any:
    """Most of the variables are not set."""
    variables: dict[str, str] = {}
    servers = common["bootstrap_servers"]
    settings = common | {
        "bootstrap_servers": servers if isinstance(servers, str) else ",".join(servers),
        "enable_auto_commit": 0,
        "group_instance_id": variables.get("INSTANCE"),
        "sasl_mechanism": variables.get("MECHANISM", ""),
        "sasl_plain_password": variables.get("PASSWORD", ""),
        "sasl_plain_username": variables.get("USER", ""),
        "ssl_cafile": variables.get("CA", ""),
    }
    consumer = make(topic, consumer_timeout_ms=5000, **settings)
    count = sum(1 for _ in itertools.islice(consumer, 60))
    consumer.close()
    return count


PROGRAMS: list[Program] = [
    iterating_until_the_timeout,
    iterating_and_committing_every_tenth,
    polling_with_offsets_of_its_own,
    seeking_by_time,
    listening,
    pausing_one_partition,
    deserializing,
    committing_asynchronously,
    asking_about_the_cluster,
    making_mistakes,
    reading_values_that_are_no_json,
    taking_settings_from_an_environment,
    waiting_for_kafka,
]


@pytest.fixture(scope="module")
def sixty(kafka: Cluster) -> str:
    """A topic of three partitions with twenty records each, a millisecond apart."""
    name = f"drop-in-{time.time_ns()}"
    topics.create_topic(kafka.bootstrap_servers, name, partitions=3)
    with topics.producer(kafka.bootstrap_servers) as producer:
        for number, value in enumerate(numbered(60)):
            producer.send(
                name,
                value=value,
                key=b"key" if number % 2 else None,
                partition=number % 3,
                timestamp_ms=START_MS + number // 3,
            )
    return name


@pytest.mark.once("two libraries, one after the other, take half a minute")
@pytest.mark.filterwarnings("ignore:.*does not implement kafka.serializer.Deserializer")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_observes_the_same_with_either_library(
    kafka: Cluster, sixty: str, unique: Callable[[str], str], program: Program
) -> None:
    observed = []
    for make in (kafka_python.KafkaConsumer, aktor.KafkaConsumer):
        common = {
            "bootstrap_servers": kafka.bootstrap_servers,
            "group_id": unique("group"),
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
        }
        observed.append(program(make, common, sixty))

    assert observed[1] == observed[0]


def test_we_have_every_public_method_and_setting_that_is_promised() -> None:
    promised = [
        "subscribe",
        "unsubscribe",
        "assign",
        "assignment",
        "subscription",
        "poll",
        "commit",
        "commit_async",
        "committed",
        "position",
        "seek",
        "seek_to_beginning",
        "seek_to_end",
        "pause",
        "resume",
        "paused",
        "beginning_offsets",
        "end_offsets",
        "offsets_for_times",
        "partitions_for_topic",
        "topics",
        "highwater",
        "group_metadata",
        "metrics",
        "bootstrap",
        "close",
    ]

    for name in promised:
        ours = inspect.signature(getattr(aktor.KafkaConsumer, name)).parameters
        theirs = inspect.signature(getattr(kafka_python.KafkaConsumer, name)).parameters
        assert list(theirs) == list(ours)[: len(theirs)], name
        for parameter in theirs:
            assert ours[parameter].default == theirs[parameter].default, f"{name}({parameter})"
    ours_, theirs_ = aktor.KafkaConsumer.DEFAULT_CONFIG, kafka_python.KafkaConsumer.DEFAULT_CONFIG
    assert theirs_.keys() - ours_.keys() == set()


def test_metrics_count_what_was_read(kafka: Cluster, sixty: str) -> None:
    with aktor.KafkaConsumer(
        sixty, bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        count = 0
        while count < 60:
            count += sum(map(len, consumer.poll(PATIENT_MS).values()))
        found = consumer.metrics()

        numbers = {
            f"{group}.{name}": value for group, of in found.items() for name, value in of.items()
        }
        assert any("records-consumed-total" in k and v == 60 for k, v in numbers.items()), numbers
        assert consumer.metrics(raw=True)


def test_the_status_reads_well_and_is_true(kafka: Cluster, sixty: str, group: str) -> None:
    with aktor.KafkaConsumer(
        sixty,
        group_id=group,
        bootstrap_servers=kafka.bootstrap_servers,
        auto_offset_reset="earliest",
        max_poll_records=10,
    ) as consumer:
        while not consumer.poll(PATIENT_MS):
            pass
        deadline = time.monotonic() + SOON_S
        while (status := consumer.status()).lag is None:
            assert time.monotonic() < deadline, status
            consumer.pause(*consumer.assignment())
            consumer.poll(50)
        text = str(status)

        assert status.state == "running"
        assert status.member_state == "stable"
        assert status.lag == 60 - sum(p.position or 0 for p in status.partitions.values())
        assert {actor.incarnation for actor in status.actors} == {1}
        for part in (group, sixty, "running", "lag", "actor membership: incarnation 1"):
            assert part in text


def test_at_info_the_log_has_a_line_for_a_start_an_end_and_each_rebalance(
    kafka: Cluster, sixty: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Commits, connections and polls have none."""
    caplog.set_level(logging.INFO)
    settings = {
        "bootstrap_servers": kafka.bootstrap_servers,
        "group_id": group,
        "auto_offset_reset": "earliest",
        "auto_commit_interval_ms": 100,
        "heartbeat_interval_ms": 100,
    }
    with aktor.KafkaConsumer(sixty, client_id="one", **settings) as one:
        while not one.poll(PATIENT_MS):
            pass
        with aktor.KafkaConsumer(sixty, client_id="two", **settings) as two:
            deadline = time.monotonic() + SOON_S
            # Both have heard of it: while "one" has yet to, it owns all of them, or none.
            while sorted(len(each.assignment()) for each in (one, two)) != [1, 2]:
                assert time.monotonic() < deadline
                one.poll(50)
                two.poll(50)
            one.commit()

    ours = [record for record in caplog.records if record.name == "aktor"]
    told = Counter((record.aktor["consumer"], record.aktor["event"]) for record in ours)
    rebalances = {name: told.pop((name, "rebalance.completed")) for name in ("one", "two")}
    assert told == {
        (name, event): 1
        for name in ("one", "two")
        for event in ("consumer.started", "consumer.closed")
    }
    assert 2 <= rebalances["one"] <= 4
    assert 1 <= rebalances["two"] <= 3
    assert [record.getMessage() for record in caplog.records if record.name != "aktor"] == []
